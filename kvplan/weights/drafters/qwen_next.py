"""The prediction modules of Qwen3-Next and Qwen3.5: gated attention layers behind a projection.

vLLM: model_executor/models/qwen3_next_mtp.py, qwen3_5_mtp.py.
"""

from __future__ import annotations

from kvplan.drafters.common import target_config
from kvplan.weights.builder import Builder
from kvplan.weights.models.llama import two_norms
from kvplan.weights.models.qwen_next import feed_forward, gated_attention
from kvplan.weights.own import Own

ARCHITECTURES = ("Qwen3NextMTP", "Qwen3_5MTP", "Qwen3_5MoeMTP")
OWN_SCHEME = False


def weights(b: Builder, own: Own) -> None:
    config = target_config(b.model)
    b.config = config
    next_ = b.model.architecture == "Qwen3NextMTP"
    size = config.integer("hidden_size")
    key = "num_nextn_predict_layers" if next_ else "mtp_num_hidden_layers"
    b.column("mtp.fc", 2 * size, size, quantized=b.model.engine.quantization != "modelopt_fp4")
    for i in range(config.integer(key, 1)):
        prefix = f"mtp.layers.{i}"
        gated_attention(b, f"{prefix}.self_attn")
        feed_forward(b, f"{prefix}.mlp", i)
        two_norms(b, prefix)
    for name in ("norm", "pre_fc_norm_hidden", "pre_fc_norm_embedding"):
        b.norm(f"mtp.{name}", size)
    own.add(b, config.integer("vocab_size"))
