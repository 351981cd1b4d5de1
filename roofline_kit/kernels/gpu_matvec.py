"""How are the products of a matrix and a vector launched, with weights of 4, 2, 1 and half a byte?"""

import numpy as np

ROWS = 8                   # warps a block, a row each


def matvec(launch, w, x, out):
    """out[m] = w[m, n] x[n], all float32."""
    _launch(launch, "matvec", (w,), x, out, w.dtype.name)


def matvec_bfloat16(launch, w, x, out):
    """out[m] = w[m, n] x[n] with w in bfloat16, x and out in float32."""
    _launch(launch, "matvec", (w,), x, out, w.dtype.name)


def matvec_int8(launch, w, scale, x, out):
    """out[m] = scale[m] (w[m, n] x[n]) with w in int8, the rest in float32."""
    _launch(launch, "matvec_int8", (w, scale), x, out)


def matvec_int4(launch, w, scale, x, out):
    """out[m] = sum of scale w x with two weights in each byte of w and a float16 scale for each 32 columns."""
    _launch(launch, "matvec_int4", (w, scale), x, out)


def _launch(launch, kernel, weights, x, out, dtype="float32"):
    m, n = len(out), len(x)
    launch("matvec", kernel, (-(-m // ROWS),), (32 * ROWS,), (*weights, x, out, np.int32(m), np.int32(n)), dtype=dtype)
