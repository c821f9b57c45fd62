"""What the config classes compute, as literals; and that no file, however broken, gives anything but a sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.errors import KvplanError
from kvplan.hf import Config, Reading, read, read_drafter
from kvplan.hf.defaults import model_types
from kvplan.hf.reading import PLAIN
from kvplan.sources import bundled, resolve
from kvplan.sources.source import PATH, Source

F, S, L, C, X = "full_attention", "sliding_attention", "linear_attention", "chunked_attention", "indexed_attention"


def text(model_type: str, **values: Any) -> Config:
    return reading(model_type, **values).text


def reading(model_type: str, **values: Any) -> Reading:
    return read(Source("x", PATH, {"model_type": model_type, **values}, "config.json"))


@pytest.mark.parametrize(
    ("model_type", "values", "expected"),
    [
        ("qwen3", {"num_hidden_layers": 3}, [F, F, F]),
        ("qwen3", {"num_hidden_layers": 3, "use_sliding_window": True, "max_window_layers": 1}, [F, S, S]),
        ("qwen2_moe", {"num_hidden_layers": 4, "use_sliding_window": True, "max_window_layers": 3}, [S, F, S, F]),
        ("gemma2", {"num_hidden_layers": 3}, [S, F, S]),
        ("gemma3_text", {"num_hidden_layers": 7}, [S, S, S, S, S, F, S]),
        ("gemma3_text", {"num_hidden_layers": 4, "sliding_window_pattern": 2}, [S, F, S, F]),
        ("gemma3n_text", {"num_hidden_layers": 6}, [S, S, S, S, F, S]),
        ("gemma4_text", {"num_hidden_layers": 7}, [S, S, S, S, S, F, F]),
        ("cohere2", {"num_hidden_layers": 5}, [S, S, S, F, S]),
        ("gpt_oss", {"num_hidden_layers": 3}, [S, F, S]),
        ("exaone4", {"num_hidden_layers": 5, "sliding_window": 8, "sliding_window_pattern": 4}, [S, S, S, F, S]),
        ("olmo3", {"num_hidden_layers": 4}, [S, S, S, F]),
        ("llama4_text", {"num_hidden_layers": 5}, [C, C, C, F, C]),
        ("qwen3_next", {"num_hidden_layers": 4}, [L, L, L, F]),
        ("qwen3_5_text", {"num_hidden_layers": 4, "full_attention_interval": 2}, [L, F, L, F]),
        ("qwen4_exp_text", {"num_hidden_layers": 4}, [L, L, L, X]),
        ("olmo_hybrid", {"num_hidden_layers": 4}, [L, L, L, F]),
        ("glm5_next_text", {"num_hidden_layers": 4}, [L, L, L, X]),
        ("glm_moe_dsa", {"num_hidden_layers": 2}, [X, X]),
        ("mimo_v2_flash", {"num_hidden_layers": 7}, [F, S, S, S, S, F, S]),
        ("muse_glimmer_text", {"num_hidden_layers": 6}, [S, F, S, S, S, F]),
        ("lfm2", {"num_hidden_layers": 3, "full_attn_idxs": [1]}, ["conv", F, "conv"]),
        ("smollm3", {"num_hidden_layers": 2}, [F, F]),
        ("nemotron_h", {"hybrid_override_pattern": "M*-E"}, [L, F, "mlp", "moe"]),
        ("afmoe", {"num_hidden_layers": 4, "global_attn_every_n_layers": 2}, [S, F, S, F]),
        ("llama", {"layer_types": ["attention", "mamba"], "num_hidden_layers": 2}, [F, L]),
        ("mistral", {"layer_types": [F, S], "num_hidden_layers": 2}, [F, S]),
    ],
)
def test_layer_types_are_derived_as_the_class_derives_them(
    model_type: str, values: dict[str, Any], expected: list[str]
) -> None:
    assert list(text(model_type, **values).sequence("layer_types")) == expected


@pytest.mark.parametrize(
    ("model_type", "values", "key", "expected"),
    [
        ("qwen3", {"sliding_window": 4096}, "sliding_window", None),
        ("qwen3", {"sliding_window": 4096, "use_sliding_window": True}, "sliding_window", 4096),
        ("qwen2_moe", {"sliding_window": 4096}, "sliding_window", 0),
        ("llama", {"hidden_size": 4096, "num_attention_heads": 32}, "head_dim", 128),
        ("llama", {"num_attention_heads": 16}, "num_key_value_heads", 16),
        ("llama", {"num_attention_heads": 16, "num_key_value_heads": 2}, "num_key_value_heads", 2),
        ("gemma3_text", {"sliding_window": 1024, "use_bidirectional_attention": True}, "sliding_window", 513),
        ("deepseek_v3", {}, "qk_head_dim", 192),
        ("deepseek_v3", {"num_nextn_predict_layers": 3}, "num_mtp_layers", 3),
        ("glm4_moe_lite", {"qk_rope_head_dim": 64, "qk_nope_head_dim": 192}, "head_dim", 64),
        ("glm4_moe_lite", {"qk_rope_head_dim": 64, "qk_nope_head_dim": 192, "head_dim": 192}, "qk_rope_head_dim", 64),
        ("gpt2", {"n_layer": 24}, "num_hidden_layers", 24),
        ("gpt2", {"n_positions": 2048}, "max_position_embeddings", 2048),
        ("bloom", {"n_head": 16}, "num_attention_heads", 16),
        ("falcon", {"hidden_size": 4544, "num_attention_heads": 71}, "head_dim", 64),
        ("longcat_flash", {"num_layers": 28}, "num_hidden_layers", 56),
        ("nemotron_h", {"hybrid_override_pattern": "MM*", "num_hidden_layers": 99}, "num_hidden_layers", 3),
        ("falcon_mamba", {"hidden_size": 4096, "expand": 2}, "intermediate_size", 8192),
        ("falcon_mamba", {"hidden_size": 4096, "expand": 16, "intermediate_size": 8192}, "intermediate_size", 8192),
        ("mamba", {"hidden_size": 100}, "time_step_rank", 7),
        ("deepseek_v32", {}, "num_hidden_layers", 61),
        ("mimo_v2_flash", {"sliding_window_size": 127}, "sliding_window", 128),
        ("llama", {"torch_dtype": "float16"}, "dtype", "float16"),
        ("llama", {"torch_dtype": "float16", "dtype": "bfloat16"}, "dtype", "bfloat16"),
        ("mimo", {"sliding_window": 32768}, "sliding_window", 32768),
    ],
)
def test_a_field_follows_from_others_as_the_class_has_it(
    model_type: str, values: dict[str, Any], key: str, expected: Any
) -> None:
    assert text(model_type, **values).get(key) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"rope_theta": 1e6}, {"rope_type": "default", "rope_theta": 1e6}),
        (
            {"rope_scaling": {"type": "linear", "factor": 4.0}, "rope_theta": 1e4},
            {"type": "linear", "factor": 4.0, "rope_type": "linear", "rope_theta": 1e4},
        ),
        (
            {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}, "max_position_embeddings": 8192, "rope_theta": 1e4},
            {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4, "original_max_position_embeddings": 8192},
        ),
    ],
)
def test_rope_scaling_becomes_rope_parameters(values: dict[str, Any], expected: dict[str, Any]) -> None:
    config = text("llama", **values)
    assert config.get("rope_parameters") == expected
    assert "rope_scaling" not in config
    assert "rope_theta" not in config


def test_su_is_an_older_name_of_longrope() -> None:
    scaling = {"type": "su", "short_factor": [1.0] * 48, "long_factor": [2.0] * 48}
    config = text("phi3", rope_scaling=scaling, original_max_position_embeddings=4096)
    rope = config.section("rope_parameters")
    assert rope is not None
    assert (rope.get("rope_type"), rope.get("original_max_position_embeddings")) == ("longrope", 4096)


def test_the_text_model_of_a_composite_config_is_its_own_config() -> None:
    root, inner = reading("gemma3", text_config={"num_hidden_layers": 7, "head_dim": 128})
    assert inner is not root
    assert inner.integer("head_dim") == 128
    assert inner.integer("num_key_value_heads") == 4
    assert inner.where == "config.json: text_config"


def test_a_flat_qwen2_vl_file_gives_its_fields_to_the_text_model() -> None:
    root, inner = reading("qwen2_5_vl", num_hidden_layers=28, num_attention_heads=28, num_key_value_heads=4)
    assert inner.integer("num_key_value_heads") == 4
    assert "num_key_value_heads" not in root


def test_a_nested_text_model_may_be_called_llm_config() -> None:
    _, inner = reading("internlm2", llm_config={"num_attention_heads": 8, "num_hidden_layers": 2})
    assert inner.integer("num_attention_heads") == 8


def test_layers_of_gemma_4_differ_in_head_size() -> None:
    config = text("gemma4_text", num_hidden_layers=6, head_dim=256, global_head_dim=512)
    assert [config.layer(i).integer("head_dim") for i in range(6)] == [256, 256, 256, 256, 256, 512]


def test_every_layer_of_a_gemma_4_assistant_reads_the_targets_cache() -> None:
    off = {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0}
    assert text("gemma4_assistant", text_config={"num_hidden_layers": 4, **off}).get("num_kv_shared_layers") == 4


# What vLLM 0.33.0's own classes make of bundled configs (vllm/transformers_utils/configs).
@pytest.mark.parametrize(
    ("id", "expected"),
    [
        (
            "moonshotai/Kimi-Linear-48B-A3B-Instruct",
            {"head_dim": 72, "num_hidden_layers": 27, "kv_lora_rank": 512, "qk_rope_head_dim": 64},
        ),
        (
            "tencent/Hy4-preview",
            {"head_dim": 64, "kv_lora_rank": 512, "qk_head_dim": 256, "num_nextn_predict_layers": 1},
        ),
        ("nvidia/MiniMax-M3-NVFP4", {"head_dim": 128, "num_hidden_layers": 60, "num_key_value_heads": 4}),
    ],
)
def test_vllms_own_classes_read_these_numbers(id: str, expected: dict[str, Any]) -> None:
    config = read(resolve(id, offline=True)).text
    assert {key: config.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "model_type is missing"),
        ({"model_type": 3}, "model_type must be a string, got 3"),
        ({"model_type": "llama", "num_hidden_layers": "32"}, "num_hidden_layers must be an integer, got '32'"),
        ({"model_type": "llama", "num_hidden_layers": 32.0}, "num_hidden_layers must be an integer, got 32.0"),
        ({"model_type": "llama", "num_attention_heads": 0}, "num_attention_heads must be between 1 and"),
        ({"model_type": "llama", "hidden_size": 100, "num_attention_heads": 7}, "hidden_size must be a multiple of"),
        ({"model_type": "gemma2", "num_hidden_layers": 10**9}, "num_hidden_layers must be between 1 and 20,000"),
        ({"model_type": "qwen3", "num_hidden_layers": 2, "layer_types": [F]}, "layer_types has 1 entries for"),
        ({"model_type": "qwen3", "num_hidden_layers": 1, "layer_types": ["magic"]}, "layer_types[0] must be one of"),
        ({"model_type": "gemma3", "text_config": []}, "text_config must be a JSON object"),
        ({"model_type": "llama", "rope_scaling": {"type": "linear"}}, "rope_scaling of type linear lacks factor"),
        ({"model_type": "llama", "rope_scaling": "linear"}, "rope_scaling must be a JSON object"),
        ({"model_type": "nemotron_h", "hybrid_override_pattern": "MX"}, "hybrid_override_pattern must be made of"),
        ({"model_type": "jamba", "attn_layer_offset": 9}, "attn_layer_offset must be below attn_layer_period (8)"),
        (
            {"model_type": "gemma4_text", "num_hidden_layers": 5, "per_layer_config": {"04": {}, "5": {}}},
            "per_layer_config must have layers from 0 to 4 as its keys, got '5'",
        ),
        ({"model_type": "falcon", "head_dim": 64}, "head_dim follows from other fields"),
        ({"model_type": "no_such_type"}, "model type 'no_such_type' is"),
    ],
)
def test_a_field_that_the_class_would_refuse_is_refused_by_name(values: dict[str, Any], says: str) -> None:
    with pytest.raises(KvplanError) as caught:
        read(Source("x", PATH, values, "config.json"))
    sentence = str(caught.value)
    assert sentence.startswith("config.json: ")
    assert says in sentence
    assert "\n" not in sentence


def test_a_type_that_only_transformers_knows_is_read_by_its_class() -> None:
    root, inner = reading("mpt", n_layers=4, n_heads=8)
    assert inner is root
    assert (root.integer("num_hidden_layers"), root.integer("num_attention_heads")) == (4, 8)


@pytest.mark.parametrize("values", [{"n_layers": 10**9}, {"n_layers": "4"}, {"attn_config": []}])
def test_what_transformers_cannot_read_is_one_sentence(values: dict[str, Any]) -> None:
    with pytest.raises(KvplanError) as caught:
        reading("mpt", **values)
    assert str(caught.value).startswith("config.json: ")
    assert "\n" not in str(caught.value)


def test_a_drafter_may_have_a_type_that_nobody_knows_or_none() -> None:
    for values in ({"model_type": "some_drafter"}, {}):
        source = Source("x", PATH, {**values, "architectures": ["Some"], "num_hidden_layers": 1}, "config.json")
        root, inner = read_drafter(source)
        assert inner is root
        assert root.integer("num_hidden_layers") == 1


KEYS = sorted({key for id in bundled.ids() for key in resolve(id, offline=True).config} | {"text_config", "llm_config"})
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 2, 7, 2**70, 1.5, float("inf"), "", "auto", "mrope", [], {}, [None], [F, "x"], [1, -1]]),
    st.dictionaries(
        st.sampled_from(["rope_type", "type", "factor", F, "head_dim"]), st.sampled_from([1, None, "yarn"])
    ),
)


@settings(max_examples=400)
@given(
    model_type=st.sampled_from([*model_types(), *sorted(PLAIN)]),
    values=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6),
)
def test_any_field_of_any_type_may_be_broken(model_type: str, values: dict[str, Any]) -> None:
    config = {**values, "model_type": model_type}
    before = json.dumps(config)
    sentence = "config.json: "
    try:
        read(Source("x", PATH, config, "config.json"))
    except KvplanError as error:
        sentence = str(error)
    assert sentence.startswith("config.json: ")
    assert "\n" not in sentence
    assert json.dumps(config) == before


@settings(max_examples=300)
@given(data=st.data(), id=st.sampled_from(bundled.ids()))
def test_any_field_of_a_real_config_may_be_broken(data: st.DataObject, id: str) -> None:
    config = json.loads(json.dumps(resolve(id, offline=True).config))
    inner = config.get("text_config") if isinstance(config.get("text_config"), dict) else config
    for key in data.draw(st.lists(st.sampled_from(sorted(inner)), min_size=1, max_size=3, unique=True)):
        if data.draw(st.booleans()):
            inner[key] = data.draw(VALUES)
        else:
            del inner[key]
    sentence = "config.json: "
    try:
        read_drafter(Source("x", PATH, config, "config.json"))
    except KvplanError as error:
        sentence = str(error)
    assert sentence.startswith("config.json: ")
