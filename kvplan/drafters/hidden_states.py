"""Which targets hand their inner hidden states to a drafter (EAGLE3, DFlash, DSpark, extraction).

vLLM: `SupportsEagle3` of each class (model_executor/models/interfaces.py), and `supports_aux_hidden_states_over_pp`
of the decoder inside it.
"""

from __future__ import annotations

from kvplan.model import Model

ARCHITECTURES_WITH = frozenset(
    (
        "AfmoeForCausalLM",
        "ApertusForCausalLM",
        "BeamForCausalLM",
        "Cohere2MoeForCausalLM",
        "DeepseekForCausalLM",
        "DeepseekV2ForCausalLM",
        "DeepseekV32ForCausalLM",
        "DeepseekV3ForCausalLM",
        "DeepseekV41ForCausalLM",
        "DeepseekV4ForCausalLM",
        "DeepseekV4ForConditionalGeneration",
        "Ernie4_5ForCausalLM",
        "Exaone4_5_ForConditionalGeneration",
        "FlexOlmoForCausalLM",
        "Gemma4ForCausalLM",
        "Gemma4ForConditionalGeneration",
        "Gemma4UnifiedForConditionalGeneration",
        "Glm5NextForCausalLM",
        "Glm5NextForConditionalGeneration",
        "GlmForCausalLM",
        "GlmMoeDsaForCausalLM",
        "GptOssForCausalLM",
        "GraniteForCausalLM",
        "GraniteMoeForCausalLM",
        "GraniteMoeSWAForCausalLM",
        "GraniteMoeSharedForCausalLM",
        "GraniteSWAForCausalLM",
        "InternLM3ForCausalLM",
        "KimiK25ForConditionalGeneration",
        "KimiK3ForConditionalGeneration",
        "KimiLinearForCausalLM",
        "LLaMAForCausalLM",
        "LagunaForCausalLM",
        "Llama4ForCausalLM",
        "Llama4ForConditionalGeneration",
        "LlamaForCausalLM",
        "LlavaForConditionalGeneration",
        "MiMoForCausalLM",
        "MiMoV2FlashForCausalLM",
        "MiMoV2ForCausalLM",
        "MiMoV2OmniForCausalLM",
        "MiniCPM3ForCausalLM",
        "MiniCPMForCausalLM",
        "MiniMaxM2ForCausalLM",
        "MiniMaxM3SparseForCausalLM",
        "MiniMaxM3SparseForConditionalGeneration",
        "Ministral3ForCausalLM",
        "Mistral3ForConditionalGeneration",
        "MistralForCausalLM",
        "MistralLarge3ForCausalLM",
        "MuseGlimmerForCausalLM",
        "MuseGlimmerForConditionalGeneration",
        "MuseSparkForConditionalGeneration",
        "NemotronHForCausalLM",
        "NemotronHPuzzleForCausalLM",
        "OlmoForCausalLM",
        "Phi3ForCausalLM",
        "PixtralForConditionalGeneration",
        "Qwen2ForCausalLM",
        "Qwen2_5_VLForConditionalGeneration",
        "Qwen3ForCausalLM",
        "Qwen3MoeForCausalLM",
        "Qwen3NextForCausalLM",
        "Qwen3OmniMoeForConditionalGeneration",
        "Qwen3VLForConditionalGeneration",
        "Qwen3VLMoeForConditionalGeneration",
        "Qwen3_5ForCausalLM",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForCausalLM",
        "Qwen3_5MoeForConditionalGeneration",
        "Qwen4ExpForConditionalGeneration",
        "TransformersForCausalLM",
        "TransformersMoEForCausalLM",
        "TransformersMultiModalForCausalLM",
        "TransformersMultiModalMoEForCausalLM",
    )
)
_OVER_STAGES = frozenset(
    (
        "DeepseekV4ForCausalLM",
        "DeepseekV4ForConditionalGeneration",
        "Ernie4_5ForCausalLM",
        "InternLM3ForCausalLM",
        "KimiK3ForConditionalGeneration",
        "KimiLinearForCausalLM",
        "Llama4ForCausalLM",
        "Llama4ForConditionalGeneration",
        "LlamaForCausalLM",
        "MiniMaxM3SparseForCausalLM",
        "MiniMaxM3SparseForConditionalGeneration",
        "Ministral3ForCausalLM",
        "MistralForCausalLM",
        "MuseSparkForConditionalGeneration",
        "Phi3ForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen2_5_VLForConditionalGeneration",
        "Qwen3ForCausalLM",
        "Qwen3VLForConditionalGeneration",
    )
)
_WRAPPERS = frozenset(("LlavaForConditionalGeneration", "Mistral3ForConditionalGeneration"))


def over_stages(target: Model) -> bool:
    """Whether the target sends its hidden states on from one pipeline stage to the next."""
    name = target.architecture
    if name in _WRAPPERS:
        from kvplan.families.mistral3 import text_architecture

        name = text_architecture(target)
    return name in _OVER_STAGES
