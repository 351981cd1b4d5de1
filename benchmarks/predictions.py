"""How good are the kit's predictions? The operations of lesson 09, set up by its own code, predicted and timed.

    python benchmarks/predictions.py [--rounds 5] [--json]

What is predicted is `Roofline.seconds` of the work: FLOPs, bytes and calls over the rates of a card that is measured at
the start. Where others share the memory, its speed may double or halve within seconds. So a CPU's is read anew, by the
card's own protocol, before and after each operation, and the card with that reading predicts it (the mean of the two);
a turn between readings that differ by more than a tenth, or whose run is inconclusive, is taken again. The errors of
the card as it was at the start are printed beside. An operation's ratio is the median over the rounds of predicted over
measured, its error the ratio's distance from 1; the score is the median of the errors. The measured class is that of
the lesson's experiment, which knows no roof: does the same work cost less if a cache holds its data?
"""

import argparse
import contextlib
import json
import re
import statistics
import sys
from pathlib import Path

import roofline_kit as rk
from roofline_kit import protocol
from roofline_kit.cards import Card
from roofline_kit.sustained import bandwidths, roofline

LESSON = Path(__file__).parents[1] / "source/lessons/09_ml_operations.md"
CELL = re.compile(r"```\{code-cell\} python\n(?::[^\n]*\n)*(.*?)```", re.DOTALL)
EXPERIMENT = "def gain_of_closeness"     # begins the one cell of 'Measure' that is needed
STEADY = 0.1                             # by how much the speed of memory may differ before and after a turn
TRIES = 4
TARGETS = {"memory": 1.25, "compute": 1.25, "latency": 2.0}      # times that the measured time may be off, either way


def setups(text):
    """The names that lesson 09 has defined when its predictions are made, and those of its experiment.

    Its functions look for the runs under the name `runs`, among these names.
    """
    names = {"runs": {}}
    before, measure = text.split("\n## Measure\n")
    for code in CELL.findall(before) + [code for code in CELL.findall(measure) if code.startswith(EXPERIMENT)]:
        exec(compile(code, LESSON.name, "exec"), names)                  # noqa: S102  the course's own text
    return names


class Memory:
    """Reads the bandwidths of a CPU's main memory, as the card does."""

    def __init__(self, device):
        self.device = device
        self.buffers = protocol._buffers(device, device.cores) if device.kind == "cpu" else None

    def roof(self, card, dtype):
        """The roof of that card with the memory of this moment."""
        if self.buffers is None:
            return roofline(card, dtype)
        found = protocol._round(self.device, self.buffers, [self.device.cores])
        return roofline(Card(card.data | bandwidths([found])), dtype)


def turn(name, lesson, card, memory, now):
    """(what one turn of an operation gives, the reading of memory after it)."""
    work, cold = lesson["works"][name], name != "pipeline"
    for tried in range(1, TRIES + 1):
        run = rk.measure(lesson["calls"][name], work=work, cold=cold, limit=1.2)
        before, now = now, memory.roof(card, now.dtype)
        good = steady(before, now) and not run.inconclusive
        if good:
            break
    lesson["runs"][name] = run
    predicted = statistics.mean(roof.seconds(work, cold, run.clock) for roof in (before, now))
    by_card = roofline(card, now.dtype).seconds(work, cold, run.clock)
    found = {"predicted": predicted, "measured": run.seconds, "ratio": predicted / run.seconds,
             "ratio_by_card": by_card / run.seconds, "derived": now.bound(work, cold=cold, clock=run.clock),
             "found": lesson["symptom"](lesson["gain_of_closeness"](name)),
             "steady": good, "tries": tried}
    return found, now


def steady(before, after):
    """Whether both readings of memory agree, in the fastest mix and in reading alone."""
    pairs = [(before.bandwidth, after.bandwidth)]
    if before.mixes and after.mixes:
        pairs.append((before.mixes[0][1], after.mixes[0][1]))
    return all(abs(one / other - 1) <= STEADY for one, other in pairs)


def summary(name, turns):
    """One operation over all rounds: medians, and the class that most of them found."""
    middle = {key: statistics.median(each[key] for each in turns)
              for key in ("predicted", "measured", "ratio", "ratio_by_card")}
    derived = statistics.mode(each["derived"] for each in turns)
    classes = [each["found"] for each in turns if each["found"] != "inconclusive"]
    found = statistics.mode(classes) if classes else "inconclusive"
    off = max(middle["ratio"], 1 / middle["ratio"])
    return {"name": name, **middle,
            "error": abs(middle["ratio"] - 1), "error_by_card": abs(middle["ratio_by_card"] - 1),
            "derived": derived, "class": found, "agrees": derived == found, "within_target": off <= TARGETS[derived],
            "unsteady": sum(not each["steady"] for each in turns), "each": [each["ratio"] for each in turns]}


def report(roof, entries, rounds):
    """The object that --json prints."""
    return {"roof": repr(roof), "rounds": rounds,
            "median_error": statistics.median(entry["error"] for entry in entries),
            "median_error_by_card": statistics.median(entry["error_by_card"] for entry in entries),
            "classes_agree": sum(entry["agrees"] for entry in entries), "operations": entries}


def table(found):
    """The report as lines of text."""
    yield found["roof"]
    yield (f"{'operation':12} {'predicted':>10} {'measured':>10}  ratio  by card  derived  measured  target  "
           "smallest, largest")
    for entry in found["operations"]:
        each = f"{min(entry['each']):.2f} {max(entry['each']):.2f}"
        doubt = f"  ({entry['unsteady']} unsteady)" if entry["unsteady"] else ""
        yield (f"{entry['name']:12} {rk.si(entry['predicted'], 's'):>10} {rk.si(entry['measured'], 's'):>10}   "
               f"{entry['ratio']:.2f}     {entry['ratio_by_card']:.2f}  {entry['derived']:8} {entry['class']:9} "
               f"{'held' if entry['within_target'] else 'missed':7} {each}{doubt}")
    yield (f"median error {found['median_error']:.1%} (by the card of the start {found['median_error_by_card']:.1%}); "
           f"derived and measured class agree for {found['classes_agree']} of {len(found['operations'])}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print one object")
    told = parser.parse_args()
    device = rk.device()
    with contextlib.redirect_stdout(sys.stderr):                         # what the lesson prints is beside the point
        card = rk.card(fresh=True)
        lesson = setups(LESSON.read_text("utf-8"))
    memory, turns = Memory(device), {name: [] for name in lesson["calls"]}
    for _ in range(told.rounds):
        reading = memory.roof(card, device.dtype)
        for name, each in turns.items():
            found, reading = turn(name, lesson, card, memory, reading)
            each.append(found)
    entries = [summary(name, each) for name, each in turns.items()]
    found = report(roofline(card, device.dtype), entries, told.rounds)
    print(json.dumps(found, indent=1) if told.json else "\n".join(table(found)))


if __name__ == "__main__":
    main()
