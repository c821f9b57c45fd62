"""The line through a request's size adds up to the size that stands beside it."""

from __future__ import annotations

from kvplan.report import costs
from tests.plan.test_budget import loaded


def test_what_the_last_blocks_have_beyond_the_straight_line_is_a_part_of_its_own():
    """118 blocks of 1,088 tokens hold 384 tokens more than the 128,000 of the request: 7.5 MiB of 20 KiB each."""
    result, _ = loaded("Qwen/Qwen3.6-35B-A3B-FP8", "--max-model-len", "128000")
    cost = result.plans["main"].request_cost
    assert cost is not None
    assert 118 * 1088 - 128000 == 384
    assert sum(cost.at_max_model_len.values()) == cost.fixed_bytes + 20480 * 128000 + 384 * 20480
    assert costs.line(cost, 128000) == (
        "191.25 MiB fixed + 20 KiB (20,480 bytes) per token + 7.5 MiB to the end of the last blocks"
    )


def test_a_length_of_whole_blocks_has_no_such_part():
    result, _ = loaded("Qwen/Qwen3-8B")
    cost = result.plans["main"].request_cost
    assert cost is not None
    assert costs.line(cost, 40960) == "0 B fixed + 144 KiB (147,456 bytes) per token"
