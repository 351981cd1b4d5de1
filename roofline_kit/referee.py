"""Is the count right? Two referees that count by execution instead of by formula.

`count` runs a loop nest on a tiny shape: each number counts the arithmetic done with it, each array notes which of its
elements are touched. `passes` runs NumPy code on an instrumented array: each library call is one pass over memory and
is written down with the bytes it reads and writes.
"""

import math
import operator
from dataclasses import dataclass, field

from .units import itemsize, nearest, quantity
from .work import Work


@dataclass(frozen=True)
class Count:
    """What was seen when the code ran.

    work:      the totals, a `Work`
    steps:     (name, FLOP, B read, B written) for each array of a loop nest, for each pass of NumPy code
    accesses:  array -> (loads, stores, elements touched), of a loop nest only: loads / elements is the reuse
    """

    work: Work
    steps: tuple
    accesses: dict = field(default_factory=dict)

    flops = property(lambda self: self.work.flops)
    nbytes = property(lambda self: self.work.nbytes)
    intensity = property(lambda self: self.work.intensity)

    def __repr__(self):
        total = ("in all", self.flops, self.nbytes - self.work.written, self.work.written)
        head = f"{'':<24}{'FLOP':>14}{'B read':>16}{'B written':>16}"
        rows = [f"{name:<24}{flops:>14,.0f}{read:>16,.0f}{written:>16,.0f}"
                for name, flops, read, written in (*self.steps, total)]
        return "\n".join([head, *rows])


# ---- A loop nest on a tiny shape ---------------------------------------------------------------------------------

class _Number:
    """A number that counts one FLOP for each operation it takes part in; `x.exp()` and `x.sqrt()` are two of them."""

    def __init__(self, value, tally):
        self.value, self.tally = value, tally

    def _counted(self, value):
        self.tally[0] += 1
        return _Number(value, self.tally)

    def exp(self):
        return self._counted(math.exp(self.value))

    def sqrt(self):
        return self._counted(math.sqrt(self.value))

    def __neg__(self):
        return _Number(-self.value, self.tally)            # a sign costs nothing

    def __float__(self):
        raise TypeError("a counted number has no plain value: use x.exp() and x.sqrt() instead of the math module.")


def _plain(number):
    return number.value if isinstance(number, _Number) else number


def _arithmetic(name):
    act = getattr(operator, name)
    setattr(_Number, f"__{name}__", lambda x, y: x._counted(act(x.value, _plain(y))))
    setattr(_Number, f"__r{name}__", lambda x, y: x._counted(act(_plain(y), x.value)))


def _comparison(name):                                      # max and min compare: one FLOP each time
    act = getattr(operator, name)
    setattr(_Number, f"__{name}__", lambda x, y: bool(x._counted(act(x.value, _plain(y))).value))


for _name in ("add", "sub", "mul", "truediv"):
    _arithmetic(_name)
for _name in ("lt", "gt", "le", "ge"):
    _comparison(_name)


class _Grid:
    """An array of counted numbers that notes each load and each store."""

    def __init__(self, shape, tally):
        self.shape, self._tally, self._values = shape, tally, {}
        self.loads = self.stores = 0
        self.fetched, self.stored = set(), set()

    def __len__(self):
        return self.shape[0]

    def _place(self, index):
        index = index if isinstance(index, tuple) else (index,)
        if len(index) != len(self.shape) or not all(0 <= i < size for i, size in zip(index, self.shape)):
            raise IndexError(f"[{', '.join(map(str, index))}] is outside an array of shape {self.shape}.")
        return index

    def __getitem__(self, index):
        place = self._place(index)
        self.loads += 1
        if place not in self.stored:
            self.fetched.add(place)                          # its first use is a read: it comes from memory
        return _Number(self._values.get(place, 1.0 + 0.01 * sum(place)), self._tally)

    def __setitem__(self, index, number):
        place = self._place(index)
        self.stores += 1
        self.stored.add(place)
        self._values[place] = _plain(number)


def count(loop, dtype="float32", **shapes):
    """FLOPs and touched elements of `loop(A, B, ..)`, run on arrays of the given tiny shapes.

    loop:    a function that indexes its arrays element by element: C[i, j] = total
    shapes:  one for each argument, by name: count(loop, A=(2, 3), B=(3, 4), C=(2, 4))
    FLOPs:   + - * / and comparisons of counted numbers, x.exp() and x.sqrt(), 1 each, the first add of a sum included
    Bytes:   each element once if it is read before it is written, and once if it is written: the compulsory traffic
    """
    tally = [0]
    grids = {name: _Grid(_shape(shape), tally) for name, shape in shapes.items()}
    loop(**grids)
    b = itemsize(dtype)
    steps = tuple((name, 0, b * len(g.fetched), b * len(g.stored)) for name, g in grids.items())
    accesses = {name: (g.loads, g.stores, len(g.fetched | g.stored)) for name, g in grids.items()}
    both = sum(b * len(g.fetched & g.stored) for g in grids.values())
    return Count(_total(tally[0], steps, both, 1, dtype, getattr(loop, "__name__", "loop")), steps, accesses)


def _shape(shape):
    return tuple(quantity("size", size, 1, whole=True) for size in (shape if isinstance(shape, tuple) else (shape,)))


def _total(flops, steps, rewritten, launches, dtype, name):
    read, written = (sum(step[i] for step in steps) for i in (2, 3))
    return Work(flops, read + written, written=written, rewritten=rewritten, launches=launches, dtype=dtype, name=name)


# ---- NumPy code, pass by pass ------------------------------------------------------------------------------------

_VIEWS = {"reshape", "transpose", "squeeze", "ravel", "swapaxes", "broadcast_to", "expand_dims"}     # move nothing
_REDUCTIONS = {"sum", "prod", "max", "min", "mean"}         # one FLOP an element; a mean divides each result once
_MOVES = {"copy", "positive", "astype"}                     # move bytes, compute nothing
_OPERATORS = {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "pow": "power",
              "matmul": "matmul", "neg": "negative", "gt": "greater", "lt": "less", "ge": "greater_equal"}


class _Traced:
    """An array that writes down each NumPy call made with it, and the bytes that the call reads and writes."""

    def __init__(self, array, log):
        self._array, self._log = array, log

    shape, dtype, size, ndim = (property(lambda self, name=name: getattr(self._array, name))
                                for name in ("shape", "dtype", "size", "ndim"))
    T = property(lambda self: _Traced(self._array.T, self._log))

    def __getitem__(self, index):
        return _Traced(self._array[index], self._log)       # a slice is a view: it moves nothing until it is used

    def __setitem__(self, index, value):
        place = self._array[index]
        self._array[index] = _bare(value)
        self._note("store", 0, (value,), place)

    def __array__(self, *args, **kwargs):
        raise TypeError("this call reads the traced array unseen: use NumPy's elementwise functions and reductions.")

    def __getattr__(self, name):
        if name not in _VIEWS | _REDUCTIONS | _MOVES:
            raise AttributeError(nearest(name, _VIEWS | _REDUCTIONS | _MOVES, "method of a traced array"))
        return lambda *args, **kwargs: self._record(name, getattr(self._array, name), args, kwargs, (self, *args))

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        name = ufunc.__name__ + ("" if method == "__call__" else f".{method}")
        return self._record(name, getattr(ufunc, method), inputs, kwargs, inputs)

    def __array_function__(self, function, types, args, kwargs):
        if function.__name__ not in _VIEWS | _REDUCTIONS | _MOVES:
            raise TypeError(f"np.{function.__name__} makes passes of its own: write it out, step by step.")
        return self._record(function.__name__, function, args, kwargs, args)

    def _record(self, name, call, args, kwargs, inputs):
        """Make the call on the bare arrays, write it down, and wrap the result."""
        out = kwargs.pop("out", None)
        if out is not None:
            kwargs["out"] = tuple(map(_bare, out)) if isinstance(out, tuple) else _bare(out)
        result = call(*map(_bare, args), **kwargs)
        if name not in _VIEWS:
            self._note(name, _flops(name, inputs, result), inputs, result)
        if out is not None:
            return out[0] if isinstance(out, tuple) else out
        return _Traced(result, self._log) if hasattr(result, "nbytes") else result

    def _note(self, name, flops, inputs, result):
        seen = {(x._array.__array_interface__["data"][0], x.shape, x._array.strides): x._array.nbytes
                for x in inputs if isinstance(x, _Traced)}   # x * x reads x once
        target = result.__array_interface__["data"][0] if hasattr(result, "shape") else None
        again = result.nbytes if any(key[0] == target for key in seen) else 0
        self._log.append((name, flops, sum(seen.values()), getattr(result, "nbytes", 0), again))


def _bare(x):
    return x._array if isinstance(x, _Traced) else x


def _flops(name, inputs, result):
    size = max(getattr(x, "size", 1) for x in (*inputs, result))
    if name in _MOVES:
        return 0
    if name == "matmul":
        return 2 * getattr(result, "size", 1) * inputs[0].shape[-1]
    return size + (getattr(result, "size", 1) if name == "mean" else 0)


def _operator(name, ufunc):
    act = getattr(operator, name)

    def forward(x, *other):
        return x._record(ufunc, act, (x, *other), {}, (x, *other))

    setattr(_Traced, f"__{name}__", forward)
    setattr(_Traced, f"__r{name}__", lambda x, other: x._record(ufunc, act, (other, x), {}, (other, x)))
    if hasattr(operator, "i" + name):
        in_place = getattr(operator, "i" + name)
        setattr(_Traced, f"__i{name}__",
                lambda x, other: (x._record(ufunc, in_place, (x, other), {}, (x, other)), x)[1])


for _name, _ufunc in _OPERATORS.items():
    _operator(_name, _ufunc)


def passes(function, *arrays):
    """FLOPs and bytes of NumPy code, library call by library call, counted while it runs on `arrays`.

    FLOPs:   one an element for each elementwise call and each reduction, 2 m n k for a product; no FLOP for a copy
    Bytes:   a call reads each of its arrays once and writes its result once; views and slices move nothing
    Errors:  TypeError for a call that makes hidden passes (np.var, np.linalg.norm): write it out
    """
    log = []
    function(*(_Traced(array, log) if hasattr(array, "strides") else array for array in arrays))
    dtype = next((str(array.dtype) for array in arrays if hasattr(array, "strides")), "float32")
    work = _total(sum(step[1] for step in log), log, sum(step[4] for step in log), len(log), dtype,
                  getattr(function, "__name__", "code"))
    return Count(work, tuple(step[:4] for step in log))
