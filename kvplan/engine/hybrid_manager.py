"""Whether vLLM keeps groups of different kinds apart (the hybrid KV cache manager), and with which connector.

Source: vllm/config/vllm.py (`__post_init__`, `_post_init_kv_transfer_config`) and `supports_hma_config` of
vllm/distributed/kv_transfer/kv_connector/factory.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.engine.args import EngineArgs, Speculative
from kvplan.engine.scheduling import env_flag
from kvplan.errors import Refused
from kvplan.hf.config import Config

_HYBRID_CONNECTORS = {
    "ExampleConnector": False,
    "ExampleHiddenStatesConnector": True,
    "LMCacheConnectorV1": False,
    "NixlConnector": True,
    "NixlPullConnector": True,
    "NixlPushConnector": True,
    "HiSparseConnector": True,
    "MoRIIOConnector": True,
    "OffloadingConnector": True,
    "DecodeBenchConnector": True,
    "MooncakeConnector": True,
    "MooncakeStoreConnector": True,
    "FlexKVConnectorV1": False,
    "SimpleCPUOffloadConnector": True,
    "HF3FSKVConnector": False,
}
"""Connector -> whether it moves caches of several groups (`SupportsHMA`)."""


def connector(args: EngineArgs) -> str | None:
    """The KV connector of `--kv-transfer-config`, or the one that `--kv-offloading-size` stands for."""
    flags = args.additional_flags
    if flags.get("kv_offloading_size") is not None:
        if flags.get("kv_offloading_backend", "native") == "lmcache":
            return "LMCacheMPConnector"
        simple = env_flag(args.env, "VLLM_USE_SIMPLE_KV_OFFLOAD", False)
        return "SimpleCPUOffloadConnector" if simple else "OffloadingConnector"
    name = (args.kv_transfer_config or {}).get("kv_connector")
    if name is not None and not isinstance(name, str):
        raise Refused(f"--kv-transfer-config kv_connector must be a string, got {name!r}.")
    return name


def _supports_hybrid(name: str, config: Mapping[str, Any]) -> bool:
    if name == "MultiConnector":
        extra = config.get("kv_connector_extra_config")
        children = extra.get("connectors") if isinstance(extra, Mapping) else None
        if not isinstance(children, list) or not all(isinstance(child, Mapping) for child in children):
            raise Refused("--kv-transfer-config: MultiConnector needs a list of connectors in its extra config.")
        return all(_supports_hybrid(str(child.get("kv_connector")), child) for child in children)
    if name == "LMCacheMPConnector":
        raise Refused(
            "LMCacheMPConnector is the installed LMCache's, so kvplan cannot tell whether it moves several groups; "
            "add --disable-hybrid-kv-cache-manager or --no-disable-hybrid-kv-cache-manager."
        )
    if name not in _HYBRID_CONNECTORS:
        raise Refused(f"--kv-transfer-config kv_connector {name} is not one of vLLM's own; kvplan cannot judge it.")
    return _HYBRID_CONNECTORS[name]


def resolve_hybrid_manager(args: EngineArgs, text: Config, speculative: Speculative | None) -> bool:
    """`--disable-hybrid-kv-cache-manager`: whether it ends up disabled."""
    needed = None
    if text.get("attention_chunk_size") is not None:
        if speculative is not None and speculative.use_eagle:
            needed = f"chunked local attention with method {speculative.method}"
        elif not env_flag(args.env, "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE", True):
            needed = "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE=0"
    given = args.disable_hybrid_kv_cache_manager
    if given is False and needed:
        raise Refused(f"--no-disable-hybrid-kv-cache-manager does not work with {needed}; leave it out.")
    if given is not None:
        return given
    name = connector(args)
    return needed is not None or (name is not None and not _supports_hybrid(name, args.kv_transfer_config or {}))
