"""How is each operation of the course set up, counted and checked?

Each function takes a device and sizes and gives a `Job`: random data, the compulsory work, NumPy's result in float64.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from . import ops
from .work import Work

EPSILON = 1e-5           # PyTorch's default for LayerNorm
GROUP = 32               # int4 weights that share a scale
CHAIN = 15               # tiny calls; odd, so that the last one undoes none

@dataclass(frozen=True)
class Job:
    """One operation, ready to be timed.

    call:      a function without arguments
    work:      what one call has to do
    expected:  the numbers that the first call must give; None where there are none
    out:       the array that it writes; None where it returns them
    part:      which part of it is compared
    """

    call: object
    work: Work
    expected: object = None
    out: object = None
    part: object = ...

    def error(self):
        """How far the first call is from what it must give: the largest difference over the largest number."""
        found = self.call()
        if self.expected is None:
            return 0.0
        found = exact(found if self.out is None else self.out[self.part]).reshape(np.shape(self.expected))
        return float(np.max(np.abs(found - self.expected)) / np.max(np.abs(self.expected)))


def exact(array):
    """The numbers of an array of either device, in float64."""
    return np.asarray(array.get() if hasattr(array, "get") else array).astype("float64")


def _some(size):
    """Sixteen places at most along an axis, the last one among them: ends go wrong first."""
    return slice(None, None, -math.ceil(size / 16))


def _vectors(device, *shapes):
    """Arrays of float32."""
    return [device.random(shape, dtype="float32") for shape in shapes]


# ---- Vectors -----------------------------------------------------------------------------------------------------

def copy(device, n):
    x, out, part = *_vectors(device, n, n), _some(n)
    return Job(partial(device.kernel("copy"), out, x), Work(0, 8 * n, written=4 * n), exact(x[part]), out, part)


def triad(device, n):
    x, y, out, part = *_vectors(device, n, n, n), _some(n)
    expected = exact(x[part]) + 0.5 * exact(y[part])
    return Job(partial(device.kernel("triad"), out, x, y, 0.5), ops.elementwise(n, flops=2), expected, out, part)


def axpy(device, n):
    x, y, part = *_vectors(device, n, n), _some(n)
    expected = exact(y[part]) + 1e-3 * exact(x[part])      # a small factor: y stays of order 1 over many calls
    return Job(partial(device.kernel("triad"), y, y, x, 1e-3), ops.axpy(n), expected, y, part)


def dot(device, n):
    x, y = map(abs, _vectors(device, n, n))                # else the terms cancel and their sum is mostly rounding
    return Job(partial(device.kernel("dot"), x, y), ops.dot(n), exact(x) @ exact(y))


def add(device, n):
    x, y, out, part = *_vectors(device, n, n, n), _some(n)
    return Job(partial(device.xp.add, x, y, out), ops.elementwise(n), exact(x[part]) + exact(y[part]), out, part)


# ---- Matrix products ---------------------------------------------------------------------------------------------

def _product(multiply, a, b, out, work):
    rows, columns = map(_some, out.shape)
    return Job(partial(multiply, a, b, out), work, exact(a[rows]) @ exact(b[:, columns]), out, (rows, columns))


def matmul(device, m, n, k):
    """The library's product in the lessons' dtype."""
    def multiply(a, b, out):
        device.xp.matmul(a, b, out=out)

    a, b = device.random(m, k), device.random(k, n)
    return _product(multiply, a, b, device.xp.empty((m, n), a.dtype), ops.gemm(m, n, k, device.dtype))


def own(kernel, dtype="float32"):
    """One of the kit's own products, of numbers of that dtype, into float32."""
    def make(device, n):
        a, b = (device.random(n, n, dtype=dtype) for _ in range(2))
        work = Work(2 * n**3, 2 * a.nbytes + 4 * n * n, written=4 * n * n, dtype=dtype, unit="matrix", name="gemm")
        return _product(device.kernel(kernel), a, b, device.xp.empty((n, n), "float32"), work)
    return make


def convolution(device, channels, size, filters):
    """3 x 3 without padding: im2col writes each element nine times, then a product of matrices."""
    xp, edge = device.xp, size - 2
    x, weights = device.random(channels, size, size), device.random(filters, 9 * channels)
    columns, out = xp.empty((channels, 3, 3, edge, edge), x.dtype), xp.empty((filters, edge, edge), x.dtype)
    windows = xp.lib.stride_tricks.as_strided(x, columns.shape, (*x.strides, *x.strides[1:]))
    flat, flat_out = columns.reshape(9 * channels, edge**2), out.reshape(filters, edge**2)

    def call():
        columns[...] = windows
        xp.matmul(weights, flat, out=flat_out)

    work = ops.conv2d(channels, size, size, filters, dtype=device.dtype, im2col=True)
    rows, line = _some(filters), _some(edge)
    seen = np.lib.stride_tricks.sliding_window_view(exact(x), (3, 3), (1, 2))[:, line, line].transpose(0, 3, 4, 1, 2)
    expected = exact(weights[rows]) @ seen.reshape(9 * channels, -1)
    return Job(call, work, expected, out, (rows, line, line))


# ---- Rows --------------------------------------------------------------------------------------------------------

def _past(work, kernel, device):
    """The same work as the fused twins do it, which store results above 16 MiB past the caches."""
    past = device.kind == "cpu" and kernel in ("layernorm", "softmax") and work.written > 2**24
    return replace(work, rewritten=work.written) if past else work


def layernorm(kernel):
    def make(device, rows, width):
        x, gain, bias, part = device.random(rows, width), device.random(width), device.random(width), _some(rows)
        out, some = device.xp.empty_like(x), exact(x[part])
        centred = some - some.mean(1, keepdims=True)
        expected = centred / np.sqrt((centred**2).mean(1, keepdims=True) + EPSILON) * exact(gain) + exact(bias)
        work = _past(ops.layernorm(rows, width, device.dtype, fused=kernel == "layernorm"), kernel, device)
        return Job(partial(device.kernel(kernel), x, gain, bias, out), work, expected, out, part)
    return make


def softmax(kernel):
    def make(device, rows, width):
        x, part = device.random(rows, width), _some(rows)
        out, some = device.xp.empty_like(x), np.exp(exact(x[part]))
        fused = kernel != "softmax_unfused"                # in three passes a row comes from a cache after the first
        work = _past(ops.softmax(rows, width, device.dtype, fused), kernel, device)
        return Job(partial(device.kernel(kernel), x, out), work, some / some.sum(1, keepdims=True), out, part)
    return make


def embedding(device, entries, width, count):
    ids = np.random.default_rng(0).permutation(entries)[:count].astype("int32")     # each at most once: all from memory
    table, part = device.random(entries, width), _some(count)
    out = device.xp.empty((count, width), table.dtype)
    places = device.xp.asarray(ids)
    call = partial(device.kernel("embedding"), table, places, out)
    return Job(call, ops.embedding(count, width, device.dtype), exact(table[places[part]]), out, part)


def attention(kernel):
    def make(device, heads, length, width):
        q, k, v = (device.random(heads, length, width) for _ in range(3))
        out, part = device.xp.empty_like(q), (0, _some(length))
        scores = exact(q[part]) @ exact(k[0]).T / math.sqrt(width)
        weights = np.exp(scores - scores.max(1, keepdims=True))
        expected = weights / weights.sum(1, keepdims=True) @ exact(v[0])
        work = getattr(ops, kernel)(heads, length, length, width, dtype=device.dtype)
        return Job(partial(device.kernel(kernel), q, k, v, out), work, expected, out, part)
    return make


# ---- Small models, one input at a time: a weight is used once, by the vector unit --------------------------------

def mlp(device, d_in, d_hidden, d_out):
    shapes = (d_in,), (d_hidden, d_in), (d_hidden,), (d_out, d_hidden), (d_out,)
    arrays = _vectors(device, *shapes)
    out = device.xp.empty_like(arrays[-1])
    x, w1, b1, w2, b2 = map(exact, arrays)
    expected = w2 @ np.maximum(w1 @ x + b1, 0) + b2
    return Job(partial(device.kernel("mlp"), *arrays, out), ops.mlp(d_in, d_hidden, d_out), expected, out)


def gru(device, d, width):
    shapes = (d,), (width,), (3 * width, d), (3 * width, width), (2, 3 * width)
    arrays = [array / math.sqrt(array.shape[-1]) for array in _vectors(device, *shapes)]     # or every gate is 0 or 1
    out = device.xp.empty_like(arrays[1])
    x, h, w, u, b = map(exact, arrays)
    from_x, from_h = (w @ x + b[0]).reshape(3, -1), (u @ h + b[1]).reshape(3, -1)
    r, z = 1 / (1 + np.exp(-from_x[:2] - from_h[:2]))
    expected = (1 - z) * np.tanh(from_x[2] + r * from_h[2]) + z * h
    return Job(partial(device.kernel("gru"), *arrays, out), ops.gru(d, width), expected, out)


def matvec(kernel):
    """out[m] = w[m, n] x[n], the weights stored in 4, 2, 1 or half a byte and multiplied in float32."""
    def make(device, m, n):
        x, out, part = *_vectors(device, n), device.xp.empty(m, "float32"), _some(m)
        stored = kernel.removeprefix("matvec").lstrip("_") or "float32"
        weights, numbers = _weights(device, stored, m, n, part)
        call = partial(device.kernel(kernel), *weights, x, out)
        return Job(call, ops.matvec(m, n, stored, GROUP), numbers @ exact(x), out, part)
    return make


def _weights(device, dtype, m, n, part):
    """Arrays that hold m x n weights of that dtype, and the numbers that some rows of them stand for."""
    if dtype == "int8":
        w, scale = device.random(m, n, dtype="int8"), abs(*_vectors(device, m)) / 64
        return (w, scale), exact(w[part]) * exact(scale[part])[:, None]
    if dtype == "int4":                                    # a byte holds q + 8 of two neighbours, the first one low
        w, scale = device.random(m, n // 2, dtype="uint8"), abs(device.random(m, n // GROUP, dtype="float16")) / 4
        pairs = exact(w[part]).astype("uint8")
        halves = np.stack([pairs & 15, pairs >> 4], -1).reshape(-1, n).astype("float64") - 8
        return (w, scale), halves * exact(scale[part]).repeat(GROUP, 1)
    w = device.random(m, n, dtype=dtype)
    return (w,), exact(w[part])


# ---- Calls that do next to nothing ---------------------------------------------------------------------------------

def chain(device, n):
    """x = y - x, fifteen times over, one small call after the other."""
    x, y = _vectors(device, n, n)
    expected = exact(y) - exact(x)

    def call():
        for _ in range(CHAIN):
            device.xp.subtract(y, x, x)

    return Job(call, sum([ops.elementwise(n, in_place=True)] * CHAIN), expected, x)


def empty(device):
    """A kernel that does nothing. On a CPU it is a compiled function, whose call costs less than a library's."""
    return Job(device.kernel("empty"), Work(0, 0, launches=int(device.kind == "gpu")))
