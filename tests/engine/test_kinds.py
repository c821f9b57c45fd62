"""Hybrid models, states, parallel sizes and the hybrid manager. Expectations are vLLM 0.33.0's."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.errors import Refused
from tests.engine.deployments import B200, DEEPSEEK, DFLASH, H200, L4, LLAMA, QWEN3_5, resolved
from tests.engine.test_batching import GEMMA4

MAMBA = {"model_type": "falcon_mamba", "architectures": ["FalconMambaForCausalLM"], "dtype": "bfloat16"}
NEMOTRON = {**LLAMA, "model_type": "nemotron_h", "architectures": ["NemotronHForCausalLM"]}


def states(config: Any) -> tuple[bool, str, int | None]:
    return config.enable_prefix_caching, config.mamba_cache_mode, config.mamba_block_size


@pytest.mark.parametrize(
    ("target", "args", "expected"),
    [
        (QWEN3_5, {}, (True, "align", 16)),
        (QWEN3_5, {"block_size": 64}, (True, "align", 64)),
        (QWEN3_5, {"mamba_block_size": 256}, (True, "align", 256)),
        (QWEN3_5, {"enable_prefix_caching": False}, (False, "none", 262144)),
        (QWEN3_5, {"enable_prefix_caching": False, "mamba_cache_mode": "align"}, (False, "none", 262144)),
        (MAMBA, {}, (False, "none", 2048)),
        (MAMBA, {"enable_prefix_caching": True}, (True, "align", 16)),
        (LLAMA, {}, (True, "none", None)),
    ],
)
def test_state_blocks_before_the_layers_exist(
    target: dict[str, Any], args: dict[str, Any], expected: tuple[bool, str, int | None]
) -> None:
    assert states(resolved(target, **args)) == expected


def test_a_hybrid_class_whose_layers_all_attend_is_not_hybrid() -> None:
    granite = {**LLAMA, "model_type": "granitemoehybrid", "architectures": ["GraniteMoeHybridForCausalLM"]}
    assert not resolved({**granite, "layer_types": ["attention"] * 32}).is_hybrid
    assert resolved({**granite, "layer_types": ["mamba"] + ["attention"] * 31}).is_hybrid


def test_state_dtypes_come_from_the_config() -> None:
    assert resolved(QWEN3_5).mamba_ssm_cache_dtype == "float32"
    assert resolved(QWEN3_5, mamba_ssm_cache_dtype="bfloat16").mamba_ssm_cache_dtype == "bfloat16"
    assert resolved(NEMOTRON).mamba_ssm_cache_dtype == "float32"
    assert resolved({**NEMOTRON, "mamba_ssm_cache_dtype": "float16"}).mamba_ssm_cache_dtype == "float16"
    assert resolved().mamba_ssm_cache_dtype == "auto"


@pytest.mark.parametrize(
    ("target", "args", "sentence"),
    [
        (QWEN3_5, {"enable_chunked_prefill": False}, "needs chunked prefill"),
        (QWEN3_5, {"mamba_block_size": 256, "enable_prefix_caching": False}, "--mamba-block-size 256 needs"),
        (LLAMA, {"tensor_parallel_size": 3}, "32 attention heads cannot be split"),
        (LLAMA, {"enable_expert_parallel": True}, "has no experts"),
        (LLAMA, {"tensor_parallel_size": 6, "decode_context_parallel_size": 4}, "4 does not divide"),
        (LLAMA, {"tensor_parallel_size": 8, "decode_context_parallel_size": 4}, "needs more tensor-parallel ranks"),
        (LLAMA, {"tensor_parallel_size": 16, "decode_context_parallel_size": 4}, "more than the 2 ranks"),
        (LLAMA, {"tensor_parallel_size": 0}, "--tensor-parallel-size 0"),
        ({**MAMBA, "architectures": ["Mamba2ForCausalLM"]}, {"pipeline_parallel_size": 2}, "cannot split this"),
        (LLAMA, {"block_size": 0}, "--block-size 0"),
        (LLAMA, {"max_model_len": 0}, "--max-model-len 0"),
        (LLAMA, {"additional_flags": {"runner": "pooling"}}, "--runner 'pooling'"),
        (LLAMA, {"additional_flags": {"use_replayssm": True}}, "--use-replayssm"),
        (LLAMA, {"additional_flags": {"enable_dbo": True}}, "--enable-dbo needs --all2all-backend"),
        (LLAMA, {"attention_backend": "A", "attention_config": {"backend": "B"}}, "exclude each other"),
        (LLAMA, {"attention_config": {"backend_per_kind": {"full": "FLASHINFER"}}}, "backend_per_kind 'full'"),
    ],
)
def test_refused_by_flag(target: dict[str, Any], args: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        resolved(target, **args)


def test_mla_shares_its_latent_with_any_number_of_ranks() -> None:
    config = resolved(DEEPSEEK, tensor_parallel_size=8, decode_context_parallel_size=8)
    assert config.use_mla


def test_gemma4_runs_on_flash_attention_4_where_the_gpu_has_it() -> None:
    def choice(**args: Any) -> tuple[int | None, str | None]:
        config = resolved(GEMMA4, **args)
        return config.flash_attn_version, config.attention_backend

    assert choice(gpu=B200) == (4, None)
    assert choice(gpu=H200) == (4, None)
    assert choice(gpu=H200, kv_cache_dtype="fp8") == (None, None)
    assert choice(gpu=L4) == (None, "TRITON_ATTN")
    assert choice(gpu=L4, attention_backend="FLASHINFER") == (None, "FLASHINFER")
    assert choice(gpu=B200, attention_backend="TRITON_ATTN") == (None, "TRITON_ATTN")


def test_packed_formats_keep_the_outer_layers() -> None:
    config = resolved(kv_cache_dtype="turboquant_k8v4", kv_cache_dtype_skip_layers=("5",))
    assert config.kv_cache_dtype_skip_layers == ("0", "1", "30", "31", "5")
    assert config.flash_attn_version == 2


LLAMA4 = {**LLAMA, "attention_chunk_size": 8192}


@pytest.mark.parametrize(
    ("target", "args", "disabled"),
    [
        (LLAMA, {}, False),
        (LLAMA, {"disable_hybrid_kv_cache_manager": True}, True),
        (LLAMA4, {}, False),
        (LLAMA4, {"env": {"VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE": "0"}}, True),
        (LLAMA, {"kv_transfer_config": {"kv_connector": "NixlConnector"}}, False),
        (LLAMA, {"kv_transfer_config": {"kv_connector": "LMCacheConnectorV1"}}, True),
        (LLAMA, {"additional_flags": {"kv_offloading_size": 10.0}}, False),
        (
            LLAMA,
            {
                "kv_transfer_config": {
                    "kv_connector": "MultiConnector",
                    "kv_connector_extra_config": {
                        "connectors": [{"kv_connector": "NixlConnector"}, {"kv_connector": "ExampleConnector"}]
                    },
                }
            },
            True,
        ),
    ],
)
def test_hybrid_manager(target: dict[str, Any], args: dict[str, Any], disabled: bool) -> None:
    assert resolved(target, **args).disable_hybrid_kv_cache_manager is disabled


def test_hybrid_manager_goes_with_chunked_attention_and_eagle() -> None:
    options = {"method": "dflash", "model": "some/drafter", "num_speculative_tokens": 7}
    assert resolved(LLAMA4, DFLASH, speculative_config=options).disable_hybrid_kv_cache_manager
    with pytest.raises(Refused, match="--no-disable-hybrid-kv-cache-manager"):
        resolved(LLAMA4, DFLASH, speculative_config=options, disable_hybrid_kv_cache_manager=False)


def test_an_unknown_connector_is_refused_by_name() -> None:
    with pytest.raises(Refused, match="kv_connector Mine"):
        resolved(kv_transfer_config={"kv_connector": "Mine"})
