"""Decoders whose layers all have the same plain attention and differ only in names and in what a head's size is.

vLLM: the file of each class under model_executor/models/, named in the table below.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.errors import Refused
from kvplan.families.common import divided_head_dim, uniform_gqa
from kvplan.hf import Config
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = (
    "DeepseekForCausalLM",
    "ExaoneForCausalLM",
    "HyperCLOVAXForCausalLM",
    "MiniCPMForCausalLM",
    "NemotronForCausalLM",
    "OlmoeForCausalLM",
    "OrionForCausalLM",
    "Param2MoEForCausalLM",
    "SolarForCausalLM",
    "StableLmForCausalLM",
)


class _Class(NamedTuple):
    """How one model class reads its config."""

    where: str
    """File and attention class."""
    head_dim: str = "divided"
    """What gives a head's size: ``divided`` hidden_size, ``required`` or ``optional`` head_dim."""
    own_kv_heads: bool = True
    """Whether num_key_value_heads has no default in the model class."""
    names: tuple[str, str] = ("model.layers", "self_attn.attn")
    """The stack of layers, and the attention in each."""


_CLASSES = {
    "DeepseekForCausalLM": _Class("deepseek_v2.py, DeepseekAttention"),
    "ExaoneForCausalLM": _Class(
        "exaone.py, ExaoneAttention", "optional", own_kv_heads=False, names=("model.h", "attn.attention.attn")
    ),
    "HyperCLOVAXForCausalLM": _Class("hyperclovax.py, HyperCLOVAXAttention", "required"),
    "MiniCPMForCausalLM": _Class("minicpm.py, MiniCPMAttention"),
    "NemotronForCausalLM": _Class("nemotron.py, NemotronAttention", "optional", own_kv_heads=False),
    "OlmoeForCausalLM": _Class("olmoe.py, OlmoeAttention"),
    "OrionForCausalLM": _Class("orion.py, OrionAttention"),
    "Param2MoEForCausalLM": _Class("param2moe.py, Param2MoEAttention", "optional"),
    "SolarForCausalLM": _Class("solar.py, SolarAttention", "optional", own_kv_heads=False),
    "StableLmForCausalLM": _Class("stablelm.py, StablelmAttention"),
}


def _check(model: Model) -> None:
    """Refused where the class does not split its heads as the others do, or builds other layers."""
    config, tp = model.config, model.tensor_parallel_size
    other = config.get("model_type") != "deepseek" or config.get("rswa_window") is not None
    if model.architecture == "DeepseekForCausalLM" and other:
        raise Refused(
            f"{config.where}: {model.architecture} is planned with model_type deepseek and without rswa_window only; "
            "name the class that the checkpoint was saved from."
        )
    if model.architecture == "StableLmForCausalLM":
        heads = config.integer("num_attention_heads")
        if config.integer("hidden_size") % heads:
            raise Refused(f"{config.where}: hidden_size is no multiple of the {heads} attention heads; correct it.")
    if model.architecture == "Param2MoEForCausalLM" and config.integer("num_key_value_heads") % tp:
        raise Refused(
            f"{config.where}: num_key_value_heads does not divide by --tensor-parallel-size {tp}, and "
            f"{model.architecture} does not repeat KV heads; choose a size that divides them."
        )


def _head_size(config: Config, found: _Class) -> int | None:
    if found.head_dim == "divided":
        return divided_head_dim(config)
    return config.integer("head_dim") if found.head_dim == "required" else None


def layers(model: Model) -> list[Layer]:
    config, found = model.config, _CLASSES[model.architecture]
    _check(model)
    size = "hidden_size" if found.head_dim == "divided" else "head_dim"
    stack, attention = found.names
    plain = uniform_gqa(
        model,
        (f"num_key_value_heads, {size}", f"model_executor/models/{found.where}"),
        head_size=_head_size(config, found),
        num_kv_heads=config.integer("num_key_value_heads") if found.own_kv_heads else None,
    )
    return [layer._replace(name=f"{stack}.{i}.{attention}") for i, layer in enumerate(plain, model.start_layer)]
