"""One checkpoint as vLLM's `ModelConfig` sees it: class, dtype, quantisation, length.

Source: vllm/config/model.py (`ModelConfig.__post_init__`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from kvplan.engine import beside
from kvplan.engine.architecture import choose_architecture, converted
from kvplan.engine.args import EngineArgs, ModelFacts, ResolvedModel
from kvplan.engine.built import check_values
from kvplan.engine.dtype import resolve_dtype
from kvplan.engine.facts import model_type, replace_text, text_config
from kvplan.engine.max_model_len import resolve_max_model_len
from kvplan.engine.overrides import apply_hf_overrides
from kvplan.engine.quantization import quantization_config, resolve_quantization
from kvplan.errors import Refused
from kvplan.gpus import Gpu
from kvplan.hf.config import Config

_NEEDS_WINDOW = frozenset(
    (
        "cwm",
        "deepseek_v4",
        "exaone_moe",
        "gemma3n_text",
        "gemma4_text",
        "gemma4_unified_text",
        "laguna",
        "mimo_v2_flash",
    )
)
"""Model types whose config class takes no null for sliding_window."""


def scheme_of(facts: ModelFacts, root: Config) -> dict[str, Any] | None:
    """The checkpoint's quantisation, from its config or from the file beside it."""
    return quantization_config(root, facts.hf_quant_config)


def describe(
    facts: ModelFacts,
    root: Config,
    *,
    dtype: str,
    quantization: str | None,
    model_impl: str = "auto",
    allow_deprecated: bool = False,
) -> ResolvedModel:
    """The model without its length: class, configs and quantisation."""
    root = converted(beside.class_of_files(facts, root))
    text = text_config(root)
    check_values(root, text)
    architecture, flags = choose_architecture(root, text, model_impl)
    scheme, from_file = scheme_of(facts, root), partial(beside.scheme_file, facts)
    method = resolve_quantization(root, scheme, quantization, allow_deprecated, from_file)
    return ResolvedModel(
        name=facts.name,
        architecture=architecture,
        root=root,
        text=text,
        dtype=dtype,
        quantization=method,
        max_model_len=0,
        flags=flags,
    )


def resolve_target(args: EngineArgs, facts: ModelFacts, gpu: Gpu) -> ResolvedModel:
    """The target with `--hf-overrides`, `--dtype`, `--quantization` and `--max-model-len`."""
    beside.check_runner(args, facts)
    root = apply_hf_overrides(facts.root, args.hf_overrides)
    flags: Mapping[str, Any] = args.additional_flags
    model = describe(
        facts,
        root,
        dtype="",
        quantization=args.quantization,
        model_impl=str(flags.get("model_impl") or "auto"),
        allow_deprecated=bool(flags.get("allow_deprecated_quantization")),
    )
    disabled = disables_sliding_window(args, model.text)
    length = resolve_max_model_len(
        model.text,
        args.max_model_len,
        env=args.env,
        disable_sliding_window=disabled,
        own_length=beside.length_of_files(facts),
    )
    if disabled:
        model = _without_window(model)
    overridden = bool({"dtype", "torch_dtype"} & (args.hf_overrides or {}).keys())
    dtype = resolve_dtype(model.root, model.text, args.dtype, gpu, facts.weight_dtypes, overridden)
    return model._replace(dtype=dtype, max_model_len=length)


def _without_window(model: ResolvedModel) -> ResolvedModel:
    if model_type(model.text) in _NEEDS_WINDOW:
        raise Refused(
            f"--disable-sliding-window: Transformers does not let model type {model_type(model.text)} go without one; "
            "leave the flag out."
        )
    text = model.text.replace(sliding_window=None)
    if model.text is model.root:
        return model._replace(root=text, text=text)
    return model._replace(root=replace_text(model.root, text), text=text)


def disables_sliding_window(args: EngineArgs, text: Config) -> bool:
    """`--disable-sliding-window`, or a config that switches its window off with 0."""
    return bool(args.additional_flags.get("disable_sliding_window")) or text.get("sliding_window") == 0
