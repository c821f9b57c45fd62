"""GPT-2, GPT-J, OPT and BLOOM: every query head has its own KV head.

vLLM: model_executor/models/gpt2.py (GPT2Attention), gpt_j.py, opt.py, bloom.py.
"""

from __future__ import annotations

from kvplan.errors import Refused
from kvplan.families.common import attention, divided_head_dim, model_window, num_layers
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("GPT2LMHeadModel", "GPTJForCausalLM", "OPTForCausalLM", "BloomForCausalLM")

_NAMES = {
    "GPT2LMHeadModel": ("transformer.h", "attn.attn", "model_executor/models/gpt2.py, GPT2Attention"),
    "GPTJForCausalLM": ("transformer.h", "attn.attn", "model_executor/models/gpt_j.py, GPTJAttention"),
    "OPTForCausalLM": ("model.decoder.layers", "self_attn.attn", "model_executor/models/opt.py, OPTAttention"),
    "BloomForCausalLM": ("transformer.h", "self_attention.attn", "model_executor/models/bloom.py, BloomAttention"),
}
_GPT2_REFUSES = ("add_cross_attention", "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn")


def layers(model: Model) -> list[Layer]:
    config = model.config
    heads = config.integer("num_attention_heads")
    if model.architecture == "GPT2LMHeadModel":
        for key in _GPT2_REFUSES:
            if config.truthy(key):
                raise Refused(f"{config.where}: {key} is true, which vLLM's GPT-2 does not support.")
    size = divided_head_dim(config)
    if model.architecture == "BloomForCausalLM" and size * heads != config.integer("hidden_size"):
        raise Refused(
            f"{config.where}: hidden_size is no multiple of the {heads} attention heads; correct one of them."
        )
    stack, suffix, file = _NAMES[model.architecture]
    template = attention(
        model,
        "",
        ("num_attention_heads, hidden_size", file),
        num_heads=heads,
        num_kv_heads=heads,
        head_size=size,
        sliding_window=model_window(model),
        alibi=model.architecture == "BloomForCausalLM",
    )
    return [template._replace(name=f"{stack}.{i}.{suffix}") for i in range(num_layers(config))]
