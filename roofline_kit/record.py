"""What does this machine do with the operations of the course? Measured in one go, and written down for others."""

import json
import math
import platform
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path

from . import cards, jobs
from .device import device as this_device
from .doubts import MeasureError
from .recorded import SCHEMA, recorded
from .sustained import card, roofline
from .timing import measure, quantile

LIMIT = 2.0              # s of sampling for each run
KEPT = 41                # samples written down, at every 40th part of their order: quartiles and median stay exact
CARD = 0.3               # the card's share of the whole time
HIDDEN = ("uid", "uuid", "serial")      # what tells one device from another of its model
TOLERANCE = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 4e-2}    # sums here are longer than those of a test

COLD = {"cpu": ("cold",), "gpu": ("cold",)}
CLOCKS = {"cpu": ("cold",), "gpu": ("cold", "throughput", "graph")}
SMALL = {"cpu": ("wall", "cold"), "gpu": ("cold", "throughput", "graph", "wall")}
TINY = {"cpu": ("wall",), "gpu": ("throughput", "graph", "wall")}       # the fixed cost of a call is what matters


@dataclass(frozen=True)
class Operation:
    """One row of the set.

    lessons: the numbers of those that measure it
    make:    a function of `jobs`, called as make(device, *sizes)
    cpu:     the sizes on a CPU; None where it does not run there
    gpu:     the sizes on a GPU
    clocks:  {"cpu": (..), "gpu": (..)}: "cold", "throughput", "graph", "wall"
    """

    name: str
    lessons: str
    make: object
    cpu: tuple
    gpu: tuple
    clocks: object = None

    def sizes(self, kind):
        """The sizes on a kind of device."""
        return {"cpu": self.cpu, "gpu": self.gpu}[kind]


M = 2**20                # what a cache keeps of the last stores must not count beside all that is moved
OPERATIONS = (
    Operation("copy", "00 01", jobs.copy, (64 * M,), (128 * M,), CLOCKS),
    Operation("triad", "00 01 07", jobs.triad, (64 * M,), (128 * M,)),
    Operation("dot", "01 04", jobs.dot, (64 * M,), (128 * M,)),
    Operation("axpy", "04", jobs.axpy, (64 * M,), (128 * M,)),
    Operation("add", "04 07", jobs.add, (64 * M,), (128 * M,)),
    Operation("gemm balanced", "02 03 04 07", jobs.matmul, (1024, 1024, 1024), (2048, 2048, 2048)),
    Operation("gemm tall", "03", jobs.matmul, (8192, 16, 8192), (16384, 32, 16384)),
    Operation("gemm thin", "03", jobs.matmul, (8192, 8192, 16), (16384, 16384, 32)),
    Operation("gemm large", "08 09 11", jobs.matmul, (2048, 2048, 2048), (8192, 8192, 8192)),
    Operation("linear, 1 row", "02 04 05", jobs.matmul, (1, 2048, 2048), (1, 8192, 8192)),
    Operation("linear, 16 rows", "05 12", jobs.matmul, (16, 2048, 2048), (16, 8192, 8192)),
    Operation("linear, 128 rows", "05 12", jobs.matmul, (128, 2048, 2048), (128, 8192, 8192)),
    Operation("linear, 1024 rows", "05 09 12", jobs.matmul, (1024, 2048, 2048), (1024, 8192, 8192)),
    Operation("gemm naive", "02 06", jobs.own("gemm_naive"), (384,), (4096,)),
    Operation("gemm tiled", "06", jobs.own("gemm_tiled"), (384,), (4096,)),
    Operation("gemm register-tiled", "06", jobs.own("gemm_register_tiled"), (384,), (4096,)),
    Operation("gemm Tensor Core", "06", jobs.own("gemm_tensor_core", "float16"), None, (4096,)),
    Operation("convolution", "09", jobs.convolution, (64, 130, 64), (256, 258, 256)),
    Operation("layernorm", "04 09 10", jobs.layernorm("layernorm"), (8192, 4096), (16384, 16384)),
    Operation("layernorm unfused", "10", jobs.layernorm("layernorm_unfused"), (8192, 4096), (16384, 16384)),
    Operation("softmax", "09 10", jobs.softmax("softmax"), (8192, 4096), (16384, 16384)),
    Operation("softmax three passes", "10", jobs.softmax("softmax_three_pass"), (8192, 4096), (16384, 16384)),
    Operation("softmax unfused", "10", jobs.softmax("softmax_unfused"), (8192, 4096), (16384, 16384)),
    Operation("embedding", "09", jobs.embedding, (65536, 1024, 32768), (131072, 4096, 65536)),
    Operation("attention", "09 10", jobs.attention("attention"), (8, 512, 64), (32, 2048, 64)),
    Operation("flash attention", "10", jobs.attention("flash_attention"), (8, 512, 64), (32, 2048, 64)),
    Operation("mlp", "09 13", jobs.mlp, (256, 1024, 256), (256, 1024, 256), SMALL),
    Operation("gru", "13", jobs.gru, (256, 256), (256, 256), SMALL),
    Operation("matvec", "02 12", jobs.matvec("matvec"), (8192, 8192), (8192, 16384)),
    Operation("matvec bfloat16", "12", jobs.matvec("matvec_bfloat16"), (8192, 8192), (8192, 16384)),
    Operation("matvec int8", "12", jobs.matvec("matvec_int8"), (8192, 8192), (8192, 16384)),
    Operation("matvec int4", "12", jobs.matvec("matvec_int4"), (8192, 8192), (8192, 16384)),
    Operation("chain of tiny calls", "09 13", jobs.chain, (256,), (256,), TINY),
    Operation("empty launch", "00 13", jobs.empty, (), (), TINY),
)


def record(path, device=None, progress=None, fresh=False, operations=OPERATIONS, limit=LIMIT):
    """Measure the card and the operations, write both into a file, and give it back as a `Recorded`.

    It takes about two minutes on a CPU, and half a minute more where no card is kept.
    progress:  a function (share done, what is measured now)
    fresh:     measure the card again even if one is kept
    limit:     time box of each run [s]
    Errors:    ValueError, before anything is measured, for a path where no file can be written
    """
    path, device, tell = _writable(path), this_device(device), progress or cards.bar()
    measured = card(fresh, lambda share, what: tell(min(CARD * share, 0.99), what), device=device)
    rows = [operation for operation in operations if operation.sizes(device.kind) is not None]
    start, entries = time.perf_counter(), []
    try:
        with cards.alone():
            for number, operation in enumerate(rows):
                tell(CARD + (1 - CARD) * number / len(rows), operation.name)
                entries += _measured(operation, device, measured, limit)
    finally:
        tell(1.0, "")
    system = f"{platform.system()} {platform.machine()}"
    data = {"schema": SCHEMA, "date": datetime.now().astimezone().isoformat(timespec="seconds"),
            "device": {name: getattr(device, name) for name in ("name", "kind", "cores", "caches", "memory")},
            "system": system, "software": {"python": platform.python_version(), **measured.data["software"]},
            "seconds": time.perf_counter() - start, "runs": entries, "card": measured.data | {"system": system}}
    cards.write(path, json.dumps(_public(data), indent=1).encode())
    return recorded(path)


def _writable(path):
    """The path, if a file can be written there."""
    path = Path(path)
    try:
        with tempfile.TemporaryFile(dir=path.parent):        # permissions alone do not tell: the disk may be read-only
            pass
    except OSError as error:
        why = error.strerror or error
        raise ValueError(f"no file can be written in {path.parent} ({why}): choose another folder.") from None
    if path.is_dir():
        raise ValueError(f"{path} is a folder: give the name of a file in it.")
    return path


def _measured(operation, device, measured, limit):
    """An entry for each clock, or one with the sentence that says why there is none."""
    clocks = (operation.clocks or COLD)[device.kind]
    facts = {"name": operation.name, "lessons": operation.lessons, "sizes": operation.sizes(device.kind)}
    try:
        job = operation.make(device, *facts["sizes"])
        error = job.error()
        if not error <= TOLERANCE[job.work.dtype]:           # nor where it is not a number
            yield facts | {"error": f"its result is {error:.1e} of the largest number off: it was not measured."}
            return
    except Exception as error:                               # noqa: BLE001  a kernel may fail in any way
        yield facts | {"error": _sentence(error)}
        return
    for clock in clocks:
        facts["name"] = _name(operation.name, clock, clocks)
        try:
            yield facts | _entry(_timed(job, facts["name"], clock, device, measured, limit))
        except (MeasureError, MemoryError, ValueError) as error:
            yield facts | {"error": _sentence(error)}


def _name(name, clock, clocks):
    """The name of the operation for its first clock, for the others with what sets them apart."""
    return name if clock == clocks[0] else f"{name}, {clock}"


def _timed(job, name, clock, device, measured, limit):
    dtype = job.work.dtype
    roof = roofline(measured, dtype) if dtype in measured.data["peak"] else None
    work = replace(job.work, name=name)
    return measure(job.call, work, name=name, clock=clock, limit=limit, roof=roof, device=device)


def _entry(run):
    """A run as JSON holds it."""
    ordered, low, high = sorted(run.samples), *run.quartiles
    if len(ordered) > KEPT:
        ordered = [quantile(ordered, place / (KEPT - 1)) for place in range(KEPT)]
    return {"seconds": run.seconds, "quartiles": (low, high), "spread": None if math.isnan(run.spread) else run.spread,
            "n": len(run.samples), "samples": ordered, "clock": run.clock, "cold": run.cold, "work": asdict(run.work),
            "warnings": run.warnings}


def _sentence(error):
    """The first line of an error, with its class unless the kit itself has worded it."""
    first = (str(error).strip().splitlines() or [""])[0]
    return first if hasattr(error, "_render_traceback_") else f"{type(error).__name__}: {first}"


def _public(value):
    """The same without what tells this device from another of its model."""
    if isinstance(value, dict):
        return {key: _public(inner) for key, inner in value.items() if key not in HIDDEN}
    return [_public(inner) for inner in value] if isinstance(value, (list, tuple)) else value
