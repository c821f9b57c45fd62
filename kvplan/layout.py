"""Cache layouts: which one a deployment gets, and why (vllm/v1/kv_cache_layout.py, v1/attention/backends/utils.py).

A layout's name is its physical axis order, outermost first: L layers, B blocks, H head slots, N states, C content.
The flow is `candidates` per worker, `agree` between workers, `resolve` for the deployment, `validate` for its groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kvplan.errors import Refused
from kvplan.spec import CIRCULAR_BUFFER, AttentionSpec, Spec

LAYOUTS = ("LBHNC", "LBNHC", "LHBNC", "BLHNC", "BLNHC", "BHLNC")
"""In vLLM's enum order, which breaks ties between candidates."""
DEFAULT_PREFERENCE = ("LBNHC", "LBHNC", "BLNHC", "BLHNC", "BHLNC", "LHBNC")
"""Candidates where no backend declares any."""
ALIASES = {"NHD": "LBNHC", "HND": "LBHNC"}
ENVIRONMENT_VARIABLE = "VLLM_KV_CACHE_LAYOUT"


def is_layer_compact(layout: str) -> bool:
    """Whether layers are outermost: each layer's cache is one region."""
    return layout[0] == "L"


def is_block_outermost(layout: str) -> bool:
    """Whether blocks are outermost: a block holds the pages of all layers of its group."""
    return layout[0] == "B"


def is_block_compact(layout: str) -> bool:
    """Whether a page's heads, states and content are one run of bytes."""
    return set(layout[:2]) == {"L", "B"}


def from_name(name: str, source: str = "") -> str:
    """The layout of a name or a legacy alias. Refused for any other string, naming ``source`` or what a user sets."""
    layout = ALIASES.get(name, name)
    if layout not in LAYOUTS:
        known = ", ".join((*LAYOUTS, *ALIASES))
        raise Refused(f"{f'{source} {name}' if source else asked(name)} is no KV cache layout; choose one of {known}.")
    return layout


def asked(name: str) -> str:
    """A layout as a user asks for it: the variable, for which kvplan has a flag too."""
    return f"{ENVIRONMENT_VARIABLE}={name} (--kv-cache-layout)"


def candidates(declarations: Iterable[tuple[str, ...] | None]) -> tuple[str, ...]:
    """Layouts that every backend of a worker supports, most preferred first (`get_supported_kv_cache_layouts`).

    One declaration per distinct backend, in layer order; None where it reads any layout. Equal declarations keep
    their order; else the layout that most backends put first wins. Refused where they share none.
    """
    declared = [layouts for layouts in declarations if layouts is not None] or [DEFAULT_PREFERENCE]
    if all(layouts == declared[0] for layouts in declared):
        return declared[0]
    firsts = [layouts[0] for layouts in declared]
    shared = [layout for layout in LAYOUTS if all(layout in layouts for layouts in declared)]
    if not shared:
        sets = "; ".join(", ".join(layouts) for layouts in dict.fromkeys(declared))
        raise Refused(f"the attention backends share no KV cache layout ({sets}); set another --attention-backend.")
    return tuple(sorted(shared, key=firsts.count, reverse=True))


def agree(stages: Sequence[tuple[str, ...]], *, intersect: bool = False) -> tuple[str, ...]:
    """The candidates of several workers: one entry per rank, rank 0 first.

    Released vLLM needs equal lists, order included, and dies otherwise. ``intersect``: the proposed rule, the
    layouts that all ranks have, in rank 0's order. Refused where there is no agreement.
    """
    if not stages or not all(stages):
        raise Refused("no pipeline stage reports a KV cache layout; check --pipeline-parallel-size.")
    if all(names == stages[0] for names in stages):
        return stages[0]
    told = "; ".join(f"stage {i}: {', '.join(names)}" for i, names in enumerate(stages))
    if not intersect:
        raise Refused(
            f"the pipeline stages disagree on KV cache layouts ({told}) and vLLM's engine stops on an assertion; "
            "set one --attention-backend for all layers or another VLLM_PP_LAYER_PARTITION."
        )
    shared = tuple(name for name in stages[0] if all(name in names for names in stages))
    if not shared:
        raise Refused(f"the pipeline stages share no KV cache layout ({told}); set one --attention-backend.")
    return shared


class Resolution(NamedTuple):
    """A resolved layout and what decided it."""

    layout: str
    candidates: tuple[str, ...]
    """After narrowing by shapes and DCP, most preferred first."""
    decided_by: str
    """environment | connector | preference."""
    narrowed: tuple[tuple[str, str], ...] = ()
    """Layouts that fell away, and why: ``mixed_shapes`` or ``dcp``."""
    warning: str | None = None
    """Set where the KV connector's layout was dropped."""


def narrow(names: Sequence[str], specs: Iterable[Spec]) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """The candidates that can hold these specs, and those that fell away with the reason.

    Mixed head, state or page sizes need a page to be one run of bytes; DCP with a sharded and a replicated cache of
    different pages needs blocks outermost. Refused where none is left.
    """
    distinct = tuple(dict.fromkeys(specs))
    left = tuple(names)
    dropped: list[tuple[str, str]] = []
    shapes = {(spec.num_heads, spec.num_states, spec.page_size_bytes) for spec in distinct}
    if len(shapes) > 1:
        left, gone = _split(left, is_block_compact)
        dropped += [(name, "mixed_shapes") for name in gone]
        if not left:
            raise Refused(
                "layers of different head counts or page sizes need a block-compact KV cache layout, but the "
                f"attention backends only share {', '.join(names)}; set another --attention-backend."
            )
    sharding = {s.dcp_sharded for s in distinct if isinstance(s, AttentionSpec) and s.kind != CIRCULAR_BUFFER}
    if len(sharding) > 1 and len({spec.page_size_bytes for spec in distinct}) > 1:
        left, gone = _split(left, is_block_outermost)
        dropped += [(name, "dcp") for name in gone]
        if not left:
            raise Refused(
                "--decode-context-parallel-size with a replicated drafter and pages of different sizes needs a "
                f"block-outermost KV cache layout, but the attention backends only share {', '.join(names)}; set "
                "another --attention-backend."
            )
    return left, tuple(dropped)


def _split(names: tuple[str, ...], keeps: Callable[[str], bool]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(n for n in names if keeps(n)), tuple(n for n in names if not keeps(n))


def resolve(
    names: Sequence[str],
    specs: Iterable[Spec],
    *,
    requested: str | None = None,
    connector: str | None = None,
) -> Resolution:
    """The deployment's layout (`resolve_kv_cache_layout`).

    ``names``: what the workers agreed on. ``specs``: of all layers of all stages. ``requested``: the value of
    VLLM_KV_CACHE_LAYOUT; it must be a candidate. ``connector``: the layout that the KV connector wants
    (`kvplan.connectors.preferred_layout`); it is used when it is a candidate and dropped with a warning otherwise.
    """
    left, dropped = narrow(names, specs)
    if requested is not None:
        layout = from_name(requested)
        if layout not in left:
            raise Refused(
                f"{asked(requested)} is not a layout that this deployment can use; choose one of {', '.join(left)} or "
                "leave it out."
            )
        return Resolution(layout, left, "environment", dropped)
    if connector is not None:
        layout = from_name(connector, "the KV connector's layout")
        if layout in left:
            return Resolution(layout, left, "connector", dropped)
        warning = (
            f"the KV connector asks for layout {connector}, which this deployment cannot use; "
            f"vLLM takes {left[0]} (possible: {', '.join(left)})."
        )
        return Resolution(left[0], left, "preference", dropped, warning)
    return Resolution(left[0], left, "preference", dropped)


def validate(layout: str, page_sizes: Iterable[int], num_groups: int) -> None:
    """Refused where the layout cannot place pages of these sizes (`validate_kv_cache_layout`).

    ``page_sizes``: bytes of every layer's page; ``num_groups``: groups of the deployment.
    """
    sizes = sorted(set(page_sizes))
    if len(sizes) <= 1:
        return
    if not is_block_compact(layout) or (num_groups > 1 and is_layer_compact(layout)):
        shown = ", ".join(map(str, sizes[:6])) + (" and more" if len(sizes) > 6 else "")
        raise Refused(
            f"KV cache layout {layout} cannot hold pages of different sizes ({shown} bytes) side by side; "
            f"set {ENVIRONMENT_VARIABLE}=BLHNC."
        )
