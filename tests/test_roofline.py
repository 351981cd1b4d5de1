"""Laws of the roofline, and the worked examples of the article and of published guides."""

import pytest

from roofline_kit.ops import axpy, dot, elementwise, gemm, layernorm, linear
from roofline_kit.roofline import Roofline, Times
from roofline_kit.work import Work

CHIP = Roofline(peak=100e9, bandwidth=10e9, vector_peak=50e9, overhead=1e-6)
CPU = Roofline(100e9, 30e9, mixes=((0, 20e9, "read"), (0.5, 30e9, "scale")), write_allocate=True,
               levels=((1000, 400e9), (10_000, 200e9)))


def test_at_the_ridge_the_attainable_rate_is_the_peak():
    assert CHIP.ridge == 10 and CHIP.attainable(CHIP.ridge) == CHIP.peak


def test_left_of_the_ridge_bandwidth_limits_and_right_of_it_the_peak():
    assert CHIP.attainable(5) == 50e9 and CHIP.attainable(1000) == 100e9 and CHIP.attainable(1000, "vector") == 50e9


def test_seconds_is_the_larger_of_memory_and_compute_plus_the_launches():
    work = Work(flops=100e9, nbytes=20e9, launches=3, unit="matrix")
    assert CHIP.times(work) == Times(2.0, 1.0, pytest.approx(3e-6)) and CHIP.seconds(work) == pytest.approx(2 + 3e-6)


def test_adding_work_is_never_faster():
    works = [gemm(64, 64, 64), dot(1000), elementwise(10), layernorm(8, 8), elementwise(500_000), Work(5e5, 0)]
    for first in works:
        for second in works:
            assert CHIP.seconds(first + second) >= max(CHIP.seconds(first), CHIP.seconds(second))


def test_the_unit_of_the_work_chooses_the_peak():
    assert CHIP.times(Work(1e9, 0, unit="vector")).compute == 2 * CHIP.times(Work(1e9, 0, unit="matrix")).compute


def test_an_unknown_unit_is_refused():
    with pytest.raises(ValueError, match="unit is 'tensor'"):
        CHIP.attainable(1, "tensor")


def test_an_unknown_vector_peak_falls_back_to_the_peak():
    assert Roofline(1e12, 1e9).rate("vector") == 1e12


def test_the_bound_is_the_largest_of_the_three_times():
    assert CHIP.bound(Work(1, 1e9)) == "memory" and CHIP.bound(Work(1e12, 1)) == "compute"
    assert CHIP.bound(Work(8, 8, launches=100)) == "latency"


def test_within_the_margin_the_verdict_is_balanced():
    work = Work(flops=95e9, nbytes=10e9, unit="matrix")
    assert CHIP.bound(work) == "memory" and CHIP.bound(work, margin=0.2) == "balanced"


def test_a_store_to_a_new_line_reads_it_first_and_an_in_place_one_does_not():
    assert CPU.traffic(elementwise(100, 2)) == 1600 and CPU.traffic(axpy(100)) == 1200


def test_a_mix_between_two_measured_ones_takes_a_time_between_theirs():
    assert CPU.bandwidth_for(dot(100)) == 20e9
    assert CPU.bandwidth_for(elementwise(100, 1, in_place=True)) == 30e9
    assert 20e9 < CPU.bandwidth_for(axpy(100)) < 30e9


def test_the_slowest_mix_is_that_of_three_and_all_there_is_without_mixes():
    assert CPU.slowest() == pytest.approx(CPU.bandwidth_for(elementwise(100)) * 3 / 4) and CHIP.slowest() == 10e9


def test_times_read_in_one_line():
    assert repr(CHIP.times(Work(100e9, 20e9, launches=3))) == "memory 2 s, compute 2 s, latency 3 us"


def test_a_mix_outside_the_measured_ones_takes_the_nearest():
    assert CPU.bandwidth_for(Work(0, 100, written=100, rewritten=100)) == 30e9


def test_hot_data_move_at_the_speed_of_the_smallest_cache_that_holds_them():
    works = [dot(100), dot(1000), dot(10_000)]
    assert [CPU.times(work, cold=False).memory for work in works] == [800 / 400e9, 8000 / 200e9, 80_000 / 20e9]
    assert CPU.times(works[0]).memory == 800 / 20e9


def test_in_a_cache_a_store_finds_its_line():
    assert CPU.times(elementwise(10), cold=False).memory == 120 / 400e9


TIMED = Roofline(100e9, 10e9, overhead=1e-6, clocks=(("queued", 2.0, 0.5, 0.0), ("hosted", 0.0, 0.5, 3.0)))


@pytest.mark.parametrize(("clock", "launches", "latency", "seconds"), [
    ("queued", 1, 2.5, 3.5), ("queued", 4, 4.0, 5.0),        # once 2 s, half a second a launch, beside 1 s of memory
    ("hosted", 1, 3.0, 3.0), ("hosted", 4, 12.0, 12.0),      # the host's 3 s a launch hide all of it
    (None, 4, 4e-6, 1 + 4e-6), ("wall", 4, 4e-6, 1 + 4e-6)])
def test_a_launch_costs_what_the_clock_of_the_run_sees_of_it(clock, launches, latency, seconds):
    work = Work(0, 10e9, launches=launches)
    assert TIMED.times(work, clock=clock).latency == latency and TIMED.seconds(work, clock=clock) == seconds
    assert TIMED.bound(work, clock=clock) == ("latency" if latency > 1 else "memory")


def test_where_memory_takes_longer_than_the_host_only_the_gaps_are_added():
    assert TIMED.seconds(Work(0, 200e9, launches=2), clock="hosted") == 20 + 2 * 0.5


@pytest.mark.parametrize("bad", [-1, float("nan"), "fast", 0])
def test_a_rate_that_cannot_be_is_refused(bad):
    with pytest.raises(ValueError, match="bandwidth is"):
        Roofline(1e12, bad)


def test_it_reads_in_one_line():
    assert repr(CHIP) == ("roofline, float32 (by hand): 100 GFLOP/s, vector 50 GFLOP/s, 10 GB/s, "
                          "ridge 10 FLOP/B, 1 us a call")


# ---- Worked examples ----------------------------------------------------------------------------------------------

def test_scaling_book_a_batch_of_64_is_memory_bound_and_512_is_not():
    chip = Roofline(2.3e15, 8e12)
    small, large = linear(64, 4096, 8192, "float16"), linear(512, 4096, 8192, "float16")
    assert chip.bound(small) == "memory" and chip.seconds(small) == pytest.approx(8.6e-6, abs=5e-8)
    assert chip.bound(large) == "compute" and chip.seconds(large) == pytest.approx(15e-6, abs=5e-7)


def test_scaling_book_adding_two_to_the_thirty_numbers_on_an_h100():
    assert Roofline(67e12, 3.35e12).seconds(elementwise(2**30)) == pytest.approx(3.85e-3, abs=5e-6)


def test_modal_gpu_glossary_real_fft():
    n = 2**20
    fft = Work(flops=2.5 * n * 20, nbytes=2 * 8 * n)          # half of 5 n log2 n; float64 read once, written once
    assert fft.intensity == pytest.approx(5 / 32 * 20)


@pytest.mark.parametrize("peak, bandwidth, ridge", [
    (125e12, 900e9, 138.9), (312e12, 2.0e12, 156), (989e12, 3.35e12, 295), (2250e12, 8e12, 281), (989e12, 4.8e12, 206)])
def test_published_ridge_points(peak, bandwidth, ridge):
    assert Roofline(peak, bandwidth).ridge == pytest.approx(ridge, rel=2e-3)
