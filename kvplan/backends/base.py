"""What every attention backend answers: the sizes, layouts and limits that vLLM's planning asks it for.

The source of the interface is vllm/v1/attention/backend.py (`AttentionBackend`); a backend's own file names the vLLM
file it follows. Sizes are tokens unless a name says bytes.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.gpus import Gpu
from kvplan.spec import AttentionSpec, MultipleOf, Spec

KernelSizes = tuple[int | MultipleOf, ...]

DECODER = "decoder"
ALL_ATTENTION_TYPES = ("decoder", "encoder", "encoder_only", "encoder_decoder")

FLOAT_CACHE = ("auto", "float16", "bfloat16")
FP8_CACHE = ("auto", "float16", "bfloat16", "fp8", "fp8_e4m3")
HALF_DTYPES = ("float16", "bfloat16")

_PER_TOKEN_HEAD = ("int4_per_token_head", "int8_per_token_head", "fp8_per_token_head")


class BackendEnv(NamedTuple):
    """What backends read of the current VllmConfig and the platform, beside the layer they are asked about.

    The values describe the model whose config is current in vLLM: the *target* when specs, kernel block sizes,
    layouts and block sizes are asked for (the worker's config, for drafter layers too); the *drafter* while the
    drafter's own layers select their backend, where vLLM loads it under a config of its own.
    """

    gpu: Gpu
    num_attention_heads: int
    """Query heads on one rank (`ModelConfig.get_num_attention_heads`)."""
    num_kv_heads: int
    """KV heads on one rank (`ModelConfig.get_num_kv_heads`): 1 for MLA."""
    head_size: int
    """`ModelConfig.get_head_size`: kv_lora_rank + qk_rope_head_dim for MLA."""
    cache_dtype: str = "auto"
    """`CacheConfig.cache_dtype`: the run's, not the layer's."""
    decode_context_parallel_size: int = 1
    prefill_context_parallel_size: int = 1
    flash_attn_version: int | None = None
    """`--attention-config.flash_attn_version`."""
    use_trtllm_attention: bool | None = None
    """`--attention-config.use_trtllm_attention`."""
    batch_invariant: bool = False
    """The environment variable VLLM_BATCH_INVARIANT."""
    is_diffusion: bool = False
    has_logits_soft_cap: bool = False
    """A true `attn_logit_softcapping` in the text config."""
    is_mm_prefix_lm: bool = False
    """`ModelConfig.is_mm_prefix_lm`."""
    has_rswa: bool = False
    """`ModelConfig.rswa_window` is set."""
    use_replayssm: bool = False
    """`CacheConfig.use_replayssm`."""
    qk_nope_head_dim: int | None = None
    """This field and the next six: the text config's field of that name; None where it has none."""
    qk_rope_head_dim: int | None = None
    v_head_dim: int | None = None
    kv_lora_rank: int | None = None
    index_topk: int | None = None
    index_kpool: int | None = None
    diffkv_head_size_v: int = 128
    """V head size that the model class last set on its DIFFKV backend (`set_head_size_v`)."""


class Query(NamedTuple):
    """One layer's question to the selector (`AttentionSelectorConfig` of vllm/v1/attention/selector.py)."""

    head_size: int
    """Of the layer; kv_lora_rank + qk_rope_head_dim for MLA."""
    dtype: str
    """The model's activation dtype."""
    kv_cache_dtype: str | None
    """The layer's: ``auto`` for a layer that `--kv-cache-dtype-skip-layers` names."""
    block_size: int | None = None
    """`--block-size` where the user gave one, else None."""
    use_mla: bool = False
    has_sink: bool = False
    use_sparse: bool = False
    use_mm_prefix: bool = False
    use_per_head_quant_scales: bool = False
    attn_type: str = DECODER
    has_sliding_window: bool = False
    use_non_causal: bool = False
    use_batch_invariant: bool = False
    use_kv_connector: bool = False
    use_pcp: bool = False
    use_adaptive_verification: bool = False
    use_dcp: bool = False
    use_rswa: bool = False
    num_heads: int | None = None
    """Query heads on one rank; vLLM passes them for MLA only."""


class Rejection(NamedTuple):
    """One thing a backend cannot do for a layer."""

    fact: str
    """What it is about: head_size, dtype, kv_cache_dtype, block_size, sink, combination, ..."""
    why: str
    """Completes a sentence that starts with the backend's name."""


def kv_quant_mode(cache_dtype: str) -> str:
    """The quantisation mode of a KV cache dtype (`get_kv_quant_mode` of vllm/v1/kv_cache_interface.py)."""
    if cache_dtype in _PER_TOKEN_HEAD or cache_dtype == "nvfp4_ds_mla" or cache_dtype == "ultraquant_4bit":
        return cache_dtype
    if cache_dtype.startswith("nvfp4"):
        return "nvfp4"
    if cache_dtype.startswith(("turboquant_", "octave_")):
        return cache_dtype
    return "fp8_per_tensor" if cache_dtype.startswith("fp8") else "none"


def is_quantized(cache_dtype: str | None) -> bool:
    """Whether the KV cache dtype is a quantised one; None is not."""
    return cache_dtype is not None and kv_quant_mode(cache_dtype) != "none"


def is_per_token_head(mode: str) -> bool:
    return mode in _PER_TOKEN_HEAD


def smallest(size: int | MultipleOf) -> int:
    """The smallest kernel block that a declared size stands for."""
    return size.base if isinstance(size, MultipleOf) else size


class Backend:
    """One attention backend. Attributes state what it always is; methods what depends on the environment."""

    key = ""
    """kvplan's identifier: the name, unless several classes share one."""
    name = ""
    """vLLM's `get_name()`, as it stands in logs."""
    dtypes: tuple[str, ...] = HALF_DTYPES
    kv_cache_dtypes: tuple[str, ...] = FLOAT_CACHE
    head_sizes: tuple[int, ...] = ()
    """Head sizes it takes; empty: any."""
    attention_types: tuple[str, ...] = (DECODER,)
    mla = False
    sparse = False
    ssm = False
    sinks = False
    sliding_window = False
    rswa = False
    non_causal = False
    non_causal_dcp = False
    mm_prefix = False
    per_head_scales = False
    batch_invariance = False
    kv_connector = True
    pcp = False
    dcp = False
    alibi_sqrt = False

    def kernel_block_sizes(self, env: BackendEnv, spec: Spec | None = None) -> KernelSizes:
        """Kernel blocks that its kernels take, in vLLM's order. ``spec`` None: before specs exist."""
        return (MultipleOf(1),)

    def layouts(self, env: BackendEnv) -> tuple[str, ...] | None:
        """Cache layouts that its kernels read, most preferred first; None: any, no preference."""
        return None

    def customize(self, env: BackendEnv, spec: AttentionSpec) -> AttentionSpec:
        """The layer's spec as this backend packs it (`customize_spec`)."""
        return spec

    def supports_block_size(self, env: BackendEnv, block_size: int | None) -> bool:
        """Whether manager blocks of ``block_size`` tokens can be split into its kernel blocks."""
        sizes = self.kernel_block_sizes(env)
        return block_size is None or not sizes or any(block_size % smallest(size) == 0 for size in sizes)

    def preferred_block_size(self, env: BackendEnv, default: int) -> int:
        """The block size that vLLM sets for a model which has only this backend and no `--block-size`."""
        sizes = self.kernel_block_sizes(env)
        if not sizes or self.supports_block_size(env, default):
            return default
        return min(map(smallest, sizes))

    def supports_head_size(self, env: BackendEnv, head_size: int) -> bool:
        return not self.head_sizes or head_size in self.head_sizes

    def supports_kv_cache_dtype(self, env: BackendEnv, cache_dtype: str | None) -> bool:
        return cache_dtype is None or not self.kv_cache_dtypes or cache_dtype in self.kv_cache_dtypes

    def supports_dtype(self, dtype: str) -> bool:
        return dtype in self.dtypes

    def supports_capability(self, capability: tuple[int, int]) -> bool:
        return True

    def supports_sink(self, env: BackendEnv) -> bool:
        return self.sinks

    def supports_mm_prefix(self, env: BackendEnv) -> bool:
        return self.mm_prefix

    def supports_per_head_scales(self, env: BackendEnv) -> bool:
        return self.per_head_scales

    def supports_device_query_lens(self, env: BackendEnv) -> bool:
        """Whether it runs batches whose query lengths only the device knows (adaptive verification)."""
        return not self.ssm

    def combination(self, query: Query, env: BackendEnv) -> str | None:
        """Why it cannot take this combination (`supports_combination`), completing "BACKEND ..."; None: it can."""
        return None

    def rejections(self, query: Query, env: BackendEnv) -> tuple[Rejection, ...]:
        """Everything it cannot do for the layer (`validate_configuration`); empty: vLLM takes it."""
        found = [*self._shape_rejections(query, env), *self._feature_rejections(query, env)]
        if (why := self.combination(query, env)) is not None:
            found.append(Rejection("combination", why))
        return tuple(found)

    def _shape_rejections(self, query: Query, env: BackendEnv) -> list[Rejection]:
        found: list[Rejection] = []
        if not self.supports_head_size(env, query.head_size):
            found.append(Rejection("head_size", f"does not take head size {query.head_size}"))
        if not self.supports_dtype(query.dtype):
            found.append(Rejection("dtype", f"does not take {query.dtype}"))
        if not self.supports_kv_cache_dtype(env, query.kv_cache_dtype):
            found.append(Rejection("kv_cache_dtype", f"does not take KV cache dtype {query.kv_cache_dtype}"))
        if not self.supports_block_size(env, query.block_size):
            found.append(Rejection("block_size", f"cannot split blocks of {query.block_size} tokens"))
        if query.use_mla != self.mla:
            found.append(Rejection("mla", "has no MLA kernels" if query.use_mla else "is for MLA only"))
        if query.use_sparse != self.sparse:
            found.append(
                Rejection("sparse", "has no sparse kernels" if query.use_sparse else "is for sparse attention only")
            )
        if not self.supports_capability(env.gpu.capability):
            major, minor = env.gpu.capability
            found.append(Rejection("capability", f"does not run on compute capability {major}.{minor}"))
        return found

    def _feature_rejections(self, query: Query, env: BackendEnv) -> list[Rejection]:
        # One row each: asked for, had, fact, why.
        rows = (
            (query.use_mm_prefix, self.supports_mm_prefix, "mm_prefix", "cannot mask image tokens both ways"),
            (query.has_sink, self.supports_sink, "sink", "has no attention sinks"),
            (query.use_per_head_quant_scales, self.supports_per_head_scales, "scales", "has no per-head KV scales"),
            (query.use_adaptive_verification, self.supports_device_query_lens, "verify", "cannot verify adaptively"),
        )
        found = [Rejection(fact, why) for asked, had, fact, why in rows if asked and not had(env)]
        flags = (
            (query.has_sliding_window, self.sliding_window, "sliding_window", "has no sliding window"),
            (query.use_rswa, self.rswa, "rswa", "has no reference sliding window (R-SWA)"),
            (query.use_non_causal, self.non_causal, "non_causal", "has no non-causal attention"),
            (
                query.use_mla and query.use_non_causal and query.use_dcp,
                self.non_causal_dcp,
                "non_causal_dcp",
                "has no non-causal MLA under decode context parallelism",
            ),
            (query.use_batch_invariant, self.batch_invariance, "batch_invariance", "is not batch invariant"),
            (query.use_kv_connector, self.kv_connector, "kv_connector", "does not work with a KV connector"),
            (query.use_pcp, self.pcp, "pcp", "has no prefill context parallelism"),
            (query.use_dcp, self.dcp, "dcp", "has no decode context parallelism"),
        )
        found.extend(Rejection(fact, why) for asked, had, fact, why in flags if asked and not had)
        if query.attn_type not in self.attention_types:
            found.append(Rejection("attn_type", f"has no {query.attn_type} attention"))
        return found

    def __repr__(self) -> str:
        return self.key
