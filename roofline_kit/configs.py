"""What does a Hugging Face config.json say? The sizes of a model, with the defaults that its file leaves out."""

import json
import os
from pathlib import Path

from .units import quantity

# The defaults of transformers' configuration classes (src/transformers/models/*/configuration_*.py, read in 2025).
# None: derived from other keys. Keys of later files differ by model; ALIASES brings them to one name.
_SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size",
          "num_key_value_heads", "head_dim", "tie_word_embeddings", "sliding_window")
DEFAULTS = {kind: dict(zip(_SIZES, row)) for kind, row in {
    "llama": (4096, 11008, 32, 32, 32000, None, None, False, None),
    "mistral": (4096, 14336, 32, 32, 32000, 8, None, False, 4096),
    "mixtral": (4096, 14336, 32, 32, 32000, 8, None, False, None),
    "qwen2": (4096, 22016, 32, 32, 151936, 32, None, False, 4096),
    "qwen3": (4096, 22016, 32, 32, 151936, 32, 128, False, 4096),
    "gemma2": (2304, 9216, 26, 8, 256000, 4, 256, True, 4096),
    "gemma3": (2304, 9216, 26, 8, 262208, 4, 256, True, 4096),
    "phi3": (3072, 8192, 32, 32, 32064, None, None, False, None),
    "deepseek_v2": (4096, 11008, 32, 32, 32000, None, None, False, None),
    "deepseek_v3": (7168, 18432, 61, 128, 129280, 128, None, False, None),
    "gpt2": (768, None, 12, 12, 50257, None, None, True, None),
    "opt": (768, 3072, 12, 12, 50272, None, None, True, None),
    "falcon": (4544, None, 32, 71, 65024, None, None, True, None),
}.items()}
DEFAULTS["mixtral"] |= {"num_experts": 8, "num_experts_per_tok": 2}
DEFAULTS["deepseek_v2"] |= {"num_experts": 64, "num_experts_per_tok": None, "moe_intermediate_size": 1407,
                            "n_shared_experts": 2, "first_k_dense_replace": 0}
DEFAULTS["deepseek_v3"] |= {"num_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 2048,
                            "n_shared_experts": 1, "first_k_dense_replace": 3}
for _kind in ("deepseek_v2", "deepseek_v3"):
    DEFAULTS[_kind] |= {"q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
                        "v_head_dim": 128}
ALIASES = {"n_embd": "hidden_size", "n_embed": "hidden_size", "d_model": "hidden_size", "n_layer": "num_hidden_layers",
           "n_head": "num_attention_heads", "n_inner": "intermediate_size", "ffn_dim": "intermediate_size",
           "ffn_hidden_size": "intermediate_size", "n_positions": "max_position_embeddings",
           "num_kv_heads": "num_key_value_heads", "n_head_kv": "num_key_value_heads",
           "n_routed_experts": "num_experts", "num_local_experts": "num_experts",
           "_sliding_window_pattern": "sliding_window_pattern"}
KINDS = {"gemma3_text": "gemma3", "RefinedWebModel": "falcon", "RefinedWeb": "falcon"}     # other names of a type
QKV, ALL = ("q_proj", "k_proj", "v_proj"), ("q_proj", "k_proj", "v_proj", "o_proj")
MLP = ("gate_proj", "up_proj", "down_proj")


class _Config:
    """The keys of a configuration, its defaults behind them."""

    def __init__(self, values, kind, told):
        self.kind, self.told = kind, told
        found = {ALIASES.get(key, key): value for key, value in values.items()}
        self.values = DEFAULTS[kind] | found

    def get(self, key, otherwise=None):
        value = self.values.get(key)
        return otherwise if value is None else value

    def size(self, key, otherwise=None, least=1):
        """A whole number, or `otherwise` where the file says nothing or null."""
        value = self.get(key, otherwise)
        return None if value is None else quantity(f"{key} of {self.told}", value, least, whole=True)

    def flag(self, key, otherwise=False):
        value = self.get(key, otherwise)
        if value not in (True, False):
            raise ValueError(f"{key} of {self.told} is {value!r}, but it must be true or false.")
        return bool(value)


def read(source):
    """The arguments of a `Model` that a configuration stands for.

    source:  a config.json, the folder that holds it, or what it holds as a dict
    Errors:  ValueError, one sentence, for what is no configuration, and for a model_type that is not known
    """
    values, name = (source, "") if isinstance(source, dict) else _load(source)
    told = repr(name) if name else "the configuration"
    outer, nested = values, isinstance(values.get("text_config"), dict)
    if nested:                                               # a model that also sees: its text model is meant
        values = {key: outer[key] for key in ("model_type", "tie_word_embeddings") if key in outer}
        values |= outer["text_config"]
    kind = values.get("model_type")
    kind = KINDS.get(kind, kind) if isinstance(kind, str) else None
    if kind is None:
        raise ValueError(f"{told} has no model_type, so it is no configuration of a language model.")
    if kind not in DEFAULTS:
        raise ValueError(f"{told} has the model_type {kind!r:.40}, which is not known here: {', '.join(DEFAULTS)} are.")
    config = _Config(values, kind, told)
    given = set(config.values) if nested else {ALIASES.get(key, key) for key in values}
    missing = [key for key in ("hidden_size", "num_hidden_layers") if key not in given or config.get(key) is None]
    if missing:
        raise ValueError(f"{told} does not say its {' and '.join(missing)}: take the whole config.json.")
    return _common(config) | _special(config) | {"name": _clean(name or str(outer.get("_name_or_path") or kind))}


def _clean(name):
    """A name that can be printed anywhere, and of one line."""
    return name.encode("utf-8", "replace").decode("utf-8")[:60]


def _load(path):
    try:
        path = Path(os.fspath(path))                         # of bytes Path refuses
    except TypeError:
        raise ValueError(f"a config.json, its folder or a dict is needed, not {path!r}.") from None
    try:
        path = path / "config.json" if path.is_dir() else path
        values = json.loads(path.read_text(encoding="utf-8-sig"))      # some editors begin a file with a mark
    except OSError as error:
        raise ValueError(f"no configuration can be read from {str(path)!r}: {error.strerror or error}.") from None
    except (RecursionError, ValueError):
        values = None
    if isinstance(values, dict):
        return values, path.stem if path.stem != "config" else path.resolve().parent.name
    raise ValueError(f"{str(path)!r} holds no JSON object: a config.json is needed.")


def _common(config):
    """What all types have in common."""
    width, heads, layers = (config.size(key) for key in ("hidden_size", "num_attention_heads", "num_hidden_layers"))
    sliding, window = _sliding(config, layers), config.size("sliding_window")
    return {
        "layers": layers, "width": width, "heads": heads, "vocab": config.size("vocab_size"),
        "hidden": config.size("intermediate_size", 4 * width), "kv_heads": config.size("num_key_value_heads", heads),
        "head_dim": config.size("head_dim"), "tied": config.flag("tie_word_embeddings"),
        "window": window if sliding else None, "windowed": sliding,
    }


def _sliding(config, layers):
    """How many layers have a sliding window."""
    types, kind = config.get("layer_types"), config.kind
    if config.get("sliding_window") is None or kind.startswith("qwen") and not config.flag("use_sliding_window"):
        return 0
    if isinstance(types, list) and len(types) == layers:
        return types.count("sliding_attention")
    if kind.startswith("qwen"):                              # the first ones have none
        return max(0, layers - config.size("max_window_layers", 28, least=0))
    every = {"gemma2": 2, "gemma3": config.size("sliding_window_pattern", 6)}.get(kind)
    return layers - layers // every if every else layers     # the last of `every` layers has none


def _special(config):
    """What is particular to a type."""
    kind = config.kind
    if kind in ("gpt2", "opt"):
        return _learned_positions(config)
    if kind == "falcon":
        return _falcon(config)
    bias = (*(ALL if config.flag("attention_bias") else ()), *(MLP if config.flag("mlp_bias") else ()))
    if kind == "qwen2":
        bias = QKV
    special = {"bias": bias, "norms": 4 if kind.startswith("gemma") else 2, "qk_norm": kind in ("qwen3", "gemma3")}
    if kind == "mixtral":
        special["experts"] = (config.size("num_experts"), config.size("num_experts_per_tok"), config.size(
            "intermediate_size"))
    if kind.startswith("deepseek"):
        special |= _deepseek(config)
    return special


def _learned_positions(config):
    width, told = config.size("hidden_size"), config.told
    if config.size("word_embed_proj_dim", width) != width:
        raise ValueError(f"{told} projects its embeddings to another width, as only opt-350m does: not covered.")
    offset = 2 if config.kind == "opt" else 0                # OPT's table has two rows more than positions
    positions = config.size("max_position_embeddings", 2048 if config.kind == "opt" else 1024) + offset
    bias = (*ALL, *MLP) if config.flag("enable_bias", True) else ()
    return {"gated": False, "layernorm": True, "positions": positions, "bias": bias}


def _falcon(config):
    new, parallel = config.flag("new_decoder_architecture"), config.flag("parallel_attn", True)
    several = new or not config.flag("multi_query", True)
    norms = config.size("num_ln_in_parallel_attn", 2 if new else 1) if parallel else 2
    shared = config.size("num_key_value_heads", config.size("num_attention_heads")) if several else 1
    return {"gated": False, "layernorm": True, "norms": norms, "kv_heads": shared,
            "bias": (*ALL, *MLP) if config.flag("bias") else ()}


def _deepseek(config):
    latent = tuple(config.size(key) or 0 for key in ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim",
                                                     "qk_rope_head_dim", "v_head_dim"))
    bias = ("q_a_proj", "kv_a_proj", "o_proj") if config.flag("attention_bias") else ()
    special = {"latent": latent, "head_dim": latent[2] + latent[3], "kv_heads": None, "bias": bias}
    if config.get("num_experts") is None:
        return special                                       # null: a dense model
    if config.size("num_experts_per_tok") is None:
        raise ValueError(f"{config.told} does not say its num_experts_per_tok: take the whole config.json.")
    sizes = (config.size(key) for key in ("num_experts", "num_experts_per_tok", "moe_intermediate_size"))
    rest = (config.size(key, 0, least=0) for key in ("n_shared_experts", "first_k_dense_replace"))
    return special | {"experts": (*sizes, *rest)}
