"""By which factor, or by which term, is a wrong number off?"""

import math
import re

import numpy as np

_BINARY = {1.024: "1024 / 1000", 1.048576: "2**20 / 10**6", 1.073741824: "2**30 / 10**9"}
_NEAR = 0.015        # within this share of the right value it looks like a matter of rounding


def explain(given, right, inputs):
    """What separates wrong values from right ones, in words.

    given, right:  numbers, one of each for every set of inputs
    inputs:        dicts of the inputs; only the numbers among them are looked at
    """
    pairs = [(g, r) for g, r in zip(given, right) if r]
    if not pairs:
        return "not zero, but zero is right"
    if all(g == 0 for g, _ in pairs):
        return "always zero" if len(pairs) > 1 else "zero, but it should not be"
    ratios = [g / r for g, r in pairs]
    low, high = min(ratios), max(ratios)
    if math.isclose(low, high, rel_tol=1e-6):
        return _constant(low)
    found = monomial(ratios, inputs) if len(pairs) == len(inputs) else None
    if found:
        return f"{found} times the right value"
    gaps = [g - r for g, r in zip(given, right)]
    found = monomial(gaps, inputs, noise=max(map(abs, right))) if low > 1 or high < 1 else None
    if found:
        return _term(found, gaps)
    if max(abs(low - 1), abs(high - 1)) < _NEAR:
        return _nearly(max(abs(low - 1), abs(high - 1)))
    return f"{low:.3g} to {high:.3g} times the right value, depending on the inputs"


def _constant(ratio):
    """The words for a factor that does not depend on the inputs."""
    for factor, name in _BINARY.items():
        if math.isclose(ratio, factor, rel_tol=1e-6) or math.isclose(1 / ratio, factor, rel_tol=1e-6):
            return f"off by {name}: a binary prefix in place of a decimal one, or the other way round"
    if ratio < 0:
        return "of the wrong sign"
    if abs(ratio - 1) < _NEAR:
        return _nearly(abs(ratio - 1))
    if math.isclose(ratio, 2, rel_tol=1e-6) or math.isclose(ratio, 0.5, rel_tol=1e-6):
        return "twice the right value" if ratio > 1 else "half the right value"
    factor, side = (ratio, "large") if ratio > 1 else (1 / ratio, "small")
    power = round(math.log10(factor))
    prefix = power and power % 3 == 0 and math.isclose(factor, 10**power, rel_tol=5e-3)
    return f"too {side} by a factor of {factor:,.4g}" + (": a unit prefix?" if prefix else "")


def _nearly(error):
    return f"right to within {100 * error:.1g} %: is something rounded (// for /, too few digits)?"


def _term(found, gaps):
    way = "short by" if gaps[0] < 0 else "too large by"
    if found.replace(".", "").isdigit():
        return f"{way} {found}, whatever the inputs"
    return f"{way} a term that grows with {re.sub(r'^[0-9.e+-]+[*]', '', found)}"


def monomial(values, inputs, noise=0.0):
    """The product of a constant and powers of the inputs that all `values` equal: "2*n*k", "n/8", or None.

    noise:  size of the numbers that `values` are differences of: what float rounding may leave of them
    """
    names = [name for name, value in (inputs[0] if inputs else {}).items()
             if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0]
    sizes = np.abs(np.array(values, dtype=float))
    if len(values) < len(names) + 3 or not sizes.all() or len({v > 0 for v in values}) > 1:
        return None
    logs = np.log([[row[name] for name in names] for row in inputs]).reshape(len(values), len(names))
    fit = np.linalg.lstsq(np.column_stack([np.ones(len(values)), logs]), np.log(sizes), rcond=None)[0]
    powers = np.round(2 * fit[1:]) / 2
    constants = sizes / np.exp(logs @ powers)
    constant = float(np.median(constants))
    allowed = 1e-6 * constant + 1e-12 * noise / np.exp(logs @ powers)
    if (abs(powers) > 3).any() or (abs(constants - constant) > allowed).any():
        return None
    return _write(constant, dict(zip(names, powers)))


def _write(constant, powers):
    """2 and {n: 1, k: -1} as "2*n/k"."""
    above, below = ([name if abs(p) == 1 else f"sqrt({name})" if abs(p) == 0.5 else f"{name}**{abs(p):g}"
                     for name, p in powers.items() if sign * p > 0] for sign in (1, -1))
    if not math.isclose(constant, 1, rel_tol=1e-6):
        whole = constant < 1 and math.isclose(1 / constant, round(1 / constant), rel_tol=1e-6)
        (below if whole else above).insert(0, f"{round(1 / constant) if whole else constant:.6g}")
    text = "*".join(above) or "1"
    return text + (f"/{below[0]}" if len(below) == 1 else f"/({'*'.join(below)})" if below else "")
