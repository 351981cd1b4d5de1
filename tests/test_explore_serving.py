"""Does the explorer of serving draw and say what the model says, and refuse in a sentence what cannot be?"""

import html
import json
import re
from pathlib import Path

import pytest

from roofline_kit.batches import serve
from roofline_kit.explore_serving import MODELS, duration, explore_serving, read, rows, sentences
from roofline_kit.transformer import Model

CONFIGS = Path(__file__).with_name("configs")
LLAMA = Model.from_config(CONFIGS / "llama-3-8b.json")


def of(name):
    return Model.from_config(MODELS[name], name)


def told(found):
    return " ".join(sentences(found))


def seen(view):
    """All words of a view."""
    cells = [cell for row in view.rows for cell in row]
    return " ".join([*re.findall(r"<text[^>]*>([^<]*)", html.unescape(view.svg)), *cells, *view.sentences])


# ---- What is said ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name, file", [
    ("Llama-3-8B", "llama-3-8b"), ("Llama-3-70B", "llama-3-70b"), ("Llama-2-7B", "llama-2-7b"),
    ("Mistral-7B", "mistral-7b"), ("Qwen2.5-72B", "qwen2.5-72b"), ("Gemma-2-9B", "gemma-2-9b"),
    ("Mixtral-8x7B", "mixtral-8x7b"), ("DeepSeek-V3", "deepseek-v3")])
def test_the_models_are_those_of_their_makers(name, file):
    theirs = Model.from_config(CONFIGS / f"{file}.json", name)
    assert of(name) == theirs and set(MODELS) >= {name}


@pytest.mark.parametrize("name, how, says", [
    ("Llama-3-8B", {}, "memory runs out first: it is full with 59 users. Then time: a step of more than 140 users"),
    ("Llama-3-8B", {"limit": 0.001}, "time runs out first: a step of one user takes longer than 1 ms. Then memory"),
    ("Llama-3-70B", {"chips": 4, "context": 128}, "compute runs out first: from 375 users on a step is compute-bound"),
    ("Llama-3-70B", {}, "memory runs out first: not one user fits. Then time"),
    ("Llama-3-8B", {"chips": 8, "context": 128}, "the link runs out first: from 583 users on a step is bound by it")])
def test_what_runs_out_first_is_said_first(name, how, says):
    assert f"As the batch grows, {says}" in told(serve(of(name), "H100 SXM", **how))


@pytest.mark.parametrize("name, how, says", [
    ("Llama-3-8B", {"context": 8192}, "From 14 users on, what is their own, above all KV caches, takes more of a step"),
    ("Llama-3-70B", {"chips": 4}, "From 309 users on, what is their own, above all arithmetic"),
    ("Llama-3-8B", {"chips": 8}, "From 180 users on, what is their own, above all what they send over the link"),
    ("DeepSeek-V3", {"chips": 64, "context": 2**17}, "From the first user on, what is their own, above all the w")])
def test_from_where_on_users_are_no_longer_nearly_free_is_said(name, how, says):
    assert says in told(serve(of(name), "H100 SXM", **{"context": 128} | how))


def test_the_word_of_the_critical_batch_is_not_used_for_the_half():
    view = explore_serving().view()
    assert "knee" not in seen(view).lower() + view.svg


@pytest.mark.parametrize("how, says", [
    ({"batch": 16}, "memory-bound: 53% of its bytes are KV cache, 46% weights"),
    ({"batch": 4096, "context": 128}, "compute-bound: its arithmetic takes 1.57 times"),
    ({"batch": 4096, "context": 128, "chips": 64}, "bound by the links")])
def test_the_bound_of_a_step_is_said(how, says):
    assert says in told(serve(LLAMA, "H100 SXM", **how))


def test_a_link_without_a_figure_is_said_to_be_left_out():
    assert "the link between these chips, which has no figure here" in told(serve(LLAMA, "MI300X", 8))
    assert "link between" not in told(serve(LLAMA, "MI300X", 1)) + told(serve(LLAMA, "H100 SXM", 8))


def test_the_rows_show_the_numbers():
    memory, prefill, decode = (text for _, text in rows(serve(LLAMA, "H100 SXM", 1, 8192, 16)))
    assert memory == "weights 16.1 GB, KV cache 17.2 GB, free 46.8 GB of 80 GB"
    assert prefill == "148 ms for a prompt of 8,192 tokens, 55.2 k tokens/s"
    assert decode == "9.67 ms a step of 16, 1.66 k tokens/s, 103 for each user"


def test_less_than_a_token_a_second_is_written_as_seconds_a_token():
    found = serve(of("DeepSeek-V3"), "L40S", 1, 2**17, 4096, "float32", "float32")
    assert rows(found)[2][1] == "91.1 s a step of 4,096, 44.9 tokens/s, 91.1 s/token for each user"


@pytest.mark.parametrize("seconds, text", [
    (2690, "2,690 s"), (123456, "123,000 s"), (999, "999 s"), (0.0107, "10.7 ms"), (1.03e-13, "under 0.01 ns"),
    (0, "0 s")])
def test_times_have_units_that_one_knows(seconds, text):
    assert duration(seconds) == text


# ---- The explorer ----------------------------------------------------------------------------------------------------

def test_the_picture_names_what_the_numbers_say():
    words = seen(explore_serving(batch=16).view())
    for each in ("memory is full: batch 59", "half a step is the users' own: batch 14", "here: batch 16",
                 "longest step, 50 ms: batch 140"):
        assert each in words


def test_a_slider_changes_picture_and_numbers():
    explorer = explore_serving()
    assert len({explorer.view(batch=batch) for batch in (1, 16, 64, 4096)}) == 4
    assert "here: batch 64" in seen(explorer.view(batch=64)) and "39.1 GB too much" in seen(explorer.view(batch=96))


def test_all_ends_of_all_sliders_are_drawn():
    explorer = explore_serving()
    sliders = [control for control in explorer.controls.values() if control.kind == "slider"]
    for model in ("Llama-3-8B", "DeepSeek-V3"):
        chosen = dict(explorer.controls["model"].options)[model]
        for control in sliders:
            for _, value in (control.options[0], control.options[-1]):
                view = explorer.view(model=chosen, **{control.name: value})
                assert "nan" not in view.svg and "inf" not in view.svg and len(view.sentences) > 2


@pytest.mark.parametrize("chips", [1, 64])
def test_every_model_chip_and_dtype_is_drawn(chips):
    explorer = explore_serving(chips=chips)
    for control in ("model", "chip", "weights", "kv"):
        for _, value in explorer.controls[control].options:
            assert len(explorer.view(**{control: value}).svg) < 12_000


def test_a_model_of_ones_own_comes_first():
    own = Model(layers=2, width=64, heads=4, hidden=96, vocab=100, name="own")
    assert "own on H100 SXM" in explore_serving(own, batch=7).view().svg


@pytest.mark.parametrize("how, says", [
    ({"model": "Llama-9"}, "unknown model"), ({"chip": "A100"}, "several chips"), ({"batch": 0}, "batch is 0"),
    ({"chips": 1.5}, "chips is 1.5"), ({"weights": "int3"}, "int3"), ({"limit": -1}, "limit is -1")])
def test_a_first_value_that_cannot_be_is_refused(how, says):
    with pytest.raises(ValueError, match=says):
        explore_serving(**how)


# ---- What cannot be ------------------------------------------------------------------------------------------------

def test_what_fits_is_said_first():
    assert next(sentences(serve(LLAMA, "H100 SXM", 1, 8192, 59))) == (
        "59 users with 8,192 tokens each fit beside the weights.")


@pytest.mark.parametrize("name, how, says", [
    ("Llama-3-8B", {"batch": 60}, "beside the weights there is room for 59 users with 8,192 tokens each; a batch"),
    ("Llama-3-70B", {"batch": 1}, "the weights alone take 141 GB of 80 GB; a batch of 1"),
    ("Llama-2-7B", {"context": 2**17}, "beside the weights there is room for not even one user with 131,072 tokens;")])
def test_the_first_sentence_says_what_does_not_fit_and_the_chips_that_would_hold_it(name, how, says):
    found = serve(of(name), "H100 SXM", **how)
    first = next(sentences(found))
    assert first.startswith(f"It does not fit: {says}") and f"needs {found.chips_needed} such chips" in first
    assert first.endswith("and the times are what this chip would take if it did fit.")
    assert serve(of(name), "H100 SXM", found.chips_needed, **how).most >= found.batch > found.most


@pytest.mark.parametrize("pasted, says", [
    ("{", "no JSON, by its line 1, column 2"), ("[1]", "no object"), ("7", "no object"), ('{"a": 1}', "no model_type"),
    ("[" * 10**5, "no JSON"), ('{"model_type": "t5"}', "'t5', which is not known"),
    ('{"model_type": "llama"}', "does not say its hidden_size and num_hidden_layers"),
    ('{"model_type": "llama", "hidden_size": "x", "num_hidden_layers": 2}', "hidden_size"),
    ('{"model_type": "llama", "hidden_size": -1, "num_hidden_layers": 2}', "hidden_size"),
    (f'{{"model_type": "llama", "hidden_size": 32{"0" * 300}, "num_hidden_layers": 2}}', "one of its sizes is wrong"),
    (f'{{"model_type": "llama", "hidden_size": {"9" * 5000}, "num_hidden_layers": 2}}', "no JSON")])
def test_what_is_no_configuration_is_refused_in_one_sentence(pasted, says):
    with pytest.raises(ValueError, match=says) as refused:
        read(pasted)
    assert str(refused.value).count("\n") == 0 and str(refused.value).endswith(".")


def test_a_pasted_configuration_takes_the_place_of_the_name():
    explorer = explore_serving()
    view = explorer.view(model="pasted", pasted=(CONFIGS / "gemma-2-9b.json").read_text())
    assert view.rows[2][1] in {text for _, text in rows(serve(of("Gemma-2-9B"), "H100 SXM", batch=16))}
    assert explorer.view(model="pasted").rows == explorer.view().rows
    with pytest.raises(ValueError, match="no JSON"):
        explorer.view(model="pasted", pasted="")


def test_a_context_beyond_learned_positions_is_refused():
    gpt2 = read(json.dumps({"model_type": "gpt2", "hidden_size": 768, "num_hidden_layers": 12}))
    assert serve(gpt2, "H100 SXM", 1, 1024).decode > 0
    with pytest.raises(ValueError, match="positions for 1024 tokens"):
        serve(gpt2, "H100 SXM", 1, 1025)


def test_a_chip_without_bfloat16_is_refused():
    with pytest.raises(ValueError, match="T4 has no unit for bfloat16"):
        serve(LLAMA, "T4")


@pytest.mark.parametrize("wrong, says", [
    ({"model": {}}, "take rk.Model.from_config"), ({"chips": 10**30}, "4,096 at most")])
def test_a_wrong_argument_is_told_in_one_sentence(wrong, says):
    with pytest.raises(ValueError, match=says):
        explore_serving(**wrong)


def test_a_mark_at_the_beginning_of_a_pasted_file_does_no_harm():
    assert read("\ufeff" + json.dumps(MODELS["Llama-3-8B"])).params == read(json.dumps(MODELS["Llama-3-8B"])).params
