"""Exercises of lab 13: what if the model is tiny?"""

import math

import numpy as np

from ..ops import mlp
from ..work import Work
from . import Exercise
from .sources import Cuda

THREADS = 128                                      # of a block in CUDA C++
CAUSES = ("garbage collection", "other processes", "cold caches", "sleep")
LAYERS, WIDTH = 16, 16                             # of the model whose time is predicted
KEPT = 0.9                                         # share of the state that the next tick finds again


def _two_times(rng):
    """Two sizes and their times, as a fixed cost and a bandwidth make them."""
    fixed, rate = 10 ** rng.uniform(-7, -4), 10 ** rng.uniform(9.5, 12.5)
    first, second = sorted(float(round(fixed * rate * 10 ** rng.uniform(-1.5, 1.5))) + 64 * i for i in range(2))
    return {"n1": first, "t1": fixed + first / rate, "n2": second, "t2": fixed + second / rate}


def _fit(n1, t1, n2, t2):
    rate = (n2 - n1) / (t2 - t1)
    return t1 - n1 / rate, rate, t1 * rate - n1


def _ways(layers, width, stream, node, bandwidth, calls=3, itemsize=2, one=None):
    nbytes = itemsize * layers * width**2
    return tuple(cost + nbytes / bandwidth
                 for cost in (calls * layers * stream, calls * layers * node, stream if one is None else one))


def _break_even(nbytes, fixed_cpu, bandwidth_cpu, launch, bandwidth_gpu):
    return (fixed_cpu + nbytes / bandwidth_cpu - nbytes / bandwidth_gpu) / launch


def _tail(share, calls):
    return 1 - share**calls, math.log(0.5) / math.log(share)


def _causes(**changed):
    found = {"rhythm": "garbage collection", "rare": "other processes", "quiet": "sleep", "second": "cold caches"}
    return tuple((found | changed).values())


def _calls(roof, count=3 * LAYERS):
    """Seconds of the model by its calls and, little beside them, its weights."""
    return count * roof.overhead + roof.times(Work(0, 4 * LAYERS * WIDTH**2), cold=False).memory


def _pair(first=1, second=2, fused=False):
    return tuple(mlp(160, 320, 160, batch=batch, fused=fused) for batch in (first, second))


def _sequence(rng, ticks=None, d=None, width=None):
    """Inputs of some ticks, a state, weights that keep it bounded, and an output that nothing has been written to."""
    ticks, d, width = (given or int(rng.integers(*least)) for given, least in (
        (ticks, (2, 9)), (d, (3, 40)), (width, (3, 150))))
    return {"x": rng.standard_normal((ticks, d)), "h": rng.uniform(-1, 1, width),
            "W": rng.standard_normal((width, d)) / d**0.5, "U": rng.standard_normal((width, width)) / width**0.5,
            "b": 0.3 * rng.standard_normal(width), "out": np.full((ticks, width), np.nan)}


def _replay(x, h, W, U, b, kept=KEPT, cut=(1.0, 1.0), own=True):
    """The state after each tick."""
    states = []
    for tick in x:
        new = np.clip(W @ tick + (U @ h if own else 0) + b, -cut[0], cut[1])
        h = kept * h + (1 - kept) * new
        states.append(h)
    return np.array(states)


def _op_by_op(x, h, W, U, b, out):
    """Right, and in so many calls too slow: the checks of numbers do not see that."""
    for tick, state in zip(x, out):
        state[...] = 0.9 * h + 0.1 * np.clip(W @ tick + U @ h + b, -1, 1)
        h = state


BY_THREADS = """
extern "C" __global__ void replay(const float *x, const float *h, const float *W, const float *U, const float *b,
                                  float *out, int ticks, int d, int width) {
    extern __shared__ float s[];
    for (int i = threadIdx.x; i < width; i += blockDim.x) s[i] = h[i];
    __syncthreads();
    for (int t = 0; t < ticks; t++, x += d, out += width) {
        float *old = s + (t % 2) * width, *now = s + (1 - t % 2) * width, *in = s + 2 * width;
        for (int j = threadIdx.x; j < d; j += blockDim.x) in[j] = x[j];
        __syncthreads();
        for (int i = threadIdx.x; i < width; i += blockDim.x) {
            float sum = b[i];
            for (int j = 0; j < d; j++) sum += W[i * d + j] * in[j];
            for (int j = 0; j < width; j++) sum += U[i * width + j] * old[j];
            out[i] = now[i] = 0.9f * old[i] + 0.1f * fmaxf(-1, fminf(1, sum));
        }
        __syncthreads();
    }
}
"""

EXERCISES = {
    "13.1": Exercise(
        kind="derive", points=2, names=("T0", "bandwidth", "bytes"),
        ask="fixed(n1, t1, n2, t2): T0, the bandwidth, and the bytes that take as long as T0",
        inputs=_two_times,
        reference=_fit,
        alternatives=(
            lambda n1, t1, n2, t2: (
                (t1 * n2 - t2 * n1) / (n2 - n1), (n2 - n1) / (t2 - t1), (t1 * n2 - t2 * n1) / (t2 - t1)),
            lambda a, s, b, t: [t - b * (t - s) / (b - a), (a - b) / (s - t),
                                (t - b * (t - s) / (b - a)) * (b - a) / (t - s)]),
        slips={
            "without T0": (lambda n1, t1, n2, t2: (t1 - n1 / (n2 / t2), n2 / t2, (t1 - n1 / (n2 / t2)) * n2 / t2),
                "n2 / t2 is no bandwidth: T0 is part of t2. Take the difference of two calls, where T0 drops out."),
            "the first time": (lambda n1, t1, n2, t2: (t1, _fit(n1, t1, n2, t2)[1], t1 * _fit(n1, t1, n2, t2)[1]),
                "The bandwidth is right. t1 is not T0 alone: the bytes of the first call have to be taken off."),
            "upside down": (lambda n1, t1, n2, t2: (
                    _fit(n1, t1, n2, t2)[0], 1 / _fit(n1, t1, n2, t2)[1], _fit(n1, t1, n2, t2)[2]),
                "That is seconds for a byte; the bandwidth is bytes for a second."),
            "bytes of the first": (lambda n1, t1, n2, t2: (*_fit(n1, t1, n2, t2)[:2], n1),
                "T0 and bandwidth are right. The bytes asked are those that the bandwidth moves in T0."),
            "divided": (lambda n1, t1, n2, t2: (
                    *_fit(n1, t1, n2, t2)[:2], _fit(n1, t1, n2, t2)[0] / _fit(n1, t1, n2, t2)[1]),
                "T0 and bandwidth are right. Seconds times bytes a second are bytes: multiply the two."),
        },
        hints=("Lesson 13, 'Fixed cost and rate': T = T0 + N / bandwidth, twice.",
               "t2 - t1 has no T0 in it: (n2 - n1) / (t2 - t1) is the bandwidth.",
               "T0 = t1 - n1 / bandwidth; the bytes are T0 * bandwidth."),
        right="Two sizes are enough to tell what a call costs from what its bytes cost. Below T0 x bandwidth, fewer "
              "bytes gain little.",
    ),
    "13.2": Exercise(
        kind="derive", points=2, names=("stream", "graph", "one kernel"),
        ask="ways(layers, width, stream, node, bandwidth): seconds in launches, in a graph, in one kernel",
        inputs={"layers": (2, 24), "width": (64, 2048), "stream": (2e-6, 8e-6), "node": (5e-7, 1.8e-6),
                "bandwidth": (5e11, 8e12)},
        reference=lambda layers, width, stream, node, bandwidth: _ways(layers, width, stream, node, bandwidth),
        alternatives=(
            lambda layers, width, s, n, w: (layers * (3 * s + 2 * width**2 / w), layers * (3 * n + 2 * width**2 / w),
                                            s + 2 * layers * width * width / w),),
        slips={
            "a launch a layer": (lambda layers, width, stream, node, bandwidth: _ways(
                    layers, width, stream, node, bandwidth, calls=1),
                "A layer is three kernels: product, bias, maximum."),
            "launches once": (lambda layers, width, stream, node, bandwidth: _ways(
                    layers, width, stream, node, bandwidth, calls=3 / layers),
                "That is one layer's launches: three for each layer."),
            "one kernel a layer": (lambda layers, width, stream, node, bandwidth: _ways(
                    layers, width, stream, node, bandwidth, one=layers * stream),
                "The first two are right. The last way is one kernel for the whole model, not one for each layer."),
            "the longer of the two": (lambda layers, width, stream, node, bandwidth: tuple(
                    max(cost, 2 * layers * width**2 / bandwidth)
                    for cost in (3 * layers * stream, 3 * layers * node, stream)),
                "Launches do not overlap with the bytes here: T is the sum of both, not the longer of them."),
            "numbers, not bytes": (lambda layers, width, stream, node, bandwidth: _ways(
                    layers, width, stream, node, bandwidth, itemsize=1),
                "Each weight has two bytes."),
            "a graph is one launch": (lambda layers, width, stream, node, bandwidth: (
                    _ways(layers, width, stream, node, bandwidth)[0],
                    *[_ways(layers, width, stream, node, bandwidth, one=node)[2]] * 2),
                "A graph is launched once, but its kernels stay, one after the other: node seconds for each."),
            "a graph is one launch on a stream": (lambda layers, width, stream, node, bandwidth: (
                    _ways(layers, width, stream, node, bandwidth)[0],
                    *[_ways(layers, width, stream, node, bandwidth)[2]] * 2),
                "A graph is launched once, but its kernels stay, one after the other: node seconds for each."),
            "the graph's own launch": (lambda layers, width, stream, node, bandwidth: tuple(
                    seconds + more for seconds, more in zip(
                        _ways(layers, width, stream, node, bandwidth), (0, stream, 0))),
                "The launch of the graph itself is left out here: only its kernels count, node seconds each."),
            "one kernel at a node's cost": (lambda layers, width, stream, node, bandwidth: _ways(
                    layers, width, stream, node, bandwidth, one=node),
                "The first two are right. The one kernel is launched by itself, not from a graph: stream seconds."),
        },
        hints=("Lesson 13, 'Three ways to launch': the bytes are the same in all three.",
               "nbytes = 2 * layers * width**2, and 3 * layers kernels, but for the last way.",
               "(3 * layers * stream, 3 * layers * node, stream), each plus nbytes / bandwidth."),
        right="A graph makes launches cheaper, fusion makes them fewer. No way touches the bytes.",
    ),
    "13.3": Exercise(
        kind="derive", ask="break_even(..): launches at which a GPU takes as long as a CPU in one call",
        inputs={"nbytes": (1e5, 4e6), "fixed_cpu": (3e-7, 3e-6), "bandwidth_cpu": (2e10, 2e11),
                "launch": (1e-6, 8e-6), "bandwidth_gpu": (1e12, 8e12)},
        reference=_break_even,
        alternatives=(
            lambda nbytes, fixed_cpu, bandwidth_cpu, launch, bandwidth_gpu: (
                fixed_cpu / launch + nbytes / launch * (1 / bandwidth_cpu - 1 / bandwidth_gpu)),),
        slips={
            "the GPU's bytes forgotten": (lambda nbytes, fixed_cpu, bandwidth_cpu, launch, bandwidth_gpu: (
                    (fixed_cpu + nbytes / bandwidth_cpu) / launch),
                "The GPU has to move the bytes, too: that time is not left for launches."),
            "the CPU's call forgotten": (lambda nbytes, fixed_cpu, bandwidth_cpu, launch, bandwidth_gpu: (
                    (nbytes / bandwidth_cpu - nbytes / bandwidth_gpu) / launch),
                "The CPU's time has a fixed part as well: fixed_cpu."),
            "added": (lambda nbytes, fixed_cpu, bandwidth_cpu, launch, bandwidth_gpu: (
                    (fixed_cpu + nbytes / bandwidth_cpu + nbytes / bandwidth_gpu) / launch),
                "The GPU's bytes stand on the other side of the equation: their time is taken off."),
            "the CPU's call taken off": (lambda nbytes, fixed_cpu, bandwidth_cpu, launch, bandwidth_gpu: (
                    _break_even(nbytes, -fixed_cpu, bandwidth_cpu, launch, bandwidth_gpu)),
                "The CPU's call is time that the GPU may spend on launches, too: fixed_cpu is added, not taken off."),
            "rounded up": (lambda nbytes, fixed_cpu, bandwidth_cpu, launch, bandwidth_gpu: (
                    math.ceil(_break_even(nbytes, fixed_cpu, bandwidth_cpu, launch, bandwidth_gpu))),
                "That is rounded up; the number at which both are equal is asked, whole or not."),
            "upside down": (lambda nbytes, fixed_cpu, bandwidth_cpu, launch, bandwidth_gpu: (
                    1 / _break_even(nbytes, fixed_cpu, bandwidth_cpu, launch, bandwidth_gpu)),
                "Turn it over: the time that is left, over the time of one launch."),
        },
        hints=("Lesson 13, 'Where the CPU wins': the same equation, with another unknown.",
               "fixed_cpu + nbytes / bandwidth_cpu = launches * launch + nbytes / bandwidth_gpu.",
               "launches = (fixed_cpu + nbytes / bandwidth_cpu - nbytes / bandwidth_gpu) / launch."),
        right="A model with more launches than that is answered sooner by the CPU. For small models the number is "
              "below one: no kernel is fast enough.",
    ),
    "13.4": Exercise(
        kind="derive", names=("chance", "calls"),
        ask="tail(share, calls): chance of at least one slow call, and calls for an even chance",
        inputs={"share": [0.9, 0.95, 0.99, 0.995, 0.999], "calls": (2, 400)},
        reference=_tail,
        alternatives=(lambda share, calls: (1 - math.exp(calls * math.log(share)), -math.log(2) / math.log(share)),),
        slips={
            "added up": (lambda share, calls: ((1 - share) * calls, _tail(share, calls)[1]),
                "Chances do not add up: with enough calls that would be more than 1. Ask when none is slow."),
            "none is slow": (lambda share, calls: (share**calls, _tail(share, calls)[1]),
                "That is the chance that none is slow."),
            "added up, twice": (lambda share, calls: ((1 - share) * calls, 0.5 / (1 - share)),
                "Chances do not add up: with enough calls that would be more than 1. Ask when none is slow."),
            "share is of the slow": (lambda share, calls: (1 - (1 - share)**calls, math.log(0.5) / math.log1p(-share)),
                "share is that of the fast calls: 0.99 of them are not slower than p99."),
            "rounded up": (lambda share, calls: (_tail(share, calls)[0], math.ceil(_tail(share, calls)[1])),
                "The chance is right. The number of calls need not be whole: do not round it."),
            "all are slow": (lambda share, calls: ((1 - share)**calls, _tail(share, calls)[1]),
                "That is the chance that all of them are slow; at least one is asked."),
            "half of the mean distance": (lambda share, calls: (_tail(share, calls)[0], 0.5 / (1 - share)),
                "The chance is right. Solve share**calls = 0.5 for the calls: a logarithm."),
        },
        hints=("Lesson 13, 'The slowest calls': what is the chance that none of the calls is slow?",
               "share**calls. At least one: one minus that.",
               "(1 - share**calls, math.log(0.5) / math.log(share))."),
        right="A decision of many calls meets the tail of a single one all the time: what is rare for a call is common "
              "for a decision.",
    ),
    "13.5": Exercise(
        kind="diagnose", points=2, labels=CAUSES, ask="what makes these calls slow: four symptoms, four causes",
        reference=lambda: _causes(),
        alternatives=(("Garbage collection", "other-processes", "sleep", "cold caches"), lambda: list(_causes())),
        slips={
            "a rhythm of the system's": (lambda: _causes(rhythm="other processes"),
                "The system does not count your lists. Who does, and searches after so many new ones?"),
            "rare means collection": (lambda: _causes(rhythm="other processes", rare="garbage collection"),
                ("The two are exchanged: a call that keeps no list sets off no search, and the system does not count "
                "your lists.")),
            "a loop that collects": (lambda: _causes(rare="garbage collection"),
                "That call makes no lists, so there is nothing to collect. Who takes a core for whole milliseconds?"),
            "sleep and cold": (lambda: _causes(quiet="cold caches", second="sleep"),
                "The two are exchanged: nothing else ran in the first of them, and nobody slept in the second."),
            "nothing else ran": (lambda: _causes(quiet="cold caches"),
                "Nothing else ran in between, and waiting awake for as long does not do it."),
        },
        hints=("Lesson 13, 'Where the slow calls come from'.",
               "Which of the four counts new lists? Which one comes in slices of milliseconds?",
               "rhythm: it counts lists. rare: slices. quiet: waiting awake helps. second: the data come back once."),
        right="Each cause has its own trace: a rhythm, a length, a moment. Change one thing, and see which one goes.",
    ),
    "13.6": Exercise(
        kind="predict", factor=2.0, quantity="seconds", ask="seconds of 16 tiny layers, op by op, on this machine",
        reference=lambda roof: _calls(roof),
        alternatives=(lambda roof: 48 * roof.overhead,),
        slips={
            "bytes alone": (lambda roof: _calls(roof, 0),
                "That is the time of the bytes. 16 kB hot are nothing beside 48 calls."),
            "a call a layer": (lambda roof: _calls(roof, LAYERS),
                "Each layer is three calls: product, bias, maximum."),
            "one call": (lambda roof: _calls(roof, 1),
                "That is one call. Op by op there are three for each of the 16 layers."),
            "microseconds": (lambda roof: 1e6 * _calls(roof), "That is in microseconds; the kit's unit is the second."),
        },
        hints=("Lesson 13, 'Fixed cost and rate': L calls cost L times the overhead of one.",
               "How many calls are 16 layers, and what does here.overhead say?",
               "48 * here.overhead; the 16 kB of weights hardly count."),
        right="The prediction knows nothing of the layers but their number of calls.",
        then="Now time it: three xp calls a layer on arrays from dev.random(16, 16, dtype='float32'). A product costs "
             "more than an addition, so expect more than predicted.",
    ),
    "13.7": Exercise(
        kind="measure", points=2, cold=False, ask="the model for one tick and for two, hot, each with its own work",
        reference=lambda: _pair(),
        slips={
            "both for one": (lambda: _pair(1, 1), "Both have the work of one tick: batch=2 for the second."),
            "both for two": (lambda: _pair(2, 2), "Both have the work of two ticks: batch=1 for the first."),
            "exchanged": (lambda: _pair(2, 1), "The two are exchanged: one tick comes first, then two."),
            "two models": (lambda: (_pair()[0], _pair()[0] + _pair()[0]),
                "That is the model twice, weights and all. For two ticks at once the weights are read once."),
            "fused": (lambda: _pair(fused=True),
                "That is the work of one kernel. This program makes five calls: fused=False."),
        },
        hints=("How many inputs does a call of each take, and how many calls of the library does it make?",
               "rk.mlp(160, 320, 160, batch=2, fused=False) is the work of the second.",
               ("runs = [rk.measure(ticks(count), work=rk.mlp(160, 320, 160, batch=count, fused=False)) for count in "
                "(1, 2)].")),
        right="Twice the FLOPs for nearly the same bytes and the same calls.",
    ),
    "13.8": Exercise(
        kind="build", points=3, out="out", least=0.2,
        ask="replay: a recurrent model through all ticks in one call, in CUDA C++ or in Numba",
        inputs=_sequence,
        reference=lambda x, h, W, U, b: _replay(x, h, W, U, b),
        alternatives=(lambda x, h, W, U, b, out: out.__setitem__(..., _replay(x, h, W, U, b)), _op_by_op, BY_THREADS),
        slips={
            "state never kept": (lambda x, h, W, U, b: _replay(x, h, W, U, b, kept=0.0),
                "Only a tenth of the state is new; nine tenths are kept: 0.9 h + 0.1 times the rest."),
            "kept and new exchanged": (lambda x, h, W, U, b: _replay(x, h, W, U, b, kept=0.1),
                "0.9 and 0.1 are exchanged: nine tenths of the old state are kept."),
            "not cut off": (lambda x, h, W, U, b: _replay(x, h, W, U, b, cut=(np.inf, np.inf)),
                "The sum has to be cut off at -1 and at 1."),
            "cut off below alone": (lambda x, h, W, U, b: _replay(x, h, W, U, b, cut=(1.0, np.inf)),
                "The sum is cut off at -1 but not at 1."),
            "no U": (lambda x, h, W, U, b: _replay(x, h, W, U, b, own=False),
                "U h is missing: the state takes part in its own change."),
            "always the first state": (lambda x, h, W, U, b: np.array([_replay(one[None], h, W, U, b)[0] for one in x]),
                "Each tick starts from the first state: it must go on from the one that the tick before left."),
        },
        work=lambda x, W, U: Work(2 * len(x) * (W.size + U.size), 4 * (W.size + U.size + x.size + len(x) * len(U)),
                                  launches=len(x), name="replay"),
        big=lambda rng: _sequence(rng, 1000, 16, 64),
        cuda=Cuda(
            name="replay",
            launch=lambda x, h, W, U, b, out: (
                (1,), (THREADS,), (x, h, W, U, b, out, *map(np.int32, (*x.shape, len(h)))),
                4 * (2 * len(h) + x.shape[1])),
            most=lambda x, h, W, U: 4 * (len(x) * (W.size + U.size + len(h) + x.shape[1]) + len(h)),
            told="keep the input and both states in shared memory, and load each weight once a tick."),
        hints=(("Three loops: over ticks, over rows, over the numbers of a row. What has to wait until all rows are "
                "done?"),
               ("The new state must not overwrite the old one before all rows have read it: two arrays that change "
                "places. CUDA C++: s, s + width and s + 2 * width in shared memory; __syncthreads() after the input "
                "is there and after each tick. Numba: out[t - 1] is the old state, out[t] the new one."),
               ("Numba: for t: old = h if t == 0 else out[t - 1]; for i: total = b[i]; two loops add W[i, j] * x[t, j] "
                "and U[i, j] * old[j]; out[t, i] = 0.9 * old[i] + 0.1 * min(max(total, -1), 1). Each constant as "
                "np.float32(..), and fastmath so that sums become vectors. CUDA C++: the same sums from shared memory, "
                "now[i] = 0.9f * old[i] + 0.1f * fmaxf(-1, fminf(1, sum)); out[t * width + i] = now[i].")),
        right="A thousand ticks in one call: nothing stands between two of them but the model.",
    ),
}
