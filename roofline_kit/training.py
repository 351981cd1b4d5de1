"""What does a training step of a Transformer block do, call by call? Forward, backward and update in array code."""

import math
from dataclasses import dataclass
from functools import partial

from . import array_code
from .device import device as this_device
from .ops import gemm
from .units import quantity, si
from .work import Work

KINDS = ("products", "norms", "softmax", "others", "update")
PHASES = ("forward", "backward", "update")


@dataclass(frozen=True)
class Call:
    """One entry of a step: arrays that exist already go in, others come out."""

    kind: str
    phase: str
    work: Work
    call: object
    inputs: tuple
    outputs: tuple


class TrainingStep:
    """A block of the first Transformers, as a list of calls: x + attention(norm(x)), then x + feed_forward(norm(x)).

    Its weights are 12 hidden^2: queries, keys and values 3, output 1, up 4, down 4; and gains and shifts of two norms.
    The 1 / sqrt(d) of the scores is taken to be in the weights of the queries, the layers have no bias.

    tokens, hidden, heads:  one text of so many tokens, of so many numbers each; heads of 64 numbers if not told
    dtype:                  of weights, activations and gradients; the update works in float32
    norm, softmax:          kernels for the forward pass in place of array code: dev.kernel("layernorm"), ("softmax")
    calls:                  what a step does, in order; each with its Work as one kernel would do it
    x, y:                   the block's input and output, tokens x hidden
    pull, x_pull:           the gradients of the loss for y, which the rest of a model would hand in, and for x
    weights, gradients:     all of them in a row
    """

    def __init__(self, tokens, hidden, heads=None, dtype=None, device=None, norm=None, softmax=None):
        tokens, hidden = (quantity(name, value, least=1, whole=True)
                          for name, value in (("tokens", tokens), ("hidden", hidden)))
        self.heads = quantity("heads", heads or max(1, hidden // 64), least=1, whole=True)
        if hidden % self.heads:
            raise ValueError(f"{hidden} numbers a token do not split into {self.heads} heads.")
        device = this_device(device)
        self._xp, self._phase, self.calls, self._later, self._pulls = device.xp, PHASES[0], [], [], {}
        self._norm_call, self._softmax_call = norm or self._code("norm"), softmax or self._code("softmax")
        self.x, self.pull = (device.random(tokens, hidden, dtype=dtype) for _ in range(2))
        self.weights = device.random(12 * hidden**2 + 4 * hidden, dtype=dtype)
        self.gradients = self._xp.zeros(self.weights.shape, self.weights.dtype)
        self._w, self._g = (_parts(flat, hidden) for flat in (self.weights, self.gradients))
        for name in ("qkv", "out", "up", "down"):
            self._w[name] *= len(self._w[name]) ** -0.5                  # the outputs of a layer are of order 1
        self._w["qkv"][:, :hidden] *= (hidden // self.heads) ** -0.5
        self.y = self._block(self.x)
        self._phase = PHASES[1]
        self._pulls[id(self.y)] = self.pull
        for back in reversed(self._later):
            back()
        self.x_pull = self._pulls[id(self.x)]
        self._phase = PHASES[2]
        self._update()

    def run(self, kind=None, phase=None):
        """Make the calls, or only those of one kind or phase."""
        for one in self._chosen(kind, phase):
            one.call()

    def work(self, kind=None, phase=None):
        """The Work of the calls, or only of those of one kind or phase."""
        return sum(one.work for one in self._chosen(kind, phase)).named(kind or phase or "step")

    def kept(self):
        """Bytes of activations that the forward pass leaves for the backward pass, the input x included [B]."""
        made = {id(_root(self.x)): _root(self.x)}
        made |= {id(_root(a)): _root(a) for one in self._chosen(None, PHASES[0]) for a in one.outputs}
        read = {id(_root(a)) for one in self._chosen(None, PHASES[1]) for a in one.inputs}
        return sum(array.nbytes for name, array in made.items() if name in read)

    def _chosen(self, kind, phase):
        for name, known in ((kind, KINDS), (phase, PHASES)):
            if name is not None and name not in known:
                raise ValueError(f"there is no {name!r} in a step: choose one of {', '.join(known)}.")
        return [one for one in self.calls if kind in (None, one.kind) and phase in (None, one.phase)]

    def __repr__(self):
        parts = ", ".join(f"{phase} {si(self.work(phase=phase).flops, 'FLOP')}" for phase in PHASES)
        return (f"a step of a block: {self.x.shape[0]} tokens of {self.x.shape[1]} numbers, {self.heads} heads, "
                f"{si(self.weights.size)} weights, {len(self.calls)} calls; {parts}")

    # ---- How a call is noted -----------------------------------------------------------------------------------------

    def _code(self, name):
        return partial(getattr(array_code, name), self._xp)

    def _record(self, kind, flops, call, inputs, outputs):
        """call(*inputs, *outputs); flops: for each number of the first output. Each array goes through memory once."""
        written = sum(a.nbytes for a in outputs)
        work = Work(flops * outputs[0].size, written + sum(a.nbytes for a in inputs), written=written,
                    dtype=outputs[0].dtype.name, name=kind)
        self.calls.append(Call(kind, self._phase, work, partial(call, *inputs, *outputs), tuple(inputs),
                               tuple(outputs)))

    def _update(self):
        """Adam on all weights at once; master, mean and square are rewritten where they stand."""
        state = self._xp.zeros((4, self.weights.size), "float64" if self.weights.itemsize == 8 else "float32")
        master, mean, square, room = state
        master[...] = self.weights
        arrays = self.gradients, master, mean, square, self.weights
        work = Work(12 * self.weights.size, 2 * sum(a.nbytes for a in arrays[1:4]) + 2 * self.weights.nbytes,
                    written=sum(a.nbytes for a in arrays[1:]), rewritten=sum(a.nbytes for a in arrays[1:4]),
                    dtype=state.dtype.name, name="update")
        self.calls.append(Call("update", self._phase, work, partial(self._code("adam"), *arrays, room), arrays[:4],
                               arrays[1:]))

    def _product(self, *triples):
        """c = a b for each (a, b, c)."""
        def call():
            for a, b, c in triples:
                self._xp.matmul(a, b, out=c)

        work = sum(gemm(len(a), b.shape[1], len(b), c.dtype.name) for a, b, c in triples).named("products")
        self.calls.append(Call("products", self._phase, work, call, tuple(a for pair in triples for a in pair[:2]),
                               tuple(c for *_, c in triples)))

    def _new(self, *shape):
        return self._xp.empty(shape, self.x.dtype)

    def _give(self, array, pull):
        """`pull` is the gradient for this array, or a part of it, where two calls have read it."""
        if id(array) in self._pulls:
            total = self._new(*array.shape)
            self._record("others", 1, self._xp.add, [self._pulls[id(array)], pull], [total])
            pull = total
        self._pulls[id(array)] = pull

    # ---- The parts: each notes its calls, and for later those of its backward pass -----------------------------------

    def _block(self, x):
        attended = self._linear(self._attention(self._linear(self._norm(x, 0), "qkv")), "out")
        x = self._add(x, attended)
        return self._add(x, self._linear(self._cut(self._linear(self._norm(x, 1), "up")), "down"))

    def _linear(self, x, name):
        w, g = self._w[name], self._g[name]
        y = self._new(len(x), w.shape[1])
        self._product((x, w, y))

        def back():
            pull, x_pull = self._pulls[id(y)], self._new(*x.shape)
            self._product((x.T, pull, g), (pull, w.T, x_pull))
            self._give(x, x_pull)

        self._later.append(back)
        return y

    def _norm(self, x, which):
        gain, shift, *gs = (part[name][which] for part in (self._w, self._g) for name in ("gains", "shifts"))
        y = self._new(*x.shape)
        self._record("norms", 7, self._norm_call, [x, gain, shift], [y])

        def back():
            x_pull = self._new(*x.shape)
            self._record("norms", 16, self._code("norm_back"), [x, gain, self._pulls[id(y)]], [x_pull, *gs])
            self._give(x, x_pull)

        self._later.append(back)
        return y

    def _attention(self, qkv):
        rows, heads = len(qkv), self.heads
        split, mixed = self._new(3 * heads, rows, qkv.shape[1] // heads // 3), self._new(rows, qkv.shape[1] // 3)
        scores, weights, values = (self._new(heads, rows, last) for last in (rows, rows, split.shape[2]))
        self._record("others", 0, self._code("split"), [qkv], [split])
        q, k, v = (split[i * heads:(i + 1) * heads] for i in range(3))
        flat = lambda cube: cube.reshape(heads * rows, rows)
        self._product(*((q[h], k[h].T, scores[h]) for h in range(heads)))
        self._record("softmax", 5, self._softmax_call, [flat(scores)], [flat(weights)])
        self._product(*((weights[h], v[h], values[h]) for h in range(heads)))
        self._record("others", 0, self._code("merge"), [values], [mixed])

        def back():
            pulls = [self._new(*array.shape) for array in (values, weights, scores, split, qkv)]
            on_values, on_weights, on_scores, on_split, on_qkv = pulls
            self._record("others", 0, self._code("split"), [self._pulls[id(mixed)]], [on_values])
            on_q, on_k, on_v = (on_split[i * heads:(i + 1) * heads] for i in range(3))
            self._product(*((on_values[h], v[h].T, on_weights[h]) for h in range(heads)),
                          *((weights[h].T, on_values[h], on_v[h]) for h in range(heads)))
            self._record("softmax", 4, self._code("softmax_back"), [flat(weights), flat(on_weights)], [flat(on_scores)])
            self._product(*((on_scores[h], k[h], on_q[h]) for h in range(heads)),
                          *((on_scores[h].T, q[h], on_k[h]) for h in range(heads)))
            self._record("others", 0, self._code("merge"), [on_split], [on_qkv])
            self._give(qkv, on_qkv)

        self._later.append(back)
        return mixed

    def _cut(self, x):
        y = self._new(*x.shape)
        self._record("others", 1, self._code("cut"), [x], [y])

        def back():
            x_pull = self._new(*x.shape)
            self._record("others", 1, self._code("cut_back"), [x, self._pulls[id(y)]], [x_pull])
            self._give(x, x_pull)

        self._later.append(back)
        return y

    def _add(self, x, change):
        y = self._new(*x.shape)
        self._record("others", 1, self._xp.add, [x, change], [y])

        def back():
            for array in (x, change):
                self._give(array, self._pulls[id(y)])

        self._later.append(back)
        return y


def _parts(flat, hidden):
    """The matrices in a row of 12 hidden^2 + 4 hidden numbers, as views."""
    shapes = {"qkv": (hidden, 3 * hidden), "out": (hidden, hidden), "up": (hidden, 4 * hidden),
              "down": (4 * hidden, hidden), "gains": (2, hidden), "shifts": (2, hidden)}
    found, start = {}, 0
    for name, shape in shapes.items():
        found[name] = flat[start:start + math.prod(shape)].reshape(shape)
        start += math.prod(shape)
    return found


def _root(array):
    """The array whose memory a view shows."""
    while getattr(array, "base", None) is not None:
        array = array.base
    return array
