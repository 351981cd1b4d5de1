"""In which order is a GPU measured? Memory, multiply-adds, matrix products, launches.

A first and short version: back-to-back calls by the host's clock, in windows long enough to hide the launches.
"""

import time

import numpy as np

from .doubts import MeasureError
from .protocol import MiB, timed
from .units import itemsize, si

BUFFER = 256 * MiB       # B of each of three buffers at least, and eight times L2: more than a cache holds
SHARE = 0.2              # of the free memory is taken at most: others may use this GPU
LEAST = 64 * MiB         # B below which a buffer says nothing about memory
DTYPES = ("float64", "float32", "float16")
PRODUCTS = (2048, 4096, 8192)           # n of the products of two n x n matrices
STEPS = 4096             # multiply-adds of a chain: far longer than a launch
THREADS = 2048           # that a multiprocessor can hold, so that each of them is full


def measure_gpu(device, tell):
    """All points that a GPU's card is made of, as a dict in SI base units, in the form of `protocol.measure_cpu`.

    tell:    a function (share done, what is measured now)
    """
    from .kernels import gpu

    start, xp = time.perf_counter(), device.xp
    rounds, fma, gemm = [], {}, {}
    try:
        tell(0.0, "compiling the kernels")
        buffers = _buffers(device)
        for number, dtype in enumerate(DTYPES):
            tell(0.1 + 0.25 * number, f"memory bandwidth, {dtype} arithmetic")
            rounds.append(_round(device, gpu, buffers))
            gemm[dtype] = [_product(device, dtype, n) for n in PRODUCTS if _fits(device, dtype, n)]
            if dtype != "float16":                           # its vector work is done in float32
                fma[dtype] = [_chains(device, gpu, dtype, chains) for chains in gpu.CHAINS]
        tell(0.9, "the cost of a launch")
        launch = timed(device, gpu.scale, device.random(4, dtype="float32"), 0.999)["seconds"]
    finally:
        tell(1.0, "")
    software = {"numpy": np.__version__, "cupy": xp.__version__, "driver": xp.cuda.runtime.driverGetVersion(),
                "runtime": xp.cuda.runtime.runtimeGetVersion()}
    return {"rounds": rounds, "sweep": [], "fma": fma | {"float16": fma["float32"]}, "gemm": gemm,
            "overheads": {"a launch": launch}, "threads": device.cores, "buffer": buffers[0].nbytes,
            "software": software, "foreign": None, "seconds": time.perf_counter() - start}


def _buffers(device):
    """Three arrays of random float32."""
    size = min(max(BUFFER, 8 * device.caches["L2"]), int(SHARE * device.available() / 3)) // MiB * MiB
    if size < LEAST:
        raise MeasureError(f"only {si(device.available(), 'B')} of the GPU's memory are free, too little to measure "
                           "its bandwidth: end what else uses it (nvidia-smi shows it) and try again.")
    return [device.random(size // 4, dtype="float32") for _ in range(3)]


def _round(device, gpu, buffers):
    """{kernel: its point}, each kernel in turn."""
    x, y, out = buffers
    calls = {"read": (gpu.read, x), "triad": (gpu.triad, out, x, y, 0.5), "copy": (gpu.copy, out, x),
             "scale": (gpu.scale, y, 0.9999), "write": (gpu.write, out, 1.5)}
    return {label: timed(device, *call, limit=0.5) | {"threads": device.cores, "bytes": x.nbytes}
            for label, call in calls.items()}


def _fits(device, dtype, n):
    return 3 * n * n * itemsize(dtype) < SHARE * device.available()


def _product(device, dtype, n):
    """FLOP/s of the library's product of two n x n matrices."""
    a, b = device.random(n, n, dtype=dtype), device.random(n, n, dtype=dtype)
    found = timed(device, device.xp.matmul, a, b, limit=1.0)
    return {"n": n, "rate": 2 * n**3 / found["seconds"], "spread": found["spread"]}


def _chains(device, gpu, dtype, chains):
    """FLOP/s of that many chains of multiply-adds in each thread."""
    out = device.xp.empty(device.cores * THREADS, dtype)
    found = timed(device, gpu.fma, chains, STEPS, out, limit=0.5)
    return {"chains": chains, "rate": 2 * chains * STEPS * out.size / found["seconds"], "spread": found["spread"]}
