"""Does a learner's kernel compute on the CPU what it would on a GPU?"""

import subprocess
import sys
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from roofline_kit.cuda import cuda
from roofline_kit.cuda_on_cpu import compiler, program
from roofline_kit.cuda_on_cpu.source import Source

SOURCE = """#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void axpy(float *y, const float *x, float a, int n) {   // an ordinary kernel
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
extern "C" __global__ void __launch_bounds__(256) places(int *out) {
  const int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = 1000 * block + thread;
}
extern "C" __global__ void sums(const float *x, float *out) {
  extern __shared__ __align__(16) float all[];
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  float sum = x[threadIdx.x];
  for (int far = 16; far > 0; far /= 2) sum += warp.shfl_xor(sum, far);
  if (warp.thread_rank() == 0) all[warp.meta_group_rank()] = sum;
  __syncthreads();
  out[threadIdx.x] = all[0] + all[1];
}
extern "C" __global__ void votes(const int *x, unsigned *out) {
  const int i = threadIdx.x, v = x[i];
  out[0 * 64 + i] = __ballot_sync(0xffffffff, v > 3);
  out[1 * 64 + i] = __any_sync(0xffffffff, v > 3) + 2 * __all_sync(0xffffffff, v < 9);
  out[2 * 64 + i] = __reduce_add_sync(0xffffffff, v) + __reduce_max_sync(0xffffffff, v);
  out[3 * 64 + i] = __syncthreads_count(v > 3);
  out[4 * 64 + i] = __shfl_up_sync(0xffffffff, v, 1) + 10 * __shfl_down_sync(0xffffffff, v, 1, 8);
  out[5 * 64 + i] = __popc(v) + 10 * __clz(v) + 1000 * __ffs(v);
}
extern "C" __global__ void histogram(const int *x, int *out, int *old) {
  atomicAdd(&out[x[threadIdx.x]], 1);
  old[threadIdx.x] = atomicMax(&out[8], x[threadIdx.x]) + 0 * atomicCAS(&out[9], 0, 7);
}
extern "C" __global__ void convert(const float *x, __half *h, __nv_bfloat16 *b, float *from_h, float *from_b, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    h[i] = __half(x[i]);
    b[i] = __float2bfloat16_rn(x[i]);
    from_h[i] = float(h[i]);
    from_b[i] = __bfloat162float(b[i]);
  }
}
extern "C" __global__ void hello(int n) { if (threadIdx.x < n) printf("thread %d of %s\\n", threadIdx.x, "block 0"); }
extern "C" __global__ void chatter(int n) { for (int i = 0; i < n; i++) printf("%100d\\n", i); }
extern "C" __global__ void by_value(float4 *x, bool flag, double d, unsigned char c) {
  if (flag) x[0].y = float(d) + c;
}
"""
N = 1000
f32, i32 = np.float32, np.int32


def kernel(name):
    return cuda(SOURCE, name, device="cpu")


def axpy_arguments():
    return [np.ones(N, "float32"), np.arange(N, dtype="float32"), f32(2), i32(N)]


@pytest.mark.parametrize("run", ["__call__", "check", "trace"])
def test_a_kernel_changes_its_arrays_in_place(run):
    y, x, a, n = axpy_arguments()
    getattr(kernel("axpy"), run)((4,), (256,), (y, x, a, n))
    np.testing.assert_array_equal(y, 2 * x + 1)


def test_each_thread_knows_its_place():
    out = np.zeros(2 * 3 * 2 * 24, "int32")
    kernel("places")((2, 3, 2), (4, 3, 2), (out,))
    np.testing.assert_array_equal(out.reshape(12, 24), 1000 * np.arange(12)[:, None] + np.arange(24))


def test_numbers_for_grid_and_block_mean_one_dimension():
    out = np.zeros(64, "int32")
    kernel("places")(2, np.int64(32), (out,))
    assert out[-1] == 1031


@pytest.mark.parametrize("order", program.ORDERS)
def test_the_order_of_threads_does_not_matter_to_a_right_kernel(order):
    x, out = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    source = Source(SOURCE)
    path = compiler.program(source, "sums", "fast")
    call = program.Call("sums", (1, 1, 1), (64, 1, 1), program.signatures(path, source)["sums"], [x, out], 8)
    assert program.run(path, call, order)["kind"] == "done" and (out == x.sum()).all()


def bits(v):
    return v.bit_count() + 10 * (32 - v.bit_length()) + 1000 * (v & -v).bit_length()


def test_warps_vote_reduce_and_shuffle():
    x, out = np.random.default_rng(1).integers(1, 9, 64).astype("int32"), np.zeros((6, 64), "uint32")
    kernel("votes")((1,), (64,), (x, out))
    w, lane = x.reshape(2, 32), np.arange(32)
    up = np.concatenate([w[:, :1], w[:, :-1]], axis=1)
    down = np.where(lane % 8 == 7, w, np.roll(w, -1, axis=1))
    rows = [((w > 3) << lane).sum(1, keepdims=True), (w > 3).any(1, keepdims=True) + 2 * (w < 9).all(1, keepdims=True),
            w.sum(1, keepdims=True) + w.max(1, keepdims=True), (x > 3).sum(), up + 10 * down,
            [[bits(int(v)) for v in row] for row in w]]
    for found, expected in zip(out, rows, strict=True):
        np.testing.assert_array_equal(found.reshape(2, 32), np.broadcast_to(expected, (2, 32)))


def test_atomics_lose_nothing():
    x, out, old = np.arange(256, dtype="int32") % 8, np.zeros(10, "int32"), np.zeros(256, "int32")
    kernel("histogram")((1,), (256,), (x, out, old))
    assert out.tolist() == [32] * 8 + [7, 7] and old[0] == 0 and old[-1] == 7


def test_16_bit_floats_round_as_numpy_and_ml_dtypes_do():
    halves = np.arange(65536, dtype="uint16").view("float16").astype("float32")
    tops = (np.arange(65536, dtype="uint32") << 16).view("float32")
    with np.errstate(all="ignore"):                          # the halves of the largest and of what is no number
        between = ((halves[:-1].astype(float) + halves[1:]) / 2).astype("float32")
    bits = np.random.default_rng(2).integers(0, 2**32, 500_000, dtype="uint64").astype("uint32").view("float32")
    x = np.concatenate([halves, tops, between, np.nextafter(between, f32(9)), bits])
    h, b, from_h, from_b = (np.zeros(x.size, kind) for kind in ("float16", ml_dtypes.bfloat16, "float32", "float32"))
    kernel("convert")((1,), (32,), (x, h, b, from_h, from_b, i32(x.size)))
    with np.errstate(all="ignore"):
        right_h, right_b = x.astype("float16").astype("float32"), x.astype(ml_dtypes.bfloat16).astype("float32")
    for found, right in ((h, right_h), (from_h, right_h), (b, right_b), (from_b, right_b)):
        np.testing.assert_array_equal(found.astype("float32"), right)


def test_vectors_and_scalars_of_every_size_are_passed():
    x = np.zeros(8, "float32")
    kernel("by_value")((1,), (1,), (x, np.bool_(True), np.float64(2.5), np.uint8(200)))
    assert x.tolist() == [0, 202.5] + [0] * 6


def test_one_array_twice_is_one_array():
    y = np.arange(N, dtype="float32")
    kernel("axpy").check((4,), (256,), (y, y, f32(2), i32(N)))
    np.testing.assert_array_equal(y, 3 * np.arange(N))


def test_arrays_of_no_elements_are_fine():
    kernel("axpy").check((1,), (32,), (np.zeros(0, "float32"), np.zeros(0, "float32"), f32(2), i32(0)))


def test_what_a_kernel_prints_is_shown(capsys):
    kernel("hello")((1,), (32,), (i32(2),))
    assert capsys.readouterr().out == "thread 0 of block 0\nthread 1 of block 0\n"


def test_endless_printing_is_cut(capsys):
    kernel("chatter")((1,), (1,), (i32(100_000),))
    out = capsys.readouterr().out
    assert len(out) < 1.1 * 2**20 and out.endswith("(printf: the rest is left out)\n")


def test_a_kernel_is_compiled_once(monkeypatch):
    source = Source(SOURCE)
    first = compiler.program(source, "axpy", "fast")
    monkeypatch.setattr(compiler, "_run", None)
    assert compiler.program(source, "axpy", "fast") == compiler.program(source, "places", "fast") == first


def test_several_processes_may_compile_the_same_kernel():
    code = ("import numpy as np; from roofline_kit.cuda import cuda; x = np.zeros(1, 'int32');"
            "cuda('extern \"C\" __global__ void together(int *x) { x[0] = 5; }', 'together', 'cpu')((1,), (1,), (x,));"
            "print(x[0])")
    running = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0].strip() for process in running] == ["5"] * 3
    assert not list(compiler._cache().rglob("making-*"))


class OnGpu:
    """An array as CuPy has it: a copy comes by get(), goes back by set()."""

    def __init__(self, array):
        self.array = array

    def get(self):
        return self.array.copy()

    def set(self, array):
        self.array[...] = array


def test_on_a_gpu_calls_go_through_cupy_and_checks_through_the_cpu(monkeypatch):
    calls = []
    monkeypatch.setattr("roofline_kit.gpu.raw_kernel",
                        lambda xp, code, name: lambda *call: calls.append((code, name, *call)))
    y, x, a, n = axpy_arguments()
    on_gpu = cuda(SOURCE, "axpy", SimpleNamespace(kind="gpu", xp=None, wait=lambda: None))
    on_gpu((4,), (256,), (y, x, a, n), 8)
    assert calls == [(SOURCE, "axpy", (4,), (256,), (y, x, a, n), 8)]
    on_gpu.check((4,), (256,), (OnGpu(y), OnGpu(x), a, n))
    np.testing.assert_array_equal(y, 2 * x + 1)
