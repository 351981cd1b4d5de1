"""Which weight matrices does a Transformer have, and how many bytes is each of them stored in?"""

from typing import NamedTuple

from .units import itemsize

# dtype -> (a scale for each row or for each group of weights, its bytes): as in rk.matvec; float4 as MXFP4 does it
SCALES = {"int8": ("row", 4), "int4": ("group", 2), "float4": ("group", 1)}
KEPT = ("router", "lm_head")                                 # stay in two bytes when the others are quantised


class Matrix(NamedTuple):
    """A weight matrix of `layers` layers; of experts, each has one."""

    name: str
    layers: int
    d_in: int
    d_out: int
    experts: int = 1

    @property
    def count(self):
        """How many of them the model has."""
        return self.layers * self.experts


def matrices(model):
    """Every weight matrix of a `Model`, in the order of use; where tied, lm_head is the embedding table."""
    D, every = model.width, model.layers
    return (*(Matrix(name, every, *sides) for name, *sides in _attention(model)), *_feed_forward(model),
            Matrix("lm_head", 1, D, model.vocab))


def _attention(model):
    D, latent = model.width, model.latent
    if not latent:
        own, shared = model.heads * model.head_dim, model.kv_heads * model.head_dim
        return ("q_proj", D, own), ("k_proj", D, shared), ("v_proj", D, shared), ("o_proj", own, D)
    queries = model.heads * (latent.nope + latent.rope)
    low = [("q_a_proj", D, latent.q_rank), ("q_b_proj", latent.q_rank, queries)]
    return (*(low if latent.q_rank else [("q_proj", D, queries)]),
            ("kv_a_proj", D, latent.kv_rank + latent.rope),
            ("kv_b_proj", latent.kv_rank, model.heads * (latent.nope + latent.value)),
            ("o_proj", model.heads * latent.value, D))


def _feed_forward(model):
    D, moe = model.width, model.experts
    kinds = [("", model.layers, model.hidden, 1)]
    if moe:
        sparse = model.layers - moe.dense
        yield Matrix("router", sparse, D, moe.count)
        kinds = [("", moe.dense, model.hidden, 1), ("shared.", sparse, moe.shared * moe.hidden, 1),
                 ("experts.", sparse, moe.hidden, moe.count)]
    for prefix, layers, hidden, experts in kinds:
        if layers and hidden:
            if model.gated:
                yield Matrix(f"{prefix}gate_proj", layers, D, hidden, experts)
            yield Matrix(f"{prefix}up_proj", layers, D, hidden, experts)
            yield Matrix(f"{prefix}down_proj", layers, hidden, D, experts)


def stored(matrix, dtype, group):
    """Bytes of one such matrix [B], its scales with it."""
    dtype = wide(dtype) if matrix.name in KEPT else dtype
    per, size = SCALES.get(dtype, ("row", 0))
    scales = matrix.d_out * (-(-matrix.d_in // group) if per == "group" else 1)
    total = itemsize(dtype) * matrix.d_in * matrix.d_out + size * scales
    return int(total) if total == int(total) else total


def wide(dtype):
    """The dtype of what is not quantised: embeddings, norms, biases, router and head keep two bytes at least."""
    return "bfloat16" if itemsize(dtype) < 2 else dtype


def distinct(experts, used, tokens):
    """How many experts at least one of the tokens is sent to, expected: experts (1 - (1 - used / experts)^tokens).

    Assumes: each token is sent to `used` different ones, all equally likely, whatever the other tokens are
    """
    return experts * (1 - (1 - used / experts) ** tokens)
