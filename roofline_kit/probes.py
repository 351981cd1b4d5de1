"""How fast is this CPU right now? Probes of a millisecond, to stand beside the call that is being diagnosed.

A shared machine changes its speed from one second to the next. What its card says was true when it was measured;
whether a call is bound by its bytes or by its FLOPs is decided by the rates of the moment in which it runs.
"""

import functools
import sys
import time

import numpy as np

from .device import device as this_device
from .sustained import best, card
from .work import Work

MEMORY = 2**25                   # B that a probe of memory reads at least, half a millisecond at 60 GB/s
STEPS, CALLS, TURNS = 200_000, 300, 1500        # of a probe: multiply-adds of a chain, library calls, turns of a loop
LITTLE = 2**14                   # numbers, enough for every thread to have a part
DISTURBED = 3.0                  # a probe so much slower than the card tells of others on the cores, not of memory
LOOK = 4095                      # instructions between two looks at the clock, one less than a power of two


def probes(device, roof, work=None, cold=False):
    """{what: a function that measures it now}: memory, compute and latency over what the roof says, call and
    instruction in seconds."""
    found = {"call": _a_call(), "instruction": _an_instruction()}
    if roof.origin == "measured":                            # of another machine's roof there is nothing to probe here
        if work is not None and (cold or not roof.level_of(work)):
            found["memory"] = _memory(device, roof)          # a cache is nobody else's, so it keeps its rate
        found["compute"] = _compute(device, roof)
        found["latency"] = _relative(_a_call(), roof.overhead)
    return found


def _timed(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _relative(probe, expected):
    return lambda: min(DISTURBED, probe() / expected) if expected else 1.0


@functools.cache
def _buffer(size):
    return this_device("cpu").random(size // 8, dtype="float64")


def _memory(device, roof):
    """Reading from memory, past all caches."""
    read, last = device.kernel("read"), max((capacity for capacity, _ in roof.levels), default=0)
    data = _buffer(max(MEMORY, 2 * last))
    expected = roof.times(Work(0, data.nbytes)).memory
    part = data[:LITTLE]

    def probe():
        read(part)                                           # threads that fell asleep meanwhile wake up here
        return _timed(lambda: read(data))

    read(data)
    return _relative(probe, expected)


def _compute(device, roof):
    """Chains of multiply-adds on all cores: the clock of the cores, and what others take of them."""
    import numba

    from .kernels import fma as home

    dtype = roof.dtype if roof.dtype in ("float32", "float64") else "float32"
    start, chains = np.dtype(dtype).type(0.5), best(card(device=device).data["fma"][dtype])["chains"]
    lanes = home.width() // start.itemsize
    peak = roof.vector_peak or roof.peak
    expected = 2 * numba.get_num_threads() * chains * lanes * STEPS / peak

    def probe():
        home.fma(chains, 1, start)                           # as above
        return _timed(lambda: home.fma(chains, STEPS, start))

    probe()
    return _relative(probe, expected)


def _a_call():
    """Seconds of the cheapest library call: four numbers plus four numbers."""
    four, out = np.full(4, 0.5), np.empty(4)

    def calls():
        for _ in range(CALLS):
            np.add(four, four, out)

    return lambda: _timed(calls) / CALLS


def _an_instruction():
    """Seconds of one of Python's instructions, in a loop of plain arithmetic."""
    count, _ = instructions(lambda: _loop(TURNS))
    return lambda: _timed(lambda: _loop(TURNS)) / count


def _loop(turns):
    total = 0.0
    for i in range(turns):
        total = total + 0.5 * i
    return total


def instructions(call, limit=1.0, took=0.0):
    """(count, share): how many instructions Python carries out in call(), by execution.

    After `limit` seconds the count stops, and share is the part of the call's time that it covers.
    took:  how long the call takes when nobody counts [s]
    """
    count, stopped, start = 0, None, time.perf_counter()

    def step(frame, event, _):
        nonlocal count, stopped
        if event == "call":
            frame.f_trace_lines, frame.f_trace_opcodes = False, True
        elif event == "opcode":
            count += 1
            if not count & LOOK and time.perf_counter() - start > limit:
                sys.settrace(None)
                stopped = time.perf_counter()
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        call()
    finally:
        sys.settrace(before)
    rest = time.perf_counter() - stopped if stopped else 0.0
    return count, min(1.0, max(0.01, 1 - rest / took)) if stopped and took else 1.0
