"""What does the kit ask of CuPy, beyond arrays? Each such call stands here, so that a stand-in stays small.

xp is CuPy in all of it. Work goes to the stream that is current, as with CuPy's own functions.
"""

import contextlib
import functools
import re

import numpy as np

from . import nvrtc

SHARED = 48 * 2**10      # B of dynamic shared memory that every launch may have; more is asked for (CUDA C++ Guide)
ROOM = ("delete arrays that are no longer needed, call xp.get_default_memory_pool().free_all_blocks(), "
        "or choose a smaller size")
FATAL = "ILLEGAL|illegal|MISALIGNED|misaligned|LAUNCH_FAILED|LAUNCH_TIMEOUT|HARDWARE_STACK|ASSERT|unspecified launch"
TYPES = {  # dtype: numbers of a and b, of out (library_types.h), arithmetic (cublas_api.h), dtype of the factors
    "float64": (1, 1, 70, "float64"), "float32": (0, 0, 68, "float32"), "tfloat32": (0, 0, 77, "float32"),
    "float16": (2, 2, 68, "float32"), "bfloat16": (14, 14, 68, "float32"), "int8": (3, 10, 72, "int32")}
AS_IS, TRANSPOSED, BY_ITSELF = 0, 1, -1                  # CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_GEMM_DEFAULT (cublas_api.h)
_last = []                                               # the name of the kernel launched last


class GpuError(RuntimeError):
    """What a GPU refused to do; a notebook shows the sentence alone."""

    def _render_traceback_(self):
        return [f"{type(self).__name__}: {self}"]


def raw_kernel(xp, code, name):
    """The CUDA kernel `name` of that source, called as kernel(grid, block, args, shared_mem=0) on CuPy arrays.

    It is compiled at its first call.
    Errors:  GpuError that names the kernel, from that call; a fault inside of it shows at the next `wait`
    """
    folders = nvrtc.includes() if "mma.h" in code else []    # which CuPy alone does not look for everywhere
    options = ("--std=c++17", *(f"-I{folder}" for folder in folders))
    kernel, granted = xp.RawKernel(code, name, options=options), SHARED

    def call(grid, block, args, shared_mem=0):
        nonlocal granted
        try:
            if shared_mem > granted:
                kernel.max_dynamic_shared_size_bytes = granted = shared_mem
            kernel(tuple(grid), tuple(block), tuple(args), shared_mem=shared_mem)
        except Exception as error:
            raise GpuError(_fault(error) or f"the kernel {name} {_refused(error)}.") from error
        _last[:] = [name]
    return call


def _refused(error):
    """Why a kernel was not launched, and what to do."""
    text = str(error)
    if "open source file" in text:
        return f"does not compile ({first_line(error)}): `python -m roofline_kit doctor` tells how to get the headers"
    if "Compile" in type(error).__name__:
        found = re.search(r"(?m)^.*\berror\b.*$", text)
        return f"does not compile, correct this line: {found.group().strip() if found else first_line(error)}"
    if isinstance(error, MemoryError):
        return f"found no free GPU memory: {ROOM}"
    if re.search("INVALID_VALUE|OUT_OF_RESOURCES", text):
        return (f"was not launched ({first_line(error)}): its grid, block, registers or shared memory are more than "
                "this GPU has, so make the block or the tile smaller")
    return f"was not launched ({first_line(error)}): `python -m roofline_kit doctor` tells what is wrong"


def _fault(error):
    """The sentence for a kernel that failed while it ran, which shows at the next launch or wait; else empty."""
    if not hasattr(error, "status") or not re.search(FATAL, str(error)):
        return ""
    last = f"the kernel {_last[0]}, the kit's last one," if _last else "a kernel"
    return (f"{last} failed ({first_line(error)}): find the line with rk.cuda(source, name).check(..) and restart "
            "Python, for this GPU answers nothing else.")


def explained(error):
    """What went wrong on the GPU and what to do, as a sentence; empty for an error that is none of the GPU's."""
    if isinstance(error, GpuError):
        return str(error)
    if isinstance(error, MemoryError):
        return f"there is no room in memory ({first_line(error)}): {ROOM}."
    return _fault(error)


def first_line(error):
    """The first line of an error, to stand inside a sentence."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")[:160]


def wait(xp):
    """Return when all that was given to the current stream is done.

    Errors:  GpuError that names the kit's last kernel, if one failed meanwhile
    """
    try:
        xp.cuda.get_current_stream().synchronize()
    except Exception as error:
        if told := explained(error):
            raise GpuError(told) from error
        raise


@functools.cache
def stream(xp):
    """The stream for measuring, as a context; one only, because CuPy keeps the memory of each stream apart."""
    return xp.cuda.Stream(non_blocking=True)


def mark(xp):
    """An event that happens when all work given before is done; `.done` tells whether it has."""
    event = xp.cuda.Event()
    event.record()
    return event


def between(xp, begin, end):
    """Time from one event to another, after waiting for the second [s]. It is known to half a microsecond."""
    end.synchronize()
    return xp.cuda.get_elapsed_time(begin, end) / 1e3


def captured(xp, call, count):
    """A CUDA graph of `count` calls; nothing runs until its .launch().

    A call has run on this stream before: then its memory comes from CuPy's pool, where each call finds the same, and
    its kernels are compiled.
    Errors:  GpuError for a call that cannot be captured
    """
    here = xp.cuda.get_current_stream()
    here.begin_capture()
    try:
        for _ in range(count):
            call()
        graph = here.end_capture()
    except BaseException as error:
        with contextlib.suppress(Exception):                 # or the stream would take nothing any more
            here.end_capture()
        if not isinstance(error, Exception):
            raise
        raise GpuError(f"the call cannot be captured in a CUDA graph ({first_line(error)}): it may only launch "
                       "kernels, without a library's product, a wait or a copy to the host; else take "
                       "clock='throughput'.") from error
    graph.upload()
    return graph


def product(xp, dtype):
    """A function (a, b, out) for out[m, n] = a[m, k] b[n, k]^T through cuBLAS, every sum over k in a row of each.

    float32 without TF32, which is tfloat32; int8 sums in int32; the others give their own dtype. bfloat16 may be any
    two bytes. Matrices only: with more dimensions CuPy computes float16 in float32.
    """
    numbers, result, arithmetic, factor = TYPES[dtype]
    factors = np.array([1, 0], factor)                       # out = 1 a b + 0 out
    one, zero = factors.ctypes.data, factors.ctypes.data + factors.itemsize

    def call(a, b, out):
        (m, k), (n, _) = a.shape, b.shape                    # to cuBLAS a row is a column, so it computes out^T
        xp.cuda.cublas.gemmEx(
            xp.cuda.device.get_cublas_handle(), TRANSPOSED, AS_IS, n, m, k, one, b.data.ptr, numbers, k, a.data.ptr,
            numbers, k, zero, out.data.ptr, result, n, arithmetic, BY_ITSELF)
    call.factors = factors                                   # they live as long as the function
    return call


def free(xp):
    """Free memory, with what CuPy's pool holds but nobody uses [B]."""
    return xp.cuda.runtime.memGetInfo()[0] + xp.get_default_memory_pool().free_bytes()


def facts(xp):
    """What the runtime says of the GPU in use; sizes [B]."""
    said = xp.cuda.runtime.getDeviceProperties(xp.cuda.runtime.getDevice())
    return {"name": said["name"].decode(), "uid": "gpu-" + bytes(said["uuid"]).hex(),
            "multiprocessors": said["multiProcessorCount"], "memory": said["totalGlobalMem"],
            "L1": said["sharedMemPerMultiprocessor"], "L2": said["l2CacheSize"],
            "capability": f"{said['major']}.{said['minor']}"}


def software(xp):
    """Versions of CuPy, of the driver and of the runtime."""
    return {"cupy": xp.__version__, "driver": xp.cuda.runtime.driverGetVersion(),
            "runtime": xp.cuda.runtime.runtimeGetVersion()}
