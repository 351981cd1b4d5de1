"""Is a recording of a GPU made as it should be: on the stand-in, whose kernels are the real sources run on the CPU?"""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from fake_arrays import lifted
from fake_cupy import Gpu, fake_cupy
from gpu import conftest as gpu_tests
from test_gpu import emulated
from test_record import small
from test_sustained import points

from roofline_kit.device import Device
from roofline_kit.record import OPERATIONS, TOLERANCE, record
from roofline_kit.sustained import judged

LAUNCHES = {"a launch": 4e-6, "a queued launch": 1e-6, "a launch in a graph": 1e-6, "a launch and a wait": 9e-6,
            "a timed window": 2e-6}
RATES = {"float64": 60e12, "float32": 50e12, "float16": 800e12}


@pytest.fixture
def device(monkeypatch, tmp_path):
    """A GPU without a clock of its own; a flush takes no time there."""
    gpu = Gpu(launch=1e-6, cost=lambda name, arguments: 1e-3, gap=1e-6, node=1e-7)
    cupy = fake_cupy(gpu, compiled=emulated)
    cupy.add, cupy.subtract = lifted(gpu, np.add), lifted(gpu, np.subtract)
    strides = SimpleNamespace(as_strided=lifted(gpu, np.lib.stride_tricks.as_strided))
    cupy.lib = SimpleNamespace(stride_tricks=strides)
    monkeypatch.setenv("ROOFLINE_KIT_CACHE", str(tmp_path / "cache"))
    parts = [cupy.full(4, 1.5, "float32")]
    monkeypatch.setattr(sys.modules["roofline_kit.device"], "_flush_parts", lambda device: parts)
    return Device("gpu", cupy, "Fake H200", "float16", 132, {"L1": 2**16, "L2": 2**21}, 80 * 10**9, "gpu-secret")


@pytest.fixture
def card(monkeypatch, device):
    """A machine card of that GPU, which takes no time."""
    gemm = {dtype: [{"rate": rate, "spread": 0.0}] for dtype, rate in RATES.items()}
    found = points(gemm=gemm, fma=gemm, overheads=LAUNCHES, gpu={"uid": device.uid}, left_out={},
                   software={"cupy": "14.2.0", "driver": 13020, "runtime": 13020})
    made = judged(found, device)
    monkeypatch.setattr("roofline_kit.record.card", lambda fresh, progress, device: made)
    return made


def recording(path, device, *names):
    operations = [small(one) for one in OPERATIONS if one.name in names]
    operations = [SimpleNamespace(**vars(one) | {"sizes": lambda kind, sizes=one.cpu: sizes}) for one in operations]
    return record(path, device, lambda share, what: None, operations=operations, limit=0.02)


def test_each_clock_of_a_gpu_has_its_run(device, card, tmp_path):
    found = recording(tmp_path / "mine.json", device, "copy", "chain of tiny calls", "gemm tall")
    assert found.failed == () and found.kind == "gpu"
    assert [(run.name, run.clock) for run in found.runs] == [
        ("copy", "cold"), ("copy, throughput", "throughput"), ("copy, graph", "graph"), ("gemm tall", "cold"),
        ("chain of tiny calls", "throughput"), ("chain of tiny calls, graph", "graph"),
        ("chain of tiny calls, wall", "wall")]


def test_a_recording_of_a_gpu_names_its_software_and_hides_its_number(device, card, tmp_path):
    found = recording(tmp_path / "mine.json", device, "copy")
    assert {"cupy", "driver", "runtime", "python"} <= set(found.software) and found.device == "Fake H200"
    assert device.uid not in (tmp_path / "mine.json").read_text()
    assert found.roof().dtype == "float16" and found.dtypes == ("float32",)


def test_a_kernel_that_the_gpu_refuses_leaves_its_sentence_and_the_others(device, card, tmp_path, monkeypatch):
    def refusing(source, name):
        raise RuntimeError("error: no such thing")

    monkeypatch.setattr(device.xp, "RawKernel", fake_cupy(compiled=refusing).RawKernel)
    found = recording(tmp_path / "mine.json", device, "copy", "gemm tall")
    assert [run.name for run in found.runs] == ["gemm tall"]
    (name, sentence), = found.failed
    assert name == "copy" and sentence.startswith("the kernel ") and sentence.endswith(".")


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_the_first_call_on_a_gpu_gives_the_expected_numbers(device, operation):
    job = operation.make(device, *small(operation).cpu)
    assert job.error() <= TOLERANCE[job.work.dtype]


def test_the_tests_on_a_gpu_move_arrays_there_and_back(device):
    def double(out, x):
        out[...] = x + x

    out, x = np.zeros(3), np.arange(3.0)
    assert gpu_tests.on(device, double)(out, x) is None and list(out) == [0, 2, 4]
    assert gpu_tests.on(device, lambda x: x + x)(x)[2] == 4
