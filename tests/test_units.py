"""Sizes of dtypes, and quantities as a reader sees them."""

import pytest

from roofline_kit.units import DTYPES, itemsize, quantity, si


def test_a_quantity_gets_three_digits_and_a_prefix():
    assert [si(7340032, "B"), si(989.4e12, "FLOP/s"), si(2.191e-6, "s"), si(0, "s")] == \
        ["7.34 MB", "989 TFLOP/s", "2.19 us", "0 s"]


def test_rounding_up_moves_to_the_next_prefix():
    assert si(999_999, "B") == "1 MB" and si(9.999e-7, "s") == "1 us"


def test_an_intensity_has_no_prefix():
    assert si(0.08333, "FLOP/B") == "0.0833 FLOP/B" and si(2730.67, "FLOP/B") == "2,730 FLOP/B"


def test_what_is_not_finite_is_written_as_it_is():
    assert si(float("nan"), "s") == "nan s" and si(float("inf"), "B") == "inf B"


def test_element_sizes_agree_with_numpy():
    import numpy as np

    for dtype in ("float64", "float32", "float16", "int8"):
        assert np.dtype(dtype).itemsize == itemsize(dtype)


def test_an_unknown_dtype_offers_the_nearest_names():
    with pytest.raises(ValueError, match="unknown dtype 'bf16': did you mean 'bfloat16'"):
        itemsize("bf16")
    assert itemsize("int4") == 0.5 and len(DTYPES) == 9


@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), None, "12", 1.5])
def test_a_size_that_is_no_whole_number_is_named(bad):
    with pytest.raises(ValueError, match="n is .* whole number of at least 1"):
        quantity("n", bad, least=1, whole=True)
