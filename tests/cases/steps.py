"""What must one step of an MLP and of a GRU compute?"""

import numpy as np

from cases import Case

MLPS = [(1, 1, 1), (3, 5, 2), (64, 96, 32), (61, 40, 7), (130, 33, 70)]                # d_in, d_hidden, d_out
GRUS = [(1, 1), (7, 5), (32, 64), (33, 20), (20, 37)]                                  # d, width


def _normal(rng, *shape):
    return rng.standard_normal(shape, dtype="float32")


def mlp_arrays(rng, d_in, d_hidden, d_out):
    return (_normal(rng, d_in), _normal(rng, d_hidden, d_in), _normal(rng, d_hidden), _normal(rng, d_out, d_hidden),
            _normal(rng, d_out), np.full(d_out, np.nan, "float32"))


def mlp(x, w1, b1, w2, b2, out):
    return w2 @ np.maximum(w1 @ x + b1, 0) + b2


def gru_arrays(rng, d, width):
    return (_normal(rng, d), _normal(rng, width), _normal(rng, 3 * width, d) / 4, _normal(rng, 3 * width, width) / 4,
            _normal(rng, 2, 3 * width), np.full(width, np.nan, "float32"))


def gru(x, h, w, u, b, out):
    """PyTorch's equations, gate by gate."""
    (w_r, w_z, w_n), (u_r, u_z, u_n), ((b_r, b_z, b_n), (c_r, c_z, c_n)) = np.split(w, 3), np.split(u, 3), (
        np.split(row, 3) for row in b)
    r, z = (1 / (1 + np.exp(-gate)) for gate in (w_r @ x + b_r + u_r @ h + c_r, w_z @ x + b_z + u_z @ h + c_z))
    n = np.tanh(w_n @ x + b_n + r * (u_n @ h + c_n))
    return (1 - z) * n + z * h


CASES = [*(Case("mlp", shape, mlp_arrays, mlp) for shape in MLPS),
         *(Case("gru", shape, gru_arrays, gru) for shape in GRUS)]
