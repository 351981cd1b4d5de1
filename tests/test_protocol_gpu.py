"""The GPU's protocol on a stand-in that is as fast as the test says: does its card say the same, and what it lacks?"""

import importlib
import json
from types import SimpleNamespace

import pytest
from fake_cupy import FACTS, Gpu, fake_cupy

from roofline_kit import nvml, products, protocol_gpu
from roofline_kit.device import Device
from roofline_kit.doubts import MeasureError
from roofline_kit.sustained import judged, roofline, sustained
from roofline_kit.work import Work

DEVICE = importlib.import_module("roofline_kit.device")
HOME = importlib.import_module("roofline_kit.sustained")
US = 1e-6
BYTES = {"stream_read": 44e9, "stream_copy": 43e9, "stream_triad": 42e9, "stream_scale": 41e9,
         "stream_write": 45e9}           # B/s: a hundredth of a real one, since its arrays are so much smaller
ARRAYS = {"stream_read": 1, "stream_copy": 2, "stream_triad": 3, "stream_scale": 2, "stream_write": 1}
PRODUCTS = {("float16", 68): 0.80e9, ("bfloat16", 68): 0.79e9, ("float32", 77): 0.4e9, ("float32", 68): 0.05e9,
            ("float64", 70): 0.06e9, ("int8", 72): 1.5e9}      # FLOP/s
CACHES = (2**16, 200e9), (2**21, 90e9)   # B, B/s: what holds the data, and how fast it then is
FLOPS = {"float32": 60e12, "float64": 30e12, "float16": 120e12}
HOST, GAP, NODE, ONCE = 4 * US, 1.5 * US, 1 * US, 2 * US


def cost(name, arguments):
    """How long it takes on this GPU [s]."""
    if name == "gemm":
        m, n, k, dtype, how, _ = arguments
        return 2 * m * n * k / PRODUCTS[getattr(dtype, "__name__", dtype), how]
    if name in BYTES:
        nbytes, repeats = arguments[0].nbytes, int(arguments[2]) if name == "stream_read" else 1
        rate = next((rate for size, rate in CACHES if nbytes <= size and repeats > 1), BYTES[name])
        return ARRAYS[name] * repeats * nbytes / rate
    if name == "fma_chains":
        out, steps = arguments[:2]
        return 2 * 16 * int(steps) * out.size / FLOPS[out.dtype.name]
    return 500 * US if name == "negative" else 0.0           # it is a flush


def pretended(patch):
    """That GPU, with buffers and products small enough for NumPy."""
    gpu = Gpu(launch=HOST, cost=cost, gap=GAP, node=NODE, event=ONCE)
    cupy = fake_cupy(gpu)
    small = {protocol_gpu: {"BUFFER": 2**23, "LEAST": 2**20, "TRAFFIC": 2**26, "STEPS": 2**16},
             products: {"SHAPES": ((64, 64, 64), (128, 64, 32)), "FIRST": (64, 64, 64), "WINDOW": 0.005,
                        "SETTLE": 0.01},
             DEVICE: {"_flush_parts": lambda device: [cupy.full(4, 1.5, "float32")]}}
    for module, values in small.items():
        for name, value in values.items():
            patch.setattr(module, name, value)
    device = Device("gpu", cupy, "Fake H200", "float16", 132, {"L1": 2**16, "L2": 2**21}, 80 * 10**9, "gpu-0")
    return SimpleNamespace(gpu=gpu, cupy=cupy, device=device)


def measured(here):
    return protocol_gpu.measure_gpu(here.device, lambda share, what: None, here.gpu.clock)


@pytest.fixture
def here(monkeypatch):
    return pretended(monkeypatch)


@pytest.fixture(scope="module")
def found():
    """What is measured where nothing is wrong."""
    with pytest.MonkeyPatch.context() as patch:
        return measured(pretended(patch))


@pytest.fixture
def roof(found, here):
    return lambda dtype: roofline(judged(found, here.device), dtype)


def refused(here, monkeypatch, error, *kinds):
    """Products of these kinds (library_types.h) raise that error."""
    real = here.cupy.cuda.cublas.gemmEx

    def gemm(*arguments):
        if arguments[8] in kinds:
            raise error
        real(*arguments)
    monkeypatch.setattr(here.cupy.cuda.cublas, "gemmEx", gemm)


def test_each_dtype_has_the_roof_of_its_products(roof):
    wanted = {"float16": 8e8, "bfloat16": 7.9e8, "tfloat32": 4e8, "float32": 5e7, "float64": 6e7, "int8": 1.5e9}
    assert {dtype: roof(dtype).peak for dtype in wanted} == pytest.approx(wanted, rel=0.02)


def test_the_vector_roof_is_that_of_the_chains_and_float32s_where_there_are_none(roof):
    assert {dtype: roof(dtype).vector_peak for dtype in FLOPS} == pytest.approx(FLOPS, rel=0.01)
    assert roof("bfloat16").vector_peak == roof("int8").vector_peak == roof("float32").vector_peak


def test_bandwidths_are_counts_over_time_and_no_store_reads_first(roof, found):
    mixes = {label: rate for _, rate, label in roof("float16").mixes}
    assert mixes["copy"] == pytest.approx(43e9, rel=0.01) and mixes["write"] == pytest.approx(45e9, rel=0.01)
    assert not roof("float16").write_allocate and len(found["rounds"]) == 3


def test_the_caches_are_where_the_reads_get_slower(found, here):
    levels = judged(found, here.device).data["levels"]
    assert [level["capacity"] for level in levels] == [size for size, _ in CACHES]
    assert [level["bandwidth"] for level in levels] == pytest.approx([rate for _, rate in CACHES], rel=0.03)


def test_no_roof_counts_on_an_l1_which_a_launch_finds_empty(roof):
    assert [size for size, _ in roof("float32").levels] == [CACHES[1][0]]


def test_a_launch_costs_what_each_clock_sees_of_it(roof):
    costs = {clock: rest for clock, *rest in roof("float16").clocks}
    assert costs["throughput"] == pytest.approx([0, GAP, HOST], rel=0.01)
    assert roof("float16").overhead == costs["throughput"][2]
    assert costs["cold"] == pytest.approx([ONCE, GAP, 0], rel=0.01)
    assert costs["graph"] == pytest.approx([0, NODE, 0], rel=0.01)
    assert costs["wall"] == pytest.approx([HOST, GAP, HOST], rel=0.01)


def test_the_time_of_a_copy_is_a_fixed_part_and_one_for_each_byte(found):
    assert found["fit"]["bandwidth"] == pytest.approx(43e9) and found["fit"]["seconds"] == pytest.approx(ONCE + GAP)


def test_nothing_but_launches_takes_what_each_clock_sees_of_them(roof):
    seen = {"throughput": 3 * HOST, "cold": ONCE + 3 * GAP, "graph": 3 * NODE, "wall": 3 * HOST}
    nothing = Work(0, 0, launches=3)
    predicted = {clock: roof("float16").seconds(nothing, clock == "cold", clock) for clock in seen}
    assert predicted == pytest.approx(seen, rel=0.01)


def test_nothing_is_said_where_nothing_is_wrong(found, here):
    assert judged(found, here.device).data["warnings"] == [] and found["left_out"] == {}


def test_the_card_can_be_kept_and_told(found, here):
    card = judged(found, here.device)
    assert json.loads(json.dumps(card.data)) == card.data and "a launch in a graph" in repr(card)
    assert card.data["gpu"]["capability"] == "9.0" and set(card.data["software"]) == {
        "numpy", "cupy", "driver", "runtime"}


def test_warming_up_keeps_the_first_and_the_last_rate(found):
    assert found["warm_up"]["windows"] == 5 and found["warm_up"]["settled"]
    assert found["warm_up"]["burst"] == pytest.approx(found["warm_up"]["sustained"]) == pytest.approx(8e8, rel=0.01)


def test_a_clock_that_falls_is_waited_for(here):
    here.gpu.gap, slower = 0.0, iter([1.0, 1.05, 1.1, 1.15, 1.2])
    began = here.gpu.cost
    here.gpu.cost = lambda name, arguments: began(name, arguments) * here.heat
    here.heat = 1.0
    bench = products.Bench(here.device, here.gpu.clock, 1e9)
    stopwatch = products.clocks.throughput

    def heating(*arguments):
        watch = stopwatch(*arguments)

        def window(count):
            here.heat = next(slower, 1.25)
            return watch(count)
        return window
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products.clocks, "throughput", heating)
        warm = products.warm_up(bench)
    assert warm["settled"] and warm["burst"] > 1.1 * warm["sustained"] and warm["windows"] > 5


def test_a_clock_that_never_settles_is_reported(here, monkeypatch):
    monkeypatch.setattr(products, "AGREE", -1)
    monkeypatch.setattr(products, "WARM", 0.1)
    assert "did not settle in 0.1 s" in judged(measured(here), here.device).data["warnings"][0]


def test_a_best_point_that_changes_is_reported(here, monkeypatch):
    real = products.again
    monkeypatch.setattr(products, "again", lambda *given: real(*given) - 0.04 * (given[1] == "float64"))
    text, = judged(measured(here), here.device).data["warnings"]
    assert "changed from the first look to the last: float64 by -4 %" in text


def test_what_cublas_refuses_is_left_out_with_the_reason(here, monkeypatch):
    refused(here, monkeypatch, RuntimeError("CUBLAS_STATUS_NOT_SUPPORTED"), 3)
    found = measured(here)
    assert found["left_out"] == {"int8": "is refused here (CUBLAS_STATUS_NOT_SUPPORTED)"}
    assert "int8" not in found["gemm"]


def test_wrong_numbers_are_no_roof(here, monkeypatch):
    monkeypatch.setattr(here.cupy.cuda.cublas, "gemmEx", lambda *arguments: here.gpu.run(1e-4))
    with pytest.raises(MeasureError, match=r"no matrix product .*: float16 gives wrong numbers here; bfloat16 gives"):
        measured(here)


def test_an_old_gpu_has_no_roof_for_what_it_cannot(here, monkeypatch):
    monkeypatch.setitem(FACTS, "major", 7)
    monkeypatch.setitem(FACTS, "minor", 5)
    left_out = measured(here)["left_out"]
    assert set(left_out) == {"bfloat16", "tfloat32"}
    assert left_out["bfloat16"] == "needs compute capability 8.0, and this GPU has 7.5"


def test_a_gpu_without_cublas_is_one_sentence(here, monkeypatch):
    refused(here, monkeypatch, ImportError("libcublasLt.so.13: no such file"), *range(15))
    with pytest.raises(MeasureError, match=r"cuBLAS does not multiply on this GPU \(libcublasLt.* doctor"):
        measured(here)


def test_when_the_time_is_over_the_rest_is_left_out(here, monkeypatch):
    monkeypatch.setattr(protocol_gpu, "BUDGET", 0)
    with pytest.raises(MeasureError, match="float16 was left out because the others took too long"):
        measured(here)


def test_never_more_than_a_fifth_of_the_free_memory_is_taken(here):
    here.gpu.memory, most = 10**8, 0
    real = here.gpu.take

    def take(size):
        nonlocal most
        real(size)
        most = max(most, here.gpu.used)
    here.gpu.take = take
    measured(here)
    assert 0 < most <= 0.2 * here.device.available() + 10**6


def test_a_full_gpu_is_one_sentence(here):
    here.gpu.memory = 10**5
    here.cupy.get_default_memory_pool = lambda: SimpleNamespace(free_bytes=lambda: 0)
    with pytest.raises(MeasureError, match=r"of the GPU's memory are free, too little.*nvidia-smi"):
        measured(here)


def test_a_slow_gpu_multiplies_only_small_matrices(here, monkeypatch):
    monkeypatch.setattr(products, "SLOW", 1e-6)
    assert all(len(points) == 2 for points in measured(here)["gemm"].values())       # the first, and once more


def test_another_process_and_heat_are_reported(here, monkeypatch):
    monkeypatch.setattr(nvml, "state", lambda uid: {"others": 2, "reasons": 0x20 | 0x04})
    told = judged(measured(here), here.device).data["warnings"]
    assert "2 other processes computed on this GPU" in told[0] and "because of heat:" in told[1] and len(told) == 2


@pytest.fixture
def kept(here, monkeypatch, tmp_path):
    """The card of the session, without int8."""
    monkeypatch.setenv("ROOFLINE_KIT_CACHE", str(tmp_path))
    monkeypatch.setattr(HOME, "_known", {})
    points = measured(here)
    points["gemm"].pop("int8")
    points["left_out"]["int8"] = "is refused here (no)"
    monkeypatch.setattr(protocol_gpu, "measure_gpu", lambda device, tell: points)
    return here


@pytest.mark.parametrize(("dtype", "why"), [("int8", r"int8, it is refused here \(no\)"), ("float8", "float8")])
def test_a_dtype_without_a_roof_says_why_and_what_there_is(kept, dtype, why):
    with pytest.raises(ValueError, match=f"^this GPU has no measured roof for {why}: choose float16 or bfloat16"):
        sustained(dtype, device=kept.device)


def test_a_card_that_lacks_a_dtype_for_a_reason_is_whole(kept):
    sustained(device=kept.device)
    assert HOME._kept(kept.device).data["left_out"] == {"int8": "is refused here (no)"}
