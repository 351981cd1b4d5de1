"""Exercises of lab 01: how alike are two vectors?"""

import numpy as np

from ..datasheets import datasheet
from ..ops import dot
from ..units import itemsize as bytes_of
from ..work import Work
from . import Exercise, either_way


def _users(rng):
    """A vector and a matrix of others, whose lengths differ a hundredfold: a forgotten one shows."""
    rows, width = int(rng.integers(4, 60)), int(rng.integers(61, 200))
    lengths = 10 ** rng.uniform(-1, 1, (rows, 1))
    return {"q": rng.standard_normal(width) + 0.3, "X": lengths * (rng.standard_normal((rows, width)) + 0.3)}


def _norm(x):
    return np.sqrt((x * x).sum(axis=-1))


def _queries(rng):
    """A query, keys and values; the scaled scores lie near 120 and -120, where exp overflows in float32."""
    keys, width, out = int(rng.integers(8, 60)), int(rng.integers(16, 80)), int(rng.integers(4, 8))
    q, level = rng.standard_normal(width), np.where(np.arange(keys) % 2, -120, 120)
    push = np.outer(level, q) * np.sqrt(width) / (q @ q)
    return {"q": q, "K": rng.standard_normal((keys, width)) + push, "V": rng.standard_normal((keys, out))}


def _exp(scores):
    return np.exp(scores - scores.max())


def _softmax(scores):
    return _exp(scores) / _exp(scores).sum()


def _counts(flops, nbytes):
    return flops, nbytes, flops / nbytes


def _plain(roof, n):
    """Bytes over the best bandwidth: what a learner divides. The kit's prediction also knows the mix."""
    return dot(n, roof.dtype).nbytes / roof.bandwidth


def _bounds(roof, n, **changed):
    """Bound on an H100, here, and here with eight pairs; changed: another label for one of the three."""
    bounds = {"h100": datasheet("H100 SXM", "bfloat16").bound(dot(n, "bfloat16")),
              "here": roof.bound(dot(n, roof.dtype)), "short": roof.bound(dot(8, roof.dtype))}
    return tuple((bounds | changed).values())


def _accepted(roof, n):
    """The same; 'balanced' is right as well where two times lie within a fifth of each other."""
    chip, *own = _bounds(roof, n)
    return (chip, *({name, roof.bound(dot(size, roof.dtype), margin=0.2)} for name, size in zip(own, (n, 8))))


EXERCISES = {
    "01.1": Exercise(
        kind="build", points=1,
        ask="cosines(q, X): cosine similarity of the vector q with each row of X",
        inputs=_users,
        reference=lambda q, X: X @ q / (_norm(X) * _norm(q)),
        alternatives=(lambda q, X: (X * q).sum(1) / ((X * X).sum(1) * (q * q).sum()) ** 0.5,
                      lambda q, X: (X.T / _norm(X)).T @ (q / _norm(q))),
        slips={
            "plain dot products": (lambda q, X: X @ q,
                "These are the dot products: they still grow with the lengths of both vectors."),
            "length of q": (lambda q, X: X @ q / _norm(X),
                "The length of q is still in it: ten times the query would give ten times the result."),
            "lengths of the rows": (lambda q, X: X @ q / _norm(q),
                "The lengths of the rows are still in it: a long row beats a similar one."),
            "no root": (lambda q, X: X @ q / ((X * X).sum(1) * (q @ q)),
                "A vector's dot product with itself is its length squared: take the root."),
            "one length for all": (lambda q, X: X @ q / (np.sqrt((X * X).sum()) * _norm(q)),
                ("All rows are divided by one length, that of the whole matrix; each has its own: sum "
                 "along axis 1.")),
            "angle": (lambda q, X: np.arccos(np.clip(X @ q / (_norm(X) * _norm(q)), -1, 1)),
                "That is the angle in radians; its cosine is asked, which needs no arccos."),
            "distance": (lambda q, X: 1 - X @ q / (_norm(X) * _norm(q)),
                "One minus the cosine is a distance, 0 for the same direction; the cosine is asked."),
        },
        work=lambda q, X: Work(4 * X.size, 4 * (X.size + q.size + len(X)), written=4 * len(X)),
        big=lambda rng: {"q": rng.standard_normal(1024), "X": rng.standard_normal((8192, 1024))},
        hints=("Lesson 01, 'Length and direction': which three dot products does one cosine need?",
               ("X @ q is the dot product of q with every row at once. The length of a row is the root of "
                "its dot product with itself: square X and sum along axis 1."),
               "Divide X @ q by xp.sqrt((X * X).sum(axis=1)) * xp.sqrt(q @ q)."),
        right="That is a recommender: one user against all items. Its roof reads X once. A square or a "
              "norm that goes through X again is one more pass, and its share of the roof shows it.",
    ),
    "01.2": Exercise(
        kind="build", points=2, tolerance=2e-3,
        ask="attend(q, K, V): attention of one query over all keys and values, for scores of any size",
        inputs=_queries,
        reference=lambda q, K, V: _softmax(K @ q / np.sqrt(q.size)) @ V,
        alternatives=(lambda q, K, V: V.T @ _softmax((K * (q / q.size**0.5)).sum(1)),
                      lambda q, K, V: sum(w * row for w, row in zip(_softmax(q @ K.T * q.size**-0.5), V))),
        slips={
            "not scaled": (lambda q, K, V: _softmax(K @ q) @ V,
                ("The scores are not divided by sqrt(d): they grow with d, and the largest takes all the "
                 "weight.")),
            "scaled by d": (lambda q, K, V: _softmax(K @ q / q.size) @ V,
                ("The scores are divided by d, not by its root: that levels the differences between the "
                 "keys.")),
            "root of the number of keys": (lambda q, K, V: _softmax(K @ q / np.sqrt(len(K))) @ V,
                "The scores are divided by the root of the number of keys; d is the length of one vector."),
            "cosines": (lambda q, K, V: _softmax(K @ q / (_norm(K) * _norm(q))) @ V,
                "These scores are cosines: attention divides by sqrt(d), not by the lengths."),
            "weights do not add up to 1": (lambda q, K, V: _exp(K @ q / np.sqrt(q.size)) @ V,
                "The weights do not add up to 1: divide the exponentials by their sum."),
            "no softmax": (lambda q, K, V: K @ q / np.sqrt(q.size) @ V,
                "The values are weighted by the scores themselves: a softmax has to come between."),
            "the best key alone": (lambda q, K, V: V[np.argmax(K @ q)],
                "The best key takes all the weight: a softmax leaves some to the others."),
            "all alike": (lambda q, K, V: V.mean(axis=0),
                "All values weigh the same, whatever the scores."),
        },
        hints=(("Lesson 01, 'Attention is made of them', computes scores and weights. Then weight the "
                "values and add them up. Where would exp(score) overflow?"),
               ("A softmax stays the same when one number is subtracted from all scores: numerator and "
                "denominator get the same factor. Choose it so that the largest exponent is 0."),
               ("With scores = K @ q / len(q)**0.5: weights = xp.exp(scores - scores.max()), divided by "
                "their sum; the result is weights @ V.")),
        right="Differences of scores are all that counts, so the maximum can be taken off first and "
              "nothing overflows. Every attention kernel does so: it is why a softmax goes through its "
              "row more than once.",
    ),
    "01.3": Exercise(
        kind="derive", points=2, names=("FLOPs", "bytes", "AI"),
        ask="scores(S, d, itemsize): FLOPs, bytes and AI of one query against S keys of width d",
        inputs={"S": (4, 8192), "d": (16, 512), "itemsize": [1, 2, 4, 8]},
        reference=lambda S, d, itemsize: _counts(2 * S * d, itemsize * (S * d + d + S)),
        alternatives=(lambda keys, width, b: (2 * keys * width, b * keys * width + b * width + b * keys,
                                              2 / (b * (1 + 1 / keys + 1 / width))),
                      lambda S, d, itemsize: list(_counts(S * (d + d), itemsize * ((S + 1) * (d + 1) - 1)))),
        slips={
            "the query again for every key": (
                lambda S, d, itemsize: _counts(2 * S * d, itemsize * (2 * S * d + S)),
                ("That is S dot products one by one, each fetching the query anew; once on the chip, it "
                 "stays there.")),
            "one by one, scores neglected": (lambda S, d, itemsize: _counts(2 * S * d, itemsize * 2 * S * d),
                ("That is S dot products one by one, each fetching the query anew; once on the chip, it "
                 "stays there.")),
            "keys only": (lambda S, d, itemsize: _counts(2 * S * d, itemsize * S * d),
                "The keys are most of the bytes, but query and scores cross the memory bus as well."),
            "upside down": (lambda S, d, itemsize: (*_counts(2 * S * d, itemsize * (S * d + d + S))[:2],
                                        itemsize * (S * d + d + S) / (2 * S * d)),
                "The counts are right; AI is FLOPs over bytes, not bytes over FLOPs."),
            "one add less": (lambda S, d, itemsize: _counts(S * (2 * d - 1), itemsize * (S * d + d + S)),
                ("Strictly there are d - 1 adds; by convention each pair counts a multiply and an add, 2 "
                 "d in all.")),
            "S queries": (lambda S, d, itemsize: _counts(2 * S * S * d, itemsize * (2 * S * d + S * S)),
                "That is S queries against S keys; here a single query asks."),
            "scores not written": (lambda S, d, itemsize: _counts(2 * S * d, itemsize * (S * d + d)),
                "Keys and query are read, but the S scores have to be written too."),
            "query forgotten": (lambda S, d, itemsize: _counts(2 * S * d, itemsize * (S * d + S)),
                "The keys are read and the scores written, but the query has to be read as well, once."),
            "elements, not bytes": (lambda S, d, itemsize: _counts(2 * S * d, S * d + d + S),
                "The second number counts elements; each of them is itemsize bytes long."),
            "a multiply-add as one": (lambda S, d, itemsize: _counts(S * d, itemsize * (S * d + d + S)),
                "A multiply and an add are two FLOPs, for each of the S d pairs."),
        },
        hints=("Count for a single key first: that is a dot product of two vectors of length d.",
               ("S times the FLOPs of one dot product. For the bytes name the three arrays (keys, query, "
                "scores): each of them crosses the memory bus once."),
               "2*S*d FLOPs; S*d + d + S elements of itemsize bytes; the AI is the first over the second."),
        right="One dot product has an AI of 1/itemsize, many with the same query come near 2/itemsize: "
              "the query is read once and used S times. That is reuse, though still far left of any GPU's"
              " ridge point.",
    ),
    "01.4": Exercise(
        kind="predict", points=1, factor=1.6, quantity="seconds",
        ask="seconds of one dot product of n pairs from this machine's main memory",
        reference=lambda roof, n: either_way(roof, dot(n, roof.dtype)),
        alternatives=(lambda roof, n: 2 * bytes_of(roof.dtype) * n / roof.bandwidth,
                      lambda roof, n: roof.seconds(dot(n, roof.dtype))),
        slips={
            "time of the arithmetic": (lambda roof, n: 2 * n / roof.rate("vector"),
                "That is the time of the arithmetic. The bytes take longer, and they decide."),
            "arithmetic of a matrix product": (lambda roof, n: 2 * n / roof.peak,
                "That is FLOPs over the peak of matrix products. The bytes take longer, and they decide."),
            "one vector": (lambda roof, n: _plain(roof, n) / 2,
                "Those are the bytes of one vector: both are read."),
            "numbers, not bytes": (lambda roof, n: 2 * n / roof.bandwidth,
                "That is numbers over bandwidth, or FLOPs over bandwidth: each number has several bytes."),
            "milliseconds": (lambda roof, n: 1e3 * _plain(roof, n),
                "That is in milliseconds; the kit's unit is the second."),
            "microseconds": (lambda roof, n: 1e6 * _plain(roof, n),
                "That is in microseconds; the kit's unit is the second."),
            "bandwidth in GB/s": (lambda roof, n: 1e9 * _plain(roof, n),
                "That is bytes over GB/s; here.bandwidth is in B/s."),
            "upside down": (lambda roof, n: 1 / _plain(roof, n),
                "That is how many dot products fit into a second: turn the fraction over."),
        },
        hints=("Two times compete, that of the bytes and that of the FLOPs. Which one is longer here?",
               "Both vectors are read once. One number has rk.itemsize(dev.dtype) bytes.",
               "2 * rk.itemsize(dev.dtype) * n bytes, divided by here.bandwidth."),
        right="Bytes over bandwidth: the arithmetic is done meanwhile.",
        then="Now measure it, in 01.5.",
    ),
    "01.5": Exercise(
        kind="measure", points=2, cold=True,
        ask="a dot product of two vectors of n numbers, from main memory",
        reference=lambda n, itemsize: Work(2 * n, 2 * itemsize * n),
        slips={
            "one vector": (lambda n, itemsize: Work(2 * n, itemsize * n),
                "Its work counts the bytes of one vector: both are read."),
            "a multiply-add as one": (lambda n, itemsize: Work(n, 2 * itemsize * n),
                "Its work counts n FLOPs: each pair is multiplied and added, that is two."),
            "a vector as result": (lambda n, itemsize: Work(2 * n, 3 * itemsize * n),
                "Its work counts a third array: the result of a dot product is one number."),
            "numbers, not bytes": (lambda n, itemsize: Work(2 * n, 2 * n),
                "Its work counts numbers, not bytes: each has rk.itemsize(dev.dtype) of them."),
        },
        hints=("Lesson 01 measures one in its second code cell. What would a second call find in the cache?",
               "rk.measure takes the call as a function, lambda: xp.dot(a, b), besides work= and cold=True.",
               ("work = rk.Work(flops=.., nbytes=.., dtype=dev.dtype) with your two counts, a and b from "
                "dev.random(n), then rk.measure(lambda: xp.dot(a, b), work=work, cold=True).")),
        right="Cold, warm-up left out, random data, every byte counted: a time that can be held against a"
              " roof.",
    ),
    "01.6": Exercise(
        kind="diagnose", points=2, labels=("memory", "compute", "latency", "balanced"),
        ask="bound of a dot product: n pairs on an H100 SXM, n pairs here, 8 pairs here",
        reference=_accepted,
        alternatives=(_bounds, lambda roof, n: [f"{label.title()}-bound" for label in _bounds(roof, n)]),
        slips={
            "nothing but arithmetic": (lambda roof, n: _bounds(roof, n, h100="compute", here="compute"),
                ("It is all arithmetic, yet each FLOP needs itemsize bytes first: the long ones wait for "
                 "memory.")),
            "the large chip": (lambda roof, n: _bounds(roof, n, h100="compute"),
                "An H100 does many FLOP/s, so it needs a high AI to be kept busy; here the AI is 1/2."),
            "the small machine": (lambda roof, n: _bounds(roof, n, here="compute"),
                ("Your machine does fewer FLOP/s than an H100, but moves fewer B/s too: look at "
                 "here.times(work).")),
            "launch on the large chip": (lambda roof, n: _bounds(roof, n, h100="latency"),
                "So many bytes keep an H100's memory busy for several times what a launch costs."),
            "the AI decides alone": (lambda roof, n: _bounds(roof, n, short="memory"),
                ("The AI of 8 pairs is that of n pairs, but so few bytes take less time than the call "
                 "itself.")),
            "little data, so arithmetic": (lambda roof, n: _bounds(roof, n, short="compute"),
                "Sixteen FLOPs take next to no time: what is left of such a short call is the call itself."),
        },
        hints=(("Three times compete: bytes over bandwidth, FLOPs over the vector unit's rate, the cost of"
                " a call."),
               ("rk.dot(n, dtype) is the Work; .times(work) of a roofline gives the three times, in this "
                "order."),
               ("rk.datasheet('H100 SXM', 'bfloat16').bound(rk.dot(n, 'bfloat16')) names the largest of "
                "the three; use here.bound(..) in the same way for the other two.")),
        right="The AI is the same in all three cases, the verdict is not: a bound belongs to an operation"
              " at a size on a machine.",
    ),
}
