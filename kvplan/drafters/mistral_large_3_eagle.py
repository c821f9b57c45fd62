"""EAGLE of Mistral Large 3: latent attention layers after the target's.

vLLM: model_executor/models/mistral_large_3_eagle.py.
"""

from __future__ import annotations

from kvplan.errors import Refused
from kvplan.families.common import decoder_names, mla, num_layers, require
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("EagleMistralLarge3ForCausalLM",)

_WHY = ("kv_lora_rank, qk_rope_head_dim", "model_executor/models/mistral_large_3_eagle.py, EagleMistralLarge3Model")


def layers(model: Model) -> list[Layer]:
    """Refused with a sparse indexer, which was not compared, and over pipeline stages, as vLLM refuses."""
    config, stages = model.config, model.engine.pipeline_parallel_size
    if "index_topk" in config:
        raise Refused(f"{config.where}: index_topk is set, and kvplan plans {model.architecture} without it only.")
    if stages > 1:
        raise Refused(f"--pipeline-parallel-size {stages}: vLLM runs {model.architecture} on one stage only; use 1.")
    require(config, "first_k_dense_replace")
    return mla(model, decoder_names("model", num_layers(config), start=model.layers_on_last_stage), _WHY)
