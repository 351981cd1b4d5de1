"""Do the CUDA loops and products move the bytes they say, at odd addresses too, and refuse what they would misread?"""

import ml_dtypes
import numpy as np
import pytest

from roofline_kit.cuda import cuda
from roofline_kit.device import device
from roofline_kit.kernels import Launcher, launched, source

CPU = device("cpu")
HALVES = {"float16": 5e-3, "bfloat16": 2e-2}                 # and how exact they are
LOOPS = {"copy": lambda x, y: x, "triad": lambda x, y: x + 0.3 * y, "write": lambda x, y: 0.3,
         "scale": lambda x, y: 0.3 * x}


def given(name, x, y, out):
    """What each loop over arrays is called with; first what it writes."""
    return {"read": (x,), "dot": (x, y), "copy": (out, x), "triad": (out, x, y, 0.3), "write": (out, 0.3),
            "scale": (x, 0.3)}[name]


def on_cuda(name, *arguments):
    return launched(name, Launcher(np, lambda code, kernel: cuda(code, kernel, device="cpu")))(*arguments)


def near_one(dtype, count=2, n=1003):
    return [np.random.default_rng(seed).uniform(0.5, 1.5, n).astype(getattr(ml_dtypes, dtype, dtype))
            for seed in range(count)]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", LOOPS)
def test_the_cuda_loops_know_halves(name, dtype):
    x, y = near_one(dtype)
    arguments = given(name, x, y, np.full_like(x, np.nan))
    expected = np.broadcast_to(LOOPS[name](x.astype(float), y.astype(float)), x.shape)
    on_cuda(name, *arguments)
    np.testing.assert_allclose(arguments[0].astype(float), expected, rtol=HALVES[dtype])


@pytest.mark.parametrize("dtype", HALVES)
def test_the_cuda_sums_of_halves_are_made_in_float32(dtype):
    x, y = near_one(dtype)
    exact_x, exact_y = x.astype(float), y.astype(float)
    assert on_cuda("read", x, 2) == pytest.approx(2 * exact_x.sum(), rel=1e-5)
    assert on_cuda("dot", x, y) == pytest.approx(exact_x @ exact_y, rel=1e-5)


def test_the_sum_of_a_launch_begins_at_nothing_again():
    """Two launches follow each other inside one, which only the CPU allows: there a kernel is a function."""
    twice = """
        extern "C" __global__ void twice(const float *x, long long n, float *sums) {
            stream_read(x, n, 1, sums);
            stream_read(x, n, 1, sums + 1);
        }"""
    x, sums = np.ones(77, "float32"), np.zeros(2, "float32")
    cuda(source("stream") + twice, "twice", device="cpu")((1,), (64,), (x, np.int64(77), sums))
    assert sums.tolist() == [77, 77]


SHIFTED = """
    extern "C" __global__ void shifted(float *out, const float *x, const float *y, long long n, float *sums) {
        stream_triad(out + 1, x + 2, y + 3, 0.3f, n - 3);
        stream_read(x + 1, n - 1, 2, sums);
        stream_dot(x + 1, y, n - 1, sums + 1);
    }"""


def test_arrays_that_begin_between_two_vectors_are_walked_by_elements():
    (x, y), out, sums = near_one("float32", 2, 500), np.zeros(500, "float32"), np.zeros(2, "float32")
    cuda(source("stream") + SHIFTED, "shifted", device="cpu").check((1,), (64,), (out, x, y, np.int64(500), sums))
    np.testing.assert_allclose(out[1:-2], x[2:-1] + np.float32(0.3) * y[3:], rtol=1e-5, atol=1e-6)
    assert sums == pytest.approx([2 * x[1:].sum(), x[1:] @ y[:-1]], rel=1e-5)


def traced(name, *arguments):
    """The Trace of one launch."""
    found = []

    def compiled(code, kernel):
        return lambda *launch: found.append(cuda(code, kernel, device="cpu").trace(*launch))
    launched(name, Launcher(np, compiled))(*arguments)
    return found[0]


@pytest.mark.parametrize(("name", "loads", "stores", "flops"), [
    ("read", 1, 0, None), ("dot", 2, 0, None), ("copy", 1, 1, 0), ("triad", 2, 1, 2), ("write", 0, 1, 0),
    ("scale", 1, 1, 1)])
def test_a_loop_over_arrays_moves_the_bytes_of_its_ledger(name, loads, stores, flops):
    n, trace = 1003, traced(name, *given(name, *near_one("float32", 3)))
    result = 4 * (stores == 0)                               # a sum is one number
    assert (trace.loaded, trace.stored) == (4 * n * loads, 4 * n * stores + result) and not trace.races
    assert flops is None or trace.flops == flops * n


@pytest.mark.parametrize(("name", "tile", "loads"), [
    ("gemm_naive", (), 2), ("gemm_tiled", (8,), 2 / 8), ("gemm_tiled", (32,), 2 / 32),
    ("gemm_register_tiled", (), 2 / 128)])
def test_a_product_moves_the_bytes_of_its_ledger(name, tile, loads):
    m, n, k = 128, 128, 32
    a, b, out = (np.random.default_rng(1).random(shape, "float32") for shape in ((m, k), (k, n), (m, n)))
    trace = traced(name, a, b, out, *tile)
    assert (trace.loaded, trace.stored) == (4 * m * n * k * loads, 4 * m * n) and not trace.races
    assert trace.flops == 2 * m * n * k


def test_tensor_cores_move_two_bytes_for_each_number_that_they_multiply():
    m, n, k = 128, 128, 64
    a, b = (np.random.default_rng(1).random(shape, "float32").astype("float16") for shape in ((m, k), (k, n)))
    trace = traced("gemm_tensor_core", a, b, np.zeros((m, n), "float32"))
    assert (trace.loaded, trace.stored, trace.flops) == (4 * m * n * k / 128, 4 * m * n, 2 * m * n * k)
    assert not trace.races


WRONG = {  # a, b, out by shape and dtype: what the sentence says
    ((3, 4), (5, 6), (3, 6), "float32"): "do not fit", ((3, 4), (4, 6), (6, 3), "float32"): "do not fit",
    ((3, 4), (4, 6), (3, 6), "int32"): "in one of"}


@pytest.mark.parametrize("name", ["gemm_naive", "gemm_tiled", "gemm_register_tiled", "gemm_tensor_core"])
@pytest.mark.parametrize("wrong", WRONG)
def test_matrices_that_a_kernel_would_read_wrongly_are_refused(name, wrong):
    *shapes, dtype = wrong
    for run in CPU.kernel(name), lambda *matrices: on_cuda(name, *matrices):
        with pytest.raises(ValueError, match=WRONG[wrong]):
            run(*(np.zeros(shape, dtype) for shape in shapes))


def test_a_matrix_that_does_not_lie_row_by_row_is_refused():
    a, out = np.zeros((4, 4), "float32"), np.zeros((4, 4), "float32")
    with pytest.raises(ValueError, match="row by row"):
        CPU.kernel("gemm_naive")(a, a.T, out)


@pytest.mark.parametrize("tile", [0, 33])
def test_a_tile_of_more_threads_than_a_block_has_is_refused(tile):
    a = np.zeros((4, 4), "float32")
    with pytest.raises(ValueError, match="choose from 1 to 32"):
        on_cuda("gemm_tiled", a, a, a.copy(), tile)


def test_arrays_of_two_lengths_are_refused():
    with pytest.raises(ValueError, match=r"^the arrays are of 4 x float32, 3 x float32: give arrays of one length"):
        on_cuda("copy", np.zeros(4, "float32"), np.zeros(3, "float32"))


def test_an_array_with_gaps_is_refused():
    with pytest.raises(ValueError, match="do not lie side by side"):
        on_cuda("read", np.zeros(8, "float32")[::2])
