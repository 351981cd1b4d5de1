"""What did a kernel do wrong? One sentence with its line, and a way out."""

import math
import re
import signal

from . import symbols
from .errors import CudaError

ADVICE = {  # what UndefinedBehaviorSanitizer's sentence holds: what to do
    "misaligned": "a vector of n bytes must start at a multiple of n: choose the offset so, or load single numbers",
    "overflow": "compute in a larger type: write (size_t) or (long long) in front of the first factor",
    "out of bounds": "keep the index below the array's length",
    "shift": "shift by less than the number of bits",
    "division by zero": "test the divisor first",
    "null pointer": "give the kernel an array here",
}
WARP = 32                # threads
CHECK = "run check(...) with the same arguments to learn which line it is"


def sentence(found, call, source, path):
    """The sentence for what a program found; "" when it ended well and strayed nowhere."""
    describe = {"broken": _broken, "signal": _signal, "address": _address, "undefined": _undefined, "endless": _endless,
                "memory": _memory, "static": _static, "ended": _ended, "done": _stray}[found["kind"]]
    problem = describe(found, call)
    if not problem:
        return ""
    line = 0 if "/shim/" in found.get("file", "") else found.get("line", 0)
    if "pc" in found:
        offset = found["pc"] - found["base"] - (found["kind"] == "address")        # a return address is one further
        line = symbols.lines(path, source, [offset]).get(offset, 0)
    return f"{_who(found, call, source, line)}: {problem}."


def _who(found, call, source, line):
    parts = [f"kernel {call.kernel}", source.place(line), thread(found)]
    return ", ".join(part for part in parts if part)


def thread(found):
    """Which thread of which block it was."""
    return "thread {} of block {}".format(tuple(found["thread"]), tuple(found["block"])) if "thread" in found else ""


def memory(found, call):
    """Which argument an address belongs to, and how far outside of it it is."""
    if "argument" not in found:
        return ""
    index, offset, nbytes = found["argument"], found["offset"], found["nbytes"]
    if index < 0:
        return (f"byte {offset} of dynamic shared memory, of which the launch gives {nbytes} bytes" if nbytes else
                f"byte {offset} of dynamic shared memory, of which the launch gives none")
    name, array = call.parameters[index].name, call.arrays[index]
    inside = 0 <= offset < nbytes
    return f"{name}[{offset // array.itemsize}]" + ("" if inside else f", but {name} has {array.size} elements")


def _broken(found, call):
    return found["text"]


def _signal(found, call):
    number = found["signal"]
    if number == signal.SIGFPE:
        return "divides an integer by zero: test the divisor first"
    if found.get("stack"):
        return "stack overflow: too deep a recursion, or too large a local array"
    if number in (signal.SIGSEGV, signal.SIGBUS):
        where = memory(found, call)
        return f"reaches {where}" if where else f"reaches memory that belongs to no argument: {CHECK}"
    if number == signal.SIGILL:                              # a trap: clang compiles one where it knows the bounds
        return "reaches outside of an array whose length is known: keep the index below it"
    return f"ended by {signal.Signals(number).name}: {CHECK}"


def _address(found, call):
    verb = "writes" if found["write"] else "reads"
    where = memory(found, call)
    if where and found["argument"] < 0:
        return f"{verb} {where}: launch with a larger shared_mem, or use less of it"
    if where:
        return f"{verb} {where}: let only threads whose index is in range do it, as in `if (i < n)`"
    if found["name"]:
        name = found["name"].split(" ")[0]
        return f"{verb} {found['bytes']} bytes outside of the array {name}: keep the index below its length"
    what = "outside of a local array" if found["storage"] == "stack" else "of memory that belongs to no argument"
    return f"{verb} {found['bytes']} bytes {what}: check the index or the pointer"


def _undefined(found, call):
    text = re.sub(r"(address )0x[0-9a-f]+ ", r"\1", found["text"][:1].lower() + found["text"][1:])
    text = re.sub(r"'(?:const |struct )+(\w+)'", r"'\1'", text)
    where = memory(found, call)
    advice = next((advice for word, advice in ADVICE.items() if word in text), "the result would be arbitrary")
    return f"{text}{f', at {where}' if where else ''}: {advice}"


def _endless(found, call):
    return (f"still runs after {found['seconds']:g} s: look for a loop that never ends or threads that wait for each "
            "other without a barrier, or launch fewer threads, for a CPU runs them one at a time")


def _memory(found, call):
    return "there is not enough memory for copies of its arrays: use smaller ones"


def _static(found, call):
    return (f"declares {found['bytes']} bytes of static shared memory, but a GPU has room for 49152: use less, or take "
            "it as extern __shared__ with shared_mem=")


def _ended(found, call):
    if found["status"] == -signal.SIGKILL:
        return "its program was killed, as a system out of memory does: use smaller arrays"
    if found["status"] < 0:
        return f"its program ended by {signal.Signals(-found['status']).name}: {CHECK}"
    return f"its program did not run: {found['text']}"


def _stray(found, call):
    return f"wrote {memory(found, call)}: {CHECK}" if found.get("stray") else ""


def race(first, second, found, call, source):
    """The sentence for one finding of a trace; first and second are its accesses as (verb, line)."""
    head = f"kernel {call.kernel}, {source.place(second[1]) or 'a line that is not known'}"
    if found["kind"] == "unwritten":
        return f"{head}: {second[0]} shared memory that no thread of the block has written: fill it first."
    if found["kind"] == "unwaited":
        return (f"{head}: {second[0]} shared memory that an asynchronous copy still fills: call __pipeline_wait_prior, "
                "then __syncthreads, before it.")
    what = memory(found, call) or "shared memory"
    who, barrier = {"blocks": ("block", ""), "threads": ("warp", "__syncthreads()"),
                    "lanes": ("lane of the warp", "__syncwarp()")}[found["between"]]
    if found["between"] == "lanes" and math.prod(call.block) > WARP:     # the first pair found need not be the widest
        barrier = "__syncthreads() (or __syncwarp(), if only the lanes of one warp share it)"
    same = first[1] == second[1]
    other = "the same line" if same else f"line {first[1]}" if first[1] else "another line"
    if barrier and not same:
        cure = f"put {barrier} between the two"
    else:
        cure = "let each use elements of its own, or an atomic function" + (
            f", or put {barrier} between the rounds of a loop" if barrier else "")
    order = "in no order (the same value, as it happens)" if found["same"] else "in no order"
    return f"race in {head}: {second[0]} {what} while in another {who} {other} {first[0]} it, {order}: {cure}."


def raise_if(problem):
    """Errors: CudaError with that sentence, if it is one."""
    if problem:
        raise CudaError(problem)
