"""What does one pass through a Transformer cost, operation by operation? Products, attention, and all the rest."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from .ops import elementwise, embedding, flash_attention, gemm, layernorm, linear, softmax
from .units import itemsize, si
from .weights import distinct, matrices, stored
from .work import Work

HEAD = ("operation", "calls", "FLOP", "B", "FLOP/B", "bound", "time")


class Part(NamedTuple):
    """An operation of the pass: its calls, the Work of one call, and the bytes in it that are weights, or KV cache."""

    name: str
    calls: int
    work: Work
    weights: float = 0
    kv: float = 0

    @property
    def total(self):
        """The Work of all calls."""
        return _times(self.work, self.calls, launches=self.work.launches * self.calls)


@dataclass(frozen=True, repr=False)
class Breakdown:
    """A pass by its parts: `breakdown["q_proj"]` is one of them; printed, it is a table.

    total:       all of it as one Work
    weights:     of its bytes, the weights of the products [B]
    kv:          of its bytes, what attention reads of keys and values [B]
    activations: the rest: what the operations hand to each other, embeddings, gains of norms [B]
    seconds:     one operation after the other on `roof`, each at its own bound [s]; the total's bound is lower, as
                 if all memory traffic and all arithmetic overlapped
    """

    title: str
    parts: tuple
    roof: object = None

    def __getitem__(self, name):
        found = [part for part in self.parts if part.name == name]
        if not found:
            raise ValueError(f"no operation {name!r} here: there are {', '.join(part.name for part in self.parts)}.")
        return found[0]

    @property
    def total(self):
        return sum(part.total for part in self.parts).named(self.title)

    @property
    def weights(self):
        return sum(part.calls * part.weights for part in self.parts)

    @property
    def kv(self):
        return sum(part.calls * part.kv for part in self.parts)

    @property
    def activations(self):
        return self.total.nbytes - self.weights - self.kv

    @property
    def seconds(self):
        if self.roof is None:
            raise ValueError("a time needs a machine: breakdown(..., roof=rk.datasheet(name, dtype)).")
        return sum(part.calls * self.roof.seconds(part.work) for part in self.parts)

    def rows(self):
        """The cells of the table as text, in the order of `HEAD`: counts and time of all calls together."""
        for part in self.parts:
            judged = ()
            if self.roof:
                judged = self.roof.bound(part.work), si(part.calls * self.roof.seconds(part.work), "s")
            yield (part.name, str(part.calls), si(part.total.flops), si(part.total.nbytes),
                   si(part.work.intensity, "FLOP/B").split()[0], *judged)
        last = ("", si(self.seconds, "s")) if self.roof else ()
        yield ("total", "", si(self.total.flops), si(self.total.nbytes),
               si(self.total.intensity, "FLOP/B").split()[0], *last)

    def __repr__(self):
        table = [HEAD if self.roof else HEAD[:5], *self.rows()]
        widths = [max(map(len, column)) for column in zip(*table)]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in table]
        split = ", ".join(f"{name} {si(getattr(self, name), 'B')}" for name in ("weights", "kv", "activations"))
        return "\n".join([self.title, *([repr(self.roof)] if self.roof else []), *lines, f"bytes: {split}"])


def _times(work, n, launches=None):
    """n times the same work; in one batched call unless told."""
    fields = ("flops", "nbytes", "written", "rewritten", "aside")
    return replace(work, launches=work.launches if launches is None else launches,
                   **{field: n * getattr(work, field) for field in fields})


def parts(model, tokens, context, batch, weights, kv, dtype, flash, scored, group):
    """The pass as Parts: `tokens` new tokens in each of `batch` sequences, `context` counting those before them."""
    rows, D = batch * tokens, model.width
    looked_up = embedding(rows, D, dtype)
    found = [Part("embedding", 1, looked_up + looked_up if model.positions else looked_up),
             Part("norm", model.layers * model.norms + 1, _norm(rows, D, dtype, model.layernorm))]
    for matrix in matrices(model):
        if matrix.name == "o_proj":
            found += _heads(model, rows, dtype)
            found += _attention(model, tokens, context, batch, kv, dtype, flash)
        mine = batch * scored if matrix.name == "lm_head" else rows
        found.append(_product(model, matrix, mine, weights, kv, dtype, group, absorbed=tokens < context))
        if matrix.name.endswith("up_proj"):
            hidden = mine * matrix.d_out * (model.experts.used if matrix.name.startswith("experts.") else 1)
            found.append(Part(matrix.name.replace("up_proj", "activation"), matrix.layers,
                              elementwise(hidden, 1 + model.gated, flops=4, dtype=dtype)))
        if matrix.name == "experts.down_proj":
            used = model.experts.used                        # weigh each expert's result and add it
            found.append(Part("experts.sum", matrix.layers, elementwise(rows * D, used, flops=2 * used, dtype=dtype)))
    found.append(Part("add", 2 * model.layers, elementwise(rows * D, dtype=dtype)))
    return tuple(part._replace(work=part.work.named(part.name)) for part in found)


def _norm(rows, width, dtype, bias):
    """A LayerNorm, also for RMSNorm: 7 FLOPs a number instead of its own 4, but no beta to read."""
    work = layernorm(rows, width, dtype)
    return work if bias else replace(work, nbytes=work.nbytes - itemsize(dtype) * width)


def _product(model, matrix, rows, weights, kv, dtype, group, absorbed):
    """A matrix product; of experts, the tokens of each in one batched call, with the matrices that they need."""
    b, each, latent = itemsize(dtype), stored(matrix, weights, group), model.latent
    read = each
    if matrix.experts > 1:
        read, rows = each * distinct(matrix.experts, model.experts.used, rows), rows * model.experts.used
    work = linear(rows, matrix.d_in, matrix.d_out, dtype, bias=matrix.name in model.bias)
    handed, written = work.nbytes - b * matrix.d_in * matrix.d_out, work.written
    if matrix.name in ("k_proj", "v_proj", "kv_a_proj"):     # the result goes into the cache, in its dtype
        written = itemsize(kv) * rows * matrix.d_out
        handed += written - work.written
    launches = 1
    if matrix.name == "kv_b_proj" and absorbed:              # its halves before and after attention, on each head
        written, launches = b * rows * model.heads * (latent.kv_rank + latent.value), 2
        handed = written + b * rows * model.heads * (latent.nope + latent.kv_rank)
    return Part(matrix.name, matrix.layers, replace(work, nbytes=handed + read, written=written, launches=launches),
                weights=read)


def _heads(model, rows, dtype):
    """What happens to queries and keys between their products and attention: norms and rotation."""
    latent, every = model.latent, model.layers
    if latent:
        ranks = [rank for rank in (latent.q_rank, latent.kv_rank) if rank]
        yield Part("latent_norm", every, sum(_norm(rows, rank, dtype, False) for rank in ranks))
    if model.qk_norm:
        per_head = (_norm(rows * heads, model.head_dim, dtype, False) for heads in (model.heads, model.kv_heads))
        yield Part("qk_norm", every, sum(per_head))
    if not model.positions:                                  # two multiply-adds for two numbers, less one add
        turned = (model.heads + 1) * latent.rope if latent else (model.heads + model.kv_heads) * model.head_dim
        yield Part("rotation", every, elementwise(rows * turned, inputs=1, flops=3, dtype=dtype))


def pairs(tokens, context, window=None):
    """How many keys the last `tokens` of `context` tokens see: each itself and those before it, `window` at most."""
    first = context - tokens + 1
    short = tokens if window is None else min(tokens, max(0, window - first + 1))
    return short * (2 * first + short - 1) // 2 + (tokens - short) * (window or 0)


def _attention(model, tokens, context, batch, kv, dtype, flash):
    for layers, window in ((model.layers - model.windowed, None), (model.windowed, model.window)):
        if layers:
            reach = context if window is None else min(context, window + tokens - 1)
            seen = pairs(tokens, context, window)
            name = "" if window is None else ", window"
            yield from (part._replace(name=part.name + name, calls=layers)
                        for part in _one_layer(model, tokens, reach, seen, batch, tokens < context, kv, dtype, flash))


def _one_layer(model, tokens, keys, seen, batch, absorbed, kv, dtype, flash):
    """Attention of one layer over `keys` keys; flash: of all pairs only those seen, the scores stay on the chip."""
    shared, qk, value, size = _key_and_value(model, absorbed, kv, dtype)
    b, own, held = itemsize(dtype), batch * model.heads * tokens, size * batch * keys * shared
    if flash:
        once = flash_attention(model.heads, tokens, keys, (qk + value) // 2, shared, batch=batch, dtype=dtype)
        share = {field: getattr(once, field) * seen // (tokens * keys) for field in ("flops", "aside")}
        read = held * (qk if model.latent and absorbed else qk + value)        # a latent's value is part of its key
        work = replace(once, nbytes=b * own * (qk + value) + read, written=b * own * value, **share)
        yield Part("attention", 1, work, kv=read)
        return
    rows, pair = tokens * model.heads // shared, own * keys
    scores, mixed = (_times(gemm(rows, *sides, dtype), batch * shared) for sides in ((keys, qk), (value, keys)))
    yield Part("qk_matmul", 1, replace(scores, flops=scores.flops + pair, aside=pair,          # and scaled
                                       nbytes=b * (own * qk + pair) + held * qk), kv=held * qk)
    yield Part("softmax", 1, softmax(own, keys, dtype))
    yield Part("sv_matmul", 1, replace(mixed, nbytes=b * (pair + own * value) + held * value), kv=held * value)


def _key_and_value(model, absorbed, kv, dtype):
    """Heads of keys and values, numbers in one of each, bytes a number: from the cache, or expanded from latents."""
    if not model.latent:
        return model.kv_heads, model.head_dim, model.head_dim, itemsize(kv)
    _, rank, nope, rope, value = model.latent
    return (1, rank + rope, rank, itemsize(kv)) if absorbed else (model.heads, nope + rope, value, itemsize(dtype))
