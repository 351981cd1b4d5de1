"""With which grid, block and arguments do the kernels along rows run? LayerNorm, softmax, the embedding's gather."""

import numpy as np

WARP = 32                # threads
BLOCK = 256              # threads at most: enough warps to wait for memory, small enough that several blocks fit
SHARED = 48 * 1024 - 512 # B that every device lets a block have, less room for the sums over the block
INDEXES = {"int32": "int", "int64": "long long"}


def layernorm(launch, x, gain, bias, out):
    """out = (x - mean) / sqrt(var + 1e-5) * gain + bias along each row, fused: x is read once."""
    _fused(launch, "layernorm", x, gain, bias, out)


def layernorm_unfused(launch, x, gain, bias, out):
    """The same in nine passes, whose results lie in memory: the bytes of ops.layernorm(fused=False)."""
    (rows, width), dtype = x.shape, x.dtype
    big, other = launch.xp.empty(x.shape, dtype), launch.xp.empty(x.shape, dtype)
    mean, variance, shifted, deviation = (launch.xp.empty(rows, dtype) for _ in range(4))

    def by_row(name, *arrays):
        launch("layernorm", name, (rows,), (_threads(width),), (*arrays, np.int32(width)), dtype=dtype.name)

    def by_number(name, *arrays):
        launch("layernorm", name, (-(-rows // BLOCK),), (BLOCK,), (*arrays, np.int32(rows)), dtype=dtype.name)

    by_row("row_mean", x, mean)
    by_row("centre", x, mean, big)
    by_row("square", big, other)
    by_row("row_mean", other, variance)
    by_number("add_epsilon", variance, shifted)
    by_number("square_root", shifted, deviation)
    by_row("divide", big, deviation, other)
    by_row("times_gain", other, gain, big)
    by_row("plus_bias", big, bias, out)


def softmax(launch, x, out):
    """out = exp(x - max) / sum(exp(x - max)) along each row, online: x is read once."""
    _fused(launch, "softmax", x, out)


def softmax_three_pass(launch, x, out):
    """The same by one kernel that reads x three times."""
    rows, width = x.shape
    launch("softmax", "softmax_three_pass", (rows,), (_threads(width),), (x, out, np.int32(width)), dtype=x.dtype.name)


def softmax_unfused(launch, x, out):
    """The same in five passes, whose results lie in memory: the bytes of ops.softmax(fused=False)."""
    (rows, width), dtype = x.shape, x.dtype
    below, powers = launch.xp.empty(x.shape, dtype), launch.xp.empty(x.shape, dtype)
    largest, total = launch.xp.empty(rows, dtype), launch.xp.empty(rows, dtype)

    def by_row(name, *arrays):
        launch("softmax", name, (rows,), (_threads(width),), (*arrays, np.int32(width)), dtype=dtype.name)

    by_row("row_max", x, largest)
    by_row("subtract", x, largest, below)
    by_row("exponential", below, powers)
    by_row("row_sum", powers, total)
    by_row("divide", powers, total, out)


def embedding(launch, table, ids, out):
    """out[i] = table[ids[i]] for int32 or int64 ids; an id that names no row is not looked for."""
    packs, vector = _packed(out, table)
    launch("embedding", "embedding", (ids.size,), (_threads(packs),), (table, ids, out, np.int32(packs)),
           dtype=out.dtype.name, INDEX=INDEXES[ids.dtype.name], VECTOR=vector)


def _fused(launch, name, *arrays):
    """One block a row, which keeps in shared memory what fits there."""
    packs, vector = _packed(*arrays)
    pack = vector * arrays[0].itemsize
    kept = min(packs, SHARED // pack)
    launch(name, name, (arrays[0].shape[0],), (_threads(packs),), (*arrays, np.int32(packs), np.int32(kept)),
           shared_mem=kept * pack, dtype=arrays[0].dtype.name, VECTOR=vector)


def _packed(*arrays):
    """(packs in a row, elements in a pack): 16 bytes where every row begins on such a boundary, else one element."""
    width, vector = arrays[0].shape[1], 16 // arrays[0].itemsize
    if width % vector or any(_address(array) % 16 for array in arrays):
        vector = 1
    return width // vector, vector


def _address(array):
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr


def _threads(count):
    """A block of whole warps that has no idle one."""
    return min(BLOCK, -(-count // WARP) * WARP)
