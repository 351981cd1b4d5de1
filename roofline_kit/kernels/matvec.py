"""Do smaller weights make a product of a matrix and a vector faster? Four sizes of weight, on all threads, in Numba.

A weight becomes a float32 in a register, between memory and its multiply-add; no matrix of floats is ever stored.
So the bytes shrink with the weights, and the arithmetic does not. Four rows are read side by side: they share each
load of x, and four streams keep more lines on their way from memory than one. Rows of int4 are so short that the
hardware hardly begins to foresee them: the kernel asks for the next four itself.
"""

import numpy as np
from llvmlite import ir
from ml_dtypes import bfloat16
from numba import njit, prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from .floats import widened
from .quantised import GROUP
from .twins import refusal, twin

FAST = {"fastmath": {"reassoc", "contract", "nsz", "arcp"}, "boundscheck": False, "error_model": "numpy"}
FLAGS = {"flags": ("reassoc", "contract", "nsz")}
ZERO, ROWS = np.float32(0), 4
HALVES, LANES = 8, 16    # of a word of int4 weights; of a vector
BLOCK = HALVES * LANES   # weights of a vector of words
WORD, POINT = ir.IntType(32), 19                         # where a float32's first four bits after the point begin
ONE = 0x3f800000         # the bits of 1
FLOAT, WORDS = ir.FloatType(), ir.VectorType(WORD, LANES)
FLOATS, SCALES = ir.VectorType(FLOAT, LANES), ir.VectorType(ir.HalfType(), 4)

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


def _prefetch(builder, pointer):
    """LLVM's instruction that has a line fetched for a read to come."""
    kind = ir.FunctionType(ir.VoidType(), [pointer, *[ir.IntType(32)] * 3])
    return builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)


@intrinsic
def _four_rows_of_blocks(typing, w, scale, dealt, row, blocks):
    """The sums of scale w x over the first blocks of four rows, in LLVM's own words.

    Numba has no vectors, and a plain loop adds up the lanes of each group before it scales them, which takes many
    times as long. Here the lanes stay apart until the row ends. A lane is a word of a row: eight weights, which share a
    scale with three lanes more. A half h, as the first bits after the point of a float between 1 and 2, is 1 + h / 16:
    a shift and a mask, where a conversion would take longer. `_dealt` has the x that fits.
    """
    def build(context, builder, signature, arguments):
        w, scale, dealt = (context.make_array(kind)(context, builder, value)
                           for kind, value in zip(signature.args[:3], arguments[:3], strict=True))
        row, blocks = arguments[3:]

        def constant(kind, value):
            return ir.Constant(ir.VectorType(kind, LANES), [value] * LANES)

        def start(array, k):
            width = cgutils.unpack_tuple(builder, array.shape)[1]
            return builder.gep(array.data, [builder.mul(builder.add(row, row.type(k)), width)])

        def load(base, index, size, kind):               # `kind` from element index x size of the row on
            first = builder.gep(base, [builder.mul(index, index.type(size))])
            return builder.load(builder.bitcast(first, kind.as_pointer()), align=1)

        starts = [(start(w, k), start(scale, k)) for k in range(ROWS)]
        sums = [cgutils.alloca_once_value(builder, constant(FLOAT, 0.0)) for _ in range(ROWS)]
        with cgutils.for_range(builder, blocks) as loop:
            def x(place):
                index = builder.add(builder.mul(loop.index, loop.index.type(HALVES + 1)), loop.index.type(place))
                return load(dealt.data, index, LANES, FLOATS)

            for k in range(ROWS):
                later = builder.gep(start(w, ROWS + k), [builder.mul(loop.index, loop.index.type(BLOCK // 2))])
                builder.call(_prefetch(builder, later.type), [later, *map(ir.IntType(32), (0, 3, 1))])
            words = [load(weights, loop.index, BLOCK // 2, WORDS) for weights, _ in starts]
            products = [x(HALVES)] * ROWS
            for half in range(HALVES):
                away = 4 * half - POINT                  # the half's first bit comes to lie there
                move = builder.lshr if away > 0 else builder.shl
                for k, word in enumerate(words):
                    moved = move(word, constant(WORD, abs(away)))
                    number = builder.or_(builder.and_(moved, constant(WORD, 15 << POINT)), constant(WORD, ONE))
                    products[k] = builder.fadd(builder.fmul(builder.bitcast(number, FLOATS), x(half), **FLAGS),
                                               products[k], **FLAGS)
            for (_, scales), product, total in zip(starts, products, sums, strict=True):
                four = builder.fpext(load(scales, loop.index, BLOCK // GROUP, SCALES), ir.VectorType(FLOAT, 4))
                lanes = ir.Constant(WORDS, [lane // (LANES // 4) for lane in range(LANES)])
                scaled = builder.fmul(builder.shuffle_vector(four, four, lanes), product, **FLAGS)
                builder.store(builder.fadd(builder.load(total), scaled, **FLAGS), total)
        results = [ir.Constant(FLOAT, 0.0)] * ROWS
        for lane in range(LANES):
            results = [builder.fadd(result, builder.extract_element(builder.load(total), WORD(lane)), **FLAGS)
                       for result, total in zip(results, sums, strict=True)]
        return context.make_tuple(builder, signature.return_type, results)
    return types.UniTuple(types.float32, ROWS)(w, scale, dealt, types.intp, types.intp), build


@njit(**FAST)
def _dealt(x, blocks):
    """16 x as the halves of the words meet it, in rows: [halves of a block, lanes]; then what makes q of 1 + h / 16.

    16 (1 + h / 16) = q + 24, so that last row is -24 x, added over the halves of a lane.
    """
    dealt = np.zeros((blocks, HALVES + 1, LANES), np.float32)
    for block in range(blocks):
        for half in range(HALVES):
            for lane in range(LANES):
                number = np.float32(16) * x[block * BLOCK + lane * HALVES + half]
                dealt[block, half, lane] = number
                dealt[block, HALVES, lane] -= np.float32(1.5) * number
    return dealt


@njit(inline="always", **FAST)
def _bytes_from(start, w, scale, x):
    """Sum of scale w x over the bytes of one row from `start` on, one at a time."""
    total = ZERO
    for i in range(start, w.size):
        product = np.float32((w[i] & 15) - 8) * x[2 * i]
        if 2 * i + 1 < x.size:
            product += np.float32((w[i] >> 4) - 8) * x[2 * i + 1]
        total += widened(scale[2 * i // GROUP]) * product
    return total


@njit(parallel=True, **FAST)
def _of_int4(w, scale, x, out):
    _refuse_int4(w, scale, x, out)
    blocks = x.size // BLOCK
    dealt = _dealt(x, blocks)
    for part in prange(out.size // ROWS):
        row = ROWS * part
        sums = _four_rows_of_blocks(w, scale, dealt, row, blocks)
        for k in range(ROWS):
            out[row + k] = sums[k] + _bytes_from(BLOCK // 2 * blocks, w[row + k], scale[row + k], x)
    for row in range(out.size - out.size % ROWS, out.size):
        out[row] = _bytes_from(0, w[row], scale[row], x)


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
