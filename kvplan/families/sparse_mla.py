"""What models with DeepSeek's sparse attention share: an indexer cache and the MLA layer that it feeds.

vLLM: models/deepseek_v32/attention.py (DeepseekV32Attention), model_executor/models/deepseek_v2.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvplan.hf import Config
from kvplan.layers import CustomLayer, Layer, MLALayer, Why
from kvplan.model import Model
from kvplan.spec import MLA, AttentionSpec

if TYPE_CHECKING:
    from kvplan.blocks import BlockSizes

_QUANT_BLOCK = 128
_SCALE_BYTES = 4


def leads(config: Config, layer: int) -> bool:
    """Whether the layer computes its own top-k indices; the others reuse an earlier layer's."""
    pattern = config.get("index_topk_pattern")
    if pattern is not None:
        if isinstance(pattern, str):
            return not (layer < len(pattern) and pattern[layer] == "S")
        letters = config.texts("index_topk_pattern")
        return not (layer < len(letters) and letters[layer] == "S")
    offset = config.integer("index_skip_topk_offset", 2, minimum=0)
    return max(layer - offset + 1, 0) % config.integer("index_topk_freq", 1) == 0


def indexer_bytes(config: Config) -> int:
    """Bytes of one token in the indexer's cache: fp8 keys, and a float scale per 128 of them."""
    size = config.integer("index_head_dim")
    return size + size // _QUANT_BLOCK * _SCALE_BYTES


def indexer(name: str, size: int, why: Why, **fields: object) -> CustomLayer:
    """The indexer's key cache, ``size`` bytes a token, in blocks of the primary attention."""

    def make_spec(sizes: BlockSizes) -> AttentionSpec:
        spec = AttentionSpec(
            kind=MLA,
            block_size=sizes.block_size,
            num_kv_heads=1,
            max_tp_shards=1,
            head_size=size,
            head_size_v=0,
            dtype="uint8",
            cache_role="indexer",
        )
        return spec._replace(**fields)  # type: ignore[arg-type]

    return CustomLayer(name, "DEEPSEEK_V32_INDEXER", make_spec, why)


def sparse_layers(model: Model, prefix: str, first: int, count: int, why: Why, *, mtp: bool = False) -> Iterator[Layer]:
    """Decoder layers ``first`` on: the indexer cache where the layer leads, then its MLA layer.

    An MTP layer always has an indexer.
    """
    config = model.config
    layer = MLALayer(
        name="",
        num_heads=model.heads_per_rank(config.integer("num_attention_heads")),
        head_size=config.integer("kv_lora_rank") + config.integer("qk_rope_head_dim"),
        why=why,
        use_sparse=True,
        topk_buffer_width=config.integer("index_topk"),
    )
    cache = indexer("", indexer_bytes(config), ("index_head_dim", why[1]))
    for i in range(first, first + count):
        own = mtp or leads(config, i)
        if own:
            yield cache._replace(name=f"{prefix}.layers.{i}.self_attn.indexer.k_cache")
        yield layer._replace(name=f"{prefix}.layers.{i}.self_attn.attn", has_indexer=own)
