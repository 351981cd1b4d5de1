"""Do the tests for a GPU judge as they should, and does the check of a machine end in the right exit code?"""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from gpu import conftest as gpu_tests
from gpu import laws, look
from test_record import named, short
from test_sustained import measured  # noqa: F401  a fixture, found by its name

import roofline_kit as rk
from roofline_kit.timing import Run

ROOT = Path(__file__).parents[1]
H200 = {dtype: rk.datasheet("H200 SXM", dtype) for dtype in ("float64", "float32", "tfloat32", "float16", "bfloat16")}
PYTHON = """#!/bin/sh
echo "$*" | tr -d '\\n' | cut -c -60 >> "$LOG"
case "$*" in *"$FAILS"*) exit 3;; esac
"""
BARE = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"ipywidgets", "jupyterlab", "matplotlib", "IPython", "nbval", "notebook"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import test_record, test_sustained
from roofline_kit import protocol
protocol.measure_cpu = lambda device, tell: test_sustained.points()
print(test_record.short(sys.argv[1], *test_record.named("add", "gemm thin")))
from gpu import look
sys.exit(look.main(sys.argv[1]) > 1)
"""


def card(share=0.85, **changed):
    """A card whose numbers are all that share of an H200's datasheet."""
    bandwidth = share * H200["float32"].bandwidth
    return SimpleNamespace(data={
        "device": {"name": "NVIDIA H200"}, "overhead": 4e-6,
        "overheads": {"a launch": 4e-6, "a launch in a graph": 1e-6},
        "mixes": {label: {"counted": bandwidth, "bandwidth": bandwidth} for label in ("read", "copy")},
        "peak": {dtype: share * sheet.peak for dtype, sheet in H200.items()},
        "vector_peak": {dtype: share * H200[dtype].vector_peak for dtype in ("float64", "float32")}} | changed)


def broken(rows):
    return [row.what for row in (laws.Row(*row) for row in rows) if not row.holds]


def test_every_chip_has_a_datasheet():
    assert laws.chip("NVIDIA H200") == "H200 SXM" and laws.chip("a new one") is None


def test_a_good_card_keeps_every_law():
    assert broken(laws.of_datasheet(card(), "H200 SXM")) == broken(laws.of_any(card())) == []
    assert len(list(laws.of_datasheet(card(), "H200 SXM"))) == 1 + 2 + 5 + 2


@pytest.mark.parametrize("share, what", [
    (0.7, ["copy / datasheet"]), (0.6, ["copy / datasheet", "float16 products / datasheet"]),
    (1.0, ["copy / datasheet"])])
def test_a_card_that_is_too_slow_or_too_fast_for_a_copy_is_caught(share, what):
    assert broken(laws.of_datasheet(card(share), "H200 SXM")) == what


def test_a_card_above_its_datasheet_is_caught_for_every_number():
    assert len(broken(laws.of_datasheet(card(1.06), "H200 SXM"))) == len(list(laws.of_datasheet(card(), "H200 SXM")))


@pytest.mark.parametrize("changed", [{"overhead": 2e-5}, {"overhead": 2e-7},
                                     {"overheads": {"a launch": 4e-6, "a launch in a graph": 5e-6}}])
def test_impossible_launches_are_caught(changed):
    assert len(broken(laws.of_any(card(**changed)))) == 1


@pytest.mark.parametrize("seconds, holds", [(1.0, True), (1.09, True), (1.12, False), (0.88, False)])
def test_clocks_must_agree_within_a_tenth(seconds, holds):
    runs = [Run("copy", 1.0, clock="throughput"), Run("copy", seconds, clock="graph")]
    assert broken(laws.of_clocks(runs)) == ([] if holds else ["copy: graph / throughput"])


def test_the_table_shows_the_worst_of_many_shapes():
    rows = [laws.Row("triad: error", value, 0, 1e-5) for value in (1e-8, 3e-7, float("nan"), 2e-8)]
    assert laws.worst(rows[:2]) == [rows[1]] and laws.worst(rows) == [rows[2]]
    assert laws.lines(rows[:1]) == ["triad: error  1e-08  at most 1e-05  holds"]


@pytest.mark.parametrize("arguments, collected", [
    (["tests"], False), ([], False), (["tests/test_work.py"], False), (["tests/gpu"], True),
    (["tests/gpu/test_laws.py::test_a_point_lies_under_its_roof"], True)])
def test_a_run_of_all_tests_leaves_those_of_a_gpu_out(monkeypatch, arguments, collected):
    monkeypatch.chdir(ROOT)
    ignored = gpu_tests.pytest_ignore_collect(ROOT / "tests/gpu/test_laws.py", SimpleNamespace(args=arguments))
    assert ignored is (None if collected else True)


def test_without_a_gpu_they_are_skipped_with_the_reason():
    told = subprocess.run([sys.executable, "-m", "pytest", "tests/gpu", "-q", "-rs", "-p", "no:cacheprovider"],
                          cwd=ROOT, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""}, capture_output=True, text=True,
                          check=False)
    assert told.returncode == 0 and "there is no GPU to use" in told.stdout and " passed" not in told.stdout


def test_a_recording_above_its_roof_has_a_fault(measured, tmp_path):                          # noqa: F811
    found = short(tmp_path / "mine.json", *named("triad"))
    slow = found.roof().times(found.runs[0].work).memory
    assert list(look.faults(replace(found, runs=(replace(found.runs[0], seconds=2 * slow),)))) == []
    faults = look.faults(replace(found, runs=(replace(found.runs[0], seconds=slow / 2),), failed=(("add", "Broken."),)))
    assert list(faults) == ["add could not be measured: Broken.", "triad lies above its roof, by 100 %."]


def test_a_launch_that_costs_less_than_another_one_did_is_no_fault(measured, tmp_path):    # noqa: F811
    found = short(tmp_path / "mine.json", *named("chain of tiny calls"))
    memory = found.roof().times(found.runs[0].work, cold=False).memory
    assert list(look.faults(replace(found, runs=(replace(found.runs[0], seconds=memory),)))) == []


@pytest.mark.parametrize("fails, code, parts", [
    ("nothing of it", 0, 4), ("-c ", 2, 1), ("-m pytest", 1, 4), ("-m roofline_kit record", 1, 4), ("look", 1, 4)])
def test_the_check_runs_its_parts_and_ends_in_the_right_code(tmp_path, fails, code, parts):
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    told = subprocess.run(["sh", ROOT / "tests/gpu/check.sh"], check=False, capture_output=True, text=True,
                          env=os.environ | {"PYTHON": str(python), "OUT": str(tmp_path), "FAILS": fails,
                                            "LOG": str(tmp_path / "log")})
    log = (tmp_path / "log").read_text().splitlines()
    assert (told.returncode, len(log)) == (code, parts), told.stderr
    assert parts == 1 or f"record --out {tmp_path}"[:30] in log[2]


def test_a_recording_is_made_and_looked_at_without_jupyter_and_matplotlib(tmp_path):
    told = subprocess.run([sys.executable, "-c", BARE, str(tmp_path / "mine.json")], capture_output=True, text=True,
                          check=False, env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}",
                                                         "ROOFLINE_KIT_CACHE": str(tmp_path)})
    assert told.returncode == 0 and "gemm thin" in told.stdout, told.stderr
