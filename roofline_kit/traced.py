"""What does a NumPy call move? An array that writes down each call made with it, for `referee.passes`."""

import math
import operator

from .units import nearest

_VIEWS = {"reshape", "transpose", "squeeze", "ravel", "swapaxes", "broadcast_to", "expand_dims"}      # or a copy
_REDUCTIONS = {"sum", "prod", "max", "min", "mean"}         # one FLOP an element; a mean divides each result once
_MOVES = {"copy", "positive", "astype", "concatenate", "stack", "take"}       # move bytes, compute nothing
_OTHERS = {"where", "clip", "dot"}
_KNOWN = _VIEWS | _REDUCTIONS | _MOVES | _OTHERS
_OPERATORS = {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "pow": "power",
              "matmul": "matmul", "neg": "negative", "gt": "greater", "lt": "less", "ge": "greater_equal",
              "le": "less_equal", "eq": "equal", "ne": "not_equal"}


class Traced:
    """An array that writes down each NumPy call made with it, and the bytes that the call reads and writes."""

    __hash__ = None

    def __init__(self, array, log):
        self._array, self._log = array, log

    shape, dtype, size, ndim = (property(lambda self, name=name: getattr(self._array, name))
                                for name in ("shape", "dtype", "size", "ndim"))
    T = property(lambda self: Traced(self._array.T, self._log))

    def __bool__(self):
        return bool(self._array)                            # a branch or a loop on one number goes the true way

    def __getitem__(self, index):
        return self._view("take", self._array[_bare(index)], index)          # a slice moves nothing until it is used

    def __setitem__(self, index, value):
        index = _bare(index)
        place, value = self._array[index], _bare(value)
        if getattr(value, "ndim", 0) and _start(value) == _start(place):
            return                                          # x[1:] += 1 stores in place, and then x[1:] = itself
        self._array[index] = value
        self._note("store", 0, (value,), place)

    def __array__(self, *args, **kwargs):
        raise TypeError("this call reads the traced array unseen: use NumPy's elementwise functions and reductions.")

    def __getattr__(self, name):
        if name not in _KNOWN:
            raise AttributeError(nearest(name, _KNOWN, "method of a traced array"))
        return lambda *args, **kwargs: self._record(name, getattr(self._array, name), args, kwargs, (self, *args))

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if method not in ("__call__", "reduce"):
            raise TypeError(f"np.{ufunc.__name__}.{method} is not counted: write it with plain calls and reductions.")
        name = ufunc.__name__ + ("" if method == "__call__" else f".{method}")
        return self._record(name, getattr(ufunc, method), inputs, kwargs, inputs)

    def __array_function__(self, function, types, args, kwargs):
        if function.__name__ not in _KNOWN:
            raise TypeError(f"np.{function.__name__} is not counted: write it with elementwise calls, reductions, "
                            "products.")
        return self._record(function.__name__, function, args, kwargs, args)

    def _record(self, name, call, args, kwargs, inputs):
        """Make the call on the bare arrays, write it down, and wrap the result."""
        out = kwargs.pop("out", None)
        if out is not None:
            kwargs["out"] = _bare(out)
        result = call(*_bare(args), **kwargs)
        if name in _VIEWS:
            return self._view(name, result)
        self._note(name, _flops(name, inputs, result), inputs, result)
        if out is not None:
            return out[0] if isinstance(out, tuple) else out
        if isinstance(result, tuple):
            return tuple(Traced(part, self._log) for part in result)
        return Traced(result, self._log)

    def _view(self, name, result, index=()):
        """A view, which moves nothing, or the copy that NumPy had to make of it, by reading the index too."""
        base = self._array if self._array.base is None else self._array.base
        shared = not result.ndim or _start(base) <= _start(result) < _start(base) + max(base.nbytes, 1)
        if not shared:
            read = result.nbytes + sum(map(_held, _arrays(index if isinstance(index, tuple) else (index,))))
            self._log.append((name, 0, read, result.nbytes, 0))
        return Traced(result, self._log)

    def _note(self, name, flops, inputs, result):
        read = {(_start(x), x.shape, x.strides): _held(x) for x in _arrays(inputs)}          # x * x reads x once
        results = list(_arrays(result if isinstance(result, tuple) else (result,)))
        again = sum(min(_held(r), size) for r in results for (start, *_), size in read.items()
                    if r.ndim and start == _start(r))
        self._log.append((name, flops, sum(read.values()), sum(map(_held, results)), again))


def _bare(x):
    if isinstance(x, (tuple, list)):
        return type(x)(map(_bare, x))
    return x._array if isinstance(x, Traced) else x


def _arrays(values):
    """The arrays among values, those inside of lists included, without the traces around them."""
    for value in map(_bare, values):
        if isinstance(value, (tuple, list)):
            yield from _arrays(value)
        elif hasattr(value, "__array_interface__"):
            yield value


def _start(array):
    return array.__array_interface__["data"][0]


def _held(array):
    """Bytes that an array occupies: what is broadcast is there once."""
    return array.itemsize * math.prod(size for size, step in zip(array.shape, array.strides) if step or not size)


def _flops(name, inputs, result):
    results = result if isinstance(result, tuple) else (result,)
    made = sum(getattr(part, "size", 1) for part in results)
    if name in _MOVES or not made:
        return 0
    first = next(_arrays(inputs))
    if name in ("matmul", "dot"):
        return 2 * made * (first.shape[-1] if first.ndim else 1)
    if name in _REDUCTIONS or name.endswith(".reduce"):
        return first.size + (made if name == "mean" else 0)
    return made


def _operator(name, ufunc):
    act = getattr(operator, name)

    def forward(x, *other):
        return x._record(ufunc, act, (x, *other), {}, (x, *other))

    setattr(Traced, f"__{name}__", forward)
    setattr(Traced, f"__r{name}__", lambda x, other: x._record(ufunc, act, (other, x), {}, (other, x)))
    if hasattr(operator, "i" + name):
        in_place = getattr(operator, "i" + name)
        setattr(Traced, f"__i{name}__",
                lambda x, other: (x._record(ufunc, in_place, (x, other), {}, (x, other)), x)[1])


for _name, _ufunc in _OPERATORS.items():
    _operator(_name, _ufunc)
