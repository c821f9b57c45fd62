"""What a KV connector moves: contiguous regions follow from the layout's axis order."""

from __future__ import annotations

import pytest

from kvplan import EngineArgs, PlanRequest, plan
from kvplan.transfer import transfer


def planned(model: str, layout: str | None = None, gpu: str = "H200", **args: object):
    env = {} if layout is None else {"VLLM_KV_CACHE_LAYOUT": layout}
    options = {"kv_cache_memory_bytes": 20 << 30, "max_model_len": 8192, **args}
    return plan(PlanRequest(EngineArgs(model=model, env=env, **options), gpu=gpu, offline=True))


@pytest.mark.parametrize(
    ("layout", "regions", "each"),
    [
        ("LBNHC", 36, 65536),  # 36 layers, pages of 16 tokens x 8 heads x 2 x 128 x 2 bytes
        ("LBHNC", 36, 65536),
        ("LHBNC", 36 * 8, 8192),
        ("BLHNC", 1, 36 * 65536),
    ],
)
def test_regions_of_a_dense_model(layout, regions, each):
    result = planned("Qwen/Qwen3-8B", layout, attention_backend="FLASH_ATTN")
    found = transfer(result.plans[result.selected])
    assert found.layout == layout
    assert (found.regions_per_block(0), found.runs[0].bytes) == (regions, each)
    assert found.regions_per_request == regions * (8192 // 16)
    assert found.bytes_per_request == 36 * 65536 * (8192 // 16)


def test_every_layout_moves_the_same_bytes_of_equal_pages():
    sizes = {
        transfer(planned("Qwen/Qwen3-8B", name).plans["main"]).bytes_per_request for name in ("LBNHC", "LBHNC", "BLNHC")
    }
    assert sizes == {36 * 65536 * 512}


def test_padding_behind_a_groups_last_layer_is_not_moved():
    result = planned(
        "Qwen/Qwen3.6-35B-A3B-FP8",
        "BLHNC",
        speculative_config={"model": "z-lab/Qwen3.6-35B-A3B-DFlash", "num_speculative_tokens": 15},
    )
    used = result.plans[result.selected]
    found = transfer(used)
    assert [found.regions_per_block(g) for g in range(5)] == [1] * 5
    assert [found.bytes_per_block(g) for g in range(5)] == [
        used.bytes_per_block - group.padding_bytes for group in used.groups
    ]


def test_blocks_of_another_length_can_be_given():
    made = planned("Qwen/Qwen3-8B").plans["main"]
    assert transfer(made, [3]).bytes_per_request == 3 * 36 * 65536
