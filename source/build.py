"""Which notebooks does the text under source/ make? Writes notebooks/, solutions/ and labs/.

lessons/NN.md  ->  notebooks/NN.ipynb                 executed; outputs are kept while the code stays the same
explore.md     ->  notebooks/explore.ipynb            likewise: of its sliders the static figures stay
labs/NN.md     ->  solutions/NN.ipynb, labs/NN.ipynb  without outputs; labs/ also without the solutions

`--check` writes nothing and says what is out of step. `--run` executes every lesson again and says how
long each took and all together, `--run 04` does those whose name starts so.
"""

import argparse
import copy
import itertools
import os
import re
import sys
import time
import warnings
from pathlib import Path

import jupytext
import nbformat
from executed import KERNEL, BuildError, describe, execute, keep_outputs, look

SOLUTION = re.compile(r"^([ \t]*)### BEGIN SOLUTION([^\n]*)\n((?:(?![ \t]*### (?:BEGIN|END)).*\n)*)"
                      r"[ \t]*### END SOLUTION[ \t]*(?:\n|\Z)", re.MULTILINE)
MARKER = re.compile(r"###\s*(?:BEGIN|END)\b")
TAG = re.compile(r"(exercise|check|answer):([A-Za-z0-9._-]+)(?::(\d+))?")
FOLDERS = ("notebooks", "solutions", "labs")


def read(path):
    """The notebook of a text source, with the course's ids and metadata."""
    notebook = jupytext.reads(path.read_text("utf-8"), fmt="md:myst")
    notebook.metadata, notebook.nbformat, notebook.nbformat_minor = copy.deepcopy(KERNEL), 4, 5
    notebook.cells = [part for cell in notebook.cells for part in _split(cell)]
    section, count, seen = "start", 0, set()
    for cell in notebook.cells:
        heading = re.match(r"##? (.+)", cell.source) if cell.cell_type == "markdown" else None
        if heading:
            section, count = re.sub(r"[^a-z0-9]+", "-", heading[1].lower()).strip("-")[:40].strip("-"), 0
        count += 1
        tags = cell.metadata.get("tags", [])
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        cell.id = f"{section}-{count}"
        for found in filter(None, map(TAG.fullmatch, tags)):
            _grade(cell, *found.groups())
        if any(":" in tag and not TAG.fullmatch(tag) for tag in tags):
            raise BuildError(f"{path}, cell {cell.id}: write {tags} as exercise:ID or check:ID:POINTS.")
        if cell.id in seen:
            raise BuildError(f"{path}, cell {cell.id}: the id is there twice, rename a heading or tag.")
        seen.add(cell.id)
        if MARKER.search(SOLUTION.sub("", cell.source)):
            raise BuildError(f"{path}, cell {cell.id}: a solution marker has no partner.")
    return notebook


def _split(cell):
    """The cell, or, of prose, one cell from each heading to the next."""
    if cell.cell_type == "code" or "```" in cell.source:
        return [cell]
    parts = re.split(r"\n+(?=#{2,3} (?!BEGIN|END))", cell.source)
    return [nbformat.from_dict({**cell, "source": part, "metadata": {} if number else cell.metadata})
            for number, part in enumerate(parts)]


def _grade(cell, kind, name, points):
    """The id and the nbgrader metadata that a tag stands for."""
    cell.id = re.sub(r"[^A-Za-z0-9_-]", "-", f"{kind}-{name}")
    cell.metadata["nbgrader"] = {"grade_id": cell.id, "schema_version": 3, "task": False,
                                 "locked": kind == "check", "solution": kind != "check",
                                 "grade": kind != "exercise"}
    if points:
        cell.metadata["nbgrader"]["points"] = int(points)


def solved(source):
    """The solutions: the markers stay in code, where nbgrader looks for them, and go from markdown."""
    notebook = copy.deepcopy(source)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = SOLUTION.sub(lambda m: m[3], cell.source).rstrip("\n")
    return notebook


def blank(source):
    """The lab: the text behind BEGIN SOLUTION (or `...`) stands where the solution was."""
    notebook = copy.deepcopy(source)
    for cell in notebook.cells:
        cell.source = SOLUTION.sub(lambda m: f"{m[1]}{m[2].strip() or '...'}\n", cell.source).rstrip("\n")
    return notebook


def text_of(notebook, path):
    """The bytes of the file. Errors: BuildError for what nbformat only warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            nbformat.validate(notebook)
        except Exception as problem:                       # noqa: BLE001  a warning or any of its errors
            raise BuildError(f"{path}: {str(problem).splitlines()[0]}") from None
        return (nbformat.writes(notebook) + "\n").encode()


def lesson(path, target, check=False, run=False):
    """The bytes that belong into notebooks/, executed where needed; None: only an execution can tell."""
    notebook = read(path)
    if run or not keep_outputs(notebook, target):
        if check:
            return None
        print(f"running {path.name}", flush=True)
        target.parent.mkdir(exist_ok=True)
        start = time.perf_counter()
        execute(notebook, path, target.parent)
        print(f"  {time.perf_counter() - start:.0f} s", flush=True)
    describe(notebook, path)
    look(notebook, path)
    return text_of(notebook, path)


def worked_in(path, check=False):
    """Whether somebody has run or saved this notebook: Jupyter writes more metadata, a run lab has outputs.

    On CI nobody works: there a check lets every difference count.
    """
    if check and os.environ.get("CI"):
        return False
    try:
        notebook = nbformat.read(path, as_version=4)
    except Exception:                                      # noqa: BLE001  missing or damaged: nothing to keep
        return False
    run = any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
    return notebook.metadata != KERNEL or (run and path.parent.name != "notebooks")


def folder_of(path):
    return f"{path.parent.name}/{path.name}"


def build(root, check=False, run=None):
    """Write what is out of step and return its paths; with `check` only return them."""
    stale, wanted = [], set()

    def put(target, data):
        wanted.add(target)
        if data and target.exists() and target.read_bytes().replace(b"\r\n", b"\n") == data:
            return
        if worked_in(target, check):
            print(f"{folder_of(target)} is somebody's work: " + ("it is not compared with its source." if check else
                  "it is kept; move it away and build again for a new one."))
            return
        stale.append(target)
        if not check:
            target.parent.mkdir(exist_ok=True)
            if target.exists() and target.parent.name == "labs":
                olds = (target.with_suffix(f".{number}.bak") for number in itertools.count(1))
                target.replace(next(old for old in olds if not old.exists()))    # it may hold somebody's answers
            target.write_bytes(data)

    for path in sorted((root / "source/labs").glob("*.md")):
        source = read(path)
        for folder, notebook in (("solutions", solved(source)), ("labs", blank(source))):
            put(root / folder / f"{path.stem}.ipynb", text_of(notebook, path))
    for path in [*sorted((root / "source/lessons").glob("*.md")), *sorted((root / "source").glob("*.md"))]:
        target = root / "notebooks" / f"{path.stem}.ipynb"
        again = run is not None and path.name.startswith(run)
        put(target, None if worked_in(target, check) else lesson(path, target, check, again))
    found = [path for folder in FOLDERS for path in sorted((root / folder).glob("[0-9][0-9]_*.ipynb"))]
    orphans = [path for path in found if path not in wanted]      # may be somebody's own work: never deleted
    return stale + (orphans if check else [])


def main(arguments=None, root=Path(__file__).parents[1]):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if out of step")
    parser.add_argument("--run", nargs="?", const="", metavar="NN", help="execute the lessons again")
    options, start = parser.parse_args(arguments), time.perf_counter()
    try:
        changed = build(root, options.check, options.run)
    except BuildError as problem:
        print(str(problem).replace(f"{root}{os.sep}", ""))
        return 1
    for path in changed:
        print("out of step with source/:" if options.check else "wrote", path.relative_to(root).as_posix())
    if options.run is not None:
        print(f"{time.perf_counter() - start:.0f} s in all")
    return int(options.check and bool(changed))


if __name__ == "__main__":
    sys.exit(main())
