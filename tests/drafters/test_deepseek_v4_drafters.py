"""DeepSeek-V4's MTP modules and DSpark stages: window caches that lie beside the target's in one packed block.

Expected rows: what vLLM 0.33.0 plans for the same configs and options.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from sparse_draft_case import draft_rows

from kvplan.errors import KvplanError

CONFIG = {
    "architectures": ["DeepseekV4ForCausalLM"],
    "model_type": "deepseek_v4",
    "torch_dtype": "bfloat16",
    "num_hidden_layers": 43,
    "compress_ratios": [0, 0, *[4, 128] * 20, 4, 0],
    "max_position_embeddings": 1048576,
    "num_nextn_predict_layers": 1,
}
DSPARK = {
    **CONFIG,
    "dspark_block_size": 5,
    "dspark_noise_token_id": 128799,
    "dspark_target_layer_ids": [40, 41, 42],
    "dspark_markov_rank": 256,
}
FLASHINFER = "FLASHINFER_MLA_SPARSE_DSV4"


def window(index: int, page: int = 37440) -> tuple[str, str, int, int]:
    return (f"model.layers.{index}.attn.swa_cache", "sliding_window_mla", 64, page)


def test_an_mtp_module_keeps_a_window(tmp_path: Path) -> None:
    found = draft_rows(tmp_path, CONFIG, "H200", speculative={"method": "mtp", "num_speculative_tokens": 3})
    assert found == [window(43)]


def test_two_mtp_modules_keep_two(tmp_path: Path) -> None:
    config = {**CONFIG, "num_nextn_predict_layers": 2}
    found = draft_rows(tmp_path, config, "B200", speculative={"method": "mtp", "num_speculative_tokens": 2})
    assert found == [window(43), window(44)]


def test_dspark_has_three_stages(tmp_path: Path) -> None:
    found = draft_rows(tmp_path, DSPARK, "B200", speculative={"method": "dspark", "num_speculative_tokens": 5})
    assert found == [window(43), window(44), window(45)]


def test_a_drafter_of_flashinfer_stores_plain_fp8(tmp_path: Path) -> None:
    speculative = {"method": "dspark", "num_speculative_tokens": 5}
    options = {"attention_backend": FLASHINFER, "kv_cache_dtype": "fp8"}
    found = draft_rows(tmp_path, DSPARK, "B200", speculative=speculative, **options)
    assert found == [window(i, 32768) for i in (43, 44, 45)]


@pytest.mark.parametrize(
    "speculative",
    [
        {"method": "mtp", "num_speculative_tokens": 1, "attention_backend": FLASHINFER},
        {"method": "dspark", "num_speculative_tokens": 5, "kv_cache_dtype": "bfloat16"},
    ],
)
def test_two_formats_of_latents_in_one_run_are_refused(tmp_path: Path, speculative: dict[str, object]) -> None:
    with pytest.raises(KvplanError, match=r"\.$"):
        draft_rows(tmp_path, DSPARK, "B200", speculative=speculative)
