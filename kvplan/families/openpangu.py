"""openPangu Ultra MoE: multi-head latent attention in every layer (vLLM: model_executor/models/openpangu.py)."""

from __future__ import annotations

from kvplan.errors import Refused
from kvplan.families.common import decoder_names, mla, num_layers, require
from kvplan.hf import Config
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("PanguUltraMoEForCausalLM",)

_WHY = ("kv_lora_rank, qk_rope_head_dim", "model_executor/models/openpangu.py, OpenPanguMLAAttention")
_LATENT = ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "kv_lora_rank")


def check_latent(config: Config) -> None:
    """Refused without the fields by which the class knows latent attention: it then builds other layers."""
    missing = [key for key in _LATENT if key not in config]
    if missing:
        raise Refused(
            f"{config.where}: {missing[0]} is missing, so vLLM runs the layers without latent attention; kvplan plans "
            "openPangu with it only."
        )


def check_experts(model: Model) -> None:
    """Refused where the first pipeline stage, or the whole model, has no layer with experts, as vLLM refuses."""
    config, stages = model.config, model.engine.pipeline_parallel_size
    require(config, "n_routed_experts")
    partition = model.engine.args.env.get("VLLM_PP_LAYER_PARTITION", "").partition(",")[0]
    first = int(partition) if stages > 1 and partition.isdecimal() else num_layers(config) // stages
    dense = config.integer("first_k_dense_replace", minimum=0)
    if first <= dense:
        raise Refused(
            f"{config.where}: first_k_dense_replace {dense} leaves the first {first} layers, those of "
            f"--pipeline-parallel-size {stages}, without experts, and vLLM wants some in every stage; use fewer stages."
        )


def layers(model: Model) -> list[Layer]:
    check_latent(model.config)
    check_experts(model)
    return mla(model, decoder_names("model", num_layers(model.config)), _WHY)
