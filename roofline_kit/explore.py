"""What changes if this one number changes? Sliders and a figure of the model that follows them; no clock runs.

To add an explorer, write a function of plain values that returns a `View`, and name its controls:

    def draw(n, chip):
        roof, work = datasheet(chip), dot(n, "bfloat16")
        return View(picture("Dot product", "..", ..), rows=[("memory", si(roof.times(work).memory, "s"))],
                    sentences=["It is memory-bound."])

    def explore_dot():
        controls = [slider("n", "length n", sizes(1, 2**20)), choice("chip", "chip", chips())]
        return Explorer("Dot product", controls, draw)

A ValueError of `draw` is a sentence for the reader; the last good figure stays. Each step of a slider calls `draw`
once: precompute what is slow, in lru_caches or before.
"""

import base64
import html
from dataclasses import dataclass
from typing import NamedTuple

from .units import nearest

# A screen reader hears no name of an ipywidgets slider, and a position in place of its value: this tells it both. The
# value beside a slider takes typed words, which only blank it: this closes it. And JupyterLab takes keys for its own
# (in a list, d twice deletes the cell) unless the element says otherwise.
NAMES = """const tell = (box) => {
    for (const slider of box.querySelectorAll('.widget-slider')) {
        const handle = slider.querySelector('[role=slider]');
        const readout = slider.querySelector('.widget-readout'), value = readout.textContent;
        if (readout.contentEditable != 'false') readout.contentEditable = 'false';      // each change opens it again
        readout.tabIndex = -1;
        handle?.setAttribute('aria-label', slider.querySelector('label').textContent);
        if (handle?.getAttribute('aria-valuetext') !== value) handle?.setAttribute('aria-valuetext', value);
    }
    for (const one of box.querySelectorAll('select, [role=slider]')) one.dataset.lmSuppressShortcuts = 'true';
};
const begin = (tries) => {
    const box = element.closest('.explorer');
    if (box) {
        tell(box);
        const what = { subtree: true, childList: true, attributeFilter: ['aria-valuetext', 'contenteditable'] };
        new MutationObserver(() => tell(box)).observe(box, what);
    } else if (tries) setTimeout(begin, 100, tries - 1);
};
begin(100);"""
SHORT = 20                                    # characters of a table's cell that stay in one line
HIDDEN = ":is(.jp-OutputArea, .jp-Cell, .cell):has(.explorer) .explorer-still { display: none }"
STILL = "A still figure: run this cell in a notebook with a kernel to move it."
NONE = object()                               # stands for None in ipywidgets, where None means that nothing is chosen


class View(NamedTuple):
    """What an explorer shows for some values.

    svg:        a figure, of `svg.picture`
    rows:       lines of a table, the first cell of each its name; with several columns the first line is the head
    sentences:  what the numbers mean
    """

    svg: str
    rows: tuple
    sentences: tuple


@dataclass(frozen=True)
class Control:
    """One value that the reader may change: `slider`, `choice` and `area` make them.

    options:  ((text, value), ..); none for an area
    only:     None, or (name of another control, its values for which this one is shown)
    """

    name: str
    label: str
    kind: str
    options: tuple
    value: object
    only: tuple | None = None

    def text(self, value):
        """A value as the reader sees it. Errors: ValueError for one that the control does not have."""
        for told, option in self.options:
            if option == value:
                return told
        if self.options:
            raise ValueError(nearest(value, [told for told, _ in self.options], self.label))
        return str(value)


def slider(name, label, options, value=None, text="{:,}".format, only=None):
    """A slider over these values, in their order; `text` writes one."""
    options = tuple((text(option), option) for option in options)
    return Control(name, label, "slider", options, options[0][1] if value is None else value, only)


def choice(name, label, options, value=None, only=None):
    """A list to choose from: values, or (text, value) pairs."""
    options = tuple(option if isinstance(option, tuple) else (str(option), option) for option in options)
    return Control(name, label, "choice", options, options[0][1] if value is None else value, only)


def area(name, label, value="", only=None):
    """A field for several lines of text."""
    return Control(name, label, "area", (), value, only)


def sizes(least, most, steps=1):
    """least .. most in powers of two, `steps` of them from one to the next: as whole numbers, for a slider."""
    found, place = [], 0
    while (size := round(least * 2 ** (place / steps))) <= most:
        found += [size] if size not in found else []
        place += 1
    return tuple(found)


class Explorer:
    """A figure with controls: in a notebook with a kernel a widget, on a page without one its first figure.

    title:     of the figure
    controls:  `Control`s, in the order of the tab key
    draw:      function of their values by name -> `View`; a ValueError is one sentence for the reader
    """

    def __init__(self, title, controls, draw):
        self.title, self.controls, self.draw = title, {control.name: control for control in controls}, draw
        self.start = {control.name: control.value for control in controls}
        self._box = None
        self.view(**self.start)                              # a wrong argument is told here, not in the widget

    def view(self, **changed):
        """The `View` for the first values, some of them changed; without a widget."""
        values = {**self.start, **changed}
        for name, value in changed.items():
            if name not in self.controls:
                raise ValueError(nearest(name, self.controls, "control"))
            self.controls[name].text(value)
        return View(*self.draw(**values))

    def shown(self, values):
        """Names of the controls that mean something for these values."""
        return [name for name, control in self.controls.items()
                if control.only is None or values[control.only[0]] in control.only[1]]

    @property
    def widget(self):
        """The controls and the figure as one ipywidgets box; made when it is first shown, and again once closed."""
        if self._box is None or self._box.comm is None:
            self._box = _widget(self)
        return self._box

    def html(self, **changed):
        """The figure and its numbers for a page without a kernel."""
        view, values = self.view(**changed), {**self.start, **changed}
        told = ", ".join(f"{self.controls[name].label} {self.controls[name].text(values[name])}"
                         for name in self.shown(values) if self.controls[name].options)
        encoded, words = base64.b64encode(view.svg.encode()).decode(), html.escape(" ".join(view.sentences))
        return (f'<p><strong>{html.escape(self.title)}</strong>: {html.escape(told)}.</p>'
                f'<img width="820" style="max-width:100%" alt="{html.escape(self.title)}. {words}" '
                f'src="data:image/svg+xml;base64,{encoded}"><p>{STILL}</p>{_numbers(view)}')

    def __repr__(self):
        view = self.view()
        widths = [max(map(len, column)) for column in zip(*view.rows)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in view.rows]
        return "\n".join([self.title, *lines, *view.sentences])

    def _ipython_display_(self):
        """Two outputs: the widget, and for pages without a kernel and notebooks opened again the still figure.

        The second is hidden as long as the first one lives.
        """
        from IPython.display import display

        found = self.widget._repr_mimebundle_()
        shown, extra = found if isinstance(found, tuple) else (found, {})
        display({**shown, "text/plain": repr(self)}, metadata=extra, raw=True)
        still = f'<div class="explorer-still"><style>{HIDDEN}</style>{self.html()}</div>'
        display({"text/html": still, "text/plain": repr(self)}, raw=True)


def _numbers(view):
    """Rows and sentences as HTML; a table with a head where there are several columns."""
    rows, head = list(view.rows), ""
    if rows and len(rows[0]) > 2:
        head = f"<thead><tr>{''.join(_cell('th', cell, 'col') for cell in rows.pop(0))}</tr></thead>"
    body = "".join(f"<tr>{_cell('th', first, 'row')}{''.join(_cell('td', cell) for cell in rest)}</tr>"
                   for first, *rest in rows)
    told = "".join(f'<p style="margin:4px 0;line-height:1.4">{html.escape(words)}</p>' for words in view.sentences)
    return ('<table style="border-collapse:collapse;line-height:1.35;margin:6px 0">'
            f"{head}<tbody>{body}</tbody></table>{told}")


def _cell(tag, words, scope=""):
    """A cell of the table: bold, but for the names of the rows; in one line where it is short."""
    scoped = f' scope="{scope}"' if scope else ""
    style = "font-weight:" + ("normal" if scope == "row" else "bold") + ";white-space:nowrap" * (len(words) <= SHORT)
    return f'<{tag}{scoped} style="text-align:left;padding:1px 14px 1px 0;{style}">{html.escape(words)}</{tag}>'


def _page(view, alert=""):
    """The figure with its numbers beside it, or below where there is no room; under the figure a place for an alert."""
    return ('<div style="display:flex;flex-wrap:wrap;gap:0 24px">'
            f'<div style="flex:1 1 540px;max-width:820px">{view.svg}<div style="min-height:4.6em">{alert}</div></div>'
            f'<div style="flex:1 1 300px">{_numbers(view)}</div></div>')


def sentence(error):
    """An exception in one line, for the reader."""
    words = " ".join(str(error).split())
    if isinstance(error, ValueError):
        return words
    return f"These values cannot be computed ({type(error).__name__}: {words})."


def _widget(explorer):
    """The box: controls above, in as many columns as fit, and the figure with its numbers below."""
    import ipywidgets

    wide = {"width": "auto", "flex": "1 1 290px", "max_width": "440px", "min_width": "31%"}
    room = f"{0.55 * max(len(control.label) for control in explorer.controls.values()) + 1:.1f}em"
    made, good = {}, explorer.view()
    for control in explorer.controls.values():
        kind = {"slider": ipywidgets.SelectionSlider, "choice": ipywidgets.Dropdown,
                "area": ipywidgets.Textarea}[control.kind]
        options = [(told, NONE if value is None else value) for told, value in control.options]
        more = {"options": options} if options else {"rows": 6, "continuous_update": False}
        made[control.name] = kind(value=NONE if control.value is None else control.value, description=control.label,
                                  tooltip=control.label, style={"description_width": room}, layout=wide, **more)
    figure = ipywidgets.HTML(layout={"width": "auto"})

    def follow(change=None):
        nonlocal good
        values = {name: None if widget.value is NONE else widget.value for name, widget in made.items()}
        shown = explorer.shown(values)
        for name, widget in made.items():
            seen = None if name in shown else "none"
            if widget.layout.display != seen:
                widget.layout.display = seen
        try:
            view = View(*explorer.draw(**values))
            figure.value = _page(view)
            good = view
        except Exception as error:                           # noqa: BLE001  the reader gets a sentence of any
            told = html.escape(sentence(error))
            figure.value = _page(good, '<p role="alert" style="border-left:4px solid #bd1f01;padding:2px 8px;margin:0;'
                                       f'line-height:1.4"><strong>{told}</strong> The figure shows the last values '
                                       'that fit.</p>')

    follow()
    for widget in made.values():
        widget.observe(follow, "value")
    names = ipywidgets.Output(outputs=[{"output_type": "display_data", "metadata": {},
                                        "data": {"application/javascript": NAMES, "text/plain": ""}}])
    box = ipywidgets.VBox([ipywidgets.Box(list(made.values()), layout={"flex_flow": "row wrap"}), figure, names])
    return box.add_class("explorer")
