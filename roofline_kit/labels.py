"""Where does each point's name go, so that it covers no line, no point and no other name?"""

from itertools import pairwise

import numpy as np

SIDES = ((1, -1), (1, 0), (0, -1), (-1, -1), (1, 1), (-1, 0), (-1, 1), (0, 1))     # right and below first
RINGS = 6, 14, 24, 36, 50               # points of distance between the mark and its name
LEADER = 20                             # from this distance on a thin line leads to the mark
STEP = 3                                # pixels between the dots that stand for what is drawn already


def place(ax, names):
    """Write each (x, y, text) beside its place in the data; the axes' limits must be final.

    Returns: the annotations, in the order of `names`
    """
    if not names:
        return []
    ax.figure.draw_without_rendering()                    # lays the figure out: only then are pixels known
    marks = ax.transData.transform([name[:2] for name in names])
    drawn = [_line(line.get_transform().transform(line.get_xydata()), ax.figure.bbox) for line in ax.lines]
    drawn += [_filled(*text.get_window_extent().extents) for text in ax.texts]
    written = []
    for (x, y, text), mark in zip(names, marks):
        note = ax.annotate(text, (x, y), (0, 0), textcoords="offset points", fontsize=9, zorder=6)
        side, ring, box = _free(note.get_window_extent(), mark, np.concatenate(drawn), ax.bbox, ax.figure.dpi / 72)
        note.set(position=(ring * side[0], ring * side[1]), ha=("center", "left", "right")[side[0]],
                 va=("center", "bottom", "top")[side[1]])
        if ring > LEADER:
            ax.annotate("", (x, y), (ring * side[0], ring * side[1]), textcoords="offset points",
                        arrowprops={"arrowstyle": "-", "color": "grey", "linewidth": 0.6}, zorder=3)
        drawn.append(_filled(*box))
        written.append(note)
    return written


def apart(ax, notes):
    """Move names of roofs, which stand at the right end, to the left until none covers another."""
    if len(notes) < 2:
        return
    ax.figure.draw_without_rendering()
    taken = []
    for note in notes:
        box = note.get_window_extent()
        while hit := [other for other in taken if box.overlaps(other)]:
            (x, y), away = note.get_position(), box.x1 - min(other.x0 for other in hit) + 8
            if box.x0 - away < ax.bbox.x0:                 # so many roofs that there is no room
                break
            note.set_position((x - away * 72 / ax.figure.dpi, y))
            box = note.get_window_extent()
        taken.append(box)


def _free(size, mark, drawn, frame, scale):
    """(side, ring, box) of the nearest place that covers nothing, else of the one that covers least."""
    best = None
    for ring in RINGS:
        for side in SIDES:
            low = [mark[i] + scale * ring * side[i] + ((0, 0, -1)[side[i]] - (side[i] == 0) / 2) * length
                   for i, length in enumerate((size.width, size.height))]
            box = (*low, low[0] + size.width, low[1] + size.height)
            covered = _inside(drawn, box) + 1e3 * (box[0] < frame.x0 or box[1] < frame.y0 or box[2] > frame.x1)
            if best is None or covered < best[0]:
                best = covered, side, ring, box
            if not covered:
                return best[1:]
    return best[1:]


def _inside(dots, box):
    return np.count_nonzero((dots > box[:2]).all(1) & (dots < box[2:]).all(1))


def _filled(left, bottom, right, top):
    """Dots all over a rectangle of pixels."""
    xs, ys = np.arange(left, right + STEP, STEP), np.arange(bottom, top + STEP, STEP)
    return np.stack(np.meshgrid(xs, ys), -1).reshape(-1, 2)


def _line(corners, page):
    """Dots along a line through these pixels; all over a marker where there is but one."""
    corners = np.clip(corners[np.isfinite(corners).all(1)], page.min, page.max)
    if len(corners) == 1:
        return _filled(*corners[0] - 6, *corners[0] + 6)
    pieces = [np.linspace(a, b, max(2, int(np.hypot(*(b - a)) // STEP))) for a, b in pairwise(corners)]
    return np.concatenate([np.empty((0, 2)), *pieces])
