"""Do the kernels compute what they say, on any number of threads and on lengths that no vector divides?"""

import numpy as np
import pytest

from roofline_kit.device import device
from roofline_kit.kernels import HOMES
from roofline_kit.kernels.fma import CHAINS, RATIO, fma, in_vectors, width

numba = pytest.importorskip("numba")
CPU = device("cpu")
ODD = 10_007
DTYPES = ("float32", "float64")


def arrays(count, dtype):
    return [CPU.random(ODD, dtype=dtype, seed=seed) for seed in range(count)]


@pytest.fixture(params=sorted({1, CPU.cores}))
def threads(request):
    before = numba.get_num_threads()
    numba.set_num_threads(min(request.param, numba.config.NUMBA_NUM_THREADS))
    yield numba.get_num_threads()
    numba.set_num_threads(before)


@pytest.mark.parametrize("dtype", DTYPES)
def test_read_sums_every_element(threads, dtype):
    (x,) = arrays(1, dtype)
    assert CPU.kernel("read")(x) == pytest.approx(x.sum(dtype="float64"), abs=1e-5 * float(np.abs(x).sum()))


def test_read_over_and_over_sums_over_and_over(threads):
    (x,) = arrays(1, "float64")
    assert CPU.kernel("read")(x, 7) == pytest.approx(7 * x.sum(), rel=1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
def test_scale_changes_its_array_in_place(threads, dtype):
    (x,) = arrays(1, dtype)
    expected = x * x.dtype.type(0.3)
    CPU.kernel("scale")(x, 0.3)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_copy_copies(threads, dtype):
    out, x = arrays(2, dtype)
    CPU.kernel("copy")(out, x)
    np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_triad_adds_a_multiple(threads, dtype):
    out, x, y = arrays(3, dtype)
    CPU.kernel("triad")(out, x, y, 0.3)
    np.testing.assert_allclose(out, x + x.dtype.type(0.3) * y, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_write_fills(threads, dtype):
    (out,) = arrays(1, dtype)
    CPU.kernel("write")(out, 2.5)
    np.testing.assert_array_equal(out, np.full_like(out, 2.5))


@pytest.mark.parametrize("length", range(6))
@pytest.mark.parametrize("name", ["read", "copy"])
def test_arrays_shorter_than_the_threads_are_many_are_no_special_case(name, length):
    x = np.arange(1.0, length + 1)
    out = np.zeros(length)
    assert (CPU.kernel("read")(x) if name == "read" else CPU.kernel("copy")(out, x) or out.sum()) == x.sum()


def chained(chains, steps, start):
    """What fma computes on one thread, by NumPy: each lane of each chain on its own."""
    lanes = width() // start.itemsize
    x = start + np.add.outer(np.arange(chains) / 16, np.arange(lanes) / 256)
    for _ in range(steps):
        x = RATIO * x + (1 - RATIO)
    return x.sum()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("chains", CHAINS)
def test_chains_of_multiply_adds_give_numpys_numbers(threads, chains, dtype):
    start = np.dtype(dtype).type(0.5)
    assert fma(chains, 5, start) == pytest.approx(threads * chained(chains, 5, start), rel=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_chain_is_computed_in_whole_vectors(dtype):
    in_vectors(1, 1, np.dtype(dtype).type(0.5))
    code = "".join(in_vectors.inspect_llvm().values())
    letter, lanes = ("float", width() // 4) if dtype == "float32" else ("double", width() // 8)
    assert code.count(f"fmul contract <{lanes} x {letter}>") >= sum(CHAINS)


def test_numbers_stay_away_from_zero_however_long_a_chain_runs():
    lanes = width() // 8
    assert fma(1, 200_000, 0.5) == pytest.approx(numba.get_num_threads() * lanes, rel=1e-6)


def test_a_long_dot_product_stays_exact():
    x, y = (np.random.default_rng(seed).uniform(0.5, 1.5, 3_000_001).astype("float32") for seed in (1, 2))
    assert CPU.kernel("dot")(x, y) == pytest.approx(np.dot(x.astype("float64"), y.astype("float64")), rel=1e-6)


def test_every_kernel_has_a_home():
    assert all(callable(CPU.kernel(name)) for name in HOMES)


def test_an_unknown_kernel_is_told_with_the_nearest_names():
    with pytest.raises(ValueError, match="did you mean 'triad'"):
        CPU.kernel("triade")
