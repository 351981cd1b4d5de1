"""Which arguments may a kernel be given? It looks at nothing but addresses, so a wrong one would cost the process.

A rule a kernel, for the CUDA kernel and for its twin. `fault` puts into words what a rule finds; `twins` compiles the
rules, since words in Python would cost a twin more than its work.
"""

import inspect
import re
from dataclasses import dataclass, field
from functools import cache, cached_property

import numpy as np

SINGLE, REAL = ("float32",), ("float32", "float64")
HALVES = ("float16", "bfloat16")
ROWS = "float32", *HALVES
ALL = *REAL, *HALVES
MATRICES = "a[m, k] b[k, n] out[m, n]"
SEQUENCES = "q[heads, S, d] k[heads, S, d] v[heads, S, d] out[heads, S, d]"
WHOLE, REAL_NUMBER = (int, np.integer), (int, float, np.integer, np.floating, np.bool_)
VECTOR_CHAINS = 1, 2, 3, 4, 6, 8, 10, 12, 16     # of `fma` on a CPU


@dataclass(frozen=True)
class Rule:
    """What a kernel takes.

    arrays:    their names and shapes; a name in a shape is the same number everywhere
    dtypes:    of all arrays but those in `others`: any of these, but the same
    written:   the array that is written; it shares no memory with another, save that it may be one of `in_place`
    others:    array -> the dtypes that it may have by itself
    numbers:   argument -> the types of number that it may be
    on_cpu:    the dtypes that the twin knows, if they are fewer
    flat:      arrays of any number of dimensions are taken as one row of numbers
    """

    arrays: str
    dtypes: tuple = SINGLE
    written: str | None = "out"
    others: dict = field(default_factory=dict)
    in_place: tuple = ()
    numbers: dict = field(default_factory=dict)
    on_cpu: tuple | None = None
    flat: bool = False

    @cached_property
    def shapes(self):
        """Array -> the words of its shape."""
        return {name: shape.split(", ") for name, shape in re.findall(r"(\w+)\[(.*?)\]", self.arrays)}

    @cached_property
    def fits(self):
        """The condition that the shapes agree, in Python: without a branch, so that it costs compiled code little."""
        where, found = {}, []
        for name, shape in self.shapes.items():
            for axis, word in enumerate(shape):
                size = f"{name}.size" if self.flat else f"{name}.shape[{axis}]"
                if where.setdefault(word, size) != size or not word.isidentifier():
                    found.append((size, word))
        equal = (re.sub(r"[A-Za-z_]\w*", lambda found: where[found.group()], word) for _, word in found)
        return " & ".join(f"({size} == {word})" for (size, _), word in zip(found, equal, strict=True)) or "True"

    @cached_property
    def apart(self):
        """The condition that what is written shares no memory with what is read, in Python."""
        return " & ".join(f"{'same_or_apart' if name in self.in_place else 'apart'}({self.written}, {name})"
                            for name in self.shapes if self.written not in (None, name)) or "True"

    def allowed(self, name, on_cpu):
        """The dtypes that this array may have."""
        return self.others.get(name, on_cpu and self.on_cpu or self.dtypes)


def _stream(arrays, written=None, in_place=(), **numbers):
    return Rule(arrays, ALL, written, {}, in_place, numbers, REAL, flat=True)


RULES = {
    "read": _stream("x[n]", repeats=WHOLE),
    "scale": _stream("x[n]", "x", s=REAL_NUMBER),
    "copy": _stream("out[n] x[n]", "out", ("x",)),
    "triad": _stream("out[n] x[n] y[n]", "out", ("x", "y"), s=REAL_NUMBER),
    "write": _stream("out[n]", "out", s=REAL_NUMBER),
    "dot": _stream("x[n] y[n]"),
    "fma": Rule("out[n]", ALL, flat=True),
    "gemm_naive": Rule(MATRICES, ALL, on_cpu=REAL),
    "gemm_tiled": Rule(MATRICES, ALL, on_cpu=REAL, numbers={"tile": WHOLE}),
    "gemm_register_tiled": Rule(MATRICES),
    "gemm_tensor_core": Rule(MATRICES, HALVES, others={"out": SINGLE}),
    **dict.fromkeys(("layernorm", "layernorm_unfused"),
                    Rule("x[rows, width] gain[width] bias[width] out[rows, width]", ROWS, in_place=("x",))),
    **dict.fromkeys(("softmax", "softmax_three_pass", "softmax_unfused"),
                    Rule("x[rows, width] out[rows, width]", ROWS, in_place=("x",))),
    "embedding": Rule("table[tokens, width] ids[count] out[count, width]", ALL, others={"ids": ("int32", "int64")}),
    **dict.fromkeys(("attention", "flash_attention"), Rule(SEQUENCES, ROWS)),
    "mlp": Rule("x[d_in] w1[d_hidden, d_in] b1[d_hidden] w2[d_out, d_hidden] b2[d_out] out[d_out]", in_place=("x",)),
    "gru": Rule("x[d] h[width] w[3 * width, d] u[3 * width, width] b[2, 3 * width] out[width]"),
    "matvec": Rule("w[m, n] x[n] out[m]"),
    "matvec_bfloat16": Rule("w[m, n] x[n] out[m]", others={"w": ("bfloat16",)}),
    "matvec_int8": Rule("w[m, n] scale[m] x[n] out[m]", others={"w": ("int8",)}),
    "matvec_int4": Rule("w[m, (n + 1) // 2] scale[m, (n + 31) // 32] x[n] out[m]",
                        others={"w": ("uint8",), "scale": ("float16",)}),
}


def address(array):
    """Where an array begins in memory."""
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr


def apart(a, b):
    """Whether two arrays share no byte."""
    begin, other = address(a), address(b)
    return (a.nbytes == 0) | (b.nbytes == 0) | (begin + a.nbytes <= other) | (other + b.nbytes <= begin)


def same_or_apart(a, b):
    """The same, but they may also be one array."""
    return (address(a) == address(b)) | apart(a, b)


@cache
def condition(name, which):
    """The condition `fits` or `apart` of that kernel as a function of its arrays."""
    rule = RULES[name]
    return eval(f"lambda {', '.join(rule.shapes)}: {getattr(rule, which)}",
                {"apart": apart, "same_or_apart": same_or_apart})


def checked(name, function, arguments, named, kind):
    """Raise what `fault` finds wrong with a launch, if it finds something."""
    error = fault(name, function, arguments, named, kind, on_cpu=False)
    if error:
        raise error


def fault(name, function, arguments, named, kind=np.ndarray, on_cpu=True):
    """The error that says what is wrong with a call of that kernel, or None.

    function:  what is to be called, as it names its arguments
    kind:      the class of the device's arrays
    on_cpu:    whether it is the twin
    """
    try:
        given = inspect.signature(function).bind(*arguments, **named).arguments
    except TypeError as error:
        words = ", ".join(inspect.signature(function).parameters)
        return TypeError(f"{name} was called with {error}: call it as {name}({words}).")
    if name == "fma":
        return fault_of_fma(*given.values(), kind, on_cpu)
    if name not in RULES:
        return None
    arrays = {word: given[word] for word in RULES[name].shapes}
    return _fault_of_arrays(name, arrays, kind, on_cpu) or _fault_of_numbers(RULES[name].numbers, given)


def _fault_of_arrays(name, arrays, kind, on_cpu):
    rule = RULES[name]
    for word, array in arrays.items():
        if not isinstance(array, kind):
            return TypeError(f"{word} is a {type(array).__name__}, which {name} cannot take: give it an array of the "
                             f"device, dev.xp.asarray({word}).")
    kinds, names = {}, {word: array.dtype.name if array.dtype.isnative else array.dtype.str
                        for word, array in arrays.items()}
    for word, dtype in names.items():
        if word not in rule.others:
            kinds.setdefault(dtype, word)
    if rule.flat and not (len(kinds) == 1 and condition(name, "fits")(*arrays.values())):
        sizes = ", ".join(f"{array.size} x {names[word]}" for word, array in arrays.items())
        return ValueError(f"the arrays are of {sizes}: give arrays of one length and one dtype.")
    if not rule.flat and not (all(array.ndim == len(rule.shapes[word]) for word, array in arrays.items())
                              and condition(name, "fits")(*arrays.values())):
        sizes = ", ".join(f"{word} {array.shape}" for word, array in arrays.items())
        return ValueError(f"{sizes} do not fit: give {name} {rule.arrays.replace('] ', '], ')}.")
    return _fault_of_dtypes(name, rule, names, kinds, on_cpu) or _fault_of_places(name, rule, arrays)


def _fault_of_dtypes(name, rule, names, kinds, on_cpu):
    if len(kinds) < 2 and all(dtype in rule.allowed(word, on_cpu) for word, dtype in names.items()):
        return None
    one = " and ".join(word for word in names if word not in rule.others)
    wanted = [f"{one} in one of {', '.join(rule.allowed('', on_cpu))}"]
    wanted += [f"{word} in {' or '.join(dtypes)}" for word, dtypes in rule.others.items()]
    found = ", ".join(f"{word} is of {dtype}" for word, dtype in names.items())
    return ValueError(f"{found}: give {name}{' on a CPU' if on_cpu else ''} {', '.join(wanted)}.")


def _fault_of_places(name, rule, arrays):
    for word, array in arrays.items():
        if array.ndim == 0:
            return ValueError(f"{word} is an array of no dimensions: give it one, {word}.reshape(1).")
        if not (array.flags.c_contiguous and getattr(array.flags, "aligned", True)):
            return ValueError(f"the elements of {word} do not lie side by side, row by row, in memory: give a copy of "
                              f"it, {word}.copy().")
        if word == rule.written and not getattr(array.flags, "writeable", True):
            return ValueError(f"{word} may only be read, but {name} writes it: give a copy of it, {word}.copy().")
    if not condition(name, "apart")(*arrays.values()):
        return ValueError(f"{rule.written} shares memory with what {name} reads, and would change it too early: give "
                          f"it an array of its own for {rule.written}.")
    return None


def _fault_of_numbers(numbers, given):
    for word, kinds in numbers.items():
        if word in given and not isinstance(given[word], kinds):
            found = f"an object of {type(given[word]).__name__}" if np.ndim(given[word]) else repr(given[word])
            return TypeError(f"{word} is {found}: give a {'whole' if kinds is WHOLE else 'real'} number.")
    return None


def fault_of_fma(chains, steps, place, kind=np.ndarray, on_cpu=True):
    """The same for fma, which takes a number or an array as `place`."""
    error = _fault_of_numbers({"chains": WHOLE, "steps": WHOLE}, {"chains": chains, "steps": steps})
    if error:
        return error
    if chains < 1 or steps < 0:
        return ValueError(f"{chains} chains of {steps} steps are none: give at least 1 chain and 0 steps.")
    if isinstance(place, kind):
        return _fault_of_arrays("fma", {"out": place}, kind, on_cpu)
    if not on_cpu or not isinstance(place, (float, np.float32)):
        return TypeError(f"fma cannot begin with an object of {type(place).__name__}: give an array of the device for "
                         f"the sums, or on a CPU a float such as 0.5 or numpy.float32(0.5).")
    if chains not in VECTOR_CHAINS:
        return ValueError(f"there is no loop over vectors with {chains} chains: choose one of "
                          f"{', '.join(map(str, VECTOR_CHAINS))}.")
    return None
