"""In which order is a GPU measured? Warm it up; launches, memory, caches, multiply-adds, matrix products; best again.

All but the wait is timed by the GPU's events, with calls back to back in windows of a millisecond or more. What this
GPU or this CuPy cannot do is left out with a reason.
"""

import time
from functools import partial

import numpy as np

from . import gpu, kernels, nvml, products
from .doubts import MeasureError
from .products import DTYPES, Bench
from .protocol import MiB
from .units import si

BUFFER = 256 * MiB       # B of each of three buffers at least, and eight times L2: more than a cache holds
SHARE = 0.2              # of the free memory is taken at most: others may use this GPU
LEAST = 64 * MiB         # B below which a buffer says nothing about memory
TRAFFIC = 2048 * MiB     # B that a read of cached data takes in all: half a millisecond at 4 TB/s
VECTOR = {"float32": 1, "float64": 1, "float16": 2}         # dtypes with multiply-adds: numbers in a register
CHAINS = (1, 2, 4, 8, 16)
THREADS = (256, 2048)    # of a multiprocessor: one block, which shows the latency; as many as it holds
STEPS = 4096             # multiply-adds of a chain: far longer than a launch
LAUNCHES = (1, 2, 4, 8)  # empty kernels behind a flush: the slope is the cost of one
BUDGET = 70              # s after which no further dtype is begun
DRIFT = 0.03             # change of a best point from first to last that is reported


def measure_gpu(device, tell, clock=time.perf_counter):
    """All points that a GPU's card is made of, as a dict in SI base units, in the form of `protocol.measure_cpu`.

    tell:    a function (share done, what is measured now)
    clock:   a function that returns seconds, to keep to the time
    """
    start, facts = clock(), gpu.facts(device.xp)
    bench = Bench(device, clock, SHARE * device.available())
    device.wait()                                            # another stream begins
    try:
        with gpu.stream(device.xp):
            found = _points(bench, tell, facts, lambda: clock() - start < BUDGET)
    finally:
        tell(1.0, "")
    return found | {"threads": device.cores, "software": {"numpy": np.__version__} | gpu.software(device.xp),
                    "gpu": facts, "foreign": None, "seconds": clock() - start}


def _points(bench, tell, facts, in_time):
    tell(0.0, "warming up")
    gemm, left_out, warm_up = {}, {}, products.warm_up(bench)
    states = [products.watched(bench, warm_up["sustained"])]
    tell(0.2, "the cost of a launch, memory and cache bandwidth")
    overheads, buffers = _overheads(bench), _buffers(bench)
    rounds, sweep, fit = [_round(bench, buffers)], _sweep(bench, buffers[0]), _fit(bench, buffers)
    for number, dtype in enumerate(DTYPES):
        tell(0.3 + 0.08 * number, f"{dtype} matrix products")
        gemm[dtype], left_out[dtype] = products.attempt(bench, dtype, facts, in_time)
    rounds.append(_round(bench, buffers))
    gemm = {dtype: points for dtype, points in gemm.items() if points}
    left_out = {dtype: reason for dtype, reason in left_out.items() if dtype not in gemm}
    if not gemm:
        raise MeasureError("no matrix product could be measured on this GPU: " + "; ".join(
            f"{dtype} {reason}" for dtype, reason in left_out.items()) + ".")
    tell(0.8, "multiply-adds")
    fma = {dtype: _chains(bench, dtype) for dtype in VECTOR}
    tell(0.9, "the best points once more")
    drift = {dtype: products.again(bench, dtype, points) for dtype, points in gemm.items() if in_time()}
    rounds.append(_round(bench, buffers))
    states.append(products.watched(bench, warm_up["sustained"]))
    return {"rounds": rounds, "sweep": sweep, "fit": fit, "gemm": gemm, "left_out": left_out, "overheads": overheads,
            "fma": fma | {dtype: fma["float32"] for dtype in gemm if dtype not in fma},     # as their vector work is
            "buffer": buffers[0].nbytes, "warm_up": warm_up, "drift": drift, "states": states,
            "doubts": [*nvml.doubts(states), *_doubts(warm_up, drift)]}


def _doubts(warm_up, drift):
    if not warm_up["settled"]:
        yield (f"the clock of this GPU did not settle in {products.WARM} s of matrix products, from "
               f"{si(warm_up['burst'], 'FLOP/s')} at first to {si(warm_up['sustained'], 'FLOP/s')}.")
    moved = {dtype: change for dtype, change in drift.items() if abs(change) > DRIFT}
    if moved:
        listed = ", ".join(f"{dtype} by {100 * change:+.0f} %" for dtype, change in moved.items())
        yield f"the best matrix products changed from the first look to the last: {listed}: its clock is not steady."


def _overheads(bench):
    """What a launch costs, by each clock, with a kernel that does nothing and by the shortest way to it [s]."""
    empty = partial(gpu.raw_kernel(bench.device.xp, kernels.source("fma"), "empty"), (1,), (1,), ())

    def several(count):
        for _ in range(count):
            empty()

    queued = [bench.timed(several, count, by="cold")["seconds"] for count in LAUNCHES]
    slope, once = np.polyfit(LAUNCHES, queued, 1)
    return {"a launch": bench.timed(empty)["seconds"], "a queued launch": max(float(slope), 0.0),
            "a timed window": max(float(once), 0.0), "a launch in a graph": bench.timed(empty, by="graph")["seconds"],
            "a launch and a wait": bench.timed(empty, by="wall")["seconds"]}


def _buffers(bench):
    """Three arrays of random float32."""
    device = bench.device
    size = min(max(BUFFER, 8 * device.caches["L2"]), int(bench.room / 6)) // MiB * MiB
    if size < LEAST:
        raise MeasureError(f"only {si(device.available(), 'B')} of the GPU's memory are free, too little to measure "
                           "its bandwidth: end what else uses it (nvidia-smi shows it) and try again.")
    return [device.random(size // 4, dtype="float32") for _ in range(3)]


def _round(bench, buffers):
    """{kernel: its point}, each kernel in turn."""
    x, y, out = buffers
    arguments = {"read": (x,), "triad": (out, x, y, 0.5), "copy": (out, x), "scale": (y, 0.9999), "write": (out, 1.5)}
    return {label: bench.timed(bench.device.kernel(label), *given) | {"threads": bench.device.cores, "bytes": x.nbytes}
            for label, given in arguments.items()}


def _sweep(bench, buffer):
    """Reading the same bytes over and over: 16 KiB to 4 x L2, two sizes an octave."""
    points, read = [], bench.device.kernel("read")
    while (size := int(2**14 * 2 ** (len(points) / 2)) // 512 * 512) <= min(
            buffer.nbytes, 4 * bench.device.caches["L2"]):
        repeats = max(1, TRAFFIC // size)
        point = bench.timed(read, buffer[:size // 4], repeats, limit=0.1)
        points.append({"size": size, "bandwidth": repeats * size / point["seconds"], "spread": point["spread"]})
    return points


def _fit(bench, buffers):
    """T = T0 + bytes / bandwidth through cold copies of several sizes: {"seconds": T0 [s], "bandwidth" [B/s]}."""
    x, _, out = buffers
    sizes = [x.nbytes // share for share in (16, 8, 4, 2)]
    took = [bench.timed(bench.device.kernel("copy"), out[:size // 4], x[:size // 4], by="cold", limit=0.1)["seconds"]
            for size in sizes]
    slope, start = np.polyfit(sizes, took, 1)
    return {"seconds": float(start), "bandwidth": 2 / float(slope)}


def _chains(bench, dtype):
    """FLOP/s of multiply-adds by the number of threads and of the chains in each."""
    points, fma = [], bench.device.kernel("fma")
    for threads in THREADS:
        out = bench.device.xp.empty(bench.device.cores * threads * VECTOR[dtype], dtype)
        for chains in CHAINS:
            point = bench.timed(fma, chains, STEPS, out, limit=0.2)
            points.append({"threads": threads, "chains": chains, "spread": point["spread"],
                           "rate": 2 * chains * STEPS * out.size / point["seconds"]})
    return points
