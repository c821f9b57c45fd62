"""Models that vLLM serves through its Transformers backend, where their layers are plain or latent attention.

vLLM: model_executor/models/transformers/base.py (_create_attention_instances): one layer per decoder layer, with head
counts and sizes of the model's architecture config (transformers_utils/model_arch_config_convertor.py).
"""

from __future__ import annotations

from kvplan.errors import Refused
from kvplan.families.common import decoder_names, mla, num_layers, uniform_gqa, windows_by_layer_type
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = (
    "ArceeForCausalLM",
    "CwmForCausalLM",
    "FlexOlmoForCausalLM",
    "GPTBigCodeForCausalLM",
    "GPTNeoXForCausalLM",
    "GlmForCausalLM",
    "HunYuanDenseV1ForCausalLM",
    "HunYuanMoEV1ForCausalLM",
    "Jais2ForCausalLM",
    "Kolibri1ForCausalLM",
    "MellumForCausalLM",
    "Olmo2ForCausalLM",
    "Olmo3ForCausalLM",
    "OlmoForCausalLM",
    "PhiForCausalLM",
    "SeedOssForCausalLM",
    "SmolLM3ForCausalLM",
    "Starcoder2ForCausalLM",
    "VaultGemmaForCausalLM",
    "TransformersForCausalLM",
    "TransformersMoEForCausalLM",
)

WRAPPED = (
    "BioGptForCausalLM",
    "BitNetForCausalLM",
    "DogeForCausalLM",
    "HeliumForCausalLM",
    "JetMoeForCausalLM",
    "MinistralForCausalLM",
    "Mistral4ForCausalLM",
    "NanoChatForCausalLM",
    "PhimoeForCausalLM",
    "SolarOpenForCausalLM",
    "YoutuForCausalLM",
)
"""Classes of Transformers under the two wrapper names whose layers were compared with the engine's."""

_FILE = "model_executor/models/transformers/base.py, _create_attention_instances"
_WHY = ("num_key_value_heads, head_dim, layer_types", _FILE)
_LATENT = ("kv_lora_rank, qk_rope_head_dim", _FILE)
_NAMES = {
    "GPTBigCodeForCausalLM": ("model.h", "attn"),
    "GPTNeoXForCausalLM": ("model.layers", "attention"),
    "JetMoeForCausalLM": ("model.layers", "self_attention"),
}
"""How Transformers calls the stack of layers and the attention in each, where it is not as in Llama."""


def original(model: Model) -> str:
    """The checkpoint's own architecture. Refused where it is wrapped and not one of `WRAPPED`."""
    if not model.architecture.startswith("Transformers"):
        return model.architecture
    name = (model.root.texts("architectures") or [""])[0]
    if name not in WRAPPED:
        raise Refused(
            f"{model.root.where}: {name} runs on vLLM's Transformers backend, where kvplan plans exactly only "
            f"{', '.join((*WRAPPED, *ARCHITECTURES[:-2]))}."
        )
    return name


def layers(model: Model) -> list[Layer]:
    config, name = model.config, original(model)
    if config.get("kv_lora_rank") is not None:
        return latent_layers(model)
    if name.startswith("HunYuan") and config.get("head_dim") is None:
        raise config.error("head_dim", "is missing or null, and Transformers cannot build the attention without it")
    stack, attention = _NAMES.get(name, ("model.layers", "self_attn"))
    windows = windows_by_layer_type(config, num_layers(config))
    return [
        layer._replace(name=f"{stack}.{i}.{attention}.attn")
        for i, layer in enumerate(uniform_gqa(model, _WHY, windows=windows), model.start_layer)
    ]


def latent_layers(model: Model) -> list[Layer]:
    if not model.engine.use_mla:
        raise Refused(
            f"{model.config.where}: latent attention is switched off (VLLM_MLA_DISABLE), which is not planned."
        )
    return mla(model, decoder_names("model", num_layers(model.config)), _LATENT)
