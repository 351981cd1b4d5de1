"""How is a call run? By a program of its own: the arrays go out and come back in files, and a crash harms nobody."""

import functools
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from .arguments import Parameter
from .compiler import compiler
from .errors import CudaError

TIME_LIMIT = 60          # s; an emulated kernel that takes longer is endless, or too large to be a lesson
LAST_WORDS = 2           # s for a program that is told to stop to say where it was
ORDERS = ("forward", "reversed", "shuffled")
HEADER, ARGUMENT = struct.Struct("11q"), struct.Struct("4q")       # as in runtime/main.cpp
ENDED = {0, 3}           # exit statuses that come with findings: done, something found
UNWRITTEN = 4            # exit status: a file could not be written


@dataclass(frozen=True)
class Call:
    """One launch.

    arrays:      the arguments, checked: arrays for pointers, zero-dimensional ones for scalars
    """

    kernel: str
    grid: tuple
    block: tuple
    parameters: tuple
    arrays: list = field(repr=False)
    shared_mem: int = 0

    def first_uses(self):
        """For each argument the number of the first one that is the same memory: its own, mostly."""
        places = [(array.ctypes.data, array.nbytes) if parameter.pointer and array.nbytes else index
                  for index, (array, parameter) in enumerate(zip(self.arrays, self.parameters, strict=True))]
        return [places.index(place) for place in places]

    def written(self):
        """The numbers of the arguments that may have changed, each array's first use."""
        return {first for first, each in zip(self.first_uses(), self.parameters, strict=True) if each.writable}

    def copied(self):
        """The same call on copies; what was one array twice stays one."""
        copies = [array.copy() for array in self.arrays]
        return replace(self, arrays=[copies[first] for first in self.first_uses()])


@functools.cache
def signatures(path, source):
    """{kernel: its parameters} of a program."""
    listed = _process([path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    text, complaint = listed.communicate(timeout=TIME_LIMIT)
    if listed.returncode:
        raise CudaError(_no_start(complaint))
    found = {}
    for line in text.splitlines():
        name, _, codes = line.partition(": ")
        names, codes = source.parameters(name), codes.split()
        names = names if len(names) == len(codes) else [f"parameter {i}" for i in range(1, len(codes) + 1)]
        found[name] = tuple(map(Parameter, names, codes))
    return found


def run(path, call, order="forward", seed=0, quiet=False):
    """Run one call; what it may write is copied back into its arrays if it ends well.

    quiet:   what the kernel prints is dropped
    Gives:   what the program found, a dict; "kind" is "done" when it ended well
    Errors:  CudaError when the folder for temporary files is full
    """
    with tempfile.TemporaryDirectory(prefix="roofline-kit-") as folder:
        job, results, findings, output = (Path(folder) / name for name in ("job", "results", "findings", "output"))
        try:
            _write(job, call, ORDERS.index(order), seed)
        except OSError:
            raise CudaError(_full(call)) from None
        with output.open("wb") as stream:
            process = _process([path, call.kernel, job, results, findings], stdout=stream, stderr=subprocess.PIPE)
        timed_out, complaint = _end(process, TIME_LIMIT)
        if not quiet:
            _relay(output)
        if process.returncode == UNWRITTEN:
            raise CudaError(_full(call))
        if timed_out or process.returncode not in ENDED or not findings.exists():
            found = json.loads(findings.read_text()) if findings.exists() else {}
            if timed_out:
                return found | {"kind": "endless", "seconds": TIME_LIMIT}
            return found or {"kind": "ended", "status": process.returncode, "text": _no_start(complaint.decode())}
        found = json.loads(findings.read_text(errors="replace"))
        if found["kind"] == "done":
            _read(results, call)
        return found


def _process(words, **streams):
    """Started in a session of its own, so that the interrupt of a notebook reaches only Python, which ends it."""
    environment = {name: value for name, value in os.environ.items() if name not in ("ASAN_OPTIONS", "UBSAN_OPTIONS")}
    return subprocess.Popen(list(map(str, words)), stdin=subprocess.DEVNULL, start_new_session=True,
                            env=environment | {"LD_LIBRARY_PATH": _libraries()}, **streams)


@functools.cache
def _libraries():
    """Where the compiler keeps its own libraries, which a system may not look through."""
    told = os.environ.get("LD_LIBRARY_PATH", "")
    if sys.platform != "linux":
        return told
    named = (subprocess.run([compiler(), f"-print-file-name={name}"], check=False, capture_output=True, text=True,
                            timeout=TIME_LIMIT).stdout.strip() for name in ("libasan.so", "libstdc++.so"))
    folders = dict.fromkeys(str(Path(path).resolve().parent) for path in named if "/" in path)
    return ":".join([*folders, *([told] if told else [])])


def _end(process, time_limit):
    """(whether it had to be stopped, what it complained of); an interrupt stops it, too."""
    try:
        return False, process.communicate(timeout=time_limit)[1]
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        try:
            return True, process.communicate(timeout=LAST_WORDS)[1]
        except subprocess.TimeoutExpired:
            return True, b""
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stderr.close()


def _write(path, call, order, seed):
    sizes = [np.atleast_1d(array) for array in call.arrays]
    first = call.first_uses()
    with path.open("wb", buffering=0) as file:
        file.write(HEADER.pack(*call.grid, *call.block, call.shared_mem, order, seed, os.getpid(), len(sizes)))
        for index, (array, parameter) in enumerate(zip(sizes, call.parameters, strict=True)):
            kind = 1 + parameter.writable if parameter.pointer else 0
            file.write(ARGUMENT.pack(kind, array.nbytes, array.itemsize, first[index]))
        for index, array in enumerate(sizes):
            if first[index] == index:
                _all(file.write, _bytes(array))


def _read(path, call):
    with path.open("rb", buffering=0) as file:
        for index in sorted(call.written()):
            _all(file.readinto, _bytes(call.arrays[index]))


def _bytes(array):
    return memoryview(array.reshape(-1).view(np.uint8))


def _all(move, view):
    """A system moves at most 2 GiB at once."""
    while view:
        view = view[move(view):]


def _relay(path):
    """What the kernel printed belongs below the cell."""
    text = path.read_text(errors="replace")
    if text:
        print(text, end="" if text.endswith("\n") else "\n")


def _full(call):
    return (f"kernel {call.kernel}: its arrays do not fit into {tempfile.gettempdir()}, the folder for temporary "
            "files: free space there, or set TMPDIR to a folder that has more and restart Python.")


def _no_start(complaint):
    missing = "error while loading shared libraries"
    if missing in complaint and "san" in complaint:
        return f"AddressSanitizer's library is missing ({complaint.partition(missing)[2].strip(': ').split(':')[0]})"
    return (complaint.strip().splitlines() or ["it gave no reason"])[-1]
