"""The flags of `vllm serve` that bear on the KV cache, as given: None means not given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kvplan.hf.config import Config


class EngineArgs(NamedTuple):
    """Flags under vLLM's names (vllm/engine/arg_utils.py). Values have the types vLLM's own parser gives them."""

    model: str
    dtype: str = "auto"
    quantization: str | None = None
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    decode_context_parallel_size: int = 1
    prefill_context_parallel_size: int = 1
    enable_expert_parallel: bool = False
    block_size: int | None = None
    kv_cache_dtype: str = "auto"
    kv_cache_dtype_skip_layers: tuple[str, ...] = ()
    mamba_cache_dtype: str = "auto"
    mamba_ssm_cache_dtype: str = "auto"
    mamba_block_size: int | None = None
    mamba_cache_mode: str | None = None
    enable_prefix_caching: bool | None = None
    enable_chunked_prefill: bool | None = None
    max_model_len: int | None = None
    """-1: the longest length that fits (`auto`)."""
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    async_scheduling: bool | None = None
    attention_backend: str | None = None
    attention_config: Mapping[str, Any] | None = None
    speculative_config: Mapping[str, Any] | None = None
    hf_overrides: Mapping[str, Any] | None = None
    kv_transfer_config: Mapping[str, Any] | None = None
    additional_flags: Mapping[str, Any] = {}
    """Further flags that bear on the KV cache, under vLLM's names (gdn_prefill_backend, enforce_eager, ...)."""
    kv_cache_memory_bytes: int | None = None
    gpu_memory_utilization: float = 0.92
    num_gpu_blocks_override: int | None = None
    disable_hybrid_kv_cache_manager: bool | None = None
    language_model_only: bool = False
    trust_remote_code: bool = False
    min_kv_cache_group_layers: int = 3
    env: Mapping[str, str] = {}
    """VLLM_* environment variables of the deployment."""


class ModelFacts(NamedTuple):
    """What was read of one model: its config.json and what lies beside it."""

    name: str
    """The id or path as the user gave it: vLLM's detection of the drafting method reads it."""
    root: Config
    """The whole config.json, with the defaults of its Hugging Face config class."""
    text_defaults: Mapping[str, Any] = {}
    """Defaults of the nested text model's config class."""
    hf_quant_config: Mapping[str, Any] | None = None
    """hf_quant_config.json: where ModelOpt before 0.31 wrote its scheme."""
    files: Mapping[str, Any] = {}
    """The JSON of the files beside config.json that vLLM reads before it plans, by name."""
    weight_dtypes: tuple[str, ...] = ()
    """The dtype that vLLM takes from the checkpoint's tensors where the config names none: several where it takes
    either, none where its headers were not read."""


class ResolvedModel(NamedTuple):
    """One model after vLLM has applied its overrides (vllm/config/model.py, ModelConfig)."""

    name: str
    architecture: str
    """vLLM's model class; for a wrapped model `TransformersForCausalLM` and the like."""
    root: Config
    """`hf_config` as the model class sees it."""
    text: Config
    """`hf_text_config`; the same object for a text-only model."""
    dtype: str
    quantization: str | None
    max_model_len: int
    flags: str = ""
    """Interfaces of the model class: the letters of `kvplan.engine.registry`."""

    @property
    def is_multimodal(self) -> bool:
        return "m" in self.flags

    @property
    def uses_transformers_backend(self) -> bool:
        return self.architecture.startswith("Transformers")


class Speculative(NamedTuple):
    """The resolved speculative configuration (vllm/config/speculative.py)."""

    method: str
    num_speculative_tokens: int
    model: str | None
    """The drafter's id or path; None where the target drafts for itself or the method has no model."""
    architecture: str | None
    draft_tensor_parallel_size: int = 1
    attention_backend: str | None = None
    """The drafter's own; None: how it is loaded decides whether it takes the target's."""
    kv_cache_dtype: str | None = None
    parallel_drafting: bool = False
    num_prefill_lookahead_tokens: int = 0
    use_eagle_block_drop: bool = False
    num_lookahead_tokens: int = 0
    """KV slots that the drafter writes past the target's query range."""
    use_multi_module_mtp: bool = False
    """Several MTP modules in a chain: their window layers retain further tokens."""
    use_non_causal: bool = False
    """Some of the drafter's layers attend bidirectionally."""
    draft: ResolvedModel | None = None
    """The drafter after vLLM's rewrite of its config; None where the method has no model of its own."""

    @property
    def use_eagle(self) -> bool:
        """Whether it drafts from the target's hidden states."""
        return self.method in ("eagle", "eagle3", "mtp", "dflash", "dspark")


class EngineConfig(NamedTuple):
    """Every option after vLLM has filled its defaults in, before the block size follows from the layers.

    Lengths and counts are tokens and requests; names are vLLM's.
    """

    args: EngineArgs
    gpu: Any
    dtype: str
    quantization: str | None
    cache_dtype: str
    """`--kv-cache-dtype` after the checkpoint's own KV scheme was read; `auto` means the model dtype."""
    kv_cache_dtype_skip_layers: tuple[str, ...]
    is_hybrid: bool
    use_mla: bool
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    max_num_encoder_input_tokens: int
    async_scheduling: bool
    use_v2_model_runner: bool
    max_concurrent_batches: int
    max_in_flight_tokens: int
    enable_prefix_caching: bool
    mamba_cache_mode: str
    mamba_cache_dtype: str
    mamba_ssm_cache_dtype: str
    mamba_block_size: int | None
    block_size: int
    user_specified_block_size: bool
    tensor_parallel_size: int
    pipeline_parallel_size: int
    data_parallel_size: int
    decode_context_parallel_size: int
    prefill_context_parallel_size: int
    enable_expert_parallel: bool
    disable_hybrid_kv_cache_manager: bool
    attention_backend: str | None
    backend_per_kind: Mapping[str, str]
    use_non_causal: bool
    use_kv_connector: bool
    target: ResolvedModel
    speculative: Speculative | None = None
    enable_chunked_prefill: bool = True
    is_mm_prefix_lm: bool = False
    """Images attend bidirectionally, and the deployment takes images."""
    flash_attn_version: int | None = None
    """Forced by `--attention-config` or by the model's own defaults."""
    max_num_active_seqs: int | None = None
    notes: tuple[str, ...] = ()
    """What the user should know of how an option came about (`max_model_len was cut to the drafter's`, ...)."""

    @property
    def num_speculative_tokens(self) -> int:
        return self.speculative.num_speculative_tokens if self.speculative is not None else 0
