"""Which bound follows from four times and the clock, or does none? Three questions, asked of what was measured."""

from typing import NamedTuple

from .doubts import FOREIGN, INCONCLUSIVE
from .report import MARGIN
from .roofline import Times
from .timing import quantile
from .units import si

HALF = 0.5                # share of the wall time from which on the host is the bound
EXPLAINED = 3.0           # times the predicted time; what takes longer, its bytes and FLOPs do not explain
FIXED = 10.0              # the same for fixed costs: the probe's is that of the cheapest call there is
FASTER = 1.3              # times faster than predicted: count, cache level or clock are wrong
CHEAPER = 3.0             # the same for fixed costs: some calls cost less than the probe's
OPPOSED = 0.2             # share of rounds with another bound, from which on the noise could change the verdict

NEXT = {
    "memory": "Move fewer bytes: fuse passes, take numbers of half the size, keep data in a cache. Faster arithmetic "
              "gains nothing.",
    "compute": "Compute better: the matrix unit, vector instructions, all cores, a format with a higher peak, fewer "
               "FLOPs. Saving bytes gains nothing.",
    "latency": "Cut fixed costs: fuse the calls into one, record them once (a CUDA graph), or give each call more to "
               "do. Fewer bytes or FLOPs gain nothing.",
    "host": "Leave Python: calls on whole arrays, or a compiled loop (Numba, C++). What the calls do inside hardly "
            "matters.",
    "balanced": "Two sides have to shrink together; either alone gains little. Fusion and a smaller number format save "
                "both.",
}
AGAIN = "Measure again when the machine is quiet, or with a larger limit=."
COUNT = "Count what the call has to do (rk.referee counts it by execution) and give it as work=."
ABOVE = ("Check the bytes, the launches, the dtype, whether the data stay in a cache (cold=True), and whether somebody "
         "waits.")
BEYOND = ("Look for what the count leaves out: passes (rk.referee.passes), copies, idle cores, a slow function, Python "
          "in other threads.")


class Round(NamedTuple):
    """What was seen in one moment.

    seconds:  of the call [s]
    times:    memory, compute and latency by the roof, at the rates of this moment [s]
    host:     Python's instructions at this moment's cost of one [s]
    call:     the cheapest library call in this moment [s]
    busy:     cores that the call kept busy
    """

    seconds: float
    times: Times
    host: float = 0.0
    call: float = 0.0
    busy: float = 1.0


def decide(rounds, counted=True, executed=0, foreign=None, cores=1, waits=False):
    """(bound, why, next): the three questions, asked of several rounds.

    counted:   whether there is a Work
    executed:  instructions that Python carried out in a call
    foreign:   share of the machine that other processes took
    cores:     how many there are: if a call keeps fewer busy, a bound for these is so much higher at most
    waits:     whether a GPU waited for the host
    """
    best = fast(rounds)
    seen = low(best)
    if foreign is not None and foreign > FOREIGN:
        return "inconclusive", f"Other processes used {foreign:.0%} of the machine: {INCONCLUSIVE}.", AGAIN
    if seen.busy < HALF:
        return "inconclusive", (f"It computed for {seen.busy:.0%} of the time only, and waited for the rest: for other "
                                f"processes, a disk or a lock: {INCONCLUSIVE}."), AGAIN
    verdicts = [_verdict(one._replace(busy=seen.busy), counted, executed, cores, waits) for one in best]
    bound, why, step = _verdict(seen, counted, executed, cores, waits)
    others = [other for other, *_ in verdicts if other not in (bound, "balanced") and bound != "balanced"]
    if len(others) > OPPOSED * len(verdicts) and bound != "inconclusive":
        why = f"In {len(others)} of the {len(verdicts)} fastest rounds it looks {others[0]}: {INCONCLUSIVE}."
        return "inconclusive", why, AGAIN
    return bound, why, step


def _verdict(one, counted, executed, cores, waits):
    """(bound, why, next) of one round."""
    seconds, times, host, call, busy = one
    if host >= HALF * seconds and not waits:
        return "host", f"Python's own instructions fill {min(1, host / seconds):.0%} of the time.", NEXT["host"]
    if not counted:
        return "inconclusive", "Nobody counted what the call has to do, and Python is not what takes the time.", COUNT
    if waits and times.latency < HALF * seconds:
        return "host", "The GPU waited for the host, and not for the launches that are counted.", NEXT["host"]
    predicted = max(times.memory, times.compute) + times.latency
    (first, largest), (second, other), _ = sorted(zip(times, Times._fields), reverse=True)
    if not first:
        return "inconclusive", "By its count the call has nothing to do.", COUNT
    if predicted > (CHEAPER if largest == "latency" else FASTER) * seconds:
        return "inconclusive", f"It is {predicted / seconds:.1f} times faster than the roof allows.", ABOVE
    if seconds > (FIXED if largest == "latency" else EXPLAINED * cores / max(1.0, busy)) * predicted:
        if executed and seconds / executed < call:
            return "host", (f"The roof explains {predicted / seconds:.1%} of the time, and a new instruction of Python "
                            f"begins every {si(seconds / executed, 's')}."), NEXT["host"]
        return "inconclusive", f"The roof explains {predicted / seconds:.0%} of the time only.", BEYOND
    said = f"The roof explains {predicted / seconds:.0%} of the time; "
    if second >= (1 - MARGIN) * first:
        return "balanced", said + f"{largest} and {other} are within a fifth of each other.", NEXT["balanced"]
    return largest, said + f"{largest} {_ahead(first, second)}.", NEXT[largest]


def _ahead(first, second):
    ratio = first / second if second else float("inf")
    return f"is {ratio:.1f} times the next" if ratio < 100 else "is all there is to see"


def fast(rounds):
    """The faster half of the rounds: what others take makes a round slower, never faster."""
    return sorted(rounds)[:max(min(5, len(rounds)), len(rounds) // 2)]


def low(rounds):
    """One round made of the low quartile of each quantity, and of the middle of the cores that were busy.

    (On Windows the clock of the cores ticks every 16 ms: a short sample shows none, or too many. Then: their mean.)
    """
    def quarter(values):
        return quantile(sorted(values), 0.25)

    cores, mean = sorted(one.busy for one in rounds), sum(one.busy * one.seconds for one in rounds)
    mean /= sum(one.seconds for one in rounds)
    return Round(quarter(one.seconds for one in rounds), Times(*map(quarter, zip(*(one.times for one in rounds)))),
                 quarter(one.host for one in rounds), quarter(one.call for one in rounds),
                 quantile(cores, 0.5) if cores[0] else mean)
