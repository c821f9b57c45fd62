"""Whether a release keeps groups of different kinds apart (the hybrid KV cache manager).

From `VllmConfig.__post_init__` by release (vllm/config.py, later vllm/config/vllm.py).
"""

from __future__ import annotations

from kvplan.engine.args import EngineConfig
from kvplan.logs.rules import Rules

_CHUNKS = "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE"


def is_disabled(rules: Rules, config: EngineConfig) -> bool:
    """Whether all layers must share one group."""
    if config.args.disable_hybrid_kv_cache_manager:
        return True
    return _for_connector(rules, config) or _for_events(rules, config) or _for_chunks(rules, config)


def _for_connector(rules: Rules, config: EngineConfig) -> bool:
    if not config.use_kv_connector or rules.connector_groups == "by_connector":
        return config.disable_hybrid_kv_cache_manager and not _has_chunks(config)
    asked = config.args.disable_hybrid_kv_cache_manager is False
    return not (asked and rules.connector_groups == "on_request")


def _for_events(rules: Rules, config: EngineConfig) -> bool:
    return rules.kv_event_groups == "never" and bool(config.args.additional_flags.get("kv_events_config"))


def _has_chunks(config: EngineConfig) -> bool:
    return config.target.text.get("attention_chunk_size") is not None


def _for_chunks(rules: Rules, config: EngineConfig) -> bool:
    if not _has_chunks(config) or rules.chunk_groups == "always":
        return False
    speculative = config.speculative
    if speculative is not None and speculative.use_eagle:
        return True
    allowed = config.args.env.get(_CHUNKS)
    return allowed == "0" if rules.chunk_groups == "not_drafting" else allowed != "1"
