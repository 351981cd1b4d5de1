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


# ---- The operations of machine learning -----------------------------------------------------------------------------

def looked_up(table, ids, y):
    for token, row in enumerate(ids.values):
        for j in range(y.shape[1]):
            y[token, j] = table[row, j]


def convolved(x, filters, y):
    (channels, _, _), (count, _, kernel, _), (_, height, width) = x.shape, filters.shape, y.shape
    for f in range(count):
        for i in range(height):
            for j in range(width):
                total = 0
                for c in range(channels):
                    for u in range(kernel):
                        for v in range(kernel):
                            total += x[c, i + u, j + v] * filters[f, c, u, v]
                y[f, i, j] = total


def attended(q, k, v, out):
    """Softmax with a running maximum and sum would rescale: here each row of scores is kept, on the chip."""
    (queries, width), keys = q.shape, k.shape[0]
    for i in range(queries):
        query = [q[i, d] for d in range(width)]
        scores = []
        for j in range(keys):
            score = 0
            for d in range(width):
                score += query[d] * k[j, d]
            scores.append(score * width**-0.5)
        largest, total = -1e30, 0
        for score in scores:
            largest = max(largest, score)
        powers = [(score - largest).exp() for score in scores]
        for power in powers:
            total += power
        powers = [power / total for power in powers]
        for d in range(width):
            mixed = 0
            for j in range(keys):
                mixed += powers[j] * v[j, d]
            out[i, d] = mixed


def perceived(x, w1, b1, w2, b2, out):
    hidden = []
    for j in range(len(b1)):
        total = 0
        for i in range(len(x)):
            total += x[i] * w1[j, i]
        hidden.append(max(total + b1[j], 0.0))
    for j in range(len(b2)):
        total = 0
        for i, value in enumerate(hidden):
            total += value * w2[j, i]
        out[j] = total + b2[j]


def test_a_convolution_counts_what_its_loops_do_and_im2col_adds_its_windows_twice():
    shapes = {"x": (2, 5, 6), "filters": (3, 2, 3, 3), "y": (3, 3, 4)}
    direct = ops.conv2d(2, 5, 6, 3)
    assert same(referee.count(convolved, **shapes), direct)
    copied = ops.conv2d(2, 5, 6, 3, im2col=True)
    assert copied.flops == direct.flops and copied.nbytes - direct.nbytes == 2 * 4 * (2 * 3 * 3) * (3 * 4)
    assert copied.flops == ops.gemm(3, 3 * 4, 2 * 3 * 3).flops


def test_convolutions_of_real_networks_have_their_published_counts():
    first = ops.conv2d(3, 224, 224, 64, kernel=7, stride=2, padding=3)         # ResNet-50, conv1: 118.0e6 MAC
    assert first.flops == 2 * 112 * 112 * 64 * 3 * 49 == 2 * 118_013_952
    inner = ops.conv2d(64, 56, 56, 64, padding=1, batch=2)
    assert inner.flops == 2 * ops.conv2d(64, 56, 56, 64, padding=1).flops == 4 * 115_605_504


@pytest.mark.parametrize("queries, keys, width", [(2, 3, 4), (1, 5, 2)])
def test_attention_on_the_chip_counts_what_its_loops_do(queries, keys, width):
    counted = referee.count(attended, q=(queries, width), k=(keys, width), v=(keys, width), out=(queries, width))
    assert same(counted, ops.flash_attention(1, queries, keys, width))


def test_standard_attention_adds_the_scores_and_the_weights_each_written_and_read():
    standard, flash = ops.attention(2, 8, 16, 4), ops.flash_attention(2, 8, 16, 4)
    assert standard.nbytes - flash.nbytes == 4 * 4 * 2 * 8 * 16 and standard.flops == flash.flops
    assert (standard.written - flash.written, standard.launches) == (4 * 2 * 2 * 8 * 16, 3)


def test_attention_published_intensities_in_two_bytes():
    square = ops.flash_attention(1, 4096, 4096, 128, dtype="bfloat16")
    assert (square.flops - square.aside) / square.nbytes == pytest.approx(4096 / 2)
    decode = ops.flash_attention(32, 1, 4096, 128, dtype="bfloat16")
    grouped = ops.flash_attention(32, 1, 4096, 128, kv_heads=8, dtype="bfloat16")
    assert (decode.flops - decode.aside) / decode.nbytes == pytest.approx(1, rel=1e-3)
    assert (grouped.flops - grouped.aside) / grouped.nbytes == pytest.approx(4, rel=2e-3)      # a group of 4


def test_a_causal_mask_leaves_out_the_scores_of_later_keys():
    seen = sum(j <= i + 3 for i in range(5) for j in range(8))                 # 5 queries at the end of 8 keys
    assert ops.flash_attention(1, 5, 8, 4, causal=True).flops == (4 * 4 + 6) * seen
    with pytest.raises(ValueError, match="as many keys as queries"):
        ops.attention(1, 8, 5, 4, causal=True)


def test_each_block_of_queries_reads_the_keys_and_values_once_more():
    whole, blocks = ops.flash_attention(2, 64, 96, 8), ops.flash_attention(2, 64, 96, 8, block=24)     # 3 blocks
    assert blocks.nbytes - whole.nbytes == 2 * (2 * 2 * 96 * 8 * 4)
    with pytest.raises(ValueError, match="cannot share"):
        ops.flash_attention(6, 8, 8, 4, kv_heads=4)


def test_a_lookup_moves_rows_and_ids_and_a_short_row_costs_its_line():
    assert ops.embedding(10, 300).nbytes == 10 * (4 + 2 * 300 * 4)
    assert ops.embedding(10, 4, line=64).nbytes == 10 * (4 + 64 + 16)
    assert ops.embedding(10, 20, "float16", line=32).nbytes == 10 * (4 + 64 + 40)


def test_a_small_mlp_counts_what_its_loops_do():
    counted = referee.count(perceived, x=3, w1=(4, 3), b1=4, w2=(2, 4), b2=2, out=2)
    assert same(counted, ops.mlp(3, 4, 2))
    apart = ops.mlp(3, 4, 2, fused=False)
    assert apart.launches == 5 and apart.nbytes - ops.mlp(3, 4, 2).nbytes == 4 * (6 * 4 + 2 * 2)


def test_an_unfused_mlp_counts_the_passes_of_numpy_code():
    arrays = [np.ones(shape, "float32") for shape in ((6, 3), (3, 4), (4,), (4, 2), (2,))]
    counted = referee.passes(lambda x, w1, b1, w2, b2: np.maximum(x @ w1 + b1, 0) @ w2 + b2, *arrays)
    work = ops.mlp(3, 4, 2, batch=6, fused=False)
    assert (counted.work.nbytes, counted.work.flops, counted.work.launches) == (work.nbytes, work.flops, 5)


def test_a_gru_step_reads_three_gates_of_weights():
    work = ops.gru(8, 16)
    assert work.nbytes == 4 * (3 * 16 * 8 + 3 * 16 * 16 + 2 * 3 * 16 + 8 + 2 * 16)
    assert work.flops == 2 * 3 * 16 * (8 + 16) + 21 * 16


def test_quantised_weights_move_their_scales_too():
    plain, half = ops.matvec(64, 128), ops.matvec(64, 128, "bfloat16")
    assert plain.nbytes == 4 * (64 * 128 + 64 + 128) and plain.nbytes - half.nbytes == 2 * 64 * 128
    assert ops.matvec(64, 128, "int8").nbytes == 64 * 128 + 4 * 64 + 4 * (64 + 128)
    assert ops.matvec(64, 128, "int4").nbytes == 64 * 128 / 2 + 2 * 64 * 4 + 4 * (64 + 128)
    with pytest.raises(ValueError, match="groups of 48"):
        ops.matvec(64, 128, "int4", group=48)


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
