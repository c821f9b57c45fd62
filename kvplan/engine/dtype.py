"""The dtype of a model's weights and activations.

Source: vllm/config/model.py (`_get_and_verify_dtype`, `_resolve_auto_dtype`), `get_torch_dtype` of
vllm/transformers_utils/model_arch_config_convertor.py and `supported_dtypes` of vllm/platforms/cuda.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.engine.facts import model_type
from kvplan.errors import Refused
from kvplan.gpus import Gpu
from kvplan.hf.config import Config

_NAMES = {
    "half": "float16",
    "float16": "float16",
    "float": "float32",
    "float32": "float32",
    "bfloat16": "bfloat16",
}
_TORCH_NAMES = frozenset(
    (
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "half",
        "float",
        "double",
        "float8_e4m3fn",
        "float8_e5m2",
        "int8",
        "uint8",
    )
)
_NO_FLOAT16 = frozenset(("gemma2", "gemma3", "gemma3_text", "glm4"))
"""Model types that vLLM refuses to run in float16."""


def supported_dtypes(gpu: Gpu) -> tuple[str, ...]:
    """What the device computes in, the preferred dtype first."""
    if gpu.capability >= (8, 0):
        return ("bfloat16", "float16", "float32")
    return ("float16", "float32") if gpu.capability >= (6, 0) else ("float32",)


def config_dtype(root: Config, text: Config) -> str | None:
    """The dtype that the config names; None where it names none."""
    sections: list[Any] = [root, text, root.get("vision_config"), root.get("encoder_config")]
    for section in (s for s in sections if isinstance(s, (Config, Mapping))):
        for key in ("dtype", "torch_dtype"):
            value = section.get(key)
            if value is None:
                continue
            if not isinstance(value, str) or value not in _TORCH_NAMES:
                raise root.error(key, f"must be the name of a torch dtype, got {value!r}")
            return _NAMES.get(value, value)
    return None


def resolve_dtype(
    root: Config,
    text: Config,
    requested: str,
    gpu: Gpu,
    weight_dtypes: tuple[str, ...] = (),
    overridden: bool = False,
) -> str:
    """`--dtype` for a model: float16, bfloat16 or float32.

    ``weight_dtypes``: what the checkpoint's tensors have, for a config that names no dtype (`ModelFacts`).
    ``overridden``: `--hf-overrides` names the config's dtype. vLLM keeps that as a string, which it does not find among
    the device's dtypes, so it takes the preferred one.
    """
    kind = model_type(root)
    requested = requested.lower()
    named = config_dtype(root, text)
    if requested == "auto":
        usable = [d for d in supported_dtypes(gpu) if not (d == "float16" and kind in _NO_FLOAT16)]
        names = (named,) if named else weight_dtypes or ("float32",)
        found = {n if n != "float32" and n in usable and not overridden else usable[0] for n in names}
        if len(found) > 1:
            raise Refused(
                f"{root.where}: no dtype, and the checkpoint's tensors are in {' and in '.join(sorted(names))}, of "
                "which vLLM takes either; give --dtype."
            )
        return found.pop()
    if requested not in _NAMES:
        raise Refused(f"--dtype {requested} is not one of auto, {', '.join(_NAMES)}.")
    dtype = _NAMES[requested]
    check_model_dtype(root, dtype)
    if dtype == "bfloat16" and gpu.capability < (8, 0):
        raise Refused(f"--dtype bfloat16 needs compute capability 8.0, and {gpu.name} has {gpu.capability[0]}.x.")
    return dtype


def check_model_dtype(root: Config, dtype: str) -> None:
    """Refused where vLLM does not run the model type in the dtype."""
    kind = model_type(root)
    if dtype == "float16" and kind in _NO_FLOAT16:
        raise Refused(f"{root.where}: vLLM does not run model type {kind} in float16; use --dtype bfloat16.")
