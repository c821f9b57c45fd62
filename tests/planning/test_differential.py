"""The three groupings against the installed vLLM on random deployments; runs only where vllm can be imported.

KVPLAN_DIFFERENTIAL_CASES is the number of deployments (each is planned under all three groupings),
KVPLAN_DIFFERENTIAL_SEED the first seed.
"""

from __future__ import annotations

import os
import re
from typing import Any

import pytest

from kvplan.planning import GROUPINGS, plan_layers
from kvplan.result import Plan

pytest.importorskip("vllm")

from engine_adapter import Outcome, described, engine_plan, shortage_numbers
from random_cases import Case, Cases

CASES = int(os.environ.get("KVPLAN_DIFFERENTIAL_CASES", "150"))
SEED = int(os.environ.get("KVPLAN_DIFFERENTIAL_SEED", "1"))


def shown_groups(plan: Plan) -> list[tuple[Any, ...]]:
    """kvplan's groups in the form of the adapter's."""
    return [
        (
            group.layers,
            group.uniform_type,
            group.block_size,
            group.page_size_bytes,
            [described(spec) for spec in (group.layer_specs if group.uniform_type else [group.spec])],
            group.is_eagle_group,
        )
        for group in plan.groups
    ]


def difference(engine: Outcome, plan: Plan) -> str | None:
    """The first field in which kvplan's plan is not the engine's; None where they agree."""
    if bool(engine.error) != bool(plan.error):
        return f"error: engine {engine.error}, kvplan {plan.error}"
    numbers = shortage_numbers(engine.error or "")
    if engine.error and not numbers[0] and "No available memory" not in engine.error and "auto-fit" not in engine.error:
        return "groups of an impossible plan" if plan.groups else None
    pairs: list[tuple[str, Any, Any]] = [
        ("groups", engine.groups, shown_groups(plan)),
        ("bytes per block", engine.bytes_per_block, plan.bytes_per_block),
    ]
    if numbers[0]:
        found = re.search(r"at most (\d+) tokens", plan.error or "")
        pairs.append(("GiB", numbers[0], re.findall(r"(?:needs|and) ([\d.-]+) GiB", plan.error or "")))
        pairs.append(("longest length", numbers[1], int(found.group(1)) if found else 0))
    elif engine.error:
        pairs.append(("longest length", 0, plan.longest_model_len))
    else:
        pairs += [
            ("blocks", engine.num_blocks, plan.num_blocks),
            ("blocks per request", engine.blocks_per_request, plan.blocks_per_request),
            ("tokens", engine.tokens, plan.kv_cache_size_tokens),
            ("concurrency", engine.concurrency, plan.max_concurrency),
            ("length", engine.max_model_len, plan.max_model_len),
        ]
        if plan.bytes_per_block_per_stage:
            pairs.append(("bytes per stage", engine.stage_bytes, list(plan.bytes_per_block_per_stage)))
    return next((f"{name}: engine {ours!r}, kvplan {theirs!r}" for name, ours, theirs in pairs if ours != theirs), None)


def compared(case: Case, grouping: str) -> tuple[Outcome, str | None]:
    """What the engine planned, and the difference.

    Where kvplan stops at specs that no budget can serve, the engine may stop at the budget first; given memory without
    end it must stop all the same.
    """
    plan = plan_layers(case.layers, case.limits, grouping=grouping, **case.options)
    engine = engine_plan(case, grouping)
    if plan.error and not plan.groups:
        memory = [2**60] * len(case.options["available_memory"])
        ample = {"available_memory": memory, "num_gpu_blocks_override": None, "auto_fit_max_model_len": False}
        unbounded = engine_plan(case._replace(options=case.options | ample), grouping)
        agree = engine.error and unbounded.error
        return engine, None if agree else f"error: engine {unbounded.error}, kvplan {plan.error}"
    return engine, difference(engine, plan)


def test_every_random_deployment_is_planned_as_the_engine_plans_it() -> None:
    cases = Cases(SEED)
    planned = mismatches = 0
    first = ""
    for number in range(CASES):
        case = cases.next()
        for grouping in GROUPINGS:
            engine, found = compared(case, grouping)
            planned += engine.error is None
            if found:
                mismatches += 1
                first = first or f"case {number}, {grouping}: {found}\n{case}"
    assert not mismatches, f"{mismatches} of {3 * CASES} plans differ; the first: {first}"
    assert planned > CASES  # most cases must be plans, not errors on both sides
