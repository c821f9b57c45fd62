"""The KV cache's dtype: the flag, the checkpoint's own scheme, or the model's default.

Source: `resolve_kv_cache_dtype_string` of vllm/utils/torch_utils.py, `Attention.__init__` of
vllm/model_executor/layers/attention/attention.py (compressed-tensors), `validate_nvfp4_kv_cache_with_mla` and
`_reject_mismatched_float_kv_cache` of vllm/config/vllm.py, `CacheDType` of vllm/config/cache.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.errors import Refused
from kvplan.hf.config import Config

CACHE_DTYPES = frozenset(
    (
        "auto",
        "float16",
        "bfloat16",
        "fp8",
        "fp8_e4m3",
        "fp8_e5m2",
        "fp8_inc",
        "fp8_ds_mla",
        "nvfp4_ds_mla",
        "turboquant_k8v4",
        "turboquant_4bit_nc",
        "turboquant_k3v4_nc",
        "turboquant_3bit_nc",
        "octave_k3v4",
        "octave_k3v3",
        "octave_k3v3_compact",
        "ultraquant_4bit",
        "int4_per_token_head",
        "int8_per_token_head",
        "fp8_per_token_head",
        "nvfp4",
        "nvfp4_4over6",
    )
)
_MODELOPT = {"fp8": "fp8_e4m3", "nvfp4": "nvfp4"}


def checkpoint_cache_dtype(scheme: Mapping[str, Any] | None) -> str | None:
    """The dtype that a ModelOpt checkpoint asks for: `auto` for an unknown scheme, None where it is silent."""
    if scheme is None or not str(scheme.get("quant_method", "")).startswith("modelopt"):
        return None
    inner = scheme.get("quantization")
    sources = (inner, scheme) if isinstance(inner, Mapping) else (scheme,)
    found = next((s[key] for key in ("kv_cache_scheme", "kv_cache_quant_algo") for s in sources if s.get(key)), None)
    if isinstance(found, Mapping):
        return _MODELOPT[kind] if (kind := _scheme_kind(found)) else "auto"
    return _MODELOPT.get(found.lower(), "auto") if isinstance(found, str) else None


def _scheme_kind(scheme: Mapping[str, Any]) -> str | None:
    if scheme.get("type") != "float":
        return None
    if scheme.get("num_bits") == 8 and scheme.get("dynamic") is False:
        return "fp8"
    return "nvfp4" if scheme.get("num_bits") == 4 else None


def compressed_tensors_scheme(root: Config, scheme: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The KV scheme of a compressed-tensors checkpoint; Refused where vLLM cannot load it."""
    if scheme is None or scheme.get("quant_method") != "compressed-tensors":
        return None
    found = scheme.get("kv_cache_scheme")
    if found is None:
        return None
    where = f"{root.where}: quantization_config: kv_cache_scheme"
    if not isinstance(found, Mapping):
        raise Refused(f"{where} must be a JSON object, got {found!r}.")
    if found.get("type") != "float" or found.get("num_bits") != 8:
        raise Refused(
            f"{where} has {found.get('num_bits')} bits of type {found.get('type')}; vLLM loads 8-bit float only."
        )
    if found.get("strategy") not in ("tensor", "attn_head"):
        raise Refused(f"{where} has strategy {found.get('strategy')!r}; vLLM loads tensor and attn_head only.")
    if not found.get("symmetric"):
        raise Refused(f"{where} is not symmetric; vLLM loads symmetric scales only.")
    return found


def resolve_cache_dtype(requested: str, scheme: Mapping[str, Any] | None) -> str:
    """`--kv-cache-dtype` after a ModelOpt checkpoint's own scheme; `auto` stands for the model's dtype."""
    if requested not in CACHE_DTYPES:
        raise Refused(f"--kv-cache-dtype {requested} is not one that vLLM 0.33.0 knows.")
    if requested != "auto":
        return requested
    return checkpoint_cache_dtype(scheme) or "auto"


def check_cache_dtype(cache_dtype: str, dtype: str, use_mla: bool, flag: str = "--kv-cache-dtype") -> None:
    """Refused where the format does not fit the model."""
    if cache_dtype in ("float16", "bfloat16") and cache_dtype != dtype:
        allowed = f"auto or {dtype}" if dtype in ("float16", "bfloat16") else "auto"
        raise Refused(f"{flag} {cache_dtype} differs from the model's dtype {dtype}; use {allowed}.")
    if use_mla and cache_dtype.startswith("nvfp4") and not cache_dtype.endswith("_ds_mla"):
        raise Refused(
            f"{flag} {cache_dtype} does not work with multi-head latent attention; "
            "use fp8, auto, or nvfp4_ds_mla with a sparse backend."
        )


def check_e5m2(
    cache_dtype: str,
    quantization: str | None,
    scheme: Mapping[str, Any] | None,
    use_mla: bool,
    flag: str = "--kv-cache-dtype",
) -> None:
    """Refused where the checkpoint's own FP8 scales would meet an E5M2 cache (`_init_kv_cache_quant`, attention.py)."""
    if cache_dtype != "fp8_e5m2" or quantization is None or scheme is None:  # weights quantised on loading have none
        return
    declares = scheme is not None and (
        scheme.get("kv_cache_scheme") is not None or checkpoint_cache_dtype(scheme) is not None
    )
    always = quantization in _SCALES_ALWAYS or (quantization in _SCALES_UNLESS_MLA and not use_mla)
    if always or (quantization in _SCALES_IF_DECLARED and declares and not use_mla):
        raise Refused(f"{flag} fp8_e5m2 does not work with a checkpoint quantised by {quantization}; use fp8_e4m3.")


_SCALES_ALWAYS = frozenset(("modelopt", "modelopt_fp4", "modelopt_mxfp8"))
_SCALES_UNLESS_MLA = frozenset(("fp8",))
_SCALES_IF_DECLARED = frozenset(("compressed-tensors", "modelopt_mixed"))
"""Quantisation methods that give attention layers scales of the checkpoint (`get_quant_method` of each)."""
