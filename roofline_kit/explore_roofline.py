"""Where does an operation lie under the roof, and which change would help? It slides along as its shape changes."""

from dataclasses import replace
from functools import lru_cache

from .datasheets import chips, datasheet, table
from .explore import Explorer, View, choice, sizes, slider
from .ops import attention, dot, elementwise, flash_attention, gemm, layernorm, softmax
from .recorded import recorded
from .report import needs_roof
from .roofline import Roofline
from .svg import COLORS, DASHES, Plane, marker, path, picture, text
from .units import si

PLANE = Plane((0.01, 2e5), (1e8, 2e16), (98, 36, 662, 342))
SIGNS = ("o", COLORS[0]), ("D", COLORS[2])              # of the first and of the second roof
DTYPES = ("float64", "float32", "tfloat32", "float16", "bfloat16", "int8", "float8", "float4")
HEADS, HEAD_WIDTH = 32, 128                             # of the attention: as in an 8 B Llama
OPERATIONS = {                                          # its name: (the sliders of its shape, its work)
    "matrix product": (("m", "n", "k"), gemm),
    "dot product": (("length",), dot),
    "addition": (("length",), elementwise),
    "layer norm": (("rows", "width"), layernorm),
    "layer norm, 9 kernels": (("rows", "width"), lambda rows, width, dtype: layernorm(rows, width, dtype, fused=False)),
    "softmax": (("rows", "width"), softmax),
    "softmax, 5 kernels": (("rows", "width"), lambda rows, width, dtype: softmax(rows, width, dtype, fused=False)),
    "attention": (("queries", "keys"), lambda queries, keys, dtype: attention(HEADS, queries, keys, HEAD_WIDTH,
                                                                              dtype=dtype)),
    "flash attention": (("queries", "keys"), lambda queries, keys, dtype: flash_attention(HEADS, queries, keys,
                                                                                          HEAD_WIDTH, dtype=dtype)),
}
SHAPES = {"m": 1024, "n": 4096, "k": 4096, "length": 2**24, "rows": 4096, "width": 4096, "queries": 4096, "keys": 4096}
LAUNCHES = tuple(lead * power for power in (1e-7, 1e-6, 1e-5) for lead in (1, 2.5, 5)) + (1e-4,)


def explore_roofline(chip="H100 SXM", second="A100 80GB SXM", roof=None, operation="matrix product", dtype=None,
                     launch=2.5e-6, **shape):
    """The roofline with one operation under it: chip, dtype, operation and shape are sliders and lists.

    chip, second:  names of `rk.chips()` or of `rk.recorded()`; second None for one roof alone
    roof:          a Roofline of yours, such as rk.sustained(): the first of the list, and chosen
    operation:     one of OPERATIONS; its shape by name: m, n, k, length, rows, width, queries, keys
    dtype:         of the arithmetic; without one the roof's own, or bfloat16
    launch:        cost of a launch on the chips of the datasheets, which promise none [s]
    """
    if roof is not None:
        needs_roof(roof)
    dtype, own = dtype or (roof.dtype if roof else "bfloat16"), roof and f"{roof.name or 'roof'} ({roof.origin})"
    machines = [*([(own, roof)] if roof else []), *chips(), *((f"{name} (recorded)", name) for name in recorded())]
    controls = [
        choice("chip", "chip", machines, roof or chip),
        choice("second", "second chip", [("none", None), *machines], second),
        choice("dtype", "dtype", DTYPES, dtype), choice("operation", "operation", OPERATIONS, operation),
        *(_size(name, shape) for name in SHAPES),
        slider("launch", "launch", sorted({0.0, launch, *LAUNCHES}), launch, text=lambda value: si(value, "s")),
    ]
    if unknown := set(shape) - set(SHAPES):
        raise ValueError(f"there is no size {min(unknown)!r}: use {', '.join(SHAPES)}.")
    return Explorer("An operation under the roof", controls, draw)


def _size(name, shape):
    """The slider of one size: powers of two, steps between them but for long vectors, and what was asked for."""
    label = {"queries": "queries (32 heads)", "keys": "keys (width 128)"}.get(name, name)
    value, long = shape.get(name, SHAPES[name]), name == "length"
    options = sorted({*(sizes(1, 2**36) if long else sizes(1, 2**18, steps=2)), value})
    users = tuple(operation for operation, (names, _) in OPERATIONS.items() if name in names)
    return slider(name, label, options, value, text=si if long else "{:,}".format, only=("operation", users))


@lru_cache(256)
def machine(chip, dtype, launch):
    """The roof that a choice stands for. Errors: ValueError where it has none for that dtype."""
    if isinstance(chip, Roofline):
        if chip.dtype != dtype:
            raise ValueError(f"{chip.name or 'this roof'} is a roof for {chip.dtype}: choose that dtype, or a chip of "
                             "the list.")
        return chip
    return recorded(chip).roof(dtype) if chip in recorded() else replace(datasheet(chip, dtype), overhead=launch)


def worked(operation, dtype, **shape):
    """The Work of an operation of the list; of the sizes those count that it has."""
    names, count = OPERATIONS[operation]
    return count(*(shape[name] for name in names), dtype=dtype)


def needs(operation, dtype, **shape):
    """Bytes that the operation's arrays take at least [B]; its own scores and sums left out."""
    fused = {"attention": "flash attention"}.get(operation, operation.split(",")[0])
    return worked(fused, dtype, **shape).nbytes


def draw(chip, second, dtype, operation, launch, **shape):
    """The figure, the three times of each roof, and what would help on the first."""
    work, held = worked(operation, dtype, **shape), needs(operation, dtype, **shape)
    roofs = [machine(name, dtype, launch) for name in (chip, second) if name is not None]
    for roof in roofs:
        memory = float(table()[roof.name]["memory"] or "inf") * 1e9 if roof.origin == "datasheet" else float("inf")
        if held > memory:
            raise ValueError(f"The arrays take {si(held, 'B')}, but {roof.name} has {si(memory, 'B')}: choose a "
                             "smaller shape.")
    rows, told = table_of(work, roofs), sentences(work, roofs, operation)
    points = "".join(_point(roof, work, *sign) for roof, sign in zip(roofs, SIGNS))
    figure = picture("An operation under the roof", " ".join(told), _background(tuple(roofs)), points, height=390)
    return View(figure, rows, told)


def table_of(work, roofs):
    """Lines for the page: counts, the three times, the time and the rate they allow, the bound; a column a roof."""
    times = [roof.times(work) for roof in roofs]
    return tuple(zip(
        ("", "bytes", "FLOPs", "arithmetic intensity", "ridge point", "memory", "arithmetic", "launches",
         "predicted time", "rate", "bound"),
        *((roof.name, si(roof.traffic(work), "B"), si(work.flops, "FLOP"), si(work.intensity, "FLOP/B"),
           si(roof.ridge, "FLOP/B"), *(si(seconds, "s") for seconds in three), si(roof.seconds(work), "s"),
           si(work.flops / roof.seconds(work), "FLOP/s"), f"{roof.bound(work)}-bound")
          for roof, three in zip(roofs, times))))


def gains(roof, work):
    """How many times as fast it is with half of one thing: {"bytes": 1.9, "FLOPs": 1.0, "launches": 1.0}."""
    halves = {"bytes": replace(work, nbytes=work.nbytes / 2, written=work.written / 2, rewritten=work.rewritten / 2),
              "FLOPs": replace(work, flops=work.flops / 2, aside=work.aside / 2),
              "launches": replace(work, launches=work.launches / 2)}
    return {name: roof.seconds(work) / roof.seconds(half) for name, half in halves.items()}


def sentences(work, roofs, operation):
    """Which change helps on the first roof, what a narrower dtype does there, and how the second one compares."""
    roof, found = roofs[0], gains(roofs[0], work)
    best, *others = sorted(found, key=found.get, reverse=True)
    rest = " and ".join(f"half the {name} {_times(found[name])}" for name in others)
    told = [(f"On {roof.name} this is {roof.bound(work)}-bound: half the {best} would make it {_times(found[best])} as "
             f"fast, {rest}.")]
    if len(roofs) > 1:
        first, other = roofs[0].seconds(work), roofs[1].seconds(work)
        slower = f"takes {_times(other / first)} as long" if other >= first else f"is {_times(first / other)} as fast"
        told.append(f"{roofs[1].name} {slower} and is {roofs[1].bound(work)}-bound here: "
                    f"{_times(max(r.bandwidth for r in roofs) / min(r.bandwidth for r in roofs))} the bandwidth and "
                    f"{_times(max(r.peak for r in roofs) / min(r.peak for r in roofs))} the peak lie between the two.")
    return tuple(told)


def _times(factor):
    return f"{factor:.2f} times" if factor < 10 else f"{factor:,.0f} times"


@lru_cache(64)
def _background(roofs):
    """All that stays while a shape changes: axes, roofs, and their names where no roof passes."""
    parts = [PLANE.frame("arithmetic intensity [FLOP/B]", "arithmetic rate [FLOP/s]", "", "FLOP/s")]
    low, high = PLANE.x
    for place, (roof, (sign, color)) in enumerate(zip(roofs, SIGNS)):
        dash, y = DASHES[roof.origin], 56 + 20 * place
        parts.append(PLANE.line([(low, roof.bandwidth * low), (roof.ridge, roof.peak), (high, roof.peak)], color, 2.5,
                                dash))
        parts.append(PLANE.point(roof.ridge, roof.peak, sign, color, size=4))
        if roof.vector_peak and roof.vector_peak < 0.95 * roof.peak:
            parts.append(PLANE.line([(roof.vector_peak / roof.bandwidth, roof.vector_peak), (high, roof.vector_peak)],
                                    color, 1, dash))
        parts += [path([(110, y - 5), (146, y - 5)], color, 2.5, dash), marker(128, y - 5, sign, color, False, 6),
                  text(154, y, f"{roof.name}, {roof.dtype} ({roof.origin})")]
    return "".join([*parts, text(110, 56 + 20 * len(roofs), "thin: the vector unit")])


def _point(roof, work, sign, color):
    """The predicted rate; a line up to the roof shows what the launches cost; at an edge where it lies beyond."""
    rate = work.flops / roof.seconds(work)
    best = work.flops / max(roof.times(work)[:2])
    place = min(max(work.intensity, PLANE.x[0]), PLANE.x[1])
    lost = PLANE.line([(place, max(rate, PLANE.y[0])), (place, best)], color, 1.5, "1 3")
    return lost + PLANE.point(work.intensity, rate, sign, color, filled=False, size=8)
