"""Each state of a machine has its sentence and its next step, and nothing makes the doctor faint."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
from fake_cupy import CudaError, fake_cupy, raising

from roofline_kit import gpu_state
from roofline_kit.cuda_on_cpu.errors import CudaError as CudaOnCpuError
from roofline_kit.doctor import Finding, Report, doctor

MODULE = sys.modules["roofline_kit.doctor"]


@pytest.fixture(autouse=True)
def a_machine_without_a_driver(monkeypatch):
    monkeypatch.setattr(gpu_state, "nvidia_driver", lambda: False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def seen(monkeypatch, cupy):
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return Finding("GPU", *gpu_state.look())


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
    "does not find all CUDA headers": fake_cupy(compiling=RuntimeError('cannot open source file "cuda_fp16.h"')),
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
    monkeypatch.setattr(gpu_state, "nvidia_driver", lambda: True)
    finding = seen(monkeypatch, None)
    assert finding.level == "problem" and "`python course.py lab`" in finding.next


def test_cupy_without_a_driver_is_no_problem_of_the_cpu_course(monkeypatch):
    assert seen(monkeypatch, fake_cupy(status=35, driver=0)).level == "note"


def test_a_hidden_gpu_is_told_apart_from_a_missing_one(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    finding = seen(monkeypatch, fake_cupy(status=100))
    assert "CUDA_VISIBLE_DEVICES=''" in finding.says and finding.next.startswith("unset CUDA_VISIBLE_DEVICES")


@pytest.mark.parametrize(("path", "step"), [
    ("/usr/local/cuda/lib64/stubs:/opt/lib", "run `export LD_LIBRARY_PATH=/opt/lib` and start again"),
    ("/usr/local/cuda/lib64/stubs", "run `unset LD_LIBRARY_PATH` and start again"),
    ("/opt/lib", "run `ldconfig -p | grep libcuda`, which lists it, and remove it")])
def test_a_stub_in_place_of_the_driver_is_taken_out_of_the_path(monkeypatch, path, step):
    monkeypatch.setenv("LD_LIBRARY_PATH", path)
    assert seen(monkeypatch, fake_cupy(status=34)).next == step


def test_a_gpu_that_works_is_named(monkeypatch):
    finding = seen(monkeypatch, fake_cupy())
    assert finding == Finding("GPU", "ok", "Fake H100 through CuPy 14.2.0, driver for CUDA 13.2.")


def test_a_missing_dependency_of_cupy_is_not_a_missing_cupy(monkeypatch):
    error = ModuleNotFoundError("No module named 'fastrlock'", name="fastrlock")
    monkeypatch.setattr(gpu_state.importlib, "import_module", lambda name: (_ for _ in ()).throw(error))
    assert "does not import: No module named 'fastrlock'" in gpu_state.look()[1]


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


def tools(monkeypatch, *names):
    monkeypatch.setattr(MODULE.shutil, "which", lambda name: name if name in names else None)


@pytest.mark.parametrize(("there", "command"), [
    (["apt", "conda"], "`sudo apt install g++`"), (["dnf"], "`sudo dnf install gcc-c++ libasan libubsan`"),
    (["xcode-select"], "`xcode-select --install`"), (["wsl"], "`wsl --install` and open"), ([], "`conda install")])
def test_a_machine_without_a_compiler_is_told_the_command_of_its_system(monkeypatch, there, command):
    tools(monkeypatch, *there)
    monkeypatch.setattr(MODULE, "compiler", raising(CudaOnCpuError("none.")))
    level, says, step = MODULE.cpp()
    assert level == "note" and says.startswith("there is no C++ compiler, so") and step.startswith(f"run {command}")


def a_compiler(folder, code):
    """A script that stands in for a compiler: it tells its version, and links with that exit code."""
    path = folder / "c++"
    path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "c++ 1.2" && exit\nexit {code}\n')
    path.chmod(0o755)
    return str(path)


@pytest.mark.skipif(sys.platform == "win32", reason="kernels run in WSL there, which is Linux")
@pytest.mark.parametrize(("code", "level", "says"), [
    (0, "ok", ", with AddressSanitizer."),
    (1, "note", " has no AddressSanitizer, so kernels run but `.check()` does not.")])
def test_a_compiler_is_told_with_what_it_can_check(monkeypatch, tmp_path, code, level, says):
    path = a_compiler(tmp_path, code)
    monkeypatch.setattr(MODULE, "compiler", lambda: path)
    found = Finding("C++", *MODULE.cpp())
    assert (found.level, found.says) == (level, f"c++ 1.2 at {path}{says}") and bool(found.next) == (level != "ok")


def nvidia(monkeypatch, folder, *files):
    """A machine that has these files of NVRTC and of CUDA's headers in a folder."""
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    monkeypatch.setattr(MODULE.nvrtc, "find", lambda: next(iter(folder.glob("libnvrtc*")), None))
    monkeypatch.setattr(MODULE.nvrtc, "includes", lambda: [folder])
    monkeypatch.setattr(MODULE.nvrtc, "version", lambda: "13.0")
    return MODULE.gpu_compiler()


@pytest.mark.parametrize(("files", "lacks"), [
    ((), "nvidia-cuda-nvrtc and nvidia-cuda-crt and nvidia-cuda-runtime"),
    (("libnvrtc.so.13",), "nvidia-cuda-crt and nvidia-cuda-runtime"),
    (("libnvrtc.so.13", "cuda_fp16.h", "mma.h"), "nvidia-cuda-crt"),
    (("cuda_fp16.h", "mma.h", "crt/mma.h"), "nvidia-cuda-nvrtc")])
def test_what_nvidias_compiler_lacks_is_noted_with_the_command_that_installs_it(monkeypatch, tmp_path, files, lacks):
    level, says, step = nvidia(monkeypatch, tmp_path, *files)
    assert level == "note" and f"lacks {lacks}, so" in says
    assert all(f'"{package}==13.*"' in step for package in lacks.split(" and "))


def test_nvidias_compiler_is_told_with_where_it_was_found(monkeypatch, tmp_path):
    level, says = nvidia(monkeypatch, tmp_path, "libnvrtc.so.13", "cuda_fp16.h", "mma.h", "crt/mma.h")
    assert (level, says) == ("ok", f"13.0 at {tmp_path / 'libnvrtc.so.13'}, headers at {tmp_path}.")


def test_macos_has_no_compiler_of_nvidias_and_needs_none(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert MODULE.gpu_compiler()[0] == "ok"


def test_a_look_that_fails_is_a_finding_and_the_others_go_on(monkeypatch):
    def faint():
        raise OSError("the disk is gone\nand more")
    monkeypatch.setattr(MODULE, "memory", faint)
    monkeypatch.setattr(MODULE.host, "foreign_load", lambda: 0.0)
    report = doctor()
    says = "looking at it failed: the disk is gone."
    assert Finding("memory", "problem", says, MODULE.REINSTALL) in report.problems
    assert len(report.findings) == 11


def test_the_report_is_a_line_each_with_the_next_step_below():
    report = Report((Finding("NumPy", "ok", "it is there."),
                     Finding("GPU", "problem", "it is gone.", "look for it")))
    assert repr(report).splitlines() == ["ok       NumPy    it is there.", "problem  GPU      it is gone.",
                                         "                  -> look for it", "1 problem found"]
