"""Does a kernel give the right numbers on odd shapes, and what share of the roof does it reach?"""

import time

import numpy as np

from ..device import device as this_device
from ..report import ABOVE, NOISY, attained
from ..timing import measure
from ..units import si
from . import Blank, Form, Verdict, call, draw, example, result_of, sources, time_box
from .factors import explain
from .numbers import _what

TRIALS = 4           # sets of random arrays a kernel is run on
SLOW = 5             # s of a call on large arrays, above which it is not timed
LIMIT = 0.5          # s that one timing at the end may take
AGAIN = 4            # timings at most, until one reaches the share that is asked
WASTED = {           # the bound: what takes too long, and what to look for
    "memory": ("it takes longer than its bytes do",
               ("which passes over the data can be saved? Where none can, it is the arithmetic: an exp of one number "
                "at a time, a constant in float64, or a single core?")),
    "compute": ("the arithmetic waits too often",
                "are all cores and whole vectors busy, and is what is loaded used again?"),
    "latency": ("it takes too long between two steps",
                "are there calls in a loop, or sums that use no vector instructions?")}


def judge(exercise, answer, known, seed):
    """The verdict on a function of arrays, or on CUDA C++ where that may answer. Errors: Blank, Form."""
    rng = np.random.default_rng(seed)
    device = known.get("device") or this_device()
    kernel = sources.kernel(exercise, answer, device)
    if kernel and sources.unable():
        return Verdict("unclear", sources.unable())
    pairs = []
    for _ in range(TRIALS):
        arrays = {name: _rounded(value) for name, value in draw(exercise.inputs, rng).items()}
        right = np.asarray(call(exercise.reference, known | _copies(arrays)))
        pairs.append((_given(exercise, kernel or answer, arrays, device), right, arrays))
        _look(*pairs[-1])
    tolerance = exercise.tolerance or 1e-3
    if all(close(given, right, tolerance) for given, right, _ in pairs):
        return (sources.traffic(exercise, kernel, max((arrays for *_, arrays in pairs), key=_size)) if kernel
                else _speed(exercise, answer, known, device, rng, tolerance))
    for wrong, sentence in exercise.slips.values():
        slips = [np.asarray(call(wrong, known | _copies(arrays))) for _, _, arrays in pairs]
        if all(slip.shape == given.shape and close(given, slip, tolerance)
               for (given, _, _), slip in zip(pairs, slips)):
            return Verdict("wrong", sentence)
    given, right, arrays = next(pair for pair in pairs if not close(*pair[:2], tolerance))
    return Verdict("wrong", f"{_where(given, right, tolerance)} ({example(arrays)}; seed {seed}).")


def _given(exercise, answer, arrays, device):
    """What the answer makes of these arrays, as a float64 NumPy array."""
    if isinstance(answer, sources.Kernel):                 # it has a time limit of its own, and compiling is not in it
        return sources.run(exercise, answer, arrays)
    if not callable(answer):
        source = ", or CUDA C++ as text," if exercise.cuda else ""
        raise Form(f"a function of ({', '.join(arrays)}){source} is asked, not {_what(answer)}.")
    with time_box():
        return _run(exercise, answer, arrays, device)


def _size(arrays):
    return sum(np.size(value) for value in arrays.values())


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
    if result is ... or (result is None and not exercise.out):
        raise Blank
    device.wait()
    changed = [name for name, value in arrays.items()
               if isinstance(value, np.ndarray) and not np.array_equal(_numpy(moved[name]), value, equal_nan=True)]
    if set(changed) - {exercise.out}:
        raise Form(f"your function changes its input {min(set(changed) - {exercise.out})}: work on a copy.")
    if exercise.out and not changed:
        if np.isnan(arrays[exercise.out]).all() and np.any(_added(answer, moved, exercise.out)):
            raise Form(f"your function adds to the old numbers in {exercise.out}, which may be anything: "
                       f"write {exercise.out}[...] = 0 first.")
        raise Form(f"nothing was written into {exercise.out}: assign to {exercise.out}[...] or pass it on as out=, "
                   f"since {exercise.out} = ... only gives the name to another array.")
    return _numpy(moved[exercise.out] if exercise.out else result)


def _added(answer, moved, out):
    """What is written into an `out` of zeros by a function that left one without numbers as it was."""
    moved[out][...] = 0
    result_of(answer, moved)
    return _numpy(moved[out])


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


def _speed(exercise, answer, known, device, rng, tolerance):
    """The verdict on a kernel that is right on small arrays: is it on large ones, and how near to the roof?"""
    if not (exercise.work and exercise.big):
        return Verdict("right", exercise.right)
    arrays = {name: _rounded(value) for name, value in draw(exercise.big, rng).items()}
    start = time.perf_counter()
    with time_box():
        given = _run(exercise, answer, arrays, device)
    took, right = time.perf_counter() - start, np.asarray(call(exercise.reference, known | _copies(arrays)))
    _look(given, right, arrays)
    if not close(given, right, tolerance):
        return Verdict("wrong", f"right on small arrays, but on large ones {_where(given, right, tolerance)} "
                                f"({example(arrays)}).")
    shown = example(arrays).removeprefix("for ")
    if took > SLOW:
        return Verdict("wrong", f"the numbers are right, but one call takes {si(took, 's')} on {shown}: "
                                "are there loops in plain Python?")
    work, moved = call(exercise.work, arrays), _moved(arrays, device)
    roof = known["roof_for"](work)
    for _ in range(AGAIN):                                   # others slow a kernel down, they never make it faster
        run = measure(lambda: result_of(answer, moved), work=work, limit=LIMIT, device=device)
        share = attained(roof, run)
        if share >= exercise.least:
            break
    if run.inconclusive or run.spread > NOISY or any("host-bound" in text for text in run.warnings):
        return Verdict("right", f"{exercise.right} How near it comes to the roof is inconclusive now: run this again "
                                "on a quiet machine.")
    told = f"It takes {si(run.seconds, 's')} on {shown}: {100 * share:.0f} % of the roof"
    if share > ABOVE:
        return Verdict("unclear", f"inconclusive: the numbers are right, but nothing is faster than its roof. {told}: "
                                  "either the roof was measured in a slow moment (rk.sustained(fresh=True) measures "
                                  "it again), or the call does not do all the work each time.")
    if share < exercise.least:
        fault, question = WASTED[roof.bound(work, cold=False)]
        return Verdict("wrong", f"the numbers are right, but {fault}. {told}, and {100 * exercise.least:.0f} % are "
                                f"asked: {question}")
    return Verdict("right", f"{exercise.right} {told} here.")
