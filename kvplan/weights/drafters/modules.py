"""Multi-token prediction modules of DeepSeek's kind: norms and a projection around one decoder layer of the target.

vLLM: model_executor/models/deepseek_mtp.py, glm4_moe_mtp.py, glm4_moe_lite_mtp.py, hy_v3_mtp.py, ernie_mtp.py,
mimo_mtp.py, models/deepseek_v32/nvidia/mtp.py.
"""

from __future__ import annotations

from kvplan.drafters.common import num_modules, target_config
from kvplan.weights.builder import Builder
from kvplan.weights.models import deepseek, moe
from kvplan.weights.models.llama import llama_layer, qwen2_layer
from kvplan.weights.own import Own

ARCHITECTURES = (
    "DeepSeekMTPModel",
    "DeepseekV32MTPModel",
    "Glm4MoeLiteMTPModel",
    "Glm4MoeMTPModel",
    "ErnieMTPModel",
    "MiMoMTPModel",
)
OWN_SCHEME = False


def weights(b: Builder, own: Own) -> None:
    """One module for each that num_nextn_predict_layers names, numbered on from the target's layers."""
    architecture, config = b.model.architecture, b.config
    first = target_config(b.model).integer("num_hidden_layers")
    for i in range(first, first + num_modules(config)):
        if architecture in ("ErnieMTPModel", "MiMoMTPModel"):
            _dense(b, i)
        else:
            _module(b, f"model.layers.{i}", i)
    own.add(b, config.integer("vocab_size"))


def _module(b: Builder, prefix: str, index: int) -> None:
    ends(b, prefix)
    b.norm(f"{prefix}.shared_head.norm", b.config.integer("hidden_size"))
    if b.model.architecture == "Glm4MoeMTPModel":
        moe.glm4_moe_layer(b, prefix, index)
    else:
        deepseek.layer(b, prefix, index, sparse=b.model.architecture == "DeepseekV32MTPModel")


def ends(b: Builder, prefix: str, names: tuple[str, str, str] = ("enorm", "hnorm", "eh_proj")) -> None:
    """The norms of embedding and state and the projection of both to one, never quantised."""
    size = b.config.integer("hidden_size")
    b.norm(f"{prefix}.{names[0]}", size)
    b.norm(f"{prefix}.{names[1]}", size)
    b.replicated(f"{prefix}.{names[2]}", 2 * size, size, quantized=False)


def _dense(b: Builder, index: int) -> None:
    size = b.config.integer("hidden_size")
    if b.model.architecture == "ErnieMTPModel":
        prefix = f"model.layers.{index}"
        ends(b, prefix, ("mtp_emb_norm", "mtp_hidden_norm", "mtp_linear_proj"))
        llama_layer(b, prefix, index)
        return
    prefix = f"model.mtp_layers.{index}"
    ends(b, prefix, ("token_layernorm", "hidden_layernorm", "input_proj"))
    qwen2_layer(b, prefix, index)
    b.norm(f"{prefix}.final_layernorm", size)
