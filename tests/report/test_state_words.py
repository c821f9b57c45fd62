"""What the states of a request after its first are called: only drafted tokens make them speculative."""

from __future__ import annotations

from kvplan.report import costs
from tests.plan.test_budget import loaded

NEMOTRON = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"


def holder(*words: str) -> costs.Holder:
    result, _ = loaded(*words)
    plan = result.plans[result.selected]
    return costs.Holder(plan, {layer.name: layer for layer in result.layers}, result.options())


def test_states_that_prefix_caching_keeps_are_not_called_speculative():
    alone = holder(NEMOTRON)
    assert alone.plan.request_cost is not None
    assert alone.plan.request_cost.at_max_model_len["speculative_state"] > 0
    assert costs.name("speculative_state", alone) == "further states"
    assert costs.describe("speculative_state", alone).endswith(": 1 + 1 cached prefix + 1 prefill checkpoint")


def test_states_of_drafted_tokens_are_called_speculative():
    spec = '{"model": "z-lab/Qwen3.6-35B-A3B-DFlash", "num_speculative_tokens": 7}'
    alone, drafted = (holder("Qwen/Qwen3.6-35B-A3B-FP8", *more) for more in ((), ("--speculative-config", spec)))
    assert costs.name("speculative_state", drafted) == "speculative state"
    assert costs.name("speculative_state", alone, drafted) == "speculative state"
    assert costs.name("state", alone) == "state"
