"""How is a matrix product cut into blocks of threads on a GPU? By tiles of the result, one for each block."""

import numpy as np

TILE = 32                    # of gemm_tiled: 32 x 32 threads are the most that a block may have
BLOCK, THREADS = 128, 256    # 128 x 128 of the result are made by a block of 256 threads, as in the two .cu files


def gemm_naive(launch, a, b, out):
    """out = a b, each element by a thread that reads a row and a column.

    FLOPs:   2 m n k
    Bytes:   b (2 m n k + m n)      asked of the caches; b bytes an element
    """
    launch("gemm_naive", "gemm_naive", _tiles(out, 8, 32), (32, 8), _arguments(a, b, out), dtype=a.dtype.name)


def gemm_tiled(launch, a, b, out, tile=TILE):
    """out = a b, each tile x tile of it from tiles of a and b in shared memory.

    FLOPs:   2 m n k
    Bytes:   b (2 m n k / tile + m n)
    """
    if not 1 <= tile <= TILE:
        raise ValueError(f"a tile of {tile} x {tile} threads does not fit a block: choose from 1 to {TILE}.")
    launch("gemm_tiled", "gemm_tiled", _tiles(out, tile, tile), (tile, tile), _arguments(a, b, out),
           dtype=a.dtype.name, TILE=tile)


def gemm_register_tiled(launch, a, b, out):
    """out = a b in float32, each 128 x 128 of it by 256 threads that keep 8 x 8 of it in registers.

    FLOPs:   2 m n k
    Bytes:   4 (2 m n k / 128 + m n)
    """
    launch("gemm_register_tiled", "gemm_register_tiled", _tiles(out, BLOCK, BLOCK), (THREADS,), _arguments(a, b, out))


def gemm_tensor_core(launch, a, b, out):
    """out = a b on Tensor Cores: a and b in float16 or bfloat16, out in float32.

    FLOPs:   2 m n k
    Bytes:   2 (2 m n k / 128) + 4 m n
    """
    launch("gemm_tensor_core", "gemm_tensor_core", _tiles(out, BLOCK, BLOCK), (THREADS,), _arguments(a, b, out),
           dtype=a.dtype.name)


def _arguments(a, b, out):
    return a, b, out, np.int32(a.shape[0]), np.int32(b.shape[1]), np.int32(a.shape[1])


def _tiles(out, high, wide):
    """The grid: so many tiles to the right, so many down."""
    return max(1, -(-out.shape[1] // wide)), max(1, -(-out.shape[0] // high))
