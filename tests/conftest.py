"""What several tests need: the fixture lab, two rooflines by hand, answers made from an exercise table."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "16")       # as course.py and the kit set it, before NumPy is here

import numpy as np
import pytest
from halves import pytest_runtestloop  # noqa: F401  pytest finds it here

from roofline_kit import exercises
from roofline_kit.exercises import call, draw, parameters
from roofline_kit.roofline import Roofline
from roofline_kit.timing import Run

ROOT = Path(__file__).parents[1]
FIXTURES = ROOT / "tests/fixtures"
sys.path.insert(0, str(ROOT / "source"))
exercises.__path__.append(str(FIXTURES))  # makes lab99 one of the labs

CPU = Roofline(peak=140e9, bandwidth=31e9, vector_peak=186e9, overhead=1e-6, name="a laptop, by hand")
GPU = Roofline(peak=790e12, bandwidth=3.0e12, vector_peak=60e12, overhead=2.5e-6, name="a card, by hand")


def pytest_addoption(parser):
    parser.addoption("--pictures", help="a folder to keep the browser tests' screenshots in")


def pytest_configure(config):
    """Keep the tests and their kernels out of the user's cache; one machine card serves them all."""
    config.cache_folder = os.environ["ROOFLINE_KIT_CACHE"] = tempfile.mkdtemp(prefix="roofline-tests-")


def pytest_unconfigure(config):
    shutil.rmtree(config.cache_folder, ignore_errors=True)


@pytest.fixture(scope="session")
def pictures(request, tmp_path_factory):
    """The folder for screenshots: the one asked for, or one that goes with the tests."""
    asked = request.config.getoption("--pictures")
    folder = Path(asked) if asked else tmp_path_factory.mktemp("pictures")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def run_of(work, roof=CPU, slower=1.2, **changed):
    """A Run of that Work, as a careful learner gets it, or with some fields changed."""
    cold = changed.get("cold", False)
    seconds = slower * (roof.seconds(work, cold) if work else 1e-3)
    return Run(
        **{
            "name": "run",
            "seconds": seconds,
            "spread": 0.01,
            "samples": (seconds,) * 30,
            "work": work,
            "warm": (2 * seconds,),
            **changed,
        }
    )


def known_for(exercise, roof):
    """The keywords that the check cell of this exercise hands in: a number where the table has no default."""
    names = [
        name
        for thing in (exercise.reference, *(wrong for wrong, _ in exercise.slips.values()))
        if callable(thing)
        for name in parameters(thing)
    ]
    inputs = draw(exercise.inputs, _rng())
    return {"roof": roof} | {
        name: 2**22
        for name in names
        if name not in inputs and name != "roof" and (exercise.kind in ("measure", "predict", "diagnose"))
    }


def answer_from(exercise, thing, roof):
    """An answer that gives what `thing`, a reference or a slip of the table, gives."""
    known = known_for(exercise, roof)
    if exercise.kind == "measure":
        works = call(thing, known)
        cold = {"cold": bool(exercise.cold)}
        if isinstance(works, (tuple, list)):
            return [run_of(work, roof, **cold) for work in works]
        return run_of(works, roof, **cold)
    if not exercise.inputs:
        return chosen(call(thing, known))
    names = tuple(draw(exercise.inputs, _rng()))
    if exercise.out:
        def write(*args):
            given = dict(zip(names, args))
            given[exercise.out][...] = call(thing, known | given)
        return write
    return lambda *args: chosen(call(thing, known | dict(zip(names, args))))


def chosen(result):
    """The same with one of the labels where a table accepts several."""
    if isinstance(result, (set, frozenset)):
        return min(result)
    return tuple(map(chosen, result)) if isinstance(result, tuple) else result


def _rng():
    return np.random.default_rng(0)


@pytest.fixture
def learner(monkeypatch, tmp_path):
    """An interactive session with a cache folder of its own."""
    monkeypatch.setenv("ROOFLINE_KIT_STRICT", "0")
    monkeypatch.setenv("ROOFLINE_KIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
