"""How fast is attention: in pieces whose scores go through memory, or tile by tile with the scores in cache?

Both twins work on float32 copies of q, k and v, a small part of the work; k is copied turned, so that the scores of one
query are sums of rows of it.
"""

import numpy as np
from numba import njit, prange

from .floats import exp, larger, put, stored, widened
from .fused_rows import FAST, LOWEST, largest_of, soften
from .rows import STEPS
from .twins import refusal, twin

QUERIES = KEYS = 64      # of a tile: with head size 128 its parts take 130 KB, within L2
NOTHING = np.float32(-np.inf)

_refuse_attention = refusal("attention")


@njit
def _refuse(q, k, v, out):
    _refuse_attention(q, k, v, out)


@njit(**FAST)
def _combine(weights, rows, out):
    """out += weights rows: a sum of rows, four at a time, so that `out` is loaded a quarter as often."""
    last = weights.size // 4 * 4
    for j in range(0, last, 4):
        a, b, c, d = rows[j], rows[j + 1], rows[j + 2], rows[j + 3]
        for i in range(out.size):
            out[i] += (weights[j] * a[i] + weights[j + 1] * b[i]) + (weights[j + 2] * c[i] + weights[j + 3] * d[i])
    for j in range(last, weights.size):
        for i in range(out.size):
            out[i] += weights[j] * rows[j, i]


@njit(**FAST)
def _hide(row, seen):
    """-infinity from there on: what comes later than the query."""
    for i in range(seen, row.size):
        row[i] = NOTHING


@njit(**FAST)
def _store(values, factor, out):
    for i in range(out.size):
        put(out, i, values[i] * factor)


@njit(**FAST)
def _scores(query, turned, seen, out):
    row = np.zeros(out.size, np.float32)
    _combine(query, turned, row)
    _hide(row, seen)
    _store(row, np.float32(1), out)


@njit(**FAST)
def _weighted_sum(weights, v, out):
    row, values = np.empty(weights.size, np.float32), np.zeros(out.size, np.float32)
    for key in range(weights.size):
        row[key] = widened(weights[key])
    _combine(row, v, values)
    _store(values, np.float32(1), out)


@njit(**STEPS)
def _attention(q, turned, v, scores, weights, out, causal):
    heads, length, _ = q.shape
    for task in prange(heads * length):
        head, query = task // length, task % length
        _scores(q[head, query], turned[head], query + 1 if causal else length, scores[task])
    for task in prange(heads * length):
        soften(scores[task], np.empty(length, np.float32), weights[task])
    for task in prange(heads * length):
        head, query = task // length, task % length
        _weighted_sum(weights[task], v[head], out[head, query])


@njit(**FAST)
def _tile(q, turned, v, seen, scores, sums, largest, total):
    """Take one tile of keys into the sums of one tile of queries; the first query sees `seen` of the keys."""
    row = scores[:turned.shape[1]]
    for i in range(q.shape[0]):
        for j in range(row.size):
            row[j] = np.float32(0)
        _combine(q[i], turned, row)
        _hide(row, max(0, seen + i))
        new = larger(largest[i], largest_of(row))
        shrink = exp(largest[i] - new)                   # a new maximum scales what is summed so far
        largest[i], added = new, np.float32(0)
        for j in range(row.size):
            row[j] = exp(row[j] - new)
            added += row[j]
        total[i] = total[i] * shrink + added
        for j in range(sums.shape[1]):
            sums[i, j] *= shrink
        _combine(row, v, sums[i])


@njit(**FAST)
def _queries(q, turned, v, begin, causal, out):
    """The queries of one tile, which begin at number `begin` of their head, over all tiles of keys."""
    length = v.shape[0]
    scores, largest = np.empty(KEYS, np.float32), np.full(QUERIES, LOWEST)
    sums, total = np.zeros((QUERIES, v.shape[1]), np.float32), np.zeros(QUERIES, np.float32)
    for first in range(0, min(begin + QUERIES, length) if causal else length, KEYS):
        last = min(first + KEYS, length)
        seen = begin + 1 - first if causal else KEYS
        keys = turned[:, first:last].copy()              # in one piece, or LLVM finds no vectors in it
        _tile(q, keys, v[first:last], seen, scores, sums, largest, total)
    for i in range(q.shape[0]):
        _store(sums[i], np.float32(1) / total[i], out[i])


@njit(parallel=True, **FAST)
def _flash_attention(q, turned, v, out, causal):
    heads, length, _ = q.shape
    tiles = (length + QUERIES - 1) // QUERIES
    for task in prange(heads * tiles):
        head, begin = task // tiles, task % tiles * QUERIES
        end = min(begin + QUERIES, length)
        _queries(q[head, begin:end], turned[head], v[head], begin, causal, out[head, begin:end])


def _prepared(q, k, v, out):
    """q / sqrt(d), k turned to [heads, d, S], v, all in float32, and out as loops take it."""
    arrays = stored(q, k, v, out)
    _refuse(*arrays)
    scale = np.float32(1 / np.sqrt(q.shape[-1]))
    turned = np.ascontiguousarray(k.transpose(0, 2, 1), dtype=np.float32)
    return q.astype(np.float32) * scale, turned, v.astype(np.float32, copy=False), arrays[3]


@twin
def attention(q, k, v, out, causal=False):
    """out = softmax(q k^T / sqrt(d)) v for q, k, v, out[heads, S, d], in three pieces.

    causal:  no query sees a later key
    FLOPs:   4 heads S S d for the two products, 5 heads S S for the softmax
    Bytes:   b heads (4 S d + 4 S S)        the scores are written and read, so are the weights; b bytes an element
    Errors:  ValueError for other dtypes than float32, float16 and bfloat16
    """
    heads, length, _ = q.shape
    scores, weights = stored(*np.empty((2, heads * length, length), q.dtype))
    q, turned, v, out = _prepared(q, k, v, out)
    _attention(q, turned, v, scores, weights, out, bool(causal))


@twin
def flash_attention(q, k, v, out, causal=False):
    """The same, a tile of 64 queries by 64 keys at a time; the scores never leave the cache.

    Bytes:   b heads 4 S d                  q, k, v read once and out written once, if k and v of a head stay in cache
    Source:  Dao, Fu, Ermon, Rudra, Re, "FlashAttention", 2022
    """
    _flash_attention(*_prepared(q, k, v, out), bool(causal))
