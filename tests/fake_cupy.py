"""A stand-in for CuPy: NumPy's arrays, a GPU that works late, and a clock that belongs to the test."""

import re
from types import ModuleType, SimpleNamespace

import numpy as np

FACTS = {"name": b"Fake H100", "uuid": bytes(range(16)), "multiProcessorCount": 132,
         "totalGlobalMem": 80 * 10**9, "l2CacheSize": 50 * 2**20, "sharedMemPerMultiprocessor": 228 * 2**10}


class CudaError(RuntimeError):
    def __init__(self, status, text="cudaErrorFake: it is broken"):
        super().__init__(text)
        self.status = status


class Gpu:
    """Time passes only when the host launches or waits; the GPU works through its queue on the side [s]."""

    def __init__(self, launch=0.0):
        self.host, self.busy_until, self.launch = 0.0, 0.0, launch

    def clock(self):
        return self.host

    def run(self, seconds):
        self.host += self.launch
        self.busy_until = max(self.host, self.busy_until) + seconds

    def wait(self):
        self.host = max(self.host, self.busy_until)


class Event:
    def __init__(self, gpu):
        self.gpu, self.time = gpu, None

    def record(self):
        self.time = max(self.gpu.host, self.gpu.busy_until)

    def synchronize(self):
        self.gpu.host = max(self.gpu.host, self.time)

    @property
    def done(self):
        return self.gpu.host >= self.time


class Stream:
    def __init__(self, gpu):
        self.gpu = gpu

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def synchronize(self):
        self.gpu.wait()


class Array(np.ndarray):
    def get(self):
        return np.asarray(self)


class ElementwiseKernel:
    """Runs the C of an elementwise kernel, as far as it is also Python, on whole NumPy arrays."""

    def __init__(self, inputs, outputs, code, name):
        self.inputs, self.outputs = ([part.split()[1] for part in text.split(",")] for text in (inputs, outputs))
        loop = re.fullmatch(r"(.*)for \(int k = 0; k < steps; \+\+k\) \{(.*)\}(.*)", code)
        before, body, after = loop.groups() if loop else ("", "", code)
        self.before, self.body, self.after = (re.sub(r"\bT ", "", text) for text in (before, body, after))

    def __call__(self, *arguments):
        names = dict(zip([*self.inputs, *self.outputs], arguments))
        target = names[self.outputs[0]]
        names["i"] = np.arange(target.size)
        for code in (self.before, *[self.body] * names.get("steps", 0), self.after):
            exec("\n".join(part.strip() for part in code.split(";")), {}, names)   # noqa: S102  the kit's own text
        target[...] = names[self.outputs[0]]


def raising(error):
    def call(*args, **kwargs):
        raise error
    return call


def fake_cupy(gpu=None, *, status=0, devices=1, driver=13020, nvrtc=None, compiling=None, factor=2.0):
    """A module to put in the place of cupy.

    status:     of the error that the runtime raises at each call; 0 for none
    nvrtc:      the error raised when the compiler is asked for its version
    compiling:  the error raised when a kernel is launched
    factor:     what the smoke kernel multiplies by: 2 is right
    """
    gpu = gpu or Gpu()
    cupy = ModuleType("cupy")
    for name in ("arange", "empty", "zeros", "full", "copysign", "negative"):
        setattr(cupy, name, getattr(np, name))
    cupy.__version__, cupy.random = "14.2.0", np.random
    cupy.zeros = lambda *size, **kind: np.zeros(*size, **kind).view(Array)

    def kernel(source, name):
        def launch(grid, block, arguments):
            if compiling:
                raise compiling
            arguments[0][:] = factor * np.arange(block[0])
        return launch

    cupy.RawKernel, cupy.ElementwiseKernel, cupy.matmul = kernel, ElementwiseKernel, np.matmul
    cupy.get_default_memory_pool = lambda: SimpleNamespace(free_bytes=lambda: 10**9)
    ask = (lambda answer: raising(CudaError(status))) if status else (lambda answer: lambda *args: answer)
    runtime = SimpleNamespace(
        getDevice=ask(0), getDeviceCount=ask(devices), getDeviceProperties=ask(FACTS),
        memGetInfo=ask((70 * 10**9, 80 * 10**9)), driverGetVersion=lambda: driver,
        runtimeGetVersion=lambda: 13020)
    cupy.cuda = SimpleNamespace(
        runtime=runtime, nvrtc=SimpleNamespace(getVersion=raising(nvrtc) if nvrtc else lambda: (13, 2)),
        Event=lambda: Event(gpu), Stream=lambda non_blocking=False: Stream(gpu),
        get_current_stream=lambda: Stream(gpu), get_elapsed_time=lambda a, b: (b.time - a.time) * 1e3)
    return cupy
