"""Is my answer right, what is off, and how far have I come? `check`, `hint` and `progress`."""

import contextlib
import json
import os
import random
import textwrap
from datetime import date

from . import cards, exercises
from .exercises import Blank, Form, Verdict, parameters

_hinted = {}         # exercise id: how many hints were given in this session


class Unsolved(AssertionError):
    """An exercise that is not right, where a test wants to know: one sentence in place of a traceback."""

    def _render_traceback_(self):
        return [str(self)]


def check(name, answer=None, *, seed=None, **known):
    """Judge an answer and print what is off; it raises only under nbval, nbgrader or ROOFLINE_KIT_STRICT=1.

    name:    the exercise, "04.2"
    answer:  a value, a function, a Run: what the exercise asks for
    seed:    of the random inputs, to see the same ones again
    known:   what the exercise's text asks to hand in besides, and roof= in place of this machine's own
    """
    try:
        seed = random.randrange(10**4) if seed is None else seed
        verdict = judge(exercises.find(name), answer, seed, known)
    except KeyError as problem:
        verdict = Verdict("wrong", problem.args[0])
    text = f"{name}: {verdict.text}"
    if verdict.state in ("wrong", "blank") and strict():
        raise Unsolved(text)
    _say(text)
    if verdict.state == "right" and not strict():
        _remember(name)


def judge(exercise, answer, seed, known):
    """The Verdict on an answer, whatever that answer is or does."""
    if answer is None or answer is ...:
        return Verdict("blank", "not answered yet")
    from .exercises import arrays, numbers, runs
    home = {"measure": runs, "build": arrays}.get(exercise.kind, numbers)
    try:
        verdict = home.judge(exercise, answer, _supplied(exercise, known), seed)
    except Blank:
        return Verdict("blank", "not answered yet")
    except Form as problem:
        return Verdict("wrong", str(problem))
    except Exception as problem:   # noqa: BLE001  a check must never stand in a learner's way
        return Verdict("wrong", f"this check cannot judge your answer ({type(problem).__name__}: {problem}).")
    if verdict.state != "right":
        return verdict
    return Verdict("right", " ".join(filter(None, ("right.", verdict.text, exercise.then))))


def _supplied(exercise, known):
    """The keywords of the call, and this machine's roof where something asks for it: it may take a while."""
    given = known.get("roof")
    asking = [exercise.reference, *(wrong for wrong, _ in exercise.slips.values())]
    if not given and any(callable(one) and "roof" in parameters(one) for one in asking):
        known = known | {"roof": _own_roof()}
    return known | {"roof_for": lambda work: given or _own_roof(work.dtype)}


def _own_roof(dtype=None):
    from .sustained import sustained
    return sustained(dtype)


def strict():
    """Whether a wrong answer is to fail the cell: for a test or a grader, not for a learner."""
    own = os.environ.get("ROOFLINE_KIT_STRICT")
    if own is not None:
        return own not in ("", "0")
    return "PYTEST_CURRENT_TEST" in os.environ or "NBGRADER_EXECUTION" in os.environ


def hint(name):
    """Print the next of an exercise's three hints; after the last one, all of them."""
    try:
        hints = exercises.find(name).hints
    except KeyError as problem:
        _say(f"{name}: {problem.args[0]}")
        return
    given = _hinted[name] = _hinted.get(name, 0) + 1
    for i in range(1, 4) if given > 3 else (given,):
        _say(f"{name}, hint {i} of 3: {hints[i - 1]}")


def _say(text):
    """Print in lines that break between words, which a notebook's own do not; for a grader in one line."""
    print(text if strict() else textwrap.fill(text, 96, subsequent_indent="  ", break_long_words=False,
                                              break_on_hyphens=False))


def progress():
    """Print which exercises are passed, lab by lab."""
    passed = _passed()
    for lab in exercises.labs():
        title, table = exercises.table(lab)
        done = [name for name in table if name in passed]
        points = [sum(table[name].points for name in names) for names in (done, table)]
        print(f"{title}  {len(done)} of {len(table)} passed, {points[0]} of {points[1]} points")
        for name, exercise in table.items():
            print(f"  {name}  {passed.get(name, 'open'):10}  {exercise.kind:8}  {exercise.ask}")


def _file():
    return cards.folder() / "progress.json"


def _passed():
    """{exercise id: date of the first pass}; empty where there is no file that can be read."""
    try:
        found = json.loads(_file().read_text("utf-8"))
        return {name: day for name, day in found.items() if isinstance(day, str)}
    except (OSError, ValueError, AttributeError):
        return {}


def _remember(name):
    """Note a pass in one step, so that nobody reads half a file; a read-only folder is no matter."""
    passed = {name: date.today().isoformat()} | _passed()
    with contextlib.suppress(OSError):
        _file().parent.mkdir(parents=True, exist_ok=True)
        cards.write(_file(), json.dumps(passed, indent=1).encode())
