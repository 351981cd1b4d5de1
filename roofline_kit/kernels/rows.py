"""How fast are sums and maxima along rows, done in one pass over memory or in many? LayerNorm, softmax and a gather.

A fused kernel reads a row from memory once (`fused_rows` holds its loops). An unfused one finishes a step for all rows
before it begins the next, so each step goes through memory.
"""

import numpy as np
from numba import njit, prange

from . import fused_rows
from .arguments import address
from .floats import STORED, exp, put, stored, widened
from .fused_rows import EPSILON, FAST, largest_of, sum_of
from .twins import AS_BITS, refusal, twin

STEPS = FAST | {"parallel": {"fusion": False}}           # or Numba makes one loop of several
CACHED = 2**24           # B of a result above which it is stored past the caches: a core's share of them holds less

BITS = {np.dtype(dtype): np.dtype(f"u{np.dtype(dtype).itemsize}") for dtype in (*STORED, "float64")}
_refuse_softmax, _refuse_layernorm = map(refusal, ("softmax", "layernorm"))
_refuse_embedding = refusal("embedding", AS_BITS)


@njit(**STEPS)
def _softmax_three_pass(x, largest, total, out):
    _refuse_softmax(x, out)
    for row in prange(x.shape[0]):
        largest[row] = largest_of(x[row])
    for row in prange(x.shape[0]):
        powers = np.float32(0)
        for i in range(x.shape[1]):
            powers += exp(widened(x[row, i]) - largest[row])
        total[row] = powers
    for row in prange(x.shape[0]):
        for i in range(x.shape[1]):
            put(out[row], i, exp(widened(x[row, i]) - largest[row]) / total[row])


@njit(**STEPS)
def _layernorm_unfused(x, gain, bias, big, other, mean, variance, shifted, deviation, out):
    _refuse_layernorm(x, gain, bias, out)
    rows, width = x.shape
    for row in prange(rows):
        put(mean, row, sum_of(x[row]) / np.float32(width))
    for row in prange(rows):
        for i in range(width):
            put(big[row], i, widened(x[row, i]) - widened(mean[row]))
    for row in prange(rows):
        for i in range(width):
            put(other[row], i, widened(big[row, i]) * widened(big[row, i]))
    for row in prange(rows):
        put(variance, row, sum_of(other[row]) / np.float32(width))
    for row in prange(rows):
        put(shifted, row, widened(variance[row]) + EPSILON)
    for row in prange(rows):
        put(deviation, row, np.sqrt(widened(shifted[row])))
    for row in prange(rows):
        for i in range(width):
            put(other[row], i, widened(big[row, i]) / widened(deviation[row]))
    for row in prange(rows):
        for i in range(width):
            put(big[row], i, widened(other[row, i]) * widened(gain[i]))
    for row in prange(rows):
        for i in range(width):
            put(out[row], i, widened(big[row, i]) + widened(bias[i]))


@njit(**STEPS)
def _softmax_unfused(x, below, powers, largest, total, out):
    _refuse_softmax(x, out)
    rows, width = x.shape
    for row in prange(rows):
        put(largest, row, largest_of(x[row]))
    for row in prange(rows):
        for i in range(width):
            put(below[row], i, widened(x[row, i]) - widened(largest[row]))
    for row in prange(rows):
        for i in range(width):
            put(powers[row], i, exp(widened(below[row, i])))
    for row in prange(rows):
        put(total, row, sum_of(powers[row]))
    for row in prange(rows):
        for i in range(width):
            put(out[row], i, widened(powers[row, i]) / widened(total[row]))


@njit(parallel=True, boundscheck=False)
def _embedding(table, ids, out):
    _refuse_embedding(table, ids, out)
    for i in prange(ids.size):
        row = table[ids[i]]
        for column in range(row.size):
            out[i, column] = row[column]


def _large(x, *others):
    """Whether the result, the last, is float32 and more than the caches hold: then it is stored past them.

    Not in place: there the lines to store to have been read.
    """
    out = others[-1]
    return out.nbytes > CACHED and address(out) != address(x) and all(a.dtype == np.float32 for a in (x, *others))


@twin
def layernorm(x, gain, bias, out):
    """out = (x - mean) / sqrt(var + 1e-5) * gain + bias along each row of x[rows, width], fused.

    FLOPs:   7 rows width + 4 rows
    Bytes:   b (2 rows width + 2 width)                  as ops.layernorm; b bytes an element
    Errors:  ValueError for other dtypes than float32, float16 and bfloat16, as in the other functions here
    """
    arrays = stored(x, gain, bias, out)
    if out is x:
        fused_rows.layernorm_in_place(*arrays[:3])
    else:
        (fused_rows.layernorm_past if _large(*arrays) else fused_rows.layernorm)(*arrays)


@twin
def layernorm_unfused(x, gain, bias, out):
    """The same in nine passes.

    Bytes:   b (12 rows width + 8 rows + 2 width)        as ops.layernorm(fused=False)
    """
    big, columns = np.empty((2, *x.shape), x.dtype), np.empty((4, x.shape[0]), x.dtype)
    _layernorm_unfused(*stored(x, gain, bias, *big, *columns, out))


@twin
def softmax(x, out):
    """out = exp(x - max) / sum(exp(x - max)) along each row of x[rows, width], fused. No x is NaN.

    FLOPs:   5 rows width
    Bytes:   b 2 rows width                              as ops.softmax
    """
    arrays = stored(x, out)
    (fused_rows.softmax_past if _large(*arrays) else fused_rows.softmax)(*arrays)


@twin
def softmax_three_pass(x, out):
    """The same by three loops over all rows.

    Bytes:   b 4 rows width                              x is read three times
    """
    largest, total = np.empty((2, x.shape[0]), np.float32)
    x, out = stored(x, out)
    _softmax_three_pass(x, largest, total, out)


@twin
def softmax_unfused(x, out):
    """The same in five passes.

    Bytes:   b (8 rows width + 4 rows)                   as ops.softmax(fused=False)
    """
    big, columns = np.empty((2, *x.shape), x.dtype), np.empty((2, x.shape[0]), x.dtype)
    _softmax_unfused(*stored(x, *big, *columns, out))


@twin
def embedding(table, ids, out):
    """out[i] = table[ids[i]].

    Bytes:   2 b ids width, and the ids
    Errors:  IndexError for an id that names no row
    """
    if ids.size and not 0 <= ids.min() <= ids.max() < len(table):
        raise IndexError(f"the ids run from {ids.min()} to {ids.max()}, but the table has rows 0 to {len(table) - 1}: "
                         f"check where the ids come from.")
    if table.dtype != out.dtype:
        raise TypeError("table and out differ")
    bits = BITS[table.dtype]                             # a gather copies bits, whatever they mean
    _embedding(table.view(bits), ids, out.view(bits))
