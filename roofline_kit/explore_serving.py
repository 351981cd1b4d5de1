"""Which batch does a language model want on these chips, and what runs out first? A picture to move."""

import json
import math
from functools import lru_cache

import numpy as np

from . import svg
from .batches import DTYPE, LARGEST, serve
from .datasheets import chips as all_chips
from .datasheets import datasheet
from .explore import Explorer, View, area, choice, sizes, slider
from .transformer import Model
from .units import nearest, quantity, si

SIZES = ("model_type", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
         "num_key_value_heads", "vocab_size")
MODELS = {name: dict(zip(SIZES, row)) for name, *row in (      # their makers' config.json on Hugging Face
    ("Llama-3-8B", "llama", 4096, 14336, 32, 32, 8, 128256), ("Llama-3-70B", "llama", 8192, 28672, 80, 64, 8, 128256),
    ("Llama-2-7B", "llama", 4096, 11008, 32, 32, 32, 32000), ("Mistral-7B", "mistral", 4096, 14336, 32, 32, 8, 32000),
    ("Qwen2.5-72B", "qwen2", 8192, 29568, 80, 64, 8, 152064), ("Gemma-2-9B", "gemma2", 3584, 14336, 42, 16, 8, 256000),
    ("Mixtral-8x7B", "mixtral", 4096, 14336, 32, 32, 8, 32000),
    ("DeepSeek-V3", "deepseek_v3", 7168, 18432, 61, 128, 128, 129280))}
PASTED = "pasted"
LIMITS = 0.005, 0.007, 0.01, 0.015, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0      # longest steps [s]


@lru_cache(64)
def read(pasted):
    """The Model of a config.json that somebody pasted.

    Errors:  ValueError, one sentence, for a text that is no configuration
    """
    try:
        config = json.loads(pasted)
    except json.JSONDecodeError as wrong:
        raise ValueError(f"what is pasted is no JSON, by its line {wrong.lineno}, column {wrong.colno}: "
                         f"{wrong.msg[0].lower()}{wrong.msg[1:]}.") from None
    except (RecursionError, ValueError):
        raise ValueError("what is pasted is no JSON that can be read: paste a whole config.json.") from None
    model = Model.from_config(config) if isinstance(config, dict) else None
    if model is None:
        raise ValueError("what is pasted is JSON, but no object: paste a whole config.json, from { to }.")
    if model.params > 1e15:
        raise ValueError("what is pasted has more than a million billion parameters: one of its sizes is wrong.")
    return model


def explore_serving(model="Llama-3-8B", chip="H100 SXM", chips=1, context=8192, batch=16, weights=DTYPE, kv=DTYPE,
                    limit=0.05):
    """A language model on chips that share it evenly: memory, prefill, decode; latency against throughput by batch.

    model:    one of MODELS, or a `Model`; in the explorer a config.json may be pasted as well
    limit:    longest step that is wanted [s]
    weights, kv:  how they are stored; the arithmetic is in bfloat16
    Left out: launches, the fixed cost of an exchange between chips, and what no program reaches of a datasheet's rates
    """
    models = [(name, Model.from_config(config, name)) for name, config in MODELS.items()]
    if isinstance(model, Model):
        models.insert(0, (model.name, model))
    elif model not in MODELS:
        raise ValueError(nearest(model, MODELS, "model"))
    else:
        model = dict(models)[model]
    pasted = json.dumps(MODELS["Llama-3-8B"], indent=1)
    sets = {name: quantity(name, value, least=1, whole=True)
            for name, value in (("chips", chips), ("context", context), ("batch", batch))}
    return Explorer("Serving a language model", [
        choice("model", "model", [*models, ("a config.json, pasted", PASTED)], model),
        area("pasted", "config.json", pasted, only=("model", (PASTED,))),
        choice("chip", "chip", all_chips(DTYPE), datasheet(chip, DTYPE).name),
        slider("chips", "chips", _with(sizes(1, 64), sets["chips"]), sets["chips"]),
        choice("weights", "weights in", ("float32", DTYPE, "float8", "int8", "int4", "float4"), weights),
        choice("kv", "KV cache in", ("float32", DTYPE, "float8", "int8", "int4"), kv),
        slider("context", "context", _with(sizes(128, 2**17, 2), sets["context"]), sets["context"]),
        slider("batch", "batch", _with({*sizes(1, 4096), *sizes(3, 3072)}, sets["batch"]), sets["batch"]),
        slider("limit", "longest step", _with(LIMITS, quantity("limit", limit)), limit, lambda each: si(each, "s")),
    ], _draw)


def _with(options, value):
    return sorted({*options, value})


def _draw(model, pasted, **how):
    found = serve(read(pasted) if model == PASTED else model, **how)
    told = tuple(sentences(found))
    parts = _memory(found.weights / found.chips, found.kv / found.chips, found.each), *_curve(found)
    title = f"{found.model.name} on {found.roof.name}"
    return View(svg.picture(title, " ".join(told), *parts, height=456), rows(found), told)


def _memory(weights, kv, each):
    """The memory of one chip as a bar; what is too much for it stands out beyond the thick line."""
    scale = (svg.WIDTH - 22) / max(each, weights + kv)
    free, blue, orange = each - weights - kv, *svg.COLORS[:2]
    said = f"free {si(free, 'B')}" if free >= 0 else f"{si(-free, 'B')} too much"
    parts = [svg.text(4, 16, f"Memory of a chip, {si(each, 'B')}"), svg.rect(4, 24, scale * each, 24, "#fff"),
             svg.rect(4, 24, scale * weights, 24, blue),
             svg.rect(4 + scale * weights, 24, scale * kv, 24, orange, hatch=8),
             svg.path([(4 + scale * each, 20), (4 + scale * each, 52)], width=4)]
    for place, color, hatch, words in ((4, blue, 0, f"weights {si(weights, 'B')}"),
                                       (190, orange, 8, f"KV cache {si(kv, 'B')}"), (390, "#fff", 0, said)):
        parts += [svg.rect(place, 59, 22, 12, color, hatch=hatch), svg.text(place + 28, 70, words)]
    return "".join(parts)


@lru_cache(256)
def _line(steps, most, top):
    """(throughput, time of a step) for batches up to `most` sequences, and for those beyond."""
    pieces = (1, most) if most else (), (max(most, 1), max(top, most + 1))
    found = [np.unique(np.geomspace(*piece, 40).round()) for piece in pieces if piece]
    return tuple(tuple(zip(batches / steps.seconds(batches), steps.seconds(batches))) for batches in found)


@lru_cache(64)
def _frame(x, y):
    plane = svg.Plane(x, y, (64, 162, svg.WIDTH - 18, 410))
    return plane, plane.frame("tokens a second, of all users", "time of a step, which each user waits for a token",
                              yunit="s")


def _decades(low, high):
    return 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high))


def _curve(found):
    """Latency against throughput: a line along which the batch grows, and its places of interest."""
    blue, _, red, _, purple = svg.COLORS[:5]
    spots = [("s", blue, found.most, f"memory is full: batch {found.most:,}"),
             ("D", purple, found.knee, f"knee: batch {found.knee or 0:,}"),
             ("o", red, found.batch, f"here: batch {found.batch:,}")]
    spots = [spot for spot in spots if spot[2]]              # no sequence fits, no knee
    top = min(4 * max(batch for *_, batch, _ in spots), LARGEST)
    lines = _line(found.steps, found.most, top)
    (slow, first), (fast, last) = lines[0][0], lines[-1][-1]
    plane, frame = _frame(_decades(slow / 1.2, 1.6 * fast), _decades(first / 1.5, 1.1 * last))
    yield frame
    yield plane.line([(plane.x[0], found.limit), (plane.x[1], found.limit)], svg.GREY, 1.5, "8 5")
    for line, dash in zip(lines[::-1], ("2 4", "")):         # dotted: beyond what memory holds
        yield plane.line(line, blue, 2.5, dash)
    marks = [4**power for power in range(12) if 4**power <= top]
    for batch, seconds in zip(marks, found.steps.seconds(marks)):
        yield plane.point(batch / seconds, seconds, "o", blue, size=3)
        yield plane.label(batch / seconds, seconds, f"{batch:,}", 7, 16, color=svg.GREY)
    within = {None: "every batch", 0: "no batch"}.get(found.within) or f"batch {found.within:,}"
    spots.append(("", svg.GREY, found.batch, f"longest step, {si(found.limit, 's')}: {within}"))
    for place, (shape, color, batch, words) in enumerate(spots):
        x, y = 14 + 330 * (place // 2), 96 + 22 * (place % 2)
        yield svg.text(x + 22, y + 5, words)
        if shape:
            (seconds,) = found.steps.seconds(batch)
            yield svg.marker(x, y, shape, color) + plane.point(batch / seconds, seconds, shape, color)
        else:
            yield svg.path([(x - 10, y), (x + 16, y)], color, 1.5, "8 5")


OWN = {"bandwidth": "bytes", "compute": "arithmetic", "link": "numbers on the link"}


def sentences(found):
    """What follows, a sentence each: what fits, what bounds a step, what runs out first."""
    yield _fits(found)
    total = found.step.total
    memory, compute, _ = found.roof.times(total)
    if found.links and found.links[1] > max(memory, compute):
        yield "A step is bound by the links: they take longer than all its bytes and than all its arithmetic."
    elif compute > memory:
        yield f"A step is compute-bound: its arithmetic takes {compute / memory:.3g} times as long as its bytes."
    else:
        kv, weights = (part / total.nbytes for part in (found.step.kv, found.step.weights))
        yield f"A step is memory-bound: {kv:.0%} of its bytes are KV cache, {weights:.0%} weights."
    first, *others = found.runs_out
    yield f"As the batch grows, {'the ' * (first[0] == 'link')}{first[0]} runs out first: {_enough(found, *first)}."
    if others:
        yield f"Then {'; then '.join(f'{what}: {_enough(found, what, batch)}' for what, batch in others)}."
    no_link = "the link between these chips, which has no figure here, " * (found.chips > 1 and not found.links)
    yield f"Times are lower bounds: {no_link}launches and what no program reaches of a datasheet are left out."


def _fits(found):
    tokens, chips = f"{found.context:,} tokens", f"{found.chips_needed:,} such chips"
    if found.weights > found.memory:
        return (f"The weights alone take {si(found.weights, 'B')} of {si(found.memory, 'B')}: with the KV cache, "
                f"{chips} are needed.")
    if not found.most:
        return f"Beside the weights not even one sequence of {tokens} fits: a batch of {found.batch:,} needs {chips}."
    fit = f"{found.most:,} sequences of {tokens} fit" if found.most > 1 else f"One sequence of {tokens} fits"
    if found.batch > found.most:
        return f"{fit} beside the weights: a batch of {found.batch:,} needs {chips}."
    return f"{fit} beside the weights."


def _enough(found, what, batch):
    """How far it is enough, as a clause."""
    if what == "memory":
        return f"it is full with {batch:,}" if batch else "not one sequence fits"
    if what == "latency":
        limit = si(found.limit, "s")
        return f"a step of more than {batch:,} takes longer than {limit}" if batch else f"one takes longer than {limit}"
    return f"from {batch + 1:,} on (the knee) at least half of a step is each one's own, above all its {OWN[what]}"


def rows(found):
    """The numbers, as (what, text)."""
    each = ", ".join(f"{name} {si(value / found.chips, 'B')}" for name, value in (
        ("weights", found.weights), ("KV cache", found.kv), ("free", found.memory - found.weights - found.kv))
        if value >= 0)
    links = [f" (links {si(each, 's')})" if each else "" for each in found.links or (0, 0)]
    prompt, speed = si(found.context / found.prefill), si(found.batch / found.decode)
    return (
        ("memory of a chip", f"{each} of {si(found.each, 'B')}"),
        ("prefill", f"{si(found.prefill, 's')}{links[0]} for a prompt of {found.context:,} tokens, {prompt} tokens/s"),
        ("decode", (f"{si(found.decode, 's')}{links[1]} a step of {found.batch:,}, {speed} tokens/s, "
                    f"{si(1 / found.decode)} for each user")),
    )
