"""Single calls: each is timed by itself, percentiles are those of the sorted times, and the figure shows them."""

import re

import matplotlib
import matplotlib.pyplot
import pytest

from roofline_kit import latency
from roofline_kit.doubts import MeasureError
from roofline_kit.latency import Latencies, latencies, plot_latencies

matplotlib.use("Agg")
THOUSAND = Latencies("steps", tuple(float(n) for n in reversed(range(1, 1002))))


@pytest.fixture(autouse=True)
def close():
    yield
    matplotlib.pyplot.close("all")


@pytest.fixture
def ticking(monkeypatch):
    """A clock that goes on only when `passes` is called."""
    now = [0.0]
    monkeypatch.setattr(latency.time, "perf_counter", lambda: now[0])

    def passes(seconds):
        now[0] += seconds

    return passes


def test_a_percentile_is_what_that_share_of_the_calls_does_not_exceed():
    assert (THOUSAND.p50, THOUSAND.p99, THOUSAND.p999, THOUSAND.longest) == (501, 991, 1000, 1001)
    assert (THOUSAND.at(0), THOUSAND.at(1)) == (1, 1001)


@pytest.mark.parametrize("share", [-0.1, 1.5, 99])
def test_a_share_lies_between_0_and_1(share):
    with pytest.raises(ValueError, match="share is"):
        THOUSAND.at(share)


def test_each_call_is_timed_by_itself_in_its_order(ticking):
    times = iter([2**-7] * latency.WARM_UPS + [1.0, 2.0, 5.0] + [1.0] * 117)
    assert latencies(lambda: ticking(next(times)), 120).seconds[:4] == (1, 2, 5, 1)


def test_what_is_called_before_is_not_in_the_time(ticking):
    found = latencies(lambda: ticking(2.0), 50, before=lambda: ticking(3.0))
    assert set(found.seconds) == {2.0} and len(found.seconds) == 50


def test_the_repr_names_the_tail():
    assert repr(THOUSAND) == "steps: 1,001 calls, p50 501 s, p99 991 s, p99.9 1 ks, longest 1 ks"


def test_a_busy_machine_is_said(monkeypatch):
    monkeypatch.setattr(latency, "foreign_load", lambda mark: 0.8)
    assert re.search("80 % of the machine", repr(latencies(lambda: None, 10)))


@pytest.mark.parametrize("given", [{"call": 3}, {"call": lambda: None, "before": 3}, {"call": lambda: print}])
def test_what_is_no_call_is_refused(given):
    with pytest.raises(MeasureError):
        latencies(**given)


@pytest.mark.parametrize("wrong", [
    {"call": 3}, {"call": lambda: print}, {"call": print, "count": 0}, {"call": print, "count": "fused"},
    {"call": print, "count": 10**12}, {"call": lambda: None, "before": lambda: print}])
def test_what_is_wrong_is_said_in_one_sentence_about_this_function(wrong):
    with pytest.raises(MeasureError, match="latencies|count is|before=f") as told:
        latencies(**wrong)
    assert "measure(" not in str(told.value)


def test_calls_that_would_never_end_are_refused_after_two_of_them(ticking):
    with pytest.raises(MeasureError, match=r"10,000 calls, one in 20 s, .* count=7\."):
        latencies(lambda: ticking(20.0))


def test_a_first_call_that_compiles_is_no_measure_of_the_others(ticking):
    times = iter([60.0] + [0.01] * 400)
    assert len(latencies(lambda: ticking(next(times)), 200).seconds) == 200


def test_a_figure_has_a_line_a_name_and_four_marks_for_each():
    ax = plot_latencies(THOUSAND, Latencies("others", (2.0, 3.0, 2.5)))
    texts, marks = [text.get_text() for text in ax.texts], [line for line in ax.lines if line.get_marker() in "osDX"]
    assert {"steps", "others"} <= set(texts) and len(marks) == 8 and "p99.9" in texts[-1]
    assert [line.get_xdata()[0] for line in marks[:4]] == [501, 991, 1000, 1001]


def test_a_histogram_counts_every_call():
    counts = plot_latencies(THOUSAND).patches[0].get_data().values
    assert counts[counts >= 1].sum() == 1001


def test_calls_in_which_no_time_passed_can_be_drawn():
    low = plot_latencies(Latencies("steps", (0.0, 0.0, 1e-7))).get_xlim()[0]
    assert 0 < low < latency.TICK


def test_a_figure_is_drawn_into_axes_alone():
    with pytest.raises(ValueError, match="ax is 3"):
        plot_latencies(THOUSAND, ax=3)


@pytest.mark.parametrize("wrong", [(), (1.0,), ([1.0, 2.0],), ([THOUSAND],), (Latencies("none", ()),)])
def test_a_figure_of_nothing_is_refused(wrong):
    with pytest.raises(ValueError, match=r"rk\.latencies returns"):
        plot_latencies(*wrong)
