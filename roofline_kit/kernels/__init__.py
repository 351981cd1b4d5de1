"""Which kernels does the kit bring, and how does each one run on either kind of device?

A kernel is CUDA C++ in a `.cu` file for a GPU, and a Numba function of the same name, its twin, for a CPU. Both are
called with the same arrays, so a lesson's line runs on either. `gpu_<family>.py` says with which grid, block and
arguments the CUDA ones are launched, `<family>.py` holds the twins.
"""

import importlib
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from .. import gpu
from ..units import nearest
from . import arguments

FAMILIES = {  # family: its kernels
    "stream": ("read", "scale", "copy", "triad", "write", "dot"),
    "fma": ("fma", "empty"),
    "gemm": ("gemm_naive", "gemm_tiled", "gemm_register_tiled", "gemm_tensor_core"),
    "rows": ("layernorm", "layernorm_unfused", "softmax", "softmax_three_pass", "softmax_unfused", "embedding"),
    "attention": ("attention", "flash_attention"),
    "steps": ("mlp", "gru"),
    "matvec": ("matvec", "matvec_bfloat16", "matvec_int8", "matvec_int4"),
}
HOMES = {name: family for family, names in FAMILIES.items() for name in names}
FOLDER = Path(__file__).parent
TYPES = {"float64": "double", "float32": "float", "float16": "__half", "bfloat16": "__nv_bfloat16"}
HEADERS = {"float16": "cuda_fp16.h", "bfloat16": "cuda_bf16.h"}


@dataclass(frozen=True)
class Launcher:
    """Launches kernels of the `.cu` files.

    xp:       the module whose arrays they work on
    compile:  a function (source, name) that gives a kernel, called as kernel(grid, block, args, shared_mem)
    """

    xp: object
    compile: object
    _known: dict = field(default_factory=dict)

    def __call__(self, file, name, grid, block, args, shared_mem=0, dtype="float32", **defines):
        """Launch kernel `name` of `file`.cu, compiled for that dtype and with those macros."""
        key = file, name, dtype, tuple(defines.items())
        if key not in self._known:
            self._known[key] = self.compile(source(file, dtype, **defines), name)
        self._known[key](grid, block, args, shared_mem)


def source(file, dtype="float32", **defines):
    """The CUDA C++ of `file`.cu, for arrays of that dtype, with those macros defined in front of it.

    Errors:  ValueError for a file that is not there and for a dtype that has no C++ type
    """
    path = FOLDER / f"{file}.cu"
    if not path.exists():
        raise ValueError(nearest(file, sorted(found.stem for found in FOLDER.glob("*.cu")), "kernel file"))
    if dtype not in TYPES:
        raise ValueError(nearest(dtype, TYPES, "dtype of a kernel"))
    macros = {"DTYPE": TYPES[dtype]} | defines
    return "\n".join([*(f"#include <{HEADERS[kind]}>" for kind in HEADERS if kind == dtype),
                      *(f"#define {name} {value}" for name, value in macros.items()),
                      f'#line 1 "{path.name}"', path.read_text()])


def kernel(name, device):
    """The kit's own kernel of that name for a device, a function to call on its arrays.

    Errors:  ValueError for a name that no file holds
    """
    if name not in HOMES:
        raise ValueError(nearest(name, HOMES, "kernel"))
    if device.kind == "cpu":
        return getattr(importlib.import_module(f".{HOMES[name]}", __name__), name)
    return launched(name, _launcher(device.xp))


def launched(name, launcher):
    """The kernel of that name in CUDA C++, through a Launcher: a function to call on its arrays."""
    plan, last = getattr(importlib.import_module(f".gpu_{HOMES[name]}", __name__), name), [None]

    def call(*given, **named):
        seen = tuple(map(_seen, given))
        if named or seen != last[0]:                         # a second look would take longer than the launch
            arguments.checked(name, partial(plan, launcher), given, named, launcher.xp.ndarray)
            last[0] = seen
        return plan(launcher, *given, **named)

    call.__name__, call.__doc__ = name, plan.__doc__
    return call


def _seen(value):
    return (id(value), value.shape, value.strides, value.dtype) if hasattr(value, "strides") else type(value)


_launchers = {}


def _launcher(xp):
    """One for each module, since it keeps the compiled kernels."""
    if id(xp) not in _launchers:
        _launchers[id(xp)] = Launcher(xp, lambda code, name: gpu.raw_kernel(xp, code, name))
    return _launchers[id(xp)]
