"""What holds for every deployment, on random layers, limits and budgets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_cases import Case, Cases

from kvplan.planning import GROUPINGS, plan_layers
from kvplan.planning.uniform_page import least_padding_group_size
from kvplan.result import CATEGORIES, Plan
from kvplan.spec import AttentionSpec, Spec, StateSpec

cases = st.integers(0, 2**32).map(lambda seed: Cases(seed).next())
groupings = st.sampled_from(GROUPINGS)
buckets = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 10**9)), min_size=1, max_size=5)


def unaligned(spec: Spec) -> Spec:
    """The spec with no demand on the stride between blocks."""
    return spec._replace(block_stride_alignment=None) if isinstance(spec, AttentionSpec) else spec


def planned(case: Case, grouping: str, **changes: Any) -> Plan:
    return plan_layers(case.layers, case.limits, grouping=grouping, **(case.options | changes))


@given(cases, groupings)
@settings(max_examples=300, deadline=None)
def test_every_layer_is_in_exactly_one_group(case: Case, grouping: str) -> None:
    plan = planned(case, grouping)
    names = [name for group in plan.groups for name in group.layers]
    assert sorted(names) == sorted(layer.name for layer in case.layers) if plan.groups or not plan.error else not names


@given(cases, groupings)
@settings(max_examples=300, deadline=None)
def test_the_pool_never_takes_more_bytes_than_the_budget(case: Case, grouping: str) -> None:
    plan = planned(case, grouping, num_gpu_blocks_override=None)
    if plan.num_blocks is None or not plan.groups:
        assert plan.error or not case.layers
        return
    sizes = plan.bytes_per_block_per_stage or (plan.bytes_per_block or 0,)
    memory = case.options["available_memory"]
    assert all(plan.num_blocks * size <= budget for size, budget in zip(sizes, memory, strict=True))
    # One more block would not fit on the stage that decides.
    assert any((plan.num_blocks + 1) * size > budget for size, budget in zip(sizes, memory, strict=True))


@given(cases, groupings, st.floats(1, 8))
@settings(max_examples=300, deadline=None)
def test_more_memory_never_holds_fewer_tokens(case: Case, grouping: str, factor: float) -> None:
    more = [int(size * factor) for size in case.options["available_memory"]]
    less, plan = (
        planned(case, grouping, auto_fit_max_model_len=False, available_memory=size)
        for size in (case.options["available_memory"], more)
    )
    assert (plan.kv_cache_size_tokens or 0) >= (less.kv_cache_size_tokens or 0)
    assert (plan.longest_model_len or 0) >= (less.longest_model_len or 0)


@given(buckets, st.integers(1, 12))
@settings(max_examples=500)
def test_no_group_size_in_the_range_of_uniform_pads_less(found: list[tuple[int, int]], minimum: int) -> None:
    counts, worst = [count for count, _ in found], [size for _, size in found]
    chosen = least_padding_group_size(counts, worst, minimum)

    def cost(size: int) -> tuple[int, int]:
        groups = [-(-count // size) for count in counts]
        return sum(w * (n * size - c) for w, n, c in zip(worst, groups, counts, strict=True)), sum(groups)

    low = min(max(min(counts), minimum), max(counts))
    assert low <= chosen <= max(counts)
    assert all(cost(chosen) < cost(size) for size in range(low, chosen))
    assert all(cost(chosen) <= cost(size) for size in range(chosen, max(counts) + 1))


@given(cases, groupings)
@settings(max_examples=200, deadline=None)
def test_a_drafter_without_layers_changes_nothing(case: Case, grouping: str) -> None:
    target = case._replace(layers=[layer for layer in case.layers if layer.owner == "target"])
    with_drafter, alone = (planned(target, grouping, use_eagle_block_drop=flag) for flag in (True, False))
    assert with_drafter == alone


@given(cases, groupings)
@settings(max_examples=200, deadline=None)
def test_who_owns_a_layer_never_changes_groups_or_tokens(case: Case, grouping: str) -> None:
    plan = planned(case, grouping)
    swapped = planned(case._replace(layers=[layer._replace(owner="target") for layer in case.layers]), grouping)
    assert [group.layers for group in plan.groups] == [group.layers for group in swapped.groups]
    assert (plan.num_blocks, plan.kv_cache_size_tokens) == (swapped.num_blocks, swapped.kv_cache_size_tokens)


@given(cases, groupings)
@settings(max_examples=300, deadline=None)
def test_the_categories_of_a_request_add_up_to_its_blocks(case: Case, grouping: str) -> None:
    plan = planned(case, grouping)
    if plan.request_cost is None:
        assert plan.error or not case.layers
        return
    by_category = plan.request_cost.at_max_model_len
    assert set(by_category) == set(CATEGORIES)
    assert min(by_category.values()) >= 0
    assert sum(by_category.values()) == (plan.bytes_per_block or 0) * (plan.blocks_per_request or 0)
    bounds = {
        "target_window_in_flight": "target_window",
        "drafter_window_in_flight": "drafter_window",
        "state_checkpoints": "speculative_state",
    }
    assert all(0 < size <= by_category[bounds[name]] for name, size in plan.request_cost.parts.items())


@given(cases, groupings)
@settings(max_examples=300, deadline=None)
def test_the_straight_line_is_the_request_rounded_down_to_its_tokens(case: Case, grouping: str) -> None:
    plan = planned(case, grouping)
    if plan.request_cost is None:
        assert plan.error or not case.layers
        return
    line = plan.request_cost.fixed_bytes + plan.request_cost.bytes_per_token * (plan.max_model_len or 0)
    whole = sum(plan.request_cost.at_max_model_len.values())
    growing = [group for group in plan.groups if group.kind in ("full_attention", "mla", "rswa", "hidden_state")]
    growing += [group for group in plan.groups if group.kind == "sink_full_attention"]
    assert line <= whole * (1 + 1e-12)
    assert whole - line <= (len(growing) + 1) * (plan.bytes_per_block or 0)


@given(cases, st.sampled_from(("main", "packed")))  # the groups of `uniform` follow the model length
@settings(max_examples=200, deadline=None)
def test_the_longest_length_fits_and_one_more_token_does_not(case: Case, grouping: str) -> None:
    plan = planned(case, grouping, auto_fit_max_model_len=False)
    longest = plan.longest_model_len
    if not longest or not plan.groups:
        assert plan.error or not case.layers
        return
    options = case.options | {"auto_fit_max_model_len": False}
    at = plan_layers(case.layers, case.limits._replace(max_model_len=longest), grouping=grouping, **options)
    beyond = plan_layers(case.layers, case.limits._replace(max_model_len=longest + 1), grouping=grouping, **options)
    assert at.error is None
    assert longest == case.limits.max_model_len or beyond.error is not None


@given(cases)
@settings(max_examples=200, deadline=None)
def test_where_all_pages_are_equal_packed_is_main(case: Case) -> None:
    pages = [layer.spec.page_size_bytes for layer in case.layers]
    alike = [
        layer._replace(spec=unaligned(layer.spec)) for layer in case.layers if layer.spec.page_size_bytes == pages[0]
    ]
    options = {"layout": "LBHNC", "disable_hybrid_kv_cache_manager": False}  # holding windows in full changes pages
    main, packed = (planned(case._replace(layers=alike), name, **options) for name in ("main", "packed"))
    assert packed == main._replace(layout="BLHNC")


@given(cases, groupings)
@settings(max_examples=300, deadline=None)
def test_an_error_is_one_sentence(case: Case, grouping: str) -> None:
    error = planned(case, grouping).error
    assert error is None or (error.endswith(".") and "\n" not in error and ". " not in error)


@given(st.integers(1, 64), st.sampled_from((16, 64, 640)), st.sampled_from((64, 128, 256)))
def test_halving_the_kv_heads_of_a_rank_halves_its_page(heads: int, block: int, head_size: int) -> None:
    half = AttentionSpec("full_attention", block, heads, head_size, head_size, "bfloat16")
    assert half._replace(num_kv_heads=2 * heads).page_size_bytes == 2 * half.page_size_bytes


@given(st.integers(1, 64), st.integers(1, 512))
def test_halving_the_heads_of_a_state_halves_its_page(heads: int, width: int) -> None:
    half = StateSpec(((heads, width, 128), (3, heads * width)), ("float32", "bfloat16"), 4096)
    whole = half._replace(shapes=((2 * heads, width, 128), (3, 2 * heads * width)))
    assert whole.page_size_bytes == 2 * half.page_size_bytes


def test_a_grouping_that_does_not_exist_is_an_error() -> None:
    case = Cases(1).next()
    with pytest.raises(ValueError, match="no grouping 'best'"):
        planned(case, "best")
