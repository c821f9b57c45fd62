"""Results built by hand: layers and groups as literals, the sums of a plan worked out here and not by the planner."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from typing import Any

from kvplan.engine.args import EngineArgs, EngineConfig, Speculative
from kvplan.gpus import Gpu
from kvplan.result import DrafterInfo, Group, Layout, ModelInfo, Padding, Plan, RequestCost, Result
from kvplan.spec import FULL_KINDS, WINDOW_KINDS, AttentionSpec, CacheLayer, Limits, MultipleOf, Spec, StateSpec

WINDOWS = WINDOW_KINDS | {"chunked_local", "circular_buffer"}


def attention(kind: str, block_size: int, heads: int, head_size: int, **fields: Any) -> AttentionSpec:
    """An attention spec; the V head is as wide as the K head unless given."""
    value = {"head_size_v": 0 if "mla" in kind else head_size, "dtype": "bfloat16"} | fields
    return AttentionSpec(kind=kind, block_size=block_size, num_kv_heads=heads, head_size=head_size, **value)


def cached(
    names: str,
    indices: Sequence[int],
    spec: Spec,
    backend: str = "TRITON_ATTN",
    owner: str = "target",
    kernel: tuple[int | MultipleOf, ...] = (MultipleOf(16),),
    why: tuple[str, str] = ("", ""),
) -> list[CacheLayer]:
    """Layers of one spec; ``names`` has the place of the index."""
    return [CacheLayer(names.format(i), owner, spec, backend, kernel, why) for i in indices]


def group(layers: Sequence[CacheLayer], limits: Limits, page: int | None = None, eagle: bool = False) -> Group:
    """A group of layers as they are, or all brought to pages of ``page`` bytes as a uniform-page plan does."""
    specs = tuple(layer.spec if page is None else to_page(layer.spec, page) for layer in layers)
    owners = {layer.owner for layer in layers}
    pages = [spec.page_size_bytes for spec in specs]
    return Group(
        layers=tuple(layer.name for layer in layers),
        spec=specs[0],
        layer_specs=specs,
        kind=specs[0].kind,
        owner="both" if len(owners) > 1 else owners.pop(),
        block_size=specs[0].block_size,
        page_size_bytes=sum(pages) if page is None else page,
        blocks_per_request=specs[0].blocks_per_request(limits),
        is_eagle_group=eagle,
    )


def to_page(spec: Spec, page: int) -> Spec:
    """The spec at a larger page: more tokens where that divides, else padding."""
    own = spec.page_size_bytes
    if isinstance(spec, AttentionSpec) and page % own == 0:
        return spec._replace(block_size=spec.block_size * (page // own))
    return spec._replace(page_size_padded=page)


def deal(layers: Sequence[CacheLayer], size: int) -> list[list[CacheLayer]]:
    """Layers dealt round-robin into groups of at most ``size``."""
    n = -(-len(layers) // size)
    return [list(layers[i::n]) for i in range(n)]


def plan(
    groups: Sequence[Group],
    limits: Limits,
    owners: dict[str, str],
    budget: int | None,
    *,
    layout: str = "LBNHC",
    group_size: int | None = None,
    error: str | None = None,
    longest: int | None = None,
    notes: tuple[str, ...] = (),
) -> Plan:
    """The plan of these groups: the widest decides the block, the rest is arithmetic."""
    block = max(sum(s.page_size_bytes for s in g.layer_specs) for g in groups)
    if group_size is not None:
        page = groups[0].layer_specs[0].page_size_bytes
        groups = [g._replace(padding_pages=group_size - len(g.layers)) for g in groups]
        block = group_size * page
    else:
        groups = [_empty_pages(g, block) for g in groups]
    groups = [g._replace(padding_bytes=_idle(g, block)) for g in groups]
    per_request = sum(g.blocks_per_request for g in groups)
    num_blocks = None if budget is None else budget // block
    concurrency = None if num_blocks is None else num_blocks / per_request
    return Plan(
        layout=layout,
        error=error,
        group_size=group_size,
        groups=tuple(groups),
        bytes_per_block=block,
        num_blocks=num_blocks,
        blocks_per_request=per_request,
        kv_cache_size_tokens=None if concurrency is None else int(concurrency * limits.max_model_len),
        max_concurrency=concurrency,
        max_model_len=limits.max_model_len,
        longest_model_len=longest,
        padding=_padding(groups, block),
        request_cost=_cost(groups, block, limits, owners),
        notes=notes,
    )


def _empty_pages(g: Group, block: int) -> Group:
    pages = {s.page_size_bytes for s in g.layer_specs}
    idle = block - sum(s.page_size_bytes for s in g.layer_specs)
    return g._replace(padding_pages=idle // pages.pop()) if len(pages) == 1 else g


def _idle(g: Group, block: int) -> int:
    return block - sum(s.page_size_bytes for s in g.layer_specs)


def _rounding(g: Group) -> int:
    return sum(s.page_size_bytes - s.unpadded_page_size_bytes for s in g.layer_specs)


def _padding(groups: Sequence[Group], block: int) -> Padding:
    growing = [g for g in groups if g.kind in FULL_KINDS]
    bounded = [g for g in groups if g.kind not in FULL_KINDS]
    per_token = sum(_idle(g, block) / g.block_size for g in growing)
    useful = sum(sum(s.unpadded_page_size_bytes for s in g.layer_specs) / g.block_size for g in growing)
    return Padding(
        growing_bytes_per_token=int(per_token) if per_token == int(per_token) else per_token,
        growing_fraction=per_token / useful if useful else 0.0,
        bounded_bytes_per_request=sum(_idle(g, block) * g.blocks_per_request for g in bounded),
        page_rounding_bytes_per_request=sum(_rounding(g) * g.blocks_per_request for g in groups),
    )


def _cost(groups: Sequence[Group], block: int, limits: Limits, owners: dict[str, str]) -> RequestCost:
    out: dict[str, int] = {}

    def add(key: str, n: int) -> None:
        out[key] = out.get(key, 0) + n

    fixed, slope = 0, 0.0
    for g in groups:
        n = g.blocks_per_request
        if g.kind in FULL_KINDS:
            slope += block / g.block_size
        else:
            fixed += n * block
        add("growing_padding" if g.kind in FULL_KINDS else "bounded_padding", _idle(g, block) * n)
        add("page_rounding", _rounding(g) * n)
        for name, s in zip(g.layers, g.layer_specs, strict=True):
            owner, stored = owners[name], s.unpadded_page_size_bytes
            if isinstance(s, StateSpec):
                add("state", stored)
                add("speculative_state", stored * (n - 1))
            elif s.kind in WINDOWS:
                add(f"{owner}_window", stored * n)
            else:
                held = floor(stored * min(limits.max_model_len, n * s.block_size) / s.block_size)
                add(f"{owner}_kv", held)
                add("tail_rounding", stored * n - held)
    return RequestCost(fixed, int(slope) if slope == int(slope) else slope, {k: v for k, v in out.items() if v})


def engine_config(**changed: Any) -> EngineConfig:
    """A resolved configuration of plain defaults with ``changed`` fields."""
    values: dict[str, Any] = {
        "args": EngineArgs(model="m"),
        "gpu": Gpu("B300", (10, 3), 288 * 10**9, "NVIDIA B300 SXM6 AC"),
        "dtype": "bfloat16",
        "quantization": None,
        "cache_dtype": "auto",
        "kv_cache_dtype_skip_layers": (),
        "is_hybrid": False,
        "use_mla": False,
        "max_model_len": 32768,
        "max_num_seqs": 1024,
        "max_num_batched_tokens": 16384,
        "max_num_encoder_input_tokens": 16384,
        "async_scheduling": True,
        "use_v2_model_runner": False,
        "max_concurrent_batches": 2,
        "max_in_flight_tokens": 32768,
        "enable_prefix_caching": False,
        "mamba_cache_mode": "none",
        "mamba_cache_dtype": "auto",
        "mamba_ssm_cache_dtype": "auto",
        "mamba_block_size": None,
        "block_size": 16,
        "user_specified_block_size": False,
        "tensor_parallel_size": 1,
        "pipeline_parallel_size": 1,
        "data_parallel_size": 1,
        "decode_context_parallel_size": 1,
        "prefill_context_parallel_size": 1,
        "enable_expert_parallel": False,
        "disable_hybrid_kv_cache_manager": False,
        "attention_backend": None,
        "backend_per_kind": {},
        "use_non_causal": False,
        "use_kv_connector": False,
    }
    required: dict[str, Any] = dict.fromkeys(f for f in EngineConfig._fields if f not in EngineConfig._field_defaults)
    return EngineConfig(**(required | values | changed))


def limits_of(config: EngineConfig) -> Limits:
    return Limits(
        config.max_model_len,
        config.max_in_flight_tokens,
        config.mamba_cache_mode,
        max_num_encoder_input_tokens=config.max_num_encoder_input_tokens,
    )


def result(
    config: EngineConfig,
    layers: Sequence[CacheLayer],
    plans: dict[str, Plan],
    *,
    model: str,
    architecture: str,
    drafter: DrafterInfo | None = None,
    selected: str = "main",
    candidates: tuple[str, ...] = ("LBNHC", "LBHNC", "BLNHC", "BLHNC", "BHLNC", "LHBNC"),
    budget: int | None = None,
    block_size: int | None = None,
    engine: str = "vllm-0.33.0",
    **rest: Any,
) -> Result:
    return Result(
        engine=engine,
        model=ModelInfo(model, "bundled", architecture, None),
        drafter=drafter,
        config=config,
        block_size=block_size or config.block_size,
        mamba_block_size=config.mamba_block_size,
        layers=tuple(layers),
        layout=rest.pop("layout", Layout(plans[selected].layout, candidates)),
        selected=selected,
        plans=plans,
        available_memory_bytes=None if budget is None else (budget,),
        **rest,
    )


def speculative(method: str, n: int, model: str | None = None) -> Speculative:
    return Speculative(method, n, model, None)
