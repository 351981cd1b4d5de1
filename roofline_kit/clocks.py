"""How long do a few calls take, by the host's clock or by two events of a GPU, and did the GPU wait for the host?

A stopwatch is a function of a number of calls that makes them and returns how long they took [s]. Those of a GPU
append to `slow`, at each use, whether the host was too slow for it.
"""

import time

from . import gpu

FLUSHES = 8              # times at most that the caches are flushed, so that a slow launch is over before that ends
NODES = 1024             # calls in a graph at most; more of them are more replays


def wall(call, device, cold=False, clock=time.perf_counter):
    """By the host's clock: each call with the wait for its result."""
    def waiting():
        call()
        device.wait()

    whole = waiting if device.kind == "gpu" else call        # on a CPU a call that returns is done

    def stopwatch(count):
        if cold:
            device.flush()
        device.wait()                                        # a GPU may still flush
        start = clock()
        for _ in range(count):
            whole()
        device.wait()
        return clock() - start
    return stopwatch


def throughput(call, device, slow, clock=time.perf_counter):
    """Calls back to back between two events. The host is too slow if it launches for half of the time."""
    def stopwatch(count):
        begin, start = gpu.mark(device.xp), clock()
        for _ in range(count):
            call()
        launching = clock() - start
        seconds = gpu.between(device.xp, begin, gpu.mark(device.xp))
        slow.append(launching > seconds / 2)
        return seconds
    return stopwatch


def cold(call, device, slow, _clock=None):
    """One call between two events behind a flush, which is the gate: while it runs, the call is queued.

    So no gap of the host's falls between the events. The host is too slow if the flush ends first; from then on more
    is flushed.
    """
    flushes = 1

    def stopwatch(_):
        nonlocal flushes
        for _ in range(flushes):
            device.flush()
        begin = gpu.mark(device.xp)
        call()
        late = begin.done
        slow.append(late)
        if late:
            flushes = min(2 * flushes, FLUSHES)
        return gpu.between(device.xp, begin, gpu.mark(device.xp))
    return stopwatch


def graph(call, device, slow, clock=time.perf_counter):
    """Calls captured in a CUDA graph and replayed: the host launches them all at once."""
    graphs = {}

    def stopwatch(count):
        held = min(count, NODES)                             # both are powers of two, so the replays are whole
        if held not in graphs:
            graphs.clear()
            graphs[held] = gpu.captured(device.xp, call, held)
        return throughput(graphs[held].launch, device, slow, clock)(count // held)
    return stopwatch


BY_EVENTS = {"throughput": throughput, "cold": cold, "graph": graph}
