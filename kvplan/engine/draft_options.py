"""The keys of `--speculative-config`: which there are, which go together, and with which method.

Source: vllm/config/speculative.py (the fields of `SpeculativeConfig`, `_verify_args`) and `create_speculative_config`
of vllm/engine/arg_utils.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.engine.args import EngineArgs
from kvplan.engine.kv_cache_dtype import CACHE_DTYPES
from kvplan.errors import Refused

_FLAGS = (("spec_method", "method"), ("spec_model", "model"), ("spec_tokens", "num_speculative_tokens"))


_KEYS = frozenset(
    (
        "attention_backend",
        "code_revision",
        "disable_eagle_block_drop",
        "disable_lookahead_block_hashes",
        "disable_padded_drafter_batch",
        "draft_lm_head_quantization",
        "draft_load_config",
        "draft_model_config",
        "draft_sample_method",
        "draft_tensor_parallel_size",
        "dspark_draft_topk",
        "enable_adaptive_verification",
        "enforce_eager",
        "fly_entropy_threshold",
        "fly_entropy_top_k",
        "fly_window_size",
        "index_share_for_mtp_iteration",
        "kv_cache_dtype",
        "max_model_len",
        "method",
        "model",
        "moe_backend",
        "num_speculative_tokens",
        "num_speculative_tokens_per_batch_size",
        "parallel_drafting",
        "prompt_lookup_max",
        "prompt_lookup_min",
        "quantization",
        "rejection_sample_method",
        "revision",
        "suffix_decoding_max_cached_requests",
        "suffix_decoding_max_spec_factor",
        "suffix_decoding_max_tree_depth",
        "suffix_decoding_min_token_prob",
        "synthetic_acceptance_length",
        "synthetic_acceptance_rates",
        "use_heterogeneous_vocab",
        "use_local_argmax_reduction",
        "xpress_topc",
    )
)
_COUNTS = (
    "num_speculative_tokens",
    "max_model_len",
    "draft_tensor_parallel_size",
    "prompt_lookup_max",
    "prompt_lookup_min",
    "suffix_decoding_max_tree_depth",
    "fly_window_size",
)
_NAMES = ("method", "model", "quantization", "kv_cache_dtype", "attention_backend", "rejection_sample_method")
_FOR_METHODS = {
    "use_heterogeneous_vocab": ("draft_model",),
    "index_share_for_mtp_iteration": ("mtp",),
    "dspark_draft_topk": ("dspark",),
    "xpress_topc": ("dflash",),
    "draft_lm_head_quantization": ("eagle", "eagle3", "mtp"),
    "enable_adaptive_verification": ("dspark",),
}
"""Key -> the methods that take it."""


def speculative_options(args: EngineArgs) -> dict[str, Any]:
    """The keys of `--speculative-config`, with `--spec-method`, `--spec-model` and `--spec-tokens` among them."""
    options = {key.replace("-", "_"): value for key, value in (args.speculative_config or {}).items()}
    for flag, key in _FLAGS:
        value = args.additional_flags.get(flag)
        if value is None:
            continue
        if key in options:
            raise Refused(f"--{flag.replace('_', '-')} and {key} of --speculative-config exclude each other; keep one.")
        options[key] = value
    return {key: value for key, value in options.items() if value is not None}


def check_options(options: Mapping[str, Any]) -> None:
    """Refused where a key is unknown or its value is none that vLLM takes."""
    if "tensor_parallel_size" in options:
        raise Refused("--speculative-config tensor_parallel_size is not an option; use draft_tensor_parallel_size.")
    unknown = sorted(options.keys() - _KEYS)
    if unknown:
        raise Refused(f"--speculative-config {unknown[0]} is not a key that vLLM 0.33.0 knows.")
    for key in _COUNTS:
        value = options.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31):
            raise Refused(f"--speculative-config {key} must be a positive integer, got {value!r}.")
    for key in _NAMES:
        if not isinstance(options.get(key, ""), str):
            raise Refused(f"--speculative-config {key} must be a name, got {options[key]!r}.")
    cache_dtype = options.get("kv_cache_dtype")
    if cache_dtype is not None and cache_dtype not in CACHE_DTYPES:
        raise Refused(f"--speculative-config kv_cache_dtype {cache_dtype!r} is not one that vLLM 0.33.0 knows.")


def check_for_method(options: Mapping[str, Any], method: str) -> None:
    """Refused where a key belongs to other methods. A plain draft model may still turn out to be another kind."""
    for key, methods in _FOR_METHODS.items():
        if options.get(key) and method not in methods and method != "draft_model":
            raise Refused(f"--speculative-config {key} is for method {' or '.join(methods)}, not for {method}.")


def check_sampling(options: Mapping[str, Any], tokens: int) -> None:
    """Refused where the options of the rejection sampler do not fit each other or the number of tokens."""
    sampler = options.get("rejection_sample_method", "standard")
    given = [k for k in ("synthetic_acceptance_rates", "synthetic_acceptance_length") if options.get(k) is not None]
    if sampler == "synthetic" and len(given) != 1:
        raise Refused(
            "--speculative-config rejection_sample_method synthetic needs either synthetic_acceptance_rates or "
            "synthetic_acceptance_length."
        )
    if sampler != "synthetic" and given:
        raise Refused(f"--speculative-config {given[0]} is for rejection_sample_method synthetic only; leave it out.")
    if sampler == "fly" and (tokens < 2 or (options.get("fly_window_size") or 0) >= tokens):
        raise Refused(
            f"--speculative-config rejection_sample_method fly needs at least 2 num_speculative_tokens and a window "
            f"below them; {tokens} are given."
        )
