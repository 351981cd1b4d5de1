"""Every sentence about a measurement: when it is said, and that it is one sentence."""

import functools
import re

import numpy as np
import pytest

from roofline_kit.doubts import INCONCLUSIVE, MeasureError, doubts, only_constant, refuse, refuse_result
from roofline_kit.timing import Run
from roofline_kit.work import Work

CALM = Run("calm", 1.0, 0.01, (1.0,) * 9, Work(1, 1))
RANDOM, ONES = np.random.default_rng(0).random((4, 4)), np.ones((4, 4))


def said(run=CALM, **facts):
    return list(doubts(run, **{"least": 9, "aim": 0.05, "limit": 2.0} | facts))


def no_call(call=print, work=None, cold=False, clock=None, limit=2.0):
    with pytest.raises(MeasureError) as error:
        refuse(call, work, cold, clock, limit)
    return str(error.value)


def test_a_good_run_raises_no_doubt():
    assert said() == [] == said(foreign=None) == said(foreign=0.3)


@pytest.mark.parametrize(("spread", "proves"), [(0.06, True), (0.25, True), (0.26, False)])
def test_a_noisy_run_proves_nothing_beyond_a_quarter(spread, proves):
    text, = said(Run("noisy", 1.0, spread, (1.0,) * 9))
    assert text.startswith("noisy") and (INCONCLUSIVE in text) != proves


@pytest.mark.parametrize(("facts", "start"), [
    ({"foreign": 0.31}, "other processes used 31 %"), ({"constant": True}, "every array that the call names"),
    ({"host_bound": True}, "host-bound"), ({"least": 30}, "only 9 of at least 30"),
    ({"limit": 0.5}, "one call takes 1 s"), ({"aim": 0.001}, "noisy"),
    ({"roof": type("Roof", (), {"seconds": lambda self, *how: 2.0})()}, "100 % faster than its roof"),
])  # fmt: skip
def test_each_fact_raises_exactly_its_own_doubt_in_one_sentence(facts, start):
    text, = said(**facts)
    assert text.startswith(start) and text.endswith(".") and not re.search(r"\. [A-Z]", text)


def test_a_result_in_place_of_the_call_is_told_apart():
    assert "not measure(a @ b)" in no_call(RANDOM @ RANDOM) == no_call(RANDOM[0] @ RANDOM[0])


def test_something_else_in_place_of_the_call_is_refused():
    assert no_call(3).startswith("measure wants something to call, not 3")


@pytest.mark.parametrize("limit", [0, -1, float("nan"), float("inf"), "2", None, True])
def test_a_time_box_is_a_positive_finite_number(limit):
    assert no_call(limit=limit).startswith(f"limit is {limit!r}")


def test_a_time_box_may_be_a_numpy_number():
    assert refuse(print, None, False, None, np.float32(2)) is None


def test_wrong_work_or_clock_is_refused():
    assert "must be a Work" in no_call(work=3) and "no clock 'sundial'" in no_call(clock="sundial")
    assert "never cold" in no_call(cold=True, clock="throughput") and "='graph'" in no_call(cold=True, clock="graph")


def test_a_lazy_result_has_computed_nothing():
    async def later():
        pass
    waiting = later()
    for lazy in ((x for x in "ab"), waiting):
        with pytest.raises(MeasureError, match="has computed nothing"):
            refuse_result(lazy)
    waiting.close()


def test_a_returned_function_was_not_called():
    with pytest.raises(MeasureError, match=r"write measure\(f\)"):
        refuse_result(len)


@pytest.mark.parametrize("result", [None, RANDOM, 1.0, (RANDOM, 2)])
def test_any_other_result_will_do(result):
    assert refuse_result(result) is None


def test_constant_arrays_are_found_in_closures_globals_defaults_and_partials():
    zeros = np.zeros((4, 4))
    calls = [lambda: zeros @ zeros, lambda: ONES @ ONES, lambda x=zeros: x + x, zeros.sum,
             functools.partial(np.add, ONES, ONES), lambda parts=[zeros]: parts[0].sum()]
    assert [only_constant(call) for call in calls] == [True] * 6


def test_one_array_of_random_data_is_enough():
    assert not only_constant(lambda: RANDOM @ ONES)
    assert not only_constant(functools.partial(np.add, RANDOM, ONES))


def test_a_call_without_arrays_is_not_called_constant():
    number = np.float32(1)
    assert not only_constant(lambda: sum(range(9)) + number) and not only_constant(len)
    assert not only_constant(lambda kind=np.float32: kind(number))


def test_a_transposed_or_large_constant_array_is_constant_too():
    flat = np.ones((1000, 100)).T
    assert only_constant(lambda: flat + flat)
