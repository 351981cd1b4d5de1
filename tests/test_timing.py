"""The logic of the clock, exact, because time itself belongs to the test."""

import sys
from types import SimpleNamespace

import pytest

from roofline_kit.doubts import MeasureError
from roofline_kit.timing import Run, measure, quantile, sample, spread
from roofline_kit.work import Work

TICK = 2.0**-20           # s, about 1 us; sums of powers of two are exact


@pytest.fixture(autouse=True)
def a_quiet_machine(monkeypatch):
    monkeypatch.setattr("roofline_kit.timing.foreign_load", lambda mark: 0.0)


class Bench:
    """A clock, a device that flushes in 100 s, a call that takes the given times in turn, then the last."""

    def __init__(self, *costs):
        self.now, self.costs, self.log = 0.0, list(costs), []
        self.device = SimpleNamespace(kind="cpu", name="a fake", wait=lambda: None, flush=self.flush)

    def clock(self):
        return self.now

    def call(self):
        self.log.append("call")
        self.now += self.costs.pop(0) if len(self.costs) > 1 else self.costs[0]

    def flush(self):
        self.log.append("flush")
        self.now += 100

    def sample(self, **options):
        return sample(self.call, clock=self.clock, device=self.device, **options)

    def measure(self, *work, **options):
        return measure(self.call, *work, clock=self.clock, device=self.device, **options)


def test_quantiles_are_linear_between_neighbours():
    assert [quantile([1, 2, 4], q) for q in (0, 0.25, 0.5, 0.75, 1)] == [1, 1.5, 2, 3, 4]


def test_the_spread_is_the_interquartile_range_over_the_median():
    assert spread([1, 2, 4]) == 0.75


def test_one_sample_has_no_spread():
    assert spread([1]) != spread([1])                        # not a number


def test_the_first_call_is_never_a_sample():
    samples, warm = Bench(5.0, 0.25).sample(limit=10)
    assert set(samples) == {0.25} and warm == [5.0, 0.25, 0.25]


def test_warming_up_goes_on_while_the_time_falls():
    samples, warm = Bench(8.0, 4.0, 2.0, 1.0, 0.99).sample(limit=40)
    assert warm == [8.0, 4.0, 2.0, 1.0, pytest.approx(0.99)] and max(samples) < 1


def test_warming_up_takes_at_most_a_quarter_of_the_time_box():
    samples, warm = Bench(8.0, 4.0, 2.0, 1.0).sample(limit=16)
    assert warm == [8.0, 4.0] and samples[0] == 2.0


def test_warming_up_ends_even_if_every_call_is_faster():
    _, warm = Bench(*[0.5**n for n in range(30)]).sample(limit=1000, settle=0)
    assert len(warm) == 12


def test_sampling_stops_after_nine_calm_samples():
    samples, _ = Bench(0.25).sample(limit=1000)
    assert samples == [0.25] * 9


def test_sampling_goes_on_for_a_tenth_of_a_second_at_least():
    samples, _ = Bench(2.0**-10).sample(limit=1000)
    assert len(samples) == 102                               # and a warm-up call: 103 ms / 1.024 > 100


def test_sampling_goes_on_while_the_spread_is_large():
    samples, _ = Bench(1.0, *[1.0, 2.0] * 10, 1.0).sample(limit=1000)
    assert len(samples) > 20 and spread(sorted(samples)) <= 0.05


def test_sampling_ends_with_the_time_box():
    samples, _ = Bench(1.0, *[1.0, 2.0] * 100).sample(limit=30)
    assert sum(samples) == 29 or sum(samples) == 30          # one second of it was warm-up


def test_a_call_longer_than_the_time_box_is_made_twice():
    bench = Bench(5.0)
    assert bench.sample(limit=2) == ([5.0], [5.0]) and len(bench.log) == 2


def test_short_calls_are_timed_in_batches_and_divided():
    bench = Bench(TICK)
    samples, _ = bench.sample(limit=1000, settle=0)
    assert samples == [TICK] * 9
    assert len(bench.log) == 2 + (2 + 4 + 8 + 16 + 32 + 64) + 9 * 64         # 64 are the first to last 50 us


def test_compiling_in_the_first_call_does_not_spoil_the_batch():
    bench = Bench(5.0, TICK)
    samples, warm = bench.sample(limit=2, settle=0)
    assert samples == [TICK] * 9 and warm[0] == 5.0 and len(bench.log) > 9 * 64


def test_long_calls_are_not_batched():
    bench = Bench(2.0**-14)                                  # 61 us
    samples, warm = bench.sample(limit=1000, settle=0)
    assert len(bench.log) == len(samples) + len(warm)


def test_a_call_that_takes_no_time_at_all_still_ends():
    samples, _ = sample(lambda: None, clock=iter(range(10**9)).__next__, device=Bench(1).device, limit=5)
    assert samples


def test_cold_flushes_before_each_sample_of_one_call():
    bench = Bench(TICK)
    samples, warm = bench.sample(cold=True, limit=10**6)
    assert bench.log[1:] == ["flush", "call"] * (len(warm) - 1 + len(samples))


def test_the_flush_is_not_in_the_sample():
    assert set(Bench(0.25).sample(cold=True, limit=10**6)[0]) == {0.25}


def test_hot_never_flushes():
    bench = Bench(0.25)
    bench.sample()
    assert "flush" not in bench.log


def test_a_sample_ends_when_the_device_is_done():
    bench = Bench(0.0)
    bench.device.wait = lambda: setattr(bench, "now", bench.now + 0.5)
    assert set(bench.sample(limit=100)[0]) == {0.5}


def test_a_run_holds_median_quartiles_low_and_samples():
    run = Bench(1.0, 1.0, 30.0, *range(8, 0, -1)).measure(limit=67)
    assert run.samples == (30, *range(8, 0, -1)) and run.warm == (1.0, 1.0)
    assert (run.seconds, run.quartiles, run.low, run.spread) == (5, (3, 7), 1, 0.8)


def test_rates_are_counts_over_the_median():
    run = Bench(0.25).measure(Work(flops=10, nbytes=40))
    assert (run.flop_per_s, run.bytes_per_s) == (40, 160)


def test_without_work_there_are_no_rates():
    run = Bench(0.25).measure()
    assert run.flop_per_s is None and run.bytes_per_s is None


def test_a_calm_run_has_no_warnings():
    assert Bench(0.25).measure(limit=100).warnings == ()


def test_a_run_that_never_calms_down_says_so():
    run = Bench(1.0, *[1.0, 2.0] * 100).measure(limit=30)
    assert len(run.warnings) == 1 and run.warnings[0].startswith("noisy: after 30 s") and run.inconclusive


def test_a_call_slower_than_the_time_box_returns_what_it_has():
    run = Bench(5.0).measure(limit=2)
    assert run.seconds == 5 and "one call takes 5 s, longer than the time box of 2 s" in run.warnings[0]
    assert run.inconclusive and "spread unknown, 1 sample" in repr(run)


def test_one_sample_within_the_box_has_no_spread_and_proves_nothing():
    run = Bench(1.5).measure(limit=2)
    assert len(run.samples) == 1 and run.inconclusive


def test_few_samples_are_said_to_be_few():
    text, = Bench(1.0).measure(limit=5).warnings
    assert text == "only 4 of at least 9 samples fitted into 5 s: raise limit=."


def test_foreign_load_makes_a_calm_run_inconclusive(monkeypatch):
    monkeypatch.setattr("roofline_kit.timing.foreign_load", lambda mark: 0.45)
    run = Bench(0.25).measure(limit=100)
    assert run.warnings == ("other processes used 45 % of the machine: treat this as inconclusive.",)


@pytest.mark.parametrize(("roofs", "warned"), [(0.25, 0), (0.26, 0), (0.27, 1), (0.1, 0)])
def test_more_than_five_per_cent_above_the_roof_is_an_error_to_explain(roofs, warned):
    roof = SimpleNamespace(seconds=lambda work, cold, clock: roofs)
    run = Bench(0.25).measure(Work(1, 1), roof=roof, limit=100)
    assert len(run.warnings) == warned and all("faster than its roof" in text for text in run.warnings)


def test_the_roof_is_asked_for_cold_or_hot_and_by_which_clock():
    asked = []
    roof = SimpleNamespace(seconds=lambda *how: asked.append(how[1:]) or 0.0)
    Bench(0.25).measure(Work(1, 1), roof=roof, cold=True, limit=10**6)
    Bench(0.25).measure(Work(1, 1), roof=roof)
    assert asked == [(True, "wall"), (False, "wall")]


def test_the_name_is_the_given_one_or_that_of_the_work_or_of_the_call():
    named = Work(1, 1, name="dot")
    assert [Bench(0.25).measure(work, name=name).name for work, name in
            ((named, "mine"), (named, None), (None, None))] == ["mine", "dot", "call"]


def test_a_call_that_raises_is_named_in_one_sentence_with_its_error_chained():
    says = r"^the call raised ZeroDivisionError \(division by zero\): "
    with pytest.raises(MeasureError, match=says) as error:
        measure(lambda: 1 / 0)
    assert isinstance(error.value.__cause__, ZeroDivisionError) and len(error.value._render_traceback_()) == 1


def test_a_call_that_raises_later_is_named_too():
    costs = iter([1.0, 1.0])
    with pytest.raises(MeasureError, match="StopIteration"):
        measure(lambda: next(costs))


def test_an_interrupt_passes_through():
    def interrupted():
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        measure(interrupted)


def test_a_run_is_one_line_and_its_warnings_below():
    run = Run("dot", 2e-3, 0.015, (2e-3,) * 9, Work(4e6, 8e6), warnings=("noisy: very.",))
    assert repr(run) == "dot: 2 ms, spread 1.5 %, 9 samples, hot, 2 GFLOP/s, 4 GB/s\n  ! noisy: very."


def test_a_run_cannot_be_changed():
    with pytest.raises(AttributeError):
        Run("dot", 1.0).seconds = 0.5


@pytest.mark.parametrize("clock", [lambda: 1.0, lambda: float("nan")])
def test_a_clock_that_does_not_move_is_one_sentence(clock):
    with pytest.raises(MeasureError, match="stands still"):
        measure(lambda: None, clock=clock, limit=0.1)


@pytest.mark.parametrize(("call", "sentence"), [(lambda: sys.exit(), "SystemExit"), (lambda: map(abs, [1]), "map")])
def test_a_call_that_leaves_or_computes_nothing_is_one_sentence(call, sentence):
    with pytest.raises(MeasureError, match=sentence):
        measure(call, limit=0.1)


def test_a_roof_that_is_none_is_one_sentence():
    with pytest.raises(MeasureError, match="must be a Roofline"):
        measure(lambda: None, roof="H100")
