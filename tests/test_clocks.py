"""The clocks of a GPU, exact, because its time belongs to the test: what is inside the window, and what is not?"""

from types import SimpleNamespace

import numpy as np
import pytest
from fake_cupy import CudaError, Gpu, fake_cupy

from roofline_kit import clocks, gpu
from roofline_kit.doubts import MeasureError
from roofline_kit.roofline import Roofline
from roofline_kit.timing import measure
from roofline_kit.work import Work

TICK = 2.0**-20           # s, about 1 us; sums of powers of two are exact
CALL = 16 * TICK


@pytest.fixture(autouse=True)
def a_quiet_machine(monkeypatch):
    monkeypatch.setattr("roofline_kit.timing.foreign_load", lambda mark: 0.0)


class Log:
    """A GPU device whose flush takes 100 ticks, and a call of 16 of them; what it does is written down."""

    def __init__(self, flush=100 * TICK, costs=(CALL,), **times):
        self.gpu, self.log, self.costs = Gpu(**times), [], list(costs)
        self.device = SimpleNamespace(kind="gpu", name="a fake", xp=fake_cupy(self.gpu), wait=self.gpu.wait,
                                      flush=lambda: self.do("flush", flush))

    def do(self, what, seconds):
        self.gpu.run(seconds, lambda: self.log.append(what))

    def call(self):
        self.do("call", self.costs.pop(0) if len(self.costs) > 1 else self.costs[0])

    def measure(self, *work, **how):
        return measure(self.call, *work, device=self.device, **{"limit": 0.5} | how)


def test_calls_back_to_back_share_one_window():
    run = Log(launch=2 * TICK).measure()
    assert run.clock == "throughput" and len(run.samples) >= 30 and run.warnings == ()
    assert CALL < run.seconds < 1.01 * CALL                  # the gap before the first launch, over 64 calls


def test_a_cold_call_is_queued_behind_the_flush_and_timed_alone():
    run = Log(launch=2 * TICK).measure(cold=True)
    assert run.clock == "cold" and run.cold and set(run.samples) == {CALL} and run.warnings == ()


def test_clock_cold_means_cold():
    run = Log().measure(clock="cold")
    assert run.clock == "cold" and run.cold


def test_each_cold_sample_has_a_flush_in_front():
    bench = Log(launch=TICK)
    run = bench.measure(cold=True)
    assert bench.log == ["call"] + ["flush", "call"] * (len(run.samples) + len(run.warm) - 1)


@pytest.mark.parametrize("clock", ["throughput", "graph", "wall"])
def test_other_clocks_never_flush(clock):
    bench = Log(launch=TICK)
    bench.measure(clock=clock)
    assert "flush" not in bench.log


@pytest.mark.parametrize("clock", ["throughput", "cold", "graph"])
def test_warming_up_is_no_sample(clock):
    run = Log(costs=(50 * CALL, 20 * CALL, CALL)).measure(clock=clock)
    assert set(run.samples) == {CALL} and run.warm[1] == 20 * CALL


def test_a_host_slower_than_the_flush_is_host_bound():
    run = Log(launch=200 * TICK).measure(cold=True)
    assert run.seconds > CALL and run.warnings[0].startswith("host-bound")


def test_more_is_flushed_where_a_launch_takes_long():
    bench = Log()

    def slow():                                              # 150 ticks on the host before its kernel is queued
        bench.gpu.host += 150 * TICK
        bench.call()
    run = measure(slow, device=bench.device, cold=True, limit=0.5)
    assert set(run.samples) == {CALL} and run.warnings == ()


@pytest.mark.parametrize(("launch", "late"), [(1.0, False), (6.0, True)])
def test_launching_for_over_half_of_the_time_is_host_bound(launch, late):
    bench, slow = Log(costs=(8.0,), launch=launch), []
    clocks.throughput(bench.call, bench.device, slow, bench.gpu.clock)(10)
    assert slow == [late]


@pytest.mark.parametrize("count", [1, 8, 4096])
def test_calls_in_a_graph_are_counted_right(count):
    bench = Log(launch=2 * TICK, node=TICK)
    with gpu.stream(bench.device.xp):
        seconds = clocks.graph(bench.call, bench.device, [])(count)
    assert seconds == 2 * TICK + count * (CALL + TICK) and bench.log == ["call"] * count


def test_a_graph_is_captured_once_for_each_number_of_calls():
    bench, calls = Log(), []
    stopwatch = clocks.graph(lambda: calls.append(1) or bench.call(), bench.device, [])
    with gpu.stream(bench.device.xp):
        stopwatch(8), stopwatch(8), stopwatch(8)
    assert len(calls) == 8 and len(bench.log) == 24


def test_in_a_graph_the_host_launches_once():
    by = {clock: Log(launch=64 * TICK).measure(clock=clock) for clock in ("throughput", "graph")}
    assert by["throughput"].seconds == pytest.approx(64 * TICK, rel=0.05) and by["graph"].seconds < 1.1 * CALL
    assert by["graph"].clock == "graph" and by["graph"].warnings == ()


@pytest.mark.parametrize("call", [lambda x: x.get(), lambda x: float(x[0])])
def test_a_call_that_cannot_be_captured_is_one_sentence(call):
    bench = Log()
    x = bench.device.xp.zeros(3)
    with pytest.raises(MeasureError, match=r"^the call cannot be captured .*: it may only launch .*throughput'\.$"):
        measure(lambda: call(x), device=bench.device, clock="graph", limit=0.1)


def test_the_host_clock_holds_launch_and_wait_of_each_call():
    run = Log(launch=4.0, costs=(8.0,)).measure(clock="wall")
    assert run.clock == "wall"


@pytest.mark.parametrize("cold", [True, False])
def test_the_host_clock_does_not_hold_the_flush(cold):
    bench = Log(launch=4.0, costs=(8.0,), flush=100.0)
    run = bench.measure(clock=bench.gpu.clock, cold=cold, limit=9999)
    assert run.clock == "wall" and set(run.samples) == {12.0}


def test_the_host_clock_waits_after_each_of_many_short_calls():
    bench = Log(launch=TICK)
    assert clocks.wall(bench.call, bench.device, clock=bench.gpu.clock)(10) == 10 * (TICK + CALL)


def test_a_cpu_has_one_clock_only():
    device = SimpleNamespace(kind="cpu", name="a fake", wait=lambda: None, flush=lambda: None)
    assert measure(lambda: None, device=device, clock="graph", limit=0.1).clock == "wall"


def test_memory_that_runs_out_is_told_with_what_to_do():
    bench = Log()
    bench.device.xp = fake_cupy(Gpu(memory=1000))
    with pytest.raises(MeasureError, match=r"no room in memory \(Out of memory allocating 4,000 bytes.* smaller size"):
        measure(lambda: bench.device.xp.zeros(1000, dtype="float32"), device=bench.device)


def test_a_fault_of_the_gpu_is_one_sentence():
    def fault():
        raise CudaError(700, "cudaErrorIllegalAddress: an illegal memory access was encountered")
    with pytest.raises(MeasureError, match=r"failed \(cudaErrorIllegalAddress.*rk.cuda"):
        measure(fault, device=Log().device)


def test_an_error_of_the_call_is_the_calls():
    with pytest.raises(MeasureError, match=r"^the call raised ZeroDivisionError \(division by zero\): "):
        measure(lambda: 1 / 0, device=Log().device)


def test_constant_arrays_on_a_gpu_are_noticed():
    bench = Log()
    x = bench.device.xp.asarray(np.ones(8))
    run = measure(lambda: bench.device.xp.negative(x, out=x) is bench.call(), device=bench.device, limit=0.1)
    assert any("random data" in text for text in run.warnings)


# A small operation, by each clock against a roof that knows what a launch costs by each of them

GAP, HOST, NODE, ONCE = TICK, 4 * TICK, TICK / 2, 2 * TICK
ROOF = Roofline(1e12, 1e9 / TICK, overhead=HOST, clocks=(
    ("throughput", 0.0, GAP, HOST), ("cold", ONCE, GAP, 0.0), ("graph", 0.0, NODE, 0.0),
    ("wall", HOST, GAP, HOST)))


@pytest.mark.parametrize("ticks", [0.25, 2, 64])
@pytest.mark.parametrize("launches", [1, 5])
@pytest.mark.parametrize("clock", ["throughput", "cold", "graph"])
def test_no_clock_shows_a_launch_faster_than_its_roof(clock, launches, ticks):
    bench = Log(launch=HOST, gap=GAP, node=NODE, event=ONCE, costs=(ticks * TICK,), flush=1000 * TICK)
    work = Work(0, launches * ticks * 1e9, launches=launches)
    run = measure(lambda: [bench.call() for _ in range(launches)], work, device=bench.device, clock=clock, limit=0.2,
                  roof=ROOF)
    assert run.seconds == pytest.approx(ROOF.seconds(work, run.cold, clock), rel=0.1)
    assert not any("faster than its roof" in text for text in run.warnings)
