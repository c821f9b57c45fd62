"""Why a layout was chosen, as the report says it: one case of each outcome, whole."""

from __future__ import annotations

import pytest

from kvplan import EngineArgs, PlanRequest, Refused, plan
from kvplan.report.text import plan_text

QWEN, DFLASH = "Qwen/Qwen3.6-35B-A3B-FP8", "z-lab/Qwen3.6-35B-A3B-DFlash"


def layout_section(model: str, gpu: str = "H200", engine: str = "vllm-0.33.0", drafter: str | None = None, **rest):
    """The Layout section of the report, with what a plan request takes in ``rest``."""
    own = {key: rest.pop(key) for key in ("layout_cost_check", "layout_agreement") if key in rest}
    speculative = None if drafter is None else {"model": drafter, "num_speculative_tokens": 15}
    args = EngineArgs(model=model, speculative_config=speculative, max_model_len=32768, **rest)
    text = plan_text(plan(PlanRequest(args, gpu=gpu, engine=engine, offline=True, **own)))
    return next(part for part in text.split("\n\n") if part.startswith("Layout")).rstrip()


SPLIT = {"VLLM_PP_LAYER_PARTITION": "5,55"}  # stage 0 has sliding layers alone, stage 1 pages of two sizes


def test_packing_is_chosen_where_all_conditions_hold():
    assert (
        layout_section(QWEN, drafter=DFLASH, gpu="B300", engine="vllm-next", attention_backend="TRITON_ATTN")
        == """\
Layout
  BLNHC, of the candidates BLNHC, BLHNC, BHLNC, LBNHC, LBHNC, LHBNC
  vllm-next moves block-outermost layouts first, all conditions hold:
    yes  mixed page sizes: pages of 2,621,440 bytes
         (language_model.model.layers.0.linear_attn) to 5,242,880 bytes
         (model.layers.40.self_attn.attn)
    yes  blocks run whole: TRITON_ATTN and FLASH_ATTN run blocks of 1,280 tokens
         unsplit
    yes  packing costs less: without packing, the full attention group of
         model.layers.45.self_attn.attn is padded (5 groups packed against 10)"""
    )


def test_equal_pages_keep_the_order():
    assert (
        layout_section("Qwen/Qwen3-8B", engine="vllm-next")
        == """\
Layout
  LBNHC, of the candidates LBNHC, LBHNC, BLNHC, BLHNC, BHLNC, LHBNC
  vllm-next keeps the order:
    no   mixed page sizes: every page has 65,536 bytes, so there is nothing to
         pack
    yes  blocks run whole: FLASH_ATTN runs blocks of 16 tokens unsplit
    no   packing costs less: 1 group packed against 1, and no full attention
         padding to remove"""
    )


def test_a_backend_that_would_split_blocks_keeps_the_order():
    assert (
        layout_section(QWEN, drafter=DFLASH, gpu="B300", engine="vllm-next")
        == """\
Layout
  LBHNC, of the candidates LBHNC, BLHNC
  vllm-next keeps the order:
    yes  mixed page sizes: pages of 2,621,440 bytes
         (language_model.model.layers.0.linear_attn) to 5,242,880 bytes
         (model.layers.40.self_attn.attn)
    no   blocks run whole: FLASHINFER takes kernel blocks of 16, 32, 64, 128,
         256, 512 or 1024 tokens, so it would have to split the 1,280-token
         blocks of language_model.model.layers.3.self_attn.attn
    yes  packing costs less: without packing, the full attention group of
         model.layers.45.self_attn.attn is padded (5 groups packed against 10)
  F: FLASHINFER reads a block of 2,560 tokens as 5 kernel blocks of 512"""
    )


def test_packing_that_costs_more_keeps_the_order():
    assert (
        layout_section(
            "XiaomiMiMo/MiMo-V2.5", tensor_parallel_size=4, engine="vllm-next", layout_cost_check="worst-case"
        )
        == """\
Layout
  LBNHC, of the candidates LBNHC, LBHNC, BLNHC, BLHNC, BHLNC, LHBNC
  vllm-next keeps the order:
    yes  mixed page sizes: pages of 10,240 bytes
         (language_model.model.layers.0.self_attn.attn) to 20,480 bytes
         (language_model.model.layers.1.self_attn.attn)
    yes  blocks run whole: FLASH_ATTN_DIFFKV runs blocks of 16 tokens unsplit
    no   packing costs less: one request of the greatest length takes
         1,140,756,480 bytes packed, 1,055,948,800 not"""
    )


def test_the_two_cost_rules_are_told_apart_where_they_differ():
    assert (
        layout_section("XiaomiMiMo/MiMo-V2-Flash", engine="vllm-next")
        == """\
Layout
  BLNHC, of the candidates BLNHC, BLHNC, BHLNC, LBNHC, LBHNC, LHBNC
  vllm-next moves block-outermost layouts first, all conditions hold:
    yes  mixed page sizes: pages of 40,960 bytes (model.layers.0.self_attn.attn)
         to 81,920 bytes (model.layers.1.self_attn.attn)
    yes  blocks run whole: FLASH_ATTN_DIFFKV runs blocks of 16 tokens unsplit
    yes  packing costs less: without packing, the full attention group of
         model.layers.0.self_attn.attn is padded (11 groups packed against 5);
         but one request of the greatest length takes 4,563,025,920 bytes
         packed, 4,223,795,200 not"""
    )


def test_the_environment_forces_a_layout():
    assert (
        layout_section(QWEN, drafter=DFLASH, env={"VLLM_KV_CACHE_LAYOUT": "BLHNC"})
        == """\
Layout
  BLHNC (VLLM_KV_CACHE_LAYOUT), of the candidates LBNHC, LBHNC, BLNHC, BLHNC,
  BHLNC, LHBNC"""
    )


def test_a_connectors_layout_is_taken():
    assert (
        layout_section("Qwen/Qwen3-8B", kv_transfer_config={"kv_connector": "NixlConnector", "kv_role": "kv_both"})
        == """\
Layout
  LBHNC (asked for by the KV connector), of the candidates LBNHC, LBHNC, BLNHC,
  BLHNC, BHLNC, LHBNC"""
    )


def test_a_connectors_layout_is_dropped():
    assert (
        layout_section(
            QWEN,
            drafter=DFLASH,
            gpu="B300",
            kv_transfer_config={"kv_connector": "ExampleHiddenStatesConnector", "kv_role": "kv_both"},
        )
        == """\
Layout
  LBHNC, of the candidates LBHNC, BLHNC
  the KV connector asks for layout LBNHC, which this deployment cannot use; vLLM
  takes LBHNC (possible: LBHNC, BLHNC).
  F: FLASHINFER reads a block of 2,560 tokens as 5 kernel blocks of 512"""
    )


def test_stages_that_disagree_share_a_layout_under_the_proposed_rule():
    assert (
        layout_section(
            "google/gemma-4-31B-it",
            engine="vllm-next",
            pipeline_parallel_size=2,
            env=SPLIT,
            layout_agreement="intersect",
        )
        == """\
Layout
  LBNHC, of the candidates LBNHC, LBHNC, BLNHC, BLHNC, BHLNC, LHBNC
  vllm-next keeps the order:
    no   stage 0, mixed page sizes: every page has 262,144 bytes, so there is
         nothing to pack
    yes  stage 1, mixed page sizes: pages of 131,072 bytes
         (language_model.model.layers.5.self_attn.attn) to 262,144 bytes
         (language_model.model.layers.6.self_attn.attn)
    yes  blocks run whole: TRITON_FLASH_ATTN runs blocks of 16 tokens unsplit
    no   stage 0, packing costs less: 1 group packed against 1, and no full
         attention padding to remove
    yes  stage 1, packing costs less: without packing, the full attention group
         of language_model.model.layers.5.self_attn.attn is padded (10 groups
         packed against 4)"""
    )


def test_stages_that_disagree_stop_the_engine_under_todays_rule():
    with pytest.raises(Refused) as refusal:
        layout_section("google/gemma-4-31B-it", engine="vllm-next", pipeline_parallel_size=2, env=SPLIT)
    assert str(refusal.value) == (
        "the pipeline stages disagree on KV cache layouts (stage 0: LBNHC, LBHNC, BLNHC, BLHNC, BHLNC, LHBNC; "
        "stage 1: BLNHC, BLHNC, BHLNC, LBNHC, LBHNC, LHBNC) and vLLM's engine stops on an assertion; set one "
        "--attention-backend for all layers or another VLLM_PP_LAYER_PARTITION."
    )
