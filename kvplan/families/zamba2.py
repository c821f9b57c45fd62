"""Zamba2: Mamba-2 in every layer, and shared attention blocks whose every use has a cache of its own.

vLLM: model_executor/models/zamba2.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.families.common import attention, model_window, num_layers
from kvplan.families.registry import Traits
from kvplan.families.states import mamba2_layer
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("Zamba2ForCausalLM",)

TRAITS = Traits(is_hybrid=True, supports_mamba_prefix_caching=True, supports_pp=False)

_STATE = ("layers_block_type", "model_executor/models/zamba2.py, Zamba2MambaDecoderLayer")
_FULL = ("hybrid_layer_ids, num_mem_blocks", "model_executor/models/zamba2.py, Zamba2Attention")


def _attention_indices(hybrids: int, shared: int) -> Iterator[int]:
    """Numbers of the attention uses, block by block: each shared block counts on from its own start."""
    for block in range(shared):
        start = block * (hybrids + shared - 1) // shared
        uses = len(range(block, hybrids, shared))
        yield from range(start, start + uses)


def layers(model: Model) -> Iterator[Layer]:
    config = model.config
    count = num_layers(config)
    hybrids = config.integers("hybrid_layer_ids", maximum=count)
    heads = config.integer("num_attention_heads")
    head_size, hidden = config.integer("attention_head_dim"), config.integer("attention_hidden_size")
    if heads * head_size != hidden:
        raise config.error("attention_hidden_size", f"must be {heads} heads x {head_size}, got {hidden}")
    width = config.integer("mamba_expand") * config.integer("hidden_size")
    full = attention(
        model,
        "",
        _FULL,
        num_heads=heads,
        num_kv_heads=heads,
        head_size=head_size,
        sliding_window=model_window(model),
    )
    state = mamba2_layer(
        model,
        "",
        _STATE,
        intermediate_size=width,
        num_groups=config.integer("mamba_ngroups"),
        num_heads=config.integer("n_mamba_heads"),
        head_dim=config.integer("mamba_headdim"),
        state_size=config.integer("mamba_d_state"),
        conv_kernel=config.integer("mamba_d_conv"),
    )
    for j in _attention_indices(len(hybrids), config.integer("num_mem_blocks", maximum=1024)):
        yield full._replace(name=f"model.attn.{j}")
    for i in range(len(config.sequence("layers_block_type", length=count))):
        yield state._replace(name=f"{len(hybrids) + i}.mixer")
