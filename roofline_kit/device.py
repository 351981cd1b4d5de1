"""Which device runs the arrays, and where do its arrays come from?"""

import functools
import itertools
import math
import operator
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from . import gpu, host
from .gpu_state import look, nvidia_driver
from .units import DTYPES, itemsize, si

MiB = 2**20
CHUNK = 4 * MiB         # elements drawn at a time: a cast then needs little memory beside the result
LEAST_FLUSH = 64 * MiB  # B; a system may hide its last cache, as Apple's does the one behind L2
MOST_FLUSH = 256 * MiB  # B a usable core; a slice of a large server may claim the cache of all of it
STORED_AS = {"tfloat32": "float32", "float8": "float8_e4m3fn"}


class DeviceError(RuntimeError):
    """A device that cannot be had; a notebook shows the sentence alone."""

    def _render_traceback_(self):
        return [f"{type(self).__name__}: {self}"]


@dataclass(frozen=True, repr=False)
class Device:
    """The processor that runs the arrays of `xp`.

    kind:    "cpu" (xp is NumPy) or "gpu" (xp is CuPy)
    dtype:   the lessons' dtype here: float32 on a CPU, float16 on a GPU
    cores:   hardware threads this process may use (affinity and quota); on a GPU its multiprocessors
    caches:  {"L1": .., "L2": .., "L3": ..} as the system claims [B], empty where it does not tell;
             on a CPU L1 and L2 of one core and L3 of all, on a GPU L1 of one multiprocessor and L2 of all
    memory:  in all [B]
    uid:     stable name of this device, fit for a file name
    """

    kind: str
    xp: object
    name: str
    dtype: str
    cores: int
    caches: dict
    memory: int
    uid: str
    _calls: object = field(default_factory=itertools.count, compare=False)

    def available(self):
        """Free memory [B]: what a new array may take."""
        if self.kind == "cpu":
            return host.free_memory()
        return gpu.free(self.xp)

    def random(self, *shape, dtype=None, seed=None):
        """An array of standard normal numbers, or of integers from -127 to 127 (unsigned: 0 to 127).

        Real data take longer than zeros do, so nobody times zeros. Numbers too small for the dtype's normal
        form, which some processors are slow at, do not occur.
        seed:    without one, the n-th array of a session is always the same and differs from the others;
                 with one, it depends on the seed alone
        Errors:  ValueError for a size that is negative or not whole, MemoryError for more than is free
        """
        dtype = _storage(dtype or self.dtype)
        shape = _sizes(shape)
        self._refuse_too_large(shape, dtype)
        rng = self.xp.random.default_rng([0, next(self._calls)] if seed is None else [1, seed])
        try:
            array = self.xp.empty(shape, dtype)
        except (TypeError, ValueError, NotImplementedError) as error:
            raise ValueError(f"this CuPy has no arrays of {dtype.name} ({gpu.first_line(error)}): choose float16 or "
                             "float32.") from error
        flat = array.reshape(-1)
        for start in range(0, flat.size, CHUNK):
            _fill(self.xp, rng, flat[start:start + CHUNK])
        return array

    def wait(self):
        """Return when all work given to the device is done: at once on a CPU."""
        if self.kind == "gpu":
            gpu.wait(self.xp)

    def flush(self):
        """Push everything out of the caches: write, then read, twice as much memory as they hold.

        The read comes last because dirty lines would be written back inside the next timed call.
        """
        parts = _flush_parts(self)
        if self.kind == "gpu":
            _stream(self.xp, parts[0])
            return
        with ThreadPoolExecutor(len(parts)) as pool:         # every core has caches of its own
            list(pool.map(functools.partial(_stream, self.xp), parts))

    def kernel(self, name):
        """The kit's own kernel of that name, ready to call on this device's arrays."""
        from . import kernels
        return kernels.kernel(name, self)

    def _refuse_too_large(self, shape, dtype):
        need, free = math.prod(shape) * dtype.itemsize, self.available()
        if need > free:
            raise MemoryError(f"an array of shape {shape} in {dtype.name} takes {si(need, 'B')}, but only "
                              f"{si(free, 'B')} are free: choose a smaller shape or a smaller dtype.")

    def __repr__(self):
        parts = "cores" if self.kind == "cpu" else "SMs"
        library = "NumPy" if self.kind == "cpu" else "CuPy"
        return "\n".join([
            f"{self.name} ({self.kind.upper()})",
            f"  {parts:7} {self.cores}",
            f"  caches  {host.listed(self.caches)} (as claimed)",
            f"  memory  {si(self.memory, 'B')}, {si(self.available(), 'B')} of it free",
            f"  arrays  {library} {self.xp.__version__}, {self.dtype}",
        ])


def device(kind=None):
    """The device of this session: the GPU where CuPy can use one, else the CPU.

    kind:    "cpu" or "gpu" to insist; a Device is given back as it is
    Errors:  DeviceError when a GPU is insisted on and cannot be had
    """
    if hasattr(kind, "wait"):
        return kind
    if kind not in (None, "cpu", "gpu"):
        raise ValueError(f"there is no device {kind!r}: ask for 'cpu' or 'gpu', or leave it out.")
    found = _cpu() if kind == "cpu" else _gpu()
    if isinstance(found, Device):
        return found
    if kind == "gpu":
        raise DeviceError(f"there is no GPU to use: {found}.")
    _tell(found)
    return _cpu()


@functools.cache
def _cpu():
    return Device("cpu", np, host.name(), "float32", host.cores(), host.caches(), host.memory(), host.uid())


@functools.cache
def _gpu():
    """The GPU, or the reason why there is none and what to do about it."""
    try:
        import cupy

        facts = gpu.facts(cupy)
        if float((cupy.arange(3, dtype="float32") * 2)[2]) == 4:        # needs the compiler, too
            return Device("gpu", cupy, facts["name"], "float16", facts["multiprocessors"],
                          {"L1": facts["L1"], "L2": facts["L2"]}, facts["memory"], facts["uid"])
        fault = "a test kernel gave wrong numbers"
    except Exception as error:                               # noqa: BLE001  a broken install may raise anything
        if isinstance(error, ModuleNotFoundError) and error.name == "cupy":
            return "CuPy is not installed, `python -m roofline_kit doctor` tells how to get it"
        fault = gpu.first_line(error)
    level, says, *step = look()
    if level == "ok":
        says, step = f"CuPy cannot use it ({fault})", ["`python -m roofline_kit doctor` tells what to do"]
    return f"{says.rstrip('.')}: {step[0]}"


@functools.cache
def _tell(reason):
    """Say once why the CPU is used, but only where somebody may expect a GPU."""
    if "not installed" not in reason or nvidia_driver():
        print(f"using the CPU: {reason}.", file=sys.stderr)


def _sizes(shape):
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    for size in shape:
        if isinstance(size, bool) or not hasattr(size, "__index__"):
            raise ValueError(f"a shape consists of whole numbers, but {size!r} is not one: use int().")
        if size < 0:
            raise ValueError(f"a shape cannot be negative, but {size} is: give sizes of at least 0.")
    return tuple(operator.index(size) for size in shape)


def _storage(dtype):
    """The NumPy dtype in which numbers of that name are stored."""
    import ml_dtypes
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", dtype)
    if name in DTYPES and itemsize(name) < 1:
        raise ValueError(f"{name} has no array of its own, two share a byte: make int8 and pack it.")
    name = STORED_AS.get(name, name)
    found = getattr(ml_dtypes, str(name), None)
    try:
        found = np.dtype(found or name)
    except TypeError:
        itemsize(name)                                       # offers the nearest names
        raise
    if found.kind in "iuf" or hasattr(ml_dtypes, found.name):
        return found
    raise ValueError(f"there are no random data of {found.name}: choose one of {', '.join(DTYPES)}.")


def _fill(xp, rng, part):
    if part.dtype.kind in "iu":
        low = -127 if part.dtype.kind == "i" else 0
        part[...] = rng.integers(low, 128, part.size, dtype="int16" if xp is np else "int64")
    elif part.dtype.name in ("float32", "float64"):
        rng.standard_normal(part.size, dtype=part.dtype, out=part)
    else:                                                    # the generators know no smaller floats
        import ml_dtypes
        numbers = rng.standard_normal(part.size, dtype="float32")
        numbers += xp.copysign(np.float32(ml_dtypes.finfo(part.dtype).smallest_normal), numbers)
        if xp is not np and part.dtype.name == "bfloat16":   # the upper half of a float32, rounded: no cast is needed
            part.view("uint16")[...] = (numbers.view("uint32") + 0x8000) >> 16
        else:
            part[...] = numbers.astype(part.dtype)


@functools.cache
def _flush_parts_of(xp, total, parts):
    return [xp.full(total // parts // 4, 1.5, "float32") for _ in range(parts)]


def _flush_parts(device):
    if device.kind == "gpu":
        return _flush_parts_of(device.xp, max(256_000_000, 4 * device.caches["L2"]), 1)
    held = device.caches.get("L3", 0) + device.caches.get("L2", 0) * device.cores
    total = min(max(2 * held, LEAST_FLUSH), MOST_FLUSH * device.cores, device.available() // 4)
    return _flush_parts_of(device.xp, total, device.cores)


def _stream(xp, part):
    xp.negative(part, out=part)
    part.max()
