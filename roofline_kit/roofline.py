"""How fast can this machine do it, at best? The roofline: a bound on time from work and a few rates."""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from .units import itemsize, quantity, si
from .work import UNITS, Work

ABOVE = 1.05         # the roof's time / the measured one, above which something is wrong
NOISY = 0.25         # IQR / median of the samples, above which a measured time proves nothing


class Times(NamedTuple):
    """The three times that compete for one operation [s]."""

    memory: float
    compute: float
    latency: float

    def __repr__(self):
        return ", ".join(f"{name} {si(seconds, 's')}" for name, seconds in zip(self._fields, self))


@dataclass(frozen=True)
class Roofline:
    """The rates of one machine for one dtype.

    peak:            of the matrix unit: Tensor Cores; on a CPU the best library GEMM [FLOP/s]
    bandwidth:       main memory, at its best mix of reads and writes [B/s]
    vector_peak:     of the vector unit [FLOP/s]; None where it is not known: the (higher) peak then bounds it too
    overhead:        fixed cost of a launch or a library call [s]
    clocks:          ((clock, once, launch, host), ..): what runs timed by a GPU's clock hold besides [s]: once a call;
                     for each launch, on the GPU; for each launch, on the host, which works on the side
    origin:          "datasheet", "measured", "recorded" or "by hand"
    mixes:           ((share written, bandwidth [B/s], label), ..): bandwidth by what share of the traffic is stores
    levels:          ((capacity [B], bandwidth [B/s]), ..): the caches, smallest first
    write_allocate:  a store to a line that is not in cache reads that line first (CPUs do)
    link:            bandwidth between devices [B/s]
    Source:          Williams, Waterman, Patterson, "Roofline", CACM 2009
    """

    peak: float
    bandwidth: float
    vector_peak: float | None = None
    overhead: float = 0.0
    name: str = ""
    dtype: str = "float32"
    origin: str = "by hand"
    mixes: tuple = ()
    levels: tuple = ()
    write_allocate: bool = False
    link: float | None = None
    note: str = ""
    clocks: tuple = ()

    def __post_init__(self):
        itemsize(self.dtype)
        for field in ("peak", "bandwidth", "vector_peak", "overhead", "link"):
            value = getattr(self, field)
            if value is not None or field not in ("vector_peak", "link"):
                quantity(field, value)
            if value == 0 and field != "overhead":
                raise ValueError(f"{field} is 0, but a machine without it bounds nothing: give its rate.")

    @property
    def ridge(self):
        """Ridge point [FLOP/B]: the intensity at which memory and the matrix unit take equally long."""
        return self.peak / self.bandwidth

    def rate(self, unit="matrix"):
        """Peak of a unit [FLOP/s]."""
        if unit not in UNITS:
            raise ValueError(f"unit is {unit!r}, but it must be 'matrix' or 'vector'.")
        return self.vector_peak if unit == "vector" and self.vector_peak else self.peak

    def attainable(self, intensity, unit="matrix"):
        """min(peak, bandwidth x intensity) [FLOP/s]."""
        return min(self.rate(unit), self.bandwidth * quantity("intensity", intensity))

    def traffic(self, work):
        """Bytes that cross the memory bus [B]: what `work` counts, and the lines that its stores read first."""
        return work.nbytes + (work.written - work.rewritten if self.write_allocate else 0)

    def level_of(self, work):
        """Bandwidth of the smallest cache that holds all the data [B/s], or None.

        The data are taken to be the bytes moved, those rewritten in place once: exact for one call, too many for a sum
        of calls on the same arrays.
        """
        return next((rate for capacity, rate in self.levels if work.nbytes - work.rewritten <= capacity), None)

    def bandwidth_for(self, work):
        """Bandwidth of main memory for this mix of reads and writes [B/s]."""
        if not self.mixes or not work.nbytes:
            return self.bandwidth
        share = work.written / self.traffic(work)
        points = sorted(mix[:2] for mix in self.mixes)
        for (low, slow), (high, fast) in pairwise(points):
            if low <= share <= high:                         # between two measured mixes the time per byte is linear
                part = (share - low) / (high - low)
                return 1 / ((1 - part) / slow + part / fast)
        return points[0][1] if share < points[0][0] else points[-1][1]

    def times(self, work, cold=True, clock=None):
        """The three times of `work` here: traffic / bandwidth, FLOPs / peak of its unit, launches x overhead [s].

        cold:    the data come from main memory; otherwise from the smallest cache that holds them, where a store
                 finds its line
        clock:   of the Run to compare with: each clock of a GPU holds another part of a launch's cost
        """
        level = None if cold else self.level_of(work)
        memory = work.nbytes / level if level else self.traffic(work) / self.bandwidth_for(work)
        return Times(memory, max(work.on(unit) / self.rate(unit) for unit in UNITS), max(self._launching(work, clock)))

    def seconds(self, work, cold=True, clock=None):
        """Predicted time [s]: max(memory, compute) + latency. Memory and arithmetic overlap, launches do not.

        By a GPU's clocks, the host's launching overlaps with all of it: it counts where it takes longer.
        """
        memory, compute, _ = self.times(work, cold)
        here, host = self._launching(work, clock)
        return max(max(memory, compute) + here, host)

    def _launching(self, work, clock):
        """What the launches add on the device, and how long the host needs for them meanwhile [s]."""
        costs = {name: rest for name, *rest in self.clocks}.get(clock, (0.0, self.overhead, 0.0))
        once, launch, host = costs
        return once + work.launches * launch, work.launches * host

    def slowest(self):
        """Bandwidth as counted, in the least favourable of three mixes: read; read and write anew; in place [B/s]."""
        works = Work(0, 6), Work(0, 6, written=2), Work(0, 6, written=3, rewritten=3)
        return min(work.nbytes / self.times(work).memory for work in works)

    def bound(self, work, margin=0.0, cold=True, clock=None):
        """The largest of the three times by name: 'memory', 'compute' or 'latency'.

        margin: a runner-up within this share makes it 'balanced'. The bound derived from exact counts and rates is
                sharp (0); a verdict on measured ones uses 0.2, since they are no better known than that.
        """
        times = self.times(work, cold, clock)
        first, second = sorted(times, reverse=True)[:2]
        if margin and second >= (1 - margin) * first:
            return "balanced"
        return Times._fields[times.index(first)]

    def __repr__(self):
        vector = f", vector {si(self.vector_peak, 'FLOP/s')}" if self.vector_peak else ""
        overhead = f", {si(self.overhead, 's')} a call" if self.overhead else ""
        note = f"; {self.note}" if self.note else ""
        return (f"{self.name or 'roofline'}, {self.dtype} ({self.origin}): {si(self.peak, 'FLOP/s')}{vector}, "
                f"{si(self.bandwidth, 'B/s')}, ridge {si(self.ridge, 'FLOP/B')}{overhead}{note}")
