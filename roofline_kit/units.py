"""How large is a number of each dtype, and how is a quantity written for a reader?"""

import difflib
import math

# Bytes of one element. tfloat32 is a way to multiply: its numbers are stored in four bytes.
DTYPES = {
    "float64": 8, "float32": 4, "tfloat32": 4, "float16": 2, "bfloat16": 2,
    "int8": 1, "float8": 1, "int4": 0.5, "float4": 0.5,
}

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""),
             (1e-3, "m"), (1e-6, "u"), (1e-9, "n"))


def nearest(name, names, what):
    """The sentence for a name that is not in `names`: it offers the nearest ones."""
    close = difflib.get_close_matches(str(name), names, n=3, cutoff=0.3) or list(names)[:6]
    return f"unknown {what} {name!r}: did you mean {' or '.join(map(repr, close))}?"


def itemsize(dtype):
    """Bytes of one element [B].

    Errors:  ValueError that offers the nearest names when the dtype is unknown
    """
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(nearest(dtype, DTYPES, "dtype"))
    return DTYPES[dtype]


def quantity(name, value, least=0.0, whole=False):
    """`value` if it is a finite number of at least `least`, else a ValueError that names it.

    whole:   as a Python int, since the products of sizes overflow in NumPy's
    """
    try:
        good = not isinstance(value, bool) and math.isfinite(value) and value >= least
        good = bool(good and (not whole or value == int(value)))
    except (TypeError, ValueError, OverflowError):
        good = False
    if good:
        return int(value) if whole else value
    kind = "a whole number" if whole else "a finite number"
    raise ValueError(f"{name} is {value!r}, but it must be {kind} of at least {least:g}.")


def si(value, unit="", digits=3):
    """A quantity with `digits` significant digits and a decimal prefix: si(7340032, "B") is '7.34 MB'.

    Counts without a unit are written the same way: si(2.1e9) is '2.1 G'. Zero and non-finite values carry no prefix.
    """
    if not math.isfinite(value) or value == 0:
        return f"{value:g} {unit}".rstrip()
    if unit == "FLOP/B":                                    # a ratio reads best without a prefix
        return f"{float(f'{value:.{digits - 1}e}'):,.10g} {unit}"
    rounded = float(f"{value:.{digits - 1}e}")           # 999.9 kB rounds to 1 MB, not to 1000 kB
    factor, prefix = next((p for p in _PREFIXES if abs(rounded) >= p[0]), _PREFIXES[-1])
    scaled = rounded / factor
    return f"{scaled:.{max(digits, len(str(int(abs(scaled)))))}g} {prefix}{unit}".rstrip()
