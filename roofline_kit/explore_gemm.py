"""How often is each number of a matrix product used, and what does a tile save? Its tiles, its bytes, its batch."""

import math
from dataclasses import replace
from functools import lru_cache, partial

from .explore import Explorer, View, choice, sizes, slider
from .explore_roofline import DTYPES, effective, listed, machine, too_large, whole
from .ops import gemm
from .svg import COLORS, GREY, INK, Plane, marker, path, picture, rect, text
from .units import itemsize, quantity, si

BLUE, ORANGE, RED = COLORS[:3]
PANEL, GAP, THIN, MOST = 292, 22, 8, 40        # of the matrices: side, room between two, thinnest; tiles with a grid
LARGEST = 2**26                                # of the batches that are tried
NAMES = "A", "B", "C"
TITLE = "Reuse in a matrix product"
PLANE = Plane((1, 2**17), (0.1, 1e5), (398, 74, 662, 342))


def explore_gemm(m=1024, n=4096, k=4096, tile=512, chip="H100 SXM", dtype=None, roof=None, names=NAMES):
    """C[m, n] = A[m, k] B[k, n]: its tiles, the bytes they load, the intensity, and the batch that fills the chip.

    tile:   side of a square tile of C, for which the tiles of A and B come from memory each time
    roof:   a Roofline of yours, such as rk.sustained(): the first of the list, and chosen
    dtype:  without one the roof's own, or bfloat16
    names:  of the three matrices in the picture and the sentences, as ("x", "W", "y")
    """
    if not isinstance(names, (tuple, list)) or len(names) != 3 or not all(isinstance(name, str) for name in names):
        raise ValueError(f"names is {names!r}, but it must be three names of matrices, as ('x', 'W', 'y').")
    dtype, machines, chip = listed(chip, roof, dtype)
    asked = {name: whole(name, size) for name, size in (("m", m), ("n", n), ("k", k), ("tile", tile))}
    labels = {"m": "m, the batch", "n": "n", "k": "k", "tile": "tile"}
    controls = [
        choice("chip", "chip", machines, chip), choice("dtype", "dtype", DTYPES, dtype),
        *(slider(name, labels[name], sorted({*sizes(1, 2**11 if name == "tile" else 2**17, steps=2), size}), size)
          for name, size in asked.items()),
        slider("done", "steps done", range(0, 101, 4), 48, text="{} %".format),
    ]
    return Explorer(TITLE, controls, partial(draw, names=tuple(names)))


def tiled(m, n, k, tile, dtype="float32"):
    """The same product in tiles of C, with each tile of A and B loaded from memory when its turn comes.

    Bytes:   b (m k ceil(n / tile) + k n ceil(m / tile) + m n); for sizes that the tile divides b (2 m n k / tile + m n)
    """
    work, tile = gemm(m, n, k, dtype), quantity("tile", tile, least=1, whole=True)
    loads = m * k * -(-n // tile) + k * n * -(-m // tile)
    return replace(work, nbytes=itemsize(dtype) * (loads + m * n), name=f"tile {tile}")


@lru_cache(1024)
def critical_batch(roof, n, k):
    """The m from which on the arithmetic takes at least as long as the bytes, each moved once; infinite where none is.

    Closed form:  1/m = 2 / (b ridge) - 1/n - 1/k, on a roof with one bandwidth and no write-allocate
    """
    return _first(lambda m: _filled(roof, gemm(m, n, k, roof.dtype)), LARGEST)


@lru_cache(1024)
def critical_tile(roof, m, n, k):
    """The side from which on tiles from memory are compute-bound: a larger one never loads more; infinite for none.

    Rule:  b ridge where m, n and k are large (lesson 06); C's own bytes and sides that no tile divides ask for more
    """
    return _first(lambda tile: _filled(roof, tiled(m, n, k, tile, roof.dtype)), max(m, n))


def _filled(roof, work):
    times = roof.times(work)
    return times.compute >= times.memory


def _first(holds, high):
    """The least whole number from 1 to `high` from which on it holds; infinite where it does not at `high`."""
    low = 0
    if not holds(high):
        return math.inf
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def draw(chip, dtype, m, n, k, tile, done, names=NAMES):
    """The tiles at one step beside the intensity over the batch; the counts of both ways below."""
    roof = machine(chip, dtype, 0.0)
    once, loaded = gemm(m, n, k, dtype), tiled(m, n, k, tile, dtype)
    told = sentences(roof, once, loaded, (m, n, k), tile, names)
    figure = picture(TITLE, " ".join(told), _matrices(m, n, k, tile, done / 100, names), _background(),
                     _curves(roof, n, k, tile, dtype), PLANE.point(m, once.intensity, "o", BLUE, False, 9),
                     PLANE.point(m, loaded.intensity, "D", RED, False, 4.5), height=390)    # the smaller one on top
    return View(figure, rows(roof, once, loaded, (m, n, k), tile), told)


def rows(roof, once, loaded, sizes, tile):
    """Lines for the page: a column with each number moved once, a column with the tiles from memory."""
    batch, side = critical_batch(roof, *sizes[1:]), critical_tile(roof, *sizes)
    columns = [(si(work.nbytes, "B"), si(work.flops, "FLOP"), si(work.intensity, "FLOP/B"), _ridge(roof, work),
                *(si(seconds, "s") for seconds in roof.times(work)[:2]), f"{roof.bound(work)}-bound", needed)
               for work, needed in ((once, _or_none("m", batch)), (loaded, _or_none("tile", side)))]
    heads = ("bytes", "FLOPs", "arithmetic intensity", "ridge point", "memory", "arithmetic", "bound",
             "compute-bound from")
    return (("", "each number once", f"tiles of {tile:,}"), *zip(heads, *columns))


def _ridge(roof, work):
    """The ridge point for this work's mix of loads and stores, in words."""
    bandwidth, peak = effective(roof, work)
    return si(peak / bandwidth, "FLOP/B")


def _or_none(name, least):
    return f"{name} {least:,}" if least < math.inf else "none"


def sentences(roof, once, loaded, sizes, tile, names=NAMES):
    """What the reuse comes to, what a tile does to it, and whether the arrays fit."""
    (m, n, k), (a, b, c) = sizes, names
    batch, side, short = critical_batch(roof, n, k), critical_tile(roof, m, n, k), _short(roof, n, k)
    critical = f"the critical batch is {batch:,}" if batch < math.inf else f"no batch makes it compute-bound: {short}"
    why = short if batch == math.inf else "m is below the critical batch"
    reach = _reach(roof, sizes, side, names) if side < math.inf else f"No tile makes it compute-bound: {why}."
    more = loaded.nbytes / once.nbytes
    told = [(f"Each number of {a} is used {_often(n)}, each of {b} {_often(m)}, and each of {c} has {k:,} "
             f"{'term' if k == 1 else 'terms'}: {si(once.intensity, 'FLOP/B')} against a ridge point of "
             f"{_ridge(roof, once)} on {roof.name}; {critical}."),
            (f"In tiles of {tile:,} from memory, {a} is loaded {_often(-(-n // tile))} and {b} "
             f"{_often(-(-m // tile))}: {si(loaded.intensity, 'FLOP/B')}, "
             f"{'the same bytes' if more == 1 else f'{three(more)} times the bytes'}. {reach}")]
    return (*told, *too_large(once.nbytes, [roof]))


def _reach(roof, sizes, side, names):
    """The tile that is large enough, beside lesson 06's rule where that one is near, and what three tiles take."""
    size, (m, n, k) = itemsize(roof.dtype), (min(side, each) for each in sizes)
    rule = math.ceil(size * roof.ridge)
    near = (f", a little more than {size:g} x ridge point = {rule:,}, for {names[2]}'s own bytes and for whole tiles"
            if rule < side <= 1.2 * rule else "")
    return (f"From a tile of {side:,} on it is compute-bound{near}; one of each matrix takes "
            f"{si(size * (m * k + k * n + m * n), 'B')}.")


def _short(roof, n, k):
    """Which of the two sides keeps a product of any batch memory-bound, each beside a very long one, or both."""
    alone = [critical_batch(roof, n, LARGEST), critical_batch(roof, LARGEST, k)]
    found = [name for name, batch in zip("nk", alone) if batch == math.inf]
    return f"{found[0]} is too short" if len(found) == 1 else "n and k are too short"


def three(number):
    """A ratio with three significant digits."""
    rounded = float(f"{number:.2e}")
    return f"{rounded:,.{max(0, 2 - math.floor(math.log10(rounded)))}f}"


def _often(times):
    return "once" if times == 1 else f"{times:,} times"


def _matrices(m, n, k, tile, share, names):
    """A on the left, B above, C: the tiles in use at one step, what is finished, and a grid where it can be seen."""
    scale = (PANEL - GAP) / (k + max(m, n))
    high, wide, deep = (max(THIN, scale * size) for size in (m, n, k))
    x, y = 16 + deep + GAP, 46 + deep + GAP                   # the corner of C
    top, left, start = step(m, n, k, tile, share)
    rows, columns, terms = min(tile, m - top), min(tile, n - left), min(tile, k - start)
    down, right, along = high / m, wide / n, deep / k         # units for a number
    parts = [rect(16, y, deep, high, "#fff"), rect(x, 46, wide, deep, "#fff"), rect(x, y, wide, high, "#fff"),
             rect(16, y + down * top, deep, down * rows, BLUE, alpha=0.15),
             rect(x + right * left, 46, right * columns, deep, ORANGE, alpha=0.2),
             rect(x, y, wide, down * top, RED, alpha=0.45),
             rect(x, y + down * top, right * left, down * rows, RED, alpha=0.45),
             _grid(16, y, deep, high, k / tile, m / tile), _grid(x, 46, wide, deep, n / tile, k / tile),
             _grid(x, y, wide, high, n / tile, m / tile),
             rect(16 + along * start, y + down * top, max(3, along * terms), max(3, down * rows), BLUE, hatch=5),
             rect(x + right * left, 46 + along * start, max(3, right * columns), max(3, along * terms), ORANGE,
                  hatch=-5),
             rect(x + right * left, y + down * top, max(3, right * columns), max(3, down * rows), RED)]
    labels = (text(16, y - 6, names[0], bold=True), text(x - 6, 58, names[1], "end", bold=True),
              text(x + wide + 5, y + 12, names[2], bold=True))
    turn = 1 + (share < 1) * math.floor(share * total(m, n, k, tile)) + (share >= 1) * (total(m, n, k, tile) - 1)
    return "".join([*parts, *labels, text(4, 22, f"step {turn:,} of {total(m, n, k, tile):,}"),
                    text(4, 382, f"hatched: loaded in this step; filled: {names[2]} so far")])


def total(m, n, k, tile):
    """Steps in all: tiles of C times tiles along k."""
    return math.prod(-(-size // tile) for size in (m, n, k))


def step(m, n, k, tile, share):
    """(top, left, start) of the step at this share of all, in the order of tiles.steps."""
    number = min(math.floor(share * total(m, n, k, tile)), total(m, n, k, tile) - 1)
    along, across = -(-k // tile), -(-n // tile)
    return number // (along * across) * tile, number // along % across * tile, number % along * tile


def _grid(x, y, wide, high, across, down):
    """Lines between tiles, as far as there are not too many."""
    marks = []
    if 1 < across <= MOST:
        marks += [f"M{x + wide * i / across:.1f} {y:.1f}v{high:.1f}" for i in range(1, math.ceil(across))]
    if 1 < down <= MOST:
        marks += [f"M{x:.1f} {y + high * i / down:.1f}h{wide:.1f}" for i in range(1, math.ceil(down))]
    return f'<path d="{"".join(marks)}" stroke="{GREY}" stroke-width="0.5"/>' if marks else ""


@lru_cache(64)
def _background():
    """Axes, and what the lines are."""
    return "".join([
        PLANE.frame("batch m", ""), text(350, 22, "arithmetic intensity [FLOP/B]"),
        path([(352, 39), (376, 39)], BLUE, 2.5), marker(364, 39, "o", BLUE, False, 5), text(382, 44, "each once"),
        path([(468, 39), (492, 39)], RED, 2.5, "6 3"), marker(480, 39, "D", RED, False, 5), text(498, 44, "in tiles"),
        path([(566, 39), (590, 39)], INK, 1.5, "2 3"), text(596, 44, "ridge")])


@lru_cache(256)
def _curves(roof, n, k, tile, dtype):
    """The intensity over the batch, moved once and in tiles; the ridge point, and a mark at the critical batch."""
    batches = [2 ** (place / 4) for place in range(69)]
    shown = sorted({round(batch) for batch in batches})
    batch = critical_batch(roof, n, k)
    bandwidth, peak = effective(roof, gemm(min(batch, shown[-1]), n, k, dtype))
    ridge = peak / bandwidth
    mark = PLANE.line([(PLANE.x[0], ridge), (PLANE.x[1], ridge)], INK, 1.5, "2 3")
    if batch <= PLANE.x[1]:
        mark += path([PLANE.at(batch, ridge), PLANE.at(batch, PLANE.y[0])], INK, 1, "2 3")
    return mark + PLANE.line([(size, gemm(size, n, k, dtype).intensity) for size in shown], BLUE, 2.5) + PLANE.line(
        [(size, tiled(size, n, k, tile, dtype).intensity) for size in shown], RED, 2.5, "6 3")
