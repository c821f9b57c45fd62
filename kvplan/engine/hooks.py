"""What single architectures change in the engine's options, and what they refuse.

Source: vllm/model_executor/models/config.py (`MODELS_CONFIG_MAP`, each class's `verify_and_update_config`). Hooks that
touch neither the KV cache nor the attention backend are left out. A hook takes the options and the model and gives the
options back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kvplan.engine.facts import num_hidden_layers
from kvplan.errors import Refused
from kvplan.gpus import Gpu
from kvplan.hf.config import Config


class Options(NamedTuple):
    """The options that a hook may read or change."""

    cache_dtype: str
    mamba_ssm_cache_dtype: str
    attention_backend: str | None
    flash_attn_version: int | None
    method: str | None
    """Drafting method; None without a drafter."""
    draft_cache_dtype: str | None
    """`kv_cache_dtype` of `--speculative-config`."""
    pipeline_parallel_size: int = 1


Hook = Callable[[Options, Config, Config, Gpu], Options]

MAMBA_DTYPES = ("auto", "float32", "float16", "bfloat16")


def _keep_draft_dtype(options: Options, cache_dtype: str) -> Options:
    """A default of the target that a drafter of its own does not inherit."""
    own = options.method not in (None, "mtp") and options.draft_cache_dtype is None
    return options._replace(cache_dtype=cache_dtype, draft_cache_dtype="auto" if own else options.draft_cache_dtype)


def _deepseek_v32(options: Options, root: Config, text: Config, gpu: Gpu) -> Options:
    if "index_topk" not in root:
        raise root.error("index_topk", "is missing; DeepSeek-V3.2 needs it")
    return options._replace(cache_dtype="auto") if options.cache_dtype == "bfloat16" else options


def _glm_moe_dsa(options: Options, root: Config, text: Config, gpu: Gpu) -> Options:
    fp8 = options.cache_dtype == "auto" and gpu.capability[0] == 10
    return _keep_draft_dtype(options, "fp8_e4m3") if fp8 else options


def _glm5_next(options: Options, root: Config, text: Config, gpu: Gpu) -> Options:
    fp8 = options.cache_dtype == "auto" and gpu.capability[0] == 10 and text.get("index_topk") is not None
    return _keep_draft_dtype(options, "fp8") if fp8 else options


def _gemma4(options: Options, root: Config, text: Config, gpu: Gpu) -> Options:
    """Two head sizes: FlashAttention 4 on every layer where the GPU has it, else Triton."""
    types = set(text.texts("layer_types", ())[: num_hidden_layers(root, text)])
    sliding = text.optional_integer("head_dim")
    full = text.optional_integer("global_head_dim") or sliding
    if len(types) < 2 or sliding == full:
        return options
    if gpu.capability[0] in (9, 10, 11) and max(sliding or 0, full or 0) <= 512:
        free = options.flash_attn_version is None and options.attention_backend in (None, "FLASH_ATTN")
        per_layer = gpu.capability[0] == 9 and options.cache_dtype.startswith("fp8")
        return options._replace(flash_attn_version=4) if free and not per_layer else options
    return options if options.attention_backend else options._replace(attention_backend="TRITON_ATTN")


def _state_dtype(config: Config, key: str, default: str | None) -> str | None:
    value = config.get(key, default)
    if value is not None and value not in MAMBA_DTYPES:
        raise config.error(key, f"must be one of {', '.join(MAMBA_DTYPES)}, got {value!r}")
    return value if isinstance(value, str) else None


def _nemotron_h(options: Options, root: Config, text: Config, gpu: Gpu) -> Options:
    if options.mamba_ssm_cache_dtype != "auto":
        return options
    return options._replace(mamba_ssm_cache_dtype=_state_dtype(root, "mamba_ssm_cache_dtype", "float32") or "auto")


def _qwen3_5(options: Options, root: Config, text: Config, gpu: Gpu) -> Options:
    found = _state_dtype(text, "mamba_ssm_dtype", None)
    if options.mamba_ssm_cache_dtype != "auto" or found is None:
        return options
    return options._replace(mamba_ssm_cache_dtype=found)


def _qwen4_exp(options: Options, root: Config, text: Config, gpu: Gpu) -> Options:
    if text.integer("hc_count") <= 1:
        raise text.error("hc_count", "must be more than 1 for Qwen4Exp")
    if text.get("ple_layer_ids") and options.pipeline_parallel_size > 1:
        raise Refused(
            f"--pipeline-parallel-size {options.pipeline_parallel_size}: Qwen4Exp's n-gram embedding needs 1."
        )
    if options.method not in (None, "mtp", "ngram", "ngram_gpu"):
        raise Refused(f"--speculative-config method {options.method}: Qwen4Exp drafts with mtp and ngram only.")
    return _qwen3_5(options, root, text, gpu)


_HOOKS: dict[str, Hook] = {
    "DeepseekV32ForCausalLM": _deepseek_v32,
    "GlmMoeDsaForCausalLM": _glm_moe_dsa,
    "Glm5NextForCausalLM": _glm5_next,
    "Glm5NextForConditionalGeneration": _glm5_next,
    "Gemma4ForCausalLM": _gemma4,
    "Gemma4ForConditionalGeneration": _gemma4,
    "Gemma4UnifiedForConditionalGeneration": _gemma4,
    "NemotronHForCausalLM": _nemotron_h,
    "NemotronHPuzzleForCausalLM": _nemotron_h,
    "Qwen3_5ForCausalLM": _qwen3_5,
    "Qwen3_5MoeForCausalLM": _qwen3_5,
    "Qwen3_5ForConditionalGeneration": _qwen3_5,
    "Qwen3_5MoeForConditionalGeneration": _qwen3_5,
    "Qwen4ExpForCausalLM": _qwen4_exp,
    "Qwen4ExpForConditionalGeneration": _qwen4_exp,
}


def apply(architecture: str, options: Options, root: Config, text: Config, gpu: Gpu) -> Options:
    """The options after the architecture's own defaults. Refused where it does not run with them."""
    hook = _HOOKS.get(architecture)
    return options if hook is None else hook(options, root, text, gpu)
