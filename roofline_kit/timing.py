"""How long does it take, how sure is that, and what was wrong with the measurement?"""

import contextlib
import math
import time
from bisect import insort
from dataclasses import dataclass, replace

from . import clocks, gpu
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
    clock:     "wall" (host clock), or GPU events: "throughput" (calls back to back), "cold" (flush, one call),
               "graph" (calls in a CUDA graph, replayed)
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
    clock:   on a GPU "throughput" (calls back to back, the default), "cold" (one call behind a flush), "graph" (a CUDA
             graph of calls, replayed), all by its events, or "wall" (the host's, with the wait), which is a CPU's only
             one; or a function that returns seconds
    limit:   time box for the sampling [s]
    roof:    a Roofline; a run above it is an error to explain
    Errors:  MeasureError, one sentence
    """
    device = this_device(device)
    refuse(call, work, cold, clock, limit, roof)
    cold = cold or clock == "cold"
    constant = only_constant(call)
    slow, options, stream, used = [], {}, contextlib.nullcontext(), "wall"
    if callable(clock):
        options["clock"] = clock
    elif device.kind == "gpu" and clock != "wall":
        device.wait()                                        # the data are there before another stream reads
        stream, used = gpu.stream(device.xp), clock or ("cold" if cold else "throughput")
        options["stopwatch"] = clocks.BY_EVENTS[used](call, device, slow)
    mark = load_mark()
    try:
        with stream:
            samples, warm = sample(call, cold=cold, limit=limit, device=device, **options)
    except MeasureError:
        raise
    except (Exception, SystemExit) as error:
        told = gpu.explained(error) if device.kind == "gpu" else ""
        raise MeasureError(told or f"the call raised {_named(error)}: run it once without measure to see where."
                           ) from error
    run = Run(name or getattr(work, "name", "") or getattr(call, "__name__", "").replace("<lambda>", ""),
              quantile(sorted(samples), 0.5), spread(sorted(samples)), tuple(samples), work, cold, used, device.name,
              warm=tuple(warm))
    found = doubts(run, least=LEAST[device.kind], aim=SPREAD[device.kind], limit=limit, roof=roof,
                   foreign=foreign_load(mark), constant=constant,
                   host_bound=sum(slow[-len(samples):]) > len(samples) / 2)
    return replace(run, warnings=tuple(found))


def _named(error):
    text = gpu.first_line(error)
    return type(error).__name__ + (f" ({text})" if text != type(error).__name__ else "")


def sample(call, *, cold=False, limit=2.0, settle=SETTLE, clock=time.perf_counter, device=None,
           stopwatch=None):
    """(samples, warm-up): the times of one call [s], as two lists in the order in which they were taken.

    settle:     sample for at least this long [s]
    clock:      a function that returns seconds
    stopwatch:  of `clocks`; by default the host's clock
    """
    device = this_device(device)
    window = stopwatch or clocks.wall(call, device, cold, clock)
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
