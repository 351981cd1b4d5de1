"""When does fusing kernels help, when a graph, and when is the CPU faster? A picture to move."""

import math
from functools import lru_cache, partial
from itertools import combinations, pairwise
from math import inf
from typing import NamedTuple

from . import svg
from .datasheets import chips, datasheet
from .explore import Explorer, View, choice, sizes, slider
from .report import needs_roof
from .roofline import Roofline
from .units import quantity, si
from .work import Work

GAIN = 1.5               # times as fast, from which on fusion or a graph is said to help
WAYS = ("launches", "graph", "fused", "cpu")
NAMES = {"launches": "GPU, kernel by kernel", "graph": "GPU, as a graph", "fused": "GPU, one fused kernel",
         "cpu": "CPU, one compiled call"}
FASTEST = {"launches": "the GPU, kernel by kernel", "graph": "a graph", "fused": "one fused kernel", "cpu": "the CPU"}
LOOKS = {"launches": (svg.COLORS[0], "", "s"), "graph": (svg.COLORS[4], "10 5", "^"),
         "fused": (svg.COLORS[2], "2 4", "D"), "cpu": (svg.COLORS[6], "", "o")}           # color, dash and marker
SHORT = {"launches": "kernel by kernel", "graph": "graph", "fused": "fused", "cpu": "CPU"}
SPAN = 1e3, 3e8          # bytes in the picture [B]
GRID = tuple(SPAN[0] * (SPAN[1] / SPAN[0]) ** (place / 48) for place in range(49))
STRIP = 402              # top of the strip below it
CALLS = 1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 70, 100, 200, 500
LEADS = 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8
COSTS = tuple(round(lead * 10.0**power, 12) for power in range(-8, -4) for lead in LEADS)    # [s]
RATES = tuple(lead * 10.0**power for power in (9, 10, 11) for lead in LEADS)                 # [B/s]


class Way(NamedTuple):
    """A way to run the program, of so many calls: T = calls x overhead [s] + bytes [B] / bandwidth [B/s]."""

    name: str
    calls: int
    overhead: float
    bandwidth: float

    @property
    def fixed(self):
        """T0: what it takes without a byte [s]."""
        return self.calls * self.overhead

    @property
    def balanced(self):
        """Bytes that take as long as the calls [B]: with fewer the way is latency-bound."""
        return self.fixed * self.bandwidth

    def times(self, nbytes):
        """The three times of so many bytes by `Roofline.times` [s]."""
        return self._roof.times(Work(0, nbytes, launches=self.calls))

    def seconds(self, nbytes):
        return self._roof.seconds(Work(0, nbytes, launches=self.calls))

    @property
    def _roof(self):
        return Roofline(1.0, self.bandwidth, overhead=self.overhead)


def ways(calls, bandwidth, launch, graph, call, cpu_bandwidth):
    """The four ways of a program of so many kernels; the bytes are those of all of them, in each way.

    launch, graph:  a kernel's fixed cost, launched on a stream and in a graph [s]; bandwidth: of the GPU [B/s]
    call:           the fixed cost of one compiled call on the CPU [s], which reads cpu_bandwidth [B/s]
    Errors:         ValueError for what cannot be
    """
    calls = quantity("calls", calls, least=1, whole=True)
    for name, value in (("launch", launch), ("graph", graph), ("call", call)):
        quantity(name, value)
    return {"launches": Way("launches", calls, launch, bandwidth), "graph": Way("graph", calls, graph, bandwidth),
            "fused": Way("fused", 1, launch, bandwidth), "cpu": Way("cpu", 1, call, cpu_bandwidth)}


def cpu_wins(cpu, gpu):
    """(low, high): the bytes between which the CPU is faster, as lesson 13 has it [B]; (0, 0): none."""
    earlier, slower = gpu.fixed - cpu.fixed, 1 / cpu.bandwidth - 1 / gpu.bandwidth
    if earlier > 0:
        return 0.0, earlier / slower if slower > 0 else inf
    return (earlier / slower, inf) if slower < 0 else (0.0, 0.0)


def helps_up_to(slow, fast, gain=GAIN):
    """Bytes up to which `fast` is at least `gain` times as fast as `slow`, at the same bandwidth [B]; 0: never."""
    return max(0.0, (slow.fixed - gain * fast.fixed) / (gain - 1) * slow.bandwidth)


def explore_latency(roof=None, chip="H200 SXM", calls=5, nbytes=409_600, launch=2.5e-6, graph=1.36e-6, call=0.5e-6,
                    cpu=80e9):
    """T = calls x overhead + bytes / bandwidth: kernels launched one by one, in a graph, fused, and the CPU beside.

    roof:    of this machine, as rk.sustained(): of a GPU it is one more chip, with its own cost of a launch; of a CPU
             it gives `call` and, from the cache that holds the bytes, `cpu`
    launch, graph:  cost of a kernel on a stream and in a graph [s]; the first values are an H200's
    call:    cost of one compiled call on the CPU [s]; cpu: bandwidth there [B/s]
    Source:  of launch and graph RRZE's gpu-benches; of call and cpu a core as in lesson 13
    Left out: the way of the data to the GPU and back, and waiting for it; what the last sentences name
    """
    rates = {name: datasheet(name, "float32").bandwidth for name in chips("float32")}
    chip = datasheet(chip, "float32").name
    if roof is not None:
        needs_roof(roof)
    if roof is not None and (roof.clocks or roof.origin == "datasheet"):
        chip, launch = f"this {roof.name}", roof.overhead or launch
        rates = {chip: roof.bandwidth, **rates}
        graph = next((each for name, _, each, _ in roof.clocks if name == "graph"), graph)
    elif roof is not None:
        call, cpu = roof.overhead or call, roof.level_of(Work(0, nbytes)) or roof.bandwidth
    calls, nbytes = (quantity(*each, least=1, whole=True) for each in (("calls", calls), ("nbytes", nbytes)))
    if not SPAN[0] <= nbytes <= SPAN[1]:
        raise ValueError(f"nbytes is {nbytes}, but the picture goes from {si(SPAN[0], 'B')} to {si(SPAN[1], 'B')}.")
    launch, graph, call, cpu = (quantity(*each) for each in (("launch", launch), ("graph", graph), ("call", call),
                                                             ("cpu", cpu, 1)))

    def among(name, label, options, value, unit):
        return slider(name, label, sorted({*options, value}), value, lambda each: si(each, unit))

    return Explorer("Launches and bytes", [
        among("calls", "kernels", CALLS, calls, ""), among("nbytes", "bytes in all", sizes(1024, 2**28), nbytes, "B"),
        choice("chip", "GPU", rates, chip), among("launch", "cost of a launch", COSTS, launch, "s"),
        among("graph", "in a graph", COSTS, graph, "s"), among("call", "a call on the CPU", COSTS, call, "s"),
        among("cpu", "CPU's bandwidth", RATES, cpu, "B/s"),
    ], partial(_draw, rates))


def _draw(rates, calls, nbytes, chip, launch, graph, call, cpu):
    found = ways(calls, rates[chip], launch, graph, call, cpu)
    told = tuple(sentences(found, nbytes))
    title = f"{calls} kernels and {si(nbytes, 'B')} on {chip} and on a CPU"
    figure = svg.picture(title, " ".join(told), *_figure(found, nbytes), height=440)
    return View(figure, tuple(rows(found, nbytes)), told)


def _figure(found, nbytes):
    """Time against bytes: a line for each way, and below it a strip that says which one is the fastest."""
    low = min(way.seconds(SPAN[0]) for way in found.values())
    high = max(way.seconds(SPAN[1]) for way in found.values())
    plane, frame = _frame(10.0 ** math.floor(math.log10(max(low, 1e-9) / 1.2)), 10.0 ** math.ceil(math.log10(high)))
    yield frame
    yield plane.line([(nbytes, plane.y[0]), (nbytes, plane.y[1])], svg.GREY, 1.5)
    for place, name in enumerate(WAYS):
        way, (color, dash, shape) = found[name], LOOKS[name]
        x, y, seconds = 16 + 340 * (place % 2), 16 + 24 * (place // 2), way.seconds(nbytes)
        yield plane.line(_points(way), color, 2.5, dash)
        if SPAN[0] < way.balanced < SPAN[1]:
            yield plane.point(way.balanced, 2 * way.fixed, "o", color, False, 4)
        yield plane.point(nbytes, seconds, shape, color, size=6)
        yield svg.path([(x - 12, y), (x + 24, y)], color, 2.5, dash) + svg.marker(x + 6, y, shape, color, size=6)
        yield svg.text(x + 32, y + 5, f"{NAMES[name]}: {si(seconds, 's')}")
    yield svg.marker(22, 64, "o", svg.INK, False, 4) + svg.text(48, 69, "hollow: the bytes take as long as the calls")
    yield from _strip(found, plane)


def _strip(found, plane):
    yield svg.text(4, STRIP + 15, "fastest")
    for start, end, name in fastest(found):
        (left, _), (right, _) = plane.at(start, 1), plane.at(end, 1)
        yield svg.rect(left, STRIP, right - left, 22, LOOKS[name][0], alpha=0.25)
        words = SHORT[name]
        if right - left > 8 * len(words) + 8:
            yield svg.text((left + right) / 2, STRIP + 16, words, "middle")
        elif right - left > 18:
            yield svg.marker((left + right) / 2, STRIP + 11, LOOKS[name][2], LOOKS[name][0], size=5)


@lru_cache(256)
def _points(way):
    return [(nbytes, way.seconds(nbytes)) for nbytes in GRID]


@lru_cache(64)
def _frame(low, high):
    plane = svg.Plane(SPAN, (low, high), (64, 106, svg.WIDTH - 18, 350))
    return plane, plane.frame("bytes in all", "time", "B", "s")


def fastest(found):
    """(from, to, name): which way is the fastest for so many bytes, over the span of the picture."""
    edges = {*SPAN}
    for one, other in combinations(found.values(), 2):
        slower = 1 / one.bandwidth - 1 / other.bandwidth
        edge = (other.fixed - one.fixed) / slower if slower else 0
        edges |= {edge} if SPAN[0] < edge < SPAN[1] else set()
    pieces = []
    for low, high in pairwise(sorted(edges)):
        name = min(WAYS, key=lambda each: found[each].seconds(math.sqrt(low * high)))
        if pieces and pieces[-1][2] == name:
            low = pieces.pop()[0]
        pieces.append((low, high, name))
    return pieces


def rows(found, nbytes):
    """The table, its head first."""
    yield "way", "calls", "their cost", "bytes", "time", "bound"
    for name in WAYS:
        way = found[name]
        memory, _, latency = way.times(nbytes)
        yield (NAMES[name], str(way.calls), si(latency, "s"), si(memory, "s"), si(way.seconds(nbytes), "s"),
               "latency" if latency > memory else "memory")


def sentences(found, nbytes):
    """What follows from the four ways for so many bytes, a sentence each."""
    plain, graph, fused, cpu = (found[name] for name in WAYS)
    memory, _, latency = plain.times(nbytes)
    kernels = f"{plain.calls} launches take" if plain.calls > 1 else "The launch takes"
    bound = "latency" if latency > memory else "memory"
    yield f"{kernels} {si(latency, 's')}, the bytes {si(memory, 's')}: {bound}-bound."
    if plain.calls == 1:
        yield "There is one kernel already: nothing is left to fuse."
    else:
        yield _gain("Fusion", plain, fused, nbytes)
    yield _gain("A graph", plain, graph, nbytes)
    yield _cpu(cpu, {"the launches": plain, "the graph": graph, "one kernel": fused})
    seconds = {name: way.seconds(nbytes) for name, way in found.items()}
    best = min(seconds, key=seconds.get)
    yield f"For {si(nbytes, 'B')} the fastest is {FASTEST[best]}: {si(seconds[best], 's')}."
    yield ("The CPU's bandwidth is one number for all sizes: where it is a cache's, as 80 GB/s is, more bytes than the "
           "cache holds take longer.")
    yield ("Left out are FLOPs, the way of the data to the GPU and back, the bytes that fusion saves (all ways of the "
           "GPU move the same here), and that one small kernel may not use the whole chip.")


def _gain(name, slow, fast, nbytes):
    ratio, limit = slow.seconds(nbytes) / fast.seconds(nbytes), helps_up_to(slow, fast)
    if slow.fixed <= fast.fixed:
        return f"{name} gains nothing, for its fixed cost is no smaller."
    said = f"{name} makes it {_times(ratio)} as fast" if ratio >= 1.005 else f"{name} makes it hardly faster"
    if limit:
        return f"{said}; it gains {GAIN:g} times or more up to {si(limit, 'B')}."
    return f"{said}, and never more than {_times(slow.fixed / fast.fixed)}."


def _times(ratio):
    return f"{float(f'{ratio:.3g}'):,.10g} times"


def _cpu(cpu, others):
    told, join = {"answers": [], "always answers": [], "never answers": []}, (", before ", " and ", " or ")
    for name, way in others.items():
        low, high = cpu_wins(cpu, way)
        ends = f" from {si(low, 'B')} on" if low else f" up to {si(high, 'B')}"
        verb = "never answers" if high == 0 else "always answers" if (low, high) == (0, inf) else "answers"
        told[verb].append(f"{name}{ends * (verb == 'answers')}")
    said = (f"{verb} before {between.join(told[verb])}" for verb, between in zip(told, join) if told[verb])
    return f"The CPU {', and '.join(said)}."
