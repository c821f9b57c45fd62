"""EAGLE and EAGLE3 with the layers of Llama or Qwen3: they share the target's embedding and output head.

vLLM: model_executor/models/llama_eagle.py, llama_eagle3.py, qwen3_eagle3.py, mistral_eagle.py. Whether a checkpoint
brings an embedding or a head of its own that differs from the target's is known only when it is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.hf.config import Config
from kvplan.weights.attention import HEAD, gated_mlp, heads_of, positions, qk_norms, rope_parameters
from kvplan.weights.builder import Builder
from kvplan.weights.models.llama import llama_layer, two_norms
from kvplan.weights.own import Own, draft_vocabulary

ARCHITECTURES = (
    "EagleLlamaForCausalLM",
    "EagleMistralForCausalLM",
    "Eagle3LlamaForCausalLM",
    "LlamaForCausalLMEagle3",
    "Eagle3MiniMaxM2ForCausalLM",
    "Eagle3Qwen2_5vlForCausalLM",
    "Eagle3Qwen3vlForCausalLM",
    "PEagleDraftModel",
    "PeagleLlamaForCausalLM",
    "Eagle3Qwen3ForCausalLM",
    "PeagleQwen3ForCausalLM",
)
OWN_SCHEME = True
_QWEN3 = ("Eagle3Qwen3ForCausalLM", "PeagleQwen3ForCausalLM")


def weights(b: Builder, own: Own) -> None:
    architecture, config = b.model.architecture, b.config
    count = config.integer("num_hidden_layers")
    if architecture in ("EagleLlamaForCausalLM", "EagleMistralForCausalLM"):
        _eagle(b, count)
    else:
        for i in range(count):
            _eagle3_layer(b, f"model.layers.{b.model.start_layer + i}", first=i == 0, qwen3=architecture in _QWEN3)
        _combined(b, qwen3=architecture in _QWEN3)
        b.norm("model.norm", config.integer("hidden_size"))
    own.add(b, draft_vocabulary(b))


def _eagle(b: Builder, count: int) -> None:
    """Llama's layers, the first without the norm before attention, and a projection from two states to one."""
    size, mistral = b.config.integer("hidden_size"), b.model.architecture == "EagleMistralForCausalLM"
    for i in range(count):
        prefix = f"model.layers.{b.model.start_layer + i}"
        llama_layer(b, prefix, i)
        if i == 0 and not mistral:
            b.remove(f"{prefix}.input_layernorm.weight")
    if mistral:
        b.row("model.fc", 2 * size, size)
        b.norm("model.norm", size)
    else:
        b.replicated("model.fc", 2 * size, size, dtype=_target_dtype(b))


def _eagle3_layer(b: Builder, prefix: str, *, first: bool, qwen3: bool) -> None:
    """A layer whose first one attends from embedding and state side by side."""
    config, heads, size = b.config, heads_of(b.config), b.config.integer("hidden_size")
    attention, bias = f"{prefix}.self_attn", config.truthy("attention_bias")
    b.qkv(f"{attention}.qkv_proj", 2 * size if first else size, heads.size, heads.query, heads.kv, bias=bias)
    out_bias = not qwen3 and (bias or config.truthy("bias"))
    b.row(f"{attention}.o_proj", heads.query * heads.size, size, bias=out_bias)
    if qwen3:
        qk_norms(b, attention, heads, HEAD)
    b.rotary(f"{attention}.rotary_emb", heads.size, positions(config), rope_parameters(config))
    b.attention(f"{attention}.attn")
    mlp_bias = not qwen3 and config.truthy("mlp_bias")
    gated_mlp(b, f"{prefix}.mlp", config.integer("intermediate_size"), bias=mlp_bias)
    two_norms(b, prefix)
    b.norm(f"{prefix}.hidden_norm", size)


def _combined(b: Builder, *, qwen3: bool) -> None:
    """The projection from the target's chosen states to one, with the norms before it."""
    config = b.config
    eagle = eagle_config(config)
    size = config.integer("hidden_size")
    width = size
    if eagle.get("use_aux_hidden_state", True):
        target = config.optional_integer("target_hidden_size") or size
        states = _states(config, eagle, qwen3=qwen3)
        width = target * states
        if eagle.get("norm_before_fc", config.get("norm_before_fc")):
            b.norm("model.input_norm", width)
        if config.truthy("fc_norm"):
            for i in range(states):
                b.norm(f"model.fc_norm.{i}", target)
        b.replicated("model.fc", width, size, dtype=_target_dtype(b))
    speculative = b.model.engine.speculative
    if speculative is not None and speculative.parallel_drafting:
        b.add("mask_hidden", width)


def eagle_config(config: Config) -> Mapping[str, Any]:
    """``eagle_config``, which may be missing."""
    value = config.get("eagle_config")
    return value if isinstance(value, Mapping) else {}


def _states(config: Config, eagle: Mapping[str, Any], *, qwen3: bool) -> int:
    """How many layers' states the target hands over: three unless the config says otherwise."""
    names = ("num_aux_layers", "num_aux_hidden_states") if qwen3 else ("num_aux_hidden_states",)
    for name in names:
        if config.get(name) is not None:
            return config.integer(name)
    key = "eagle_aux_hidden_state_layer_ids"
    found = (config.get(key) if qwen3 else None) or eagle.get(key)
    return len(found) if isinstance(found, list) and found else 3


def _target_dtype(b: Builder) -> str:
    return b.dtype if b.model.target is None else b.model.target.dtype
