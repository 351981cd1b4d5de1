"""The prediction score: what a turn, an operation and the whole are summed up to, without a clock."""

import importlib.util
from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import pytest
from conftest import CPU, ROOT, run_of

from roofline_kit.ops import gemm

SPEC = importlib.util.spec_from_file_location("predictions", ROOT / "benchmarks/predictions.py")
predictions = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(predictions)
SOURCE = predictions.LESSON.read_text("utf-8")
WORK = gemm(1024, 1024, 1024)


def a_turn(ratio, derived="memory", found="memory", steady=True):
    return {"predicted": ratio, "measured": 1.0, "ratio": ratio, "ratio_by_card": ratio / 2, "derived": derived,
            "found": found, "steady": steady, "tries": 1}


def one_turn(readings, run):
    """What `turn` makes of a run, while memory reads one of these roofs after the other."""
    lesson = {"works": {"product": WORK}, "calls": {"product": None}, "runs": {},
              "symptom": str, "gain_of_closeness": lambda name: "compute"}
    memory = SimpleNamespace(roof=lambda card, dtype: next(left))
    first, *others = readings
    left = iter(others)
    with mock.patch.object(predictions.rk, "measure", lambda *_, **__: run), \
            mock.patch.object(predictions, "roofline", lambda card, dtype: CPU):
        return predictions.turn("product", lesson, None, memory, first)[0]


def test_an_operation_is_judged_by_the_medians_of_its_turns():
    found = predictions.summary("lookup", [a_turn(0.9), a_turn(0.3, steady=False), a_turn(0.95)])
    assert (found["ratio"], found["unsteady"], found["agrees"], found["within_target"]) == (0.9, 1, True, True)
    assert found["error"] == pytest.approx(0.1)
    assert found["error_by_card"] == pytest.approx(0.55)


def test_a_fixed_cost_may_be_off_by_two_and_bytes_by_a_quarter():
    assert not predictions.summary("lookup", [a_turn(0.7)])["within_target"]
    assert predictions.summary("pipeline", [a_turn(0.7, "latency", "latency")])["within_target"]


def test_the_class_is_the_one_that_most_turns_found():
    turns = [a_turn(0.9), a_turn(0.9, found="compute"), a_turn(0.9, found="compute")]
    assert not predictions.summary("softmax", turns)["agrees"]


def test_a_busy_turn_says_nothing_about_the_class():
    busy = a_turn(0.9, found="inconclusive")
    assert predictions.summary("lookup", [busy, busy, a_turn(0.9)])["agrees"]
    assert predictions.summary("lookup", [busy])["class"] == "inconclusive"


def test_the_score_is_the_median_error_of_all():
    entries = [predictions.summary(name, [a_turn(ratio)]) for name, ratio in (("a", 0.9), ("b", 0.5), ("c", 1.3))]
    found = predictions.report(CPU, entries, 1)
    assert found["median_error"] == pytest.approx(0.3)
    assert [entry["name"] for entry in found["operations"]] == ["a", "b", "c"]
    assert "median error 30.0%" in list(predictions.table(found))[-1]


def test_a_prediction_takes_the_memory_of_before_and_after():
    slower = replace(CPU, bandwidth=CPU.bandwidth / 1.05)
    found = one_turn([CPU, slower], run_of(WORK, CPU, 1.25))
    assert found["predicted"] == pytest.approx((CPU.seconds(WORK) + slower.seconds(WORK)) / 2)
    assert found["ratio_by_card"] == pytest.approx(0.8)
    assert found["steady"]


def test_a_turn_is_taken_again_while_memory_changes_its_speed():
    fast = replace(CPU, bandwidth=2 * CPU.bandwidth)
    assert one_turn([CPU, fast, fast], run_of(WORK, CPU))["tries"] == 2
    unsteady = one_turn([CPU, fast] * predictions.TRIES, run_of(WORK, CPU))
    assert (unsteady["tries"], unsteady["steady"]) == (predictions.TRIES, False)


def test_the_lesson_has_what_the_score_needs():
    before, measure = SOURCE.split("\n## Measure\n")
    assert len([code for code in predictions.CELL.findall(measure) if code.startswith(predictions.EXPERIMENT)]) == 1
    assert "\noperations = {" in before
    assert "works[name] = " in before
