"""How are the two steps of small models launched: an MLP and a GRU at batch 1, one launch each?"""

import numpy as np

BLOCK_SHARED = 48 * 1024   # B a block has without asking for more; CUDA C++ Programming Guide, Compute Capabilities
UNITS = 4                  # warps a block: few, so that a small state still spreads over many multiprocessors


def mlp(launch, x, w1, b1, w2, b2, out):
    """out[d_out] = w2 relu(w1 x + b1) + b2, for w1[d_hidden, d_in] and w2[d_out, d_hidden] in float32.

    One block, so one multiprocessor reads all the weights: no second launch, but no second multiprocessor either.
    Errors:  ValueError for more inputs and hidden values than a block's shared memory holds
    """
    (d_hidden, d_in), d_out = w1.shape, len(w2)
    room = 4 * (-(-d_in // 4) * 4 + d_hidden)
    if room > BLOCK_SHARED:
        raise ValueError(f"{d_in} inputs and {d_hidden} hidden values take {room} B of shared memory, but a block has "
                         f"{BLOCK_SHARED}: launch `matvec` for each layer of an MLP of this size.")
    threads = min(1024, 32 * max(d_hidden, d_out))         # a warp a row
    launch("mlp", "mlp", (1,), (threads,), (x, w1, b1, w2, b2, out, *map(np.int32, (d_in, d_hidden, d_out))), room)


def gru(launch, x, h, w, u, b, out):
    """out[width] = the state after one step from h[width] with input x[d]; see the twin for the equations."""
    width = len(h)
    launch("gru", "gru", (-(-width // UNITS),), (32 * UNITS,), (x, h, w, u, b, out, np.int32(len(x)), np.int32(width)))
