"""Which exercises of a lab file are right? `python -m roofline_kit.grade 04` runs it from top to bottom."""

import contextlib
import io
import os
import re
import sys
from pathlib import Path

from . import exercises

CHECK = re.compile(r"""\bcheck\(\s*["']([\w.]+)["']""")
TIMEOUT = 120        # s a cell may take


class _Lines:
    """A pytest plug-in that keeps one line for each exercise, and for each other cell that fails."""

    def __init__(self):
        self.lines, self.failed, self.seen = [], False, set()

    def pytest_runtest_makereport(self, item, call):
        if call.when != "call" or not hasattr(item, "cell"):
            return
        found = CHECK.search(re.sub(r"(?m)^\s*#.*$", "", item.cell.source))
        if call.excinfo:
            self.failed = True
            text = _sentence(call.excinfo.value)
        else:
            text = "".join(out.get("text", "") for out in item.test_outputs or ()).strip()
        if found:
            text = text.rpartition(f"{found[1]}: ")[2]      # behind whatever the learner's own code prints
            known = call.excinfo or text.startswith(("right.", "inconclusive"))
            self.failed |= not known
            self.seen.add(found[1])
            said = text if known else f"no verdict: {text or 'the check printed nothing'}"
            self.lines.append(f"{found[1]}  {'passed' if text.startswith('right.') else said}")
        elif call.excinfo:
            self.lines.append(f"cell {item.cell_num}  {text}")


def _sentence(problem):
    """The last line of what a cell raised: "NameError: name 'x' is not defined", or what a check said."""
    told = re.sub(r"\x1b\[[\d;]*m", "", getattr(problem, "inner_traceback", None) or str(problem))
    return told.strip().splitlines()[-1].strip() if told.strip() else type(problem).__name__


def find(lab, root=Path(__file__).parents[1]):
    """The file of a lab: a path, or its number or name. Errors: FileNotFoundError with what there is."""
    if Path(lab).suffix == ".ipynb" and Path(lab).is_file():
        return Path(lab)
    there = sorted((root / "labs").glob("*.ipynb"))
    number = lab.zfill(2) if lab.isdigit() else lab
    found = [path for path in there if lab and path.name.startswith(number)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(path.stem for path in there) or "none in labs/"
    raise FileNotFoundError(f"there is no lab {lab!r}: choose one of {names}, or give a notebook's path.")


def grade(path):
    """Run a lab under nbval, strictly. Returns the lines and whether something failed."""
    import pytest
    os.environ["ROOFLINE_KIT_STRICT"] = "1"
    lines = _Lines()
    options = ["--nbval-lax", "--nbval-current-env", f"--nbval-cell-timeout={TIMEOUT}",
               "-p", "no:cacheprovider", "--rootdir", str(path.parent), "-c", os.devnull]
    with contextlib.redirect_stdout(io.StringIO()):
        code = pytest.main([str(path), *options], plugins=[lines])
    if code not in (0, 1):
        return [f"{path} could not be run: is it a notebook that opens in JupyterLab?"], True
    labs = {name.partition(".")[0] for name in lines.seen} & set(exercises.labs())
    missing = sorted(name for lab in labs for name in exercises.table(lab)[1] if name not in lines.seen)
    return lines.lines + [f"{name}  its check cell is missing" for name in missing], lines.failed or bool(missing)


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    if len(arguments) != 1:
        print("give one lab: its number (04) or the path of its notebook.")
        return 2
    try:
        path = find(arguments[0])
    except FileNotFoundError as problem:
        print(problem)
        return 2
    lines, failed = grade(path)
    print("\n".join(lines or [f"{path} has no rk.check cell."]))
    return int(failed or not lines)


if __name__ == "__main__":
    sys.exit(main())
