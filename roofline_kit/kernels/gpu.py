"""How fast do bytes move, and numbers multiply, on a GPU? The same loops, a thread for each element, by CuPy.

The calls are those of `stream`, so a lesson's line runs on either device. `fma` writes into an array, whose
length is the number of threads.
"""

import functools

import cupy

CHAINS = (1, 2, 4, 8, 16)
RATIO = 0.999            # x = r x + (1 - r) goes to 1: neither zeros nor denormals nor overflow on the way

_scale = cupy.ElementwiseKernel("T s", "T x", "x = s * x", "scale")
_copy = cupy.ElementwiseKernel("T x", "T out", "out = x", "copy")
_triad = cupy.ElementwiseKernel("T x, T y, T s", "T out", "out = x + s * y", "triad")
_write = cupy.ElementwiseKernel("T s", "T out", "out = s", "write")


def read(x, repeats=1):
    """Sum of x, `repeats` times over. Bytes: b n, none of them written."""
    for _ in range(repeats):
        total = x.sum()
    return total


def scale(x, s):
    """x = s x, in place. Bytes: 2 b n, half of them written."""
    _scale(x.dtype.type(s), x)


def copy(out, x):
    """out = x. Bytes: 2 b n, half of them written."""
    _copy(x, out)


def triad(out, x, y, s):
    """out = x + s y. Bytes: 3 b n, a third of them written."""
    _triad(x, y, x.dtype.type(s), out)


def write(out, s):
    """out = s in every element. Bytes: b n, all of them written."""
    _write(out.dtype.type(s), out)


def fma(chains, steps, out):
    """`steps` times x = 0.999 x + 0.001 in `chains` numbers of each thread, whose sum goes to its place in out.

    FLOPs:   2 chains steps for each element of out
    Bytes:   b for each element of out; the rest stays in registers
    """
    _chains(chains)(out.dtype.type(RATIO), steps, out)


@functools.cache
def _chains(chains):
    """The kernel for that many chains. They begin at different numbers, or the compiler would keep only one."""
    names = [f"x{number}" for number in range(chains)]
    begin = " ".join(f"T {name} = r * {number} / {2 * chains} + r * (i % 32) / 128;"
                     for number, name in enumerate(names))
    steps = " ".join(f"{name} = {name} * r + rest;" for name in names)
    code = f"T rest = 1 - r; {begin} for (int k = 0; k < steps; ++k) {{ {steps} }} out = {' + '.join(names)};"
    return cupy.ElementwiseKernel("T r, int32 steps", "T out", code, f"fma_{chains}")
