"""What does the maker promise? Dense peaks and bandwidths of accelerators, each row with its source."""

import csv
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
    return {row["name"]: row for row in csv.DictReader(line for line in lines if not line.startswith("#"))}


def chips():
    """The names in the table."""
    return tuple(table())


def _find(name):
    """The one row that `name` means. 'H200' is enough; 'A100' is not: three chips share it and their ridges differ."""
    if name in table():
        return table()[name]
    words = str(name).lower().split()
    fits = [chip for chip in table() if words and set(words) <= set(chip.lower().split())]
    if len(fits) == 1:
        return table()[fits[0]]
    if fits:
        raise ValueError(f"{name!r} fits several chips with different bandwidths: say {' or '.join(map(repr, fits))}.")
    raise ValueError(nearest(name, table(), "chip"))


def datasheet(name, dtype="bfloat16"):
    """The roofline that a datasheet promises: dense, accumulated in float32, no overhead.

    name:    a chip of `chips()`, or words that fit only one of them
    Source:  the row's own; printed by the roofline's `note` where a figure comes from secondary text only
    Errors:  ValueError for an unknown or ambiguous chip, and for a dtype the chip has no sourced rate for
    """
    itemsize(dtype)
    row = _find(name)

    def rate(column):
        return float(row[column]) * 1e12 if column and row[column] else None

    peaks = {known: next((column for column in columns if row[column]), None) for known, columns in _MATRIX.items()}
    column = peaks.get(dtype)
    if column is None:
        has = ", ".join(known for known in peaks if peaks[known])
        raise ValueError(f"{row['name']} has no unit for {dtype}, or no sourced rate: it has {has}.")
    vector = _VECTOR.get(dtype, "fp32")
    doubtful = [cell for cell in row["unsourced"].split() if cell in (column, vector)]
    link = float(row["link"]) * 1e9 if row["link"] else None
    return Roofline(rate(column), float(row["bandwidth"]) * 1e9, vector_peak=rate(vector), name=row["name"],
                    dtype=dtype, origin="datasheet", link=link,
                    note="from secondary text: " + ", ".join(doubtful) if doubtful else "")
