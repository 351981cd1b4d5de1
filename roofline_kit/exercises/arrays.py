"""Does a kernel give the right numbers on odd shapes, and what share of the roof does it reach?"""

import numpy as np

from ..device import device as this_device
from ..report import NOISY, attained
from ..timing import measure
from ..units import si
from . import Blank, Form, Verdict, call, draw, example, result_of, time_box
from .factors import explain
from .numbers import _what

TRIALS = 4           # sets of random arrays a kernel is run on
LIMIT = 0.5          # s that the timing at the end may take


def judge(exercise, answer, known, seed):
    """The verdict on a function of arrays. Errors: Blank, Form."""
    rng = np.random.default_rng(seed)
    device = known.get("device") or this_device()
    pairs = []
    for _ in range(TRIALS):
        arrays = {name: _rounded(value) for name, value in draw(exercise.inputs, rng).items()}
        if not callable(answer):
            raise Form(f"a function of ({', '.join(arrays)}) is asked, not {_what(answer)}.")
        right = np.asarray(call(exercise.reference, known | _copies(arrays)))
        with time_box():
            pairs.append((_run(exercise, answer, arrays, device), right, arrays))
        _look(*pairs[-1])
    tolerance = exercise.tolerance or 1e-3
    if all(close(given, right, tolerance) for given, right, _ in pairs):
        return Verdict("right", exercise.right + _share(exercise, answer, known, device, rng))
    for wrong, sentence in exercise.slips.values():
        slips = [np.asarray(call(wrong, known | _copies(arrays))) for _, _, arrays in pairs]
        if all(slip.shape == given.shape and close(given, slip, tolerance)
               for (given, _, _), slip in zip(pairs, slips)):
            return Verdict("wrong", sentence)
    given, right, arrays = next(pair for pair in pairs if not close(*pair[:2], tolerance))
    return Verdict("wrong", f"{_where(given, right, tolerance)} ({example(arrays)}; seed {seed}).")


def _rounded(value):
    """A float array as the device will get it: float32, but kept in float64 for the reference."""
    return value.astype(np.float32).astype(np.float64) if _floats(value) else value


def _floats(value):
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def _copies(arrays):
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in arrays.items()}


def _moved(arrays, device):
    """Copies of the arrays on the device, floats as float32."""
    return {name: device.xp.array(value, dtype="float32" if _floats(value) else value.dtype)
            if isinstance(value, np.ndarray) else value for name, value in arrays.items()}


def _run(exercise, answer, arrays, device):
    """What the learner's function makes of these arrays, as a float64 NumPy array."""
    moved = _moved(arrays, device)
    result = result_of(answer, moved)
    if result is None and exercise.out:
        device.wait()
        result = moved[exercise.out]
        if np.array_equal(_numpy(result), arrays[exercise.out], equal_nan=True):
            raise Form(f"nothing was written into {exercise.out}: assign to {exercise.out}[...] or pass it on as "
                       f"out=, since {exercise.out} = ... only gives the name to another array.")
    if result is None or result is ...:
        raise Blank
    return _numpy(result)


def _numpy(result):
    try:
        array = np.asarray(result.get() if hasattr(result, "get") else result)
        if array.dtype.kind == "c":
            raise Form("an array of real numbers is asked, not of complex ones.")
        return array.astype(np.float64)
    except (TypeError, ValueError):
        raise Form(f"an array of real numbers is asked, not {_what(result)}.") from None


def _look(given, right, arrays):
    """Errors: Form for a result that cannot be compared: another shape, NaN."""
    if given.shape != right.shape:
        turned = ": transposed?" if given.shape == right.shape[::-1] else ""
        raise Form(f"the result has the shape {given.shape}, not {right.shape}{turned} ({example(arrays)}).")
    bad = ~np.isfinite(given) & np.isfinite(right)
    if bad.any():
        raise Form(f"{bad.sum()} of {bad.size} results are NaN or infinite ({example(arrays)}): "
                   "not written, 0/0, or an exp of something large?")


def close(given, right, tolerance):
    """Whether no element is off by more than `tolerance` of the largest right one."""
    return bool(_errors(given, right).max(initial=0) <= tolerance)


def _errors(given, right):
    return np.abs(given - right) / max(np.abs(right).max(initial=0), 1e-30)


def _where(given, right, tolerance):
    """Which elements are off, and by what factor if it is one."""
    wrong = _errors(given, right) > tolerance
    large = np.abs(right) > 0.1 * np.abs(right).max(initial=0)   # small ones hide a small relative error
    if wrong[large].mean() > 0.9:
        ratios = given[large] / right[large]
        if np.ptp(ratios) <= 10 * tolerance * abs(np.median(ratios)):
            return f"the result is {explain([round(float(np.median(ratios)), 3)], [1.0], [{}])}"
        return f"all results are off, the largest by {100 * _errors(given, right).max():.2g} %"
    index = np.argwhere(wrong)
    edge = [axis for axis in range(wrong.ndim) if index[:, axis].min() > 0
            and wrong.shape[axis] - index[:, axis].min() < wrong.shape[axis] / 2]
    hint = f": only the end of axis {edge[0]} is wrong, does a size not divide evenly?" if edge else ""
    return f"{len(index)} of {wrong.size} results are off, the first at {tuple(map(int, index[0]))}{hint}"


def _share(exercise, answer, known, device, rng):
    """The sentence on how near the kernel comes to the roof; empty where the exercise does not ask."""
    if not (exercise.work and exercise.big):
        return ""
    arrays = _moved(draw(exercise.big, rng), device)
    work = call(exercise.work, arrays)
    run = measure(lambda: result_of(answer, arrays), work=work, limit=LIMIT, device=device)
    if run.inconclusive or run.spread > NOISY:
        return " How near it comes to the roof is inconclusive now: run this again on a quiet machine."
    return (f" It takes {si(run.seconds, 's')} on {example(arrays).removeprefix('for ')}: "
            f"{100 * attained(known['roof_for'](work), run):.0f} % of the roof here.")
