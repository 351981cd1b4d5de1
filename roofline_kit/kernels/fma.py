"""How many FLOP/s can the vector unit do? Chains of multiply-adds that wait for nothing but themselves.

One chain waits for each result before the next step: it shows the latency. Several chains fill that wait
until the unit is busy all the time: then the rate stops growing, and that is the vector peak.
"""

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import get_num_threads, njit, prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from . import arguments
from .floats import put, stored
from .twins import flat, twin

CHAINS = arguments.VECTOR_CHAINS            # four units of four cycles each take sixteen
RATIO = 0.999            # x = r x + (1 - r) goes to 1: neither zeros nor denormals nor overflow on the way


def width():
    """Bytes in a vector register of this CPU [B]."""
    features = llvmlite.binding.get_host_cpu_features()
    return next((size for name, size in (("avx512f", 64), ("avx", 32)) if features.get(name)), 16)


@intrinsic(prefer_literal=True)
def _loop(typing, chains, steps, start):
    """The loop of one thread in LLVM's own words: Numba has no type for a vector, LLVM has."""
    lanes = width() * 8 // start.bitwidth

    def build(context, builder, signature, arguments):
        scalar = context.get_value_type(start)
        vector = ir.VectorType(scalar, lanes)
        first = ir.Constant(vector, ir.Undefined)
        for lane in range(lanes):
            first = builder.insert_element(first, arguments[2], ir.IntType(32)(lane))
        ratio, rest = (ir.Constant(vector, [value] * lanes) for value in (RATIO, 1 - RATIO))
        cells = []
        for chain in range(chains.literal_value):        # all differ, or LLVM keeps one chain only
            shift = ir.Constant(vector, [chain / 16 + lane / 256 for lane in range(lanes)])
            begin = builder.fadd(first, shift)
            cells.append(cgutils.alloca_once_value(builder, begin))
        with cgutils.for_range(builder, arguments[1]):
            for cell in cells:
                product = builder.fmul(builder.load(cell), ratio, flags=["contract"])
                builder.store(builder.fadd(product, rest, flags=["contract"]), cell)
        total = ir.Constant(scalar, 0.0)
        for cell in cells:
            for lane in range(lanes):
                total = builder.fadd(total, builder.extract_element(builder.load(cell), ir.IntType(32)(lane)))
        return total

    return start(chains, types.intp, start), build


@njit
def _chains(chains, steps, start):
    if chains == 1:
        return _loop(1, steps, start)
    if chains == 2:
        return _loop(2, steps, start)
    if chains == 3:
        return _loop(3, steps, start)
    if chains == 4:
        return _loop(4, steps, start)
    if chains == 6:
        return _loop(6, steps, start)
    if chains == 8:
        return _loop(8, steps, start)
    if chains == 10:
        return _loop(10, steps, start)
    if chains == 12:
        return _loop(12, steps, start)
    return _loop(16, steps, start)


@njit(parallel=True)
def in_vectors(chains, steps, start):
    """The sum over all lanes of all chains of all threads."""
    total = start * 0
    for _ in prange(get_num_threads()):
        total += _chains(chains, steps, start)
    return total


@njit(parallel=True)
def _fill(chains, steps, out):
    """The loops of the CUDA kernel, element by element, in float64."""
    for i in prange(out.size):
        total = 0.0
        for chain in range(chains):
            x = chain / (2 * chains) + i % 32 / 128
            for _ in range(steps):
                x = x * RATIO + (1 - RATIO)
            total += x
        put(out, i, total)


@twin
def fma(chains, steps, start):
    """Sum of x after `steps` times x = 0.999 x + 0.001, for each lane of `chains` vectors on each thread.

    start:   the number that the chains begin near; its dtype is that of the arithmetic. Or an array, as on a GPU: each
             element gets the sum of `chains` numbers of its own; for comparison, since nothing is done in vectors
    FLOPs:   2 threads chains lanes steps
    Bytes:   0                      everything stays in registers
    """
    wrong = arguments.fault_of_fma(chains, steps, start)
    if wrong:
        raise wrong
    if not isinstance(start, np.ndarray):
        return in_vectors(chains, steps, start)
    return _fill(chains, steps, flat(start if start.dtype == "float64" else stored(start)[0]))


@njit
def empty():
    """Nothing: what is left is the cost of a call."""
