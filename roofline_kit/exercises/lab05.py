"""Exercises of lab 05: why does batch 1 waste the machine?"""

import numpy as np

from ..datasheets import datasheet
from ..ops import linear
from ..units import itemsize as bytes_of
from ..work import Work
from . import Exercise

SIDE = 4096                                        # of the layer that 05.5 and 05.6 ask for


def _uses(batch, d_in, d_out, itemsize, x=None, w=None, intensity=None):
    """Uses of a number of X and of W, and the AI; or other values for them."""
    ai = 2 / itemsize / (1 / batch + 1 / d_in + 1 / d_out)
    return x or d_out, w or batch, intensity or ai


def _layer(rng):
    """A machine and a layer that has a critical batch there."""
    thumb, itemsize = 10 ** rng.uniform(0.5, 2.3), [1, 2, 4, 8][int(rng.integers(4))]
    bandwidth = 10 ** rng.uniform(10, 13)
    d_in, d_out = (int(2 ** rng.uniform(10, 15)) for _ in range(2))
    return {"peak": 2 * thumb / itemsize * bandwidth, "bandwidth": bandwidth, "itemsize": itemsize,
            "d_in": d_in, "d_out": d_out}


def _critical(peak, bandwidth, itemsize, d_in, d_out, factor=0.5, sides=None):
    """The exact critical batch; factor: of bytes times ridge; sides: other than 1/d_in + 1/d_out."""
    sides = 1 / d_in + 1 / d_out if sides is None else sides
    return 1 / (bandwidth / (factor * itemsize * peak) - sides)


def _seconds(peak, bandwidth, launch, flops, nbytes, launches, together=max, over=sum):
    """The time of a load; together: of memory and arithmetic, their maximum or sum; over: of that and the launches."""
    return over((together((flops / peak, nbytes / bandwidth)), launches * launch))


def _shares(peak, bandwidth, launch, side, width, b=2, launches=(1, 3), together=max, over=sum):
    """Shares of the peak of a square product and of three layers at batch 1."""
    loads = ((2 * side**3, b * 3 * side**2, launches[0]),
             (6 * width**2, 3 * b * (width**2 + 2 * width), launches[1]))
    return tuple(flops / peak / _seconds(peak, bandwidth, launch, flops, nbytes, calls, together, over)
                 for flops, nbytes, calls in loads)


def _beside(peak, bandwidth, weight, d_in, d_out, number=2):
    """What the critical batch is, beside the 322 of the layer of 4096 x 28672 on an H100 SXM.

    weight, number: bytes of a weight, of a number of X and Y
    """
    h100 = datasheet("H100 SXM", "bfloat16")
    before = _critical(h100.peak, h100.bandwidth, 2, 4096, 28672)
    left = 2 / peak - number * (1 / d_in + 1 / d_out) / bandwidth        # seconds that a row of arithmetic is longer
    if left <= 0:
        return "none"
    after = weight / bandwidth / left
    return "same" if abs(after / before - 1) < 0.01 else "higher" if after > before else "lower"


def _moved(**changed):
    """The labels of 05.4, counted; changed: another label for one of them."""
    chips = {"h100": ("H100 SXM", "bfloat16"), "h200": ("H200 SXM", "bfloat16"), "small": ("H100 SXM", "int8")}
    h100, h200, small = ((chip.peak, chip.bandwidth) for chip in (datasheet(*one) for one in chips.values()))
    labels = {"other_chip": _beside(*h200, 2, 4096, 28672), "stored_small": _beside(*h100, 1, 4096, 28672),
              "all_small": _beside(*small, 1, 4096, 28672, number=1), "narrow": _beside(*h100, 2, 4096, 1024),
              "tiny": _beside(*h100, 2, 512, 512)}
    return tuple((labels | changed).values())


def _row(roof):
    """How many rows' arithmetic fits into the time of the weights, by the kit's times."""
    times = roof.times(linear(1, SIDE, SIDE, roof.dtype))
    return times.memory / times.compute


def _thumb(roof):
    return roof.ridge * bytes_of(roof.dtype) / 2


def _pair(batch, itemsize, flops=None, elements=None):
    """The Works of one row and of a batch through the layer, or with other counts for the batch."""
    def work(rows):
        count = elements(rows) if elements else rows * SIDE + SIDE * SIDE + rows * SIDE
        return Work(flops(rows) if flops else 2 * rows * SIDE * SIDE, itemsize * count)

    return work(1), work(batch)


def _few(rng):
    """Odd sizes, small ones too, and an output full of NaN."""
    m, n, b = (int(rng.integers(low, high)) for low, high in ((1, 60), (41, 300), (2, 14)))
    return {"w": rng.standard_normal((m, n)), "x": rng.standard_normal((b, n)), "out": np.full((b, m), np.nan)}


def _eight(rng):
    return {"w": rng.standard_normal((SIDE, SIDE)), "x": rng.standard_normal((8, SIDE)),
            "out": np.full((8, SIDE), np.nan)}


EXERCISES = {
    "05.1": Exercise(
        kind="derive", points=2, names=("uses of X", "uses of W", "AI"),
        ask="uses(batch, d_in, d_out, itemsize): uses of a number of X, of a weight, and the AI",
        inputs={"batch": (1, 4096), "d_in": (16, 8192), "d_out": (16, 8192), "itemsize": [1, 2, 4, 8]},
        reference=lambda batch, d_in, d_out, itemsize: _uses(batch, d_in, d_out, itemsize),
        alternatives=(lambda batch, k, n, b: (n, batch, 2 * batch * n * k / (b * (batch * k + k * n + batch * n))),
                      lambda batch, k, n, b: [batch * k * n / (batch * k), batch * k * n / (k * n),
                                              linear(batch, k, n).intensity * 4 / b]),
        slips={
            "the two swapped": (lambda batch, d_in, d_out, itemsize: _uses(
                    batch, d_in, d_out, itemsize, batch, d_out),
                "Those two are the wrong way round: a number of X meets every output, a weight every row."),
            "the length of a dot product": (lambda batch, d_in, d_out, itemsize: _uses(
                    batch, d_in, d_out, itemsize, d_in),
                "d_in is how many multiply-adds each result collects. A number of X meets all columns of W."),
            "FLOPs, not uses": (lambda batch, d_in, d_out, itemsize: _uses(
                    batch, d_in, d_out, itemsize, 2 * d_out, 2 * batch),
                "Those are FLOPs. A multiply-add is two FLOPs, but it uses each of its numbers once."),
            "AI is the batch": (lambda batch, d_in, d_out, itemsize: _uses(
                    batch, d_in, d_out, itemsize, intensity=2 * batch / itemsize),
                "The uses are right. That AI counts the weights only; X is read and Y written as well."),
            "result forgotten": (lambda batch, d_in, d_out, itemsize: _uses(
                    batch, d_in, d_out, itemsize, intensity=2 / itemsize / (1 / batch + 1 / d_out)),
                "The uses are right. In the AI, Y is forgotten: it has to be written too."),
            "a multiply-add as one": (lambda batch, d_in, d_out, itemsize: _uses(
                    batch, d_in, d_out, itemsize,
                    intensity=1 / itemsize / (1 / batch + 1 / d_in + 1 / d_out)),
                "The uses are right. In the AI, a multiply-add counts as two FLOPs."),
        },
        hints=("Lesson 05, 'Derive', how often each number is used: X is the A of the product, W its B.",
               ("Each row of X meets all d_out columns of W, each column all `batch` rows. For the AI, what does a "
                "multiply-add pay of each of the three arrays?"),
               "d_out, batch, and (2 / itemsize) / (1/batch + 1/d_in + 1/d_out)."),
        right="The batch is the only one of the three counts that is chosen at run time, and it is the weights' own.",
    ),
    "05.2": Exercise(
        kind="derive", points=2, ask="critical(peak, bandwidth, itemsize, d_in, d_out): rows at the ridge, exactly",
        inputs=_layer,
        reference=lambda peak, bandwidth, itemsize, d_in, d_out: _critical(peak, bandwidth, itemsize, d_in, d_out),
        alternatives=(
            lambda peak, bandwidth, b, k, n: b * peak * k * n / (2 * bandwidth * k * n - b * peak * (k + n)),
            lambda peak, bandwidth, b, k, n: k * n * b / bandwidth / (2 * k * n / peak - b * (k + n) / bandwidth)),
        slips={
            "rule of thumb": (lambda peak, bandwidth, itemsize, d_in, d_out: _critical(
                    peak, bandwidth, itemsize, d_in, d_out, sides=0),
                "That is the rule of thumb: it leaves out the bytes of X and Y, which grow with the batch."),
            "the ridge itself": (lambda peak, bandwidth, itemsize, d_in, d_out: peak / bandwidth,
                "That is the ridge, in FLOP/B. A batch is in rows: how many bytes has a number?"),
            "the exact one at the ridge": (lambda peak, bandwidth, itemsize, d_in, d_out: _critical(
                    peak, bandwidth, 2, d_in, d_out),
                "That holds for two-byte numbers only; the bytes of a number belong into it."),
            "a multiply-add as one": (lambda peak, bandwidth, itemsize, d_in, d_out: _critical(
                    peak, bandwidth, itemsize, d_in, d_out, factor=1),
                "A multiply-add is two FLOPs: take half of the bytes times the ridge."),
            "sides added": (lambda peak, bandwidth, itemsize, d_in, d_out: _critical(
                    peak, bandwidth, itemsize, d_in, d_out, sides=-(1 / d_in + 1 / d_out)),
                "The sign of 1/d_in and 1/d_out is wrong: X and Y add traffic, so more rows are needed, not fewer."),
            "X forgotten": (lambda peak, bandwidth, itemsize, d_in, d_out: _critical(
                    peak, bandwidth, itemsize, d_in, d_out, sides=1 / d_in),
                "One of the two arrays that grow with the batch is forgotten: 1/d_out is the share of X."),
            "Y forgotten": (lambda peak, bandwidth, itemsize, d_in, d_out: _critical(
                    peak, bandwidth, itemsize, d_in, d_out, sides=1 / d_out),
                "One of the two arrays that grow with the batch is forgotten: 1/d_in is the share of Y."),
            "upside down": (lambda peak, bandwidth, itemsize, d_in, d_out: 1 / _critical(
                    peak, bandwidth, itemsize, d_in, d_out),
                "That is 1 / batch: turn it over."),
        },
        hints=("Lesson 05, 'The critical batch'. Which two times are equal there?",
               ("AI = ridge, with AI = (2/itemsize) / (1/batch + 1/d_in + 1/d_out) and ridge = peak / bandwidth. "
                "Solve for batch."),
               ("1/batch = 2*bandwidth/(itemsize*peak) - 1/d_in - 1/d_out: compute the right side and turn it "
                "over.")),
        right="Large layers turn at half the bytes times the ridge. The smaller the layer, the later: X and Y take "
              "traffic that more rows do not save.",
    ),
    "05.3": Exercise(
        kind="derive", points=2, tolerance=0.01, names=("large product", "small model"),
        ask="shares(peak, bandwidth, launch, side, width): shares of the peak of a square product and a small model",
        inputs={"peak": (1e14, 2e15), "bandwidth": (1e12, 8e12), "launch": (1e-6, 1e-5), "side": (1024, 16384),
                "width": (64, 1024)},
        reference=lambda peak, bandwidth, launch, side, width: _shares(peak, bandwidth, launch, side, width),
        alternatives=(
            lambda p, bw, t, s, w: (1 / (max(1, 3 * p / (s * bw)) + t * p / (2 * s**3)),
                                    6 * w * w / p / (max(6 * w * w / p, 6 * w * (w + 2) / bw) + 3 * t)),
            lambda p, bw, t, s, w: [2 * s**3 / p / (max(2 * s**3 / p, 6 * s * s / bw) + t),
                                    2 * w * w / p / (max(2 * w * w / p, 2 * w * w / bw) + t)]),
        slips={
            "launches forgotten": (lambda peak, bandwidth, launch, side, width: _shares(
                    peak, bandwidth, launch, side, width, launches=(0, 0)),
                "The launches are missing: one for the product, three for the model, on top of the longer time."),
            "launches overlap": (lambda peak, bandwidth, launch, side, width: _shares(
                    peak, bandwidth, launch, side, width, over=max),
                "The launches come on top of the longer time, they do not overlap with it: add them."),
            "one launch for the model": (lambda peak, bandwidth, launch, side, width: _shares(
                    peak, bandwidth, launch, side, width, launches=(1, 1)),
                "The large product is right. The model has three layers, and each is a launch of its own."),
            "memory and arithmetic added": (lambda peak, bandwidth, launch, side, width: _shares(
                    peak, bandwidth, launch, side, width, together=sum),
                "Memory and arithmetic go on at the same time: take the longer one, not their sum."),
            "percent": (lambda peak, bandwidth, launch, side, width: tuple(
                    100 * share for share in _shares(peak, bandwidth, launch, side, width)),
                "Those are percent: shares from 0 to 1 are asked."),
            "memory forgotten": (lambda peak, bandwidth, launch, side, width: _shares(
                    peak, bandwidth, launch, side, width, b=0),
                "That leaves the memory out: at batch 1 the weights take far longer than the arithmetic."),
            "four bytes": (lambda peak, bandwidth, launch, side, width: _shares(
                    peak, bandwidth, launch, side, width, b=4),
                "That counts four bytes a number; they are two-byte numbers."),
            "a multiply-add as one": (lambda peak, bandwidth, launch, side, width: _shares(
                    2 * peak, bandwidth, launch, side, width),
                "That counts a multiply-add as one FLOP: it is two."),
        },
        hints=("For each of the two: FLOPs, bytes, launches. What is its time, and what would it be at the peak?",
               ("Product: 2*side**3 FLOPs, 2*3*side**2 bytes, 1 launch. Model: 3 layers of 2*width**2 FLOPs and "
                "about 2*width**2 bytes, 3 launches."),
               "share = (flops / peak) / (max(flops / peak, nbytes / bandwidth) + launches * launch), for each."),
        right="A large product fills the machine, as each number is used thousands of times. The small model has one "
              "use for each weight and three launches: faster units would not help it at all.",
    ),
    "05.4": Exercise(
        kind="diagnose", points=2, labels=("lower", "same", "higher", "none"),
        ask="the critical batch with another chip, small weights, all small, a narrow and a tiny layer",
        reference=_moved,
        alternatives=(("lower", "lower", "Same", "higher", "none"), lambda: list(_moved())),
        slips={
            "more bandwidth, more rows": (lambda: _moved(other_chip="higher"),
                "With more bandwidth the weights are there sooner, so fewer rows fill the time: 219 on the H200."),
            "an H200 is an H100": (lambda: _moved(other_chip="same"),
                "The H200 has the H100's arithmetic, but more bandwidth, and so a lower ridge."),
            "small weights change nothing": (lambda: _moved(stored_small="same"),
                "The weights take half the time to fetch, the arithmetic takes as long as before."),
            "all small is half": (lambda: _moved(all_small="lower"),
                "The bytes halve, but the arithmetic gets twice as fast: in bytes times ridge both cancel."),
            "all small is twice": (lambda: _moved(all_small="higher"),
                "The ridge doubles, but a number has half the bytes: in bytes times ridge both cancel."),
            "the layer does not matter": (lambda: _moved(narrow="same"),
                "Compute 1/295.3 - 1/4096 - 1/1024: in a narrow layer X takes more traffic, 1/d_out of it."),
            "a small layer needs less": (lambda: _moved(narrow="lower"),
                "The smaller the layer, the more X and Y count beside it, and the more rows it takes."),
            "tiny needs more": (lambda: _moved(tiny="higher"),
                "Its AI has a limit, 1/(1/512 + 1/512) = 256. Does any batch reach the ridge?"),
            "tiny needs less": (lambda: _moved(tiny="lower"),
                "Few weights are fetched soon, but look at the limit of its AI: 256, with a ridge of 295."),
        },
        hints=("Lesson 05, 'The critical batch': 1/batch = 1/beta - 1/d_in - 1/d_out. What happens to each term?",
               ("beta is half the bytes of a number times the ridge. rk.datasheet('H200 SXM', 'bfloat16').ridge "
                "and rk.datasheet('H100 SXM', 'int8').ridge give two of the ridges."),
               ("The five batches: 219; about half of 322; 322; about 460; and 1/295.3 - 2/512 is negative.")),
        right="More bandwidth and smaller weights lower it, smaller layers raise it until there is none, and a format "
              "that is small throughout leaves it where it is.",
    ),
    "05.5": Exercise(
        kind="predict", factor=1.5, ask="rows at which a layer of 4096 x 4096 turns from flat to linear here",
        reference=lambda roof: {_row(roof), _thumb(roof)},
        alternatives=(_thumb, _row, lambda roof: 1 / (1 / _thumb(roof) - 2 / SIDE)),
        slips={
            "a multiply-add as one": (lambda roof: 2 * _thumb(roof),
                "That is bytes times ridge: a multiply-add is two FLOPs, so take half of it."),
            "upside down": (lambda roof: 1 / _thumb(roof),
                "That is less than one row: divide the arithmetic rate by the bandwidth, not the other way round."),
            "seconds": (lambda roof: roof.times(linear(1, SIDE, SIDE, roof.dtype)).memory,
                "That is the time of the weights in seconds; a number of rows is asked."),
        },
        hints=("Lesson 05, 'Predict'. `here` has a ridge, and here.times(work) has the times of one row.",
               "How many rows' arithmetic fits into the time that the weights take?",
               ("here.ridge * rk.itemsize(dev.dtype) / 2. Or here.times(rk.linear(1, 4096, 4096, dev.dtype)), its "
                "memory over its compute.")),
        right="Up to there further rows are nearly free. The two ways to get it differ where reading alone is slower "
              "than the best mix of reads and writes.",
        then="05.6 measures one batch on each side.",
    ),
    "05.6": Exercise(
        kind="measure", points=2, cold=True, ask="one row and `batch` rows through a layer of 4096 x 4096, cold",
        reference=lambda batch, itemsize: _pair(batch, itemsize),
        slips={
            "the weights for each row": (lambda batch, itemsize: _pair(
                    batch, itemsize, elements=lambda rows: rows * (SIDE * SIDE + 2 * SIDE)),
                "That fetches the weights anew for each row; in one product they are read once for all rows."),
            "the weights alone": (lambda batch, itemsize: _pair(batch, itemsize, elements=lambda rows: SIDE * SIDE),
                "Those are the bytes of the weights; X is read and Y is written, too."),
            "result forgotten": (lambda batch, itemsize: _pair(
                    batch, itemsize, elements=lambda rows: SIDE * SIDE + rows * SIDE),
                "The weights and X are counted, but Y has to be written too."),
            "one row's FLOPs": (lambda batch, itemsize: _pair(batch, itemsize, flops=lambda rows: 2 * SIDE * SIDE),
                "The FLOPs of both runs are those of one row: they grow with the batch."),
            "a multiply-add as one": (lambda batch, itemsize: _pair(
                    batch, itemsize, flops=lambda rows: rows * SIDE * SIDE),
                "The bytes are right. A multiply and an add are two FLOPs."),
        },
        hints=("Lesson 05, 'Measure', has a function `sweep` that does it for a list of batches, hot.",
               "rk.linear(rows, 4096, 4096, dev.dtype) has the counts; cold=True makes the weights come from memory.",
               ("X, Y = dev.random(rows, 4096), dev.random(rows, 4096); rk.measure(lambda: xp.matmul(X, W, out=Y), "
                "work=rk.linear(rows, 4096, 4096, dev.dtype), cold=True), for rows = 1 and rows = batch.")),
        right="Two points on either side of the knee: the first shows the bandwidth, the second the arithmetic rate.",
    ),
    "05.7": Exercise(
        kind="build", points=3, out="out", least=0.13,
        ask="few_rows(w, x, out): a product for a few rows that fetches each weight once",
        inputs=_few,
        reference=lambda w, x: x @ w.T,
        alternatives=(lambda w, x, out: np.matmul(x, w.T, out=out),
                      lambda w, x, out: out.__setitem__(..., np.einsum("ij,rj->ri", w, x))),
        slips={
            "the first row for all": (lambda w, x: np.repeat(x[:1] @ w.T, len(x), axis=0),
                "All rows of out are those of x[0]: is the row of x used inside the loop over rows?"),
            "the last row for all": (lambda w, x: np.repeat(x[-1:] @ w.T, len(x), axis=0),
                "All rows of out are those of the last row of x: each row needs a sum of its own."),
            "the sum never starts anew": (lambda w, x: np.cumsum(x @ w.T, axis=0),
                "Each row of out holds the rows before it as well: set the sum to 0 for each row of x."),
            "sums run on along w": (lambda w, x: np.cumsum(x @ w.T, axis=1),
                "Each result holds those of the rows of w before it: set the sum to 0 for each row of w."),
            "stops at a multiple of four": (
                lambda w, x: x[:, :x.shape[1] // 4 * 4] @ w[:, :x.shape[1] // 4 * 4].T,
                "The sums stop at a multiple of four: the last few terms of each row are missing."),
            "last term left out": (lambda w, x: x[:, :-1] @ w[:, :-1].T,
                "The last term of each sum is missing: does the inner loop end one too early?"),
        },
        work=lambda w, x: linear(len(x), w.shape[1], w.shape[0]), big=_eight,
        hints=("In the given program the loop over the rows of x is the outer one. What would change if it were not?",
               ("for i in prange(len(w)): for r in range(len(x)): .. Then a row of w comes from memory once, and "
                "from a cache for all further rows of x."),
               ("Two rows of w and two of x at a time, w0, w1 and x0, x1, with four sums in the inner loop: "
                "s00 += w0[j] * x0[j], s01 += w0[j] * x1[j], and so on. With odd sizes the partner of the last row "
                "may be that row itself: min(i + 1, len(w) - 1). CUDA C++: outside, a loop over r in steps of 8; in it "
                "float sum[8] = {}, the loop over j, and inside that sum[q] += .. for each q < 8 with r + q < b.")),
        right="Memory sees each weight once, whatever the number of rows. That is what a batch is for, and a program "
              "has to take advantage of it.",
    ),
}
