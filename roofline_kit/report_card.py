"""What did this machine show, and how far have I come? One page to print, as one HTML file of its own."""

import base64
import html
import io
from dataclasses import replace
from datetime import date
from pathlib import Path

from . import exercises
from .check import _passed
from .ops import gemm
from .plot import plot
from .report import scorecard
from .sustained import card, roofline
from .timing import Run
from .work import Work

FILE = "report_card.html"
STYLE = """
@page { size: A4; margin: 16mm }
body { font: 11pt/1.45 Georgia, serif; color: #111; background: #fff; max-width: 46em; margin: 2em auto }
h1 { font-size: 20pt; margin: 0 } h2 { font-size: 13pt; margin: 1.2em 0 .3em; break-after: avoid }
table { border-collapse: collapse; font: 9pt/1.35 Menlo, Consolas, monospace; width: 100% }
caption { text-align: left; font-weight: bold; padding: .2em 0 } td, th { padding: .15em .5em .15em 0 }
th { text-align: left }
tr { border-bottom: 1px solid #ddd; break-inside: avoid } img { width: 100%; max-width: 40em }
p.by { margin: .2em 0 1em }
@media print { body { margin: 0 } }
"""


def report_card(name="", findings=(), runs=(), path=None, fresh=False):
    """Write a page with this machine's roof, points under it, what you found and which exercises are passed.

    name:      what is to stand under the title; nothing personal gets in unless you type it
    findings:  sentences of your own: a text, or several
    runs:      `Run`s that carry their work, or diagnoses, drawn as points; without any, the points that made the roof
    path:      the file; without one, report_card.html in this folder
    fresh:     measure the machine again first
    Returns:   the path
    Errors:    ValueError for runs without their work and for findings that are no text, OSError for a file that cannot
               be written; one sentence
    """
    texts, runs, target = _texts(findings), _runs(runs), _target(path)
    found = card(fresh)
    dtype = "float32" if "float32" in found.data["peak"] else next(iter(found.data["peak"]))
    roof = roofline(found, dtype)
    shown = runs or own_points(found.data, dtype)
    table = scorecard(roof, shown)                           # refuses runs that have no work
    page = _page("" if name is None else str(name), found, roof, shown, table, texts)
    try:
        target.write_text(page, "utf-8", "replace")          # half a character, as a keyboard cannot type it, is a "?"
    except OSError as error:
        why = (error.strerror or type(error).__name__).lower()
        raise OSError(f"the page cannot be written to {target} ({why}): give another file as path=.") from error
    return target


def _texts(findings):
    """The findings as a list, without empty ones."""
    texts = [findings] if isinstance(findings, str) else _listed("findings", findings, "a text or a list of texts")
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"findings are {findings!r:.60}, but each of them must be a text.")
    return [text for text in texts if text.strip()]


def _runs(runs):
    """The runs as a tuple; a diagnosis holds one."""
    single = hasattr(runs, "samples") or hasattr(runs, "run")
    found = [getattr(one, "run", one) for one in
             ([runs] if single else _listed("runs", runs, "a Run or a list of them"))]
    for one in found:
        if not hasattr(one, "samples"):
            raise ValueError(f"runs holds {one!r:.60}, but a Run is needed: rk.measure(call, work=rk.gemm(...)).")
    return tuple(found)


def _listed(name, values, wanted):
    try:
        return [] if values is None else list(values)
    except TypeError:
        raise ValueError(f"{name} is {values!r:.60}, but it must be {wanted}.") from None


def _target(path):
    try:
        return Path(path or FILE).expanduser()
    except TypeError:
        raise ValueError(f"path is {path!r:.60}, but it must be the name of a file, such as {FILE!r}.") from None


def own_points(data, dtype):
    """The measurements that made the roof, as Runs: reading, triad, multiply-adds, the best product."""
    def run(name, seconds, work, spread):
        return Run(name, seconds, spread, (seconds,) * 9, work.named(name), True, device=data["device"]["name"])

    best = max(data["gemm"][dtype], key=lambda point: point["rate"])
    product = gemm(*(best.get("shape") or [best["n"]] * 3), dtype)
    points = [run("best product", product.flops / best["rate"], product, best["spread"])]
    for label, flops, counted, written in (("read", 1, 8, 0), ("triad", 2, 24, 8)):       # of a number in float64
        mix, work = data["mixes"][label], Work(flops * 10**8, counted * 10**8, written * 10**8, dtype="float64")
        points.append(run(label, work.nbytes / mix["counted"], work, mix["spread"]))
    return tuple(points)


def _page(name, found, roof, runs, table, findings):
    data, esc = found.data, html.escape
    by = " · ".join(esc(part) for part in (name, date.today().isoformat()) if part)
    noted = "".join(f"<li>{esc(text)}</li>" for text in findings)
    return "\n".join([
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f"<title>Why is code fast or slow? {esc(data['device']['name'])}</title><style>{STYLE}</style></head><body>",
        f"<h1>Why is code fast or slow?</h1><p class='by'>{by}</p>",
        f"<h2>The machine</h2>{found._repr_html_()}",
        f"<h2>Its roof</h2><img alt='{esc(_in_words(roof, runs), quote=True)}' src='{_picture(roof, runs)}'>",
        f"<h2>Points under it</h2>{table._repr_html_()}",
        f"<h2>What I found</h2><ul>{noted}</ul>" if noted else "",
        f"<h2>Exercises passed</h2>{_progress()}",
        "</body></html>\n"])


def _in_words(roof, runs):
    names = ", ".join(run.name or run.work.name for run in runs)
    return f"The measured roof of this machine: {roof!r}. Points under it: {names}."


def _picture(roof, runs):
    """The figure as a data: address, so that the file needs no other."""
    import matplotlib.pyplot as plt

    placed = [replace(run, name=(run.name or run.work.name).replace("$", r"\$"))      # a $ is no beginning of maths
              for run in runs if 0 < run.work.intensity < float("inf")]
    figure, room = plot(roof, runs=placed).figure, io.BytesIO()
    figure.savefig(room, format="png", dpi=160)
    plt.close(figure)
    return "data:image/png;base64," + base64.b64encode(room.getvalue()).decode()


def _progress():
    """A row for each lab: exercises passed, points of those that a check can judge."""
    passed, rows, total = _passed(), [], [0, 0]
    for lab in exercises.labs():
        title, table = exercises.table(lab)
        done = [name for name in table if name in passed]
        points = [sum(table[name].points for name in names) for names in (done, table)]
        total = [total[i] + points[i] for i in range(2)]
        rows.append(f"<tr><td>{html.escape(title)}</td><td>{len(done)} of {len(table)}</td>"
                    f"<td>{points[0]} of {points[1]}</td></tr>")
    return (f"<table><thead><tr><th>lab</th><th>passed</th><th>points</th></tr></thead><tbody>{''.join(rows)}"
            f"<tr><th>in all</th><td></td><th>{total[0]} of {total[1]}</th></tr></tbody></table>")
