"""Each state of a machine has its sentence and its next step, and nothing makes the doctor faint."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
from fake_cupy import CudaError, fake_cupy

from roofline_kit.device import _cpu, _gpu, _tell
from roofline_kit.doctor import Finding, Report, doctor, gpu

MODULE = sys.modules["roofline_kit.doctor"]


@pytest.fixture(autouse=True)
def no_memory_of_earlier_devices(monkeypatch):
    monkeypatch.setattr(MODULE, "nvidia_driver", lambda: False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    yield
    for remembered in (_cpu, _gpu, _tell):
        remembered.cache_clear()


def seen(monkeypatch, cupy):
    _gpu.cache_clear()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return Finding("GPU", *gpu())


class Broken(ModuleType):
    def __getattr__(self, name):
        raise ImportError("libcublas.so.13: cannot open shared object file")


FAULTS = {
    "does not import": Broken("cupy"),
    "this machine has no NVIDIA driver": fake_cupy(status=35, driver=0),
    "the driver is for CUDA 12.4, older than CuPy's CUDA 13.2": fake_cupy(status=35, driver=12040),
    "there is a driver but it finds no GPU": fake_cupy(status=100),
    "there is a driver but it finds no GPU.": fake_cupy(devices=0),
    "stub of libcuda": fake_cupy(status=34),
    "the driver reports an error: cudaErrorFake": fake_cupy(status=999),
    "NVRTC is missing: no libnvrtc": fake_cupy(nvrtc=RuntimeError("no libnvrtc.so.13\nlong story")),
    "finds no CUDA headers": fake_cupy(compiling=RuntimeError('cannot open source file "cuda_fp16.h"')),
    "a test kernel does not run: cudaErrorFake": fake_cupy(compiling=CudaError(700)),
    "a test kernel gives wrong numbers": fake_cupy(factor=1.0),
}


@pytest.mark.parametrize("says", FAULTS)
def test_each_fault_of_the_gpu_has_its_sentence_and_its_next_step(monkeypatch, says):
    finding = seen(monkeypatch, FAULTS[says])
    assert says in finding.says and finding.next and finding.level != "ok"
    assert finding.says.endswith(".") and "\n" not in finding.says and ". " not in finding.says


def test_no_two_faults_are_told_alike(monkeypatch):
    told = {seen(monkeypatch, cupy).says for cupy in FAULTS.values()}
    assert len(told) == len(FAULTS) - 1                      # two ways to have no GPU


def test_a_machine_without_any_trace_of_a_gpu_is_fine(monkeypatch):
    finding = seen(monkeypatch, None)
    assert (finding.level, finding.next) == ("ok", "") and "runs on the CPU" in finding.says


def test_a_driver_without_cupy_is_a_problem(monkeypatch):
    monkeypatch.setattr(MODULE, "nvidia_driver", lambda: True)
    finding = seen(monkeypatch, None)
    assert finding.level == "problem" and "`python course.py lab`" in finding.next


def test_cupy_without_a_driver_is_no_problem_of_the_cpu_course(monkeypatch):
    assert seen(monkeypatch, fake_cupy(status=35, driver=0)).level == "note"


def test_a_hidden_gpu_is_told_apart_from_a_missing_one(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    finding = seen(monkeypatch, fake_cupy(status=100))
    assert "CUDA_VISIBLE_DEVICES=''" in finding.says and finding.next.startswith("unset CUDA_VISIBLE_DEVICES")


def test_a_gpu_that_works_is_named(monkeypatch):
    finding = seen(monkeypatch, fake_cupy())
    assert finding == Finding("GPU", "ok", "Fake H100 through CuPy 14.2.0, driver for CUDA 13.2.")


def test_a_missing_dependency_of_cupy_is_not_a_missing_cupy(monkeypatch):
    error = ModuleNotFoundError("No module named 'fastrlock'", name="fastrlock")
    monkeypatch.setattr(MODULE.importlib, "import_module", lambda name: (_ for _ in ()).throw(error))
    assert "does not import: No module named 'fastrlock'" in gpu()[1]


def test_blas_on_too_few_threads_is_noted(monkeypatch):
    monkeypatch.setattr(MODULE.host, "cores", lambda: 1000)
    level, says, step = MODULE.blas()
    assert level == "note" and "threads on 1000 cores" in says and "OPENBLAS_NUM_THREADS=1000" in step


def test_numba_that_compiles_nothing_is_a_problem(monkeypatch):
    monkeypatch.setattr("numba.config.DISABLE_JIT", 1)
    assert MODULE.numba()[0] == "problem" and MODULE.numba()[2] == "unset NUMBA_DISABLE_JIT"


@pytest.mark.parametrize(("has", "level"), [({"omp", "workqueue"}, "ok"), ({"workqueue"}, "note"),
                                            (set(), "note")])
def test_numba_without_openmp_is_noted(monkeypatch, has, level):
    monkeypatch.setattr(MODULE, "_has_layer", lambda layer: layer in has)
    assert MODULE.numba()[0] == level


def test_withheld_cores_are_noted(monkeypatch):
    monkeypatch.setattr(MODULE.host, "cores", lambda: 3)
    monkeypatch.setattr(MODULE.os, "cpu_count", lambda: 8)
    assert MODULE.cores()[0] == "note" and "3 of 8 cores" in MODULE.cores()[1]


@pytest.mark.parametrize(("free", "level"), [(1.9e9, "problem"), (2.1e9, "ok")])
def test_little_memory_is_a_problem(monkeypatch, free, level):
    monkeypatch.setattr(MODULE.host, "free_memory", lambda: free)
    assert MODULE.memory()[0] == level


@pytest.mark.parametrize(("share", "level"), [(None, "note"), (0.3, "ok"), (0.31, "problem")])
def test_a_busy_machine_is_a_problem(monkeypatch, share, level):
    monkeypatch.setattr(MODULE.host, "foreign_load", lambda: share)
    assert MODULE.load()[0] == level


def test_python_outside_of_an_environment_is_noted(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    assert MODULE.python()[0] == "note" and "`python course.py lab`" in MODULE.python()[2]


@pytest.mark.parametrize(("starts", "level"), [("python", "ok"), (sys.executable, "ok"),
                                               ("/elsewhere/python", "problem")])
def test_a_kernel_of_another_python_is_a_problem(monkeypatch, starts, level):
    spec = SimpleNamespace(argv=[starts, "-m", "ipykernel_launcher"])
    manager = "jupyter_client.kernelspec.KernelSpecManager"
    monkeypatch.setattr(f"{manager}.get_kernel_spec", lambda self, name: spec)
    assert MODULE.jupyter()[0] == level


def test_a_look_that_fails_is_a_finding_and_the_others_go_on(monkeypatch):
    def faint():
        raise OSError("the disk is gone\nand more")
    monkeypatch.setattr(MODULE, "memory", faint)
    monkeypatch.setattr(MODULE.host, "foreign_load", lambda: 0.0)
    report = doctor()
    says = "looking at it failed: the disk is gone."
    assert Finding("memory", "problem", says, MODULE.REINSTALL) in report.problems
    assert len(report.findings) == 9


def test_the_report_is_a_line_each_with_the_next_step_below():
    report = Report((Finding("NumPy", "ok", "it is there."),
                     Finding("GPU", "problem", "it is gone.", "look for it")))
    assert repr(report).splitlines() == ["ok       NumPy    it is there.", "problem  GPU      it is gone.",
                                         "                  -> look for it", "1 problem found"]
