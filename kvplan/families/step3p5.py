"""Step 3.5: sliding layers with query heads of their own next to full layers.

vLLM: model_executor/models/step3p5.py (Step3p5DecoderLayer, Step3p5Attention).
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.families.common import attention, check_routed, head_dim, num_layers, require, windows_by_layer_type
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("Step3p5ForCausalLM",)

_WHY = ("layer_types, num_attention_groups", "model_executor/models/step3p5.py, Step3p5DecoderLayer")


def layers(model: Model) -> Iterator[Layer]:
    """The model takes the model-level window away, so a full layer is full whatever sliding_window says."""
    config = model.config
    count = num_layers(config)
    require(config, "use_moe_router_bias", "need_fp32_gate", "norm_expert_weight")
    sparse = config.sequence("mlp_layer_types")
    check_routed(model, lambda i: i < len(sparse) and sparse[i] == "sparse")
    kinds = config.texts("layer_types", length=count)
    full = config.integer("num_attention_heads")
    sliding = config.optional_integer("num_sliding_attention_heads", minimum=0) or full
    for i, window in enumerate(windows_by_layer_type(config, count)):
        yield attention(
            model,
            f"model.layers.{i}.self_attn.attn",
            _WHY,
            num_heads=sliding if kinds[i] == "sliding_attention" else full,
            num_kv_heads=config.integer("num_attention_groups"),
            head_size=head_dim(config),
            sliding_window=window,
        )
