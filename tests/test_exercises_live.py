import dataclasses
import importlib
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import CPU, run_of

from roofline_kit.cuda import CudaError, cuda
from roofline_kit.exercises import find
from roofline_kit.ops import dot, gemm
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


def test_the_run_that_is_inconclusive_among_several_is_named():
    exercise = dataclasses.replace(find("99.4"), reference=(dot(8), dot(8)), slips={})
    runs = [run_of(dot(8), cold=True), run_of(dot(8), cold=True, samples=(1.0,))]
    verdict = checks.judge(exercise, runs, 1, {"roof": CPU})
    assert verdict.state == "unclear" and verdict.text.startswith("inconclusive, run 2: 1 samples")


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
    assert "adds to the old numbers in out" in told("99.9", lambda a, b, out: np.add(out, a + b, out=out)).text


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


@pytest.mark.parametrize("work, said", [(gemm(999, 999, 999), "the arithmetic waits too often"),
                                        (dot(10**7), "it takes longer than its bytes do"),
                                        (dot(8), "it takes too long between two steps")])
def test_a_slow_kernel_is_told_what_its_own_bound_asks_for(monkeypatch, work, said):
    exercise = dataclasses.replace(find("99.5"), least=0.5, work=lambda x, gain: work)
    monkeypatch.setattr("roofline_kit.exercises.arrays.measure", lambda call, work, **_: run_of(work, slower=3.0))
    assert said in checks.judge(exercise, lambda x, gain: x * gain, 1, {"roof": CPU}).text


# kernels in CUDA C++

ADD = find("99.9").alternatives[-1]


def test_a_kernel_in_cuda_may_answer_as_text_as_a_file_or_compiled(tmp_path):
    (tmp_path / "add.cu").write_text(ADD)
    for answer in (ADD, tmp_path / "add.cu", cuda(ADD, "add", "cpu")):
        verdict = told("99.9", answer)
        assert verdict.state == "right" and "bytes loaded, to the byte what is asked" in verdict.text


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("if (i < n) ", "", "reads a["),
        ("a[i] + b[i];", "a[i] + b[i]", "line 3 does not compile"),
        ("a[i] + b[i]", "a[i] - b[i]", "That subtracts."),
        ("a[i] + b[i]", "2 * (a[i] + b[i])", "the result is twice the right value"),
        ("a[i] + b[i]", "a[i] + b[i] + 0 * a[0]", "1.5 times the"),
        ("void add", "void sum", "did you mean 'sum'"),
        ("if (i < n)", "if (i + 1 < n)", "not written"),
        ("int n)", "float n)", "is not a int32"),
    ],
)
def test_a_wrong_kernel_in_cuda_is_told_why(old, new, part):
    verdict = told("99.9", ADD.replace(old, new))
    assert verdict.state == "wrong" and part in verdict.text


def test_a_kernel_that_loads_too_much_is_told_its_line_and_what_to_do():
    text = told("99.9", ADD.replace("a[i] + b[i]", "a[i] + b[i] + 0 * b[n - 1]")).text
    assert "most of it in line 3, `if (i < n) out[i] =" in text and text.endswith("load each number once.")


def test_a_kernel_that_loads_less_than_is_asked_is_right():
    generous = dataclasses.replace(find("99.9").cuda, most=lambda a: 9 * len(a))
    verdict = checks.judge(dataclasses.replace(find("99.9"), cuda=generous), ADD, 1, {})
    assert verdict.state == "right" and "bytes loaded, less than the" in verdict.text


def test_without_a_compiler_a_kernel_in_cuda_is_inconclusive(monkeypatch):
    def missing():
        raise CudaError("there is no compiler: install one.")

    monkeypatch.setattr("roofline_kit.exercises.sources.compiler", missing)
    assert told("99.9", ADD) == ("unclear", "inconclusive: there is no compiler: install one.")
    assert told("99.9", lambda a, b, out: np.add(a, b, out=out)).state == "right"


def test_text_is_no_answer_where_a_function_is_asked():
    assert "a function of (x, gain) is asked, not the text" in told("99.5", "ADD").text
    assert "or CUDA C++ as text, is asked, not 3" in told("99.9", 3).text


@pytest.mark.parametrize(("factor", "state"), [(1, "right"), (2, "wrong")])
def test_where_there_is_a_gpu_the_kernel_has_to_be_right_on_it_too(monkeypatch, factor, state):
    def raw_kernel(xp, source, name):
        return lambda grid, block, args, shared_mem: np.multiply(args[0] + args[1], factor, out=args[2])

    monkeypatch.setattr("roofline_kit.gpu.raw_kernel", raw_kernel)
    device = SimpleNamespace(kind="gpu", xp=np, wait=lambda: None)
    assert told("99.9", ADD, device=device).state == state
