"""How many threads run the chains of multiply-adds on a GPU? One for each number of the result, or for two halves."""

import numpy as np

CHAINS = (1, 2, 4, 8, 16)    # a thread; a result is there for the next step after about four steps of a warp
THREADS = 256                # of a block
HALVES = {"REGISTER": "__half2", "MULTIPLY_ADD": "__hfma2"}     # two numbers in a register: twice the rate


def fma(launch, chains, steps, out):
    """`steps` times x = 0.999 x + 0.001 in `chains` numbers for each element of out, which gets their sum.

    FLOPs:   2 chains steps n       for n elements of out
    Bytes:   b n                    the rest stays in registers
    """
    halves = out.dtype == "float16"
    threads = -(-out.size // 2) if halves else out.size
    launch("fma", "fma_chains", (max(1, -(-threads // THREADS)),), (THREADS,),
           (out, np.int32(steps), np.int32(out.size)), dtype=out.dtype.name, CHAINS=chains, **HALVES if halves else {})


def empty(launch):
    """Nothing, in one thread: what is left is the cost of a launch."""
    launch("fma", "empty", (1,), (1,), ())
