"""Laws of what a log leaves open: ranks that it does not show, engines that it mixes, devices that it tells or not."""
# ruff: noqa: E501 (log lines as they are printed)

from __future__ import annotations

import pytest
from start_ups import padding, read, start_up

from kvplan.errors import Refused
from kvplan.logs import LogReading, MemoryReading
from kvplan.verify.device import KINDS, devices, foreign
from kvplan.verify.judge import Verdict, Wanted, judge

HEAD = "(Worker_TP{rank} pid={rank}) INFO 06-02 11:10:12 [gpu_worker.py:1] Available KV cache memory: {gib} GiB\n"


def tp2(tokens: int, *ranks: float, **options: object) -> Verdict:
    """Qwen3-8B on two ranks: 72 KiB a token on each, 16 tokens a block."""
    log = start_up("0.31.0", "Qwen/Qwen3-8B", length=40960, tokens=tokens, tensor_parallel_size=2, **options)  # type: ignore[arg-type]
    shown = "".join(HEAD.format(rank=rank, gib=gib) for rank, gib in enumerate(ranks))
    return judge(read(log + shown), Wanted(offline=True))


def test_the_rank_that_has_least_decides():
    assert tp2(136_144, 9.35, 10.0).exit_code == 0
    assert tp2(136_144, 10.0, 9.35).exit_code == 0
    assert tp2(145_632, 9.35, 10.0).exit_code == 1


def test_a_rank_that_is_not_shown_may_have_less_but_never_more():
    assert tp2(136_144, 9.35).exit_code == 0
    fewer = tp2(131_072, 9.35)
    assert fewer.exit_code == 2
    assert fewer.refusal == (
        "The log shows the KV memory of 1 rank of 2, and the rank that has least decides: all numbers are those of "
        "8,192 blocks, 9.00 GiB on another rank; verify the log of all ranks."
    )
    assert [(line.log, line.plan, line.agrees) for line in fewer.lines] == [(131_072, 131_072, None)]
    assert tp2(145_632, 9.35).exit_code == 1  # more than the rank that is shown has
    assert tp2(131_080, 9.35).exit_code == 1  # no number of blocks


def test_where_all_ranks_are_shown_fewer_blocks_differ():
    assert tp2(131_072, 9.35, 9.35).exit_code == 1


def test_memory_given_in_bytes_is_every_rank_s():
    log = start_up(
        "0.31.0", "Qwen/Qwen3-8B", length=40960, tokens=131_072, tensor_parallel_size=2,
        kv_cache_memory_bytes=10_039_500_000,
        further=("Initial free memory 70.0 GiB, reserved 9.35 GiB memory for KV Cache as specified",),
    )  # fmt: skip
    assert judge(read(log), Wanted(offline=True)).exit_code == 1


def test_a_stage_that_is_not_shown_only_bounds():
    def stages(tokens: int, *gib: float) -> int:
        log = start_up("0.28.0", "Qwen/Qwen3-8B", length=40960, tokens=tokens, pipeline_parallel_size=2)
        shown = "".join(HEAD.replace("TP", "PP").format(rank=i, gib=each) for i, each in enumerate(gib))
        return judge(read(log + shown), Wanted(offline=True)).exit_code

    assert stages(136_144, 9.35, 9.35) == 0
    assert stages(136_144, 9.35) == 0
    assert stages(131_072, 9.35, 9.0) == 0
    assert stages(131_072, 9.35) == 2
    assert stages(145_632, 9.35) == 1


def dp(message: str, *ranks: str) -> Verdict:
    log = start_up("0.31.0", "Qwen/Qwen3-8B", length=40960, data_parallel_size=2, tokens=136_080)
    shown = "".join(
        f"({rank} pid={i}) INFO 06-02 11:10:12 [gpu_worker.py:1] Available KV cache memory: 18.69 GiB\n"
        for i, rank in enumerate(ranks)
    )
    return judge(read(log + shown + f"(APIServer pid=1) INFO 06-02 11:10:12 [loggers.py:1] {message}\n"),
                 Wanted(offline=True))  # fmt: skip


def test_blocks_of_several_engines_are_one_sum():
    verdict = dp(
        "2 Engines: vllm cache_config_info with initialization after num_gpu_blocks is: 17010",
        "EngineCore_DP0", "EngineCore_DP1",
    )  # fmt: skip
    assert verdict.exit_code == 0
    assert verdict.reading.num_gpu_blocks == 17010
    assert [(line.what, line.agrees, line.reason) for line in verdict.lines] == [
        ("num_gpu_blocks", None, "The log's 17,010 blocks are those of several engines together."),
        ("kv_cache_size_tokens", True, None),
    ]


def test_ranks_of_engines_that_cannot_be_told_apart_are_not_judged():
    verdict = dp("none", "VllmWorker rank=0", "VllmWorker rank=0")
    assert verdict.refusal == (
        "The log's ranks do not tell to which of its engines they belong; verify one engine's lines."
    )


ROCM = "Automatically detected platform rocm."


def test_another_device_s_log_can_agree_but_is_never_accused():
    def on_rocm(tokens: int) -> Verdict:
        log = start_up(
            "0.11.0", "google/gemma-3-27b-it", length=4096, gib=109.86, tokens=tokens, concurrency="50.05",
            blocks=89994, further=(ROCM, padding(8, "15.38")), max_num_batched_tokens=8192,
        )  # fmt: skip
        return judge(read(log), Wanted(offline=True))

    assert on_rocm(205_696).exit_code == 0
    other = on_rocm(205_680)
    assert other.exit_code == 2
    assert other.refusal == (
        "The log is of another device than CUDA's (rocm), whose cache is not verified to be what is planned here, and "
        "its numbers are not those of CUDA."
    )


def test_the_block_of_another_platform_is_its_own():
    log = start_up(
        "0.22.0", "google/gemma-4-31B-it", length=163840, gib=10.12, tokens=169_314, concurrency="1.03",
        tensor_parallel_size=2, max_num_batched_tokens=8192, enable_prefix_caching=True,
        further=("Automatically detected platform xpu.", "Using FLASH_ATTN attention backend out of potential"),
    )  # fmt: skip
    assert judge(read(log), Wanted(offline=True)).exit_code == 0


def test_a_cache_that_was_kept_in_one_group_is_told_by_its_warning():
    log = start_up(
        "0.11.0", "google/gemma-3-27b-it", length=4096, gib=109.86, tokens=232_256, concurrency="56.70",
        further=("Hybrid KV cache manager is disabled for this hybrid model, This means",),
    )  # fmt: skip
    verdict = judge(read(log), Wanted(offline=True))
    assert [(line.what, line.agrees) for line in verdict.lines] == [
        ("kv_cache_size_tokens", True),
        ("max_concurrency", True),
    ]


@pytest.mark.parametrize(
    ("reading", "names"),
    [
        (LogReading(), KINDS),
        (LogReading(gpu="NVIDIA_H100_80GB_HBM3"), ("H100 SXM",)),
        (LogReading(gpu="NVIDIA_B999"), KINDS),
        (LogReading(gpu_capability="12.1"), ("GB10",)),
        (LogReading(gpu_capability="12.0"), ("RTX 5090", "RTX PRO 6000")),
        (LogReading(memory=MemoryReading(total_gib=44.39)), ("L40S",)),
        (LogReading(memory=MemoryReading(total_gib=15.47)), ("L40S", "RTX 5090", "RTX 3090", "A100 40GB")),
        (LogReading(memory=MemoryReading(total_gib=15.47), gpu_capability="12.0"), ("RTX 5090",)),
        (LogReading(memory=MemoryReading(total_gib=15.47), gpu_capability="9.0"), ("9.0:15",)),
    ],
)
def test_devices_that_a_log_can_be_of(reading: LogReading, names: tuple[str, ...]):
    assert devices(reading, None).names == names
    assert devices(reading, "L4") == (("L4",), True)


def test_a_capability_that_is_not_known_is_named():
    with pytest.raises(Refused, match=r"compute capability 7\.5, which kvplan does not know"):
        devices(LogReading(gpu_capability="7.5"), None)


@pytest.mark.parametrize(
    ("reading", "told"),
    [
        (LogReading(), None),
        (LogReading(platform="cuda", attention_backend="FLASH_ATTN", gpu="NVIDIA_L4"), None),
        (LogReading(platform="ascend"), "ascend"),
        (LogReading(attention_backend="ROCM_AITER_FA"), "ROCM_AITER_FA"),
        (LogReading(gpu="AMD_Instinct_MI300X"), "AMD_Instinct_MI300X"),
        (LogReading(engine_config={"device": "xpu"}), "xpu"),
    ],
)
def test_what_is_no_cuda_device(reading: LogReading, told: str | None):
    assert foreign(reading) == told


def test_what_the_log_does_not_say_is_not_held_against_it():
    tokens = "(EngineCore pid=7) INFO 06-02 [k.py:1] GPU KV cache size: {} tokens, Maximum concurrency for 4,096 tokens per request: {}x\n"
    head = (
        "INFO 10-08 16:50:22 [core.py:129] Initializing a V1 LLM engine (v0.31.0) with config: model='Qwen/Qwen3-8B'\n"
    )
    memory = "INFO 10-08 16:50:30 [gpu_worker.py:692] Available KV cache memory: 18.69 GiB\n"
    agreeing = head + memory + tokens.format("136,080", "33.22")
    assert judge(read(agreeing), Wanted(offline=True)).exit_code == 0
    differing = judge(read(agreeing.replace("136,080", "120,000")), Wanted(offline=True))
    assert differing.refusal == (
        "The log does not hold the options it was started with, and vLLM's defaults do not give its numbers."
    )


def test_window_layers_need_the_batch():
    def gemma(tokens: int, **batch: int) -> Verdict:
        log = start_up("0.22.0", "google/gemma-3-27b-it", length=8192, gib=59.15, tokens=tokens, **batch)
        return judge(read(log), Wanted(offline=True, gpu="L4"))

    assert gemma(237_690, max_num_batched_tokens=2048).exit_code == 0
    assert gemma(237_690).exit_code == 0
    assert gemma(150_000, max_num_batched_tokens=2048).exit_code == 1
    assert gemma(150_000).refusal == (
        "The log does not say its max_num_batched_tokens, which window layers reserve, and vLLM's default does not give "
        "its numbers."
    )
