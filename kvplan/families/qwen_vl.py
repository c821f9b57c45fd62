"""Qwen2.5-VL and Qwen3-VL, dense and MoE: the text model is Qwen2's or Qwen3's; the vision tower caches nothing.

vLLM: model_executor/models/qwen2_5_vl.py, qwen3_vl.py, qwen3_vl_moe.py.
"""

from __future__ import annotations

from kvplan.errors import Refused
from kvplan.families.common import check_tower, nested, num_layers, require
from kvplan.families.registry import Traits
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = (
    "Qwen2_5_VLForConditionalGeneration",
    "Qwen3VLForConditionalGeneration",
    "Qwen3VLMoeForConditionalGeneration",
)

TRAITS = Traits(is_multimodal=True)

_TEXT_MODELS = {
    "Qwen2_5_VLForConditionalGeneration": "Qwen2ForCausalLM",
    "Qwen3VLForConditionalGeneration": "Qwen3ForCausalLM",
    "Qwen3VLMoeForConditionalGeneration": "Qwen3MoeForCausalLM",
}
_TOWERS = {"Qwen2_5_VLForConditionalGeneration": {"num_heads": 16, "intermediate_size": 3420}}
QWEN3_TOWER = {"num_heads": 16, "intermediate_size": 4304}
"""Defaults of the vision configs: Qwen2.5-VL's, and those since Qwen3-VL."""
_DEEPSTACK = {"deepstack_visual_indexes": [8, 16, 24]}
"""Default of the Qwen3-VL vision config: the first text layers add these levels of the vision tower."""


def check_deepstack(model: Model) -> None:
    """Refused where a pipeline stage other than the first has a layer that vision features go into."""
    stages = model.engine.pipeline_parallel_size
    vision = model.root.section("vision_config", _DEEPSTACK)
    levels = len(vision.sequence("deepstack_visual_indexes") if vision else _DEEPSTACK["deepstack_visual_indexes"])
    partition = model.engine.args.env.get("VLLM_PP_LAYER_PARTITION", "").partition(",")[0]
    first = int(partition) if partition.isdecimal() else num_layers(model.config) // stages
    if stages > 1 and first < levels:
        raise Refused(
            f"--pipeline-parallel-size {stages} leaves {first} layers to the first stage, but the vision features of "
            f"{model.root.where} go into {levels} (deepstack_visual_indexes), and vLLM wants them there; "
            "use fewer stages."
        )


def layers(model: Model) -> list[Layer]:
    check_tower(model, _TOWERS.get(model.architecture, QWEN3_TOWER))
    if model.architecture.startswith("Qwen3"):
        check_deepstack(model)
    if model.architecture == "Qwen3VLMoeForConditionalGeneration":
        require(model.config, "norm_topk_prob")
    return nested(model, _TEXT_MODELS[model.architecture])
