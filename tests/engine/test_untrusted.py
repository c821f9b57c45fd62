"""Any config and any flags give options or one sentence, never a traceback."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.errors import KvplanError
from tests.engine.deployments import B200, DEEPSEEK, DFLASH, EAGLE3, L4, LLAMA, QWEN3_5, resolved
from tests.engine.test_batching import GEMMA4, WHISPER
from tests.engine.test_speculative import SPECULATOR

ODD = st.sampled_from(
    [None, 0, 1, -1, 3, 2**63, 1.5, float("nan"), float("inf"), "", "x", "64", True, [], [1], ["x"], {}, {"a": 1}]
)
MORE_KEYS = """
    rope_scaling rope_parameters sliding_window is_encoder_decoder is_causal layers_block_type n_predict index_topk
    attention_chunk_size num_experts block_configs compress_ratios vision_n_layers torch_dtype mamba_ssm_cache_dtype
    model_max_length text_config block_size original_max_position_embeddings compression_config sample_from_anchor
    hc_count per_layer_config
"""
KEYS = st.sampled_from(
    sorted(
        {*LLAMA, *DEEPSEEK, *DFLASH, *QWEN3_5, *QWEN3_5["text_config"], *SPECULATOR, *GEMMA4["text_config"]}
        | set(MORE_KEYS.split())
    )
)
SCHEMES = st.fixed_dictionaries(
    {},
    optional={
        "quant_method": st.sampled_from(["fp8", "modelopt", "compressed-tensors", "gptq", 3, None, {}]),
        "quant_algo": st.sampled_from(["FP8", "nvfp4", "MIXED_PRECISION", 3, None]),
        "kv_cache_scheme": st.one_of(ODD, st.just({"type": "float", "num_bits": 8, "dynamic": False})),
        "kv_cache_quant_algo": ODD,
        "quantization": ODD,
        "producer": ODD,
        "activation_scheme": ODD,
    },
)
CHANGES = st.dictionaries(KEYS, ODD, max_size=3)
TARGETS = st.sampled_from([LLAMA, DEEPSEEK, QWEN3_5, GEMMA4, WHISPER])


def _changed(config: dict[str, Any], changes: dict[str, Any], scheme: dict[str, Any] | None) -> dict[str, Any]:
    out = {**config, **changes}
    if isinstance(config.get("text_config"), dict) and isinstance(out.get("text_config"), dict):
        out["text_config"] = {**out["text_config"], **changes}
    return out if scheme is None else {**out, "quantization_config": scheme}


def _attempt(*args: Any, **kwargs: Any) -> None:
    sentence, config = "", None
    try:
        config = resolved(*args, **kwargs)
    except KvplanError as error:
        sentence = str(error)
    if config is None:
        assert len(sentence) > 10
        assert "\n" not in sentence
    else:
        assert config.max_model_len >= 1
        assert config.max_num_batched_tokens >= 1
        assert config.max_in_flight_tokens >= config.max_num_batched_tokens


@given(TARGETS, CHANGES, st.none() | SCHEMES, st.sampled_from([B200, L4]))
@settings(max_examples=400, deadline=None)
def test_any_target_config(target: Any, changes: Any, scheme: Any, gpu: Any) -> None:
    _attempt(_changed(target, changes, scheme), gpu=gpu)


@given(
    TARGETS,
    st.sampled_from([LLAMA, DEEPSEEK, QWEN3_5, DFLASH, EAGLE3, SPECULATOR]),
    CHANGES,
    st.sampled_from([None, "mtp", "eagle", "eagle3", "dflash", "dspark", "draft_model", "ngram"]),
    st.sampled_from([None, 1, 7]),
)
@settings(max_examples=400, deadline=None)
def test_any_drafter_config(target: Any, drafter: Any, changes: Any, method: Any, tokens: Any) -> None:
    options = {"model": "some/drafter", "method": method, "num_speculative_tokens": tokens}
    _attempt(target, _changed(drafter, changes, None), speculative_config=options)


@given(
    TARGETS,
    st.fixed_dictionaries(
        {},
        optional={
            "max_model_len": st.sampled_from([None, -1, 0, 1, 512, 10**9]),
            "max_num_seqs": st.sampled_from([None, 0, 1, 10**6]),
            "max_num_batched_tokens": st.sampled_from([None, 0, 1, 8192]),
            "tensor_parallel_size": st.sampled_from([1, 2, 3, 8, 0]),
            "pipeline_parallel_size": st.sampled_from([1, 2]),
            "decode_context_parallel_size": st.sampled_from([1, 2, 8]),
            "enable_prefix_caching": st.sampled_from([None, True, False]),
            "enable_chunked_prefill": st.sampled_from([None, True, False]),
            "kv_cache_dtype": st.sampled_from(["auto", "fp8", "nvfp4", "bfloat16", "turboquant_k8v4", "x"]),
            "hf_overrides": st.dictionaries(KEYS, ODD, max_size=2),
            "attention_config": st.dictionaries(
                st.sampled_from(["backend", "flash_attn_version", "backend_per_kind"]), ODD
            ),
            "kv_transfer_config": st.dictionaries(
                st.sampled_from(["kv_connector", "kv_connector_extra_config"]),
                st.one_of(ODD, st.just("MultiConnector")),
            ),
            "speculative_config": st.dictionaries(
                st.sampled_from(["method", "num_speculative_tokens", "prompt_lookup_max", "max_model_len"]),
                st.one_of(ODD, st.sampled_from(["ngram", "mtp", "suffix"])),
            ),
            "env": st.dictionaries(
                st.sampled_from(["VLLM_USE_V2_MODEL_RUNNER", "VLLM_ALLOW_LONG_MAX_MODEL_LEN"]),
                st.sampled_from(["0", "1", "", "x"]),
            ),
        },
    ),
)
@settings(max_examples=400, deadline=None)
def test_any_flags(target: Any, flags: dict[str, Any]) -> None:
    _attempt(target, **flags)
