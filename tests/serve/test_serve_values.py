"""Values after a flag, as vLLM 0.33.0's converters make them."""

import pytest

from kvplan.serve.jsonfields import fit_config
from kvplan.serve.values import convert


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("size", "16K", 16384),
        ("size", "16k", 16000),
        ("size", "1M", 1048576),
        ("size", "1.5m", 1500000),
        ("size", "2g", 2000000000),
        ("size", " 8192 ", 8192),
        ("size-or-auto", "AUTO", "auto"),
        ("size-or-auto", "-1", -1),
        ("size-or-auto", "32k", 32000),
        ("int", "1_000", 1000),
        ("float", "8", 8.0),
        ("opt:int", "None", None),
        ("opt:str", "", None),
        ("lower", "Flashinfer-Cutlass", "flashinfer_cutlass"),
        ("devices", "0, 2,GPU-x", [0, 2, "GPU-x"]),
        ("dict-or-str", "cpu", "cpu"),
        ("dict-or-str", '{"a": 1}', {"a": 1}),
        ("json", '[1, {"a": null}]', [1, {"a": None}]),
        ("config:KVTransferConfig", '{"kv_port": 20k}', {"kv_port": 20000}),
        ("opt:config:KVTransferConfig", "None", None),
    ],
)
def test_a_text_becomes_vllms_value(kind: str, text: str, value: object) -> None:
    result = convert(kind, text)
    assert (result, type(result)) == (value, type(value))


@pytest.mark.parametrize(
    ("kind", "text", "part"),
    [
        ("size", "1.5K", "write 1.5k"),
        ("size", "5kk", "no whole number"),
        ("int", "2.0", "no whole number"),
        ("float", "high", "no number"),
        ("json", "{a: 1}", "single quotes around it"),
        ("json", "{'a': 1}", "double quotes"),
        ("json", "{“a”: 1}", "typographic quotes"),
        ("json", "[" * 100_000, "nested too deeply"),
        ("config:KVTransferConfig", "3", "no JSON object"),
        ("config:KVTransferConfig", '{"kv_connector": "X"}', "kv_connector needs kv_role"),
        ("config:KVTransferConfig", '{"kv_conector": "X"}', "did you mean kv_connector"),
        ("lora", '{"name": "a"}', "name=path"),
    ],
)
def test_a_wrong_text_says_what_to_write(kind: str, text: str, part: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        convert(kind, text)
    assert part in str(raised.value)


@pytest.mark.parametrize(
    ("name", "given", "fitted"),
    [
        ("CompilationConfig", {"cudagraph_mode": "piecewise"}, {"cudagraph_mode": "PIECEWISE"}),
        ("CompilationConfig", {"mode": 3}, {"mode": 3}),
        ("CompilationConfig", {"pass_config": {"fuse_norm_quant": "True"}}, {"pass_config": {"fuse_norm_quant": True}}),
        ("CompilationConfig", {"cudagraph_capture_sizes": ["8", 16.0]}, {"cudagraph_capture_sizes": [8, 16]}),
        (
            "EPLBConfig",
            {"num_redundant_experts": "32", "use_async": "off"},
            {"num_redundant_experts": 32, "use_async": False},
        ),
        ("AttentionConfig", {"backend": "triton_attn"}, {"backend": "TRITON_ATTN"}),
        ("AttentionConfig", {"flash_attn_version": 3}, {"flash_attn_version": 3}),
        ("KernelConfig", {"moe_backend": "Deep-Gemm"}, {"moe_backend": "deep_gemm"}),
    ],
)
def test_keys_of_a_config_class_take_pydantics_lax_values(
    name: str, given: dict[str, object], fitted: dict[str, object]
) -> None:
    assert fit_config(name, given) == (fitted, [])


@pytest.mark.parametrize(
    ("name", "given", "part"),
    [
        ("CompilationConfig", {"cudagraph_mode": "SOME"}, "'cudagraph_mode' is 'SOME', but takes one of NONE"),
        ("CompilationConfig", {"custom_ops": ["rms_norm"]}, "custom_ops takes"),
        ("CompilationConfig", {"pass_config": {"fuse": True}}, "key 'pass_config.fuse' is not one of PassConfig"),
        ("EPLBConfig", {"window_size": 0}, "takes a whole number >0"),
        ("EPLBConfig", {"communicator": "pynccl"}, "needs use_async false"),
        ("AttentionConfig", {"backend_per_kind": {"full": "FLASH_ATTN"}}, "backend_per_kind takes kinds"),
        ("AttentionConfig", {"tokenspeed_mla_min_split_kv": 257}, ">=1 and <=256"),
        ("SpeculativeConfig", {"num_speculative_tokens": 0}, "takes a whole number >0"),
        ("SpeculativeConfig", {"ngram_prompt_lookup_max": 4}, "did you mean prompt_lookup_max"),
    ],
)
def test_a_key_that_vllm_refuses_is_named(name: str, given: dict[str, object], part: str) -> None:
    assert part in "; ".join(fit_config(name, given)[1])
