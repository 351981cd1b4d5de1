"""Does rk.diagnose find the bound that was planted? Workloads of known kind, each diagnosed several times.

    python benchmarks/diagnoses.py [--repeats 5] [--only memory] [--seed 1]

Five workloads a kind are made so that their kind is known: a dial sets how much arithmetic a byte gets, a chain of
calls on a few numbers has nothing to do, a loop of Python has no library to wait for. The balanced ones get the dial at
which bytes and arithmetic take equally long in that moment; where memory changes its speed until the diagnosis is over,
they are planted anew. At last other processes keep all cores busy: then nothing may come but "inconclusive" or the
right bound. Exit code 1 for more than one miss in a hundred, or any wrong bound under load.
"""

import argparse
import itertools
import multiprocessing
import os
import random
import sys
import time
from collections import Counter

os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "16")       # as course.py sets it, before NumPy is here

import numpy as np

import roofline_kit as rk
from roofline_kit import mysteries

DEV = rk.device("cpu")
GO = mysteries.dial(DEV)
STEADY = 1.12             # change of the ridge point, from before a diagnosis to after it, at which it still stood


def memory(rng):
    """Five programs far left of the ridge point, their data past the caches."""
    n = mysteries.past_the_caches(DEV) + 1024 * rng.randrange(64)
    x, y, z = (DEV.random(n, dtype="float32") for _ in range(3))
    triad, matvec, dot = map(DEV.kernel, ("triad", "matvec", "dot"))
    yield "dial, 2 multiply-adds", lambda: GO(x, 2), rk.elementwise(n, 1, 4, in_place=True)
    yield "triad", lambda: triad(z, x, y, 0.5), rk.elementwise(n, flops=2)
    yield "dot product", lambda: dot(x, y), rk.dot(n)
    w, v, out = x[:4096 * (n // 4096)].reshape(-1, 4096), y[:4096], z[:n // 4096]
    yield "matrix-vector", lambda: matvec(w, v, out), rk.matvec(*w.shape)
    yield "NumPy, in place", lambda: np.multiply(x, 1.0001, out=x), rk.elementwise(n, 1, in_place=True)


def compute(rng):
    """Five programs far right of it."""
    x = DEV.random(2**20, dtype="float32")
    for turns in (64, 8 * rng.randint(12, 32)):
        yield f"dial, {turns} multiply-adds", lambda turns=turns: GO(x, turns), rk.elementwise(x.size, 1, 2 * turns,
                                                                                           in_place=True)
    big = DEV.random(mysteries.past_the_caches(DEV), dtype="float32")
    yield "dial, 96, from memory", lambda: GO(big, 96), rk.elementwise(big.size, 1, 192, in_place=True)
    for side in (512, 128 * rng.randint(5, 9)):
        a, b, c = (DEV.random(side, side, dtype="float32") for _ in range(3))
        yield f"product of {side} rows", lambda a=a, b=b, c=c: np.matmul(a, b, out=c), rk.gemm(side, side, side)


def latency(rng):
    """Five chains of calls that have next to nothing to do."""
    calls, n = rng.randint(100, 300), rng.randint(8, 96)
    x, y, out = (DEV.random(n, dtype="float32") for _ in range(3))
    a, b, c = (DEV.random(8, 8, dtype="float32") for _ in range(3))
    one, product = rk.elementwise(n), rk.gemm(8, 8, 8)

    def chain(*functions):
        for function in functions * (calls // len(functions)):
            function(x, y, out)

    for name, functions in (("additions", (np.add,)), ("three ufuncs", (np.add, np.multiply, np.subtract)),
                            ("divisions", (np.divide,))):
        work = sum([one] * (calls // len(functions) * len(functions)))
        yield name, lambda functions=functions: chain(*functions), work
    yield "small products", lambda: [np.matmul(a, b, c) for _ in range(calls)], sum([product] * calls)
    found = mysteries.MAKERS[4](DEV, rng)
    yield "a tiny model", found[0], found[1]


def host(rng):
    """Five programs whose time is Python's."""
    n = rng.randint(5_000, 20_000)
    numbers, array = [rng.random() for _ in range(n)], DEV.random(n // 10, dtype="float64")
    table = {i: value for i, value in enumerate(numbers)}
    work = rk.Work(flops=n, nbytes=8 * n, dtype="float64")

    def total():
        found = 0.0
        for value in numbers:
            found += value
        return found

    def steps():
        return sum(step(value) for value in numbers)

    def step(value):
        return value * 0.5 + 1.0

    def looked_up():
        return [table[i] + 1.0 for i in range(n)]

    def elements():
        found = 0.0
        for i in range(array.size):
            found += array[i] * array[i]
        return found

    def words():
        return " ".join([f"{value:.3f}" for value in numbers if value > 0.5])

    for call in (total, steps, looked_up, elements, words):
        yield call.__name__, call, work




def balanced(rng):
    """Two programs on the ridge point, planted anew before each diagnosis."""
    n = mysteries.past_the_caches(DEV)
    for dtype in ("float32", "float64"):
        x = DEV.random(n, dtype=dtype)
        yield f"dial at the ridge, {dtype}", x, None


KINDS = {kind.__name__: kind for kind in (memory, compute, latency, host, balanced)}


def planted(x):
    """A diagnosis at a ridge point that stood still meanwhile; None where it never did."""
    for _ in range(6):
        before = ridge(x)
        turns = max(2, 2 * round(before / 2))
        found = dialled(x, turns)
        after = ridge(x)
        if all(max(pair) < STEADY * min(pair) for pair in ((before, after), (before, turns))):
            return found
    return None


def dialled(x, turns, limit=2.0):
    return rk.diagnose(lambda: GO(x, turns), rk.elementwise(x.size, 1, 2 * turns, x.dtype.name, in_place=True),
                       limit=limit)


def ridge(x):
    """Multiply-adds for each number at which bytes and arithmetic take equally long in this moment."""
    times = dialled(x, 2, limit=0.4).times
    return 2 * times.memory / times.compute


def busy(stop):
    while not stop.is_set():
        sum(range(10_000))


def rows(kind, rng, repeats):
    """(name, Counter of the verdicts, a diagnosis of the last kind) for each workload of a kind."""
    for name, call, work in KINDS[kind](rng):
        found = [planted(call) if kind == "balanced" else rk.diagnose(call, work) for _ in range(repeats)]
        yield name, Counter(one.bound if one else "not planted" for one in found), found[-1]


def under_load(rng, repeats):
    """Verdicts while other processes keep every core busy."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    others = [context.Process(target=busy, args=(stop,), daemon=True) for _ in range(DEV.cores)]
    for other in others:
        other.start()
    time.sleep(2)
    try:
        for kind, number in itertools.product(("memory", "compute", "latency", "host"), (0, 1)):
            name, call, work = next(itertools.islice(KINDS[kind](rng), number, None))
            yield kind, name, Counter(rk.diagnose(call, work).bound for _ in range(repeats))
    finally:
        stop.set()
        for other in others:
            other.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=[*KINDS, "load"])
    parser.add_argument("--seed", type=int, default=1)
    told = parser.parse_args()
    print(rk.sustained(), file=sys.stderr)
    right = total = wrong = 0
    for kind in [told.only] if told.only in KINDS else KINDS if not told.only else ():
        for name, counts, last in rows(kind, random.Random(told.seed), told.repeats):
            right, total = right + counts[kind], total + told.repeats - counts["not planted"]
            print(f"{kind:9} {name:26} {counts[kind]} of {told.repeats}  {last and last.times}", flush=True)
            if counts[kind] < told.repeats:
                print(f"  {dict(counts)}\n{last}", flush=True)
    print(f"{total - right} misses in {total} diagnoses")
    for kind, name, counts in under_load(random.Random(told.seed), told.repeats) if told.only in (None, "load") else ():
        false = sum(count for bound, count in counts.items() if bound not in (kind, "inconclusive"))
        wrong += false
        print(f"under load: {kind:9} {name:26} {false} wrong  {dict(counts)}", flush=True)
    return int(total - right > total / 100 or wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
