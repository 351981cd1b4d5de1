"""The verdict: exact where time belongs to the test, with wide margins where it is the machine's own."""

import importlib
import itertools
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from conftest import CPU

from roofline_kit import probes
from roofline_kit.datasheets import datasheet
from roofline_kit.decide import NEXT, Round, decide
from roofline_kit.diagnose import diagnose
from roofline_kit.doubts import MeasureError
from roofline_kit.roofline import Times
from roofline_kit.timing import Run
from roofline_kit.work import Work

home = importlib.import_module("roofline_kit.diagnose")        # the package's own name is the function
CALL = 0.25e-6            # s of the cheapest library call


def rounds(seconds, memory=0.0, compute=0.0, latency=0.0, host=0.0, count=12):
    return [Round(seconds, Times(memory, compute, latency), host, CALL)] * count


def bound(*given, executed=0, **named):
    options = {name: named.pop(name) for name in ("counted", "foreign", "cores", "waits") if name in named}
    return decide(rounds(*given, **named), executed=executed, **options)[0]


@pytest.mark.parametrize("largest", Times._fields)
def test_the_largest_of_the_three_times_is_the_bound(largest):
    assert bound(1.1, **{"memory": 0.1, "compute": 0.1, "latency": 0.1} | {largest: 0.9}) == largest


@pytest.mark.parametrize(("memory", "expected"), [(0.79, "compute"), (0.81, "balanced"), (1.24, "balanced"),
                                                  (1.26, "memory")])
def test_two_times_within_a_fifth_are_balanced(memory, expected):
    assert bound(1.5, memory=memory, compute=1.0) == expected


@pytest.mark.parametrize(("host", "expected"), [(0.49, "memory"), (0.51, "host")])
def test_python_over_half_of_the_time_is_host_bound(host, expected):
    assert bound(1.0, memory=0.9, host=host) == expected


@pytest.mark.parametrize(("each", "expected"), [(CALL / 2, "host"), (2 * CALL, "inconclusive")])
def test_time_that_the_roof_does_not_explain_is_python_s_if_an_instruction_begins_all_the_time(each, expected):
    assert bound(1.0, memory=0.01, executed=1 / each) == expected


@pytest.mark.parametrize(("seconds", "expected"), [(2.9, "memory"), (3.1, "inconclusive")])
def test_three_times_the_predicted_time_is_not_explained_by_bytes(seconds, expected):
    assert bound(seconds, memory=1.0) == expected


def test_a_call_on_one_of_two_cores_may_take_twice_as_long():
    assert bound(5.0, memory=1.0, cores=2) == "memory"


@pytest.mark.parametrize(("seconds", "expected"), [(9.9, "latency"), (10.1, "inconclusive")])
def test_a_launch_may_cost_ten_times_the_cheapest(seconds, expected):
    assert bound(seconds, latency=1.0) == expected


@pytest.mark.parametrize(("seconds", "expected"), [(0.8, "memory"), (0.7, "inconclusive")])
def test_faster_than_the_roof_is_no_verdict(seconds, expected):
    assert bound(seconds, memory=1.0) == expected


@pytest.mark.parametrize(("seconds", "expected"), [(0.34, "latency"), (0.33, "inconclusive")])
def test_launches_may_cost_a_third_of_the_probe_s_and_no_less(seconds, expected):
    assert bound(seconds, latency=1.0) == expected


@pytest.mark.parametrize(("foreign", "expected"), [(None, "memory"), (0.29, "memory"), (0.31, "inconclusive")])
def test_foreign_load_is_inconclusive_whatever_the_times_say(foreign, expected):
    assert bound(1.0, memory=0.9, foreign=foreign) == expected


@pytest.mark.parametrize(("share", "expected"), [(0.0, "memory"), (1.0, "inconclusive")])
def test_rounds_that_contradict_each_other_are_inconclusive(share, expected):
    fast = [Round(1.0 + i / 100, Times(0.9, 0.5 + share * 0.7 * (i % 3 == 0), 0.0), 0.0, CALL) for i in range(10)]
    slow = [Round(3.0, Times(0.9, 2.0, 0.0), 0.0, CALL)] * 10
    assert decide(fast + slow)[0] == expected


def test_a_call_that_waits_most_of_the_time_is_inconclusive():
    waiting = [one._replace(busy=0.4) for one in rounds(1.0, memory=0.9)]
    bound, why, _ = decide(waiting)
    assert bound == "inconclusive" and "40% of the time" in why


def test_a_clock_of_the_cores_that_ticks_rarely_is_right_on_average():
    ticks = [Round(3.5 + i / 1000, Times(1.0, 0.0, 0.0), busy=3.0 * (i % 3 == 0)) for i in range(12)]
    assert [decide(ticks, cores=cores)[0] for cores in (1, 2)] == ["inconclusive", "memory"]


def test_slow_rounds_do_not_count():
    disturbed = [Round(50.0, Times(0.9, 40.0, 0.0), 49.0, CALL)] * 10
    assert decide(rounds(1.0, memory=0.9) + disturbed)[0] == "memory"


def test_without_a_count_only_the_host_is_recognised():
    assert bound(1.0, host=0.6, counted=False) == "host"
    assert bound(1.0, memory=0.9, counted=False) == "inconclusive"


@pytest.mark.parametrize(("latency", "expected"), [(0.6, "latency"), (0.1, "host")])
def test_a_gpu_that_waits_is_bound_by_launches_or_by_what_comes_between_them(latency, expected):
    assert bound(1.0, compute=0.2, latency=latency, waits=True) == expected


def test_every_bound_has_a_next_step():
    assert set(NEXT) == {"memory", "compute", "latency", "host", "balanced"}
    assert all(text.endswith(".") for text in NEXT.values())


def test_the_roof_is_taken_at_the_rates_of_the_moment():
    work = Work(flops=186e9, nbytes=31e9, launches=10**6)
    times = home._scaled(CPU, work, True, {"memory": 2.0, "compute": 0.5, "latency": 3.0})
    assert times == pytest.approx((2.0, 0.5, 3.0))


# what is counted


def loop(turns):
    total = 0
    for i in range(turns):
        total += i
    return total


def test_instructions_are_counted_by_execution():
    one, two, three = (probes.instructions(lambda n=n: loop(n))[0] for n in (100, 200, 300))
    assert three - two == two - one > 300


def test_what_a_library_does_inside_is_no_instruction_of_python():
    x = np.ones(100_000)
    assert probes.instructions(lambda: np.add(x, x))[0] < 50


def test_a_count_that_takes_too_long_is_of_a_part_and_says_of_how_much(monkeypatch):
    ticks = itertools.count()
    monkeypatch.setattr(probes.time, "perf_counter", lambda: float(next(ticks)))
    count, share = probes.instructions(lambda: loop(10_000), limit=1.5, took=4.0)
    assert count == 2 * (probes.LOOK + 1) and share == 0.75


def test_counting_leaves_another_tracer_in_place():
    def other(*_):
        return None

    before = sys.gettrace()
    sys.settrace(other)
    try:
        probes.instructions(lambda: loop(3))
        assert sys.gettrace() is other
    finally:
        sys.settrace(before)


# on this machine, whatever else it does


@pytest.fixture
def alone(monkeypatch):
    """Other processes are left out of account: a test machine is rarely quiet."""
    monkeypatch.setattr(home, "foreign_load", lambda mark: 0.0)


def test_a_loop_of_python_is_host_bound(alone):
    found = diagnose(lambda: loop(20_000), Work(20_000, 0, dtype="float64"), CPU)
    assert found.bound == "host" and found.run.seconds > 0
    assert "Leave Python" in found.next and "host-bound" in repr(found)


def test_many_calls_on_few_numbers_are_latency_bound(alone):
    x, out = np.random.default_rng(0).standard_normal((2, 16))
    roof = replace(CPU, overhead=probes.probes(None, CPU)["call"]())     # of a call on this machine, as a card has it

    def chain():
        for _ in range(300):
            np.add(x, x, out)

    measured = home.diagnose(chain, Work(300 * 16, 300 * 3 * 128, launches=300, dtype="float64"), roof)
    assert measured.bound == "latency"
    assert measured.times.latency > measured.host > 0


def test_planted_load_is_inconclusive(monkeypatch):
    monkeypatch.setattr(home, "foreign_load", lambda mark: 0.6)
    found = diagnose(lambda: loop(20_000), Work(20_000, 0), CPU, limit=0.1)
    assert found.bound == "inconclusive" and "60% of the machine" in found.evidence[0]


# what cannot be diagnosed


def fails(text="", error=ValueError):
    raise error(text)


@pytest.mark.parametrize(("call", "expected"), [
    (lambda: 1 / 0, r"raised ZeroDivisionError \(division by zero\): run it once without"),
    (lambda: fails("a line\nand another"), r"raised ValueError \(a line\): run"),
    (lambda: fails(), "raised ValueError: run"),
    (lambda: sys.exit(3), r"raised SystemExit \(3\)"),
    (lambda argument: argument, "raised TypeError"),
    (lambda: print("hello"), "the call prints"),
    (lambda: (i for i in range(3)), "returned a generator"),
])
def test_a_call_that_cannot_be_diagnosed_is_told_in_a_sentence(call, expected):
    with pytest.raises(MeasureError, match=expected) as told:
        diagnose(call, Work(1, 1), CPU)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("after", [1, 3, 5, 100])
def test_a_call_may_fail_at_any_time(after):
    left = iter(range(after))
    with pytest.raises(MeasureError, match="raised StopIteration: run"):
        diagnose(lambda: next(left), Work(1, 1), CPU)


def test_a_result_in_place_of_a_call_is_refused_in_the_name_of_diagnose():
    with pytest.raises(MeasureError, match="not its result: write diagnose.lambda"):
        diagnose(np.ones(3), Work(1, 1), CPU)


@pytest.mark.parametrize(("given", "expected"), [
    ({"work": Work}, "work is the class Work"), ({"work": (1, 2)}, "work is a tuple"),
    ({"roof": "H100 SXM"}, "roof is a str, but it must be a Roofline"),
    ({"roof": Run("a run", 1.0)}, "roof is a Run"), ({"limit": 0}, "limit is 0"),
])
def test_wrong_arguments_are_told_in_a_sentence(given, expected):
    with pytest.raises(MeasureError, match=expected):
        diagnose(lambda: 1, **given)


def test_a_call_that_becomes_slow_does_not_run_thousands_of_times():
    made = []

    def call():
        made.append(1)
        if len(made) > 6:
            time.sleep(0.002)

    diagnose(call, Work(1, 1), CPU, limit=0.1)
    assert len(made) < 1000


def test_a_call_longer_than_its_time_box_runs_four_times(monkeypatch):
    monkeypatch.setattr(home, "foreign_load", lambda mark: 0.9)        # which would ask for another attempt
    made = []
    found = diagnose(lambda: (made.append(1), time.sleep(0.31)), Work(1, 1), CPU, limit=0.3)
    assert len(made) == 4 and "1 sample only" in found.evidence[1]


def test_a_roof_of_another_machine_is_said_to_be_one(alone):
    found = diagnose(lambda: loop(2000), Work(1, 8), datasheet("H100 SXM", "bfloat16"), limit=0.1)
    assert any("that of H100 SXM (datasheet)" in text for text in found.evidence)
    assert not any("here and now" in text for text in found.evidence)


def test_a_debugger_stays_in_place_and_is_mentioned(alone):
    def other(*_):
        return None

    before = sys.gettrace()
    sys.settrace(other)
    try:
        found = diagnose(lambda: loop(2000), Work(1, 8), CPU, limit=0.1)
        assert sys.gettrace() is other and "A debugger" in found.evidence[-1]
    finally:
        sys.settrace(before)
