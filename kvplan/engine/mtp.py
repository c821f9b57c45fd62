"""How vLLM turns the config of a target that drafts for itself into the config of its MTP drafter.

Source: vllm/config/speculative.py (`SpeculativeConfig.hf_config_override`). One rule per family: which config it is
for, which model type and class it becomes, and which field says how many tokens it predicts. Every drafter's config
goes through it; one that no rule matches stays as it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kvplan.engine.facts import architectures, model_type, text_config
from kvplan.hf.config import Config

MTP_MODEL_TYPES = frozenset(
    (
        "deepseek_mtp",
        "dots3_note_mtp",
        "mimo_mtp",
        "mimo_v2_mtp",
        "glm4_moe_mtp",
        "glm4_moe_lite_mtp",
        "glm_ocr_mtp",
        "ernie_mtp",
        "nemotron_h_mtp",
        "exaone_moe_mtp",
        "exaone4_5_mtp",
        "qwen3_next_mtp",
        "qwen4_exp_mtp",
        "qwen3_5_mtp",
        "longcat_flash_mtp",
        "bailing_hybrid_v3_mtp",
        "minimax_m3_mtp",
        "bailing_hybrid_mtp",
        "mtp",
        "kimi_k3_mtp",
        "pangu_ultra_moe_mtp",
        "step3p5_mtp",
        "step5_mtp",
        "hy_v3_mtp",
        "hy_v4_mtp",
        "gemma4_mtp",
        "inkling_mtp",
        "glm5_next_mtp",
    )
)
_NEXTN = "num_nextn_predict_layers"


class _Rule(NamedTuple):
    """One family. ``names`` are model types, or class names where ``by_class`` is set."""

    names: tuple[str, ...]
    becomes: str
    architecture: str | None
    n_predict: str | int = _NEXTN
    """The field with the number of predicted tokens, or the number."""
    default: int | None = None
    """What a missing field counts as."""
    by_class: bool = False
    required: bool = False
    from_text: bool = False
    """The field is in the text model's config."""
    promote: bool = False
    """The drafter's config is the text model's alone."""
    updates: tuple[tuple[str, Any], ...] = ()


_NO_LAYERS = (("num_hidden_layers", 0),)
_ONE_MODULE = (*_NO_LAYERS, (_NEXTN, 1))
_RULES = (
    _Rule(("deepseek_v32", "glm_moe_dsa"), "deepseek_mtp", "DeepseekV32MTPModel"),
    _Rule(("deepseek_v3", "deepseek_mtp"), "deepseek_mtp", "DeepSeekMTPModel"),
    _Rule(("deepseek_v4",), "deepseek_mtp", "DeepSeekV4MTPModel"),
    _Rule(("deepseek_v41",), "deepseek_mtp", None),
    _Rule(("pangu_ultra_moe", "pangu_ultra_moe_mtp"), "pangu_ultra_moe_mtp", "OpenPanguMTPModel"),
    _Rule(("kimi_k3",), "kimi_k3_mtp", "KimiK3MTPModel", from_text=True),
    _Rule(("MiMoForCausalLM",), "mimo_mtp", "MiMoMTPModel", by_class=True, updates=_NO_LAYERS),
    _Rule(("MiMoV2ForCausalLM",), "mimo_v2_mtp", "MiMoV2MTPModel", 1, by_class=True, updates=_ONE_MODULE),
    _Rule(("MiMoV2OmniForCausalLM",), "mimo_v2_mtp", "MiMoV2OmniMTPModel", 1, by_class=True, updates=_ONE_MODULE),
    _Rule(("MiMoV2FlashForCausalLM",), "mimo_v2_mtp", "MiMoV2MTPModel", 1, by_class=True, updates=_ONE_MODULE),
    _Rule(("Glm4MoeForCausalLM",), "glm4_moe_mtp", "Glm4MoeMTPModel", by_class=True),
    _Rule(("Glm4MoeLiteForCausalLM",), "glm4_moe_lite_mtp", "Glm4MoeLiteMTPModel", by_class=True, updates=_NO_LAYERS),
    _Rule(("GlmOcrForConditionalGeneration",), "glm_ocr_mtp", "GlmOcrMTPModel", by_class=True, updates=_NO_LAYERS),
    _Rule(("ernie4_5_moe", "ernie_mtp"), "ernie_mtp", "ErnieMTPModel"),
    _Rule(("nemotron_h_mtp",), "nemotron_h_mtp", "NemotronHMTPModel", default=1),
    _Rule(("qwen3_next", "qwen3_next_mtp"), "qwen3_next_mtp", "Qwen3NextMTP"),
    _Rule(("qwen4_exp", "qwen4_exp_text"), "qwen4_exp_mtp", "Qwen4ExpMTP", "mtp_num_hidden_layers", from_text=True),
    _Rule(("exaone_moe", "exaone_moe_mtp"), "exaone_moe_mtp", "ExaoneMoeMTP"),
    _Rule(("qwen3_5", "qwen3_5_text"), "qwen3_5_mtp", "Qwen3_5MTP", "mtp_num_hidden_layers", from_text=True),
    _Rule(("qwen3_5_moe", "qwen3_5_moe_text"), "qwen3_5_mtp", "Qwen3_5MoeMTP", "mtp_num_hidden_layers", from_text=True),
    _Rule(("longcat_flash",), "longcat_flash_mtp", "LongCatFlashMTPModel", default=1),
    _Rule(("step3p5", "step3p7"), "step3p5_mtp", "Step3p5MTP", default=1, promote=True),
    _Rule(
        ("Step3p5ForCausalLM", "Step3p7ForConditionalGeneration"),
        "step3p5_mtp",
        "Step3p5MTP",
        default=1,
        by_class=True,
        promote=True,
    ),
    _Rule(("step5", "step5_vl"), "step5_mtp", "Step5MTP", default=1, promote=True),
    _Rule(("hy_v3",), "hy_v3_mtp", "HYV3MTPModel"),
    _Rule(("hy_v4",), "hy_v4_mtp", "HYV4MTPModel"),
    _Rule(("gemma4_assistant", "gemma4_unified_assistant"), "gemma4_mtp", "Gemma4MTPModel", 1),
    _Rule(("minimax_m3_vl",), "minimax_m3_mtp", "MiniMaxM3MTP", "num_mtp_modules", default=1, promote=True),
    _Rule(("minimax_m3_mtp",), "minimax_m3_mtp", "MiniMaxM3MTP", "num_mtp_modules", default=1),
    _Rule(("glm5_next",), "glm5_next_mtp", "Glm5NextMTPModel", from_text=True, required=True),
)


def as_drafter(root: Config) -> Config:
    """The config that vLLM reads for a drafter whose checkpoint has ``root``."""
    kind = model_type(root)
    if "exaone4_5" in kind:
        return _apply(_Rule((kind,), "exaone4_5_mtp", "Exaone4_5_MTP"), root)
    if kind in ("nemotron_h", "nemotron_h_puzzle") and root.integer(_NEXTN, 0, minimum=0):
        return _apply(_Rule((kind,), "nemotron_h_mtp", "NemotronHMTPModel"), root)
    names = architectures(root)[:1]
    if kind == "muse_glimmer_assistant":
        return _muse_glimmer(root)
    for rule in _RULES:
        if (names[0] if names and rule.by_class else kind) in rule.names:
            root = _apply(rule, root)
            break
    if names == ["MistralLarge3ForCausalLM"]:
        root = root.replace(architectures=["EagleMistralLarge3ForCausalLM"])
    return root


def _apply(rule: _Rule, root: Config) -> Config:
    text = text_config(root)
    if rule.promote and text is not root:
        scheme = root.get("quantization_config")
        inherits = scheme is not None and text.get("quantization_config") is None
        root = text.replace(quantization_config=scheme) if inherits else text
    source = text if rule.from_text and text.get(str(rule.n_predict)) is not None else root
    n_predict = rule.n_predict if isinstance(rule.n_predict, int) else source.get(rule.n_predict, rule.default)
    if n_predict is None and rule.required:
        raise text.error(str(rule.n_predict), "is missing, so there is no MTP module to draft with")
    if n_predict is not None:
        n_predict = source.checked_integer(str(rule.n_predict), n_predict, minimum=0)
    updates: dict[str, Any] = {"model_type": rule.becomes, "n_predict": n_predict, **dict(rule.updates)}
    if "index_share_for_mtp_iteration" in text:
        updates["index_share_for_mtp_iteration"] = text.get("index_share_for_mtp_iteration")
    if rule.architecture is not None:
        updates["architectures"] = [rule.architecture]
    return root.replace(**updates)


def _muse_glimmer(root: Config) -> Config:
    dflash = root.get("dflash_config")
    merged = {"causal": False, **(dflash if isinstance(dflash, dict) else {})}
    return root.replace(dflash_config=merged, vocab_size=root.get("vocab_size", 202048))
