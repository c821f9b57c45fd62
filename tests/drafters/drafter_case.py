"""A deployment with a drafter that a test writes out, and what the drafter's layers cache as plain rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvplan.engine.args import EngineArgs
from kvplan.pipeline import PlanRequest, plan
from kvplan.result import Result
from kvplan.sources import bundled
from kvplan.spec import AttentionSpec

Row = tuple[str, int, str, int, int, int, int, int | None, str]
"""Kind, layers, name of the first, KV heads, head size, block (tokens), page bytes, window or chunk, backend."""
Model = str | Mapping[str, Any]
"""The id of a bundled config, or a config to write out."""

LLAMA_DRAFTER: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "dtype": "bfloat16",
    "hidden_size": 4096,
    "num_hidden_layers": 1,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 2048,
    "vocab_size": 128256,
}
"""An EAGLE or EAGLE3 drafter of Llama 3.1 8B."""

DFLASH: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "dtype": "bfloat16",
    "hidden_size": 4096,
    "num_hidden_layers": 5,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40960,
    "vocab_size": 151936,
    "layer_types": ["full_attention"] * 5,
    "dflash_config": {"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]},
}
"""A DFlash drafter of Qwen3 8B."""


def changed(id: str, **keys: Any) -> dict[str, Any]:
    """A bundled config with other values; None drops a key."""
    source = bundled.find(id)
    assert source is not None
    return {key: value for key, value in {**source.config, **keys}.items() if value is not None}


def written(folder: Path, name: str, model: Model) -> str:
    """The id, or the path of the config written out."""
    if isinstance(model, str):
        return model
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "config.json").write_text(json.dumps(model), encoding="utf-8")
    return str(folder / name)


def planned(
    folder: Path,
    target: Model,
    drafter: Model | None,
    method: str | None,
    tokens: int | None,
    *,
    gpu: str = "H200",
    speculative: Mapping[str, Any] | None = None,
    **options: Any,
) -> Result:
    """The plan of a target with a drafter under vLLM's options; ``speculative``: further keys of its config."""
    keys = {"method": method, "num_speculative_tokens": tokens, **(speculative or {})}
    if drafter is not None:
        keys["model"] = written(folder, "draft", drafter)
    config = {key: value for key, value in keys.items() if value is not None}
    args = EngineArgs(written(folder, "target", target), speculative_config=config, **options)
    return plan(PlanRequest(args, gpu=gpu, offline=True))


def drafted(
    folder: Path, target: Model, drafter: Model | None, method: str | None, tokens: int | None, **options: Any
) -> list[Row]:
    """The drafter's layers, those with equal specs as one row, in the order of their first layer."""
    found: dict[tuple[Any, ...], list[str]] = {}
    for layer in planned(folder, target, drafter, method, tokens, **options).layers:
        spec = layer.spec
        if layer.owner != "drafter" or not isinstance(spec, AttentionSpec):
            continue
        local = spec.attention_chunk_size if spec.sliding_window is None else spec.sliding_window
        sizes = (spec.num_kv_heads, spec.head_size, spec.block_size, spec.page_size_bytes)
        found.setdefault((spec.kind, *sizes, local, layer.backend), []).append(layer.name)
    return [(key[0], len(names), names[0], *key[1:]) for key, names in found.items()]


V1 = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
