"""Does the machine card find what the machine can do? Paired runs of the card and of C, and their ratios.

    python benchmarks/card_against_c.py [--pairs 5] [--json]

A pair is: C and BLAS, a fresh card, C and BLAS again, all within about a minute. Both sides follow one rule:
a roof is the best configuration's median, in the best of several rounds (six in a card; in C three before
it and three after). Prints for each roof the median of the ratios card / C, each ratio, and how far the cards
differ from one another.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
TARGETS = {"bandwidth": 0.92, "vector float32": 0.92, "vector float64": 0.92, "matrix float32": 0.95,
           "matrix float64": 0.95}
ROUNDS = 3               # of C's STREAM on each side of a card
PRODUCTS = (1024, 2048, 3072)


def compiled(name, folder):
    """The path of one of the C programs beside this file, compiled for this machine."""
    program = Path(folder) / name
    flags = ["-O3", "-march=native", "-ffp-contract=fast", "-fopenmp"]
    try:
        subprocess.run([os.environ.get("CC", "gcc"), *flags, HERE / f"{name}.c", "-o", program], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"the C side needs gcc with OpenMP, or another compiler named in CC: {error}")
    return program


def output(*command, env=None):
    """What a command prints; what it has to complain about goes to the terminal."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=env).stdout


def roofs(memory, vector, matrix):
    return {"bandwidth": memory, **{f"vector {dtype}": rate for dtype, rate in vector.items()},
            **{f"matrix {dtype}": rate for dtype, rate in matrix.items()}}


def rates(program):
    """{first word of a line: its best rate}"""
    best = {}
    for line in output(program).splitlines():
        name, _, rate = line.split()
        best[name] = max(best.get(name, 0), float(rate))
    return best


def products():
    """{dtype: FLOP/s of the best median of large matrix products}, by NumPy and the clock alone."""
    import numpy as np

    best = {}
    for dtype in ("float32", "float64"):
        for n in PRODUCTS:
            a, b = np.random.default_rng(n).standard_normal((2, n, n)).astype(dtype)
            out, seconds = a @ b, []
            for _ in range(7):
                start = time.perf_counter()
                np.matmul(a, b, out=out)
                seconds.append(time.perf_counter() - start)
            best[dtype] = max(best.get(dtype, 0), 2 * n**3 / statistics.median(seconds))
    return best


def reference(stream, fma):
    """{roof: rate} of C and BLAS now."""
    memory = max(max(rates(stream).values()) for _ in range(ROUNDS))
    vector = rates(fma)
    matrix = json.loads(output(sys.executable, __file__, "--products"))
    return roofs(memory, vector, matrix)


def card(folder):
    """{roof: rate} of a fresh card, and the seconds that the command took."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "roofline_kit", "--json", "--fresh"]
    environment = {**os.environ, "ROOFLINE_KIT_CACHE": folder}
    data = json.loads(output(*command, env=environment))
    seconds = time.perf_counter() - start
    return roofs(data["bandwidth"], data["vector_peak"], data["peak"]), seconds, data["warnings"]


def pair(stream, fma, folder):
    before = reference(stream, fma)
    found, seconds, warnings = card(folder)
    after = reference(stream, fma)
    return {"card": found, "c": {roof: max(before[roof], after[roof]) for roof in before}, "c_before": before,
            "c_after": after, "seconds": seconds, "warnings": warnings}


def summary(pairs):
    """{roof: its ratios and spreads}; a spread is (largest - smallest) / median."""
    rows = {}
    for roof, target in TARGETS.items():
        mine, theirs = ([p[side][roof] for p in pairs] for side in ("card", "c"))
        ratios = [m / t for m, t in zip(mine, theirs)]
        rows[roof] = {"median": statistics.median(ratios), "target": target, "ratios": ratios,
                      "card": statistics.median(mine), "c": statistics.median(theirs),
                      "spread": (max(mine) - min(mine)) / statistics.median(mine),
                      "spread_c": (max(theirs) - min(theirs)) / statistics.median(theirs)}
    return rows


def main():
    parser = argparse.ArgumentParser(description="The machine card against C and BLAS, in paired runs.")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--products", action="store_true", help="only time the matrix products, print JSON")
    told = parser.parse_args()
    if told.products:
        return print(json.dumps(products()))
    with tempfile.TemporaryDirectory() as folder:
        stream, fma = compiled("stream", folder), compiled("fma", folder)
        pairs = []
        for number in range(told.pairs):
            pairs.append(pair(stream, fma, folder))
            seconds = pairs[-1]["seconds"]
            print(f"pair {number + 1} of {told.pairs}: the card took {seconds:.1f} s", file=sys.stderr)
            for warning in pairs[-1]["warnings"]:
                print(f"  ! {warning}", file=sys.stderr)
    rows = summary(pairs)
    if told.json:
        return print(json.dumps({"summary": rows, "pairs": pairs}, indent=1))
    print(f"{'roof':16} card / C  target  {'card':>9} {'C':>9}  spread of cards, of C   each ratio")
    for roof, row in rows.items():
        each = " ".join(f"{ratio:.2f}" for ratio in row["ratios"])
        card_rate, c_rate = row["card"] / 1e9, row["c"] / 1e9
        print(f"{roof:16} {row['median']:8.3f}  {row['target']:6.2f}  {card_rate:8.1f}G {c_rate:8.1f}G  "
              f"{100 * row['spread']:11.0f} % {100 * row['spread_c']:6.0f} %   {each}")
    print(f"a card took {statistics.median(p['seconds'] for p in pairs):.1f} s")


if __name__ == "__main__":
    main()
