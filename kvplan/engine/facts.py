"""Numbers of a model that the engine's rules read, whatever the config calls them.

Source: vllm/transformers_utils/model_arch_config_convertor.py (`ModelArchConfigConvertorBase` and its subclasses) and
vllm/transformers_utils/config.py (`CONFIG_FIELD_ALIASES`, `get_hf_text_config`, `iter_rope_parameters`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.errors import Refused
from kvplan.hf.config import Config
from kvplan.hf.sections import TEXT_SECTIONS

_KV_HEADS = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups")
_EXPERTS = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")
_MLA_TYPES = frozenset(
    (
        "axk1",
        "deepseek_v2",
        "deepseek_v3",
        "deepseek_v32",
        "deepseek_v4",
        "deepseek_v41",
        "dots3_note",
        "deepseek_mtp",
        "k3_dspark",
        "glm5_next",
        "glm5_next_text",
        "glm_moe_dsa",
        "glm4_moe_lite",
        "glm4_moe_lite_mtp",
        "kimi_k2",
        "kimi_linear",
        "longcat_flash",
        "pangu_ultra_moe",
        "pangu_ultra_moe_mtp",
        "bailing_hybrid",
        "bailing_hybrid_mtp",
        "bailing_hybrid_v3_mtp",
        "hy_v4",
        "hy_v4_mtp",
    )
)
_EAGLE_MLA_TYPES = frozenset(("axk1", "deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_mtp"))
_STATELESS_HEADS = frozenset(("falcon_mamba", "mamba"))


def _text_key(root: Config) -> str | None:
    found = [key for key in TEXT_SECTIONS if root.get(key) is not None]
    if len(found) > 1:
        raise Refused(f"{root.where}: {' and '.join(found)} are both present, so the text model is ambiguous.")
    return found[0] if found else None


def text_config(root: Config) -> Config:
    """The text model's config (`get_hf_text_config`): the nested one of a composite model, else ``root`` itself."""
    key = _text_key(root)
    section = None if key is None else root.section(key)
    if section is None:
        return root
    if "num_attention_heads" not in section:
        raise section.error("num_attention_heads", "is missing, so vLLM does not take it for a text model")
    return section


def replace_text(root: Config, text: Config) -> Config:
    """``root`` with another text config nested in it."""
    key = _text_key(root) or ""
    return Config({**root.data, key: text.data}, root.where, root.defaults, root.aliases, {**root.sections, key: text})


def model_type(config: Config) -> str:
    """``model_type``, or an empty string where there is none."""
    return "" if config.get("model_type") is None else config.text("model_type")


def architectures(root: Config) -> list[str]:
    """The names under ``architectures``, which may be missing."""
    return [] if root.get("architectures") is None else root.texts("architectures")


def count(config: Config, key: str) -> int:
    """A count that vLLM reads with a default of 0; null counts as 0."""
    return config.integer(key, 0, minimum=0)


def widest(text: Config, key: str) -> int:
    """The largest of a count that may differ by layer (config/model_arch.py, `from_layers`); a missing one is 0."""
    values = [count(layer, key) for layer in text.layer_fields().values() if key in layer]
    if len(values) < count(text, "num_hidden_layers"):
        values.append(count(text, key))
    return max(values, default=0)


def num_attention_heads(text: Config) -> int:
    return widest(text, "num_attention_heads")


def num_kv_heads(root: Config, text: Config) -> int:
    """`get_total_num_kv_heads`: the model's KV heads before tensor parallelism."""
    kind = model_type(root)
    if kind in _STATELESS_HEADS:
        return 0
    if kind == "nemotron-nas":
        return _nas_kv_heads(text)
    falcon = kind in ("falcon", "RefinedWeb", "RefinedWebModel")
    if falcon and not text.truthy("new_decoder_architecture") and text.truthy("multi_query"):
        return 1
    key = next((key for key in _KV_HEADS if key in text), None)
    if key is None or text.optional_integer(key) is None:
        return num_attention_heads(text)
    return widest(text, key)


def _nas_kv_heads(text: Config) -> int:
    for block in text.objects("block_configs"):
        attention = block.section("attention")
        if attention is not None and not attention.truthy("no_op"):
            return num_attention_heads(text) // attention.integer("n_heads_in_group")
    raise text.error("block_configs", "has no layer with attention")


def num_hidden_layers(root: Config, text: Config) -> int:
    """`get_num_hidden_layers`: decoder layers; LongCat counts two attention layers in each."""
    return count(text, "num_layers") if model_type(root) == "longcat_flash" else count(text, "num_hidden_layers")


def num_experts(text: Config) -> int:
    """`get_num_experts`: 0 for a dense model."""
    key = next((key for key in _EXPERTS if key in text), None)
    value = None if key is None else text.get(key)
    if isinstance(value, list):
        value = value[0] if value else 0
    if value:
        return text.checked_integer(key or "", value)
    blocks = text.get("block_configs")
    if not isinstance(blocks, list):
        return 0
    moe = [b for b in blocks if isinstance(b, Mapping) and b.get("block_type") == "moe"]
    return max((b.get("n_routed_experts") or 0 for b in moe), default=0)


def compress_ratios(text: Config) -> bool:
    """Whether the layers compress their caches (DeepSeek-V4; `get_compress_ratios`)."""
    if "compress_ratios" in text and text.get("compress_ratios") is not None:
        return bool(text.get("compress_ratios"))
    return text.get("compress_rates") is not None


def is_deepseek_mla(text: Config) -> bool:
    """Whether vLLM's own model class would use multi-head latent attention."""
    kind = model_type(text)
    if kind == "eagle":
        inner = text.get("model")
        inner_type = str(inner.get("model_type")) if isinstance(inner, Mapping) else ""
        return inner_type in _EAGLE_MLA_TYPES and text.get("kv_lora_rank") is not None
    if kind not in _MLA_TYPES:
        return False
    return text.get("head_dim" if compress_ratios(text) else "kv_lora_rank") is not None


def rope_parameters(config: Config) -> list[dict[str, Any]]:
    """The rotary parameters, one dict per layer type where they are nested, with ``rope_type`` in vLLM's terms."""
    value = config.get("rope_parameters")
    if not isinstance(value, Mapping):
        value = config.get("rope_scaling")
    if not isinstance(value, Mapping) or not value:
        return []
    nested = [v for v in value.values() if isinstance(v, Mapping)]
    return [{**v, "rope_type": _rope_type(v)} for v in (nested or [value]) if v]


def _rope_type(parameters: Mapping[str, Any]) -> str:
    """`patch_legacy_rope_type`: the modern name of the scaling."""
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    renamed = {"su": "longrope", "mrope": "default", "telechat3-yarn": "yarn"}
    return renamed.get(kind, kind) if isinstance(kind, str) else "default"


def is_encoder_decoder(root: Config, text: Config) -> bool:
    return root.truthy("is_encoder_decoder") or text.truthy("is_encoder_decoder")
