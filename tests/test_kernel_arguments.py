"""Is a kernel that is given wrong arguments refused in one sentence, the twin and the CUDA kernel, before it runs?"""

import ml_dtypes
import numpy as np
import pytest

import roofline_kit as rk
from roofline_kit.kernels import HOMES, Launcher, arguments, launched

CPU = rk.device("cpu")
BFLOAT16 = ml_dtypes.bfloat16
EMPTY = {"empty"}                        # takes nothing


def z(*shape, dtype="float32"):
    return np.ones(shape, dtype)


def fixed(array):
    """An array that may only be read."""
    array.flags.writeable = False
    return array


A, LONG, Q = z(4, 4), z(9), z(1, 4, 16)
MLP = z(3), z(5, 3), z(5), z(2, 5), z(2), z(2)
GRU = z(3), z(2), z(6, 3), z(6, 2), z(2, 6), z(2)
INT4 = z(4, 16, dtype="uint8"), z(4, 1, dtype="float16"), z(32), z(4)


def but(given, place, value):
    """Those arguments with another one in that place."""
    return *given[:place], value, *given[place + 1:]


BOTH = [  # kernel, its arguments, words of the sentence: for the twin and for the CUDA kernel
    ("read", (z(8)[::2],), "side by side"),
    ("read", ([1.0, 2.0],), "x is a list"),
    ("read", (z(8), 2.5), "repeats is 2.5: give a whole number"),
    ("read", (), "missing a required argument: 'x': call it as read"),
    ("scale", (z(8, dtype="int32"), 0.5), "x is of int32"),
    ("scale", (fixed(z(8)), 0.5), "may only be read"),
    ("scale", (z(8), None), "s is None: give a real number"),
    ("copy", (z(2**20), z(10)), "the arrays are of 1048576 x float32, 10 x float32"),
    ("copy", (z(8, dtype="int32"), z(8)), "give arrays of one length and one dtype"),
    ("copy", (LONG[1:], LONG[:-1]), "out shares memory with what copy reads"),
    ("copy", (z(9, 9), z(9, 8)), "one length"),
    ("triad", (z(8), z(8), z(3), 0.5), "8 x float32, 8 x float32, 3 x float32"),
    ("triad", (LONG[1:], LONG[:-1], z(8), 0.5), "shares memory"),
    ("write", (None, 1.0), "out is a NoneType"),
    ("write", (np.array(1.0), 1.0), "no dimensions"),
    ("dot", (z(8), z(10**6)), "one length"),
    ("dot", (z(8), z(8), z(8)), "too many positional arguments"),
    ("fma", (0, 10, z(4)), "0 chains"),
    ("fma", (2.5, 10, z(4)), "chains is 2.5"),
    ("fma", (4, 10, z(4, dtype="int32")), "out is of int32"),
    ("gemm_naive", (A, z(4, 4), A), "out shares memory with what gemm_naive reads"),
    ("gemm_naive", (A, z(4), z(4)), "do not fit"),
    ("gemm_tiled", (A, z(4, 4), A), "shares memory"),
    ("gemm_tiled", (A, z(4, 4), z(4, 4), 2.5), "tile is 2.5: give a whole number"),
    ("gemm_register_tiled", (A, z(4, 4), z(4, 4).T[:2]), "do not fit"),
    ("gemm_register_tiled", (A, z(4, 4), A), "shares memory"),
    ("gemm_tensor_core", (A, A, z(4, 4)), "a and b in one of float16, bfloat16, out in float32"),
    ("layernorm", (A, z(4), z(4), z(3, 4)), r"out \(3, 4\) do not fit: give layernorm x\[rows, width\]"),
    ("layernorm", (A, z(3), z(4), z(4, 4)), "do not fit"),
    ("layernorm", (A, z(4, dtype="float16"), z(4), z(4, 4)), "gain is of float16"),
    ("layernorm", (A, z(4), A[0], A), "shares memory"),
    ("layernorm_unfused", (A, z(4), z(4), z(4, 3)), "do not fit"),
    ("softmax", (A, z(4, 3)), "do not fit"),
    ("softmax", (z(4, 8)[:, ::2], z(4, 4)), "row by row"),
    ("softmax_three_pass", (A, fixed(z(4, 4))), "may only be read"),
    ("softmax_unfused", (z(4), z(4)), "do not fit"),
    ("embedding", (A, np.arange(4), z(3, 4)), "do not fit"),
    ("embedding", (A, z(4), z(4, 4)), "ids is of float32"),
    ("embedding", (A.astype(BFLOAT16), np.arange(4), z(4, 4, dtype="float16")), "out is of float16"),
    ("attention", (Q, z(1, 3, 16), z(1, 3, 16), z(1, 4, 16)), "do not fit"),
    ("attention", (Q, Q, Q, Q), "shares memory"),
    ("flash_attention", (Q, z(1, 8, 16), z(1, 8, 16), z(1, 4, 16)), "do not fit"),
    ("mlp", but(MLP, 0, z(2)), r"x \(2,\)"),
    ("mlp", but(MLP, 5, z(2, dtype="float64")), "out is of float64"),
    ("gru", but(GRU, 4, z(6)), "do not fit"),
    ("gru", but(GRU, 5, GRU[1]), "shares memory"),
    ("matvec", (A, z(3), z(4)), "do not fit"),
    ("matvec", (A, z(4), z(5)), "do not fit"),
    ("matvec", (A.astype("int16"), z(4), z(4)), "w is of int16"),
    ("matvec", (z(4, 4).astype(">f4"), z(4), z(4)), "w is of >f4"),
    ("matvec_bfloat16", (A, z(4), z(4)), "w is of float32.*w in bfloat16"),
    ("matvec_bfloat16", (A.astype("float16"), z(4), z(4)), "w is of float16"),
    ("matvec_int8", (A.astype("int8"), z(3), z(4), z(4)), "do not fit"),
    ("matvec_int8", (A.astype("uint8"), z(4), z(4), z(4)), "w is of uint8"),
    ("matvec_int4", but(INT4, 1, z(4, 1)), "scale is of float32.*scale in float16"),
    ("matvec_int4", but(INT4, 0, z(4, 15, dtype="uint8")), "do not fit")]
TWINS = [  # what only a twin does not know
    ("fma", (5, 10, 0.5), "no loop over vectors with 5 chains"),
    ("fma", (4, 10, 1), "fma cannot begin with an object of int"),
    ("gemm_naive", (A.astype("float16"),) * 2 + (z(4, 4, dtype="float16"),), "give gemm_naive on a CPU"),
    ("read", (z(8, dtype="float16"),), "read on a CPU x in one of float32, float64")]


def unlaunched(name):
    """The CUDA kernel of that name with nothing to run it: a launch fails the test."""
    return launched(name, Launcher(np, lambda *wanted: pytest.fail(f"{name} was launched")))


@pytest.mark.parametrize(("name", "given", "words"), BOTH + TWINS)
def test_a_twin_refuses_wrong_arguments_in_one_sentence(name, given, words):
    with pytest.raises((ValueError, TypeError), match=words) as found:
        CPU.kernel(name)(*given)
    assert "\n" not in str(found.value) and str(found.value).endswith(".")


@pytest.mark.parametrize(("name", "given", "words"), BOTH)
def test_a_launch_refuses_the_same(name, given, words):
    with pytest.raises((ValueError, TypeError), match=words):
        unlaunched(name)(*given)


def test_every_kernel_that_takes_something_is_tried():
    assert {name for name, *_ in BOTH} == set(HOMES) - EMPTY == set(arguments.RULES)


@pytest.mark.parametrize("name", ["scale", "copy", "triad", "write", "read", "dot", "fma"])
def test_arrays_of_two_dimensions_are_taken_as_one_row_of_numbers(name):
    out, x = np.zeros((100, 100)), np.arange(10_000.0).reshape(100, 100)
    given = {"scale": (out, 2), "copy": (out, x), "triad": (out, x, x, 1), "write": (out, 3), "read": (x,),
             "dot": (x, x), "fma": (2, 3, out)}[name]
    flat = [value.ravel().copy() if np.ndim(value) else value for value in given]
    assert CPU.kernel(name)(*given) == CPU.kernel(name)(*flat)
    assert all(np.array_equal(np.ravel(a), np.ravel(b)) for a, b in zip(given, flat, strict=True))


def test_a_result_may_take_the_place_of_what_is_read_at_the_same_place():
    x, y = z(1000), z(1000)
    CPU.kernel("triad")(y, x, y, 2)
    assert np.all(y == 3)


def test_rows_may_be_normalised_in_place():
    x, out = CPU.random(5, 700), z(5, 700)
    CPU.kernel("layernorm")(x, z(700), z(700), out)
    CPU.kernel("layernorm")(x, z(700), z(700), x)
    np.testing.assert_array_equal(x, out)


def test_an_error_that_no_rule_explains_stays_what_it_is():
    with pytest.raises(IndexError, match="rows 0 to 3"):
        CPU.kernel("embedding")(A, np.array([9]), z(1, 4))


@pytest.mark.parametrize("name", HOMES)
def test_a_twin_keeps_its_name_and_its_words(name):
    twin = CPU.kernel(name)
    assert twin.__name__ == name and twin.__doc__


def test_the_same_arguments_are_looked_at_once_and_others_again(monkeypatch):
    looks, x, y = [], z(8), z(8)
    monkeypatch.setattr(arguments, "checked", lambda *_: looks.append(1))
    copy = launched("copy", Launcher(np, lambda source, name: lambda *_: None))
    for given in ((x, y), (x, y), (y, x), (x, y[:4]), (x, y[::2])):
        copy(*given)
    assert len(looks) == 4
