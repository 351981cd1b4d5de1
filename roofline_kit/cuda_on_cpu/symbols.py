"""Which line of the kernel does an address of its program belong to?"""

import functools
import re
import shutil
import subprocess
import sys

FRAME = re.compile(r"([^\s/\\()]+):(\d+)")
WRITTEN = "kernel.cpp"   # the compiled file: with a precompiled header GCC forgets what `#line` calls it
SECONDS = 60             # for one run of a symbolizer


@functools.cache
def _tool():
    """A command that names the source lines of addresses, as its words up to the addresses."""
    if sys.platform == "darwin":
        return (shutil.which("atos"), "-i", "-o") if shutil.which("atos") else None
    for name, words in (("addr2line", ("-a", "-i", "-e")),
                        ("llvm-symbolizer", ("-a", "-i", "-s", "--functions=none", "-e"))):
        if shutil.which(name):
            return shutil.which(name), *words
    return None


def lines(path, source, offsets):
    """{offset: line} for offsets into a program, as far as they can be told.

    What the shim does for a kernel belongs to the line that asked for it, so of the frames that are inlined into each
    other the first in the kernel's own text counts.
    """
    offsets = list(dict.fromkeys(offsets))
    if not offsets or not _tool():
        return {}
    files = {WRITTEN, *(file.rpartition("/")[2] for file, _ in source.lines.values())}
    found = {}
    for offset, frames in zip(offsets, _frames(path, offsets), strict=False):
        own = [int(line) for file, line in frames if file in files and int(line) in source.lines]
        if own:
            found[offset] = own[0]
    return found


def _frames(path, offsets):
    """For each offset its frames, [(file, line)], innermost first."""
    if sys.platform == "darwin":
        command = [*_tool(), str(path), "-offset", *map(hex, offsets)]
        return [FRAME.findall(part) for part in _output(command).split("\n\n")]
    parts = re.split(r"^0x[0-9a-fA-F]+\n", _output([*_tool(), str(path), *map(hex, offsets)]), flags=re.MULTILINE)
    return [FRAME.findall(part) for part in parts[1:]]


def _output(command):
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS).stdout
