"""DeepSeek-V4.1: every layer keeps a window of latents; a few sources keep compressed latents that later layers read.

vLLM: models/deepseek_v41/attention.py (DeepseekV4Attention), models/deepseek_v41/compressor.py. A source that owns an
indexer keeps its keys, and one that compresses keeps a ring of the tokens not yet compressed.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm
from typing import TYPE_CHECKING, NamedTuple

from kvplan.errors import Refused
from kvplan.families.common import num_layers, require
from kvplan.families.compressed_mla import (
    PLAIN_PAGE,
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
from kvplan.spec import CIRCULAR_BUFFER, MLA, AttentionSpec

if TYPE_CHECKING:
    from kvplan.blocks import BlockSizes

ARCHITECTURES = ("DeepseekV41ForCausalLM",)

TRAITS = Traits(is_multimodal=True)

_FIELDS = (
    "hc_eps",
    "hc_mult",
    "hc_sinkhorn_iters",
    "hidden_size",
    "index_topk",
    "max_position_embeddings",
    "moe_intermediate_size",
    "n_routed_experts",
    "n_shared_experts",
    "norm_topk_prob",
    "num_experts_per_tok",
    "o_lora_rank",
    "q_lora_rank",
    "qk_rope_head_dim",
    "rms_norm_eps",
    "rope_parameters",
    "rope_theta",
    "swiglu_limit",
    "vocab_size",
)
"""Further fields that the model class reads; its config class has no defaults."""
_NGRAM_FIELDS = (
    "engram_compressed_vocab_size",
    "engram_head_dim",
    "engram_max_ngram_size",
    "engram_n_heads",
    "engram_pad_token_id",
    "engram_vocab_size",
)
_WINDOW_BLOCK = 32
_MEGA_HEADS_PER_GROUP = 8
_RATIOS = (0, 1, 2)
_FP4, _FP8 = "nvfp4_ds_mla", "fp8_ds_mla"
_FILE = "models/deepseek_v41/attention.py"
_SOURCE = ("kv_source_layer_ids, compress_ratios", f"{_FILE}, DeepseekV4Attention")
_READER = ("compress_ratios", f"{_FILE}, DeepseekV4Attention")
_INDEXER = ("index_source_layer_ids, index_head_dim", f"{_FILE}, DeepseekV4IndexerCache")
_RING = ("kv_source_layer_ids, compress_ratios: 2", "models/deepseek_v41/compressor.py, CompressorStateCache")


class Role(NamedTuple):
    """What one layer owns, and whose caches it reads."""

    ratio: int
    """Tokens compressed into one latent; 0: the window alone."""
    is_source: bool
    """It owns compressed latents."""
    has_indexer: bool
    source: int | None
    """The layer whose compressed latents and index keys it reads: the nearest source before it, or itself."""


def check_fields(config: Config) -> None:
    """KvplanError where a field is missing without which vLLM does not build the model."""
    require(config, *_FIELDS)
    if config.integers("index_source_layer_ids", []):
        require(config, "index_n_heads")
    if any(config.integers("compress_ratios")):
        require(config, "compress_rope_theta")
    tables = config.integers("engram_layer_ids", []) if config.get("engram_layer_ids") else []
    if tables:
        require(config, *_NGRAM_FIELDS)
        config.integers("engram_num_embeddings", length=len(tables))


def roles(config: Config) -> list[Role]:
    """The role of every decoder layer. KvplanError where a layer lacks a source that it needs."""
    count = num_layers(config)
    sources = config.integers("kv_source_layer_ids")
    if not sources:
        raise config.error("kv_source_layer_ids", "is empty, and vLLM cannot build the model without a source")
    indexers = config.integers("index_source_layer_ids")
    ratios = _ratios(config, count)
    if any(i < count for i in sources):
        check_size(config, "head_dim", 512)
        check_size(config, "qk_rope_head_dim", 64)
    out: list[Role] = []
    for i, ratio in enumerate(ratios):
        before = [s for s in sources if s <= i]
        role = Role(ratio, i in sources, i in indexers, max(before) if ratio and before else None)
        _check_role(config, i, role, indexers)
        out.append(role)
    return out


def _ratios(config: Config, count: int) -> list[int]:
    """``compress_ratios``, one per layer; layers past its end keep their window alone."""
    ratios = config.integers("compress_ratios")[:count]
    for i, ratio in enumerate(ratios):
        if ratio not in _RATIOS:
            raise config.error(f"compress_ratios[{i}]", f"must be 0, 1 or 2, got {ratio}")
    return ratios + [0] * (count - len(ratios))


def _check_role(config: Config, i: int, role: Role, indexers: list[int]) -> None:
    problem = None
    if role.is_source and role.ratio == 0:
        problem = "names a layer whose compress_ratios entry is 0, which has nothing to compress"
    elif role.ratio and role.source is None:
        problem = f"has no layer up to layer {i}, whose compressed latents come from one"
    elif role.ratio and min(indexers, default=i + 1) > i:
        raise config.error("index_source_layer_ids", f"has no layer up to layer {i}, which attends to what one picks")
    elif role.has_indexer and not role.is_source and role.source not in indexers:
        problem = f"must name layers that own an indexer, as layer {i} reads the index keys of its source"
    if problem is not None:
        raise config.error("kv_source_layer_ids", problem)


def attention_backend(model: Model) -> str:
    """The sparse backend of the layers (`_select_dsv4_attn_cls` of models/deepseek_v41/nvidia/model.py)."""
    requested, major = model.attention_backend, model.engine.gpu.capability[0]
    if requested in ("FLASHINFER_MLA_SPARSE", "FLASHINFER_MLA_SPARSE_SM120"):
        raise Refused(
            f"--attention-backend {requested} does not serve DeepSeek-V4.1; name FLASHINFER_MLA_SPARSE_DSV41 for "
            "FlashInfer's kernels."
        )
    if requested in ("FLASHINFER_MLA_SPARSE_DSV4", "FLASHINFER_MLA_SPARSE_DSV41"):
        return "FLASHINFER_MLA_SPARSE_DSV41"
    if requested in ("FLASHMLA_SPARSE", "FLASHMLA_SPARSE_DSV4", "FLASHMLA_SPARSE_DSV41"):
        return "FLASHMLA_SPARSE_DSV41"
    mega = major == 10 and _fits_mega_attention(model)
    if requested == "FLASHMLA_MEGA_ATTN_DSV41":
        if not mega:
            raise Refused(
                f"--attention-backend {requested} needs compute capability 10.x and {_MEGA_HEADS_PER_GROUP} heads in "
                f"each of o_groups on a rank of {model.config.where}; leave it out."
            )
        return requested
    if major == 12:
        return "FLASHINFER_MLA_SPARSE_DSV41"
    return "FLASHMLA_MEGA_ATTN_DSV41" if mega else "FLASHMLA_SPARSE_DSV41"


def _fits_mega_attention(model: Model) -> bool:
    """Whether a rank has whole output groups of as many heads as the kernel takes (`is_available_for`)."""
    tp = model.tensor_parallel_size
    heads, groups = model.config.integer("num_attention_heads"), model.config.integer("o_groups")
    if heads % tp or groups % tp:
        return False
    heads, groups = heads // tp, groups // tp
    return heads % _MEGA_HEADS_PER_GROUP == 0 and heads // groups == _MEGA_HEADS_PER_GROUP


def latents(model: Model) -> Latents:
    """The storage of the model's latents (`_resolve_dsv4_kv_cache_dtype`). Refused where its kernels read no such."""
    backend, name, major = attention_backend(model), model.cache_dtype, model.engine.gpu.capability[0]
    packs = backend.startswith("FLASHMLA") or major == 12
    short_rows = major == 10
    if packs and name in ("auto", "fp8"):
        name = _FP4 if backend.startswith("FLASHMLA_MEGA") else _FP8
    known = (_FP8, _FP4) if short_rows else (_FP8,)
    fp8 = name.startswith("fp8") and name not in (_FP8, "fp8_per_token_head")
    if name not in known if packs else not fp8 and name not in ("auto", "bfloat16"):
        raise unstored(model, backend, name)
    if not packs:
        return plain(backend, name)
    if not short_rows:
        return Latents(backend, name, "uint8", 576, 584, 584)
    row = 288 if name == _FP4 else 528
    return Latents(backend, name, "uint8", PLAIN_PAGE, 528, row, lcm(528, row))


def replays_window(model: Model) -> bool:
    """Whether prefix caching recomputes a window instead of keeping it (`swa_bounded_replay`)."""
    engine = model.engine
    wanted = engine.args.additional_flags.get("swa_bounded_replay")
    return engine.use_v2_model_runner and (wanted is None or bool(wanted))


def compressed_cache(config: Config, stored: Latents, role: Role) -> CustomLayer:
    """The compressed latents of a source. A layer that is none has no cache here, though its backend counts."""
    size = config.integer("head_dim")

    def make_spec(sizes: BlockSizes) -> AttentionSpec | None:
        if not role.is_source:
            return None
        return latent_spec(stored, size, stored.compressed_row, sizes.block_size, kind=MLA, tokens_per_state=role.ratio)

    why = _SOURCE if role.is_source else _READER
    return CustomLayer("", stored.backend, make_spec, why, run_cache_dtype=stored.dtype_name)


def indexer_cache(model: Model, stored: Latents, ratio: int) -> CustomLayer:
    """The index keys of a source: one per compressed latent."""
    row = indexer_row(model)
    scattered = bool((model.engine.args.attention_config or {}).get("indexer_sparse_logits"))
    if scattered:
        _check_sparse_logits(model)
    packed = stored.compressed_row is not None

    def make_spec(sizes: BlockSizes) -> AttentionSpec:
        return AttentionSpec(
            kind=MLA,
            block_size=sizes.block_size,
            num_kv_heads=1,
            head_size=row,
            head_size_v=0,
            dtype="uint8",
            tokens_per_state=ratio,
            alignment=stored.page,
            block_stride_alignment=lcm(256, 1 if packed else stored.page) if scattered else None,
        )

    backend = "DEEPSEEK_V41_SPARSE_INDEXER" if scattered else "DEEPSEEK_V41_INDEXER"
    return CustomLayer("", backend, make_spec, _INDEXER)


def _check_sparse_logits(model: Model) -> None:
    """Refused where the kernels that score candidate blocks only do not run."""
    config, gpu = model.config, model.engine.gpu
    flag = (model.engine.args.attention_config or {}).get("indexer_kv_dtype")
    candidates = [config.integer(f"candidate_{key}", 0, minimum=0) for key in ("block_size", "topk_blocks")]
    if flag != "mxfp4" or gpu.capability[0] != 10 or not all(candidates):
        raise Refused(
            "--attention-config indexer_sparse_logits needs indexer_kv_dtype mxfp4, compute capability 10.x (here "
            f"{gpu.name}) and candidate_block_size and candidate_topk_blocks of {config.where}; leave it out."
        )


def ring(model: Model) -> CustomLayer:
    """Keys and gate scores of the tokens of one step and the one before: a power of two, one block per request."""
    size = model.config.integer("head_dim")
    rows = max(8, 1 << (model.engine.num_speculative_tokens + 1).bit_length())

    def make_spec(sizes: BlockSizes) -> AttentionSpec:
        return AttentionSpec(
            kind=CIRCULAR_BUFFER, block_size=rows, num_kv_heads=1, head_size=2 * size, head_size_v=0, dtype="float32"
        )

    return CustomLayer("", "CompressorBackend", make_spec, _RING)


def layer_caches(model: Model, stored: Latents, role: Role) -> Iterator[tuple[str, CustomLayer]]:
    """The caches of one layer with the ends of their names, in the order in which vLLM creates them."""
    yield "attn", compressed_cache(model.config, stored, role)
    if role.is_source and role.has_indexer:
        yield "attn.indexer.k_cache", indexer_cache(model, stored, role.ratio)
    yield "attn.swa_cache", window_cache(model.config, stored, _WINDOW_BLOCK, bounded_replay=replays_window(model))
    if role.is_source and role.ratio > 1:
        yield "attn.compressor.state_cache", ring(model)


def window_layers(model: Model, indices: range, why: Why) -> Iterator[Layer]:
    """Layers of a drafter, which keep their windows only."""
    check_heads(model)
    past = model.config.integers("compress_ratios")[indices.start : indices.stop]
    if any(past):
        raise model.config.error("compress_ratios", "must be 0 for the layers of the drafter, which read no source")
    stored = drafter_latents(model, latents)
    for i in indices:
        for end, cache in layer_caches(model, stored, Role(0, False, False, None)):
            yield cache._replace(name=f"model.layers.{i}.{end}", why=why)


def layers(model: Model) -> Iterator[Layer]:
    check_fields(model.config)
    check_heads(model)
    if model.engine.prefill_context_parallel_size > 1:
        raise Refused("--prefill-context-parallel-size: kvplan does not judge it for DeepSeek-V4.1; leave it out.")
    stored = latents(model)
    prefix = "language_model.model.layers"
    known: dict[Role, list[tuple[str, CustomLayer]]] = {}
    for i, role in enumerate(roles(model.config)):
        kind = role._replace(source=None)
        if kind not in known:
            known[kind] = list(layer_caches(model, stored, kind))
        for end, cache in known[kind]:
            shared = None if role.source in (None, i) or end != "attn" else f"{prefix}.{role.source}.attn"
            yield cache._replace(name=f"{prefix}.{i}.{end}", kv_sharing_target=shared)
