"""How many FLOP/s do matrix products reach on a GPU, by dtype? cuBLAS, warm, on random numbers."""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from . import clocks, gpu, nvml
from .doubts import MeasureError
from .timing import quantile, sample, spread

DTYPES = ("float16", "bfloat16", "tfloat32", "float32", "float64", "int8")
NEEDS = {"bfloat16": 8.0, "tfloat32": 8.0, "int8": 6.1}     # compute capability (cuBLAS, cublasGemmEx)
SHAPES = (*((n, n, n) for n in (1024, 2048, 4096, 8192)),   # m, n, k of the products
          (2048, 8192, 8192), (8192, 8192, 2048), (4096, 16384, 4096))
FIRST = 4096, 4096, 4096                # m, n, k of the product that warms up
WINDOW, WARM, AGREE = 0.5, 30, 0.01     # s of a warm-up window, s of all at most, spread of the five last ones
SLOW = 0.1               # s that a product may take
SETTLE = 0.05            # s of sampling at least
CHECKED = 8              # numbers of a product that are computed again on the host


@dataclass(frozen=True)
class Bench:
    """A GPU, the clock that says when to stop, and the memory that may be taken [B]."""

    device: object
    clock: object
    room: float

    def timed(self, call, *arguments, by="throughput", limit=0.3):
        """Median and spread of the time of a call, by one of the clocks: {"seconds" [s], "spread"}."""
        call = partial(call, *arguments)
        stopwatch = (clocks.wall(call, self.device, clock=self.clock) if by == "wall" else
                     clocks.BY_EVENTS[by](call, self.device, [], self.clock))
        ordered = sorted(sample(call, cold=by == "cold", limit=limit, settle=SETTLE, clock=self.clock,
                                device=self.device, stopwatch=stopwatch)[0])
        return {"seconds": quantile(ordered, 0.5), "spread": spread(ordered) if len(ordered) > 1 else 0.0}


def warm_up(bench):
    """float16 products until the rate stays: the first and the last rate, "burst" and "sustained" [FLOP/s]."""
    call = partial(gpu.product(bench.device.xp, "float16"), *_operands(bench.device, "float16", *FIRST))
    rates, start = [], bench.clock()
    stopwatch = clocks.throughput(call, bench.device, [], bench.clock)
    try:
        stopwatch(1)
    except Exception as error:
        raise MeasureError(f"cuBLAS does not multiply on this GPU ({gpu.first_line(error)}): "
                           "`python -m roofline_kit doctor` tells what to do.") from error
    count = max(1, round(WINDOW / stopwatch(4) * 4))
    while True:
        rates.append(2 * math.prod(FIRST) * count / stopwatch(count))
        last = rates[-5:]
        settled = len(last) == 5 and max(last) <= (1 + AGREE) * min(last)
        if settled or bench.clock() - start > WARM:
            return {"burst": rates[0], "sustained": rates[-1], "windows": len(rates), "settled": settled}


def watched(bench, rate):
    """What the driver says while the GPU multiplies for a fifth of a second. rate: that it multiplies at [FLOP/s]"""
    call = partial(gpu.product(bench.device.xp, "float16"), *_operands(bench.device, "float16", *FIRST))
    for _ in range(max(1, round(0.2 * rate / (2 * math.prod(FIRST))))):
        call()
    state = nvml.state(bench.device.uid)
    bench.device.wait()
    return state


def attempt(bench, dtype, facts, in_time):
    """(points, why there are none): the library's products of that dtype."""
    if float(facts["capability"]) < NEEDS.get(dtype, 0):
        return [], f"needs compute capability {NEEDS[dtype]}, and this GPU has {facts['capability']}"
    if not in_time():
        return [], "was left out because the others took too long"
    try:
        return _products(bench, dtype)
    except Exception as error:                               # noqa: BLE001  what CuPy or the chip refuses is told
        return [], f"is refused here ({gpu.first_line(error)})"
    finally:
        bench.device.xp.get_default_memory_pool().free_all_blocks()


def _products(bench, dtype):
    points = []
    for m, n, k in SHAPES:
        rate = max((point["rate"] for point in points), default=0)
        if _size(dtype, m, n, k) > bench.room / 2 or 2 * m * n * k > SLOW * rate > 0:
            continue
        points.append(_product(bench, dtype, m, n, k))
        if len(points) == 1 and not points[0]["right"]:
            return [], "gives wrong numbers here"
    return points, "found no room in memory"


def _product(bench, dtype, m, n, k):
    """FLOP/s of out[m, n] = a[m, k] b[n, k]^T, and whether its first numbers are right."""
    a, b, out = _operands(bench.device, dtype, m, n, k)
    found = bench.timed(gpu.product(bench.device.xp, dtype), a, b, out, limit=0.4)
    row, rows, got = _exact(a[0]), _exact(b[:CHECKED]), _exact(out[0, :CHECKED])
    right = np.all(abs(rows @ row - got) <= 0.01 * abs(got) + 1e-4 * abs(rows) @ abs(row))
    return {"shape": [m, n, k], "rate": 2 * m * n * k / found["seconds"], "spread": found["spread"],
            "right": bool(right)}


def again(bench, dtype, points):
    """The best point once more, added to the others; how much its rate has changed."""
    best = max(points, key=lambda point: point["rate"])
    points.append(_product(bench, dtype, *best["shape"]))
    return points[-1]["rate"] / best["rate"] - 1


def _size(dtype, m, n, k):
    """Bytes of a product's three matrices, or of the numbers from which they are made [B]."""
    each = 8 if dtype == "float64" else 4
    return each * (m * k + n * k + m * n)


def _operands(device, dtype, m, n, k):
    stored = {"tfloat32": "float32", "bfloat16": "uint16"}.get(dtype, dtype)
    out = device.xp.empty((m, n), "int32" if dtype == "int8" else stored)
    return _numbers(device, dtype, m, k), _numbers(device, dtype, n, k), out


def _numbers(device, dtype, rows, columns):
    """Random numbers. bfloat16 is the upper half of a float32, rounded: made from it, no CuPy is too old for it."""
    if dtype != "bfloat16":
        return device.random(rows, columns, dtype=dtype)
    bits = device.random(rows, columns, dtype="float32").view("uint32")
    return ((bits + 0x8000) >> 16).astype("uint16")


def _exact(array):
    import ml_dtypes

    host = array.get()
    with np.errstate(invalid="ignore"):                      # a product that goes wrong may hold no number at all
        return (host.view(ml_dtypes.bfloat16) if host.dtype == "uint16" else host).astype("float64")
