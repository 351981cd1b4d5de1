"""How does a kernel become a program? Compiled behind the shim, linked to the runtime, kept in a cache."""

import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .. import host
from ..cards import folder
from .errors import CudaError
from .symbols import WRITTEN

HERE = Path(__file__).parent
SHIM = HERE / "shim/cuda_on_cpu.h"
COMMON = ("-std=c++17", "-w", "-g1", "-fno-strict-aliasing", "-fno-threadsafe-statics", "-ffp-contract=fast")
CHECKS = ("address,bounds,alignment,shift-exponent,signed-integer-overflow,integer-divide-by-zero,null,return,"
          "unreachable,vla-bound")
MODES = {  # mode: how its kernels are compiled
    "fast": ("-O2",),
    "asan": ("-O1", "-fno-omit-frame-pointer", f"-fsanitize={CHECKS}", "-fno-sanitize-recover=all"),
    "trace": ("-O1", "-fsanitize=thread"),
    "count": ("-O1",),
}
UNSET = "-ftrivial-auto-var-init=pattern"    # a variable that was never set is -1.7e38, not the 0 that luck would give
INSTALL = ("Debian or Ubuntu: sudo apt install g++; Fedora: sudo dnf install gcc-c++ libasan libubsan; macOS: "
           "xcode-select --install; conda: conda install -c conda-forge cxx-compiler; Windows: use WSL and its Ubuntu")
TIMEOUT = 300            # s for one run of the compiler: a minute is a lot, even for a loaded machine


def programs(source, name, *modes):
    """{mode: program} for that kernel of a Source; what has to be compiled is compiled at the same time.

    The counting mode's program is None where its numbers, which are objects, do not compile.
    Errors:  CudaError without a compiler, and for source that does not compile
    """
    compiler()
    with ThreadPoolExecutor(len(modes)) as pool:
        made = {mode: pool.submit(program, source, name, mode) for mode in modes}
    return {mode: None if mode == "count" and made[mode].exception() else made[mode].result() for mode in modes}


def program(source, name, mode):
    """The program that runs the kernels of a Source in that mode, compiled if it is not in the cache."""
    source.require(name)
    base = _base(mode)
    names = dict.fromkeys((*source.kernels, name))
    try:
        try:
            return _linked(base, mode, _text(source, names, mode == "count"))
        except CudaError:
            if len(names) == 1 and mode != "count":
                raise
        try:
            return _linked(base, mode, _text(source, [name], mode == "count"))     # another may stand in an #if
        except CudaError:
            if mode != "count":
                raise
        return _linked(base, mode, _text(source, [name]))                          # or `int n = 1e6` in the text
    except CudaError as error:
        if str(error).startswith("exports line"):
            raise CudaError(source.unlaunchable(name)) from None
        raise


def _text(source, names, counted=False):
    entries = ", ".join(f'entry("{name}", {name})' for name in names)
    table = f"const Kernel kernels[] = {{{entries}}}; const int kernel_count = {len(names)};"
    return f'{source.translated(counted)}\n#line 1 "exports"\nnamespace cuda_on_cpu {{ {table} }}\n'


def _linked(base, mode, text):
    made = base / hashlib.sha256(text.encode()).hexdigest()[:24]
    if made.exists():
        return made
    with tempfile.TemporaryDirectory(dir=base, prefix="making-") as temporary:
        written, compiled, linked = (Path(temporary) / name for name in (WRITTEN, "kernel.o", "kernel"))
        written.write_text(text, encoding="utf-8")
        _run(*_flags(mode), "-include", base / "cuda_on_cpu.h", "-c", written, "-o", compiled)
        _run(*_link_flags(mode), compiled, base / "runtime.o", "-o", linked)
        os.replace(linked, made)
    return made


def _base(mode):
    """The folder of a mode: the runtime as an object, the shim precompiled, and its kernels' programs."""
    made = _cache() / f"{mode}-{_key(mode)}"
    if made.exists():
        return made
    with tempfile.TemporaryDirectory(dir=_cache(), prefix="making-") as temporary:
        base = Path(temporary) / "base"
        base.mkdir()
        (base / "cuda_on_cpu.h").write_text(f'#include "{SHIM}"\n', encoding="utf-8")
        plain = [flag for flag in _flags(mode) if "sanitize" not in flag and flag != "-g1"]
        with ThreadPoolExecutor(2) as pool:
            runtime = pool.submit(_run, *plain, "-O2", "-c", HERE / "runtime/main.cpp", "-o", base / "runtime.o")
            pool.submit(_precompile, mode, base / "cuda_on_cpu.h.gch")         # the name that both compilers look for
            runtime.result()
        try:
            os.rename(base, made)
        except OSError:                                       # another process was faster
            if not made.exists():
                raise
    return made


def _precompile(mode, made):
    """Halves the time that a kernel takes; without it the compiler reads the header itself."""
    try:
        _run(*_flags(mode), "-x", "c++-header", SHIM, "-o", made)
    except CudaError:
        made.unlink(missing_ok=True)


def _flags(mode):
    flags = (*COMMON, *MODES[mode], f"-DCUDA_ON_CPU_{mode.upper()}", f"-I{HERE / 'include'}")
    if mode == "trace" and _knows("-fno-tree-sra"):
        flags += ("-fno-tree-sra",)                          # or GCC splits a float4 before the hooks see it
    if mode in ("fast", "asan") and _knows(UNSET):
        flags += (UNSET,)
    if platform.machine().lower() in ("x86_64", "amd64"):
        flags += ("-fcf-protection=none",)                   # a fiber starts in a way that shadow stacks forbid
    if os.environ.get("ROOFLINE_KIT_UCONTEXT"):
        flags += ("-DCUDA_ON_CPU_UCONTEXT",)                 # for the tests: what other processors use
    return (*flags, "-march=native") if mode == "fast" and _knows("-march=native") else flags


def _link_flags(mode):
    flags = [flag for flag in MODES[mode] if "sanitize" in flag and mode == "asan"]
    return (*flags, "-ldl") if sys.platform == "linux" else tuple(flags)


@functools.cache
def compiler():
    """The C++ compiler: $CXX, g++ or clang++, whichever is there first.

    Errors:  CudaError that says how to install one
    """
    if sys.platform == "win32":
        raise CudaError("kernels run on a CPU under Linux and macOS only: on Windows, install WSL (wsl --install) and "
                        "start Jupyter in it.")
    for name in (os.environ.get("CXX", "").split(" ")[0], "g++", "clang++", "c++"):
        found = name and shutil.which(name)
        if found and (sys.platform != "darwin" or not found.startswith("/usr/bin/") or _quiet("xcode-select", "-p")):
            return found
    raise CudaError(f"running a kernel on the CPU takes a C++ compiler, and there is none: install one ({INSTALL}) and "
                    "restart the notebook's kernel.")


@functools.cache
def _version(path):
    return subprocess.run([path, "--version"], check=False, capture_output=True, text=True, timeout=TIMEOUT).stdout


@functools.cache
def _knows(flag):
    return _quiet(compiler(), flag, "-E", "-x", "c++", os.devnull)


def _quiet(*command):
    """Whether a command succeeds."""
    return not subprocess.run(command, check=False, capture_output=True, timeout=TIMEOUT).returncode


@functools.cache
def _key(mode):
    files = [path for path in sorted(HERE.rglob("*")) if path.suffix in (".h", ".cpp")]
    texts = (f"{path} {path.read_text(encoding='utf-8')}" for path in files)
    dates = (str(path.stat().st_mtime_ns) for path in files)       # clang refuses a precompiled header of another date
    facts = (*texts, *dates, *_flags(mode), compiler(), _version(compiler()), host.uid())
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]


@functools.cache
def _cache():
    owner = os.getuid() if hasattr(os, "getuid") else ""
    for path in (folder() / "cuda", Path(tempfile.gettempdir()) / f"roofline_kit-{owner}" / "cuda"):
        try:
            path.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=path).close()
            return path
        except OSError:
            continue
    raise CudaError("there is no folder for compiled kernels: set ROOFLINE_KIT_CACHE to one that can be written.")


def _run(*words):
    """Errors: CudaError with the compiler's first complaint."""
    command = [compiler(), *map(str, words)]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, errors="replace", timeout=TIMEOUT,
                              env=os.environ | {"LC_ALL": "C"})
    except subprocess.TimeoutExpired:
        raise CudaError(f"the compiler took over {TIMEOUT} s: make the kernel's unrolled loops shorter.") from None
    if done.returncode:
        raise CudaError(_complaint(done.stderr))


def _complaint(stderr):
    if re.search(r"(lib|-l)[\w.]*asan|asan_interface\.h|lib[\w.]*ubsan", stderr):
        raise CudaError(f"{compiler()} has no AddressSanitizer, which check() needs: install it (Fedora: sudo dnf "
                        "install libasan libubsan; openSUSE: libasan and libubsan of the compiler's version; Alpine: "
                        "clang with compiler-rt); a plain call works without.")
    if re.search(r"Assembler messages|error: .*(\basm\b|constraint)", stderr):
        return ("inline PTX (asm) is machine code of a GPU, which a CPU cannot run: use the CUDA function for it, or "
                "launch on a GPU.")
    first = re.search(r"^(.*?):(\d+):(?:\d+:)? (?:fatal )?error: (.*)$", stderr, re.MULTILINE)
    if not first:
        told = re.search(r"error: .*", stderr) or re.search(r".+\Z", stderr.strip())
        return f"{compiler()} could not compile the kernel: {told[0] if told else 'it gave no reason'}."
    return f"{Path(first[1]).name} line {first[2]} does not compile: {first[3]}."
