"""Exercises of lab 14: what limits this workload?"""

import numpy as np

from ..mysteries import bound_of
from ..work import Work
from . import Exercise, either_way

SEED = 7                                                   # of the six mysteries of 14.3
BOUNDS = ("memory", "compute", "latency", "host", "balanced")
STEPS = ("fewer bytes", "less arithmetic", "fewer calls", "less Python", "count again", "measure again")


def _four(flops, nbytes, launches, instructions, peak, bandwidth, overhead, instruction):
    return nbytes / bandwidth, flops / peak, launches * overhead, instructions * instruction


def _limit(*, ask_host=True, balance=0.8, swapped=False, ask_latency=True, **counts):
    """The label of 14.1; the options leave out what a learner may forget."""
    memory, compute, latency, host = _four(**counts)
    if swapped:
        memory, compute = compute, memory
    if ask_host and host > max(memory, compute) + latency:
        return "host"
    times = {"memory": memory, "compute": compute, "latency": latency if ask_latency else 0}
    longest, second = sorted(times, key=times.get, reverse=True)[:2]
    return "balanced" if times[second] > balance * times[longest] else longest


def _reference(flops, nbytes, launches, instructions, peak, bandwidth, overhead, instruction, **options):
    return _limit(flops=flops, nbytes=nbytes, launches=launches, instructions=instructions, peak=peak,
                  bandwidth=bandwidth, overhead=overhead, instruction=instruction, **options)


def _with(**options):
    """The same with something forgotten, as a function of the eight numbers."""
    def wrong(flops, nbytes, launches, instructions, peak, bandwidth, overhead, instruction):
        return _reference(flops, nbytes, launches, instructions, peak, bandwidth, overhead, instruction, **options)

    return wrong


def _written_out(f, b, launches, n, peak, bandwidth, overhead, one):
    """The same answer as a chain of questions."""
    memory, compute, latency = b / bandwidth, f / peak, launches * overhead
    middle, high = sorted([memory, compute, latency])[1:]
    if n * one / (n * one + max(memory, compute) + latency) > 0.5:
        return "Host-bound"
    if middle > 0.8 * high:
        return "Balanced"
    return "Memory-bound" if high == memory else "Compute-bound" if high == compute else "Latency-bound"


def _workload(rng):
    """Counts and rates of a workload of any kind, well away from the borders between two."""
    kind, scale = BOUNDS[int(rng.integers(5))], 10 ** rng.uniform(-4, -2)
    memory, compute, latency = rng.uniform(0.05, 0.5, 3)
    if kind == "balanced":
        memory, compute = rng.permutation([1.0, rng.uniform(0.87, 0.98)])
    memory, compute, latency = (1.0 if kind == name else time for name, time in
                                (("memory", memory), ("compute", compute), ("latency", latency)))
    host = (max(memory, compute) + latency) * (rng.uniform(1.2, 5) if kind == "host" else rng.uniform(0.05, 0.7))
    spans = (11, 14), (10, 12), (-6.7, -5.3), (-8.3, -7.7)
    peak, bandwidth, overhead, one = (10 ** rng.uniform(*span) for span in spans)
    return {"flops": scale * compute * peak, "nbytes": scale * memory * bandwidth,
            "launches": max(1, round(scale * latency / overhead)), "instructions": max(1, round(scale * host / one)),
            "peak": peak, "bandwidth": bandwidth, "overhead": overhead, "instruction": one}


def _six(**changed):
    """The bounds of the six mysteries; changed: another label for every one of that bound."""
    return tuple(changed.get(bound, bound) for bound in (bound_of(n, SEED) for n in range(1, 7)))


def _next(**changed):
    """The next steps of 14.4, in order; changed: another one for a case."""
    right = dict(zip("abcdefg", ("fewer bytes", "fewer calls", "less Python", "count again", "less arithmetic",
                                 "count again", "measure again")))
    return tuple((right | changed).values())


def _program(m, k):
    return Work(3 * m * k, 4 * (6 * m * k + m), written=4 * (2 * m * k + m), rewritten=4 * m * k, launches=3)


def _task(m, k):
    return Work(3 * m * k, 4 * (2 * m * k + m), written=4 * m, name="distances")


def _rows(rng, m=None, k=None):
    """Two matrices and a result that nobody has written yet."""
    m, k = m or int(rng.integers(1, 60)), k or int(rng.integers(2, 300))
    return {"A": rng.standard_normal((m, k)), "B": rng.standard_normal((m, k)), "out": np.full(m, np.nan)}


M, K = 2**14, 2**10                                        # the shape of 14.6 and 14.7

EXERCISES = {
    "14.1": Exercise(
        kind="derive", points=3, labels=BOUNDS, ask="limit(counts and rates): the bound, by three questions",
        inputs=_workload,
        reference=_reference,
        alternatives=(_written_out,),
        slips={
            "Python forgotten": (_with(ask_host=False),
                "Here Python's instructions take over half of the whole time. Ask that, too."),
            "launches forgotten": (_with(ask_latency=False),
                "Here the launches take longest: launches x overhead is one of the times to compare."),
            "the two swapped": (_with(swapped=True),
                "Bytes go with the bandwidth and FLOPs with the peak; the answer names the longer of the two times."),
            "never balanced": (_with(balance=1.0),
                "Here the two longest times lie within a fifth of each other: that is \"balanced\"."),
        },
        hints=("Turn every count into a time first; there are four of them.",
               ("Of memory, compute and latency the longest is the bound, unless the second is over 0.8 of it. Before "
                "that, ask for the host."),
               ("host = instructions * instruction; if it is more than max(memory, compute) + latency: \"host\". Else "
                "sort the other three: the second over 0.8 times the first is \"balanced\", otherwise the name of the "
                "first.")),
        right="Eight numbers, four times, one answer. No line of the program was read for it.",
    ),
    "14.2": Exercise(
        kind="derive", points=2, names=("gain", "most"),
        ask="gains(t, rest, f): what a fix of one part gains, and the most that any fix of it could",
        inputs={"t": (1e-4, 1e-2), "rest": (1e-4, 1e-2), "f": (1.5, 50.0)},
        reference=lambda t, rest, f: ((t + rest) / (t / f + rest), (t + rest) / rest),
        alternatives=(lambda t, rest, f: (1 / (rest / (t + rest) + t / (t + rest) / f), 1 + t / rest),),
        slips={
            "the part alone": (lambda t, rest, f: (f, (t + rest) / rest),
                "f is the gain of the part. The rest takes as long as before, so the whole gains less."),
            "rest forgotten": (lambda t, rest, f: (t / (t / f + rest), t / rest),
                "The old time is that of both parts, t + rest."),
            "new over old": (lambda t, rest, f: ((t / f + rest) / (t + rest), rest / (t + rest)),
                "That is new time over old; a gain is old time over new."),
            "t taken out of the rest": (lambda t, rest, f: (rest / (rest - t + t / f), rest / (rest - t)),
                "rest is the time of the other parts, not of the whole: the whole is t + rest."),
        },
        hints=("Lesson 14, 'How much does it help?'.",
               "Here the whole time is t + rest. What is left of it after the fix, and after a perfect one?",
               "gain = (t + rest) / (t / f + rest); most = (t + rest) / rest."),
        right="A part with a tenth of the time gains at most 1.11. Profile before you improve.",
    ),
    "14.3": Exercise(
        kind="diagnose", points=3, labels=BOUNDS, ask="the bounds of six mysteries",
        reference=_six,
        alternatives=(lambda: [f"{bound}-bound" for bound in _six()],),
        slips={
            "the loop by its roof": (lambda: _six(host="memory"),
                "One of them is far slower than all three times allow. Which time is not under the roof?"),
            "the loop is latency": (lambda: _six(host="latency"),
                "One launch is counted for one of them, and it takes a thousand times as long. What else costs time?"),
            "small is memory": (lambda: _six(latency="memory"),
                "With few bytes in a cache and many launches, compare launches x overhead with the time of the bytes."),
            "a model is arithmetic": (lambda: _six(latency="compute"),
                "Count the launches of the small ones, and what one costs: their FLOPs take nanoseconds."),
            "streams are arithmetic": (lambda: _six(memory="compute"),
                "An AI of 1 or less lies left of the ridge of this machine: bytes, not FLOPs."),
            "much arithmetic is memory": (lambda: _six(compute="memory"),
                "One of them has dozens of FLOPs for each byte: right of the ridge."),
        },
        hints=("Run rk.diagnose(m.call, m.work) on each, and read the evidence.",
               "If one is inconclusive, decide by hand: its Work, here.times(work, cold=False), and one rk.measure.",
               ("Two have an AI of 1 or less and hundreds of megabytes, one dozens of FLOP/B, two several launches and "
                "hardly any bytes, and one is far slower than its three times.")),
        right="Six verdicts from counts and clocks. What the programs do, nobody asked.",
    ),
    "14.4": Exercise(
        kind="diagnose", points=2, labels=STEPS, ask="seven diagnoses: what to do next",
        reference=_next,
        alternatives=(lambda: list(_next()), lambda: [step.capitalize() for step in _next()]),
        slips={
            "the count is believed": (lambda: _next(d="fewer bytes"),
                "d takes ten times what its times explain. Fewer bytes save a tenth: find what the count leaves out."),
            "faster than its roof is fine": (lambda: _next(f="fewer bytes"),
                "f is four times faster than its bytes allow: nothing is, so the count or the level is wrong."),
            "a number is a number": (lambda: _next(g="fewer bytes"),
                "g was measured while others used the machine: its time proves nothing."),
            "the machine is blamed": (lambda: _next(d="measure again", f="measure again"),
                "In d and f the machine was quiet: a second measurement would show the same. The counts are off."),
            "Python is many calls": (lambda: _next(c="fewer calls"),
                "In c one launch costs 0.2 us of 1 ms; Python's own instructions take 0.9 ms."),
            "calls are Python": (lambda: _next(b="less Python"),
                "In b Python's instructions take 12 of 66 us, the launches 50: fewer of them help."),
        },
        hints=("Compare first the predicted time, max(memory, compute) + latency, with the measured one.",
               ("Within 1.3 times faster and three times slower: the longest of the four times decides. Outside: the "
                "count, unless Python explains it. A busy machine comes before everything."),
               "d is ten times slower than explained, f four times faster; in g the machine was not yours."),
        right="Half of diagnosing is to know when not to believe it.",
    ),
    "14.5": Exercise(
        kind="derive", points=2, ask="work(m, k): FLOPs and bytes of `distances` as it is written",
        inputs={"m": (8, 4096), "k": (8, 4096)},
        reference=_program,
        alternatives=(lambda m, k: (3 * m * k, 24 * m * k + 4 * m), lambda m, k: _task(m, k) + Work(0, 16 * m * k)),
        slips={
            "the task": (_task, "That is what the task needs. The program also writes and reads T, between its steps."),
            "T written once": (lambda m, k: (3 * m * k, 4 * (5 * m * k + m)),
                "T is written twice: by the subtraction and, in place, by the multiplication."),
            "T read once": (lambda m, k: (3 * m * k, 4 * (5 * m * k)),
                "T is read twice, by the multiplication and by the sum; and the result has m numbers."),
            "squares read twice": (lambda m, k: (3 * m * k, 4 * (7 * m * k + m)),
                "T * T reads one array, not two: both factors are the same numbers."),
            "elements": (lambda m, k: (3 * m * k, 6 * m * k + m), "That counts numbers; each of them has 4 bytes."),
            "the sum is free": (lambda m, k: (2 * m * k, 4 * (6 * m * k + m)),
                "The bytes are right. The sum adds k numbers in each row: another m k FLOPs."),
        },
        hints=("rk.referee.passes(...) on a small shape writes down every step.",
               "Three steps. For each: which arrays does it read, which does it write, how many numbers?",
               "Subtract: reads 2mk, writes mk. Multiply: reads mk, writes mk. Sum: reads mk, writes m. 4 bytes each."),
        right="Six passes where the task has two: the bytes say before any clock what the fix can gain.",
    ),
    "14.6": Exercise(
        kind="measure", points=2, cold=True, ask="the program, cold, with its work",
        reference=lambda m, k: _program(m, k),
        slips={
            "the task's work": (lambda m, k: _task(m, k),
                "That is the work of the task, not of this program: use what you counted in 14.5."),
            "in elements": (lambda m, k: Work(3 * m * k, 6 * m * k + m), "Bytes are asked: four for each number."),
        },
        hints=("rk.measure(call, work=..., cold=True).",
               "The call is a lambda without arguments, the work is what you counted in 14.5, at this m and k.",
               "rk.measure(lambda: distances(A, B, T, out), work=work(m, k), cold=True); as a Work, not as a pair."),
        right="A time with its work has a place under the roof.",
    ),
    "14.7": Exercise(
        kind="predict", points=1, factor=2.0, quantity="seconds", ask="seconds of the task in one pass, here",
        reference=lambda roof: either_way(roof, _task(M, K)),
        alternatives=(lambda roof: 4 * (2 * M * K + M) / roof.bandwidth_for(_task(M, K)),
                      lambda roof: 4 * (2 * M * K + M) / roof.bandwidth),
        slips={
            "the program's bytes": (lambda roof: roof.seconds(_program(M, K)),
                "One pass reads A and B once and writes one number a row: a third of the bytes of the program."),
            "the arithmetic": (lambda roof: 3 * M * K / roof.rate("vector"),
                "That is the time of the FLOPs. At 3/8 FLOP/B the bytes take longer."),
            "milliseconds": (lambda roof: 1e3 * roof.seconds(_task(M, K)),
                "That is in ms; the kit's unit is the second."),
        },
        hints=("What has to be read and written at least, and at which bandwidth?",
               "task = rk.Work(flops=3 * m * k, nbytes=4 * (2 * m * k + m), written=4 * m).",
               "here.seconds(task)."),
        right="That is a third of the program's bytes, so at most about three times as fast, if all cores were busy.",
        then="Now build it, and see how near you come.",
    ),
    "14.8": Exercise(
        kind="build", points=3, out="out", least=0.1, ask="distances(A, B, out) in one pass",
        inputs=_rows,
        reference=lambda A, B: ((A - B) ** 2).sum(1),
        alternatives=(lambda A, B, out: out.__setitem__(..., ((A - B) ** 2).sum(1)),),
        slips={
            "columns": (lambda A, B: np.resize(((A - B) ** 2).sum(0), len(A)),
                "Each row of A and B gives one number: the sum runs along the row."),
            "a square root": (lambda A, B: np.sqrt(((A - B) ** 2).sum(1)),
                "The squared distance is asked, without a root."),
            "no square": (lambda A, B: np.abs(A - B).sum(1),
                "The differences have to be squared before they are added."),
            "products": (lambda A, B: (A * B).sum(1), "That is the dot product of the rows, not their distance."),
        },
        work=lambda A, B, out: _task(*A.shape), big=lambda rng: _rows(rng, 2**13, 2**10),
        hints=("Which of the three steps needs more than one number of A and one of B at a time?",
               ("CPU: a prange over the rows, inside it a loop along the row that adds up in one variable. GPU: "
                "xp.ReductionKernel with axis=1, or a kernel with a block for each row."),
               ("@njit(parallel=True, fastmath=True), total = A[i, 0] * 0 before the loop (so that it has the type of "
                "A), d = A[i, j] - B[i, j], total += d * d. GPU: xp.ReductionKernel('T a, T b', 'T d', "
                "'(a - b) * (a - b)', 'a + b', 'd = a', '0', 'distances')(A, B, out, axis=1).")),
        right="The bytes of the task and no others: only a smaller format, or fusion with a neighbour, can save more.",
    ),
}
