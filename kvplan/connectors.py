"""Which cache layout a KV connector asks for (`get_required_kvcache_layout` of vllm/distributed/kv_transfer/).

The input is the JSON object of `--kv-transfer-config`; it is untrusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.errors import Refused

FLAG = "--kv-transfer-config"

_HEADS_FIRST_UNLESS_MLA = ("NixlConnector", "NixlPullConnector", "NixlPushConnector", "MooncakeConnector")
_NO_PREFERENCE = (
    "DecodeBenchConnector",
    "ExampleConnector",
    "FlexKVConnectorV1",
    "HF3FSKVConnector",
    "LMCacheConnectorV1",
    "LMCacheMPConnector",
    "MoRIIOConnector",
    "MooncakeStoreConnector",
    "SimpleCPUOffloadConnector",
)
_OTHERS = ("ExampleHiddenStatesConnector", "HiSparseConnector", "MultiConnector", "OffloadingConnector")
_MAX_DEPTH = 8


def preferred_layout(config: Mapping[str, Any] | None, *, use_mla: bool, use_hisparse: bool = False) -> str | None:
    """The layout that the configured connector wants; None: none configured, or it takes any.

    ``use_mla``: the target is an MLA model. ``use_hisparse``: HiSparse is on, given or inferred (`uses`). Refused for a
    connector that vLLM does not know, one from a module of the user's, and a MultiConnector whose parts disagree.
    """
    return None if config is None else _layout_of(config, use_mla, use_hisparse, _MAX_DEPTH)


def _layout_of(config: Mapping[str, Any], use_mla: bool, use_hisparse: bool, depth: int) -> str | None:
    name = _connector_name(config)
    if name == "MultiConnector":
        return _common_layout(config, use_mla, use_hisparse, depth)
    if name in _HEADS_FIRST_UNLESS_MLA:
        return None if use_mla else "LBHNC"
    if name == "OffloadingConnector":
        return "BLHNC" if use_hisparse else "LBHNC"
    return {"HiSparseConnector": "BLHNC", "ExampleHiddenStatesConnector": "LBNHC"}.get(name)


def _common_layout(config: Mapping[str, Any], use_mla: bool, use_hisparse: bool, depth: int) -> str | None:
    if depth == 0:
        raise Refused(f"{FLAG}: MultiConnector is nested more than {_MAX_DEPTH} deep; flatten it.")
    children = parts(config)
    wanted = {str(child.get("kv_connector")): _layout_of(child, use_mla, use_hisparse, depth - 1) for child in children}
    layouts = {layout for layout in wanted.values() if layout is not None}
    if len(layouts) > 1:
        told = ", ".join(f"{name} wants {layout}" for name, layout in wanted.items() if layout)
        raise Refused(f"{FLAG}: the parts of MultiConnector want different KV cache layouts ({told}); drop one.")
    return next(iter(layouts), None)


def parts(config: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The connectors that a MultiConnector combines. Refused where the list is missing or malformed."""
    extra = config.get("kv_connector_extra_config")
    children = extra.get("connectors") if isinstance(extra, Mapping) else None
    if not isinstance(children, (list, tuple)) or not all(isinstance(child, Mapping) for child in children):
        raise Refused(f"{FLAG}: MultiConnector needs kv_connector_extra_config.connectors, a list of JSON objects.")
    return tuple(children)


def uses(config: Mapping[str, Any] | None, name: str) -> bool:
    """Whether the connector is configured, directly or as a part of MultiConnector (`has_connector`)."""
    if config is None:
        return False
    if config.get("kv_connector") == name:
        return True
    return config.get("kv_connector") == "MultiConnector" and any(p.get("kv_connector") == name for p in parts(config))


def _connector_name(config: Mapping[str, Any]) -> str:
    name = config.get("kv_connector")
    if not isinstance(name, str) or not name:
        raise Refused(f"{FLAG}: kv_connector is missing; name a connector or leave the flag out.")
    if config.get("kv_connector_module_path") is not None:
        raise Refused(
            f"{FLAG}: kv_connector {name} comes from a module of its own (kv_connector_module_path), whose KV cache "
            "layout cannot be known; leave it out and set VLLM_KV_CACHE_LAYOUT to the one it wants."
        )
    known = (*_HEADS_FIRST_UNLESS_MLA, *_NO_PREFERENCE, *_OTHERS)
    if name not in known:
        raise Refused(f"{FLAG}: vLLM has no kv_connector {name[:60]}; choose one of {', '.join(sorted(known))}.")
    return name


def deployment_layout(config: Mapping[str, Any] | None, offloading: str | None, *, use_mla: bool) -> str | None:
    """The layout that the deployment's connector wants; None: it takes any.

    ``offloading``: the connector that `--kv-offloading-size` stands for. Refused where the connector brings HiSparse
    with it, whose host pool kvplan does not plan.
    """
    if offloading is not None:
        return _layout_of({"kv_connector": offloading}, use_mla, False, 1)
    if uses(config, "HiSparseConnector"):
        raise Refused(f"{FLAG}: HiSparseConnector keeps a host pool that kvplan cannot plan; leave it out.")
    return preferred_layout(config, use_mla=use_mla)
