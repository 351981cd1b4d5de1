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
                           r"race .* another lane of the warp .*put __syncwarp\(\)"),
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
    "shuffle from a lane outside of the mask": ("if (i % 32 < 8) out[i] = __shfl_sync(0xff, x[i], 20);",
                                                "lane 0 reads lane 20, which the mask 0x000000ff leaves out"),
    "shuffle from a lane that has returned": ("if (i < 16) out[i] = __shfl_xor_sync(0xffffffff, x[i], 1);",
                                              "waits for lane .*, which has returned"),
    "two warp operations meet": ("if (i % 2) __syncwarp(); else out[i] = __shfl_xor_sync(0xffffffff, x[i], 2);",
                                 "different warp operations"),
    "race between blocks": ("if (i == 0) out[0] += x[i];", "race .*out.0. while in another block.*atomic"),
    "race of all threads for one element": ("out[0] = x[i];", "race .*out.0. .*elements of its own"),
    "race of a plain store and an atomic": ("if (blockIdx.x) atomicAdd(out, 1.0f); else if (i == 0) out[0] = 1;",
                                            "race .*out.0. while in another block"),
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
TEXTS = [*(line for line, _ in LINES.values()), *RIGHT, HANDED_OVER.replace("FENCE", "__threadfence()"),
         HANDED_OVER.replace("FENCE", "")]
HEAD = "#include <cuda_pipeline.h>\n#include <mma.h>\nusing namespace nvcuda;\n"
KERNEL = """extern "C" __global__ void k%d(const float *x, float *out, int n) {
  const int i = threadIdx.x;
  %s
}
"""
SOURCE = HEAD + "".join(KERNEL % each for each in enumerate(TEXTS))            # one source, so it is compiled once


def check(text, blocks=1):
    arrays = np.arange(N, dtype="float32"), np.zeros(N, "float32"), np.int32(N)
    cuda(SOURCE, f"k{TEXTS.index(text)}", device="cpu").check((blocks,), (N,), arrays, shared_mem=4 * N)
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


def test_the_last_block_may_read_what_the_others_handed_over():
    assert check(TEXTS[-2], blocks=2)[62] == 10
    with pytest.raises(CudaError, match="race .*another block"):
        check(TEXTS[-1], blocks=2)


def test_a_wrong_kernel_leaves_the_arrays_as_they_were():
    out = np.zeros(N, "float32")
    with pytest.raises(CudaError):
        cuda(SOURCE, "k3", device="cpu").check((1,), (N,), (out.copy(), out, np.int32(N)))
    assert not out.any()
