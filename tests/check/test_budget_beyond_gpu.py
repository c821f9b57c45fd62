"""A budget that no GPU of the deployment has holds its limits, and is said."""

from __future__ import annotations

import json
from pathlib import Path

from kvplan.commands.check import run

FLEET = """\
defaults: {gpu: L4, max_model_len: 4096}
deployments:
  - {name: given, model: Qwen/Qwen3-8B, kv_cache_memory: 60GiB, limits: {min_tokens: 1000}}
  - {name: override, model: Qwen/Qwen3-8B, num_gpu_blocks_override: 20000, limits: {min_tokens: 1000}}
  - {name: possible, model: Qwen/Qwen3-8B, kv_cache_memory: 20GiB, limits: {min_tokens: 1000}}
"""


def test_a_pool_that_the_gpu_cannot_hold_is_a_note(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET)
    assert run(str(path), offline=True, update=True).exit_code == 0
    outcome = run(str(path), offline=True, format="json")
    assert outcome.exit_code == 0
    assert json.loads(outcome.text)["notes"] == [
        "given, override: the KV cache alone is more than the 22.03 GiB that one L4 has for CUDA; vLLM takes such a "
        "budget, and runs out of memory as it allocates it."
    ]
