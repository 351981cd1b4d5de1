"""Every notebook: the limits of the course's style, alt text, outputs, and that lessons run."""

import ast
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import build
import executed
import nbformat
import pytest
from conftest import ROOT

NAMED = "[0-9][0-9]_*.ipynb"
FOUND = {folder: sorted((ROOT / folder).glob(NAMED)) for folder in build.FOLDERS}
WORK = [path for paths in FOUND.values() for path in paths if build.worked_in(path, check=True)]  # a learner's
LESSONS = [path for path in FOUND["notebooks"] if path not in WORK]
OTHERS = [path for path in FOUND["labs"] + FOUND["solutions"] if path not in WORK]
LESSONS_KNOWN = ("00_start_here", "01_dot_products", "02_matrix_multiplication", "03_same_flops",
                 "04_arithmetic_intensity", "05_gemm_reuse", "06_tiling", "07_roofline", "08_accelerator_intensity",
                 "09_ml_operations", "10_fusion", "11_training", "12_llm_serving", "13_low_latency",
                 "14_three_questions")
KNOWN = {f"{folder}/{stem}" for folder, stems in (
    ("notebooks", LESSONS_KNOWN), ("labs", LESSONS_KNOWN[1:]), ("solutions", LESSONS_KNOWN[1:])) for stem in stems}
RHYTHM = ["Question", "Derive", "Predict", "Measure", "Explain", "Exercises", "In short"]
FENCED = re.compile(r"```.*?```|\$\$.*?\$\$|\$[^$\n]+\$|`[^`\n]+`", re.DOTALL)
RATE = re.compile(r"\d\s*([kMGTP]?(B|FLOP)/s|[mun]s)\b")


def name_of(path):
    return f"{path.parent.name}/{path.stem}"


every_notebook = pytest.mark.parametrize("path", LESSONS + OTHERS, ids=name_of)
every_lesson = pytest.mark.parametrize("path", LESSONS, ids=name_of)


def cells_of(path, kind=None):
    """The cells of a notebook, without the stamp and the markers of solutions."""
    cells = nbformat.read(path, as_version=4).cells
    cells[0].source = executed.STAMP.sub("", cells[0].source)
    for cell in cells:
        cell.source = re.sub(r"^\s*### (BEGIN|END) SOLUTION.*\n?", "", cell.source, flags=re.MULTILINE)
    return [cell for cell in cells if kind in (None, cell.cell_type)]


def headings(path):
    """[(level, text), ..] of a notebook."""
    prose = "\n".join(FENCED.sub("", cell.source) for cell in cells_of(path, "markdown"))
    return [(len(marks), text.strip()) for marks, text in re.findall(r"^(#+) (.+)$", prose, re.MULTILINE)]


def sections(path):
    """{H2 heading: its cells} of a notebook."""
    found, current = {}, ""
    for cell in cells_of(path):
        heading = re.match(r"## (.+)", cell.source) if cell.cell_type == "markdown" else None
        current = heading[1].strip() if heading else current
        found.setdefault(current, []).append(cell)
    return found


def limit_of(source):
    """The most lines that a code cell like this may have."""
    body = ast.parse(source).body
    if len(body) == 1 and isinstance(body[0], (ast.FunctionDef, ast.ClassDef)):
        return 20
    if len(body) == 1 and "__global__" in source:          # a CUDA kernel as text
        return 40
    return 15 if "rk.plot" in source else 12


def test_the_notebooks_that_must_be_there_are():
    assert {name_of(path) for path in LESSONS + OTHERS + WORK} >= KNOWN and not (WORK and os.environ.get("CI"))


def test_the_notebooks_are_in_step_with_their_sources():
    assert build.build(ROOT, check=True) == []


# limits


@every_notebook
def test_code_cells_are_short(path):
    lengths = {
        cell.id: (len(cell.source.split("\n")), limit_of(cell.source)) for cell in cells_of(path, "code")
    }
    assert lengths
    assert {name: pair for name, pair in lengths.items() if pair[0] > pair[1]} == {}


@every_notebook
def test_at_most_two_code_cells_follow_each_other(path):
    kinds = "".join(cell.cell_type[0] for cell in cells_of(path))
    assert "ccc" not in kinds


@every_notebook
def test_markdown_cells_are_short(path):
    counts = {cell.id: len(FENCED.sub(" x ", cell.source).split()) for cell in cells_of(path, "markdown")}
    first = next(iter(counts))
    assert {name: count for name, count in counts.items() if count > (150 if name == first else 120)} == {}


@every_notebook
def test_code_uses_the_kit_and_no_magic(path):
    found = [
        (cell.id, line)
        for cell in cells_of(path, "code")
        for line in cell.source.splitlines()
        if re.search(r"\bplt\.|^\s*[!%]|warnings\.|simplefilter|urllib|requests\.", line)
    ]
    assert found == []


@every_notebook
def test_no_text_says_what_is_easy(path):
    found = [
        (cell.id, word[0])
        for cell in cells_of(path)
        for word in re.finditer(r"\b(simply|just|obviously)\b", cell.source, re.IGNORECASE)
    ]
    assert found == []


@every_notebook
def test_there_is_one_title_and_no_level_is_skipped(path):
    levels = [level for level, _ in headings(path)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


# lessons


@every_lesson
def test_a_lesson_asks_a_question_and_keeps_the_rhythm(path):
    assert headings(path)[0][1].endswith("?")
    assert [text for level, text in headings(path) if level == 2] == RHYTHM


@every_lesson
def test_a_lesson_is_no_longer_than_a_sitting(path):
    pictures = [
        out for cell in cells_of(path, "code") for out in cell.outputs if "image/png" in out.get("data", {})
    ]
    assert len(cells_of(path)) <= 60
    assert len(pictures) <= 5


@every_lesson
def test_nothing_is_timed_while_it_is_derived(path):
    assert not any("measure(" in cell.source for cell in sections(path)["Derive"] if cell.cell_type == "code")


@every_lesson
def test_measured_numbers_stand_in_outputs_or_recorded_blocks_only(path):
    prose = [
        cell
        for section in ("Measure", "Explain")
        for cell in sections(path)[section]
        if cell.cell_type == "markdown" and not cell.source.lstrip().startswith("> **Recorded**")
    ]
    assert [(cell.id, match[0]) for cell in prose for match in RATE.finditer(cell.source)] == []


@every_lesson
def test_a_lesson_is_stamped_and_was_run_to_its_end_without_an_error(path):
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert executed.STAMP.search(notebook.cells[0].source)
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))


@every_lesson
def test_checked_outputs_are_there_and_hold_nothing_of_this_session(path):
    checked = [
        cell for cell in cells_of(path, "code") if "nbval-check-output" in cell.metadata.get("tags", [])
    ]
    assert checked
    assert all(cell.outputs and cell.execution_count for cell in checked)


@every_notebook
def test_no_address_or_folder_of_the_machine_is_left_in_a_notebook(path):
    text = path.read_text("utf-8")
    assert not re.search(r"\bat 0x[0-9a-f]{6,}|/tmp/ipykernel", text)
    assert str(ROOT) not in text


@every_lesson
def test_every_figure_has_alt_text(path):
    figures = [
        out for cell in cells_of(path, "code") for out in cell.outputs if "image/png" in out.get("data", {})
    ]
    assert all(len(out.metadata["image/png"]["alt"].split()) >= 8 for out in figures)


def checked(cells, names):
    """{cell: what it shows} of the cells of these ids, as nbval compares it: no stderr, no pictures."""
    shown = {}
    for cell in cells:
        for out in cell["outputs"] if cell["id"] in names else ():
            parts = {out["name"]: out["text"]} if out["output_type"] == "stream" else out.get("data", {})
            for kind, text in parts.items():
                if kind != "stderr" and not kind.startswith("image/"):
                    shown[cell["id"], kind] = shown.get((cell["id"], kind), "") + "".join(text)
    return shown


@pytest.mark.parametrize(("outputs", "same"), [
    ([("stdout", "a\nb\n")], True), ([("stdout", "a\n"), ("stdout", "b\n")], True),
    ([("stdout", "a\nb\n"), ("stderr", "!")], True), ([("stdout", "a\nc\n")], False), ([], False),
    ([("stdout", "a\nb\n"), ("stdout", "c\n")], False)])
def test_another_output_of_a_checked_cell_is_seen(outputs, same):
    def cells(shown):
        return [{"id": "x", "outputs": [{"output_type": "stream", "name": name, "text": text} for name, text in shown]},
                {"id": "unchecked", "outputs": [{"output_type": "execute_result", "data": {"text/plain": f"{shown}"}}]}]
    assert (checked(cells(outputs), {"x"}) == checked(cells([("stdout", "a\nb\n")]), {"x"})) is same


@every_lesson
def test_a_lesson_shows_the_same_checked_outputs_when_it_runs(path, request):
    """As tests/browser/ ran it, where errors and cells that did not end fail already; without a browser, in nbval."""
    ran = Path(request.config.cache_folder, path.name)
    if ran.exists():
        committed = cells_of(path, "code")
        names = {cell.id for cell in committed if "nbval-check-output" in cell.metadata.get("tags", [])}
        again = json.loads(ran.read_text("utf-8"))
        assert names <= {cell["id"] for cell in again}
        assert checked(again, names) == checked(committed, names)
        return
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            str(path),
            "--nbval-lax",
            "--nbval-current-env",
            "--nbval-cell-timeout=120",
            "-p",
            "no:cacheprovider",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
