import dataclasses
import importlib
import sys

import numpy as np
import pytest
from conftest import CPU, run_of

from roofline_kit.exercises import find
from roofline_kit.ops import dot
from roofline_kit.work import Work

checks = importlib.import_module("roofline_kit.check")  # rk.check is the function


def told(name, answer, **known):
    """The state and the text of the verdict on an answer."""
    return checks.judge(find(name), answer, 1, known)


def test_a_missing_keyword_of_the_check_cell_is_a_sentence():
    assert "also wants n=n" in told("99.4", run_of(dot(2**22), cold=True), roof=CPU).text


# runs


@pytest.mark.parametrize(
    ("changed", "state", "part"),
    [
        ({}, "right", "of what the roof allows"),
        ({"cold": False}, "wrong", "cold=True"),
        ({"warm": ()}, "wrong", "warm up"),
        ({"warnings": ("use random data",)}, "wrong", "dev.random"),
        ({"spread": 0.4}, "right", "The method is right; the number proves nothing now: spread 40 %"),
        ({"samples": (1.0,)}, "unclear", "too few"),
        ({"warnings": ("another process: treat this as inconclusive.",)}, "right", "proves nothing now: another"),
        ({"seconds": float("nan")}, "wrong", "which nothing takes"),
        ({"slower": 0.8}, "unclear", "25 % above its roof"),
        ({"slower": 0.2}, "wrong", "5 times faster than its roof"),
    ],
)
def test_a_run_is_judged_by_its_method(changed, state, part):
    n = 2**22
    verdict = told("99.4", run_of(dot(n), **{"cold": True, **changed}), n=n, roof=CPU)
    assert verdict.state == state
    assert part in verdict.text


def test_a_run_of_other_work_is_told_which_count_is_off():
    run = run_of(Work(2**24, 2**23), cold=True)
    assert "the flops of its work are twice" in told("99.4", run, n=2**22, roof=CPU).text


def test_no_run_or_a_run_without_work_is_told_so():
    assert "what rk.measure returns is asked, not 0.1" in told("99.4", 0.1, n=8, roof=CPU).text
    assert "work=" in told("99.4", run_of(None, cold=True), n=8, roof=CPU).text
    assert told("99.4", [], n=8, roof=CPU).text == "1 run is asked, not 0."


# kernels


@pytest.mark.parametrize(("spread", "part"), [(0.01, "% of the roof here"), (0.3, "is inconclusive now")])
def test_a_kernel_is_told_its_share_of_the_roof_where_the_clock_can_tell(monkeypatch, spread, part):
    monkeypatch.setattr("roofline_kit.exercises.arrays.measure",
                        lambda call, work, **given: call() is None or run_of(work, spread=spread))
    assert part in told("99.5", lambda x, gain: x * gain, roof=CPU).text


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (lambda x, gain: (x * gain).T, "transposed?"),
        (lambda x, gain: x * gain * np.nan, "results are NaN or infinite"),
        (lambda x, gain: 2 * x * gain, "the result is twice the right value"),
        (lambda x, gain: np.hstack([(x * gain)[:, :-2], 0 * x[:, -2:]]), "only the end of axis 1 is wrong"),
        (lambda x, gain: "done", "an array of real numbers is asked"),
        (lambda x, gain: x * (gain + 1j), "an array of real numbers is asked"),
        (lambda x, gain: 1.01 * x * gain, "the result is right to within 1 %"),
        (lambda x, gain: x @ gain, "the result has the shape"),
        (3, "a function of (x, gain) is asked"),
    ],
)
def test_a_wrong_kernel_is_told_where_it_is_wrong(answer, part):
    verdict = told("99.5", answer, roof=CPU)
    assert verdict.state == "wrong"
    assert part in verdict.text


def test_a_kernel_may_write_into_its_output():
    assert told("99.9", lambda a, b, out: np.add(a, b, out=out)).state == "right"
    assert told("99.9", lambda a, b, out: out.__setitem__(slice(None), a + b)).state == "right"
    assert told("99.9", lambda a, b, out: ...).state == "blank"
    assert "nothing was written into out" in told("99.9", lambda a, b, out: None).text
    assert "nothing was written into out" in told("99.9", lambda a, b, out: a + b).text


@pytest.mark.parametrize(("answer", "part"), [
    (lambda x, gain: np.vstack([(x * gain)[:40], 0 * x[40:]]), "right on small arrays, but on large ones"),
    (lambda x, gain: x * gain if len(x) < 64 else 1 / 0, "your function raised ZeroDivisionError"),
    (lambda x, gain: sys.exit(3), "your function raised SystemExit"),
])
def test_a_kernel_has_to_be_right_on_large_arrays_too(answer, part):
    assert told("99.5", answer, roof=CPU).state == "wrong" and part in told("99.5", answer, roof=CPU).text


def test_a_kernel_above_its_roof_is_no_record(monkeypatch):
    monkeypatch.setattr("roofline_kit.exercises.arrays.measure", lambda call, work, **_: run_of(work, slower=0.5))
    verdict = told("99.5", lambda x, gain: x * gain, roof=CPU)
    assert verdict.state == "unclear" and "200 % of the roof" in verdict.text


def test_a_kernel_in_plain_python_is_not_timed(monkeypatch):
    monkeypatch.setattr("roofline_kit.exercises.arrays.SLOW", 0)
    assert "loops in plain Python?" in told("99.5", lambda x, gain: x * gain, roof=CPU).text


def test_a_kernel_may_not_change_its_inputs():
    assert "changes its input x" in told("99.5", lambda x, gain: np.multiply(x, gain, out=x)).text


def test_a_kernel_that_is_right_but_moves_too_much_is_told_so(monkeypatch):
    exercise = dataclasses.replace(find("99.5"), least=0.5)
    for slower, state in ((1.2, "right"), (3.0, "wrong")):
        monkeypatch.setattr("roofline_kit.exercises.arrays.measure",
                            lambda call, work, slower=slower, **_: run_of(work, slower=slower))
        verdict = checks.judge(exercise, lambda x, gain: x * gain, 1, {"roof": CPU})
        assert verdict.state == state and "% of the roof" in verdict.text
