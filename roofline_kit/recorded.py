"""What did a named machine reach? Runs that somebody else measured, for those who do not have that machine."""

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

from .cards import Card
from .sustained import roofline
from .timing import Run
from .units import nearest
from .work import Work

SCHEMA = 1
FOLDER = Path(__file__).with_name("recorded_runs")


@dataclass(frozen=True, repr=False)
class Recorded:
    """One recording.

    name:      of the file it came from
    device:    name of the machine's processor or GPU
    kind:      "cpu" or "gpu"
    date:      when it was made
    software:  {package: version}
    card:      the machine card, a `Card`
    runs:      the measurements, a tuple of `Run`; of its samples each holds at most 41, evenly spread in their order
    failed:    (name, sentence) of each operation that could not be measured
    """

    name: str
    device: str
    kind: str
    date: str
    software: dict
    card: Card
    runs: tuple
    failed: tuple = ()

    @property
    def dtypes(self):
        """Those that have a roof here and a run under it."""
        return tuple(dtype for dtype in self.card.data["peak"] if self.of(dtype))

    def roof(self, dtype=None):
        """The `Roofline` of that machine, its origin "recorded"; without a dtype the lessons' there."""
        dtype = dtype or {"cpu": "float32", "gpu": "float16"}[self.kind]
        if dtype not in self.card.data["peak"]:
            raise ValueError(nearest(dtype, self.card.data["peak"], "dtype of this recording"))
        return replace(roofline(self.card, dtype), origin="recorded")

    def of(self, dtype):
        """The runs with arithmetic in that dtype: those that roof(dtype) bounds."""
        return tuple(run for run in self.runs if run.work.dtype == dtype)

    def points(self, dtype=None):
        """Of those the ones that have a place in a figure: FLOPs and bytes above 0."""
        dtype = dtype or self.roof().dtype
        return tuple(run for run in self.of(dtype) if 0 < run.work.intensity < math.inf)

    def run(self, name):
        """The run of that name."""
        found = {run.name: run for run in self.runs}
        if name not in found:
            raise ValueError(nearest(name, found, "run of this recording"))
        return found[name]

    def __repr__(self):
        failed = f", {len(self.failed)} failed" if self.failed else ""
        versions = ", ".join(f"{package} {version}" for package, version in self.software.items())
        return "\n".join([f"{self.name}: {self.device}, recorded {self.date[:10]}, {len(self.runs)} runs{failed}",
                          f"  {versions}", *(f"  ! {name}: {sentence}" for name, sentence in self.failed)])


def recorded(name=None):
    """A recording by its name, or that of a file which `python -m roofline_kit record --out FILE` has written.

    name:    without one, the names of the recordings that come with the kit
    Errors:  ValueError for a name that is not there, and for a file that holds no recording
    """
    known = {path.stem: path for path in sorted(FOLDER.glob("*.json"))}
    if name is None:
        return tuple(known)
    by_name = {stem.casefold(): path for stem, path in known.items()}
    path = by_name.get(str(name).casefold())
    if path is None and not (isinstance(name, Path) or str(name).endswith(".json") or Path(name).exists()):
        raise ValueError(nearest(name, known, "recording") if known else
                         f"unknown recording {name!r}: none comes with the kit, so give the path of a file of yours.")
    return _load(path or Path(name))


def _load(path):
    """The recording in a file."""
    try:
        return _read(path.stem, json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}): give the path of a recording.") from None
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
        raise ValueError(f"{path} holds no recording, or one that is damaged or of another version: make it again "
                         "with `python -m roofline_kit record --out FILE`.") from None


def _read(name, data):
    """The recording that this JSON stands for. Errors: of many kinds where it stands for none."""
    if data["schema"] != SCHEMA:
        raise ValueError("schema")
    measured = [entry for entry in data["runs"] if "error" not in entry]
    failed = tuple((entry["name"], str(entry["error"])) for entry in data["runs"] if "error" in entry)
    device = data["device"]["name"]
    found = Recorded(name, device, data["device"]["kind"], data["date"], dict(data["software"]), Card(data["card"]),
                     tuple(_run(entry, device) for entry in measured), failed)
    sound = all(found.roof(dtype).ridge < math.inf for dtype in found.card.data["peak"]) and found.roof()
    if not (sound and repr(found) and repr(found.card) and all(map(repr, found.runs))):
        raise ValueError("numbers that make no sense")
    return found


def _run(entry, device):
    seconds, samples = float(entry["seconds"]), tuple(map(float, entry["samples"]))
    if not all(0 < time < math.inf for time in (seconds, *samples)):
        raise ValueError("a time that is none")
    spread = math.nan if entry["spread"] is None else float(entry["spread"])
    return Run(entry["name"], seconds, spread, samples, Work(**entry["work"]), bool(entry["cold"]), entry["clock"],
               device, tuple(entry["warnings"]))
