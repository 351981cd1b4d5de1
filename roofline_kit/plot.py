"""Where does each point lie under the roof? Figures drawn from rooflines, works and recorded runs alone."""

import functools

from .labels import apart, place
from .report import ABOVE, attained, needs_roof

STYLE = {"figure.figsize": (7.2, 4.4), "figure.dpi": 100, "font.size": 10, "axes.spines.top": False,
         "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25, "lines.linewidth": 2}
LINES = {"measured": "-", "recorded": "-.", "datasheet": "--", "by hand": ":"}
MARKERS = "osD^vPX*<>hp"


@functools.cache
def _quiet():
    """Axes that a notebook shows as their figure alone, without a line of text for the Python object."""
    from matplotlib.axes import Axes

    return type("Axes", (Axes,), {"_ipython_display_": lambda self: None})


def _axes(ax, x, y):
    """Log-log axes in the course's style, with prefixed units on the ticks."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import EngFormatter, StrMethodFormatter

    if ax is None:
        plt.draw_if_interactive()                            # loads the backend: inside of the context its settings go
        with plt.style.context(["petroff10", STYLE]):
            ax = plt.figure(layout="constrained").add_subplot(axes_class=_quiet())
    ax.set(xscale="log", yscale="log", xlabel=x[0], ylabel=y[0])
    for axis, unit in ((ax.xaxis, x[1]), (ax.yaxis, y[1])):
        written = EngFormatter(unit) if unit is not None else StrMethodFormatter("{x:g}")
        axis.set_major_formatter(written)
        axis.set_minor_formatter(functools.partial(_between_decades, axis, written))
    return ax


def _between_decades(axis, written, value, position):
    """The label of a tick between two powers of ten, where the axis shows too few powers to be read by."""
    low, high = axis.get_view_interval()
    shown = "23456789" if high < 5 * low else "25" if high < 40 * low else ""
    return written(value) if f"{value:.0e}"[0] in shown else ""


def _colors():
    import matplotlib.style

    return matplotlib.style.library["petroff10"]["axes.prop_cycle"].by_key()["color"]


def _roof(ax, roof, span, color):
    """One roof: slope (with a band for its mixes) and flat; as thin lines the vector unit's and the caches' own.

    Returns: its name, as it stands in the figure
    """
    low, high = span
    style = LINES.get(roof.origin, ":")
    xs = [low, min(max(roof.ridge, low), high), high]
    ax.plot(xs, [roof.attainable(x) for x in xs], style, color=color, zorder=2)
    if roof.mixes:                                         # what other mixes of reads and writes can attain
        xs = [low, roof.ridge, min(roof.peak / roof.slowest(), high)]
        ax.fill_between(xs, [min(roof.peak, roof.slowest() * x) for x in xs], [roof.attainable(x) for x in xs],
                        color=color, alpha=0.12, linewidth=0, zorder=1)
    label = f"{roof.name or 'roof'} ({roof.origin}, {roof.dtype})"
    title = ax.annotate(label, (high, roof.attainable(high)), (0, 5), textcoords="offset points", ha="right",
                        color=color)
    if roof.vector_peak and roof.vector_peak < 0.95 * roof.peak:
        start = roof.vector_peak / roof.bandwidth
        ax.plot([start, high], [roof.vector_peak] * 2, style, color=color, linewidth=1, zorder=1)
        ax.annotate("vector unit", (high, roof.vector_peak), (0, -12), textcoords="offset points", ha="right",
                    color=color, fontsize=8)
    for _, bandwidth in roof.levels:
        end = min(high, max(roof.peak, roof.vector_peak or 0) / bandwidth)
        ax.plot([low, end], [bandwidth * low, bandwidth * end], "-", color=color, linewidth=0.8, alpha=0.5)
    if roof.levels:
        fastest, last = max(bandwidth for _, bandwidth in roof.levels), len(roof.levels)
        ax.annotate("L1" if last == 1 else f"L1 to L{last}", (low, fastest * low), (2, 6), textcoords="offset points",
                    color=color, fontsize=8)
    return title


def _point(ax, x, y, marker, color, filled, above=False):
    ax.plot([x], [y], marker, color=color, markerfacecolor=color if filled else "none", markersize=8, zorder=4)
    if above:
        ax.plot([x], [y], "o", markersize=17, markerfacecolor="none", markeredgecolor="red", markeredgewidth=2)


def plot(*roofs, runs=(), works=(), ax=None):
    """Rooflines with points under them: filled is measured, hollow is predicted by the first roof.

    roofs:   `Roofline`s; solid lines are measured, dash-dotted recorded, dashed a datasheet's
    runs:    `Run`s with their work; each is drawn with its prediction, and ringed where it lies above its roof
    works:   `Work`s to place without a measurement
    Returns: the Matplotlib Axes
    """
    if not roofs:
        raise ValueError("a roofline figure needs at least one roof: rk.plot(rk.sustained()).")
    for roof in roofs:
        needs_roof(roof)
    runs = (runs,) if hasattr(runs, "seconds") else tuple(runs)
    works = (works,) if hasattr(works, "flops") else tuple(works)
    placed = [(work, None) for work in works] + [(run.work, run) for run in runs if run.work is not None]
    placed.sort(key=lambda pair: pair[0].intensity)
    if any(not 0 < work.intensity < float("inf") for work, _ in placed):
        raise ValueError("a point needs FLOPs and bytes above 0 to have a place on the roofline.")
    intensities = [work.intensity for work, _ in placed] + [roof.ridge for roof in roofs]
    span = min([*intensities, 1]) / 4, max(intensities) * 6
    ax = _axes(ax, ("arithmetic intensity [FLOP/B]", None), ("arithmetic rate [FLOP/s]", "FLOP/s"))
    colors = _colors() * (len(roofs) // 10 + 2)             # ten that differ, then the same again
    titles = [_roof(ax, roof, span, color) for roof, color in zip(roofs, colors)]
    names, written = list(dict.fromkeys(work.name for work, _ in placed)), []
    for work, run in placed:
        marker, color = (cycle[names.index(work.name) % len(cycle)] for cycle in (MARKERS, colors[len(roofs):]))
        predicted = work.flops / roofs[0].seconds(work, *((run.cold, run.clock) if run else ()))
        _point(ax, work.intensity, predicted, marker, color, filled=False)
        above = run is not None and attained(roofs[0], run) > ABOVE
        if run:
            _point(ax, work.intensity, run.flop_per_s, marker, color, True, above)
        written.append((work.intensity, run.flop_per_s if run else predicted,
                        (run.name if run and run.name else work.name) + " (above its roof)" * above))
    ax.set_xlim(*span)
    if placed:
        ax.set_ylim(bottom=min(ax.dataLim.y0, *ax.get_ylim()) / 4)         # room for the names
    apart(ax, titles)
    place(ax, [name for name in written if name[2]])
    return ax


def plot_sweep(sizes, runs, value="bytes_per_s", xlabel=None, roof=None, marks=(), label="", ax=None):
    """A measured quantity against a size, with the spread of each point, and the roof's own as a line.

    sizes:   one number for each run, on the horizontal axis
    xlabel:  what they are; without one "bytes moved [B]", or what the Axes say already
    value:   "bytes_per_s", "flop_per_s" or "seconds"; or "ridge", with rooflines as runs and years as sizes
    roof:    draws what the roofline predicts for each run's work
    marks:   ((size, text), ..): vertical lines, such as the capacity of a cache; a size of ... is left out
    Returns: the Matplotlib Axes; pass it as `ax` to add a second sweep
    """
    titles = {"bytes_per_s": ("bandwidth [B/s]", "B/s"), "flop_per_s": ("arithmetic rate [FLOP/s]", "FLOP/s"),
              "seconds": ("time [s]", "s"), "ridge": ("ridge point [FLOP/B]", None)}
    if value not in titles:
        raise ValueError(f"value is {value!r}, but it must be one of {', '.join(titles)}.")
    sizes, runs = list(sizes), list(runs)
    if len(sizes) != len(runs) or not runs:
        raise ValueError(f"a sweep needs one size for each run: got {len(sizes)} sizes and {len(runs)} runs.")
    first = ax is None
    xlabel = xlabel or ("bytes moved [B]" if first else ax.get_xlabel())
    ax = _axes(ax, (xlabel, "B" if "[B]" in xlabel else None), titles[value])
    if value == "ridge":
        ax.set_xscale("linear")
        ax.xaxis.get_major_locator().set_params(integer=True)
    colors = _colors()
    color = colors[len(ax.collections) % len(colors)]
    ys = [getattr(run, value) for run in runs]
    halves = [y * getattr(run, "spread", 0) / 2 for y, run in zip(ys, runs)]
    ax.errorbar(sizes, ys, yerr=halves, fmt="o-", color=color, markersize=5, capsize=2)
    if label:
        ax.annotate(label, (sizes[-1], ys[-1]), (0, 8), textcoords="offset points", ha="right", color=color)
    if roof is not None:
        scale = {"bytes_per_s": lambda w, t: w.nbytes / t, "flop_per_s": lambda w, t: w.flops / t,
                 "seconds": lambda w, t: t}[value]
        predicted = [scale(run.work, roof.seconds(run.work, run.cold, run.clock)) for run in runs]
        ax.plot(sizes, predicted, "--", color=color, linewidth=1.2)
    for size, text in [mark for mark in marks if mark[0] is not ...] if first else ():
        ax.axvline(size, color="grey", linewidth=0.8)
        ax.annotate(text, (size, 1), (2, -10), xycoords=("data", "axes fraction"), textcoords="offset points",
                    color="grey", fontsize=8)
    return ax
