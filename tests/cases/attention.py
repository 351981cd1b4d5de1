"""What must attention compute, in pieces and at once, causal or not?"""

from functools import partial

import numpy as np

from cases import Case

SHAPES = [("float32", (2, 1, 16), False), ("float32", (1, 33, 32), True), ("float32", (2, 64, 64), True),
          ("float32", (1, 70, 64), False), ("float32", (1, 45, 128), True), ("float16", (2, 37, 64), False),
          ("float16", (1, 65, 32), True)]
ODD_HEADS = [("float32", (1, 19, 5), True), ("float32", (2, 17, 40), False)]       # only the pieces take any head size


def _arrays(dtype, causal, rng, heads, length, size):
    q, k, v = rng.standard_normal((3, heads, length, size)).astype(dtype)
    return q, k, v, np.full_like(q, np.nan), causal


def attention(q, k, v, out, causal):
    """The definition, one S x S matrix of scores a head."""
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tri(q.shape[1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


CASES = [Case(kernel, shape, partial(_arrays, dtype, causal), attention, dtype, out=3)
         for kernel, shapes in (("attention", SHAPES + ODD_HEADS), ("flash_attention", SHAPES))
         for dtype, shape, causal in shapes]
