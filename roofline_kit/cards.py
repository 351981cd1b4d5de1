"""Where is the card of a device kept, and who may measure it now?"""

import contextlib
import html
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .doubts import MeasureError
from .units import si

SCHEMA = 1
PATIENCE = 120           # s to wait for another process: four cards of at most 30 s


@dataclass(frozen=True, repr=False)
class Card:
    """What one device can sustain, as measured.

    data:    the numbers in SI base units, ready for JSON
    """

    data: dict

    def rows(self):
        """(what, value, how it was reached) for each line of the card."""
        data = self.data
        best = max(data["mixes"], key=lambda label: data["mixes"][label]["bandwidth"])
        yield "bandwidth", si(data["bandwidth"], "B/s"), f"main memory, best mix: {best}"
        for label, mix in data["mixes"].items():
            differs = mix["counted"] != mix["bandwidth"]
            counted = f", {si(mix['counted'], 'B/s')} as counted" if differs else ""
            how = f"on the bus{counted}; threads {mix['threads']}, spread {100 * mix['spread']:.0f} %"
            yield f"  {label}", si(mix["bandwidth"], "B/s"), how
        for number, level in enumerate(data["levels"], start=1):
            size = f"up to {level['capacity'] / 2**10:,.0f} KiB, all threads together"
            yield f"  cache {number}", si(level["bandwidth"], "B/s"), size
        for dtype, peak in data["peak"].items():
            vector, ridge = si(data["vector_peak"][dtype], "FLOP/s"), si(peak / data["bandwidth"], "FLOP/B")
            yield dtype, si(peak, "FLOP/s"), f"matrix; vector {vector}; ridge {ridge}"
        for label, seconds in data["overheads"].items():
            yield label, si(seconds, "s"), "a call"

    def __repr__(self):
        data = self.data
        head = f"{data['device']['name']}, {data['device']['cores']} cores, measured {data['date'][:16]}"
        lines = [f"  {what:28} {value:>12}   {how}".rstrip() for what, value, how in self.rows()]
        return "\n".join([head, *lines, *(f"  ! {warning}" for warning in data["warnings"])])

    def _repr_html_(self):
        head, *_ = repr(self).splitlines()
        rows = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in self.rows())
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        notes = "".join(f"<br>! {html.escape(warning)}" for warning in self.data["warnings"])
        return f"<table><caption>{html.escape(head)}</caption>{body}</table>{notes}"


def folder():
    """The folder of the cards: ROOFLINE_KIT_CACHE, or the user's cache folder on this system."""
    told = os.environ.get("ROOFLINE_KIT_CACHE")
    if told:
        return Path(told)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    else:
        mac = sys.platform == "darwin"
        base = os.environ.get("XDG_CACHE_HOME") or ("~/Library/Caches" if mac else "~/.cache")
    base = os.path.expanduser(base)
    return Path(tempfile.gettempdir() if base.startswith("~") else base) / "roofline_kit"     # "~": nobody's home


def load(uid, usable=lambda card: True):
    """The card kept for a device, or None; of a file that cannot be used it says so.

    usable:  a function that raises, or returns False, for a card whose numbers make no sense
    """
    path = folder() / f"{uid}.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        whole = data["schema"] == SCHEMA and repr(Card(data)) and data["device"]["uid"] == uid
        whole = whole and usable(Card(data))
    except OSError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
        whole = False
    if not whole:
        say(f"the card in {path} is damaged or of another version: measuring again.")
    return Card(data) if whole else None


def keep(card):
    """Write a card whole or not at all; where that fails, say so and go on."""
    path = folder() / f"{card.data['device']['uid']}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, json.dumps(card.data, indent=1).encode())
    except OSError as error:
        say(f"the card could not be kept in {path.parent} ({error.strerror}), so it is measured again next "
            "time: set ROOFLINE_KIT_CACHE to a folder that can be written.")


def write(path, content):
    """Replace a file by `content` in one step: a reader sees the old one or the new one, never a half."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_bytes(content)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def alone(patience=PATIENCE):
    """Hold the right to measure, for two at once would halve each other's numbers.

    Gives:   whether another process had it first
    Errors:  MeasureError when that takes longer than `patience` [s]
    """
    import filelock

    owner = os.getuid() if hasattr(os, "getuid") else ""    # another user's lock could not be opened
    lock = filelock.FileLock(_lock_folder() / f"measuring{owner}.lock")
    waited = False
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        say(f"another process is measuring this machine: waiting for it, at most {patience:g} s.")
        waited = True
    try:
        if waited:
            lock.acquire(timeout=patience)
    except filelock.Timeout:
        raise MeasureError(f"another process has been measuring this machine for over {patience:g} s: "
                           "end it, or try again later.") from None
    try:
        yield waited
    finally:
        lock.release()


def _lock_folder():
    with contextlib.suppress(OSError):
        folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder()):
            return folder()
    return Path(tempfile.gettempdir())


def bar():
    """A function (share done, what is measured now) that draws a progress bar where somebody can see it."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if type(shell).__name__ == "ZMQInteractiveShell":                    # that is Jupyter's
        from IPython.display import display

        shown = display({"text/plain": ""}, raw=True, display_id=True)
        return lambda share, what: shown.update({"text/plain": _line(share, what)}, raw=True)
    if sys.stderr.isatty():
        return lambda share, what: print(f"\r{_line(share, what):78}" + "\r" * (share >= 1), end="", file=sys.stderr,
                                         flush=True)
    return lambda share, what: None


def _line(share, what):
    return f"[{'#' * round(24 * share):24}] {100 * share:3.0f} %  {what}" if share < 1 else ""


def say(sentence):
    """Tell the learner something that is no result."""
    print(sentence, file=sys.stderr)
