"""Measured start-ups: from the printed memory the plan gives the log's own numbers by the rules of its release."""

from __future__ import annotations

import pytest
from start_ups import attention_block, padding, read, start_up

from kvplan.verify.judge import Verdict, Wanted, judge

QWEN36 = "Qwen/Qwen3.6-35B-A3B"
PREVIEW = "z-lab/Qwen3.6-35B-A3B-DFlash-preview"
ALIGN = "Mamba cache mode is set to 'align' for X by default when prefix caching is enabled"

KNOWN = {
    "Qwen3-8B, 0.9.2: blocks x 16": start_up(
        "0.9.2", "Qwen/Qwen3-8B", length=40960, gib=18.69, tokens=136080, concurrency="3.32", blocks=8505
    ),
    "Llama 3.1 8B, 0.10.1.1": start_up(
        "0.10.1.1", "meta-llama/Llama-3.1-8B-Instruct", length=131072, gib=19.25, tokens=157648, concurrency="1.20",
        blocks=9853, dtype="float16",
    ),
    "Gemma 3 27B, a build of 0.11.0: seven groups, one batch in flight": start_up(
        "0.11.0rc2.dev98+g393de22d2", "google/gemma-3-27b-it", length=4096, gib=109.86, tokens=205696,
        concurrency="50.05", blocks=89994, further=(padding(8, "15.38"),), max_num_batched_tokens=8192,
    ),
    "Qwen3-Next, 0.10.2 at TP 2: a block of 544": start_up(
        "0.10.2", "Qwen/Qwen3-Next-80B-A3B-Instruct", length=262144, gib=44.59, tokens=973760, concurrency="14.77",
        further=attention_block(544, "1.49"), engine="enable_prefix_caching=False", tensor_parallel_size=2,
    ),
    "Qwen3-Next, 0.13.0 at TP 2 in fp8: exactly full": start_up(
        "0.13.0", "Qwen/Qwen3-Next-80B-A3B-Instruct", length=32768, gib=17.58, tokens=767552, concurrency="84.29",
        further=attention_block(1072), engine="kv_cache_dtype=fp8, enable_prefix_caching=False",
        tensor_parallel_size=2,
    ),
    "Qwen2.5 7B, 0.18.0": start_up(
        "0.18.0", "Qwen/Qwen2.5-7B-Instruct", length=32768, gib=13.1, tokens=245360, concurrency="7.49",
        dtype="float16",
    ),
    "Qwen3.6, 0.20.0 in align mode: tokens by the old line": start_up(
        "0.20.0", QWEN36, length=65536, gib=2.95, tokens=75456, concurrency="3.87",
        further=(ALIGN, *attention_block(2096)), kv_cache_dtype="fp8_e4m3", enable_prefix_caching=True,
    ),
    "Qwen3.6 with 15 drafted tokens, 0.20.1.dev0 is 0.20.0": start_up(
        "0.20.1.dev0+g101584af0", QWEN36, length=262144, gib=62.31, tokens=582832, concurrency="4.71",
        further=(ALIGN, *attention_block(1168), padding(2, "6.67"), padding(6, "60.00")),
        enable_prefix_caching=True, max_num_batched_tokens=65536, attention_backend="flash_attn",
        speculative_config={"method": "dflash", "model": PREVIEW, "num_speculative_tokens": 15},
    ),
    "Qwen3.6 with 6 drafted tokens, 0.22.0": start_up(
        "0.22.0", QWEN36, length=200000, gib=71.59, tokens=1470588, concurrency="7.35",
        further=(ALIGN, *attention_block(1104, "0.73"), padding(2, "6.67"), padding(6, "60.00")),
        enable_prefix_caching=True, max_num_batched_tokens=32768, attention_backend="flash_attn",
        speculative_config={"method": "dflash", "model": PREVIEW, "num_speculative_tokens": 6},
    ),
    "Gemma 4 31B, a build between 0.22.0 and 0.23.0": start_up(
        "0.22.1rc1.dev281+gad2337814", "google/gemma-4-31B-it", length=8192, gib=22.46, tokens=61711,
        concurrency="7.53", max_num_batched_tokens=2048, language_model_only=True,
    ),
    "DeepSeek-V4 with MTP, 0.25.0: groups packed by layer tuples": start_up(
        "0.25.0", "deepseek-ai/DeepSeek-V4-Flash", length=1048576, gib=10.29, tokens=1993100, concurrency="1.90",
        tensor_parallel_size=2, kv_cache_dtype="fp8", max_num_batched_tokens=4096, enable_prefix_caching=True,
        speculative_config={"method": "mtp", "num_speculative_tokens": 2},
    ),
    "Qwen3.5 27B with MTP, 0.25.1: the short spec groups": start_up(
        "0.25.1", "Qwen/Qwen3.5-27B", length=262144, gib=80.17, tokens=1191213,
        further=(*attention_block(800), padding(3, "6.25")), engine="enable_prefix_caching=False",
        speculative_config={"method": "mtp", "num_speculative_tokens": 3},
    ),
    "Qwen3.5 27B, 0.27.1, memory given in bytes": start_up(
        "0.27.1", "Qwen/Qwen3.5-27B", length=786432, gib=30.0, tokens=974864, concurrency="1.24",
        further=attention_block(1568, "0.13"), engine="enable_prefix_caching=False", kv_cache_dtype="fp8",
        kv_cache_memory_bytes=32212254720,
    ),
    "Qwen2.5 7B, 0.31.0": start_up(
        "0.31.0", "Qwen/Qwen2.5-7B-Instruct", length=4096, gib=34.79, tokens=651504, concurrency="159.06"
    ),
}  # fmt: skip


def verdict_of(text: str, **wanted: object) -> Verdict:
    return judge(read(text), Wanted(offline=True, **wanted))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", KNOWN)
def test_the_plan_gives_what_the_start_up_printed(name: str):
    verdict = verdict_of(KNOWN[name])
    assert verdict.refusal is None
    assert [(line.what, line.log, line.plan) for line in verdict.lines if not line.agrees] == []
    assert "kv_cache_size_tokens" in [line.what for line in verdict.lines]
    assert verdict.exit_code == 0


def test_memory_given_in_bytes_allows_one_number_of_blocks():
    verdict = verdict_of(KNOWN["Qwen3.5 27B, 0.27.1, memory given in bytes"])
    assert verdict.exact_bytes == 32212254720
    assert verdict.found is not None
    assert verdict.found.num_blocks == 626


def test_a_pool_of_58207_needs_its_grouping():
    log = start_up(
        "0.30.1rc1.dev143+g29468dde8", "XiaomiMiMo/MiMo-V2.6-Flash-RL", length=1048576, tokens=2259724, blocks=84094,
        max_num_batched_tokens=8192, enable_prefix_caching=True,
        speculative_config={
            "method": "dflash", "model": "XiaomiMiMo/MiMo-V2.6-Flash-RL-DFlash", "num_speculative_tokens": 7
        },
    )  # fmt: skip
    assert verdict_of(log, engine="vllm-next").exit_code == 0
    assert verdict_of(log).exit_code == 1


def test_a_refused_start_up_agrees_in_what_it_needed():
    log = start_up(
        "0.15.2rc1.dev93+g11a4c9d30", "Qwen/Qwen3-30B-A3B-FP8", length=262144, gib=3.18, pipeline_parallel_size=2,
        further=(
            "ValueError: To serve at least one request with the models's max seq len (262144), (24.0 GiB KV cache is "
            "needed, which is larger than the available KV cache memory (3.18 GiB). Based on the available memory, the "
            "estimated maximum model length is 34736. Try",
        ),
    )  # fmt: skip
    verdict = verdict_of(log, env={"VLLM_PP_LAYER_PARTITION": "16,32"})
    assert [(line.what, line.log, line.plan) for line in verdict.lines] == [
        ("needed_gib", 24.0, 24.0),
        ("estimated_max_model_len", 34736, 34736),
    ]
    assert verdict.exit_code == 0


def test_needs_are_of_all_stages_only_before_0_17():
    refusal = (
        "ValueError: To serve at least one request with the models's max seq len (262144), (24.0 GiB KV cache is "
        "needed, which is larger than the available KV cache memory (3.18 GiB). Try"
    )
    log = start_up(
        "0.17.0", "Qwen/Qwen3-30B-A3B-FP8", length=262144, gib=3.18, pipeline_parallel_size=2, further=(refusal,)
    )
    verdict = verdict_of(log)
    assert [(line.what, line.plan) for line in verdict.lines] == [("needed_gib", 12.0)]
    assert verdict.exit_code == 1
