import base64
import io
import json

import build
import nbformat
import pytest
from conftest import FIXTURES
from executed import COLOURS, KERNEL, STAMP
from PIL import Image

LESSON = """# What is a lesson?

Opening.

```{code-cell} python
:tags: [nbval-check-output]

2 + 2
```

## Question

```{code-cell} python
import sys
print("progress 50 %\\rdone")
print("noise", file=sys.stderr)
```

```{code-cell} python
from matplotlib import pyplot
pyplot.plot([1, 2], [3, 5])[0].axes
```

**Figure.** *A line of slope $2$, from [a table](data).*

And the text goes on.
"""


@pytest.fixture
def course(tmp_path):
    """A course with one lab; `course.lesson(text)` adds a lesson."""
    for folder in ("source/labs", "source/lessons"):
        (tmp_path / folder).mkdir(parents=True)
    lab = (FIXTURES / "99_fixture.md").read_text("utf-8").replace("FIXTURES", repr(str(FIXTURES)))
    (tmp_path / "source/labs/99_fixture.md").write_text(lab, "utf-8")
    return tmp_path


def add(course, text, name="98_lesson"):
    (course / f"source/lessons/{name}.md").write_text(text, "utf-8")


def edit(course, old, new, kind="labs/99_fixture"):
    path = course / f"source/{kind}.md"
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


def made(course, name):
    return nbformat.read(course / name, as_version=4)


def bytes_of(course):
    return {path.name: path.read_bytes() for path in course.rglob("*.ipynb")}


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """A course whose lesson has been executed once."""
    root = tmp_path_factory.mktemp("course")
    (root / "source/lessons").mkdir(parents=True)
    add(root, LESSON)
    build.build(root)
    return root


# labs


def test_a_second_build_changes_nothing_and_the_check_agrees(course):
    assert len(build.build(course)) == 2
    before = bytes_of(course)
    assert build.build(course) == [] == build.build(course, check=True)
    assert bytes_of(course) == before


def test_a_lab_holds_stubs_and_no_solution(course):
    build.build(course)
    text = (course / "labs/99_fixture.ipynb").read_text("utf-8")
    assert "    return ...\\n" in text or "    return ..." in text
    assert "intensity = ..." in text and "*Your finding here.*" in text
    assert not any(part in text for part in ("SOLUTION", "m * k", "292.571", "A model answer"))


def test_solutions_keep_the_markers_in_code_and_drop_them_from_markdown(course):
    build.build(course)
    cells = made(course, "solutions/99_fixture.ipynb").cells
    assert "### BEGIN SOLUTION" in next(cell for cell in cells if cell.id == "exercise-99-1").source
    assert next(cell for cell in cells if cell.id == "answer-99-10").source == "A model answer."


def test_cell_ids_come_from_exercises_and_headings(course):
    build.build(course)
    ids = [cell.id for cell in made(course, "labs/99_fixture.ipynb").cells]
    assert ids[:4] == ["lab-99-a-fixture-1", "lab-99-a-fixture-2", "99-1-bytes-1", "exercise-99-1"]
    assert len(set(ids)) == len(ids)


def test_tags_become_nbgrader_metadata(course):
    build.build(course)
    cells = {cell.id: cell.metadata.get("nbgrader") for cell in made(course, "labs/99_fixture.ipynb").cells}
    flags = {
        name: (m["solution"], m["grade"], m["locked"], m.get("points")) for name, m in cells.items() if m
    }
    assert flags == {
        "exercise-99-1": (True, False, False, None),
        "check-99-1": (False, True, True, 2),
        "exercise-99-2": (True, False, False, None),
        "check-99-2": (False, True, True, 1),
        "answer-99-10": (True, True, False, 3),
    }


def test_the_metadata_names_the_kernel_and_nothing_else(course):
    build.build(course)
    assert made(course, "labs/99_fixture.ipynb").metadata == KERNEL


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("    ### END SOLUTION\n", "", "marker has no partner"),
        ("    ### BEGIN SOLUTION return ...\n", "", "marker has no partner"),
        (
            "### BEGIN SOLUTION intensity",
            "### BEGIN SOLUTION\n### BEGIN SOLUTION intensity",
            "marker has no partner",
        ),
        ("exercise:99.2", "exercise:99.1", "cell exercise-99-1: the id is there twice"),
        ("check:99.2:1", "check:99.2:one", "as exercise:ID or check:ID:POINTS"),
    ],
)
def test_a_mistake_in_a_source_is_one_sentence_with_file_and_cell(course, capsys, old, new, part):
    edit(course, old, new)
    assert build.main([], root=course) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert part in line and line.startswith("source/labs/99_fixture.md, cell ")
    assert not list(course.rglob("*.ipynb"))


def test_the_check_lists_what_is_out_of_step_and_writes_nothing(course, capsys):
    build.build(course)
    before = bytes_of(course)
    edit(course, "Every machine", "Each machine")
    (course / "labs/01_gone.ipynb").write_text("{}")
    assert build.main(["--check"], root=course) == 1
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == [
        "solutions/99_fixture.ipynb",
        "labs/99_fixture.ipynb",
        "labs/01_gone.ipynb",
    ]
    assert bytes_of(course) == before | {"01_gone.ipynb": b"{}"}


# lessons


def test_a_lesson_is_executed_and_stamped(executed):
    cells = made(executed, "notebooks/98_lesson.ipynb").cells
    assert [cell.execution_count for cell in cells if cell.cell_type == "code"] == [1, 2, 3]
    assert cells[1].outputs[0].data["text/plain"] == "4"
    assert STAMP.search(cells[0].source)[0].count(",") >= 3


def test_noise_is_removed_from_outputs(executed):
    outputs = made(executed, "notebooks/98_lesson.ipynb").cells[3].outputs
    assert [(o.output_type, o.name, o.text) for o in outputs] == [("stream", "stdout", "done\n")]
    assert "execution" not in made(executed, "notebooks/98_lesson.ipynb").cells[3].metadata


def test_figures_are_small_and_carry_the_text_behind_them_as_alt_text(executed):
    output = next(
        o
        for o in made(executed, "notebooks/98_lesson.ipynb").cells[4].outputs
        if "image/png" in o.get("data", {})
    )
    assert output.metadata["image/png"]["alt"] == "A line of slope 2, from a table."
    picture = Image.open(io.BytesIO(base64.b64decode(output.data["image/png"])))
    assert picture.mode == "P" and len(picture.getcolors()) <= COLOURS


def test_prose_may_change_without_another_execution(executed, monkeypatch):
    monkeypatch.setattr(build, "execute", lambda *arguments: pytest.fail("executed"))
    edit(executed, "Opening.", "Another opening.", "lessons/98_lesson")
    assert len(build.build(executed)) == 1 and build.build(executed, check=True) == []
    assert made(executed, "notebooks/98_lesson.ipynb").cells[1].outputs


@pytest.mark.parametrize(
    ("old", "new"),
    [("2 + 2", "3 + 3"), ("```{code-cell} python\nimport sys\n", "```{code-cell} python\nimport  sys\n")],
)
def test_a_changed_code_cell_is_out_of_step_until_the_lesson_is_executed_again(executed, old, new):
    edit(executed, old, new, "lessons/98_lesson")
    assert [path.name for path in build.build(executed, check=True)] == ["98_lesson.ipynb"]
    edit(executed, new, old, "lessons/98_lesson")
    assert build.build(executed, check=True) == []


def damage(course, change):
    """Change the committed lesson behind the builder's back."""
    path = course / "notebooks/98_lesson.ipynb"
    before = path.read_bytes()
    notebook = json.loads(before)
    change(notebook["cells"][1])
    path.write_text(json.dumps(notebook))
    return path, before


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda cell: cell.update(execution_count=None), "it was not run"),
        (lambda cell: cell.update(outputs=[]), "its output is to be checked, but it has none"),
        (
            lambda cell: cell.update(
                outputs=[{"output_type": "error", "ename": "E", "evalue": "", "traceback": []}]
            ),
            "an error",
        ),
    ],
)
def test_the_check_demands_outputs_without_errors(executed, capsys, change, part):
    path, before = damage(executed, change)
    assert build.main(["--check"], root=executed) == 1
    assert part in capsys.readouterr().out
    path.write_bytes(before)


def test_a_figure_without_text_behind_it_is_an_error(executed, capsys):
    edit(executed, "**Figure.**", "Figure:", "lessons/98_lesson")
    assert build.main(["--check"], root=executed) == 1
    assert "cell question-3: its figure needs a markdown cell" in capsys.readouterr().out
    edit(executed, "Figure:", "**Figure.**", "lessons/98_lesson")


def test_a_damaged_notebook_is_out_of_step_and_built_again(course):
    add(course, "# Title\n\nText.\n")
    build.build(course)
    (course / "notebooks/98_lesson.ipynb").write_text("{")
    assert [path.name for path in build.build(course, check=True)] == ["98_lesson.ipynb"]
    assert [path.name for path in build.build(course)] == ["98_lesson.ipynb"]
    assert build.build(course, check=True) == []


@pytest.fixture
def learner(monkeypatch):
    monkeypatch.delenv("CI", raising=False)


def test_a_lab_that_somebody_has_worked_in_is_kept(course, capsys, learner):
    build.build(course)
    lab = next((course / "labs").glob("*.ipynb"))
    notebook = nbformat.read(lab, as_version=4)
    code = next(cell for cell in notebook.cells if cell.cell_type == "code")
    code.source, code.execution_count = "mine = 1", 1
    nbformat.write(notebook, lab)
    mine = lab.read_bytes()
    assert build.main([], root=course) == 0 and build.main(["--check"], root=course) == 0
    assert lab.read_bytes() == mine and capsys.readouterr().out.count(f"labs/{lab.name} is somebody's work") == 2


def test_a_lesson_saved_by_jupyter_is_kept(executed, capsys, learner):
    lesson = executed / "notebooks/98_lesson.ipynb"
    built = lesson.read_bytes()
    notebook = nbformat.read(lesson, as_version=4)
    notebook.metadata.language_info.version, notebook.cells[-1].source = "3.11", "My notes."
    nbformat.write(notebook, lesson)
    mine = lesson.read_bytes()
    assert build.main(["--run"], root=executed) == 0 and lesson.read_bytes() == mine
    assert build.main(["--check"], root=executed) == 0 and "is somebody's work" in capsys.readouterr().out
    lesson.write_bytes(built)


def test_on_ci_nobody_works(course, monkeypatch):
    monkeypatch.setenv("CI", "true")
    build.build(course)
    lab = next((course / "labs").glob("*.ipynb"))
    notebook = nbformat.read(lab, as_version=4)
    notebook.metadata.language_info.version = "3.11"
    nbformat.write(notebook, lab)
    assert build.build(course, check=True) == [lab]


def test_a_notebook_of_somebody_is_never_deleted(course):
    (course / "labs").mkdir()
    (course / "labs/99_mine.ipynb").write_text("{}")
    build.build(course)
    assert (course / "labs/99_mine.ipynb").exists()


def test_a_lesson_that_fails_is_one_sentence_and_leaves_no_file(course, capsys):
    add(course, "# Title\n\n```{code-cell} python\n1 / 0\n```\n")
    assert build.main([], root=course) == 1
    assert "98_lesson.md, cell title-2: ZeroDivisionError: division by zero." in capsys.readouterr().out
    assert not (course / "notebooks/98_lesson.ipynb").exists()


@pytest.mark.parametrize(
    ("code", "part"),
    [("import time\ntime.sleep(60)", "A cell timed out"), ("import os\nos._exit(1)", "Kernel died")],
)
def test_a_lesson_that_never_ends_or_kills_its_kernel_is_a_sentence(course, capsys, monkeypatch, code, part):
    monkeypatch.setattr("executed.TIMEOUT", 2)
    add(course, f"# Title\n\n```{{code-cell}} python\n{code}\n```\n")
    assert build.main([], root=course) == 1
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.startswith(f"source/lessons/98_lesson.md, cell title-2: {part}")
