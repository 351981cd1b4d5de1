"""How long does it take, how sure is that, and what was wrong with the measurement?"""

import contextlib
import functools
import math
import time
from bisect import insort
from dataclasses import dataclass, replace

from .device import device as this_device
from .doubts import INCONCLUSIVE, MeasureError, doubts, only_constant, refuse, refuse_result
from .host import foreign_load, load_mark
from .units import si

WARM_UPS = 12             # calls at most before the first sample
FALLS = 0.95              # a warm-up call that took less than this share of the one before asks for another
WINDOW = {"cpu": 50e-6, "gpu": 1e-3}   # s; shortest sample: 500 ticks of the coarsest clock (0.1 us);
                                       # on a GPU long enough to hide the gap before the first of the launches
LEAST = {"cpu": 9, "gpu": 30}          # samples
SPREAD = {"cpu": 0.05, "gpu": 0.02}    # IQR / median at which sampling stops
SETTLE = 0.1              # s of sampling at least: ten ticks of the counters that show foreign load


@dataclass(frozen=True, repr=False)
class Run:
    """One measurement.

    seconds:   median of the samples [s]
    spread:    interquartile range / median
    samples:   time of one call, each an average over a batch when calls are short [s]
    work:      what a call has to do, if told
    cold:      whether the caches were flushed before each sample
    clock:     "wall" (host clock), or GPU events: "throughput" (calls back to back), "cold" (flush, one call)
    device:    name of the device
    warnings:  sentences, empty when nothing was wrong
    warm:      times of the warm-up calls, which do not count [s]
    """

    name: str
    seconds: float
    spread: float = 0.0
    samples: tuple = ()
    work: object = None
    cold: bool = False
    clock: str = "wall"
    device: str = ""
    warnings: tuple = ()
    warm: tuple = ()

    @property
    def quartiles(self):
        """A quarter of the samples lies below the first, a quarter above the second [s]."""
        ordered = sorted(self.samples) or [self.seconds]
        return quantile(ordered, 0.25), quantile(ordered, 0.75)

    @property
    def low(self):
        """Shortest sample [s]."""
        return min(self.samples, default=self.seconds)

    @property
    def flop_per_s(self):
        """Achieved arithmetic rate [FLOP/s]; None without work."""
        return self.work and self.work.flops / self.seconds

    @property
    def bytes_per_s(self):
        """Achieved traffic [B/s]; None without work."""
        return self.work and self.work.nbytes / self.seconds

    @property
    def inconclusive(self):
        """Whether a warning says that the number proves nothing."""
        return any(INCONCLUSIVE in warning for warning in self.warnings)

    def __repr__(self):
        count = f"{len(self.samples)} sample{'s' * (len(self.samples) != 1)}"
        spread = "unknown" if math.isnan(self.spread) else f"{100 * self.spread:.1f} %"
        parts = [si(self.seconds, "s"), f"spread {spread}", count, "cold" if self.cold else "hot"]
        if self.work:
            parts += [si(self.flop_per_s, "FLOP/s")] * bool(self.work.flops)
            parts += [si(self.bytes_per_s, "B/s")] * bool(self.work.nbytes)
        return "\n  ! ".join([(f"{self.name}: " if self.name else "") + ", ".join(parts), *self.warnings])


def measure(call, work=None, *, name=None, cold=False, clock=None, limit=2.0, roof=None, device=None):
    """The time of call(), its spread, and what makes it doubtful, as a Run.

    Warm-up calls come first and do not count. Samples are taken until IQR / median is small (5 % on a CPU,
    2 % on a GPU) or `limit` is reached. A sample is one call, or a batch where a call is too short to time.

    work:    what the call has to do, for rates: rk.gemm(m, n, k)
    cold:    flush the caches before each sample; otherwise what fits in a cache stays there
    clock:   "throughput" or "cold" (GPU events), "wall" (the host's), or a function that returns seconds
    limit:   time box for the sampling [s]
    roof:    a Roofline; a run above it is an error to explain
    Errors:  MeasureError, one sentence
    """
    device = this_device(device)
    refuse(call, work, cold, clock, limit, roof)
    cold = cold or clock == "cold"
    constant = only_constant(call)
    host_bound, options, stream = [], {}, contextlib.nullcontext()
    if callable(clock):
        options["clock"] = clock
    elif device.kind == "gpu" and clock != "wall":
        device.wait()                                        # the data are there before another stream reads
        stream = device.xp.cuda.Stream(non_blocking=True)
        options["stopwatch"] = functools.partial(events, call, device, cold, host_bound)
    mark = load_mark()
    try:
        with stream:
            samples, warm = sample(call, cold=cold, limit=limit, device=device, **options)
    except MeasureError:
        raise
    except (Exception, SystemExit) as error:
        text = (str(error).strip().splitlines() or [""])[0]
        raise MeasureError(f"the call raised {type(error).__name__}{text and f' ({text})'}: run it once "
                           "without measure to see where.") from error
    run = Run(name or getattr(work, "name", "") or getattr(call, "__name__", "").replace("<lambda>", ""),
              quantile(sorted(samples), 0.5), spread(sorted(samples)), tuple(samples), work, cold,
              ("cold" if cold else "throughput") if "stopwatch" in options else "wall", device.name,
              warm=tuple(warm))
    found = doubts(run, least=LEAST[device.kind], aim=SPREAD[device.kind], limit=limit, roof=roof,
                   foreign=foreign_load(mark), constant=constant,
                   host_bound=sum(host_bound[-len(samples):]) > len(samples) / 2)
    return replace(run, warnings=tuple(found))


def sample(call, *, cold=False, limit=2.0, settle=SETTLE, clock=time.perf_counter, device=None,
           stopwatch=None):
    """(samples, warm-up): the times of one call [s], as two lists in the order in which they were taken.

    settle:     sample for at least this long [s]
    clock:      a function that returns seconds
    stopwatch:  a function of a number of calls that makes them and returns how long they took [s]
    """
    device = this_device(device)
    stopwatch = stopwatch or functools.partial(wall, call, device, clock)

    def window(count):
        if cold:
            device.flush()
        return stopwatch(count)

    start = clock()
    result = call()
    device.wait()
    warm = [clock() - start]
    refuse_result(result)
    del result                                               # its memory is free for the calls to come
    start = clock()                                          # compiling, in the first call, is not in the box
    while len(warm) == 1 or (warm[-1] < FALLS * warm[-2] and len(warm) < WARM_UPS
                             and clock() - start < limit / 4):
        took = window(1)
        if took >= limit:
            return [took], warm
        warm.append(took)
    batch = 1
    while not cold and took < WINDOW[device.kind] and batch < 2**20:
        batch *= 2
        took = window(batch)
    samples, ordered = [], []
    while True:
        samples.append(window(batch) / batch)
        insort(ordered, samples[-1])
        elapsed = clock() - start
        if not elapsed > 0:
            raise MeasureError("the clock stands still or runs backwards: clock= needs a function whose seconds grow.")
        calm = len(samples) >= LEAST[device.kind] and spread(ordered) <= SPREAD[device.kind]
        if elapsed >= limit or (calm and elapsed >= settle):
            return samples, warm


def wall(call, device, clock, count):
    """Time of `count` calls and of the wait for their results [s], by the host's clock."""
    device.wait()                                            # a GPU may still flush
    start = clock()
    for _ in range(count):
        call()
    device.wait()
    return clock() - start


def events(call, device, cold, host_bound, count, clock=time.perf_counter):
    """Time between two events on the GPU with `count` calls between them [s].

    After a flush the calls are queued before the first event happens, so no gap of the host's falls between
    the two. `host_bound` gets True where the host was too slow for that, or launched for half of the time.
    """
    begin, end = device.xp.cuda.Event(), device.xp.cuda.Event()
    begin.record()
    start = clock()
    for _ in range(count):
        call()
    launching, late = clock() - start, begin.done
    end.record()
    end.synchronize()
    seconds = device.xp.cuda.get_elapsed_time(begin, end) / 1e3
    host_bound.append(late if cold else launching > seconds / 2)
    return seconds


def quantile(ordered, share):
    """The value below which that share of the sorted values lies, linear between neighbours."""
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def spread(ordered):
    """Interquartile range / median of sorted values; not a number where one value cannot tell."""
    middle = quantile(ordered, 0.5)
    if len(ordered) < 2 or not middle:
        return math.nan
    return (quantile(ordered, 0.75) - quantile(ordered, 0.25)) / middle
