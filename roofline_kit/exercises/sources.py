"""Does a kernel in CUDA C++ give the right numbers, and load no more than it should? No GPU is needed to tell."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..cuda import CudaError, Kernel, cuda
from ..cuda_on_cpu.compiler import compiler
from ..units import si
from . import Form, Verdict, call, example


@dataclass(frozen=True, kw_only=True)
class Cuda:
    """How the answer to a build exercise is launched and counted where it is CUDA C++.

    name:    of the kernel that is asked
    launch:  function of the inputs -> (grid, block, args) or (grid, block, args, shared_mem): their arrays, floats as
             float32, and NumPy scalars, in the order of the kernel's parameters
    most:    function of the inputs -> bytes that it may load from global memory
    told:    the sentence for a kernel that loads more
    """

    name: str
    launch: object
    most: object
    told: str


def kernel(exercise, answer, device):
    """The kernel that an answer is: text, the Path of a file, or what rk.cuda returns; None for anything else.

    Errors:  Form for source that has no such kernel
    """
    if exercise.cuda is None or not isinstance(answer, (str, Path, Kernel)):
        return None
    try:
        return answer if isinstance(answer, Kernel) else cuda(answer, exercise.cuda.name, device)
    except CudaError as problem:
        raise Form(str(problem)) from None


def unable():
    """Why no kernel can be judged here; "" where one can."""
    try:
        compiler()
    except CudaError as problem:
        return f"inconclusive: {problem}"
    return ""


def run(exercise, kernel, arrays):
    """What it leaves in the output under every check of the CPU's, and then on a GPU, if there is one.

    Errors:  Form for what the checks find
    """
    results = [_launched(exercise, kernel.check, arrays)]
    if kernel.device.kind == "gpu":
        results.append(_launched(exercise, kernel, arrays, kernel.device))
    return results[-1]


def traffic(exercise, kernel, arrays):
    """The verdict on a kernel whose numbers are right: does it load no more than is asked?"""
    counts = []
    _launched(exercise, lambda *launch: counts.append(kernel.trace(*launch)), arrays)
    loaded, most = counts[0].loaded, call(exercise.cuda.most, arrays)
    line = max(counts[0].lines, key=lambda line: line.loaded)
    if loaded > most:
        return Verdict("wrong", f"the numbers are right, but it loads {si(loaded, 'B')}, {loaded / most:.3g} times the "
                                f"{si(most, 'B')} that are asked ({example(arrays)}), most of it in line {line.line}, "
                                f"`{line.text.split('//')[0].strip()}`: {exercise.cuda.told}")
    exactly = "to the byte what is asked" if loaded == most else f"less than the {most:,} that are asked"
    return Verdict("right", f"{exercise.right} Counted {example(arrays)}: {loaded:,} bytes loaded, {exactly}; "
                            f"{counts[0].sectors_per_request:.1f} sectors a request, {counts[0].bank_conflicts} bank "
                            "conflicts.")


def _launched(exercise, call_it, arrays, device=None):
    """The output, as a float64 NumPy array, after a launch on copies of the arrays: NumPy's, or those of a device."""
    copies = {name: _copy(value, device) for name, value in arrays.items()}
    try:
        call_it(*call(exercise.cuda.launch, copies))
    except CudaError as problem:
        raise Form(f"{problem} This was {example(arrays)}.") from None
    result = copies[exercise.out]
    return (result.get() if hasattr(result, "get") else result).astype(np.float64)


def _copy(value, device):
    if not isinstance(value, np.ndarray):
        return value
    dtype = np.float32 if value.dtype.kind == "f" else value.dtype
    return (device.xp if device else np).array(value, dtype=dtype)
