"""How fast do bytes move? Six loops over long arrays, each on all threads, in Numba.

Each thread runs the plain loop on a slice of its own. The slices are those of `write`, so a page that `write`
touches first usually lies near the core that later reads it.
"""

from numba import get_num_threads, njit, prange

from .twins import flat, refusal, twin, whole

FAST = {"fastmath": True, "boundscheck": False, "error_model": "numpy"}
STRETCH = 2048           # times four numbers that `dot` adds up in float32 before their sum goes to one in float64
ALONE = 2**15            # elements: a few us on one thread, about what starting the others takes

_refuse_read, _refuse_scale, _refuse_copy = map(refusal, ("read", "scale", "copy"))
_refuse_triad, _refuse_write, _refuse_dot = map(refusal, ("triad", "write", "dot"))


@njit(**FAST)
def _slice(x, part, parts):
    return x[x.size * part // parts:x.size * (part + 1) // parts]


@njit(**FAST)
def _read(x, repeats):
    total = x.dtype.type(0)
    q = x.size // 4                                      # four streams keep more lines in flight than one
    for _ in range(repeats):
        for i in range(q):
            total += (x[i] + x[q + i]) + (x[2 * q + i] + x[3 * q + i])
        for i in range(4 * q, x.size):
            total += x[i]
    return total


@njit(**FAST)
def _scale(x, s):
    for i in range(x.size):
        x[i] *= s


@njit(**FAST)
def _copy(out, x):
    for i in range(out.size):
        out[i] = x[i]


@njit(**FAST)
def _triad(out, x, y, s):
    for i in range(out.size):
        out[i] = x[i] + s * y[i]


@njit(**FAST)
def _write(out, s):
    for i in range(out.size):
        out[i] = s


@njit(**FAST)
def _dot_of_four(x, y, q, n):
    """The sum over the first n elements of each of four streams that begin q elements apart."""
    total, (x1, x2, x3), (y1, y2, y3) = x.dtype.type(0), (x[q:], x[2 * q:], x[3 * q:]), (y[q:], y[2 * q:], y[3 * q:])
    for i in range(n):
        total += (x[i] * y[i] + x1[i] * y1[i]) + (x2[i] * y2[i] + x3[i] * y3[i])
    return total


@njit(**FAST)
def _dot(x, y):
    total, q = 0.0, x.size // 4
    for start in range(0, q, STRETCH):
        total += _dot_of_four(x[start:], y[start:], q, min(STRETCH, q - start))
    for i in range(4 * q, x.size):
        total += x[i] * y[i]
    return total


@njit(parallel=True, **FAST)
def _dot_of_all(x, y):
    parts, total = get_num_threads(), 0.0
    for part in prange(parts):
        total += _dot(_slice(x, part, parts), _slice(y, part, parts))
    return total


@twin
@njit(parallel=True, **FAST)
def read(x, repeats=1):
    """Sum of x, `repeats` times over.

    FLOPs:   n                      n elements, an addition each
    Bytes:   b n                    b bytes an element; none of them written
    """
    _refuse_read(x)
    x = flat(x)
    parts, total, count = get_num_threads(), x.dtype.type(0), whole(repeats)
    for part in prange(parts):
        total += _read(_slice(x, part, parts), count)
    return total


@twin
@njit(parallel=True, **FAST)
def scale(x, s):
    """x = s x, in place.

    FLOPs:   n
    Bytes:   2 b n                  half of it written, to lines that are in cache by then
    """
    _refuse_scale(x)
    x = flat(x)
    parts, s = get_num_threads(), x.dtype.type(s)
    for part in prange(parts):
        _scale(_slice(x, part, parts), s)


@twin
@njit(parallel=True, **FAST)
def copy(out, x):
    """out = x.

    FLOPs:   0
    Bytes:   2 b n                  on the bus 3 b n: a store to a line that is not in cache reads it first
    """
    _refuse_copy(out, x)
    out, x = flat(out), flat(x)
    parts = get_num_threads()
    for part in prange(parts):
        _copy(_slice(out, part, parts), _slice(x, part, parts))


@twin
@njit(parallel=True, **FAST)
def triad(out, x, y, s):
    """out = x + s y.

    FLOPs:   2 n
    Bytes:   3 b n                  on the bus 4 b n
    Source:  STREAM, John D. McCalpin, 1991
    """
    _refuse_triad(out, x, y)
    out, x, y = flat(out), flat(x), flat(y)
    parts, s = get_num_threads(), x.dtype.type(s)
    for part in prange(parts):
        _triad(_slice(out, part, parts), _slice(x, part, parts), _slice(y, part, parts), s)


@twin
@njit(parallel=True, **FAST)
def write(out, s):
    """out = s in every element.

    FLOPs:   0
    Bytes:   b n                    on the bus 2 b n
    """
    _refuse_write(out)
    out = flat(out)
    parts, s = get_num_threads(), out.dtype.type(s)
    for part in prange(parts):
        _write(_slice(out, part, parts), s)


@twin
@njit(**FAST)
def dot(x, y):
    """Sum of x y; on one thread where waking the others takes longer.

    FLOPs:   2 n                    n elements, a multiply and an add each
    Bytes:   2 b n                  none of them written
    """
    _refuse_dot(x, y)
    x, y = flat(x), flat(y)
    return x.dtype.type(_dot(x, y) if x.size < ALONE else _dot_of_all(x, y))
