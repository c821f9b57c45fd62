"""Weights against safetensors headers: what a rank holds of each checkpoint, to the byte."""

from __future__ import annotations

import json

import pytest
import tiny

from kvplan.commands.deployment import Choices, request
from kvplan.errors import KvplanError, Refused
from kvplan.inputs import read
from kvplan.pipeline import plan_read
from kvplan.weights.checkpoint import checkpoint_of, header
from kvplan.weights.checks import derived

EVERY = {name: rest for name, *rest in tiny.every()}


def found(folder, *flags, gpu="H200"):
    wanted = request([str(folder), "--max-model-len", "4096", *flags], Choices(gpu=gpu, offline=True), {})
    args, inputs = read(wanted.args, offline=True)
    result = plan_read(wanted._replace(args=args), inputs)
    return derived(result.config, inputs.target, inputs.drafter), inputs


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
@pytest.mark.parametrize("name", EVERY)
def test_a_rank_holds_its_part_of_the_checkpoint_and_what_vllm_computes(tmp_path, name, ranks):
    settings, layout, axes, plain = EVERY[name]
    checkpoint = tiny.tensors(layout, plain)
    tiny.write(tmp_path, tiny.config(settings, "float16" if plain == "F16" else "bfloat16"), checkpoint, files=2)
    weights, _ = found(tmp_path, "-tp", str(ranks))
    expected = tiny.shard_bytes(checkpoint, ranks, axes) + tiny.buffers(tiny.CACHE_PARAMETERS.get(name, 0))
    (stage,) = weights.stages
    assert sum(tensor.bytes for tensor in stage.target) == expected
    assert weights.confirmed_by == "the safetensors headers"


def test_what_the_headers_do_not_confirm_is_only_derived(tmp_path):
    settings, layout, _, plain = EVERY["bf16"]
    checkpoint = tiny.tensors(layout, plain)
    checkpoint["model.layers.2.eh_proj.weight"] = ("BF16", (8, 8))
    tiny.write(tmp_path, tiny.config(settings), checkpoint)
    weights = found(tmp_path)[0]
    assert weights.confirmed_by is None
    assert weights.contradiction == "by the safetensors headers, the checkpoint has 128 bytes more than these load"


def test_scales_of_the_cache_are_no_part_of_the_weights_that_the_headers_confirm(tmp_path):
    settings, layout, _, plain = EVERY["NVFP4 of ModelOpt"]
    checkpoint = tiny.tensors(layout, plain)
    for i in range(tiny.LAYERS):
        checkpoint |= {f"model.layers.{i}.self_attn.{x}_proj.{x}_scale": ("F32", ()) for x in "kv"}
    scheme = {**settings, "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"}}
    tiny.write(tmp_path, tiny.config(scheme), checkpoint)
    assert found(tmp_path)[0].confirmed_by == "the safetensors headers"


def test_a_head_that_the_checkpoint_brings_is_not_tied(tmp_path):
    """vLLM loads it, whatever tie_word_embeddings says, and compares it with the embedding afterwards."""
    settings, layout, axes, plain = EVERY["bf16"]
    checkpoint = tiny.tensors(layout, plain)
    tiny.write(tmp_path, {**tiny.config(settings), "tie_word_embeddings": True}, checkpoint)
    (stage,) = found(tmp_path)[0].stages
    assert sum(tensor.bytes for tensor in stage.target) == tiny.shard_bytes(checkpoint, 1, axes) + tiny.buffers(0)
    del checkpoint["lm_head.weight"]
    tiny.write(tmp_path, {**tiny.config(settings), "tie_word_embeddings": True}, checkpoint)
    weights = found(tmp_path)[0]
    assert sum(t.bytes for t in weights.stages[0].target) == tiny.shard_bytes(checkpoint, 1, axes) + tiny.buffers(0)
    assert weights.confirmed_by == "the safetensors headers"


def test_weights_of_a_bundled_config_that_lacks_its_checkpoints_scheme_are_refused_by_name():
    name = "nvidia/Llama-3.1-70B-Instruct-FP8"
    with pytest.raises(Refused, match=rf"^{name} \(bundled\): .* lacks the checkpoint's quantisation.*--weights-bytes"):
        found(name)
    scheme = {"quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"]}}
    (stage,) = found(name, "--hf-overrides", json.dumps(scheme))[0].stages
    assert sum(tensor.bytes for tensor in stage.target if tensor.dtype == "float8_e4m3fn") == 80 * 855638016


def test_the_index_alone_confirms_where_the_files_are_not_there(tmp_path):
    settings, layout, _, plain = EVERY["bf16"]
    tiny.write(tmp_path, tiny.config(settings), tiny.tensors(layout, plain), files=2)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    weights, inputs = found(tmp_path)
    assert checkpoint_of(inputs.target).entries == {}
    assert weights.confirmed_by == "model.safetensors.index.json"


def test_a_second_copy_in_mistrals_format_does_not_count(tmp_path):
    settings, layout, _, plain = EVERY["bf16"]
    tiny.write(tmp_path, tiny.config(settings), tiny.tensors(layout, plain))
    (tmp_path / "consolidated.safetensors").write_bytes((tmp_path / "model.safetensors").read_bytes())
    assert found(tmp_path)[0].confirmed_by == "the safetensors headers"


@pytest.mark.parametrize("name", ["AWQ", "GPTQ"])
def test_layers_that_the_checkpoint_leaves_alone_are_found_in_its_headers(tmp_path, name):
    """auto_awq.py and auto_gptq.py read the headers where the settings do not name such layers."""
    settings, layout, axes, plain = EVERY[name]
    checkpoint = tiny.tensors(layout, plain)
    for i in range(tiny.LAYERS):
        matrix = f"model.layers.{i}.mlp.down_proj"
        for tensor in [key for key in checkpoint if key.startswith(matrix)]:
            del checkpoint[tensor]
        checkpoint[f"{matrix}.weight"] = ("F16", tiny.OUTPUTS["down_proj"])
    tiny.write(tmp_path, tiny.config(settings, "float16"), checkpoint)
    weights, _ = found(tmp_path, "-tp", "2")
    expected = tiny.shard_bytes(checkpoint, 2, {**axes, "weight": 0}) + tiny.buffers()
    assert sum(tensor.bytes for tensor in weights.stages[0].target) == expected
    assert weights.confirmed_by == "the safetensors headers"


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda data: data[:1], "no length of a safetensors header"),
        (lambda data: (2**62).to_bytes(8, "little") + data[8:], "no length of a safetensors header"),
        (lambda data: data[:100], "ends inside its header"),
        (lambda data: data[:-1], "is not complete"),
        (lambda data: data[:8] + b"[" + data[9:], "model.safetensors"),
        (lambda data: data.replace(b'"BF16"', b'"B17"'.ljust(6)), "is no tensor that kvplan knows"),
        (lambda data: data.replace(b"[512]", b"[-12]"), "is no tensor that kvplan knows"),
        (lambda data: data.replace(b"[512, 512]", b"[9e9, 512]"), "is no tensor that kvplan knows"),
    ],
)
def test_damaged_files_are_one_sentence(tmp_path, damage, sentence):
    settings, layout, _, plain = EVERY["bf16"]
    tiny.write(tmp_path, tiny.config(settings), tiny.tensors(layout, plain))
    path = tmp_path / "model.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(KvplanError, match=sentence) as raised:
        header(str(path))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ([0, 8], "lies at 0 to 8, where 4 bytes at 4 are expected"),
        ([4, 9], "lies at 4 to 9"),
        ([5, 9], "lies at 5 to 9"),
        ([-4, 0], "lies at -4 to 0"),
        ([0, 4], "lies at 0 to 4, where 4 bytes at 4 are expected"),
        ([4, 2**70], "lies at 4 to"),
        ([4], "two whole numbers"),
        ([4.0, 8.0], "two whole numbers"),
        (None, "two whole numbers"),
        ("48", "two whole numbers"),
    ],
)
def test_tensors_that_overlap_or_leave_holes_are_one_sentence(tmp_path, place, sentence):
    entries = {
        "a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]},
        "b": {"dtype": "BF16", "shape": [2], "data_offsets": place},
    }
    text = json.dumps(entries).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    with pytest.raises(KvplanError, match=sentence) as raised:
        header(str(path))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("total", ["1e999", "-1", "true", "NaN", '"12"', "1" + "0" * 30])
def test_a_total_that_is_no_size_is_not_used(tmp_path, total):
    settings, layout, _, plain = EVERY["bf16"]
    tiny.write(tmp_path, tiny.config(settings), tiny.tensors(layout, plain), files=2)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    (tmp_path / "model.safetensors.index.json").write_text(
        f'{{"metadata": {{"total_size": {total}}}, "weight_map": {{"a": "model-00002-of-00002.safetensors"}}}}'
    )
    assert found(tmp_path)[0].confirmed_by is None


def test_a_name_in_the_index_cannot_leave_the_folder(tmp_path):
    settings, layout, _, plain = EVERY["bf16"]
    tiny.write(tmp_path, tiny.config(settings), tiny.tensors(layout, plain))
    index = {"metadata": {"total_size": 1}, "weight_map": {"a": "../../etc/passwd"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    _, inputs = found(tmp_path)
    assert checkpoint_of(inputs.target).total_bytes == 1
