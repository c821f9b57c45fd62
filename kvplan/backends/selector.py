"""Which backend a layer gets, and why each better-ranked one was passed over.

Source: vllm/platforms/cuda.py (`_get_backend_priorities`, `get_attn_backend_cls`), vllm/v1/attention/selector.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import lcm
from typing import NamedTuple

from kvplan.backends.base import Backend, BackendEnv, Query, Rejection, is_quantized, smallest
from kvplan.backends.registry import backend, requested
from kvplan.errors import Refused
from kvplan.spec import AttentionSpec, MultipleOf

PER_KIND = "--attention-config.backend_per_kind"
# KVCacheSpecKind of vllm/v1/kv_cache_interface.py: what backend_per_kind may name.
_SPEC_KINDS = (
    "full_attention",
    "mla_attention",
    "sliding_window",
    "sliding_window_mla",
    "mamba",
    "chunked_local_attention",
    "sink_full_attention",
    "encoder_only_attention",
    "cross_attention",
    "unknown",
)


class Selection(NamedTuple):
    """The chosen backend, and what stood before it."""

    backend: Backend
    passed_over: tuple[tuple[str, tuple[Rejection, ...]], ...] = ()
    """Better-ranked backends in rank order, each with everything it cannot do."""
    chosen_by: str = "rank"
    """rank | the flag that named it."""

    @property
    def lost_to_block_size(self) -> tuple[str, ...]:
        """Better-ranked backends that only the user's `--block-size` excluded; vLLM warns of them."""
        return tuple(name for name, why in self.passed_over if [r.fact for r in why] == ["block_size"])


def spec_kind(query: Query) -> str:
    """The key under which `--attention-config.backend_per_kind` overrides this layer (`get_attn_spec_kind`)."""
    if query.attn_type == "encoder_only":
        return "encoder_only_attention"
    if query.attn_type == "encoder_decoder":
        return "cross_attention"
    if query.use_mla:
        return "sliding_window_mla" if query.has_sliding_window else "mla_attention"
    return "sliding_window" if query.has_sliding_window else "full_attention"


def select(
    query: Query,
    env: BackendEnv,
    attention_backend: str | None = None,
    backend_per_kind: Mapping[str, str] | None = None,
    flag: str = "--attention-backend",
) -> Selection:
    """The backend that vLLM takes for the layer.

    ``attention_backend``: what the user set for the run (for a drafter, its own), under vLLM's name; ``flag`` is
    where. Refused where it cannot take the layer, or where no backend can.
    """
    name = attention_backend
    if backend_per_kind:
        check_kinds(backend_per_kind)
        if (kind := spec_kind(query)) in backend_per_kind:
            name, flag = backend_per_kind[kind], f"{PER_KIND}.{kind}"
    if name is not None:
        return _select_requested(query, env, name, flag)
    passed_over: list[tuple[str, tuple[Rejection, ...]]] = []
    for key in priorities(query, env):
        candidate = backend(key)
        why = candidate.rejections(query, env)
        if not why:
            return Selection(candidate, tuple(passed_over))
        passed_over.append((key, why))
    raise Refused(_nothing_fits(query, env, passed_over))


def check_kinds(backend_per_kind: Mapping[str, str]) -> None:
    """Refused for a key that is no kind of KV cache group."""
    for kind in backend_per_kind:
        if kind not in _SPEC_KINDS:
            raise Refused(
                f"{PER_KIND} names {kind[:60]!r}, which is no kind of KV cache; use {_list(_SPEC_KINDS, 'or')}."
            )


def _select_requested(query: Query, env: BackendEnv, name: str, flag: str) -> Selection:
    candidate = requested(name, flag)
    if why := candidate.rejections(query, env):
        raise Refused(
            f"{flag} {name} cannot serve this deployment on {env.gpu.name}: it {_list(r.why for r in why)}; "
            "leave the flag out to let vLLM choose."
        )
    return Selection(candidate, chosen_by=flag)


def _nothing_fits(query: Query, env: BackendEnv, passed_over: Sequence[tuple[str, tuple[Rejection, ...]]]) -> str:
    told = "; ".join(f"{name} {_list(r.why for r in why)}" for name, why in passed_over)
    return (
        f"no attention backend of vLLM on {env.gpu.name} takes layers of head size {query.head_size} in {query.dtype} "
        f"with KV cache dtype {query.kv_cache_dtype} ({told}); {_remedy(query, env, [why for _, why in passed_over])}."
    )


def _remedy(query: Query, env: BackendEnv, rejected: Sequence[Sequence[Rejection]]) -> str:
    """The fewest flags that one backend asks to change; where flags change nothing, whether another GPU does."""
    flags = _flags(query, env)
    facts = [{rejection.fact for rejection in why} for why in rejected]
    asked = min((own for own in facts if own <= flags.keys()), key=len, default=None)
    if asked:
        return f"change {_list(flags[fact] for fact in flags if fact in asked)}"
    if any(own <= {*flags, "capability"} for own in facts):
        major, minor = env.gpu.capability
        return f"the GPU is in the way: choose one of another compute capability than {major}.{minor}"
    return "no flag changes that: vLLM cannot serve the model there"


def _flags(query: Query, env: BackendEnv) -> dict[str, str]:
    """The flags that a backend's rejection can be about, as they stand, by the fact of the rejection."""
    given = {
        "block_size": f"--block-size {query.block_size}",
        "kv_cache_dtype": f"--kv-cache-dtype {query.kv_cache_dtype}",
        "dtype": f"--dtype {query.dtype}",
        "batch_invariance": "VLLM_BATCH_INVARIANT",
        "kv_connector": "--kv-transfer-config",
        "pcp": f"--prefill-context-parallel-size {env.prefill_context_parallel_size}",
        "dcp": f"--decode-context-parallel-size {env.decode_context_parallel_size}",
    }
    if query.kv_cache_dtype == "auto":
        del given["kv_cache_dtype"]
    return given


def _list(parts: Iterable[str], last: str = "and") -> str:
    words = list(parts)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def priorities(query: Query, env: BackendEnv) -> tuple[str, ...]:
    """Backends from best to worst for this GPU (`_get_backend_priorities`)."""
    major = env.gpu.capability[0]
    if query.use_mla:
        return _mla_priorities(query, major)
    rest = ("TRITON_ATTN", "FLEX_ATTENTION", "TURBOQUANT")
    if major == 10 and not query.use_non_causal:
        composite = ("TRITON_FLASHINFER",) if query.use_mm_prefix else ()
        return (*composite, "FLASHINFER", "FLASH_ATTN", *rest)
    composite = ("TRITON_FLASH_ATTN",) if major == 9 and query.use_mm_prefix else ()
    return (*composite, "FLASH_ATTN", "FLASHINFER", *rest)


def _mla_priorities(query: Query, major: int) -> tuple[str, ...]:
    if major == 12:
        return ("TRITON_MLA", "FLASHINFER_MLA_SPARSE_SM120")
    if major == 10:
        dense = ("FLASHINFER_MLA", "TOKENSPEED_MLA", "CUTLASS_MLA", "FLASH_ATTN_MLA", "FLASHMLA", "TRITON_MLA")
        if is_quantized(query.kv_cache_dtype):
            return (*dense, "FLASHINFER_MLA_SPARSE", "FLASHMLA_SPARSE")
        if query.num_heads is not None and query.num_heads <= 16:
            return (*dense, "FLASH_ATTN_MLA_SPARSE_FA4", "FLASHINFER_MLA_SPARSE", "FLASHMLA_SPARSE")
        return (*dense, "FLASHMLA_SPARSE", "FLASHINFER_MLA_SPARSE")
    sparse = ("FLASH_ATTN_MLA_SPARSE", "FLASHMLA_SPARSE")
    own = "FLASHINFER_MLA_SPARSE_SM90"
    tail = (own, *sparse) if query.head_size == 512 else (*sparse, own)
    return ("FLASH_ATTN_MLA", "FLASHMLA", "FLASHINFER_MLA", "TRITON_MLA", *tail)


def check_batch_invariance(backends: Iterable[Backend], env: BackendEnv) -> None:
    """Refused under VLLM_BATCH_INVARIANT where a layer's backend is not batch invariant.

    ``backends``: of every layer, those that model classes name themselves and state backends included
    (`init_attn_backend` of vllm/v1/worker/gpu/attn_utils.py, `get_mamba_attn_backend` of the selector).
    """
    for one in backends:
        if env.batch_invariant and not one.batch_invariance:
            raise Refused(f"VLLM_BATCH_INVARIANT=1: {one.name} is not batch invariant; unset it for this model.")


def preferred_block_size(backends: Sequence[Backend], env: BackendEnv, default: int = 16) -> int:
    """The block size that every backend takes (`Platform._preferred_block_size_for_backends`).

    ``backends``: the distinct ones of all layers that keep no state, in layer order. One: what it prefers. Several:
    the default if all take it, else the smallest common multiple of one size each that all take. Refused where they
    share none.
    """
    if len(backends) == 1:
        return backends[0].preferred_block_size(env, default)
    if all(b.supports_block_size(env, default) for b in backends):
        return default
    sizes = [[smallest(size) for size in b.kernel_block_sizes(env)] or [1] for b in backends]
    for size in sorted({lcm(*combination) for combination in product(*sizes)}):
        if all(b.supports_block_size(env, size) for b in backends):
            return size
    told = "; ".join(f"{b.name} takes {_list(map(str, s))}" for b, s in zip(backends, sizes, strict=True))
    raise Refused(f"the attention backends share no KV cache block size ({told}); set another --attention-backend.")


def customize_attention_spec(chosen: Backend, env: BackendEnv, spec: AttentionSpec) -> AttentionSpec:
    """The spec as the backend packs it (`customize_attention_spec` of vllm/v1/worker/utils.py).

    A backend that takes fixed kernel blocks only asks for blocks a whole number of its largest ones apart.
    """
    spec = chosen.customize(env, spec)
    sizes = chosen.kernel_block_sizes(env, spec)
    fixed = [size for size in sizes if not isinstance(size, MultipleOf)]
    if spec.block_stride_alignment is None and fixed and len(fixed) == len(sizes):
        return spec._replace(block_stride_alignment=MultipleOf(max(fixed)))
    return spec
