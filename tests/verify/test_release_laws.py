"""Laws of a release's plan."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.engine.args import EngineArgs
from kvplan.logs.capacity import bytes_printed_as
from kvplan.logs.rules import VERIFIED, rules_for
from kvplan.pipeline import PlanRequest, plan
from kvplan.planning.layer_set import CannotPlan
from kvplan.result import Result
from kvplan.verify.grouping import padding_of, released_group_size
from kvplan.verify.packed_tuples import least_padding
from kvplan.verify.pool import ReleasePlan, longest_model_len, needed_bytes, possible_blocks, release_plan
from kvplan.verify.respec import Base

MODELS = (
    "Qwen/Qwen3-8B",
    "google/gemma-3-27b-it",
    "google/gemma-4-31B-it",
    "Qwen/Qwen3.6-35B-A3B",
    "deepseek-ai/DeepSeek-V3",
    "deepseek-ai/DeepSeek-V4-Flash",
    "openai/gpt-oss-20b",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "tiiuae/falcon-mamba-7b-instruct",
    "zai-org/GLM-5.3-Flash",
)


def planned(model: str, memory: int = 10**11, **options: object) -> Result:
    args = EngineArgs(model=model, kv_cache_memory_bytes=memory, **options)  # type: ignore[arg-type]
    return plan(PlanRequest(args=args, gpu="H200", offline=True))


def by(release: str, result: Result) -> ReleasePlan:
    base = Base(result.config, result.layers, result.block_size, result.mamba_block_size)
    return release_plan(rules_for(release), base, layout=result.layout.name, told_mode=None)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("prefix_caching", [True, False])
def test_the_rules_of_0_33_0_give_the_plan_of_0_33_0(model: str, prefix_caching: bool):
    result = planned(model, enable_prefix_caching=prefix_caching)
    own = result.plans[result.selected]
    made = by("0.33.0", result)
    assert made.block_bytes == (own.bytes_per_block,)
    assert own.num_blocks is not None
    assert sum(made.group_blocks(result.config.max_model_len)) == own.blocks_per_request
    assert made.printed(own.num_blocks, result.config.max_model_len).kv_cache_size_tokens == own.kv_cache_size_tokens


@pytest.mark.parametrize("release", VERIFIED)
def test_a_dense_model_has_the_same_blocks_under_every_release(release: str):
    made = by(release, planned("Qwen/Qwen3-8B"))
    assert made.block_bytes == (36 * 16 * 2 * 8 * 128 * 2,)
    assert made.group_blocks(40960) == (2560,)
    assert made.printed(8505, 40960).kv_cache_size_tokens == 136080


@pytest.mark.parametrize(
    ("release", "groups", "blocks"),
    [
        ("0.9.0", 1, (8192,)),  # windows cached in full
        ("0.11.2", 7, (8192, *[577] * 6)),
        ("0.25.1", 7, (8192, *[577] * 6)),
        ("0.26.0", 7, (8192, *[1089] * 6)),  # two batches in flight
    ],
)
def test_gemma_3_by_release(release: str, groups: int, blocks: tuple[int, ...]):
    made = by(release, planned("google/gemma-3-27b-it", max_num_batched_tokens=8192))
    assert len(made.groups) == groups
    assert sorted(made.group_blocks(131072), reverse=True) == sorted(blocks, reverse=True)


@pytest.mark.parametrize(
    ("release", "counts", "size"),
    [
        ("0.11.2", [12, 13], 12),
        ("0.12.0", [12, 13], 13),
        ("0.12.0", [10, 13], 10),
        ("0.18.0", [10, 13], 13),
        ("0.28.0", [10, 15], 10),
    ],
)
def test_the_group_size_is_the_largest_kind_where_it_is_close_enough(release: str, counts: list[int], size: int):
    assert released_group_size(rules_for(release), counts) == size


def test_padding_is_told_by_kind():
    assert [(p.layers, round(p.percent, 2)) for p in padding_of([30, 10, 8], 8)] == [(2, 6.67), (6, 60.0)]


@given(st.lists(st.integers(1, 60), min_size=1, max_size=5), st.integers(1, 60))
def test_no_number_of_tuples_pads_less(counts: list[int], lower: int):
    best = least_padding(counts, lower)
    assert best >= lower

    def padding(size: int) -> int:
        return sum(-count % size for count in counts)

    if lower <= max(counts):
        assert padding(best) == min(padding(size) for size in range(lower, max(counts) + 1))


def test_pages_of_several_sizes_stop_a_release_that_takes_one():
    result = planned("google/gemma-4-31B-it")
    with pytest.raises(CannotPlan, match=r"0\.11\.2"):
        by("0.11.2", result)
    assert len(by("0.12.0", result).groups) > 1


@settings(max_examples=30, deadline=None)
@given(st.integers(2**30, 2**38), st.sampled_from(["0.10.0", "0.16.0", "0.25.1", "0.33.0"]))
def test_the_blocks_of_a_memory_are_among_those_of_its_printed_gib(memory: int, release: str):
    made = by(release, DENSE)
    allowed = possible_blocks(made, [bytes_printed_as(round(memory / 2**30, 2))])
    assert memory // made.block_bytes[0] in allowed
    assert len(allowed) <= 12


@settings(max_examples=30, deadline=None)
@given(st.integers(2**26, 2**33), st.sampled_from(["0.10.0", "0.16.0", "0.25.1", "0.33.0"]))
def test_the_longest_length_fits_and_one_more_does_not(memory: int, release: str):
    made = by(release, DENSE)
    longest = longest_model_len(made, [memory], 40960)
    budget = memory - (made.block_bytes[0] if release == "0.33.0" else 0)
    assert longest == 0 or max(needed_bytes(made, longest)) <= budget
    assert longest == 40960 or max(needed_bytes(made, longest + 1)) > budget


DENSE = planned("Qwen/Qwen3-8B")


@pytest.mark.parametrize(
    ("release", "gpu", "block"),
    [
        ("0.9.2", "H200", 64),
        ("0.9.2", "B200", 16),
        ("0.10.2", "B200", 128),
        ("0.15.0", "B200", 64),
        ("0.13.0", "A100 80GB", 16),
        ("0.18.0", "H200", 16),
    ],
)
def test_the_block_of_mla_by_release_and_gpu(release: str, gpu: str, block: int):
    args = EngineArgs(model="deepseek-ai/DeepSeek-V3", hf_overrides={"quantization_config": None})
    result = plan(PlanRequest(args=args, gpu=gpu, offline=True))
    assert by(release, result).sizes.block_size == block


@pytest.mark.parametrize(("release", "block"), [("0.17.0", 16), ("0.18.0", 16), ("0.28.0", 16), ("0.33.0", 64)])
def test_the_block_of_a_backend_is_that_of_its_release(release: str, block: int):
    """Gemma 4 on B200: FlashInfer's large pages for heads of 512 came with 0.30.0."""
    args = EngineArgs(model="google/gemma-4-31B-it", kv_cache_memory_bytes=10**11)
    result = plan(PlanRequest(args=args, gpu="B200", offline=True))
    assert by(release, result).configured_block_size == block
