"""Exercises of lab 11: why is training the happy case?"""

import numpy as np

from ..ops import gemm
from ..work import Work
from . import Exercise, either_way
from .sources import Cuda

FORMATS = ("float32", "tfloat32", "float16", "bfloat16")
BOUNDS = {"adam": "memory", "layer": "compute", "few": "memory", "near": "compute", "far": "link", "split": "link"}
CHOSEN = {"master": "float32", "untouched": "tfloat32", "products": "bfloat16", "rescaled": "float16"}
ROWS, D_IN, D_OUT = 512, 1024, 768                 # of the layer of 11.8

AS_TEXT = """
extern "C" __global__ void adam(const float* gradient, float* state, float rate, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float g = gradient[i], *w = state, *m = state + n, *v = state + 2 * n;
        float a = m[i] = m[i] + 0.1f * (g - m[i]), b = v[i] = v[i] + 0.001f * (g * g - v[i]);
        w[i] = w[i] - rate * a / (sqrtf(b) + 1e-8f);
    }
}
"""


def _step(blocks, D, S, T, chips, peak, seconds, weights=24, scored=4, times=3, of=None):
    """FLOPs forward, of the step, MFU; weights, scored: FLOPs for D^2 and for S D; of: the MFU's FLOPs and chips."""
    forward = blocks * T * (weights * D * D + scored * S * D)
    flops, number = of(forward, chips) if of else (times * forward, chips)
    return forward, times * forward, flops / seconds / number / peak


def _step_with(**changed):
    return lambda blocks, D, S, T, chips, peak, seconds: _step(blocks, D, S, T, chips, peak, seconds, **changed)


def _busy(rng):
    """A model, a cluster and a step that takes about as long as its FLOPs do at an MFU of 0.2 to 0.7."""
    blocks, chips = int(rng.integers(8, 127)), int(2 ** rng.uniform(3, 13))
    D, S = 128 * int(rng.integers(8, 128)), 512 * int(rng.integers(1, 17))
    T, peak = chips * 512 * int(rng.integers(1, 17)), 10 ** rng.uniform(14, 15.4)
    flops = 3 * blocks * T * (24 * D * D + 4 * S * D)
    return {"blocks": blocks, "D": D, "S": S, "T": T, "chips": chips, "peak": peak,
            "seconds": flops / (chips * peak * rng.uniform(0.2, 0.7))}


def _held(blocks, D, S, heads, devices, memory, each=16, of=None, scores=True, arrays=16, number=2, blocks_kept=None):
    """Bytes of the model, of activations a token, tokens that fit; each: bytes a weight, of: devices that share it."""
    model = each * 12 * blocks * D * D / (of or devices)
    kept = blocks if blocks_kept is None else blocks_kept
    activations = number * kept * (arrays * D + (heads * S if scores else 0))
    return model, activations, (memory - model) / activations


def _held_with(**changed):
    return lambda blocks, D, S, heads, devices, memory: _held(blocks, D, S, heads, devices, memory, **changed)


def _room(rng):
    """A model whose share fits on each of its devices, with room to spare."""
    blocks, heads = int(rng.integers(8, 100)), int(rng.integers(8, 100))
    D, S, devices = 128 * heads, 512 * int(rng.integers(1, 17)), int(2 ** rng.uniform(3, 10))
    return {"blocks": blocks, "D": D, "S": S, "heads": heads, "devices": devices,
            "memory": 16 * 12 * blocks * D * D * (1 / devices + rng.uniform(0.1, 1))}


def _tokens(peak, link, devices, itemsize, sent=lambda n: 2 * (n - 1) / n, half=2, step=6, back=4):
    """Tokens that hide an all-reduce; sent: arrays that a device sends, half: what the link's figure is divided by."""
    seconds = sent(devices) * itemsize / (link / half)
    return seconds * peak / step, seconds * peak / back


def _tokens_with(**changed):
    return lambda peak, link, devices, itemsize: _tokens(peak, link, devices, itemsize, **changed)


def _bounds(**changed):
    return tuple((BOUNDS | changed).values())


def _formats(**changed):
    return tuple((CHOSEN | changed).values())


def _update(n=2**22, nbytes=28, rewritten=12):
    return Work(12 * n, nbytes * n, written=12 * n, rewritten=rewritten * n)


def _below(square):
    return np.sqrt(square) + 1e-8


def _adam(gradient, state, rate, old=False, fade=(0.9, 0.999), below=_below, sign=-1, squared=np.square):
    """The new state; old: the weights move by the averages before; below: what m is divided by."""
    weight, mean, square = state
    new = fade[0] * mean + (1 - fade[0]) * gradient, fade[1] * square + (1 - fade[1]) * squared(gradient)
    used = (mean, square) if old else new
    return np.stack([weight + sign * rate * used[0] / below(used[1]), *new])


def _adam_with(**changed):
    return lambda gradient, state, rate: _adam(gradient, state, rate, **changed)


def _stepped(gradient, state, rate):
    """Array code in place: right, and in many passes."""
    weight, mean, square = state
    mean *= 0.9
    mean += 0.1 * gradient
    square *= 0.999
    square += 0.001 * gradient * gradient
    weight -= rate * mean / (square**0.5 + 1e-8)


def _state(rng, n=None):
    """Gradients and a state from which the update makes a visible step; some are so small that 1e-8 shows."""
    n = n or int(rng.integers(30, 3000))
    small = rng.uniform(size=n) < 0.2
    scale = np.where(small, 1e-5, 1)
    state = np.stack([rng.standard_normal(n), scale * rng.standard_normal(n), scale**2 * rng.uniform(0.2, 1, n)])
    return {"gradient": scale * rng.uniform(1, 20, n) * np.where(small, 1, rng.choice([-1, 1], n)), "state": state,
            "rate": float(rng.uniform(0.3, 0.9))}


def _launch(gradient, state, rate):
    n = gradient.size
    return (-(-n // 256),), (256,), (gradient, state, np.float32(rate), np.int32(n))


def _three(itemsize, of=((ROWS, D_OUT, D_IN), (D_IN, D_OUT, ROWS), (ROWS, D_IN, D_OUT))):
    dtype = {2: "float16", 8: "float64"}.get(itemsize, "float32")
    return sum(gemm(*sizes, dtype) for sizes in of)


EXERCISES = {
    "11.1": Exercise(
        kind="derive", points=2, names=("forward", "forward and backward", "MFU"),
        ask="step(blocks, D, S, T, chips, peak, seconds): FLOPs forward, FLOPs of both passes, MFU",
        inputs=_busy,
        reference=_step_with(),
        alternatives=(
            lambda blocks, D, S, T, chips, peak, seconds: (
                f := 2 * 12 * D * D * blocks * T * (1 + S / 6 / D), 3 * f, 3 * f / (seconds * chips * peak)),
            lambda b, D, S, T, c, p, s: [(24 * D + 4 * S) * D * b * T, 6 * (12 * D + 2 * S) * D * b * T,
                                         6 * (12 * D + 2 * S) * D * b * T / s / c / p]),
        slips={
            "attention forgotten": (_step_with(scored=0),
                ("That is the rule of six times parameters times tokens: scores and weighted values are missing, "
                 "4SD FLOPs a token and block forward.")),
            "scores only": (_step_with(scored=2),
                "Attention has two products without weights: the scores, and the values added up by weight."),
            "a multiply-add as one": (_step_with(weights=12, scored=2),
                "A multiply and an add are two FLOPs: 24 D^2 for 12 D^2 weights."),
            "backward as forward": (_step_with(times=2),
                "The backward pass has two products for each one of the forward pass: three times in all."),
            "recomputed": (_step_with(of=lambda forward, chips: (4 * forward, chips)),
                "The MFU counts what the model needs, three times the forward pass, and not a second forward pass."),
            "one chip": (_step_with(of=lambda forward, chips: (3 * forward, 1)),
                "The FLOPs of the step are shared by all chips: divide by chips, too."),
            "forward utilization": (_step_with(of=lambda forward, chips: (forward, chips)),
                "The FLOPs are right. In the MFU stand those of both passes, since both took the time."),
        },
        hints=("Lesson 11, 'The FLOPs of a step' and 'How good is half?'.",
               ("For a token and block, forward: two FLOPs for each of the 12 D^2 weights, and 4 S D for attention. "
                "MFU: FLOPs over seconds, over what all chips could do."),
               "forward = blocks * T * (24 * D * D + 4 * S * D); both = 3 * forward; both / seconds / (chips * peak)."),
        right="Tokens a second and a peak are all one needs to see how much of a cluster is used.",
    ),
    "11.2": Exercise(
        kind="derive", points=2, names=("model", "activations", "tokens"),
        ask="held(blocks, D, S, heads, devices, memory): bytes of the model, of activations a token, tokens that fit",
        inputs=_room,
        reference=_held_with(),
        alternatives=(
            lambda blocks, D, S, heads, devices, memory: (
                m := (2 + 2 + 4 + 4 + 4) * blocks * 12 * D**2 / devices, a := blocks * (32 * D + 2 * heads * S),
                (memory - m) / a),
            lambda b, D, S, h, n, m: [192 * b * D * D / n, 2 * b * (16 * D + h * S),
                                      (m - 192 * b * D * D / n) / (2 * b * (16 * D + h * S))]),
        slips={
            "weights only": (_held_with(each=2),
                "Two bytes a weight are enough to use a model. Training has gradients, a master copy, m and v, too."),
            "no master copy": (_held_with(each=12),
                "2 + 2 + 4 + 4: the float32 master copy of each weight is missing, 4 more."),
            "averages only": (_held_with(each=8),
                "m and v are 8 bytes. Weights and gradients have 2 each, the master copy 4."),
            "not shared": (_held_with(of=1),
                "Each chip holds an equal share of the model here: divide by devices."),
            "no scores": (_held_with(scores=False),
                "The softmax leaves heads x S weights for each token, and they are kept here."),
            "activations shared": (lambda blocks, D, S, heads, devices, memory: _held(
                    blocks, D, S, heads, devices, memory, number=2 / devices),
                "Weights, gradients and update are shared by the devices; a chip's activations are its own."),
            "one block": (_held_with(blocks_kept=1),
                "Those are the activations of one block; all blocks wait for the backward pass."),
            "inputs of blocks": (_held_with(arrays=1, scores=False),
                "That keeps the input of each block alone, as with recomputation; here all is kept."),
            "numbers": (_held_with(number=1),
                "Those are numbers of activations; each of them has two bytes."),
        },
        hints=("Lesson 11, 'What has to fit', has both counts.",
               ("16 bytes for each of the 12 D^2 weights of a block, shared by the devices. 16 D + heads x S numbers "
                "of two bytes for a token and block."),
               ("model = 16 * 12 * D**2 * blocks / devices; activations = 2 * blocks * (16 * D + heads * S); "
                "(memory - model) / activations.")),
        right="Sharding shrinks the model on a chip, never its activations: those ask for FlashAttention, "
              "recomputation or fewer tokens.",
    ),
    "11.3": Exercise(
        kind="derive", points=2, names=("behind the step", "behind the backward pass"),
        ask="tokens(peak, link, devices, itemsize): tokens a device that hide the all-reduce of the gradients",
        inputs={"peak": (1e13, 3e15), "link": (5e10, 2e12), "devices": (2, 5000), "itemsize": [2, 4]},
        reference=_tokens_with(),
        alternatives=(
            lambda peak, link, devices, itemsize: (
                4 * itemsize * (1 - 1 / devices) * peak / link / 6, itemsize * (1 - 1 / devices) * peak / link),
            lambda p, w, n, b: [2 * b * (n - 1) / n / (w / 2) / (6 / p), 2 * b * (n - 1) / n / (w / 2) / (4 / p)]),
        slips={
            "both directions": (_tokens_with(half=1),
                ("Half of it is missing: the datasheet's link counts both directions, and a ring goes round twice, "
                 "once to add up and once to hand the sums round.")),
            "a very long ring": (_tokens_with(sent=lambda n: 2),
                "Right for very many devices; for n of them each sends 2 (n - 1) / n of the array."),
            "all to one": (_tokens_with(sent=lambda n: n - 1),
                "In a ring no device sends its whole array to all others: it passes parts on, 2 (n - 1) / n in all."),
            "forward and backward swapped": (_tokens_with(step=4, back=6),
                "The two are swapped: the whole step has more arithmetic, so it hides sending with fewer tokens."),
            "less to hide behind": (_tokens_with(back=9),
                ("The backward pass has fewer FLOPs to hide behind than the step, four of six, so more tokens are "
                 "needed, not fewer.")),
            "forward pass": (_tokens_with(back=2),
                "Two FLOPs is the forward pass; the backward pass, in which the gradients appear, has four."),
        },
        hints=("Lesson 11, 'The third roof': where do the two times meet?",
               ("For each weight: 2 (n - 1) / n times itemsize bytes over link / 2, against 6 (or 4) FLOPs a token "
                "over peak. The number of weights cancels."),
               "2 * (devices - 1) / devices * itemsize / (link / 2) * peak / 6; with 4 in place of 6 for the second."),
        right="Peak over link: with each generation of chips that ratio has grown, and so have the steps.",
    ),
    "11.4": Exercise(
        kind="diagnose", points=2, labels=("compute", "memory", "link"),
        ask="bound of an update, a layer with many and with few tokens, and three ways to train on eight chips",
        reference=_bounds,
        alternatives=(("Memory", "compute-bound", "memory-bound", "Compute", "link", "LINK"), lambda: list(_bounds())),
        slips={
            "an update is arithmetic": (lambda: _bounds(adam="compute"),
                "12 FLOPs for 28 bytes: 0.43 FLOP/B, far left of 295."),
            "a layer waits": (lambda: _bounds(layer="memory"),
                "With 8192 tokens each weight serves 8192 times; the AI of both products is in the thousands."),
            "products are compute-bound": (lambda: _bounds(few="compute"),
                "With 64 tokens the AI is near 63; the H100 asks for 295 (lesson 05)."),
            "NVLink waits": (lambda: _bounds(near="link"),
                "4096 tokens a device are more than the 1283 at which eight H100 wait for NVLink."),
            "the network is as fast": (lambda: _bounds(far="compute"),
                "Over the network 11,543 tokens a device are needed; here are 4096."),
            "gradients are memory": (lambda: _bounds(far="memory"),
                "The gradients go to other chips: bytes over 50e9 B/s, not over the memory's 3.35e12."),
            "more tokens help": (lambda: _bounds(split="compute"),
                ("The bytes of tensor parallelism grow with the tokens. Its AI is about 5700 here, and the network "
                 "asks for 19,788: that is why it stays inside a server.")),
        },
        hints=("Work out an AI for each: FLOPs over bytes of memory, or over bytes sent. Which ridge belongs to it?",
               ("Ridge points: memory 295, NVLink 2199, network 19,788 FLOP/B. rk.gemm(..).intensity for the layers; "
                "data parallelism 6 P T over 2 * 7/8 * 2 P."),
               ("Update 0.43; the layer's products above 2000 and near 63; data parallelism with 4096 tokens 7022; "
                "tensor parallelism 6 * 70e9 / (16 * 7 * 8192 * 80).")),
        right="Three roofs, three ridge points: ask which bytes a job moves, and over what.",
    ),
    "11.5": Exercise(
        kind="diagnose", points=1, labels=FORMATS,
        ask="the number format of a master copy, of an untouched program, and of two kinds of fast products",
        reference=_formats,
        alternatives=(("Float32", "TFloat32", "BFloat16", "Float16"), lambda: list(_formats())),
        slips={
            "a small master": (lambda: _formats(master="bfloat16"),
                "bfloat16 has 8 significant bits: 1 + 0.001 stays 1 there, and the weight never learns."),
            "TF32 is a store": (lambda: _formats(master="tfloat32"),
                "TF32 is a way to multiply; numbers are stored, and added to, in float32."),
            "no change is no gain": (lambda: _formats(untouched="float32"),
                "Plain float32 runs at 19.5 TFLOP/s on an A100; one of the four multiplies the same arrays at 156."),
            "half of the bits": (lambda: _formats(untouched="bfloat16"),
                "That would need arrays of two bytes; which format is stored in four?"),
            "the other half": (lambda: _formats(products="float16", rescaled="bfloat16"),
                "The two are swapped: float16 ends near 6e-8, bfloat16 has the range of float32."),
        },
        hints=("Lesson 11, 'Fewer bits': what is stored, what is multiplied, and which range has it?",
               "Stored in 4 bytes: two of them. Stored in 2: two, one with a wide range and one with more bits.",
               "The table of the lesson: 1 + 0.001 needs float32; 1e-8 is 0 in float16; TF32 changes no array."),
        right="The products want few bits, the sums want many: mixed precision is both.",
    ),
    "11.6": Exercise(
        kind="predict", points=1, factor=2.0, quantity="seconds",
        ask="seconds of an update by Adam of 2**22 float32 weights here, in one kernel",
        reference=lambda roof: either_way(roof, _update()),
        alternatives=(lambda roof: roof.times(_update()).memory,
                      lambda roof: 28 * 2**22 / roof.bandwidth_for(_update()),
                      lambda roof: 28 * 2**22 / roof.bandwidth),
        slips={
            "arithmetic": (lambda roof: 12 * 2**22 / roof.rate("vector"),
                "That is the time of 12 FLOPs for each weight; its 28 bytes take longer."),
            "array code": (lambda roof: roof.seconds(_update(nbytes=4 * 34)),
                "That is array code, pass by pass. One kernel reads four numbers for each weight and writes three."),
            "one array": (lambda roof: roof.seconds(_update(nbytes=4 * 3)) / 3,
                "That is one array. The gradient, the weight and two averages are read, and three of them written."),
            "milliseconds": (lambda roof: 1e3 * roof.seconds(_update()),
                "That is in ms; a time in seconds is asked."),
        },
        hints=("Which of the three times is the longest here?",
               "Each weight needs four numbers read and three written: 28 bytes in float32, in place.",
               ("work = rk.Work(flops=12 * n, nbytes=28 * n, written=12 * n, rewritten=12 * n) with n = 2**22; "
                "here.seconds(work).")),
        right="Whatever the tokens of a step, this much is to be paid for each update.",
        then="Now build it and time it: 11.7.",
    ),
    "11.7": Exercise(
        kind="build", points=3, out="state", least=0.3, tolerance=1e-5,
        ask="adam: one update of weights and averages in one kernel, in Numba or in CUDA C++",
        inputs=_state,
        reference=_adam_with(),
        alternatives=(_stepped, lambda gradient, state, rate: state.__setitem__(..., _adam(gradient, state, rate)),
                      AS_TEXT),
        slips={
            "with the old averages": (_adam_with(old=True),
                "The weights move by the old averages; m and v come first, and then the weight moves by the new ones."),
            "uphill": (_adam_with(sign=1),
                "The weights move along the gradient: subtract, so that the loss gets smaller."),
            "no root": (_adam_with(below=lambda square: square + 1e-8),
                "m is divided by v itself: take the square root of v."),
            "inside the root": (_adam_with(below=lambda square: np.sqrt(square + 1e-8)),
                "1e-8 stands beside the square root here, not under it: that matters for weights whose v is small."),
            "nothing added": (_adam_with(below=np.sqrt),
                "1e-8 has to be added to the square root of v: without it a weight whose v is 0 would be lost."),
            "size": (_adam_with(squared=np.abs),
                "The second average is of the gradient's square; yours is of its size."),
            "not squared": (_adam_with(squared=np.positive),
                "The second average is of the gradient's square; yours is of the gradient itself."),
            "factors swapped": (_adam_with(fade=(0.1, 0.001)),
                "The averages keep 0.9 and 0.999 of what they were and take 0.1 and 0.001 of the new."),
            "averages stay": (lambda gradient, state, rate: np.stack([_adam(gradient, state, rate)[0], *state[1:]]),
                "The weights are right, but m and v must be written back for the next update."),
        },
        work=lambda gradient, state, rate: _update(gradient.size), big=lambda rng: _state(rng, 2**22),
        cuda=Cuda(name="adam", launch=_launch, most=lambda gradient, state, rate: 16 * gradient.size,
                  told="load each of the four numbers once, into a variable, and work with that."),
        hints=("All that a weight needs are four numbers with its own index. How often does each have to be loaded?",
               ("One loop over the weights, or one thread a weight: load gradient, weight, m and v, compute the new m "
                "and v, then the new weight, store three numbers."),
               ("m = 0.9 * m + 0.1 * g; v = 0.999 * v + 0.001 * g * g; w -= rate * m / (sqrt(v) + 1e-8), with "
                "np.float32 around each constant in Numba, an f behind it in CUDA C++.")),
        right="Seven numbers for each weight are all that an update has to move: a quarter of what array code does.",
    ),
    "11.8": Exercise(
        kind="measure", points=2, cold=True,
        ask="the forward and the backward pass of a linear layer, in one call, with the Work of its three products",
        reference=lambda itemsize: _three(itemsize),
        slips={
            "forward only": (lambda itemsize: _three(itemsize, ((ROWS, D_OUT, D_IN),)),
                "That is the forward pass alone; two products more come backward."),
            "backward only": (lambda itemsize: _three(itemsize, ((D_IN, D_OUT, ROWS), (ROWS, D_IN, D_OUT))),
                "That is the backward pass alone; the call does the forward pass, too."),
            "each array once": (lambda itemsize: Work(6 * ROWS * D_IN * D_OUT, 2 * itemsize * (
                    ROWS * D_IN + D_IN * D_OUT + ROWS * D_OUT), unit="matrix"),
                "The FLOPs are right. X, W and G are read by two products each; count the arrays of all three."),
        },
        hints=("Three products of the same 2mnk: which sizes take the places of m, n and k?",
               "Y = X W, then X.T G for the weights and G W.T for the input; their Works can be added with +.",
               ("rk.gemm(rows, d_out, d_in, dev.dtype) + rk.gemm(d_in, d_out, rows, dev.dtype) + rk.gemm(rows, d_in, "
                "d_out, dev.dtype); rk.measure(passes, work=.., cold=True).")),
        right="Three products with the same FLOPs, and the same bytes as well.",
    ),
}
