"""kvplan's reading of a config and that of the class vLLM reads it with are the same, field by field."""

from __future__ import annotations

import hf_classes
import pytest

from kvplan.hf import read
from kvplan.hf.defaults import entry, model_types
from kvplan.hf.reading import PLAIN
from kvplan.sources import bundled, resolve
from kvplan.sources.source import PATH, Source

BUNDLED = [id for id in bundled.ids() if hf_classes.has_class(str(resolve(id, offline=True).config.get("model_type")))]
TYPES = [name for name in model_types() if hf_classes.has_class(name)]
NEEDS_FIELDS = ("gemma4_assistant", "pixtral")
"""Types whose class accepts no empty file, or that no text model has."""


@pytest.mark.parametrize("id", BUNDLED)
def test_both_readings_of_a_bundled_config_agree(id: str) -> None:
    source = resolve(id, offline=True)
    root, text = read(source)
    their_root, their_text = hf_classes.read(dict(source.config))
    assert list(hf_classes.differences(text, their_text)) == []
    assert list(hf_classes.differences(root, their_root)) == []


@pytest.mark.parametrize("model_type", [name for name in TYPES if name not in NEEDS_FIELDS])
def test_both_readings_of_a_file_with_nothing_but_a_type_agree(model_type: str) -> None:
    config = {"model_type": model_type}
    root, text = read(Source("x", PATH, config, "x"))
    their_root, their_text = hf_classes.read(config)
    assert list(hf_classes.differences(text, their_text)) == []
    assert list(hf_classes.differences(root, their_root)) == []


def test_every_bundled_config_is_read_by_a_known_class_or_is_plain() -> None:
    types = {str(resolve(id, offline=True).config.get("model_type")) for id in bundled.ids()}
    unknown = {name for name in types if name not in PLAIN and entry(name) is None}
    assert unknown <= {"None"}


def test_vllms_own_classes_are_in_the_table() -> None:
    own = {name for name in model_types() if str((entry(name) or {})["from"]).startswith("vllm")}
    assert {"kimi_linear", "kimi_k3", "hy_v4", "minimax_m3_vl", "deepseek_v41", "musespark1x_text"} <= own
