"""Exercises of lab 12: prefill or decode?"""

import math

import numpy as np

from ..ops import flash_attention, gemm, matvec
from ..transformer import Model
from ..work import Work
from . import Exercise, either_way
from .sources import Cuda

WAITS = ("weights", "cache", "arithmetic", "calls")
WAITED = {"chat": "weights", "books": "cache", "prompt": "arithmetic", "crowd": "arithmetic", "draft": "weights",
          "stories": "calls"}
LLAMA = Model(name="Llama-3-8B", layers=32, width=4096, heads=32, kv_heads=8, hidden=14336, vocab=128256)
ROWS, COLUMNS = 8192, 2048                         # of the matrix of 12.8

TILED = """
extern "C" __global__ void gqa(const float* q, const float* K, const float* V, float* out, int S, int d, int group) {
    extern __shared__ float sums[];
    float* query = sums;
    float* weight = sums + group * d;
    const long pair = blockIdx.y * gridDim.x + blockIdx.x;
    for (int i = threadIdx.x; i < group * d; i += blockDim.x) query[i] = q[pair * group * d + i];
    __syncthreads();
    for (int j = threadIdx.x; j < S; j += blockDim.x) {
        for (int g = 0; g < group; ++g) weight[g * S + j] = 0.0f;
        for (int i = 0; i < d; ++i) {
            float k = K[(pair * S + j) * d + i] / sqrtf((float)d);
            for (int g = 0; g < group; ++g) weight[g * S + j] += k * query[g * d + i];
        }
    }
    __syncthreads();
    if (threadIdx.x < group) {
        float *row = weight + threadIdx.x * S, top = row[0], total = 0.0f;
        for (int j = 1; j < S; ++j) top = fmaxf(top, row[j]);
        for (int j = 0; j < S; ++j) total += row[j] = expf(row[j] - top);
        for (int j = 0; j < S; ++j) row[j] /= total;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < d; i += blockDim.x) {
        for (int g = 0; g < group; ++g) sums[g * d + i] = 0.0f;
        for (int j = 0; j < S; ++j) {
            float v = V[(pair * S + j) * d + i];
            for (int g = 0; g < group; ++g) sums[g * d + i] += weight[g * S + j] * v;
        }
        for (int g = 0; g < group; ++g) out[pair * group * d + g * d + i] = sums[g * d + i];
    }
}
"""


def _kv(heads, group, d, latent, rope, window, context, itemsize, both=2, shared=None, one=1, keys=2, seen=min,
        position=1):
    """Bytes a layer for MHA, GQA, MQA, MLA and GQA with a window; shared: heads of keys in GQA."""
    each = itemsize * d * both
    few = heads // group if shared is None else shared(heads, group)
    return (each * heads * context, each * few * context, each * one * context,
            itemsize * keys / 2 * (latent + position * rope) * context, each * few * seen(context, window))


def _kv_with(**changed):
    changed = {"keys": 2} | changed
    return lambda heads, group, d, latent, rope, window, context, itemsize: _kv(
        heads, group, d, latent, rope, window, context, itemsize, **changed)


def _heads(rng):
    group, shared, window = int(rng.choice([2, 4, 8])), int(rng.choice([2, 3, 5, 8])), int(rng.integers(500, 4000))
    return {"heads": group * shared, "group": group, "d": int(rng.choice([64, 80, 96, 128])),
            "latent": int(rng.integers(200, 700)), "rope": int(rng.choice([32, 48, 64])),
            "window": window, "context": int(window * 4 ** rng.uniform(-1, 1)),      # as often full as not
            "itemsize": int(rng.choice([1, 2, 4]))}


def _step(weights, params, kv, batch, context, peak, bandwidth, caches=None, loads=1, times=max, flops=2, users=None):
    """Seconds, tokens/s, share of the cache in the bytes; caches, loads: how often cache and weights are read."""
    cache = kv * context * (batch if caches is None else caches)
    total = weights * (batch if loads == "batch" else loads) + cache
    seconds = times(total / bandwidth, flops * params * batch / peak)
    return seconds, (batch if users is None else users) / seconds, cache / total


def _step_with(**changed):
    return lambda weights, params, kv, batch, context, peak, bandwidth: _step(
        weights, params, kv, batch, context, peak, bandwidth, **changed)


def _step_caches_last(weights, params, kv, batch, context, peak, bandwidth):
    """The products first, then attention: what many books write."""
    cache = kv * context * batch
    seconds = max(weights / bandwidth, 2 * params * batch / peak) + cache / bandwidth
    return seconds, batch / seconds, cache / (weights + cache)


def _server(rng):
    """A model on a chip, now memory-bound, now compute-bound."""
    params = 10 ** rng.uniform(9, 11)
    return {"weights": params * float(rng.choice([0.5, 1, 2])), "params": params,
            "kv": 2**14 * int(rng.integers(1, 50)), "batch": int(2 ** rng.uniform(2, 11)),
            "context": int(2 ** rng.uniform(3, 12)), "peak": 10 ** rng.uniform(13.7, 15.2),
            "bandwidth": 10 ** rng.uniform(12, 13)}


def _fit(memory, weights, kv, longest, length, block, kept=True, up=True, of=None):
    """Sequences if the longest is reserved, sequences in blocks, share of the handed-out blocks that is empty."""
    free = memory - (weights if kept else 0)
    blocks = -(-length // block) if up else length / block
    room = block * blocks
    return free // (kv * longest), int(free // (kv * room)), (1 - length / room) if of is None else of(length, longest)


def _fit_with(**changed):
    return lambda memory, weights, kv, longest, length, block: _fit(
        memory, weights, kv, longest, length, block, **changed)


def _room(rng):
    kv, block, longest = 2**14 * int(rng.integers(1, 40)), int(rng.choice([16, 32, 64])), 2 ** int(rng.integers(11, 14))
    length, weights = block * int(rng.integers(3, 15)) + int(rng.integers(1, block)), int(rng.integers(10**9, 10**11))
    return {"memory": weights + kv * longest * int(rng.integers(3, 60)), "weights": weights, "kv": kv,
            "longest": longest, "length": length, "block": block}


def _draft(a, g, cost, verify, powers=1, drafts=1, first=0):
    """Tokens a pass, speed-up, rows checked for each token kept; powers: terms beyond g."""
    tokens = sum(a**i for i in range(first, g + powers))
    return tokens, tokens / (g * cost * drafts + verify), (g + 1) / tokens


def _draft_with(**changed):
    return lambda a, g, cost, verify: _draft(a, g, cost, verify, **changed)


def _waits(**changed):
    return tuple((WAITED | changed).values())


def _token(weights="int4", context=1024):
    return LLAMA.decode_step(context, weights=weights, kv="float32", dtype="float32")


def _rate(roof, weights="int4", context=1024):
    """Tokens/s of one user."""
    return 1 / roof.seconds(_token(weights, context))


def _cache(rng, batch=None, shared=None, group=4, S=None, d=64):
    """A token and a cache for each sequence; of odd sizes unless told."""
    if S is None:
        batch, shared, S = int(rng.integers(1, 4)), int(rng.integers(2, 4)), int(rng.integers(3, 200))
        group, d = int(rng.integers(2, 6)), 2 * int(rng.integers(3, 20))
    return {"q": 2 * rng.standard_normal((batch, group * shared, d)), "K": rng.standard_normal((batch, shared, S, d)),
            "V": rng.standard_normal((batch, shared, S, d)), "out": np.full((batch, group * shared, d), np.nan)}


def _gqa(q, K, V, power=0.5, dealt=False, normalised=True):
    """Attention of one token; dealt: query head h takes head h % shared of the keys."""
    _, heads, d = q.shape
    shared = K.shape[1]
    whose = np.arange(heads) % shared if dealt else np.repeat(np.arange(shared), heads // shared)
    scores = np.einsum("bhd,bhsd->bhs", q, K[:, whose]) / d**power
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    if normalised:
        weights /= weights.sum(axis=2, keepdims=True)
    return np.einsum("bhs,bhsd->bhd", weights, V[:, whose])


def _gqa_with(**changed):
    return lambda q, K, V: _gqa(q, K, V, **changed)


def _work(q, K, V):
    """One pass over keys and values, for all heads that share them."""
    batch, heads, d = q.shape
    once = flash_attention(heads, 1, K.shape[2], d, K.shape[1], batch=batch)
    return Work(once.flops, once.nbytes, written=once.written, name="gqa")


def _launch(q, K, V, out):
    batch, shared, S, d = K.shape
    group = q.shape[1] // shared
    return (shared, batch), (128,), (q, K, V, out, *map(np.int32, (S, d, group))), 4 * group * (d + S)


EXERCISES = {
    "12.1": Exercise(
        kind="derive", points=2, names=("MHA", "GQA", "MQA", "MLA", "GQA with a window"), quantity="nbytes",
        ask="kv(heads, group, d, ..): bytes that a layer keeps of a sequence, for five kinds of attention",
        inputs=_heads,
        reference=_kv_with(),
        alternatives=(lambda heads, group, d, latent, rope, window, context, b: (
            2 * b * d * heads * context, 2 * b * d * heads * context / group, 2 * b * d * context,
            b * (latent + rope) * context, 2 * b * d * heads / group * min(window, context)),),
        slips={
            "keys only": (_kv_with(both=1), "Keys and values are kept: two numbers a head and dimension."),
            "latent twice": (_kv_with(keys=4),
                "MLA's latent is key and value at once: there is no factor 2."),
            "no position": (_kv_with(position=0),
                "Beside the latent, MLA keeps the rotated part of a key, of rope numbers."),
            "query heads": (_kv_with(shared=lambda heads, group: heads),
                "In GQA, group query heads share one head of keys and values: heads / group of them are kept."),
            "group heads": (_kv_with(shared=lambda heads, group: group),
                "group is how many query heads share one; there are heads / group heads of keys and values."),
            "window not full": (_kv_with(seen=lambda context, window: window),
                "A window that is not full yet holds context tokens: the smaller of the two."),
            "no window": (_kv_with(seen=lambda context, window: context),
                "A layer with a window keeps the last window tokens at most."),
        },
        hints=("Lesson 12, 'The KV cache': what is kept of one token, and of how many tokens?",
               ("MHA 2 b heads d a token; GQA has heads / group, MQA one head of keys and values; MLA b (latent + "
                "rope)."),
               ("one = 2 * itemsize * d; one * heads * context, one * heads // group * context, one * context, "
                "itemsize * (latent + rope) * context, one * heads // group * min(window, context).")),
        right="A token's keys and values outlive it in every layer; each kind shrinks another factor.",
    ),
    "12.2": Exercise(
        kind="derive", points=2, names=("seconds", "tokens/s", "share of the cache"),
        ask="step(weights, params, kv, batch, ..): time of a decode step, tokens a second, share of the cache",
        inputs=_server,
        reference=_step_with(),
        alternatives=(lambda weights, params, kv, batch, context, peak, bandwidth: (
            (s := max((weights + batch * context * kv) / bandwidth, 2 * batch * params / peak)), batch / s,
            1 / (1 + weights / (batch * context * kv))),),
        slips={
            "one cache": (_step_with(caches=1),
                "Each user has a cache of their own: a batch shares the weights, never the KV cache."),
            "weights for each": (_step_with(loads="batch"),
                "The weights are read once for the whole batch; that is what the batch is for."),
            "a sum": (_step_with(times=lambda memory, compute: memory + compute),
                "At best memory and arithmetic overlap: the larger of the two times, not their sum."),
            "memory alone": (_step_with(times=lambda memory, compute: memory),
                "With many users and short contexts the arithmetic, 2 params batch FLOPs, takes longer."),
            "multiply-adds": (_step_with(flops=1), "A multiply and an add for each weight and user are two FLOPs."),
            "of one user": (_step_with(users=1), "That is what one user gets; in a step, each of them gets one."),
            "caches last": (_step_caches_last,
                "The caches are read while the units compute, as the weights are: all bytes against all FLOPs."),
            "beside the weights": (lambda weights, params, kv, batch, context, peak, bandwidth: (
                    *_step(weights, params, kv, batch, context, peak, bandwidth)[:2], kv * context * batch / weights),
                "A share is of all bytes that are read, weights and caches together."),
        },
        hints=("Lesson 12, 'Derive' and 'The batch': which bytes are read once, and which for each user?",
               "Bytes: weights + batch * context * kv. FLOPs: 2 * params * batch. The longer of the two times.",
               ("seconds = max((weights + batch * context * kv) / bandwidth, 2 * params * batch / peak); "
                "batch / seconds; batch * context * kv / (weights + batch * context * kv).")),
        right="Weights once, a cache for each: with long contexts the caches take over, and the batch stops helping.",
    ),
    "12.3": Exercise(
        kind="derive", points=2, names=("reserved", "in blocks", "empty share"),
        ask="fit(memory, weights, kv, ..): sequences that fit, reserved and in blocks, and the empty share",
        inputs=_room,
        reference=_fit_with(),
        alternatives=(lambda memory, weights, kv, longest, length, block: (
            (memory - weights) // kv // longest, (memory - weights) // kv // block // math.ceil(length / block),
            -length % block / (block * math.ceil(length / block))),),
        slips={
            "weights forgotten": (_fit_with(kept=False), "The weights take their part of the memory first."),
            "no block is cut": (_fit_with(up=False),
                "A sequence gets whole blocks: round length / block up."),
            "tokens alone": (lambda memory, weights, kv, longest, length, block: (
                    (found := _fit(memory, weights, kv, longest, length, block))[0],
                    (memory - weights) // (kv * length), found[2]),
                "A sequence gets whole blocks, so the empty rest of its last one takes memory, too."),
            "of the reserved": (_fit_with(of=lambda length, longest: 1 - length / longest),
                "That share is empty where the longest is reserved; the third number is about the blocks."),
            "full": (lambda memory, weights, kv, longest, length, block: (
                    *_fit(memory, weights, kv, longest, length, block)[:2], length / (block * -(-length // block))),
                "That share of the blocks is full; the third number is the share that is empty."),
            "last block": (lambda memory, weights, kv, longest, length, block: (
                    *_fit(memory, weights, kv, longest, length, block)[:2], -length % block / block),
                "That much of the last block is empty; the third number is of all blocks of a sequence."),
        },
        hints=("Lesson 12, 'Room that is not used': how many tokens' room does a sequence get in each case?",
               "Reserved: longest tokens. In blocks: block * ceil(length / block). A token takes kv bytes.",
               ("free = memory - weights; room = block * math.ceil(length / block); free // (kv * longest), "
                "free // (kv * room), 1 - length / room.")),
        right="Blocks read not a byte less; they fit more users beside the weights, and these share them.",
    ),
    "12.4": Exercise(
        kind="derive", points=2, names=("tokens a pass", "speed-up", "rows for a token"),
        ask="drafting(a, g, cost, verify): tokens a pass, speed-up, rows checked for a token",
        inputs={"a": (0.3, 0.95), "g": (2, 12), "cost": (0.01, 0.2), "verify": (1.0, 1.8)},
        reference=_draft_with(),
        alternatives=(lambda a, g, cost, verify: (
            (n := (1 - a ** (g + 1)) / (1 - a)), n / (g * cost + verify), (g + 1) / n),),
        slips={
            "the token for free": (_draft_with(powers=0),
                "Even if no draft is kept, the pass brings a token: the powers of a from 0 to g, g + 1 terms."),
            "drafts alone": (_draft_with(first=1),
                "These are the drafts that are kept; the check itself brings one token more."),
            "one draft": (lambda a, g, cost, verify: (
                    (n := _draft(a, g, cost, verify)[0]), n / (cost + verify), (g + 1) / n),
                "The small model runs g times before each check: g * cost."),
            "all or nothing": (lambda a, g, cost, verify: (
                    (n := 1 + g * a**g), n / (g * cost + verify), (g + 1) / n),
                "Drafts are kept up to the first miss, not all or none: 1 + a + a^2 + .. + a^g."),
            "drafts are free": (lambda a, g, cost, verify: (
                    (n := _draft(a, g, cost, verify)[0]), n / verify, (g + 1) / n),
                "Each of the g drafts takes cost of a step of the large model."),
            "a step for a check": (lambda a, g, cost, verify: (
                    (n := _draft(a, g, cost, verify)[0]), n / (g * cost + 1), (g + 1) / n),
                "The check takes verify steps; that is 1 only where its rows are for free."),
            "a check for each row": (lambda a, g, cost, verify: (
                    (n := _draft(a, g, cost, verify)[0]), n / (g * cost + (g + 1) * verify), (g + 1) / n),
                "All g + 1 rows go through the large model in one pass: verify is the time of all of them."),
            "drafts are rows": (lambda a, g, cost, verify: (
                    (n := _draft(a, g, cost, verify)[0]), n / (g * cost + verify), g / n),
                "Besides the g drafts, the token before them is a row of the check: g + 1 rows."),
        },
        hints=("Lesson 12, 'Where FlashAttention acts, and drafting': what does a pass bring, and what does it take?",
               "Tokens (1 - a^(g+1)) / (1 - a); time g * cost + verify; g + 1 rows are checked.",
               "n = (1 - a**(g + 1)) / (1 - a); n, n / (g * cost + verify), (g + 1) / n."),
        right="More FLOPs for each token, and less time: as long as the check stays memory-bound, FLOPs are free.",
    ),
    "12.5": Exercise(
        kind="derive", points=1, names=("gain", "gain at no bytes"),
        ask="gain(nbytes, times, bandwidth, rest): what smaller weights gain beside a rest that stays",
        inputs={"nbytes": (1e9, 1e11), "times": (1.5, 8.0), "bandwidth": (5e11, 8e12), "rest": (5e-4, 1e-2)},
        reference=lambda nbytes, times, bandwidth, rest: (
            (nbytes / bandwidth + rest) / (nbytes / times / bandwidth + rest), (nbytes / bandwidth + rest) / rest),
        alternatives=(lambda nbytes, times, bandwidth, rest: (
            (1 + (r := rest * bandwidth / nbytes)) / (1 / times + r), 1 + 1 / r),),
        slips={
            "the article's": (lambda nbytes, times, bandwidth, rest: (times, (nbytes / bandwidth + rest) / rest),
                "Only the bytes shrink; calls do not get cheaper with smaller weights, so it is less than `times`."),
            "upside down": (lambda nbytes, times, bandwidth, rest: (
                    (nbytes / times / bandwidth + rest) / (nbytes / bandwidth + rest),
                    rest / (nbytes / bandwidth + rest)),
                "A gain is the old time over the new one."),
            "no old rest": (lambda nbytes, times, bandwidth, rest: (
                    nbytes / bandwidth / (nbytes / times / bandwidth + rest), nbytes / bandwidth / rest),
                "The old time has the rest in it, too."),
            "the longer one": (lambda nbytes, times, bandwidth, rest: (
                    max(nbytes / bandwidth, rest) / max(nbytes / times / bandwidth, rest),
                    max(nbytes / bandwidth, rest) / rest),
                "The rest comes besides the bytes, not at the same time: a token takes the sum of the two."),
        },
        hints=("Lesson 12, 'Why not four times?': which part of a token's time shrinks with the bytes?",
               "Old: nbytes / bandwidth + rest. New: nbytes / times / bandwidth + rest. At no bytes: rest.",
               ("old = nbytes / bandwidth + rest; old / (nbytes / times / bandwidth + rest), old / rest.")),
        right="What does not shrink sets the limit: with a third of the time in it, no format gains more than three.",
    ),
    "12.6": Exercise(
        kind="diagnose", points=2, labels=WAITS, ask="what six passes on an H100 wait for",
        reference=_waits,
        alternatives=(("Weights", "Cache", "Arithmetic", "ARITHMETIC", "weights", "Calls"), lambda: list(_waits())),
        slips={
            "a batch shares all": (lambda: _waits(books="weights"),
                "32 caches of 8192 tokens are 34 GB, the weights 15: a batch does not share the cache."),
            "a prompt reads": (lambda: _waits(prompt="weights"),
                "A prompt of 4096 tokens uses each weight 4096 times: far right of the ridge."),
            "decode is memory-bound": (lambda: _waits(crowd="weights"),
                "1024 rows are beyond the critical batch of 332, and caches of 16 tokens are small."),
            "decode reads caches": (lambda: _waits(crowd="cache"),
                "1024 caches of 16 tokens are 2.1 GB, less than the weights; the arithmetic takes longer than both."),
            "the article's": (lambda: _waits(draft="arithmetic"),
                "Five rows have about 5 FLOP/B, and the ridge is 295: the check stays memory-bound."),
            "weights of a small model": (lambda: _waits(stories="weights"),
                "83 MB take 25 us; 360 calls of 2.5 us take 900."),
        },
        hints=(("Lesson 12, 'The batch', and for stories 'Predict': for each, bytes of the weights, bytes of the "
                "caches, FLOPs, calls. Which takes longest?"),
               ("Weights 15 GB and 131,072 B of cache a token, over 3.35e12 B/s; 15e9 FLOPs a token, over 989e12 "
                "FLOP/s; 2.5e-6 s a call."),
               ("books: 34 GB of cache. prompt: 4096 * 15e9 FLOPs take 62 ms. crowd: 1024 * 15e9 take 16 ms, all bytes "
                "5. draft: five rows. stories: 8 * 45 calls.")),
        right="Each of the four has its own remedy; the others would gain nothing.",
    ),
    "12.7": Exercise(
        kind="predict", points=1, factor=2.0,
        ask="tokens a second that Llama-3-8B could write on this machine, with int4 weights, for one user",
        reference=lambda roof: {1 / seconds for seconds in either_way(roof, _token())},
        alternatives=(lambda roof: roof.bandwidth_for(Work(1, 1)) / _token().nbytes,
                      lambda roof: roof.bandwidth / _token().nbytes),
        slips={
            "two bytes": (lambda roof: _rate(roof, "bfloat16"), "That is with two-byte weights; int4 has half a byte."),
            "four bytes": (lambda roof: _rate(roof, "float32"), "That is with float32 weights; int4 has half a byte."),
            "seconds": (lambda roof: 1 / _rate(roof), "That is the time of a token; tokens a second are asked."),
            "arithmetic": (lambda roof: roof.peak / (2 * 8.03e9),
                "That is how fast it could read at best, 2 P FLOPs a token; a written token waits for the weights."),
        },
        hints=(("Lesson 12, 'Smaller numbers' and 'Predict': which of the three times does one user's token wait for, "
                "and which Work says so?"),
               "All weights and the cache are read for each token: bytes over this machine's bandwidth.",
               "1 / here.seconds(llama.decode_step(1024, weights='int4', kv='float32', dtype='float32'))."),
        right="A model of 8 billion weights writes at the speed at which its bytes come: no faster core changes that.",
        then="A machine's bandwidth over the bytes of a model: that is what to ask before buying either.",
    ),
    "12.8": Exercise(
        kind="measure", points=2, cold=True,
        ask="the product of an int8 matrix and a vector, from memory, with its Work",
        reference=lambda: matvec(ROWS, COLUMNS, "int8"),
        slips={
            "float32": (lambda: matvec(ROWS, COLUMNS), "These are the bytes of float32 weights; yours have one."),
            "two bytes": (lambda: matvec(ROWS, COLUMNS, "bfloat16"), "The bytes are those of two-byte weights."),
            "half a byte": (lambda: matvec(ROWS, COLUMNS, "int4"), "The bytes are those of int4 weights."),
            "all in one byte": (lambda: gemm(ROWS, 1, COLUMNS, "int8"),
                "Only the weights are int8: the vectors stay float32, and a row has a scale; rk.matvec counts so."),
            "the other way round": (lambda: matvec(COLUMNS, ROWS, "int8"),
                "Rows first: that is the work of a matrix of 2048 x 8192."),
            "weights alone": (lambda: Work(2 * ROWS * COLUMNS, ROWS * COLUMNS),
                "Besides the weights there are a scale for each row and the two vectors; rk.matvec counts them."),
        },
        hints=("Lesson 12, 'Fewer bytes a weight': rk.matvec counts such products, rk.measure times them.",
               "The kernel is dev.kernel('matvec_int8'), called as kernel(W, scale, x, y); it has to be cold.",
               ("run = rk.measure(lambda: kernel(W, scale, x, y), work=rk.matvec(8192, 2048, 'int8'), cold=True).")),
        right="A quarter of the bytes of float32 for the same FLOPs, and a few for the scales.",
    ),
    "12.9": Exercise(
        kind="build", points=3, out="out", least=0.1, tolerance=1e-4,
        ask="gqa: attention of one new token over a cache whose heads are shared, in Numba or in CUDA C++",
        inputs=_cache,
        reference=_gqa_with(),
        alternatives=(lambda q, K, V, out: out.__setitem__(..., _gqa(q, K, V)), TILED),
        slips={
            "not scaled": (_gqa_with(power=0), "The scores are not divided by the square root of d."),
            "scaled by d": (_gqa_with(power=1), "The scores are divided by d; divide by its square root."),
            "not normalised": (_gqa_with(normalised=False), "The weights do not add up to 1: divide by their sum."),
            "heads dealt out": (_gqa_with(dealt=True),
                "Neighbours share: query head h belongs to head h // group of keys, not to h % shared."),
        },
        work=lambda q, K, V, out: _work(q, K, V), big=lambda rng: _cache(rng, 8, 8, S=1024),
        cuda=Cuda(name="gqa", launch=_launch,
                  most=lambda q, K, V, out: 4 * (q.size + K.size + V.size),
                  told="load each key and each value once, into a variable, and use it for all heads of the group."),
        hints=("Lesson 12, on_cpu in 'Question': which numbers do the heads of a group have in common?",
               ("For each sequence and each head of keys: the scores of all its query heads in one loop over the keys, "
                "softmax for each, then all sums in one loop over the values."),
               ("prange over batch * shared; scores[g, j] = sum of q[s, h * group + g, i] * K[s, h, j, i] / sqrt(d); "
                "exp(score - largest) / total; out[s, h * group + g, i] += weight[g, j] * V[s, h, j, i].")),
        right="One pass over keys and values for a whole group: that is how GQA raises the AI of decode.",
    ),
}
