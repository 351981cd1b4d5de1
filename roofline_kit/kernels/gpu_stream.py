"""With how many blocks do the loops over long arrays run on a GPU? With enough to keep all of it busy."""

import functools

import numpy as np

from .. import gpu

THREADS = 256            # of a block; a multiprocessor holds 1024 to 2048
BLOCKS = 32              # for each multiprocessor: at least four times what it holds, so that few idle at the end
FEW = 6                  # where there is no GPU to fill: several, since blocks must agree, but each costs time


def read(launch, x, repeats=1):
    """Sum of x, `repeats` times over, in an array of no dimensions; float arithmetic but for float64.

    FLOPs:   repeats n
    Bytes:   repeats b n            b bytes an element; none of them written
    """
    result = launch.xp.empty((), _real(x))
    _launch(launch, "stream_read", x, (x, np.int64(x.size), np.int32(repeats), result), repeats)
    return result


def dot(launch, x, y):
    """Sum of x y, in an array of no dimensions.

    FLOPs:   2 n
    Bytes:   2 b n                  none of them written
    """
    result = launch.xp.empty((), _real(x))
    _launch(launch, "stream_dot", x, (x, y, np.int64(x.size), result))
    return result


def scale(launch, x, s):
    """x = s x, in place.

    FLOPs:   n
    Bytes:   2 b n                  half of them written
    """
    _launch(launch, "stream_scale", x, (x, _real(x)(s), np.int64(x.size)))


def copy(launch, out, x):
    """out = x.

    FLOPs:   0
    Bytes:   2 b n                  half of them written
    """
    _launch(launch, "stream_copy", out, (out, x, np.int64(out.size)))


def triad(launch, out, x, y, s):
    """out = x + s y.

    FLOPs:   2 n
    Bytes:   3 b n                  a third of them written
    """
    _launch(launch, "stream_triad", out, (out, x, y, _real(x)(s), np.int64(out.size)))


def write(launch, out, s):
    """out = s in every element.

    FLOPs:   0
    Bytes:   b n                    all of them written
    """
    _launch(launch, "stream_write", out, (out, _real(out)(s), np.int64(out.size)))


def _launch(launch, name, x, arguments, repeats=1):
    """With a thread for each vector of 16 bytes, or as many as keep the GPU busy, which then loop.

    The number of blocks is odd, or over a length that all threads together divide a multiprocessor would read the same
    vectors in each repeat, from its own L1.
    """
    blocks = min(-(-x.nbytes * repeats // (16 * THREADS)), most(launch.xp) - 1) | 1
    launch("stream", name, (blocks,), (THREADS,), arguments, dtype=x.dtype.name)


def _real(x):
    """The type of the arithmetic."""
    return np.float64 if x.dtype == "float64" else np.float32


@functools.cache
def most(xp):
    """Blocks that keep the device of those arrays busy."""
    return BLOCKS * gpu.facts(xp)["multiprocessors"] if hasattr(xp, "cuda") else FEW
