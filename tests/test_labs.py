"""Every lab, whatever its table holds: blank it runs and asks, solved it passes, each slip is named."""

import importlib
import os
import re
import subprocess
import sys
from dataclasses import replace
from unittest import mock

import build
import nbformat
import pytest
from conftest import CPU, GPU, ROOT, answer_from, known_for, run_of
from nbclient import NotebookClient

from roofline_kit import exercises

check = importlib.import_module("roofline_kit.check")
SOURCES = {path.stem: path for path in sorted((ROOT / "source/labs").glob("*.md"))}
KNOWN = {"01_dot_products", "02_matrix_multiplication", "03_same_flops", "04_arithmetic_intensity", "05_gemm_reuse",
         "06_tiling", "07_roofline", "08_accelerator_intensity", "09_ml_operations", "10_fusion", "11_training",
         "12_llm_serving", "13_low_latency", "14_three_questions"}
KINDS = {"derive", "predict", "measure", "build", "diagnose"}
TABLES = {name: exercise for lab in exercises.labs() for name, exercise in exercises.table(lab)[1].items()}
SLIPS = [(name, slip) for name, exercise in TABLES.items() for slip in exercise.slips]
OTHERS = [(name, number) for name, exercise in TABLES.items() for number in range(len(exercise.alternatives))]
every_lab = pytest.mark.parametrize("stem", SOURCES)
every_exercise = pytest.mark.parametrize("name", TABLES)
every_roof = pytest.mark.parametrize("roof", [CPU, GPU], ids=["cpu", "gpu"])


def verdict(name, answer, roof):
    """The verdict where a kernel's speed is left out: each comes near to its roof."""
    with mock.patch("roofline_kit.exercises.arrays.measure", lambda call, work, **_: run_of(work, roof)):
        return check.judge(TABLES[name], answer, 7, known_for(TABLES[name], roof))


def tags(stem, kind):
    """[(exercise id, points), ..] of the cells of a lab that are tagged so."""
    cells = build.read(SOURCES[stem]).cells
    found = [
        re.fullmatch(rf"{kind}:([\w.]+):(\d+)", tag)
        for cell in cells
        for tag in cell.metadata.get("tags", [])
    ]
    return [(match[1], int(match[2])) for match in found if match]


def graded(path):
    """(exit code, lines) of the command that grades one notebook, as learners call it."""
    done = subprocess.run(
        [sys.executable, "-m", "roofline_kit.grade", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


# the tables


def test_there_are_labs_and_each_has_its_table_and_its_lesson():
    lessons = {path.stem for path in (ROOT / "source/lessons").glob("*.md")}
    assert set(SOURCES) >= KNOWN
    assert {stem[:2] for stem in SOURCES} == set(exercises.labs()) - {"99"}
    assert set(SOURCES) <= lessons


@every_lab
def test_a_lab_checks_each_exercise_of_its_table_once_for_the_same_points(stem):
    table = exercises.table(stem[:2])[1]
    assert tags(stem, "check") == [(name, exercise.points) for name, exercise in table.items()]
    assert all(re.fullmatch(rf"{stem[:2]}\.\d+", name) for name in table)


@every_lab
def test_a_lab_has_at_least_five_exercises_and_the_last_is_open(stem):
    asked, opened = tags(stem, "check"), tags(stem, "answer")
    assert len(asked) + len(opened) >= 5
    assert len(opened) == 1
    assert opened[0][0] == f"{stem[:2]}.{len(asked) + 1}"


@every_exercise
def test_an_exercise_has_three_hints_an_insight_and_enough_slips(name):
    exercise = TABLES[name]
    assert exercise.kind in KINDS
    assert len(exercise.hints) == len(set(exercise.hints)) == 3 and all(exercise.hints)
    assert exercise.ask and exercise.right and exercise.points > 0
    assert len(exercise.slips) >= (1 if exercise.kind == "measure" else 2)


@every_exercise
def test_every_sentence_for_a_learner_ends_in_a_full_stop(name):
    texts = [TABLES[name].right, *(sentence for _, sentence in TABLES[name].slips.values())]
    assert all(text.rstrip()[-1] in ".?!" for text in texts)


@every_exercise
@every_roof
def test_the_reference_is_right(name, roof):
    assert verdict(name, answer_from(TABLES[name], TABLES[name].reference, roof), roof).state == "right"


@every_exercise
def test_the_reference_can_be_written_in_another_way(name):
    assert TABLES[name].alternatives or TABLES[name].kind == "measure"


@pytest.mark.parametrize(("name", "number"), OTHERS)
@every_roof
def test_an_answer_written_differently_is_right(name, number, roof):
    answer = TABLES[name].alternatives[number]
    assert verdict(name, answer, roof).state == "right"


@pytest.mark.parametrize(("name", "number"), [one for one in OTHERS if TABLES[one[0]].kind == "predict"])
def test_a_prediction_is_right_on_a_card_taken_while_the_memory_changed_its_speed(name, number):
    uneven = replace(CPU, mixes=((0.0, CPU.bandwidth / 3.2, "read"), (0.5, CPU.bandwidth, "copy")), write_allocate=True)
    assert verdict(name, TABLES[name].alternatives[number], uneven).state == "right"


@pytest.mark.parametrize(("name", "slip"), SLIPS)
def test_a_slip_is_caught_and_explained(name, slip):
    wrong, sentence = TABLES[name].slips[slip]
    found = [verdict(name, answer_from(TABLES[name], wrong, roof), roof) for roof in (CPU, GPU)]
    assert any(one.state == "wrong" for one in found)
    assert all(one.text == sentence for one in found if one.state != "right")


@every_exercise
def test_a_stub_is_not_answered_yet(name):
    assert verdict(name, ..., CPU).state == "blank"
    if TABLES[name].inputs:
        assert verdict(name, lambda *inputs: ..., CPU).state == "blank"


# the notebooks


@every_lab
def test_no_solution_stands_in_the_lab(stem):
    lab = "\n".join(cell.source for cell in nbformat.read(ROOT / f"labs/{stem}.ipynb", as_version=4).cells)
    cells = build.read(SOURCES[stem]).cells
    blocks = [match[3] for cell in cells for match in build.SOLUTION.finditer(cell.source)]
    lines = [[line.strip() for line in block.splitlines() if line.strip()] for block in blocks]
    assert len(blocks) >= 5
    assert [block for block in lines if all(line in lab for line in block)] == []


@every_lab
def test_a_blank_lab_runs_to_its_end_and_says_what_is_not_answered(stem):
    notebook = nbformat.read(ROOT / f"labs/{stem}.ipynb", as_version=4)
    NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(ROOT / "labs")}}
    ).execute(env=os.environ | {"ROOFLINE_KIT_STRICT": "0"})
    told = [
        "".join(out.get("text", "") for out in cell.outputs) for cell in notebook.cells if "check" in cell.id
    ]
    assert told == [f"{name}: not answered yet\n" for name, _ in tags(stem, "check")]


@every_lab
def test_a_blank_lab_fails_exactly_at_its_checks(stem):
    assert graded(ROOT / f"labs/{stem}.ipynb") == (
        1,
        [f"{name}  not answered yet" for name, _ in tags(stem, "check")],
    )


@every_lab
def test_the_solutions_pass(stem):
    code, lines = graded(ROOT / f"solutions/{stem}.ipynb")
    assert code == 0, "\n".join(lines)
    assert [line.split()[0] for line in lines] == [name for name, _ in tags(stem, "check")]
    assert all(line.split()[1] in ("passed", "inconclusive:", "inconclusive,") for line in lines)
