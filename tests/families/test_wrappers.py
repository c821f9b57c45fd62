"""Vision and audio wrappers: the layers are their text model's, and a tower that is split must divide.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gqa_case import rows

from kvplan.errors import KvplanError

QWEN2 = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32768,
}
LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 8,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
}


def wrapper(architecture: str, model_type: str, **fields: Any) -> dict[str, Any]:
    return {"architectures": [architecture], "model_type": model_type, "dtype": "bfloat16", **fields}


INTERNVL = wrapper(
    "InternVLChatModel",
    "internvl_chat",
    llm_config={"architectures": ["Qwen2ForCausalLM"], **QWEN2},
    vision_config={"model_type": "intern_vit_6b", "num_attention_heads": 25, "intermediate_size": 12800},
)
LLAVA_NEXT = wrapper("LlavaNextForConditionalGeneration", "llava_next", text_config=LLAMA)
IDEFICS3 = wrapper("Idefics3ForConditionalGeneration", "idefics3", text_config=LLAMA)
GLM4V = wrapper("Glm4vForConditionalGeneration", "glm4v")
QWEN2_AUDIO = wrapper("Qwen2AudioForConditionalGeneration", "qwen2_audio", text_config=QWEN2)
COHERE2 = wrapper("Cohere2VisionForConditionalGeneration", "cohere2_vision", text_config={"model_type": "cohere2"})
CONFIGS = (INTERNVL, LLAVA_NEXT, IDEFICS3, GLM4V, QWEN2_AUDIO, COHERE2)


@pytest.mark.parametrize(
    ("config", "count", "first", "heads"),
    [
        (INTERNVL, 28, "language_model.model.layers.0.self_attn.attn", 4),
        (LLAVA_NEXT, 8, "language_model.model.layers.0.self_attn.attn", 8),
        (IDEFICS3, 8, "model.text_model.layers.0.self_attn.attn", 8),
        (GLM4V, 40, "language_model.model.layers.0.self_attn.attn", 2),
        (QWEN2_AUDIO, 28, "language_model.model.layers.0.self_attn.attn", 4),
    ],
    ids=lambda value: value["architectures"][0] if isinstance(value, dict) else "",
)
def test_the_layers_are_the_text_models(
    tmp_path: Path, config: dict[str, Any], count: int, first: str, heads: int
) -> None:
    assert rows(tmp_path, config) == [("full_attention", count, first, heads, 128, 16, heads * 8192, None)]


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (GLM4V, "num_heads 12"),
        (COHERE2, "num_attention_heads 12"),
        (LLAVA_NEXT | {"vision_config": {"model_type": "clip_vision_model"}}, "num_attention_heads 12"),
        (INTERNVL | {"vision_config": {"intermediate_size": 3076}}, "intermediate_size 3076"),
    ],
)
def test_a_tower_that_does_not_divide_is_refused(tmp_path: Path, config: dict[str, Any], named: str) -> None:
    with pytest.raises(KvplanError, match=f"{named} cannot be split"):
        rows(tmp_path, config | {"text_config": LLAMA} if config is not GLM4V else config, tensor_parallel_size=8)


def test_a_text_model_that_was_not_compared_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KvplanError, match="MambaForCausalLM"):
        rows(tmp_path, LLAVA_NEXT | {"text_config": LLAMA | {"architectures": ["MambaForCausalLM"]}})


OMNI = wrapper(
    "Qwen3OmniMoeForConditionalGeneration",
    "qwen3_omni_moe",
    thinker_config={
        "text_config": {
            "num_hidden_layers": 12,
            "num_attention_heads": 32,
            "num_key_value_heads": 4,
            "head_dim": 128,
            "tie_word_embeddings": False,
            "rope_scaling": {"rope_type": "default", "mrope_section": [24, 20, 20], "mrope_interleaved": True},
        }
    },
)


def test_an_omni_models_text_model_lies_in_its_thinker(tmp_path: Path) -> None:
    first = "language_model.model.layers.0.self_attn.attn"
    assert rows(tmp_path, OMNI, tensor_parallel_size=2) == [("full_attention", 12, first, 2, 128, 16, 16384, None)]
    with pytest.raises(KvplanError, match="even stages of at least 8 layers"):
        rows(tmp_path, OMNI, pipeline_parallel_size=2)
