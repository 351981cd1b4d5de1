"""The GPU's protocol on a stand-in: are its kernels right, its points counted right, its refusals sentences?"""

import importlib
import sys

import numpy as np
import pytest
from fake_cupy import fake_cupy

from roofline_kit import protocol, protocol_gpu
from roofline_kit.device import Device
from roofline_kit.doubts import MeasureError
from roofline_kit.sustained import judged, roofline, sustained

SECONDS = 1e-3           # that each call takes


@pytest.fixture
def gpu(monkeypatch):
    """A GPU whose every call takes a millisecond, with buffers and products small enough for NumPy."""
    cupy = fake_cupy()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.delitem(sys.modules, "roofline_kit.kernels.gpu", raising=False)
    monkeypatch.setattr(protocol, "sample", lambda call, **_: (call(), ([SECONDS] * 3, []))[1])
    for name, value in {"BUFFER": 2**20, "LEAST": 2**20, "PRODUCTS": (8, 16), "STEPS": 3, "THREADS": 4}.items():
        monkeypatch.setattr(protocol_gpu, name, value)
    yield Device("gpu", cupy, "Fake H100", "float16", 132, {"L2": 2**17}, 80 * 10**9, "gpu-0")
    sys.modules.pop("roofline_kit.kernels.gpu", None)


@pytest.fixture
def kernels(gpu):
    return importlib.import_module("roofline_kit.kernels.gpu")


def measured(gpu):
    return protocol_gpu.measure_gpu(gpu, lambda share, what: None)


def test_the_kernels_compute_what_their_cpu_twins_do(gpu):
    x, y, out = (np.arange(4, dtype="float32") + shift for shift in (0, 10, 20))
    gpu.kernel("triad")(out, x, y, 0.5)
    assert np.array_equal(out, x + 0.5 * y) and gpu.kernel("read")(x, 2) == 6
    gpu.kernel("copy")(out, x)
    gpu.kernel("scale")(y, 2)
    assert np.array_equal(out, x) and np.array_equal(y, [20, 22, 24, 26])
    gpu.kernel("write")(out, 7)
    assert np.array_equal(out, [7, 7, 7, 7])


@pytest.mark.parametrize("chains", [1, 4])
def test_a_chain_is_that_many_multiply_adds(kernels, chains):
    out, steps = np.empty(3, "float64"), 5
    kernels.fma(chains, steps, out)
    begin = np.array([[0.999 * number / (2 * chains) + 0.999 * i / 128 for i in range(3)] for number in range(chains)])
    assert np.allclose(out, (1 + (begin - 1) * 0.999**steps).sum(axis=0))


def test_chains_begin_at_different_numbers(kernels):
    code = kernels._chains(4).before.split(";")
    assert len({line.split("=")[1].strip() for line in code if "x" in line.split("=")[0]}) == 4


def test_rates_are_counts_over_time(gpu):
    points = measured(gpu)
    assert points["gemm"]["float16"][1]["rate"] == pytest.approx(2 * 16**3 / SECONDS)
    assert points["fma"]["float32"][0]["rate"] == pytest.approx(2 * 1 * 3 * 132 * 4 / SECONDS)
    assert points["rounds"][0]["copy"]["bytes"] == 2**20 and len(points["rounds"]) == 3


def test_the_card_of_a_gpu_gives_a_roof_for_each_dtype(gpu):
    found = judged(measured(gpu), gpu)
    half = roofline(found, "float16")
    assert half.vector_peak == roofline(found, "float32").vector_peak       # its vector unit works in float32
    assert half.overhead == SECONDS and half.levels == () and "a launch" in repr(found)
    assert half.bandwidth == pytest.approx(max(mix["bandwidth"] for mix in found.data["mixes"].values()))


def test_a_dtype_without_a_roof_is_told_which_have_one(gpu):
    with pytest.raises(ValueError, match="this GPU has no measured roof for int8: choose float16 or float32"):
        sustained("int8", device=gpu)


def test_a_full_gpu_is_one_sentence(gpu, monkeypatch):
    monkeypatch.setattr(gpu.xp.cuda.runtime, "memGetInfo", lambda: (2**20, 80 * 10**9))
    gpu.xp.get_default_memory_pool().free_bytes = lambda: 0
    monkeypatch.setattr(protocol_gpu, "LEAST", 2**30)
    with pytest.raises(MeasureError, match="of the GPU's memory are free, too little"):
        measured(gpu)


def test_products_that_would_fill_the_memory_are_left_out(gpu, monkeypatch):
    monkeypatch.setattr(protocol_gpu, "PRODUCTS", (8, 10**6))
    assert [point["n"] for point in measured(gpu)["gemm"]["float64"]] == [8]
