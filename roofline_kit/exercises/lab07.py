"""Exercises of lab 07: where is the roof?"""

import math

import numpy as np

from ..datasheets import datasheet
from ..ops import dot, elementwise, gemm, softmax
from ..work import Work
from . import Exercise

POINTS, CHANNELS = 16 * 56 * 56, 256
CONVOLUTION = Work(2 * POINTS * CHANNELS * 9 * CHANNELS, 2 * (2 * POINTS * CHANNELS + 9 * CHANNELS**2),
                   dtype="bfloat16", unit="matrix")


def _bounds(flops, nbytes, peak, bandwidth):
    """Attainable rate, least time, time without overlap."""
    memory, compute = nbytes / bandwidth, flops / peak
    return flops / max(memory, compute), max(memory, compute), memory + compute


def _gains(intensity, ridge):
    """What half the bytes and half the FLOPs gain, by max(memory, compute)."""
    ratio = intensity / ridge                              # compute over memory time
    before = max(1, ratio)
    return before / max(0.5, ratio), before / max(1, ratio / 2)


def _near_the_ridge(rng):
    """Intensities on both sides, half of them so near to the ridge that a gain ends there."""
    ridge = math.exp(rng.uniform(math.log(5), math.log(500)))
    return {"intensity": ridge * math.exp(rng.uniform(-1.3, 1.3)), "ridge": ridge}


def _helpful(work, chip):
    """Which half gains 1.15 or more there."""
    sheet = datasheet(chip, "bfloat16")
    of_bytes, of_flops = _gains(work.intensity, sheet.rate(work.unit) / sheet.bandwidth)
    return "bytes" if of_bytes >= 1.15 else "FLOPs" if of_flops >= 1.15 else "neither"


def _fixes(**changed):
    """The labels of 07.3, counted; changed: another label for one of them."""
    labels = {"softmax": _helpful(softmax(4096, 4096, "bfloat16"), "H100 SXM"),
              "convolution": _helpful(CONVOLUTION, "H100 SXM")}
    article = gemm(1024, 2048, 512, "bfloat16")
    for chip in ("A100 80GB SXM", "H100 SXM", "H200 SXM", "B200"):
        labels[chip[:4].lower()] = _helpful(article, chip)
    return tuple((labels | changed).values())


def _mistakes(**changed):
    return tuple(({"first": "roof", "second": "clock", "third": "count"} | changed).values())


def _times(roof):
    return roof.times(elementwise(2**22, inputs=1, flops=2, dtype="float64", in_place=True))


def _bend(roof):
    memory, compute, _ = _times(roof)
    return memory / compute


def _points(rng, n=None, m=None):
    """Places between -1 and 1, coefficients of order 1, and an output full of NaN."""
    n, m = n or int(rng.integers(5, 2000)), m or int(rng.integers(4, 24))
    return {"x": rng.uniform(-1, 1, n), "coefficients": rng.standard_normal(m), "out": np.full(n, np.nan)}


def _step_by_step(x, coefficients, out):
    """Right, and in so many passes too slow: the checks of numbers do not see that."""
    out[...] = coefficients[0]
    for one in coefficients[1:]:
        np.multiply(out, x, out=out)
        np.add(out, one, out=out)


EXERCISES = {
    "07.1": Exercise(
        kind="derive", points=2, names=("attainable", "least", "most"),
        ask="roofline(flops, nbytes, peak, bandwidth): attainable rate, least time, time without overlap",
        inputs={"flops": (1e8, 1e12), "nbytes": (1e7, 1e10), "peak": (1e11, 1e14), "bandwidth": (1e10, 1e13)},
        reference=_bounds,
        alternatives=(
            lambda flops, nbytes, peak, bandwidth: (
                min(peak, bandwidth * flops / nbytes), max(flops / peak, nbytes / bandwidth),
                flops / peak + nbytes / bandwidth),
            lambda f, b, p, w: [min(p, w * (f / b)), f / min(p, w * (f / b)), b / w + f / p]),
        slips={
            "the better of the two": (lambda flops, nbytes, peak, bandwidth: (
                    max(peak, bandwidth * flops / nbytes), min(flops / peak, nbytes / bandwidth),
                    flops / peak + nbytes / bandwidth),
                "Both limits hold at once, so the lower rate and the longer time are the ones that count."),
            "the higher rate": (lambda flops, nbytes, peak, bandwidth: (
                    max(peak, bandwidth * flops / nbytes), *_bounds(flops, nbytes, peak, bandwidth)[1:]),
                "The times are right. Of the two rates the lower one is attainable: both limits hold at once."),
            "always the slope": (lambda flops, nbytes, peak, bandwidth: (
                    bandwidth * flops / nbytes, nbytes / bandwidth, flops / peak + nbytes / bandwidth),
                "That is the slope alone: right of the ridge the peak is lower."),
            "always the peak": (lambda flops, nbytes, peak, bandwidth: (
                    peak, flops / peak, flops / peak + nbytes / bandwidth),
                "That is the flat part alone: left of the ridge bandwidth x AI is lower."),
            "no overlap twice": (lambda flops, nbytes, peak, bandwidth: (
                    flops / (flops / peak + nbytes / bandwidth), flops / peak + nbytes / bandwidth,
                    flops / peak + nbytes / bandwidth),
                "The least time is that of perfect overlap: the longer of the two times, not their sum."),
            "twice the least": (lambda flops, nbytes, peak, bandwidth: (
                    *_bounds(flops, nbytes, peak, bandwidth)[:2], 2 * _bounds(flops, nbytes, peak, bandwidth)[1]),
                "Twice the longer time is the most that the sum can be; the sum itself is asked."),
            "bytes over FLOPs": (lambda flops, nbytes, peak, bandwidth: (
                    min(peak, bandwidth * nbytes / flops), *_bounds(flops, nbytes, peak, bandwidth)[1:]),
                "The times are right. AI is FLOPs over bytes; in the rate it stands upside down."),
        },
        hints=("Lesson 07, 'Derive', has all three in its first two formulas.",
               "Work out two times first, that of the bytes and that of the FLOPs.",
               ("memory = nbytes / bandwidth, compute = flops / peak. Attainable: flops / max of the two; least: the "
                "max; most: the sum.")),
        right="Of the operation only its AI matters to the rate, and the two bounds are never more than a factor of "
              "two apart. A program that misses the roof by more has another reason.",
    ),
    "07.2": Exercise(
        kind="derive", points=2, names=("half the bytes", "half the FLOPs"),
        ask="gains(intensity, ridge): old time over new time for half the bytes, and for half the FLOPs",
        inputs=_near_the_ridge,
        reference=_gains,
        alternatives=(
            lambda intensity, ridge: (max(1, min(2, ridge / intensity)), max(1, min(2, intensity / ridge))),
            lambda i, r: [max(1 / r, 1 / i) / max(1 / r, 0.5 / i), max(1 / r, 1 / i) / max(0.5 / r, 1 / i)]),
        slips={
            "two or nothing": (lambda intensity, ridge: (2, 1) if intensity < ridge else (1, 2),
                "Right far from the ridge. Near it the other time takes over before the gain is two."),
            "always two": (lambda intensity, ridge: (2, 2),
                "Only the longer of the two times matters: halving the shorter one gains nothing."),
            "swapped": (lambda intensity, ridge: _gains(intensity, ridge)[::-1],
                "The two are swapped: left of the ridge, with a low AI, it is the bytes that help."),
            "as if nothing overlapped": (lambda intensity, ridge: (
                    (ridge + intensity) / (ridge / 2 + intensity), (ridge + intensity) / (ridge + intensity / 2)),
                "Those are ratios of sums. By the roofline the longer of the two times is the time."),
            "new over old": (lambda intensity, ridge: tuple(1 / gain for gain in _gains(intensity, ridge)),
                "That is new time over old; a gain is old time over new, 1 or more."),
        },
        hints=("Give the memory time the value 1. What is the time of the arithmetic then?",
               ("It is AI over ridge. Before the fix the time is the larger of the two; halve one of them and "
                "look again."),
               ("ratio = intensity / ridge. Half the bytes: max(1, ratio) / max(0.5, ratio). Half the FLOPs: "
                "max(1, ratio) / max(1, ratio / 2).")),
        right="The wrong half gains exactly nothing, the right half at most two, and less near the ridge, where the "
              "other side takes over.",
    ),
    "07.3": Exercise(
        kind="diagnose", points=2, labels=("bytes", "FLOPs", "neither"),
        ask="which half to save: a softmax and a convolution on an H100, the article's product on four chips",
        reference=_fixes,
        alternatives=(("Bytes", "FLOPs", "FLOPs", "neither", "FLOPs", "neither"), lambda: list(_fixes())),
        slips={
            "an exp is much arithmetic": (lambda: _fixes(softmax="FLOPs"),
                "A softmax in one kernel does 5 FLOPs for 4 bytes: an AI of 1.25, far left of any ridge."),
            "large pictures are many bytes": (lambda: _fixes(convolution="bytes"),
                "Each number of the convolution is used many times: an AI of 1126, far right of 295."),
            "left of the ridge is left of the ridge": (lambda: _fixes(h100="bytes"),
                "It is memory-bound there by one percent: half the bytes gain 1.01, then arithmetic takes over."),
            "right of the ridge on the B200": (lambda: _fixes(b200="FLOPs"),
                "292.57 is 1.04 times 281: half the FLOPs gain 4 percent, then memory takes over."),
            "the H200 is no better": (lambda: _fixes(h200="neither"),
                "The H200's ridge is 206, so half the FLOPs gain 292.57 / 206 = 1.42 before memory takes over."),
            "products are compute-bound": (lambda: _fixes(h100="FLOPs", b200="FLOPs"),
                "On the H100 and the B200 it sits on the ridge: divide 292.57 by 295.3 and by 281."),
        },
        hints=("07.2 has the two gains for any AI and ridge. From 1.15 on a fix is worth it here.",
               ("The AIs are 1.25, 1126 and 292.57. The ridges of A100 80GB, H100, H200 and B200 are 153, 295, 206 and "
                "281. Where do the two differ by less than 15 percent?"),
               ("Softmax bytes, convolution FLOPs; on two of the four chips the product is within 5 percent of "
                "the ridge.")),
        right="A shape on the ridge has no cheap fix: both times have to shrink. The same product on an A100 wants "
              "fewer or faster FLOPs. Ask the chip before you optimise.",
    ),
    "07.4": Exercise(
        kind="diagnose", points=1, labels=("count", "roof", "clock"),
        ask="three runs above their roof: is the count wrong, the roof, or the clock?",
        reference=_mistakes,
        alternatives=(("Roof", "Clock", "Count"), lambda: list(_mistakes())),
        slips={
            "the cached array is miscounted": (lambda: _mistakes(first="count"),
                ("Two passes are what the call makes. But after the first call they do not go to main memory: the "
                "bandwidth is that of a cache.")),
            "the cached array is mistimed": (lambda: _mistakes(first="clock"),
                "The clock is right: the call does take that long. It is held against the bandwidth of main memory."),
            "the product is miscounted": (lambda: _mistakes(second="count"),
                "2mnk is right. But the second perf_counter runs when the GPU has only been told what to do."),
            "the GPU's roof is wrong": (lambda: _mistakes(second="roof"),
                "The roof is the right one. But who waits for the GPU between the two clock readings?"),
            "the halves are mistimed": (lambda: _mistakes(third="clock"),
                "measure waits and repeats. How many bytes has a float16 number?"),
            "the halves have another roof": (lambda: _mistakes(third="roof"),
                "Main memory it is, and cold. How many bytes has a float16 number, and how many were counted?"),
        },
        hints=("Each is one of the three of lesson 07, 'Points above the roof'.",
               "Ask three things: where are the data at the second call, who waits, how long is a number?",
               "A megabyte stays in a cache; a GPU returns at once; float16 has two bytes."),
        right="Above the roof means that one belief is wrong. Change one thing at a time and see which.",
    ),
    "07.5": Exercise(
        kind="predict", points=1, factor=1.6, ask="the bend of the dial in float64 [multiply-adds a number]",
        reference=_bend,
        alternatives=(lambda roof: 16 / roof.bandwidth_for(Work(0, 16, written=8, rewritten=8)) * roof.rate("vector")
                      / 2,),
        slips={
            "AI for multiply-adds": (lambda roof: _bend(roof) / 8,
                ("That is the AI at the bend. Each multiply-add is 2 FLOPs for the 16 bytes of a number: eight times "
                "as many.")),
            "bytes of float32": (lambda roof: _bend(roof) / 2,
                "A float64 number has 8 bytes and is read and written: 16 bytes."),
            "one FLOP each": (lambda roof: _bend(roof) * 2,
                "A multiply-add is two FLOPs."),
            "upside down": (lambda roof: 1 / _bend(roof),
                "That is the compute time of one multiply-add over the memory time: turn it over."),
        },
        hints=("Lesson 07, 'Predict', does it for float32.",
               ("The bytes of a number take as long as that many multiply-adds. Which unit, which number format, how "
                "many bytes?"),
               ("work = rk.elementwise(n, inputs=1, flops=2, dtype='float64', in_place=True); then take "
                "here64.times(work) and divide memory by compute.")),
        right="Twice the bytes and, where the vector registers hold half as many numbers, half the rate: the bend "
              "stays where it was in float32. Where float64 units are few, it moves to the left.",
        then="Now turn the dial on a float64 array, on both sides of your bend.",
    ),
    "07.6": Exercise(
        kind="measure", points=2, cold=True,
        ask="the same call, timed cold, with the bytes that it does move",
        reference=lambda n: Work(2 * n, 4 * n),
        slips={
            "two arrays": (lambda n: dot(n, "float32"),
                "Those are the bytes of two vectors. Which two arrays does this call read?"),
            "fewer FLOPs": (lambda n: Work(n, 4 * n),
                "The bytes are right. The arithmetic is the same as ever: a multiply and an add for each number."),
            "elements": (lambda n: Work(2 * n, n),
                "That counts numbers: each of them has 4 bytes."),
            "nothing to move": (lambda n: Work(2 * n, 0),
                "It is cold: x has to come from memory once."),
        },
        hints=("Which of count, roof and clock can be checked by reading the call?",
               "Both arguments are the same array. How often does a number of it have to come from memory?",
               "rk.Work(flops=2 * n, nbytes=4 * n), and measure with it, cold=True."),
        right="Counted right, the AI is 1/2, not 1/4: the point moves to the right and lies under the roof again. "
              "Nothing got slower.",
    ),
    "07.7": Exercise(
        kind="build", points=3, out="out", least=0.05,
        ask="polynomial(x, coefficients, out) that passes over x once",
        inputs=_points,
        reference=lambda x, coefficients: np.polyval(coefficients, x),
        alternatives=(
            lambda x, coefficients, out: out.__setitem__(..., np.polyval(coefficients, x)),
            _step_by_step),
        slips={
            "the wrong way round": (lambda x, coefficients: np.polyval(coefficients[::-1], x),
                "coefficients[0] belongs to the highest power: start with it."),
            "the last one left out": (lambda x, coefficients: np.polyval(coefficients[:-1], x),
                "The last coefficient is not added: there is one step for each but the first."),
            "the last one multiplied": (lambda x, coefficients: np.polyval(coefficients, x) * x,
                "One multiplication too many: the last coefficient is added and not multiplied by x."),
            "the first one left out": (lambda x, coefficients: np.polyval(coefficients[1:], x),
                "The first coefficient is missing: the result starts from it, not from 0."),
        },
        work=lambda x, coefficients: Work(2 * (len(coefficients) - 1) * x.size, 8 * x.size, written=4 * x.size),
        big=lambda rng: _points(rng, 2**23, 17),
        hints=(("All steps for one number need nothing but that number and the coefficients. How many passes over x "
                "does it take, then?"),
               ("CPU: a prange over pieces of 256 numbers; inside it a loop over the coefficients, and innermost a "
                "loop over the piece, as in dial. GPU: an ElementwiseKernel with 'raw T a, int32 m' among its inputs "
                "and a for loop in it."),
               ("For each piece: out[i] = a[0]; then for each further coefficient, for all i of the piece, out[i] = "
                "out[i] * x[i] + a. The last piece may be shorter: min(start + 256, x.size).")),
        right="The same FLOPs with a small part of the bytes: the point has moved from far left of the ridge to near "
              "it or beyond. From there on only the arithmetic counts, vector instructions above all.",
    ),
}
