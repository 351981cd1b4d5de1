"""Which numbers of a GPU's machine card are possible at all? Its datasheet, and a few laws, as rows of a table."""

from dataclasses import dataclass

import roofline_kit as rk
from roofline_kit.datasheets import table
from roofline_kit.roofline import ABOVE

HEAD = ("what", "measured", "expected", "verdict")
COPY = (0.80, 0.95)      # of the datasheet's bandwidth: a memory must refresh its rows and turn from reads to writes
LEAST_GEMM = 0.65        # of the datasheet's rate, for random data in float16
LAUNCH = (1e-6, 10e-6)   # s on the host
AGREE = 0.10             # by which two clocks may differ on a call of a tenth of a millisecond or more


@dataclass(frozen=True)
class Row:
    """One law: what was measured, and between which limits it must lie, both included."""

    what: str
    measured: float
    low: float
    high: float

    @property
    def holds(self):
        return bool(self.low <= self.measured <= self.high)

    def cells(self):
        """As text, in the order of `HEAD`."""
        expected = f"{self.low:.3g} to {self.high:.3g}" if self.low else f"at most {self.high:.3g}"
        return self.what, f"{self.measured:.3g}", expected, "holds" if self.holds else "DOES NOT HOLD"


def lines(rows):
    """The rows as lines of a table."""
    cells = [row.cells() for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in cells]


def worst(rows):
    """Of rows about the same thing the one with the largest number, or one that does not hold."""
    found = {}
    for row in rows:
        found[row.what] = max(found.get(row.what, row), row, key=lambda one: (not one.holds, one.measured))
    return list(found.values())


def chip(name):
    """The datasheets' name of a GPU; None where they have none."""
    return next((row["name"] for row in table().values() if name and row["driver"] == name), None)


def of_datasheet(card, name):
    """Rows (what, measured, low, high) that set a card beside the datasheet of that chip, as shares of it."""
    data, promised = card.data, _datasheets(name)
    bandwidth = promised["float32"].bandwidth
    yield "copy / datasheet", data["mixes"]["copy"]["counted"] / bandwidth, *COPY
    for label, mix in data["mixes"].items():
        yield f"{label} on the bus / datasheet", mix["bandwidth"] / bandwidth, 0, ABOVE
    for dtype, peak in data["peak"].items():
        if dtype in promised:
            least = LEAST_GEMM if dtype == "float16" else 0
            yield f"{dtype} products / datasheet", peak / promised[dtype].peak, least, ABOVE
    for dtype in ("float64", "float32"):                     # narrow numbers are multiplied in pairs: not promised
        share = data["vector_peak"][dtype] / promised[dtype].vector_peak
        yield f"{dtype} multiply-adds / datasheet", share, 0, ABOVE


def _datasheets(name):
    """{dtype: Roofline} of what the datasheet has a figure for."""
    found = {}
    for dtype in rk.DTYPES:
        try:
            found[dtype] = rk.datasheet(name, dtype)
        except ValueError:                                   # the chip has no unit for it
            continue
    return found


def of_any(card):
    """Rows that hold on every GPU."""
    overheads = card.data["overheads"]
    yield "a launch [s]", card.data["overhead"], *LAUNCH
    yield "a launch in a graph / a launch", overheads["a launch in a graph"] / overheads["a launch"], 0, 1


def of_clocks(runs):
    """Rows that set the time by each clock beside that of the first."""
    first, *others = runs
    for run in others:
        yield f"{run.name}: {run.clock} / {first.clock}", run.seconds / first.seconds, 1 - AGREE, 1 + AGREE
