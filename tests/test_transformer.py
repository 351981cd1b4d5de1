"""Models against published counts, against loops that run, and against the wrong models that others have shipped."""

from itertools import combinations, product
from math import inf
from pathlib import Path

import pytest

from roofline_kit import ops, referee
from roofline_kit.datasheets import datasheet
from roofline_kit.forward import pairs
from roofline_kit.roofline import Roofline
from roofline_kit.serving import paged_waste, speculative_speedup
from roofline_kit.transformer import Model
from roofline_kit.weights import distinct

CONFIGS = Path(__file__).with_name("configs")
A6000 = Roofline(peak=155e12, bandwidth=768e9, dtype="float16", name="A6000")
H100 = datasheet("H100 SXM")
TINY = Model(layers=2, width=8, heads=4, hidden=12, vocab=20, kv_heads=2, name="tiny")
FLOAT = {"weights": "float32", "kv": "float32", "dtype": "float32"}


def real(name):
    return Model.from_config(CONFIGS / f"{name}.json")


def products(work):
    """AI of the products alone: without the softmax and the scaling."""
    return (work.flops - work.aside) / work.nbytes


# ---- Published answers -----------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name, params, active", [
    ("llama-3-8b", 8.03e9, None), ("llama-3-70b", 70.55e9, None), ("mistral-7b", 7.24e9, None),
    ("mixtral-8x7b", 46.7e9, 12.9e9), ("deepseek-v2", 236e9, 21e9 * 1.01), ("deepseek-v3", 671e9, None)])
def test_parameters_are_those_the_makers_state(name, params, active):
    model = real(name)
    assert model.params == pytest.approx(params, rel=0.01)
    assert model.active_params == pytest.approx(active or model.active_params, rel=0.01)


def test_deepseek_v3_activates_37_billion_between_a_row_of_the_embedding_and_all_of_it():
    model = real("deepseek-v3")
    without = model.active_params - model.vocab * model.width
    assert without == pytest.approx(36.7e9, rel=0.01)            # the maker's table of weights; its paper says 37e9
    assert without < 37e9 < model.active_params and model.active_params == pytest.approx(37e9, rel=0.016)


@pytest.mark.parametrize("name, exact", [
    ("llama-3-8b", 8_030_261_248), ("llama-3-70b", 70_553_706_496), ("llama-2-7b", 6_738_415_616),
    ("llama-2-13b", 13_015_864_320), ("llama-3.1-405b", 405_853_388_800), ("mistral-7b", 7_241_732_096),
    ("mixtral-8x7b", 46_702_792_704), ("qwen2.5-7b", 7_615_616_512), ("qwen2.5-72b", 72_706_203_648),
    ("qwen3-8b", 8_190_735_360), ("gemma-2-9b", 9_241_705_984), ("phi-3-mini", 3_821_079_552),
    ("gpt2", 124_439_808)])
def test_parameters_are_those_in_the_published_weights_to_the_last_one(name, exact):
    assert real(name).params == exact


@pytest.mark.parametrize("name, dtype, expected", [
    ("llama-3-70b", "int8", 163_840), ("llama-2-13b", "bfloat16", 819_200), ("opt-13b", "float16", 819_200),
    ("llama-3-8b", "bfloat16", 131_072), ("deepseek-v3", "bfloat16", 70_272), ("qwen2.5-72b", "bfloat16", 327_680),
    ("llama-3.1-405b", "bfloat16", 516_096)])
def test_kv_bytes_a_token_are_the_published_ones(name, dtype, expected):
    assert real(name).kv_bytes_per_token(dtype) == expected


@pytest.mark.parametrize("batch, milliseconds", [(1, 4.98), (8, 12.13), (16, 20.30), (32, 36.65), (64, 69.33)])
def test_a_13b_model_on_8_chips_takes_the_published_steps(batch, milliseconds):
    model, eight = real("llama-2-13b"), Roofline(peak=8 * 197e12, bandwidth=8 * 0.82e12, dtype="bfloat16")
    assert 1e3 * (26e9 + batch * 6.7e9) / eight.bandwidth == pytest.approx(milliseconds, abs=0.005)
    assert model.weight_bytes() == pytest.approx(26e9, rel=0.002)
    assert model.kv_bytes(8192) == pytest.approx(6.7e9, rel=0.002)
    assert 1e3 * eight.times(model.decode_step(8192, batch)).memory == pytest.approx(milliseconds, rel=0.01)


@pytest.mark.parametrize("acceptance, drafted, speedup, arithmetic", [
    (0.6, 2, 1.96, 1.53), (0.7, 3, 2.53, 1.58), (0.8, 2, 2.44, 1.23), (0.8, 5, 3.69, 1.63), (0.9, 2, 2.71, 1.11),
    (0.9, 10, 6.86, 1.60)])
def test_speculative_decoding_gains_what_its_paper_prints(acceptance, drafted, speedup, arithmetic):
    gained = speculative_speedup(acceptance, drafted)
    assert gained == pytest.approx(speedup, abs=0.005)
    assert (drafted + 1) / gained == pytest.approx(arithmetic, abs=0.005)     # tokens checked for one that is kept


def test_attention_has_the_published_intensities():
    prompt = real("llama-2-7b").breakdown(4096)["attention"].work
    assert 2 * products(prompt) == pytest.approx(4096 / 2, rel=1e-3)          # the mask leaves half of the pairs
    assert products(real("llama-2-7b").breakdown(1, 8192)["attention"].work) == pytest.approx(1, rel=1e-3)
    assert products(real("llama-3-8b").breakdown(1, 8192)["attention"].work) == pytest.approx(4, rel=1e-3)


def llm_viewer(tokens, context):
    return real("llama-2-7b").breakdown(tokens, context, roof=A6000, dtype="float16", flash=False)


def test_a_prefill_has_the_intensities_of_llm_viewer():
    found = llm_viewer(2048, None)
    intensities = {"q_proj": 1024, "o_proj": 1024, "gate_proj": 1215, "down_proj": 1215, "softmax": 1.25, "norm": 1.75}
    for name, intensity in intensities.items():
        assert found[name].work.intensity == pytest.approx(intensity, rel=5e-4)
        assert A6000.bound(found[name].work) == ("compute" if intensity > 1000 else "memory")
    assert products(found["qk_matmul"].work) == pytest.approx(114, abs=0.5)
    assert [found[name].work.nbytes for name in ("q_proj", "softmax")] == pytest.approx([67e6, 537e6], rel=5e-3)


def test_a_decode_step_has_the_intensities_of_llm_viewer_and_reads_the_gains_of_its_norms():
    found = llm_viewer(1, 2048)
    for name, intensity in {"q_proj": 1, "gate_proj": 1, "softmax": 1.25}.items():
        assert found[name].work.intensity == pytest.approx(intensity, abs=5e-4)
    assert [round(products(found[name].work), 2) for name in ("qk_matmul", "sv_matmul")] == [0.99, 0.99]
    norm = found["norm"].work
    assert norm.flops / (norm.nbytes - 2 * 4096) == pytest.approx(1.75, abs=5e-4)
    assert all(A6000.bound(part.work) == "memory" for part in found.parts)


def test_an_addition_reads_both_inputs_where_llm_viewer_counts_one():
    add = llm_viewer(2048, None)["add"].work
    assert add.intensity == pytest.approx(1 / 6)
    assert add.flops / (add.nbytes - 2 * 2048 * 4096) == 0.25


def test_training_70_billion_parameters_takes_the_published_days():
    assert 6 * 70e9 * 15e12 / (1024 * 989.5e12 * 0.5) / 86400 == pytest.approx(143.93, abs=0.005)
    model = real("llama-3-70b")
    forward = model.prefill(2048, scored=2048).flops
    assert forward == pytest.approx(2 * (model.params - model.vocab * model.width) * 2048, rel=0.03)


def test_no_measured_decode_of_gpt_fast_beats_its_bound():
    measured, a100, gains = {"bfloat16": 104.9, "int8": 155.6, "int4": 196.8}, datasheet("A100 80GB SXM"), []
    for dtype, rate in measured.items():
        bound = 1 / real("llama-2-7b").breakdown(1, 200, roof=a100, weights=dtype).seconds
        assert 0.3 < rate / bound < 1
        gains.append(bound)
    assert gains[2] / gains[0] > 2 * measured["int4"] / measured["bfloat16"] * 0.85    # fewer bytes, not as fast


# ---- Counted by execution --------------------------------------------------------------------------------------------

def grouped(q, k, v, out):
    """Attention of one token, heads in groups that share keys and values; the scores stay on the chip."""
    heads, width = q.shape
    shared, keys, _ = k.shape
    for g in range(shared):
        held = [([k[g, j, d] for d in range(width)], [v[g, j, d] for d in range(width)]) for j in range(keys)]
        for h in range(g * heads // shared, (g + 1) * heads // shared):
            attend([q[h, d] for d in range(width)], *zip(*held), out, h)


def latent(q, cache, out):
    """The same from a latent: its numbers are the key, the first of them the value, read once for all heads."""
    held = [[cache[j, d] for d in range(cache.shape[1])] for j in range(cache.shape[0])]
    for h in range(q.shape[0]):
        values = [key[:out.shape[1]] for key in held]
        attend([q[h, d] for d in range(q.shape[1])], held, values, out, h)


def attend(query, keys, values, out, row):
    scores, largest, total = [], -1e30, 0
    for key in keys:
        score = 0
        for a, b in zip(query, key):
            score += a * b
        scores.append(score * len(query)**-0.5)
    for score in scores:
        largest = max(largest, score)
    powers = [(score - largest).exp() for score in scores]
    for power in powers:
        total += power
    powers = [power / total for power in powers]
    for d in range(len(values[0])):
        mixed = 0
        for power, value in zip(powers, values):
            mixed += power * value[d]
        out[row, d] = mixed


def counts(work):
    return work.flops, work.nbytes, work.written


def test_grouped_attention_counts_what_its_loops_do():
    counted = referee.count(grouped, q=(4, 2), k=(2, 5, 2), v=(2, 5, 2), out=(4, 2)).work
    assert counts(counted) == counts(TINY.breakdown(1, 5, **FLOAT)["attention"].work)


def test_latent_attention_counts_what_its_loops_do():
    model = Model(layers=1, width=8, heads=2, hidden=8, vocab=8, latent=(0, 3, 2, 2, 2))
    counted = referee.count(latent, q=(2, 5), cache=(4, 5), out=(2, 3)).work
    assert counts(counted) == counts(model.breakdown(1, 4, **FLOAT)["attention"].work)


def test_distinct_experts_are_the_mean_over_all_ways_to_choose():
    chosen = list(combinations(range(5), 2))
    found = [len(set().union(*ways)) for ways in product(chosen, repeat=3)]
    assert distinct(5, 2, 3) == pytest.approx(sum(found) / len(found))


@pytest.mark.parametrize("tokens, context, window", [(1, 9, None), (4, 9, None), (9, 9, 3), (4, 9, 20), (5, 9, 6)])
def test_pairs_are_those_that_the_mask_leaves(tokens, context, window):
    seen = sum(i - (window or inf) < j <= i for i in range(context - tokens, context) for j in range(context))
    assert pairs(tokens, context, window) == seen


def test_expected_tokens_of_speculative_decoding_are_the_mean_over_all_outcomes():
    mean = 0.0
    for kept in product((True, False), repeat=3):
        first = kept.index(False) if False in kept else 3
        mean += 0.7**sum(kept) * 0.3**(3 - sum(kept)) * (first + 1)
    assert speculative_speedup(0.7, 3) == pytest.approx(mean)
    assert speculative_speedup(0.7, 3, cost=0.1, verify=1.2) == pytest.approx(mean / 1.5)


# ---- Laws ------------------------------------------------------------------------------------------------------------

def test_attention_is_that_of_the_operations():
    found = TINY.breakdown(6, batch=3, **FLOAT)["attention"].work
    assert found.named("") == ops.flash_attention(4, 6, 6, 2, kv_heads=2, causal=True, batch=3).named("")
    apart = TINY.breakdown(6, batch=3, flash=False, **FLOAT)
    three = sum(apart[name].work for name in ("qk_matmul", "softmax", "sv_matmul"))
    together = ops.attention(4, 6, 6, 2, kv_heads=2, batch=3)
    assert (*counts(three), three.launches) == (*counts(together), together.launches)


@pytest.mark.parametrize("name", ["llama-3-8b", "gemma-2-9b", "gpt2", "falcon-7b"])
def test_a_decode_step_streams_all_matrices_once_and_the_head_with_them(name):
    model = real(name)
    tables, small = model.vocab * model.width, model.weight_bytes() - model.breakdown(1, 8).weights
    assert small == pytest.approx(0 if model.tied else 2 * tables, abs=0.013 * model.weight_bytes())
    assert model.breakdown(1, 8)["lm_head"].weights == 2 * tables
    flops = sum(part.total.flops for part in model.breakdown(1, 8).parts if part.weights)
    assert flops == pytest.approx(model.breakdown(1, 8).weights, rel=1e-3)             # 2 FLOPs for 2 bytes


def test_bytes_of_a_step_are_weights_and_cache_and_little_else():
    model = real("llama-3-8b")
    found = model.breakdown(1, 8192, batch=16)
    assert found.kv == model.kv_bytes(8192, 16) and found.activations < 0.01 * found.total.nbytes
    assert found.weights + found.kv + found.activations == found.total.nbytes
    assert found.total == model.decode_step(8192, 16).named(found.title)


def test_grouped_heads_divide_the_kv_traffic_of_flash_attention():
    shared = real("llama-3-8b").breakdown(1, 8192)["attention"]
    assert shared.kv == 2 * 2 * 8 * 128 * 8192 and shared.work.nbytes < 1.001 * shared.kv
    assert real("llama-2-7b").breakdown(1, 8192)["attention"].kv == 4 * shared.kv


def test_a_latent_is_read_once_and_not_as_keys_and_as_values():
    model = real("deepseek-v3")
    assert model.breakdown(1, 4096, batch=8).kv == model.kv_bytes(4096, 8) == 8 * 4096 * 61 * (512 + 64) * 2
    assert products(model.breakdown(1, 65536)["attention"].work) == pytest.approx(2 * 128 * 1088 / 1152, rel=0.01)


def test_latent_attention_of_a_prompt_expands_keys_and_values():
    model = real("deepseek-v3")
    prompt, step = model.breakdown(4096), model.breakdown(1, 4096)
    pair = pairs(4096, 4096) * 128
    assert prompt["attention"].work.flops == pair * (2 * 192 + 2 * 128 + 6)
    assert step["attention"].work.flops == 4096 * 128 * (2 * 576 + 2 * 512 + 6)
    assert prompt["kv_b_proj"].work.flops == 4096 * step["kv_b_proj"].work.flops


def test_an_absorbed_product_goes_from_each_head_to_the_latent_and_back():
    model = real("deepseek-v3")
    absorbed = model.breakdown(1, 4096, batch=3)["kv_b_proj"].work
    there, back = (128 * sum(sides) * 3 * 2 for sides in ((128, 512), (512, 128)))
    assert absorbed.nbytes == there + back + 2 * 512 * 128 * (128 + 128)
    assert (absorbed.written, absorbed.launches) == (2 * 3 * 128 * (512 + 128), 2)


def test_the_head_scores_the_last_token_of_a_prompt_and_each_of_a_checked_draft():
    one = 2 * TINY.width * TINY.vocab
    asked = TINY.breakdown(6), TINY.breakdown(6, scored=6), TINY.breakdown(3, 9), TINY.breakdown(1, 9, batch=4)
    assert [found["lm_head"].work.flops // one for found in asked] == [1, 6, 3, 4]
    assert TINY.decode_step(9, drafted=2).flops == asked[2].total.flops
    assert TINY.prefill(3, past=6).flops == asked[2].total.flops - 2 * one


def test_a_sliding_window_caps_cache_and_traffic():
    model = real("mistral-7b")
    assert model.kv_bytes(4096) == model.kv_bytes(32768) == model.breakdown(1, 32768).kv
    gemma = real("gemma-3-4b")
    assert gemma.kv_bytes(32768) == (5 * 32768 + 29 * 1024) * 2 * 4 * 256 * 2
    assert gemma.kv_bytes_per_token(context=32768) < 0.2 * gemma.kv_bytes_per_token()
    assert gemma.breakdown(1, 32768).kv == gemma.kv_bytes(32768)


def test_experts_are_read_as_the_batch_needs_them():
    model = real("mixtral-8x7b")
    one, many = model.breakdown(1, 512), model.breakdown(1, 512, batch=512)
    assert one.weights == pytest.approx(2 * (model.active_params - model.vocab * model.width), rel=1e-3)
    assert many.weights == pytest.approx(model.weight_bytes() - 2 * model.vocab * model.width, rel=1e-3)
    assert many["experts.up_proj"].work.flops == 512 * one["experts.up_proj"].work.flops == 512 * 2 * 2 * 4096 * 14336
    assert model.experts_read(1) == 2 and model.experts_read(4) == pytest.approx(8 * (1 - 0.75**4))


def test_verifying_drafts_raises_the_intensity_to_their_number_and_stays_left_of_the_ridge():
    model = real("llama-3-8b")
    for drafted in (0, 4, 7):
        assert model.decode_step(64, drafted=drafted).intensity == pytest.approx(drafted + 1, rel=0.02)
    assert H100.bound(model.decode_step(64, drafted=7)) == "memory"


def test_a_batch_reuses_weights_and_never_the_cache():
    model = real("llama-3-8b")
    for batch in (1, 16, 256):
        found = model.breakdown(1, 8192, batch)
        assert found["q_proj"].work.intensity == pytest.approx(batch, rel=0.12)
        assert products(found["attention"].work) == pytest.approx(4, rel=1e-3)


def test_chunks_do_the_attention_of_the_whole_prompt():
    model = real("llama-3-8b")
    whole = model.breakdown(2048)["attention"].work.flops
    assert sum(model.breakdown(512, past)["attention"].work.flops for past in (512, 1024, 1536, 2048)) == whole
    assert model.prefill(512, past=1536).nbytes < model.prefill(2048).nbytes


def test_quantised_weights_keep_their_scales_and_two_bytes_outside_the_layers():
    inside = 4 * 2 * (8 * 8 + 8 * 4 + 8 * 4 + 8 * 8 + 2 * 8 * 12 + 12 * 8) // 4
    rows, kept = 2 * (8 + 4 + 4 + 8 + 12 + 12 + 8), 2 * (2 * 20 * 8 + 5 * 8)
    assert TINY.weight_bytes("int8") == inside + 4 * rows + kept
    assert TINY.weight_bytes("int4", group=8) == inside / 2 + 2 * (rows + 2 * 8) + kept        # down: 12 in two groups
    assert TINY.weight_bytes("float4", group=4) == inside / 2 + 2 * (2 * 48 + 3 * 8) + kept
    assert TINY.weight_bytes("float32") == 2 * TINY.weight_bytes() == 4 * TINY.params


def test_a_step_moves_what_the_quantised_weights_take():
    model = real("llama-3-8b")
    for dtype in ("int8", "int4", "float8"):
        saved = model.decode_step(512).nbytes - model.decode_step(512, weights=dtype).nbytes
        assert saved == model.weight_bytes() - model.weight_bytes(dtype)
    halved = model.decode_step(8192, 8, kv="float8").nbytes - model.decode_step(8192, 8).nbytes
    assert halved == -(model.kv_bytes(8192, 8) + model.kv_bytes(1, 8)) / 2


def test_the_critical_batch_is_where_products_change_sides():
    model, batch = real("llama-3-8b"), real("llama-3-8b").critical_batch(H100)
    assert 295 < batch < 1.2 * 295
    for step, bound in ((batch, "compute"), (batch - 1, "memory")):
        matrices = [part.total for part in model.breakdown(1, 1, step).parts if part.name.endswith(("proj", "head"))]
        assert H100.bound(sum(matrices)) == bound
    assert model.critical_batch(H100, weights="int8") < 0.6 * batch


def test_a_long_cache_or_a_small_model_leaves_no_critical_batch():
    model = real("llama-3-8b")
    assert model.critical_batch(H100, context=8192) == inf and TINY.critical_batch(H100) == inf
    assert real("mixtral-8x7b").critical_batch(H100) > 3 * model.critical_batch(H100)


def test_h200_steps_faster_than_h100_by_its_own_bandwidth():
    model, h200 = real("llama-3-70b"), datasheet("H200")
    slow, fast = (model.breakdown(1, 4096, 8, roof=roof).seconds for roof in (H100, h200))
    assert slow / fast == pytest.approx(4.8 / 3.35, rel=1e-3)
    assert model.critical_batch(h200) < model.critical_batch(H100)


def test_a_gigabyte_is_no_gibibyte():
    model, free = real("llama-3-8b"), 80e9 - real("llama-3-8b").weight_bytes()
    assert model.max_batch(80e9, 8192) == int(free // 2**30) == 59
    assert model.max_batch(80 * 2**30, 8192) == 65
    assert model.max_batch(80e9, 8192, reserve=5e9) == 54 and real("llama-3-70b").max_batch(80e9, 8192) == 0


def test_operations_one_by_one_never_take_less_than_their_sum():
    for tokens, context, batch in ((2048, None, 1), (1, 8192, 64), (16, 1024, 4)):
        found = real("mixtral-8x7b").breakdown(tokens, context, batch, roof=H100)
        assert found.seconds >= H100.seconds(found.total) * (1 - 1e-12)


def test_a_breakdown_is_a_table_with_a_total():
    lines = repr(real("llama-3-8b").breakdown(1, 8192, roof=H100)).splitlines()
    assert lines[2].split() == ["operation", "calls", "FLOP", "B", "FLOP/B", "bound", "time"]
    assert any(line.startswith("lm_head") for line in lines) and lines[-2].startswith("total")
    assert len(set(map(len, lines[2:-1]))) == 1 and "bound" not in repr(TINY.breakdown(1, 8))


def test_blocks_waste_less_than_reserved_rows():
    assert paged_waste([16, 32]) == 0 and paged_waste(17) == pytest.approx(1 - 17 / 32)
    assert paged_waste([100, 400, 900]) == pytest.approx(1 - 1400 / (112 + 400 + 912))
    assert paged_waste([100, 400, 900], reserved=2048) == pytest.approx(1 - 1400 / 6144)


# ---- What is refused -------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("change, says", [
    ({"kv_heads": 3}, "cannot share"), ({"heads": 3}, "give head_dim"), ({"layers": 0}, "layers is 0"),
    ({"windowed": 1}, "window of None"), ({"experts": (4, 5, 8)}, "more than there are: 4"),
    ({"experts": (4, 2, 8, 0, 3)}, "3 dense layers"), ({"experts": 8}, r"sizes are asked: \(count, used"),
    ({"experts": (8, 2)}, "sizes are asked"), ({"latent": 512}, r"sizes are asked: \(q_rank"),
    ({"latent": (0, 3, 2, 2, 0)}, "latent.value"), ({"bias": "q_proj"}, "tuple of products: q_proj"),
    ({"bias": ("x_proj",)}, "x_proj"), ({"bias": None}, "bias is None"), ({"norms": -1}, "norms is -1"),
    ({"positions": "x"}, "positions is 'x'"), ({"gated": "no"}, "True or False"), ({"tied": 2}, "True or False")])
def test_a_model_that_cannot_be_is_refused(change, says):
    sizes = {"layers": 2, "width": 8, "heads": 4, "hidden": 12, "vocab": 20} | change
    with pytest.raises(ValueError, match=says):
        Model(**sizes)


@pytest.mark.parametrize("call, says", [
    (lambda: TINY.breakdown(9, 8), "counts them too"), (lambda: TINY.decode_step(0), "context is 0"),
    (lambda: TINY.breakdown(1, 8)["q"], "no operation 'q'"), (lambda: TINY.breakdown(1, 8).seconds, "needs a machine"),
    (lambda: TINY.decode_step(8, weights="fp8"), "unknown dtype"), (lambda: TINY.kv_bytes(8, -1), "batch is -1"),
    (lambda: speculative_speedup(1.1, 2), "between 0 and 1"), (lambda: speculative_speedup(0.5, 2, verify=0), "verify"),
    (lambda: TINY.breakdown(1, 8, roof="H100 SXM"), "roofline is needed"), (lambda: TINY.kv_bytes(-1), "context is -1"),
    (lambda: TINY.critical_batch("H100 SXM"), "roofline is needed"),
    (lambda: TINY.weight_bytes("int4", group=0), "group is 0"), (lambda: paged_waste(None), "a length is None"),
    (lambda: paged_waste([]), "no sequence"), (lambda: paged_waste([9], reserved=8), "does not fit")])
def test_a_question_that_makes_no_sense_is_refused_in_one_sentence(call, says):
    with pytest.raises(ValueError, match=says):
        call()
