"""Is each kind of mistake caught, with the kernel's line and a way out, without a GPU?"""

import numpy as np
import pytest

from roofline_kit.cuda import CudaError, cuda

N = 64
LINES = {  # bug: (the line that is wrong, what the sentence says)
    "read beyond an array": ("out[i] = x[i + 1];", r"reads x\[64\], but x has 64 elements"),
    "read before an array": ("out[i] = x[i - 1];", r"reads x\[-1\]"),
    "read far beyond an array": ("out[i] = x[i + 200000];", r"reads x\[200000\]"),
    "write beyond an array": ("out[i + n] = x[i];", r"writes out\[64\], but out has 64 elements"),
    "write beyond static shared memory": ("__shared__ float s[32]; s[i] = 1; out[i] = s[i % 32];",
                                          "index 32 out of bounds"),
    "pointer beyond static shared memory": ("__shared__ float s[32]; float *p = s + i; *p = 1; out[i] = *p;",
                                            "outside of (the array s|an array)"),
    "write beyond dynamic shared memory": ("extern __shared__ float s[]; s[i + 1] = x[i]; out[i] = 1;",
                                           "byte 256 of dynamic shared memory, of which the launch gives 256"),
    "read beyond a local array": ("float t[4] = {x[i], 0, 0, 0}; out[i] = t[i];", "index 4 out of bounds"),
    "misaligned float4": ("if (i < 8) out[i] = ((const float4 *)(x + i))->x;", "misaligned address .*multiple of n"),
    "int overflow": ("out[i] = float(n * 65536 * 1024);", "signed integer overflow.*size_t"),
    "shift too far": ("out[i] = float(1 << (n - 32));", "shift exponent 32 is too large"),
    "division by zero": ("out[i] = float(n / (n - 64));", "division by zero"),
    "missing barrier": ("__shared__ float s[64]; s[i] = x[i]; out[i] = s[63 - i];",
                        r"race .*writes shared memory while in another warp .*put __syncthreads\(\)"),
    "missing __syncwarp": ("__shared__ float s[64]; s[i] = x[i]; out[i] = s[i ^ 1];",
                           r"race .* another lane of the warp .*__syncwarp\(\)"),
    "shared memory used again too soon": (
        "__shared__ float s; for (int k = 0; k < 2; k++) { if (i == 0) s = x[k]; __syncthreads(); out[i] = s; }",
        "race .*shared memory while in another"),
    "divergent barrier": ("if (i < 40) __syncthreads(); out[i] = 1;",
                          "40 of 64 threads wait at __syncthreads while 24 have returned"),
    "two barriers for two halves": ("if (i < 32) __syncthreads();\n  else __syncthreads(); out[i] = 1;",
                                    "different barriers, this one and that of line"),
    "barrier after an early return": ("if (i >= n / 2) return; __syncthreads(); out[i] = 1;",
                                      "32 of 64 threads wait at __syncthreads while 32 have returned"),
    "barrier against a warp operation": ("if (i < 5) __syncthreads(); else __syncwarp(); out[i] = 1;",
                                         "wait at __syncthreads while .* wait in the warp operation"),
    "mask that leaves the caller out": ("out[i] = __shfl_sync(0x0000ffff, x[i], 1);", "leaves it out"),
    "shuffle from a lane that has returned": ("if (i < 16) out[i] = __shfl_xor_sync(0xffffffff, x[i], 1);",
                                              "waits for lane .*, which has returned"),
    "two warp operations meet": ("if (i % 2) __syncwarp(); else out[i] = __shfl_xor_sync(0xffffffff, x[i], 2);",
                                 "different warp operations"),
    "race between blocks": ("if (i == 0) out[0] += x[i];", "race .*out.0. while in another block.*atomic"),
    "race of all threads for one element": ("out[0] = x[i];",
                                            "race .*out.0. .*in no order: let each use elements of its own"),
    "race of all threads that write one value": ("if (i < 9) out[0] = 7;", "race .*out.0. .*the same value, as it hap"),
    "sum in shared memory read too soon": (
        "__shared__ int s; if (i == 0) s = 0; __syncthreads(); atomicAdd(&s, 1); if (i == 0) out[0] = float(s);",
        "race .*changes atomically shared memory while in another"),
    "sum read too soon": ("atomicAdd(out, x[i]); if (i == 0) out[1] = out[0];",
                          "race .*changes atomically out.0. while"),
    "lock of a block without fences": (
        "if (i == 0) { while (atomicCAS((int *)out, 0, 1)) {} out[1] += 1; atomicExch((int *)out, 0); }",
        "race .*out.1. while in another block"),
    "race of a plain store and an atomic": ("if (blockIdx.x) atomicAdd(out, 1.0f); else if (i == 0) out[0] = 1;",
                                            "race .*out.0. while in another block"),
    "lock of each thread without fences": (
        "while (atomicCAS((int *)out, 0, 1)) {} out[1] += 1; atomicExch((int *)out, 0);",
        "race .*out.1. while in another"),
    "missing wait for an asynchronous copy": (
        "__shared__ float s[64]; __pipeline_memcpy_async(&s[i], &x[i], 4); __pipeline_commit(); out[i] = s[i];",
        "asynchronous copy still fills: call __pipeline_wait_prior"),
    "asynchronous copy of 3 bytes": ("__shared__ float s[64]; __pipeline_memcpy_async(&s[i], &x[i], 3);",
                                     "moves 4, 8 or 16 bytes, not 3"),
    "uninitialised shared memory": ("__shared__ float s[64]; out[i] = s[i];", "no thread of the block has written"),
    "failed assertion": ("assert(x[i] < 3); out[i] = 1;", "assertion `x.i. < 3` does not hold"),
    "matrix tile that starts askew": (
        "wmma::fragment<wmma::accumulator, 16, 16, 16, float> f; load_matrix_sync(f, x + 1, 16, wmma::mem_row_major);",
        "must start at a multiple of 32 bytes"),
}
TWICE = {"race between blocks", "race of a plain store and an atomic"}


RIGHT = (
    "__shared__ float s[64]; s[i] = x[i]; __syncthreads(); out[i] = s[63 - i];",
    "__shared__ float s[64]; s[i] = x[i]; __syncwarp(); out[i] = s[i ^ 1];",
    ("__shared__ float s[64]; __pipeline_memcpy_async(&s[i], &x[i], 4); __pipeline_commit();\n"
     "  __pipeline_wait_prior(0); __syncthreads(); out[i] = s[63 - i];"),
    "atomicAdd(out, x[i]);",
    "if (i % 32 < 16) out[i] = __shfl_xor_sync(0xffff, x[i], 8);",
    "out[i] = float(unsigned(n) * 65537u * 65536u);",
)
HANDED_OVER = (  # the last block to come adds up what the others left; a fence and an atomic let it
    "__shared__ int before; if (i == 0) { out[blockIdx.x] = x[5]; FENCE; before = atomicAdd((int *)&out[63], 1);"
    " if (before == 1) out[62] = out[0] + out[1]; }")
INNOCENT = {  # what looks like a mistake: (program, blocks, threads, the first number that it writes)
    "vote of those who arrive": (
        """if (x[i] > 23) {
    const unsigned here = __activemask();
    const int lane = i % 32, first = __ffs(here) - 1;
    float at;
    if (lane == first) at = atomicAdd(out, float(__popc(here)));
    at = __shfl_sync(here, at, first);
    out[1 + int(at) + __popc(here & ((1u << lane) - 1))] = x[i];
  }""", 1, N, 40),
    "two votes at once": (("if (i % 4) { const int here = __popc(__activemask()); if (i == 1) out[0] = float(here); }\n"
                          "  else __activemask();"), 1, N, 24),
    "vote beside a barrier": (("if (i < 16) { const int here = __popc(__activemask()); if (i == 0) out[0] = here; }\n"
                              "  __syncthreads();"), 1, N, 16),
    "first look of a loop of atomicCAS": (
        """unsigned *to = (unsigned *)out, old = *to, assumed;
  do old = atomicCAS(to, assumed = old, __float_as_uint(__uint_as_float(old) + x[i]));
  while (old != assumed);""", 2, N, 4032),
    "the same twice by one thread": (
        """for (int k = 0; k < 2; k++) {
    unsigned *to = (unsigned *)out, old = *to, assumed;
    do old = atomicCAS(to, assumed = old, __float_as_uint(__uint_as_float(old) + x[i]));
    while (old != assumed);
  }""", 1, N, 4032),
    "look before atomicMax": (("int *most = (int *)out; const int mine = __float_as_int(x[i]);\n"
                              "  if (mine > *most) atomicMax(most, mine);"), 2, N, 63),
    "look before atomicMax in shared memory": (
        ("__shared__ int most; if (i == 0) most = 0; __syncthreads();\n"
        "  if (int(x[i]) > most) atomicMax(&most, int(x[i])); __syncthreads(); if (i == 0) out[0] = most;"), 1, N, 63),
    "the last block adds up": (
        """__shared__ bool last;
  if (i == 0) {
    out[1 + blockIdx.x] = x[5];
    __threadfence();
    last = atomicInc(&arrived_blocks, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && i == 0) out[0] = out[1] + out[2];""", 2, N, 10),
    "lock": (("if (i == 0) { while (atomicCAS(&taken, 0, 1)) {} __threadfence(); out[0] += x[2];\n"
             "  __threadfence(); atomicExch(&taken, 0); }"), 3, N, 6),
    "lock of each thread": (
        """for (bool done = false; !done;)
    if (atomicCAS(&taken, 0, 1) == 0) {
      __threadfence();
      out[0] += x[i];
      __threadfence();
      atomicExch(&taken, 0);
      done = true;
    }""", 2, N, 4032),
    "lock in shared memory": (
        """__shared__ int lock, sum;
  if (i == 0) lock = sum = 0;
  __syncthreads();
  while (atomicCAS(&lock, 0, 1)) {}
  sum += 1;
  __threadfence_block();
  atomicExch(&lock, 0);
  __syncthreads();
  if (i == 0) out[0] = sum;""", 1, N, 64),
    "chained blocks": (
        """int *ready = (int *)out + 32;
  if (i == 0) {
    const int me = atomicAdd(ready - 1, 1);
    while (me && atomicAdd(&ready[me], 0) == 0) {}
    out[0] = me ? out[me] + x[2] : x[2];
    out[me + 1] = out[0];
    __threadfence();
    atomicAdd(&ready[me + 1], 1);
  }""", 3, N, 6),
    "match of fractions": ("out[i] = float(__popc(__match_any_sync(0xffffffff, x[i % 2] / 4)));", 1, N, 16),
    "shuffle beyond half a warp": (
        ("float v = x[i]; if (i < 16) for (int by = 8; by; by /= 2) v += __shfl_down_sync(0xffff, v, by);\n"
        "  if (i == 0) out[0] = v;"), 1, N, 120),
    "shuffle beyond a small block": (
        ("float v = x[i]; for (int by = 8; by; by /= 2) v += __shfl_down_sync(0xffffffff, v, by);\n"
        "  if (i == 0) out[0] = v;"), 1, 16, 120),
}
STRANGER = "if (i % 32 < 8) out[i] = __shfl_sync(0xff, x[i], 20);"
TEXTS = [*(line for line, _ in LINES.values()), *RIGHT, *(each[0] for each in INNOCENT.values()), STRANGER,
         HANDED_OVER.replace("FENCE", "__threadfence()"),
         HANDED_OVER.replace("FENCE", "")]
HEAD = ("#include <cuda_pipeline.h>\n#include <mma.h>\nusing namespace nvcuda;\n"
        "__device__ unsigned arrived_blocks;\n__device__ int taken;\n")
KERNEL = """extern "C" __global__ void k%d(const float *x, float *out, int n) {
  const int i = threadIdx.x;
  %s
}
"""
SOURCE = HEAD + "".join(KERNEL % each for each in enumerate(TEXTS))            # one source, so it is compiled once


def check(text, blocks=1, threads=N):
    arrays = np.arange(N, dtype="float32"), np.zeros(N, "float32"), np.int32(N)
    cuda(SOURCE, f"k{TEXTS.index(text)}", device="cpu").check((blocks,), (threads,), arrays, shared_mem=4 * N)
    return arrays[1]


@pytest.mark.parametrize("bug", LINES)
def test_check_catches(bug):
    text, says = LINES[bug]
    with pytest.raises(CudaError, match=says) as caught:
        check(text, blocks=1 + ("block" in bug or "atomic" in bug))
    sentence = str(caught.value)
    assert f"kernel k{TEXTS.index(text)}, kernel.cu line " in sentence and "\n" not in sentence
    assert any(f"`{line.strip()}`" in sentence for line in text.split("\n"))


@pytest.mark.parametrize("text", RIGHT)
def test_check_lets_pass_what_is_right(text):
    assert check(text).any()


@pytest.mark.parametrize("case", INNOCENT)
def test_check_accuses_nobody_who_is_innocent(case):
    text, blocks, threads, first = INNOCENT[case]
    assert check(text, blocks, threads)[0] == first


def test_a_shuffle_from_a_lane_that_takes_no_part_gives_no_number():
    out = check(STRANGER)
    assert np.isnan(out[:8]).all() and not out[8:32].any()


def test_the_last_block_may_read_what_the_others_handed_over():
    assert check(TEXTS[-2], blocks=2)[62] == 10
    with pytest.raises(CudaError, match="race .*another block"):
        check(TEXTS[-1], blocks=2)


def test_a_wrong_kernel_leaves_the_arrays_as_they_were():
    out = np.zeros(N, "float32")
    with pytest.raises(CudaError):
        cuda(SOURCE, "k3", device="cpu").check((1,), (N,), (out.copy(), out, np.int32(N)))
    assert not out.any()
