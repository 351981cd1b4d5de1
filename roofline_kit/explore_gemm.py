"""How often is each number of a matrix product used, and what does a tile save? Its tiles, its bytes, its batch."""

import math
from dataclasses import replace
from functools import lru_cache

from .datasheets import chips
from .explore import Explorer, View, choice, sizes, slider
from .explore_roofline import DTYPES, machine
from .ops import gemm
from .recorded import recorded
from .report import needs_roof
from .svg import COLORS, GREY, INK, Plane, marker, path, picture, rect, text
from .units import itemsize, quantity, si

BLUE, ORANGE, RED = COLORS[:3]
PANEL, GAP, THIN, MOST = 292, 22, 8, 40        # of the matrices: side, room between two, thinnest; tiles with a grid
LARGEST = 2**26                                # of the batches that are tried
TITLE = "Reuse in a matrix product"
PLANE = Plane((1, 2**17), (0.1, 1e5), (398, 74, 662, 342))


def explore_gemm(m=1024, n=4096, k=4096, tile=128, chip="H100 SXM", dtype=None, roof=None):
    """C[m, n] = A[m, k] B[k, n]: its tiles, the bytes they load, the intensity, and the batch that fills the chip.

    tile:   side of a square tile of C, for which the tiles of A and B come from memory each time
    roof:   a Roofline of yours, such as rk.sustained(): the first of the list, and chosen
    dtype:  without one the roof's own, or bfloat16
    """
    if roof is not None:
        needs_roof(roof)
    own = [(f"{roof.name or 'roof'} ({roof.origin})", roof)] if roof else []
    asked = {"m": m, "n": n, "k": k, "tile": tile}
    labels = {"m": "m, the batch", "n": "n", "k": "k", "tile": "tile"}
    controls = [
        choice("chip", "chip", [*own, *chips(), *((f"{name} (recorded)", name) for name in recorded())], roof or chip),
        choice("dtype", "dtype", DTYPES, dtype or (roof.dtype if roof else "bfloat16")),
        *(slider(name, labels[name], sorted({*sizes(1, 2**11 if name == "tile" else 2**17, steps=2), size}), size)
          for name, size in asked.items()),
        slider("done", "steps done", range(0, 101, 4), 48, text="{} %".format),
    ]
    return Explorer(TITLE, controls, draw)


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
    def filled(m):
        times = roof.times(gemm(m, n, k, roof.dtype))
        return times.compute >= times.memory

    low, high = 0, LARGEST
    if not filled(high):
        return math.inf
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if filled(middle) else (middle, high)
    return high


def critical_tile(roof, k):
    """The side of a tile whose loads take as long as its arithmetic; it divides m and n; infinite where none does."""
    asked = itemsize(roof.dtype) * roof.ridge
    return asked / (1 - asked / (2 * k)) if asked < 2 * k else math.inf


def draw(chip, dtype, m, n, k, tile, done):
    """The tiles at one step beside the intensity over the batch; the counts of both ways below."""
    roof = machine(chip, dtype, 0.0)
    once, loaded = gemm(m, n, k, dtype), tiled(m, n, k, tile, dtype)
    told = sentences(roof, once, loaded, m, n, k, tile)
    figure = picture(TITLE, " ".join(told), _matrices(m, n, k, tile, done / 100), _background(roof),
                     _curves(roof, n, k, tile, dtype), PLANE.point(m, once.intensity, "o", BLUE, False, 7),
                     PLANE.point(m, loaded.intensity, "D", RED, False, 6), height=390)
    return View(figure, rows(roof, once, loaded, n, k, tile), told)


def rows(roof, once, loaded, n, k, tile):
    """Lines for the page: a column with each number moved once, a column with the tiles from memory."""
    batch, side = critical_batch(roof, n, k), critical_tile(roof, k)
    columns = [(si(work.nbytes, "B"), si(work.flops, "FLOP"), si(work.intensity, "FLOP/B"), si(roof.ridge, "FLOP/B"),
                *(si(seconds, "s") for seconds in roof.times(work)[:2]), f"{roof.bound(work)}-bound", needed)
               for work, needed in ((once, _or_none("m", batch)), (loaded, _or_none("tile about", side)))]
    heads = ("bytes", "FLOPs", "arithmetic intensity", "ridge point", "memory", "arithmetic", "bound",
             "compute-bound from")
    return (("", "each number once", f"tiles of {tile}"), *zip(heads, *columns))


def _or_none(name, least):
    return f"{name} {math.ceil(least):,}" if least < math.inf else "none"


def sentences(roof, once, loaded, m, n, k, tile):
    """What the reuse comes to, and what a tile does to it."""
    across, down = -(-n // tile), -(-m // tile)
    batch, side, b = critical_batch(roof, n, k), critical_tile(roof, k), itemsize(roof.dtype)
    critical = (f"the critical batch is {math.ceil(batch):,}" if batch < math.inf else
                "no batch makes it compute-bound, for the other two sides are too short")
    reach = (f"A tile of {math.ceil(side):,} would reach the ridge point; three of them take "
             f"{si(3 * b * side**2, 'B')}." if side < math.inf else
             "No tile reaches the ridge point, for k is too short.")
    reuse = (f"Each number of A is used {_often(n)}, each of B {_often(m)}, and each of C has {k:,} terms: "
             f"{si(once.intensity, 'FLOP/B')} against a ridge point of {si(roof.ridge, 'FLOP/B')} on {roof.name}; "
             f"{critical}.")
    return reuse, (f"In tiles of {tile:,} from memory, A is loaded {_often(across)} and B {_often(down)}: "
                   f"{si(loaded.intensity, 'FLOP/B')}, {loaded.nbytes / once.nbytes:,.1f} times the bytes. {reach}")


def _often(times):
    return "once" if times == 1 else f"{times:,} times"


def _matrices(m, n, k, tile, share):
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
    names = (text(16, y - 6, "A", bold=True), text(x - 6, 58, "B", "end", bold=True),
             text(x + wide + 5, y + 12, "C", bold=True))
    turn = 1 + (share < 1) * math.floor(share * total(m, n, k, tile)) + (share >= 1) * (total(m, n, k, tile) - 1)
    return "".join([*parts, *names, text(4, 22, f"step {turn:,} of {total(m, n, k, tile):,}"),
                    text(4, 382, "hatched: loaded in this step; filled: C so far")])


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
def _background(roof):
    """Axes, the ridge point, and what the lines are."""
    return "".join([
        PLANE.frame("batch m", ""), text(350, 22, "arithmetic intensity [FLOP/B]"),
        path([(352, 39), (376, 39)], BLUE, 2.5), marker(364, 39, "o", BLUE, False, 5), text(382, 44, "each once"),
        path([(468, 39), (492, 39)], RED, 2.5, "6 3"), marker(480, 39, "D", RED, False, 5), text(498, 44, "in tiles"),
        path([(566, 39), (590, 39)], INK, 1.5, "2 3"), text(596, 44, "ridge"),
        PLANE.line([(PLANE.x[0], roof.ridge), (PLANE.x[1], roof.ridge)], INK, 1.5, "2 3")])


@lru_cache(256)
def _curves(roof, n, k, tile, dtype):
    """The intensity over the batch, moved once and in tiles; a mark at the critical batch."""
    batches = [2 ** (place / 4) for place in range(69)]
    whole = sorted({round(batch) for batch in batches})
    batch = critical_batch(roof, n, k)
    places = [PLANE.at(batch, roof.ridge), PLANE.at(batch, PLANE.y[0])]
    mark = path(places, INK, 1, "2 3") if batch <= PLANE.x[1] else ""
    return mark + PLANE.line([(size, gemm(size, n, k, dtype).intensity) for size in whole], BLUE, 2.5) + PLANE.line(
        [(size, tiled(size, n, k, tile, dtype).intensity) for size in whole], RED, 2.5, "6 3")
