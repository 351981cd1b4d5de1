"""Exercises of lab 02: why is AI full of matrix products?"""

import numpy as np

from ..ops import gemm
from . import Exercise

PARTS = {"prefill_q": "compute", "prefill_softmax": "memory", "decode_q": "memory", "decode_norm": "memory",
         "fewest": "256"}


def _factors(rng):
    """Two matrices of odd shapes and an output with old numbers in it, which show a C that is not set to zero."""
    m, n, k = (int(rng.integers(1, 40)), int(rng.integers(2, 70)), int(rng.integers(3, 90)))
    return {"A": rng.standard_normal((m, k)), "B": rng.standard_normal((k, n)), "C": rng.standard_normal((m, n))}


def _large(rng, side=512):
    return {"A": rng.standard_normal((side, side)), "B": rng.standard_normal((side, side)),
            "C": rng.standard_normal((side, side))}


def _model(rng):
    """A model's sizes: query heads are a multiple of the heads of keys and values, the width one of the heads."""
    shared, group, head = (int(rng.choice(choice)) for choice in ((2, 4, 8), (2, 3, 4, 8), (64, 96, 128)))
    return {"hidden": shared * group * head, "layers": int(rng.integers(3, 97)), "heads": shared * group,
            "kv_heads": shared, "intermediate": int(rng.integers(1000, 30000)),
            "vocabulary": int(rng.integers(20000, 260000)), "S": int(rng.integers(100, 9000))}


def _token(hidden, layers, heads, kv_heads, intermediate, vocabulary, S, grouped=True, wide=3, head=1, scored=4,
           each=2, tokens=1):
    """FLOPs for one token, with weights and without; the arguments behind S each change one part of the count."""
    kv = kv_heads * hidden // heads if grouped else hidden
    block = 2 * hidden * hidden + 2 * hidden * kv + wide * hidden * intermediate
    return tokens * each * (layers * block + head * hidden * vocabulary), tokens * layers * scored * S * hidden


def _token_with(**changed):
    """`_token` with a change, as a function of the exercise's inputs."""
    def count(hidden, layers, heads, kv_heads, intermediate, vocabulary, S):
        return _token(hidden, layers, heads, kv_heads, intermediate, vocabulary, S, **changed)
    return count


def _days(each=6, day=86400):
    """The days of a training run, as a function of the exercise's inputs."""
    return lambda parameters, tokens, chips, peak, mfu: each * parameters * tokens / (chips * peak * mfu) / day


def _parts(**changed):
    return tuple((PARTS | changed).values())


EXERCISES = {
    "02.1": Exercise(
        kind="derive", points=1, names=("dot products", "FLOPs", "weights"),
        ask="layer(batch, d_in, d_out): dot products, FLOPs and weights of a linear layer with bias",
        inputs={"batch": (2, 4096), "d_in": (16, 8192), "d_out": (16, 8192)},
        reference=lambda batch, d_in, d_out: (batch * d_out, 2 * batch * d_in * d_out + batch * d_out,
                                              d_in * d_out + d_out),
        alternatives=(lambda b, i, o: (b * o, b * o * (2 * i + 1), (i + 1) * o),
                      lambda b, i, o: [o * b, gemm(b, o, i).flops + b * o, o * i + o]),
        slips={
            "no bias": (lambda batch, d_in, d_out: (batch * d_out, 2 * batch * d_in * d_out, d_in * d_out),
                "That is XW. The bias is one more add for each output, and d_out more numbers to learn."),
            "bias without its add": (
                lambda batch, d_in, d_out: (batch * d_out, 2 * batch * d_in * d_out, d_in * d_out + d_out),
                "The bias is among the weights, but it also has to be added: one FLOP for each output."),
            "bias without its weights": (lambda batch, d_in, d_out: (
                    batch * d_out, 2 * batch * d_in * d_out + batch * d_out, d_in * d_out),
                "The bias is added, but it is learned as well: d_out numbers more."),
            "a bias for each row": (lambda batch, d_in, d_out: (
                    batch * d_out, 2 * batch * d_in * d_out + batch * d_out, d_in * d_out + batch * d_out),
                "There is one bias for each output, the same for all rows: the batch adds no weights."),
            "bias added once": (lambda batch, d_in, d_out: (
                    batch * d_out, 2 * batch * d_in * d_out + d_out, d_in * d_out + d_out),
                "There are d_out biases, but each row of Y gets them anew: batch * d_out adds."),
            "a multiply-add as one": (lambda batch, d_in, d_out: (
                    batch * d_out, batch * d_in * d_out + batch * d_out, d_in * d_out + d_out),
                "In the dot products each pair is multiplied and added: that is two FLOPs."),
            "rows times inputs": (lambda batch, d_in, d_out: (
                    batch * d_in, 2 * batch * d_in * d_out + batch * d_out, d_in * d_out + d_out),
                "A dot product gives one output number: count the numbers of Y, not those of X."),
        },
        hints=("Lesson 02, 'A linear layer': what are m, n and k here, and what does the bias add?",
               ("One dot product for each number of Y, of length d_in. The bias is one add for each number "
                "of Y, and one learned number for each column of W."),
               "batch*d_out; 2*batch*d_in*d_out + batch*d_out; d_in*d_out + d_out."),
        right="For a wide layer that is two FLOPs for each weight and row, whatever the layer does.",
    ),
    "02.2": Exercise(
        kind="build", points=3, out="C",
        ask="multiply(A, B, C): a matrix product out of smaller pieces",
        inputs=_factors,
        reference=lambda A, B: A @ B,
        alternatives=(lambda A, B, C: np.matmul(A, B, out=C),
                      lambda A, B, C: C.__setitem__(..., sum(np.outer(A[:, p], B[p]) for p in range(len(B))))),
        slips={
            "on top of what was there": (lambda A, B, C: C + A @ B,
                "Your terms are right, but they are added to the old numbers in C: set C[i, j] to 0 first."),
            "last piece only": (lambda A, B: np.outer(A[:, -1], B[-1]),
                "Each term replaces the one before: they have to be added up, C[i, j] += .., from 0 on."),
            "last piece missing": (lambda A, B: A[:, :-1] @ B[:-1],
                "The last of the k terms is missing: range(k) ends at k - 1 by itself."),
            "first piece missing": (lambda A, B: A[:, 1:] @ B[1:],
                "The first of the k terms is missing: indices start at 0."),
            "sums multiplied": (lambda A, B: np.outer(A.sum(1), B.sum(0)),
                "That multiplies the sum of a row by the sum of a column: first multiply, then add up."),
            "mean": (lambda A, B: A @ B / len(B),
                "That is the mean of the k products; a dot product is their sum."),
            "signs lost": (lambda A, B: np.abs(A) @ np.abs(B),
                "The signs are lost: products may be negative, and cancel others."),
        },
        work=lambda A, B: gemm(A.shape[0], B.shape[1], B.shape[0]), big=_large,
        hints=(("Lesson 02 does it in two ways, `dot_by_dot` and `row_by_row`. Their calls hide a loop, or two: write "
                "those out as well."),
               ("Row i of C is the sum over p of A[i, p] times row p of B. As an inner loop over j that goes "
                "through rows of B and of C from left to right, the order in which they lie in memory."),
               ("CPU, Numba: for i in prange(m): C[i, :] = 0, then for p in range(k): for j in range(n): "
                "C[i, j] += A[i, p] * B[p, j]. GPU: for i in range(len(A)): xp.matmul(A[i:i+1], B, "
                "out=C[i:i+1]).")),
        right="The same FLOPs as the library's. What is missing to the roof is what a library adds: fetch a "
              "piece of A and of B once, use it many times (lesson 06).",
    ),
    "02.3": Exercise(
        kind="derive", points=2, names=("with weights", "without weights"),
        ask="per_token(..): forward FLOPs of a whole model for one of S tokens, in products with and without weights",
        inputs=_model,
        reference=_token_with(),
        alternatives=(
            lambda D, L, H, KV, F, V, S: (2 * D * V + L * 2 * D * (2 * D + 2 * KV * (D // H) + 3 * F), 4 * L * S * D),
            lambda D, L, H, KV, F, V, S: [
                (gemm(S, V, D).flops + L * (2 * gemm(S, D, D).flops + 2 * gemm(S, KV * D // H, D).flops
                                            + 3 * gemm(S, F, D).flops)) / S,
                L * H * 2 * gemm(S, S, D // H).flops / S]),
        slips={
            "as many key as query heads": (_token_with(grouped=False),
                "Keys and values have kv_heads heads, not heads: their layers are narrower than the query's."),
            "two wide layers": (_token_with(wide=2),
                "The feed-forward half has three linear layers: gate, up and down."),
            "head forgotten": (_token_with(head=0),
                "The blocks are right, but the head is a linear layer too: hidden x vocabulary."),
            "embedding multiplied": (_token_with(head=2),
                "The embedding is looked up, which is no FLOP; of the two tables only the head is multiplied."),
            "all parameters": (lambda hidden, layers, heads, kv_heads, intermediate, vocabulary, S: (
                    _token(hidden, layers, heads, kv_heads, intermediate, vocabulary, S, head=2)[0]
                    + 2 * hidden * (2 * layers + 1), 4 * layers * S * hidden),
                "That is two for each parameter; the embedding is looked up, and the norms' gains are no product."),
            "scores for shared heads": (lambda hidden, layers, heads, kv_heads, intermediate, vocabulary, S: (
                    _token(hidden, layers, heads, kv_heads, intermediate, vocabulary, S)[0],
                    4 * layers * S * hidden * kv_heads / heads),
                "Keys and values are shared, but each of the query heads has scores of its own: count `heads`."),
            "one block": (lambda hidden, heads, kv_heads, intermediate, vocabulary, S: _token(
                    hidden, 1, heads, kv_heads, intermediate, vocabulary, S),
                "That is one block and the head; the model has `layers` blocks."),
            "scores only": (_token_with(scored=2),
                ("Half of it is missing. Attention has two products without weights, the scores and the values "
                 "added up by weight, and each token looks at all S.")),
            "a multiply-add as one": (_token_with(each=1, scored=2),
                "Each weight is multiplied and the product added: two FLOPs."),
            "training": (_token_with(each=6, scored=12),
                "That is a training step, forward and backward; only the forward pass is asked."),
            "all tokens": (lambda hidden, layers, heads, kv_heads, intermediate, vocabulary, S: _token(
                    hidden, layers, heads, kv_heads, intermediate, vocabulary, S, tokens=S),
                "That is for all S tokens; divide by S to get one of them."),
        },
        hints=("Lesson 02, `products` and `parameters`: which of the weights are multiplied, and how often?",
               ("With weights: two FLOPs for each weight of the linear layers, the head included. Without: for "
                "each head, S scores of length d = hidden / heads, and S values of d numbers added up."),
               ("2*(layers*(2*hidden**2 + 2*hidden*kv_heads*hidden/heads + 3*hidden*intermediate) + "
                "hidden*vocabulary), and layers*4*S*hidden.")),
        right="The first number does not depend on the length of the text, the second grows with it. In a block "
              "they are equal where S is its weights over 2 x hidden: 26,624 tokens for Llama-3-8B.",
    ),
    "02.4": Exercise(
        kind="derive", points=2,
        ask="days(parameters, tokens, chips, peak, mfu): how long a training run takes",
        inputs={"parameters": (1e8, 1e12), "tokens": (1e9, 3e13), "chips": (8, 20000), "peak": (1e14, 2.5e15),
                "mfu": (0.2, 0.7)},
        reference=_days(),
        alternatives=(lambda n, t, c, p, u: 6 * n * t / c / p / u / 24 / 3600,
                      lambda n, t, c, p, u: (2 + 4) * n * t / (86400 * c * p * u)),
        slips={
            "forward only": (_days(each=2),
                "Two FLOPs for each parameter and token is the forward pass; the backward pass has four more."),
            "backward only": (_days(each=4),
                "Four FLOPs for each parameter and token is the backward pass; the forward pass has two more."),
            "a multiply-add as one": (_days(each=3),
                "Three products for each weight and token, and each of them is a multiply and an add."),
            "at the peak": (lambda parameters, tokens, chips, peak: _days()(parameters, tokens, chips, peak, 1),
                "That is at the full peak; the chips reach the share mfu of it, and take longer."),
            "mfu upside down": (
                lambda parameters, tokens, chips, peak, mfu: _days()(parameters, tokens, chips, peak, 1 / mfu),
                "A lower utilization must make the run longer: divide by mfu, do not multiply."),
            "one chip": (lambda parameters, tokens, peak, mfu: _days()(parameters, tokens, 1, peak, mfu),
                "That is the time of one chip; the chips share the work."),
            "seconds": (_days(day=1),
                "Those are seconds; a day has 86,400 of them."),
            "hours": (_days(day=3600),
                "Those are hours; a day has 24 of them."),
        },
        hints=("How many FLOPs are there to do, and how many does the whole cluster do in a second?",
               "Training needs six FLOPs for each parameter and token. The cluster does chips * peak * mfu a second.",
               "6 * parameters * tokens / (chips * peak * mfu) / 86400."),
        right="One line plans a cluster: with 70e9, 15e12, 1024, 989.5e12 and 0.5 it gives 143.93 days.",
    ),
    "02.5": Exercise(
        kind="diagnose", points=2, labels=("memory", "compute", "1", "16", "256", "4096"),
        ask="bound of four parts of Llama-2-7B on an A6000, and the fewest tokens that make q_proj compute-bound",
        reference=_parts,
        alternatives=(("compute-bound", "memory", "Memory", "memory-bound", "256"), lambda: list(_parts())),
        slips={
            "everything is a product": (lambda: _parts(prefill_softmax="compute"),
                "The softmax is no product: 5 FLOPs for a number that is read and written, 1.25 FLOP/B."),
            "products are compute-bound": (lambda: _parts(decode_q="compute"),
                "With one token the layer reads all its weights for two FLOPs each: an AI of 1, far below 202."),
            "all wait": (lambda: _parts(prefill_q="memory"),
                "With 2048 tokens each weight serves 2048 times: an AI of 1024, far above the ridge, 202."),
            "a few tokens": (lambda: _parts(fewest="16"),
                "With 16 tokens the AI is near 16 FLOP/B; the ridge of the A6000, peak over bandwidth, is 202."),
            "one token": (lambda: _parts(fewest="1"),
                "With one token the AI is near 1 FLOP/B; the ridge of the A6000, peak over bandwidth, is 202."),
            "very many": (lambda: _parts(fewest="4096"),
                "4096 tokens are enough, but fewer are as well: with 256 the AI is 228."),
        },
        hints=(("Lesson 02, 'What is left': the Work of each part, and .bound(work) of the A6000's roof. A roof with "
                "these two rates is one line there."),
               ("q_proj is rk.linear(tokens, 4096, 4096, 'float16'), the softmax rk.softmax(32 * 2048, 2048, "
                "'float16'), the norm of one token rk.layernorm(1, 4096, 'float16')."),
               ("The ridge is 155e12 / 768e9 = 202 FLOP/B. q_proj has an AI of 1024 at 2048 tokens, 1 at one "
                "token; print rk.linear(tokens, 4096, 4096, 'float16').intensity for 16, 256 and 4096.")),
        right="A product is compute-bound only if enough tokens share its weights. With one token a "
              "Transformer is all memory: lessons 05 and 12 are about that.",
    ),
}
