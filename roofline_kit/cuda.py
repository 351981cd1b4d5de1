"""How does a learner's own CUDA kernel run, on a GPU or without one?"""

import functools
from dataclasses import dataclass, field

from . import gpu
from .cuda_on_cpu import compiler, findings, program, trace
from .cuda_on_cpu.arguments import checked, sizes
from .cuda_on_cpu.errors import CudaError
from .cuda_on_cpu.source import Source, read
from .device import device as find_device

__all__ = ["CudaError", "Kernel", "cuda"]


def cuda(source, name, device=None):
    """The CUDA kernel `name` of that source, ready to call as kernel(grid, block, args, shared_mem=0).

    source:  CUDA C++ text, or the pathlib.Path of a .cu file
    device:  as for rk.device(); on a GPU a call goes through CuPy, on a CPU through a C++ compiler
    Errors:  CudaError when the source cannot be read or has no such kernel
    """
    kernel = Kernel(read(source), name, find_device(device))
    kernel.source.require(name)
    return kernel


@dataclass(frozen=True)
class Kernel:
    """One CUDA kernel.

    Errors:  CudaError: one sentence that names the kernel, its line and what to do
    """

    source: Source = field(repr=False)
    name: str
    device: object = field(repr=False)

    def __call__(self, grid, block, args, shared_mem=0):
        """Run it; the arrays are changed in place."""
        if self.device.kind == "gpu":
            self._on_gpu(grid, block, args, shared_mem)
            return
        programs = compiler.programs(self.source, self.name, "fast")
        self._run(programs["fast"], self._call(programs, grid, block, args, shared_mem))

    def check(self, grid, block, args, shared_mem=0):
        """Run it on the CPU under every check; the results are left in the arrays.

        Checked:  arguments, sizes, bounds, alignment, overflow, barriers, warp operations, races, uninitialised shared
                  memory, asynchronous copies that nobody waits for; where NVIDIA's compiler is installed, whether it
                  takes the source
        """
        host = _all_on_host(args)
        programs = compiler.programs(self.source, self.name, "asan", "trace")
        call = self._call(programs, grid, block, host, shared_mem)
        before = call.copied()
        self._run(programs["asan"], call)
        for order in program.ORDERS[:2]:
            again = before.copied()
            found = self._run(programs["trace"], again, order, quiet=True)         # it has printed already
            seen = trace.problems(found, again, self.source, programs["trace"])
            findings.raise_if(seen[0] if seen else "")
        findings.raise_if(self._refused())
        _give_back(host, args)

    def _refused(self):
        """Why NVIDIA's compiler does not take the source; empty where it does, or cannot be asked."""
        from . import nvrtc

        try:
            if nvrtc.find():
                _accepted(self.source.text)
        except nvrtc.NvrtcError as error:
            if not nvrtc.MISSING.search(error.log) and error.log:
                return f"kernel {self.name} runs here, but NVIDIA's compiler refuses it: {error}"
        return ""

    def trace(self, grid, block, args, shared_mem=0):
        """Run it on the CPU and count what its source asks for: a Trace. The results are left in the arrays."""
        host = _all_on_host(args)
        programs = compiler.programs(self.source, self.name, "trace", "count")
        call = self._call(programs, grid, block, host, shared_mem)
        flops = self._run(programs["count"], call.copied(), quiet=True)["flops"] if programs["count"] else None
        counted = trace.trace(self._run(programs["trace"], call), call, self.source, programs["trace"], flops)
        _give_back(host, args)
        return counted

    def resources(self, arch="sm_90"):
        """What the kernel takes of a multiprocessor of that architecture, by NVIDIA's compiler."""
        from . import nvrtc

        return nvrtc.resources(self.source.text, self.name, arch)

    @functools.cached_property
    def _on_gpu(self):
        return gpu.raw_kernel(self.device.xp, self.source.text, self.name)

    def _call(self, programs, grid, block, args, shared_mem):
        parameters = program.signatures(next(iter(programs.values())), self.source)[self.name]
        arrays = checked(self.name, parameters, args)
        return program.Call(self.name, *sizes(self.name, grid, block, shared_mem), parameters, arrays, int(shared_mem))

    def _run(self, path, call, order="forward", quiet=False):
        found = program.run(path, call, order, quiet=quiet)
        findings.raise_if(findings.sentence(found, call, self.source, path))
        return found


@functools.lru_cache(maxsize=64)
def _accepted(text):
    """Ask NVIDIA's compiler, once for each source that it takes. Errors: NvrtcError"""
    from . import nvrtc

    nvrtc.compile(text)


def _on_host(value):
    return value.get() if hasattr(value, "get") and hasattr(value, "set") else value


def _all_on_host(args):
    return [_on_host(value) for value in args] if isinstance(args, (tuple, list)) else args


def _give_back(host, args):
    """What a kernel wrote on copies of a GPU's arrays goes back to them."""
    for copy, original in zip(host, args, strict=True):
        if copy is not original:
            original.set(copy)
