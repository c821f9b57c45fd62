"""What files beside config.json make of a model: an embedding model, a schema model, another length, a quantised one.

Source: vllm/transformers_utils/config.py (`get_pooling_config`, `get_sentence_transformer_tokenizer_config`),
the Qwen convertors of vllm/transformers_utils/model_arch_config_convertor.py and `get_quant_config` of
vllm/model_executor/model_loader/weight_utils.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.engine.args import EngineArgs, ModelFacts
from kvplan.engine.facts import architectures, model_type
from kvplan.errors import Refused
from kvplan.hf.config import Config, shown

_POOLING_MODULES = (
    "sentence_transformers.models.Pooling",
    "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
)
_LENGTH_FILES = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
_JOINT_HEAD, _DECISION = "joint_head_config.json", "decision_config.json"
_ANOTHER_CLASS = {
    ("qwen3_5", "Qwen3_5ForConditionalGeneration"): (_JOINT_HEAD, "ClefFlashForJointSchema"),
    ("qwen3_5", "Qwen3_5Model"): (_DECISION, "D3ForSequenceClassification"),
    ("qwen3_omni_moe", "Qwen3OmniMoeForConditionalGeneration"): (_JOINT_HEAD, "ClefOmniForJointSchema"),
}
"""Model type and the one architecture -> the file that makes it another class."""
_SCHEME_FILES = {
    **dict.fromkeys(("awq", "auto_awq", "awq_marlin"), ("quantize_config.json", "quant_config.json")),
    **dict.fromkeys(("gptq", "auto_gptq", "gptq_marlin", "moe_wna16"), ("quantize_config.json",)),
    **dict.fromkeys(("modelopt", "modelopt_fp4", "modelopt_mxfp8", "modelopt_mixed"), ("hf_quant_config.json",)),
    "inc": ("quantization_config.json",),
}
"""Method -> the endings of the file that has its scheme where config.json has none."""


def check_runner(args: EngineArgs, facts: ModelFacts) -> None:
    """Refused where modules.json makes a generating class an embedding model."""
    modules = facts.files.get("modules.json")
    if modules is None or args.additional_flags.get("runner") not in (None, "auto"):
        return
    if not isinstance(modules, list) or not all(isinstance(module, Mapping) and "type" in module for module in modules):
        raise Refused(f"{facts.name}: modules.json must list modules with a type; vLLM reads it before it plans.")
    if any(module["type"] in _POOLING_MODULES for module in modules):
        raise Refused(
            f"{facts.name}: modules.json has a pooling module, so that vLLM serves embeddings; "
            "add --runner generate to plan text generation."
        )


def class_of_files(facts: ModelFacts, root: Config) -> Config:
    """The config with the class that a file beside it stands for."""
    names = architectures(root)
    file, name = _ANOTHER_CLASS.get((model_type(root), names[0] if len(names) == 1 else ""), ("", ""))
    return root.replace(architectures=[name]) if file in facts.files else root


def length_of_files(facts: ModelFacts) -> float | None:
    """The length that a sentence-transformers file sets in place of the config's; None where none does."""
    for name in _LENGTH_FILES:
        found = facts.files.get(name)
        if not found:
            continue
        if not isinstance(found, Mapping):
            raise Refused(f"{facts.name}: {name} must hold a JSON object, got {shown(found)}.")
        if "max_seq_length" not in found:
            return None
        return Config(found, f"{facts.name}: {name}").number("max_seq_length", minimum=1)
    return None


def scheme_file(facts: ModelFacts, method: str) -> Mapping[str, Any] | None:
    """What the one file beside config.json says of a method that the config does not name.

    None where there is none. Refused where there are several.
    """
    endings = _SCHEME_FILES.get(method, ())
    names = [name for name in facts.files if name.endswith(endings)] if endings else []
    if len(names) > 1:
        raise Refused(f"{facts.name}: {' and '.join(names)} both fit --quantization {method}; keep one of them.")
    if not names:
        return None
    found = facts.files[names[0]]
    if not isinstance(found, Mapping):
        raise Refused(f"{facts.name}: {names[0]} must hold a JSON object, got {shown(found)}.")
    producer = found.get("producer")
    named = isinstance(producer, Mapping) and producer.get("name") == "modelopt"
    if method in ("modelopt", "modelopt_mixed") and not named:
        raise Refused(f"{facts.name}: {names[0]} does not name modelopt as its producer, which {method} needs.")
    return found
