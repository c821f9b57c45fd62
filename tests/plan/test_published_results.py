"""Results that servers and pull requests published, planned from the command line that gave them."""

from __future__ import annotations

import pytest

from kvplan.commands.deployment import Choices, request
from kvplan.pipeline import plan

QWEN = [
    "vllm",
    "serve",
    "Qwen/Qwen3.6-35B-A3B-FP8",
    "--max-num-seqs",
    "32",
    "--no-enable-prefix-caching",
    "--block-size",
    "128",
    "--mamba-cache-dtype",
    "bfloat16",
    "--mamba-ssm-cache-dtype",
    "bfloat16",
    "--kv-cache-memory-bytes",
    "200G",
]
DFLASH = '{"model":"z-lab/Qwen3.6-35B-A3B-DFlash","method":"dflash","num_speculative_tokens":7%s}'
TRITON = [
    *QWEN,
    "--attention-backend",
    "TRITON_ATTN",
    "--speculative-config",
    DFLASH % ',"attention_backend":"TRITON_ATTN"',
]
DEFAULTS = [*QWEN, "--speculative-config", DFLASH % ""]


def planned(words: list[str], gpu: str, engine: str = "vllm-0.33.0"):
    return plan(request(words, Choices(gpu=gpu, engine=engine, offline=True), {}))


def sizes(result, grouping: str) -> tuple[int, int | None, int | None, int | None]:
    made = result.plans[grouping]
    return len(made.groups), made.num_blocks, made.blocks_per_request, made.kv_cache_size_tokens


def test_qwen36_with_dflash_on_b300_at_200_gib():
    result = planned(TRITON, "B300", "vllm-next")
    assert (result.selected, result.layout.name) == ("packed", "BLNHC")
    assert sizes(result, "main") == (46, 81920, 2995, 7170229)
    assert sizes(result, "uniform") == (17, 27306, 1428, 5012677)
    assert sizes(result, "packed") == (5, 13653, 493, 7259740)


def test_the_published_ratios_of_one_backend_hold():
    triton = {name: sizes(planned(TRITON, "B300"), name)[3] for name in ("uniform", "packed")}
    flashinfer = {name: sizes(planned(DEFAULTS, "B300"), name)[3] for name in ("main", "uniform")}
    assert round(triton["packed"] / triton["uniform"], 3) == 1.448
    assert round(flashinfer["main"] / flashinfer["uniform"], 3) == 1.430


def test_default_backends_on_b300_change_nothing_under_vllm_next():
    result = planned(DEFAULTS, "B300", "vllm-next")
    assert (result.selected, result.layout.name, sizes(result, "uniform")[0]) == ("uniform", "LBHNC", 17)
    assert [reason.holds for reason in result.layout.reasons] == [True, False, True]


def test_uniform_groups_of_three_pad_full_attention_by_half():
    made = planned(TRITON, "B300").plans["uniform"]
    assert made.group_size == 3
    assert made.padding.growing_bytes_per_token == 12 * 1024
    assert made.padding.growing_fraction == 0.5
    shapes = [(group.kind, group.owner, len(group.layers)) for group in made.groups]
    assert [shapes.count(shape) for shape in dict.fromkeys(shapes)] == [10, 2, 2, 1, 1, 1]


def test_packed_has_no_growing_padding_and_one_full_group_for_both_models():
    made = planned(TRITON, "B300").plans["packed"]
    assert made.bytes_per_block == 12 * 640 * 2 * 1024
    assert made.padding.growing_bytes_per_token == 0
    kinds = [(group.kind, group.owner, len(group.layers)) for group in made.groups]
    assert sorted(kinds) == [
        ("full_attention", "both", 11),
        ("mamba", "target", 10),
        ("mamba", "target", 10),
        ("mamba", "target", 10),
        ("sliding_window", "drafter", 5),
    ]


def test_mimo_keeps_its_order_with_seven_groups():
    words = ["XiaomiMiMo/MiMo-V2.5", "-tp", "2", "--speculative-config"]
    drafter = '{"model":"XiaomiMiMo/MiMo-V2.5-DFlash","method":"dflash","num_speculative_tokens":7}'
    result = planned([*words, drafter], "B300", "vllm-next")
    assert (result.selected, result.layout.name) == ("uniform", "LBNHC")
    assert [len(result.plans[name].groups) for name in ("main", "uniform", "packed")] == [11, 7, 12]
    assert (result.plans["main"].group_size, result.plans["uniform"].group_size) == (5, 9)
    assert [reason.holds for reason in result.layout.reasons] == [True, True, False]


@pytest.mark.parametrize(
    ("gpu", "extra", "block", "states"),
    [
        ("H200", [], 2176, 32),
        ("B300", ["--kv-cache-dtype", "bfloat16"], 2176, 32),
        ("B300", [], 4352, 64),
    ],
)
def test_glm53_flash_has_seventeen_kernel_pages_in_a_packed_block(gpu, extra, block, states):
    from kvplan.kernel_blocks import kernel_blocks

    result = planned(["zai-org/GLM-5.3-Flash", "-tp", "2", *extra], gpu)
    used = result.plans[result.selected]
    assert (result.layout.name, result.block_size, len(used.groups)) == ("BLHNC", block, 6)
    (indexer,) = [g for g in kernel_blocks(used, result.layers).attention_groups if g.mode == "packed"]
    assert (indexer.kernel_blocks_per_block, indexer.kernel_block_size) == (17, states * 4)


@pytest.mark.parametrize(
    ("words", "gpu", "kernel"),
    [
        ("Qwen/Qwen3-8B --block-size 256 --attention-backend FLASHINFER", "H200", 64),
        ("Qwen/Qwen3-8B --block-size 256", "B200", 256),
    ],
)
def test_flashinfer_splits_blocks_of_256_where_it_takes_no_large_pages(words, gpu, kernel):
    spec = '{"model":"AngelSlim/Qwen3-8B_eagle3","method":"eagle3","num_speculative_tokens":3}'
    result = planned([*words.split(), "--speculative-config", spec], gpu)
    assert result.plans["main"].groups[0].kernel_block_size == kernel


def test_glm47_flash_with_mtp_splits_blocks_of_256_on_b200():
    spec = '{"method":"mtp","num_speculative_tokens":1}'
    result = planned(["zai-org/GLM-4.7-Flash", "--block-size", "256", "--speculative-config", spec], "B200")
    assert [group.kernel_block_size for group in result.plans["main"].groups] == [64]
