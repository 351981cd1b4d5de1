"""How long do the slowest of ten thousand calls take? Each call is timed by itself: a median would hide them."""

import math
import time
from dataclasses import dataclass, replace
from functools import cached_property

from .device import device as this_device
from .doubts import FOREIGN, MeasureError, refuse, refuse_result
from .host import foreign_load, load_mark
from .plot import _axes, _colors
from .timing import quantile
from .units import quantity, si

WARM_UPS = 100            # calls before the first that counts: compiled, fetched, predicted
WARM = 5.0                # time after which there are no more of them [s]
MOST = 10**7              # calls: their times take a third of a GB
PATIENCE = 300.0          # time that all calls together may take [s]
TICK = 1e-9               # a clock that goes on in steps may see no time at all, which no logarithm has [s]
BINS = 160                # of a histogram
ROW = 2.6                 # ratio of the heights of two lines above a histogram
SHOWN = (("p50", "o", "\u25cf", 0.5), ("p99", "s", "\u25a0", 0.99), ("p99.9", "D", "\u25c6", 0.999),
         ("longest", "X", "\u2716", 1.0))
LINES = "-", "--", "-.", ":"


@dataclass(frozen=True, repr=False)
class Latencies:
    """The times of single calls.

    seconds:   of each call, in the order in which they were made [s]
    device:    name of the device
    warnings:  sentences, empty when nothing was wrong
    """

    name: str
    seconds: tuple
    device: str = ""
    warnings: tuple = ()

    def at(self, share):
        """The time that this share of the calls did not exceed, 0.99 of them for p99 [s]."""
        if not 0 <= quantity("share", share) <= 1:
            raise ValueError(f"share is {share!r}, but it must be a number from 0 to 1: 0.99 for p99.")
        return quantile(self._ordered, share)

    @cached_property
    def _ordered(self):
        return sorted(self.seconds)

    @property
    def p50(self):
        """The median [s]."""
        return self.at(0.5)

    @property
    def p99(self):
        """One call of a hundred took longer [s]."""
        return self.at(0.99)

    @property
    def p999(self):
        """One call of a thousand took longer [s]."""
        return self.at(0.999)

    @property
    def longest(self):
        """[s]"""
        return self._ordered[-1]

    def __repr__(self):
        told = ", ".join(f"{name} {si(self.at(share), 's')}" for name, *_, share in SHOWN)
        head = f"{self.name}: " if self.name else ""
        return "\n".join([f"{head}{len(self.seconds):,} calls, {told}", *(f"  ! {text}" for text in self.warnings)])


def latencies(call, count=10_000, name="", before=None, device=None):
    """`Latencies` of that many calls, each timed by itself, with the wait for its result.

    A time holds one reading of the clock, a few tens of ns. Nothing is kept quiet: garbage collection, other programs,
    interrupts are what the long ones are made of.
    count:   how many, as far as they take no longer than five minutes together
    before:  a function that is called before each of them, outside of the timed window
    Errors:  MeasureError, one sentence
    """
    device = this_device(device)
    _refuse(refuse, call, None, False, None, 1.0)
    if before is not None and not callable(before):
        raise MeasureError(f"before is {before!r:.60}, but it must be a function, to be called before each call.")
    try:
        count = quantity("count", count, least=1, whole=True)
    except ValueError as wrong:
        raise MeasureError(str(wrong)) from None
    if count > MOST:
        raise MeasureError(f"count is {count:,}, but there is room for {MOST:,} calls at most.")
    each = _warm_up(call, min(WARM_UPS, count), before, device.wait)
    if count * each > PATIENCE:
        raise MeasureError(f"{count:,} calls, one in {si(each, 's')}, would take longer than {PATIENCE:g} s: ask for "
                           f"fewer, count={max(1, int(PATIENCE / each / 2))}.")
    mark = load_mark()
    if device.kind == "cpu" and not before:                  # a call of NumPy's or Numba's that returns is done
        seconds = _in_a_loop(call, count)
    else:
        seconds = _apart(call, count, before or _nothing, device.wait)
    return Latencies(name, tuple(seconds), device.name, tuple(_doubts(foreign_load(mark))))


def _refuse(check, *given):
    """The sentences of measure, in this function's name."""
    try:
        check(*given)
    except MeasureError as wrong:
        raise MeasureError(str(wrong).replace("measure", "latencies")) from None


def _warm_up(call, count, before, wait):
    """So many calls that do not count; the shortest time of one, with what comes before it [s]."""
    clock, shortest = time.perf_counter, math.inf
    begun = clock()
    for done in range(count):
        start = clock()
        if before and _computed_nothing(before()):
            raise MeasureError("before returned a function or a generator, so it has done nothing: write before=f, "
                               "not before=lambda: f.")
        _refuse(refuse_result, call())
        wait()
        shortest = min(shortest, clock() - start)
        if done and clock() - begun > WARM:                  # the first call may have been compiled meanwhile
            break
    return shortest


def _computed_nothing(result):
    try:
        refuse_result(result)
    except MeasureError:
        return True
    return False


def _nothing():
    """In place of `before`."""


def _in_a_loop(call, count):
    """As short a loop as Python has."""
    clock, seconds = time.perf_counter, [0.0] * count        # room at once, so that nothing grows meanwhile
    for i in range(count):
        start = clock()
        call()
        seconds[i] = clock() - start
    return seconds


def _apart(call, count, before, wait):
    clock, seconds = time.perf_counter, [0.0] * count
    for i in range(count):
        before()
        wait()
        start = clock()
        call()
        wait()
        seconds[i] = clock() - start
    return seconds


def _doubts(foreign):
    if foreign is not None and foreign > FOREIGN:
        yield f"other processes used {100 * foreign:.0f} % of the machine: they are part of these times."


def plot_latencies(*several, ax=None):
    """A histogram of each, on logarithmic axes; above it a line from its median to its longest call.

    several:  `Latencies`
    Returns:  the Matplotlib Axes
    """
    import numpy as np

    if not several or not all(isinstance(one, Latencies) and one.seconds for one in several):
        raise ValueError("a histogram needs what rk.latencies returns, one or several: "
                         "rk.plot_latencies(rk.latencies(call)), and plot_latencies(*found) for a list of them.")
    if ax is not None and not hasattr(ax, "stairs"):
        raise ValueError(f"ax is {ax!r:.60}, but it must be Matplotlib Axes: leave it out for new ones.")
    ax = _axes(ax, ("time of a call [s]", "s"), ("calls", None))
    several = [replace(one, seconds=tuple(max(TICK, each) for each in one.seconds)) for one in several]
    low, high = min(one.at(0) for one in several), max(one.longest for one in several)
    edges = np.geomspace(low / 1.1, high * 1.1, BINS + 1)
    colors = _colors() * (len(several) // 10 + 1)
    heights = [np.histogram(one.seconds, edges)[0] for one in several]
    top = max(int(height.max()) for height in heights)
    for place, (one, height, color) in enumerate(zip(several, heights, colors)):
        ax.stairs(np.maximum(height, 0.5), edges, color=color, linestyle=LINES[place % 4], linewidth=1.4)
        level = top * ROW ** (len(several) - place)
        ax.plot([one.p50, one.longest], [level, level], LINES[place % 4], color=color, linewidth=1)
        for _, marker, _, share in SHOWN:
            ax.plot([one.at(share)], [level], marker, color=color, markersize=6)
        ax.annotate(one.name, (one.p50, level), (-8, 0), textcoords="offset points", ha="right", va="center",
                    color=color)
    key = "   ".join(f"{sign} {label}" for label, _, sign, _ in SHOWN)
    ax.annotate(key, (1, 1), (0, 2), xycoords="axes fraction", textcoords="offset points", ha="right", fontsize=8)
    ax.set(xlim=(edges[0] / 6, 1.3 * edges[-1]), ylim=(0.7, top * ROW ** (len(several) + 0.8)),
           yticks=[10**power for power in range(len(str(top)))])
    ax.minorticks_off()
    return ax
