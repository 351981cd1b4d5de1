"""What does a lesson show that has been run? Executes it, cleans what it shows, and says where and when."""

import base64
import copy
import io
import re
import sys
from datetime import date

import nbformat

KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
          "language_info": {"name": "python"}}
STAMP = re.compile(r"\n\n\*Executed on [^\n]*\*$")
COLOURS = 64         # of a figure; a quarter of the bytes of all colours, and no difference to the eye
TIMEOUT = 300        # s that one cell of a lesson may take


class BuildError(Exception):
    """One sentence with the file and the cell."""


def keep_outputs(notebook, committed):
    """Take the outputs and the stamp of the committed notebook over. False where its code is another."""
    try:
        old = nbformat.read(committed, as_version=4)
    except (OSError, ValueError):
        return False                                       # not there, or no notebook
    now, before = ([cell for cell in n.cells if cell.cell_type == "code"] for n in (notebook, old))
    if [cell.source for cell in now] != [cell.source for cell in before]:
        return False
    for new, was in zip(now, before):
        new.outputs, new.execution_count = was.outputs, was.execution_count
    stamp = STAMP.search(old.cells[0].source) if old.cells else None
    notebook.cells[0].source += stamp[0] if stamp else ""
    return bool(stamp)


def execute(notebook, path, folder):
    """Run a lesson where it will lie, clean its outputs and stamp its first cell."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
    started = []
    try:
        NotebookClient(notebook, timeout=TIMEOUT, kernel_name="python3", record_timing=False,
                       on_cell_start=lambda cell, cell_index: started.append(cell.id),
                       resources={"metadata": {"path": str(folder)}}).execute()
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as problem:
        told = f"{problem.ename}: {problem.evalue}" if hasattr(problem, "ename") else str(problem)
        raise BuildError(f"{path}, cell {started[-1]}: {told.splitlines()[0].rstrip('.')}.") from None
    notebook.metadata = copy.deepcopy(KERNEL)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.metadata.pop("execution", None)
            cell.outputs = list(_cleaned(cell.outputs))
    notebook.cells[0].source += f"\n\n*Executed on {_here()}, {date.today().isoformat()}.*"


def _failed(cell):
    """Whether a cell shows an error that is not there on purpose."""
    return ("raises-exception" not in cell.metadata.get("tags", [])
            and any(output.output_type == "error" for output in cell.outputs))


def _here():
    """The device and the software, in words."""
    from roofline_kit.device import device
    here = device()
    library, parts = ("NumPy", "cores") if here.kind == "cpu" else ("CuPy", "SMs")
    return (f"{here.name} ({here.cores} {parts}), Python {sys.version.split()[0]}, "
            f"{library} {here.xp.__version__}")


def _cleaned(outputs):
    """Outputs without what differs for no reason: stderr, progress bars, ids; figures with few colours."""
    for output in outputs:
        data = output.get("data", {})
        if output.output_type == "stream":
            output.text = re.sub(r"[^\n]*\r(?=[^\n])", "", output.text)
            if output.name == "stderr" or not output.text.strip():
                continue
        if data.pop("application/vnd.jupyter.widget-view+json", None) and "text/html" not in data:
            continue                                         # a progress bar; an explorer leaves its static figure
        if list(data.values()) == [""]:                      # a bar that is gone
            continue
        output.pop("transient", None)
        if "image/png" in data:
            data["image/png"] = _small(data["image/png"])
        yield output


def _small(png):
    from PIL import Image
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB").quantize(COLOURS)
    out = io.BytesIO()
    picture.save(out, "PNG", optimize=True)
    return base64.b64encode(out.getvalue()).decode()


def describe(notebook, path):
    """Give each figure the alt text that the markdown cell behind it holds."""
    for cell, after in zip(notebook.cells, [*notebook.cells[1:], None]):
        for output in cell.get("outputs", []):
            if "image/png" not in output.get("data", {}):
                continue
            text = after.source if after and after.cell_type == "markdown" else ""
            if not text.startswith("**Figure.**"):
                raise BuildError(f"{path}, cell {cell.id}: its figure needs a markdown cell behind it that "
                                 "starts with **Figure.**")
            alt = re.sub(r"[*_`$]|\]\([^)]*\)|\[", "", text.removeprefix("**Figure.**").split("\n\n")[0])
            alt = " ".join(alt.split())
            output.metadata["image/png"] = {"alt": alt}    # for nbconvert; JupyterLab 4.6 shows no alt text:
            output.data["text/plain"] = alt                # there, the prose behind the figure has to do


def look(notebook, path):
    """Refuse a lesson with a cell that was not run or that shows an error."""
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        if cell.execution_count is None:
            raise BuildError(f"{path}, cell {cell.id}: it was not run; run the build without --check.")
        tags = cell.metadata.get("tags", [])
        if "nbval-check-output" in tags and not cell.outputs:
            raise BuildError(f"{path}, cell {cell.id}: its output is to be checked, but it has none.")
        if _failed(cell):
            raise BuildError(f"{path}, cell {cell.id}: its output is an error.")
