"""LongCat-Flash and its n-gram variant: two latent attention layers in every decoder layer.

vLLM: model_executor/models/longcat_flash.py (FlashDecoderLayer), longcat_flash_ngram.py.
"""

from __future__ import annotations

from kvplan.errors import Refused
from kvplan.families.common import check_latent_rotary, mla, num_layers, require
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("LongcatFlashForCausalLM", "LongcatFlashNgramForCausalLM")

_WHY = ("num_layers, kv_lora_rank, qk_rope_head_dim", "model_executor/models/longcat_flash.py, FlashDecoderLayer")


def check_ngram(model: Model) -> None:
    """Refused where the embedding of n-grams lacks a size, or on the model runner that has none."""
    if not model.engine.use_v2_model_runner:
        raise Refused(
            f"{model.architecture} runs on the V2 model runner only; unset VLLM_USE_V2_MODEL_RUNNER and draft without "
            "the methods that need the V1 runner."
        )
    if model.config.get("ngram_vocab_size_ratio") is not None:
        for key in ("ngram_vocab_size_ratio", "emb_neighbor_num", "emb_split_num"):
            model.config.integer(key)


def layers(model: Model) -> list[Layer]:
    config = model.config
    require(config, "mla_scale_q_lora", "mla_scale_kv_lora", "zero_expert_type")
    if model.architecture == "LongcatFlashNgramForCausalLM":
        check_ngram(model)
    count = num_layers(config, "num_layers")
    check_latent_rotary(config)
    return mla(model, (f"model.layers.{i}.self_attn.{j}.attn" for i in range(count) for j in range(2)), _WHY)
