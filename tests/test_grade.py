import subprocess
import sys

import build
import nbformat
import pytest
from conftest import FIXTURES

from roofline_kit import grade


@pytest.fixture
def lab(tmp_path):
    """A function that writes a lab whose cells are changed as told, and returns its path."""
    (tmp_path / "labs").mkdir()
    text = (FIXTURES / "99_fixture.md").read_text("utf-8").replace("FIXTURES", repr(str(FIXTURES)))
    (tmp_path / "99.md").write_text(text, "utf-8")

    def write(make=build.blank, **changed):
        notebook = make(build.read(tmp_path / "99.md"))
        for cell in notebook.cells:
            cell.source = changed.get(cell.id.replace("-", "_"), cell.source)
        nbformat.write(notebook, tmp_path / "labs/99_fixture.ipynb")
        return tmp_path / "labs/99_fixture.ipynb"

    return write


def command(*arguments):
    """(exit code, lines) of the command, in a process of its own: pytest does not run inside pytest."""
    done = subprocess.run(
        [sys.executable, "-m", "roofline_kit.grade", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


def test_a_blank_lab_has_one_line_for_each_exercise(lab):
    assert command(lab()) == (1, ["99.1  not answered yet", "99.2  not answered yet"])


def test_a_solved_lab_passes(lab):
    assert command(lab(build.solved)) == (0, ["99.1  passed", "99.2  passed"])


def test_a_wrong_answer_and_a_cell_that_fails_are_a_sentence_each(lab):
    path = lab(
        exercise_99_1="def moved(m, n, k, b): return m * k + k * n + m * n", exercise_99_2="intensity = oops"
    )
    code, lines = command(path)
    assert code == 1
    assert lines[0] == "99.1  That counts elements."
    assert lines[1].endswith("NameError: name 'oops' is not defined")


def test_a_check_whose_verdict_is_hidden_is_no_pass(lab):
    hidden = "try:\n    rk.check('99.1', 0)\nexcept Exception:\n    pass"
    code, lines = command(lab(build.solved, check_99_1=hidden))
    assert code == 1 and lines[0].startswith("99.1  no verdict")


def test_what_a_learners_function_prints_does_not_hide_the_verdict(lab):
    noisy = "def moved(m, n, k, b):\n    print('hey')\n    return b * (m * k + k * n + m * n)"
    assert command(lab(build.solved, exercise_99_1=noisy)) == (0, ["99.1  passed", "99.2  passed"])


def test_an_exercise_of_the_table_without_its_check_cell_fails(tmp_path):
    cell = nbformat.v4.new_code_cell("import roofline_kit as rk\nrk.check('04.2', 1)")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "part.ipynb")
    code, lines = command(tmp_path / "part.ipynb")
    assert code == 1 and "04.1  its check cell is missing" in lines


def test_a_lab_is_found_by_number_name_or_path(lab, tmp_path):
    path = lab()
    assert all(grade.find(name, tmp_path) == path for name in ("99", "99_fixture", str(path)))


@pytest.mark.parametrize("name", ["7", "", "labs/nothing.ipynb"])
def test_an_unknown_lab_is_offered_the_ones_there_are(lab, tmp_path, name):
    lab()
    with pytest.raises(FileNotFoundError, match="choose one of 99_fixture"):
        grade.find(name, tmp_path)


def test_a_file_that_is_no_notebook_is_one_sentence(tmp_path):
    (tmp_path / "04_broken.ipynb").write_text("{")
    code, lines = command(tmp_path / "04_broken.ipynb")
    assert code == 1
    assert len(lines) == 1 and "could not be run" in lines[0]


def test_without_a_lab_the_command_says_what_it_wants(capsys):
    assert grade.main([]) == 2
    assert capsys.readouterr().out == "give one lab: its number (04) or the path of its notebook.\n"
