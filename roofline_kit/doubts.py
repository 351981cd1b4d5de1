"""What makes a measurement impossible, wrong or doubtful? A sentence for each."""

import functools
import inspect
import math
from numbers import Real

import numpy as np

from .roofline import ABOVE, NOISY
from .units import si

FOREIGN = 0.3             # share of the cores; one busy core of two made a triad 1.9 times as slow
INCONCLUSIVE = "treat this as inconclusive"


class MeasureError(RuntimeError):
    """A measurement that cannot be made; a notebook shows the sentence alone."""

    def _render_traceback_(self):
        return [f"{type(self).__name__}: {self}"]


def doubts(run, *, least, aim, limit, roof=None, foreign=None, constant=False, host_bound=False):
    """Whatever makes a run doubtful, a sentence each.

    least:    samples wanted
    aim:      spread wanted
    limit:    time box that the samples had [s]
    foreign:  share of the cores that other processes took
    """
    count = len(run.samples)
    if run.low > limit:
        yield (f"one call takes {si(run.low, 's')}, longer than the time box of {limit:g} s: {INCONCLUSIVE}, "
               "or raise limit=.")
    elif count < least:
        doubt = f"{INCONCLUSIVE}, or " if math.isnan(run.spread) else ""
        yield f"only {count} of at least {least} samples fitted into {limit:g} s: {doubt}raise limit=."
    if run.spread > aim:
        advice = INCONCLUSIVE if run.spread > NOISY else "repeat it on a quiet machine or raise limit="
        shown = f"{100 * run.spread:.{int(run.spread < 0.1)}f}"
        yield (f"noisy: after {limit:g} s the samples still spread over {shown} % of their "
               f"median, not {100 * aim:.0f} %: {advice}.")
    if foreign is not None and foreign > FOREIGN:
        yield f"other processes used {100 * foreign:.0f} % of the machine: {INCONCLUSIVE}."
    if constant:
        yield ("every array that the call names holds one value only: use random data "
               "(rk.device().random(..)), never zeros, because chips are faster on constants.")
    if host_bound:
        yield "host-bound: launching the calls took longer than running them, so this times the host."
    if roof is not None and run.work is not None:
        ratio = roof.seconds(run.work, run.cold, run.clock) / run.seconds
        if ratio > ABOVE:
            yield (f"{100 * (ratio - 1):.0f} % faster than its roof: look for wrong bytes or FLOPs, data "
                   "that stayed in a cache, another dtype, or a result that nobody waited for.")


def refuse(call, work, cold, clock, limit, roof=None):
    """Arguments that make no measurement."""
    if hasattr(call, "shape") or inspect.iscoroutine(call) or inspect.isgenerator(call):
        raise MeasureError("measure wants the call, not its result: "
                           "write measure(lambda: a @ b), not measure(a @ b).")
    if not callable(call):
        raise MeasureError(f"measure wants something to call, not {call!r:.60}: write measure(lambda: f(x)).")
    if roof is not None and not hasattr(roof, "seconds"):
        raise MeasureError(f"roof is {roof!r:.60}, but it must be a Roofline such as rk.sustained().")
    if work is not None and not hasattr(work, "launches"):
        raise MeasureError(f"work is {work!r:.60}, but it must be a Work such as rk.gemm(m, n, k).")
    if not callable(clock) and clock not in (None, "wall", "throughput", "cold", "graph"):
        raise MeasureError(f"there is no clock {clock!r}: choose 'wall', 'throughput', 'cold' or 'graph'.")
    if cold and clock in ("throughput", "graph"):
        raise MeasureError(f"calls back to back are never cold: leave out cold=True or clock={clock!r}.")
    if isinstance(limit, bool) or not isinstance(limit, Real) or not 0 < limit < math.inf:
        raise MeasureError(f"limit is {limit!r}, but it must be a time box in seconds, above 0 and finite.")


def refuse_result(result):
    """A result that shows that nothing has been computed yet."""
    if inspect.isgenerator(result) or inspect.iscoroutine(result) or isinstance(result, (map, zip, filter)):
        kind = type(result).__name__
        raise MeasureError(f"the call returned a {kind}, which has computed nothing: consume it in the call.")
    if inspect.isroutine(result) or isinstance(result, functools.partial):
        raise MeasureError("the call returned a function without calling it: "
                           "write measure(f), not measure(lambda: f).")


def only_constant(call):
    """Whether the call names arrays and each of them holds one value only, judged by a thousand elements."""
    found = []
    for value in _named(call):
        parts = value if isinstance(value, (list, tuple)) else [value]
        found += [part for part in parts if _is_array(part) and part.size > 1]
    return bool(found) and all(map(_constant, found))


def _is_array(value):
    marks = ("__array_interface__", "__cuda_array_interface__")        # which the types of numbers have, too
    return not isinstance(value, type) and any(hasattr(value, mark) for mark in marks)


def _constant(array):
    flat = array.flat if isinstance(array, np.ndarray) else array.reshape(-1)
    some = flat[::max(1, array.size // 1000)]
    return bool((some == some[0]).all())


def _named(call):
    """Objects that a call names: in its closure and globals, or as arguments of a partial."""
    if isinstance(call, functools.partial):
        return [*_named(call.func), *call.args, *call.keywords.values()]
    if not inspect.isfunction(call):
        return [getattr(call, "__self__", None)]
    try:
        known = inspect.getclosurevars(call)
    except ValueError:                                       # a name of the closure has no value yet
        return []
    return [*known.nonlocals.values(), *known.globals.values(), *(call.__defaults__ or ())]
