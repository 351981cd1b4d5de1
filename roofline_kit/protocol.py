"""In which order is a CPU measured? Memory, caches, multiply-adds, matrix products, calls."""

import platform
import time
from functools import partial

import numpy as np

from .doubts import MeasureError
from .host import foreign_load, load_mark
from .timing import quantile, sample, spread
from .units import si

MiB = 2**20
BUFFER = 256 * MiB       # B of each of three buffers, where memory has room for them: more than a cache holds
LEAST = 8 * MiB          # B below which a buffer says nothing about memory
DTYPES = ("float32", "float64")
PRODUCTS = (256, 512, 1024, 2048)       # n of the products of two n x n matrices
BUDGET = 22              # s after which nothing is repeated: all takes longer where others use the cores
STEPS = 1_000_000        # multiply-adds of a chain in a call: 1 ms at 4 cycles each and 4 GHz


def measure_cpu(device, tell):
    """All points that a card is made of, as a dict in SI base units.

    What becomes a roof is measured at least twice, some seconds apart: see `sustained`.
    tell:    a function (share done, what is measured now)
    """
    import numba

    if numba.config.DISABLE_JIT:
        raise MeasureError("NUMBA_DISABLE_JIT is set, so the kernels would run in plain Python for hours: unset it.")
    start, mark, before = time.perf_counter(), load_mark(), numba.get_num_threads()
    threads = min(device.cores, numba.config.NUMBA_NUM_THREADS)
    fma, gemm = {}, {}
    try:
        tell(0.0, "compiling the kernels")
        buffers = _buffers(device, threads)
        tell(0.15, "memory bandwidth")
        rounds = [_round(device, buffers, _counts(threads))]
        most = max(point["threads"] for point in rounds[0].values())

        def in_time():
            return time.perf_counter() - start < BUDGET

        def another_round():
            if in_time():
                rounds.append(_round(device, buffers, [most]))

        tell(0.3, "cache bandwidth")
        sweep = _sweep(device, buffers[0], threads)
        for number, dtype in enumerate(DTYPES):
            tell(0.4 + 0.2 * number, f"{dtype} multiply-adds, memory again")
            fma[dtype] = _chains(device, dtype, threads)
            another_round()
            tell(0.5 + 0.2 * number, f"{dtype} matrix products, memory again")
            gemm[dtype] = _products(device, dtype)
            another_round()
        tell(0.8, "the cost of a call")
        overheads = _overheads(device)
        tell(0.85, "the best points once more")
        for dtype in DTYPES if in_time() else ():
            fma[dtype] += _chains(device, dtype, threads, max(fma[dtype], key=_rate))
            gemm[dtype] += _products(device, dtype, max(gemm[dtype], key=_rate))
        if in_time():
            second = _sweep(device, buffers[0], threads)
            sweep = [max(pair, key=lambda point: point["bandwidth"]) for pair in zip(sweep, second)]
        another_round()
    finally:
        tell(1.0, "")
        numba.set_num_threads(before)
    return {"rounds": rounds, "sweep": sweep, "fma": fma, "gemm": gemm, "overheads": overheads,
            "threads": threads, "buffer": buffers[0].nbytes, "software": _software(),
            "foreign": foreign_load(mark), "seconds": time.perf_counter() - start}


def measure_one_core(device, dtype, chains):
    """(rounds of bandwidths, matrix products, multiply-adds) of one core, in about three seconds.

    chains:  those of the multiply-adds that were fastest on all cores
    """
    import numba

    numba.set_num_threads(1)
    buffers = _buffers(device, 1)
    rounds = [_round(device, buffers, [1])]
    products = [_products(device, dtype, {"n": n, "threads": 1})[0] for n in PRODUCTS[1:3]]
    adds = _chains(device, dtype, 1, {"chains": chains})
    return [*rounds, _round(device, buffers, [1])], products, adds


def _rate(point):
    return point["rate"]


def _counts(most):
    """Thread counts to try: one, half of the cores, all of them."""
    return sorted({1, max(1, most // 2), most})


def timed(device, call, *arguments, limit=0.15, settle=0.05):
    """Median and spread of the time of a call: {"seconds" [s], "spread"}."""
    ordered = sorted(sample(partial(call, *arguments), limit=limit, settle=settle, device=device)[0])
    return {"seconds": quantile(ordered, 0.5), "spread": spread(ordered) if len(ordered) > 1 else 0.0}


def _buffers(device, threads):
    """Three arrays of random float64, each page touched first by the thread that uses it later."""
    import numba

    size = min(max(BUFFER, 4 * device.caches.get("L3", 0)), device.memory // 30, device.available() // 6)
    if size < LEAST:
        raise MeasureError(f"only {si(device.available(), 'B')} of memory are free, too little to measure "
                           "its bandwidth: close something and try again.")
    numba.set_num_threads(threads)
    block, buffers = device.random(MiB // 8, dtype="float64"), []
    for _ in range(3):
        buffers.append(np.empty(size // MiB * MiB // 8))
        device.kernel("write")(buffers[-1], 1.0)
        buffers[-1].reshape(-1, block.size)[...] = block
    return buffers


def _round(device, buffers, counts):
    """{kernel: its point at the best number of threads}, each kernel in turn."""
    import numba

    x, y, out = buffers
    arguments = {"read": (x,), "triad": (out, x, y, 0.5), "copy": (out, x), "scale": (y, 0.9999),
                 "write": (out, 1.5)}
    points = {}
    for label, given in arguments.items():
        tried = []
        for threads in counts:
            numba.set_num_threads(threads)
            point = timed(device, device.kernel(label), *given)
            tried.append(point | {"threads": threads, "bytes": x.nbytes})
        points[label] = min(tried, key=lambda point: point["seconds"])
    return points


def _sweep(device, buffer, threads):
    """Reading the same bytes over and over on all threads: 8 KiB to 4 x L3, two sizes an octave."""
    import numba

    numba.set_num_threads(threads)
    points, most = [], min(buffer.nbytes, max(64 * MiB, 4 * device.caches.get("L3", 0)))
    while (size := int(8192 * 2 ** (len(points) / 2)) // 512 * 512) <= most:
        repeats = max(1, 64 * MiB // size)               # long enough to hide the start of the threads
        point = timed(device, device.kernel("read"), buffer[:size // 8], repeats, limit=0.1, settle=0.02)
        rate = repeats * size / point["seconds"]
        points.append({"size": size, "bandwidth": rate, "spread": point["spread"]})
    return points


def _chains(device, dtype, threads, only=None):
    """FLOP/s by the number of chains of multiply-adds on each thread; `only` repeats one point."""
    import numba

    from .kernels import fma as home

    numba.set_num_threads(threads)
    start, points = np.dtype(dtype).type(0.5), []
    lanes = home.width() // start.itemsize
    for chains in [only["chains"]] if only else home.CHAINS:
        point = timed(device, home.fma, chains, STEPS, start)
        rate = 2 * threads * chains * lanes * STEPS / point["seconds"]
        points.append({"chains": chains, "rate": rate, "spread": point["spread"]})
    return points


def _products(device, dtype, only=None):
    """FLOP/s of the BLAS library's matrix product by size and threads; `only` repeats one point.

    A number of threads that is far behind at one size is not tried at larger ones.
    """
    from threadpoolctl import threadpool_limits

    points, counts = [], [only["threads"]] if only else _counts(device.cores)
    for n in [only["n"]] if only else PRODUCTS:
        a, b, out = (device.random(n, n, dtype=dtype) for _ in range(3))
        here = []
        for threads in counts:
            with threadpool_limits(threads, user_api="blas"):
                point = timed(device, np.matmul, a, b, out, limit=0.6)
            rate = 2 * n**3 / point["seconds"]
            here.append({"n": n, "threads": threads, "rate": rate, "spread": point["spread"]})
        counts = [point["threads"] for point in here if point["rate"] > 0.7 * max(map(_rate, here))]
        points += here
    return points


def _overheads(device):
    """What a call costs, however little it does [s]."""
    four, small = device.random(4, dtype="float64"), device.random(8, 8)
    result, product = np.empty_like(four), np.empty_like(small)
    calls = {"an empty Python call": (_nothing,),
             "a NumPy call on four numbers": (np.add, four, four, result),
             "an 8 x 8 matrix product": (np.matmul, small, small, product),
             "a parallel region": (device.kernel("write"), result, 1.0)}
    return {label: timed(device, *call)["seconds"] for label, call in calls.items()}


def _nothing():
    pass


def _software():
    import numba
    from threadpoolctl import threadpool_info

    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    blas = [f"{library['internal_api']} {library['version']}" for library in libraries]
    return {"python": platform.python_version(), "numpy": np.__version__, "numba": numba.__version__,
            "blas": ", ".join(blas) or "unknown", "threads": numba.threading_layer()}
