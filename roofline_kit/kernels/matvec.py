"""Do smaller weights make a product of a matrix and a vector faster? Four sizes of weight, on all threads, in Numba.

A weight becomes a float32 in a register, between memory and its multiply-add; no matrix of floats is ever stored.
So the bytes shrink with the weights, and the arithmetic does not. Four rows are read side by side: they share each
load of x, and four streams keep more lines on their way from memory than one.
"""

import numpy as np
from llvmlite import ir
from ml_dtypes import bfloat16
from numba import njit, prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from .floats import widened
from .twins import refusal, twin

FAST = {"fastmath": {"reassoc", "contract", "nsz", "arcp"}, "boundscheck": False, "error_model": "numpy"}
FLAGS = {"flags": ("reassoc", "contract", "nsz")}
ZERO, ROWS = np.float32(0), 4
HALF = 16                # bytes of a group: 32 weights that share a scale
BYTES, WORDS, FLOATS = (ir.VectorType(kind, HALF) for kind in (ir.IntType(8), ir.IntType(32), ir.FloatType()))

_refuse_float32, _refuse_bfloat16 = map(refusal, ("matvec", "matvec_bfloat16"))
_refuse_int8, _refuse_int4 = map(refusal, ("matvec_int8", "matvec_int4"))


@njit(inline="always", **FAST)
def four_rows(w, row, x):
    """w[row:row + 4] @ x, four numbers."""
    w0, w1, w2, w3 = w[row], w[row + 1], w[row + 2], w[row + 3]
    s0 = s1 = s2 = s3 = ZERO
    for i in range(x.size):
        s0 += np.float32(widened(w0[i])) * x[i]
        s1 += np.float32(widened(w1[i])) * x[i]
        s2 += np.float32(widened(w2[i])) * x[i]
        s3 += np.float32(widened(w3[i])) * x[i]
    return s0, s1, s2, s3


@njit(inline="always", **FAST)
def one_row(w, row, x):
    """w[row] @ x."""
    weights, total = w[row], ZERO
    for i in range(x.size):
        total += np.float32(widened(weights[i])) * x[i]
    return total


@njit(parallel=True, **FAST)
def _matvec(w, x, out):
    for part in prange(out.size // ROWS):
        row = ROWS * part
        out[row], out[row + 1], out[row + 2], out[row + 3] = four_rows(w, row, x)
    for row in range(out.size - out.size % ROWS, out.size):
        out[row] = one_row(w, row, x)


@twin
@njit(**FAST)
def matvec(w, x, out):
    """out[m] = w[m, n] x[n], all float32.

    FLOPs:   2 m n
    Bytes:   4 (m n + n + m)
    """
    _refuse_float32(w, x, out)
    _matvec(w, x, out)


@njit(**FAST)
def _of_bfloat16(w, x, out):
    _refuse_bfloat16(w, x, out)
    _matvec(w, x, out)


@twin
def matvec_bfloat16(w, x, out):
    """out[m] = w[m, n] x[n] with w in bfloat16, x and out in float32.

    FLOPs:   2 m n
    Bytes:   2 m n + 4 (n + m)
    """
    if w.dtype != bfloat16:
        raise TypeError("w is not in bfloat16")
    _of_bfloat16(w.view(np.int16), x, out)               # as `widened` takes it


@twin
@njit(**FAST)
def matvec_int8(w, scale, x, out):
    """out[m] = scale[m] (w[m, n] x[n]) with w in int8, the rest in float32.

    FLOPs:   2 m n + m                     a conversion to float is not counted, though it takes an instruction
    Bytes:   m n + 4 (m + n + m)
    """
    _refuse_int8(w, scale, x, out)
    _matvec(w, x, out)
    for row in range(out.size):
        out[row] *= scale[row]


@intrinsic
def _four_rows_of_groups(typing, w, scale, even, odd, row, groups):
    """The sums of scale w x over the first groups of four rows, in LLVM's own words.

    Numba has no vectors, and a plain loop adds up the lanes of each group before it scales them, which takes six
    times as long. Here the lanes stay apart until the row ends.
    """
    def build(context, builder, signature, arguments):
        arrays = [context.make_array(kind)(context, builder, value)
                  for kind, value in zip(signature.args[:4], arguments[:4], strict=True)]
        starts = [[builder.gep(array.data, [builder.mul(builder.add(arguments[4], arguments[4].type(k)),
                                                        cgutils.unpack_tuple(builder, array.shape)[1])])
                   for k in range(ROWS)] for array in arrays[:2]]

        def load(base, kind, align):                     # the 16 elements of this group
            first = builder.gep(base, [builder.mul(loop.index, loop.index.type(HALF))])
            return builder.load(builder.bitcast(first, kind.as_pointer()), align=align)

        sums = [cgutils.alloca_once_value(builder, ir.Constant(FLOATS, [0.0] * HALF)) for _ in range(ROWS)]
        with cgutils.for_range(builder, arguments[5]) as loop:
            x_even, x_odd = (load(array.data, FLOATS, 4) for array in arrays[2:])
            eights = builder.fmul(builder.fadd(x_even, x_odd, **FLAGS), ir.Constant(FLOATS, [-8.0] * HALF), **FLAGS)
            for weights, scales, total in zip(*starts, sums, strict=True):
                pairs = builder.zext(load(weights, BYTES, 1), WORDS)
                products = eights                        # a half holds q + 8: four rows take off the same
                for half, x in ((builder.and_(pairs, ir.Constant(WORDS, [15] * HALF)), x_even),
                                (builder.lshr(pairs, ir.Constant(WORDS, [4] * HALF)), x_odd)):
                    products = builder.fadd(builder.fmul(builder.sitofp(half, FLOATS), x, **FLAGS), products, **FLAGS)
                bits = builder.bitcast(builder.load(builder.gep(scales, [loop.index])), ir.HalfType())
                one = builder.insert_element(ir.Constant(FLOATS, ir.Undefined), builder.fpext(bits, ir.FloatType()),
                                             ir.IntType(32)(0))
                all_lanes = builder.shuffle_vector(one, one, ir.Constant(WORDS, [0] * HALF))
                scaled = builder.fmul(all_lanes, products, **FLAGS)
                builder.store(builder.fadd(builder.load(total), scaled, **FLAGS), total)
        results = [ir.Constant(ir.FloatType(), 0.0)] * ROWS
        for lane in range(HALF):
            results = [builder.fadd(result, builder.extract_element(builder.load(total), ir.IntType(32)(lane)), **FLAGS)
                       for result, total in zip(results, sums, strict=True)]
        return context.make_tuple(builder, signature.return_type, results)
    return types.UniTuple(types.float32, ROWS)(w, scale, even, odd, types.intp, types.intp), build


@njit(inline="always", **FAST)
def _bytes_from(start, w, scale, even, odd):
    """Sum of scale w x over the bytes of one row from `start` on, one at a time."""
    total = ZERO
    for i in range(start, w.size):
        low, high = np.float32((w[i] & 15) - 8), np.float32((w[i] >> 4) - 8)
        total += widened(scale[i // HALF]) * (low * even[i] + high * odd[i])
    return total


@njit(**FAST)
def _even_and_odd(x):
    """x as the low and the high halves of bytes meet it; not in the loop below, where it would start threads, too."""
    even, odd = np.zeros((x.size + 1) // 2, np.float32), np.zeros((x.size + 1) // 2, np.float32)
    for i in range(x.size // 2):
        even[i], odd[i] = x[2 * i], x[2 * i + 1]
    if x.size % 2:
        even[-1] = x[-1]
    return even, odd


@njit(parallel=True, **FAST)
def _of_int4(w, scale, x, out):
    _refuse_int4(w, scale, x, out)
    even, odd = _even_and_odd(x)
    groups = x.size // (2 * HALF)
    for part in prange(out.size // ROWS):
        row = ROWS * part
        sums = _four_rows_of_groups(w, scale, even, odd, row, groups)
        for k in range(ROWS):
            out[row + k] = sums[k] + _bytes_from(HALF * groups, w[row + k], scale[row + k], even, odd)
    for row in range(out.size - out.size % ROWS, out.size):
        out[row] = _bytes_from(0, w[row], scale[row], even, odd)


@twin
def matvec_int4(w, scale, x, out):
    """out[m] = the sum over n of scale w x, with weights of half a byte and a float16 scale for each 32 columns.

    w[m, ceil(n / 2)] holds bytes, scale is [m, ceil(n / 32)], as `quantised.to_int4` makes them.
    FLOPs:   2 m n + m n / 32              a multiplication by the scale for each group
    Bytes:   m n / 2 + 2 m n / 32 + 4 (n + m)
    """
    if scale.dtype != np.float16:
        raise TypeError("scale is not in float16")
    _of_int4(w, scale.view(np.uint16), x, out)
