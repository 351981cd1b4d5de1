"""Are the steps of all batches those of the model, whose own is half of a step, and what runs out first?"""

from pathlib import Path

import numpy as np
import pytest

from roofline_kit.batches import Steps, serve
from roofline_kit.datasheets import datasheet
from roofline_kit.links import all_reduce
from roofline_kit.sheet import sheet
from roofline_kit.transformer import Model

CONFIGS = sorted(Path(__file__).with_name("configs").glob("*.json"))
H100 = datasheet("H100 SXM")


def real(name):
    return Model.from_config(Path(__file__).with_name("configs") / f"{name}.json")


LLAMA = real("llama-3-8b")


# ---- The kit's own numbers -------------------------------------------------------------------------------------------

@pytest.mark.parametrize("weights, kv", [("bfloat16", "bfloat16"), ("int4", "int8")])
@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_two_steps_tell_those_of_all_batches(path, weights, kv):
    model = Model.from_config(path)
    steps, batches = Steps(model, 1000, weights, kv, H100), (1, 2, 3, 17, 300, 5000)
    found = [model.breakdown(1, 1000, batch, weights=weights, kv=kv, roof=H100).seconds for batch in batches]
    assert steps.seconds(batches) == pytest.approx(found, rel=1e-9)


@pytest.mark.parametrize("name, chip, chips, weights, kv", [
    ("llama-3-8b", "H100 SXM", 1, "bfloat16", "bfloat16"), ("deepseek-v3", "MI300X", 8, "int4", "int8"),
    ("gemma-2-9b", "L40S", 2, "int8", "float8")])
def test_memory_prefill_and_decode_are_those_of_the_sheet(name, chip, chips, weights, kv):
    model = real(name)
    found, data = serve(model, chip, chips, 4096, 8, weights, kv), sheet(
        model, chip, 4096, 8, weights, kv, chips=chips).data
    assert (found.weights, found.kv, found.memory, found.most) == tuple(
        data[key] for key in ("weight_bytes", "kv_bytes", "memory", "max_batch"))
    assert (found.prefill, found.decode) == (data["prefill"]["seconds"], data["decode"]["seconds"])
    assert found.steps.seconds(8) == pytest.approx(found.decode)


def test_the_link_takes_two_all_reduces_a_layer():
    one, four = (serve(LLAMA, "H100 SXM", chips, 4096, 16) for chips in (1, 4))
    sent = 2 * 32 * all_reduce(2 * 4096 * 16, 4) / 450e9
    assert one.links == (0, 0) and four.links == (pytest.approx(256 * sent), pytest.approx(sent))
    assert four.decode == pytest.approx(one.decode / 4 + sent) == pytest.approx(float(four.steps.seconds(16)[0]))


def test_a_link_without_a_figure_is_left_out():
    found = serve(LLAMA, "MI300X", 8)
    assert found.links is None and found.decode == sheet(LLAMA, "MI300X", chips=8).data["decode"]["seconds"]


# ---- The half, and what runs out -------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", ["llama-3-8b", "llama-2-7b", "gemma-2-9b", "mixtral-8x7b", "deepseek-v3"])
@pytest.mark.parametrize("context", [128, 8192])
def test_from_the_batch_named_on_half_of_a_step_is_each_sequences_own(name, context):
    steps = serve(real(name), "H200 SXM", 8, context).steps
    half = steps.half()
    for batch in (half, half + 1, 10 * half, 1000 * half):
        assert batch * np.diff(steps.seconds((batch, batch + 1)))[0] >= 0.499 * steps.seconds(batch)[0]
    if half > 1:
        assert (half - 1) * np.diff(steps.seconds((half - 1, half)))[0] < steps.seconds(half - 1)[0] / 2


def test_the_half_of_long_contexts_is_where_the_caches_outweigh_the_weights():
    found = serve(LLAMA, "H100 SXM", 1, 8192, 14)
    assert (found.half, found.by, found.most) == (14, "caches", 59)
    assert found.step.kv > found.step.weights > serve(LLAMA, "H100 SXM", 1, 8192, 13).step.kv


def test_the_half_of_short_contexts_is_where_the_products_are_fed():
    found = serve(LLAMA, "H100 SXM", 1, 128)
    assert found.by == "compute" and found.half == pytest.approx(LLAMA.critical_batch(H100), rel=0.05)


@pytest.mark.parametrize("name, how, by", [
    ("llama-3-8b", {"context": 8192}, "caches"), ("llama-3-8b", {"context": 128, "chips": 8}, "link"),
    ("deepseek-v3", {"context": 2**17, "chips": 64}, "experts")])
def test_what_most_of_each_sequences_own_half_is(name, how, by):
    assert serve(real(name), "H100 SXM", **how).by == by


@pytest.mark.parametrize("how, bound", [
    ({"context": 8192}, ""), ({"context": 128}, "compute"), ({"context": 128, "chips": 64}, "link")])
def test_beyond_memory_a_step_is_bound_by_compute_or_the_link(how, bound):
    found = serve(LLAMA, "H100 SXM", **how)
    first, what = found.beyond_memory
    assert what == bound and (first is None) == (not bound)
    for batch in (first - 1, first) if first else (1, 2**24):
        memory, compute, _ = found.roof.times(LLAMA.breakdown(1, how["context"], batch).total)
        longer = max(compute, found.steps.sent * batch)
        assert (longer > memory) == (batch == first)


def test_a_step_within_the_limit_is_the_last_one_that_is():
    steps = Steps(LLAMA, 8192, "bfloat16", "bfloat16", H100)
    within = steps.within(0.05)
    assert steps.seconds(within)[0] <= 0.05 < steps.seconds(within + 1)[0]
    assert (steps.within(1e-6), steps.within(1e9)) == (0, None)


@pytest.mark.parametrize("model, how, first", [
    ("llama-3-8b", {}, "memory"), ("llama-3-8b", {"limit": 0.005}, "latency"),
    ("llama-3-70b", {"chips": 4, "context": 128}, "compute"), ("llama-3-70b", {}, "memory"),
    ("llama-3-8b", {"chips": 8, "context": 128}, "link"),
    ("llama-3-8b", {"chip": "L40S", "chips": 1, "context": 128, "limit": 10}, "memory")])
def test_what_runs_out_first_is_said_first(model, how, first):
    found = serve(real(model), **{"chip": "H100 SXM"} | how)
    assert found.runs_out[0][0] == first
    assert [batch for _, batch in found.runs_out] == sorted(batch for _, batch in found.runs_out)
