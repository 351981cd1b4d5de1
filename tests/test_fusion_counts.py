import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from roofline_kit import kernels, ops
from roofline_kit.cuda import cuda
from roofline_kit.device import device
from roofline_kit.exercises import lab10
from roofline_kit.referee import passes

LESSON = (Path(__file__).parents[1] / "source/lessons/10_fusion.md").read_text("utf-8")
CPU = device("cpu")


def program(name):
    """A function of the lesson, by its name."""
    names = {"np": np, "math": __import__("math")}
    exec(re.search(rf"^def {name}\(.*?(?=^```|^\n*for |^\n*def )", LESSON, re.DOTALL | re.MULTILINE)[0], names)  # noqa: S102
    return names[name]


def counted(name, arguments, rows=16, width=256):
    """The count of the lesson's array code on small arrays; arguments: "m" a matrix, "v" a vector."""
    shapes = {"m": (rows, width), "v": (width,)}
    arrays = [CPU.random(*shapes[kind]) for kind in arguments]
    return passes(lambda *given: program(name)(np, *given), *arrays, *(CPU.random(rows, width) for _ in range(2)))


@pytest.mark.parametrize(("name", "arguments", "operation"), [("softmax", "m", ops.softmax),
                                                              ("layernorm", "mvv", ops.layernorm)])
def test_the_code_of_the_lesson_moves_what_the_kit_counts_for_it(name, arguments, operation):
    work, derived = counted(name, arguments).work, operation(16, 256, fused=False)
    assert (work.nbytes, work.written, work.launches) == (derived.nbytes, derived.written, derived.launches)


def test_the_chain_of_the_lesson_makes_seventeen_passes_and_four_in_one_kernel():
    count = counted("chain", "mvmm")
    assert count.nbytes == 4 * (17 * 16 * 256 + 256) and len(count.steps) == 7
    assert ops.elementwise(16 * 256, inputs=3).nbytes == 4 * 4 * 16 * 256


@pytest.mark.parametrize("block", [1, 5, 32, 100])
def test_flash_attention_in_blocks_gives_the_numbers_of_attention(block):
    q, k, v = (CPU.random(45, 8, dtype="float64") for _ in range(3))
    weights = np.exp(q @ k.T / 8**0.5)
    assert np.allclose(program("flash")(q, k, v, block), weights / weights.sum(1, keepdims=True) @ v)


@pytest.mark.parametrize("pieces", [1, 2, 6])
def test_the_online_sum_is_that_of_two_passes_whatever_the_pieces(pieces):
    row, merged = np.random.default_rng(3).normal(0, 30, 60), program("merged")
    m, s = -np.inf, 0.0
    for piece in np.split(row, pieces):
        m, s = merged(m, s, piece)
    assert (m, s) == (row.max(), pytest.approx(np.exp(row - row.max()).sum()))


@pytest.mark.parametrize("length", [100, 256, 300])
def test_the_cuda_kernel_loads_what_the_formula_with_its_block_says(length):
    arrays = [CPU.random(2, length, 16, dtype="float32") for _ in range(4)]
    kernel = cuda(kernels.source("flash_attention", D=16), "flash_attention", CPU)
    trace = kernel.trace((-(-length // 128), 2), (128,), (*arrays, np.int32(length), np.float32(0.25), np.int32(0)))
    derived = ops.flash_attention(2, length, length, 16, block=128)
    assert (trace.loaded, trace.stored) == (derived.nbytes - derived.written, derived.written)


def besides(name, length):
    """Bytes that Python's own accounts see a kernel take besides its arguments, at most at a time."""
    arrays, kernel = [CPU.random(1, length, 32) for _ in range(4)], CPU.kernel(name)
    kernel(*arrays)
    tracemalloc.start()
    kernel(*arrays)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_standard_attention_stores_its_scores_and_weights_and_flash_attention_none():
    assert besides("attention", 1024) >= 8 * 1024**2
    assert besides("flash_attention", 1024) <= 3 * 4 * 1024 * 32 + 2**14     # q, k and v once more


def test_flash_attention_moves_less_from_a_memory_of_two_squares_of_the_head_size_on():
    for numbers, less in ((2.2, True), (1.8, False)):
        _, flash, standard = lab10._flash(10**6, 64, 1, int(numbers * 64**2))
        assert (flash < standard) is less
