"""Drafters: method, tokens, effective config, refusals. Expectations are vLLM 0.33.0's."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.engine import speculators
from kvplan.engine.args import EngineArgs, Speculative
from kvplan.errors import KvplanError, Refused
from kvplan.hf import Config
from tests.engine.deployments import DEEPSEEK, DFLASH, EAGLE3, LLAMA, QWEN3_5, resolved


def drafted(target: dict[str, Any] = LLAMA, drafter: dict[str, Any] | None = None, **options: Any) -> Speculative:
    name = options.get("model") or "some/drafter"
    if drafter is not None:
        options["model"] = name
    speculative = resolved(target, drafter, drafter_name=name, speculative_config=options).speculative
    assert speculative is not None
    return speculative


@pytest.mark.parametrize(
    ("name", "config", "method", "architecture"),
    [
        ("a/EAGLE-LLaMA3.1", EAGLE3, "eagle", "EagleLlamaForCausalLM"),
        ("a/EAGLE3-LLaMA3.1", EAGLE3, "eagle3", "Eagle3LlamaForCausalLM"),
        ("a/x-eagle3", {**EAGLE3, "architectures": ["LlamaForCausalLMEagle3"]}, "eagle3", "LlamaForCausalLMEagle3"),
        ("z-lab/Qwen3-8B-DFlash-b16", DFLASH, "dflash", "DFlashDraftModel"),
        ("a/Laguna-DFlash", {**DFLASH, "architectures": ["LagunaForCausalLM"]}, "dflash", "DFlashLagunaForCausalLM"),
        ("a/b", {**DFLASH, "architectures": ["Qwen3DSparkModel"]}, "dspark", "Qwen3DSparkModel"),
        ("a/b", {**DFLASH, "architectures": ["DSparkDraftModel"]}, "dspark", "Qwen3DSparkModel"),
        ("a/b", LLAMA, "draft_model", "LlamaForCausalLM"),
    ],
)
def test_method_is_found_from_name_and_config(name: str, config: Any, method: str, architecture: str) -> None:
    speculative = drafted(drafter=config, model=name, num_speculative_tokens=3)
    assert (speculative.method, speculative.architecture) == (method, architecture)


def test_an_eagle_drafter_keeps_its_fields_under_a_new_type() -> None:
    draft = drafted(drafter=EAGLE3, method="eagle3", num_speculative_tokens=3).draft
    assert draft is not None
    assert draft.root.get("model_type") == "eagle"
    assert draft.root.get("num_hidden_layers") == 1
    assert draft.max_model_len == 2048


@pytest.mark.parametrize(
    ("config", "architecture", "kind", "n_predict"),
    [
        (DEEPSEEK, "DeepSeekMTPModel", "deepseek_mtp", 1),
        (QWEN3_5, "Qwen3_5MoeMTP", "qwen3_5_mtp", 1),
        ({**DEEPSEEK, "model_type": "glm_moe_dsa", "architectures": ["X"]}, "DeepseekV32MTPModel", "deepseek_mtp", 1),
        (
            {**LLAMA, "architectures": ["MiMoForCausalLM"], "num_nextn_predict_layers": 1},
            "MiMoMTPModel",
            "mimo_mtp",
            1,
        ),
        (
            {**LLAMA, "architectures": ["MiMoV2FlashForCausalLM"], "num_nextn_predict_layers": 3},
            "MiMoV2MTPModel",
            "mimo_v2_mtp",
            1,
        ),
        (
            {**LLAMA, "model_type": "nemotron_h", "num_nextn_predict_layers": 2},
            "NemotronHMTPModel",
            "nemotron_h_mtp",
            2,
        ),
        ({**LLAMA, "model_type": "longcat_flash"}, "LongCatFlashMTPModel", "longcat_flash_mtp", 1),
    ],
)
def test_mtp_rewrites_the_targets_config(config: Any, architecture: str, kind: str, n_predict: int) -> None:
    target = {**DEEPSEEK, "architectures": ["DeepseekV3ForCausalLM"]} if config["architectures"] == ["X"] else config
    speculative = drafted(target, config, method="mtp", num_speculative_tokens=n_predict)
    draft = speculative.draft
    assert draft is not None
    assert (speculative.method, draft.architecture) == ("mtp", architecture)
    assert (draft.root.get("model_type"), draft.root.get("n_predict")) == (kind, n_predict)


def test_mtp_without_a_model_is_the_targets_own_and_takes_its_quantisation() -> None:
    speculative = drafted(DEEPSEEK, method="deepseek_mtp", num_speculative_tokens=2)
    assert speculative.draft is not None
    assert (speculative.model, speculative.draft.quantization) == (None, "fp8")
    assert (speculative.use_eagle_block_drop, speculative.num_prefill_lookahead_tokens) == (True, 1)


def test_a_chain_of_mtp_modules_reads_further_ahead() -> None:
    chained = drafted({**DEEPSEEK, "num_nextn_predict_layers": 3}, method="mtp", num_speculative_tokens=3)
    assert (chained.use_multi_module_mtp, chained.num_prefill_lookahead_tokens) == (True, 3)


def test_dflash_looks_one_slot_further_and_drops_no_block() -> None:
    speculative = drafted(drafter=DFLASH, method="dflash", num_speculative_tokens=7)
    assert (speculative.num_lookahead_tokens, speculative.num_prefill_lookahead_tokens) == (8, 1)
    assert (speculative.parallel_drafting, speculative.use_eagle_block_drop) == (True, False)


@pytest.mark.parametrize(
    ("fields", "non_causal"),
    [
        ({}, True),
        ({"dflash_config": {"causal": True}}, False),
        ({"layer_types": ["sliding_attention"] * 5}, False),
        ({"layer_types": ["sliding_attention"] * 4 + ["full_attention"]}, True),
        ({"layer_types": ["sliding_attention"] * 5, "is_causal": False}, True),
    ],
)
def test_dflash_layers_that_attend_both_ways(fields: dict[str, Any], non_causal: bool) -> None:
    speculative = drafted(drafter={**DFLASH, **fields}, method="dflash", num_speculative_tokens=7)
    assert speculative.use_non_causal is non_causal


def test_dspark_defaults_to_its_block_size() -> None:
    speculative = drafted(drafter={**DFLASH, "architectures": ["Qwen3DSparkModel"], "block_size": 7})
    assert (speculative.method, speculative.num_speculative_tokens) == ("dspark", 7)


def test_a_drafters_block_limits_the_running_requests() -> None:
    options = {"model": "a/x-DFlash", "num_speculative_tokens": 15}
    config = resolved(LLAMA, DFLASH, drafter_name="a/x-DFlash", speculative_config=options, max_num_batched_tokens=4096)
    assert config.max_num_active_seqs == 256


@pytest.mark.parametrize(
    ("options", "method", "tokens"),
    [
        ({"method": "ngram", "num_speculative_tokens": 4}, "ngram", 4),
        ({"model": "ngram", "num_speculative_tokens": 4}, "ngram", 4),
        ({"method": "suffix"}, "suffix", 24),
        ({"method": "extract_hidden_states", "num_speculative_tokens": 1}, "extract_hidden_states", 1),
    ],
)
def test_methods_without_a_checkpoint(options: dict[str, Any], method: str, tokens: int) -> None:
    speculative = drafted(**options)
    assert (speculative.method, speculative.num_speculative_tokens) == (method, tokens)
    assert not speculative.use_eagle


def test_suffix_runs_on_the_v1_runner_without_async_scheduling() -> None:
    config = resolved(speculative_config={"method": "suffix"})
    assert (config.use_v2_model_runner, config.async_scheduling, config.max_concurrent_batches) == (False, False, 1)


def test_a_drafter_whose_positions_cannot_be_raised_cuts_the_target() -> None:
    dynamic = {**EAGLE3, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}
    options = {"method": "eagle3", "model": "some/drafter", "num_speculative_tokens": 3}
    config = resolved(LLAMA, dynamic, speculative_config=options)
    assert config.max_model_len == 8192
    assert config.notes == ("max_model_len is cut from 131072 to the drafter's 8192",)
    assert resolved(LLAMA, EAGLE3, speculative_config=options).max_model_len == 131072
    v1 = resolved(LLAMA, dynamic, speculative_config=options, env={"VLLM_USE_V2_MODEL_RUNNER": "0"})
    assert v1.max_model_len == 131072


def test_the_cut_is_refused_with_states_and_no_prefix_caching() -> None:
    dynamic = {**EAGLE3, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}
    options = {"method": "eagle3", "model": "some/drafter", "num_speculative_tokens": 3}
    with pytest.raises(Refused, match="set --max-model-len 8192"):
        resolved(QWEN3_5, dynamic, speculative_config=options, enable_prefix_caching=False)


def test_glm_moe_dsa_leaves_another_drafters_cache_at_the_model_dtype() -> None:
    glm = {**DEEPSEEK, "model_type": "glm_moe_dsa", "architectures": ["GlmMoeDsaForCausalLM"], "index_topk": 2048}
    assert drafted(glm, EAGLE3, method="eagle3", num_speculative_tokens=3).kv_cache_dtype == "auto"
    assert drafted(glm, method="mtp", num_speculative_tokens=3).kv_cache_dtype is None


@pytest.mark.parametrize(
    ("target", "drafter", "options", "sentence"),
    [
        (LLAMA, None, {"method": "mtp", "num_speculative_tokens": 1}, "method mtp: .* has no such drafter"),
        (LLAMA, None, {"method": "medusa", "num_speculative_tokens": 1}, "method 'medusa' is not one"),
        (LLAMA, None, {"method": "mtp"}, "without num_speculative_tokens"),
        (LLAMA, None, {"method": "eagle3", "num_speculative_tokens": 1}, "needs a model"),
        (LLAMA, None, {"num_speculative_tokens": 1}, "needs a model"),
        (LLAMA, None, {"method": "ngram"}, "names no num_speculative_tokens"),
        (LLAMA, None, {"model": "my.own.Proposer", "num_speculative_tokens": 1}, "custom_class"),
        (LLAMA, None, {"method": "ngram", "num_speculative_tokens": 0}, "must be a positive integer, got 0"),
        (LLAMA, None, {"method": "ngram", "num_speculative_tokens": 1, "prompt_lookup_max": 2, "prompt_lookup_min": 3},
         "prompt_lookup_min 3 is more"),
        (LLAMA, None, {"method": "extract_hidden_states", "num_speculative_tokens": 2}, "takes exactly 1"),
        (LLAMA, EAGLE3, {"method": "eagle3"}, "has no default"),
        (LLAMA, EAGLE3, {"method": "eagle3", "num_speculative_tokens": 1, "nonsense": 1}, "nonsense is not a key"),
        (LLAMA, EAGLE3, {"method": "eagle3", "num_speculative_tokens": 1, "tensor_parallel_size": 1},
         "use draft_tensor_parallel_size"),
        (LLAMA, EAGLE3, {"method": "eagle3", "num_speculative_tokens": 1, "draft_tensor_parallel_size": 2},
         "must be 1 or the target's size 1"),
        (LLAMA, EAGLE3, {"method": "eagle3", "num_speculative_tokens": 1, "max_model_len": 4096},
         "max_model_len 4096 is more than the 2,048"),
        (LLAMA, {**EAGLE3, "n_predict": 3}, {"method": "eagle3", "num_speculative_tokens": 4}, "not a multiple of"),
        (DEEPSEEK, DEEPSEEK, {"method": "mtp"}, "fails on an MTP drafter without a count"),
        (LLAMA, {**LLAMA, "vocab_size": 5}, {"num_speculative_tokens": 1}, "vocab_size 5 is not the target's 128256"),
        (LLAMA, DFLASH, {"method": "eagle3", "num_speculative_tokens": 1}, "Eagle3DFlashDraftModel"),
        (LLAMA, EAGLE3, {"method": "eagle3", "num_speculative_tokens": 1, "kv_cache_dtype": "float16"},
         "kv_cache_dtype float16 differs from the model's dtype"),
        (DEEPSEEK, EAGLE3, {"method": "eagle3", "num_speculative_tokens": 1, "kv_cache_dtype": "nvfp4"},
         "kv_cache_dtype nvfp4 does not work with multi-head latent"),
        (LLAMA, {**LLAMA, "quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic"}},
         {"num_speculative_tokens": 1, "kv_cache_dtype": "fp8_e5m2"}, "kv_cache_dtype fp8_e5m2 does not work with"),
        (LLAMA, {**EAGLE3, "model_type": "eagle"}, {"method": "eagle3", "num_speculative_tokens": 1}, "type eagle for"),
    ],
)  # fmt: skip
def test_refusals(target: Any, drafter: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        drafted(target, drafter, **options)


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({"method": "dspark"}, "dspark"),
        ({"method": "eagle3", "draft_lm_head_quantization": "fp8"}, "a quantised draft lm_head"),
    ],
)
def test_what_the_v1_runner_lacks(options: dict[str, Any], missing: str) -> None:
    drafter = {**DFLASH, "architectures": ["Qwen3DSparkModel"]} if options["method"] == "dspark" else EAGLE3
    config = {**options, "model": "some/drafter", "num_speculative_tokens": 3}
    with pytest.raises(Refused, match=f"V1 model runner does not support {missing}"):
        resolved(LLAMA, drafter, speculative_config=config, env={"VLLM_USE_V2_MODEL_RUNNER": "0"})


def test_fast_prefill_of_shared_caches_leaves_drafters_without_hidden_states() -> None:
    flags = {"kv_sharing_fast_prefill": True}
    ngram = {"method": "ngram", "num_speculative_tokens": 3}
    assert resolved(LLAMA, speculative_config=ngram, additional_flags=flags).speculative is not None
    eagle = {"method": "eagle3", "model": "some/drafter", "num_speculative_tokens": 3}
    with pytest.raises(Refused, match="--kv-sharing-fast-prefill does not work with speculative method eagle3"):
        resolved(LLAMA, EAGLE3, speculative_config=eagle, additional_flags=flags)


SPECULATOR = {
    "speculators_model_type": "eagle3",
    "speculators_config": {
        "proposal_methods": [{"speculative_tokens": 5}],
        "verifier": {"name_or_path": "meta-llama/Llama-3.1-8B-Instruct"},
    },
    "transformer_layer_config": {
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "intermediate_size": 14336,
        **{k: v for k, v in EAGLE3.items() if k != "architectures"},
    },
    "draft_vocab_size": 32000,
}


def test_a_speculator_names_its_target_method_and_tokens() -> None:
    root = Config(SPECULATOR, "config.json")
    assert speculators.is_speculators(root)
    assert speculators.verifier(root) == "meta-llama/Llama-3.1-8B-Instruct"
    assert speculators.speculative_config(root) == {"method": "eagle3", "num_speculative_tokens": 5}
    peagle = Config({**SPECULATOR, "speculators_model_type": "peagle"}, "config.json")
    assert speculators.speculative_config(peagle) == {
        "method": "eagle3",
        "num_speculative_tokens": 5,
        "parallel_drafting": True,
    }


def test_serving_a_speculator_stands_for_serving_its_target() -> None:
    given = {"num-speculative-tokens": 3, "attention_backend": "TRITON_ATTN", "model": "x", "method": "ngram"}
    args = speculators.redirect(
        EngineArgs(model="a/speculator", speculative_config=given), Config(SPECULATOR, "c.json")
    )
    assert args.model == "meta-llama/Llama-3.1-8B-Instruct"
    assert args.speculative_config == {
        "method": "eagle3",
        "model": "a/speculator",
        "num_speculative_tokens": 3,
        "attention_backend": "TRITON_ATTN",
    }
    with pytest.raises(Refused, match="is a drafter in the speculators format"):
        resolved(SPECULATOR)


@pytest.mark.parametrize(
    ("kind", "fields", "method", "architecture"),
    [
        ("eagle3", {}, "eagle3", "Eagle3LlamaForCausalLM"),
        ("peagle", {"mask_token_id": 5}, "eagle3", "PeagleLlamaForCausalLM"),
        ("dflash", {"mask_token_id": 5, "aux_hidden_state_layer_ids": [2, 9]}, "dflash", "DFlashDraftModel"),
        ("dflash2", {"mask_token_id": 5, "aux_hidden_state_layer_ids": [2, 9]}, "dflash", "DFlash2DraftModel"),
        ("dspark", {"mask_token_id": 5, "aux_hidden_state_layer_ids": [2, 9]}, "dspark", "Qwen3DSparkModel"),
    ],
)
def test_speculators_become_their_methods_classes(kind: str, fields: Any, method: str, architecture: str) -> None:
    config = {**SPECULATOR, "speculators_model_type": kind, **fields}
    speculative = drafted(drafter=config, method=method, num_speculative_tokens=3)
    assert speculative.architecture == architecture


def test_p_eagle_runs_on_the_v1_runner() -> None:
    options = {"method": "eagle3", "model": "a/b", "num_speculative_tokens": 3, "parallel_drafting": True}
    assert not resolved(LLAMA, EAGLE3, speculative_config=options).use_v2_model_runner


@pytest.mark.parametrize("field", ["mask_token_id", "aux_hidden_state_layer_ids", "transformer_layer_config"])
def test_a_speculator_without_a_field_is_one_sentence(field: str) -> None:
    config = {**SPECULATOR, "speculators_model_type": "dflash", "mask_token_id": 5, "aux_hidden_state_layer_ids": [2]}
    with pytest.raises(KvplanError, match=f"{field} is missing"):
        drafted(drafter={k: v for k, v in config.items() if k != field}, method="dflash", num_speculative_tokens=3)
