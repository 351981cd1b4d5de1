"""Is the count right? Two referees that count by execution instead of by formula.

`count` runs a loop nest on a tiny shape: each number counts the arithmetic done with it, each array notes which of its
elements are touched. `passes` runs NumPy code on an instrumented array: each library call is one pass over memory and
is written down with the bytes it reads and writes.
"""

import math
import operator
from dataclasses import dataclass, field

from .traced import Traced
from .units import itemsize, quantity
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

    def __bool__(self):
        return bool(self.value)

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
for _name in ("lt", "gt", "le", "ge", "eq", "ne"):
    _comparison(_name)


class _Grid:
    """An array of counted numbers that notes each load and each store."""

    def __init__(self, shape, tally):
        self.shape, self._tally, self._values = shape, tally, {}
        self.loads = self.stores = 0
        self.fetched, self.stored = set(), set()

    def __len__(self):
        return self.shape[0]

    def __iter__(self):
        if len(self.shape) > 1:
            raise TypeError("a counted array has no rows of its own: index each element, A[i, j].")
        return (self[i] for i in range(len(self)))

    def _place(self, index):
        index = index if isinstance(index, tuple) else (index,)
        if not all(isinstance(i, int) and not isinstance(i, bool) for i in index):
            raise IndexError(f"[{', '.join(map(str, index))}] is no element: index with whole numbers.")
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
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if not sizes:
        raise ValueError("a shape needs at least one size: give A=(2, 3), or a=5 for a vector.")
    return tuple(quantity("size", size, 1, whole=True) for size in sizes)


def _total(flops, steps, rewritten, launches, dtype, name):
    read, written = (sum(step[i] for step in steps) for i in (2, 3))
    return Work(flops, read + written, written=written, rewritten=rewritten, launches=launches, dtype=dtype, name=name)


# ---- NumPy code, pass by pass ------------------------------------------------------------------------------------

def passes(function, *arrays):
    """FLOPs and bytes of NumPy code, library call by library call, counted while it runs on `arrays`.

    FLOPs:   one an element for each elementwise call and each reduction, 2 m n k for a product; no FLOP for a copy
    Bytes:   a call reads each of its arrays once and writes its result once; views and slices move nothing
    Errors:  TypeError for a call that is not counted (np.var makes several passes): write it out
    """
    log = []
    dtype = next((str(array.dtype) for array in arrays if hasattr(array, "strides")), "float32")
    itemsize(dtype)
    function(*(Traced(array, log) if hasattr(array, "strides") else array for array in arrays))
    work = _total(sum(step[1] for step in log), log, sum(step[4] for step in log), len(log), dtype,
                  getattr(function, "__name__", "code"))
    return Count(work, tuple(step[:4] for step in log))
