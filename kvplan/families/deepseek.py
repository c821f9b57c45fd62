"""DeepSeek-V2/V3/R1, Kimi-K2 and GLM-4.7-Flash: multi-head latent attention in every layer; sparse with index_topk.

vLLM: model_executor/models/deepseek_v2.py (DeepseekV2MLAAttention), glm4_moe_lite.py, kimi_k25.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from kvplan.families.common import check_latent_rotary, check_tower, decoder_names, mla, num_layers, require
from kvplan.families.registry import Traits
from kvplan.families.sparse_mla import sparse_layers
from kvplan.hf import Config
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = (
    "DeepseekV2ForCausalLM",
    "DeepseekV3ForCausalLM",
    "AXK1ForCausalLM",
    "MistralLarge3ForCausalLM",
    "Glm4MoeLiteForCausalLM",
    "KimiK25ForConditionalGeneration",
)

_WHY = ("kv_lora_rank, qk_rope_head_dim", "model_executor/models/deepseek_v2.py, DeepseekV2MLAAttention")
_SPARSE = ("index_topk, kv_lora_rank", _WHY[1])


_TOWER = {"vt_intermediate_size": 4304}
_TOWER_HEADS = 16
"""Defaults of the vision config. Where the tower's heads do not divide, vLLM leaves all of it whole."""


def traits(architecture: str) -> Traits:
    return Traits(is_multimodal=architecture == "KimiK25ForConditionalGeneration")


def check_expert_groups(config: Config) -> None:
    """Refused where a layer has routed experts and the groups are null, as in DeepSeek-V2's config class.

    vLLM: DeepseekV2DecoderLayer and fused_moe/router/router_factory.py; groups that the config lacks count as one.
    """
    if config.optional_integer("n_routed_experts", minimum=0) is None:
        return
    dense = config.integer("first_k_dense_replace", 0, minimum=0)
    every = config.integer("moe_layer_freq", 1)
    routed = any(i % every == 0 for i in range(dense, num_layers(config)))
    for key in ("n_group", "topk_group"):
        if routed and key in config and config.get(key) is None:
            raise config.error(key, "is null, and vLLM cannot route to experts without it; published configs have 1")


def layers(model: Model) -> Iterable[Layer]:
    """The field index_topk, even null, makes every layer sparse; those that lead own an indexer, which reads q_lora."""
    config = model.config
    if model.architecture == "Glm4MoeLiteForCausalLM":
        require(config, "first_k_dense_replace")
    check_expert_groups(config)
    check_latent_rotary(config)
    if model.architecture == "KimiK25ForConditionalGeneration":
        vision = model.root.section("vision_config")
        heads = _TOWER_HEADS if vision is None else vision.integer("vt_num_attention_heads", _TOWER_HEADS)
        if heads % model.tensor_parallel_size == 0:
            check_tower(model, _TOWER)
    prefix = "language_model.model" if model.architecture.endswith("ForConditionalGeneration") else "model"
    if "index_topk" not in config or model.architecture == "AXK1ForCausalLM":
        return mla(model, decoder_names(prefix, num_layers(config)), _WHY)
    for key in ("q_lora_rank", "index_n_heads"):
        config.integer(key)
    return sparse_layers(model, prefix, 0, num_layers(config), _SPARSE)
