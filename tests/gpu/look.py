"""Is a recording whole, and does every run in it lie under its roof? `python -m tests.gpu.look FILE` prints it all."""

import sys

from roofline_kit.recorded import recorded
from roofline_kit.report import scorecard
from roofline_kit.roofline import ABOVE


def faults(found):
    """What is wrong with a recording, a sentence each. The cost of a launch is no roof: it is not known to 5 %."""
    yield from (f"{name} could not be measured: {sentence}" for name, sentence in found.failed)
    for dtype in found.dtypes:
        roof = found.roof(dtype)
        for run in found.of(dtype):
            memory, compute, _ = roof.times(run.work, run.cold)
            share = max(memory, compute) / run.seconds
            if share > ABOVE:
                yield f"{run.name} lies above its roof, by {100 * (share - 1):.0f} %."


def main(path):
    """Print a recording and its faults; the exit code."""
    found = recorded(path)
    print(found, found.card, *(scorecard(found.roof(dtype), found.of(dtype)) for dtype in found.dtypes), sep="\n\n")
    wrong = list(faults(found))
    print("", *wrong or ["Every operation was measured, and no run lies above its roof."], sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
