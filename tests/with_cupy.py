"""Does a real CuPy, on a machine without a GPU, have the names that are used and say what the doctor expects?

Run `python -m pytest tests/with_cupy.py`: where CuPy is not installed, it goes into an environment that is thrown
away (1 GB), or ROOFLINE_KIT_CUPY names a Python that has it. What was seen is written into cupy_names.txt.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_cupy_names import SEEN, used
from test_resources import variants

from roofline_kit.kernels import source

HERE = Path(__file__).parent
CUPY = ["cupy-cuda13x==14.2.*",
        *(f"nvidia-{part}==13.*" for part in ("cublas", "cuda-crt", "cuda-nvrtc", "cuda-runtime"))]
LOOK = """
import importlib, json, sys
import cupy
missing = []
for name in json.load(sys.stdin):
    first, *rest = name.split(".")
    found = path = first
    found = importlib.import_module(first)
    for part in rest:
        path += "." + part
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module(path)
            except ImportError:
                missing.append(name)
                break
json.dump([cupy.__version__, missing], sys.stdout)
"""
KIT = """
import json, sys
sys.path += json.loads(sys.stdin.read())          # our packages first, then CuPy's environment
from roofline_kit.device import DeviceError, device
from roofline_kit.gpu_state import look
told = look()
try:
    device("gpu")
except DeviceError as error:
    json.dump([*told, str(error)], sys.stdout)
"""
COMPILE = """
import json, sys
from cupy._core import core
from cupy.cuda import compiler
compiler._get_arch_for_options_for_nvrtc = lambda arch: ("-arch=sm_90", "cubin")     # it would ask the GPU
options = core.assemble_cupy_compiler_options(("--std=c++17",))
json.dump([len(compiler.compile_using_nvrtc(code, options, "90")[0]) for code in json.load(sys.stdin)], sys.stdout)
"""
DRIVERS = {  # (version, status of cuInit, CUDA_VISIBLE_DEVICES): what the doctor says, and what to do
    (0, 0, None): ("this machine has no NVIDIA driver", "--gpus all"),
    (12040, 0, None): ("the driver is for CUDA 12.4, older than CuPy's CUDA 13.", "python course.py lab"),
    (13020, 100, None): ("there is a driver but it finds no GPU", "nvidia-smi -L"),
    (13020, 100, ""): ("CUDA_VISIBLE_DEVICES='' hides every GPU", "unset CUDA_VISIBLE_DEVICES"),
    (13020, 34, None): ("stub of libcuda", "libcuda"),
    (13020, 999, None): ("the driver reports an error: cudaErrorUnknown", "nvidia-smi"),
}


@pytest.fixture(scope="session")
def python(tmp_path_factory):
    """A Python that has CuPy."""
    if os.environ.get("ROOFLINE_KIT_CUPY"):
        return os.environ["ROOFLINE_KIT_CUPY"]
    if importlib.util.find_spec("cupy"):
        return sys.executable
    folder = tmp_path_factory.mktemp("cupy")
    there = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if uv := shutil.which("uv"):
        steps = [uv, "venv", "--python", sys.executable, folder], [uv, "pip", "install", "--python", there, *CUPY]
    else:
        steps = [sys.executable, "-m", "venv", folder], [there, "-m", "pip", "install", *CUPY]
    for step in steps:
        subprocess.run(step, check=True)
    return str(there)


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    """A folder that holds a stand-in for NVIDIA's driver."""
    folder = tmp_path_factory.mktemp("driver")
    command = ["cc", "-shared", "-fPIC", "-o", folder / "libcuda.so.1", HERE / "fake_driver.c"]
    subprocess.run(command, check=True)
    return str(folder)


def packages(python):
    """Where that Python has its packages."""
    return answer(python, "import json, sys; json.dump(sys.path, sys.stdout)", None)


def answer(python, code, text, **environment):
    environment = {name: value for name, value in (os.environ | environment).items() if value is not None}
    told = subprocess.run([python, "-c", code], input=json.dumps(text), capture_output=True, text=True, check=False,
                          env=environment)
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


def test_every_name_is_there(python):
    names = sorted(used())
    version, missing = answer(python, LOOK, names)
    assert not missing
    SEEN.write_text("".join(f"{row}\n" for row in [
        "# Names of CuPy that the kit and the lessons use, each with the version in which it was seen",
        *(f"{name} {version}" for name in names)]))


def test_every_kernel_file_compiles_the_way_cupy_compiles_it(python):
    files = {(file, dtype): source(file, dtype, **dict(macros)) for file, dtype, macros in variants()}
    assert all(size > 1000 for size in answer(python, COMPILE, list(files.values())))


@pytest.mark.parametrize("state", DRIVERS, ids=str)
def test_a_gpu_that_is_missing_is_told_apart_and_in_one_sentence(python, driver, state):
    version, status, visible = state
    level, says, step, refused = answer(sys.executable, KIT, packages(python), LD_LIBRARY_PATH=driver,
                                        FAKE_DRIVER=str(version), FAKE_STATUS=str(status),
                                        CUDA_VISIBLE_DEVICES=visible)
    assert DRIVERS[state][0] in says and DRIVERS[state][1] in step and level in ("problem", "note")
    assert refused.startswith("there is no GPU to use: ") and refused.endswith(".") and "\n" not in refused


def test_a_machine_without_any_driver_is_told_so(python):
    level, says, *_, refused = answer(sys.executable, KIT, packages(python))
    assert (level, "no NVIDIA driver" in says) == ("note", True) and "no NVIDIA driver" in refused
