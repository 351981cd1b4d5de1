"""How does a kernel store past the caches? A store to a line that is not in cache reads that line first; these do not.

Worth it only for an array that no cache holds: what has gone past the caches has to come from memory again.
"""

from llvmlite import ir
from numba import get_num_threads, njit, prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from .fma import width
from .stream import FAST

VECTOR = width()         # B


@intrinsic
def step(typing, out, i, x, s, mean, gain, y):
    """out[i] = s (x[i] - mean) gain[i] + y[i], for as many i from here on as fill a vector, in LLVM's own words.

    out[i] lies on a vector's boundary; mean, gain and y may be None and are then left out.
    """
    scalar, lanes = out.dtype, VECTOR * 8 // out.dtype.bitwidth

    def build(context, builder, signature, arguments):
        number = context.get_data_type(scalar)
        vector = ir.VectorType(number, lanes)
        given = dict(zip(("out", "i", "x", "s", "mean", "gain", "y"), zip(signature.args, arguments)))

        def place(name):
            kind, value = given[name]
            array = context.make_array(kind)(context, builder, value)
            pointer = cgutils.get_item_pointer(context, builder, kind, array, [given["i"][1]])
            return builder.bitcast(pointer, vector.as_pointer())

        def load(name):
            return builder.load(place(name), align=scalar.bitwidth // 8)

        def spread(name):
            result = ir.Constant(vector, ir.Undefined)
            for lane in range(lanes):
                result = builder.insert_element(result, given[name][1], ir.IntType(32)(lane))
            return result

        result = load("x")
        if mean != types.none:
            result = builder.fsub(result, spread("mean"))
        result = builder.fmul(result, spread("s"), flags=["contract"])
        if gain != types.none:
            result = builder.fmul(result, load("gain"), flags=["contract"])
        if y != types.none:
            result = builder.fadd(result, load("y"), flags=["contract"])
        store = builder.store(result, place("out"), align=VECTOR)
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
        return context.get_dummy_value()

    return types.none(out, types.intp, x, scalar, mean, gain, y), build


@njit(**FAST)
def ends(out, begin, end, x, s, mean, gain, y):
    """The same for i from begin to end, stored as usual: what fills no vector."""
    for i in range(begin, end):
        value = x[i]
        if mean is not None:
            value = value - mean
        value = value * s
        if gain is not None:
            value = value * gain[i]
        if y is not None:
            value = value + y[i]
        out[i] = value


@njit(**FAST)
def pour(out, x, s, mean, gain, y):
    """out = s (x - mean) gain + y past the caches, except for the ends of `out` that fill no vector.

    mean, gain and y may be None; the arrays have one dtype.
    """
    lanes = VECTOR // out.itemsize
    begin = min(out.size, -(out.ctypes.data // out.itemsize) % lanes)
    end = begin + (out.size - begin) // lanes * lanes
    ends(out, 0, begin, x, s, mean, gain, y)
    for i in range(begin, end, lanes):
        step(out, i, x, s, mean, gain, y)
    ends(out, end, out.size, x, s, mean, gain, y)


@njit(parallel=True, **FAST)
def triad_streaming(out, x, y, s):
    """out = x + s y, past the caches.

    FLOPs:   2 n
    Bytes:   3 b n                  on the bus as well
    """
    parts, s = get_num_threads(), x.dtype.type(s)
    for part in prange(parts):
        begin, end = x.size * part // parts, x.size * (part + 1) // parts
        pour(out[begin:end], y[begin:end], s, None, None, x[begin:end])
