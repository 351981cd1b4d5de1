"""How fast is one step of a small model on a CPU? An MLP and a GRU at batch 1, a compiled function each, in Numba.

Weights that fit into the caches take microseconds, so what counts is what surrounds them: one call from Python
instead of one an operation, no array between operations, and no second thread before it pays.
"""

from math import exp

import numpy as np
from numba import get_num_threads, njit, prange

from .matvec import FAST, ROWS, four_rows, one_row
from .twins import refusal, twin

ALONE = 2**18       # fewer weights are faster on one thread: 1 MiB, a core's L2 cache; measured, 2 Zen 4 cores
ZERO, ONE, LEAST = np.float32(0), np.float32(1), np.float32(-np.inf)
_refuse_mlp, _refuse_gru = map(refusal, ("mlp", "gru"))


@njit(inline="always", **FAST)
def _rows(w, b, v, out, least, begin, end):
    """out = max(w v + b, least), for some of the rows."""
    whole = end - (end - begin) % ROWS
    for row in range(begin, whole, ROWS):
        s0, s1, s2, s3 = four_rows(w, row, v)
        out[row], out[row + 1] = max(s0 + b[row], least), max(s1 + b[row + 1], least)
        out[row + 2], out[row + 3] = max(s2 + b[row + 2], least), max(s3 + b[row + 3], least)
    for row in range(whole, end):
        out[row] = max(one_row(w, row, v) + b[row], least)


@njit(parallel=True, **FAST)
def _all_threads(w, b, v, out, least):
    parts = get_num_threads()
    for part in prange(parts):
        _rows(w, b, v, out, least, b.size * part // parts, b.size * (part + 1) // parts)


@njit(inline="always", **FAST)     # a call with five arrays costs 50 ns
def _layer(w, b, v, out, least):
    if w.size < ALONE:
        _rows(w, b, v, out, least, 0, b.size)
    else:
        _all_threads(w, b, v, out, least)


@twin
@njit(**FAST)
def mlp(x, w1, b1, w2, b2, out):
    """out[d_out] = w2 relu(w1 x + b1) + b2, for w1[d_hidden, d_in] and w2[d_out, d_hidden] in float32.

    A row of weights for each output, as in PyTorch's Linear.
    FLOPs:   2 d_in d_hidden + 2 d_hidden d_out + 2 d_hidden + d_out
    Bytes:   4 (d_in + d_hidden d_in + d_hidden + d_out d_hidden + 2 d_out)     the weights are nearly all of it
    """
    _refuse_mlp(x, w1, b1, w2, b2, out)
    hidden = np.empty_like(b1)
    _layer(w1, b1, x, hidden, ZERO)
    _layer(w2, b2, hidden, out, LEAST)


@twin
@njit(**FAST)
def gru(x, h, w, u, b, out):
    """out[width] = the state after one step of a gated recurrent unit from h[width], with input x[d]; float32.

        r = sigmoid(w_r x + b_r + u_r h + c_r)     z = sigmoid(w_z x + b_z + u_z h + c_z)
        n = tanh(w_n x + b_n + r (u_n h + c_n))    out = (1 - z) n + z h

    w[3 width, d] and u[3 width, width] hold the rows of r, z, n in that order, b[2, 3 width] holds b, then c;
    out must not be h.
    FLOPs:   6 width (d + width) + 21 width     exp, tanh and a division count 1, a change of sign 0
    Bytes:   4 (d + 3 width (d + width) + 6 width + 2 width)
    Source:  PyTorch, torch.nn.GRU: weight_ih, weight_hh, and bias_ih and bias_hh stacked
    """
    _refuse_gru(x, h, w, u, b, out)
    width = h.size
    from_x, from_h = np.empty_like(b[0]), np.empty_like(b[1])
    _layer(w, b[0], x, from_x, LEAST)
    _layer(u, b[1], h, from_h, LEAST)
    for i in range(width):
        r = ONE / (ONE + exp(-from_x[i] - from_h[i]))
        z = ONE / (ONE + exp(-from_x[width + i] - from_h[width + i]))
        n = ONE - (ONE + ONE) / (ONE + exp((ONE + ONE) * (from_x[2 * width + i] + r * from_h[2 * width + i])))
        out[i] = (ONE - z) * n + z * h[i]
