"""GLM-5.3-Flash: Kimi delta attention states, and sparse MLA fed by an indexer that stores pools of tokens.

Each indexer keeps a ring of the keys that are not pooled yet. vLLM: models/glm5next/common/{model,attention,kda}.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kvplan.errors import Refused
from kvplan.families.common import check_tower, nested, num_layers, require
from kvplan.families.registry import Traits
from kvplan.families.sparse_mla import indexer, indexer_bytes
from kvplan.families.states import kda, kda_prefill_alignment
from kvplan.hf import Config
from kvplan.layers import CustomLayer, Layer, MLALayer, StateLayer, Why
from kvplan.model import Model
from kvplan.spec import CIRCULAR_BUFFER, AttentionSpec, cdiv, round_up

if TYPE_CHECKING:
    from kvplan.blocks import BlockSizes

ARCHITECTURES = ("Glm5NextForConditionalGeneration", "Glm5NextForCausalLM")

_TOPK_TILE = 128
_LINEAR = ("layer_types: linear_attention", "models/glm5next/common/kda.py, Glm5NextLinearAttention")
_FULL = ("layer_types: indexed_attention", "models/glm5next/common/attention.py, Glm5NextMLAAttention")


_TOWER = {"num_heads": 16, "intermediate_size": 4096}
"""Defaults of the vision config."""


def traits(architecture: str) -> Traits:
    return Traits(
        is_hybrid=True,
        supports_mamba_prefix_caching=True,
        is_multimodal=architecture == "Glm5NextForConditionalGeneration",
    )


def ring_tokens(pool: int, num_speculative_tokens: int) -> int:
    """Slots of the ring: a power of two of pools that holds one pool and every drafted token (Glm5NextTailCache)."""
    pools = cdiv(pool + num_speculative_tokens, pool)
    return pool * (1 << (pools - 1).bit_length())


def tail_cache(model: Model, why: Why) -> CustomLayer:
    """Raw keys and gate scores of the pool in progress: one block of the ring per request."""
    config = model.config
    size = config.integer("index_head_dim")
    ring = ring_tokens(config.integer("index_kpool", minimum=2), model.engine.num_speculative_tokens)

    def make_spec(sizes: BlockSizes) -> AttentionSpec:
        if sizes.block_size % ring:
            raise Refused(
                f"blocks of {sizes.block_size} tokens are no multiple of the {ring} tokens that {config.where} keeps "
                "unpooled (index_kpool and the drafted tokens); set another --block-size."
            )
        return AttentionSpec(
            kind=CIRCULAR_BUFFER,
            block_size=ring,
            num_kv_heads=2,
            head_size=size,
            head_size_v=0,
            dtype="bfloat16",
            dcp_sharded=False,
        )

    return CustomLayer("", "KPOOL_TAIL", make_spec, why)


def _caches(model: Model, why: Why) -> tuple[CustomLayer, CustomLayer]:
    """The indexer's two caches, in the order in which vLLM creates them: pooled keys, then the ring."""
    pool = model.config.integer("index_kpool", minimum=2)
    pooled = indexer("", indexer_bytes(model.config), ("index_kpool, index_head_dim", why[1]), tokens_per_state=pool)
    return pooled._replace(backend="GLM5_NEXT_INDEXER"), tail_cache(model, ("index_kpool", why[1]))


def topk_width(config: Config) -> int:
    """Tokens that a layer attends to, the incomplete pool among them (`get_sparse_topk_buffer_width`)."""
    return round_up(config.integer("index_topk") + config.integer("index_kpool", minimum=2) - 1, _TOPK_TILE)


def mla_layers(model: Model, indices: Iterable[int], why: Why = _FULL) -> Iterator[Layer]:
    """The MLA layers of these indices, each after its indexer's caches."""
    config = model.config
    if not config.truthy("index_kpool_always_select_tail"):
        raise config.error("index_kpool_always_select_tail", "must be true: vLLM always selects the last pool")
    if not config.truthy("mla_use_nope"):
        raise config.error("mla_use_nope", "must be true: the class has no rotary parameters")
    config.integer("index_n_heads")
    require(config, "indexer_rope_interleave", "mhc")
    if config.get("n_routed_experts") is not None and "sparse" in config.sequence("mlp_layer_types"):
        require(config, "scoring_func", "topk_method")
    attends = MLALayer(
        name="",
        num_heads=model.heads_per_rank(config.integer("num_attention_heads")),
        head_size=config.integer("kv_lora_rank") + config.integer("qk_rope_head_dim", minimum=0),
        why=why,
        use_sparse=True,
        has_indexer=True,
        topk_buffer_width=topk_width(config),
    )
    pooled, tail = _caches(model, why)
    for i in indices:
        prefix = f"model.layers.{i}.self_attn"
        yield pooled._replace(name=f"{prefix}.indexer.k_cache")
        yield tail._replace(name=f"{prefix}.indexer.tail_cache")
        yield attends._replace(name=f"{prefix}.attn")


def state(model: Model) -> StateLayer:
    """A layer of Kimi delta attention; its gate is bounded wherever linear_lower_bound is set."""
    config = model.config
    head_dim = config.integer("linear_head_dim")
    shapes, dtypes = kda(
        model,
        num_heads=config.integer("linear_num_heads"),
        head_dim=head_dim,
        conv_kernel=config.integer("linear_conv_kernel_dim"),
    )
    bounded = config.get("linear_lower_bound") is not None
    return StateLayer(
        name="",
        mamba_type="gdn_attention",
        shapes=shapes,
        dtypes=dtypes,
        why=_LINEAR,
        backend="GDN_ATTN",
        prefill_checkpoint_alignment=kda_prefill_alignment(model, head_dim, bounded_gate=bounded),
    )


def text_layers(model: Model) -> Iterator[Layer]:
    config = model.config
    kinds = config.texts("layer_types", length=num_layers(config))
    if "linear_attention" not in kinds:
        raise config.error("layer_types", "names no linear_attention layer, which kvplan needs to plan this class")
    kda_state = state(model)
    for i, kind in enumerate(kinds):
        if kind == "linear_attention":
            yield kda_state._replace(name=f"model.layers.{i}.self_attn")
        else:
            yield from mla_layers(model, (i,))


def layers(model: Model) -> list[Layer]:
    if model.architecture == "Glm5NextForConditionalGeneration":
        check_tower(model, _TOWER)
        return nested(model, "Glm5NextForCausalLM")
    return list(text_layers(model))
