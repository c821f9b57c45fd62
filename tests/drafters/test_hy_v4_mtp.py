"""Hy4's MTP modules: each is a sparse layer after the target's, with an indexer of its own.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from sparse_draft_case import draft_rows

from kvplan.errors import KvplanError

CONFIG = {
    "architectures": ["HYV4ForCausalLM"],
    "model_type": "hy_v4",
    "dtype": "bfloat16",
    "num_hidden_layers": 6,
    "layer_types": ["indexed_attention"] * 6,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
}


def module(index: int) -> list[tuple[str, str, int, int]]:
    prefix = f"model.layers.{index}.self_attn"
    return [(f"{prefix}.indexer.k_cache", "mla", 64, 8448), (f"{prefix}.attn", "mla", 64, 73728)]


def test_one_module_by_default(tmp_path: Path) -> None:
    assert draft_rows(tmp_path, CONFIG, "B200", speculative={"method": "mtp", "num_speculative_tokens": 2}) == module(6)


def test_three_modules_each_with_an_indexer(tmp_path: Path) -> None:
    config = {**CONFIG, "num_nextn_predict_layers": 3}
    found = draft_rows(tmp_path, config, "H200", speculative={"method": "mtp", "num_speculative_tokens": 3})
    assert found == module(6) + module(7) + module(8)


def test_modules_attend_densely_where_the_last_layer_does(tmp_path: Path) -> None:
    config = {**CONFIG, "layer_types": ["full_attention"] * 6}
    found = draft_rows(tmp_path, config, "H200", speculative={"method": "mtp", "num_speculative_tokens": 1})
    assert [name for name, *_ in found] == ["model.layers.6.self_attn.attn"]


def test_an_absurd_number_of_modules_is_refused(tmp_path: Path) -> None:
    config = {**CONFIG, "num_nextn_predict_layers": 10**6}
    with pytest.raises(KvplanError, match="num_nextn_predict_layers must be between 0 and 1,024"):
        draft_rows(tmp_path, config, "H200", speculative={"method": "mtp", "num_speculative_tokens": 1})
