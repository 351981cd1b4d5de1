"""Which names of CuPy do the kit and the lessons use, and has each been seen in a real CuPy?

cupy_names.txt holds those that were seen; `python -m pytest tests/with_cupy.py` looks, and writes it.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SEEN = Path(__file__).with_name("cupy_names.txt")
MODULES = {"xp": "cupy", "cupy": "cupy", "cupyx": "cupyx"}           # how the library is called in a program
IN_TEXT = re.compile(r"(?<![\w.])(?:\w+\.)?((?:xp|cupy|cupyx)(?:\.[A-Za-z_]\w*(?:\(\))?)+)")
GIVES = {  # what a function returns, so that names of its result are found, too
    "cupy.cuda.get_current_stream": "cupy.cuda.Stream",
    "cupy.cuda.Stream.end_capture": "cupy.cuda.Graph",
    "cupy.get_default_memory_pool": "cupy.cuda.MemoryPool",
}


def name_of(node, known):
    """The dotted name that an expression stands for, by the variables known so far; None for anything else."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = name_of(node.value, known)
        return f"{owner}.{node.attr}" if owner else "cupy" if node.attr == "xp" else None
    if isinstance(node, ast.Call):
        called = name_of(node.func, known) or ""
        return GIVES.get(called, called if called.split(".")[-1][:1].isupper() else None)
    return None


def assigned(node):
    """(target, value) of each part of an assignment."""
    target, value = node.targets[0], node.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return zip(target.elts, value.elts)
    return [(target, value)]


def variables(function):
    """{variable: the dotted name that is assigned to it} inside one function."""
    known = dict(MODULES)
    for node in ast.walk(function):
        for target, value in assigned(node) if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Name) and (name := name_of(value, known)):
                known[target.id] = name
    return known


def in_program(text):
    """The names in a Python program, its strings included."""
    tree, found = ast.parse(text), set()
    whole = [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))]
    for part in whole:
        known = variables(part) if part is not tree else dict(MODULES)
        attributes = [node for node in ast.walk(part) if isinstance(node, ast.Attribute)]
        inner = {id(node.value) for node in attributes}
        found |= {name for node in attributes if id(node) not in inner and (name := name_of(node, known))}
    strings = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return found.union(*map(in_text, strings)) - set(MODULES.values())


def in_text(text):
    """The names in prose and in the cells of a lesson."""
    return set().union(*map(in_program, IN_TEXT.findall(text)))


def used():
    """{name: the files that use it}"""
    files = [*sorted((ROOT / "roofline_kit").rglob("*.py")), *sorted((ROOT / "source").rglob("*.md"))]
    found = {}
    for path in files:
        for name in (in_program if path.suffix == ".py" else in_text)(path.read_text(encoding="utf-8")):
            found.setdefault(name, []).append(path.relative_to(ROOT).as_posix())
    return found


def seen():
    """{name: the version of CuPy in which it was seen}"""
    rows = (line.split() for line in SEEN.read_text().splitlines() if not line.startswith("#"))
    return dict(rows)


def test_every_name_has_been_seen_in_a_real_cupy():
    new = {name: files for name, files in used().items() if name not in seen()}
    assert not new, "run `python -m pytest tests/with_cupy.py`, which looks for them in a real CuPy"


def test_no_name_is_kept_that_nothing_uses():
    assert set(seen()) <= set(used())


def test_they_were_seen_in_the_cupy_of_the_course():
    assert {version.split(".")[0] for version in seen().values()} == {"14"}


PROGRAMS = {
    "xp.add(a, b)": {"cupy.add"},
    "self.xp.cuda.Event()": {"cupy.cuda.Event"},
    "device.xp.random.default_rng(0).normal()": {"cupy.random.default_rng"},
    "import cupy\ncupy.cuda.runtime.getDevice()": {"cupy.cuda.runtime.getDevice"},
    "xp.cuda.get_current_stream().synchronize()": {"cupy.cuda.get_current_stream", "cupy.cuda.Stream.synchronize"},
    "def f(xp):\n e = xp.cuda.Event()\n e.record()": {"cupy.cuda.Event", "cupy.cuda.Event.record"},
    "def f(xp):\n r = xp.cuda.runtime\n r.memGetInfo()": {"cupy.cuda.runtime", "cupy.cuda.runtime.memGetInfo"},
    "def f(xp):\n k, n = xp.RawKernel(c, 'k'), 1\n k.num_regs": {"cupy.RawKernel", "cupy.RawKernel.num_regs"},
    "def f(xp):\n e = xp.zeros(3)\n e.sum()": {"cupy.zeros"},
    "hint = 'use lambda: xp.dot(a, b).'": {"cupy.dot"},
    "def f(xp):\n e = xp.Generator()\ndef g(e):\n e.record()": {"cupy.Generator"},
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_walk_finds(program):
    assert in_program(program) == PROGRAMS[program]


def test_prose_is_searched_too():
    text = "Replace `add` by `xp.exp(a)`, or by dev.xp.linalg.norm; xp.get_default_memory_pool().free_bytes() tells."
    assert in_text(text) == {"cupy.exp", "cupy.linalg.norm", "cupy.get_default_memory_pool",
                             "cupy.cuda.MemoryPool.free_bytes"}


def test_the_walk_sees_the_kit_and_the_lessons():
    found = used()
    assert "roofline_kit/gpu.py" in found["cupy.cuda.Stream.begin_capture"]
    assert "source/lessons/00_start_here.md" in found["cupy.add"]
