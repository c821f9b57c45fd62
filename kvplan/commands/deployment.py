"""The deployment that a command line describes: kvplan's own options around the flags of `vllm serve`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kvplan.errors import KvplanError
from kvplan.pipeline import AGREEMENTS, PlanRequest
from kvplan.request import args_of, line_of, read_deployment, stage_budgets, with_drafter
from kvplan.selection import COST_CHECKS, ENGINES

if TYPE_CHECKING:
    from kvplan.serve import Deployment

CONTAINERS = frozenset({"docker", "podman", "nerdctl"})


class Choices(NamedTuple):
    """kvplan's own options, as typed."""

    gpu: str | None = None
    engine: str = ENGINES[0]
    offline: bool = False
    kv_cache_layout: str | None = None
    layout_cost_check: str = COST_CHECKS[0]
    method: str | None = None
    layout_agreement: str = AGREEMENTS[0]


def one_of(flag: str, value: str, known: Sequence[str]) -> str:
    """``value``, or a sentence that names the flag and what it takes."""
    if value not in known:
        raise KvplanError(f"{flag} {value!r} is not known; choose one of {', '.join(known)}.")
    return value


def positive(flag: str, text: str) -> int:
    """A positive whole number given to ``flag``."""
    if not (text.isascii() and text.isdecimal()) or int(text) < 1 or len(text) > 12:
        raise KvplanError(f"{flag} {text!r} must be a positive whole number.")
    return int(text)


def environment(choices: Choices, env: Mapping[str, str]) -> dict[str, str]:
    """The VLLM_* variables of the deployment: the process's own, and --kv-cache-layout in their place."""
    own = {name: value for name, value in env.items() if name.startswith("VLLM_")}
    if choices.kv_cache_layout is not None:
        own["VLLM_KV_CACHE_LAYOUT"] = choices.kv_cache_layout
    return own


def request(
    words: Sequence[str],
    choices: Choices,
    env: Mapping[str, str],
    *,
    drafter: str | None = None,
    num_speculative_tokens: int | None = None,
) -> PlanRequest:
    """The plan request of MODEL and flags, with kvplan's own options. KvplanError for wrong usage."""
    words, budgets = stage_budgets(words)
    outside = _outside(words, choices, env)
    deployment, minimum = read_deployment(words, outside)
    args = args_of(deployment, minimum, outside)
    args = with_drafter(args, drafter, choices.method, num_speculative_tokens)
    return PlanRequest(
        args=args,
        gpu=choices.gpu,
        engine=one_of("--engine", choices.engine, ENGINES),
        offline=choices.offline,
        layout_cost_check=one_of("--layout-cost-check", choices.layout_cost_check, COST_CHECKS),
        layout_agreement=one_of("--layout-agreement", choices.layout_agreement, AGREEMENTS),
        trained_draft_length=drafter is not None,
        available_memory_bytes=budgets,
        assumed=_assumed(deployment, choices.engine),
    )


def _assumed(deployment: Deployment, engine: str) -> tuple[str, ...]:
    """What the line leaves open, or says otherwise than it is planned."""
    found = []
    if deployment.model_is_default:
        found.append(f"{deployment.model}, vLLM's default, as no model was given")
    if deployment.other_release is not None:
        found.append(in_place_of(engine, deployment.other_release))
    return tuple(found)


def in_place_of(engine: str, release: str) -> str:
    """That an image of another release is planned by the rules of ``engine``."""
    from kvplan.report.decision import engine_words

    return f"the rules of {engine_words(engine)} in place of the image's {release}"


def _outside(words: Sequence[str], choices: Choices, env: Mapping[str, str]) -> dict[str, str]:
    """As `environment`; the caller's variables do not get into a container."""
    line = line_of(words)[1]
    inside = bool(line) and line[0].rpartition("/")[2] in CONTAINERS
    return environment(choices, {} if inside else env)


def ignored(words: Sequence[str], choices: Choices, env: Mapping[str, str]) -> tuple[str, ...]:
    """What was read of the line and changes nothing, a sentence each: for people who look for a flag's effect."""
    from kvplan.serve import remarks
    from kvplan.serve.flagtable import flag_name

    deployment, _ = read_deployment(stage_budgets(words)[0], _outside(words, choices, env))
    names = [flag_name(name) if name.isidentifier() and name.islower() else name for name in deployment.ignored]
    listed = [f"ignored, for they do not touch the KV cache: {', '.join(names)}."] if names else []
    return (*listed, *remarks(deployment)) or ("every flag of the line was taken into the plan.",)
