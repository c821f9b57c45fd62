"""The bundled configs: every one says where its numbers come from, and none holds more than a config."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kvplan.sources import bundled, resolve

IDS = bundled.ids()
DRAFTER_MARKS = ("Eagle", "EAGLE", "DFlash", "DSpark", "eagle")


def is_drafter(id: str) -> bool:
    config = resolve(id, offline=True).config
    return any(mark in name for mark in DRAFTER_MARKS for name in (id, *config.get("architectures", [])))


@pytest.mark.parametrize("id", IDS)
def test_each_file_names_the_source_of_its_numbers(id: str) -> None:
    facts = resolve(id, offline=True).facts
    assert set(facts) <= {"source", "how", "tensor_bytes", "folded", "files"}
    assert facts["source"].startswith("https://")
    assert facts["how"]


@pytest.mark.parametrize("id", IDS)
def test_each_file_is_a_small_config_of_one_architecture(id: str) -> None:
    path = os.path.join(bundled.folder(), id.replace("/", "__") + ".json")
    assert os.path.getsize(path) < 40_000
    config = resolve(id, offline=True).config
    assert len(config["architectures"]) == 1
    assert isinstance(config.get("model_type"), str) or "speculators_config" in config


def test_at_least_sixty_targets_and_thirty_drafters_are_bundled() -> None:
    drafters = [id for id in IDS if is_drafter(id)]
    assert len(drafters) >= 30
    assert len(IDS) - len(drafters) >= 60


def test_the_models_of_the_known_results_are_bundled() -> None:
    assert {
        "AngelSlim/Qwen3-8B_eagle3",
        "Qwen/Qwen3-8B",
        "Qwen/Qwen3.6-35B-A3B",
        "Qwen/Qwen3.6-35B-A3B-FP8",
        "XiaomiMiMo/MiMo-V2.5",
        "XiaomiMiMo/MiMo-V2.5-DFlash",
        "XiaomiMiMo/MiMo-V2.6-Flash-RL",
        "XiaomiMiMo/MiMo-V2.6-Flash-RL-DFlash",
        "z-lab/Qwen3.6-35B-A3B-DFlash",
        "zai-org/GLM-4.7-Flash",
        "zai-org/GLM-5.3-Flash",
    } <= set(IDS)


def test_every_file_in_the_directory_is_found_under_its_id() -> None:
    files = {path.name for path in Path(bundled.folder()).iterdir()}
    assert files == {id.replace("/", "__") + ".json" for id in IDS}


def test_the_files_are_written_in_one_form() -> None:
    for id in IDS:
        text = Path(bundled.folder(), id.replace("/", "__") + ".json").read_text(encoding="utf-8")
        assert list(json.loads(text))[:2] == ["kvplan", "architectures"]
        assert text.endswith("}\n")
