"""Exercises of lab 06: where does the reuse live?"""

import math

import numpy as np

from ..ops import gemm
from ..units import itemsize as bytes_of
from ..work import Work
from . import Exercise
from .sources import Cuda

SIDE = 384                                         # of the matrices of 06.4
LEVELS = ("memory", "shared memory", "arithmetic")
PASSES = ("2", "3", "4", "8")
LIMITS = {"a": "shared memory", "b": "memory", "c": "arithmetic"}
READS = {"kernels": "8", "fits": "2", "long": "4"}
TILE = 16                                          # of 06.5 in CUDA C++: 16 x 16 threads a block

BY_COLUMN = """
extern "C" __global__ void linear(const float *x, const float *w, float *out, int m, int n, int k) {
    __shared__ float mine[16][16], weights[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float total = 0;
    for (int p = 0; p < k; p += 16) {
        mine[threadIdx.y][threadIdx.x] = row < m && p + threadIdx.x < k ? x[row * k + p + threadIdx.x] : 0;
        weights[threadIdx.y][threadIdx.x] = column < n && p + threadIdx.y < k ? w[column * k + p + threadIdx.y] : 0;
        __syncthreads();
        for (int i = 0; i < 16; i++) total += mine[threadIdx.y][i] * weights[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n) out[row * n + column] = total;
}
"""


def _loads(m, n, k, tile, itemsize, up=math.ceil, ends=None, stored=None):
    """Bytes loaded and stored, and the AI; up: another rounding, ends: the sizes that the tiles are cut from."""
    high, wide, deep = ends or (m, n, k)
    loaded = itemsize * (high * deep * up(n / tile) + deep * wide * up(m / tile))
    stored = itemsize * m * n if stored is None else stored
    return loaded, stored, 2 * m * n * k / (loaded + stored)


def _padded(m, n, k, tile):
    return tuple(math.ceil(size / tile) * tile for size in (m, n, k))


def _room(capacity, itemsize, rate, tile=None, bandwidth=None):
    """The side of the tile that fits, its AI, the bandwidth that keeps `rate` busy; tile, bandwidth: other ones."""
    tile = int((capacity / (3 * itemsize)) ** 0.5) if tile is None else int(tile)
    return tile, tile / itemsize, bandwidth(tile) if bandwidth else rate * itemsize / tile


def _halved(side, intensity, bandwidth):
    return side, intensity / 2, 2 * bandwidth


def _works(count=lambda tile: 2 * SIDE**3 / tile + SIDE**2, itemsize=4):
    """The Works of 06.4; count: other elements than those of the tiles and of the result."""
    return tuple(Work(2 * SIDE**3, itemsize * count(tile)) for tile in (8, 32))


def _layer(rng, least=1, most=70):
    """x, w and an output that nothing has been written to, of odd sizes."""
    m, n, k = (int(size) for size in rng.integers(least, most, 3))
    return {"x": rng.standard_normal((m, k)), "w": rng.standard_normal((n, k)), "out": np.full((m, n), np.nan)}


def _large(rng):
    m, n, k = 768, 640, 1024
    return {"x": rng.standard_normal((m, k)), "w": rng.standard_normal((n, k)), "out": np.full((m, n), np.nan)}


def _launch(x, w, out):
    grid = -(-w.shape[0] // TILE), -(-x.shape[0] // TILE)
    return grid, (TILE, TILE), (x, w, out, np.int32(len(x)), np.int32(len(w)), np.int32(x.shape[1]))


def _limits(**changed):
    return tuple((LIMITS | READS | changed).values())


EXERCISES = {
    "06.1": Exercise(
        kind="derive", points=2, names=("bytes loaded", "bytes stored", "AI"),
        ask="traffic(m, n, k, tile, itemsize): bytes that a tiled product loads and stores at any size, and its AI",
        inputs={"m": (20, 3000), "n": (20, 3000), "k": (20, 3000), "tile": [7, 16, 32, 50, 128],
                "itemsize": [2, 4, 8]},
        reference=lambda m, n, k, tile, itemsize: _loads(m, n, k, tile, itemsize),
        alternatives=(
            lambda m, n, k, t, b: (b * k * (m * ((n + t - 1) // t) + n * ((m + t - 1) // t)), b * m * n,
                                   2 * m * n * k / (b * k * (m * -(-n // t) + n * -(-m // t)) + b * m * n)),
            lambda m, n, k, t, b: list(_loads(m, n, k, t, b))),
        slips={
            "multiples only": (lambda m, n, k, tile, itemsize: _loads(m, n, k, tile, itemsize, up=float),
                "2mnk/t holds where the tile divides m and n. Otherwise a part of a tile still takes whole rows."),
            "rounded down": (lambda m, n, k, tile, itemsize: _loads(m, n, k, tile, itemsize, up=math.floor),
                "Rounded down: a last row of tiles that is not full loads its numbers, too. Round up."),
            "padding loaded": (lambda m, n, k, tile, itemsize: _loads(
                    m, n, k, tile, itemsize, ends=_padded(m, n, k, tile)),
                "That loads full tiles. Beyond the edges the kernel puts zeros and loads nothing."),
            "padding of C loaded": (lambda m, n, k, tile, itemsize: _loads(
                    m, n, k, tile, itemsize, ends=(*_padded(m, n, k, tile)[:2], k)),
                ("That loads 2 * tile * k numbers for each tile of C. Where it stands out beyond an edge, fewer: the "
                 "rows of A and the columns of B that lie inside.")),
            "rows and columns swapped": (lambda m, n, k, tile, itemsize: _loads(
                    n, m, k, tile, itemsize, ends=(m, n, k)),
                "A is loaded once for each column of tiles, n / tile of them, and B once for each row, m / tile."),
            "tile by tile of k": (lambda m, n, k, tile, itemsize: _loads(
                    m, n, k, tile, itemsize, stored=itemsize * m * n * math.ceil(k / tile)),
                "The sums wait in registers: C is stored once, not after each step."),
            "nothing stored": (lambda m, n, k, tile, itemsize: _loads(m, n, k, tile, itemsize, stored=0),
                "C has to be stored, each number once."),
            "no tile": (lambda m, n, k, tile, itemsize: _loads(m, n, k, 1, itemsize),
                "That is the naive program's: with a tile, each number that is loaded is used tile times."),
            "numbers, not bytes": (lambda m, n, k, tile, itemsize: _loads(m, n, k, tile, 1),
                "Those are numbers; each of them has itemsize bytes."),
        },
        hints=("How many tiles lie side by side in C, and how many one below the other, if the last ones are cut?",
               "Each row of tiles of C goes through all of B, each column of tiles through all of A.",
               ("itemsize * (m*k * ceil(n/tile) + k*n * ceil(m/tile)) loaded, itemsize*m*n stored; the AI is "
                "2*m*n*k over their sum. ceil(a/b) is -(-a // b).")),
        right="At multiples of the tile that is 2mnk/t to the byte, as the trace counts it. With growing sizes the AI "
              "nears tile / itemsize, and only a larger tile gets further.",
    ),
    "06.2": Exercise(
        kind="derive", points=2, tolerance=5e-3, names=("side", "AI", "bandwidth"),
        ask="room(capacity, itemsize, rate): the largest tile of which three fit, its AI, the bandwidth it asks for",
        inputs={"capacity": (2**14, 2**26), "itemsize": [1, 2, 4, 8], "rate": (1e11, 1e15)},
        reference=lambda capacity, itemsize, rate: _room(capacity, itemsize, rate),
        alternatives=(
            lambda c, b, r: (math.isqrt(c // (3 * b)), math.isqrt(c // (3 * b)) / b,
                             r / (math.isqrt(c // (3 * b)) / b)),
            lambda c, b, r: [math.floor(math.sqrt(c / 3 / b)), math.floor(math.sqrt(c / 3 / b)) / b,
                             b * r / math.floor(math.sqrt(c / 3 / b))]),
        slips={
            "one tile": (lambda capacity, itemsize, rate: _room(
                    capacity, itemsize, rate, (capacity / itemsize) ** 0.5),
                "That is one tile that fits; a tile of A, one of B and one of C have to be near at once."),
            "two tiles": (lambda capacity, itemsize, rate: _room(
                    capacity, itemsize, rate, (capacity / (2 * itemsize)) ** 0.5),
                "Two tiles fit: those of A and B. The sums are a tile, too, and three are asked."),
            "numbers, not bytes": (lambda capacity, itemsize, rate: _room(
                    capacity, itemsize, rate, (capacity / 3) ** 0.5),
                "That takes the capacity as a count of numbers; it is in bytes, itemsize for each number."),
            "no root": (lambda capacity, itemsize, rate: _room(
                    capacity, itemsize, rate, capacity // (3 * itemsize)),
                "That is how many numbers a tile may have; its side is the root of it."),
            "a multiply-add as one": (lambda capacity, itemsize, rate: _halved(*_room(capacity, itemsize, rate)),
                "A tile of t loads 2/t numbers for a multiply-add, which is two FLOPs: the AI is t over itemsize."),
            "rate times AI": (lambda capacity, itemsize, rate: _room(
                    capacity, itemsize, rate, bandwidth=lambda t: rate * t / itemsize),
                "Side and AI are right. FLOP/s over FLOP/B are B/s: divide the rate by the AI."),
        },
        hints=("Lesson 06, 'The tile that fits' and 'The intensity of a tile'.",
               "3 * itemsize * t**2 bytes have to fit; t is a whole number. The AI is t / itemsize.",
               "t = int((capacity / (3 * itemsize)) ** 0.5); t / itemsize; rate / (t / itemsize)."),
        right="Four times the memory is twice the tile, and half the bandwidth from the next level: capacity buys "
              "bandwidth, at a square root.",
    ),
    "06.3": Exercise(
        kind="predict", points=1, factor=1.6,
        ask="the side of the tile from which on tiles loaded from main memory no longer set the time here",
        reference=lambda roof: bytes_of(roof.dtype) * roof.ridge,
        alternatives=(lambda roof: round(bytes_of(roof.dtype) * roof.peak / roof.bandwidth),
                      lambda roof: 1.1 * bytes_of(roof.dtype) * roof.ridge),
        slips={
            "the ridge itself": (lambda roof: roof.ridge,
                "That is the ridge in FLOP/B. The AI of a tile is its side over the bytes of a number."),
            "divided": (lambda roof: roof.ridge / bytes_of(roof.dtype),
                "The AI is t over the bytes of a number: it reaches the ridge at t = bytes times ridge, not over it."),
            "critical batch": (lambda roof: bytes_of(roof.dtype) * roof.ridge / 2,
                "That is the critical batch, where one side alone is thin. In a tile A and B both come in: twice."),
            "three tiles": (lambda roof: 3 * bytes_of(roof.dtype) * roof.ridge,
                "Three tiles is how much room it takes; the ridge asks for the side of one."),
        },
        hints=("Where do the times of memory and of arithmetic meet, on any machine?",
               "At an AI equal to the ridge, here.ridge. And the AI of a tile of t x t is?",
               "t / 4 = here.ridge in float32, so t = 4 * here.ridge."),
        right="Twice the critical batch of lesson 05, since in a tile both sides are cut.",
        then="Lesson 06 swept the tile: on a CPU the rate goes on rising, for other reasons than memory.",
    ),
    "06.4": Exercise(
        kind="measure", points=2, cold=False,
        ask="the tiled program with tiles of 8 and of 32, hot, each with the bytes that its tiles move",
        reference=_works(),
        slips={
            "each matrix once": (_works(lambda tile: 3 * SIDE**2),
                "That is the least traffic, rk.gemm's. A program with tiles loads A and B many times."),
            "no tile": (_works(lambda tile: 2 * SIDE**3 + SIDE**2),
                "Those are the bytes of the naive program; a tile of t uses each number that it loads t times."),
            "result forgotten": (_works(lambda tile: 2 * SIDE**3 / tile),
                "The loads are right; the result has to be stored, too."),
            "one factor": (_works(lambda tile: SIDE**3 / tile + SIDE**2),
                "Tiles of A and tiles of B are loaded: 2mnk/t numbers, not half of them."),
            "numbers, not bytes": (_works(itemsize=1),
                "The works count numbers; each of them has 4 bytes."),
        },
        hints=("Lesson 06, 'The intensity of a tile', has a function `from_memory` that makes such a Work.",
               "FLOPs 2*n**3 for both; bytes 4 * (2*n**3 / tile + n**2).",
               ("rk.measure(lambda: gemm_tiled(A, B, C, 8), work=rk.Work(flops=2*n**3, nbytes=4*(2*n**3/8 + n*n))), "
                "and the same with 32 for 8; runs = [first, second].")),
        right="A quarter of the loads. Whether it is four times as fast tells whether loads set the time.",
    ),
    "06.5": Exercise(
        kind="build", points=3, out="out", least=0.4,
        ask="linear: out = x w^T with few loads for each multiply-add, in CUDA C++ or in Numba",
        inputs=_layer,
        reference=lambda x, w: x @ w.T,
        alternatives=(lambda x, w, out: np.matmul(x, w.T, out=out),
                      lambda x, w, out: out.__setitem__(..., (w @ x.T).T), BY_COLUMN),
        slips={
            "not added up": (lambda x, w: x[:, -1:] * w[:, -1],
                "That is the last of the k products alone: the sum starts anew in each round."),
            "the last tile": (lambda x, w: x[:, x.shape[1] // 16 * 16:] @ w[:, x.shape[1] // 16 * 16:].T,
                "Only the last tile of k is in the sums: they must not start anew with each tile."),
            "w the other way round": (lambda x, w: x @ w.reshape(w.shape[::-1]),
                ("w is read as k x n here, as in the lesson's kernel. Row j of w holds the k weights of output j: "
                 "w[j * k + p].")),
            "k cut off": (lambda x, w: x[:, :x.shape[1] // 16 * 16] @ w[:, :x.shape[1] // 16 * 16].T,
                "Only whole tiles of k are in the sums: the rest of the row is missing."),
        },
        work=lambda x, w: gemm(len(x), len(w), x.shape[1]), big=_large,
        cuda=Cuda(
            name="linear", launch=_launch,
            most=lambda x, w: 4 * x.shape[1] * (len(x) * -(-len(w) // TILE) + len(w) * -(-len(x) // TILE)),
            told="bring each number into shared memory once for the 16 x 16 block, and let all its threads use it "
                 "there."),
        hints=(("CUDA C++: gemm_tiled of lesson 06 with a tile of 16; which line changes when w lies the other way "
                "round? Numba: how many numbers does by_columns of the lesson load for a multiply-add?"),
               ("CUDA C++: thread (y, x) brings x[row, start + x] and a number of one of the 16 rows of w that the "
                "block needs. Numba: work on 2 rows of x and 4 rows of w at once, with 8 sums."),
               ("CUDA C++: w_tile[y][x] = w[(blockIdx.x * 16 + y) * k + start + x] where both are inside, else 0; then "
                "sum += x_tile[y][i] * w_tile[x][i]. Numba: u, v = x[i, p], x[i + 1, p] and 4 numbers of w make 8 "
                "multiply-adds of 6 loads; take min(i + 1, rows - 1) at the edges.")),
        right="Each number that is loaded is used many times: that is all of tiling.",
    ),
    "06.6": Exercise(
        kind="diagnose", points=2, labels=(*LEVELS, *PASSES),
        ask="which level sets the time of three kernels, and how many passes three softmax programs make",
        reference=_limits,
        alternatives=(("Shared_Memory", "memory-bound", "arithmetic", "8", "2", "4"), lambda: list(_limits())),
        slips={
            "a is memory": (lambda: _limits(a="memory"),
                "In `a` memory takes 5.1 ms, but two numbers for each multiply-add keep shared memory busy for 16.4."),
            "a is arithmetic": (lambda: _limits(a="arithmetic"),
                "`a` makes its tiles in shared memory and stops there: two numbers out of it for each multiply-add."),
            "b is shared memory": (lambda: _limits(b="shared memory"),
                "3/8 of a number for a multiply-add take shared memory 3.1 ms; the small tile takes memory 5.1 ms."),
            "b is arithmetic": (lambda: _limits(b="arithmetic"),
                "Registers spare shared memory, not main memory: a tile of 32 x 32 in float32 has an AI of 8."),
            "c is shared memory": (lambda: _limits(c="shared memory"),
                "1/16 + 1/8 is less than the quarter of a number that shared memory hands out for a multiply-add."),
            "c is memory": (lambda: _limits(c="memory"),
                "A tile of 128 x 128 has an AI of 32 FLOP/B, right of the ridge of 20: arithmetic takes longer."),
            "three steps, three passes": (lambda: _limits(kernels="3"),
                "Three steps are the definition. As kernels of their own they also write what the next one reads."),
            "every loop costs": (lambda: _limits(fits="4"),
                "A row of 8192 numbers is 32 KiB. It fits, and waits there for the second and the third loop."),
            "one kernel, two passes": (lambda: _limits(long="2"),
                "A row of 262,144 numbers is 1 MiB. It fits into no shared memory, so each loop reads it anew."),
            "write forgotten": (lambda: _limits(long="3"),
                "Three reads are right, but the result is written, too, and that is a pass."),
        },
        hints=(("Lesson 06: 'A tile' and 'The last step' for the kernels, 'Three passes, one read' for the softmax. "
                "How long does each level take by itself?"),
               ("Memory: 4 * 2*m*n*k / t bytes over 3.35 TB/s. Arithmetic: 2*m*n*k over the peak, 2.05 ms. Shared "
                "memory: that time, times the numbers for a multiply-add over 1/4. For a softmax: does the row fit?"),
               ("In ms, memory, shared, arithmetic: a 5.1, 16.4, 2.05; b 5.1, 3.1, 2.05; c 1.3, 1.5, 2.05. Passes: the "
                "lesson's table for five kernels; a row that fits is read and written once; one that does not is read "
                "three times and written once.")),
        right="Each level has its own tile, and the time is that of the level whose tile is too small. And a pass "
              "costs memory only where the data have left.",
    ),
}
