"""Which parts of the matrices are on the chip at each step of a tiled product? A figure, a panel for each step."""

from itertools import product

from .plot import STYLE, _colors, _quiet
from .units import quantity

GAP = 1.0                # numbers between two matrices of a panel
ROOM = 3.0               # and between two panels
LINE = {"linewidth": 0.8, "edgecolor": "black"}


def steps(m, n, k, tile):
    """The steps of C[m, n] = A[m, k] B[k, n] in their order, as (top, left, start, numbers loaded so far).

    A tile of C begins at row `top` and column `left`; a step adds the products of the `tile` terms from `start` on,
    for which it loads a tile of A and a tile of B. All steps of a tile of C follow one another.
    """
    m, n, k, tile = (quantity(*size, least=1, whole=True)
                     for size in (("m", m), ("n", n), ("k", k), ("tile", tile)))
    found, loaded = [], 0
    for top, left, start in product(range(0, m, tile), range(0, n, tile), range(0, k, tile)):
        terms = min(tile, k - start)
        loaded += min(tile, m - top) * terms + terms * min(tile, n - left)
        found.append((top, left, start, loaded))
    return found


def draw_tiles(m, n, k, tile, shown=None, ax=None):
    """The tiles of A (left), B (above) and C in use, step by step: hatched is loaded in this step, filled is added up.

    m, n, k, tile:  a few numbers each
    shown:          numbers of the steps to draw, from 0; without them those of the first two tiles of C
    Returns:        the Matplotlib Axes
    Errors:         ValueError for sizes that are not whole, and for steps that do not exist
    """
    every, across = steps(m, n, k, tile), -(-k // tile)
    shown = list(range(min(2 * across, len(every)))) if shown is None else list(shown)
    if not shown or not set(shown) <= set(range(len(every))):
        raise ValueError(f"steps {shown} are to be drawn, but there are {len(every)}: choose 0 to {len(every) - 1}.")
    across = min(across, 4, len(shown))
    wide, high = k + GAP + n + ROOM, k + GAP + m + ROOM
    ax = ax or _empty(wide * across, high * -(-len(shown) // across))
    for place, number in enumerate(shown):
        _panel(ax, (m, n, k, tile), place, number, every[number], place % across * wide, place // across * high)
    ax.set(xlim=(-ROOM / 2, wide * across - ROOM / 2), ylim=(high * -(-len(shown) // across) - ROOM / 2, -ROOM / 2 - 1))
    return ax


def _empty(wide, high):
    """Axes without axes, for panels that are so many numbers wide and high."""
    import matplotlib.pyplot as plt

    plt.draw_if_interactive()                            # loads the backend, which must not happen inside the context
    with plt.style.context(["petroff10", STYLE]):
        width = STYLE["figure.figsize"][0]
        ax = plt.figure(figsize=(width, width * high / wide), layout="constrained").add_subplot(axes_class=_quiet())
    ax.set_aspect("equal")
    ax.set_axis_off()
    return ax


def _panel(ax, sizes, place, number, step, x, y):
    """The three matrices at one step, the corner of B's row at (x, y); y grows downwards."""
    (m, n, k, tile), (top, left, start, loaded) = sizes, step
    blue, orange, red, *_ = _colors()
    right, below = x + k + GAP, y + k + GAP
    height, width, terms = min(tile, m - top), min(tile, n - left), min(tile, k - start)
    for name, corner, size, label in (("A", (x, below), (k, m), (x - 0.5, below)),
                                      ("B", (right, y), (n, k), (right - 0.5, y)),
                                      ("C", (right, below), (n, m), (right + n + 0.5, below))):
        _box(ax, corner, size, "white")
        if not place:
            ax.annotate(name, label, ha="left" if name == "C" else "right", va="top", fontsize=12)
    _box(ax, (x, below + top), (k, height), blue, alpha=0.12)                    # the rows and the columns that this
    _box(ax, (right + left, y), (width, k), orange, alpha=0.12)                  # tile of C is made of
    for done in range(0, m, tile):
        for column in range(0, n, tile):
            if (done, column) < (top, left):
                _box(ax, (right + column, below + done), (min(tile, n - column), min(tile, m - done)), red)
    _box(ax, (x + start, below + top), (terms, height), blue, hatch="////", alpha=0.6)
    _box(ax, (right + left, y + start), (width, terms), orange, hatch="\\\\\\\\", alpha=0.6)
    _box(ax, (right + left, below + top), (width, height), red, alpha=0.35 + 0.4 * (start + terms) / k)
    ax.annotate(f"step {number + 1}: {loaded} loaded", (x, below + m + 0.4), va="top", fontsize=9)


def _box(ax, corner, size, color, **looks):
    from matplotlib.patches import Rectangle

    ax.add_patch(Rectangle(corner, *size, facecolor=color, **{**LINE, **looks}))
