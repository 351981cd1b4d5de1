"""Are configurations read as transformers reads them, and does each that cannot be read say why in one sentence?"""

import json
from pathlib import Path

import pytest

from roofline_kit.configs import DEFAULTS, read
from roofline_kit.transformer import Model

CONFIGS = sorted(Path(__file__).with_name("configs").glob("*.json"))


def of(kind, **keys):
    """A configuration of this type with the keys that no file leaves out."""
    return {"model_type": kind, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 8,
            "intermediate_size": 96, "vocab_size": 100} | keys


def test_each_type_that_is_known_has_a_real_configuration():
    kinds = {json.loads(path.read_text())["model_type"] for path in CONFIGS}
    assert kinds == set(DEFAULTS) and len(CONFIGS) == 18


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_file_a_dict_and_a_folder_say_the_same(path, tmp_path):
    (tmp_path / "config.json").write_text(path.read_text())
    model, other = Model.from_config(path), Model.from_config(str(tmp_path), name=path.stem)
    assert model == other == Model.from_config(json.loads(path.read_text()), name=path.stem)
    assert model.name == path.stem and path.stem in repr(model)


@pytest.mark.parametrize("kind, kv_heads, head_dim, tied, windowed", [
    ("llama", 8, 8, False, 0), ("mistral", 8, 8, False, 4), ("mixtral", 8, 8, False, 0), ("phi3", 8, 8, False, 0),
    ("gemma2", 4, 256, True, 2), ("gemma3", 4, 256, True, 4), ("gpt2", 8, 8, True, 0), ("opt", 8, 8, True, 0),
    ("falcon", 1, 8, True, 0)])
def test_missing_keys_have_the_defaults_of_transformers(kind, kv_heads, head_dim, tied, windowed):
    model = Model.from_config(of(kind))
    assert (model.kv_heads, model.head_dim, model.tied, model.windowed) == (kv_heads, head_dim, tied, windowed)


def test_qwens_missing_heads_are_32_whatever_its_heads():
    with pytest.raises(ValueError, match="8 heads cannot share 32"):
        Model.from_config(of("qwen2"))
    assert Model.from_config(of("qwen3", num_key_value_heads=None)).kv_heads == 8
    assert Model.from_config(of("qwen3", num_key_value_heads=2)).head_dim == 128


@pytest.mark.parametrize("kind", ["gpt2", "falcon"])
def test_a_missing_inner_size_is_four_times_the_width(kind):
    keys = of(kind)
    del keys["intermediate_size"]
    assert Model.from_config(keys | {"n_inner": None}).hidden == 256
    assert Model.from_config(keys | {"n_inner": 128}).hidden == 128


def test_other_names_of_a_key_mean_the_same():
    keys = {"model_type": "gpt2", "n_embd": 64, "n_layer": 4, "n_head": 8, "n_positions": 32, "vocab_size": 100}
    assert Model.from_config(keys).params == 100 * 64 + 32 * 64 + 4 * (12 * 64**2 + 13 * 64) + 2 * 64
    assert Model.from_config(of("opt")).positions == 2050          # its table has two rows more than positions
    falcon = of("RefinedWeb", new_decoder_architecture=True, n_head_kv=2)
    assert (Model.from_config(falcon).kv_heads, Model.from_config(falcon).norms) == (2, 2)


@pytest.mark.parametrize("kind, keys, windowed", [
    ("mistral", {"sliding_window": None}, 0), ("qwen2", {"use_sliding_window": True, "max_window_layers": 3}, 1),
    ("qwen2", {"sliding_window": 16, "max_window_layers": 0}, 0), ("phi3", {"sliding_window": 16}, 4),
    ("gemma2", {"sliding_window": None}, 0),
    ("gemma3", {"sliding_window_pattern": 2}, 2), ("gemma3", {"_sliding_window_pattern": 4}, 3),
    ("gemma3", {"layer_types": ["full_attention"] * 3 + ["sliding_attention"]}, 1)])
def test_layers_with_a_window_are_those_that_transformers_gives_one(kind, keys, windowed):
    assert Model.from_config(of(kind, num_key_value_heads=4, **keys)).windowed == windowed


def test_biases_and_norms_are_those_of_the_type():
    assert Model.from_config(of("qwen2", num_key_value_heads=4)).bias == ("q_proj", "k_proj", "v_proj")
    assert Model.from_config(of("llama", attention_bias=True, mlp_bias=True)).bias[-1] == "down_proj"
    gemma, gpt2 = Model.from_config(of("gemma3")), Model.from_config(of("gpt2"))
    assert (gemma.norms, gemma.qk_norm, gemma.layernorm) == (4, True, False)
    assert (gpt2.norms, gpt2.layernorm, gpt2.gated, len(gpt2.bias)) == (2, True, False, 7)


def test_a_nested_text_model_is_the_one_that_is_meant():
    text = of("gemma3_text", sliding_window=None)
    model = Model.from_config({"model_type": "gemma3", "text_config": text, "vision_config": {"hidden_size": 9}})
    assert (model.width, model.windowed) == (64, 0)
    untyped = {"model_type": "gemma3", "text_config": {"hidden_size": 512}, "tie_word_embeddings": False}
    assert (Model.from_config(untyped).layers, Model.from_config(untyped).tied) == (26, False)


def test_deepseek_without_experts_or_ranks_of_queries_is_read():
    lite = of("deepseek_v2", q_lora_rank=None, num_experts_per_tok=6)
    assert Model.from_config(lite).latent == (0, 512, 128, 64, 128)
    assert Model.from_config(lite).experts == (64, 6, 1407, 2, 0)
    dense = Model.from_config(of("deepseek_v3", n_routed_experts=None))
    assert dense.experts is None and dense.active_params == dense.params


@pytest.mark.parametrize("text, says", [
    ("", "no JSON object"), ("{", "no JSON object"), ("[1, 2]", "no JSON object"), ("7", "no JSON object"),
    ("null", "no JSON object"), ('[["model_type", "llama"]]', "no JSON object"), ("[" * 100_000, "no JSON object"),
    ("\ufeff{}", "no model_type"), ("{}", "no model_type"), ('{"model_type": 3}', "no model_type"),
    ('{"model_type": "mamba"}', "'mamba', which is not known here: llama"),
    ('{"model_type": "llama"}', "hidden_size and num_hidden_layers"),
    ('{"model_type": "llama", "hidden_size": null, "num_hidden_layers": 2}', "does not say its hidden_size")])
def test_a_file_that_is_no_configuration_says_so_in_one_sentence(tmp_path, text, says):
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=says) as refused:
        Model.from_config(path)
    assert "\n" not in str(refused.value) and str(refused.value).endswith(".")


@pytest.mark.parametrize("keys, says", [
    ({"hidden_size": "4096"}, "hidden_size of the configuration is '4096'"), ({"num_hidden_layers": -1}, "at least 1"),
    ({"num_attention_heads": 7}, "give head_dim"), ({"num_key_value_heads": 3}, "cannot share"),
    ({"vocab_size": [1]}, "vocab_size"), ({"vocab_size": None}, "vocab is None"),
    ({"tie_word_embeddings": "false"}, "must be true or false"), ({"attention_bias": "no"}, "must be true or false")])
def test_a_size_that_cannot_be_is_refused_by_its_key(keys, says):
    with pytest.raises(ValueError, match=says):
        Model.from_config(of("llama", **keys))


@pytest.mark.parametrize("keys, says", [
    (of("opt", word_embed_proj_dim=32), "only opt-350m"), (of("deepseek_v2"), "num_experts_per_tok")])
def test_what_is_not_covered_is_refused(keys, says):
    with pytest.raises(ValueError, match=says):
        read(keys)


def test_a_file_that_is_not_there_or_no_text_is_one_sentence(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00{")
    for path, says in ((tmp_path / "missing.json", "No such file"), (tmp_path, "config.json"),
                       (tmp_path / "binary", "JSON"), (None, "a dict is needed, not None")):
        with pytest.raises(ValueError, match=says):
            Model.from_config(path)


def test_a_name_that_no_page_can_show_is_cleaned_and_cut():
    config = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 2, "_name_or_path": "\ud800" + 100 * "x"}
    assert Model.from_config(config).name == "?" + 59 * "x"
