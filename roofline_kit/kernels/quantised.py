"""How does a float become a small integer? Two ways to store a matrix in int8 and int4, with scales.

Both take a NumPy or a CuPy matrix of floats and round each weight to the nearest multiple of a scale.
"""

import numpy as np

GROUP = 32               # neighbours in a row that share an int4 scale


def to_int8(w):
    """(q, scale) with w[m, n] = scale[m] q[m, n], rounded: q in int8 from -127 to 127, scale in float32.

    Bytes:   m n + 4 m
    Errors:  of each weight at most scale / 2, which is the row's largest / 254
    """
    scale = abs(w).max(axis=1).astype("float32") / 127
    scale[scale == 0] = 1                                # a row of zeros
    return (w / scale[:, None]).round().astype("int8"), scale


def to_int4(w):
    """(packed, scale) with w = scale q, rounded: two q from -8 to 7 in a byte, a float16 scale for each 32 columns.

    A byte of packed[m, ceil(n / 2)] holds q + 8 of two neighbours, the first in its low half. At an odd n the last
    high half means nothing. scale is [m, ceil(n / 32)], its last group holds what is left of a row.
    Bytes:   m n / 2 + 2 m n / 32          4.5 bits a weight
    Errors:  of each weight at most scale / 2, which is about the group's largest / 14, if that lies between
             4.3e-4 and 4.5e5, where a float16 holds a scale to 11 bits
    """
    m, n = w.shape
    w = np.pad(w, ((0, 0), (0, -n % GROUP))).reshape(m, -1, GROUP)
    scale = (abs(w).max(axis=2) / 7).astype("float16")
    divisor = scale[:, :, None].astype("float32")
    divisor[divisor == 0] = 1                            # a group of zeros, whose scale stays 0
    q = (w / divisor).round().clip(-8, 7).astype("int8") + 8
    q = q.astype("uint8").reshape(m, -1)[:, :n + n % 2]
    return q[:, ::2] | q[:, 1::2] << 4, scale
