#!/usr/bin/env python
"""Writes kvplan/hf/defaults.jsonl: the defaults of the config classes that vLLM reads model configs with.

Run it with an environment that has vLLM's release and its transformers installed (vLLM's own config classes replace
those of transformers where vLLM registers one):

    python scripts/hf_defaults.py > kvplan/hf/defaults.jsonl

Only facts are written: names of fields, their default values, the class's aliases of fields, and which class reads a
nested config. One line per model type, so that a change of a release shows as a small diff. What a class computes in
its ``__post_init__`` is not here but in kvplan/hf/rules.py and kvplan/hf/layer_types.py; tests/hf compare both with
the classes themselves.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import importlib
import inspect
import json
import sys
import types
import typing
from typing import Any

NAMES = """
afmoe apertus arcee aria aria_text audioflamingo3 axk1 bamba beam biogpt bitnet bloom chatglm cohere cohere2 cohere2_moe
cohere2_vision cwm deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4 deepseek_v41 ernie4_5 ernie4_5_moe exaone4
exaone4_5 exaone_moe falcon falcon_h1 falcon_mamba flex_olmo gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text
gemma4 gemma4_assistant gemma4_text gemma4_unified gemma4_unified_assistant gemma4_unified_text glm glm4 glm4_moe
glm4_moe_lite glm4v glm4v_moe glm4v_moe_text glm4v_text glm5_next glm5_next_text glm_moe_dsa glm_ocr glm_ocr_text gpt2
gpt_bigcode gpt_neox gpt_oss gptj granite granite_speech granite_swa granitemoe granitemoe_swa granitemoehybrid
granitemoeshared helium hunyuan_v1_dense hunyuan_v1_moe hy_v3 hy_v4 hyperclovax idefics3 internvl jais2 jamba
k3_dspark kimi_k2 kimi_k25 kimi_k3 kimi_linear kimi_vl kolibri1 laguna lfm2 lfm2_moe lfm2_vl llama llama4 llama4_text
llava llava_next llava_next_video llava_onevision longcat_flash mamba mamba2 mellum mimo_v2_flash minicpm3 minimax_m2
minimax_m3_mtp minimax_m3_text minimax_m3_vl ministral ministral3 mistral mistral3 mistral4 mixtral muse_glimmer
muse_glimmer_assistant muse_glimmer_text muse_spark muse_spark_dspark muse_spark_text musespark1x_text nanochat
nemotron nemotron_h olmo olmo2 olmo3 olmo_hybrid olmoe opt phi phi3 phimoe pixtral qwen2 qwen2_5_vl qwen2_5_vl_text
qwen2_audio qwen2_moe qwen2_vl qwen2_vl_text qwen3 qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen3_moe
qwen3_next qwen3_vl qwen3_vl_moe qwen3_vl_moe_text qwen3_vl_text qwen4_exp qwen4_exp_text RefinedWeb RefinedWebModel
seed_oss smollm3 smolvlm solar_open stablelm starcoder2 step3_text step3p5 vaultgemma whisper youtu zamba2
"""
MODEL_TYPES = NAMES.split()

# Nothing of these bears on a cache, a length, a data type or a weight's shape.
IRRELEVANT_PARTS = (
    "initializer",
    "dropout",
    "token_id",
    "token_index",
    "_eps",
    "epsilon",
    "logit",
    "hidden_act",
    "jitter",
)
RELEVANT = {"attn_logit_softcapping"}  # not every attention kernel caps logits
IRRELEVANT = {
    "activation",
    "activation_function",
    "aux_loss_alpha",
    "chunk_size_feed_forward",
    "hidden_activation",
    "id2label",
    "label2id",
    "model_type",
    "output_hidden_states",
    "pretraining_tp",
    "problem_type",
    "return_dict",
    "router_aux_loss_coef",
    "seq_aux",
    "transformers_version",
    "use_cache",
}
ABSENT = object()

# Nested text configs of vLLM's own classes, which build them in their constructors.
OWN_SECTIONS = {
    "kimi_vl": {"text_config": ["deepseek_v2", False, {}]},
    "kimi_k3": {"text_config": ["kimi_linear", False, {}]},
    "minimax_m3_vl": {"text_config": ["minimax_m3_text", False, {}]},
    "muse_spark": {"text_config": ["muse_spark_text", False, {}]},
}


def config_classes() -> tuple[Any, dict[str, Any], str]:
    """Transformers' mapping of model types to classes, vLLM's own registry over it, and where they come from."""
    import transformers

    origin = f"transformers {transformers.__version__}"
    own: dict[str, Any] = {}
    try:
        module = importlib.import_module("vllm.transformers_utils.config")
        vllm = importlib.import_module("vllm")
        registry = module._CONFIG_REGISTRY
        own = {name: registry[name] for name in registry if name in MODEL_TYPES}
        # Classes that vLLM reaches only through another config class.
        own["minimax_m3_text"] = importlib.import_module(
            "vllm.transformers_utils.configs.minimax_m3"
        ).MiniMaxM3TextConfig
        origin = f"vllm {vllm.__version__}, {origin}"
    except ImportError as error:
        print(f"without vLLM's own classes: {error}", file=sys.stderr)
    return transformers.CONFIG_MAPPING, own, origin


def plain(value: Any) -> Any:
    """The value as JSON has it; ABSENT where it is no plain value."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else ABSENT
    if isinstance(value, (list, tuple)):
        items = [plain(item) for item in value]
        return ABSENT if ABSENT in items else items
    if isinstance(value, dict):
        items = {str(key): plain(item) for key, item in value.items()}
        return ABSENT if ABSENT in items.values() else items
    return ABSENT


def relevant(name: str) -> bool:
    if name in RELEVANT:
        return True
    return not (name.startswith("_") or name in IRRELEVANT or any(part in name for part in IRRELEVANT_PARTS))


def signature_defaults(cls: Any) -> dict[str, Any]:
    """Defaults of a class that writes its own ``__init__``: the parameters of it and of its bases' ones."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if "__init__" not in base.__dict__ or base.__module__ == "builtins":
            continue
        for name, parameter in inspect.signature(base.__dict__["__init__"]).parameters.items():
            if parameter.default is not inspect.Parameter.empty:
                found[name] = parameter.default
    return found


KINDS = {int: "i", float: "f", bool: "b", str: "s", list: "l", dict: "o", tuple: "t", type(None): "n"}


def kinds_of(annotation: Any) -> str:
    """The JSON kinds that a field's annotation accepts, a letter each; ``*``: any, as for what strict ignores."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is Any or isinstance(annotation, (str, typing.ForwardRef)):
        return "*"
    if origin in (typing.Union, types.UnionType):
        return "".join(sorted(set("".join(kinds_of(item) for item in arguments))))
    if origin is typing.Literal:
        return "".join(sorted({KINDS[type(item)] for item in arguments}))
    if origin is not None and origin in KINDS:
        return KINDS[origin]
    if origin is collections.abc.Sequence:
        return "l"
    if annotation is None:
        return "n"
    # A class that no JSON value is an instance of (a nested config, a torch dtype, a TypedDict) adds no kind.
    return KINDS.get(annotation, "")


def fields_of(cls: Any) -> dict[str, str]:
    """Every field of the class by the kinds it accepts: {kinds: names}. Constructor parameters accept anything."""
    found: dict[str, list[str]] = {}
    for field in dataclasses.fields(cls):
        kinds = kinds_of(field.type)
        found.setdefault("*" if "*" in kinds else kinds, []).append(field.name)
    if own_init(cls):
        base = {field.name for field in dataclasses.fields(cls)}
        found.setdefault("*", []).extend(name for name in signature_defaults(cls) if name not in base)
    return {kinds: " ".join(sorted(names)) for kinds, names in sorted(found.items())}


def field_defaults(cls: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        if field.default is not dataclasses.MISSING:
            found[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            found[field.name] = field.default_factory()
    return found


def own_init(cls: Any) -> bool:
    return any("__init__" in base.__dict__ and not hasattr(base.__init__, "__wrapped__") for base in cls.__mro__[:2])


def sections_of(cls: Any, model_types: dict[Any, str]) -> dict[str, Any]:
    """Nested configs: {key: [model type of its class, whether the file's own wins, values where the file has none]}."""
    found: dict[str, Any] = {}
    for key, spec in getattr(cls, "sub_configs_defaults", {}).items():
        if any(part in key for part in ("vision", "audio", "encoder", "projector")):
            continue
        fixed = inspect.isclass(spec.config_class) and hasattr(spec.config_class, "model_type")
        model_type = model_types.get(spec.config_class, spec.model_type) if fixed else spec.model_type
        found[key] = [model_type, not fixed, {k: plain(v) for k, v in spec.init_kwargs.items()}]
    return found


def record(model_type: str, cls: Any, origin: str, model_types: dict[Any, str]) -> dict[str, Any]:
    values = field_defaults(cls)
    if own_init(cls):
        values.update(signature_defaults(cls))
    # A field under an alias's name sets the field that the alias stands for, as the class itself does.
    named = {cls.attribute_map.get(name, name): value for name, value in values.items()}
    defaults = {name: plain(value) for name, value in named.items() if relevant(name)}
    sections = OWN_SECTIONS.get(model_type) or sections_of(cls, model_types)
    out = {
        "type": model_type,
        "class": cls.__name__,
        "from": origin,
        "defaults": {k: v for k, v in sorted(defaults.items()) if v is not ABSENT and k not in sections},
    }
    aliases = {k: v for k, v in sorted(cls.attribute_map.items()) if relevant(k)}
    if aliases:
        out["aliases"] = aliases
    if sections:
        out["sections"] = sections
    out["fields"] = fields_of(cls)
    if own_init(cls):
        out["own_init"] = True
    return out


def looked_up(mapping: Any, model_type: str) -> Any:
    """The class of a model type. The mapping is lazy: only subscripting finds what is not loaded yet."""
    try:
        return mapping[model_type]
    except KeyError:
        return None


def main() -> None:
    mapping, own, origin = config_classes()
    model_types = {cls: name for name, cls in own.items()}
    model_types.update({mapping[name]: name for name in MODEL_TYPES if name in mapping and name not in own})
    for model_type in sorted(MODEL_TYPES):
        cls = own.get(model_type) or looked_up(mapping, model_type)
        if cls is None:
            print(f"{model_type}: no config class", file=sys.stderr)
            continue
        source = origin.split(", ")[0] if cls.__module__.startswith("vllm") else origin.split(", ")[-1]
        print(json.dumps(record(model_type, cls, source, model_types)))


if __name__ == "__main__":
    main()
