"""What does each step of reuse bring a matrix product on a CPU? The loops of the CUDA kernels, in Numba.

Where a block of threads has shared memory, a core has its caches; where threads have registers, so has a core, and
its vectors do what threads side by side do. `gpu_gemm` calls the kernels by the same names.
"""

from operator import index

import numpy as np
from numba import njit, prange

from .floats import stored, widened
from .twins import refusal, twin

FAST = {"fastmath": True, "boundscheck": False, "error_model": "numpy"}
HIGH, WIDE, DEEP = 128, 256, 32    # a tile of the result, and of k: sums 128 KiB, a 16, b 32: all fit L2, b also L1
_refuse_any, _refuse_wide, _refuse_halves = map(refusal, ("gemm_naive", "gemm_register_tiled", "gemm_tensor_core"))


@twin
def gemm_naive(a, b, out):
    """out = a b, each element a row times a column.

    FLOPs:   2 m n k
    Bytes:   b (2 m n k + m n)      asked of the caches; b bytes an element
    """
    _naive(a, b, out)


@twin
def gemm_tiled(a, b, out, tile=64):
    """out = a b, tile by tile of all three matrices.

    FLOPs:   2 m n k
    Bytes:   b (2 m n k / tile + m n)      into the cache that holds the tiles
    """
    if tile < 1:
        raise ValueError(f"a tile of {tile} x {tile} numbers holds none: choose at least 1.")
    _tiled(a, b, out, index(tile))


@twin
def gemm_register_tiled(a, b, out):
    """out = a b in float32: in each tile, 4 x 4 numbers of a stay in registers while rows of b pass by.

    FLOPs:   2 m n k
    Bytes:   4 (m n k / 128 + m n k / 256 + m n)      into L2; the result is made 128 x 256 at a time
    """
    _of_floats(a, b, out)


@twin
def gemm_tensor_core(a, b, out):
    """out = a b: a and b in float16 or bfloat16, which become float32 on the way into the tiles; out in float32.

    FLOPs:   2 m n k
    Bytes:   2 (m n k / 128 + m n k / 256) + 4 m n      into L2
    """
    _of_halves(*stored(a, b), out)


@njit(parallel=True, **FAST)
def _naive(a, b, out):
    _refuse_any(a, b, out)
    m, n, k = a.shape[0], b.shape[1], a.shape[1]
    for row in prange(m):
        for column in range(n):
            total = out.dtype.type(0)
            for i in range(k):
                total += a[row, i] * b[i, column]
            out[row, column] = total


@njit(parallel=True, **FAST)
def _tiled(a, b, out, tile):
    _refuse_any(a, b, out)
    m, n, k = a.shape[0], b.shape[1], a.shape[1]
    across = (n + tile - 1) // tile
    for number in prange((m + tile - 1) // tile * across):
        top, left = number // across * tile, number % across * tile
        bottom, right = min(top + tile, m), min(left + tile, n)
        out[top:bottom, left:right] = 0
        for start in range(0, k, tile):
            for row in range(top, bottom):
                for i in range(start, min(start + tile, k)):
                    _add_multiple(out[row, left:right], a[row, i], b[i, left:right])


@njit(**FAST)
def _add_multiple(out, s, x):
    for j in range(out.size):
        out[j] += s * x[j]


@njit(parallel=True, **FAST)
def _register_tiled(a, b, out):
    m, n, k = a.shape[0], b.shape[1], a.shape[1]
    across = (n + WIDE - 1) // WIDE
    for number in prange((m + HIGH - 1) // HIGH * across):
        top, left = number // across * HIGH, number % across * WIDE
        sums = np.zeros(HIGH * WIDE, np.float32)
        a_tile, b_tile = np.empty(HIGH * DEEP, np.float32), np.empty(DEEP * WIDE, np.float32)
        for start in range(0, k, DEEP):
            _bring(a_tile, a, top, start, HIGH, DEEP)
            _bring(b_tile, b, start, left, DEEP, WIDE)
            for row in range(0, HIGH, 4):
                for i in range(0, DEEP, 4):
                    _four_by_four(sums[row * WIDE:], a_tile[row * DEEP + i:], b_tile[i * WIDE:])
        for row in range(min(HIGH, m - top)):
            for column in range(min(WIDE, n - left)):
                out[top + row, left + column] = sums[row * WIDE + column]


@njit
def _of_floats(a, b, out):
    _refuse_wide(a, b, out)
    _register_tiled(a, b, out)


@njit
def _of_halves(a, b, out):
    _refuse_halves(a, b, out)
    _register_tiled(a, b, out)


@njit(**FAST)
def _bring(tile, x, top, left, high, wide):
    """high x wide numbers of x from (top, left) on into a tile, zeros beyond the edges of x."""
    right = min(wide, x.shape[1] - left)
    for row in range(high):
        to = tile[row * wide:(row + 1) * wide]
        if top + row >= x.shape[0] or right < wide:
            to[:] = 0
        if top + row < x.shape[0]:
            line = x[top + row, left:left + right]
            for column in range(right):
                to[column] = widened(line[column])


@njit(**FAST)
def _four_by_four(sums, a, b):
    """Four rows of sums += 4 x 4 numbers of a times four rows of b: 16 multiply-adds for 4 loads of b."""
    p0, p1, p2, p3 = a[0], a[1], a[2], a[3]
    q0, q1, q2, q3 = a[DEEP], a[DEEP + 1], a[DEEP + 2], a[DEEP + 3]
    r0, r1, r2, r3 = a[2 * DEEP], a[2 * DEEP + 1], a[2 * DEEP + 2], a[2 * DEEP + 3]
    s0, s1, s2, s3 = a[3 * DEEP], a[3 * DEEP + 1], a[3 * DEEP + 2], a[3 * DEEP + 3]
    for j in range(WIDE):
        b0, b1, b2, b3 = b[j], b[WIDE + j], b[2 * WIDE + j], b[3 * WIDE + j]
        sums[j] += p0 * b0 + p1 * b1 + p2 * b2 + p3 * b3
        sums[WIDE + j] += q0 * b0 + q1 * b1 + q2 * b2 + q3 * b3
        sums[2 * WIDE + j] += r0 * b0 + r1 * b1 + r2 * b2 + r3 * b3
        sums[3 * WIDE + j] += s0 * b0 + s1 * b1 + s2 * b2 + s3 * b3
