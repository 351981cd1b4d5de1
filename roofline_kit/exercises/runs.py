"""Was it measured properly? Judges the method and the roof, never the time itself."""

import math

from ..doubts import INCONCLUSIVE
from ..report import ABOVE, NOISY, attained
from ..units import si
from . import Form, Verdict, call
from .factors import explain
from .numbers import _what, filled

LEAST = 5            # samples below which a median says little, however long each of them takes
CLEARLY = 3.0        # times its roof: more than a roof that was measured on a busy machine can explain


def judge(exercise, answer, known, seed):
    """The verdict on one Run or several. Errors: Blank, Form."""
    answer = filled(tuple(answer.values()) if isinstance(answer, dict) else answer)
    expected = call(exercise.reference, known)
    runs = tuple(answer) if isinstance(answer, (tuple, list)) else (answer,)
    for run in runs:
        if not all(hasattr(run, field) for field in ("seconds", "spread", "samples", "cold")):
            raise Form(f"what rk.measure returns is asked, not {_what(run)}.")
    works = expected if isinstance(expected, (tuple, list)) else (expected,) * max(len(runs), 1)
    if len(works) != len(runs):
        several = "runs are asked, in order" if len(works) > 1 else "run is asked"
        raise Form(f"{len(works)} {several}, not {len(runs)}.")
    if all(run.work is not None for run in runs):
        for wrong, sentence in exercise.slips.values():
            slip = call(wrong, known)
            slip = slip if isinstance(slip, (tuple, list)) else (slip,) * len(runs)
            if not _alike([run.work for run in runs], works) and _alike([run.work for run in runs], slip):
                return Verdict("wrong", sentence)
    for i, (run, work) in enumerate(zip(runs, works), 1):
        found = _fault(exercise, run, work, known)
        if found:
            return Verdict(found.state, found.text if len(runs) == 1 else _of_run(i, found.text))
    told = _told(runs[0], known["roof_for"](runs[0].work)) if len(runs) == 1 else ""
    return Verdict("right", exercise.right + told)


def _of_run(number, text):
    """The sentence with the number of its run; one that is inconclusive still begins so, as a grader expects."""
    told = text.removeprefix("inconclusive: ")
    return f"run {number}: {text}" if told == text else f"inconclusive, run {number}: {told}"


def _alike(works, others):
    """Whether the counts are the same; None in `others` accepts any."""
    return all(other is None or all(abs(getattr(work, f) - getattr(other, f)) <= 1e-6 * getattr(other, f)
                                    for f in ("flops", "nbytes")) for work, other in zip(works, others))


def _fault(exercise, run, work, known):
    """The first thing wrong with how this run was taken, as a Verdict, or None."""
    if run.work is None:
        return Verdict("wrong", "nothing says what the call had to do: give measure its Work, work=.")
    if not _alike([run.work], [work]):
        bad = next(f for f in ("flops", "nbytes") if getattr(run.work, f) != getattr(work, f))
        off = explain([getattr(run.work, bad)], [getattr(work, bad)], [{}])
        return Verdict("wrong", f"the {bad} of its work are {off}{'' if off.endswith('?') else '.'}")
    if not 0 < run.seconds < math.inf:
        return Verdict("wrong", f"its time is {run.seconds} s, which nothing takes.")
    if not run.warm:
        return Verdict("wrong", "the first calls (compiling, page faults) are in it: let rk.measure warm up.")
    if any("random data" in warning for warning in run.warnings):
        return Verdict("wrong", "it ran on constant data, which are faster than real ones: use dev.random.")
    if exercise.cold and not run.cold:
        return Verdict("wrong", "the data still lay in a cache from the call before: measure with cold=True.")
    if exercise.cold is False and run.cold:
        return Verdict("wrong", "the caches were emptied before each sample; a hot run is asked, cold=False.")
    roof = known["roof_for"](run.work)
    above = attained(roof, run)
    if above > CLEARLY and not roof.note:                  # a roof with a note was measured in a bad moment
        return Verdict("wrong", f"it is {above:.2g} times faster than its roof allows: the bytes, the dtype "
                                "or the cache level is wrong, or the call does not do the work.")
    if len(run.samples) < LEAST:
        return Verdict("unclear", f"inconclusive: {len(run.samples)} samples are too few, raise limit=.")
    if above > ABOVE:
        return Verdict("unclear", f"inconclusive: {100 * (above - 1):.0f} % above its roof; measure the roof "
                                  "again with rk.sustained(fresh=True), then the run.")
    return None


def _told(run, roof):
    """What the run says; a busy machine spoils the number, not the method that is asked."""
    if run.spread > NOISY or run.inconclusive:
        why = next((text for text in run.warnings if INCONCLUSIVE in text), f"spread {100 * run.spread:.0f} %.")
        return f" The method is right; the number proves nothing now: {why}"
    rate = f"{si(run.work.nbytes / run.seconds, 'B/s')}, " if run.work.nbytes else ""
    return f" Yours: {si(run.seconds, 's')}, {rate}{100 * attained(roof, run):.0f} % of what the roof allows."
