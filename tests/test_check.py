import importlib
import os

import pytest
from conftest import CPU, run_of

from roofline_kit.ops import dot

checks = importlib.import_module("roofline_kit.check")  # rk.check is the function


def moved(m, n, k, itemsize):
    return itemsize * (m * k + k * n + m * n)


def test_a_right_answer_prints_the_insight_and_counts(learner, capsys):
    checks.check("99.1", moved)
    assert capsys.readouterr().out == "99.1: right. Areas against a volume.\n"
    checks.progress()
    assert "1 of 9 passed, 2 of 10 points" in capsys.readouterr().out


def test_a_wrong_answer_prints_and_never_raises(learner, capsys):
    checks.check("99.2", 256)
    checks.check("99.2", ...)
    assert capsys.readouterr().out == "99.2: The bytes were rounded up.\n99.2: not answered yet\n"


def test_an_unknown_exercise_is_offered_the_nearest_ids(learner, capsys):
    checks.check("99.11", 3)
    checks.hint("9.91")
    first, second = capsys.readouterr().out.splitlines()
    assert "did you mean '99.1'" in first
    assert "did you mean" in second


@pytest.mark.parametrize("variable", ["PYTEST_CURRENT_TEST", "NBGRADER_EXECUTION", "ROOFLINE_KIT_STRICT"])
def test_where_somebody_tests_or_grades_a_wrong_answer_fails_in_one_sentence(monkeypatch, variable):
    monkeypatch.delenv("ROOFLINE_KIT_STRICT", raising=False)
    monkeypatch.setenv(variable, "1")
    with pytest.raises(checks.Unsolved, match=r"99\.2: The bytes were rounded up") as caught:
        checks.check("99.2", 256)
    assert caught.value._render_traceback_() == ["99.2: The bytes were rounded up."]


def test_an_unanswered_exercise_fails_there_but_an_inconclusive_one_does_not(monkeypatch, capsys):
    monkeypatch.setenv("ROOFLINE_KIT_STRICT", "1")
    with pytest.raises(checks.Unsolved, match="not answered yet"):
        checks.check("99.2", ...)
    checks.check("99.4", run_of(dot(2**22), cold=True, samples=(1.0,)), n=2**22, roof=CPU)
    assert "inconclusive" in capsys.readouterr().out


def test_hints_come_one_more_at_each_call(learner, capsys, monkeypatch):
    monkeypatch.setattr(checks, "_hinted", {})
    for _ in range(4):
        checks.hint("99.1")
    lines = capsys.readouterr().out.splitlines()
    assert [line[:18] for line in lines] == [f"99.1, hint {i} of 3:"[:18] for i in (1, 2, 3, 1, 2, 3)]


# the progress file


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"99.2": 5}', "\x00\xff"])
def test_a_corrupt_progress_file_is_not_in_the_way(learner, capsys, content):
    learner.mkdir()
    (learner / "progress.json").write_text(content, "latin-1")
    checks.progress()
    checks.check("99.1", moved)
    checks.progress()
    assert "1 of 9 passed" in capsys.readouterr().out


def test_a_folder_that_cannot_be_written_is_not_in_the_way(monkeypatch, learner, capsys):
    learner.write_text("a file where the folder should be")
    checks.check("99.1", moved)
    assert "right" in capsys.readouterr().out


def test_a_failed_write_leaves_the_old_file_and_no_other(monkeypatch, learner):
    checks.check("99.1", moved)
    monkeypatch.setattr(os, "replace", lambda *paths: (_ for _ in ()).throw(OSError("disk full")))
    checks.check("99.2", 292.57)
    assert os.listdir(learner) == ["progress.json"]
    assert "99.1" in (learner / "progress.json").read_text()
