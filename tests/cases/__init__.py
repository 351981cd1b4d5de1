"""What must each kernel compute? Its inputs at some shapes and a float64 reference, for every way of running it."""

import importlib
from dataclasses import dataclass

import numpy as np

from roofline_kit.kernels import FAMILIES

TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "float16": 5e-3, "bfloat16": 2e-2, "int8": 1e-5, "int4": 1e-5}


@dataclass(frozen=True)
class Case:
    """One kernel at one shape.

    kernel:     its name, as for `device.kernel`
    shape:      what `arrays` is called with
    arrays:     a function (rng, *shape) that gives the kernel's arguments in order, outputs filled with NaN
    reference:  a function of the same arguments, floats in float64, that gives what the output must hold
    dtype:      of what is computed with; decides the tolerance
    out:        which argument is written; None where the result is returned
    """

    kernel: str
    shape: tuple
    arrays: object
    reference: object
    dtype: str = "float32"
    out: int | None = -1

    def __str__(self):
        return f"{self.kernel}-{self.dtype}-{'x'.join(map(str, self.shape))}"

    def error(self, run):
        """How far run(*arguments) is from the reference: the largest difference over the largest number."""
        arguments = self.arrays(np.random.default_rng(7), *self.shape)
        expected = np.asarray(self.reference(*map(exact, arguments)), "float64")
        returned = run(*arguments)
        found = exact(returned if self.out is None else arguments[self.out])
        assert np.shape(found) == expected.shape
        return float(np.max(np.abs(found - expected)) / np.max(np.abs(expected)))


def exact(value):
    """The same numbers in float64; what is not a float array stays."""
    floats = isinstance(value, np.ndarray) and value.dtype.kind not in "iu"
    return value.astype("float64") if floats else value


def cases():
    """Every case of every family."""
    return [case for family in FAMILIES for case in importlib.import_module(f"cases.{family}").CASES]
