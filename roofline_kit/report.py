"""Did the prediction hold? A scorecard that sets predicted beside measured, and says why they differ."""

import html
import math
import re
from dataclasses import dataclass

from .roofline import ABOVE, NOISY
from .units import si
from .work import Work

MARGIN = 0.2                                               # two times this near to each other are balanced
BELOW, BELOW_LATENCY = 0.6, 0.5                            # a fixed cost is known within a factor of two only
ADVICE = {                                                 # a part of a verdict: what to look for
    "ABOVE": "ABOVE ITS ROOF is an error to explain: wrong bytes, dtype or cache level, a clock that stopped early, "
             "or a roof measured in a slow moment (rk.sustained(fresh=True) measures it again).",
    "slower": "Slower than the bound allows: look for more passes than counted, copies, one core, Python.",
    "inconclusive": "Inconclusive: too few samples, or too different ones, or a busy machine; measure again.",
}
HEAD = ("operation", "FLOP/B", "memory", "compute", "latency", "predicted", "measured", "spread", "efficiency",
        "verdict")


def needs_roof(roof):
    """Errors: ValueError for what is no roofline, such as the name of a chip."""
    if not hasattr(roof, "mixes"):
        raise ValueError(f"a Roofline is needed, not {roof!r:.60}: take rk.sustained() or rk.datasheet(name, dtype).")


def attained(roof, run):
    """Efficiency: the roof's time over the measured one; above 1 the run was faster than its bound."""
    return roof.seconds(run.work, run.cold, run.clock) / run.seconds


def label(roof, work, cold=True, clock=None):
    """'memory-bound', 'compute-bound', 'latency-bound', or 'balanced' where two times lie within a fifth."""
    bound = roof.bound(work, margin=MARGIN, cold=cold, clock=clock)
    return bound if bound == "balanced" else f"{bound}-bound"


def _percent(spread):
    return "unknown" if math.isnan(spread) else f"{100 * spread:.0f} %"


def verdict(roof, run):
    """What the three times and the clock say together, in a few words."""
    efficiency = attained(roof, run)
    bound = label(roof, run.work, run.cold, run.clock)
    if not run.spread <= NOISY:                             # nor where a single sample has none
        return "inconclusive"
    if efficiency == 0:
        return "nothing to do"
    if efficiency > ABOVE:
        return "ABOVE ITS ROOF"
    if run.inconclusive:                                    # others slow a run down, they never make it faster
        return "inconclusive"
    if efficiency < (BELOW_LATENCY if bound == "latency-bound" else BELOW):
        return f"{bound}, {1 / efficiency:.1f}x slower"
    return bound


@dataclass(frozen=True)
class Scorecard:
    """One row for each run or work: the three times, the predicted and the measured one, and the verdict."""

    roof: object
    runs: tuple
    guess: str | None = None

    def rows(self):
        """The cells of the table as text, in the order of `HEAD`."""
        for run in self.runs:
            measured = not isinstance(run, Work)
            timed = (run.work, run.cold, run.clock) if measured else (run,)
            yield (run.name or timed[0].name or "run", si(timed[0].intensity, "FLOP/B").split()[0],
                   *(si(t, "s") for t in self.roof.times(*timed)), si(self.roof.seconds(*timed), "s"),
                   *((si(run.seconds, "s"), _percent(run.spread), f"{attained(self.roof, run):.2f}",
                      verdict(self.roof, run)) if measured else ("", "", "", label(self.roof, run))))

    def notes(self):
        """The guess against the fastest run, what to look for, and the clock's warnings, as sentences."""
        timed = {run.name or run.work.name or "run": run for run in self.runs if not isinstance(run, Work)}
        if isinstance(self.guess, str) and timed:
            best = max(timed, key=lambda name: timed[name].flop_per_s)
            said = "holds" if self.guess == best else "does not hold" if self.guess in timed else "is not in the table"
            yield (f"Your guess, {self.guess}, {said}: {best} reaches the most FLOP/s, "
                   f"{si(timed[best].flop_per_s, 'FLOP/s')}.")
        verdicts = " ".join(row[-1] for row in self.rows())
        yield from (advice for part, advice in ADVICE.items() if part in verdicts)
        alike = {}                                          # one line for warnings that differ in a number only
        for name, run in timed.items():
            for warning in run.warnings:
                alike.setdefault(re.sub(r"[\d.]+", "", warning), (warning, []))[1].append(name)
        yield from (f"{', '.join(names)}: {warning}" for warning, names in alike.values())

    def __repr__(self):
        table = [HEAD, *self.rows()]
        widths = [max(len(row[i]) for row in table) for i in range(len(HEAD) - 1)]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:-1], widths[1:]), row[-1]]) for row in table]
        return "\n".join([repr(self.roof), *lines, *self.notes()])

    def _repr_html_(self):
        def cells(tag, row):
            align = ["left"] + ["right"] * (len(HEAD) - 2) + ["left"]
            return "".join(f'<{tag} style="text-align:{a}">{html.escape(cell)}</{tag}>' for a, cell in zip(align, row))

        body = "".join(f"<tr>{cells('td', row)}</tr>" for row in self.rows())
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes())
        return (f"<table><caption>{html.escape(repr(self.roof))}</caption><thead><tr>{cells('th', HEAD)}</tr></thead>"
                f"<tbody>{body}</tbody></table>{notes}")


def scorecard(roof, runs, guess=None):
    """Each run against the roof: AI, the three times, predicted, measured, efficiency, verdict.

    roof:   a `Roofline`, usually `rk.sustained()`
    runs:   `Run`s that carry their work: measure(call, work=...); a bare `Work` gets a row of predictions
    guess:  the name of the operation that you expect to reach the most FLOP/s
    """
    needs_roof(roof)
    runs = (runs,) if hasattr(runs, "seconds") or isinstance(runs, Work) else tuple(runs)
    for run in runs:
        if isinstance(run, Work):
            continue
        if getattr(run, "work", None) is None:
            raise ValueError("a scorecard needs runs that know their work: measure(call, work=rk.gemm(...)).")
        if not math.isfinite(run.seconds) or run.seconds <= 0:
            raise ValueError(f"the run {run.name!r} has no usable time: {run.seconds!r} s.")
    return Scorecard(roof, runs, guess)
