"""Do the kernels along rows move the bytes that ops counts, and do the twins' own numbers and stores come out right?"""

import numpy as np
import pytest
from numba import njit

import roofline_kit as rk
from roofline_kit.kernels import Launcher, floats, fused_rows, launched, rows, streaming

CPU = rk.device("cpu")
COUNTED = {"layernorm": rk.layernorm, "softmax": rk.softmax}
HALVES = ("float16", "bfloat16")


def every_half(name):
    """All 65,536 numbers of that dtype."""
    import ml_dtypes

    return np.arange(2**16, dtype="uint16").view(getattr(ml_dtypes, name, name))


@njit(**floats.EXACT)
def widen(row, out):
    for i in range(row.size):
        out[i] = floats.widened(row[i])


@njit(**floats.EXACT)
def narrow(row, out):
    for i in range(row.size):
        floats.put(out, i, row[i])


@njit(**floats.EXACT)
def exponentials(row, out):
    for i in range(row.size):
        out[i] = floats.exp(row[i])


def traced_bytes(kernel, *arrays):
    """(distinct bytes read, written, launches) of a kernel's launches, each counted by itself."""
    traces = []

    def compiled(source, name):
        kernel = rk.cuda(source, name, device="cpu")

        def run(grid, block, args, shared_mem=0):
            traces.append(kernel.trace(grid, block, args, shared_mem))
            kernel(grid, block, args, shared_mem)
        return run

    launched(kernel, Launcher(np, compiled))(*arrays)
    return sum(t.unique_loaded for t in traces), sum(t.unique_stored for t in traces), len(traces)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(4, 512), (3, 77)])
@pytest.mark.parametrize("kernel, fused", [("layernorm", True), ("layernorm_unfused", False), ("softmax", True),
                                           ("softmax_unfused", False)])
def test_a_trace_counts_the_bytes_of_ops(kernel, fused, shape, dtype):
    name = kernel.removesuffix("_unfused")
    x, out = CPU.random(*shape, dtype=dtype), CPU.random(*shape, dtype=dtype)
    weights = [CPU.random(shape[1], dtype=dtype) for _ in range(2 if name == "layernorm" else 0)]
    work = COUNTED[name](*shape, dtype, fused=fused)
    assert traced_bytes(kernel, x, *weights, out) == (work.nbytes - work.written, work.written, work.launches)


@pytest.mark.parametrize("name", HALVES)
def test_every_half_widens_exactly(name):
    numbers, out = every_half(name), np.empty(2**16, "float32")
    widen(*floats.stored(numbers), out)
    np.testing.assert_array_equal(out, numbers.astype("float32"))


@pytest.mark.parametrize("name", HALVES)
def test_a_float_is_narrowed_to_the_nearest_half(name):
    bits = np.random.default_rng(5).integers(0, 2**32, 200_000, dtype="uint32").view("float32")
    numbers = np.concatenate([bits, CPU.random(50_000), 1e-5 * CPU.random(50_000), every_half(name).astype("float32")])
    out = np.empty(numbers.size, every_half(name).dtype)
    narrow(numbers, *floats.stored(out))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out.astype("float32"), numbers.astype(out.dtype).astype("float32"))


def test_exp_is_as_near_as_it_says():
    numbers = -np.concatenate([np.logspace(-8, 1.94, 100_000), [0]]).astype("float32")
    out = np.empty_like(numbers)
    exponentials(numbers, out)
    assert np.all(np.abs(out / np.exp(numbers, dtype="float64") - 1) < 2e-7 + 6e-8 * np.abs(numbers))


def test_exp_of_what_is_hidden_is_zero():
    out = np.full(3, np.nan, "float32")
    exponentials(np.array([-88, -1e30, -np.inf], "float32"), out)
    assert not out.any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("begin, size", [(0, 0), (0, 1), (1, 5), (3, 40), (0, 1000), (5, 10_007)])
def test_a_streaming_triad_adds_a_multiple(begin, size, dtype):
    x, y, out = (CPU.random(begin + size, dtype=dtype)[begin:] for _ in range(3))
    streaming.triad_streaming(out, x, y, 0.3)
    np.testing.assert_allclose(out, x + x.dtype.type(0.3) * y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("width", [1, 7, 64, 1027, 4096])
def test_rows_stored_past_the_caches_are_the_same(width):
    x, (gain, bias) = CPU.random(5, width), CPU.random(2, width)
    for kernels, arrays in (((fused_rows.layernorm, fused_rows.layernorm_past), (x, gain, bias)),
                            ((fused_rows.softmax, fused_rows.softmax_past), (x,))):
        plain, past = np.full((2, 5, width), np.nan, "float32")
        kernels[0](*arrays, plain), kernels[1](*arrays, past)
        np.testing.assert_allclose(past, plain, rtol=1e-5, atol=1e-6)


def test_a_large_result_is_the_same_through_the_face():
    x = CPU.random(4100, 1030)
    out = np.full_like(x, np.nan)
    assert rows._large(x, out)
    rows.softmax(x, out)
    np.testing.assert_allclose(out[::500], np.exp(x[::500]) / np.exp(x[::500]).sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", *HALVES])
def test_a_layernorm_in_place_is_the_same(dtype):
    x, gain, bias = CPU.random(7, 70, dtype=dtype), *CPU.random(2, 70, dtype=dtype)
    out = np.zeros_like(x)
    rows.layernorm(x, gain, bias, out)
    rows.layernorm(x, gain, bias, x)
    np.testing.assert_array_equal(x, out)


def test_in_place_a_large_result_is_stored_where_its_lines_were_read():
    x = CPU.random(4100, 1030)
    out = np.full_like(x, np.nan)
    rows.softmax(x, out)
    assert not rows._large(x, x)
    rows.softmax(x, x)
    np.testing.assert_allclose(x[::500], out[::500], rtol=1e-5)


def test_other_dtypes_are_told_so():
    with pytest.raises(ValueError, match="of float64.*: give softmax on a CPU x and out in one of float32, float16"):
        rows.softmax(np.ones((2, 2)), np.ones((2, 2)))


@pytest.mark.parametrize("ids", [[0, 3], [-1, 2]])
def test_an_id_that_names_no_row_is_refused(ids):
    with pytest.raises(IndexError, match="the table has rows 0 to 2"):
        rows.embedding(CPU.random(3, 4), np.array(ids), CPU.random(2, 4))


def test_a_head_size_without_a_kernel_is_refused():
    q = np.ones((1, 2, 48), "float32")
    with pytest.raises(ValueError, match="head size 48: choose 16, 32, 64 or 128"):
        launched("flash_attention", Launcher(np, None))(q, q, q, q.copy())


def test_ids_of_another_dtype_are_refused():
    table = np.ones((2, 2), "float32")
    with pytest.raises(ValueError, match="ids is of int16.*ids in int32 or int64"):
        launched("embedding", Launcher(np, None))(table, np.ones(2, "int16"), table.copy())
