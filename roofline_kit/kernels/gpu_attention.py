"""With which grid, block and arguments does attention run: in standard pieces, and as flash attention?"""

import math

import numpy as np

from . import gpu_rows

TILE = 16                # as in attention.cu
THREADS = 128            # as in flash_attention.cu
SIZES = (16, 32, 64, 128)


def attention(launch, q, k, v, out, causal=False):
    """out = softmax(q k^T / sqrt(d)) v for q, k, v, out[heads, S, d]; the S x S scores go to memory and back twice."""
    heads, length, size = q.shape
    p, weights = (launch.xp.empty((heads, length, length), q.dtype) for _ in range(2))
    lengths, sizes, block = -(-length // TILE), -(-size // TILE), (TILE, TILE)
    shape = np.int32(length), np.int32(size)
    launch("attention", "scores", (lengths, lengths, heads), block,
           (q, k, p, *shape, np.float32(1 / math.sqrt(size)), np.int32(causal)), dtype=q.dtype.name)
    gpu_rows.softmax(launch, *(array.reshape(heads * length, length) for array in (p, weights)))
    launch("attention", "weighted_sum", (sizes, lengths, heads), block, (weights, v, out, *shape), dtype=q.dtype.name)


def flash_attention(launch, q, k, v, out, causal=False):
    """The same with the scores in registers: q is read once, k and v once for each block of queries."""
    heads, length, size = q.shape
    if size not in SIZES:
        raise ValueError(f"flash_attention has no kernel for head size {size}: choose 16, 32, 64 or 128.")
    queries = THREADS // max(1, size // 32)
    launch("flash_attention", "flash_attention", (-(-length // queries), heads), (THREADS,),
           (q, k, v, out, np.int32(length), np.float32(1 / math.sqrt(size)), np.int32(causal)),
           dtype=q.dtype.name, D=size)
