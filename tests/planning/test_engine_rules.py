"""Corners of the engine's grouping that are easy to get wrong; the numbers are what vLLM 0.33.0 answered."""

from __future__ import annotations

from typing import Any

import pytest
from known_layers import attention, group_sizes, layers_of

from kvplan.planning import plan_layers, plan_layout
from kvplan.result import Plan
from kvplan.spec import AttentionSpec, CacheLayer, Limits, MultipleOf, Spec, StateSpec

LIMITS = Limits(max_model_len=4096, max_in_flight_tokens=512)


def planned(*runs: tuple[str, int, Spec], grouping: str = "main", limits: Limits = LIMITS, **options: Any) -> Plan:
    return plan_layers(layers_of(*runs), limits, grouping=grouping, **({"layout": "LBHNC"} | options))


def latent(**fields: Any) -> AttentionSpec:
    return attention("mla", 1, 576, head_size_v=0, **fields)


def window(size: int = 128, **fields: Any) -> AttentionSpec:
    return attention("sliding_window", sliding_window=size, **fields)


def state(page: int, **fields: Any) -> StateSpec:
    return StateSpec(((page,),), ("uint8",), 4096, **fields)


def test_mla_and_full_attention_of_one_block_size_are_one_group_of_mixed_pages() -> None:
    plan = planned(("mla", 2, latent()), ("full", 2, attention()))
    assert (group_sizes(plan.groups), plan.groups[0].uniform_type) == ([4], True)
    assert plan.groups[0].page_size_bytes == plan.bytes_per_block == 2 * 18432 + 2 * 65536


def test_sliding_window_mla_caches_merge_although_their_pages_differ() -> None:
    small = attention("sliding_window_mla", 1, 512, head_size_v=0, sliding_window=128)
    plan = planned(("small", 1, small), ("wide", 1, small._replace(head_size=1024)))
    assert (group_sizes(plan.groups), plan.bytes_per_block) == ([2], 2 * 16384)


def test_a_page_that_divides_the_largest_grows_its_block() -> None:
    plan = planned(("full", 2, attention(heads=2)), ("window", 2, window()))
    assert [(g.kind, g.block_size, g.page_size_bytes) for g in plan.groups] == [
        ("full_attention", 64, 65536),
        ("sliding_window", 16, 65536),
    ]


def test_a_page_that_does_not_divide_the_largest_is_padded() -> None:
    plan = planned(("full", 2, attention(heads=3)), ("window", 2, window()))
    assert [(g.block_size, g.page_size_bytes, g.spec.page_size_padded) for g in plan.groups] == [
        (16, 65536, 65536),
        (16, 65536, None),
    ]
    assert plan.padding is not None
    assert plan.padding.page_rounding_bytes_per_request == 2 * 256 * (65536 - 24576)


def test_a_state_is_padded_to_the_largest_page() -> None:
    plan = planned(("state", 2, state(60000)), ("full", 2, attention()))
    assert [(g.kind, g.page_size_bytes) for g in plan.groups] == [("mamba", 65536), ("full_attention", 65536)]


def test_a_padded_page_cannot_grow_its_block() -> None:
    padded = attention(heads=2, page_size_padded=32768)
    plan = planned(("full", 2, padded), ("window", 2, window()))
    assert (plan.groups, plan.bytes_per_block) == ((), None)
    assert plan.error == (
        "the full_attention page of 32768 bytes is itself padded, so vLLM cannot bring it to the largest page of "
        "65536 bytes; choose another --block-size."
    )


def test_row_padding_is_worked_out_anew_when_a_block_grows() -> None:
    rows = attention("mla", 1, 101, head_size_v=0, alignment=64, dtype="uint8")  # 1,616 bytes, padded to 26 rows
    plan = planned(("mla", 1, rows), ("state", 1, state(3 * 1664)))
    assert [(g.kind, g.block_size) for g in plan.groups] == []
    grown = planned(("mla", 1, rows._replace(head_size=100)), ("state", 1, state(3 * 1600)))  # whole rows already
    assert [(g.kind, g.block_size, g.page_size_bytes) for g in grown.groups] == [
        ("mla", 48, 4800),
        ("mamba", 4096, 4800),
    ]


def test_mla_beside_windows_that_cannot_share_a_page_holds_every_token_in_one_group() -> None:
    plan = planned(("mla", 3, latent()), ("window", 2, window()))
    assert (group_sizes(plan.groups), plan.bytes_per_block) == ([5], 3 * 18432 + 2 * 65536)
    assert {spec.kind for spec in plan.groups[0].layer_specs} == {"mla", "full_attention"}
    assert plan.groups[0].blocks_per_request == 256
    assert len(plan.notes) == 1


def test_mla_pages_that_cannot_be_unified_are_refused_by_size() -> None:
    plan = planned(("mla", 3, latent()), ("state", 2, state(50000)))
    assert plan.error == (
        "the mla page of 18432 bytes does not divide the largest page of 50000 bytes and cannot be padded to it; "
        "a block-outermost layout can hold both (VLLM_KV_CACHE_LAYOUT=BLHNC)."
    )


def test_without_the_hybrid_manager_windows_are_held_in_full() -> None:
    plan = planned(("full", 1, attention()), ("window", 3, window()), disable_hybrid_kv_cache_manager=True)
    assert group_sizes(plan.groups) == [4]
    assert (plan.groups[0].kind, plan.groups[0].spec.sliding_window) == ("full_attention", 128)
    assert plan.blocks_per_request == 256


@pytest.mark.parametrize(
    "other",
    [window(1024), state(65536), attention("sliding_window_mla", 1, 512, head_size_v=0, sliding_window=128)],
)
def test_without_the_hybrid_manager_some_mixtures_are_refused(other: Spec) -> None:
    plan = planned(
        ("full", 1, attention()), ("window", 1, window()), ("other", 1, other), disable_hybrid_kv_cache_manager=True
    )
    assert plan.error is not None
    assert "--disable-hybrid-kv-cache-manager" in plan.error


def test_specs_that_differ_in_what_merging_reconciles_share_a_bucket() -> None:
    promoted = attention(sliding_window=128)
    runs = ("full", 2, attention()), ("promoted", 2, promoted), ("state", 2, state(65536))
    assert [(g.kind, len(g.layers)) for g in planned(*runs).groups] == [("full_attention", 2)] * 2 + [("mamba", 2)]


def test_a_drafter_of_several_modules_widens_every_window() -> None:
    runs = ("full", 1, attention()), ("window", 1, window())
    plain, wide = (planned(*runs, num_prefill_lookahead_tokens=n) for n in (1, 18))
    assert [g.blocks_per_request for g in plain.groups] == [256, 41]
    assert [g.blocks_per_request for g in wide.groups] == [256, 42]


def test_groups_that_hold_a_draft_layer_are_marked() -> None:
    layers = layers_of(("full", 2, attention()), ("window", 1, window()))
    layers += layers_of(("draft", 1, window()), owner="drafter")
    marks = [
        [
            group.is_eagle_group
            for group in plan_layers(layers, LIMITS, grouping="main", layout="LBHNC", use_eagle_block_drop=drop).groups
        ]
        for drop in (False, True)
    ]
    assert marks == [[False, False], [False, True]]


def test_strides_round_every_page_layer_outermost_and_the_whole_block_packed() -> None:
    runs = ("full", 2, attention(heads=3, block_stride_alignment=10000)), ("other", 2, attention(heads=1))
    assert planned(*runs).bytes_per_block == 2 * 30000 + 2 * 8192
    assert planned(*runs, grouping="packed").bytes_per_block == 70000  # 65,536 bytes of pages


def test_a_block_that_is_split_asks_for_whole_kernel_pages() -> None:
    spec = attention(block_size=96, block_stride_alignment=MultipleOf(64))
    assert spec.block_stride_alignment_bytes == 32 * 4096
    assert spec._replace(block_size=64).block_stride_alignment_bytes == 1
    assert spec._replace(page_size_padded=400000).block_stride_alignment_bytes == 400000


def test_packed_repeats_split_single_pages_toward_the_largest_mixed_bucket() -> None:
    mixed = ("a", 2, attention(block_size=32)), ("b", 2, attention(heads=1, block_size=32))
    plan = planned(*mixed, ("window", 5, window(block_size=64)), grouping="packed", layout="LBNHC")
    assert plan.layout == "BLNHC"
    assert [(g.kind, len(g.layers)) for g in plan.groups] == [
        ("sliding_window", 2),
        ("sliding_window", 2),
        ("sliding_window", 1),
        ("full_attention", 4),
    ]


def test_a_packed_group_that_begins_with_sliding_window_mla_takes_no_other_window() -> None:
    latents = attention("sliding_window_mla", 1, 512, head_size_v=0, sliding_window=128)
    specs = [window(heads=2), latents, window(heads=2), window(heads=2), state(40000)]  # two windows fit one state
    layers = [CacheLayer(f"l{i}", "target", spec, "") for i, spec in enumerate(specs)]
    plan = plan_layers(layers, LIMITS, grouping="packed", layout="LBHNC")
    assert plan.error == (
        "vLLM stops: a packed group would begin with a sliding-window MLA cache, whose type does not take in the other "
        "windows; choose a layer-outermost layout (VLLM_KV_CACHE_LAYOUT=LBNHC)."
    )


def test_packed_states_never_widen_the_block() -> None:
    plan = planned(("full", 2, attention()), ("state", 9, state(50000)), grouping="packed")
    assert [(g.kind, len(g.layers)) for g in plan.groups] == [("mamba", 2)] * 4 + [("mamba", 1), ("full_attention", 2)]
    assert plan.bytes_per_block == 131072


def test_a_layout_that_cannot_hold_mixed_pages_is_refused() -> None:
    plan = planned(("mla", 1, latent()), ("full", 1, attention()), layout="LHBNC")
    assert plan.error == (
        "KV cache layout LHBNC cannot hold pages of different sizes (18432, 65536 bytes) side by side; "
        "set VLLM_KV_CACHE_LAYOUT=BLHNC."
    )


def test_a_layout_with_heads_outside_the_blocks_cannot_pad() -> None:
    plan = planned(("full", 2, attention(heads=3)), ("window", 2, window()), layout="LHBNC")
    assert plan.error is not None
    assert "cannot pad the pages" in plan.error


def test_windows_cannot_be_sharded_over_context_parallel_ranks() -> None:
    limits = LIMITS._replace(decode_context_parallel_size=2)
    runs = ("full", 1, attention()), ("window", 1, window())
    assert "--decode-context-parallel-size 2" in (planned(*runs, limits=limits).error or "")
    replicated = planned(runs[0], ("window", 1, window(dcp_sharded=False)), limits=limits)
    assert [group.blocks_per_request for group in replicated.groups] == [128, 41]


def test_hidden_states_take_the_largest_block_that_fits_the_common_page() -> None:
    hidden = CacheLayer("hidden", "drafter", attention("hidden_state", 3, 4096, head_size_v=0), "")
    layers = [*layers_of(("full", 2, attention()), ("window", 2, window())), hidden]
    plan = plan_layers(layers, LIMITS, grouping="main", layout="LBHNC")
    assert [(g.kind, g.block_size, g.page_size_bytes) for g in plan.groups] == [
        ("full_attention", 16, 65536),
        ("sliding_window", 16, 65536),
        ("hidden_state", 2, 65536),
    ]


def test_wide_hidden_states_make_every_block_larger() -> None:
    hidden = CacheLayer("hidden", "drafter", attention("hidden_state", 10, 4096, head_size_v=0), "")
    layers = [*layers_of(("full", 2, attention()), ("window", 2, window())), hidden]
    plan = plan_layers(layers, LIMITS, grouping="main", layout="LBHNC")
    assert [(g.block_size, g.page_size_bytes) for g in plan.groups] == [(32, 131072), (32, 131072), (1, 131072)]


def test_a_block_too_small_for_one_compressed_state_is_refused() -> None:
    plan = planned(("full", 1, attention()), ("compressed", 1, latent(tokens_per_state=128)))
    assert plan.error == ("a block of 16 tokens of the mla cache has 0 bytes; choose a larger --block-size.")


def test_a_pipeline_stage_without_a_cache_is_refused() -> None:
    plan = planned(("full", 2, attention()), pipeline_parallel_size=2)
    assert plan.error == "a pipeline stage has no layer with a KV cache; lower --pipeline-parallel-size."


@pytest.mark.parametrize(
    ("grouping", "layout", "own"),
    [
        ("main", "LBNHC", "LBNHC"),
        ("uniform", "BLHNC", "LBHNC"),
        ("main", "BLNHC", "LBNHC"),
        ("packed", "LBHNC", "BLHNC"),
        ("packed", "LBNHC", "BLNHC"),
        ("packed", "BLHNC", "BLHNC"),
    ],
)
def test_each_grouping_has_its_own_layout(grouping: str, layout: str, own: str) -> None:
    assert plan_layout(grouping, layout) == own
