"""Kernel blocks: what attention kernels read of a manager block, and whether the cache can be bound that way.

Source: vllm/v1/worker/utils.py (`select_common_block_size`, `prepare_kernel_block_sizes`, `AttentionGroup`),
vllm/v1/kv_cache_interface.py (`compute_layout_strides`, `create_kv_cache_views`) and the placement of
vllm/v1/core/kv_cache_planning.py (`get_kv_cache_config_from_groups`). Block tables stay in manager blocks: kernel
block j of block b is b * stride + j.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from kvplan.dtypes import size_of
from kvplan.errors import Refused
from kvplan.layout import ENVIRONMENT_VARIABLE, is_block_compact, is_block_outermost
from kvplan.result import Group, Plan
from kvplan.spec import AttentionSpec, CacheLayer, MultipleOf, Spec, round_up

KernelSizes = Sequence[int | MultipleOf]

_AXES = "LBHNC"
_UNSPLIT = (
    "set an --attention-backend that takes the block whole, "
    f"or {ENVIRONMENT_VARIABLE} to a layout with layers outermost"
)


def takes(sizes: KernelSizes, block_size: int) -> bool:
    """Whether a backend that declares ``sizes`` takes blocks of ``block_size`` tokens as kernel blocks."""
    return any(block_size % s.base == 0 if isinstance(s, MultipleOf) else block_size == s for s in sizes)


def select_common_block_size(block_size: int, declared: Sequence[tuple[str, KernelSizes]]) -> int:
    """The kernel block of a manager block: itself if every backend takes it, else the largest that all take.

    ``declared``: name and kernel blocks of each backend. Refused where none divides the block.
    """
    if all(takes(sizes, block_size) for _, sizes in declared):
        return block_size
    explicit = {s for _, sizes in declared for s in sizes if not isinstance(s, MultipleOf) and block_size % s == 0}
    for size in sorted(explicit, reverse=True):
        if all(takes(sizes, size) for _, sizes in declared):
            return size
    told = "; ".join(f"{name} takes {in_words(sizes)}" for name, sizes in dict(declared).items())
    raise Refused(
        f"no kernel block divides blocks of {block_size:,} tokens for every attention backend of the group ({told}); "
        "set another --block-size or --attention-backend."
    )


def in_words(sizes: KernelSizes) -> str:
    """``16, 32 or 64``; ``multiples of 16``."""
    words = [f"multiples of {s.base}" if isinstance(s, MultipleOf) else str(s) for s in sizes]
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


class Strides(NamedTuple):
    """Bytes between neighbours along each axis of a cache tensor: layers, blocks, heads, states, content."""

    layer: int
    block: int
    head: int
    state: int
    content: int


def strides(
    spec: Spec,
    num_layers: int,
    layout: str,
    num_blocks: int,
    *,
    fixed: Mapping[str, int] | None = None,
    kernel_block_size: int | None = None,
) -> Strides:
    """Byte strides of ``num_layers`` equal layers (`compute_layout_strides`).

    ``fixed``: strides that are given, by axis letter. Refused where a padded page cannot be laid out.
    """
    fixed = fixed or {}
    kernel = kernel_block_size or spec.block_size
    heads, content = spec.num_heads, _content_bytes(spec)
    sizes = (num_layers, num_blocks * (spec.block_size // kernel), heads, _states(spec, kernel), content)
    shape = dict(zip(_AXES, sizes, strict=True))
    padded = _padded_page(spec)
    grid_end = max(layout.index("L"), layout.index("B"))
    if padded is not None:
        if kernel != spec.block_size:
            raise Refused(_padded_cannot_split(spec, kernel))
        if prod(shape[axis] for axis in layout[: grid_end + 1]) != num_layers * num_blocks:
            raise Refused(
                f"KV cache layout {layout} spreads the heads of a page, which padded pages do not allow; "
                f"set {ENVIRONMENT_VARIABLE} to a block-compact layout such as LBNHC."
            )
    found: dict[str, int] = {}
    stride = 1
    for position in range(len(layout) - 1, -1, -1):
        axis = layout[position]
        if padded is not None and position == grid_end:
            stride = max(stride, padded)
        found[axis] = fixed.get(axis, stride)
        stride = found[axis] * shape[axis]
    return Strides(*(found[axis] for axis in _AXES))


def _content_bytes(spec: Spec) -> int:
    return spec.state_content_size_bytes if isinstance(spec, AttentionSpec) else spec.unpadded_page_size_bytes


def _states(spec: Spec, tokens: int) -> int:
    return spec.num_states_in(tokens) if isinstance(spec, AttentionSpec) else 1


def _padded_page(spec: Spec) -> int | None:
    """Bytes that vLLM holds in page_size_padded, row padding included; None where the page has none."""
    return spec.with_row_padding().page_size_padded if isinstance(spec, AttentionSpec) else spec.page_size_padded


def _padded_cannot_split(spec: Spec, kernel_block_size: int) -> str:
    return (
        f"padded KV cache pages of {spec.block_size:,} tokens cannot be split into kernel blocks of "
        f"{kernel_block_size}; set --block-size {kernel_block_size} or another --attention-backend."
    )


class Placement(NamedTuple):
    """Equal layers of one group in the pool: layer l's page of block b starts at offset + l * layer_stride + b *
    block_stride bytes (`KVCacheTensor`)."""

    group: int
    spec: Spec
    layers: tuple[str, ...]
    offset: int
    layer_stride: int
    block_stride: int


def placements(groups: Sequence[Group], layout: str, num_blocks: int, bytes_per_block: int) -> tuple[Placement, ...]:
    """Where every layer's pages lie. Groups overlay each other from byte 0 on."""
    found: list[Placement] = []
    for index, group in enumerate(groups):
        offset = 0
        for spec, names in _by_spec(group).items():
            fixed = _fixed_block_stride(spec, layout, bytes_per_block)
            at = strides(spec, len(names), layout, num_blocks, fixed=fixed)
            found.append(Placement(index, spec, names, offset, at.layer, at.block))
            offset += len(names) * (spec.page_size_bytes if is_block_outermost(layout) else at.layer)
    return tuple(found)


def _by_spec(group: Group) -> dict[Spec, tuple[str, ...]]:
    by_spec: dict[Spec, tuple[str, ...]] = {}
    for name, spec in zip(group.layers, group.layer_specs, strict=True):
        by_spec[spec] = (*by_spec.get(spec, ()), name)
    return by_spec


def _fixed_block_stride(spec: Spec, layout: str, bytes_per_block: int) -> dict[str, int]:
    if is_block_outermost(layout):
        return {"B": bytes_per_block}
    stride = round_up(spec.page_size_bytes, spec.block_stride_alignment_bytes)
    if stride == spec.page_size_bytes:
        return {}
    if not is_block_compact(layout):
        raise Refused(
            f"KV cache layout {layout} cannot pad pages to the {stride} bytes that their backend needs between blocks; "
            f"set {ENVIRONMENT_VARIABLE} to a block-compact layout such as LBNHC."
        )
    return {"B": stride}


class AttentionGroup(NamedTuple):
    """Layers of one group that share a backend and a spec: how their kernels see the cache."""

    group: int
    """Index of the KV cache group."""
    backend: str
    layers: tuple[str, ...]
    spec: AttentionSpec
    kernel_block_size: int
    """Tokens."""
    stride: int
    """Kernel block j of block b is b * stride + j."""
    mode: str
    """whole: blocks are kernel blocks; dense: blocks are split, nothing lies between; packed: split, with other
    layers' pages between the blocks."""
    page_bytes: int
    """Bytes of one kernel block of one layer."""

    @property
    def kernel_blocks_per_block(self) -> int:
        return self.spec.block_size // self.kernel_block_size

    def table(self, blocks: Sequence[int]) -> tuple[int, ...]:
        """The kernel block table of a request that holds these manager blocks."""
        return tuple(b * self.stride + j for b in blocks for j in range(self.kernel_blocks_per_block))


class KernelBlocks(NamedTuple):
    """How one worker's kernels read the plan's cache."""

    group_sizes: tuple[int, ...]
    """Kernel block size per KV cache group; a state group's block size."""
    attention_groups: tuple[AttentionGroup, ...]
    placements: tuple[Placement, ...]
    error: str | None
    """Why the worker cannot bind the cache: what it would die of. None: it can."""

    @property
    def cache_views(self) -> str:
        """``ok``, or the error."""
        return self.error or "ok"


def kernel_blocks(plan: Plan, layers: Sequence[CacheLayer], stage: int = 0) -> KernelBlocks:
    """The kernel blocks of a plan's groups on one pipeline stage.

    ``layers``: the deployment's, whose ``kernel_block_sizes`` their backends declare. Without a budget the pool is
    taken to hold two blocks: the verdict does not depend on their number.
    """
    owned = {layer.name: layer for layer in layers if layer.stage == stage}
    groups = [_on_stage(group, owned) for group in plan.groups]
    stages = plan.bytes_per_block_per_stage
    bytes_per_block = (stages[stage] if stages else plan.bytes_per_block) or 0
    try:
        placed = placements(groups, plan.layout, plan.num_blocks or 2, bytes_per_block)
    except Refused as refusal:
        return KernelBlocks((), (), (), str(refusal))
    bound = bind(groups, owned, placed, plan.layout)
    return bound if bound.error else bound._replace(error=_left_out(groups, stage))


def _left_out(groups: Sequence[Group], stage: int) -> str | None:
    """What a stage dies of that runs no layer of a uniform-type group.

    `_project_kv_cache_groups_to_worker` leaves such a group the specs of all its layers: tensors are made for them, and
    `allocate_kv_cache` finds no group that holds their names (StopIteration).
    """
    for index, group in enumerate(groups):
        if group.uniform_type and not group.layers:
            return (
                f"vLLM does not start: pipeline stage {stage} runs no layer of KV cache group {index}, whose tensors "
                "it cannot allocate; set --pipeline-parallel-size 1, or VLLM_PP_LAYER_PARTITION so that every stage "
                "runs layers of every group."
            )
    return None


def _on_stage(group: Group, owned: Mapping[str, CacheLayer]) -> Group:
    kept = [(name, spec) for name, spec in zip(group.layers, group.layer_specs, strict=True) if name in owned]
    return group._replace(layers=tuple(n for n, _ in kept), layer_specs=tuple(s for _, s in kept))


def bind(
    groups: Sequence[Group], layers: Mapping[str, CacheLayer], placed: Sequence[Placement], layout: str
) -> KernelBlocks:
    """What the worker does when it binds the cache: kernel block sizes, views, and the mapping of packed blocks."""
    sizes: list[int] = []
    bound: list[AttentionGroup] = []
    by_group: list[list[Placement]] = [[] for _ in groups]
    for placement in placed:
        by_group[placement.group].append(placement)
    try:
        members = [attention_groups(group, layers) for group in groups]
        sizes.extend(_group_size(group, parts, at) for group, parts, at in zip(groups, members, by_group, strict=True))
        for placement in placed:
            _check_view(placement, sizes[placement.group], layout)
        for index, (parts, at) in enumerate(zip(members, by_group, strict=True)):
            bound.extend(_attention_group(index, part, sizes[index], at, layout) for part in parts)
    except Refused as refusal:
        return KernelBlocks(tuple(sizes), tuple(bound), tuple(placed), str(refusal))
    return KernelBlocks(tuple(sizes), tuple(bound), tuple(placed), None)


class Part(NamedTuple):
    """Attention layers of one group that share a backend and a spec."""

    backend: str
    sizes: tuple[int | MultipleOf, ...]
    spec: AttentionSpec
    layers: tuple[str, ...]


def attention_groups(group: Group, layers: Mapping[str, CacheLayer]) -> list[Part]:
    """The group's attention layers by backend and spec, in layer order; a state group has none."""
    found: dict[tuple[str, tuple[int | MultipleOf, ...], AttentionSpec], list[str]] = {}
    for name, spec in zip(group.layers, group.layer_specs, strict=True):
        if isinstance(spec, AttentionSpec):
            layer = layers[name]
            found.setdefault((layer.backend, layer.kernel_block_sizes, spec), []).append(name)
    return [Part(*key, tuple(names)) for key, names in found.items()]


def _group_size(group: Group, parts: Sequence[Part], placed: Sequence[Placement]) -> int:
    """The group's kernel block; packed blocks stay whole here, for other layers' pages lie between them."""
    if not parts or any(p.block_stride > p.layer_stride for p in placed):
        return group.block_size
    return select_common_block_size(group.block_size, [(part.backend, part.sizes) for part in parts])


def _check_view(placement: Placement, kernel_block_size: int, layout: str) -> None:
    """Refused where the layers' cache cannot be viewed in kernel blocks (`create_kv_cache_views`)."""
    spec = placement.spec
    if not isinstance(spec, AttentionSpec):
        return
    ratio = spec.block_size // kernel_block_size
    if ratio > 1:
        dense = spec.unpadded_page_size_bytes
        if placement.block_stride != dense:
            raise Refused(
                f"KV cache layout {layout} keeps blocks of {placement.block_stride:,} bytes for pages of {dense:,}, so "
                f"blocks of {spec.block_size:,} tokens cannot be split into kernel blocks of {kernel_block_size}; "
                f"{_UNSPLIT}."
            )
        if _padded_page(spec) is not None:
            raise Refused(_padded_cannot_split(spec, kernel_block_size))
        if dense % ratio:
            raise Refused(
                f"pages of {dense:,} bytes do not divide into {ratio} equal kernel blocks; set --block-size "
                f"{kernel_block_size}."
            )
    element = size_of(spec.dtype)
    if any(number % element for number in (placement.offset, placement.block_stride, placement.layer_stride)):
        raise Refused(
            f"pages of {spec.dtype} ({placement.layers[0]}) would not start on whole elements in KV cache layout "
            f"{layout}; set {ENVIRONMENT_VARIABLE} to a layout with layers outermost, such as LBNHC."
        )


def _attention_group(
    index: int, part: Part, group_size: int, placed: Sequence[Placement], layout: str
) -> AttentionGroup:
    """The part's kernel blocks; a packed block that is still too large for its backend is mapped, if it can be."""
    spec = part.spec
    size = select_common_block_size(group_size, [(part.backend, part.sizes)])
    per_block = spec.block_size // size
    rows = spec.num_states_in(size)
    page = spec.num_heads * rows * spec.state_content_size_bytes
    if size == group_size:
        mode = "whole" if per_block == 1 else "dense"
        return AttentionGroup(index, part.backend, part.layers, spec, size, per_block, mode, page)
    placement = next(p for p in placed if part.layers[0] in p.layers)
    row_bytes = strides(spec, len(placement.layers), layout, 2).state
    stride = _packed_stride(part, size, rows * row_bytes, placement.block_stride)
    return AttentionGroup(index, part.backend, part.layers, spec, size, stride, "packed", page)


def _packed_stride(part: Part, kernel_block_size: int, page_stride: int, block_stride: int) -> int:
    """Kernel pages from one packed block to the next. Refused where they cannot be addressed so.

    Only a compressed cache (several tokens per state, one head slot) can: other caches are written by manager block.
    """
    spec = part.spec
    compressed = spec.tokens_per_state > 1 and spec.num_heads == 1
    if compressed and page_stride and block_stride % page_stride == 0:
        return block_stride // page_stride
    raise Refused(
        f"{part.backend} reads kernel blocks of {kernel_block_size} tokens, into which packed KV cache blocks of "
        f"{spec.block_size} tokens cannot be split ({part.layers[0]}); {_UNSPLIT}."
    )
