"""Changing specs so that layers can share blocks: one page size, or full-length allocation for local attention.

From vllm/v1/core/kv_cache_planning.py: `unify_kv_cache_spec_page_size`, `_promote_local_kv_cache_specs`,
`unify_hybrid_kv_cache_specs` and `_try_get_full_allocation_fallback_groups`.
"""

from __future__ import annotations

from collections.abc import Callable

from kvplan.planning.layer_set import CannotPlan, LayerSet, PagesCannotUnify
from kvplan.planning.uniform_type import one_type, uniform_spec
from kvplan.spec import (
    CHUNKED_LOCAL,
    FULL_ATTENTION,
    FULL_KINDS,
    HIDDEN_STATE,
    MLA_KINDS,
    SLIDING_WINDOW_MLA,
    WINDOW_KINDS,
    AttentionSpec,
    Spec,
    StateSpec,
)

PROMOTED_KINDS = WINDOW_KINDS | {CHUNKED_LOCAL}


def page_size(spec: Spec) -> int:
    """Bytes of the spec's page. CannotPlan where it is empty, or padded to less than it holds."""
    page = spec.page_size_bytes
    if page <= 0:
        raise CannotPlan(
            f"a block of {spec.block_size} tokens of the {spec.kind} cache has {page} bytes; "
            "choose a larger --block-size."
        )
    if page < spec.unpadded_page_size_bytes:
        raise CannotPlan(
            f"a {spec.kind} page of {spec.unpadded_page_size_bytes} bytes is padded to only {page} bytes; "
            "choose another --block-size."
        )
    return page


def unify_page_sizes(layers: LayerSet) -> LayerSet:
    """All layers brought to the largest page: by more tokens in a block where that is exact, else by padding.

    PagesCannotUnify where a page can neither be scaled nor padded.
    """
    pages = [page_size(spec) for spec in layers.specs]
    if len(set(pages)) <= 1:
        return layers
    largest = max(pages)
    return layers.with_specs([_grown(spec, page, largest) for spec, page in zip(layers.specs, pages, strict=True)])


def _grown(spec: Spec, page: int, largest: int) -> Spec:
    if page == largest:
        return spec
    if isinstance(spec, StateSpec):
        return spec._replace(page_size_padded=largest)
    if largest % page == 0:
        grown = spec.rebuilt(block_size=spec.block_size * (largest // page))
    elif spec.kind not in MLA_KINDS:
        grown = spec.rebuilt(page_size_padded=largest)
    else:
        raise PagesCannotUnify(
            f"the {spec.kind} page of {page} bytes does not divide the largest page of {largest} bytes and cannot be "
            "padded to it; a block-outermost layout can hold both (VLLM_KV_CACHE_LAYOUT=BLHNC)."
        )
    if page_size(grown) != largest:
        raise CannotPlan(
            f"the {spec.kind} page of {page} bytes is itself padded, so vLLM cannot bring it to the largest page of "
            f"{largest} bytes; choose another --block-size."
        )
    return grown


def promote_local(layers: LayerSet) -> LayerSet:
    """Local attention next to full attention allocated in full, so that all layers are of one type.

    Attention itself keeps its window. CannotPlan where the layers stay of several types.
    """
    if uniform_spec(layers.specs) is not None or one_type(layers.specs):
        return layers
    full = [spec for spec in layers.specs if spec.kind in FULL_KINDS]
    if full:
        sizes = {spec.block_size for spec in full}
        block_size = sizes.pop() if len(sizes) == 1 else None
        layers = layers.mapped(lambda spec: _promoted(spec, block_size))
    if uniform_spec(layers.specs) is None and not one_type(layers.specs):
        kinds = ", ".join(sorted({spec.kind for spec in layers.specs}))
        raise CannotPlan(
            f"without the hybrid KV cache manager all layers need one type of cache, but these differ ({kinds}); "
            "remove --disable-hybrid-kv-cache-manager."
        )
    return layers


def _promoted(spec: Spec, block_size: int | None) -> Spec:
    """A local-attention spec as full attention with blocks of ``block_size`` tokens; other specs as they are."""
    if not isinstance(spec, AttentionSpec) or spec.kind not in PROMOTED_KINDS:
        return spec
    if spec.kind == SLIDING_WINDOW_MLA:
        raise CannotPlan(
            "vLLM cannot allocate a sliding-window MLA cache in full; remove --disable-hybrid-kv-cache-manager."
        )
    block_size = block_size or spec.block_size
    padded = spec.page_size_padded
    if padded is not None:
        padded = max(padded, spec.unpadded_page_size_bytes * block_size // spec.block_size)
    return spec._replace(kind=FULL_ATTENTION, extra_retained_tokens=0, block_size=block_size, page_size_padded=padded)


def without_hybrid_manager(layers: LayerSet) -> LayerSet:
    """`--disable-hybrid-kv-cache-manager`: DCP-replicated attention and all other layers are each made one type."""

    def replicated(spec: Spec) -> bool:
        return isinstance(spec, AttentionSpec) and not spec.dcp_sharded

    changed: dict[int, Spec] = {}
    parts: list[Callable[[Spec], bool]] = [replicated, lambda spec: not replicated(spec)]
    for part in parts:
        subset = layers.where(part)
        if subset.layers:
            changed |= promote_local(subset).spec_by_layer()
    first_layers = [members[0] for members in layers.layers_by_spec()]
    return layers.with_specs([changed[layer] for layer in first_layers])


def full_allocation_fallback(layers: LayerSet) -> LayerSet | None:
    """MLA next to sliding windows with pages that cannot be unified: windows allocated in full, all in one group.

    None where vLLM has no such fallback for these layers.
    """
    kinds = {spec.kind for spec in layers.specs}
    if kinds & {HIDDEN_STATE, SLIDING_WINDOW_MLA, CHUNKED_LOCAL} or not (kinds & MLA_KINDS and kinds & WINDOW_KINDS):
        return None
    try:
        promoted = promote_local(layers)
    except CannotPlan:
        return None
    return promoted if one_type(promoted.specs) else None
