"""What does NVIDIA's compiler make of a kernel, on a machine that may have no GPU?

NVRTC is a library: it needs neither CuPy nor a driver. It tells whether a kernel compiles for an architecture and
what it takes of an SM.
"""

import ctypes
import functools
import importlib.util
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from .occupancy import Resources

LIBRARIES = ("libnvrtc.so.*", "libnvrtc.so", "nvrtc64_*_0.dll")
LIBRARY_FOLDERS = ("lib", "lib64", "bin", "bin/x86_64", "bin/x64")          # wheels, toolkits, conda; Linux, Windows
TOOLKIT = Path("/usr/local/cuda")                              # where NVIDIA's installer puts it on Linux
PACKAGES = {"library": "nvidia-cuda-nvrtc", "headers": "nvidia-cuda-runtime", "crt": "nvidia-cuda-crt"}
HEADERS = {"cuda_fp16.h": PACKAGES["headers"], "mma.h": PACKAGES["headers"], "crt/mma.h": PACKAGES["crt"]}
FIRST_ERROR = re.compile(r"(?m)^(?P<file>[^\n]*)\((?P<line>\d+)\): (?:catastrophic )?error(?: #\S+)?: "
                         r"(?P<says>.*)\n\s*(?P<code>.*)$")
MISSING = re.compile(r'(?:could not|cannot) open source file "([^"]+)"')


class NvrtcError(RuntimeError):
    """A kernel that does not compile, or a compiler that is not there; a notebook shows the sentence alone.

    log:     all that the compiler said
    """

    def __init__(self, sentence, log=""):
        super().__init__(sentence)
        self.log = log

    def _render_traceback_(self):
        return [f"{type(self).__name__}: {self}"]


@dataclass(frozen=True)
class Cubin:
    """Machine code of one architecture, and what the compiler said about it."""

    code: bytes = field(repr=False)
    log: str = field(repr=False)
    arch: str


def compile(source, arch="sm_90"):
    """The Cubin of CUDA C++ source for one architecture.

    Errors:  NvrtcError where NVRTC or a header is missing, and for a source that does not compile: its first error
    """
    nvrtc, known = library(), architectures()
    if arch not in known:
        raise NvrtcError(f"unknown architecture {arch!r}: NVRTC {version()} knows {', '.join(known)}.")
    options = [f"--gpu-architecture={arch}", "--std=c++17", "--ptxas-options=-v", *(f"-I{path}" for path in includes())]
    program = ctypes.c_void_p()
    _check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None))
    try:
        texts = (ctypes.c_char_p * len(options))(*map(os.fsencode, options))
        failed = nvrtc.nvrtcCompileProgram(program, len(options), texts)
        log = _bytes(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog).rstrip(b"\0").decode()
        if failed:
            raise NvrtcError(_sentence(log), log)
        return Cubin(_bytes(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN), log, arch)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def resources(source, name, arch="sm_90"):
    """The Resources of the kernel of that name, as the compiler reports them.

    Errors:  NvrtcError as for compile(), ValueError for a name that the source does not hold
    """
    found = all_resources(source, arch)
    if name not in found:
        raise ValueError(f"the source has no kernel {name!r}, it has {', '.join(found) or 'none'}: "
                         'give a name that is declared extern "C" __global__.')
    return found[name]


def all_resources(source, arch="sm_90"):
    """The Resources of each kernel of a source, by its name."""
    log = compile(source, arch).log
    parts = re.split(r"Compiling entry function '(\w+)' for '\w+'", log)[1:]
    return dict(sorted((name, _read(name, arch, said)) for name, said in zip(parts[::2], parts[1::2])))


def version():
    """Of NVRTC, as '13.0'."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return f"{major.value}.{minor.value}"


@functools.cache
def architectures():
    """What this NVRTC compiles for, such as 'sm_90'."""
    count = ctypes.c_int()
    _check(library().nvrtcGetNumSupportedArchs(ctypes.byref(count)))
    numbers = (ctypes.c_int * count.value)()
    _check(library().nvrtcGetSupportedArchs(numbers))
    return tuple(f"sm_{number}" for number in numbers)


@functools.cache
def library():
    """NVRTC, loaded.

    Errors:  NvrtcError that says how to install it
    """
    path = find()
    if path is None:
        if sys.platform == "darwin":
            raise NvrtcError("NVIDIA makes no NVRTC for macOS: compile for a GPU on Linux or Windows.")
        raise NvrtcError(f"NVRTC, NVIDIA's compiler, is not installed: run `{install(*PACKAGES.values())}`.")
    try:
        if os.name == "nt":
            os.add_dll_directory(str(path.parent))           # it loads its built-in functions by name
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise NvrtcError(f"{path} does not load ({error}): run `{install(PACKAGES['library'])}`.") from None
    loaded.nvrtcGetErrorString.restype = ctypes.c_char_p
    return loaded


def find():
    """The path of NVRTC, or None: in the wheels, then under CUDA_PATH, in conda's prefix, in /usr/local/cuda."""
    return next((path for place in _places() for root in place for folder in LIBRARY_FOLDERS for name in LIBRARIES
                 for path in sorted((root / folder).glob(name), reverse=True)), None)


def includes():
    """The folders of CUDA's headers, all from one place, since those of two versions do not mix.

    The first place that has them all, or else the first that lacks only those of the Tensor Cores.
    """
    for needed in (("cuda_fp16.h", "crt/mma.h"), ("cuda_fp16.h",)):
        for place in _places():
            folders = [root / folder for root in place for folder in ("include", "include/cccl")]
            if all(any((folder / name).exists() for folder in folders) for name in needed):
                return [folder for folder in folders if folder.is_dir()]
    return []


def install(*packages):
    """The command that installs packages for CUDA 13 into this Python."""
    tool = [sys.executable, "-m", "pip", "install"]
    if importlib.util.find_spec("pip") is None:              # as in an environment made by uv
        tool = ["uv", "pip", "install", "--python", sys.executable]
    return " ".join([*tool, *(f'"{package}==13.*"' for package in packages)])


def _places():
    """Where CUDA may be, each place a list of folders: wheels for CUDA 13 share one, those for 12 have one each."""
    wheels = [path for folder in sys.path for path in sorted(Path(folder, "nvidia").glob("cu*")) if path.is_dir()]
    shared = [path for path in wheels if path.name[2:].isdigit()]
    toolkit = [Path(os.environ["CUDA_PATH"])] if os.environ.get("CUDA_PATH") else []
    conda = [Path(sys.prefix, "Library"), Path(sys.prefix), *sorted(Path(sys.prefix, "targets").glob("*-linux"))]
    return [shared, [path for path in wheels if path not in shared], toolkit, conda, [TOOLKIT]]


def _read(name, arch, said):
    """One kernel's part of what ptxas says."""
    own = re.search(rf"properties for {name}\s\D*(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) ", said)
    stack, stores, loads = map(int, own.groups())
    shared = re.search(r"(\d+) bytes smem", said)
    registers = int(re.search(r"Used (\d+) registers", said)[1])
    return Resources(name, arch, registers, int(shared[1]) if shared else 0, stores + loads, stack)


def _sentence(log):
    """The first error of a log, in one sentence."""
    first = FIRST_ERROR.search(log)
    if not first:
        said = re.search(r"(?:error|fatal)\s*: (.*)", log)     # from the assembler, which knows no lines
        return f"the kernel does not compile: {said[1].rstrip('.') if said else log.strip()[:200] or 'no reason told'}."
    where = f"{Path(first['file']).name}, line {first['line']}"
    missing = MISSING.match(first["says"])
    if missing and re.match(r"cu|crt/|mma|cooperative|nv/|vector_|device_|sm_\d", missing[1]):
        package = "nvidia-cuda-cccl" if missing[1].startswith(("nv/", "cuda/")) else PACKAGES[
            "crt" if missing[1].startswith("crt/") else "headers"]
        return f"{where}: the CUDA header {missing[1]} is not installed: run `{install(package)}`."
    if missing:
        return f"{where}: NVRTC has no header {missing[1]}, only CUDA's own: leave this #include out."
    more = len(FIRST_ERROR.findall(log)) - 1
    also = f", and {more} more error{'s' * (more > 1)}" * bool(more)
    return f"{where} does not compile: {first['says'].rstrip('.')}, in `{first['code'].strip()}`{also}."


def _bytes(program, ask_size, ask):
    size = ctypes.c_size_t()
    _check(ask_size(program, ctypes.byref(size)))
    room = ctypes.create_string_buffer(size.value)
    _check(ask(program, room))
    return room.raw


def _check(status):
    if status:
        says = library().nvrtcGetErrorString(status).decode()
        raise NvrtcError(f"NVRTC reports {says}: restart Python and try again.")
