"""What must each matrix product leave behind, at sizes below, at and beside its tiles?"""

from functools import partial

import ml_dtypes
import numpy as np

from . import Case

SHAPES = ((1, 1, 1), (33, 47, 50), (64, 96, 32), (7, 200, 65), (130, 136, 40))      # m, n, k
TILES = ((33, 20, 31, 8), (32, 48, 64, 16), (5, 5, 5, 3))                           # m, n, k, tile


def matrices(dtype, result, rng, m, n, k, *tile):
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    return a.astype(dtype), b.astype(dtype), np.full((m, n), np.nan, result), *tile


def product(a, b, out, *tile):
    return a @ b


def cases(name, dtype, shapes, result=None):
    kind = getattr(ml_dtypes, dtype, dtype)
    return [Case(name, shape, partial(matrices, kind, result or dtype), product, dtype, 2) for shape in shapes]


CASES = [
    *cases("gemm_naive", "float32", SHAPES),
    *cases("gemm_naive", "float64", SHAPES[1:2]),
    *cases("gemm_tiled", "float32", SHAPES + TILES),
    *cases("gemm_tiled", "float64", SHAPES[1:2]),
    *cases("gemm_register_tiled", "float32", SHAPES),
    *cases("gemm_tensor_core", "float16", SHAPES, "float32"),
    *cases("gemm_tensor_core", "bfloat16", SHAPES, "float32"),
]
