"""Does the command line answer, and does every failure end in one sentence and leave nothing behind?"""

import json
import os
import subprocess
import sys

import pytest
import test_sustained
from conftest import CPU as ROOF
from conftest import run_of
from test_sustained import CPU, failing, forget, points

from roofline_kit import cards, protocol
from roofline_kit.__main__ import main
from roofline_kit.ops import gemm
from roofline_kit.recorded import Recorded
from roofline_kit.sustained import judged

measured = test_sustained.measured                       # a fixture, found by its name


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    monkeypatch.setattr(sys.modules["roofline_kit.sustained"], "this_device", lambda kind=None: CPU)


class Told(Recorded):
    """A recording whose roof is one by hand."""

    dtypes = ("float32",)

    def roof(self, dtype=None):
        return ROOF


def fails(capsys, code, *arguments):
    """The one sentence that a failing command says."""
    try:
        assert main(arguments) == code
    except SystemExit as end:
        assert end.code == code
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and said.err.endswith(".\n")
    return said.err


def test_the_card_is_printed_as_text(measured, capsys):
    assert main([]) == 0
    assert "bandwidth" in capsys.readouterr().out


def test_the_card_is_printed_as_json(measured, capsys):
    assert main(["--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == cards.SCHEMA and data["bandwidth"] == pytest.approx(100e9)


def test_a_second_call_does_not_measure(measured):
    main([])
    forget()
    main([])
    assert len(measured) == 1


def test_fresh_measures_again(measured):
    main([])
    main(["--fresh"])
    assert len(measured) == 2


@pytest.mark.parametrize("ending, start", [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_the_roofline_is_drawn_into_a_file(measured, tmp_path, ending, start):
    assert main(["--plot", str(tmp_path / f"roof.{ending}")]) == 0
    assert (tmp_path / f"roof.{ending}").read_bytes().startswith(start)


def test_the_doctor_answers(capsys):
    code, told = main(["doctor"]), capsys.readouterr().out
    assert "Python" in told and code == (not told.endswith("no problems found\n"))


def test_a_recording_without_a_file_to_write_is_refused(measured, capsys):
    assert "--out FILE" in fails(capsys, 1, "record") and measured == []


def test_a_recording_is_told_in_the_end(measured, capsys, monkeypatch, tmp_path):
    asked = []
    recording = Told("here", "", "cpu", "2026", {}, None, (run_of(gemm(8, 8, 8)),))
    monkeypatch.setattr("roofline_kit.record.record", lambda path, fresh: asked.append((path, fresh)) or recording)
    assert main(["record", "--out", str(tmp_path / "here.json"), "--fresh"]) == 0
    told = capsys.readouterr().out
    assert asked == [(tmp_path / "here.json", True)] and "1 runs" in told and "a laptop, by hand" in told


def test_an_unknown_option_is_one_sentence(capsys):
    assert "--frehs" in fails(capsys, 2, "--frehs")


def test_an_unknown_command_is_one_sentence(capsys):
    assert "doctor" in fails(capsys, 2, "docter")


@pytest.mark.parametrize("name", ["roof", "roof.xyz", "missing/roof.png", "."])
def test_a_figure_that_cannot_be_written_is_refused_before_measuring(measured, capsys, tmp_path, name):
    assert "--plot" in fails(capsys, 1, "--plot", str(tmp_path / name))
    assert measured == [] and not (tmp_path / name).is_file()


def test_a_figure_that_fails_leaves_no_half_a_file(measured, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "replace", failing(OSError(28, "No space left", "roof.png")))
    assert main(["--plot", str(tmp_path / "roof.png")]) == 1
    assert "No space left: roof.png" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.png*")) and not list(tmp_path.glob(".roof*"))


@pytest.mark.parametrize("error, code, says", [
    (KeyboardInterrupt(), 130, "nothing was kept"), (MemoryError("too large."), 1, "too large"),
    (RuntimeError("no."), 1, "no.")])
def test_what_goes_wrong_while_measuring_is_one_sentence(measured, capsys, monkeypatch, error, code, says):
    monkeypatch.setattr(protocol, "measure_cpu", failing(error))
    assert says in fails(capsys, code, "--fresh")
    assert not list(cards.folder().glob("*.json"))


def test_a_card_that_is_kept_needs_neither_numba_nor_matplotlib(measured):
    cards.keep(judged(points(), CPU))
    code = "import sys, roofline_kit.__main__ as kit; kit.main([]); print(*sys.modules, file=sys.stderr)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numba", "matplotlib.pyplot", "threadpoolctl"} & set(told.stderr.split())


@pytest.mark.skipif(os.name == "nt", reason="there is no `head` on Windows")
def test_a_reader_who_has_seen_enough_is_no_error(measured):
    cards.keep(judged(points(), CPU))
    command = f"{sys.executable} -m roofline_kit --json | head -c 1"
    told = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert told.stderr == ""


def test_the_bar_shows_what_is_measured_on_a_terminal_only(capsys, monkeypatch):
    cards.bar()(0.5, "memory bandwidth")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    draw = cards.bar()
    draw(0.5, "memory bandwidth")
    draw(1.0, "")
    assert "50 %  memory bandwidth" in capsys.readouterr().err
