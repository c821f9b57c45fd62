"""Which of vLLM's model classes runs a checkpoint.

Source: vllm/model_executor/models/registry.py (`inspect_model_cls`, `_normalize_arch`, `_try_resolve_transformers`),
vllm/config/model.py (`_get_transformers_backend_cls`) and the convertors of
vllm/transformers_utils/model_arch_config_convertor.py that rename an architecture.
"""

from __future__ import annotations

from kvplan.engine import registry
from kvplan.engine.facts import architectures, count, model_type, num_experts
from kvplan.engine.overrides import without
from kvplan.errors import Refused
from kvplan.hf.config import Config

_GENERATION_SUFFIXES = ("ForCausalLM", "ForConditionalGeneration", "ChatModel", "LMHeadModel")
_BASE_SUFFIXES = (*_GENERATION_SUFFIXES, "ForTextEncoding", "EmbeddingModel", "Model")


def converted(root: Config) -> Config:
    """The config after vLLM has renamed its architecture and dropped fields that its model classes do not mean."""
    kind = model_type(root)
    if kind == "deepseek_v4" and count(root, "vision_n_layers") and architectures(root) == ["DeepseekV4ForCausalLM"]:
        return root.replace(architectures=["DeepseekV4ForConditionalGeneration"])
    if kind in ("mimo_v2", "mimo_v2_flash"):
        if root.get("vision_config"):
            root = root.replace(architectures=["MiMoV2OmniForCausalLM"])
        return without(root, "attention_chunk_size")
    return root


def choose_architecture(root: Config, text: Config, model_impl: str = "auto") -> tuple[str, str]:
    """vLLM's class for the config and its flags (see `kvplan.engine.registry`).

    A drafter's own class counts too. Refused where vLLM has no class, no longer has it, or where it does not generate.
    """
    names = architectures(root)
    if not names:
        raise Refused(
            f"{root.where} names no architectures; add "
            '--hf-overrides \'{"architectures": ["..."]}\' with the class that the checkpoint was saved from.'
        )
    if model_impl == "transformers" and names[0].startswith("Transformers"):
        return names[0], "m" if root is not text else ""
    if model_impl == "transformers" and names[0] in registry.TRANSFORMERS_BACKEND:
        return _transformers_class(root, text), "m" if root is not text else ""
    if model_impl not in ("auto", "vllm"):
        raise Refused(f"--model-impl {model_impl} is not one that kvplan can plan; use auto or vllm.")
    wrapped = names[0] in registry.TRANSFORMERS_BACKEND and not any(map(_is_registered, names))
    if model_impl == "auto" and wrapped:
        return _transformers_class(root, text), "m" if root is not text else ""
    for name in names:
        base = _known_form(name)
        if base is None:
            continue
        if base in registry.POOLING:
            raise Refused(f"architecture {name} embeds or classifies; kvplan plans text generation only.")
        flags = registry.GENERATION.get(base, registry.DRAFTERS.get(base, ""))
        if "?" in flags:
            raise Refused(f"architecture {name} needs packages that vLLM does not install; kvplan does not plan it.")
        return name, flags
    raise _unsupported(names)


def _is_registered(name: str) -> bool:
    return name in registry.GENERATION or name in registry.DRAFTERS or name in registry.POOLING


def _known_form(name: str) -> str | None:
    """The registered class for a name: itself, or the one that differs in its suffix only."""
    if _is_registered(name):
        return name
    suffix = next((s for s in _GENERATION_SUFFIXES if name.endswith(s)), None)
    if suffix is None:
        return None
    forms = (name.replace(suffix, other) for other in _BASE_SUFFIXES)
    return next((form for form in forms if form in registry.GENERATION or form in registry.POOLING), None)


def _transformers_class(root: Config, text: Config) -> str:
    multimodal = "MultiModal" if root is not text else ""
    moe = "MoE" if num_experts(text) > 0 else ""
    return f"Transformers{multimodal}{moe}ForCausalLM"


def _unsupported(names: list[str]) -> Refused:
    for name in names:
        if name in registry.REMOVED:
            return Refused(
                f"vLLM supported architecture {name} until v{registry.REMOVED[name]} only; use that version."
            )
        if name in registry.PLUGINS:
            return Refused(
                f"vLLM 0.33.0 runs architecture {name} through a plugin package only; kvplan cannot judge it."
            )
    return Refused(f"vLLM 0.33.0 has no model class for architecture {', '.join(names)}.")
