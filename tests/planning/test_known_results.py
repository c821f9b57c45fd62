"""Plans that vLLM's pull requests and measured servers published, and numbers the 0.33.0 engine gave."""

from __future__ import annotations

import pytest
from known_layers import GIB, attention, group_sizes, layers_of, mimo_with_dflash, qwen36_with_dflash

from kvplan.planning import plan_layers
from kvplan.planning.uniform_page import least_padding_group_size, main_group_size
from kvplan.result import Plan
from kvplan.spec import CacheLayer, Limits

LIMITS_58207 = Limits(max_model_len=32768, max_in_flight_tokens=256)


def qwen(grouping: str, gib: int | None = 200) -> Plan:
    layers, limits = qwen36_with_dflash()
    memory = None if gib is None else gib * GIB
    return plan_layers(layers, limits, grouping=grouping, layout="LBHNC", available_memory=memory)


@pytest.mark.parametrize(
    ("grouping", "groups", "block", "blocks", "per_request", "tokens"),
    [
        ("main", 46, 2_621_440, 81_920, 2_995, 7_170_229),
        ("uniform", 17, 7_864_320, 27_306, 1_428, 5_012_677),
        ("packed", 5, 15_728_640, 13_653, 493, 7_259_740),
    ],
)
def test_qwen36_with_dflash_at_200_gib(
    grouping: str, groups: int, block: int, blocks: int, per_request: int, tokens: int
) -> None:
    plan = qwen(grouping)
    assert plan.error is None
    assert (len(plan.groups), plan.bytes_per_block, plan.num_blocks) == (groups, block, blocks)
    assert (plan.blocks_per_request, plan.kv_cache_size_tokens) == (per_request, tokens)


def test_qwen36_uniform_deals_groups_of_three() -> None:
    plan = qwen("uniform")
    shapes = [(group.kind, len(group.layers), group.padding_pages) for group in plan.groups]
    assert plan.group_size == 3
    assert shapes == [
        *[("mamba", 3, 0)] * 10,
        *[("full_attention", 3, 0)] * 2,
        *[("full_attention", 2, 1)] * 2,
        ("sliding_window", 3, 0),
        ("sliding_window", 2, 1),
        ("full_attention", 1, 2),
    ]


def test_qwen36_uniform_pads_12_kib_a_token_on_24_useful() -> None:
    padding = qwen("uniform", None).padding
    assert padding is not None
    assert (padding.growing_bytes_per_token, padding.growing_fraction) == (12 * 1024, 0.5)


def test_qwen36_packed_fills_twelve_pages_and_pads_no_full_attention() -> None:
    plan = qwen("packed")
    assert plan.padding is not None
    assert (plan.layout, plan.padding.growing_bytes_per_token) == ("BLHNC", 0)
    shapes = [(group.kind, len(group.layers), group.owner, group.padding_bytes // 1_310_720) for group in plan.groups]
    assert shapes == [
        ("mamba", 10, "target", 2),
        ("mamba", 10, "target", 2),
        ("mamba", 10, "target", 2),
        ("full_attention", 11, "both", 0),
        ("sliding_window", 5, "drafter", 2),
    ]


def test_qwen36_pool_ratios_of_the_published_servers() -> None:
    main, uniform, packed = (qwen(name).kv_cache_size_tokens or 0 for name in ("main", "uniform", "packed"))
    assert (round(packed / uniform, 3), round(main / uniform, 3)) == (1.448, 1.43)


def test_qwen36_a_request_holds_seven_speculative_states_beside_its_state() -> None:
    cost = qwen("packed").request_cost
    assert cost is not None
    state = cost.at_max_model_len["state"]
    assert (state, cost.at_max_model_len["speculative_state"]) == (30 * 1_212_416, 7 * state)
    assert "state_checkpoints" not in cost.parts


def test_the_in_flight_reserve_of_a_window_is_named() -> None:
    cost = qwen("packed").request_cost
    assert cost is not None
    # 4095 + 32768 tokens take 59 blocks, 4095 alone take 8.
    assert cost.at_max_model_len["drafter_window"] == 5 * 59 * 2_621_440
    assert dict(cost.parts) == {"drafter_window_in_flight": 5 * 51 * 2_621_440}


@pytest.mark.parametrize(("grouping", "size", "groups"), [("main", 5, 11), ("uniform", 9, 7), ("packed", None, 12)])
def test_mimo_v25_with_dflash_groups(grouping: str, size: int | None, groups: int) -> None:
    layers, limits = mimo_with_dflash(heads=2, max_in_flight_tokens=32768)
    plan = plan_layers(layers, limits, grouping=grouping, layout="LBNHC")
    assert (plan.group_size, len(plan.groups)) == (size, groups)


def test_mimo_main_pads_nine_full_layers_to_ten_and_uniform_pads_none() -> None:
    layers, limits = mimo_with_dflash(heads=2, max_in_flight_tokens=32768)
    main, uniform = (plan_layers(layers, limits, grouping=name, layout="LBNHC") for name in ("main", "uniform"))
    assert [g.padding_pages for g in main.groups if g.kind == "full_attention"] == [0, 1]
    assert uniform.padding is not None
    assert uniform.padding.growing_bytes_per_token == 0


def test_mimo_v26_pool_of_the_measured_server() -> None:
    layers, limits = mimo_with_dflash(heads=4, max_in_flight_tokens=16384)
    size_five = plan_layers(layers, limits, grouping="main", layout="LBNHC", available_memory=151_389 * 409_600)
    assert (size_five.num_blocks, size_five.bytes_per_block) == (151_389, 409_600)
    size_nine = plan_layers(layers, limits, grouping="uniform", layout="LBNHC", available_memory=151_389 * 409_600)
    assert size_nine.num_blocks == 84_105
    measured = plan_layers(layers, limits, grouping="uniform", layout="LBNHC", num_gpu_blocks_override=84_094)
    assert (measured.kv_cache_size_tokens, measured.blocks_per_request) == (2_259_724, 39_022)


def pull_request_layers(full: int, window: int, drafter: int) -> list[CacheLayer]:
    layers = layers_of(("full", full, attention()), ("window", window, attention("sliding_window", sliding_window=128)))
    if drafter:
        spec = attention("sliding_window", sliding_window=1024)
        layers += layers_of(("draft", drafter, spec), owner="drafter")
    return layers


@pytest.mark.parametrize(
    ("full", "window", "drafter", "minimum", "size"),
    [(10, 30, 1, 2, 2), (10, 30, 1, 3, 5), (13, 12, 0, 3, 13), (10, 52, 0, 3, 10), (9, 39, 5, 3, 9)],
)
def test_group_sizes_of_pull_request_58207(full: int, window: int, drafter: int, minimum: int, size: int) -> None:
    plan = plan_layers(
        pull_request_layers(full, window, drafter),
        LIMITS_58207,
        grouping="uniform",
        layout="LBHNC",
        min_kv_cache_group_layers=minimum,
    )
    assert plan.group_size == size


def test_at_a_tiny_model_length_windows_cost_more_than_full_attention() -> None:
    layers = pull_request_layers(3, 7, 0)
    limits = Limits(max_model_len=16, max_in_flight_tokens=256)
    plan = plan_layers(layers, limits, grouping="uniform", layout="LBHNC", min_kv_cache_group_layers=1)
    assert (plan.group_size, group_sizes(plan.groups)) == (4, [4, 3, 3])
    assert [group.blocks_per_request for group in plan.groups] == [2, 2, 1]


def test_the_minimum_never_asks_for_more_layers_than_the_largest_bucket_has() -> None:
    assert least_padding_group_size([2, 1], [100, 100], minimum=10) == 2


@pytest.mark.parametrize(
    ("counts", "size"), [([12, 13], 13), ([10, 15], 10), ([10, 14], 14), ([9, 39, 5], 5), ([4], 4)]
)
def test_the_released_group_size_is_the_smallest_bucket_unless_they_are_nearly_equal(
    counts: list[int], size: int
) -> None:
    assert main_group_size(counts) == size


def gpt_oss() -> tuple[list[CacheLayer], Limits]:
    window, full = attention("sliding_window", head_size=64, sliding_window=128), attention(head_size=64)
    layers = [CacheLayer(f"l{i}", "target", full if i % 2 else window, "") for i in range(24)]
    return layers, Limits(max_model_len=131072, max_in_flight_tokens=32768)


def test_a_pool_too_small_for_one_request_says_both_sizes_and_the_longest_length() -> None:
    layers, limits = gpt_oss()
    plan = plan_layers(layers, limits, grouping="main", layout="LBHNC", num_gpu_blocks_override=5000)
    assert plan.error == (
        "vLLM does not start: one request of max_model_len 131072 needs 3.75 GiB of KV cache and 1.83 GiB are "
        "available besides the null block, which hold at most 47072 tokens; raise --num-gpu-blocks-override or lower "
        "--max-model-len."
    )
    assert (plan.longest_model_len, plan.num_blocks, plan.bytes_per_block) == (47072, None, 393216)
    assert (len(plan.groups), plan.blocks_per_request) == (2, 10249)


def test_a_pool_of_one_block_holds_only_the_null_block() -> None:
    layers, limits = gpt_oss()
    plan = plan_layers(layers, limits, grouping="main", layout="LBHNC", available_memory=393216)
    assert plan.error is not None
    assert "does not hold a block besides the null block" in plan.error
    assert plan.longest_model_len == 0


def test_the_null_block_is_not_available_to_a_request() -> None:
    layers, limits = gpt_oss()
    exact = 393216 * (10249 + 1)
    fits, short = (
        plan_layers(layers, limits, grouping="main", layout="LBHNC", available_memory=size)
        for size in (exact, exact - 1)
    )
    assert (fits.error, fits.num_blocks, fits.longest_model_len) == (None, 10250, 131072)
    assert short.error is not None


def test_max_model_len_auto_takes_the_longest_length_that_fits() -> None:
    layers, limits = gpt_oss()
    plan = plan_layers(
        layers, limits, grouping="main", layout="LBHNC", num_gpu_blocks_override=5000, auto_fit_max_model_len=True
    )
    assert (plan.error, plan.max_model_len, plan.longest_model_len, plan.num_blocks) == (None, 47072, 47072, 5000)
    assert [group.blocks_per_request for group in plan.groups] == [2057, 2942]
    assert [group.blocks_before_auto_fit for group in plan.groups] == [2057, 8192]


def test_the_smallest_pipeline_stage_decides_the_blocks() -> None:
    layers = [CacheLayer(f"l{i}", "target", attention(), "", stage=i // 3) for i in range(4)]
    plan = plan_layers(
        layers,
        Limits(1000, 512),
        grouping="main",
        layout="LBHNC",
        available_memory=[2**30, 2**30],
        pipeline_parallel_size=2,
    )
    assert (plan.bytes_per_block, plan.bytes_per_block_per_stage, plan.num_blocks) == (262144, (196608, 65536), 5461)


def test_stages_that_share_groups_unevenly_say_what_it_costs() -> None:
    kinds = (attention(), attention("sliding_window", sliding_window=128))
    layers = [CacheLayer(f"l{i}", "target", kinds[kind], "", stage=i // 2) for i, kind in enumerate((0, 0, 1, 1))]
    plan = plan_layers(layers, Limits(1000, 512), grouping="main", layout="LBHNC", pipeline_parallel_size=2)
    assert (plan.bytes_per_block, plan.bytes_per_block_per_stage) == (131072, (131072, 131072))
    assert plan.notes == (
        "groups are dealt unevenly to the pipeline stages: their blocks take 131,072 bytes more than one pool's",
    )


def test_layers_without_a_cache_need_no_blocks() -> None:
    plan = plan_layers([], Limits(1000, 512), grouping="main", layout="LBHNC", available_memory=2**30)
    assert (plan.error, plan.groups, plan.num_blocks, plan.bytes_per_block) == (None, (), 1, None)
