"""How is a figure drawn fast enough to follow a slider? Axes, lines, points and words, written as SVG."""

import html
import math
from dataclasses import dataclass

from .units import si

WIDTH = 680                                   # units of a picture; FONT of them stay above 11 px on a page of 550
FONT = 14
COLORS = ("#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6", "#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd")
INK, GREY, GRID = "#1c1c1c", "#5f5f5f", "#e2e2e2"        # COLORS: Petroff 2021, Matplotlib's petroff10
DASHES = {"measured": "", "recorded": "10 3 2 3", "datasheet": "8 5", "by hand": "2 4"}       # of a roof's line
TICKS = 7                                     # labels on an axis at most


def picture(title, description, *parts, height=380):
    """The parts as one figure that scales to its page; title and description are for those who cannot see it."""
    name, told = html.escape(title), html.escape(description)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{name}" '
            f'style="width:100%;max-width:820px;height:auto;display:block" font-family="sans-serif" '
            f'font-size="{FONT}" fill="{INK}"><desc>{told}</desc>'
            f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>{"".join(parts)}</svg>')


def text(x, y, words, anchor="start", color=INK, size=FONT, bold=False):
    """Words whose baseline is at y; anchor: "start", "middle" or "end"."""
    weight = ' font-weight="bold"' if bold else ""
    fitted = f' font-size="{size}"' if size != FONT else ""
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}"{fitted}{weight}>'
            f'{html.escape(words)}</text>')


def path(points, color=INK, width=2, dash="", fill="none", alpha=1.0, shift=0):
    """A line through points in units of the picture, its dashes shifted; with a fill, the area that it encloses."""
    line = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    dashed += f' stroke-dashoffset="{shift}"' if dash and shift else ""
    clear = f' opacity="{alpha:g}"' if alpha < 1 else ""
    end = "Z" if fill != "none" else ""
    return f'<path d="M{line}{end}" fill="{fill}" stroke="{color}" stroke-width="{width:g}"{dashed}{clear}/>'


def rect(x, y, width, height, fill, line=INK, hatch=0, alpha=1.0):
    """A rectangle; hatch: distance of its slanted lines in units, negative ones lean to the other side, 0 none."""
    box = (f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}" fill="{fill}" '
           f'fill-opacity="{alpha:g}" stroke="{line}" stroke-width="0.8"/>')
    if not hatch or width <= 0 or height <= 0:
        return box
    marks, at = [], abs(hatch) / 2
    while at < width + height:
        (x1, y1), (x2, y2) = (max(0, at - height), min(at, height)), (min(at, width), max(0, at - width))
        if hatch < 0:
            y1, y2 = height - y1, height - y2
        marks.append(f"M{x + x1:.1f} {y + y1:.1f}L{x + x2:.1f} {y + y2:.1f}")
        at += abs(hatch)
    return f'{box}<path d="{"".join(marks)}" stroke="{line}" stroke-width="1"/>'


def marker(x, y, shape="o", color=INK, filled=True, size=7):
    """A sign at this place: "o" disc, "s" square, "D" diamond, "^" triangle, "X" cross."""
    style = f'fill="{color if filled else "#fff"}" stroke="{INK if filled else color}" stroke-width="1.5"'
    if shape == "o":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" {style}/>'
    corners = {"s": ((-1, -1), (1, -1), (1, 1), (-1, 1)), "D": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
               "^": ((0, -1.2), (1.2, 1), (-1.2, 1)), "X": ((-1, -1), (1, 1), (0, 0), (1, -1), (-1, 1), (0, 0))}[shape]
    line = "L".join(f"{x + size * dx:.1f} {y + size * dy:.1f}" for dx, dy in corners)
    return f'<path d="M{line}Z" {style}/>'


@dataclass(frozen=True)
class Axis:
    """From values low .. high to places start .. end of the picture, on a logarithmic scale or a linear one."""

    low: float
    high: float
    start: float
    end: float
    log: bool = True

    def __call__(self, value):
        """The place of a value; those outside of the axis lie at its ends."""
        value = min(max(value, self.low), self.high)
        part = (math.log(value / self.low) / math.log(self.high / self.low) if self.log
                else (value - self.low) / (self.high - self.low))
        return self.start + part * (self.end - self.start)

    def ticks(self):
        """Values to label: powers of ten, 2 and 5 between few of them; round steps on a linear axis."""
        if not self.log:
            step = _round_up((self.high - self.low) / (TICKS - 1))
            first = math.ceil(self.low / step - 1e-9)
            return [step * number for number in range(first, math.floor(self.high / step + 1e-9) + 1)]
        first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
        powers = [10.0**power for power in range(first, last + 1, max(1, -(-(last - first + 1) // TICKS)))]
        if len(powers) > 2:
            return powers
        return [round(lead * 10.0**power, 15) for power in range(first - 1, last + 1) for lead in (1, 2, 5)
                if self.low <= lead * 10.0**power * (1 + 1e-9) and lead * 10.0**power <= self.high * (1 + 1e-9)]


def _round_up(step):
    power = 10.0 ** math.floor(math.log10(step))
    return next(lead * power for lead in (1, 2, 5, 10) if lead * power >= step * (1 - 1e-9))


@dataclass(frozen=True)
class Plane:
    """Two axes; places are values on them.

    x, y:    (lowest, highest)
    box:     (left, top, right, bottom) in the picture
    log:     which axes are logarithmic: "xy", "x", "y" or ""
    """

    x: tuple
    y: tuple
    box: tuple = (98, 34, WIDTH - 18, 330)
    log: str = "xy"

    @property
    def axes(self):
        left, top, right, bottom = self.box
        return Axis(*self.x, left, right, "x" in self.log), Axis(*self.y, bottom, top, "y" in self.log)

    def at(self, x, y):
        """The place in the picture of these values; ends of the axes where they lie outside."""
        across, up = self.axes
        return across(x), up(y)

    def frame(self, xlabel, ylabel, xunit="", yunit=""):
        """Grid, ticks with the units' prefixes, and the names of the axes: x below, y above at the left."""
        (left, top, right, bottom), (across, up), parts = self.box, self.axes, []
        for value in across.ticks():
            parts += [path([(across(value), top), (across(value), bottom)], GRID, 1),
                      text(across(value), bottom + 18, _short(value, xunit), "middle", GREY)]
        for value in up.ticks():
            parts += [path([(left, up(value)), (right, up(value))], GRID, 1),
                      text(left - 6, up(value) + 5, _short(value, yunit), "end", GREY)]
        return "".join([*parts, path([(left, top), (left, bottom), (right, bottom)], GREY, 1),
                        text((left + right) / 2, bottom + 38, xlabel, "middle"), text(4, top - 14, ylabel)])

    def line(self, points, color=INK, width=2, dash="", shift=0):
        """A line through values; what lies outside of the axes is cut off."""
        return self.inside(path([self._place(*point) for point in points], color, width, dash, shift=shift))

    def area(self, points, color, alpha=0.15):
        """The area that a line through values encloses."""
        return self.inside(path([self._place(*point) for point in points], "none", 0, fill=color, alpha=alpha))

    def point(self, x, y, shape="o", color=INK, filled=True, size=7):
        return marker(*self.at(x, y), shape, color, filled, size)

    def label(self, x, y, words, dx=0, dy=0, **looks):
        """Words beside a value; dx, dy: from there in units of the picture, down and right positive."""
        across, up = self.at(x, y)
        return text(across + dx, up + dy, words, **looks)

    def inside(self, *parts):
        """The parts, cut off where they leave the axes."""
        left, top, right, bottom = self.box
        place = f'x="{left}" y="{top}" width="{right - left}" height="{bottom - top}"'
        return f'<svg {place} viewBox="{left} {top} {right - left} {bottom - top}">{"".join(parts)}</svg>'

    def _place(self, x, y):
        """As `at`, also outside of the axes."""
        across, up = self.axes
        return tuple(axis.start + (axis.end - axis.start) * (
            math.log(max(value, 1e-300) / axis.low) / math.log(axis.high / axis.low) if axis.log
            else (value - axis.low) / (axis.high - axis.low)) for axis, value in ((across, x), (up, y)))


def _short(value, unit):
    return si(value, unit) if unit else si(value).replace(" ", "") if value >= 1e4 else f"{value:g}"
