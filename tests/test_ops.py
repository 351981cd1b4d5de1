"""Each formula against a count by execution, and against every number that the article and other sources state."""

import numpy as np
import pytest

from roofline_kit import ops, referee

SHAPES = [(2, 3, 4), (1, 5, 2), (4, 1, 3)]


def product(A, B, C):
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            total = 0
            for p in range(A.shape[1]):
                total += A[i, p] * B[p, j]
            C[i, j] = total


def inner(a, b):
    total = 0
    for i in range(len(a)):
        total += a[i] * b[i]


def scale_and_add(x, y):
    for i in range(len(x)):
        y[i] = 2.0 * x[i] + y[i]


def addition(a, b, c):
    for i in range(len(a)):
        c[i] = a[i] + b[i]


def normalise_row_by_row(x, gamma, beta, y):
    rows, width = x.shape
    for i in range(rows):
        row, mean, var = [x[i, j] for j in range(width)], 0, 0
        for value in row:
            mean += value
        mean = mean / width
        centred = [value - mean for value in row]
        for value in centred:
            var += value * value
        deviation = (var / width + 1e-5).sqrt()
        for j in range(width):
            y[i, j] = centred[j] / deviation * gamma[j] + beta[j]


def softmax_row_by_row(x, y):
    rows, width = x.shape
    for i in range(rows):
        row, largest, total = [x[i, j] for j in range(width)], -1e30, 0
        for value in row:
            largest = max(largest, value)
        powers = [(value - largest).exp() for value in row]
        for power in powers:
            total += power
        for j in range(width):
            y[i, j] = powers[j] / total


def same(counted, work):
    seen = counted.work
    return (seen.flops, seen.nbytes, seen.written, seen.rewritten) == (
        work.flops, work.nbytes, work.written, work.rewritten)


@pytest.mark.parametrize("m, n, k", SHAPES)
def test_gemm_counts_what_its_loop_nest_does(m, n, k):
    assert same(referee.count(product, A=(m, k), B=(k, n), C=(m, n)), ops.gemm(m, n, k))


@pytest.mark.parametrize("n", [1, 7])
def test_vector_operations_count_what_their_loops_do(n):
    assert same(referee.count(inner, a=n, b=n), ops.dot(n))
    assert same(referee.count(scale_and_add, x=n, y=n), ops.axpy(n))
    assert same(referee.count(addition, a=n, b=n, c=n), ops.elementwise(n))


@pytest.mark.parametrize("rows, width", [(1, 2), (3, 5)])
def test_fused_layernorm_counts_what_its_loops_do(rows, width):
    counted = referee.count(normalise_row_by_row, x=(rows, width), gamma=width, beta=width, y=(rows, width))
    assert same(counted, ops.layernorm(rows, width))


@pytest.mark.parametrize("rows, width", [(1, 2), (3, 5)])
def test_fused_softmax_counts_what_its_loops_do(rows, width):
    assert same(referee.count(softmax_row_by_row, x=(rows, width), y=(rows, width)), ops.softmax(rows, width))


def numpy_layernorm(x, gamma, beta):
    centred = x - x.mean(axis=1, keepdims=True)
    var = (centred * centred).mean(axis=1, keepdims=True)
    return centred / np.sqrt(var + 1e-5) * gamma + beta


def numpy_softmax(x):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows, width", [(2, 3), (5, 64)])
def test_unfused_forms_count_the_passes_of_numpy_code(rows, width, dtype):
    x, g = np.ones((rows, width), dtype), np.ones(width, dtype)
    counted, work = referee.passes(numpy_layernorm, x, g, g.copy()), ops.layernorm(rows, width, dtype, fused=False)
    assert same(counted, work) and counted.work.launches == work.launches
    counted, work = referee.passes(numpy_softmax, x), ops.softmax(rows, width, dtype, fused=False)
    assert same(counted, work) and counted.work.launches == work.launches


def test_a_linear_layer_is_one_gemm():
    assert ops.linear(8, 16, 32).flops == ops.gemm(8, 32, 16).flops
    with_bias = ops.linear(8, 16, 32, bias=True)
    assert (with_bias.flops, with_bias.nbytes) == (2 * 8 * 16 * 32 + 8 * 32, 4 * (8 * 16 + 16 * 32 + 8 * 32 + 32))


# ---- Worked examples: the article -----------------------------------------------------------------------------------

def test_the_articles_product_moves_7_million_bytes_not_8():
    work = ops.gemm(1024, 2048, 512, "bfloat16")
    assert (work.flops, work.nbytes) == (2_147_483_648, 7_340_032)
    assert work.intensity == pytest.approx(292.571, abs=1e-3)


def test_one_row_of_it_has_intensity_one():
    work = ops.gemm(1, 2048, 512, "bfloat16")
    assert (work.flops, work.nbytes) == (2_097_152, 2_102_272) and work.intensity == pytest.approx(0.9976, abs=5e-5)


def test_layernorm_lies_between_one_and_two_flops_a_byte():
    assert 1.25 <= ops.layernorm(4096, 4096, "bfloat16").intensity <= 2
    assert ops.layernorm(4096, 4096, "bfloat16").intensity == pytest.approx(1.75, rel=1e-3)


def test_a_dot_product_has_intensity_a_half_in_two_bytes_and_a_quarter_in_four():
    assert ops.dot(1000, "bfloat16").intensity == 0.5 and ops.dot(1000, "float32").intensity == 0.25


# ---- Worked examples: published answers ----------------------------------------------------------------------------

def test_nvidia_matrix_multiplication_guide():
    assert ops.gemm(8192, 128, 8192, "float16").intensity == pytest.approx(124.1, abs=0.05)
    assert ops.gemm(8192, 8192, 8192, "float16").intensity == pytest.approx(2730, abs=1)


def test_nvidia_gpu_performance_guide():
    assert ops.linear(512, 1024, 4096, "float16").intensity == pytest.approx(315, abs=0.5)
    assert ops.linear(1, 1024, 4096, "float16").intensity == pytest.approx(0.9988, abs=5e-5)
    assert ops.elementwise(10**6, inputs=1, dtype="float16").intensity == 0.25                       # ReLU


def test_modal_gpu_glossary():
    assert ops.axpy(10**6).intensity == pytest.approx(1 / 6)


# ---- What is refused -----------------------------------------------------------------------------------------------

@pytest.mark.parametrize("bad", [0, -3, 2.5, float("nan"), None, "8"])
def test_a_size_that_cannot_be_is_refused_by_name(bad):
    for call in (lambda: ops.gemm(4, bad, 4), lambda: ops.dot(bad), lambda: ops.layernorm(2, bad)):
        with pytest.raises(ValueError, match="must be a whole number of at least 1"):
            call()


def test_numpys_sizes_do_not_overflow():
    big = np.int32(46341)
    assert ops.gemm(big, big, np.int32(2)) == ops.gemm(46341, 46341, 2)
    assert ops.dot(np.uint8(200)).flops == 400 and type(ops.layernorm(big, big).flops) is int


def test_an_unknown_dtype_is_refused_by_every_operation():
    for call in (lambda: ops.gemm(2, 2, 2, "fp16"), lambda: ops.axpy(2, "fp16"), lambda: ops.softmax(2, 2, "fp16")):
        with pytest.raises(ValueError, match="unknown dtype"):
            call()
