"""Up to which batch is a decode step shared, and what runs out first? All batches of a model on some chips at once."""

import math
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .datasheets import datasheet, table
from .links import all_reduce, over_link
from .transformer import Model
from .units import itemsize

DTYPE = "bfloat16"                      # of the arithmetic and the activations
LARGEST = 2**24                         # batch up to which something is looked for


@lru_cache(512)
def _pass(model, tokens, context, batch, weights, kv):
    return model.breakdown(tokens, context, batch, weights=weights, kv=kv, dtype=DTYPE)


class Steps:
    """The decode steps of all batches, from those of one and of two sequences.

    Each count of an operation is a constant and a part that grows with the batch. The weights of a mixture's experts
    are the exception: they go with the number of different experts that so many tokens meet.
    """

    def __init__(self, model, context, weights, kv, roof, sent=0.0):
        """sent: seconds in which a sequence's numbers pass the link [s]"""
        self.model, self.roof, self.sent = model, roof, sent
        one, two = (_pass(model, 1, context, batch, weights, kv).parts for batch in (1, 2))
        first, second = (np.array([(part.work.on("matrix"), part.work.on("vector"), part.work.nbytes - part.weights)
                                   for part in parts], float).T for parts in (one, two))
        self.grows, self.fixed = second - first, 2 * first - second
        self.calls = np.array([part.calls for part in one], float)
        self.weights = np.array([part.weights for part in one], float)
        self.mixed = np.array([part.name.startswith("experts.") for part in one])
        self.cached = np.array([part.kv > 0 for part in one])

    def _units(self, batches):
        """Times of each operation's bytes, matrix and vector arithmetic [s], a column for each batch."""
        batches = np.atleast_1d(np.asarray(batches, float))
        matrix, vector, rest = self.fixed[:, :, None] + self.grows[:, :, None] * batches
        share = self.model.experts_read(batches) / self.model.experts_read(1) if self.model.experts else 1.0
        nbytes = rest + self.weights[:, None] * np.where(self.mixed[:, None], share, 1.0)
        calls = self.calls[:, None]
        return (calls * nbytes / self.roof.bandwidth, calls * matrix / self.roof.rate("matrix"),
                calls * vector / self.roof.rate("vector"))

    def times(self, batches):
        """(memory, compute) of each operation [s], a column for each batch."""
        memory, matrix, vector = self._units(batches)
        return memory, np.maximum(matrix, vector)

    def totals(self, batches):
        """(memory, compute, link) of whole steps [s], for each batch: the longest is what they are bound by."""
        memory, matrix, vector = (each.sum(0) for each in self._units(batches))
        return memory, np.maximum(matrix, vector), self.sent * np.asarray(batches, float)

    def seconds(self, batches):
        """A step of each batch, one operation after the other, and then the link [s]."""
        return np.maximum(*self.times(batches)).sum(0) + self.sent * np.asarray(batches, float)

    def _own(self, batches):
        """The share of a step that is each sequence's own: what one more would add, for all of them."""
        now = self.seconds(batches)
        return batches * (self.seconds(batches + 1) - now) / now

    def half(self):
        """The smallest batch from which on at least half of a step is each sequence's own; None: not up to LARGEST.

        Below it one more user is nearly free. It is no critical batch: what is their own may be bytes or arithmetic.
        """
        return _first(lambda batches: self._own(batches) >= 0.5)

    def within(self, limit):
        """The largest batch whose step takes no longer than that [s]; 0: none; None: even LARGEST does."""
        beyond = _first(lambda batches: self.seconds(batches) > limit)
        return None if beyond is None else beyond - 1

    def beyond_memory(self):
        """The smallest batch from which on steps are no longer memory-bound, and by what: 'compute' or 'link'."""
        first = _first(lambda batches: self._longest(batches) > 0)
        return (first, ("compute", "link")[int(self._longest([first])[0]) - 1]) if first else (None, "")

    def _longest(self, batches):
        return np.argmax(self.totals(batches), axis=0)       # of equal ones the first: memory

    def grown_by(self, batch):
        """What one more sequence makes longest: its 'caches', further 'experts', 'activations', 'compute' or 'link'."""
        memory, compute = self.times((batch, batch + 1))
        longer, fed = np.diff(np.maximum(memory, compute))[:, 0], compute[:, 1] > memory[:, 1]
        kinds = {"caches": ~fed & self.cached, "experts": ~fed & self.mixed,
                 "activations": ~(fed | self.cached | self.mixed), "compute": fed}
        parts = {name: longer[kind].sum() for name, kind in kinds.items()} | {"link": self.sent}
        return max(parts, key=parts.get)


def _first(holds):
    """The smallest whole number up to LARGEST from which on something holds, or None. It may hold before, too."""
    tried = np.unique(np.geomspace(1, LARGEST, 100).astype(int))
    while True:
        wrong = np.flatnonzero(~holds(tried))
        if not len(wrong):
            return 1
        if wrong[-1] == len(tried) - 1:
            return None
        low, high = (int(batch) for batch in tried[wrong[-1]:][:2])
        if high - low == 1:
            return high
        tried = np.unique(np.linspace(low, high, 66).astype(int))


class Serving(NamedTuple):
    """What a model does on so many equal chips, which share all evenly; times are lower bounds.

    memory, weights, kv:  of all chips together [B]; each: memory of one [B]
    prefill, decode:      of one prompt of `context` tokens, of one step of the batch [s]; of it `links` (prefill,
                          decode) is the exchange between chips, None where the chip's link has no figure
    most:                 sequences that fit; half, beyond_memory, within: see Steps
    by:                   what is most of each sequence's own half
    """

    model: Model
    roof: object
    chips: int
    context: int
    batch: int
    limit: float
    each: float
    weights: float
    kv: float
    prefill: float
    decode: float
    links: tuple | None
    step: object
    steps: Steps
    most: int
    half: int | None
    by: str
    beyond_memory: tuple
    within: int | None

    @property
    def memory(self):
        return self.chips * self.each

    @property
    def runs_out(self):
        """((what, the last batch that it is enough for), ..), first what runs out first.

        Bandwidth is not among them: a step is bound by it from one sequence on, until compute or the link bounds it.
        """
        batch, bound = self.beyond_memory
        found = [("memory", self.most), ("latency", self.within), (bound, batch and batch - 1)]
        return sorted((each for each in found if each[1] is not None), key=lambda each: each[1])

    @property
    def chips_needed(self):
        """Of this kind, for the memory alone."""
        return math.ceil((self.weights + self.kv) / self.each)


@lru_cache(64)
def _machine(chip, count):
    """The roof of so many chips together, memory of one [B], bandwidth of its link in one direction [B/s] or None."""
    one = datasheet(chip, DTYPE)
    roof = replace(one, peak=count * one.peak, bandwidth=count * one.bandwidth,
                   vector_peak=count * one.vector_peak if one.vector_peak else None,
                   name=f"{count} x {one.name}" if count > 1 else one.name)
    return roof, float(table()[one.name]["memory"]) * 1e9, over_link(one).bandwidth if one.link else None


@lru_cache(256)
def _steps(model, context, weights, kv, roof, sent):
    steps = Steps(model, context, weights, kv, roof, sent)
    half = steps.half()
    return steps, half, steps.grown_by(2 * half) if half else "", steps.beyond_memory()


def serve(model, chip, chips=1, context=8192, batch=1, weights=DTYPE, kv=DTYPE, limit=0.05):
    """The `Serving` of it; limit: the longest step that is wanted [s].

    Links:   two all-reduces of the activations in each layer, as Megatron-LM's (arXiv 1909.08053) forward pass has
             them, after the arithmetic; their fixed cost is left out
    Errors:  ValueError for what cannot be
    """
    if model.positions and context > model.positions:
        raise ValueError(f"{model.name} has learned positions for {model.positions} tokens: a context of {context} "
                         "is too long for it.")
    roof, each, link = _machine(chip, chips)
    numbers = 2 * model.layers * all_reduce(itemsize(DTYPE) * model.width, chips)
    sent = numbers / link if link else 0.0
    prompt, step = _pass(model, context, context, 1, weights, kv), _pass(model, 1, context, batch, weights, kv)
    prefill, decode = (replace(found, roof=roof).seconds for found in (prompt, step))
    steps, *about = _steps(model, context, weights, kv, roof, sent)
    sizes = model.weight_bytes(weights), model.kv_bytes(context, batch, kv)
    links = (context * sent, batch * sent) if link else None
    most = model.max_batch(chips * each, context, weights, kv)
    return Serving(model, roof, chips, context, batch, limit, each, *sizes, prefill + context * sent,
                   decode + batch * sent, links, step, steps, most, *about, steps.within(limit))
