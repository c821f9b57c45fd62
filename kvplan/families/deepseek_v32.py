"""DeepSeek-V3.2 and GLM-5: sparse MLA, fed by an indexer with a cache of its own (vLLM: models/deepseek_v32)."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.families.common import check_latent_rotary, num_layers
from kvplan.families.sparse_mla import sparse_layers
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM")

_WHY = ("index_topk, kv_lora_rank", "models/deepseek_v32/attention.py, DeepseekV32Attention")


def layers(model: Model) -> Iterator[Layer]:
    check_latent_rotary(model.config)
    return sparse_layers(model, "model", 0, num_layers(model.config), _WHY)
