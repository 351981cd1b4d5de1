"""Exercises of lab 04: how many FLOPs per byte?"""

import math

import numpy as np

from ..datasheets import datasheet
from ..ops import gemm, layernorm
from ..units import itemsize as bytes_of
from ..work import Work
from . import Exercise, either_way


def _product(m, n, k, itemsize, limit=None, elements=None):
    """Bytes of a product, its AI, the AI's limit for many rows; or another limit, other elements."""
    nbytes = itemsize * (elements or m * k + k * n + m * n)
    return nbytes, 2 * m * n * k / nbytes, limit or 2 * n * k / (itemsize * (n + k))


def _chips(**changed):
    """The labels of 04.2, counted; changed: another label for one of them."""
    names = ("A100 80GB SXM", "H100 SXM", "H200 SXM", "B200")
    sheets = {name[:4]: datasheet(name, "bfloat16") for name in names}
    labels = {name: chip.bound(gemm(1024, 2048, 512, "bfloat16")) for name, chip in sheets.items()}
    labels["flips"] = next(name for name, chip in sheets.items() if 256 < chip.ridge < 292.57)
    labels["last"] = next(name for name, chip in sheets.items()
                          if chip.bound(gemm(256, 2048, 512, "bfloat16")) == "compute")
    return tuple((labels | {"doubled": "A"} | changed).values())


def _passes(rows, width, b, flops, fused, unfused):
    """FLOPs, fused and unfused bytes from counts an element."""
    return flops * rows * width, fused * b * rows * width, unfused * b * rows * width


def _plain(roof, rows, width):
    """Two passes over the best bandwidth: what a learner divides. The kit's prediction knows the mix."""
    return 2 * rows * width * bytes_of(roof.dtype) / roof.bandwidth


def _rows(rng):
    """A few rows of odd width, some of them so flat that the 1e-5 counts, and an output full of NaN."""
    rows, width = int(rng.integers(2, 40)), int(rng.integers(41, 300))
    scale, mean = 10 ** rng.uniform(-2.5, 0.5, (rows, 1)), rng.uniform(-2, 2, (rows, 1))
    return {"x": scale * (rng.standard_normal((rows, width)) + mean), "gain": rng.uniform(0.5, 2, width),
            "shift": rng.standard_normal(width), "out": np.full((rows, width), np.nan)}


def _many_rows(rng, rows=8192, width=1024):
    return {"x": rng.standard_normal((rows, width)), "gain": rng.uniform(0.5, 2, width),
            "shift": rng.standard_normal(width), "out": np.full((rows, width), np.nan)}


def _centred(x, axis=1):
    return x - x.mean(axis=axis, keepdims=True)


def _normal(x, eps=1e-5, ddof=0):
    return _centred(x) / np.sqrt(x.var(axis=1, keepdims=True, ddof=ddof) + eps)


EXERCISES = {
    "04.1": Exercise(
        kind="derive", points=2, names=("bytes", "AI", "limit"),
        ask="product(m, n, k, itemsize): bytes of a matrix product, its AI, and the AI's limit for many rows",
        inputs={"m": (1, 4096), "n": (16, 4096), "k": (16, 4096), "itemsize": [1, 2, 4, 8]},
        reference=lambda m, n, k, itemsize: _product(m, n, k, itemsize),
        alternatives=(lambda m, n, k, b: (b * m * k + b * k * n + b * m * n,
                                          2 / b / (1 / m + 1 / n + 1 / k), 2 / b / (1 / n + 1 / k)),
                      lambda m, n, k, b: [b * (k * (m + n) + m * n), gemm(m, n, k).intensity * 4 / b,
                                          2 * n * k / (b * k + b * n)]),
        slips={
            "result forgotten": (
                lambda m, n, k, itemsize: _product(m, n, k, itemsize, 2 * n / itemsize, m * k + k * n),
                "A and B are read, but C has to be written too."),
            "elements, not bytes": (lambda m, n, k, itemsize: _product(m, n, k, 1),
                "The first number counts elements; each of them is itemsize bytes long."),
            "no reuse": (lambda m, n, k, itemsize: _product(
                    m, n, k, itemsize, 2 * k / (itemsize * (2 * k + 1)), m * n * (2 * k + 1)),
                "That fetches two numbers for every multiply-add; once on the chip, a number is reused."),
            "a multiply-add as one": (lambda m, n, k, itemsize: tuple(
                    part / share for part, share in zip(_product(m, n, k, itemsize), (1, 2, 2))),
                "The bytes are right. A multiply and an add are two FLOPs, so the AI is 2mnk over them."),
            "limit without end": (lambda m, n, k, itemsize: _product(m, n, k, itemsize, math.inf),
                "The FLOPs grow with m, but so do the bytes of A and of C: their ratio stays finite."),
            "limit without C": (lambda m, n, k, itemsize: _product(m, n, k, itemsize, 2 * n / itemsize),
                "For many rows the bytes of B no longer count, but those of A and those of C do."),
        },
        hints=("Lesson 04, 'A matrix product', has the first two. Which terms of the bytes grow with m?",
               ("Divide FLOPs and bytes of the AI by m: one term of the bytes becomes k*n/m. What is left "
                "of it for a very large m?"),
               "Bytes: itemsize*(m*k + k*n + m*n). Limit: k*n/m vanishes, so 2*n*k / (itemsize*(k + n))."),
        right="With one row the AI is about 2/itemsize, whatever the matrix; half of the limit is reached"
              " at m = nk / (n + k) rows, whatever the format. More rows never buy more than the limit.",
    ),
    "04.2": Exercise(
        kind="diagnose", points=2,
        labels=("memory", "compute", "A", "B", "C", "A100", "H100", "H200", "B200"),
        ask="the article's product on four chips, what 256 would change, and where 256 comes from",
        reference=_chips,
        alternatives=(("compute", "memory-bound", "compute", "compute", "B200", "A100", "A"),
                      lambda: list(_chips())),
        slips={
            "a product is compute-bound": (lambda: _chips(H100="compute"),
                "On the H100 the ridge point is 295.3: with 292.57 FLOP/B memory takes one percent longer."),
            "an H200 is an H100": (lambda: _chips(H200="memory"),
                "The H200 has the H100's arithmetic but more bandwidth: its ridge point is lower, 206."),
            "the newest asks most": (lambda: _chips(B200="memory"),
                "The B200 is the newest, but 292.57 lies above its ridge point, 281."),
            "256 changes the H100": (lambda: _chips(flips="H100"),
                "On the H100 both put it left of 295.3: look for a ridge point between the two."),
            "few rows on the H200": (lambda: _chips(last="H200"),
                "With 256 rows the AI is 157.5; the H200 asks for 206."),
            "B twice": (lambda: _chips(doubled="B"),
                "B has 512 x 2048 numbers, 2.10 MB: more than the surplus. Compute 2**31 / 256 - 7340032."),
            "C twice": (lambda: _chips(doubled="C"),
                "C has 1024 x 2048 numbers, 4.19 MB: more than the surplus. Compute 2**31 / 256 - 7340032."),
        },
        hints=("A chip's verdict needs two numbers, the AI of the product and the ridge point of the chip.",
               ("rk.datasheet(name, 'bfloat16').ridge for each chip. 256 changes a verdict where a ridge "
                "point lies between 256 and 292.57. And 2**31 FLOPs at 256 FLOP/B are how many bytes?"),
               ("The ridge points are 153, 295.3, 206 and 281; 256 rows give an AI of 157.5. 2**31/256 "
                "bytes are 1,048,576 too many: the size of which matrix in two-byte numbers?")),
        right="Counting one operand twice, or in four bytes a number, gives 2**23 bytes and the article's"
              " 256 exactly. Off by an eighth, it would turn the verdict on one chip of the four.",
    ),
    "04.3": Exercise(
        kind="derive", points=2, tolerance=0.01, names=("FLOPs", "bytes in one kernel", "bytes call by call"),
        ask="normalise(rows, width, itemsize): FLOPs, bytes in one kernel, bytes call by call",
        inputs={"rows": (16, 4096), "width": (512, 8192), "itemsize": [2, 4, 8]},
        reference=lambda rows, width, itemsize: _passes(rows, width, itemsize, 5, 2, 8),
        alternatives=(lambda rows, width, b: (5 * rows * width + 4 * rows, 2 * b * rows * width,
                                              8 * b * (rows * width + rows)),
                      lambda r, w, b: [r * w * 5, b * r * w * 2, b * r * w * (5 + 3)]),
        slips={
            "the lesson's LayerNorm": (lambda rows, width, itemsize: _passes(rows, width, itemsize, 7, 2, 12),
                "Those are the lesson's counts. Gain and shift are left out here: two calls less."),
            "one pass a call": (lambda rows, width, itemsize: _passes(rows, width, itemsize, 5, 2, 5),
                "Five calls read an array of x's size, that is what you count; three also write one."),
            "the same array read twice": (
                lambda rows, width, itemsize: _passes(rows, width, itemsize, 5, 2, 9),
                "multiply(y, y) reads y once: both its inputs are the same numbers."),
            "intermediate results for free": (
                lambda rows, width, itemsize: _passes(rows, width, itemsize, 5, 2, 2),
                "That is one kernel's count. Between two calls a result of x's size goes through memory."),
            "read three times in one kernel": (
                lambda rows, width, itemsize: _passes(rows, width, itemsize, 5, 4, 8),
                "A row is used again and again, but one kernel keeps it on the chip: one read, one write."),
            "fused is read only": (lambda rows, width, itemsize: _passes(rows, width, itemsize, 5, 1, 8),
                "One kernel reads x once, but it also has to write y once."),
            "elements, not bytes": (lambda rows, width, itemsize: _passes(rows, width, 1, 5, 2, 8),
                "The FLOPs are right. You count numbers moved; each of them is itemsize bytes long."),
        },
        hints=("Go through the five lines: which of x, t and y does each one read, which does it write?",
               ("The referee counts while the code runs: rk.referee.passes(normalise_code, x, t, y) with "
                "x, t, y of rk.device('cpu').random(8, 512). Divide its totals by the bytes of x."),
               ("One FLOP an element in each of the five calls. Five of them read and three write an "
                "array of x's size: eight passes; in one kernel it is two.")),
        right="An AI of 5/4 in two-byte numbers when it is one kernel, and a quarter of that call by "
              "call. With gain and shift it is 7/4; the article's 5D to 8D FLOPs give 1.25 to 2. All of "
              "that is memory-bound on any GPU.",
    ),
    "04.4": Exercise(
        kind="predict", points=1, factor=1.6, quantity="seconds",
        ask="least seconds of a LayerNorm of rows x width numbers on this machine",
        reference=lambda roof, rows, width: either_way(roof, layernorm(rows, width, roof.dtype)),
        alternatives=(lambda roof, rows, width: 2 * rows * width * bytes_of(roof.dtype) / roof.bandwidth,
                      lambda roof, rows, width: roof.seconds(layernorm(rows, width, roof.dtype))),
        slips={
            "time of the arithmetic": (lambda roof, rows, width: 7 * rows * width / roof.rate("vector"),
                "That is the time of its FLOPs. They are few; it is the bytes that take the time."),
            "read only": (lambda roof, rows, width: _plain(roof, rows, width) / 2,
                "That is one pass: each number is read and also written."),
            "call by call": (lambda roof, rows, width: _plain(roof, rows, width) * 6,
                "Twelve passes are array code's. The least time is that of one kernel with two."),
            "numbers, not bytes": (lambda roof, rows, width: 2 * rows * width / roof.bandwidth,
                "That is numbers over bandwidth: each of them has rk.itemsize(dev.dtype) bytes."),
            "milliseconds": (lambda roof, rows, width: _plain(roof, rows, width) * 1e3,
                "That is in milliseconds; the kit's unit is the second."),
        },
        hints=("Which is longer here, the time of its bytes or that of its FLOPs?",
               "In one kernel x is read once and y written once; gain and shift are small.",
               "2 * rows * width * rk.itemsize(dev.dtype) bytes, divided by here.bandwidth."),
        right="Few FLOPs, many bytes: memory sets the time, whatever the arithmetic units could do. The "
              "kit's own value is a little longer where stores cost more than reads.",
        then="04.6 builds the kernel that this bound is for.",
    ),
    "04.5": Exercise(
        kind="measure", points=2, cold=True,
        ask="the same three calls, timed cold, with the bytes that they do move",
        reference=lambda n, itemsize: Work(3 * n, 7 * itemsize * n),
        slips={
            "as one kernel": (lambda n, itemsize: Work(3 * n, 2 * itemsize * n),
                ("Two passes are what one kernel needs. These are three calls, and each goes through "
                 "memory by itself.")),
            "every call alike": (lambda n, itemsize: Work(3 * n, 6 * itemsize * n),
                "Not every call makes two passes: the addition reads two arrays and writes one."),
            "the same array twice": (lambda n, itemsize: Work(3 * n, 8 * itemsize * n),
                "multiply(x, x) reads x once: both its inputs are the same numbers."),
            "reads only": (lambda n, itemsize: Work(3 * n, 4 * itemsize * n),
                "Those are the reads; each call also writes y."),
        },
        hints=("Of the four reasons, which one can be checked without a clock?",
               "For each call: which arrays does it read, which does it write? x * x reads x once.",
               ("Two passes, three and two, n FLOPs each. Or add up: rk.elementwise(n, inputs=1, "
                "dtype=dev.dtype) + rk.elementwise(n, inputs=2, dtype=dev.dtype, in_place=True) + the "
                "same with inputs=1.")),
        right="The same code and time, but the gap has closed or shrunk: reason 1, the count. One kernel "
              "would need two of these seven passes. What is left is for the reasons 2 to 4.",
    ),
    "04.6": Exercise(
        kind="build", points=3, out="out", least=0.25,
        ask="layernorm(x, gain, shift, out) with fewer passes through memory",
        inputs=_rows,
        reference=lambda x, gain, shift: _normal(x) * gain + shift,
        alternatives=(lambda x, gain, shift, out: out.__setitem__(..., _normal(x) * gain + shift),
                      lambda x, gain, shift, out: np.add(_normal(x) * gain, shift, out=out)),
        slips={
            "columns": (lambda x, gain, shift: _centred(x, 0) / np.sqrt(x.var(axis=0) + 1e-5) * gain + shift,
                "That normalises columns; a row is what belongs together, the numbers of one token."),
            "no root": (
                lambda x, gain, shift: _centred(x) / (x.var(axis=1, keepdims=True) + 1e-5) * gain + shift,
                "That divides by the variance: the standard deviation is its root."),
            "1e-5 left out": (lambda x, gain, shift: _normal(x, eps=0) * gain + shift,
                "The 1e-5 is missing. It matters in rows whose numbers hardly differ."),
            "1e-5 after the root": (
                lambda x, gain, shift: _centred(x) / (x.std(axis=1, keepdims=True) + 1e-5) * gain + shift,
                "The 1e-5 is added after the root; it belongs to the variance, before it."),
            "width - 1": (lambda x, gain, shift: _normal(x, ddof=1) * gain + shift,
                "The variance is divided by width - 1, as for a sample; LayerNorm divides by width."),
            "not centred": (
                lambda x, gain, shift: x / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5) * gain + shift,
                "The mean is not subtracted from x itself."),
            "mean square for variance": (
                lambda x, gain, shift: _centred(x) / np.sqrt((x * x).mean(1)[:, None] + 1e-5) * gain + shift,
                "That takes the mean square of x for its variance: subtract the mean before squaring."),
            "shift before gain": (lambda x, gain, shift: (_normal(x) + shift) * gain,
                "The shift is added before the gain is multiplied; it comes last."),
            "no shift": (lambda x, gain, shift: _normal(x) * gain,
                "The shift is missing: it is added at the end."),
            "no gain": (lambda x, gain, shift: _normal(x) + shift,
                "The gain is missing: it multiplies each normalised number."),
        },
        work=lambda x: layernorm(*x.shape), big=_many_rows,
        hints=(("A row is short enough for a cache. What do you gain when a row is finished before the "
                "next one starts?"),
               ("CPU: inside the loop over rows make three loops over the row, for its sum, for the "
                "squares of the differences, for the result. GPU: a ReductionKernel for the squares, an "
                "ElementwiseKernel for the rest."),
               ("CPU: after the first loop mean = total / width; in the second squares += (x[i, j] - "
                "mean)**2; in the third out[i, j] = (x[i, j] - mean) * scale * gain[j] + shift[j], scale "
                "= 1 / np.sqrt(squares / width + 1e-5). prange over the rows; fastmath=True lets the sums"
                " use vector instructions.")),
        right="Whoever ends a row before the next one reads and writes memory once: the row waits in a "
              "cache. That is fusion. The roof is that of two passes, of which array code reaches about a"
              " fifth at best.",
    ),
}
