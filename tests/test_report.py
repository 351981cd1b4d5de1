"""The scorecard: each verdict, the guess, the warnings, and what it refuses."""

import pytest

from roofline_kit.ops import dot, gemm
from roofline_kit.report import HEAD, attained, scorecard
from roofline_kit.roofline import Roofline
from roofline_kit.timing import Run
from roofline_kit.work import Work

HERE = Roofline(peak=100e9, bandwidth=10e9, name="machine", origin="measured", levels=((2**20, 100e9),))
DOT, GEMM = dot(10**7), gemm(1000, 1000, 1000)                        # 8 ms of memory, 20 ms of arithmetic


def run(work, seconds, spread=0.01, cold=True, **told):
    return Run(work.name, seconds, spread, (seconds,), work, cold, **told)


def row(*args, **kwargs):
    return dict(zip(HEAD, next(scorecard(HERE, run(*args, **kwargs)).rows())))


def test_efficiency_is_predicted_over_measured():
    assert attained(HERE, run(DOT, 0.016)) == pytest.approx(0.5)
    assert row(DOT, 0.010)["efficiency"] == "0.80" and row(DOT, 0.010)["predicted"] == "8 ms"


def test_a_run_near_its_prediction_is_named_after_its_bound():
    assert row(DOT, 0.009)["verdict"] == "memory-bound" and row(GEMM, 0.025)["verdict"] == "compute-bound"


def test_two_times_within_a_fifth_are_balanced():
    for share, verdict in ((1.0, "balanced"), (0.85, "balanced"), (0.75, "memory-bound")):
        assert row(Work(share * 1e9, 1e8), 0.01)["verdict"] == verdict


def test_faster_than_the_roof_is_an_alarm():
    assert row(DOT, 0.008 / 1.06)["verdict"].startswith("ABOVE ITS ROOF")
    assert row(DOT, 0.008 / 1.04)["verdict"] == "memory-bound"


def test_far_below_the_roof_says_how_far_and_where_to_look():
    assert row(DOT, 0.016)["verdict"].startswith("memory-bound, 2.0x slower")
    assert row(DOT, 0.013)["verdict"] == "memory-bound"


def test_a_fixed_cost_is_known_within_a_factor_of_two():
    slow = Roofline(100e9, 10e9, overhead=1e-6)
    verdicts = [next(scorecard(slow, run(dot(8), seconds)).rows())[-1] for seconds in (1.9e-6, 2.1e-6)]
    assert verdicts[0] == "latency-bound" and verdicts[1] == "latency-bound, 2.1x slower"


def test_a_wide_spread_is_inconclusive_whatever_the_median_says():
    for seconds in (0.001, 0.008, 0.1):
        assert row(DOT, seconds, spread=0.3)["verdict"].startswith("inconclusive")


def test_a_hot_run_is_held_against_the_cache_that_holds_its_data():
    small = dot(10**5)
    assert attained(HERE, run(small, 8e-6, cold=False)) == pytest.approx(1)
    assert attained(HERE, run(small, 8e-6, cold=True)) == pytest.approx(10)


def test_the_three_times_are_always_shown():
    assert {"memory": "8 ms", "compute": "200 us", "latency": "0 s"}.items() <= row(DOT, 0.01).items()


def test_a_bare_work_gets_a_row_of_predictions():
    cells = dict(zip(HEAD, next(scorecard(HERE, [GEMM]).rows())))
    assert (cells["predicted"], cells["measured"], cells["verdict"]) == ("20 ms", "", "compute-bound")


def test_the_guess_is_held_against_the_fastest_run():
    runs = [run(DOT, 0.01), run(GEMM, 0.03)]
    assert "Your guess, dot, does not hold: gemm" in repr(scorecard(HERE, runs, guess="dot"))
    assert "Your guess, gemm, holds" in repr(scorecard(HERE, runs, guess="gemm"))
    assert "Your guess, Gemm, is not in the table" in repr(scorecard(HERE, runs, guess="Gemm"))
    assert "guess" not in repr(scorecard(HERE, runs, guess=...))


def test_what_to_look_for_is_said_once_and_only_where_it_applies():
    text = repr(scorecard(HERE, [run(DOT, 0.016), run(DOT.named("other"), 0.017)]))
    assert text.count("look for more passes") == 1 and "error to explain" not in text
    assert "fresh=True" in repr(scorecard(HERE, run(DOT, 0.007)))


def test_warnings_that_differ_in_a_number_only_share_a_line():
    runs = [run(DOT, 0.01, warnings=("used 31 % of it",)), run(GEMM, 0.03, warnings=("used 45.5 % of it",))]
    assert "dot, gemm: used 31 % of it" in repr(scorecard(HERE, runs)).splitlines()


def test_the_clocks_warnings_are_shown_with_the_name_of_the_run():
    assert "dot: noisy here" in repr(scorecard(HERE, run(DOT, 0.01, warnings=("noisy here",))))


def test_a_run_is_held_against_what_its_clock_sees():
    gpu = Roofline(1e15, 4e12, overhead=5e-6, clocks=(("cold", 1e-6, 1e-6, 0.0), ("graph", 0.0, 1e-6, 0.0)))
    cold, wall = (run(dot(1000), 2.1e-6, clock=clock) for clock in ("cold", "wall"))
    assert 0.9 < attained(gpu, cold) < 1 and attained(gpu, wall) > 2
    assert "ABOVE ITS ROOF" in repr(scorecard(gpu, wall)) and "latency-bound" in repr(scorecard(gpu, cold))


def test_a_work_without_any_work_has_nothing_to_do():
    assert row(Work(0, 0), 0.01)["verdict"] == "nothing to do"


def test_a_name_is_no_roofline():
    with pytest.raises(ValueError, match="a Roofline is needed, not 'H100 SXM'"):
        scorecard("H100 SXM", DOT)


def test_text_and_html_show_the_same_cells_and_html_is_escaped():
    card = scorecard(HERE, run(DOT.named("a<b"), 0.01))
    assert "a<b" in repr(card) and "a&lt;b" in card._repr_html_() and "a<b" not in card._repr_html_()


@pytest.mark.parametrize("bad", [Run("x", 1.0), [Run("x", 1.0)], [1.0]])
def test_runs_without_work_are_refused(bad):
    with pytest.raises(ValueError, match="runs that know their work"):
        scorecard(HERE, [bad] if not isinstance(bad, (list, Run)) else bad)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_time_that_cannot_be_is_refused(seconds):
    with pytest.raises(ValueError, match="no usable time"):
        scorecard(HERE, run(DOT, seconds))
