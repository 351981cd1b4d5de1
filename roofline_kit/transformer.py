"""What does a language model need, before any machine is chosen? Parameters, memory, and the Work of each pass."""

import math
from dataclasses import dataclass

from .configs import read
from .forward import Breakdown, parts
from .sizes import Experts, Latent, fix
from .units import itemsize, quantity, si
from .weights import distinct, matrices, stored, wide


def _machine(roof):
    """Refuses what is no roofline, such as the name of a chip."""
    if roof is not None and not hasattr(roof, "times"):
        raise ValueError(f"roof is {roof!r}, but a roofline is needed: rk.datasheet(name, dtype) or rk.sustained().")


@dataclass(frozen=True, kw_only=True, repr=False)
class Model:
    """A decoder-only Transformer, by hand or from a Hugging Face configuration: `Model.from_config(path_or_dict)`.

    layers, width, heads, vocab:  blocks; numbers a token; query heads; tokens that there are
    hidden:      of the feed-forward half
    kv_heads:    heads of keys and values: as many as heads (MHA), fewer (GQA), 1 (MQA); None: as many
    head_dim:    numbers a head; None: width / heads
    gated:       the feed-forward half has three matrices (gate, up, down); otherwise two (up, down)
    tied:        lm_head is the embedding table
    window:      tokens that a sliding window holds; windowed: layers that have one (None: all)
    experts:     (count, used, hidden, shared, dense) of a mixture, see `Experts`
    latent:      (q_rank, kv_rank, nope, rope, value) of latent attention (MLA), see `Latent`
    norms:       norms a layer; layernorm: with a beta each; qk_norm: one more on queries and keys
    bias:        names of the products that add one, as ("q_proj", "k_proj", "v_proj")
    positions:   learned positions (0: queries and keys are rotated instead)
    Errors:      ValueError for sizes that cannot be
    """

    layers: int
    width: int
    heads: int
    hidden: int
    vocab: int
    kv_heads: int | None = None
    head_dim: int | None = None
    gated: bool = True
    tied: bool = False
    window: int | None = None
    windowed: int | None = None
    experts: Experts | None = None
    latent: Latent | None = None
    norms: int = 2
    layernorm: bool = False
    qk_norm: bool = False
    bias: tuple = ()
    positions: int = 0
    name: str = "model"

    def __post_init__(self):
        fix(self)

    @classmethod
    def from_config(cls, source, name=""):
        """The model of a Hugging Face configuration, as transformers reads it: missing keys have its defaults.

        source:  a config.json, the folder that holds it, or what it holds as a dict
        Assumes: the text model alone; of a model that also sees or hears, the rest is not counted
        Errors:  ValueError, one sentence, for a file that is none, and for a model_type that is not known
        """
        return cls(**(read(source) | ({"name": name} if name else {})))

    @property
    def _small(self):
        """Parameters in norms and biases: few, and never quantised."""
        norm = self.width * (2 if self.layernorm else 1)
        extra = 2 * self.head_dim * self.qk_norm + (self.latent.q_rank + self.latent.kv_rank if self.latent else 0)
        biases = sum(matrix.count * matrix.d_out for matrix in matrices(self) if matrix.name in self.bias)
        return (self.layers * self.norms + 1) * norm + self.layers * extra + biases

    @property
    def _tables(self):
        """Parameters in the embedding and the learned positions, which are looked up."""
        return (self.vocab + self.positions) * self.width

    @property
    def params(self):
        """How many numbers the model has learned; a table that is embedding and lm_head counts once."""
        products = sum(matrix.count * matrix.d_in * matrix.d_out for matrix in matrices(self))
        return products + self._small + self.positions * self.width + (0 if self.tied else self.vocab * self.width)

    @property
    def active_params(self):
        """Parameters that one token meets: of a mixture's experts the used ones, of the tables all."""
        if not self.experts:
            return self.params
        unused = (matrix.layers * (matrix.experts - self.experts.used) * matrix.d_in * matrix.d_out
                  for matrix in matrices(self) if matrix.experts > 1)
        return self.params - sum(unused)

    def weight_bytes(self, dtype="bfloat16", group=32):
        """Memory for the weights [B].

        int8:    a float32 scale for each row; int4: a float16 scale for `group` weights; float4: a byte for them
        kept:    in fewer than two bytes only the matrices of the layers are stored: embedding, lm_head, router,
                 norms and biases keep two
        """
        group = quantity("group", group, least=1, whole=True)
        inside = sum(matrix.count * stored(matrix, dtype, group) for matrix in matrices(self))
        head = stored(matrices(self)[-1], dtype, group) if self.tied else 0
        return inside - head + itemsize(wide(dtype)) * (self._small + self._tables)

    def kv_bytes(self, context, batch=1, dtype="bfloat16"):
        """Memory for the KV cache of `batch` sequences of `context` tokens [B]: keys and values of every layer.

        MHA, GQA, MQA:  2 b kv_heads head_dim a layer and token
        MLA:            b (kv_rank + rope): one latent is both key and value
        window:         a layer with a sliding window holds min(context, window) tokens
        """
        context = quantity("context", context, least=0, whole=True)
        held = (self.layers - self.windowed) * context + self.windowed * min(context, self.window or 0)
        numbers = self.latent.kv_rank + self.latent.rope if self.latent else 2 * self.kv_heads * self.head_dim
        total = quantity("batch", batch, whole=True) * held * numbers * itemsize(dtype)
        return int(total) if total == int(total) else total

    def kv_bytes_per_token(self, dtype="bfloat16", context=1):
        """KV cache for one token [B]: of a context this long, the mean; sliding windows make it fall as they fill."""
        mean = self.kv_bytes(quantity("context", context, least=1, whole=True), 1, dtype) / context
        return int(mean) if mean == int(mean) else mean

    def breakdown(self, tokens=1, context=None, batch=1, roof=None, weights="bfloat16", kv="bfloat16",
                  dtype="bfloat16", flash=True, scored=None, group=32):
        """One pass by operation: breakdown(2048) is a prefill, breakdown(1, 8192) a decode step at 8192 tokens.

        tokens:   new tokens in each sequence; context: tokens in all, the new ones among them (None: no others)
        roof:     the machine that bound and time are for
        weights, kv:  how they are stored; dtype: of the activations and the arithmetic
        flash:    attention in one kernel, which skips the pairs that a causal mask hides; otherwise three kernels,
                  with all scores in memory
        scored:   tokens of each sequence that lm_head scores; None: of a prefill the last one, otherwise all
        Source:   the operations and names of LLM-Viewer, arXiv 2402.16363, with embedding, rotation and lm_head
        """
        sizes = (("tokens", tokens), ("context", tokens if context is None else context), ("batch", batch),
                 ("group", group))
        tokens, context, batch, group = (quantity(key, value, least=1, whole=True) for key, value in sizes)
        if tokens > context:
            raise ValueError(f"a context of {context} cannot hold {tokens} new tokens: it counts them too.")
        scored = (1 if tokens == context else tokens) if scored is None else quantity("scored", scored, 1, whole=True)
        _machine(roof)
        title = (f"{self.name}, batch {batch}: {tokens} new token{'s' * (tokens > 1)} each at context {context}, "
                 f"weights {weights}, KV {kv}")
        found = parts(self, tokens, context, batch, weights, kv, dtype, flash, min(scored, tokens), group)
        return Breakdown(title, found, roof)

    def prefill(self, tokens, batch=1, past=0, scored=1, **how):
        """The Work of taking in a prompt of `tokens` tokens in each of `batch` sequences.

        past:    tokens already in the cache (chunked prefill); scored: tokens a sequence that lm_head scores
        how:     weights, kv, dtype, flash, group as for `breakdown`
        """
        past = quantity("past", past, whole=True)
        return self.breakdown(tokens, tokens + past, batch, scored=scored, **how).total.named("prefill")

    def decode_step(self, context, batch=1, weights="bfloat16", kv="bfloat16", drafted=0, **how):
        """The Work of the next token of `batch` sequences that then have `context` tokens each.

        drafted: tokens besides it that are verified in the same pass (speculative decoding)
        how:     dtype, flash, group as for `breakdown`
        """
        tokens = 1 + quantity("drafted", drafted, whole=True)
        found = self.breakdown(tokens, context, batch, weights=weights, kv=kv, scored=tokens, **how)
        return found.total.named("decode step")

    def experts_read(self, tokens):
        """Experts of a layer whose weights a pass over `tokens` tokens reads, expected; 0 without a mixture."""
        return distinct(self.experts.count, self.experts.used, tokens) if self.experts else 0

    def critical_batch(self, roof, context=None, **how):
        """The smallest batch at which a decode step's products take as long to compute as to move; inf: none does.

        context: with the attention over so many tokens, whose traffic grows with the batch too; None: without it
        how:     weights, kv, dtype, group as for `breakdown`
        """
        _machine(roof)

        def fed(batch):
            found = self.breakdown(1, context or 1, batch, **how).parts
            total = sum(part.total for part in found if part.work.unit == "matrix" and (context or not part.kv))
            memory, compute, _ = roof.times(total)
            return compute >= memory

        high = next((2**power for power in range(25) if fed(2**power)), None)
        if high is None:
            return math.inf
        low = high // 2                                      # not fed there, unless it is 0
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if fed(middle) else (middle, high)
        return high

    def max_batch(self, memory, context, weights="bfloat16", kv="bfloat16", reserve=0, group=32):
        """Sequences of `context` tokens whose KV cache fits beside the weights; 0 where the weights do not fit.

        memory:  of all chips together [B]: 80 GB are 80e9, 80 GiB are 80 * 2**30; reserve: kept for the rest [B]
        """
        free = quantity("memory", memory) - quantity("reserve", reserve) - self.weight_bytes(weights, group)
        return max(0, int(free // self.kv_bytes(quantity("context", context, 1, whole=True), 1, kv)))

    def __repr__(self):
        active = f" ({si(self.active_params)} active)" if self.experts else ""
        heads = "latent attention" if self.latent else f"{self.kv_heads} for keys and values"
        window = f", {self.windowed} with a window of {self.window}" if self.windowed else ""
        return (f"{self.name}: {si(self.params)} parameters{active}, {self.layers} layers{window}, width {self.width}, "
                f"{self.heads} heads ({heads}), {si(self.kv_bytes_per_token(), 'B')} of KV a token in bfloat16")
