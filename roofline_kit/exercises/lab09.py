"""Exercises of lab 09: which bound has each operation?"""

from dataclasses import replace

import numpy as np

from ..datasheets import datasheet
from ..ops import conv2d, elementwise, embedding, flash_attention, gemm, layernorm
from ..work import Work
from . import Exercise, either_way

LAUNCH = 2.5e-6                                    # s, as in the lesson
BOUNDS = ("memory", "compute", "latency")
WIDTH = 4                                          # numbers in a row of 09.5 and 09.6
ROWS = 2**23                                       # of 09.5


def _lowered(channels, size, filters, kernel, itemsize, places=None, weights=None, extra=2):
    """FLOPs, bytes of the direct count and the further ones of im2col; or with another count of places or weights."""
    places = (size - kernel + 1) ** 2 if places is None else places
    window = channels * kernel**2
    weights = filters * window if weights is None else weights
    return (2 * places * filters * window, itemsize * (channels * size**2 + weights + filters * places),
            extra * itemsize * places * window)


def _picture(rng):
    """A picture that is larger than the filters, with all sizes different."""
    channels, filters = rng.choice(np.arange(3, 80), 2, replace=False)
    return {"channels": int(channels), "size": int(rng.integers(90, 200)), "filters": int(filters),
            "kernel": int(rng.choice([3, 5, 7])), "itemsize": int(rng.choice([2, 4, 8]))}


def _moved(tokens, width, itemsize, line, read=None, ids=4, written=None):
    """Bytes of a shuffled lookup and of one in order; or with other bytes read for a row, for an id, written."""
    row = itemsize * width
    read = -(-row // line) * line if read is None else read
    written = row if written is None else written
    return tokens * (ids + read + written), tokens * (ids + row + row)


def _attention(queries, keys, width, group, rows=None, columns=None, products=2):
    """AI of the stored scores of a head, and of attention that keeps them; or with other uses of keys and queries."""
    stored = 1 / (1 / queries + 1 / keys + 1 / width)
    rows, columns = rows or group * queries, columns or keys
    return stored, products / 2 * rows * columns / (rows + columns)


def _bound(work, chip):
    return replace(datasheet(chip, "bfloat16"), overhead=LAUNCH).bound(work)


def _bounds(**changed):
    """The labels of 09.4, counted; changed: another label for one of them."""
    pictures = {"channels": 64, "height": 56, "width": 56, "padding": 1, "batch": 16, "dtype": "bfloat16",
                "im2col": True}
    model = Work(2 * 3e6, 2 * 3e6, dtype="bfloat16")
    labels = {
        "few": _bound(conv2d(filters=64, **pictures), "H100 SXM"),
        "many": _bound(conv2d(filters=1024, **pictures), "A100 80GB SXM"),
        "rows": _bound(layernorm(256, 4096, "bfloat16"), "H100 SXM"),
        "stored": _bound(gemm(32768, 32768, 128, "bfloat16"), "H200 SXM"),
        "kept": _bound(flash_attention(32, 4096, 4096, 128, dtype="bfloat16"), "B200"),
        "grouped": _bound(flash_attention(64, 1, 131072, 128, kv_heads=8, dtype="bfloat16"), "H100 SXM"),
        "calls": _bound(sum([elementwise(10**6, dtype="bfloat16")] * 20), "B200"),
        "mlp_a100": _bound(model, "A100 80GB SXM"), "mlp_h100": _bound(model, "H100 SXM")}
    return tuple((labels | changed).values())


def _seconds(roof, line, **changed):
    return roof.seconds(replace(embedding(ROWS, WIDTH, "float32", line), **changed))


def _both(n, shuffled, in_order, **changed):
    return tuple(replace(embedding(n, WIDTH, "float32", line), **changed) for line in (shuffled, in_order))


def _bags(rng, entries=None, width=None, bags=None, count=None):
    """A table, and for each bag the numbers of its rows; no row twice where there are enough of them."""
    entries, width = entries or int(rng.integers(20, 90)), width or int(rng.integers(3, 70))
    bags, count = bags or int(rng.integers(5, 40)), count or int(rng.integers(2, 9))
    enough = bags * count <= entries
    ids = rng.permutation(entries)[:bags * count] if enough else rng.integers(0, entries, bags * count)
    return {"table": rng.standard_normal((entries, width)), "ids": ids.reshape(bags, count).astype("int32"),
            "out": rng.standard_normal((bags, width))}     # as an array that has been used before


def _one_at_a_time(table, ids, out):
    out[...] = 0
    for place in range(ids.shape[1]):
        np.add(out, table[ids[:, place]], out=out)


EXERCISES = {
    "09.1": Exercise(
        kind="derive", points=2, names=("FLOPs", "direct bytes", "extra bytes"),
        ask="im2col(channels, size, filters, kernel, itemsize): FLOPs, bytes of the direct count, extra bytes",
        inputs=_picture,
        reference=_lowered,
        alternatives=(
            lambda channels, size, filters, kernel, itemsize: (
                2 * filters * channels * kernel * kernel * (size + 1 - kernel) * (size + 1 - kernel),
                conv2d(channels, size, size, filters, kernel).nbytes // 4 * itemsize,
                itemsize * ((size + 1 - kernel) * kernel) ** 2 * channels * 2),
            lambda c, s, f, k, b: [conv2d(c, s, s, f, k).flops, conv2d(c, s, s, f, k).nbytes * b / 4,
                                   (conv2d(c, s, s, f, k, im2col=True).nbytes - conv2d(c, s, s, f, k).nbytes) * b / 4]),
        slips={
            "as many places as points": (lambda channels, size, filters, kernel, itemsize: _lowered(
                    channels, size, filters, kernel, itemsize, places=size**2),
                "Without padding a filter fits at size - kernel + 1 places along each side, not at all of its points."),
            "one place too few": (lambda channels, size, filters, kernel, itemsize: _lowered(
                    channels, size, filters, kernel, itemsize, places=(size - kernel) ** 2),
                "A filter as large as the picture fits once: along a side there are size - kernel + 1 places."),
            "written, not read": (lambda channels, size, filters, kernel, itemsize: _lowered(
                    channels, size, filters, kernel, itemsize, extra=1),
                "The matrix of windows is written by the copy and read by the product: twice its bytes."),
            "weights forgotten": (lambda channels, size, filters, kernel, itemsize: _lowered(
                    channels, size, filters, kernel, itemsize, weights=0),
                "Picture and result are counted; the filters have to be read, too."),
            "result forgotten": (lambda channels, size, filters, kernel, itemsize: (
                    _lowered(channels, size, filters, kernel, itemsize)[0],
                    itemsize * (channels * size**2 + filters * channels * kernel**2),
                    _lowered(channels, size, filters, kernel, itemsize)[2]),
                "Picture and filters are read; the result, filters numbers at each place, has to be written."),
            "all bytes": (lambda channels, size, filters, kernel, itemsize: (
                    *(one := _lowered(channels, size, filters, kernel, itemsize))[:2], one[1] + one[2]),
                "The last number holds the direct bytes as well; asked are those that im2col adds."),
            "a filter without channels": (lambda channels, size, filters, kernel, itemsize: _lowered(
                    channels, size, filters, kernel, itemsize, weights=filters * kernel**2),
                "A filter has a weight for each channel: channels * kernel * kernel of them."),
        },
        hints=("Lesson 09, 'The convolution', has all three in P, F, C and K.",
               "P is the number of places, (size - kernel + 1) squared; a window has channels * kernel**2 numbers.",
               ("FLOPs 2 * P * filters * window. Direct: itemsize * (channels * size**2 + filters * window + "
                "filters * P). Extra: 2 * itemsize * P * window.")),
        right="The extra bytes do not depend on the filters: with many of them each window is used often, and the copy "
              "no longer counts.",
    ),
    "09.2": Exercise(
        kind="derive", points=2, names=("bytes shuffled", "bytes in order"),
        ask="moved(tokens, width, itemsize, line): bytes of a lookup, shuffled and in order",
        inputs={"tokens": (100, 10**6), "width": (1, 300), "itemsize": [2, 4], "line": [32, 64, 128]},
        reference=_moved,
        alternatives=(
            lambda tokens, width, itemsize, line: (
                tokens * (4 + line * ((itemsize * width + line - 1) // line) + itemsize * width),
                tokens * (4 + 2 * itemsize * width)),
            lambda t, w, b, line: [embedding(t, w * b, "int8", line).nbytes, embedding(t, w * b, "int8").nbytes]),
        slips={
            "order does not matter": (lambda tokens, width, itemsize, line: _moved(
                    tokens, width, itemsize, line, read=itemsize * width),
                "Memory moves whole lines: a shuffled row that fills a part of one costs all of it."),
            "a line at least": (lambda tokens, width, itemsize, line: _moved(
                    tokens, width, itemsize, line, read=max(line, itemsize * width)),
                "Right for rows within a line. A longer one may end inside its last line, which counts whole, too."),
            "lines left open": (lambda tokens, width, itemsize, line: _moved(
                    tokens, width, itemsize, line, read=itemsize * width // line * line),
                "Rounded the wrong way: the line that a row only begins has to be moved as well."),
            "stored by lines": (lambda tokens, width, itemsize, line: _moved(
                    tokens, width, itemsize, line, written=-(-itemsize * width // line) * line),
                "The results lie one after the other, so they share lines: their own bytes count."),
            "result forgotten": (lambda tokens, width, itemsize, line: (
                    tokens * (4 + -(-itemsize * width // line) * line), tokens * (4 + itemsize * width)),
                "The rows are read, and their copies have to be written."),
            "ids forgotten": (lambda tokens, width, itemsize, line: _moved(tokens, width, itemsize, line, ids=0),
                "Each token also has its id, 4 bytes, which is read."),
        },
        hints=("Lesson 09, 'The embedding lookup': three things move for each token.",
               "Id, row read, row written. Shuffled, the row that is read is rounded up to whole lines.",
               "-(-a // b) rounds a / b up. tokens * (4 + -(-row // line) * line + row), with row = itemsize * width."),
        right="Wide rows do not care about the order. For narrow ones sorting, or a layout that puts together what is "
              "used together, is all the optimisation there is.",
    ),
    "09.3": Exercise(
        kind="derive", points=2, names=("scores stored", "scores kept"),
        ask="intensity(queries, keys, width, group): AI of stored scores, and of attention that keeps them",
        inputs={"queries": (1, 4096), "keys": (64, 16384), "width": [64, 128, 256], "group": [2, 4, 8]},
        reference=_attention,
        alternatives=(
            lambda queries, keys, width, group: (
                queries * keys * width / (queries * keys + queries * width + keys * width),
                4 * group * queries * keys * width / (2 * (2 * group * queries * width + 2 * keys * width))),
            lambda t, s, d, g: [gemm(t, s, d, "bfloat16").intensity, 1 / (1 / (g * t) + 1 / s)]),
        slips={
            "no group": (lambda queries, keys, width, group: _attention(queries, keys, width, group, rows=queries),
                "That is one head alone. The heads of a group use the same keys and values, fetched once for all."),
            "the group on the keys": (lambda queries, keys, width, group: _attention(
                    queries, keys, width, group, rows=queries, columns=group * keys),
                "It is the queries that there are more of in a group; the keys are those of one head."),
            "the group as a factor": (lambda queries, keys, width, group: (
                    _attention(queries, keys, width, group)[0], group * queries * keys / (queries + keys)),
                ("A group shares keys and values, but each of its heads has queries and results of its own: their "
                 "bytes grow with the group.")),
            "the limit": (lambda queries, keys, width, group: (
                    float(width), _attention(queries, keys, width, group)[1]),
                "The head width is the limit for very long sequences; with shorter ones Q and K have bytes, too."),
            "one product": (lambda queries, keys, width, group: _attention(queries, keys, width, group, products=1),
                "Attention makes two products, with the keys and with the values: 4 FLOPs for each pair and width."),
            "square": (lambda queries, keys, width, group: (_attention(queries, keys, width, group)[0], keys / 2),
                "keys / 2 holds for as many queries as keys, without groups; here they differ."),
            "the head does not matter": (lambda queries, keys, width, group: (
                    queries * keys / (queries + keys), _attention(queries, keys, width, group)[1]),
                "Stored scores are written, too: one over the AI has a third part, 1 / width."),
        },
        hints=("Lesson 09, 'Attention scores'. For the first, which product is it, and what are its m, n and k?",
               ("Stored: 1 / (1/m + 1/n + 1/k), in two-byte numbers. Kept: TS / (T + S), where a group of G heads is "
                "like a head with more queries."),
               "Stored: m = queries, n = keys, k = width. Kept: G*T*S / (G*T + S)."),
        right="The first never passes the head width. In the second a group acts like a batch: G for a single query "
              "and many keys.",
    ),
    "09.4": Exercise(
        kind="diagnose", points=2, labels=BOUNDS,
        ask="the bounds of convolution, LayerNorm, attention, small calls and an MLP on several chips",
        reference=_bounds,
        alternatives=(("Memory", "compute-bound", "latency", "memory", "compute", "memory", "latency", "memory",
                       "latency-bound"),
                      lambda: list(_bounds())),
        slips={
            "a convolution is compute-bound": (lambda: _bounds(few="compute"),
                "`few`: im2col moves the windows twice, and 64 filters use them too seldom for it: an AI of 29."),
            "im2col is memory-bound": (lambda: _bounds(many="memory"),
                "`many`: 1024 filters use each window 1024 times, so the AI is 262, right of the A100's 153."),
            "normalisation is memory-bound": (lambda: _bounds(rows="memory"),
                "`rows`: 256 rows are 4.2 MB, less than the H100's memory moves while a kernel is launched."),
            "long sequences are compute-bound": (lambda: _bounds(stored="compute"),
                "`stored`: with scores that are written the AI stays below the head width, 128."),
            "attention is memory-bound": (lambda: _bounds(kept="memory"),
                "`kept`: the AI is half of the sequence, about 2048, and the ridge is 281."),
            "a group is a large batch": (lambda: _bounds(grouped="compute"),
                "`grouped`: a group of 8 makes an AI of 8, and the ridge is 295."),
            "a million is much": (lambda: _bounds(calls="memory"),
                "`calls`: a million additions move 6 MB, and the B200 moves 20 MB in the time of a launch."),
            "the A100 launches as long": (lambda: _bounds(mlp_a100="latency"),
                "`mlp_a100`: a launch costs 5.1 MB there, and the weights are 6 MB."),
            "any chip": (lambda: _bounds(mlp_h100="memory"),
                "`mlp_h100`: the same 6 MB are faster there, faster than a launch, which is worth 8.4 MB."),
        },
        hints=("`chip` above is the lesson's roofline with the launch; chip(name).bound(work) says it for a Work.",
               ("rk.conv2d(.., im2col=True), rk.layernorm, rk.gemm, rk.flash_attention(.., kv_heads=..) have the "
                "counts; the MLP moves its weights once."),
               ("AIs: 29, 262, 1.75, 128, 2072, 8, 0.17, 1, 1; ridges: A100 153, H100 295, H200 206, B200 281. Then "
                "ask whether the bytes take longer than 2.5 us.")),
        right="The same name has three different bounds in this list. Ask for the shape and the chip first.",
    ),
    "09.5": Exercise(
        kind="predict", points=1, factor=1.5, quantity="seconds",
        ask=f"least seconds of a lookup of 2**23 shuffled rows of {WIDTH} float32 numbers on this machine",
        reference=lambda roof, line: either_way(roof, embedding(ROWS, WIDTH, "float32", line)),
        alternatives=(lambda roof, line: roof.seconds(Work(0, ROWS * (4 + line + 16), written=ROWS * 16)),
                      lambda roof, line: ROWS * (4 + line + 16) / roof.bandwidth),
        slips={
            "rows without their lines": (lambda roof, line: _seconds(roof, 1),
                "That is the time in order. Shuffled, each row of 16 bytes brings its whole line along."),
            "arithmetic": (lambda roof, line: ROWS * WIDTH / roof.rate("vector"),
                "No FLOPs are done here: it is the bytes that take the time."),
            "milliseconds": (lambda roof, line: 1e3 * _seconds(roof, line),
                "That is in ms; the kit's unit is the second."),
            "bytes": (lambda roof, line: embedding(ROWS, WIDTH, "float32", line).nbytes,
                "Those are the bytes: divide them by the bandwidth, or ask here.seconds(work)."),
        },
        hints=("09.2 has the bytes; `here` has a bandwidth and a method `seconds` for a Work.",
               "rk.embedding(tokens, width, dtype, line) makes the Work.",
               'here.seconds(rk.embedding(2**23, 4, "float32", line))'),
        right="That is the least that the lines allow, if they streamed.",
        then="09.6 measures it; expect more, for a shuffled line has to be waited for.",
    ),
    "09.6": Exercise(
        kind="measure", points=2, cold=True, ask="the lookup shuffled, then in order, each with its work",
        reference=lambda n, line: _both(n, line, 1),
        slips={
            "lines in both": (lambda n, line: _both(n, line, line),
                "In order the rows of a line follow each other, and it is fetched once for all of them: line=1."),
            "lines in neither": (lambda n, line: _both(n, 1, 1),
                "Shuffled, each row costs its whole line: rk.embedding(.., line=line)."),
            "the other way round": (lambda n, line: _both(n, 1, line),
                "The two are swapped: it is the shuffled one that pays for lines. Is the first run the shuffled one?"),
            "a FLOP for each number": (lambda n, line: _both(n, line, 1, flops=4 * n),
                "The bytes are right, but nothing is computed: a lookup has no FLOPs."),
        },
        hints=("Which ids make the lookup run in order, and which shuffled? Both are given.",
               "rk.measure(lambda: gather(table, ids, found), work=.., cold=True), for each of the two.",
               ("work=rk.embedding(n, 4, 'float32', line) for the shuffled one, and without `line` for the one in "
                "order; runs = [first, second].")),
        right="The same rows, copied in two orders.",
    ),
    "09.7": Exercise(
        kind="build", points=3, out="out", least=0.2,
        ask="bags(table, ids, out): out[i] is the sum of the rows ids[i], without storing those rows",
        inputs=_bags,
        reference=lambda table, ids: table[ids].sum(axis=1),
        alternatives=(lambda table, ids, out: np.sum(table[ids], axis=1, out=out), _one_at_a_time),
        slips={
            "what stood there before": (lambda table, ids, out: out + table[ids].sum(axis=1),
                "What stood in out before is in the sums, too: set each row of out to 0 first."),
            "the mean": (lambda table, ids: table[ids].mean(axis=1),
                "That is the mean of the rows; their sum is asked."),
            "the first row alone": (lambda table, ids: table[ids[:, 0]],
                "Only the first row of each bag is in the result: does the loop over the ids of a bag run?"),
            "the last row alone": (lambda table, ids: table[ids[:, -1]],
                "Only the last row of each bag is left: add to the sum instead of overwriting it."),
            "the last left out": (lambda table, ids: table[ids[:, :-1]].sum(axis=1),
                "The last row of each bag is missing from its sum: does the loop over the ids end too early?"),
            "the first left out": (lambda table, ids: table[ids[:, 1:]].sum(axis=1),
                "The first row of each bag is missing from its sum."),
            "the sum never starts anew": (lambda table, ids: np.cumsum(table[ids].sum(axis=1), axis=0),
                "Each result holds those of the bags before it: start each sum at 0."),
            "the first rows of the table": (lambda table, ids: np.repeat(
                    table[:ids.shape[1]].sum(axis=0, keepdims=True), len(ids), axis=0),
                "Those are the first rows of the table, the same for each bag: look the number up, ids[i, j]."),
        },
        work=lambda table, ids: Work(ids.shape[0] * (ids.shape[1] - 1) * table.shape[1],
                                     ids.nbytes + 4 * table.shape[1] * (ids.size + len(ids)),
                                     written=4 * table.shape[1] * len(ids)),
        big=lambda rng: _bags(rng, 2**15, 512, 2**12, 8),
        hints=("What does table[ids] write that nobody asked for? The sum of a bag fits into a row of out.",
               ("CPU: prange over the bags, inside it a loop over the ids of the bag, innermost one over the numbers "
                "of a row. GPU: an ElementwiseKernel over out, with 'raw T table, raw I ids' and a for loop."),
               "For each i: out[i, :] = 0; for each j: row = table[ids[i, j]]; for each c: out[i, c] += row[c]."),
        right="Read once and never stored, the rows need about a third of array code's traffic, for the same FLOPs.",
    ),
}
