"""Can a model have these sizes? What is left out is filled in, what cannot be is refused in one sentence."""

from typing import NamedTuple

from .units import quantity
from .weights import matrices

# Products that may be named in `bias` whether a model has them or not
BIASED = ("q_proj", "k_proj", "v_proj", "o_proj", "q_a_proj", "kv_a_proj", "gate_proj", "up_proj", "down_proj")


class Latent(NamedTuple):
    """Multi-head latent attention: ranks of the queries (0: none) and of the cached latent, sizes of a head's parts."""

    q_rank: int
    kv_rank: int
    nope: int
    rope: int
    value: int


class Experts(NamedTuple):
    """A mixture: experts a layer, how many each token uses, their size, those that all tokens use, dense layers."""

    count: int
    used: int
    hidden: int
    shared: int = 0
    dense: int = 0


def _sizes(field, kind, values):
    """A Latent or Experts of these values."""
    try:
        return kind(*values)
    except TypeError:
        names = ", ".join(name + " (0)" * (name in kind._field_defaults) for name in kind._fields)
        raise ValueError(f"{field} is {values!r}, but its sizes are asked: ({names}).") from None


def fix(model):
    """Fill in what a `Model` left out. Errors: ValueError, one sentence, for sizes that cannot be."""
    def fixed(field, value, least=1):
        object.__setattr__(model, field, quantity(field, value, least, whole=True))

    for field in ("layers", "width", "heads", "hidden", "vocab"):
        fixed(field, getattr(model, field))
    fixed("kv_heads", model.heads if model.kv_heads is None else model.kv_heads)
    if model.head_dim is None and model.width % model.heads:
        raise ValueError(f"a width of {model.width} does not split into {model.heads} heads: give head_dim.")
    fixed("head_dim", model.width // model.heads if model.head_dim is None else model.head_dim)
    if model.heads % model.kv_heads:
        raise ValueError(f"{model.heads} heads cannot share {model.kv_heads} heads of keys and values evenly.")
    if model.window is not None:
        fixed("window", model.window)
    fixed("windowed", (model.layers if model.window else 0) if model.windowed is None else model.windowed, 0)
    if model.windowed > model.layers or model.windowed and not model.window:
        raise ValueError(f"{model.windowed} of {model.layers} layers with a window of {model.window} cannot be.")
    for field, kind in (("experts", Experts), ("latent", Latent)):
        if getattr(model, field) is not None:
            sizes = _sizes(field, kind, getattr(model, field))
            least = {"shared": 0, "dense": 0, "q_rank": 0}
            whole = (quantity(f"{field}.{key}", size, least.get(key, 1), whole=True)
                     for key, size in sizes._asdict().items())
            object.__setattr__(model, field, kind(*whole))
    if model.experts and model.experts.used > model.experts.count:
        raise ValueError(f"a token uses {model.experts.used} experts, more than there are: {model.experts.count}.")
    if model.experts and model.experts.dense > model.layers:
        raise ValueError(f"{model.experts.dense} dense layers are more than there are: {model.layers}.")
    fixed("norms", model.norms, 0)
    fixed("positions", model.positions, 0)
    for field in ("gated", "tied", "layernorm", "qk_norm"):
        if getattr(model, field) not in (True, False):
            raise ValueError(f"{field} is {getattr(model, field)!r}, but it must be True or False.")
    names = [matrix.name for matrix in matrices(model)]
    if not isinstance(model.bias, (tuple, list)) or not set(model.bias) <= {*names, *BIASED}:
        raise ValueError(f"bias is {model.bias!r}, but it must be a tuple of products: {', '.join(names)}.")
