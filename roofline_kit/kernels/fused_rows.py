"""How is a row normalised or softened while it stays in cache, and how is the result stored past the caches?

Each thread takes a share of the rows and reads each of them from memory once; its later loops find the row in cache.
"""

import numpy as np
from numba import get_num_threads, njit, prange

from .floats import exp, larger, put, widened
from .streaming import VECTOR, ends, pour, step
from .twins import refusal

FAST = {"boundscheck": False, "error_model": "numpy", "fastmath": {"reassoc", "contract", "arcp", "nsz"}}
LOWEST = np.float32(np.finfo("float32").min)
EPSILON = np.float32(1e-5)
ONE = np.float32(1)
LANES = VECTOR // 4      # float32 numbers in a vector
BLOCK = 256              # numbers that are exponentiated while as many of the row before are on their way to memory

_refuse_softmax, _refuse_layernorm = map(refusal, ("softmax", "layernorm"))


@njit(**FAST)
def largest_of(x):
    """The maximum of a row without NaN."""
    largest = LOWEST
    for i in range(x.size):
        largest = larger(largest, widened(x[i]))
    return largest


@njit(**FAST)
def sum_of(x):
    """The sum of a row."""
    total = np.float32(0)
    for i in range(x.size):
        total += widened(x[i])
    return total


@njit(**FAST)
def _deviation(x, mean):
    squares = np.float32(0)
    for i in range(x.size):
        centred = widened(x[i]) - mean
        squares += centred * centred
    return np.sqrt(squares / np.float32(x.size) + EPSILON)


@njit(**FAST)
def _powers(x, begin, end, largest, room):
    """exp(x - largest) from begin to end goes to `room`; returns their sum."""
    total = np.float32(0)
    for i in range(np.uint64(begin), np.uint64(end)):    # unsigned: Numba need not ask whether i counts from the end
        power = exp(widened(x[i]) - largest)
        room[i] = power
        total += power
    return total


@njit(**FAST)
def soften(x, room, out):
    """One row of softmax; `room` takes a float32 row."""
    inverse = ONE / _powers(x, 0, x.size, largest_of(x), room)
    for i in range(x.size):
        put(out, i, room[i] * inverse)


@njit(**FAST)
def _powers_and_pour(x, largest, room, out, before, inverse):
    """The powers of one row, in turns with out = before inverse, the row before it: so neither waits for the other."""
    total = np.float32(0)
    skip = min(out.size, -(out.ctypes.data // 4) % LANES)            # up to a vector's boundary
    done = max(0, x.size // BLOCK - 1) * BLOCK                       # so that skip + done lies within the row
    ends(out, 0, skip, before, inverse, None, None, None)
    for first in range(0, done, BLOCK):
        total += _powers(x, first, first + BLOCK, largest, room)
        for i in range(first, first + BLOCK, LANES):
            step(out, skip + i, before, inverse, None, None, None)
    total += _powers(x, done, x.size, largest, room)
    pour(out[skip + done:], before[skip + done:], inverse, None, None, None)
    return total


@njit(**FAST)
def _soften_all(x, out):
    rooms = np.empty((2, x.shape[1]), np.float32)
    total = _powers(x[0], 0, x.shape[1], largest_of(x[0]), rooms[0])
    for row in range(1, x.shape[0]):
        room, before = rooms[row % 2], rooms[1 - row % 2]
        total = _powers_and_pour(x[row], largest_of(x[row]), room, out[row - 1], before, ONE / total)
    pour(out[-1], rooms[(x.shape[0] - 1) % 2], ONE / total, None, None, None)


@njit(parallel=True, **FAST)
def softmax(x, out):
    """Softmax of each row."""
    _refuse_softmax(x, out)
    parts, rows = get_num_threads(), x.shape[0]
    for part in prange(parts):
        room = np.empty(x.shape[1], np.float32)
        for row in range(rows * part // parts, rows * (part + 1) // parts):
            soften(x[row], room, out[row])


@njit(parallel=True, **FAST)
def softmax_past(x, out):
    """The same, in float32, stored past the caches."""
    _refuse_softmax(x, out)
    parts, rows = get_num_threads(), x.shape[0]
    for part in prange(parts):
        begin, end = rows * part // parts, rows * (part + 1) // parts
        if begin < end:
            _soften_all(x[begin:end], out[begin:end])


@njit(inline="always", **FAST)
def _normalise(x, gain, bias, out):
    mean = sum_of(x) / np.float32(x.size)
    inverse = ONE / _deviation(x, mean)
    for i in range(x.size):
        put(out, i, (widened(x[i]) - mean) * inverse * widened(gain[i]) + widened(bias[i]))


@njit(**FAST)
def _normalise_past(x, gain, bias, out):
    mean = sum_of(x) / np.float32(x.size)
    pour(out, x, ONE / _deviation(x, mean), mean, gain, bias)


@njit(parallel=True, **FAST)
def layernorm(x, gain, bias, out):
    """LayerNorm of each row."""
    _refuse_layernorm(x, gain, bias, out)
    for row in prange(x.shape[0]):
        _normalise(x[row], gain, bias, out[row])


@njit(parallel=True, **FAST)
def layernorm_in_place(x, gain, bias):
    """The same with the result in x: known to be one array, it is read and written in whole vectors."""
    _refuse_layernorm(x, gain, bias, x)
    for row in prange(x.shape[0]):
        one = x[row]
        _normalise(one, gain, bias, one)


@njit(parallel=True, **FAST)
def layernorm_past(x, gain, bias, out):
    """The same, in float32, stored past the caches."""
    _refuse_layernorm(x, gain, bias, out)
    for row in prange(x.shape[0]):
        _normalise_past(x[row], gain, bias, out[row])
