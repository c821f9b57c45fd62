"""MiniMax-M3: a few dense layers, then block-sparse grouped-query attention with an indexer's key cache beside each.

vLLM: models/minimax_m3/nvidia/model.py (MiniMaxM3Attention, MiniMaxM3SparseAttention), common/indexer.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvplan.errors import Refused
from kvplan.families.common import attention, check_tower, model_window, nested, num_layers, require
from kvplan.families.registry import Traits
from kvplan.hf import Config
from kvplan.layers import AttentionLayer, CustomLayer, Layer, Why
from kvplan.model import Model
from kvplan.spec import MLA, AttentionSpec

if TYPE_CHECKING:
    from kvplan.blocks import BlockSizes

ARCHITECTURES = (
    "MiniMaxM3SparseForConditionalGeneration",
    "MiniMaxM3SparseForCausalLM",
)

_FREQUENCY = "sparse_attention_freq"
_INDEX_DTYPES = {"auto": "bfloat16", "bf16": "bfloat16", "fp8": "float8_e4m3fn", "fp8_e4m3": "float8_e4m3fn"}
_VISION = (
    "hidden_size",
    "num_attention_heads",
    "num_hidden_layers",
    "intermediate_size",
    "patch_size",
    "layer_norm_eps",
    "num_channels",
    "img_token_compression_config",
)
"""What the vision tower reads and its config class has no default for; it caches nothing."""
_DENSE = ("sparse_attention_config.sparse_attention_freq: 0", "models/minimax_m3/nvidia/model.py, MiniMaxM3Attention")
_SPARSE = (
    "sparse_attention_config.sparse_attention_freq: 1",
    "models/minimax_m3/nvidia/model.py, MiniMaxM3SparseAttention",
)


def traits(architecture: str) -> Traits:
    return Traits(is_multimodal=architecture == "MiniMaxM3SparseForConditionalGeneration")


def sparse_section(config: Config) -> Config:
    """``sparse_attention_config``. KvplanError where it is missing or null."""
    section = config.section("sparse_attention_config")
    if section is None:
        raise config.error("sparse_attention_config", "is missing, and a sparse layer needs it")
    return section


def sparse_layers(config: Config) -> frozenset[int]:
    """Indices of the layers that attend sparsely (`_sparse_attention_layer_ids`)."""
    section = config.section("sparse_attention_config")
    if section is None or not section.data or section.get(_FREQUENCY) is None:
        return frozenset()
    return frozenset(i for i, f in enumerate(section.integers(_FREQUENCY)) if f)


def index_dtype(model: Model) -> str:
    """Element type of the indexer's keys, whatever the KV cache dtype (`select_indexer_impl_cls`)."""
    flag = (model.engine.args.attention_config or {}).get("indexer_kv_dtype") or "auto"
    dtype = _INDEX_DTYPES.get(flag) if isinstance(flag, str) else None
    if dtype is None or (dtype != "bfloat16" and model.engine.gpu.capability < (8, 9)):
        raise Refused(
            f"--attention-config indexer_kv_dtype {flag!r} is not one that MiniMax-M3's indexer takes on "
            f"{model.engine.gpu.name}; use auto or bf16."
        )
    return dtype


def index_cache(model: Model, config: Config, why: Why) -> CustomLayer:
    """The indexer's cache: one key per token and no value, the same on every rank."""
    size, dtype = config.integer("sparse_index_dim"), index_dtype(model)

    def make_spec(sizes: BlockSizes) -> AttentionSpec:
        return AttentionSpec(
            kind=MLA,
            block_size=sizes.block_size,
            num_kv_heads=1,
            head_size=size,
            head_size_v=0,
            dtype=dtype,
            cache_role="indexer",
        )

    return CustomLayer("", "MINIMAX_M3_SPARSE_INDEXER", make_spec, why)


def sparse_backend(model: Model, section: Config) -> str:
    """Key of a sparse layer's backend (`select_main_backend_and_impl_cls`, `supports_cutlass_sparse_decode`).

    Refused for an NVFP4 cache that vLLM's CUTLASS decode kernel does not read.
    """
    blocks, size = section.integer("sparse_topk_blocks"), section.integer("sparse_block_size")
    name, gpu = model.cache_dtype, model.engine.gpu
    if not name.startswith("nvfp4"):
        return "MINIMAX_M3_SPARSE"
    if name != "nvfp4" or gpu.capability[0] != 10 or (blocks, size) != (16, 128):
        raise Refused(
            f"--kv-cache-dtype {name}: MiniMax-M3's sparse layers read plain nvfp4 on compute capability 10.x, with 16 "
            f"top blocks of 128 tokens (here {blocks} of {size} on {gpu.name}); choose another KV cache dtype."
        )
    return "MINIMAX_M3_SPARSE_NVFP4"


def sparse_pair(model: Model, why: Why = _SPARSE) -> tuple[CustomLayer, AttentionLayer]:
    """A sparse layer's two caches, in the order in which vLLM creates them: the indexer's keys, then K and V."""
    config = model.config
    section = sparse_section(config)
    kv_heads = config.integer("num_key_value_heads")
    if section.integer("sparse_num_index_heads") != kv_heads:
        raise section.error("sparse_num_index_heads", f"must equal num_key_value_heads ({kv_heads})")
    if (model.engine.args.attention_config or {}).get("minimax_m3_indexer_cp"):
        raise Refused("--attention-config minimax_m3_indexer_cp runs on AMD GPUs only; leave it out.")
    main = attention(
        model,
        "",
        why,
        num_heads=config.integer("num_attention_heads"),
        num_kv_heads=kv_heads,
        head_size=config.integer("head_dim"),
        backend=sparse_backend(model, section),
        cache_dtype=model.cache_dtype,
    )
    return index_cache(model, section, why), main


def named(pair: tuple[CustomLayer, AttentionLayer], prefix: str) -> Iterator[Layer]:
    """The two caches of the layer at ``prefix``."""
    cache, main = pair
    yield cache._replace(name=f"{prefix}.self_attn.attn.index_cache")
    yield main._replace(name=f"{prefix}.self_attn.attn")


def text_layers(model: Model) -> Iterator[Layer]:
    config = model.config
    sparse = sparse_layers(config)
    count = num_layers(config)
    if config.get("moe_layer_freq") is not None and len(config.sequence("moe_layer_freq")) < count:
        raise config.error("moe_layer_freq", f"must have an entry for each of {count} layers")
    pair = sparse_pair(model) if any(i < count for i in sparse) else None
    dense = attention(
        model,
        "",
        _DENSE,
        num_heads=config.integer("num_attention_heads"),
        num_kv_heads=config.integer("num_key_value_heads"),
        head_size=config.integer("head_dim"),
        sliding_window=model_window(model),
    )
    for i in range(count):
        prefix = f"model.layers.{i}"
        if pair is not None and i in sparse:
            yield from named(pair, prefix)
        else:
            yield dense._replace(name=f"{prefix}.self_attn.attn")


def layers(model: Model) -> list[Layer]:
    if model.architecture == "MiniMaxM3SparseForConditionalGeneration":
        vision = model.root.section("vision_config")
        if vision is None:
            raise model.root.error("vision_config", "is missing, and vLLM cannot build the model without it")
        require(vision, *_VISION)
        check_tower(model, dict.fromkeys(("num_attention_heads", "intermediate_size"), 0))
        return nested(model, "MiniMaxM3SparseForCausalLM")
    return list(text_layers(model))
