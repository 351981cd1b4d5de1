"""Does each module of the kit import only from the layers above it, and does importing the kit stay light?"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

KIT = Path(__file__).parents[1] / "roofline_kit"
LAYERS = {  # in reading order: a module imports only modules that stand before it
    "count": ("units", "work", "ops", "weights", "sizes", "forward", "configs", "transformer", "serving", "traced",
              "referee"),
    "bound": ("roofline", "datasheets", "links"),
    "machine": ("host", "occupancy", "nvrtc", "gpu", "gpu_state", "kernels", "device", "doubts", "clocks", "timing",
                "pair", "cards", "cuda_on_cpu", "cuda", "nvml", "protocol", "products", "protocol_gpu", "sustained",
                "recorded", "jobs", "array_code", "training", "record", "doctor",
                "probes"),
    "people": ("report", "sheet", "batches", "decide", "diagnose", "mysteries", "labels", "plot", "tiles", "latency",
               "svg", "explore", "explore_roofline", "explore_gemm", "explore_serving", "explore_latency", "exercises",
               "check", "grade", "report_card", "__init__", "__main__"),
}
ORDER = [module for layer in LAYERS.values() for module in layer]
HEAVY = {"numba", "matplotlib", "cupy", "pynvml", "IPython", "ipywidgets", "psutil", "threadpoolctl", "filelock",
         "ml_dtypes"}
FILES = sorted(KIT.rglob("*.py"))
TABLE = re.compile(r"lab\d\d\.py")     # one lab's exercises: a list, not code to read in one sitting


def module(path):
    """The module of the kit that a file belongs to; kernels and exercises are one module each."""
    return path.relative_to(KIT).parts[0].removesuffix(".py")


def imports(path):
    """(modules of the kit, packages from elsewhere) that a file imports, inside of functions too."""
    inside, outside = set(), set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            outside |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            outside.add(node.module.split(".")[0])
        elif isinstance(node, ast.ImportFrom):
            home = list(path.relative_to(KIT).parts[:-1])
            home = home[:len(home) - node.level + 1] + (node.module or "").split(".") * bool(node.module)
            inside |= {home[0]} if home else {alias.name for alias in node.names}
    return inside - {module(path)}, outside


def reached(start):
    """All modules of the kit that a module imports, directly or through others."""
    found, todo = set(), [start]
    while todo:
        new = {name for path in FILES if module(path) == todo[-1] for name in imports(path)[0]} - found
        todo[-1:] = new
        found |= new
    return found


def python(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)


def test_every_module_has_a_layer():
    assert {module(path) for path in FILES} == set(ORDER)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(KIT).as_posix())
def test_a_module_imports_only_from_above(path):
    inside, outside = imports(path)
    above = ORDER[:ORDER.index(module(path))]
    assert inside <= set(above)
    assert "roofline_kit" not in outside


@pytest.mark.parametrize("name", LAYERS["count"] + LAYERS["bound"])
def test_counting_and_bounding_need_only_the_standard_library(name):
    assert imports(KIT / f"{name}.py")[1] <= sys.stdlib_module_names


@pytest.mark.parametrize("name", ["report", "plot"])
def test_what_is_drawn_never_needs_a_clock(name):
    assert not reached(name) & set(LAYERS["machine"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(KIT).as_posix())
def test_a_file_can_be_read_in_one_sitting(path):
    assert TABLE.fullmatch(path.name) or len(path.read_text().splitlines()) <= 260


@pytest.mark.parametrize("path", [path for path in FILES if path.name != "__init__.py"],
                         ids=lambda path: path.relative_to(KIT).as_posix())
def test_a_module_opens_with_the_question_it_answers(path):
    assert "?" in (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0]


def test_the_picture_of_the_layers_is_that_of_the_kit():
    picture = ast.get_docstring(ast.parse((KIT / "__init__.py").read_text()))
    for layer, modules in LAYERS.items():
        row = re.search(rf"(?m)^\s*{layer} .*$", picture).group()
        for name in re.findall(r"\w+", re.sub(r"\(.*?\)", "", row))[1:]:
            assert name in modules


def test_importing_the_kit_loads_nothing_heavy():
    loaded = python("-c", "import sys, roofline_kit; print(*sys.modules)").stdout
    assert not HEAVY & set(loaded.split())


def test_importing_the_kit_costs_a_few_imports_of_numpy():
    took = []
    for _ in range(3):
        lines = python("-X", "importtime", "-c", "import roofline_kit").stderr
        took.append({name: int(microseconds) / 1e6 for microseconds, name in
                     re.findall(r"\| +(\d+) \| +(numpy|roofline_kit)\n", lines)})
    kit, numpy = (min(times[name] for times in took) for name in ("roofline_kit", "numpy"))
    print(f"import roofline_kit: {kit:.3f} s, of it NumPy {numpy:.3f} s")
    assert kit < 6 * numpy      # it is 2 to 3; the packages that cost most are barred above
