"""Qwen4: gated delta nets, convolutions of per-layer embeddings, and attention that an index picks the tokens for.

vLLM: models/qwen4_exp/nvidia/model.py (Qwen4ExpDecoderLayer), nvidia/ple_layer.py, nvidia/qsa.py, nvidia/indexer_qsa.py
and common/qsa_cache.py. An index keeps one compressed key per group of tokens, and a ring of the raw keys of the group
that is open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kvplan.errors import Refused
from kvplan.families.common import check_rotary, check_tower, head_dim, num_layers
from kvplan.families.qwen3_next import full_attention, linear_attention
from kvplan.families.qwen_vl import QWEN3_TOWER, check_deepstack
from kvplan.families.registry import Traits
from kvplan.families.states import short_conv
from kvplan.hf import Config
from kvplan.layers import CustomLayer, Layer, StateLayer, Why
from kvplan.model import Model
from kvplan.spec import CIRCULAR_BUFFER, MLA, AttentionSpec, StateSpec, round_up

if TYPE_CHECKING:
    from kvplan.blocks import BlockSizes

ARCHITECTURES = ("Qwen4ExpForCausalLM", "Qwen4ExpForConditionalGeneration")

_BACKEND, _INDEX_BACKEND = "QWEN4_EXP_QSA_TRITON", "QWEN4_EXP_EXP_QSA_STATE"
_CACHE_DTYPES = ("auto", "bfloat16", "fp8", "fp8_e4m3")
_INDEX_DTYPES = {"auto": "bfloat16", "bf16": "bfloat16", "fp8": "float8_e4m3fn"}
_ROPE_AXES, _ELEMENTS_PER_POSITION = 3, 4
"""Positions are int64 in a ring of bfloat16: four elements for each axis."""
_FULL = ("layer_types: indexed_attention", "models/qwen4_exp/nvidia/qsa.py, Qwen4ExpQSAAttention")
_RING = ("indexer_compress_ratio, indexer_head_dim", "models/qwen4_exp/common/qsa_cache.py, QSAKeyStateCache")
_KEYS = ("indexer_compress_ratio, indexer_head_dim", "models/qwen4_exp/common/qsa_cache.py, QSACompressedKeyCache")
_PLE = ("ple_layer_ids", "models/qwen4_exp/nvidia/ple_layer.py, Qwen4ExpPLELayer")


def traits(architecture: str) -> Traits:
    return Traits(
        is_hybrid=True,
        supports_mamba_prefix_caching=True,
        is_multimodal=architecture == "Qwen4ExpForConditionalGeneration",
    )


def states(model: Model) -> tuple[StateLayer, StateLayer]:
    """A gated delta net's state, and the state of a convolution of per-layer embeddings, which every rank holds whole.

    vLLM aligns attention blocks to the larger of the two, whether or not a layer has per-layer embeddings
    (`get_mamba_specs_from_config`).
    """
    config = model.config
    net = linear_attention(model)
    shapes, dtypes = short_conv(
        model._replace(tensor_parallel_size=1),
        channels=config.integer("hidden_size") * config.integer("hc_count"),
        conv_kernel=(config.integer("ple_conv_kernel_size") - 1) * config.integer("ngram_size") + 1,
    )
    larger = max(((net.shapes, net.dtypes), (shapes, dtypes)), key=_state_bytes)
    convolution = StateLayer(
        name="",
        mamba_type="short_conv",
        shapes=shapes,
        dtypes=dtypes,
        why=_PLE,
        backend="PLE_SHORT_CONV_ATTN",
        tp_replicated=True,
        shared_checkpoint_alignment=1 if model.engine.mamba_cache_mode == "align" else None,
    )
    return net._replace(reported_shapes=larger[0], reported_dtypes=larger[1]), convolution


def _state_bytes(state: tuple[Any, Any]) -> int:
    return StateSpec(*state, block_size=0).unpadded_page_size_bytes


def has_several_axes(config: Config) -> bool:
    """Whether rotary positions have an axis for each of time, height and width (`uses_mrope`)."""
    parameters = config.get("rope_parameters")
    found = [parameters, *parameters.values()] if isinstance(parameters, Mapping) else []
    return any(isinstance(part, Mapping) and "mrope_section" in part for part in found)


def check_index(model: Model) -> None:
    """Refused where the indexed attention layers, or their caches, do not run as the deployment asks."""
    engine = model.engine
    if model.dtype != "bfloat16" or model.cache_dtype not in _CACHE_DTYPES:
        raise Refused(
            f"--dtype {model.dtype} with --kv-cache-dtype {model.cache_dtype}: Qwen4's indexed attention runs in "
            "bfloat16 over a bfloat16 or fp8 cache only; use bfloat16 and auto."
        )
    if engine.decode_context_parallel_size > 1 or engine.prefill_context_parallel_size > 1:
        raise Refused("Qwen4's indexed attention has no context parallelism; leave its flags at 1.")
    scheme = model.root.get("quantization_config") or model.config.get("quantization_config")
    if isinstance(scheme, Mapping) and scheme.get("kv_cache_scheme") is not None:
        raise Refused(
            f"{model.root.where}: quantization_config has a kv_cache_scheme, which Qwen4's indexed attention does not "
            "take; choose another checkpoint."
        )
    ratio = model.config.integer("indexer_compress_ratio")
    if engine.block_size % ratio:
        raise Refused(
            f"blocks of {engine.block_size} tokens are no multiple of indexer_compress_ratio ({ratio}) of "
            f"{model.config.where}; set another --block-size."
        )


def index_caches(model: Model, *, several_axes: bool) -> tuple[CustomLayer, CustomLayer]:
    """The caches of one index, in the order in which vLLM creates them: the ring of raw keys, the compressed keys.

    The ring holds the open group and every drafted token, in whole groups; with ``several_axes`` also positions.
    """
    check_index(model)
    size, ratio = model.config.integer("indexer_head_dim"), model.config.integer("indexer_compress_ratio")
    capacity = round_up(ratio + model.engine.num_speculative_tokens, ratio)
    width = round_up(size, _ELEMENTS_PER_POSITION) + _ROPE_AXES * _ELEMENTS_PER_POSITION if several_axes else size
    flag = (model.engine.args.attention_config or {}).get("indexer_kv_dtype") or "auto"
    dtype = _INDEX_DTYPES.get(flag) if isinstance(flag, str) else None
    if dtype is None:
        raise Refused(
            f"--attention-config indexer_kv_dtype {flag!r} is not one that Qwen4's index takes; use bf16 or fp8."
        )

    def make_ring(sizes: BlockSizes) -> AttentionSpec:
        if sizes.block_size % capacity:
            raise Refused(
                f"blocks of {sizes.block_size} tokens are no multiple of the {capacity} tokens that "
                f"{model.config.where} keeps uncompressed (indexer_compress_ratio and the drafted tokens); set another "
                "--block-size or num_speculative_tokens."
            )
        return AttentionSpec(
            kind=CIRCULAR_BUFFER, block_size=capacity, num_kv_heads=1, head_size=width, head_size_v=0, dtype="bfloat16"
        )

    def make_keys(sizes: BlockSizes) -> AttentionSpec:
        return AttentionSpec(
            kind=MLA,
            block_size=sizes.block_size,
            num_kv_heads=1,
            head_size=size,
            head_size_v=0,
            dtype=dtype,
            tokens_per_state=ratio,
        )

    return CustomLayer("", _INDEX_BACKEND, make_ring, _RING), CustomLayer("", _INDEX_BACKEND, make_keys, _KEYS)


def attention_caches(model: Model, why: Why = _FULL, *, several_axes: bool) -> list[tuple[str, Layer]]:
    """The caches of one attention layer with the ends of their names; without an index it attends to every token."""
    if model.config.get("indexer_n_heads") is None:
        return [("self_attn.attn", full_attention(model, why))]
    ring, keys = index_caches(model, several_axes=several_axes)
    return [
        ("self_attn.indexer.raw_key_cache", ring),
        ("self_attn.indexer.compressed_key_cache", keys),
        ("self_attn.attn", full_attention(model, why, backend=_BACKEND)),
    ]


def check_vision(model: Model) -> None:
    """KvplanError where the vision config lacks what vLLM reads; Refused where its features reach a later stage."""
    vision = model.root.section("vision_config")
    if vision is None or "deepstack_visual_indexes" not in vision:
        raise (vision or model.root).error(
            "deepstack_visual_indexes", "is missing in vision_config, and vLLM reads it unless --language-model-only"
        )
    check_deepstack(model)
    check_tower(model, QWEN3_TOWER)
    check_rotary(model.config, head_dim(model.config))


def layers(model: Model) -> Iterator[Layer]:
    config = model.config
    multimodal = model.architecture == "Qwen4ExpForConditionalGeneration"
    if multimodal and not model.engine.args.language_model_only:
        check_vision(model)
    prefix = "language_model.model.layers" if multimodal else "model.layers"
    several_axes = multimodal and not model.engine.args.language_model_only and has_several_axes(config)
    kinds = config.texts("layer_types", length=num_layers(config), allowed=("linear_attention", "indexed_attention"))
    if "linear_attention" not in kinds:
        raise config.error("layer_types", "names no linear_attention layer, which kvplan needs to plan this class")
    embedded = config.integers("ple_layer_ids")
    net, convolution = states(model)
    attends = attention_caches(model, several_axes=several_axes)
    for i, kind in enumerate(kinds):
        if i + 1 in embedded:
            yield convolution._replace(name=f"{prefix}.{i}.ple")
        if kind == "linear_attention":
            yield net._replace(name=f"{prefix}.{i}.linear_attn")
        else:
            yield from (layer._replace(name=f"{prefix}.{i}.{end}") for end, layer in attends)
