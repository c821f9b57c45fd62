"""Mistral 3 and LLaVA (Pixtral): wrappers whose text model is one of several families; the vision tower caches nothing.

vLLM: model_executor/models/mistral3.py and llava.py; config/vllm.py (with_hf_config) finds the text model's class.
"""

from __future__ import annotations

from kvplan.errors import Refused
from kvplan.families.common import check_tower, nested
from kvplan.families.registry import Traits
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("Mistral3ForConditionalGeneration", "LlavaForConditionalGeneration")

TRAITS = Traits(is_multimodal=True)

TEXT_MODELS = {
    "cohere2": "Cohere2ForCausalLM",
    "gemma": "GemmaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "granite": "GraniteForCausalLM",
    "internlm2": "InternLM2ForCausalLM",
    "llama": "LlamaForCausalLM",
    "ministral3": "Ministral3ForCausalLM",
    "mistral": "MistralForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
}
"""model_type of the text model -> its class, where text_config names no architecture."""


def text_architecture(model: Model) -> str:
    """The architecture of the wrapped text model. Refused where it is not one of `TEXT_MODELS`."""
    config = model.config
    if config.get("architectures"):
        name = config.texts("architectures")[0]
    else:
        name = TEXT_MODELS.get(config.text("model_type"), "")
    if name not in TEXT_MODELS.values():
        raise Refused(
            f"{config.where}: the text model {name or config.get('model_type')!r} is not one that kvplan plans exactly "
            f"under {model.architecture}; it knows {', '.join(TEXT_MODELS.values())}."
        )
    return name


_TOWERS = {"pixtral": (16, 4096), "clip_vision_model": (12, 3072), "siglip_vision_model": (12, 3072)}
"""model_type of the vision model -> defaults of its class for num_attention_heads and intermediate_size."""
_OWN_TOWER = (16, 4096)
"""Those of the vision model that the wrapper's class takes where the file has none."""


def layers(model: Model) -> list[Layer]:
    """The text model's; refused where the vision tower does not divide."""
    vision = model.root.section("vision_config")
    usual = {"Mistral3ForConditionalGeneration": "pixtral"}.get(model.architecture, "clip_vision_model")
    sizes = _OWN_TOWER if vision is None else _TOWERS.get(str(vision.get("model_type", usual)), (1, 1))
    fields = dict(zip(("num_attention_heads", "intermediate_size"), sizes, strict=True))
    check_tower(model, fields, whole_on_request=False)
    return nested(model, text_architecture(model))
