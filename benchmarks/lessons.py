"""Do the measured conclusions of the lessons hold here? Their own cells are run, and the ratios that count printed.

    python benchmarks/lessons.py [03 05 06 07 10 12 13] [--rounds 5]

A ratio is that of one run; what a shared machine does to it is seen over the rounds.
"""

import argparse
import os
import re
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "16")       # as course.py sets it, before NumPy is here

import matplotlib

matplotlib.use("Agg")                    # before pyplot, which draws into nothing then

import matplotlib.pyplot as plt

import roofline_kit as rk

SOURCES = Path(__file__).parents[1] / "source/lessons"
CELL = re.compile(r"```\{code-cell\} python\n(?::[^\n]*\n)*(.*?)```", re.DOTALL)
SLOWEST = "max(run.seconds for run in runs.values()) / min(run.seconds for run in runs.values())"
TRACED = "max(abs(count.loaded * tile / (8 * rows * columns * depth) - 1) for tile, count in counts.items())"
MEMORY, COMPUTE = "gains(2, x)", "gains(128, x[:n // 64] if dev.kind == 'cpu' else x)"
CLAIMS = {  # lesson: (what, its value in the lesson's own names, least, most)
    "03": [("slowest over fastest of equal FLOPs", SLOWEST, 3, 1e6)],
    "05": [("measured knee over derived critical batch", "knee / derived", 0.5, 2)],
    "06": [("naive over tiled", "runs['naive'].seconds / runs['tiled'].seconds", 3, 1e6),
           ("traced bytes over 2mnk/t, less 1, worst tile", TRACED, 0, 0)],
    "07": [("memory-bound: gain of half the bytes", f"told_gain({MEMORY}, 'bytes')", 1.5, 9),
           ("memory-bound: gain of half the FLOPs", f"told_gain({MEMORY}, 'FLOPs')", 0, 1.15),
           ("compute-bound: gain of half the FLOPs", f"told_gain({COMPUTE}, 'FLOPs')", 1.5, 9),
           ("compute-bound: gain of half the bytes", f"told_gain({COMPUTE}, 'bytes')", 0, 1.15)],
    "10": [("LayerNorm: measured gain over predicted", "measured['layernorm'] / predicted['layernorm']", 0.6, 1e6),
           ("softmax: measured gain over predicted", "measured['softmax'] / predicted['softmax']", 0.6, 1e6),
           ("attention at 4096: memory of standard over flash", "less_memory", 4, 1e6),
           ("attention at 4096: time of standard over flash", "flash_gain", 1, 1e6)],
    "12": [("measured knee over derived batch", "knee / derived", 0.5, 2),
           ("growth with the context over the time of its KV bytes", "growth", 0.7, 1.3),
           ("end-to-end token over its prediction", "measured / predicted", 0.65, 1.35),
           ("gain of int8 weights over float32", "gains['int8']", 2, 9),
           ("gain of int4 weights over float32", "gains['int4']", 2.5, 9)],
    "13": [("T0 fitted over the overhead of the card", "T0 / here.overhead", 0.7, 1.3),
           ("four layers, 25 K weights: NumPy op by op over one Numba call", "small_gain", 3, 1e6),
           ("four layers, 100 K weights: the same", "deeper[4][0] / deeper[4][1]", 2, 1e6),
           ("calls behind p99", "min(len(found.seconds) for found in alone.values())", 10_000, 1e9),
           ("two ticks at once: throughput", "2 * one / two", 1.5, 2.2)],
}


def told_gain(text, what):
    """The number that a sentence of lesson 07 gives for that half."""
    return float(re.search(rf"half the {what}(?: gain)? ([\d.]+)", text)[1])


def claims(lesson):
    """(what, value, least, most) of each claim, after the lesson's code has run once."""
    names = {"told_gain": told_gain}
    source = next(SOURCES.glob(f"{lesson}_*.md")).read_text("utf-8")
    for code in CELL.findall(source):
        exec(compile(code, f"lesson {lesson}", "exec"), names)       # noqa: S102  the course's own text
        plt.close("all")
    return [(what, eval(value, names), least, most) for what, value, least, most in CLAIMS[lesson]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("lessons", nargs="*", default=list(CLAIMS), help=f"of {', '.join(CLAIMS)}")
    parser.add_argument("--rounds", type=int, default=1)
    told = parser.parse_args()
    print(rk.sustained(fresh=True), file=sys.stderr)
    failed = False
    for lesson in told.lessons:
        for _ in range(told.rounds):
            printed, sys.stdout = sys.stdout, sys.stderr              # the lesson's own output is beside the point
            try:
                found = claims(lesson)
            finally:
                sys.stdout = printed
            for what, value, least, most in found:
                held = least <= value <= most
                failed |= not held
                print(f"{lesson}  {what}: {value:.2f}  {'holds' if held else f'NOT between {least} and {most}'}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
