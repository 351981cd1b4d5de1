"""What must chains of multiply-adds leave behind, and a kernel that does nothing?"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from . import Case

RATIO = 0.999
SIZES = {"float32": ((1, 5, 7), (2, 40, 33), (8, 100, 300), (16, 17, 1000), (3, 0, 5)),     # chains, steps, n
         "float64": ((4, 50, 77),), "float16": ((8, 20, 301), (16, 3, 40))}


@dataclass(frozen=True)
class Nothing(Case):
    """A kernel that is given nothing and returns nothing."""

    def error(self, run):
        """1 if it returns something."""
        return float(run() is not None)


def chains(dtype, rng, count, steps, n):
    return count, steps, np.full(n, np.nan, dtype)


def sums(count, steps, out):
    """By the closed form: what is missing to 1 shrinks by the ratio in each step."""
    x = np.add.outer(np.arange(count) / (2 * count), np.arange(out.size) % 32 / 128)
    return (1 - (1 - x) * RATIO**steps).sum(0)


CASES = [Nothing("empty", (), lambda rng: (), lambda: None, out=None),
         *(Case("fma", size, partial(chains, dtype), sums, dtype) for dtype, sizes in SIZES.items() for size in sizes)]
