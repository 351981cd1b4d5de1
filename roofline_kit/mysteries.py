"""What limits each of these six workloads? Their kind is hidden; their counts, and two ways to change each, are not."""

import functools
import random
import time
from array import array
from dataclasses import dataclass, field, replace
from numbers import Integral

from .device import device as this_device
from .ops import elementwise, mlp
from .work import Work

SEED = 14
WINDOW, ROUNDS = 1e-3, 9         # s that a sample of `gain` lasts at least; samples of each of its two calls at least
NEAR, BOX = 1.05, 1.5            # the two shortest must be that near to each other, or more are taken, for so long [s]
KINDS = ("memory", "compute", "latency", "host", "latency", "memory")          # of the makers below, in their order
RIGHT = {"memory": "fewer bytes", "compute": "less arithmetic", "latency": "fewer calls", "host": "less Python"}


@dataclass(frozen=True, repr=False)
class Mystery:
    """A workload whose bound you are to find.

    call:      runs it once
    work:      what it has to do
    fixes:     {name: the same task changed in that direction}; one is the right direction, the other is not
    reveal():  what it was, and which fix was right
    """

    number: int
    call: object
    work: Work
    fixes: dict
    _kind: str = field(repr=False)
    _what: str = field(repr=False)

    def gain(self, fix):
        """How many times as fast the workload is with that fix, measured: the two take turns, the shortest times count.

        Errors:  ValueError for a fix that this workload does not have
        """
        if fix not in list(self.fixes):                      # a list: what cannot be hashed is refused, too
            raise ValueError(f"mystery {self.number} has no fix {fix!r}: choose {' or '.join(map(repr, self.fixes))}.")
        pair = self.call, self.fixes[fix]
        counts, rounds, near, start = [_repeats(call) for call in pair], [], False, time.perf_counter()
        while len(rounds) < 2 or (not (near and len(rounds) >= ROUNDS) and time.perf_counter() - start < BOX):
            rounds.append([_seconds(call, count) for call, count in zip(pair, counts)])
            lowest = [sorted(column)[:2] for column in zip(*rounds)]
            near = len(rounds) > 1 and all(second < NEAR * first for first, second in lowest)
        return lowest[0][0] / lowest[1][0]

    def reveal(self):
        """The answer, as a sentence: look when you have decided."""
        return f"mystery {self.number} is {self._kind}-bound: {self._what}. The right fix is {RIGHT[self._kind]!r}."

    def __repr__(self):
        launches = f"{self.work.launches} launch{'es' * (self.work.launches != 1)}"
        return f"{self.work}, {launches}; fixes: {', '.join(map(repr, self.fixes))}"


def mystery(number, seed=SEED, device=None):
    """The n-th of six workloads, 1 to 6, as a Mystery.

    seed:    a whole number: decides the order and the sizes; the same two are always the same workload
    Errors:  ValueError for a number that there is not, or another seed
    """
    kind = bound_of(number, seed)                            # refuses what there is not
    number, seed = int(number), int(seed)                    # NumPy's are no seeds
    make = MAKERS[_order(seed)[number - 1]]
    call, work, fixes, what = make(this_device(device), random.Random(1000 * seed + number))
    fixes = dict(sorted(fixes.items()))                      # the right one has no place of its own
    return Mystery(number, call, work.named(f"mystery {number}"), fixes, kind, what)


def bound_of(number, seed=SEED):
    """What limits that mystery, by the way it is made."""
    if not _whole(number) or number not in range(1, len(KINDS) + 1):
        raise ValueError(f"there is no mystery {number!r}: choose 1 to {len(KINDS)}.")
    if not _whole(seed):
        raise ValueError(f"seed is {seed!r}, but it must be a whole number, such as {SEED}.")
    return KINDS[_order(int(seed))[number - 1]]


def _whole(value):
    return isinstance(value, Integral) and not isinstance(value, bool)


def _order(seed):
    return random.Random(seed).sample(range(len(KINDS)), len(KINDS))


def _repeats(call):
    return max(1, round(WINDOW / max(min(_seconds(call, 1) for _ in range(5)), 1e-8)))


def _seconds(call, count):
    """Of one call, after an untimed one that brings its data back into the caches [s]."""
    call()
    this_device().wait()
    start = time.perf_counter()
    for _ in range(count):
        call()
    this_device().wait()
    return (time.perf_counter() - start) / count


# ---- A dial for the arithmetic that each number gets -------------------------------------------------------------

def dial(device):
    """A function (x, turns) that gives each number in place `turns` multiply-adds; turns is even."""
    return _dial(device.kind)


@functools.cache
def _dial(kind):
    if kind == "gpu":
        kernel = this_device(kind).xp.ElementwiseKernel(
            "T y, int32 turns, T s, T c", "T x", "x = y; for (int i = 0; i < turns; ++i) x = s * x + c;", "dial")
        return lambda x, turns: kernel(x, turns, x.dtype.type(-1), x.dtype.type(0.1), x)
    from numba import njit, prange

    @njit(parallel=True, fastmath={"contract"})              # contract: a multiply-add is one instruction
    def turn(x, turns, s, c):
        for block in prange((x.size + 255) // 256):
            y = x[256 * block:256 * (block + 1)]             # a piece that stays in the first cache
            for _ in range(turns // 4):
                for j in range(y.size):
                    y[j] = s * (s * (s * (s * y[j] + c) + c) + c) + c
            for _ in range(turns % 4 // 2):
                for j in range(y.size):
                    y[j] = s * (s * y[j] + c) + c

    return lambda x, turns: turn(x, turns, x.dtype.type(-1), x.dtype.type(0.1))


def dialled(device, n, turns, passes=1, dtype="float32"):
    """(array, Work) of `passes` times the dial over n numbers, in place."""
    one = elementwise(n, inputs=1, flops=2 * turns, dtype=dtype, in_place=True)
    return device.random(n, dtype=dtype), sum([one] * passes)


def past_the_caches(device):
    """How many float32 numbers no cache holds."""
    least = 2**24 if device.kind == "cpu" else 2**26
    wanted = max(least, device.caches.get("L3" if device.kind == "cpu" else "L2", 0))
    return min(wanted, device.available() // 64) // 1024 * 1024


# ---- Six makers: (device, random numbers) -> (call, Work, fixes, what it is) ---------------------------------------

def _stream(device, rng):
    go, (x, work) = dial(device), dialled(device, past_the_caches(device) + 1024 * rng.randrange(64), 4, passes=2)
    fixes = {"fewer bytes": lambda: go(x, 8), "less arithmetic": lambda: (go(x, 2), go(x, 2))}
    return lambda: (go(x, 4), go(x, 4)), work, fixes, "two passes over a long array, 4 multiply-adds for each number"


def _arithmetic(device, rng):
    turns, n = 8 * rng.randint(16, 24), 2**20 if device.kind == "cpu" else 2**24
    go, (x, work) = dial(device), dialled(device, n, turns, passes=2)
    fixes = {"fewer bytes": lambda: go(x, 2 * turns), "less arithmetic": lambda: (go(x, turns // 2), go(x, turns // 2))}
    what = f"two passes over an array, {turns} multiply-adds for each number"
    return lambda: (go(x, turns), go(x, turns)), work, fixes, what


def _many_calls(device, rng):
    xp, calls, n = device.xp, rng.randint(100, 300), rng.randint(32, 96)
    rows, more = device.random(calls, n, dtype="float32"), device.random(n, dtype="float32")
    out, half = xp.empty_like(rows), [row[:n // 2] for row in rows]
    pairs, halves, less = list(zip(rows, out)), list(zip(half, [row[:n // 2] for row in out])), more[:n // 2]

    def each(pairs=pairs, more=more):
        for row, result in pairs:
            xp.add(row, more, out=result)

    one = elementwise(n)
    work = replace(one, flops=calls * one.flops, nbytes=calls * one.nbytes, written=calls * one.written, launches=calls)
    fixes = {"fewer calls": lambda: xp.add(rows, more, out=out), "fewer bytes": lambda: each(halves, less)}
    return each, work, fixes, f"{calls} additions of {n} numbers, each a call of its own"


def _one_by_one(device, rng):
    import numpy as np

    n = rng.randint(10_000, 20_000)
    numbers = this_device("cpu").random(n, dtype="float64")
    doubles, singles, whole = array("d", numbers), array("f", numbers), np.asarray(numbers)

    def norm(values):
        total = 0.0
        for value in values:
            if value > 0.0:
                total += value * value
        return total

    def by_arrays():
        kept = np.maximum(whole, 0.0)
        return float(np.square(kept, out=kept).sum())

    fixes = {"less Python": by_arrays, "fewer bytes": lambda: norm(singles)}
    work = Work(flops=n, nbytes=8 * n, dtype="float64")
    return lambda: norm(doubles), work, fixes, f"a loop of Python over {n:,} numbers"


def _tiny_model(device, rng):
    xp, d_in, hidden, d_out = device.xp, rng.randint(16, 32), 2 * rng.randint(24, 32), rng.randint(4, 8)
    w1, b1, w2, b2, x = (device.random(*shape, dtype="float32") for shape in
                         ((hidden, d_in), (hidden,), (d_out, hidden), (d_out,), (d_in,)))
    out, kernel = xp.empty_like(b2), device.kernel("mlp")

    def step_by_step(w1=w1, b1=b1, w2=w2):
        h = xp.matmul(w1, x)
        xp.add(h, b1, out=h)
        xp.maximum(h, 0, out=h)
        y = xp.matmul(w2, h)
        return xp.add(y, b2, out=y)

    half = w1[:hidden // 2], b1[:hidden // 2], xp.ascontiguousarray(w2[:, :hidden // 2])
    fixes = {"fewer calls": lambda: kernel(x, w1, b1, w2, b2, out), "less arithmetic": lambda: step_by_step(*half)}
    work = mlp(d_in, hidden, d_out, fused=False)
    return step_by_step, work, fixes, f"a model of two layers, {d_in} to {hidden} to {d_out}, on one input"


def _doubles(device, rng):
    n = past_the_caches(device) + 1024 * rng.randrange(64)
    go, (x, work) = dial(device), dialled(device, n, 4, dtype="float64")
    singles = x.astype("float32")
    fixes = {"fewer bytes": lambda: go(singles, 4), "less arithmetic": lambda: go(x, 2)}
    return lambda: go(x, 4), work, fixes, "one pass over a long array of float64, 4 multiply-adds for each number"


MAKERS = _stream, _arithmetic, _many_calls, _one_by_one, _tiny_model, _doubles
