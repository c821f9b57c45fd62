"""Hidden states of chosen target layers, kept in one cache-only layer and never drafted with.

vLLM: model_executor/models/extract_hidden_states.py (CacheOnlyAttentionLayer).
"""

from __future__ import annotations

from kvplan.blocks import BlockSizes
from kvplan.drafters.common import target_config
from kvplan.errors import Refused
from kvplan.layers import CustomLayer
from kvplan.model import Model
from kvplan.spec import HIDDEN_STATE, AttentionSpec

ARCHITECTURES = ("ExtractHiddenStatesModel",)

_IDS = "eagle_aux_hidden_state_layer_ids"
_WHY = (_IDS, "model_executor/models/extract_hidden_states.py, CacheOnlyAttentionLayer")


def layers(model: Model) -> list[CustomLayer]:
    """One state of the target's width per chosen layer and token, in the model's dtype whatever the KV cache's is."""
    ids = model.root.get(_IDS)
    if not isinstance(ids, (list, tuple)) or not ids:
        raise Refused(
            f"--speculative-config method extract_hidden_states needs the layers to keep: add {_IDS} to hf_config of "
            "its draft_model_config."
        )
    width, dtype = target_config(model).integer("hidden_size"), model.dtype

    def make_spec(sizes: BlockSizes) -> AttentionSpec:
        return AttentionSpec(
            kind=HIDDEN_STATE,
            block_size=sizes.block_size,
            num_kv_heads=len(ids),
            head_size=width,
            head_size_v=0,
            dtype=dtype,
        )

    return [CustomLayer(f"cache_only_layers.{model.start_layer}", "CACHE_ONLY_ATTN", make_spec, _WHY)]
