"""What kind of model it is, where that decides defaults: hybrid, MLA, encoder-decoder, prefix-LM.

Source: vllm/config/model.py (`is_hybrid`, `use_mla`, `attn_type`, `is_chunked_prefill_supported`,
`is_prefix_caching_supported`) and `is_mm_prefix_lm` of vllm/transformers_utils/model_arch_config_convertor.py.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.engine import batching
from kvplan.engine.args import EngineArgs, ResolvedModel
from kvplan.engine.facts import is_deepseek_mla, is_encoder_decoder, model_type

FULL_LAYER_TYPES = ("attention", "full_attention")
_MM_PREFIX_TYPES = ("bagel", "gemma3", "molmo2", "moondream3", "paligemma")


class Kind(NamedTuple):
    """The kind of model, and the two scheduler features that default by it."""

    is_hybrid: bool
    has_states: bool
    """Some layers, or all, keep a recurrent state."""
    use_mla: bool
    is_mm_prefix_lm: bool
    chunked_by_flag: bool
    """`--enable-chunked-prefill` as given or by default: what the token budget's default follows."""
    enable_chunked_prefill: bool
    """The same after the scheduler has switched it off for an encoder-decoder model."""
    enable_prefix_caching: bool


def kind_of(args: EngineArgs, model: ResolvedModel) -> Kind:
    """The kind of ``model`` in a deployment with ``args``."""
    is_hybrid = _is_hybrid(model)
    attention_free = "f" in model.flags
    encoder_decoder = is_encoder_decoder(model.root, model.text)
    decoder = not encoder_decoder or is_hybrid
    chunked = decoder or attention_free if args.enable_chunked_prefill is None else args.enable_chunked_prefill
    caching = is_hybrid or not (attention_free or encoder_decoder)
    return Kind(
        is_hybrid=is_hybrid,
        has_states=is_hybrid or attention_free,
        use_mla=_use_mla(model),
        is_mm_prefix_lm=_is_mm_prefix_lm(args, model),
        chunked_by_flag=chunked,
        enable_chunked_prefill=chunked and not encoder_decoder,
        enable_prefix_caching=caching if args.enable_prefix_caching is None else args.enable_prefix_caching,
    )


def _is_hybrid(model: ResolvedModel) -> bool:
    """The class mixes attention with states, and the config really has layers that are not attention."""
    types = model.root.get("layer_types")
    plain = isinstance(types, (list, tuple)) and all(t in FULL_LAYER_TYPES for t in types)
    return "h" in model.flags and not plain


def _use_mla(model: ResolvedModel) -> bool:
    if model.uses_transformers_backend:
        return model.text.get("kv_lora_rank") is not None
    return model.text.truthy("is_causal", True) and is_deepseek_mla(model.text)


def _is_mm_prefix_lm(args: EngineArgs, model: ResolvedModel) -> bool:
    """Whether images attend both ways and the deployment takes any."""
    kind = model_type(model.root)
    if kind == "deepseek_v4":
        found = bool(model.root.get("vision_n_layers"))
    elif kind in ("gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text"):
        found = model.text.get("use_bidirectional_attention") == "vision"
    elif "is_mm_prefix_lm" in model.root:
        found = model.root.truthy("is_mm_prefix_lm")
    else:
        found = kind in _MM_PREFIX_TYPES
    return found and (not model.is_multimodal or batching.takes_multimodal(args, model.root))
