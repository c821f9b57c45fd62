"""Which quantisation a checkpoint has, under vLLM's method names.

Source: vllm/config/model.py (`_verify_quantization`), `_normalize_quantization_config` of
vllm/transformers_utils/model_arch_config_convertor.py, `override_quantization_method`, `get_min_capability` and
`get_supported_act_dtypes` of each method in vllm/model_executor/layers/quantization, `_get_quantization_config` of
vllm/config/vllm.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kvplan.engine.facts import model_type
from kvplan.engine.schemes import check_scheme, orders_groups
from kvplan.errors import Refused
from kvplan.gpus import Gpu
from kvplan.hf.config import Config

_BF16 = ("bfloat16",)
_HALF = ("bfloat16", "float16")
_ANY = ("float32", "float16", "bfloat16")
METHODS: dict[str, tuple[int, tuple[str, ...]]] = {
    "awq": (75, _HALF),
    "auto_awq": (75, _HALF),
    "awq_marlin": (75, _HALF),
    "fp8": (75, _HALF),
    "modelopt": (80, _HALF),
    "modelopt_fp4": (75, _HALF),
    "modelopt_mxfp8": (80, _BF16),
    "modelopt_mixed": (75, _HALF),
    "auto_gptq": (60, _HALF),
    "gptq": (60, _HALF),
    "gptq_marlin": (60, _HALF),
    "humming": (75, _HALF),
    "compressed-tensors": (70, _ANY),
    "experts_int8": (80, _HALF),
    "quark": (70, _HALF),
    "moe_wna16": (70, _HALF),
    "torchao": (75, _ANY),
    "inc": (60, _HALF),
    "mxfp4": (80, _BF16),
    "gpt_oss_mxfp4": (80, _BF16),
    "deepseek_v4_fp8": (75, _HALF),
    "online": (75, _HALF),
    "fp8_per_tensor": (75, _HALF),
    "fp8_per_block": (75, _HALF),
    "fp8_per_channel": (75, _HALF),
    "int8_per_channel_weight_only": (75, _HALF),
    "nvfp4_per_token": (75, _HALF),
    "mxfp8": (80, _BF16),
}
"""Method -> (smallest compute capability as major * 10 + minor, activation dtypes)."""
_WITHOUT_CHECKPOINT = frozenset(
    (
        "fp8",
        "fp8_per_tensor",
        "fp8_per_block",
        "fp8_per_channel",
        "int8_per_channel_weight_only",
        "nvfp4_per_token",
        "mxfp4",
        "mxfp8",
        "humming",
        "experts_int8",
        "gpt_oss_mxfp4",
        "deepseek_v4_fp8",
    )
)
"""Methods that quantise an unquantised checkpoint while it is loaded (`get_quant_config` needs no file for them)."""
_DEPRECATED = ("fbgemm_fp8", "fp_quant")
_MODELOPT = {
    "FP8": "modelopt",
    "FP8_PER_CHANNEL_PER_TOKEN": "modelopt",
    "FP8_PB_WO": "modelopt",
    "NVFP4": "modelopt_fp4",
    "MIXED_PRECISION": "modelopt_mixed",
}
_DEEPSEEK_V4_TYPES = frozenset(("deepseek_v4", "deepseek_v4_text", "deepseek_v41", "deepseek_v41_text"))


def quantization_config(root: Config, hf_quant_config: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
    """The checkpoint's scheme with ``quant_method`` in vLLM's spelling; None for an unquantised checkpoint.

    It is read from ``quantization_config``, from hf_quant_config.json, from ``compression_config``, or from the text
    model's config, in this order.
    """
    for config, outside in ((root, hf_quant_config), (root.section("text_config"), None)):
        if config is None:
            continue
        found = config.get("quantization_config")
        found = outside if found is None else found
        if found is not None:
            return _named(_from_modelopt(root, _checked(root, found)))
        found = config.get("compression_config")
        if found is not None:
            return _named(_checked(root, found))
    return None


def _checked(root: Config, found: Any) -> Mapping[str, Any]:
    if not isinstance(found, Mapping):
        raise root.error("quantization_config", f"must be a JSON object, got {found!r}")
    method = found.get("quant_method", "")
    if not isinstance(method, str):
        raise root.error("quantization_config: quant_method", f"must be a string, got {method!r}")
    return found


def _from_modelopt(root: Config, found: Mapping[str, Any]) -> Mapping[str, Any]:
    """The scheme with the method that ModelOpt's older files leave out."""
    producer, inner = found.get("producer"), found.get("quantization")
    inner = inner if isinstance(inner, Mapping) else {}
    named = isinstance(producer, Mapping) and producer.get("name") == "modelopt"
    algorithm = inner.get("quant_algo")
    if algorithm is None or not (named or "modelopt_quant_config" in inner):
        return found
    method = _MODELOPT.get(str(algorithm).upper())
    if method is None:
        raise root.error("quantization_config", f"has the ModelOpt scheme {algorithm!r}, which vLLM does not know")
    return {**found, "quant_method": method}


def _named(found: Mapping[str, Any]) -> dict[str, Any]:
    method = str(found.get("quant_method", "")).lower().replace("compressed_tensors", "compressed-tensors")
    return {**found, "quant_method": method}


def _no_file(method: str) -> Mapping[str, Any] | None:
    return None


def resolve_quantization(
    root: Config,
    scheme: Mapping[str, Any] | None,
    requested: str | None,
    allow_deprecated: bool = False,
    from_file: Callable[[str], Mapping[str, Any] | None] = _no_file,
) -> str | None:
    """The method that loads the weights. Refused where ``--quantization`` contradicts the checkpoint.

    ``from_file`` reads the scheme of a method that lies beside the config.
    """
    method = requested.lower() if requested else None
    if scheme is not None:
        claimed = _claimed_by(root, scheme, method)
        stated = claimed or scheme["quant_method"] or None
        method = claimed or method
        if method is None:
            method = stated
        elif method != stated:
            raise Refused(
                f"--quantization {method} contradicts the checkpoint, which is quantised with {stated}; "
                "leave --quantization out."
            )
    if method is None:
        return None
    if method in _DEPRECATED and not allow_deprecated:
        raise Refused(
            f"quantisation {method} is deprecated in vLLM 0.33.0; add --allow-deprecated-quantization to use it."
        )
    if method not in METHODS and method not in _DEPRECATED:
        raise Refused(f"quantisation method {method} is not one that vLLM 0.33.0 knows.")
    if scheme is None and method in _WITHOUT_CHECKPOINT:
        return method
    if scheme is None or (method == "modelopt_mixed" and "quantized_layers" not in scheme):
        scheme = from_file(method) or scheme
    if scheme is None:
        raise Refused(f"--quantization {method}: {root.where} names no quantisation, and vLLM finds none beside it.")
    check_scheme(root, scheme, method)
    return method


def _claimed_by(root: Config, scheme: Mapping[str, Any], requested: str | None) -> str | None:
    """The method that takes the checkpoint over from the one it names; None where none does."""
    stated, kind = scheme["quant_method"], model_type(root)
    if requested == "humming":
        if kind == "gpt_oss" and stated == "mxfp4":
            raise Refused("--quantization humming is not for gpt-oss; use --moe-backend humming.")
        return "humming"
    if stated == "gptq" and requested in (None, "gptq", "gptq_marlin", "auto_gptq", "marlin"):
        return "auto_gptq"
    if stated == "awq" and requested in (None, "awq", "awq_marlin", "auto_awq", "marlin"):
        return "auto_awq"
    if stated == "auto-round":
        return "inc"
    if requested == "moe_wna16" and _fits_moe_wna16(stated, scheme):
        return "moe_wna16"
    algorithm = _modelopt_algorithm(scheme)
    if algorithm is not None:
        return algorithm
    if stated in ("mxfp4", "gpt_oss_mxfp4") and kind == "gpt_oss":
        return "gpt_oss_mxfp4"
    if stated in ("fp8", "deepseek_v4_fp8") and (kind in _DEEPSEEK_V4_TYPES or requested == "deepseek_v4_fp8"):
        return "deepseek_v4_fp8"
    if stated == "compressed-tensors" and kind == "kimi_k3" and scheme.get("format") == "mxfp4-pack-quantized":
        return "mxfp4"
    return None


def _fits_moe_wna16(stated: str, scheme: Mapping[str, Any]) -> bool:
    """`is_moe_wna16_compatible` on a GPU that the method runs on."""
    if stated == "gptq":
        return scheme.get("bits") in (4, 8) and not orders_groups(scheme)
    return stated == "awq" and scheme.get("bits") == 4


def _modelopt_algorithm(scheme: Mapping[str, Any]) -> str | None:
    """`_extract_modelopt_quant_algo` and the four ModelOpt classes that look at it."""
    if not scheme["quant_method"].startswith("modelopt"):
        return None
    inner = scheme.get("quantization")
    source = inner if isinstance(inner, Mapping) else scheme
    algorithm = source.get("quant_algo")
    if not isinstance(algorithm, str):
        return None
    name = algorithm.upper()
    if name == "FP8":
        return "modelopt"
    if "FP4" in name:
        return "modelopt_fp4"
    if "MXFP8" in name:
        return "modelopt_mxfp8"
    return "modelopt_mixed" if name == "MIXED_PRECISION" else None


def check_quantization(method: str | None, dtype: str, gpu: Gpu) -> None:
    """Refused where the method does not run on the GPU or in the model's dtype."""
    if method is None or method not in METHODS:
        return
    smallest, dtypes = METHODS[method]
    major, minor = gpu.capability
    if major * 10 + minor < smallest:
        raise Refused(
            f"quantisation {method} needs compute capability {smallest / 10}; {gpu.name} has {major}.{minor}."
        )
    if dtype not in dtypes:
        raise Refused(f"quantisation {method} runs in {' or '.join(dtypes)}, not in {dtype}; change --dtype.")
