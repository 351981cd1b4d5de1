"""Figures as text: places on the axes, ticks, what is cut off, and that they are pictures to everybody."""

import math
import xml.etree.ElementTree as ET

import pytest

from roofline_kit.plot import _colors
from roofline_kit.svg import COLORS, FONT, WIDTH, Axis, Plane, marker, path, picture, rect, text


def parsed(*parts):
    return ET.fromstring(picture("title", "told", *parts))


def test_its_colors_are_those_of_the_other_figures():
    assert list(COLORS) == _colors()


@pytest.mark.parametrize(("value", "place"), [(1, 0), (10, 50), (100, 100), (0.1, 0), (1e9, 100)])
def test_a_logarithmic_axis_gives_equal_room_to_equal_factors(value, place):
    assert Axis(1, 100, 0, 100)(value) == pytest.approx(place)


def test_a_linear_axis_gives_equal_room_to_equal_differences():
    assert Axis(0, 8, 300, 100, log=False)(2) == 250


@pytest.mark.parametrize(("low", "high", "ticks"), [
    (0.5, 2e3, [1, 10, 100, 1000]), (1e-2, 1e9, [0.01, 1, 100, 1e4, 1e6, 1e8]), (3, 60, [5, 10, 20, 50]),
    (1, 100, [1, 10, 100])])
def test_ticks_of_a_logarithmic_axis_are_round_and_few(low, high, ticks):
    assert Axis(low, high, 0, 1).ticks() == pytest.approx(ticks)


@pytest.mark.parametrize(("low", "high", "ticks"), [(0, 10, [0, 2, 4, 6, 8, 10]), (0, 79e9, [0, 2e10, 4e10, 6e10])])
def test_ticks_of_a_linear_axis_are_round_and_few(low, high, ticks):
    assert Axis(low, high, 0, 1, log=False).ticks() == ticks


def test_a_picture_is_one_image_with_a_name_and_a_description():
    root = ET.fromstring(picture("a < b", "1 & 2"))
    assert root.get("role") == "img" and root.get("aria-label") == "a < b" and root[0].text == "1 & 2"
    assert root.get("viewBox") == f"0 0 {WIDTH} 380" and not root.get("width")        # so it scales with its page


def test_no_text_is_smaller_than_eleven_pixels_on_a_page_of_550():
    assert FONT * 550 / WIDTH >= 11


def test_words_are_escaped():
    assert parsed(text(0, 0, "<b> & co"))[-1].text == "<b> & co"


def test_a_line_through_values_is_straight_also_where_it_leaves_the_axes():
    plane = Plane((1, 100), (1, 100), (0, 0, 100, 100))
    assert 'd="M-50.0 150.0L150.0 -50.0"' in plane.line([(0.1, 0.1), (1000, 1000)])


def test_what_leaves_the_axes_is_cut_off():
    plane = Plane((1, 100), (1, 100), (10, 20, 110, 220))
    frame = ET.fromstring(plane.line([(0.1, 0.1), (1000, 1000)]))
    assert [frame.get(name) for name in ("x", "y", "width", "height", "viewBox")] == ["10", "20", "100", "200",
                                                                                       "10 20 100 200"]


def test_a_point_outside_lies_at_the_edge():
    assert Plane((1, 100), (1, 100), (10, 20, 110, 220)).at(1e9, 1e-9) == (110, 220)


def test_a_frame_names_its_axes_and_writes_prefixes():
    frame = Plane((1, 1e3), (1e9, 1e12)).frame("AI", "rate", "", "FLOP/s")
    assert all(f">{words}<" in frame for words in ("AI", "rate", "1 GFLOP/s", "1 TFLOP/s", "100"))


@pytest.mark.parametrize("lean", [8, -8])
def test_hatching_stays_inside_of_its_rectangle(lean):
    hatch = ET.fromstring(f"<g>{rect(10, 20, 37, 23, '#fff', hatch=lean)}</g>")[1].get("d")
    places = [tuple(map(float, pair.split())) for pair in hatch.replace("L", "M").split("M")[1:]]
    assert len(places) >= 10 and all(10 <= x <= 47 and 20 <= y <= 43 for x, y in places)


@pytest.mark.parametrize("shape", "osD^X")
def test_signs_are_filled_or_hollow(shape):
    assert 'fill="#123456"' in marker(0, 0, shape, "#123456") and 'fill="#fff"' in marker(0, 0, shape, filled=False)


def test_an_area_is_closed_and_a_line_is_not():
    assert 'Z"' in path([(0, 0), (1, 1)], fill="#123") and "Z" not in path([(0, 0), (1, 1)])


def test_a_rectangle_of_no_size_is_drawn_as_such():
    assert 'width="0.0"' in rect(0, 0, -1, math.e, "#fff")
