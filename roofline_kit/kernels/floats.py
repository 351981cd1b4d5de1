"""How does Numba compute with numbers it has no type for, and exp on whole vectors?

float16 arrays reach a loop as uint16 and bfloat16 arrays as int16; `widened` gives one number of them as float32, `put`
stores one. All of it is arithmetic without a branch or a call, so LLVM does it on whole vectors.
"""

import numpy as np
from llvmlite import ir
from ml_dtypes import bfloat16
from numba import njit, types
from numba.extending import intrinsic, overload

EXACT = {"boundscheck": False, "error_model": "numpy", "fastmath": {"contract"}}     # rounds as written
STORED = {np.dtype("float32"): np.float32, np.dtype("float16"): np.uint16, np.dtype(bfloat16): np.int16}

LOG2_E = np.float32(1.44269504)          # 1 / ln 2
LN2 = np.float32(0.693147182)
LEAST = np.float32(-87.3)                # exp of less is no normal float32
ONE, HALF = np.float32(1), np.float32(0.5)
ROUND = np.float32(1.5 * 2**23)          # a float32 of that size holds no fraction
C2, C3, C4, C5 = map(np.float32, (       # exp(r) = 1 + r + C2 r^2 + .. within 1.1e-7 for |r| <= ln(2) / 2: our own fit
    0.499992311, 0.166671157, 0.0418903306, 0.00831250101))

INFINITE = 0x7f800000                    # the bits of infinity in float32; those of NaN are larger
SMALLEST = 113 << 23                     # those of 2^-14, the smallest normal float16
REBIAS = 112 << 23                       # between the exponents of one number in float32 and in float16
SHIFT = np.float32(2.0**112)             # the same as a factor


def stored(*arrays):
    """The arrays as loops take them.

    Errors:  KeyError for a dtype that the loops have no arithmetic for; `twin` says what to do
    """
    return tuple([array.view(STORED[array.dtype]) for array in arrays])


@njit(**EXACT)
def _bits(x):
    return np.int64(np.float32(x).view(np.uint32))


@njit(**EXACT)
def _float(bits):
    return np.uint32(bits).view(np.float32)


@njit(**EXACT)
def exp(x):
    """exp(x) for x <= 0 in float32; 0 where that is below 1.2e-38.

    Precision:  within (2e-7 + 6e-8 |x|) exp(x)
    Source:     x = n ln 2 + r, so exp(x) = 2^n exp(r): a polynomial, and an addition to the exponent
    """
    clamped = max(x, LEAST)
    n = clamped * LOG2_E + ROUND                         # whole from here on, and its last bits are n
    r = clamped - (n - ROUND) * LN2
    power = ONE + (r + r * r * (C2 + r * (C3 + r * (C4 + r * C5))))
    return _float(_bits(power) + (_bits(n) << 23)) if x >= LEAST else np.float32(0)


@intrinsic
def larger(typing, a, b):
    """The larger of two numbers that are not NaN: LLVM finds a maximum on whole vectors if it may rely on that."""
    def build(context, builder, signature, arguments):
        kind = context.get_value_type(a)
        maxnum = builder.module.declare_intrinsic("llvm.maxnum", [kind], ir.FunctionType(kind, [kind, kind]))
        return builder.call(maxnum, arguments, fastmath=("nnan", "nsz"))

    return a(a, a), build


@njit(**EXACT)
def _from_half(half):
    bits = np.int64(half)
    size = _bits(_float((bits & 0x7fff) << 13) * SHIFT)
    if bits & 0x7c00 == 0x7c00:                          # infinity and NaN
        size |= INFINITE
    return _float(size | (bits & 0x8000) << 16)


@njit(**EXACT)
def _to_half(x):
    bits = _bits(x)
    size = bits & 0x7fffffff
    half = min((size - REBIAS + 0xfff + (size >> 13 & 1)) >> 13, 0x7c00)                # to the nearest, ties to even
    if size < SMALLEST:                                  # adding 1/2 rounds to what float16 can tell apart there
        half = _bits(_float(size) + HALF) - _bits(HALF)
    if size > INFINITE:
        half = 0x7e00                                    # NaN
    return np.uint16(half | bits >> 16 & 0x8000)


@njit(**EXACT)
def _from_bfloat16(half):
    return _float(np.int64(half) << 16)


@njit(**EXACT)
def _to_bfloat16(x):
    bits = _bits(x)
    if bits & 0x7fffffff > INFINITE:
        bits = 0x7fc00000                                # NaN
    return np.int16((bits + 0x7fff + (bits >> 16 & 1)) >> 16)                           # to the nearest, ties to even


def widened(x):
    """One number of an array of `stored`, as float32."""


def put(row, i, x):
    """row[i] = x, rounded to what the row stores."""


@overload(widened)
def _widened(x):
    return {types.uint16: lambda x: _from_half(x), types.int16: lambda x: _from_bfloat16(x)}.get(x, lambda x: x)


@overload(put)
def _put(row, i, x):
    def half(row, i, x):
        row[i] = _to_half(x)

    def bfloat16(row, i, x):
        row[i] = _to_bfloat16(x)

    def same(row, i, x):
        row[i] = x

    return {types.uint16: half, types.int16: bfloat16}.get(row.dtype, same)
