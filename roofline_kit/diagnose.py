"""What limits this call: its bytes, its FLOPs, its launches, the host, two of them alike, or can the clock not tell?

Three times come from the roof and the Work. They are scaled to the rates of this very moment, which small probes take
between the samples. The fourth time, the host's, is counted by execution: how many instructions does Python carry out?
"""

import contextlib
import io
import sys
import time
from dataclasses import dataclass

from . import clocks
from .decide import AGAIN, Round, decide, fast, low
from .device import device as this_device
from .doubts import INCONCLUSIVE, MeasureError, refuse, refuse_result
from .gpu import first_line
from .host import foreign_load, load_mark
from .probes import instructions, probes
from .roofline import NOISY, Roofline, Times
from .sustained import sustained
from .timing import Run, measure, quantile, spread
from .units import si
from .work import Work

WINDOW = 1e-3             # s; shortest sample of the call: it must stand beside probes of that length
MOST = 2**17              # calls in a sample
ATTEMPTS = 2              # where the first was disturbed, the second may not be
LEAST, SETTLE = 9, 0.3    # rounds and s at least: thirty ticks of the counters that show foreign load
REWARM = 0.02             # s; a call shorter than this finds its caches emptied by a probe, so it runs once untimed


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """The verdict on one call, and what it rests on.

    bound:     "memory", "compute", "latency", "host", "balanced" or "inconclusive"
    times:     memory, compute, latency: what the roof says, at the rates seen beside the call [s]
    host:      what Python's own instructions took, by count [s]
    run:       a Run of the faster half of the samples: what others take makes a sample longer, never shorter
    evidence:  sentences
    next:      what to do now
    """

    bound: str
    times: Times
    host: float
    run: Run
    evidence: tuple
    next: str

    def __repr__(self):
        head = f"{self.run.name}: " * bool(self.run.name) + self.bound
        head += "-bound" * (self.bound in (*Times._fields, "host"))
        return "\n".join([f"{head}, measured {si(self.run.seconds, 's')}", f"  {self.times}, host {si(self.host, 's')}",
                          *(f"  - {text}" for text in self.evidence), f"  next: {self.next}"])


def diagnose(call, work=None, roof=None, *, cold=False, limit=2.0, name=None, device=None):
    """What limits call(), as a Diagnosis: by measurement together with the model.

    work:    what the call has to do; without it only the host can be recognised
    roof:    without one, this machine's own for the work's dtype
    cold:    flush the caches before each sample; otherwise what fits into a cache is read from there
    limit:   time box for the sampling [s], 0.3 at least; a call that takes longer is made four times
    Errors:  MeasureError, one sentence
    """
    device = this_device(device)
    _refuse(call, work, cold, limit, roof)
    roof = roof or _own(work, device)
    if device.kind == "gpu":
        return _on_gpu(call, work, roof, cold, limit, name, device)
    watch, probe = clocks.wall(call, device, cold), probes(device, roof, work, cold)
    try:
        _refuse_output(call)
        warm = [watch(1)]
        if warm[0] < limit:
            warm.append(watch(1))
        executed = instructions(call, min(limit, 1.0), min(warm))
        found, rounds = _decided(watch, min(warm), probe, work, roof, cold, limit, device, executed)
    except MeasureError:
        raise
    except (Exception, SystemExit) as error:
        told = f" ({first_line(error)})" * bool(str(error).strip())
        raise MeasureError(f"the call raised {type(error).__name__}{told}: run it once without diagnose to see where."
                           ) from error
    samples = [one.seconds for one in fast(rounds)]
    run = Run(name or getattr(work, "name", "") or "", quantile(samples, 0.5), spread(samples), tuple(samples), work,
              cold, "wall", device.name, warm=tuple(warm))
    return _diagnosis(found, rounds, run, _told(rounds, work, roof, executed, device.cores))


def _refuse(call, work, cold, limit, roof):
    """Arguments that make no diagnosis."""
    for name, value, kind in (("work", work, Work), ("roof", roof, Roofline)):
        if value is not None and not isinstance(value, kind):
            example = "rk.gemm(m, n, k)" if kind is Work else "rk.sustained()"
            raise MeasureError(f"{name} is {_a(value)}, but it must be a {kind.__name__} such as {example}.")
    with _in_our_words():
        refuse(call, work, cold, None, limit, roof)


def _refuse_output(call):
    """The first call: one that prints would fill the page, and one that only prepares something does nothing."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        result = call()
    if printed.getvalue():
        raise MeasureError("the call prints, and a diagnosis makes it many times over: take the print out of it.")
    with _in_our_words():
        refuse_result(result)


@contextlib.contextmanager
def _in_our_words():
    """The sentences of `measure` name it; here the learner has written diagnose."""
    try:
        yield
    except MeasureError as error:
        raise MeasureError(str(error).replace("measure", "diagnose")) from None


def _a(value):
    return f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"


def _decided(watch, took, probe, work, roof, cold, limit, device, executed):
    """(found, rounds): a disturbed call gets another attempt, unless it is a long one."""
    for _ in range(ATTEMPTS if took < limit else 1):
        mark = load_mark()
        rounds = _rounds(watch, took, probe, work, roof, cold, limit, device, executed)
        found = decide(rounds, work is not None, executed[0], foreign_load(mark), device.cores)
        if found[-1] != AGAIN:
            break
    return found, rounds


def _rounds(watch, took, probe, work, roof, cold, limit, device, executed):
    """The call and the probes in turn, until the fast rounds agree or time is up."""
    (count, share), batch, lasted = executed, 1, took
    while not cold and lasted < WINDOW and batch < MOST:     # by doubling: a later call may be slower than the first
        batch *= 2
        lasted = watch(batch)
    rounds, start = [], time.perf_counter()
    while True:
        factors = {what: one() for what, one in probe.items()}
        if not cold and took < REWARM:
            watch(1)
        cpu, wall = time.process_time(), time.perf_counter()
        seconds = watch(batch) / batch
        busy = device.cores if cold else (time.process_time() - cpu) / max(time.perf_counter() - wall, 1e-9)
        times = _scaled(roof, work, cold, factors)
        host = min(seconds, count * factors["instruction"] / share)
        rounds.append(Round(seconds, times, host, factors["call"], busy))
        elapsed, best = time.perf_counter() - start, sorted(one.seconds for one in fast(rounds))
        calm = len(rounds) >= LEAST and spread(best) < NOISY / 5
        if elapsed >= max(limit, SETTLE) or (elapsed >= SETTLE and calm):
            return rounds


def _told(rounds, work, roof, executed, cores):
    """What the verdict rests on, a sentence each."""
    seen, (count, share) = low(fast(rounds)), executed
    if len(rounds) < LEAST:
        yield f"It rests on {len(rounds)} sample{'s' * (len(rounds) != 1)} only: raise limit= for more."
    if roof.origin != "measured":
        yield f"The roof is not this machine's as measured, but that of {roof.name or 'some machine'} ({roof.origin})."
    elif work and work.dtype != roof.dtype:
        yield f"There is no roof for {work.dtype} here, so this is the one for {roof.dtype}."
    if work and work.nbytes and seen.times.memory:
        when = "here and now" if roof.origin == "measured" else "by that roof"
        ridge = work.intensity * seen.times.memory / seen.times.compute if seen.times.compute else 0
        yield (f"AI {si(work.intensity, 'FLOP/B')}" + (f"; its ridge point is at {si(ridge, 'FLOP/B')} {when}."
                                                       if ridge else ": no arithmetic."))
    if work:
        yield (f"{work.launches} launch{'es' * (work.launches != 1)} counted; the cheapest library call takes "
               f"{si(seen.call, 's')} now.")
    yield f"Python carries out {int(count / share):,} instructions in a call, {si(seen.host, 's')} of its time."
    if seen.busy < 0.75 * cores:
        yield f"It keeps {seen.busy:.1f} of {cores} cores busy."
    if sys.gettrace():
        yield "A debugger or a coverage tool watches each line of Python, which makes Python slower than it is."


def _scaled(roof, work, cold, factors):
    """The roof's times at the rates of this moment."""
    if work is None:
        return Times(0.0, 0.0, 0.0)
    return Times(*(seconds * factors.get(what, 1.0) for what, seconds in roof.times(work, cold)._asdict().items()))


def _own(work, device):
    """This machine's roof for the work's dtype, or for the lessons' where that has none."""
    try:
        return sustained(getattr(work, "dtype", None), device=device)
    except ValueError:
        return sustained(device=device)


def _on_gpu(call, work, roof, cold, limit, name, device):
    """The same by a GPU's clock, which shows by itself whether the GPU waited for the host."""
    run = measure(call, work, name=name, cold=cold, limit=limit, device=device)
    times = roof.times(work, cold, run.clock) if work else Times(0.0, 0.0, 0.0)
    rounds = [Round(seconds, times) for seconds in run.samples]
    waits = any("host-bound" in warning for warning in run.warnings)
    found = decide(rounds, work is not None, waits=waits)
    if run.inconclusive:
        found = "inconclusive", next(text for text in run.warnings if INCONCLUSIVE in text), AGAIN
    return _diagnosis(found, rounds, run, run.warnings)


def _diagnosis(found, rounds, run, told):
    bound, why, step = found
    seen = low(fast(rounds))
    return Diagnosis(bound, seen.times, seen.host, run, (why, *told), step)
