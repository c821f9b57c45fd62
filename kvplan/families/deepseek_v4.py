"""DeepSeek-V4: every layer keeps a window of latents; most keep compressed latents too, with their compressor's state.

vLLM: models/deepseek_v4/attention.py (DeepseekV4Attention), models/deepseek_v4/compressor.py. A layer that compresses
4 tokens into one has an indexer, with a cache and a compressor of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvplan.errors import Refused
from kvplan.families.common import num_layers, require
from kvplan.families.compressed_mla import (
    Latents,
    check_heads,
    check_size,
    drafter_latents,
    indexer_row,
    latent_spec,
    plain,
    unstored,
    window_cache,
)
from kvplan.families.registry import Traits
from kvplan.hf import Config
from kvplan.layers import CustomLayer, Layer, Why
from kvplan.model import Model
from kvplan.spec import MLA, SLIDING_WINDOW_MLA, AttentionSpec

if TYPE_CHECKING:
    from kvplan.blocks import BlockSizes

ARCHITECTURES = ("DeepseekV4ForCausalLM", "DeepseekV4ForConditionalGeneration")

_PACKED = "fp8_ds_mla"
_PACKED_ROW, _PACKED_PAGE = 584, 576
_WINDOW_BLOCK = 64
_STATE_BLOCKS = {4: 4, 128: 8}
"""Tokens in a block of a compressor's state, by the tokens that it compresses into one."""
_VISION = (
    "vision_dim",
    "vision_n_heads",
    "vision_inter_dim",
    "vision_patch_size",
    "vision_rope_theta",
    "vision_downsample_ratio",
    "vision_max_n_token",
    "vision_min_pixels",
    "vision_max_wh_ratio",
)
_FILE = "models/deepseek_v4/attention.py"
_COMPRESSED = ("layer_types, compress_rates", f"{_FILE}, DeepseekV4Attention")
_INDEXER = ("layer_types: compressed_sparse_attention, index_head_dim", f"{_FILE}, DeepseekV4IndexerCache")
_STATE = ("layer_types, compress_rates", "models/deepseek_v4/compressor.py, CompressorStateCache")


def traits(architecture: str) -> Traits:
    return Traits(is_multimodal=architecture == "DeepseekV4ForConditionalGeneration")


def attention_backend(model: Model) -> str:
    """The sparse backend of the layers (`_select_dsv4_attn_cls` of models/deepseek_v4/nvidia/model.py).

    --attention-backend tells FlashMLA from FlashInfer; other names count as none.
    """
    requested = model.attention_backend
    if requested in ("FLASHINFER_MLA_SPARSE", "FLASHINFER_MLA_SPARSE_SM120"):
        raise Refused(
            f"--attention-backend {requested} does not serve DeepSeek-V4; name FLASHINFER_MLA_SPARSE_DSV4 for "
            "FlashInfer's kernels."
        )
    flash_mla = requested in ("FLASHMLA_SPARSE", "FLASHMLA_SPARSE_DSV4")
    flash_infer = requested == "FLASHINFER_MLA_SPARSE_DSV4" or model.engine.gpu.capability[0] == 12
    return "FLASHINFER_MLA_SPARSE_DSV4" if flash_infer and not flash_mla else "FLASHMLA_SPARSE_DSV4"


def latents(model: Model) -> Latents:
    """The storage of the model's latents (`_resolve_dsv4_kv_cache_dtype`). Refused where its kernels read no such."""
    backend, name = attention_backend(model), model.cache_dtype
    packs = backend.startswith("FLASHMLA") or model.engine.gpu.capability[0] == 12
    fp8 = name.startswith("fp8") and (packs or name not in (_PACKED, "fp8_per_token_head"))
    if not fp8 and name != "auto" and (packs or name != "bfloat16"):
        raise unstored(model, backend, name)
    stored = plain(backend, name)
    if packs:
        stored = Latents(backend, _PACKED, "uint8", _PACKED_PAGE, _PACKED_ROW, _PACKED_ROW)
    return stored


def compressed_cache(config: Config, stored: Latents, rate: int) -> CustomLayer:
    """One latent per ``rate`` tokens. A layer that does not compress has none, though its backend counts."""
    size = config.integer("head_dim")

    def make_spec(sizes: BlockSizes) -> AttentionSpec | None:
        if rate == 1:
            return None
        return latent_spec(
            stored,
            size,
            stored.compressed_row,
            sizes.block_size,
            kind=MLA,
            tokens_per_state=rate,
            max_tp_shards=1,
        )

    return CustomLayer("", stored.backend, make_spec, _COMPRESSED, run_cache_dtype=stored.dtype_name)


def state_cache(stored: Latents, size: int, rate: int) -> CustomLayer:
    """What a compressor keeps of the tokens not yet compressed: keys and gate scores of ``size`` elements each.

    At 4 tokens the compressed spans overlap, which doubles both.
    """
    spans = 2 if rate == 4 else 1

    def make_spec(sizes: BlockSizes) -> AttentionSpec:
        return AttentionSpec(
            kind=SLIDING_WINDOW_MLA,
            block_size=_STATE_BLOCKS[rate],
            num_kv_heads=1,
            max_tp_shards=1,
            head_size=2 * spans * size,
            head_size_v=0,
            dtype="float32",
            sliding_window=spans * rate,
            alignment=stored.page,
        )

    return CustomLayer("", "CompressorBackend", make_spec, _STATE)


def indexer_cache(model: Model, stored: Latents, rate: int) -> CustomLayer:
    """The indexer's keys: one per ``rate`` tokens."""
    row = indexer_row(model)

    def make_spec(sizes: BlockSizes) -> AttentionSpec:
        return AttentionSpec(
            kind=MLA,
            block_size=sizes.block_size,
            num_kv_heads=1,
            max_tp_shards=1,
            head_size=row,
            head_size_v=0,
            dtype="uint8",
            tokens_per_state=rate,
            alignment=stored.page,
        )

    return CustomLayer("", "DEEPSEEK_V4_INDEXER", make_spec, _INDEXER)


def rates(config: Config) -> list[int]:
    """Tokens that each layer compresses into one latent; 1 where it keeps its window alone."""
    kinds = config.texts("layer_types", length=num_layers(config))
    section = config.section("compress_rates")
    if section is None:
        raise config.error("compress_rates", "is missing, and the layers' caches follow from it")
    known = {kind: max(1, section.integer(kind, 0, minimum=0)) for kind in dict.fromkeys(kinds)}
    for kind, rate in known.items():
        if rate not in (1, *_STATE_BLOCKS):
            raise section.error(kind, f"must be 4 or 128, which vLLM's compressors take, got {rate}")
    if set(known.values()) - {1}:
        check_size(config, "head_dim", 512)
    if 4 in known.values():
        check_size(config, "index_head_dim", 128)
    return [known[kind] for kind in kinds]


def layer_caches(model: Model, stored: Latents, rate: int) -> list[tuple[str, CustomLayer]]:
    """The caches of one layer with the ends of their names, in the order in which vLLM creates them."""
    config = model.config
    size = config.integer("head_dim")
    caches = [
        ("attn.swa_cache", window_cache(config, stored, _WINDOW_BLOCK)),
        ("attn", compressed_cache(config, stored, rate)),
    ]
    if rate > 1:
        caches.append(("attn.compressor.state_cache", state_cache(stored, size, rate)))
    if rate != 4:
        return caches
    keys = ("attn.indexer.k_cache", indexer_cache(model, stored, rate))
    state = ("attn.indexer.compressor.state_cache", state_cache(stored, config.integer("index_head_dim"), rate))
    return [keys, state, *caches]


def window_layers(model: Model, indices: range, why: Why) -> Iterator[Layer]:
    """Layers of a drafter, which keep their windows only."""
    check_heads(model)
    caches = layer_caches(model, drafter_latents(model, latents), 1)
    for i in indices:
        yield from (cache._replace(name=f"model.layers.{i}.{end}", why=why) for end, cache in caches)


def check_vision(model: Model) -> None:
    """KvplanError where a field of the vision tower is missing, which is built unless it takes no images."""
    require(model.root, "vision_n_layers")
    if model.root.integer("vision_n_layers", minimum=0) and not model.engine.args.language_model_only:
        require(model.root, *_VISION)


def layers(model: Model) -> Iterator[Layer]:
    prefix = "model"
    if model.architecture == "DeepseekV4ForConditionalGeneration":
        prefix = "language_model.model"
        check_vision(model)
    check_heads(model)
    stored, found = latents(model), rates(model.config)
    caches = {rate: layer_caches(model, stored, rate) for rate in dict.fromkeys(found)}
    for i, rate in enumerate(found):
        yield from (cache._replace(name=f"{prefix}.layers.{i}.{end}") for end, cache in caches[rate])
