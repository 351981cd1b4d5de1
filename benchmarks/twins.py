"""Are the kit's CPU kernels fast enough to teach with? Its triad beside C's, its fused kernels under the measured roof.

    python benchmarks/twins.py [--pairs 15] [--json]

The triads, ours and C's, plain and past the caches, take turns on the same arrays, so that all see the same machine;
what is judged is the median of the ratios of neighbours. The roof is a fresh card, and what runs under it follows the
card's rule: the best of some rounds' medians. Takes most of a minute on an idle machine.
"""

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import roofline_kit as rk
from roofline_kit.kernels.streaming import triad_streaming

SOURCE = Path(__file__).with_name("stream.c")
ELEMENTS = 2**24         # of each of three float64 arrays: 400 MB, far more than the caches hold
ROUNDS = 8               # under the roof: short ones, as a shared machine is quiet for moments only
TARGETS = {"triad_streaming": 0.9, "layernorm": 0.6, "softmax": 0.6}


def c_triad(folder):
    """C's triad(out, x, y, past_the_caches), compiled for this machine."""
    library = Path(folder) / "stream.so"
    flags = ["-O3", "-march=native", "-ffp-contract=fast", "-fopenmp", "-shared", "-fPIC"]
    try:
        subprocess.run([os.environ.get("CC", "gcc"), *flags, SOURCE, "-o", library], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"the C side needs gcc with OpenMP, or another compiler named in CC: {error}")
    triad_on = ctypes.CDLL(library).triad_on

    def call(*arrays, past):
        triad_on(*(ctypes.c_void_p(array.ctypes.data) for array in arrays), ctypes.c_long(arrays[0].size), past)

    return call


def aligned(device):
    """An array as C wants it: NumPy's begin at a multiple of 16 bytes, C's vectors at one of 64."""
    array = device.random(ELEMENTS + 8, dtype="float64")
    begin = -(array.ctypes.data // 8) % 8
    return array[begin:begin + ELEMENTS]


def seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def triads(device, pairs, folder):
    """{name: its seconds, one for each turn}."""
    arrays = [aligned(device) for _ in range(3)]
    c, plain = c_triad(folder), device.kernel("triad")
    calls = {"C, past the caches": lambda: c(*arrays, past=1),
             "triad_streaming": lambda: triad_streaming(*arrays, 0.999),
             "C, plain": lambda: c(*arrays, past=0),
             "triad": lambda: plain(*arrays, 0.999)}
    for call in calls.values():
        call()                                           # compiles, and brings the pages in
    turns = [{name: seconds(call) for name, call in calls.items()} for _ in range(pairs)]
    return {name: [turn[name] for turn in turns] for name in calls}


def against_c(times):
    rows = []
    for name, rival in (("triad_streaming", "C, past the caches"), ("triad", "C, past the caches"),
                        ("triad", "C, plain"), ("C, plain", "C, past the caches")):
        ratios = [theirs / ours for ours, theirs in zip(times[name], times[rival])]
        rows.append(row(name, statistics.median(times[name]), statistics.median(ratios), f"of {rival}",
                        each=sorted(ratios)))
    return rows


def row(name, took, share, basis, each=()):
    return {"name": name, "seconds": took, "share": share, "of": basis, "target": TARGETS.get(name), "each": list(each)}


def operations(device):
    """[(name, call, Work)] of what runs along rows of 4096 x 4096 float32."""
    x, out = device.random(4096, 4096), device.random(4096, 4096)
    gain, bias = device.random(4096), device.random(4096)
    arguments = {"layernorm": (x, gain, bias, out), "softmax": (x, out)}
    for name, count in (("layernorm", rk.layernorm), ("softmax", rk.softmax)):
        fused, call = count(4096, 4096), partial(device.kernel(name), *arguments[name])
        yield name, call, fused
        yield f"{name}, no allocate", call, replace(fused, rewritten=fused.written)      # for it stores past the caches
        unfused = partial(device.kernel(f"{name}_unfused"), *arguments[name])
        yield f"{name}_unfused", unfused, count(4096, 4096, fused=False)


def under_the_roof(device, roof):
    found = list(operations(device))
    rounds = [[rk.measure(call, limit=0.25, device=device).seconds for _, call, _ in found] for _ in range(ROUNDS)]
    rows = []
    for (name, _, work), took in zip(found, zip(*rounds)):
        shares = sorted(roof.seconds(work) / each for each in took)
        rows.append(row(name, min(took), shares[-1], "of the roof", each=shares))
    return rows


def main():
    parser = argparse.ArgumentParser(description="The kit's CPU kernels against C and against the measured roof.")
    parser.add_argument("--pairs", type=int, default=15, help="turns of the triads")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    told = parser.parse_args()
    device = rk.device("cpu")
    with tempfile.TemporaryDirectory() as folder:
        rows = against_c(triads(device, told.pairs, folder))
    roof = rk.sustained("float32", fresh=True, device=device)
    rows += under_the_roof(device, roof)
    if told.json:
        return print(json.dumps({"roof": repr(roof), "rows": rows}, indent=1))
    print(roof)
    print(f"{'kernel':22} {'seconds':>9}  share                      target  smallest, largest")
    for each in rows:
        target = f"{each['target']:.2f}" if each["target"] else ""
        print(f"{each['name']:22} {each['seconds']:9.5f}  {each['share']:.2f} {each['of']:22} {target:>5}   "
              f"{each['each'][0]:.2f} {each['each'][-1]:.2f}")


if __name__ == "__main__":
    main()
