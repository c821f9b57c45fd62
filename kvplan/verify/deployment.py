"""From a log's reading to vLLM's options: what 0.33.0's planner is given to plan the deployment that ran."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kvplan.engine.args import EngineArgs, EngineConfig
from kvplan.errors import Refused
from kvplan.logs.reading import LogReading
from kvplan.logs.rules import Rules

# Options of a log that bear on the KV cache, beside those that EngineArgs has a field for.
_FURTHER = (
    "enforce_eager",
    "limit_mm_per_prompt",
    "disable_sliding_window",
    "model_impl",
    "enable_lora",
    "gdn_prefill_backend",
    "all2all_backend",
    "enable_mm_embeds",
    "kv_offloading_size",
    "kv_offloading_backend",
    "runner",
    "convert",
    "enable_dbo",
    "ubatch_size",
    "kv_events_config",
)
# What decides weights or memory and never a cache spec, or names what another line tells better.
_DROPPED = frozenset(
    ("model", "quantization", "gpu_memory_utilization", "kv_cache_memory_bytes", "max_model_len", "mamba_cache_mode")
)
_INTEGERS = frozenset(
    (
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "data_parallel_size",
        "decode_context_parallel_size",
        "prefill_context_parallel_size",
        "block_size",
        "mamba_block_size",
        "max_num_seqs",
        "max_num_batched_tokens",
        "num_gpu_blocks_override",
    )
)
_OBJECTS = frozenset(("attention_config", "speculative_config", "hf_overrides", "kv_transfer_config"))
_FLAGS = frozenset(
    (
        "enable_prefix_caching",
        "enable_chunked_prefill",
        "async_scheduling",
        "disable_hybrid_kv_cache_manager",
        "enable_expert_parallel",
        "language_model_only",
        "trust_remote_code",
    )
)
# Keys of --speculative-config that are gone and never touched the cache.
_GONE = frozenset(
    (
        "disable_by_batch_size",
        "disable_log_stats",
        "disable_mqa_scorer",
        "acceptance_method",
        "posterior_threshold",
        "posterior_alpha",
        "speculative_token_tree",
    )
)
_BACKENDS = {
    "FLASH": "FLASH_ATTN",
    "FLASHATTENTION": "FLASH_ATTN",
    "FLASH_ATTN_VLLM_V1": "FLASH_ATTN",
    "TRITON": "TRITON_ATTN",
    "TRITON_ATTN_VLLM_V1": "TRITON_ATTN",
    "FLASHINFER_VLLM_V1": "FLASHINFER",
    "FLEX": "FLEX_ATTENTION",
}
_KNOWN_BACKENDS = frozenset(
    (
        "FLASH_ATTN",
        "TRITON_ATTN",
        "FLASHINFER",
        "FLEX_ATTENTION",
        "FLASHMLA",
        "FLASHINFER_MLA",
        "FLASH_ATTN_MLA",
        "CUTLASS_MLA",
        "TRITON_MLA",
    )
)
_PLATFORM_BLOCKS = {"xpu": 64, "ascend": 128}
"""Tokens in a block by default on platforms that are not CUDA's (vllm/platforms/xpu.py; vllm-ascend)."""
_QUANTISED = re.compile(r"awq|gptq|autoround|fp8|fp4|int[48]|w[48]a(?:8|16)|bnb|[0-9]bit|gguf|exl[23]|quant")


class Deployment(NamedTuple):
    """What the log's deployment is planned with."""

    args: EngineArgs
    max_model_len: int
    told_mode: str | None
    """mamba_cache_mode as the log told it."""
    notes: tuple[str, ...] = ()


def deployment(
    reading: LogReading, rules: Rules, model: str | None, env: Mapping[str, str], drafter: str | None = None
) -> Deployment:
    """The options of the log's deployment. Refused, by name, where the log does not hold enough to plan it.

    ``model`` and ``drafter`` name the configs; the drafter's only where it is not the log's own.
    """
    if model is None:
        raise Refused("The log does not name the model; name its config with --model.")
    if reading.engine == "V0":
        raise Refused("This is vLLM's V0 engine, whose KV cache kvplan does not plan.")
    if reading.max_model_len is None:
        raise Refused("The log does not say for which max_model_len it started, so nothing can be compared.")
    backend = reading.attention_backend
    options = dict(reading.options or {})
    fields = _fields(options)
    fields["max_model_len"] = reading.max_model_len
    notes: list[str] = []
    if reading.options is None:
        notes.append("The log does not hold the options; those that it does not show are taken as vLLM's defaults.")
    for name, size in _ranks(reading).items():
        if size > 1 and name not in fields:
            fields[name] = size
            notes.append(f"The log's ranks tell --{name.replace('_', '-')} {size}.")
    block = reading.kv_cache_block_size or _PLATFORM_BLOCKS.get((reading.platform or "").lower())
    if block is not None and "block_size" not in fields:
        fields["block_size"] = block
    if drafter is not None:
        fields["speculative_config"] = {**fields.get("speculative_config", {}), "model": drafter}
    told = options.get("mamba_cache_mode")
    if "enable_prefix_caching" not in fields and rules.state_prefix_caching == "off":
        fields["enable_prefix_caching"] = told not in (None, "none")  # only state layers take notice of it
    chosen = _chosen_backend(fields, backend)
    if chosen is not None:
        fields["attention_backend"] = chosen
    args = EngineArgs(
        model=model,
        additional_flags={key: options[key] for key in _FURTHER if options.get(key) is not None},
        env={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1", **env},  # the start-up has accepted its length
        **fields,
    )
    return Deployment(args, reading.max_model_len, told if isinstance(told, str) else None, tuple(notes))


def quantised_base(model: str, known: Iterable[str]) -> str | None:
    """The id in ``known`` that a quantised copy is named after (Qwen2.5-7B-Instruct-AWQ); None where there is none.

    The longest id whose last part begins the copy's, followed by words of which one names a quantisation.
    """
    last = model.replace("\\", "/").rstrip("/").rpartition("/")[2].lower()
    found: dict[str, str] = {}
    for id in known:
        own = id.rpartition("/")[2].lower()
        rest = last.removeprefix(own)
        if rest != last and rest[:1] in ("-", "_", ".") and _QUANTISED.search(rest):
            found[own] = id
    return found[max(found, key=len)] if found else None


def as_printed(args: EngineArgs, config: EngineConfig, reading: LogReading, rules: Rules) -> EngineArgs:
    """The options with what 0.33.0 resolves otherwise than the log's release did, set to the release's.

    The KV dtype that the engine line still calls auto is the model's, though 0.33.0 follows a ModelOpt checkpoint; the
    state of Nemotron-H had the model's dtype.
    """
    told = (reading.engine_config or {}).get("kv_cache_dtype")
    modelopt = (config.quantization or "").startswith("modelopt")
    if told == "auto" and config.cache_dtype != "auto" and modelopt:
        args = args._replace(kv_cache_dtype=config.dtype)
    nemotron = config.target.architecture.startswith("NemotronH")
    if nemotron and rules.nemotron_state == "model_dtype" and args.mamba_ssm_cache_dtype == "auto":
        args = args._replace(mamba_ssm_cache_dtype=config.dtype)
    return args


def _ranks(reading: LogReading) -> dict[str, int]:
    """Parallel sizes as the process tags of the ranks show them (Worker_PP1_TP3)."""
    tags = [rank for rank, _ in (*reading.memory.available_gib, *reading.memory.weights_gib)]
    found = {}
    for name, axis in (("tensor_parallel_size", "TP"), ("pipeline_parallel_size", "PP")):
        numbers = [int(number) for tag in tags for number in re.findall(rf"_{axis}([0-9]{{1,4}})", tag)]
        found[name] = max(numbers, default=0) + 1
    return found


def _fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that EngineArgs has a field for, each of the type that vLLM's parser gives it."""
    fields: dict[str, Any] = {}
    for name, value in options.items():
        if name not in EngineArgs._fields or name in _DROPPED or value is None:
            continue
        fields[name] = _typed(name, value)
    return {name: value for name, value in fields.items() if value is not None}


def _typed(name: str, value: Any) -> Any:
    if name in _INTEGERS:
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    if name == "speculative_config" and isinstance(value, dict):
        return {key: given for key, given in value.items() if key not in _GONE} or None
    if name in _OBJECTS:
        return value if isinstance(value, dict) and value else None
    if name in _FLAGS:
        return value if isinstance(value, bool) else None
    if name == "kv_cache_dtype_skip_layers":
        return tuple(map(str, value)) if isinstance(value, list) else None
    if isinstance(value, str):
        return value.removeprefix("torch.")
    return None


def _chosen_backend(fields: Mapping[str, Any], told: str | None) -> str | None:
    """The attention backend as vLLM names it now: what was asked for, else what the log says was chosen."""
    if "attention_config" in fields and "backend" in fields["attention_config"]:
        return None
    asked = fields.get("attention_backend")
    if isinstance(asked, str):
        name = asked.rpartition(".")[2].upper()
        return _BACKENDS.get(name, name)
    if told is None:
        return None
    name = told.upper().replace(" ", "")
    name = _BACKENDS.get(name, name)
    return name if name in _KNOWN_BACKENDS else None
