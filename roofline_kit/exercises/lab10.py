"""Exercises of lab 10: why fuse?"""

import math
from dataclasses import replace

import numpy as np

from ..datasheets import datasheet
from ..ops import attention, elementwise, flash_attention, gemm, layernorm, softmax
from ..units import itemsize as bytes_of
from ..work import Work, fused
from . import Exercise
from .sources import Cuda

THREADS = 128                                      # of a block in CUDA C++
LABELS = ("bytes", "launches", "nothing")

WARP_LOSS = """
extern "C" __global__ void loss(const float *x, const int *target, float *out, int width) {
    if (threadIdx.x >= 32) return;
    const float *row = x + (size_t)blockIdx.x * width;
    float most = -3e38f, sum = 0;
    for (int i = threadIdx.x; i < width; i += 32) {
        float v = row[i];
        if (v > most) { sum *= expf(most - v); most = v; }
        sum += expf(v - most);
    }
    for (int step = 16; step; step /= 2) {
        float other = __shfl_xor_sync(0xffffffff, most, step), its = __shfl_xor_sync(0xffffffff, sum, step);
        float larger = fmaxf(most, other);
        sum = sum * expf(most - larger) + its * expf(other - larger);
        most = larger;
    }
    if (threadIdx.x == 0) out[blockIdx.x] = most + logf(sum) - row[target[blockIdx.x]];
}
"""

ELEMENT = """
extern "C" __global__ void chain(const float *x, const float *bias, const float *mask, float *out, int rows, int width)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * width) return;
    float z = x[i] + bias[i % width], gate = fminf(fmaxf(z / 6 + 0.5f, 0.0f), 1.0f);
    out[i] = z * gate * mask[i];
}
"""


def _fusing(rows, width, itemsize, code=10, one=4):
    """Bytes of the code of 10.1 and of one kernel, by their passes, and the gain."""
    return code * itemsize * rows * width, one * itemsize * rows * width, code / one


def _flash(n, d, itemsize, memory, held=4, rounded=math.ceil, standard=None, reads=None):
    """Rows of a block, bytes of flash and of standard attention; or with other counts for a part."""
    block = memory // (held * d * itemsize)
    reads = rounded(n / block) if reads is None else reads
    scores = 4 * n * n if standard is None else standard
    return block, itemsize * 2 * n * d * (1 + reads), itemsize * (4 * n * d + scores)


def _softmaxes(rows, width, first=False, second=True):
    return softmax(rows, width, fused=first), softmax(rows, width, fused=second)


def _saved(before, after):
    """What fusing saves by an H100's datasheet and 2.5 us a launch: a label."""
    chip = replace(datasheet("H100 SXM", "bfloat16"), overhead=2.5e-6)
    old = sum(chip.seconds(work) for work in before)
    if old / chip.seconds(after) < 1.5:
        return "nothing"
    launches = chip.overhead * (sum(work.launches for work in before) - after.launches)
    return "launches" if launches > (old - chip.seconds(after)) / 2 else "bytes"


def _helps(**changed):
    """The labels of 10.8, counted; changed: another label for one of them."""
    dtype, labels = "bfloat16", {}
    for name, rows in (("norm", 4096), ("token", 1)):
        labels[name] = _saved([layernorm(rows, 4096, dtype, fused=False)], layernorm(rows, 4096, dtype))
    after = elementwise(8192**2, inputs=1, dtype=dtype, in_place=True)
    for name, k in (("wide", 8192), ("thin", 64)):
        product = gemm(8192, 8192, k, dtype)
        labels[name] = _saved([product, after], fused(product, after))
    for name, queries in (("prefill", 8192), ("decode", 1)):
        sizes = 32, queries, 8192, 128
        labels[name] = _saved([attention(*sizes, dtype=dtype)], flash_attention(*sizes, dtype=dtype))
    return tuple((labels | changed).values())


def _norm(h, gain, shift, epsilon=1e-5):
    return (h - h.mean(1, keepdims=True)) / np.sqrt(h.var(1, keepdims=True) + epsilon) * gain + shift


def _rows(rng, rows, width):
    """x and residual (apart from 0 in the mean; the first rows nearly constant), gain, shift, an unwritten output."""
    x, residual = rng.standard_normal((2, rows, width))
    x[0], residual[0] = 0.02 * x[0], 0.02 * residual[0]        # there 1e-5 is one percent of the variance
    return {"x": x + 0.5, "residual": residual, "gain": rng.standard_normal(width), "shift": rng.standard_normal(width),
            "out": np.full((rows, width), np.nan)}


def _logits(rng, rows, width):
    """Rows so far from 0 that an exp without the maximum is infinite or 0."""
    x = 3 * rng.standard_normal((rows, width)) + rng.uniform(-120, 120, (rows, 1))
    return {"x": x, "target": rng.integers(0, width, rows).astype(np.int32), "out": np.full(rows, np.nan)}


def _loss(x, target):
    m = x.max(1)
    return m + np.log(np.exp(x - m[:, None]).sum(1)) - x[np.arange(len(x)), target]


def _loss_of_parts(x, target, parts):
    """The loss where the sums of the parts of a row, each relative to a maximum of its own, are added as they are."""
    total = sum(np.exp(x[:, part] - m[:, None]).sum(1) for part, m in parts)
    return x.max(1) + np.log(total) - x[np.arange(len(x)), target]


def _by_threads(x, target):
    shares = [slice(first, None, THREADS) for first in range(min(THREADS, x.shape[1]))]
    return _loss_of_parts(x, target, [(share, x[:, share].max(1)) for share in shares])


def _by_pieces(x, target, piece):
    starts = range(0, x.shape[1], piece)
    return _loss_of_parts(x, target, [(slice(at, at + piece), x[:, :at + piece].max(1)) for at in starts])


def _batch(rng, rows, width):
    return {"x": 2 * rng.standard_normal((rows, width)), "bias": rng.standard_normal(width),
            "mask": 1.25 * (rng.random((rows, width)) < 0.8), "out": np.full((rows, width), np.nan)}


def _swish(x, bias, mask):
    z = x + bias
    return z * np.clip(z / 6 + 0.5, 0, 1) * mask


def _odd(rng, most):
    return int(rng.integers(1, 6)), int(rng.integers(3, most))


EXERCISES = {
    "10.1": Exercise(
        kind="derive", points=2, names=("call by call", "one kernel", "gain"),
        ask="fusing(rows, width, itemsize): bytes of a norm with its residual, by calls and in one kernel; the gain",
        inputs={"rows": (64, 8192), "width": (256, 8192), "itemsize": [2, 4, 8]},
        reference=_fusing,
        alternatives=(lambda r, w, b: (10 * r * w * b, 4 * b * r * w, 2.5),
                      lambda rows, width, b: [b * (6 + 4) * rows * width, b * (2 + 2) * rows * width, 10 / 4]),
        slips={
            "h not written": (lambda rows, width, itemsize: _fusing(rows, width, itemsize, one=3),
                "Call by call is right. In one kernel h is not read again, but it is needed afterwards: write it."),
            "one read, one write": (lambda rows, width, itemsize: _fusing(rows, width, itemsize, one=2),
                "Call by call is right. One kernel still reads two arrays, and two arrays are needed afterwards."),
            "t is a result": (lambda rows, width, itemsize: _fusing(rows, width, itemsize, one=5),
                "Call by call is right. t is not needed afterwards: in one kernel it never goes to memory."),
            "the mean forgotten": (lambda rows, width, itemsize: _fusing(rows, width, itemsize, code=9),
                "t.mean(..) is a call, too: it reads all of t and writes next to nothing."),
            "x once for add": (lambda rows, width, itemsize: _fusing(rows, width, itemsize, code=9, one=3),
                "The addition reads two arrays, x and residual, in both programs."),
        },
        hints=("For each line: which arrays of full size does it read, which does it write?",
               "Reads 2, 1, 1, 1, 1, writes 1, 1, 0, 1, 1. And which arrays go into a single kernel, which come out?",
               "10 and 4 times itemsize * rows * width, and 10 / 4."),
        right="2.5 times, not ten times: what is needed afterwards has to be written, fused or not. Fusing saves what "
              "lies between.",
    ),
    "10.2": Exercise(
        kind="derive", points=2, names=("block", "flash", "standard"),
        ask="flash(n, d, itemsize, memory): rows of a block, bytes of flash and of standard attention",
        inputs={"n": (1000, 65536), "d": [32, 64, 128], "itemsize": [2, 4], "memory": (2**14, 2**19)},
        reference=lambda n, d, itemsize, memory: _flash(n, d, itemsize, memory),
        alternatives=(
            lambda n, d, b, m: (m // (4 * d * b), 2 * b * n * d * (1 + math.ceil(n / (m // (4 * d * b)))),
                                4 * b * n * (d + n)),
            lambda n, d, b, m: [int(m / b / (4 * d)), flash_attention(1, n, n, d, block=int(m / b / (4 * d))).nbytes
                                * b / 4, attention(1, n, n, d).nbytes * b / 4]),
        slips={
            "k and v once": (lambda n, d, itemsize, memory: _flash(n, d, itemsize, memory, reads=1),
                "The block is right. K and V are read once for each block of queries, not once in all."),
            "rounded down": (lambda n, d, itemsize, memory: _flash(n, d, itemsize, memory, rounded=math.floor),
                "A last block of queries that is not full goes through K and V as well: round n / block up."),
            "queries alone": (lambda n, d, itemsize, memory: _flash(n, d, itemsize, memory, held=1),
                "That fills the memory with queries. Their results, a block of keys and one of values need room, too."),
            "elements, not bytes": (lambda n, d, itemsize, memory: _flash(n, d, 1, memory),
                "Those are numbers; memory is in bytes, and each number has itemsize of them."),
            "scores moved twice": (lambda n, d, itemsize, memory: _flash(n, d, itemsize, memory, standard=2 * n * n),
                "Flash is right. In standard attention scores are written and read, and so are the weights: 4 n n."),
            "scores alone": (lambda n, d, itemsize, memory: (*_flash(n, d, itemsize, memory)[:2], itemsize * 4 * n * n),
                "Flash is right. Standard attention moves q, k, v and the result, too."),
        },
        hints=("Lesson 10, 'How many bytes are left?'.",
               "block = memory // (4 * d * itemsize). Q and O move once, K and V once for each block of queries.",
               ("itemsize * (2*n*d + 2*n*d*ceil(n / block)) and itemsize * (4*n*d + 4*n*n); ceil(a / b) is "
                "-(-a // b).")),
        right="Twice the memory is half the traffic of long sequences. With room for less than 2 d d numbers the "
              "standard form would move less.",
    ),
    "10.3": Exercise(
        kind="predict", factor=1.6, ask="the k from which on an epilogue gains less than 5 percent on this machine",
        reference=lambda roof: bytes_of(roof.dtype) * roof.ridge / 0.05,
        alternatives=(lambda roof: 20 * bytes_of(roof.dtype) * roof.peak / roof.bandwidth,
                      lambda roof: round(bytes_of(roof.dtype) * roof.ridge / 0.05)),
        slips={
            "bytes forgotten": (lambda roof: roof.ridge / 0.05,
                "That is R / 0.05. A number has four bytes: the gain is 1 + bR/k."),
            "one way": (lambda roof: bytes_of(roof.dtype) * roof.ridge / 0.05 / 2,
                "The pass reads C and writes it: 2 b m n bytes."),
            "a multiply-add as one": (lambda roof: 2 * bytes_of(roof.dtype) * roof.ridge / 0.05,
                "The product has 2 m n k FLOPs: the gain is 1 + bR/k, not 1 + 2bR/k."),
            "the ridge's own": (lambda roof: bytes_of(roof.dtype) * roof.ridge,
                "There the gain is 1 + 1, twice as fast. 5 percent are asked."),
        },
        hints=("Lesson 10, 'What fusion cannot save'.",
               "The gain is 1 + bR/k, with b = 4 bytes and R = here.ridge. Set it to 1.05.",
               "k = 4 * here.ridge / 0.05."),
        right="On a CPU that is a few hundred, on a chip with a ridge in the hundreds it is ten thousand and more: the "
              "higher the ridge, the more a pass costs beside a product.",
        then="Now try it: xp.matmul(A, B, out=C) with and without a pass after it, on either side of that k.",
    ),
    "10.4": Exercise(
        kind="measure", points=2, cold=True, ask="a softmax as five calls and as one kernel, each with its own work",
        reference=lambda rows, width: _softmaxes(rows, width),
        slips={
            "both fused": (lambda rows, width: _softmaxes(rows, width, first=True),
                "Both have the work of one kernel. The five calls make eight passes: fused=False for the first."),
            "both unfused": (lambda rows, width: _softmaxes(rows, width, second=False),
                "Both have the work of five calls. The kernel reads x once and writes y once: fused=True."),
            "the wrong way round": (lambda rows, width: _softmaxes(rows, width, True, False),
                "The two works are exchanged: the five calls come first, with fused=False."),
            "a pass a call": (lambda rows, width: (Work(5 * rows * width, 4 * 5 * rows * width),
                                                   softmax(rows, width)),
                "Five calls are eight passes: three of them read the array and write one as well."),
        },
        hints=("How does rk.softmax tell one kernel from five calls?",
               "rk.softmax(rows, width, fused=False) is the work of five calls, and cold=True flushes the caches.",
               ("runs = [rk.measure(five_calls, work=rk.softmax(rows, width, fused=False), cold=True), "
                "rk.measure(lambda: one_kernel(x, y), work=rk.softmax(rows, width), cold=True)].")),
        right="Each is now held against its own roof: how far the first is from it is not a matter of passes any more.",
    ),
    "10.5": Exercise(
        kind="build", points=3, out="out", least=0.3,
        ask="add_norm: the LayerNorm of x + residual in one kernel, in CUDA C++ or in Numba",
        inputs=lambda rng: _rows(rng, *_odd(rng, 500)),
        reference=lambda x, residual, gain, shift: _norm(x + residual, gain, shift),
        alternatives=(lambda x, residual, gain, shift, out: out.__setitem__(..., _norm(x + residual, gain, shift)),
                      lambda x, residual, gain, shift, out: np.add(_norm(residual + x, gain, 0), shift, out=out)),
        slips={
            "no residual": (lambda x, residual, gain, shift: _norm(x, gain, shift),
                "That normalises x alone: the residual has to be added first."),
            "residual at the end": (lambda x, residual, gain, shift: _norm(x, gain, shift) + residual,
                "The residual comes first: add it, then normalise the sum."),
            "mean not taken off": (lambda x, residual, gain, shift: (x + residual) / np.sqrt(
                    (x + residual).var(1, keepdims=True) + 1e-5) * gain + shift,
                "The mean has not been subtracted."),
            "no epsilon": (lambda x, residual, gain, shift: _norm(x + residual, gain, shift, 0),
                "Nothing is added to the variance: 1e-5 keeps rows that are nearly constant from growing."),
            "divided by the variance": (lambda x, residual, gain, shift: (
                    (x + residual - (x + residual).mean(1, keepdims=True))
                    / ((x + residual).var(1, keepdims=True) + 1e-5) * gain + shift),
                "That divides by the variance: take its square root."),
        },
        work=lambda x, residual: Work(8 * x.size, 12 * x.size, written=4 * x.size, name="add_norm"),
        big=lambda rng: _rows(rng, 4096, 2048),
        cuda=Cuda(
            name="add_norm",
            launch=lambda x, residual, gain, shift, out: (
                (len(x),), (THREADS,), (x, residual, gain, shift, out, np.int32(x.shape[1])), 4 * x.shape[1]),
            most=lambda x: 4 * 4 * x.size,
            told="keep the sum of the row in shared memory, `row[i] = x[..] + residual[..]`, and use it from there."),
        hints=(("Three steps: the mean, the variance, the result. Where can the row wait for the second and the "
                "third?"),
               ("CUDA C++: in extern __shared__ float row[]; the mean is a sum over all threads, as in the example. "
                "Numba: in out itself, or in a cache: loops over one row before the next begins."),
               ("CUDA C++: row[i] = x + residual and its sum; the mean by halves, as in the example; the sum of "
                "(row[i] - mean)**2 likewise; then out. Numba: for i in prange(rows): three loops over j, the first "
                "of which stores x + residual in out.")),
        right="Fifteen passes have become three, and the sum never went to memory.",
    ),
    "10.6": Exercise(
        kind="build", points=3, out="out", least=0.14,
        ask="loss: the loss of a language model by an online softmax, one read, in CUDA C++ or in Numba",
        inputs=lambda rng: _logits(rng, int(rng.integers(1, 6)), int(rng.choice([37, 401, 640, 799, 1031]))),
        reference=_loss,
        alternatives=(lambda x, target, out: out.__setitem__(..., _loss(x, target)), WARP_LOSS),
        slips={
            "target forgotten": (lambda x, target: _loss(x, target) + x[np.arange(len(x)), target],
                "That is the logarithm of the sum; x[target] of the row has to be subtracted."),
            "maximum forgotten": (lambda x, target: _loss(x, target) - x.max(1),
                "The sum is relative to the maximum: the logarithm of the whole is m + ln s."),
            "sign": (lambda x, target: -_loss(x, target), "The sign: the loss is ln of the sum, less x[target]."),
            "the sum is not put right": (lambda x, target: x.max(1) + np.log(np.exp(
                    x - np.maximum.accumulate(x, 1)).sum(1)) - x[np.arange(len(x)), target],
                "When the maximum changes, what has been summed so far must be multiplied by e^(old - new)."),
            "threads added as they are": (_by_threads,
                "Each thread's sum is relative to its own maximum: multiply it by e^(its m - the larger m), then add."),
            "pieces of 256": (lambda x, target: _by_pieces(x, target, 256),
                "From piece to piece the maximum changes: multiply the sum so far by e^(old - new) before the next."),
            "pieces of 512": (lambda x, target: _by_pieces(x, target, 512),
                "Between two pieces the maximum changes: multiply the sum so far by e^(old - new) first."),
        },
        work=lambda x: Work(4 * x.size, 4 * x.size, written=0, name="loss"), big=lambda rng: _logits(rng, 512, 16384),
        cuda=Cuda(
            name="loss", launch=lambda x, target, out: ((len(x),), (THREADS,), (x, target, out, np.int32(x.shape[1]))),
            most=lambda x: 4 * len(x) * (x.shape[1] + 2 * THREADS),
            told="maximum and sum in one loop: with a new maximum, multiply the sum by e^(old - new)."),
        hints=("Lesson 10, 'Online softmax': m and s of what has been seen, and what happens to s when m changes.",
               ("CUDA C++: before = m; m = max(m, value); s = s * e^(before - m) + e^(value - m). Two threads with "
                "(m, s) each are merged in the same way. Numba: the same with a piece of 256 numbers at a time, by exp "
                "and larger: np.exp and max take longer than the bytes."),
               ("CUDA C++: m and s in two shared arrays, merged by halves, as in the example; both = max of the two m; "
                "each s times e^(its m - both). Numba: new = m, larger(new, ..) over the piece; s *= exp(m - new); "
                "s += exp(piece[j] - new); then m = new.")),
        right="One read in place of six passes, and nothing but one number a row is written.",
    ),
    "10.7": Exercise(
        kind="build", points=2, out="out", least=0.33,
        ask="chain: bias, hard swish and a mask in one kernel, in CUDA C++ or in Numba",
        inputs=lambda rng: _batch(rng, *_odd(rng, 700)),
        reference=_swish,
        alternatives=(lambda x, bias, mask, out: out.__setitem__(..., _swish(x, bias, mask)), ELEMENT),
        slips={
            "bias along the rows": (lambda x, bias, mask: _swish(x, np.resize(bias, len(x))[:, None], mask),
                "bias has one number for each column: bias[j], not bias[i]."),
            "gate times x": (lambda x, bias, mask: x * np.clip((x + bias) / 6 + 0.5, 0, 1) * mask,
                "The gate multiplies z, with its bias, not x."),
            "not cut off above": (lambda x, bias, mask: (x + bias) * np.maximum((x + bias) / 6 + 0.5, 0) * mask,
                "The gate is at most 1: take the minimum, too."),
        },
        work=lambda x: elementwise(x.size, inputs=2, flops=6).named("chain"), big=lambda rng: _batch(rng, 4096, 2048),
        cuda=Cuda(
            name="chain",
            launch=lambda x, bias, mask, out: (
                (-(-x.size // THREADS),), (THREADS,),
                (x, bias, mask, out, np.int32(len(x)), np.int32(x.shape[1]))),
            most=lambda x: 12 * x.size,
            told="keep z in a variable, float z = x[i] + bias[..], and use that."),
        hints=("All steps for one number, before the next number's turn. What has to be loaded for it?",
               ("CUDA C++: i = blockIdx.x * blockDim.x + threadIdx.x, nothing for i >= rows * width; its column is "
                "i % width. Numba: a loop over rows (prange) and one over columns, all steps inside."),
               ("z = x[i, j] + bias[j]; out[i, j] = z * min(max(z / 6 + 0.5, 0), 1) * mask[i, j]; in Numba write "
                "np.float32(6) and so on, or the loop turns to float64.")),
        right="Three passes: x, mask, out. That is all there is to move, however many steps the chain has.",
    ),
    "10.8": Exercise(
        kind="diagnose", points=3, labels=LABELS,
        ask="what fusing saves in six places on an H100: bytes, launches, or nothing that counts",
        reference=_helps,
        alternatives=(("Bytes", "launches", "nothing", "bytes", "bytes", "nothing"), lambda: list(_helps())),
        slips={
            "a row is all bytes": (lambda: _helps(token="bytes"),
                "One row of 4096 numbers is 8 KB: nanoseconds. Nine launches are 22 us."),
            "a norm is launches": (lambda: _helps(norm="launches"),
                "Nine launches are 22 us; twelve passes over 34 MB are 120 us. Most of what is saved are bytes."),
            "an epilogue is bytes": (lambda: _helps(wide="bytes"),
                "The pass moves 268 MB, 80 us; the product takes 1.1 ms. 1 + bR/k is 1.07."),
            "products are compute-bound": (lambda: _helps(thin="nothing"),
                "With k = 64 the product is memory-bound: it writes C, and the pass reads and writes it again."),
            "the products fill the time": (lambda: _helps(prefill="nothing"),
                "Standard attention has 64 FLOP/B there, left of the ridge of 295: the scores set the time."),
            "launches of a query": (lambda: _helps(decode="launches"),
                "Two launches fewer save 5 us of 48: 1.13 times as fast, and 1.5 are asked."),
            "launches of an epilogue": (lambda: _helps(wide="launches"),
                "One launch fewer saves 2.5 us of 1200. And 1 + bR/k is 1.07."),
            "launches of a thin product": (lambda: _helps(thin="launches"),
                "One launch fewer saves 2.5 us of the 83 that are saved. The rest is C, read and written once less."),
            "decoding like prefill": (lambda: _helps(decode="bytes"),
                "One query has 8192 scores a head, but K and V 2 million numbers: those are read, fused or not."),
        },
        hints=("For each: the time before (a sum over kernels, launches included) and the time after.",
               ("A pass over 4096 x 4096 two-byte numbers takes 10 us, over 8192 x 8192 40 us; a launch 2.5 us. What "
                "makes up most of the difference?"),
               ("norm: twelve passes or two. token: 9 launches or 1. wide: 1 + bR/k. thin: one write of C, or three "
                "passes. prefill: 64 FLOP/B or far right of the ridge. decode: what are K and V, beside the scores?")),
        right="Fusing pays where what lies between the steps is most of the traffic, or where launches are most of the "
              "time. It pays nothing where one large input, or the arithmetic, is.",
    ),
}
