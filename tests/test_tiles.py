"""The picture of a tiled product: the right tiles in the right places, and the numbers that they take."""

import matplotlib
import matplotlib.pyplot
import pytest

from roofline_kit.tiles import draw_tiles, steps

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close():
    yield
    matplotlib.pyplot.close("all")


def captions(ax):
    return [text.get_text() for text in ax.texts if text.get_text().startswith("step")]


def hatched(ax):
    """(corner, width, height) of the tiles that are loaded."""
    return [(patch.get_xy(), patch.get_width(), patch.get_height()) for patch in ax.patches if patch.get_hatch()]


def test_a_step_loads_a_tile_of_each_factor():
    assert steps(4, 6, 4, 2)[:4] == [(0, 0, 0, 8), (0, 0, 2, 16), (0, 2, 0, 24), (0, 2, 2, 32)]


@pytest.mark.parametrize(("m", "n", "k", "tile"), [(6, 6, 6, 2), (5, 7, 6, 3), (1, 4, 9, 4), (2, 3, 4, 5)])
def test_all_steps_load_each_row_once_a_column_of_tiles(m, n, k, tile):
    assert steps(m, n, k, tile)[-1][-1] == m * k * -(-n // tile) + k * n * -(-m // tile)


def test_at_multiples_of_the_tile_that_is_2mnk_over_the_tile():
    assert steps(6, 12, 9, 3)[-1][-1] == 2 * 6 * 12 * 9 / 3


def test_a_panel_shows_one_tile_of_a_and_one_of_b():
    (a, *a_size), (b, *b_size) = hatched(draw_tiles(6, 6, 6, 2, shown=[1]))
    assert (a, a_size) == ((2, 7), [2, 2])                 # B's six rows and a gap lie above A
    assert (b, b_size) == ((7, 2), [2, 2])                 # A's six columns and a gap lie left of B


def test_tiles_at_the_edge_are_cut():
    assert [size for _, *size in hatched(draw_tiles(5, 7, 6, 3, shown=[11]))] == [[3, 2], [1, 3]]


def test_without_a_choice_the_first_two_tiles_of_c_are_shown():
    assert captions(draw_tiles(6, 6, 6, 2)) == [f"step {i}: {8 * i} loaded" for i in range(1, 7)]


def test_a_step_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="there are 27: choose 0 to 26"):
        draw_tiles(6, 6, 6, 2, shown=[27])


@pytest.mark.parametrize("sizes", [(0, 6, 6, 2), (6, 6, 6, 1.5)])
def test_sizes_are_whole_numbers_above_zero(sizes):
    with pytest.raises(ValueError):
        draw_tiles(*sizes)


def test_a_picture_can_be_drawn_into_given_axes():
    ax = matplotlib.pyplot.figure().add_subplot()
    assert draw_tiles(4, 4, 4, 2, shown=[0], ax=ax) is ax and len(hatched(ax)) == 2
