"""Is this set-up fit for the course, and if not, what is the next step?"""

import importlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from . import gpu_state, host, nvrtc
from .cuda_on_cpu.compiler import compiler
from .doubts import FOREIGN
from .gpu import first_line
from .gpu_state import REINSTALL
from .units import si

INSTALLERS = {  # of a C++ compiler and its AddressSanitizer, the first that is there
    "apt": "sudo apt install g++", "dnf": "sudo dnf install gcc-c++ libasan libubsan",
    "zypper": "sudo zypper install gcc-c++", "pacman": "sudo pacman -S gcc", "xcode-select": "xcode-select --install",
    "wsl": "wsl --install", "conda": "conda install -c conda-forge cxx-compiler"}


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
             "load": load, "Jupyter": jupyter, "C++": cpp, "NVRTC": gpu_compiler, "GPU": gpu_state.look}
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


def cpp():
    """What runs CUDA kernels on the CPU, and whether it can check them."""
    command = next((INSTALLERS[tool] for tool in INSTALLERS if shutil.which(tool)), INSTALLERS["conda"])
    step = f"run `{command}`" + " and open the course in its Ubuntu" * command.startswith("wsl")
    try:
        path = compiler()
    except RuntimeError:
        return "note", "there is no C++ compiler, so CUDA kernels do not run on this CPU.", step
    version = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=True)
    says = f"{version.stdout.splitlines()[0]} at {path}"
    if _checks(path):
        return "ok", f"{says}, with AddressSanitizer."
    return "note", f"{says} has no AddressSanitizer, so kernels run but `.check()` does not.", step


def _checks(path):
    """Whether a compiler makes programs that watch their memory."""
    with tempfile.TemporaryDirectory() as folder:
        command = [path, "-x", "c++", "-", "-fsanitize=address,undefined", "-o", os.path.join(folder, "nothing")]
        done = subprocess.run(command, input=b"int main() {}", capture_output=True, timeout=60, check=False)
    return not done.returncode


def gpu_compiler():
    """NVRTC, which tells what a kernel takes of a GPU even where there is none; for CuPy's own the GPU's look asks."""
    if sys.platform == "darwin":
        return "ok", "NVIDIA makes none for macOS, so kernels run but `.resources()` has no answer."
    path, folders = nvrtc.find(), nvrtc.includes()
    missing = [] if path else [nvrtc.PACKAGES["library"]]
    missing += sorted({package for header, package in nvrtc.HEADERS.items()
                       if not any((folder / header).exists() for folder in folders)})
    if missing:
        says = f"NVIDIA's compiler lacks {' and '.join(missing)}, so `.resources()` of a kernel has no answer."
        return "note", says, f"run `{nvrtc.install(*missing)}`"
    return "ok", f"{nvrtc.version()} at {path}, headers at {folders[0]}."


def _has_layer(layer):
    try:
        importlib.import_module(f"numba.np.ufunc.{'workqueue' if layer == 'workqueue' else layer + 'pool'}")
    except ImportError:
        return False
    return True
