"""Where does an operation lie under the roof, and which change would help? It slides along as its shape changes."""

from dataclasses import replace
from functools import lru_cache

from .datasheets import chips, datasheet, full_name, table
from .explore import Explorer, View, choice, sizes, slider
from .ops import attention, dot, elementwise, flash_attention, gemm, layernorm, softmax
from .recorded import recorded
from .report import needs_roof
from .roofline import Roofline
from .svg import COLORS, DASHES, Plane, marker, path, picture, text
from .units import nearest, quantity, si

BOX, ACROSS = (98, 36, 662, 342), (0.05, 2e4)           # of the picture; intensities that it shows
SIGNS = ("o", COLORS[0], 10), ("D", COLORS[2], 5)       # of the first and of the second roof, and their sizes
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
    if operation not in OPERATIONS:
        raise ValueError(nearest(operation, OPERATIONS, "operation"))
    if unknown := set(shape) - set(OPERATIONS[operation][0]):
        raise ValueError(f"a {operation} has no size {min(unknown)!r}: use {', '.join(OPERATIONS[operation][0])}.")
    dtype, machines, chip = listed(chip, roof, dtype)
    shape, launch = {name: whole(name, size) for name, size in shape.items()}, quantity("launch", launch)
    controls = [
        choice("chip", "chip", machines, chip),
        choice("second", "second chip", [("none", None), *machines], named(second)),
        choice("dtype", "dtype", DTYPES, dtype), choice("operation", "operation", OPERATIONS, operation),
        *(_size(name, shape) for name in SHAPES),
        slider("launch", "launch (datasheets)", sorted({0.0, launch, *LAUNCHES}), launch,
               text=lambda value: si(value, "s")),
    ]
    return Explorer("An operation under the roof", controls, draw)


def listed(chip, roof, dtype):
    """(dtype, the machines to choose from, the chosen one) for the arguments of an explorer; `roof` comes first."""
    if not isinstance(chip, str):
        raise ValueError(f"chip is {chip!r:.60}, but a name is needed: give a roof of yours as roof=.")  # noqa: TRY004
    own = []
    if roof is not None:
        needs_roof(roof)
        own = [(f"{roof.name or 'roof'} ({roof.origin})", roof)]
    machines = [*own, *chips(), *((f"{name} (recorded)", name) for name in recorded())]
    return dtype or (roof.dtype if roof else "bfloat16"), machines, named(chip) if roof is None else roof


def named(chip):
    """The name of a chip as the list has it: 'H200' is 'H200 SXM'."""
    known = isinstance(chip, str) and chip in recorded()
    return chip if chip is None or known else full_name(chip)


def whole(name, size):
    """A size. Errors: ValueError, a sentence, for what is none."""
    return quantity(name, size, least=1, whole=True)


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
    work, roofs, told = worked(operation, dtype, **shape), [machine(chip, dtype, launch)], []
    try:
        roofs += [machine(second, dtype, launch)] if second is not None else []
    except ValueError as error:
        told.append(f"The second roof is left out: {error}")
    told = [*sentences(work, roofs), *too_large(needs(operation, dtype, **shape), roofs), *told]
    plane = _plane(tuple(roofs))
    points = "".join(_point(plane, roof, work, *sign) for roof, sign in zip(roofs, SIGNS))
    figure = picture("An operation under the roof", " ".join(told), _background(tuple(roofs)), points, height=390)
    return View(figure, table_of(work, roofs), tuple(told))


def too_large(nbytes, roofs):
    """A sentence for each chip of a datasheet whose memory cannot hold so many bytes."""
    for roof in roofs:
        memory = float(table().get(roof.name, {}).get("memory") or "inf") * 1e9
        if nbytes > memory:
            yield (f"The arrays take {si(nbytes, 'B')}, and {roof.name} has {si(memory, 'B')}: the times are those of "
                   "a chip that could hold them.")


def effective(roof, work):
    """(bandwidth [B/s], peak [FLOP/s]) that count here: the bytes that are counted over their time, the unit's rate."""
    return work.nbytes / roof.times(work).memory, roof.rate(work.unit)


def placed(roof, work):
    """(intensity, rate) of the unit's own FLOPs, so that no point lies above the roof of that unit."""
    own = work.on(work.unit)
    return own / work.nbytes, own / roof.seconds(work)


def table_of(work, roofs):
    """Lines for the page: counts, rates that apply, the three times, what they allow, the bound; a column a roof."""
    rows = []
    for roof in roofs:
        (bandwidth, peak), times = effective(roof, work), roof.times(work)
        rows.append((roof.name, si(work.nbytes, "B"), si(work.flops, "FLOP"), si(work.intensity, "FLOP/B"),
                     si(bandwidth, "B/s"), si(peak, "FLOP/s"), si(peak / bandwidth, "FLOP/B"),
                     *(si(seconds, "s") for seconds in times), si(roof.seconds(work), "s"),
                     si(placed(roof, work)[1], "FLOP/s"), f"{roof.bound(work)}-bound"))
    return tuple(zip(("", "bytes", "FLOPs", "arithmetic intensity", "bandwidth", f"peak ({work.unit} unit)",
                      "ridge point", "memory", "arithmetic", "launches", "predicted time", "rate", "bound"), *rows))


def gains(roof, work):
    """How many times as fast it is with half of one thing: {"bytes": 1.9, "FLOPs": 1.0, "launches": 1.0}."""
    halves = {"bytes": replace(work, nbytes=work.nbytes / 2, written=work.written / 2, rewritten=work.rewritten / 2),
              "FLOPs": replace(work, flops=work.flops / 2, aside=work.aside / 2),
              "launches": replace(work, launches=work.launches / 2)}
    return {name: roof.seconds(work) / roof.seconds(half) for name, half in halves.items()}


def sentences(work, roofs):
    """Which change helps on the first roof, and how the second one compares."""
    roof, found = roofs[0], gains(roofs[0], work)
    best, *others = sorted(found, key=found.get, reverse=True)
    rest = " and ".join(f"half the {name} {_times(found[name])}" for name in others)
    yield (f"On {roof.name} this is {roof.bound(work)}-bound: half the {best} would make it {_times(found[best])} as "
           f"fast, {rest}.")
    if len(roofs) > 1:
        first, other = roofs[0].seconds(work), roofs[1].seconds(work)
        slower = f"takes {_times(other / first)} as long" if other >= first else f"is {_times(first / other)} as fast"
        apart = (max(pair) / min(pair) for pair in zip(*(effective(each, work) for each in roofs)))
        wide, high = map(_times, apart)
        yield (f"{roofs[1].name} {slower} and is {roofs[1].bound(work)}-bound here: {wide} the bandwidth and {high} "
               "the peak lie between the two.")


def _times(factor):
    return f"{factor:.3g} times" if factor < 1000 else f"{factor:,.0f} times"


@lru_cache(64)
def _plane(roofs):
    """Axes about these roofs, down to what the lowest bandwidth gives an addition."""
    lowest, highest = min(roof.bandwidth for roof in roofs), max(roof.peak for roof in roofs)
    return Plane(ACROSS, (ACROSS[0] * lowest / 2, 4 * highest), BOX)


@lru_cache(64)
def _background(roofs):
    """All that stays while a shape changes: axes, roofs, and their names where no roof passes."""
    plane = _plane(roofs)
    parts = [plane.frame("arithmetic intensity [FLOP/B]", "arithmetic rate [FLOP/s]", "", "FLOP/s")]
    low, high = plane.x
    for place, (roof, (sign, color, _)) in enumerate(zip(roofs, SIGNS)):
        dash, y = DASHES.get(roof.origin, ""), 282 + 20 * place
        parts.append(plane.line([(low, roof.bandwidth * low), (roof.ridge, roof.peak), (high, roof.peak)], color, 2.5,
                                dash, shift=6 * place))
        parts.append(plane.point(roof.ridge, roof.peak, sign, color, size=4))
        if roof.vector_peak and roof.vector_peak < 0.95 * roof.peak:
            parts.append(plane.line([(roof.vector_peak / roof.bandwidth, roof.vector_peak), (high, roof.vector_peak)],
                                    color, 1, dash))
        parts += [path([(388, y - 5), (424, y - 5)], color, 2.5, dash), marker(406, y - 5, sign, color, False, 6),
                  text(432, y, f"{roof.name}, {roof.dtype}")]
    if any(roof.mixes or roof.vector_peak and roof.vector_peak < 0.95 * roof.peak for roof in roofs):
        parts.append(text(388, 282 + 20 * len(roofs), "thin: the vector unit, or this mix"))
    return "".join(parts)


def _point(plane, roof, work, sign, color, size):
    """The predicted rate, and up to the roof what launches cost; a thin slope where this mix is a slower one."""
    (intensity, rate), (bandwidth, peak) = placed(roof, work), effective(roof, work)
    parts, place = [], min(max(intensity, plane.x[0]), plane.x[1])
    if bandwidth < 0.97 * roof.bandwidth:
        parts.append(plane.line([(plane.x[0], bandwidth * plane.x[0]), (peak / bandwidth, peak)], color, 1))
    parts.append(plane.line([(place, max(rate, plane.y[0])), (place, min(bandwidth * intensity, peak))], color, 1.5,
                            "1 3"))
    if intensity < plane.x[0] or rate < plane.y[0] or intensity > plane.x[1]:
        aside = -60 if intensity > plane.x[1] else 12
        parts.append(plane.label(intensity, rate, "beyond", dx=aside, dy=-8, color=color))
    return "".join([*parts, plane.point(intensity, rate, sign, color, filled=False, size=size)])
