"""Is this set-up fit for the course, and if not, what is the next step?"""

import importlib
import importlib.metadata
import os
import platform
import sys
from dataclasses import dataclass

from . import host
from .device import device, nvidia_driver
from .doubts import FOREIGN
from .units import si

REINSTALL = "remove the folder .venv and run `python course.py lab`"
UPDATE = "install the newest driver for it from https://www.nvidia.com/drivers and restart the computer"
RESTART = "run `nvidia-smi` to see what holds the GPU, then restart the computer"
NO_DEVICE, STUB, NO_DRIVER = 100, 34, 35                     # cudaError_t in the CUDA runtime's documentation
SMOKE = r"""
#include <cuda_fp16.h>
extern "C" __global__ void smoke(float* x) {
    x[threadIdx.x] = __half2float(__float2half(2.0f)) * threadIdx.x;
}
"""


@dataclass(frozen=True)
class Finding:
    """One thing looked at.

    level:  "ok", "note" (works, but differs from what one may expect) or "problem"
    says:   a sentence
    next:   what to do about it, empty for nothing
    """

    topic: str
    level: str
    says: str
    next: str = ""


@dataclass(frozen=True, repr=False)
class Report:
    """What the doctor found, in the order in which it looked."""

    findings: tuple

    @property
    def problems(self):
        """The findings that need something done."""
        return tuple(finding for finding in self.findings if finding.level == "problem")

    def __repr__(self):
        lines = []
        for finding in self.findings:
            lines.append(f"{finding.level:8} {finding.topic:8} {finding.says}")
            lines += [f"{'':18}-> {finding.next}"] if finding.next else []
        count = len(self.problems)
        return "\n".join([*lines, f"{count or 'no'} problem{'s' * (count != 1)} found"])


def doctor():
    """What is installed, what this process may use, what the GPU says, and the next step where one is due."""
    looks = {"Python": python, "kit": kit, "NumPy": blas, "Numba": numba, "cores": cores, "memory": memory,
             "load": load, "Jupyter": jupyter, "GPU": gpu}
    found = []
    for topic, look in looks.items():
        try:
            level, says, *step = look()
        except Exception as error:                           # noqa: BLE001  a doctor who faints helps nobody
            level, says, step = "problem", f"looking at it failed: {first_line(error)}.", [REINSTALL]
        found.append(Finding(topic, level, says, *step))
    return Report(tuple(found))


def python():
    says = f"{platform.python_version()} at {sys.executable} on {platform.system()} {platform.machine()}"
    if sys.prefix != sys.base_prefix or os.path.isdir(os.path.join(sys.prefix, "conda-meta")):
        return "ok", f"{says}."
    return "note", f"{says}, outside of any environment.", "run `python course.py lab`, which makes one"


def kit():
    version = sys.modules[__package__].__version__
    return "ok", f"roofline_kit {version} at {os.path.dirname(os.path.abspath(__file__))}."


def blas():
    import numpy as np
    from threadpoolctl import threadpool_info
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    if not pools:
        return "note", f"{np.__version__}, whose BLAS does not tell its threads."
    pool, usable = pools[0], host.cores()
    says = (f"{np.__version__} with {pool['internal_api']} {pool['version']}, "
            f"{pool['num_threads']} threads on {usable} cores.")
    if pool["num_threads"] == usable:
        return "ok", says
    return "note", says, f"set OPENBLAS_NUM_THREADS={usable} (or MKL_NUM_THREADS) before Python starts"


def numba():
    import numba
    says = f"{numba.__version__}, {numba.config.NUMBA_NUM_THREADS} threads"
    if numba.config.DISABLE_JIT:
        return "problem", f"{says}, but NUMBA_DISABLE_JIT keeps it from compiling.", "unset NUMBA_DISABLE_JIT"
    layers = [layer for layer in numba.config.THREADING_LAYER_PRIORITY if _has_layer(layer)]
    if layers[:1] in (["omp"], ["tbb"]):
        return "ok", f"{says}, threading layer {layers[0]}."
    says += f", threading layer {layers[0] if layers else 'none'}: a parallel call costs ten times OpenMP's."
    return "note", says, "install OpenMP (Debian, Ubuntu: `sudo apt install libgomp1`; conda: `llvm-openmp`)"


def cores():
    usable, present = host.cores(), os.cpu_count() or 1
    says = f"{host.name()}, {usable} of {present} cores, caches {host.listed(host.caches())}."
    if usable == present:
        return "ok", says
    return "note", says, "affinity or a container's quota withholds the others: the roofs are for these"


def memory():
    free, total = host.free_memory(), host.memory()
    says = f"{si(free, 'B')} of {si(total, 'B')} are free."
    return ("ok", says) if free > 2e9 else ("problem", says, "close other programs until 2 GB are free")


def load():
    share = host.foreign_load()
    if share is None:
        return "note", "this system does not tell how busy it is.", "close other programs before you measure"
    says = f"other processes use {100 * share:.0f} % of the cores."
    return ("ok", says) if share <= FOREIGN else ("problem", says, "find them with `top`; wait or end them")


def jupyter():
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
    step = "run `python -m ipykernel install --sys-prefix` with the Python named above"
    try:
        starts = KernelSpecManager().get_kernel_spec("python3").argv[0]
    except NoSuchKernel:
        return "problem", "Jupyter knows no kernel named python3.", step
    # the folders, not the files: an environment's python is a link to the one that it was made from
    if os.path.dirname(starts) in ("", os.path.dirname(sys.executable)):
        lab = importlib.metadata.version("jupyterlab")
        return "ok", f"JupyterLab {lab}, whose notebooks run in this environment."
    return "problem", f"notebooks run in another Python, {starts}.", step


def gpu():
    """Eleven ways in which a GPU can be there or not, told apart by what CuPy's runtime says."""
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
        cupy.RawKernel(SMOKE, "smoke")((1,), (32,), (x,))
        right = x.get().tolist() == [2.0 * i for i in range(32)]
    except Exception as error:                               # noqa: BLE001  compiling or running it fails
        if "open source file" in str(error):
            return "problem", f"the compiler finds no CUDA headers: {first_line(error)}.", REINSTALL
        return "problem", f"a test kernel does not run: {first_line(error)}.", RESTART
    if not right:
        return "problem", "a test kernel gives wrong numbers.", "look for errors with `nvidia-smi -q -d ECC`"
    name, driver = device("gpu").name, _cuda(runtime.driverGetVersion())
    return "ok", f"{name} through CuPy {cupy.__version__}, driver for CUDA {driver}."


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
        return ("note", "CuPy is installed but this machine has no NVIDIA driver, so the CPU is used.",
                f"if it has an NVIDIA GPU, {UPDATE}; in a container, start that with `--gpus all`")
    if status == NO_DRIVER:
        wanted = _cuda(runtime.runtimeGetVersion())
        says = f"the driver is for CUDA {_cuda(told)}, older than CuPy's CUDA {wanted}."
        return "problem", says, f"run `python course.py lab` for a CuPy that fits, or {UPDATE}"
    if status == NO_DEVICE:
        return _no_device()
    if status == STUB:
        return ("problem", "CuPy has loaded the toolkit's stub of libcuda instead of the driver.",
                "take the folder named stubs out of LD_LIBRARY_PATH and start again")
    return "problem", f"the driver reports an error: {first_line(error)}.", RESTART


def _no_device():
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    if shown is not None:
        return ("problem", f"there is a driver but CUDA_VISIBLE_DEVICES={shown!r} hides every GPU.",
                "unset CUDA_VISIBLE_DEVICES and start again")
    return "problem", "there is a driver but it finds no GPU.", "run `nvidia-smi -L`, which should list one"


def _cuda(version):
    """13020 -> '13.2'"""
    return f"{version // 1000}.{version % 1000 // 10}"


def _has_layer(layer):
    try:
        importlib.import_module(f"numba.np.ufunc.{'workqueue' if layer == 'workqueue' else layer + 'pool'}")
    except ImportError:
        return False
    return True


def first_line(error):
    """The first line of an error, without its full stop, to stand inside a sentence."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")[:160]
