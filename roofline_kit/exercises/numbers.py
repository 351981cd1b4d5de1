"""Is this number, this label or this function of sizes right, and if not, what is off?"""

import math
from difflib import get_close_matches

import numpy as np

from ..units import si
from ..work import Work
from . import Blank, Form, Verdict, call, draw, example, parameters, result_of, time_box
from .factors import explain

TRIALS = 12          # sets of random inputs a function is asked for
UNITS = {"flops": "FLOP", "nbytes": "B", "intensity": "FLOP/B", "seconds": "s", "bandwidth": "B/s",
         "bytes_per_s": "B/s", "peak": "FLOP/s", "flop_per_s": "FLOP/s"}


def judge(exercise, answer, known, seed):
    """The verdict on a derive, predict or diagnose answer. Errors: Blank, Form."""
    rng = np.random.default_rng(seed)
    inputs = [draw(exercise.inputs, rng) for _ in range(TRIALS if exercise.inputs else 1)]
    with time_box():
        given = [_given(exercise, answer, one, known) for one in inputs]
    right = [call(exercise.reference, known | one) for one in inputs]
    if exercise.labels:
        return _labels(exercise, given, right, inputs, known)
    return _numbers(exercise, given, right, inputs, known, seed)


def _given(exercise, answer, inputs, known):
    if exercise.inputs:
        if not callable(answer):
            raise Form(f"a function of ({', '.join(inputs)}) is asked, not {_what(answer)}: "
                       "hand in its name, without parentheses.")
        return filled(result_of(answer, inputs))
    if callable(answer):                                   # a value wrapped in a function is taken as well
        if set(parameters(answer)) - set(known):
            raise Form("a value is asked, not a function: call it and hand in the result.")
        answer = result_of(answer, {name: known[name] for name in parameters(answer)})
    return filled(answer)


def filled(answer):
    """The answer itself. Errors: Blank while it, or a part of it, is None or the Ellipsis of the stub."""
    for part in answer if isinstance(answer, (tuple, list)) else ():
        filled(part)
    if answer is None or answer is ... or answer is NotImplemented:
        raise Blank
    return answer


def _what(value):
    """A few words for a value of the wrong kind."""
    if isinstance(value, str):
        return f"the text {value!r}"
    if isinstance(value, (int, float, complex)):
        return f"{value!r}"
    return f"an array of shape {value.shape}" if getattr(value, "shape", ()) else f"a {type(value).__name__}"


def number(value, quantity=""):
    """A float from any sensible number: int, Fraction, NumPy or CuPy scalar, 0-d array, a Work's `quantity`.

    Errors:  Form that says what came instead
    """
    if quantity and hasattr(value, quantity) and not hasattr(value, "ndim"):   # arrays have their own nbytes
        value = getattr(value, quantity)
    if isinstance(value, Work):
        raise Form("a number is asked, not a Work: take its .flops, .nbytes or .intensity.")
    if getattr(value, "size", 0) == 1 and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, (bool, complex, str)):
        raise Form(f"a number is asked, not {_what(value)}.")
    try:
        result = float(value)
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        raise Form(f"one number is asked, not {_what(value)}.") from None
    if math.isnan(result):
        raise Form("it comes back as NaN (not a number): look for 0/0 or infinity minus infinity.")
    return result


def parts(answer, right, exercise):
    """{name: number} of an answer, in the form of the right one."""
    if isinstance(right, Work):
        if isinstance(answer, Work):
            return {"flops": float(answer.flops), "nbytes": float(answer.nbytes)}
        names = ("flops", "nbytes")
    elif isinstance(right, (tuple, list)):
        names = exercise.names or tuple(f"value {i}" for i in range(1, len(right) + 1))
    else:
        return {"": number(answer, exercise.quantity)}
    if not isinstance(answer, (tuple, list, np.ndarray)) or len(answer) != len(names):
        asked = "a Work or the pair flops, nbytes" if isinstance(right, Work) else f"a row of {len(names)}"
        came = f"{len(answer)} numbers" if isinstance(answer, (tuple, list)) else _what(answer)
        raise Form(f"{asked} is asked, not {came}.")
    return {name: number(value) for name, value in zip(names, answer)}


def _nearest(given, right, quantity):
    """Of several right numbers the one that the answer is nearest to, as a ratio."""
    if not isinstance(right, (set, frozenset)):
        return right
    found = number(given, quantity)
    return min(right, key=lambda one: abs(math.log(one / found))) if 0 < found < math.inf else min(right)


def _numbers(exercise, given, right, inputs, known, seed):
    right = [_nearest(g, r, exercise.quantity) for g, r in zip(given, right)]
    rows = [(parts(g, r, exercise), parts(r, r, exercise)) for g, r in zip(given, right)]
    tolerance = exercise.tolerance or (1e-6 if exercise.inputs else 5e-3)
    if all(_right(g[name], r[name], tolerance, exercise.factor) for g, r in rows for name in r):
        return Verdict("right", exercise.right)
    if exercise.factor:
        tolerance = exercise.tolerance or 0.05             # a prediction may be typed with two digits
    for wrong, sentence in exercise.slips.values():
        slip = [parts(call(wrong, known | one), r, exercise) for one, r in zip(inputs, right)]
        if all(_right(g[name], s[name], tolerance) for (g, _), s in zip(rows, slip) for name in s):
            return Verdict("wrong", sentence)
    if any(math.isinf(g[name]) and not math.isinf(r[name]) for g, r in rows for name in r):
        raise Form("it comes back infinite: look for a division by zero, or a power in place of a product.")
    return Verdict("wrong", _off(exercise, rows, inputs, tolerance, seed))


def _right(given, right, tolerance, factor=None):
    if math.isinf(given) or math.isinf(right):             # nothing finite is near to infinity
        return given == right
    if factor:
        return right / factor <= given <= right * factor
    return given == right or abs(given - right) <= tolerance * abs(right)


def _off(exercise, rows, inputs, tolerance, seed):
    """The sentence for a wrong number that no slip explains: which part, by how much, for which inputs."""
    names = list(rows[0][1])
    bad = next(n for n in names if not all(_right(g[n], r[n], tolerance, exercise.factor) for g, r in rows))
    good = [n for n in names if all(_right(g[n], r[n], tolerance, exercise.factor) for g, r in rows)]
    text = explain([g[bad] for g, _ in rows], [r[bad] for _, r in rows], inputs)
    lead = (f"{', '.join(good)} right; " if good else "") + (f"{bad}: " if bad else "yours is ")
    if not exercise.inputs:
        near = f"; within {exercise.factor:g} times is right" if exercise.factor else ""
        return f"{lead}{text}{near}".removesuffix("?") + ("?" if text.endswith("?") and not near else ".")
    i = next(i for i, (g, r) in enumerate(rows) if not _right(g[bad], r[bad], tolerance))
    unit = UNITS.get(bad or exercise.quantity)
    shown = si(rows[i][0][bad], unit) if unit else f"{rows[i][0][bad]:.6g}"
    return f"{lead}{text} (it gives {shown} {example(inputs[i])}; seed {seed})."


def label(value):
    """A label in one spelling: "Memory-bound" is "memory", True is "yes"."""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if not isinstance(value, str):
        raise Form(f"a label in quotes is asked, not {_what(value)}.")
    return " ".join(value.lower().replace("-", " ").replace("_", " ").split()).removesuffix(" bound")


def _labels(exercise, given, right, inputs, known):
    for answer, accepted, one in zip(given, right, inputs):
        several = isinstance(accepted, tuple)
        options = [_set(option) for option in accepted] if several else [_set(accepted)]
        if several and not (isinstance(answer, (tuple, list)) and len(answer) == len(options)):
            raise Form(f"{len(options)} labels in a row are asked, not {_what(answer)}.")
        chosen = [_listed(value, exercise.labels) for value in (answer if several else [answer])]
        wrong = [i for i, (choice, good) in enumerate(zip(chosen, options)) if choice not in good]
        if wrong:
            return Verdict("wrong", _mislabelled(exercise, chosen, wrong, one, known))
    return Verdict("right", exercise.right)


def _set(option):
    return {label(o) for o in option} if isinstance(option, (set, frozenset)) else {label(option)}


def _listed(value, labels):
    """The label, if it is one of those to choose from."""
    choice = label(value)
    if choice not in map(label, labels):
        close = get_close_matches(choice, list(map(label, labels)), n=1)
        meant = f": did you mean {close[0]!r}?" if close else "."
        raise Form(f"{value!r} is not one of {', '.join(labels)}{meant}")
    return choice


def _mislabelled(exercise, chosen, wrong, inputs, known):
    for slip, sentence in exercise.slips.values():
        slip = call(slip, known | inputs)
        if [label(value) for value in (slip if isinstance(slip, (tuple, list)) else [slip])] == chosen:
            return sentence
    where = f" {example(inputs)}" if inputs else ""
    if len(chosen) == 1:
        return f"{chosen[0]!r} is not what the model gives{where}: compare its times."
    return (f"{len(chosen) - len(wrong)} of {len(chosen)} are right{where}; "
            f"the first that is not: {chosen[wrong[0]]!r} in place {wrong[0] + 1}.")
