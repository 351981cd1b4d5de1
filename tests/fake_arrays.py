"""A stand-in for CuPy's arrays: NumPy's numbers, which the host sees only by asking for them."""

import weakref

import numpy as np

OPERATORS = ("add", "radd", "iadd", "sub", "rsub", "mul", "rmul", "truediv", "rshift", "matmul", "neg", "abs", "eq",
             "ne", "lt", "gt", "getitem", "setitem")


class OutOfMemoryError(MemoryError):
    pass


class Data:
    """Where an array lies."""

    def __init__(self, array):
        self.ptr = array.ctypes.data


class Array:
    """Numbers on the GPU. It can what NumPy's arrays can, but only `.get()` leads to the host."""

    def __init__(self, gpu, numbers):
        self._gpu, self._numbers = gpu, numbers
        if numbers.base is None:
            gpu.take(numbers.nbytes)
            weakref.finalize(self, gpu.take, -numbers.nbytes)

    def __array__(self, *args, **kwargs):
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`.")

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._numbers, name)
        return lifted(self._gpu, found) if callable(found) else wrapped(self._gpu, found)

    @property
    def data(self):
        return Data(self._numbers)

    @property
    def __cuda_array_interface__(self):
        return self._numbers.__array_interface__

    def get(self):
        self._gpu.wait()
        return self._numbers.copy()

    def __float__(self):
        return float(self.get())

    def __bool__(self):
        return bool(self.get())

    def __len__(self):
        return len(self._numbers)

    __hash__ = None


def _operator(name):
    def method(self, *others):
        found = lifted(self._gpu, getattr(self._numbers, name))(*others)
        return self if name.startswith("__i") else found
    return method


for _name in OPERATORS:
    setattr(Array, f"__{_name}__", _operator(f"__{_name}__"))


def bare(value):
    """The NumPy array in an Array; anything else as it is."""
    return value._numbers if isinstance(value, Array) else value


def wrapped(gpu, value):
    """NumPy's arrays and numbers as the GPU's arrays; anything else as it is."""
    if isinstance(value, (np.ndarray, np.generic)):
        return Array(gpu, np.asarray(value))
    return value


def lifted(gpu, function):
    """A function of NumPy on the GPU's arrays: a launch. It is done at once, after all that was given before."""
    def call(*args, **kwargs):
        def work():
            return function(*map(bare, args), **{name: bare(value) for name, value in kwargs.items()})

        gpu.run(gpu.cost(function.__name__, args), work if gpu.capturing is not None else None)
        if gpu.capturing is not None:
            return None                                      # it happens when the graph is launched
        gpu.settle()
        return wrapped(gpu, work())
    return call
