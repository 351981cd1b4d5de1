"""Exercises of lab 08: which chip, which dtype?"""

import math

from ..datasheets import datasheet
from ..ops import elementwise, gemm, layernorm, linear
from ..work import Work
from . import Exercise

BYTES = {"GB/s": 1e9, "TB/s": 1e12, "TiB/s": 2**40}
OLD = "A100 80GB SXM"


def _line(rng):
    """A line of a product page."""
    unit = list(BYTES)[int(rng.integers(3))]
    bandwidth = math.exp(rng.uniform(math.log(0.3), math.log(8))) * (1000 if unit == "GB/s" else 1)
    return {"tera": 10 ** rng.uniform(1.5, 3.5), "sparse": bool(rng.integers(2)), "macs": bool(rng.integers(2)),
            "bandwidth": bandwidth, "unit": unit}


def _ridge(tera, sparse, macs, bandwidth, unit, half=0.5, double=2, sizes=BYTES):
    """half, double, sizes: other values for what is made of a sparse rate, a multiply-add, a unit."""
    return tera * 1e12 * (half if sparse else 1) * (double if macs else 1) / (bandwidth * sizes[unit])


def _two_chips(rng):
    """Two chips, and an intensity left of both ridges, between them, or right of both."""
    ridge, grown = math.exp(rng.uniform(2, 6)), math.exp(rng.uniform(0.2, 1.2))
    bandwidth, faster = 10 ** rng.uniform(11.5, 13), math.exp(rng.uniform(0.1, 1))
    place = rng.choice([rng.uniform(-2, -0.2), rng.uniform(0.2, 0.8), rng.uniform(1.2, 3)])
    return {"intensity": ridge * grown ** place, "old_peak": ridge * bandwidth, "old_bandwidth": bandwidth,
            "new_peak": ridge * grown * bandwidth * faster, "new_bandwidth": bandwidth * faster}


def _worth(intensity, old_peak, old_bandwidth, new_peak, new_bandwidth):
    return min(new_peak, new_bandwidth * intensity) / min(old_peak, old_bandwidth * intensity)


def _waiting(flops, nbytes, peak, bandwidth, saved):
    """Share of the passes before, and the gain of saving that share of their bytes."""
    products, passes = flops / peak, nbytes / bandwidth
    return passes / (products + passes), (products + passes) / (products + (1 - saved) * passes)


def _goes(work, dtype, new="H100 SXM"):
    bounds = [datasheet(chip, dtype).bound(work) for chip in (OLD, new)]
    return bounds[0] if bounds[0] == bounds[1] else "flips"


def _flips(**changed):
    """The labels of 08.4, counted; changed: another label for one of them."""
    b, article = "bfloat16", (1024, 2048, 512)
    labels = {"norm": _goes(layernorm(4096, 4096, b), b), "rows_180": _goes(linear(180, 8192, 8192, b), b),
              "rows_100": _goes(linear(100, 8192, 8192, b), b), "square": _goes(gemm(2048, 2048, 2048, b), b),
              "article": _goes(gemm(*article, b), b, "H200 SXM"), "int8": _goes(gemm(*article, "int8"), "int8")}
    return tuple((labels | changed).values())


def _mixed_up(**changed):
    labels = {"first": "sparse", "second": "chip", "third": "format", "fourth": "sums", "fifth": "unit",
              "sixth": "count"}
    return tuple((labels | changed).values())


def _additions(n, narrow=None):
    return elementwise(n, inputs=2, dtype="float32"), narrow or elementwise(n, inputs=2, dtype="int8")


EXERCISES = {
    "08.1": Exercise(
        kind="derive", points=2, ask="ridge(tera, sparse, macs, bandwidth, unit): dense ridge point of a printed line",
        inputs=_line,
        reference=lambda tera, sparse, macs, bandwidth, unit: _ridge(tera, sparse, macs, bandwidth, unit),
        alternatives=(
            lambda t, s, m, b, u: t / b * {"GB/s": 1000, "TB/s": 1, "TiB/s": 1e12 / 1024**4}[u] / (1 + s) * (1 + m),
            lambda tera, sparse, macs, bandwidth, unit: (
                tera * 1e12 / bandwidth / BYTES[unit] * (1 if sparse == macs else 2 if macs else 0.5))),
        slips={
            "sparse as dense": (lambda tera, sparse, macs, bandwidth, unit: _ridge(
                    tera, sparse, macs, bandwidth, unit, half=1),
                "A sparse rate is left as it is: for dense matrices half of it holds."),
            "sparse doubled": (lambda tera, sparse, macs, bandwidth, unit: _ridge(
                    tera, sparse, macs, bandwidth, unit, half=2),
                "The sparse rate is the larger one that is printed: halve it, do not double it."),
            "a multiply-add as one": (lambda tera, sparse, macs, bandwidth, unit: _ridge(
                    tera, sparse, macs, bandwidth, unit, double=1),
                "Where the page counts multiply-adds, each of them is two FLOPs."),
            "multiply-adds halved": (lambda tera, sparse, macs, bandwidth, unit: _ridge(
                    tera, sparse, macs, bandwidth, unit, double=0.5),
                "There are twice as many FLOPs as multiply-adds, not half as many."),
            "TiB as TB": (lambda tera, sparse, macs, bandwidth, unit: _ridge(
                    tera, sparse, macs, bandwidth, unit, sizes=BYTES | {"TiB/s": 1e12}),
                "A TiB is 2**40 bytes, ten percent more than a TB."),
            "all binary": (lambda tera, sparse, macs, bandwidth, unit: _ridge(
                    tera, sparse, macs, bandwidth, unit, sizes={"GB/s": 2**30, "TB/s": 2**40, "TiB/s": 2**40}),
                "GB and TB are decimal: 10**9 and 10**12 bytes. Only TiB is binary."),
            "upside down": (lambda tera, sparse, macs, bandwidth, unit: 1 / _ridge(
                    tera, sparse, macs, bandwidth, unit),
                "That is bytes for each FLOP: divide the rate by the bandwidth."),
        },
        hints=("Lesson 08, 'Traps': which of the four things changes the rate, and which the bandwidth?",
               "Dense is half of sparse. FLOPs are twice the multiply-adds. GB 1e9, TB 1e12, TiB 2**40 bytes.",
               ("peak = tera * 1e12, halved if sparse, doubled if macs; divide it by bandwidth times the bytes of "
                "its unit.")),
        right="Sparse and multiply-adds cancel each other, which has let more than one wrong table pass for right.",
    ),
    "08.2": Exercise(
        kind="derive", points=2, ask="worth(intensity, old and new rates): how many times as fast the new chip is",
        inputs=_two_chips, reference=_worth,
        alternatives=(
            lambda i, p, w, q, v: max(1 / p, 1 / (w * i)) / max(1 / q, 1 / (v * i)),
            lambda i, p, w, q, v: (q if i > q / v else v * i) / (p if i > p / w else w * i)),
        slips={
            "the peaks alone": (lambda intensity, old_peak, old_bandwidth, new_peak, new_bandwidth:
                    new_peak / old_peak,
                "That holds for what is compute-bound on both chips. The rest is held up by the bandwidth."),
            "the bandwidths alone": (lambda intensity, old_peak, old_bandwidth, new_peak, new_bandwidth:
                    new_bandwidth / old_bandwidth,
                "That holds for what is memory-bound on both chips. The rest is held up by the arithmetic."),
            "the old verdict": (lambda intensity, old_peak, old_bandwidth, new_peak, new_bandwidth: (
                    new_peak / old_peak if intensity > old_peak / old_bandwidth else new_bandwidth / old_bandwidth),
                "The verdict of the old chip is taken for the new one: it may turn there. Ask each for itself."),
            "the new verdict": (lambda intensity, old_peak, old_bandwidth, new_peak, new_bandwidth: (
                    new_peak / old_peak if intensity > new_peak / new_bandwidth else new_bandwidth / old_bandwidth),
                "The verdict of the new chip is taken for the old one: it may have been another there."),
            "upside down": (lambda intensity, old_peak, old_bandwidth, new_peak, new_bandwidth: 1 / _worth(
                    intensity, old_peak, old_bandwidth, new_peak, new_bandwidth),
                "That is new time over old. How many times as fast is asked: old time over new."),
        },
        hints=("Lesson 07 has the attainable rate of an operation on one chip. Here are two.",
               "min(peak, bandwidth * intensity) for each; the ratio of the rates is the ratio of the times.",
               "min(new_peak, new_bandwidth * intensity) / min(old_peak, old_bandwidth * intensity)."),
        right="Between the two ridge points the gain lies between those of bandwidth and peak. Whoever looks only at "
              "the peak pays for arithmetic that will wait.",
    ),
    "08.3": Exercise(
        kind="derive", points=2, names=("share", "gain"),
        ask="waiting(flops, nbytes, peak, bandwidth, saved): share of the passes, gain of a fusion",
        inputs={"flops": (1e11, 1e14), "nbytes": (1e9, 1e11), "peak": (1e14, 2e15), "bandwidth": (1e12, 8e12),
                "saved": (0.1, 0.9)},
        reference=_waiting,
        alternatives=(
            lambda f, n, p, w, s: (1 / (1 + f * w / (p * n)), 1 / (1 - s / (1 + f * w / (p * n)))),
            lambda f, n, p, w, s: [n / w / (f / p + n / w), (f / p + n / w) / (f / p + n * (1 - s) / w)]),
        slips={
            "overlap": (lambda flops, nbytes, peak, bandwidth, saved: (
                    nbytes / bandwidth / max(flops / peak, nbytes / bandwidth),
                    max(flops / peak, nbytes / bandwidth) / max(flops / peak, (1 - saved) * nbytes / bandwidth)),
                "The two follow each other here, so their times add up; the longer one alone is for one operation."),
            "what is left taken for saved": (lambda flops, nbytes, peak, bandwidth, saved: _waiting(
                    flops, nbytes, peak, bandwidth, 1 - saved),
                "The share is right. Saved is what goes: 1 - saved of the bytes stays."),
            "the passes alone": (lambda flops, nbytes, peak, bandwidth, saved: (
                    _waiting(flops, nbytes, peak, bandwidth, saved)[0], 1 / (1 - saved)),
                "That is the gain of the passes alone. The products take as long as before."),
            "the other share": (lambda flops, nbytes, peak, bandwidth, saved: (
                    1 - _waiting(flops, nbytes, peak, bandwidth, saved)[0],
                    _waiting(flops, nbytes, peak, bandwidth, saved)[1]),
                "The gain is right. The share of the passes is asked, not that of the products."),
            "the share afterwards": (lambda flops, nbytes, peak, bandwidth, saved: (
                    _waiting(flops, nbytes * (1 - saved), peak, bandwidth, saved)[0],
                    _waiting(flops, nbytes, peak, bandwidth, saved)[1]),
                "The gain is right. The share before the fusion is asked, with all the bytes."),
        },
        hints=("How long do the products take, and how long the passes? They follow each other.",
               "products = flops / peak, passes = nbytes / bandwidth. Before: the sum. After: the passes shrink.",
               "(passes / (products + passes), (products + passes) / (products + (1 - saved) * passes))."),
        right="With a higher peak at the same bandwidth, both numbers grow: the faster the arithmetic, the more there "
              "is to gain by moving less.",
    ),
    "08.4": Exercise(
        kind="diagnose", points=2, labels=("memory", "compute", "flips"),
        ask="six operations from an A100 to another chip: memory-bound, compute-bound, or do they flip?",
        reference=_flips, alternatives=(("Memory", "flips", "memory", "compute", "compute-bound", "Flips"),
                                        lambda: list(_flips())),
        slips={
            "a norm flips": (lambda: _flips(norm="flips"),
                "LayerNorm has 1.75 FLOP/B: left of every ridge in the table, that of the vector unit too."),
            "a batch of 180 stays": (lambda: _flips(rows_180="compute"),
                "Its AI is 172, a little less than its rows: right of the A100's 153, left of the H100's 295."),
            "180 rows are few": (lambda: _flips(rows_180="memory"),
                "Its AI is 172, and the A100 80GB SXM has a ridge of 153."),
            "a batch of 100 flips": (lambda: _flips(rows_100="flips"),
                "Its AI is 98: left of 153 already."),
            "squares flip": (lambda: _flips(square="flips"),
                "In two-byte numbers its AI is a third of its side, 683: right of 153 and of 295."),
            "newer chips turn": (lambda: _flips(article="flips"),
                "The H200 has more bandwidth: its ridge is 206, and 292.57 lies right of it."),
            "the ridge of another format": (lambda: _flips(int8="compute"),
                "In int8 the ridge of the H100 is 591, and the AI is 585: take both in the same format."),
            "int8 on the A100": (lambda: _flips(int8="memory"),
                "In int8 the AI is 585, and the A100's ridge is 306."),
        },
        hints=("For each: its AI, and the ridge points of both chips in its format.",
               "rk.datasheet('A100 80GB SXM', 'bfloat16').bound(rk.linear(180, 8192, 8192, 'bfloat16')) answers one.",
               ("AIs: 1.7, 172, 98, 683, 293, 585. Ridge points: A100 153 (306 in int8), H100 295 (591), H200 206.")),
        right="What lies between the two ridge points turns, and nothing else. The H200 shows that the later chip need "
              "not have the higher one.",
    ),
    "08.5": Exercise(
        kind="diagnose", points=2, labels=("chip", "sparse", "format", "sums", "unit", "count"),
        ask="six wrong numbers: what was mixed up in each?",
        reference=_mixed_up, alternatives=(("Sparse", "chip", "Format", "sums", "unit", "count"),
                                           lambda: list(_mixed_up())),
        slips={
            "the H800 is another chip": (lambda: _mixed_up(first="chip"),
                "The H800 has the H100's peak. 1979 is twice 989: what holds for half of the numbers being zero?"),
            "152 percent by sparsity": (lambda: _mixed_up(second="sparse"),
                "312 is a dense rate, that of an A100. Whose peak should it be?"),
            "81 percent by sparsity": (lambda: _mixed_up(third="sparse"),
                "400 / 0.81 is 494. Look through the H100's rates: in which format is that the dense one?"),
            "a training in TF32": (lambda: _mixed_up(third="sums"),
                "400 / 0.81 is 494. A training in BF16 sums in float32 anyway: look through the H100's rates."),
            "81 percent of another chip": (lambda: _mixed_up(third="chip"),
                "400 / 0.81 is 494, and the H100 has such a rate: in which format?"),
            "the 4090's sparse rate": (lambda: _mixed_up(fourth="sparse"),
                "328 is twice the 164 of the table. With float16 sums a GeForce is twice as fast without any zeros."),
            "the 4090's other format": (lambda: _mixed_up(fourth="format"),
                "The products are float16, as the page says. What are they summed in, where CuPy calls cuBLAS?"),
            "the program is wrong about the model": (lambda: _mixed_up(fifth="count"),
                "16e9 bytes over 2**30 is 14.9. Nothing is multiplied there."),
            "another chip for 152 percent": (lambda: _mixed_up(second="format"),
                "312e12 is a rate in BF16. Of which chip?"),
            "16.4 by the sums": (lambda: _mixed_up(sixth="sums"),
                "Nothing is said about precision. 128 * 128 * 1e9 is 16.4e12: of what?"),
            "16.4 by the unit": (lambda: _mixed_up(sixth="unit"),
                "128 * 128 * 1e9 is 16.4e12. What does each multiplier with its adder do in a cycle?"),
        },
        hints=("Lesson 08, 'Traps', has one of each kind.",
               "Divide: which factor lies between the two numbers, and what has that factor? Often it is two.",
               ("1979 / 989; 312 is in the A100's row; 494 in the H100's row of rk.chips('tfloat32'); a GeForce that "
                "sums in float16; 16e9 / 2**30; a multiply and an add.")),
        right="Four of the six are wrong by the same factor of two: the factor alone does not tell which mistake it "
              "was.",
    ),
    "08.6": Exercise(
        kind="predict", points=1, factor=1.6, ask="the smallest square product that is compute-bound in float64 [rows]",
        reference=lambda roof: 12 * roof.ridge,
        alternatives=(lambda roof: 3 * 8 * roof.peak / (2 * roof.bandwidth), lambda roof: 12.4 * roof.ridge),
        slips={
            "the ridge itself": (lambda roof: roof.ridge,
                "That is the ridge, in FLOP/B. What is the AI of a product with that many rows?"),
            "four bytes": (lambda roof: 6 * roof.ridge,
                "A number in float64 has 8 bytes."),
            "a multiply-add as one": (lambda roof: 24 * roof.ridge,
                "A multiply-add is two FLOPs: 2 side**3 of them."),
            "one matrix": (lambda roof: 4 * roof.ridge,
                "Three matrices go through memory: two are read, one is written."),
            "upside down": (lambda roof: 12 / roof.ridge,
                "That divides by the ridge. AI = side / 12 is to be as large as the ridge."),
        },
        hints=("Write the AI of the product as a function of its side.",
               "2 side**3 FLOPs over 3 side**2 numbers of 8 bytes.",
               "side / 12 = here64.ridge."),
        right="In float32 the bytes halve and, where the units keep pace, the ridge doubles: the side stays. So small "
              "a product, though, is over before its call is: there the fixed cost decides.",
    ),
    "08.7": Exercise(
        kind="measure", points=2, cold=True, ask="an addition of n numbers in float32 and in int8, cold",
        reference=lambda n: _additions(n),
        slips={
            "int8 with four bytes": (lambda n: _additions(n, elementwise(n, inputs=2, dtype="float32")),
                "The second work has the bytes of float32: an int8 has one byte, give dtype='int8'."),
            "int8 first": (lambda n: _additions(n)[::-1],
                "The two are in the other order: the run in float32 comes first."),
            "an array forgotten": (lambda n: (Work(n, 8 * n), Work(n, 2 * n)),
                "Two arrays are counted. There are three: two vectors are read, and the result is written."),
            "elements": (lambda n: (Work(n, 3 * n), Work(n, 3 * n)),
                "That counts numbers in both runs: a float32 has four bytes."),
            "two FLOPs": (lambda n: tuple(elementwise(n, inputs=2, flops=2, dtype=dtype)
                                          for dtype in ("float32", "int8")),
                "The bytes are right. An addition is one FLOP a number."),
        },
        hints=("Lesson 08, 'Question', has a function that measures one addition.",
               "rk.elementwise(n, inputs=2, dtype=...) has the work; dev.random(n, dtype=...) the numbers.",
               ("x, y, out = (dev.random(n, dtype=dtype) for _ in range(3)); rk.measure(lambda: xp.add(x, y, out=out), "
                "work=rk.elementwise(n, inputs=2, dtype=dtype), cold=True), for 'float32' and for 'int8'.")),
        right="What is memory-bound in both formats gains what it saves in bytes. Where it gains less, something else "
              "than the bytes has begun to count.",
    ),
}
