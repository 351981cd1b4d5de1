"""What must the loops over long arrays leave behind, at lengths that no vector and no block of threads divides?"""

from functools import partial

import numpy as np

from . import Case

LENGTHS = (1, 7, 1000, 4099, 20_011)
DTYPES = {"float32": LENGTHS, "float64": (5, 3003)}
S = 0.3


def inputs(count, dtype, rng, n):
    """Arrays near 1: a sum of them cancels nothing, so that its relative error says something."""
    return [rng.uniform(0.5, 1.5, n).astype(dtype) for _ in range(count)]


def empty(dtype, n):
    return np.full(n, np.nan, dtype)


def read(dtype, rng, n):
    return inputs(1, dtype, rng, n)


def read_again(dtype, rng, n):
    return *inputs(1, dtype, rng, n), 3


def scale(dtype, rng, n):
    return *inputs(1, dtype, rng, n), S


def copy(dtype, rng, n):
    return empty(dtype, n), *inputs(1, dtype, rng, n)


def triad(dtype, rng, n):
    return empty(dtype, n), *inputs(2, dtype, rng, n), S


def write(dtype, rng, n):
    return empty(dtype, n), S


def dot(dtype, rng, n):
    return inputs(2, dtype, rng, n)


def case(name, arrays, reference, out, dtype, n):
    return Case(name, (n,), partial(arrays, dtype), reference, dtype, out)


CASES = [case(*kind, dtype, n) for dtype, lengths in DTYPES.items() for n in lengths for kind in (
    ("read", read, np.sum, None),
    ("scale", scale, lambda x, s: s * x, 0),
    ("copy", copy, lambda out, x: x, 0),
    ("triad", triad, lambda out, x, y, s: x + s * y, 0),
    ("write", write, lambda out, s: np.full(out.shape, s), 0),
    ("dot", dot, np.dot, None),
)] + [case("read", read_again, lambda x, repeats: repeats * x.sum(), None, "float32", n) for n in (2, 999, 30_000)]
