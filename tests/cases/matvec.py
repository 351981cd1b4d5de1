"""What must a product of a matrix and a vector compute, with weights of 4, 2, 1 and half a byte?"""

import numpy as np
from ml_dtypes import bfloat16

from cases import Case
from roofline_kit.kernels.quantised import to_int4, to_int8

SHAPES = [(1, 1), (3, 7), (9, 33), (16, 256), (5, 130), (2, 1023), (17, 96)]           # m, n


def _arrays(store, rng, m, n):
    """The arguments of a kernel whose weights are store(w), an array or an array and its scales."""
    stored = store(rng.standard_normal((m, n), dtype="float32"))
    weights = stored if isinstance(stored, tuple) else (stored,)
    return *weights, rng.standard_normal(n, dtype="float32"), np.full(m, np.nan, "float32")


def floats(w, x, out):
    return w @ x


def int8(w, scale, x, out):
    return scale * (w @ x)


def int4(w, scale, x, out):
    return unpacked(w, scale, x.size) @ x


def unpacked(w, scale, columns):
    """The weights of a packed matrix in float64."""
    q = np.stack([w & 15, w >> 4], axis=-1).reshape(len(w), -1)[:, :columns].astype("float64") - 8
    return q * np.repeat(scale, 32, axis=1)[:, :columns]


KERNELS = [("matvec", lambda w: w, floats, "float32"),
           ("matvec_bfloat16", lambda w: w.astype(bfloat16), floats, "float32"),
           ("matvec_int8", to_int8, int8, "int8"), ("matvec_int4", to_int4, int4, "int4")]
CASES = [Case(kernel, shape, lambda rng, m, n, store=store: _arrays(store, rng, m, n), reference, dtype)
         for kernel, store, reference, dtype in KERNELS for shape in SHAPES]
