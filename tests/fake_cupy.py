"""A stand-in for CuPy: NumPy's numbers, a GPU that works late, and a clock that belongs to the test."""

import ctypes
from functools import partial
from math import prod
from types import ModuleType, SimpleNamespace

import ml_dtypes
import numpy as np
from fake_arrays import Array, OutOfMemoryError, bare, lifted, wrapped

FACTS = {"name": b"Fake H100", "uuid": bytes(range(16)), "multiProcessorCount": 132, "major": 9, "minor": 0,
         "totalGlobalMem": 80 * 10**9, "l2CacheSize": 50 * 2**20, "sharedMemPerMultiprocessor": 228 * 2**10}
NUMBERS = {0: "float32", 1: "float64", 2: "float16", 3: "int8", 10: "int32", 14: ml_dtypes.bfloat16}   # library_types.h
FUNCTIONS = ("arange", "asarray", "copysign", "empty", "empty_like", "exp", "full", "matmul", "negative", "zeros")


class CudaError(RuntimeError):
    def __init__(self, status, text="cudaErrorFake: it is broken"):
        super().__init__(text)
        self.status = status


class CompileException(Exception):
    pass


class Gpu:
    """Time passes only when the host launches or waits; the GPU works through its queue on the side [s].

    launch:  the host's time for one
    cost:    a function (name, arguments) that gives the time of a kernel or function on the GPU
    gap:     between two kernels; node: the same in a graph; event: what an event takes
    memory:  that is free [B]
    """

    def __init__(self, launch=0.0, cost=lambda name, arguments: 0.0, gap=0.0, node=0.0, event=0.0, memory=70 * 10**9):
        self.launch, self.cost, self.gap, self.node, self.event, self.memory = launch, cost, gap, node, event, memory
        self.host, self.busy_until, self.used = 0.0, 0.0, 0
        self.pending, self.capturing, self.spoilt, self.broken = [], None, False, None
        self.streams, self.launches = [], 0

    def clock(self):
        return self.host

    def run(self, seconds, work=None):
        """Give it a kernel that takes so long and does that work."""
        if self.capturing is not None:
            self.capturing.append((seconds, work))
            return
        self.host += self.launch
        self._queue(seconds + self.gap, work)

    def replay(self, kernels):
        self.host += self.launch
        for seconds, work in kernels:
            self._queue(seconds + self.node, work)

    def _queue(self, seconds, work):
        self.launches += 1
        self.busy_until = max(self.host, self.busy_until) + seconds
        if work:
            self.pending.append(work)

    def wait(self):
        if self.capturing is not None:
            self.spoilt = True
            raise CudaError(900, "cudaErrorStreamCaptureUnsupported: operation not permitted when stream is capturing")
        self.host = max(self.host, self.busy_until)
        self.settle()

    def settle(self):
        """Do what is queued. After a fault it refuses everything, as a GPU does."""
        while self.pending and not self.broken:
            try:
                self.pending.pop(0)()
            except Exception as error:                       # noqa: BLE001  whatever a kernel does wrong
                self.broken = CudaError(700, "cudaErrorIllegalAddress: an illegal memory access was encountered")
                self.broken.__cause__ = error
        if self.broken:
            raise self.broken

    def take(self, size):
        if self.used + size > self.memory:
            raise OutOfMemoryError(f"Out of memory allocating {size:,} bytes (allocated so far: {self.used:,} bytes).")
        self.used += size


class Event:
    def __init__(self, gpu):
        self.gpu, self.time = gpu, None

    def record(self):
        self.gpu.busy_until = self.time = max(self.gpu.host, self.gpu.busy_until) + self.gpu.event

    def synchronize(self):
        self.gpu.host = max(self.gpu.host, self.time)
        self.gpu.settle()

    @property
    def done(self):
        return self.gpu.host >= self.time


def elapsed(begin, end):
    for event in (begin, end):
        if event.time is None:
            raise CudaError(400, "cudaErrorInvalidResourceHandle: invalid resource handle")
        if not event.done:
            raise CudaError(600, "cudaErrorNotReady: device not ready")
    return (end.time - begin.time) * 1e3


class Stream:
    def __init__(self, gpu, default=False):
        self.gpu, self.default = gpu, default

    def __enter__(self):
        self.gpu.streams.append(self)
        return self

    def __exit__(self, *error):
        self.gpu.streams.pop()

    def synchronize(self):
        self.gpu.wait()

    def begin_capture(self):
        if self.default:
            raise RuntimeError("cannot capture on the default (legacy) stream")
        self.gpu.capturing, self.gpu.spoilt = [], False

    def end_capture(self):
        kernels, self.gpu.capturing = self.gpu.capturing, None
        if self.gpu.spoilt or kernels is None:
            raise CudaError(901, "cudaErrorStreamCaptureInvalidated: operation failed due to a previous error")
        return SimpleNamespace(launch=lambda: self.gpu.replay(kernels), upload=lambda: None)


class RawKernel:
    """Runs a kernel's source by `compiled(source, name)`, late; without it a launch takes its time and does nothing."""

    def __init__(self, gpu, compiled, code, name, options=()):
        self.gpu, self.compiled, self.code, self.name = gpu, compiled, code, name
        self.max_dynamic_shared_size_bytes, self.kernel = 48 * 2**10, None

    def __call__(self, grid, block, args, shared_mem=0):
        if self.kernel is None:
            self.kernel = self._compile()
        if self.gpu.broken:
            raise self.gpu.broken
        if prod(block) > 1024 or shared_mem > self.max_dynamic_shared_size_bytes:
            raise CudaError(1, "CUDA_ERROR_INVALID_VALUE: invalid argument")
        work = partial(self.kernel, grid, block, tuple(map(bare, args)), shared_mem)
        self.gpu.run(self.gpu.cost(self.name, args), work)

    def _compile(self):
        try:
            return self.compiled(self.code, self.name)
        except Exception as error:
            raise CompileException(str(error)) from error


def gemm_ex(gpu, handle, turn_a, turn_b, m, n, k, one, a, kind_a, lda, b, kind_b, ldb, zero, c, kind_c, ldc, *how):
    """c[m, n] = a[m, k] b[k, n], all of them by columns, from the addresses, as cuBLAS does."""
    def matrix(address, kind, rows, columns, stride):
        kind = np.dtype(NUMBERS[kind])
        memory = (ctypes.c_char * (columns * stride * kind.itemsize)).from_address(address)
        return np.frombuffer(memory, kind).reshape(columns, stride)[:, :rows].T

    def work():
        left = matrix(a, kind_a, k, m, lda).T if turn_a else matrix(a, kind_a, m, k, lda)
        right = matrix(b, kind_b, n, k, ldb).T if turn_b else matrix(b, kind_b, k, n, ldb)
        matrix(c, kind_c, m, n, ldc)[...] = (left.astype("float64") @ right.astype("float64")).astype(NUMBERS[kind_c])

    if gpu.capturing is not None:
        raise NotImplementedError("calling cuBLAS API during stream capture is currently unsupported")
    gpu.run(gpu.cost("gemm", (m, n, k, NUMBERS[kind_a], *how)), work)


def raising(error):
    def call(*args, **kwargs):
        raise error
    return call


def generator(gpu, seed):
    numbers = np.random.default_rng(seed)
    return SimpleNamespace(**{name: lifted(gpu, getattr(numbers, name)) for name in ("standard_normal", "integers")})


def fake_cupy(gpu=None, *, compiled=None, status=0, devices=1, driver=13020, nvrtc=None, compiling=None, factor=2.0):
    """A module to put in the place of cupy.

    compiled:   a function (source, name) that gives a function (grid, block, args, shared_mem) which runs that kernel
    status:     of the error that the runtime raises at each call; 0 for none
    nvrtc:      the error raised when the compiler is asked for its version
    compiling:  the error raised when a kernel is launched
    factor:     what the smoke kernel multiplies by: 2 is right
    """
    gpu = gpu or Gpu()
    cupy = ModuleType("cupy")
    for name in FUNCTIONS:
        setattr(cupy, name, lifted(gpu, getattr(np, name)))
    cupy.__version__, cupy.ndarray, cupy.array = "14.2.0", Array, lambda data: wrapped(gpu, np.array(data))
    cupy.random = SimpleNamespace(default_rng=partial(generator, gpu))

    def smoke(source, name):
        def run(grid, block, arguments, shared_mem):
            if name == "smoke":
                arguments[0][:] = factor * np.arange(block[0])
        return run

    cupy.RawKernel = raising(compiling) if compiling else partial(RawKernel, gpu, compiled or smoke)
    cupy.get_default_memory_pool = lambda: SimpleNamespace(free_bytes=lambda: 10**9, free_all_blocks=lambda: None)
    ask = (lambda answer: raising(CudaError(status))) if status else (lambda answer: lambda *args: answer)
    runtime = SimpleNamespace(
        getDevice=ask(0), getDeviceCount=ask(devices), getDeviceProperties=ask(FACTS),
        memGetInfo=lambda: (gpu.memory - gpu.used, 80 * 10**9), driverGetVersion=lambda: driver,
        runtimeGetVersion=lambda: 13020)
    default = Stream(gpu, default=True)
    cupy.cuda = SimpleNamespace(
        runtime=runtime, nvrtc=SimpleNamespace(getVersion=raising(nvrtc) if nvrtc else lambda: (13, 2)),
        Event=lambda: Event(gpu), Stream=lambda non_blocking=False: Stream(gpu), get_elapsed_time=elapsed,
        get_current_stream=lambda: gpu.streams[-1] if gpu.streams else default,
        cublas=SimpleNamespace(gemmEx=partial(gemm_ex, gpu)), device=SimpleNamespace(get_cublas_handle=lambda: 1))
    return cupy
