"""Names beside their points: none covers another, however close the points lie."""

import itertools

import pytest

from roofline_kit import gemm, plot
from roofline_kit.labels import RINGS, SIDES, place
from roofline_kit.plot import _axes
from roofline_kit.roofline import Roofline

ROOF = Roofline(peak=200e9, bandwidth=50e9, name="a roof", overhead=1e-6)


def boxes(ax):
    """The rectangles in pixels of all names that a figure shows, roofs' names among them."""
    ax.figure.draw_without_rendering()
    return [text.get_window_extent() for text in ax.texts if text.get_text()]


@pytest.fixture
def points():
    ax = _axes(None, ("x", None), ("y", None))
    ax.plot([1, 10], [1, 10], "none")
    ax.set(xlim=(1, 10), ylim=(1, 10))
    return ax


def test_a_point_alone_is_named_to_its_right_and_below(points):
    note, = place(points, [(3, 3, "alone")])
    assert note.get_position() == (RINGS[0] * SIDES[0][0], RINGS[0] * SIDES[0][1])
    assert (note.get_ha(), note.get_va()) == ("left", "top")


@pytest.mark.parametrize("count", [2, 5, 9])
def test_points_in_one_place_have_names_that_do_not_overlap(points, count):
    place(points, [(3, 3, f"operation {i}") for i in range(count)])
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes(points), 2))


def test_a_name_far_from_its_point_has_a_line_to_it(points):
    place(points, [(3, 3, f"operation {i}") for i in range(9)])
    assert any(text.arrow_patch is not None for text in points.texts)


def test_a_name_stays_inside_of_the_figure(points):
    note, = place(points, [(9.9, 3, "a long name of an operation")])
    assert note.get_window_extent().x1 <= points.bbox.x1


def test_a_roofline_figure_names_equal_operations_apart():
    ax = plot(ROOF, works=[gemm(64 + i, 64, 64).named(f"product {i}") for i in range(5)])
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes(ax), 2))


def test_roofs_of_nearly_one_height_have_names_apart():
    ax = plot(ROOF, Roofline(peak=190e9, bandwidth=50e9, name="another"), works=[gemm(64, 64, 64)])
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes(ax), 2))
