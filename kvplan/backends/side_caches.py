"""Caches that no attention kernel reads: kept beside the KV and run out of band."""

from __future__ import annotations

from kvplan.backends.base import Backend, BackendEnv


class CacheOnly(Backend):
    """Hidden states kept for extraction (vllm/model_executor/models/extract_hidden_states.py)."""

    key = name = "CACHE_ONLY_ATTN"
    dtypes = ("float16", "bfloat16", "float32")
    kv_cache_dtypes = ("auto", "bfloat16")
    mm_prefix = True


class InklingSconv(Backend):
    """Short convolutions over a window (vllm/models/inkling/nvidia/sconv_swa_attn.py)."""

    key = name = "INKLING_SCONV_SWA"


class QSAState(Backend):
    """Qwen4's index caches, packed beside the KV (vllm/models/qwen4_exp/common/qsa_cache.py)."""

    key = name = "QWEN4_EXP_EXP_QSA_STATE"
    dtypes = ("bfloat16",)
    kv_cache_dtypes = ("auto", "bfloat16", "fp8", "fp8_e4m3")

    def layouts(self, env: BackendEnv) -> tuple[str, ...] | None:
        return ("BLNHC", "BLHNC")
