"""How much has to be done? FLOPs, bytes, launches: the same on every machine."""

from dataclasses import dataclass, replace
from itertools import pairwise

from .units import itemsize, quantity, si

UNITS = ("vector", "matrix")


@dataclass(frozen=True)
class Work:
    """What an operation costs before any machine is chosen.

    flops:      arithmetic [FLOP]; a multiply-add is 2
    nbytes:     traffic to and from memory [B], reads and writes together
    written:    of `nbytes`, what is stored [B]
    rewritten:  of `written`, what is stored without a read for it: in place, or past the caches [B]
    launches:   kernels or library calls
    dtype:      of the arithmetic
    unit:       "matrix" (GEMM, convolution, attention products) or "vector" (the rest)
    aside:      of `flops`, what the other unit does: 0 until works of both units are added [FLOP]
    Errors:     ValueError for a negative, NaN or infinite count, an unknown dtype or unit
    """

    flops: float
    nbytes: float
    written: float = 0
    rewritten: float = 0
    launches: int = 1
    dtype: str = "float32"
    unit: str = "vector"
    name: str = ""
    aside: float = 0

    def __post_init__(self):
        itemsize(self.dtype)
        if self.unit not in UNITS:
            raise ValueError(f"unit is {self.unit!r}, but it must be 'matrix' or 'vector'.")
        for field in ("flops", "nbytes", "written", "rewritten", "launches", "aside"):
            quantity(field, getattr(self, field))
        if self.aside > self.flops:
            raise ValueError(f"aside is a part of flops, but {self.aside} is more than {self.flops}.")
        if not self.rewritten <= self.written <= self.nbytes:
            raise ValueError("written must lie between rewritten and nbytes: "
                             f"{self.rewritten} <= {self.written} <= {self.nbytes} does not hold.")

    @property
    def intensity(self):
        """Arithmetic intensity [FLOP/B]: FLOPs over bytes moved."""
        if self.nbytes == 0:
            return float("inf") if self.flops else 0.0
        return self.flops / self.nbytes

    def on(self, unit):
        """FLOPs that this unit does [FLOP]."""
        return self.flops - self.aside if unit == self.unit else self.aside

    def named(self, name):
        """The same work under another name, for tables and figures."""
        return replace(self, name=name)

    def __add__(self, other):
        """One after the other: counts add up, those of each unit by themselves; dtype: of the part with more FLOPs."""
        if not isinstance(other, Work):
            return NotImplemented
        larger = self if self.flops >= other.flops else other
        name = " + ".join(part.name for part in (self, other) if part.name)
        totals = {field: getattr(self, field) + getattr(other, field)
                  for field in ("flops", "nbytes", "written", "rewritten", "launches")}
        by_unit = {unit: self.on(unit) + other.on(unit) for unit in UNITS}
        unit = larger.unit if by_unit["vector"] == by_unit["matrix"] else max(by_unit, key=by_unit.get)
        return replace(larger, name=name, unit=unit, aside=min(by_unit.values()), **totals)

    def __radd__(self, other):
        return self if other == 0 else NotImplemented      # so that sum(works) works

    def __repr__(self):
        label = f"{self.name}: " if self.name else ""
        return f"{label}{si(self.flops, 'FLOP')}, {si(self.nbytes, 'B')}, {si(self.intensity, 'FLOP/B')}"


def fused(first, *rest, name=""):
    """The same chain of operations in one kernel: each result stays on the chip for the next one.

    FLOPs:   those of all parts
    Bytes:   all, less each intermediate twice: it is neither written nor read back
    Assumes: each part reads the result of the part before it exactly once; the chain works in place if its first
             part does
    Errors:  ValueError where a part reads less than the part before it writes
    """
    parts, total = (first, *rest), sum(rest, first)
    if any(after.nbytes - after.written < before.written for before, after in pairwise(parts)):
        raise ValueError("these works do not form a chain: a part reads less than the part before it writes.")
    saved = sum(part.written for part in parts[:-1])
    written = total.written - saved
    return replace(total, nbytes=total.nbytes - 2 * saved, written=written, rewritten=min(first.rewritten, written),
                   launches=1, name=name or total.name)
