"""Are the bytes, sectors, conflicts and FLOPs of a trace those that one counts by hand?"""

import functools
import operator

import numpy as np
import pytest

from roofline_kit import ops
from roofline_kit.cuda import CudaError, cuda
from roofline_kit.kernels import Launcher, launched

F = 4                        # B of a float
PATTERNS = """
extern "C" __global__ void stride(const float *x, float *out, int by) { out[threadIdx.x] = x[threadIdx.x * by]; }
extern "C" __global__ void offset(const float *x, float *out, int by) { out[threadIdx.x] = x[threadIdx.x + by]; }
extern "C" __global__ void wide(const float4 *x, float4 *out, int) { out[threadIdx.x] = x[threadIdx.x]; }
extern "C" __global__ void parts(const float4 *x, float4 *out, int) {
  float4 v = x[threadIdx.x], w = __ldg(x + threadIdx.x);
  v.x *= w.y;
  out[threadIdx.x] = v;
  out[threadIdx.x] = make_float4(v.x, w.y, v.z, w.w);
}
extern "C" __global__ void pairs(const float *x, float *out, int) {
  out[threadIdx.x] = x[2 * threadIdx.x] + x[2 * threadIdx.x + 1];
}
extern "C" __global__ void copied(const float *x, float *out, int n) {
  memcpy(out + threadIdx.x * n, x + threadIdx.x * n, n * sizeof(float));
}
extern "C" __global__ void same(const float *x, float *out, int) { out[threadIdx.x] = x[0] + x[1]; }
extern "C" __global__ void half_of(const float *x, float *out, int n) {
  if (threadIdx.x < n) out[threadIdx.x] = x[threadIdx.x];
}
extern "C" __global__ void atomic(const float *x, float *out, int) { atomicAdd(out, x[threadIdx.x]); }
template <int PAD> __device__ void turn(const float *x, float *out) {
  __shared__ float tile[32][32 + PAD];
  for (int row = threadIdx.x / 32; row < 32; row += 8) tile[row][threadIdx.x % 32] = x[row * 32 + threadIdx.x % 32];
  __syncthreads();
  for (int row = threadIdx.x / 32; row < 32; row += 8) out[row * 32 + threadIdx.x % 32] = tile[threadIdx.x % 32][row];
}
extern "C" __global__ void transpose(const float *x, float *out, int) { turn<0>(x, out); }
extern "C" __global__ void transpose_padded(const float *x, float *out, int) { turn<1>(x, out); }
extern "C" __global__ void arithmetic(const float *x, float *out, int n) {
  float a = x[0], b = x[1];
  if (n == 0) out[0] = a + b - a * b / a;
  if (n == 1) out[0] = fmaf(a, b, a);
  if (n == 2) out[0] = sqrtf(a) + expf(b) + logf(a);
  if (n == 3) out[0] = fmaxf(a, b) + min(a, 3.0f);
  if (n == 4) out[0] = a > b ? a : 0.0f;
  if (n == 5) out[0] = -fabsf(a) + 2.0f * 3.0f;
  if (n == 6) out[0] = float(double(a) * 2.0 + n);
  if (n == 7) { a += b; a *= b; out[0] = rsqrtf(a); }
}
"""


def pattern(name, argument=0, threads=256, size=4096):
    x, out = np.ones(size, "float32"), np.zeros(size, "float32")
    return cuda(PATTERNS, name, device="cpu").trace((1,), (threads,), (x, out, np.int32(argument)))


def traced(name, *args):
    """All launches of one of the kit's own kernels, added up."""
    seen = []

    def compiled(source, kernel):
        return lambda *call: seen.append(cuda(source, kernel, device="cpu").trace(*call))

    launched(name, Launcher(np, compiled))(*args)
    return functools.reduce(operator.add, seen)


def random(*shape, dtype="float32"):
    return np.random.default_rng(3).standard_normal(shape).astype(dtype)


def empty(*shape):
    return np.full(shape, np.nan, "float32")


@pytest.mark.parametrize(("name", "arrays", "loaded", "stored", "flops"), [
    ("copy", 1, 1, 1, 0), ("scale", 1, 1, 1, 1), ("triad", 2, 2, 1, 2), ("write", 0, 0, 1, 0)])
def test_a_stream_kernel_moves_each_element_once(name, arrays, loaded, stored, flops):
    n = 1000
    inputs = [random(n) for _ in range(arrays)]
    scalar = [] if name == "copy" else [np.float32(2)]
    found = traced(name, *([] if name == "scale" else [empty(n)]), *inputs, *scalar)
    assert (found.loaded, found.stored, found.flops) == (F * n * loaded, F * n * stored, flops * n)
    assert (found.unique_loaded, found.unique_stored) == (found.loaded, found.stored)


def test_triad_costs_what_an_elementwise_operation_does():
    found = traced("triad", empty(777), random(777), random(777), np.float32(2)).work()
    counted = ops.elementwise(777, inputs=2, flops=2)
    assert (found.flops, found.nbytes, found.written) == (counted.flops, counted.nbytes, counted.written)


def test_a_dot_product_reads_both_vectors_once():
    found = traced("dot", random(5000), random(5000))
    assert found.loaded == found.unique_loaded == ops.dot(5000).nbytes and not found.races


@pytest.mark.parametrize(("m", "n", "k"), [(16, 16, 16), (32, 48, 16), (5, 7, 3)])
def test_the_naive_product_loads_two_numbers_for_each_multiply_add(m, n, k):
    found, counted = traced("gemm_naive", random(m, k), random(k, n), empty(m, n)), ops.gemm(m, n, k)
    assert (found.loaded, found.stored, found.flops) == (2 * F * m * n * k, F * m * n, counted.flops)
    assert found.unique_loaded + found.unique_stored == counted.nbytes


@pytest.mark.parametrize(("m", "n", "k", "tile"), [(64, 64, 64, 32), (32, 96, 64, 32)])
def test_the_tiled_product_loads_a_tile_th_of_that(m, n, k, tile):
    found, counted = traced("gemm_tiled", random(m, k), random(k, n), empty(m, n)), ops.gemm(m, n, k)
    assert (found.loaded, found.stored, found.flops) == (2 * F * m * n * k // tile, F * m * n, counted.flops)
    assert found.unique_loaded + found.unique_stored == counted.nbytes
    assert found.bank_conflicts == 0 and not found.races


def test_tensor_cores_count_8192_flops_for_each_tile_product():
    m, n, k = 128, 128, 32
    found = traced("gemm_tensor_core", random(m, k, dtype="float16"), random(k, n, dtype="float16"), empty(m, n))
    assert found.flops == ops.gemm(m, n, k).flops == 8192 * (m // 16) * (n // 16) * (k // 16)
    assert found.loaded == found.unique_loaded == 2 * (m * k + k * n)


@pytest.mark.parametrize(("rows", "width"), [(8, 256), (3, 100)])
def test_fused_layernorm_moves_the_compulsory_bytes(rows, width):
    found = traced("layernorm", random(rows, width), random(width), random(width), empty(rows, width))
    counted = ops.layernorm(rows, width)
    assert (found.work().nbytes, found.work().written, found.launches) == (counted.nbytes, counted.written, 1)
    assert found.loaded == F * (rows * width + 2 * rows * width)             # gain and bias again for each row
    assert found.stored == F * rows * width and not found.races


@pytest.mark.parametrize(("rows", "width"), [(8, 256), (3, 100)])
def test_fused_softmax_moves_the_compulsory_bytes(rows, width):
    found, counted = traced("softmax", random(rows, width), empty(rows, width)), ops.softmax(rows, width)
    assert (found.work().nbytes, found.work().written, found.launches) == (counted.nbytes, counted.written, 1)
    assert found.loaded == found.unique_loaded == F * rows * width and not found.races


@pytest.mark.parametrize("name", ["layernorm", "softmax"])
def test_unfused_forms_move_what_every_pass_moves(name):
    arrays = [random(4, 96), *([random(96), random(96)] if name == "layernorm" else []), empty(4, 96)]
    found, counted = traced(f"{name}_unfused", *arrays).work(), getattr(ops, name)(4, 96, fused=False)
    assert (found.nbytes, found.written, found.launches) == (counted.nbytes, counted.written, counted.launches)


def test_the_flops_of_layernorm_are_the_elements_and_what_each_thread_does_besides():
    rows, width, threads = 2, 256, 64                                        # a thread takes 4 elements at a time
    found = traced("layernorm", random(rows, width), random(width), random(width), empty(rows, width))
    each_thread = 2 * (5 + threads // 32) + 5       # two sums over the block; width, 2 means, + epsilon, sqrt
    assert found.flops == 8 * rows * width + rows * threads * each_thread    # 7, and centred twice instead of kept


@pytest.mark.parametrize(("by", "sectors"), [(1, 4), (2, 8), (4, 16), (8, 32), (16, 32)])
def test_sectors_of_a_request_grow_with_the_stride(by, sectors):
    line = pattern("stride", by).lines[0]
    assert line.requests == 8 + 8                                            # 8 warps load, 8 store
    assert line.sectors == 8 * sectors + 8 * 4


@pytest.mark.parametrize(("name", "argument", "threads", "requests", "sectors"), [
    ("offset", 1, 32, 2, 5 + 4), ("wide", 0, 32, 2, 16 + 16), ("parts", 0, 32, 4, 4 * 16),
    ("pairs", 0, 32, 3, 8 + 8 + 4), ("same", 0, 32, 3, 1 + 1 + 4),
    ("half_of", 16, 32, 2, 2 + 2), ("stride", 1, 40, 4, 4 + 1 + 4 + 1)])
def test_sectors_and_requests_equal_the_hand_count(name, argument, threads, requests, sectors):
    found = pattern(name, argument, threads)
    assert (found.requests, found.sectors) == (requests, sectors)


def test_a_copy_of_a_length_that_only_the_launch_knows_is_counted():
    found = pattern("copied", 4, threads=32)
    assert (found.loaded, found.stored, found.unique_stored) == (512, 512, 512)


def test_an_unpadded_transpose_has_31_conflicts_a_column_and_a_padded_one_none():
    assert pattern("transpose").bank_conflicts == 32 * 31
    assert pattern("transpose_padded").bank_conflicts == 0


def test_an_atomic_counts_as_a_load_and_a_store():
    found = pattern("atomic", threads=32)
    assert (found.loaded, found.stored) == (2 * 32 * F, 32 * F)
    assert (found.unique_loaded, found.unique_stored) == (33 * F, F)
    assert found.flops == 32 and not found.races


@pytest.mark.parametrize(("expression", "flops"), list(enumerate([4, 2, 5, 3, 0, 1, 2, 3])))
def test_flops_count_as_in_the_kit(expression, flops):
    assert pattern("arithmetic", expression, threads=1).flops == flops


@pytest.mark.parametrize(("statements", "flops"), [
    ("out[0] = 1.0f / n;", 1), ("out[0] = 0.5f * threadIdx.x + n;", 2), ("out[0] = 1.0f / 32 + 2.0f * 3.0f;", 0),
    ("auto sum = 0.0f; for (int i = 0; i < n; i++) sum += a * b; out[0] = sum;", 8), ("out[0] = a++; out[1] = a;", 1),
    ("volatile float v = a; v = v * 2.0f; v += 1; out[0] = v;", 2), ("out[0] = larger(a, 0.0f);", 0),
    ("out[0] = std::max(a, 1.0f) + std::sqrt(b) + fabsf(a) * n;", 5), ("int i = 1e6; out[0] = i * a;", 1),
    ("float s, c; sincosf(a, &s, &c); out[0] = s / sqrtf(n);", 4), ("out[0] = ldexpf(exp10f(a), 2) + __tanf(b);", 4),
    ("out[0] = signbit(a) ? 1.0f : fdimf(a, b);  // 1.0f / n", 1)])
def test_ordinary_code_counts(statements, flops):
    source = ('template <class T> __device__ T larger(T a, T b) { return a > b ? a : b; }\nextern "C" __global__ '
              f"void k(float *out, const float *x, int n) {{ float a = x[0], b = x[1]; {statements}\n}}")
    arrays = np.ones(2, "float32"), np.ones(2, "float32"), np.int32(4)
    assert cuda(source, "k", device="cpu").trace((1,), (1,), arrays).flops == flops


def test_each_line_has_its_own_counts():
    lines = {line.text: line for line in pattern("transpose").lines}
    loads, = (line for text, line in lines.items() if "= x[" in text)
    stores, = (line for text, line in lines.items() if "= tile[" in text)
    assert (loads.loaded, loads.stored, loads.bank_conflicts) == (4096, 0, 0)
    assert (stores.loaded, stores.stored, stores.bank_conflicts) == (0, 4096, 32 * 31)


def test_a_trace_leaves_the_results_in_the_arrays():
    x, out = random(64), np.zeros(64, "float32")
    cuda(PATTERNS, "stride", device="cpu").trace((1,), (64,), (x, out, np.int32(1)))
    np.testing.assert_array_equal(out, x)


def test_flops_that_do_not_compile_as_objects_are_none():
    source = 'extern "C" __global__ void k(float *x) { int i = x[0]; x[1] = i; }'
    found = cuda(source, "k", device="cpu").trace((1,), (1,), (np.ones(2, "float32"),))
    assert found.flops is None and found.intensity is None and "not countable" in repr(found)
    with pytest.raises(CudaError, match="the FLOPs of k are not countable: write out"):
        found.work()


def test_a_race_stands_in_the_trace():
    source = 'extern "C" __global__ void k(float *x) {\n  x[0] += 1;\n}'
    found = cuda(source, "k", device="cpu").trace((2,), (1,), (np.ones(1, "float32"),))
    assert "race in kernel k, kernel.cu line 2" in found.races[0] and "! race" in repr(found)


def test_the_table_says_what_kind_of_count_it_is():
    table = repr(pattern("stride", 8))
    assert "source-level count" in table and "1.02 kB loaded" in table and "18.0 a request" in table
    assert "22% of the bytes that it fetches" in table and "neighbouring threads" in table


def test_the_table_names_the_line_that_meets_in_the_banks():
    assert "992 bank conflicts" in repr(pattern("transpose")) and "! line" not in repr(pattern("stride", 1))


def test_what_is_fetched_is_used_once_by_neighbours_of_any_width_and_in_small_part_by_strangers():
    assert pattern("stride", 1).use == pattern("parts").use == 1 and pattern("stride", 8).use == 2048 / (9 * 32 * 32)
