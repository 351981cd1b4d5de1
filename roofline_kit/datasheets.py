"""What does the maker promise? Dense peaks and bandwidths of accelerators, each row with its source."""

import csv
import html
from functools import cache
from pathlib import Path

from .roofline import Roofline
from .units import itemsize, nearest

# dtype -> columns that hold the rate of the matrix unit, best first: without a Tensor Core for float64 the plain
# units do it. The vector unit works in float32 for all the narrow dtypes.
_MATRIX = {"float64": ("fp64_tensor", "fp64"), "float32": ("fp32",), "tfloat32": ("tf32",), "float16": ("fp16",),
           "bfloat16": ("bf16",), "int8": ("int8",), "float8": ("fp8",), "float4": ("fp4",)}
_VECTOR = {"float64": "fp64"}


@cache
def table():
    """The rows of accelerators.csv as dicts of strings, by chip name."""
    lines = Path(__file__).with_name("accelerators.csv").read_text(encoding="utf-8").splitlines()
    return {row["name"]: sourced(row) for row in csv.DictReader(line for line in lines if not line.startswith("#"))}


def sourced(row):
    """The row itself. Errors: ValueError where nothing says who promises it, when, or at what bandwidth."""
    missing = [cell for cell in ("year", "bandwidth", "source", *row["unsourced"].split()) if not row[cell]]
    if missing:
        raise ValueError(f"the row of {row['name']} has no {' and no '.join(missing)}: such a rate is no fact.")
    return row


class Chips(tuple):
    """Names of chips, shown as the table that they come from.

    dtypes:  of one, rates and ridge point are shown; of several the ridge points alone
    years:   in which the chips came out
    """

    dtypes = ()

    @property
    def years(self):
        return tuple(int(table()[name]["year"]) for name in self)

    def rows(self):
        """The lines of the table as text, its head first. TFLOP/s and TB/s as in the source; ridge points in FLOP/B."""
        one = len(self.dtypes) == 1
        yield ("chip", "year", "TB/s", *(("TFLOP/s", "FLOP/B") if one else self.dtypes), "source")
        for name in self:
            row = table()[name]
            columns = [_column(row, dtype) for dtype in self.dtypes]
            marks = ["?" * (column in row["unsourced"].split()) for column in columns]
            ridges = [_short(1e3 * float(row[column]) / float(row["bandwidth"])) + mark if column else ""
                      for column, mark in zip(columns, marks)]
            rate = [row[columns[0]] + marks[0]] if one else []
            yield (name, row["year"], f"{float(row['bandwidth']) / 1e3:g}", *rate, *ridges, row["source"])

    def __repr__(self):
        lines = list(self.rows())
        widths = [max(map(len, column)) for column in zip(*lines)]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:-1], widths[1:]), row[-1]]) for row in lines]
        return "\n".join([*lines, self._note()])

    def _repr_html_(self):
        def line(tag, row):
            aligned = ["left", *["right"] * (len(row) - 2), "left"]
            cells = (f'<{tag} style="text-align:{side}">{html.escape(cell)}</{tag}>'
                     for side, cell in zip(aligned, row))
            return f"<tr>{''.join(cells)}</tr>"

        head, *rows = self.rows()
        body = "".join(line("td", row) for row in rows)
        return f"<table><thead>{line('th', head)}</thead><tbody>{body}</tbody></table><p>{self._note()}</p>"

    def _note(self):
        what = self.dtypes[0] if len(self.dtypes) == 1 else "Ridge points [FLOP/B]"
        doubtful = " ? from secondary text." if any("?" in cell for row in self.rows() for cell in row) else ""
        return f"{what}: dense, sums in float32, integers' in int32.{doubtful}"


def _short(ridge):
    return f"{ridge:.0f}" if ridge >= 100 else f"{ridge:.1f}"


def chips(*dtypes):
    """The names in the table, oldest chip first, shown as a table with sources.

    dtypes:  only chips that have a rate for one of these are listed; without any, all chips and all dtypes
    Errors:  ValueError for an unknown dtype
    """
    for dtype in dtypes:
        itemsize(dtype)
    asked = dtypes or tuple(_MATRIX)
    names = (name for name, row in table().items() if any(_column(row, dtype) for dtype in asked))
    found = Chips(sorted(names, key=lambda name: table()[name]["year"]))
    found.dtypes = asked
    return found


def _column(row, dtype):
    """The column with the rate of this row's matrix unit, or None."""
    return next((column for column in _MATRIX.get(dtype, ()) if row[column]), None)


def _find(name):
    """The one row that `name` means. 'H200' is enough; 'A100' is not: three chips share it and their ridges differ."""
    if name in table():
        return table()[name]
    for row in table().values():
        if name and name == row["driver"]:
            return row
    words = str(name).lower().split()
    fits = [chip for chip in table() if words and set(words) <= set(chip.lower().split())]
    if len(fits) == 1:
        return table()[fits[0]]
    if fits:
        raise ValueError(f"{name!r} fits several chips with different bandwidths: say {' or '.join(map(repr, fits))}.")
    raise ValueError(nearest(name, table(), "chip"))


def full_name(name):
    """The name of a chip as `chips()` has it. Errors: ValueError, as `datasheet`'s."""
    return _find(name)["name"]


def datasheet(name, dtype="bfloat16"):
    """The roofline that a datasheet promises: dense, accumulated in float32, no overhead.

    name:    a chip of `chips()`, words that fit only one of them, or what the driver calls it (a Device's name)
    Source:  the row's own; printed by the roofline's `note` where a figure comes from secondary text only
    Errors:  ValueError for an unknown or ambiguous chip, and for a dtype the chip has no sourced rate for
    """
    itemsize(dtype)
    row = _find(name)

    def rate(column):
        return float(row[column]) * 1e12 if column and row[column] else None

    column = _column(row, dtype)
    if column is None:
        has = ", ".join(known for known in _MATRIX if _column(row, known))
        raise ValueError(f"{row['name']} has no unit for {dtype}, or no sourced rate: it has {has}.")
    vector = _VECTOR.get(dtype, "fp32")
    doubtful = [cell for cell in row["unsourced"].split() if cell in (column, vector)]
    link = float(row["link"]) * 1e9 if row["link"] else None
    return Roofline(rate(column), float(row["bandwidth"]) * 1e9, vector_peak=rate(vector), name=row["name"],
                    dtype=dtype, origin="datasheet", link=link,
                    note="from secondary text: " + ", ".join(doubtful) if doubtful else "")
