"""Which of the ways in which a GPU can be there, or be missing, is this one, and what is the next step?"""

import importlib
import os
import shutil

from .gpu import first_line, raw_kernel

REINSTALL = "remove the folder .venv and run `python course.py lab`"
UPDATE = "install the newest driver for it from https://www.nvidia.com/drivers and restart the computer"
RESTART = "run `nvidia-smi` to see what holds the GPU, then restart the computer"
NO_DEVICE, STUB, NO_DRIVER = 100, 34, 35                     # cudaError_t in the CUDA runtime's documentation
SMOKE = r"""
#include <cuda_fp16.h>
#include <mma.h>
extern "C" __global__ void smoke(float* x) {
    x[threadIdx.x] = __half2float(__float2half(2.0f)) * threadIdx.x;
}
"""


def look():
    """(level, sentence, next step where one is due) for one of eleven ways in which a GPU can be there or not.

    They are told apart by what CuPy's runtime says. Nothing is kept, and nothing is raised.
    """
    try:
        cupy = importlib.import_module("cupy")
        runtime = cupy.cuda.runtime
    except Exception as error:                               # noqa: BLE001  a broken install raises anything
        return _without_cupy(error)
    try:
        count = runtime.getDeviceCount()
    except Exception as error:                               # noqa: BLE001  the status tells them apart
        return _without_device(runtime, error)
    if not count:
        return _no_device()
    try:
        cupy.cuda.nvrtc.getVersion()
    except Exception as error:                               # noqa: BLE001  a library that is not there
        return "problem", f"the GPU's compiler NVRTC is missing: {first_line(error)}.", REINSTALL
    try:
        x = cupy.zeros(32, dtype="float32")
        raw_kernel(cupy, SMOKE, "smoke")((1,), (32,), (x,))
        right = x.get().tolist() == [2.0 * i for i in range(32)]
    except Exception as error:                               # noqa: BLE001  compiling or running it fails
        said = error.__cause__ or error
        if "open source file" in str(said):
            return "problem", f"the compiler does not find all CUDA headers: {first_line(said)}.", REINSTALL
        return "problem", f"a test kernel does not run: {first_line(said)}.", RESTART
    if not right:
        return "problem", "a test kernel gives wrong numbers.", "look for errors with `nvidia-smi -q -d ECC`"
    name, driver = runtime.getDeviceProperties(runtime.getDevice())["name"], _cuda(runtime.driverGetVersion())
    return "ok", f"{name.decode()} through CuPy {cupy.__version__}, driver for CUDA {driver}."


def _without_cupy(error):
    if not isinstance(error, ModuleNotFoundError) or error.name != "cupy":
        return "problem", f"CuPy is installed but does not import: {first_line(error)}.", REINSTALL
    if nvidia_driver():
        return ("problem", "there is an NVIDIA driver but no CuPy, so the CPU is used.",
                "run `python course.py lab`, which installs the CuPy for this driver")
    return "ok", "no NVIDIA driver and no CuPy: the course runs on the CPU."


def _without_device(runtime, error):
    status, told = getattr(error, "status", None), runtime.driverGetVersion()
    if status == NO_DRIVER and not told:
        return ("note", "CuPy is installed but this machine has no NVIDIA driver.",
                f"if it has an NVIDIA GPU, {UPDATE}; in a container, start that with `--gpus all`")
    if status == NO_DRIVER:
        wanted = _cuda(runtime.runtimeGetVersion())
        says = f"the driver is for CUDA {_cuda(told)}, older than CuPy's CUDA {wanted}."
        return "problem", says, f"run `python course.py lab` for a CuPy that fits, or {UPDATE}"
    if status == NO_DEVICE:
        return _no_device()
    if status == STUB:
        return "problem", "CuPy has loaded the toolkit's stub of libcuda instead of the driver.", _without_stubs()
    return "problem", f"the driver reports an error: {first_line(error)}.", RESTART


def _without_stubs():
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    kept = [folder for folder in folders if "stubs" not in folder]
    if kept == folders:
        return "run `ldconfig -p | grep libcuda`, which lists it, and remove it"
    command = f"export LD_LIBRARY_PATH={':'.join(kept)}" if kept else "unset LD_LIBRARY_PATH"
    return f"run `{command}` and start again"


def _no_device():
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    if shown is not None:
        return ("problem", f"there is a driver but CUDA_VISIBLE_DEVICES={shown!r} hides every GPU.",
                "unset CUDA_VISIBLE_DEVICES and start again")
    return "problem", "there is a driver but it finds no GPU.", "run `nvidia-smi -L`, which should list one"


def _cuda(version):
    """13020 -> '13.2'"""
    return f"{version // 1000}.{version % 1000 // 10}"


def nvidia_driver():
    """Whether this machine has an NVIDIA driver, by what it installs."""
    return bool(shutil.which("nvidia-smi")) or os.path.exists("/proc/driver/nvidia/version")
