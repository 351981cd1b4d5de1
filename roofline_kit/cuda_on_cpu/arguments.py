"""Do the arguments of a call fit the kernel? On a GPU a wrong one gives silent garbage, so here it is refused."""

import math
from dataclasses import dataclass

import numpy as np

from .errors import CudaError

C_NAMES = {"f2": "__half", "b2": "__nv_bfloat16", "f4": "float", "f8": "double", "?1": "bool",
           "i1": "signed char", "i2": "short", "i4": "int", "i8": "long long",
           "u1": "unsigned char", "u2": "unsigned short", "u4": "unsigned", "u8": "unsigned long long"}
DTYPES = {"f2": "float16", "b2": "bfloat16", "f4": "float32", "f8": "float64", "?1": "bool_",
          "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64",
          "u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64"}
MOST_THREADS, MOST_DEPTH = 1024, 64          # of a block: CUDA C++ Programming Guide, table of compute capabilities
MOST_BLOCKS = (2**31 - 1, 65535, 65535)      # of a grid: the same table
MOST_SHARED = 227 * 1024                     # B of dynamic shared memory a block, sm_90 and sm_100: the same table


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel, from the signature that its program prints: "*f4" is float*, "&f4" const float*."""

    name: str
    code: str

    @property
    def pointer(self):
        return self.code[0] in "*&"

    @property
    def writable(self):
        return self.code[0] == "*"

    @property
    def element(self):
        """The code of what it holds or points to, without the length of a vector."""
        return self.code.lstrip("*&").split("x")[0]

    @property
    def struct(self):
        """Bytes of the struct that it holds or points to, 0 if it is none."""
        return int(self.element[1:]) if self.element[0] == "V" else 0

    @property
    def length(self):
        """Numbers in one element: 4 for float4."""
        return int(self.code.partition("x")[2] or 1)

    @property
    def spelled(self):
        """As C++ spells it, near enough."""
        name = f"a struct of {self.struct} B" if self.struct else C_NAMES.get(self.element, self.element)
        const = "const " if self.code[0] == "&" else ""
        return f"{const}{name}{self.length if self.length > 1 else ''}{'*' if self.pointer else ''}"

    def takes(self, dtype):
        """Whether numbers of that dtype are what it holds or points to."""
        if self.element == "void" or self.struct and self.pointer:
            return True                                      # what a struct of the kernel's own holds cannot be told
        return dtype.itemsize == self.struct if self.struct else dtype == _dtype(self.element)


def _dtype(code):
    if code == "b2":
        import ml_dtypes
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(DTYPES[code])


def checked(kernel, parameters, args):
    """The arguments as NumPy arrays, zero-dimensional for scalars.

    Errors:  CudaError for the first that a kernel with those parameters cannot take
    """
    if not isinstance(args, (tuple, list)):
        raise CudaError(f"kernel {kernel} gets its arguments as a tuple, but the call gives a {type(args).__name__}: "
                        "write (x,) for one, () for none.")
    if len(args) != len(parameters):
        names = ", ".join(f"{parameter.spelled} {parameter.name}" for parameter in parameters)
        raise CudaError(f"kernel {kernel} takes {len(parameters)} arguments ({names}), but the call has {len(args)}: "
                        "give one for each.")
    arrays = [_pointed(kernel, index, *pair) if pair[0].pointer else _scalar(kernel, index, *pair)
              for index, pair in enumerate(zip(parameters, args, strict=True), start=1)]
    _refuse_overlap(kernel, [(parameter.name, array) for parameter, array in zip(parameters, arrays, strict=True)
                             if parameter.pointer and array.nbytes])
    return arrays


def _refuse_overlap(kernel, named):
    """The same array twice is one array in the program, too; a part of one cannot be."""
    for index, (name, array) in enumerate(named):
        for other, earlier in named[:index]:
            same = (array.ctypes.data, array.nbytes) == (earlier.ctypes.data, earlier.nbytes)
            if not same and np.may_share_memory(array, earlier):
                raise CudaError(f"arguments {other} and {name} of kernel {kernel} overlap in part: pass a copy of one.")


def _complain(kernel, index, parameter, problem):
    raise CudaError(f"argument {index} of kernel {kernel}, {parameter.spelled} {parameter.name}, {problem}.")


def _pointed(kernel, index, parameter, array):
    def complain(problem):
        _complain(kernel, index, parameter, problem)

    if parameter.element == "pointer":
        complain("is a pointer to pointers, which no array of numbers can hold: pass one array, and offsets into it")
    if not isinstance(array, np.ndarray):
        complain(f"is a pointer, but the call gives a {type(array).__name__}: give a NumPy array")
    if not parameter.takes(array.dtype):
        wanted = DTYPES.get(parameter.element, parameter.element)
        complain(f"points to {wanted}, but the array holds {array.dtype}: make it with dtype {wanted}")
    if not array.flags.c_contiguous:
        complain("needs an array without gaps, in C order: pass np.ascontiguousarray(...), and copy back the result")
    if parameter.writable and not array.flags.writeable:
        complain("may be written through, but the array is read-only: declare the parameter const, or pass a copy")
    at_once = parameter.struct or parameter.length * array.itemsize
    if array.nbytes % at_once:
        complain(f"takes {at_once} bytes at a time, but the array has {array.nbytes}: pad it to a multiple")
    if array.dtype.hasobject:
        complain("cannot hold Python objects: give an array of numbers")
    return array


def _scalar(kernel, index, parameter, value):
    wanted = DTYPES.get(parameter.element)
    if parameter.struct or parameter.length > 1:
        return _together(kernel, index, parameter, value)
    if isinstance(value, (np.generic, np.ndarray)) and np.ndim(value) == 0:
        if parameter.takes(value.dtype):
            return np.asarray(value)
        _complain(kernel, index, parameter, f"is not a {value.dtype}: write np.{wanted}({value})")
    if isinstance(value, (bool, int, float)):
        bits = "a bool" if isinstance(value, bool) else "64 bits"
        _complain(kernel, index, parameter, f"gets a Python {type(value).__name__}, which a GPU takes as {bits}: write "
                  f"{'ml_dtypes' if wanted == 'bfloat16' else 'np'}.{wanted}({value})")
    _complain(kernel, index, parameter, f"is one number, but the call gives a {type(value).__name__}: write "
              f"np.{wanted}(...)")


def _together(kernel, index, parameter, value):
    """A vector or a struct by value: an array of its numbers, or one value of a structured dtype of its size."""
    nbytes = parameter.struct or parameter.length * _dtype(parameter.element).itemsize
    if isinstance(value, (np.generic, np.ndarray)) and value.nbytes == nbytes and not value.dtype.hasobject and (
            value.dtype.names or not parameter.struct and parameter.takes(value.dtype)):
        return np.ascontiguousarray(value)
    wanted = "np.array((...), dtype=[(name, type), ...]) of that size, align=True" if parameter.struct else (
        f"np.array([{', '.join(['...'] * parameter.length)}], '{DTYPES[parameter.element]}')")
    _complain(kernel, index, parameter, f"is passed by value, but the call gives {_kind(value)}: write {wanted}")


def _kind(value):
    if isinstance(value, (np.generic, np.ndarray)):
        return f"{np.size(value)} x {value.dtype}, {value.nbytes} B"
    return f"a {type(value).__name__}"


def sizes(kernel, grid, block, shared_mem):
    """(grid, block) with three whole numbers each.

    Errors:  CudaError for a size that no GPU can launch
    """
    grid, block = _three("grid", grid), _three("block", block)
    threads = math.prod(block)
    if threads > MOST_THREADS or block[2] > MOST_DEPTH:
        raise CudaError(f"a block has at most {MOST_THREADS} threads, {MOST_DEPTH} of them deep, but {kernel} is "
                        f"launched with {_times(block)} = {threads}: launch smaller blocks, and more of them.")
    if any(size > most for size, most in zip(grid, MOST_BLOCKS, strict=True)):
        raise CudaError(f"a grid has at most {_times(MOST_BLOCKS)} blocks, but {kernel} is launched with "
                        f"{_times(grid)}: use x for the largest size.")
    if not isinstance(shared_mem, (int, np.integer)):
        raise CudaError(f"shared_mem is a whole number of bytes, but {kernel} is launched with {shared_mem!r}: write "
                        "int(...), or 0 for none.")
    if not 0 <= shared_mem <= MOST_SHARED:
        raise CudaError(f"a block has at most {MOST_SHARED} bytes (227 KiB, on the newest chips) of dynamic shared "
                        f"memory, but {kernel} is launched with {shared_mem}: use smaller tiles.")
    return grid, block


def _times(sizes):
    return " x ".join(map(str, sizes))


def _three(what, given):
    sizes = tuple(given) if isinstance(given, (tuple, list)) or np.ndim(given) == 1 else (given,)
    if not 1 <= len(sizes) <= 3 or not all(hasattr(size, "__index__") and size >= 1 for size in sizes):
        raise CudaError(f"a {what} is one to three whole numbers of at least 1, but the call gives {given}: write "
                        f"({'blocks' if what == 'grid' else 'threads'},).")
    return tuple(int(size) for size in sizes) + (1,) * (3 - len(sizes))
