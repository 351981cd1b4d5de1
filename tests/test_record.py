"""Does a recording hold what was measured, survive whatever fails, and cover the course?"""

import json
import os
import platform
from dataclasses import replace

import numpy as np
import pytest
import test_sustained

import roofline_kit as rk
from roofline_kit import jobs
from roofline_kit.doubts import MeasureError
from roofline_kit.record import KEPT, OPERATIONS, TOLERANCE, Operation, record
from roofline_kit.referee import count
from roofline_kit.timing import Run
from roofline_kit.work import Work

CPU = rk.device("cpu")
ODD = {jobs.matmul: (17, 9, 33), jobs.convolution: (5, 12, 7), jobs.embedding: (50, 8, 20), jobs.mlp: (20, 33, 7),
       jobs.gru: (20, 13), jobs.chain: (65,), jobs.empty: ()}
SHAPES = {"gemm": (65,), "attention": (2, 37, 16), "flash attention": (2, 37, 16), "matvec": (37, 64),
          "layernorm": (37, 65), "softmax": (37, 65)}
measured = test_sustained.measured                       # a fixture, found by its name


def small(operation):
    """The same operation at a size that takes no time."""
    sizes = ODD.get(operation.make) or SHAPES.get(operation.name) or SHAPES.get(operation.name.split()[0], (1001,))
    return replace(operation, cpu=() if operation.make is jobs.empty else sizes)


def named(*names):
    return [small(operation) for operation in OPERATIONS if operation.name in names]


def short(path, *operations, **changed):
    return record(path, CPU, lambda share, what: None, operations=operations, limit=0.02, **changed)


def failing(error):
    def make(device, n):
        raise error
    return Operation("broken", "00", make, (3,), (3,))


def wrong(device, n):
    x = device.random(n)
    return jobs.Job(lambda: x, Work(n, 4 * n, name="wrong"), np.full(n, 9.0))


@pytest.fixture
def unlaunched(monkeypatch):
    """Kernels need not be compiled where only their work is asked for."""
    monkeypatch.setattr("roofline_kit.kernels.kernel", lambda name, device: print)


def job_at(name, *sizes):
    return next(operation for operation in OPERATIONS if operation.name == name).make(CPU, *sizes)


def test_what_was_measured_comes_back(measured, tmp_path):
    found = short(tmp_path / "mine.json", *named("triad", "chain of tiny calls"))
    assert found.name == "mine" and found.device == CPU.name and found.failed == ()
    assert [run.name for run in found.runs] == ["triad", "chain of tiny calls"]
    assert [run.cold for run in found.runs] == [True, False]
    assert found.run("triad").work == Work(2002, 12012, written=4004, name="triad")


def test_each_clock_has_its_run(measured, tmp_path):
    found = short(tmp_path / "mine.json", *named("mlp"))
    assert [(run.name, run.cold) for run in found.runs] == [("mlp", False), ("mlp, cold", True)]


@pytest.mark.parametrize("error, said", [
    (MemoryError("no room for it"), "MemoryError: no room for it"),
    (MeasureError("the kernel is broken: mend it.\nlong story"), "the kernel is broken: mend it."),
    (AttributeError("no kernel"), "AttributeError: no kernel")])
def test_an_operation_that_fails_leaves_its_sentence_and_the_others(measured, tmp_path, error, said):
    found = short(tmp_path / "mine.json", failing(error), *named("triad"))
    assert found.failed == (("broken", said),) and [run.name for run in found.runs] == ["triad"]
    assert said in repr(found)


def test_a_call_that_fails_only_under_the_clock_leaves_its_sentence(measured, tmp_path, monkeypatch):
    def no_clock(*arguments, **options):
        raise MeasureError("no clock.")

    monkeypatch.setattr("roofline_kit.record.measure", no_clock)
    assert short(tmp_path / "mine.json", *named("triad")).failed == (("triad", "no clock."),)


def test_a_wrong_result_is_not_measured(measured, tmp_path):
    found = short(tmp_path / "mine.json", Operation("wrong", "00", wrong, (5,), (5,)))
    assert found.runs == () and "not measured" in found.failed[0][1]


def test_nothing_is_measured_where_no_file_can_be_written(measured, tmp_path):
    for path in (tmp_path / "none" / "mine.json", tmp_path):
        with pytest.raises(ValueError, match="(?s)^no file can be written in .*another folder.$|^.* is a folder: .*$"):
            short(path, *named("triad"))
    assert measured == [] and list(tmp_path.iterdir()) == []


def test_a_recording_that_is_stopped_leaves_the_old_file(measured, tmp_path):
    path = tmp_path / "mine.json"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        short(path, failing(KeyboardInterrupt()))
    assert path.read_text() == "old" and {entry.name for entry in tmp_path.iterdir()} <= {"mine.json", "cache"}


def test_the_kept_card_is_used_unless_a_fresh_one_is_wanted(measured, tmp_path):
    short(tmp_path / "a.json")
    short(tmp_path / "b.json")
    assert len(measured) == 1
    short(tmp_path / "c.json", fresh=True)
    assert len(measured) == 2


def test_nothing_tells_whose_machine_it_was(measured, tmp_path):
    short(tmp_path / "mine.json", *named("triad"))
    text = (tmp_path / "mine.json").read_text()
    assert CPU.uid not in text and '"uid"' not in text and platform.release() not in text
    assert platform.node() not in text and str(tmp_path) not in text and os.path.expanduser("~") + "/" not in text


def test_few_samples_stay_as_they_are_and_many_keep_their_quartiles(measured, tmp_path, monkeypatch):
    times = np.random.default_rng(0).uniform(1, 2, 1000)
    run = Run("triad", float(np.median(times)), 0.3, tuple(times), Work(1, 1, name="triad"), True)
    monkeypatch.setattr("roofline_kit.record.measure", lambda *a, **b: run)
    found = short(tmp_path / "mine.json", *named("triad")).run("triad")
    assert len(found.samples) == KEPT and found.quartiles == pytest.approx(run.quartiles)
    assert found.low == run.low and found.seconds == pytest.approx(np.median(found.samples))
    assert json.loads((tmp_path / "mine.json").read_text())["runs"][0]["n"] == 1000


def test_progress_grows_to_its_end(measured, tmp_path):
    seen = []
    record(tmp_path / "mine.json", CPU, lambda share, what: seen.append(share), operations=named("triad"), limit=0.02)
    assert seen == sorted(seen) and seen[-1] == 1.0 and 0 < seen[0] < 1


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if one.cpu is not None], ids=lambda one: one.name)
def test_the_first_call_of_each_operation_gives_the_expected_numbers(operation):
    job = small(operation).make(CPU, *small(operation).cpu)
    assert job.error() <= TOLERANCE[job.work.dtype]
    assert (job.expected is None) == (operation.name == "empty launch")


def test_a_job_notices_a_result_that_is_wrong():
    x = CPU.random(100)
    assert jobs.Job(lambda: 1.01 * x, Work(1, 1), jobs.exact(x)).error() == pytest.approx(0.01, rel=1e-3)
    assert np.isnan(jobs.Job(lambda: x * np.nan, Work(1, 1), jobs.exact(x)).error())


# lesson: what it must be able to show beside a learner's own points
NEEDED = {
    "00": {"copy", "triad", "empty launch"}, "01": {"dot", "copy", "triad"}, "02": {"linear, 1 row", "gemm balanced"},
    "03": {"gemm balanced", "gemm tall", "gemm thin"}, "04": {"linear, 1 row", "axpy", "dot", "add", "layernorm"},
    "05": {"linear, 1 row", "linear, 16 rows", "linear, 128 rows", "linear, 1024 rows"},
    "06": {"gemm naive", "gemm tiled", "gemm register-tiled", "gemm Tensor Core"},
    "07": {"triad", "add", "gemm balanced"}, "08": {"gemm large"},
    "09": {"gemm large", "convolution", "layernorm", "softmax", "embedding", "attention", "mlp",
           "chain of tiny calls"},
    "10": {"layernorm", "layernorm unfused", "softmax", "softmax three passes", "softmax unfused", "attention",
           "flash attention"},
    "11": {"gemm large"}, "12": {"matvec", "matvec bfloat16", "matvec int8", "matvec int4", "linear, 16 rows"},
    "13": {"mlp", "gru", "chain of tiny calls", "empty launch"}}


@pytest.mark.parametrize("lesson", NEEDED)
def test_each_lesson_that_measures_finds_its_operations(lesson):
    assert NEEDED[lesson] <= {operation.name for operation in OPERATIONS if lesson in operation.lessons.split()}


def test_every_operation_belongs_to_a_lesson_and_has_a_name_of_its_own():
    names = [operation.name for operation in OPERATIONS]
    assert len(set(names)) == len(names) and all(operation.lessons for operation in OPERATIONS)


def test_three_products_of_a_kind_of_device_do_the_same_flops():
    for kind in ("cpu", "gpu"):
        sizes = [one.sizes(kind) for one in OPERATIONS if one.name in ("gemm balanced", "gemm tall", "gemm thin")]
        assert len({m * n * k for m, n, k in sizes}) == 1 and len(sizes) == 3


@pytest.mark.parametrize("name, sizes, work", [
    ("dot", (100,), rk.dot(100)), ("axpy", (100,), rk.axpy(100)), ("add", (100,), rk.elementwise(100)),
    ("gemm tall", (7, 5, 3), rk.gemm(7, 5, 3)), ("gemm tiled", (6,), rk.gemm(6, 6, 6)),
    ("layernorm", (7, 5), rk.layernorm(7, 5)), ("layernorm unfused", (7, 5), rk.layernorm(7, 5, fused=False)),
    ("softmax", (7, 5), rk.softmax(7, 5)), ("softmax three passes", (7, 5), rk.softmax(7, 5)),
    ("softmax unfused", (7, 5), rk.softmax(7, 5, fused=False))])
def test_works_are_those_of_the_kit(unlaunched, name, sizes, work):
    assert job_at(name, *sizes).work == work


def test_standard_attention_is_its_three_pieces(unlaunched):
    heads, s, d = 3, 8, 4
    pieces = rk.gemm(s, s, d) + rk.elementwise(s * s, 1) + rk.softmax(s, s) + rk.gemm(s, d, s)
    work, through = job_at("attention", heads, s, d).work, heads * 4 * s * s
    assert work.flops == heads * pieces.flops and work.aside == heads * pieces.aside
    assert work.nbytes == heads * pieces.nbytes - 2 * through   # the scores are scaled where they are made


def test_flash_attention_moves_its_inputs_and_its_output_alone(unlaunched):
    flash, standard = (job_at(name, 3, 8, 4).work for name in ("flash attention", "attention"))
    assert flash.flops == standard.flops and flash.nbytes == 4 * 4 * 3 * 8 * 4 and flash.written * 4 == flash.nbytes


def _product(w, x, row, n):
    total = 0
    for i in range(n):
        total = total + w[row, i] * x[i]
    return total


def _mlp(x, w1, b1, w2, b2, out):
    hidden = [max(_product(w1, x, row, 3) + b1[row], 0) for row in range(5)]
    for row in range(2):
        total = 0
        for i, value in enumerate(hidden):
            total = total + w2[row, i] * value
        out[row] = total + b2[row]


def _gru(x, h, w, u, b, out):
    def sigmoid(number):
        return 1 / (1 + (-number).exp())

    for i in range(2):
        from_x, from_h = ([_product(m, v, gate + i, n) for gate in (0, 2, 4)] for m, v, n in ((w, x, 3), (u, h, 2)))
        r, z = (sigmoid(from_x[g] + b[0, 2 * g + i] + from_h[g] + b[1, 2 * g + i]) for g in (0, 1))
        n = (from_x[2] + b[0, 4 + i] + r * (from_h[2] + b[1, 4 + i])).exp()         # stands for tanh: it is one, too
        out[i] = (1 - z) * n + z * h[i]


def _matvec_int8(w, scale, x, out):
    for row in range(4):
        out[row] = scale[row] * _product(w, x, row, 3)


@pytest.mark.parametrize("name, sizes, loop, shapes", [
    ("mlp", (3, 5, 2), _mlp, {"x": 3, "w1": (5, 3), "b1": 5, "w2": (2, 5), "b2": 2, "out": 2}),
    ("gru", (3, 2), _gru, {"x": 3, "h": 2, "w": (6, 3), "u": (6, 2), "b": (2, 6), "out": 2})])
def test_works_of_small_models_are_what_the_referee_counts(unlaunched, name, sizes, loop, shapes):
    work, counted = job_at(name, *sizes).work, count(loop, **shapes).work
    assert (work.flops, work.nbytes, work.written) == (counted.flops, counted.nbytes, counted.written)


@pytest.mark.parametrize("name, weights", [("matvec", 4 * 96), ("matvec bfloat16", 2 * 96), ("matvec int8", 96 + 3 * 4),
                                           ("matvec int4", 96 / 2 + 3 * 2)])
def test_a_matvec_moves_its_weights_with_their_scales_and_two_vectors(unlaunched, name, weights):
    work = job_at(name, 3, 32).work
    assert work.nbytes == weights + 4 * (32 + 3) and work.written == 4 * 3
    assert work.flops == 2 * 96 + (3 if "int" in name else 0)


def test_int8_weights_cost_what_the_referee_counts(unlaunched):
    assert job_at("matvec int8", 4, 3).work.flops == count(_matvec_int8, w=(4, 3), scale=4, x=3, out=4).flops


def test_im2col_writes_nine_times_and_a_product_reads_that_again(unlaunched):
    work = job_at("convolution", 3, 6, 5).work
    assert work.flops == 2 * 5 * 16 * 27 and work.launches == 2
    assert work.nbytes == 4 * (3 * 36 + 2 * 27 * 16 + 5 * 27 + 5 * 16)


def test_products_by_different_kernels_have_one_size():
    own = [one for one in OPERATIONS if one.name in ("gemm naive", "gemm tiled", "gemm register-tiled")]
    assert len(own) == 3 and len({one.cpu for one in own}) == len({one.gpu for one in own}) == 1


def test_an_embedding_moves_its_rows_twice_and_its_ids_once(unlaunched):
    work = job_at("embedding", 9, 5, 4).work
    assert work == Work(0, 4 * (4 + 2 * 4 * 5), written=4 * 4 * 5, name="embedding")
