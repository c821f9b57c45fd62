"""Vision and audio models around a text model of another family; their towers cache nothing.

vLLM: the file of each class under model_executor/models/. The text model's class is the wrapper's own choice, or that
of text_config (`with_hf_config` of config/vllm.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvplan.errors import Refused
from kvplan.families.common import nested, num_layers, require
from kvplan.families.mistral3 import text_architecture
from kvplan.families.registry import Traits
from kvplan.hf import Config
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
    "Qwen2_5OmniForConditionalGeneration",
    "Qwen2_5OmniModel",
    "Qwen3OmniMoeForConditionalGeneration",
    "SmolVLMForConditionalGeneration",
)


_STACK = "model.text_model"
_CLIP = {"num_attention_heads": 12, "intermediate_size": 3072}
"""Defaults of CLIP's and SigLIP's own config classes."""


class _Tower(NamedTuple):
    """What of a tower must divide by the ranks, with the values where the file has no section for it."""

    usual: Mapping[str, int]
    section: str = "vision_config"
    """Where its config lies, with dots between the keys."""
    partly: Mapping[str, int] | None = None
    """Values where the file has the section and lacks the field; None: the same."""


def _heads(heads: int, width: int, *, clip: bool = False) -> _Tower:
    return _Tower({"num_attention_heads": heads, "intermediate_size": width}, partly=_CLIP if clip else None)


class _Wrapper(NamedTuple):
    text: str = ""
    """Architecture of the text model; empty: text_config's."""
    prefix: str = "language_model"
    tower: _Tower | None = None
    """None: no rank holds a part of it, or it stays whole where it does not divide."""
    audio: _Tower | None = None
    """A second tower."""


_GLM_TOWER = _Tower({"num_heads": 12, "intermediate_size": 13696, "out_hidden_size": 4096})
_GRANITE_TOWER = _Tower({"num_heads": 8, "hidden_dim": 1024, "output_dim": 42}, "encoder_config")
_OMNI_LEVELS = 8
"""More levels than the vision features of a Qwen3-Omni have, which go into its first layers."""
_OMNI_AUDIO = _Tower({"encoder_attention_heads": 20, "encoder_ffn_dim": 5120}, "thinker_config.audio_config")
_OMNI = _Wrapper(
    "Qwen2ForCausalLM",
    tower=_Tower({"num_heads": 16, "intermediate_size": 3420}, "thinker_config.vision_config"),
    audio=_OMNI_AUDIO,
)
_WRAPPERS = {
    "AriaForConditionalGeneration": _Wrapper("LlamaForCausalLM", tower=_heads(16, 3072)),
    "AudioFlamingo3ForConditionalGeneration": _Wrapper("Qwen2ForCausalLM"),
    "Cohere2VisionForConditionalGeneration": _Wrapper(tower=_heads(12, 3072)),
    "Glm4vForConditionalGeneration": _Wrapper("Glm4ForCausalLM", tower=_GLM_TOWER),
    "Glm4vMoeForConditionalGeneration": _Wrapper("Glm4MoeForCausalLM", tower=_GLM_TOWER),
    "GlmAsrForConditionalGeneration": _Wrapper(
        "LlamaForCausalLM", tower=_Tower({"num_attention_heads": 20, "intermediate_size": 5120}, "audio_config")
    ),
    "GraniteSpeechForConditionalGeneration": _Wrapper(tower=_GRANITE_TOWER),
    "Idefics3ForConditionalGeneration": _Wrapper("LlamaForCausalLM", _STACK, _heads(16, 3072)),
    "InternVLChatModel": _Wrapper(tower=_Tower({"intermediate_size": 12800})),
    "InternVLForConditionalGeneration": _Wrapper(tower=_heads(16, 4096)),
    "KimiVLForConditionalGeneration": _Wrapper("DeepseekV2ForCausalLM", tower=_heads(16, 4304)),
    "Lfm2VlForConditionalGeneration": _Wrapper("Lfm2ForCausalLM", "language", _heads(12, 3072)),
    "LlavaNextForConditionalGeneration": _Wrapper(tower=_heads(16, 4096, clip=True)),
    "LlavaNextVideoForConditionalGeneration": _Wrapper(tower=_heads(16, 4096, clip=True)),
    "LlavaOnevisionForConditionalGeneration": _Wrapper(tower=_heads(16, 4304, clip=True)),
    "PaddleOCRVLForConditionalGeneration": _Wrapper("Ernie4_5ForCausalLM", tower=_heads(16, 4304)),
    "PaliGemmaForConditionalGeneration": _Wrapper(tower=_heads(16, 4096, clip=True)),
    "Qwen2AudioForConditionalGeneration": _Wrapper("Qwen2ForCausalLM"),
    "Qwen2VLForConditionalGeneration": _Wrapper("Qwen2ForCausalLM", tower=_Tower({"num_heads": 16, "embed_dim": 1280})),
    "Qwen2_5OmniForConditionalGeneration": _OMNI,
    "Qwen2_5OmniModel": _OMNI,
    "Qwen3OmniMoeForConditionalGeneration": _Wrapper(
        "Qwen3MoeForCausalLM",
        tower=_Tower({"num_heads": 16, "intermediate_size": 4304}, "thinker_config.vision_config"),
    ),
    "SmolVLMForConditionalGeneration": _Wrapper("LlamaForCausalLM", _STACK, _heads(16, 3072)),
}


def check_tower(model: Model, tower: _Tower) -> None:
    """Refused where a tower that is split over the ranks does not divide; it is built whatever the deployment takes."""
    section: Config | None = model.root
    for key in tower.section.split("."):
        section = None if section is None else section.section(key)
    tp = model.tensor_parallel_size
    usual = tower.usual if section is None else tower.partly or tower.usual
    for field in tower.usual:
        value = usual[field] if section is None else section.integer(field, usual[field])
        if value % tp:
            raise Refused(
                f"{model.root.where}: {tower.section}.{field} {value} cannot be split over --tensor-parallel-size "
                f"{tp}; choose a size that divides it."
            )


def check_omni(model: Model) -> None:
    """KvplanError for what Qwen3-Omni's config class lacks; Refused where vision features may reach a later stage."""
    require(model.config, "tie_word_embeddings")
    stages = model.engine.pipeline_parallel_size
    partition = model.engine.args.env.get("VLLM_PP_LAYER_PARTITION")
    if stages > 1 and (partition is not None or num_layers(model.config) // stages < _OMNI_LEVELS):
        raise Refused(
            f"--pipeline-parallel-size {stages}: kvplan plans {model.architecture} over even stages of at least "
            f"{_OMNI_LEVELS} layers only; use fewer stages and no VLLM_PP_LAYER_PARTITION."
        )


def traits(architecture: str) -> Traits:
    hybrid = architecture == "Lfm2VlForConditionalGeneration"
    return Traits(is_multimodal=True, is_hybrid=hybrid, supports_mamba_prefix_caching=hybrid)


def layers(model: Model) -> list[Layer]:
    found = _WRAPPERS[model.architecture]
    for tower in (found.tower, found.audio):
        if tower is not None:
            check_tower(model, tower)
    if model.architecture == "Qwen3OmniMoeForConditionalGeneration":
        check_omni(model)
    text = found.text or text_architecture(model)
    if found.prefix != _STACK:
        return nested(model, text, found.prefix)
    # Such a wrapper builds the stack of layers itself, without the class around it.
    return [layer._replace(name=layer.name.replace("model.model", _STACK, 1)) for layer in nested(model, text, "model")]
