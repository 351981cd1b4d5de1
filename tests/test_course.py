"""Does course.py set the course up on any machine, once, and say in a sentence what it cannot do?"""

import ast
import ctypes
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[1]
NVRTC = "requirements.nvrtc.lock.txt"
LOCKS = ("requirements.lock.txt", "requirements.cuda12.lock.txt", "requirements.cuda13.lock.txt", NVRTC)
PIP = "-m pip install"
NO_NETWORK = "dns error: failed to lookup address information: Temporary failure in name resolution"


class Tools:
    """Stands in for the steps of the set-up: remembers them, makes a .venv, and fails where it is told to."""

    def __init__(self, course):
        self.course, self.said, self.failures, self.seconds = course, [], {}, 0

    def __call__(self, command):
        self.said.append(" ".join(command))
        time.sleep(self.seconds)
        for part, error in self.failures.items():
            if part in self.said[-1]:
                raise error
        if "venv" in command:
            Path(self.course.PYTHON).parent.mkdir(parents=True)
            Path(self.course.PYTHON).touch()


@pytest.fixture
def folder(tmp_path):
    home = tmp_path / "mein Kurs \u00e9\u4e2d"
    home.mkdir()
    for name in ("course.py", "pyproject.toml", *LOCKS):
        shutil.copy(ROOT / name, home)
    return home


@pytest.fixture
def course(folder, monkeypatch):
    """A fresh folder's course.py, on a machine with Python alone; what it starts is kept in .started."""
    spec = importlib.util.spec_from_file_location("course_copy", folder / "course.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.started = []
    monkeypatch.setattr(module, "driver", lambda: None)
    monkeypatch.setattr(module, "COMPILER", None)
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    monkeypatch.setattr(os, "chdir", lambda path: module.started.append(path))
    monkeypatch.setattr(os, "execve", lambda path, command, env: module.started.append(command[1:]))
    return module


@pytest.fixture
def tools(course, monkeypatch):
    stand_in = Tools(course)
    monkeypatch.setattr(course, "run", stand_in)
    return stand_in


def ready(course):
    return (Path(course.VENV) / "stamp").is_file() and (Path(course.VENV) / "stamp").read_text() != ""


# Any Python, any word

def test_old_pythons_can_read_it():
    tree = ast.parse((ROOT / "course.py").read_text(encoding="ascii"))
    newer = (ast.JoinedStr, ast.NamedExpr, ast.AnnAssign, ast.AsyncFunctionDef, ast.Nonlocal, ast.YieldFrom)
    assert not [node.lineno for node in ast.walk(tree) if isinstance(node, newer)]
    assert not [node.lineno for node in ast.walk(tree) if isinstance(node, ast.arguments)
                and (node.kwonlyargs or node.posonlyargs or any(arg.annotation for arg in node.args))]
    assert not [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.cause]
    assert not [node.lineno for node in ast.walk(tree) if isinstance(node, (ast.List, ast.Tuple, ast.Set))
                and any(isinstance(item, ast.Starred) for item in ast.iter_child_nodes(node))]
    assert not [call.lineno for call in ast.walk(tree) if isinstance(call, ast.Call)
                and getattr(call.func, "id", "") in ("print", "super")]


def test_it_imports_only_what_every_python_brings():
    tree = ast.parse((ROOT / "course.py").read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert names <= sys.stdlib_module_names
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]


def test_it_can_be_read_in_one_sitting():
    assert len((ROOT / "course.py").read_text().splitlines()) <= 210


@pytest.mark.parametrize("version", [(2, 7, 18), (3, 10, 13), (3, 15, 0)])
def test_a_python_outside_the_range_is_told_which_ones_fit(course, monkeypatch, version):
    with monkeypatch.context() as patch:
        patch.setattr(sys, "version_info", version)
        said = course.main(["lab"])
    assert "3.11 to 3.14" in said and f"this is {version[0]}.{version[1]}" in said


def test_the_range_of_pythons_is_that_of_pyproject(course):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (major, oldest), (_, newest) = course.OLDEST, course.NEWEST
    assert project["requires-python"] == f">={major}.{oldest},<{major}.{newest + 1}"


@pytest.mark.parametrize("words", [[], ["help"], ["-h"], ["--help"]])
def test_without_a_command_it_tells_what_it_can_do(course, capsys, words):
    assert course.main(words) == 0
    said = capsys.readouterr().out
    assert all("course.py " + word in said for word in course.COMMANDS)


def test_the_notebooks_that_it_opens_are_there(course):
    lesson = course.LAB[-1].partition("/lab/tree/")[2]
    assert (ROOT / lesson).is_file() and (ROOT / course.COMMANDS["explore"][0][2]).is_file()


def test_an_unknown_command_sets_nothing_up(course, tools):
    assert "lab, test, build, explore, check, card" in course.main(["labb"])
    assert tools.said == []


@pytest.mark.parametrize("word, starts, where", [
    ("lab", ["-m", "jupyterlab"], "course"), ("test", ["-m", "pytest"], "course"),
    ("build", ["source/build.py"], "course"), ("check", ["-P", "-m", "roofline_kit.grade"], "."),
    ("card", ["-P", "-m", "roofline_kit"], "."), ("explore", ["-m", "voila"], "course")])
def test_each_command_passes_its_arguments_on(course, tools, word, starts, where):
    course.main([word, "--more", "a b"])
    assert course.started[0] == (course.ROOT if where == "course" else where)
    assert course.started[1][:len(starts)] == starts and course.started[1][-2:] == ["--more", "a b"]


# Once, and again when something changed

def test_the_second_run_needs_no_set_up(course, tools):
    course.main(["test"])
    first = len(tools.said)
    course.main(["test"])
    assert first == 2 == len(tools.said) and len(course.started) == 4


def test_the_second_run_works_in_a_folder_that_cannot_be_written(course, tools, monkeypatch):
    course.main(["test"])
    monkeypatch.setattr(course, "write", None)
    monkeypatch.setattr(course, "wait_for_turn", None)
    course.main(["test"])
    assert len(course.started) == 4


@pytest.mark.parametrize("name", ["requirements.lock.txt", "pyproject.toml"])
def test_a_changed_pin_is_installed(course, tools, folder, name):
    course.main(["test"])
    with open(folder / name, "a") as file:
        file.write("# changed\n")
    course.main(["test"])
    assert len(tools.said) == 4


def test_another_python_gets_a_venv_of_its_own(course, tools, monkeypatch):
    course.main(["test"])
    with monkeypatch.context() as patch:
        patch.setattr(sys, "version_info", (3, 14, 0) if sys.version_info[:2] != (3, 14) else (3, 13, 0))
        course.main(["test"])
    assert len(tools.said) == 4


def test_a_moved_folder_is_set_up_again(course, tools, monkeypatch):
    course.main(["test"])
    monkeypatch.setattr(course, "ROOT", course.ROOT + "/../" + os.path.basename(course.ROOT))
    course.main(["test"])
    assert len(tools.said) == 4


@pytest.mark.parametrize("broken", ["PYTHON", "stamp"])
def test_a_half_made_venv_is_made_afresh(course, tools, broken):
    course.main(["test"])
    left = Path(course.VENV) / "left over"
    left.touch()
    if broken == "PYTHON":
        os.remove(course.PYTHON)
    else:
        Path(course.VENV, "stamp").write_bytes(b"\xff\xfe")
    course.main(["test"])
    assert len(tools.said) == 4 and not left.exists() and ready(course)


def test_a_venv_that_is_not_the_courses_own_is_left_alone(course, tools):
    mine = Path(course.VENV) / "mine/notes.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("precious")
    assert "move it away" in course.main(["test"])
    assert mine.read_text() == "precious" and not tools.said


def test_a_file_in_the_place_of_venv_is_a_sentence(course, tools):
    Path(course.VENV).write_text("precious")
    assert "move it away" in course.main(["test"]) and Path(course.VENV).read_text() == "precious"


def test_a_set_up_that_is_stopped_is_not_taken_for_a_finished_one(course, tools):
    tools.failures = {PIP: KeyboardInterrupt()}
    assert "run this again" in course.main(["test"])
    assert Path(course.PYTHON).exists() and not ready(course) and not course.started


def test_two_set_ups_at_once_install_once(course, tools):
    tools.seconds = 0.1
    threads = [threading.Thread(target=course.set_up) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tools.said) == 2 and ready(course)


# uv or pip

def test_uv_is_used_where_there_is_one(course, tools, monkeypatch):
    monkeypatch.setattr(course.shutil, "which", {"uv": "/bin/uv"}.get)
    course.main(["test"])
    make, add = tools.said
    assert make.startswith("/bin/uv venv --python") and add.startswith("/bin/uv pip install --python")


def test_pip_is_used_where_uv_fails(course, tools, monkeypatch):
    monkeypatch.setattr(course.shutil, "which", {"uv": "/bin/uv"}.get)
    tools.failures = {"uv pip": OSError("error: unexpected argument")}
    course.main(["test"])
    assert "-m venv" in tools.said[2] and PIP in tools.said[3] and ready(course)


def test_only_hashed_wheels_are_installed(course, tools):
    course.main(["test"])
    assert "--no-deps --only-binary :all: --require-hashes -r requirements.lock.txt" in tools.said[1]


# What can go wrong

@pytest.mark.parametrize("step, printed, sentence", [
    (PIP, NO_NETWORK, "network"),
    (PIP, "NewConnectionError: Failed to establish a new connection: [Errno -3]", "network"),
    (PIP, "ERROR: [Errno 28] No space left on device", "2 GB"),
    (PIP, "error: failed to create directory: Read-only file system (os error 30)", "folder of your own"),
    (PIP, "PermissionError: [WinError 5] Access is denied", "close JupyterLab"),
    ("-m venv", "not created successfully because ensurepip is not available", "python3-venv"),
    ("-m venv", "/usr/bin/python3: No module named venv", "python3-venv")])
def test_a_failed_step_ends_in_one_sentence(course, tools, step, printed, sentence):
    tools.failures = {step: OSError("one\ntwo\n" + printed)}
    said = course.main(["test"])
    assert sentence in said and "\n" not in said
    assert not ready(course) and not course.started


def test_an_unknown_failure_shows_the_last_lines(course, tools):
    tools.failures = {PIP: OSError("\n".join(f"line {i}." for i in range(100)))}
    said = course.main(["test"])
    assert "line 99." in said and "line 50." not in said


def test_a_full_disk_is_told_even_where_the_step_is_silent(course, tools, monkeypatch):
    tools.failures = {"-m venv": OSError("Error: Command ensurepip returned non-zero exit status 1.")}
    monkeypatch.setattr(course.shutil, "disk_usage", lambda path: SimpleNamespace(free=0))
    assert "disk is full" in course.main(["test"])


def test_a_folder_that_cannot_be_written_is_told(course, tools, monkeypatch):
    def no(path, mode="r", **keywords):
        if mode == "a":
            raise OSError(30, "Read-only file system", path)
        return open(path, mode, **keywords)
    monkeypatch.setattr(course, "open", no, raising=False)
    assert "folder of your own" in course.main(["test"]) and not tools.said


def test_a_failed_step_hands_on_all_it_printed(course):
    with pytest.raises(OSError, match="(?s)first.*last"):
        course.run([sys.executable, "-c", "print('first'); print('last'); raise SystemExit(3)"])


def test_a_sentence_on_the_command_line_is_an_exit_code(folder):
    done = subprocess.run([sys.executable, folder / "course.py", "labb"],
                          check=False, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and done.stdout == ""


# The user's own settings

def test_the_users_settings_do_not_reach_the_course(course, monkeypatch):
    for name in course.FOREIGN:
        monkeypatch.setenv(name, "of the user")
    assert not set(course.FOREIGN) & set(course.environment())
    assert course.environment()["VIRTUAL_ENV"] == course.VENV


def test_a_kernel_of_the_users_does_not_shadow_the_courses(course, tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "path"))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    for place in ("path", "data"):
        (tmp_path / place / "kernels/python3").mkdir(parents=True)
        (tmp_path / place / "kernels/python3/kernel.json").write_text(
            '{"argv": ["false"], "display_name": "of the user", "language": "python"}')
    find = "from jupyter_client import kernelspec as k; print(k.get_kernel_spec('python3').display_name)"
    env = course.environment(sys.prefix)
    said = subprocess.check_output([sys.executable, "-c", find], env=env, text=True)
    assert said.startswith("Python 3")


# The GPU

def library(code, version):
    class Library:
        def cuDriverGetVersion(self, pointer):
            pointer._obj.value = version
            return code
    return lambda name: Library()


def no_library(name):
    raise OSError("libcuda.so.1: cannot open shared object file")


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """course.driver on a machine whose driver library and nvidia-smi are given."""
    spec = importlib.util.spec_from_file_location("course_driver", ROOT / "course.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def driver(library=no_library, tool=None):
        if tool is not None:
            (tmp_path / "nvidia-smi").write_text("#!/bin/sh\n" + tool)
            (tmp_path / "nvidia-smi").chmod(0o755)
        monkeypatch.setattr(ctypes, "CDLL", library)
        monkeypatch.setenv("PATH", str(tmp_path))
        return module.driver()
    return driver


@pytest.mark.parametrize("value, version", [(13000, (13, 0)), (12080, (12, 8)), (11040, (11, 4))])
def test_the_driver_is_asked_for_its_cuda(machine, value, version):
    assert machine(library(0, value)) == version


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
@pytest.mark.parametrize("line, version", [
    ("| NVIDIA-SMI 580.65.06    Driver Version: 580.65.06    CUDA Version: 13.0     |", (13, 0)),
    ("| NVIDIA-SMI 535.104.05   Driver Version: 535.104.05   CUDA Version: 12.2     |", (12, 2)),
    ("| KMD Version: 600.10     CUDA UMD Version: 13.2 |", (13, 2)),
    ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", None)])
def test_nvidia_smi_is_read_where_the_library_is_silent(machine, line, version):
    for silent in (no_library, library(34, 0), library(0, 0)):
        assert machine(silent, f'echo "{line}"') == version


def test_a_broken_nvidia_smi_is_no_driver(machine):
    assert machine(tool="exit 9") is None


def test_a_machine_without_a_driver_is_one(machine):
    assert machine() is None


@pytest.mark.parametrize("version, lock, word", [
    ((13, 1), "requirements.cuda13.lock.txt", "13.1"), ((14, 0), "requirements.cuda13.lock.txt", "14.0"),
    ((12, 0), "requirements.cuda12.lock.txt", "12.0"), ((11, 8), NVRTC, "updated"), (None, NVRTC, "CPU")])
def test_a_driver_gets_the_cupy_that_it_can_run_and_none_the_compiler(course, monkeypatch, version, lock, word):
    monkeypatch.setattr(course, "COMPILER", NVRTC)
    found, sentence = course.gpu_lock(version)
    assert found == lock and word in sentence


def test_without_a_driver_the_compiler_is_installed_after_the_rest(course, tools, monkeypatch):
    monkeypatch.setattr(course, "COMPILER", NVRTC)
    course.main(["test"])
    assert tools.said[-1].endswith(f"-r {NVRTC}") and tools.said[-2].endswith(f"-r {LOCKS[0]}")


def test_a_compiler_that_cannot_be_installed_does_not_stop_the_course(course, tools, monkeypatch, capsys):
    monkeypatch.setattr(course, "COMPILER", NVRTC)
    tools.failures = {"nvrtc": OSError(NO_NETWORK)}
    course.main(["test"])
    assert "NVIDIA's compiler could not be installed" in capsys.readouterr().err and ready(course)


@pytest.mark.parametrize("cuda, other", [(12, 13), (13, 12)])
def test_one_cupy_is_installed_and_never_both(course, tools, monkeypatch, cuda, other):
    monkeypatch.setattr(course, "driver", lambda: (cuda, 1))
    course.main(["test"])
    assert tools.said[-1].endswith(f"-r requirements.cuda{cuda}.lock.txt")
    assert not [step for step in tools.said if f"cuda{other}" in step]


def test_another_driver_gets_a_fresh_venv(course, tools, monkeypatch):
    monkeypatch.setattr(course, "driver", lambda: (12, 9))
    course.main(["test"])
    monkeypatch.setattr(course, "driver", lambda: (13, 0))
    course.main(["test"])
    assert ["venv" in step for step in tools.said].count(True) == 6 and len(course.started) == 4


def test_a_cupy_that_cannot_be_installed_does_not_stop_the_course(course, tools, monkeypatch, capsys):
    monkeypatch.setattr(course, "driver", lambda: (13, 0))
    tools.failures = {"cuda13": OSError(NO_NETWORK)}
    course.main(["test"])
    assert "uses the CPU" in capsys.readouterr().err
    assert ready(course) and len(course.started) == 2


def test_without_a_driver_the_learner_is_told_that_the_cpu_is_used(course, tools, capsys):
    course.main(["test"])
    assert "uses the CPU" in capsys.readouterr().err and not [step for step in tools.said if "cuda" in step]


# The whole of it, with nothing to download

def test_a_real_venv_runs_the_kit_from_another_folder(folder, tmp_path):
    for name in LOCKS:
        (folder / name).write_text("# nothing\n")
    (folder / "roofline_kit").mkdir()
    kit = "import json, sys; print(json.dumps([__file__, sys.argv[1:]]))"
    (folder / "roofline_kit/__main__.py").write_text(kit)
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    env = {**os.environ, "PATH": os.defpath, "PYTHONPATH": str(tmp_path), "LC_ALL": "C.UTF-8"}
    command = [sys.executable, "-E", folder / "course.py", "card", "--json"]
    how = {"cwd": tmp_path, "env": env, "capture_output": True, "text": True}
    first, second = (subprocess.run(command, check=True, **how) for _ in range(2))
    assert "Setting up" in first.stderr and second.stderr == ""
    assert json.loads(first.stdout) == json.loads(second.stdout)
    assert json.loads(first.stdout) == [str(folder / "roofline_kit/__main__.py"), ["--json"]]
