"""What the kernel of a chosen MLA backend, or MLA prefill, does not run: vLLM finds out after it has chosen.

Source: `__init__` of the impl classes in vllm/v1/attention/backends/mla/, and the prefill backends of its folder
prefill/ with `get_mla_prefill_backend_cls` of vllm/platforms/interface.py.
"""

from __future__ import annotations

from kvplan.backends.base import BackendEnv, is_quantized
from kvplan.errors import Refused

_DEEPSEEK_V3, _GLM, _SMALL, _NO_ROPE = (128, 64, 128), (192, 64, 256), (64, 64, 128), (256, 0, 256)
_PREFILL = {
    "FLASH_ATTN": (_DEEPSEEK_V3, _GLM, _SMALL, _NO_ROPE),
    "TRTLLM_RAGGED": (_DEEPSEEK_V3, _GLM),
    "FLASHINFER": (_DEEPSEEK_V3,),
    "TOKENSPEED_MLA": (_DEEPSEEK_V3,),
}
"""Prefill backend -> the (qk_nope_head_dim, qk_rope_head_dim, v_head_dim) that it takes."""


def check_kernel(name: str, env: BackendEnv, cache_dtype: str) -> None:
    """Refused where the decode kernel of backend ``name`` does not read the cache in this deployment."""
    why = None
    if name == "FLASHMLA_SPARSE" and env.decode_context_parallel_size > 1 and not is_quantized(cache_dtype):
        why = f"--decode-context-parallel-size {env.decode_context_parallel_size} without an fp8 cache"
    elif name == "TRITON_MLA" and cache_dtype.startswith("fp8") and env.gpu.capability < (8, 9):
        why = f"--kv-cache-dtype {cache_dtype} on {env.gpu.name}"
    if why is not None:
        raise Refused(f"{name} does not support {why}; leave the flag out or choose another --attention-backend.")


def check_prefill(env: BackendEnv, dtype: str, requested: str | None, *, sparse: bool) -> None:
    """Refused where vLLM has no prefill kernel for the model's head sizes; a sparse layer needs none.

    ``requested``: `--attention-config.mla_prefill_backend`, which counts for sparse layers too.
    """
    if sparse and requested is None:
        return
    sizes = tuple(size or 0 for size in (env.qk_nope_head_dim, env.qk_rope_head_dim, env.v_head_dim))
    name = "FLASH_ATTN" if requested is None else requested
    fits = name == "FLASH_ATTN" or env.gpu.capability[0] == 10
    if sizes in _PREFILL.get(name, ()) and fits and dtype in ("float16", "bfloat16"):
        return
    told = "qk_nope_head_dim {}, qk_rope_head_dim {} and v_head_dim {}".format(*sizes)
    if requested is not None:
        raise Refused(
            f"--attention-config mla_prefill_backend {requested[:60]} does not run {told} in {dtype} on "
            f"{env.gpu.name}; leave it out."
        )
    raise Refused(f"vLLM has no MLA prefill kernel for {told} in {dtype}, so it cannot serve this model.")
