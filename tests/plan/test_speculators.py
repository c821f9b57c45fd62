"""Serving a drafter in the speculators format is serving its target with it (vllm/transformers_utils/config.py)."""

from __future__ import annotations

import json

from kvplan import EngineArgs, PlanRequest, plan

DRAFTER = {
    "architectures": ["Eagle3Speculator"],
    "draft_vocab_size": 32000,
    "speculators_model_type": "eagle3",
    "speculators_config": {
        "algorithm": "eagle3",
        "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 3}],
        "verifier": {"architectures": ["Qwen3ForCausalLM"], "name_or_path": "Qwen/Qwen3-8B"},
    },
    "dtype": "bfloat16",
    "transformer_layer_config": {
        "model_type": "llama",
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "intermediate_size": 12288,
        "head_dim": 128,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_hidden_layers": 1,
        "num_key_value_heads": 8,
        "vocab_size": 151936,
        "max_position_embeddings": 40960,
    },
}


def test_a_speculators_drafter_as_the_model_plans_its_target_with_it(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(DRAFTER))
    served = plan(PlanRequest(EngineArgs(model=str(tmp_path)), gpu="H200", offline=True))
    options = {"model": str(tmp_path), "method": "eagle3", "num_speculative_tokens": 3}
    named = plan(PlanRequest(EngineArgs(model="Qwen/Qwen3-8B", speculative_config=options), gpu="H200", offline=True))
    assert served.model.id == "Qwen/Qwen3-8B"
    assert served.drafter.num_speculative_tokens == 3
    assert len(served.layers) == 37
    assert (served.plans, served.layers) == (named.plans, named.layers)
