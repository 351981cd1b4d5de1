"""Does every kernel compile for every architecture, fit on an SM, spill nothing, and take what is on record?

`python tests/test_resources.py --write` puts what the compiler says now on record; with names of files, those alone.
"""

import functools
import itertools
import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cases import cases

from roofline_kit import nvrtc
from roofline_kit.kernels import FOLDER, launched, source
from roofline_kit.kernels.gpu_fma import CHAINS
from roofline_kit.protocol_gpu import VECTOR

RECORD = FOLDER / "resources.json"
FILES = sorted(path.stem for path in FOLDER.glob("*.cu"))
ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100")
NO_BFLOAT16 = {"sm_75"}
COLUMNS = ("registers", "shared", "spills", "stack")
pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="NVIDIA makes no NVRTC for macOS")


@functools.cache
def variants():
    """{(file, dtype, macros): {(kernel, block, shared_mem)}} of all launches of the kernels' cases; nothing runs."""
    found = {}

    def launch(file, name, grid, block, args, shared_mem=0, dtype="float32", **macros):
        found.setdefault((file, dtype, tuple(sorted(macros.items()))), set()).add((name, tuple(block), shared_mem))

    launch.xp = np
    for case in cases():
        launched(case.kernel, launch)(*case.arrays(np.random.default_rng(7), *case.shape))
    for dtype, chains in itertools.product(VECTOR, CHAINS):  # no case suits both devices, see cases/fma.py
        launched("fma", launch)(chains, 1, np.empty(4, dtype))
    launched("empty", launch)()
    return dict(sorted(found.items(), key=str))


@functools.cache
def compiled(file):
    """{(dtype, macros, architecture): {kernel: its Resources}} of all variants of one file."""
    wanted = [(dtype, macros, arch) for name, dtype, macros in variants() if name == file for arch in ARCHITECTURES
              if dtype != "bfloat16" or arch not in NO_BFLOAT16]

    def ask(variant):
        dtype, macros, arch = variant
        return nvrtc.all_resources(source(file, dtype, **dict(macros)), arch)

    with ThreadPoolExecutor(2) as pool:                      # ctypes releases the interpreter's lock
        return dict(zip(wanted, pool.map(ask, wanted)))


@functools.cache
def measured(file):
    """{"file kernel dtype macros": {architecture: [registers, shared, spills, stack]}} of what the cases launch."""
    table = {}
    for (dtype, macros, arch), kernels in compiled(file).items():
        for name in sorted({name for name, _, _ in variants()[file, dtype, macros]}):
            key = " ".join([file, name, dtype, *(f"{macro}={value}" for macro, value in macros)])
            table.setdefault(key, {})[arch] = [getattr(kernels[name], column) for column in COLUMNS]
    return table


@functools.cache
def recorded():
    return json.loads(RECORD.read_text())


@functools.cache
def build():
    """The compiler's own version, to the last digit, as it leaves it in what it compiles."""
    return re.search(rb"V(\d+\.\d+\.\d+)", nvrtc.compile("__global__ void nothing() {}").code)[1].decode()


def compared(table):
    """What another version of the compiler must not change: only the registers and the stack may differ."""
    same = recorded()["nvrtc"] == build()
    return {key: {arch: row if same else row[1:3] for arch, row in rows.items()} for key, rows in table.items()}


@pytest.mark.parametrize("file", FILES)
def test_what_a_kernel_takes_is_what_is_on_record(file):
    kept = {key: rows for key, rows in recorded()["kernels"].items() if key.split()[0] == file}
    assert compared(measured(file)) == compared(kept), "if that is meant, run `python tests/test_resources.py --write`"


@pytest.mark.parametrize("file", FILES)
def test_no_kernel_spills(file):
    found = [kernel for kernels in compiled(file).values() for kernel in kernels.values()]
    assert found and not [kernel for kernel in found if kernel.spills]


@pytest.mark.parametrize("file", FILES)
def test_every_kernel_of_a_file_is_launched_by_a_case_or_the_protocol(file):
    there = {name for kernels in compiled(file).values() for name in kernels}
    launches = [launch for variant, launches in variants().items() if variant[0] == file for launch in launches]
    assert there == {name for name, _, _ in launches}


@pytest.mark.parametrize("file", FILES)
def test_every_launch_fits_on_an_sm(file):
    for (dtype, macros, _), kernels in compiled(file).items():
        for name, block, shared_mem in variants()[file, dtype, macros]:
            assert kernels[name].occupancy(block, shared_mem).blocks, (dtype, macros, block, kernels[name])


def test_the_record_holds_the_kernels_that_are_there_and_no_others():
    assert sorted({key.split()[0] for key in recorded()["kernels"]}) == FILES


def write(files):
    """Put these files on record, a kernel a row; the others stay as they are, unless they are gone."""
    kept = recorded()["kernels"] if RECORD.exists() and recorded()["nvrtc"] == build() else {}
    files = files if kept else FILES                         # another compiler: nothing that is on record stays
    table = {key: rows for key, rows in kept.items() if key.split()[0] in set(FILES) - set(files)}
    for file in files:
        table |= measured(file)
    rows = ",\n".join(f"  {json.dumps(key)}: {json.dumps(rows)}" for key, rows in sorted(table.items()))
    head = json.dumps({"nvrtc": build(), "columns": COLUMNS})[:-1]
    RECORD.write_text(f'{head}, "kernels": {{\n{rows}\n}}}}\n')


if __name__ == "__main__" and sys.argv[1:2] == ["--write"]:
    write(sys.argv[2:] or FILES)
