"""What must the kernels along rows compute? LayerNorm, softmax and the embedding's gather."""

from functools import partial

import numpy as np

from cases import Case

SHAPES = [("float32", (3, 1)), ("float32", (2, 33)), ("float32", (5, 64)), ("float32", (2, 1100)),
          ("float32", (2, 1027)), ("float32", (1, 12_500)),         # the last is more than a block's shared memory
          ("float16", (3, 40)), ("float16", (2, 77)), ("bfloat16", (3, 40)), ("bfloat16", (2, 77))]
TABLES = [("float32", (50, 1, 3)), ("float32", (7, 33, 5)), ("float32", (40, 64, 9)), ("float16", (11, 24, 6)),
          ("float16", (11, 13, 6)), ("bfloat16", (9, 40, 4))]


def _stored(dtype):
    import ml_dtypes

    return getattr(ml_dtypes, dtype, dtype)


def _rows(dtype, rng, rows, width):
    x = (2 * rng.standard_normal((rows, width)) + 0.5).astype(_stored(dtype))
    return x, np.full_like(x, np.nan)


def _scaled_rows(dtype, rng, rows, width):
    x, out = _rows(dtype, rng, rows, width)
    return x, *(rng.standard_normal((2, width)).astype(x.dtype)), out


def _table(dtype, ids, rng, tokens, width, count):
    table = rng.standard_normal((tokens, width)).astype(_stored(dtype))
    return table, rng.integers(0, tokens, count, dtype=ids), np.full((count, width), np.nan, table.dtype)


def layernorm(x, gain, bias, out):
    """The definition, with the variance of NumPy."""
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * gain + bias


def softmax(x, out):
    """The definition; numbers of order 1 need no maximum."""
    return np.exp(x) / np.exp(x).sum(1, keepdims=True)


CASES = [
    *(Case(kernel, shape, partial(_scaled_rows, dtype), layernorm, dtype)
      for kernel in ("layernorm", "layernorm_unfused") for dtype, shape in SHAPES),
    *(Case(kernel, shape, partial(_rows, dtype), softmax, dtype)
      for kernel in ("softmax", "softmax_three_pass", "softmax_unfused") for dtype, shape in SHAPES),
    *(Case("embedding", shape, partial(_table, dtype, ids), lambda table, ids, out: table[ids], dtype)
      for dtype, shape in TABLES for ids in ("int32", "int64")[:1 + (dtype == "float32")]),
]
