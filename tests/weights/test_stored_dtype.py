"""A config without a dtype is planned in the one that vLLM takes from the checkpoint's tensors.

Expectations are those of vLLM 0.33.0 on the same directories.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvplan.errors import KvplanError, Refused
from kvplan.pipeline import PlanRequest, plan
from kvplan.request import read_words
from kvplan.result import Result

SMALL = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 4096,
    "vocab_size": 1024,
}
BYTES = {"BOOL": 1, "U8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "F16": 2, "BF16": 2}
BYTES |= {"F32": 4, "I32": 4, "F64": 8, "I64": 8, "C64": 8}


def write(folder: Path, dtypes: list[str], name: str = "model.safetensors", **config: object) -> None:
    (folder / "config.json").write_text(json.dumps({**SMALL, **config}))
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for i, dtype in enumerate(dtypes):
        start, end = end, end + 2 * BYTES[dtype]
        header[f"tensor{i}"] = {"dtype": dtype, "shape": [2], "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    (folder / name).write_bytes(len(text).to_bytes(8, "little") + text + bytes(end))


def planned(folder: Path, *flags: str) -> Result:
    return plan(PlanRequest(read_words([str(folder), *flags], {}), gpu="H200", offline=True))


@pytest.mark.parametrize(
    ("dtypes", "dtype"),
    [
        (["F16"], "float16"),
        (["BF16"], "bfloat16"),
        (["F16", "F32"], "bfloat16"),
        (["I32", "F16"], "float16"),
        (["U8", "F8_E4M3", "F16"], "float16"),
        (["F8_E5M2", "F16"], "float16"),
        (["F8_E8M0", "F16"], "float16"),
        (["F8_E4M3"], "bfloat16"),
        (["F16", "F64"], "bfloat16"),
        (["F16", "BF16", "F32"], "bfloat16"),
        (["F16", "C64"], "bfloat16"),
        (["I64"], "bfloat16"),
    ],
)
def test_the_dtype_that_holds_most_of_the_others_counts(tmp_path: Path, dtypes: list[str], dtype: str) -> None:
    write(tmp_path, dtypes)
    found = planned(tmp_path)
    assert (found.config.dtype, found.notes) == (dtype, ())


def test_every_safetensors_file_of_the_directory_counts(tmp_path: Path) -> None:
    write(tmp_path, ["F16"], "model-00001-of-00002.safetensors")
    write(tmp_path, ["F32"], "model-00002-of-00002.safetensors")
    assert planned(tmp_path).config.dtype == "bfloat16"


def test_a_draw_is_refused_unless_a_flag_decides_it(tmp_path: Path) -> None:
    write(tmp_path, ["F16", "BF16"])
    with pytest.raises(Refused, match="bfloat16 and in float16, of which vLLM takes either; give --dtype"):
        planned(tmp_path)
    assert planned(tmp_path, "--dtype", "half").config.dtype == "float16"


def test_the_config_wins_over_the_tensors(tmp_path: Path) -> None:
    write(tmp_path, ["F16"], dtype="bfloat16")
    assert planned(tmp_path).config.dtype == "bfloat16"


def test_weights_in_another_format_count_as_float32(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    (tmp_path / "pytorch_model.bin").write_bytes(b"PK")
    found = planned(tmp_path)
    assert (found.config.dtype, found.notes) == ("bfloat16", ())


def test_a_config_alone_is_planned_as_vllm_would_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    found = planned(tmp_path)
    assert found.config.dtype == "bfloat16"
    assert "no dtype" in found.notes[0]
    assert "unless the tensors of the checkpoint are float16" in found.notes[0]


def test_a_pointer_in_place_of_the_weights_is_named(tmp_path: Path) -> None:
    write(tmp_path, [])
    (tmp_path / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n")
    with pytest.raises(KvplanError, match=r"model\.safetensors: .*no length of a safetensors header"):
        planned(tmp_path)


def test_a_cached_checkpoint_is_read_only_when_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / "models--owner--small"
    snapshot = repository / "snapshots" / "0abc"
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0abc")
    index = {"weight_map": {"tensor0": "model-1.safetensors", "other": "model-2.safetensors"}}
    write(snapshot, ["F16"], "model-1.safetensors")
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))
    request = PlanRequest(read_words(["owner/small"], {}), gpu="H200", offline=True)
    partial = plan(request)
    assert (partial.config.dtype, len(partial.notes)) == ("bfloat16", 1)
    write(snapshot, ["F16"], "model-2.safetensors")
    whole = plan(request)
    assert (whole.config.dtype, whole.notes) == ("float16", ())
