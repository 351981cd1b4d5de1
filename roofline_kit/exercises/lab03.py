"""Exercises of lab 03: why do equal FLOPs take unequal time?"""

import math

from ..ops import gemm
from ..units import itemsize as bytes_of
from ..work import Work
from . import Exercise, either_way

ORDER = ("A", "E", "C", "B", "D")                  # by time on an H100, of the shapes in the lab's text
SHAPES = {"cube": (512, 512, 512), "few rows": (8, 4096, 4096), "short": (4096, 4096, 8)}
LIMITS = ("memory", "idle", "padding", "arithmetic")
CAUSES = {"large": "arithmetic", "deep": "idle", "odd": "padding", "batch": "memory"}


def _extremes(flops, itemsize, best=None, row=None):
    """Bytes of the cube and of one row with a square matrix, and their ratio; best, row: other elements."""
    side, length = (flops / 2) ** (1 / 3), (flops / 2) ** 0.5
    best, row = best or 3 * side**2, row or length**2 + 2 * length
    return itemsize * best, itemsize * row, row / best


def _ordered(*names):
    """An order that puts one or two of the five in a wrong place."""
    return lambda: tuple(names)


def _two_rows(roof, n, k):
    """Bytes over the best bandwidth: what a learner divides. The kit's prediction knows the mix."""
    return bytes_of(roof.dtype) * (2 * k + n * k + 2 * n) / roof.bandwidth


def _works(itemsize, count=None):
    """The Works of the three products; count: other elements than those of the three matrices."""
    count = count or (lambda m, n, k: m * k + k * n + m * n)
    return tuple(Work(2 * m * n * k, itemsize * count(m, n, k)) for m, n, k in SHAPES.values())


def _stretched(padding=True, idle=True, inside_out=False, up=math.ceil, b=2, each=2):
    """The two times of a product in tiles, as a function of the exercise's inputs; each argument changes one part."""
    def times(m, n, k, tile, sms, peak, bandwidth):
        tiles = up(m / tile) * up(n / tile)
        inside = m * n / (tiles * tile * tile) if padding else 1
        at_work = tiles / (math.ceil(tiles / sms) * sms) if idle else 1
        stretch = inside * at_work if inside_out else 1 / (inside * at_work)
        return b * (m * k + k * n + m * n) / bandwidth, each * m * n * k / peak * stretch
    return times


def _causes(**changed):
    return tuple((CAUSES | changed).values())


EXERCISES = {
    "03.1": Exercise(
        kind="derive", points=2, names=("bytes of the cube", "bytes of one row", "ratio"),
        ask="extremes(flops, itemsize): bytes of the cube, of one row with a square matrix, and their ratio",
        inputs={"flops": (1e6, 1e13), "itemsize": [1, 2, 4, 8]},
        reference=lambda flops, itemsize: _extremes(flops, itemsize),
        alternatives=(
            lambda f, b: (3 * b * (f / 2) ** (2 / 3), b * (f / 2 + 2 * math.sqrt(f / 2)),
                          (f / 2 + 2 * math.sqrt(f / 2)) / (3 * (f / 2) ** (2 / 3))),
            lambda f, b: [b * f / 2 * 3 / math.cbrt(f / 2), b * f / 2 * (1 + 2 / math.sqrt(f / 2)),
                          (1 + 2 / math.sqrt(f / 2)) * math.cbrt(f / 2) / 3]),
        slips={
            "a multiply-add as one": (lambda flops, itemsize: _extremes(2 * flops, itemsize),
                "That takes m*n*k = flops. Each multiply-add is two FLOPs: m*n*k = flops / 2."),
            "result forgotten": (lambda flops, itemsize: _extremes(
                    flops, itemsize, 2 * (flops / 2) ** (2 / 3), flops / 2 + (flops / 2) ** 0.5),
                "A and B are read, but C has to be written too: three matrices."),
            "the matrix alone": (lambda flops, itemsize: _extremes(flops, itemsize, None, flops / 2),
                "The cube is right. Of the one row you count the matrix only: a row is read, and one written."),
            "elements, not bytes": (lambda flops, itemsize: _extremes(flops, 1),
                "Those are numbers; the ratio is right, but each of them has itemsize bytes."),
            "one matrix of the cube": (lambda flops, itemsize: _extremes(flops, itemsize, (flops / 2) ** (2 / 3)),
                "Of the cube you count one matrix; A, B and C are three of that size."),
            "upside down": (lambda flops, itemsize: (*_extremes(flops, itemsize)[:2],
                                                     1 / _extremes(flops, itemsize)[2]),
                "The bytes are right; the ratio asked is that of one row over that of the cube."),
        },
        hints=("Lesson 03, 'The thinnest side decides'. How long is a side of the cube, in terms of the FLOPs?",
               ("2*m*n*k = flops. Cube: m = n = k, so each side is the cube root of flops / 2. One row: m = 1, "
                "n = k, so n is the square root of flops / 2."),
               ("With s = (flops/2)**(1/3) and L = (flops/2)**0.5: itemsize*3*s**2, itemsize*(L + L*L + L), and "
                "the second over the first.")),
        right="The ratio grows with the side of the cube: one third of it. The larger the problem, the more "
              "its shape matters.",
    ),
    "03.2": Exercise(
        kind="predict", points=1, labels=tuple("ABCDE"),
        ask="five products of equal FLOPs on an H100 SXM, fastest first",
        reference=ORDER,
        alternatives=(list(ORDER), lambda: tuple("aecbd")),
        slips={
            "by rows": (_ordered("C", "D", "A", "E", "B"),
                "That is by the number of rows. It does not matter which side is thin, only how thin it is."),
            "slowest first": (_ordered(*reversed(ORDER)),
                "The order is right but turned round: the fastest first."),
            "two terms before sixteen rows": (_ordered("A", "E", "C", "D", "B"),
                "D has sides of 32768 and of 2, B one of 16: two terms a number are worse than sixteen rows."),
            "short dot products are fast": (_ordered("C", "A", "E", "B", "D"),
                "C has short dot products, but a large result to write: 34.6 MB, where the cube moves 6.3."),
            "rectangle before cube": (_ordered("E", "A", "C", "B", "D"),
                "At equal FLOPs the cube moves the fewest bytes, and no shape has less arithmetic."),
        },
        hints=("All have the same FLOPs. What differs?",
               "At equal FLOPs the bytes go with 1/m + 1/n + 1/k: look for the thinnest side of each.",
               "Thinnest sides: A 1024, B 16, C 64, D 2, E 256. The thicker, the faster."),
        right="One look at the thinnest side puts them in order, from the cube's 2.2 us to 320 us for D.",
        then="03.4 measures three of this kind here.",
    ),
    "03.3": Exercise(
        kind="predict", points=1, factor=1.6, quantity="seconds",
        ask="least seconds of two rows through a weight matrix of k x n numbers on this machine",
        reference=lambda roof, n, k: either_way(roof, gemm(2, n, k, roof.dtype)),
        alternatives=(lambda roof, n, k: bytes_of(roof.dtype) * n * k / roof.bandwidth,
                      lambda roof, n, k: roof.seconds(gemm(2, n, k, roof.dtype))),
        slips={
            "time of the arithmetic": (lambda roof, n, k: 4 * n * k / roof.peak,
                "That is the time of the FLOPs. With two rows the bytes of the weights take longer."),
            "weights twice": (lambda roof, n, k: 2 * _two_rows(roof, n, k),
                "That reads the weights once for each row; the least is once for both."),
            "numbers, not bytes": (lambda roof, n, k: n * k / roof.bandwidth,
                "That is numbers over bandwidth: each of them has rk.itemsize(dev.dtype) bytes."),
            "milliseconds": (lambda roof, n, k: 1e3 * _two_rows(roof, n, k),
                "That is in milliseconds; the kit's unit is the second."),
        },
        hints=("Two rows lie below the bend of lesson 03: which of the two times is longer?",
               "Nearly all bytes are those of the weights, k * n numbers of rk.itemsize(dev.dtype) bytes.",
               "rk.itemsize(dev.dtype) * k * n bytes, divided by here.bandwidth."),
        right="Memory sets the time: one row would take as long.",
        then="Lesson 03 showed whether your library keeps to that.",
    ),
    "03.4": Exercise(
        kind="measure", points=2, cold=True,
        ask="three products of equal FLOPs, cold, each with its Work",
        reference=lambda itemsize: _works(itemsize),
        slips={
            "the cube's bytes for all": (lambda itemsize: _works(itemsize, lambda m, n, k: 3 * 512 * 512),
                "All three have the bytes of the cube in their work: equal FLOPs are not equal bytes."),
            "result forgotten": (lambda itemsize: _works(itemsize, lambda m, n, k: m * k + k * n),
                "The works count A and B; C has to be written too, and in `short` it is nearly all there is."),
            "no reuse": (lambda itemsize: _works(itemsize, lambda m, n, k: 2 * m * n * k + m * n),
                "That is the traffic of dot products one by one; the least reads each matrix once."),
            "numbers, not bytes": (lambda itemsize: _works(1),
                "The works count numbers; each of them has rk.itemsize(dev.dtype) bytes."),
        },
        hints=("Lesson 03 has a function `product` that does it for one shape. What must be in its Work?",
               ("A = dev.random(m, k), B = dev.random(k, n), C = dev.random(m, n); out=C; cold=True. If samples are "
                "too few, a higher limit= gives measure more seconds."),
               ("for m, n, k in shapes.values(): rk.measure(lambda: xp.matmul(A, B, out=C), work=rk.gemm(m, n, "
                "k, dev.dtype), cold=True), with new A, B, C for each shape, in a list.")),
        right="Same FLOPs, each run with its own bytes: rk.scorecard(here, runs) holds them against the roof.",
    ),
    "03.5": Exercise(
        kind="derive", points=2, names=("memory", "arithmetic"),
        ask="stretched(m, n, k, tile, sms, peak, bandwidth): seconds of the bytes, and of the arithmetic in tiles",
        inputs={"m": (1, 6000), "n": (100, 6000), "k": (16, 9000), "tile": [32, 64, 128, 256],
                "sms": [46, 84, 108, 132, 148], "peak": (1e14, 2.5e15), "bandwidth": (5e11, 8e12)},
        reference=_stretched(),
        alternatives=(
            lambda m, n, k, t, s, p, w: (gemm(m, n, k, "bfloat16").nbytes / w,
                                         -(-(-(-m // t) * -(-n // t)) // s) * s * 2 * t * t * k / p),
            lambda m, n, k, t, s, p, w: [2 * (k * (m + n) + m * n) / w, 2 * t * t * k / (p / s) * math.ceil(
                math.ceil(m / t) * math.ceil(n / t) / s)]),
        slips={
            "no tiles": (_stretched(padding=False, idle=False),
                "That is FLOPs over peak: padding and idle SMs both make the arithmetic take longer."),
            "no padding": (_stretched(padding=False),
                "The idle SMs are in it, the padding is not: each tile takes the time of a full one."),
            "no idle SMs": (_stretched(idle=False),
                "The padding is in it, the idle SMs are not: the last round takes as long as a full one."),
            "upside down": (_stretched(inside_out=True),
                "A share below 1 makes the arithmetic take longer: divide by it."),
            "cut off": (_stretched(up=lambda x: max(1, math.floor(x))),
                ("Too few tiles: one that lies only in part in C takes its time all the same. Round m / tile and "
                 "n / tile up, each by itself.")),
            "numbers, not bytes": (_stretched(b=1),
                "The arithmetic is right. The numbers have two bytes each."),
            "a multiply-add as one": (_stretched(each=1),
                "The bytes are right. A product costs 2 m n k FLOPs."),
        },
        hints=("Lesson 03, 'The same on a GPU': its `tiled`, and how its table uses the two shares.",
               ("The bytes do not change: each matrix once. FLOPs over peak, divided by the share of the tiles "
                "that lies in C, and by the share of the SMs at work."),
               ("2*(m*k + k*n + m*n) / bandwidth. With tiles and rounds rounded up: rounds * sms * 2 * tile * "
                "tile * k / peak, which is the same as dividing by the two shares.")),
        right="Each rounding up is paid in time. In the end it is rounds x the time of one full tile on one SM.",
    ),
    "03.6": Exercise(
        kind="diagnose", points=2, labels=LIMITS,
        ask="what sets the time of four products on an H100 SXM, by the model of tiles",
        reference=_causes,
        alternatives=(("arithmetic", "Idle", "padding", "memory-bound"), lambda: list(_causes())),
        slips={
            "always the SMs": (lambda: _causes(large="idle"),
                "`large` has 4096 tiles, 31 full rounds and a little: 97 percent of the SMs are at work."),
            "large from memory": (lambda: _causes(large="memory"),
                "The bytes of `large` take 120 us, its arithmetic more than a millisecond."),
            "deep is large": (lambda: _causes(deep="arithmetic"),
                "`deep` has many FLOPs, but its result has only 64 tiles for 132 SMs."),
            "deep from memory": (lambda: _causes(deep="memory"),
                "The bytes of `deep` take 21 us, its arithmetic on half of the SMs more than 70."),
            "odd is idle": (lambda: _causes(odd="idle"),
                "`odd` has 3 x 44 = 132 tiles: every SM has one."),
            "odd from memory": (lambda: _causes(odd="memory"),
                "The bytes of `odd` take 30 us; its arithmetic takes 25, but 36 with the padding."),
            "odd is well filled": (lambda: _causes(odd="arithmetic"),
                "266 rows need three tiles of 128 rows, 384: a third of the arithmetic is for nothing."),
            "batch is padding": (lambda: _causes(batch="padding"),
                "Seven eighths of the tiles of `batch` are padding, and still its bytes take longer."),
            "batch is idle": (lambda: _causes(batch="idle"),
                "`batch` has 128 tiles for 132 SMs: nearly all of them are at work."),
        },
        hints=("Two times for each: that of the bytes, and that of the arithmetic as the tiles stretch it.",
               ("rk.datasheet('H100 SXM', 'bfloat16').times(rk.gemm(m, n, k, 'bfloat16')) gives memory and compute; "
                "or use your function of 03.5, with tile=128, sms=132 and that datasheet's peak and bandwidth."),
               ("large: 97 % at work, all inside. deep: 48 % at work, all inside. odd: 69 % inside, all at work. "
                "batch: its bytes take 80 us, its stretched arithmetic 36.")),
        right="The bytes, the tiles and the SMs each have their own way to make equal FLOPs slow. Only `large` "
              "comes near the peak.",
    ),
}
