"""The model's head size as the engine's rules read it (vllm/transformers_utils/model_arch_config_convertor.py).

It is one number for the whole model; what each layer caches is the family's to say.
"""

from __future__ import annotations

from kvplan.engine.facts import compress_ratios, count, is_deepseek_mla, model_type, num_attention_heads, widest
from kvplan.hf.config import Config


def head_size(root: Config, text: Config) -> int:
    """`get_head_size`: elements of one head; of the latent and its rotary part with MLA; 0 without attention."""
    kind = model_type(root)
    if kind in ("mamba", "falcon_mamba"):
        return 0
    if kind == "zamba2":
        return count(text, "attention_head_dim")
    if is_deepseek_mla(text):
        if compress_ratios(text):
            return text.integer("head_dim")
        return text.integer("kv_lora_rank") + count(text, "qk_rope_head_dim")
    if size := widest(text, "head_dim"):
        return size
    if own := text.optional_integer("hidden_size_per_head"):
        return own
    heads = num_attention_heads(text)
    return count(text, "hidden_size") // heads if heads else 0
