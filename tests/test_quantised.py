"""How far from a weight is what int8 and int4 keep of it?"""

import numpy as np
import pytest
from cases.matvec import unpacked

import roofline_kit as rk
from roofline_kit.kernels.quantised import GROUP, to_int4, to_int8

SHAPES = [(1, 1), (3, 7), (5, 64), (4, 97), (2, 1023)]


def weights(m, n):
    return np.random.default_rng(m * n).standard_normal((m, n), dtype="float32")


@pytest.mark.parametrize("shape", SHAPES)
def test_int8_is_off_by_half_a_scale_at_most(shape):
    w = weights(*shape)
    q, scale = to_int8(w)
    assert q.dtype == "int8" and scale.shape == (len(w),)
    assert np.all(np.abs(w - scale[:, None].astype("float64") * q) <= 0.5001 * scale[:, None])


@pytest.mark.parametrize("shape", SHAPES)
def test_int4_is_off_by_half_a_scale_at_most(shape):
    w = weights(*shape)
    packed, scale = to_int4(w)
    each = np.repeat(scale.astype("float64"), GROUP, axis=1)[:, :w.shape[1]]
    assert np.all(np.abs(w - unpacked(packed, scale, w.shape[1])) <= 0.5001 * each)


def test_a_scale_is_the_largest_weight_of_its_row_or_group_over_the_largest_integer():
    w = weights(4, 97)
    np.testing.assert_allclose(to_int8(w)[1], np.abs(w).max(1) / 127, rtol=1e-6)
    np.testing.assert_allclose(to_int4(w)[1][:, 3], np.abs(w[:, 96]) / 7, rtol=1e-3)


def test_four_and_a_half_bits_are_kept_of_a_weight():
    packed, scale = to_int4(weights(8, 256))
    assert 8 * (packed.nbytes + scale.nbytes) == 4.5 * 8 * 256


def test_the_first_of_two_neighbours_lies_in_the_low_half_of_their_byte():
    packed, _ = to_int4(np.array([[7, -7, 1]], "float32"))
    assert packed.tolist() == [[15 | 1 << 4, 9 | 8 << 4]]


def test_zeros_among_other_weights_give_exactly_nothing():
    w = weights(8, 4096)
    w[3], w[:, 2048:] = 0, 0
    x, out = np.linspace(-3, 7, 4096, dtype="float32"), np.empty(8, "float32")
    packed, scale = to_int4(w)
    rk.device("cpu").kernel("matvec_int4")(packed, scale, x, out)
    assert out[3] == 0 and not scale[3].any() and scale[0, :64].all()


@pytest.mark.parametrize("quantise", [to_int8, to_int4])
def test_a_matrix_of_zeros_stays_one(quantise):
    stored, scale = quantise(np.zeros((2, 40), "float32"))
    assert np.all(stored == (0 if quantise is to_int8 else 8 | 8 << 4)) and np.all(np.isfinite(scale))
