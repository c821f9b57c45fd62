"""Vision and audio models around a text model of another family; their towers cache nothing.

vLLM: the file of each class under model_executor/models/. The text model's class is the wrapper's own choice, or that
of text_config (`with_hf_config` of config/vllm.py).
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.families.common import nested
from kvplan.families.mistral3 import text_architecture
from kvplan.families.registry import Traits
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = (
    "AriaForConditionalGeneration",
    "AudioFlamingo3ForConditionalGeneration",
    "Cohere2VisionForConditionalGeneration",
    "Glm4vForConditionalGeneration",
    "Glm4vMoeForConditionalGeneration",
    "GlmAsrForConditionalGeneration",
    "GraniteSpeechForConditionalGeneration",
    "Idefics3ForConditionalGeneration",
    "InternVLChatModel",
    "InternVLForConditionalGeneration",
    "KimiVLForConditionalGeneration",
    "Lfm2VlForConditionalGeneration",
    "LlavaNextForConditionalGeneration",
    "LlavaNextVideoForConditionalGeneration",
    "LlavaOnevisionForConditionalGeneration",
    "PaddleOCRVLForConditionalGeneration",
    "PaliGemmaForConditionalGeneration",
    "Qwen2AudioForConditionalGeneration",
    "Qwen2VLForConditionalGeneration",
    "Qwen2_5OmniModel",
    "SmolVLMForConditionalGeneration",
)


_STACK = "model.text_model"


class _Wrapper(NamedTuple):
    text: str = ""
    """Architecture of the text model; empty: text_config's."""
    prefix: str = "language_model"


_WRAPPERS = {
    "AriaForConditionalGeneration": _Wrapper("LlamaForCausalLM"),
    "AudioFlamingo3ForConditionalGeneration": _Wrapper("Qwen2ForCausalLM"),
    "Glm4vForConditionalGeneration": _Wrapper("Glm4ForCausalLM"),
    "Glm4vMoeForConditionalGeneration": _Wrapper("Glm4MoeForCausalLM"),
    "GlmAsrForConditionalGeneration": _Wrapper("LlamaForCausalLM"),
    "Idefics3ForConditionalGeneration": _Wrapper("LlamaForCausalLM", _STACK),
    "KimiVLForConditionalGeneration": _Wrapper("DeepseekV2ForCausalLM"),
    "Lfm2VlForConditionalGeneration": _Wrapper("Lfm2ForCausalLM", "language"),
    "PaddleOCRVLForConditionalGeneration": _Wrapper("Ernie4_5ForCausalLM"),
    "Qwen2AudioForConditionalGeneration": _Wrapper("Qwen2ForCausalLM"),
    "Qwen2VLForConditionalGeneration": _Wrapper("Qwen2ForCausalLM"),
    "Qwen2_5OmniModel": _Wrapper("Qwen2ForCausalLM"),
    "SmolVLMForConditionalGeneration": _Wrapper("LlamaForCausalLM", _STACK),
}
"""Wrappers whose text model does not follow from text_config, or that call it otherwise."""


def traits(architecture: str) -> Traits:
    hybrid = architecture == "Lfm2VlForConditionalGeneration"
    return Traits(is_multimodal=True, is_hybrid=hybrid, supports_mamba_prefix_caching=hybrid)


def layers(model: Model) -> list[Layer]:
    found = _WRAPPERS.get(model.architecture, _Wrapper())
    text = found.text or text_architecture(model)
    if found.prefix != _STACK:
        return nested(model, text, found.prefix)
    # Such a wrapper builds the stack of layers itself, without the class around it.
    return [layer._replace(name=layer.name.replace("model.model", _STACK, 1)) for layer in nested(model, text, "model")]
