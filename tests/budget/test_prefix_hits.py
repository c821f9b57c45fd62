"""The shortest prompt that can hit the prefix cache: what vLLM 0.33.0's own KVCacheManager finds.

Each row was asked of the engine: requests of growing length against a cache that holds a longer request with the same
tokens, for groups of these blocks (F: full attention, W: a window, M: a state in align mode; e: gives a block up).
"""

from __future__ import annotations

from math import gcd, lcm

import pytest

from kvplan.commands.deployment import Choices, request
from kvplan.inputs import read
from kvplan.pipeline import plan_read
from kvplan.prefix_hits import Cached, Lookup, shortest_hit
from kvplan.report.capacity import blocks_of, longest_for


def full(block: int, e: bool = False) -> Cached:
    return Cached(block, drops=e)


def window(block: int, size: int, e: bool = False) -> Cached:
    return Cached(block, window=size, drops=e)


def state(block: int) -> Cached:
    return Cached(block, is_state=True)


@pytest.mark.parametrize(
    ("groups", "shortest"),
    [
        ([full(16)], 17),
        ([full(16, e=True)], 33),
        ([window(16, 40)], 17),
        ([window(16, 40, e=True)], 33),
        ([state(32)], 33),
        ([full(16), window(16, 32)], 17),
        ([full(16, e=True), window(16, 100)], 32),
        ([full(16), window(16, 100, e=True)], 32),
        ([full(32), window(16, 40)], 33),
        ([full(32, e=True), window(16, 40)], 64),
        ([full(32), window(16, 40, e=True)], 80),
        ([full(48), window(16, 100)], 49),
        ([full(48), window(16, 100, e=True)], 112),
        ([full(48, e=True), window(16, 100)], 96),
        ([full(32), window(32, 1000), window(16, 20, e=True)], 48),
        ([full(64), full(16, e=True), window(64, 128)], 80),
        ([full(64, e=True), full(16, e=True), window(32, 128, e=True)], 192),
        ([full(16, e=True), window(64, 256)], 80),
        ([window(16, 32), window(32, 64)], 33),
        ([window(16, 32, e=True), window(32, 64, e=True)], 64),
        ([full(32), state(32)], 33),
        ([full(32, e=True), state(32)], 64),
    ],
)
def test_the_shortest_prompt_is_the_engines(groups, shortest):
    sizes = [group.block_size for group in groups]
    alone = len(groups) == 1
    unit = sizes[0] if alone else gcd(*sizes)
    assert Lookup(tuple(groups), unit, lcm(*sizes), alone).shortest() == shortest


def planned(*words: str):
    wanted = request(list(words), Choices(gpu="H200", offline=True), {})
    args, inputs = read(wanted.args, offline=True)
    result = plan_read(wanted._replace(args=args), inputs)
    return result.plans[result.selected], result.config


@pytest.mark.parametrize(
    ("words", "shortest"),
    [
        (["Qwen/Qwen3-8B"], 17),
        (["Qwen/Qwen3-8B", "--speculative-config", '{"model": "AngelSlim/Qwen3-8B_eagle3"}'], 33),
        (["Qwen/Qwen3-8B", "--no-enable-prefix-caching"], None),
        (["google/gemma-3-27b-it"], 17),
    ],
)
def test_of_a_deployment(words, shortest):
    if "--speculative-config" in words:
        words[-1] = words[-1][:-1] + ', "method": "eagle3", "num_speculative_tokens": 3}'
    assert shortest_hit(*planned(*words)) == shortest


@pytest.mark.parametrize("requests", [1, 7, 64, 1000])
def test_the_longest_context_of_requests_at_once_is_the_last_that_fits(requests):
    plan, config = planned("Qwen/Qwen3-8B", "--kv-cache-memory-bytes", "20GiB")
    longest = longest_for(plan, config, requests)
    assert longest is not None
    assert requests * blocks_of(plan, config, longest) <= plan.num_blocks - 1
    assert longest == 40960 or requests * blocks_of(plan, config, longest + 1) > plan.num_blocks - 1
