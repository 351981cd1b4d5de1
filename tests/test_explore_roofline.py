"""Is the point of the roofline explorer where its numbers say, and never above its roof?"""

import pytest

import roofline_kit as rk
from roofline_kit.explore_roofline import DTYPES, OPERATIONS, SHAPES, draw, effective, explore_roofline, placed, worked

UNEVEN = rk.Roofline(peak=200e9, bandwidth=57e9, vector_peak=235e9, overhead=2e-7, name="a laptop", origin="measured",
                     mixes=((0.0, 36e9, "read"), (0.5, 57e9, "scale")), write_allocate=True)
LARGE = {name: 2**15 for name in SHAPES}


def roofs(dtype):
    return [rk.datasheet(name, dtype) for name in rk.chips(dtype)]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_no_point_lies_above_its_roof(operation, dtype):
    for shape in (SHAPES, LARGE):
        work = worked(operation, dtype, **shape)
        for roof in (*roofs(dtype), UNEVEN):
            (bandwidth, peak), (intensity, rate) = effective(roof, work), placed(roof, work)
            assert rate <= min(bandwidth * intensity, peak) * (1 + 1e-9) and bandwidth <= roof.bandwidth * (1 + 1e-9)


@pytest.mark.parametrize("m", [1, 8, 11, 16, 64])
def test_left_of_the_ridge_point_that_is_told_it_is_memory_bound(m):
    work = rk.gemm(m, 4096, 4096)
    bandwidth, peak = effective(UNEVEN, work)
    assert (work.intensity < peak / bandwidth) == (UNEVEN.bound(work) == "memory")
    assert work.nbytes / bandwidth == pytest.approx(UNEVEN.times(work).memory)


def test_an_operation_of_the_vector_unit_is_told_that_units_ridge():
    rows = {first: rest for first, *rest in explore_roofline(operation="addition").view().rows}
    assert rows["peak (vector unit)"][0] == "67 TFLOP/s" and rows["ridge point"][0] == "20 FLOP/B"


def test_a_second_chip_without_that_dtype_is_left_out_in_a_sentence():
    view = explore_roofline("H100 SXM", "A100 80GB SXM").view(dtype="float8")
    assert len(view.rows[0]) == 2 and "The second roof is left out: A100 80GB SXM has no" in view.sentences[-1]


def test_arrays_that_no_memory_holds_are_drawn_and_it_is_said():
    view = explore_roofline(m=2**17, n=2**17, k=2**18).view()
    assert sum("the times are those of a chip that could hold them" in told for told in view.sentences) == 2


def test_what_lies_beyond_the_axes_is_marked():
    assert ">beyond</text>" in explore_roofline(operation="dot product", length=1).view().svg
    assert ">beyond</text>" not in explore_roofline().view().svg


def test_a_mix_that_is_slower_gets_a_slope_of_its_own():
    mixed = explore_roofline(roof=UNEVEN, second=None).view().svg
    assert mixed.count('stroke-width="1"/>') > explore_roofline(second=None).view().svg.count('stroke-width="1"/>')


@pytest.mark.parametrize("chip", rk.chips("bfloat16"))
def test_every_chip_draws_every_operation(chip):
    for operation in OPERATIONS:
        assert draw(chip, None, "bfloat16", operation, 2.5e-6, **SHAPES).rows[0] == ("", chip)


@pytest.mark.parametrize("wrong, says", [
    ({"operation": "dot product", "n": 1000}, "a dot product has no size 'n': use length"),
    ({"m": "128"}, "m is '128', but it must be a whole number"), ({"m": float("nan")}, "m is nan"),
    ({"launch": "a"}, "launch is 'a'"), ({"operation": None}, "unknown operation None"),
    ({"chip": None}, "chip is None"),
    ({"chip": UNEVEN}, "give a roof of yours as roof="), ({"roof": "H100 SXM"}, "a Roofline is needed"),
    ({"dtype": "float33"}, "unknown dtype 'float33'"), ({"second": "V10"}, "unknown chip")])
def test_a_wrong_argument_is_told_in_one_sentence(wrong, says):
    with pytest.raises(ValueError, match=says) as told:
        explore_roofline(**wrong)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("roof", [rk.Roofline(1e12, 1e11), rk.Roofline(1e12, 1e11, origin="guess"), UNEVEN])
def test_a_roof_of_ones_own_needs_no_row_in_the_table(roof):
    assert explore_roofline(roof=roof).view().rows[0][1] == roof.name


def test_a_short_name_of_a_chip_will_do():
    assert explore_roofline("H200", "B200").view().rows[0] == ("", "H200 SXM", "B200")


@pytest.mark.parametrize("m", [1, 4, 8, 11, 16, 64])
def test_in_the_gemm_explorer_too_the_ridge_point_agrees_with_the_bound(m):
    rows = {first: rest for first, *rest in rk.explore_gemm(m=m, roof=UNEVEN).view().rows}
    for place in (0, 1):
        intensity, ridge = (float(rows[name][place].split()[0]) for name in ("arithmetic intensity", "ridge point"))
        assert (intensity < ridge) == (rows["bound"][place] == "memory-bound")
