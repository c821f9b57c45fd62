"""The bundled configs: every one says where its numbers come from, and none holds more than a config."""

from __future__ import annotations

import json
import os
from hashlib import sha256
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
    assert set(facts) <= {"source", "how", "lacks", "tensor_bytes", "folded", "files"}
    assert facts["source"].startswith("https://")
    assert facts["how"]
    assert set(facts.get("lacks", ())) <= {"quantization", "params.json"}


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


QUANTISED = ("fp8", "nvfp4", "mxfp4", "awq", "gptq", "int4", "int8", "w4a16", "w8a8")


@pytest.mark.parametrize("id", [id for id in IDS if any(mark in id.lower() for mark in QUANTISED)])
def test_an_id_that_names_a_quantisation_has_a_scheme_or_says_that_it_lacks_one(id: str) -> None:
    source = resolve(id, offline=True)
    schemes = (source.config.get("quantization_config"), source.file("hf_quant_config.json"))
    known = any(scheme is not None for scheme in schemes)
    assert source.lacks_quantization is not known


def test_the_checkpoints_whose_quantisation_is_not_known_are_these() -> None:
    assert [id for id in IDS if resolve(id, offline=True).lacks_quantization] == [
        "mistralai/Mistral-Small-4-119B-2603",
        "nvidia/Llama-3.1-70B-Instruct-FP8",
        "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8",
        "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-FP8",
        "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8",
    ]


def test_what_a_file_lacks_is_told_with_every_plan_of_it() -> None:
    (note,) = resolve("nvidia/Llama-3.1-70B-Instruct-FP8", offline=True).notes
    assert note.startswith(
        "nvidia/Llama-3.1-70B-Instruct-FP8 (bundled): this copy of the config lacks the checkpoint's"
    )
    assert "--kv-cache-dtype" in note
    (note,) = resolve("mistralai/Mistral-Nemo-Instruct-2407", offline=True).notes
    assert "params.json" in note
    assert resolve("nvidia/Qwen3-235B-A22B-NVFP4", offline=True).notes == ()


def test_a_file_beside_a_bundled_config_is_the_published_one_to_the_byte() -> None:
    found = resolve("nvidia/Qwen3-235B-A22B-NVFP4", offline=True).file("hf_quant_config.json")
    text = json.dumps(found, indent=4)
    assert sha256(text.encode()).hexdigest() == "6423e9dd81773597a783e1109ffeb8d8b6a30a85c0eb4e503524a4fdf5f7f98b"
