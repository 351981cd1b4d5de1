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
MOST_CHIPS = 4096


@lru_cache(64)
def read(pasted):
    """The Model of a config.json that somebody pasted.

    Errors:  ValueError, one sentence, for a text that is no configuration
    """
    try:
        config = json.loads(pasted.lstrip("\ufeff"))
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
    elif not isinstance(model, str):
        raise ValueError(f"model is {model!r:.60}, but a name or a Model is needed: take rk.Model.from_config(..).")  # noqa: TRY004
    elif model not in MODELS:
        raise ValueError(nearest(model, MODELS, "model"))
    else:
        model = dict(models)[model]
    pasted = json.dumps(MODELS["Llama-3-8B"], indent=1)
    sets = {name: quantity(name, value, least=1, whole=True)
            for name, value in (("chips", chips), ("context", context), ("batch", batch))}
    if sets["chips"] > MOST_CHIPS:
        raise ValueError(f"chips is {sets['chips']:,}, but the links are counted for {MOST_CHIPS:,} at most.")
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
             ("D", purple, found.half, f"half a step is the users' own: batch {found.half or 0:,}"),
             ("o", red, found.batch, f"here: batch {found.batch:,}")]
    spots = [spot for spot in spots if spot[2]]              # no sequence fits, no such half
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


OWN = {"caches": "KV caches", "experts": "the weights of further experts", "activations": "activations",
       "compute": "arithmetic", "link": "what they send over the link"}


def sentences(found):
    """What follows, a sentence each: what fits, what bounds a step, what runs out first."""
    yield _fits(found)
    total = found.step.total
    memory, compute, _ = found.roof.times(total)
    if found.links and found.links[1] > max(memory, compute):
        yield "A step is bound by the links: they take longer than all its bytes and than all its arithmetic."
    elif compute > memory:
        yield f"A step is compute-bound: its arithmetic takes {_ratio(compute / memory)} its bytes."
    else:
        kv, weights = (part / total.nbytes for part in (found.step.kv, found.step.weights))
        yield f"A step is memory-bound: {kv:.0%} of its bytes are KV cache, {weights:.0%} weights."
    if found.half:
        start = f"From {found.half:,} users on" if found.half > 1 else "From the first user on"
        yield f"{start}, what is their own, above all {OWN[found.by]}, takes more of a step than the shared weights."
    first, *others = (_enough(found, *each) for each in found.runs_out)
    yield f"As the batch grows, {first.replace(':', ' runs out first:', 1)}."
    if others:
        yield f"Then {'; then '.join(others)}."
    no_link = "the link between these chips, which has no figure here, " * (found.chips > 1 and not found.links)
    yield f"Times are lower bounds: {no_link}launches and what no program reaches of a datasheet are left out."


def _ratio(value):
    return f"{float(f'{value:.3g}'):,.10g} times as long as" if value >= 1.005 else "hardly longer than"


def _fits(found):
    each = " each" if found.most > 1 else ""
    fit = f"{_users(found.most)} with {found.context:,} tokens{each}"
    if found.batch <= found.most:
        return f"{fit[0].upper()}{fit[1:]} fit{'s' if found.most == 1 else ''} beside the weights."
    why = f"beside the weights there is room for {fit}"
    if found.weights > found.memory:
        why = f"the weights alone take {si(found.weights, 'B')} of {si(found.memory, 'B')}"
    chips = f"these {found.chips:,} chips" if found.chips > 1 else "this chip"
    return (f"It does not fit: {why}; a batch of {found.batch:,} needs {found.chips_needed:,} such chips, and the "
            f"times are what {chips} would take if it did fit.")


def _users(count):
    return f"{count:,} users" if count > 1 else "one user" if count else "not even one user"


def _enough(found, what, batch):
    """What runs out, and how far it is enough, with a colon between them."""
    if what == "memory":
        return f"memory: it is full with {_users(batch)}" if batch else "memory: not one user fits"
    if what == "latency":
        more = f"of more than {_users(batch)}" if batch else "of one user"
        return f"time: a step {more} takes longer than {si(found.limit, 's')}"
    bound = "compute-bound" if what == "compute" else "bound by it"
    return f"{'the ' * (what == 'link')}{what}: from {_users(batch + 1)} on a step is {bound}"


def duration(seconds):
    """A time without a prefix above a second, and without digits that mean nothing: '2,690 s', 'under 0.01 ns'."""
    if seconds >= 1000:
        return f"{float(f'{seconds:.3g}'):,.0f} s"
    return si(seconds, "s") if seconds == 0 or seconds >= 1e-11 else "under 0.01 ns"


def rows(found):
    """The numbers, as (what, text)."""
    each = ", ".join(f"{name} {si(value / found.chips, 'B')}" for name, value in (
        ("weights", found.weights), ("KV cache", found.kv), ("free", found.memory - found.weights - found.kv))
        if value >= 0)
    links = [f" (links {duration(each)})" if each else "" for each in found.links or (0, 0)]
    prompt, speed = (_rate(rate, " tokens/s") for rate in (
        found.context / found.prefill, found.batch / found.decode))
    return (
        ("memory of a chip", f"{each} of {si(found.each, 'B')}"),
        ("prefill", f"{duration(found.prefill)}{links[0]} for a prompt of {found.context:,} tokens, {prompt}"),
        ("decode", (f"{duration(found.decode)}{links[1]} a step of {found.batch:,}, {speed}, "
                    f"{_rate(1 / found.decode)} for each user")),
    )


def _rate(rate, unit=""):
    """Tokens in a second; below one, the seconds for a token."""
    return f"{si(rate)}{unit}" if rate >= 0.9995 else f"{duration(1 / rate)}/token"
