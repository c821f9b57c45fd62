"""Law: every number that a log has of what a plan says is a line, and one that is not judged carries its reason."""

from __future__ import annotations

from start_ups import attention_block, read, start_up

from kvplan.report.csv import lines_csv
from kvplan.report.style import View
from kvplan.verify.judge import Verdict, Wanted, judge
from kvplan.verify.report import verify_document, verify_text

NO_MEMORY = "The log does not hold the KV memory that they follow from."


def verdict_of(log: str) -> Verdict:
    return judge(read(log), Wanted(offline=True, gpu="H100"))


def lines_of(verdict: Verdict) -> list[tuple[object, ...]]:
    return [(line.what, line.log, line.plan, line.agrees) for line in verdict.lines]


def next_80b(**shown: object) -> Verdict:
    return verdict_of(
        start_up(
            "0.13.0", "Qwen/Qwen3-Next-80B-A3B-Instruct", length=32768, further=attention_block(1072),
            engine="enable_prefix_caching=False", tensor_parallel_size=2, kv_cache_dtype="fp8", **shown,  # type: ignore[arg-type]
        )
    )  # fmt: skip


def test_tokens_without_a_memory_are_not_judged_and_do_not_agree():
    verdict = next_80b(tokens=9999, concurrency="1.07")
    assert verdict.exit_code == 2
    assert verdict.refusal == NO_MEMORY
    assert lines_of(verdict) == [
        ("attention_block_size", 1072, 1072, True),
        ("kv_cache_size_tokens", 9999, None, None),
        ("max_concurrency", 1.07, None, None),
    ]
    text = verify_text(verdict)
    assert text.startswith("The log cannot be judged: of 3 lines found, 1 is judged and agrees.\n")
    assert "  KV cache size, tokens    9,999         not judged\n" in text
    assert f"Not judged: KV cache size, maximum concurrency. {NO_MEMORY}" in text.replace("\n  ", " ")
    document = verify_document(verdict)
    assert document["lines"][1] == {"what": "kv_cache_size_tokens", "log": 9999, "plan": None, "agrees": None}
    assert document["not_judged"] == [{"lines": ["kv_cache_size_tokens", "max_concurrency"], "reason": NO_MEMORY}]


def test_a_line_that_differs_is_told_beside_those_that_are_not_judged():
    verdict = verdict_of(
        start_up("0.13.0", "Qwen/Qwen3-Next-80B-A3B-Instruct", length=32768, further=attention_block(800), tokens=9999)
    )
    assert (verdict.exit_code, verdict.refusal) == (1, None)
    assert verify_text(verdict).startswith("1 of 2 lines found is judged; 1 of them differs.\n")


def test_a_number_of_blocks_proves_nothing_of_itself():
    log = start_up("0.9.2", "Qwen/Qwen3-8B", length=40960, tokens=136080, concurrency="3.32", blocks=8505)
    verdict = verdict_of(log)
    assert lines_of(verdict) == [
        ("num_gpu_blocks", 8505, None, None),
        ("kv_cache_size_tokens", 136080, 136080, True),
        ("max_concurrency", 3.32, 3.32, True),
    ]
    assert verdict.exit_code == 0
    assert verify_text(verdict).startswith("2 of 3 lines found are judged; all of them agree.\n")
    alone = verdict_of(start_up("0.9.2", "Qwen/Qwen3-8B", length=40960, blocks=8505))
    assert (alone.exit_code, lines_of(alone)) == (2, [("num_gpu_blocks", 8505, None, None)])


def test_a_layout_before_layouts_were_planned_stays_open():
    log = start_up(
        "0.28.0", "Qwen/Qwen3-8B", length=40960, gib=18.69, tokens=136080, concurrency="3.32",
        further=("Using HND KV cache layout",),
    )  # fmt: skip
    verdict = verdict_of(log)
    assert verdict.exit_code == 0
    assert lines_of(verdict)[0] == ("layout", "HND", None, None)
    assert "Layouts are planned from vLLM 0.29.0 on" in verify_text(verdict).replace("\n  ", " ")


def test_a_log_that_cannot_be_planned_lists_what_it_has():
    verdict = verdict_of(start_up("0.31.0", "org/unknown", length=40960, gib=18.69, tokens=136080))
    assert (verdict.exit_code, lines_of(verdict)) == (2, [("kv_cache_size_tokens", 136080, None, None)])
    assert verify_text(verdict).startswith("The log cannot be judged: of 1 line found, none is judged.\n")


def test_an_attention_block_is_judged_whatever_the_batch_is():
    log = start_up(
        "0.31.0", "Qwen/Qwen3.5-27B", length=65536, gib=40.0, tokens=1000, further=attention_block(1152),
        speculative_config={"method": "dflash", "model": "SpecForge/Qwen3.6-27B-DFlash2", "num_speculative_tokens": 7},
    )  # fmt: skip
    verdict = verdict_of(log)
    assert verdict.exit_code == 1
    assert lines_of(verdict)[0] == ("attention_block_size", 1152, 832, False)
    assert lines_of(verdict)[1][3] is None
    assert verdict.first_cause is not None
    assert verdict.first_cause.startswith("The attention block differs (1,152 tokens in the log, 832 in the plan)")


def test_a_concurrency_is_shown_with_the_decimals_that_vllm_prints():
    log = start_up("0.9.2", "Qwen/Qwen3-8B", length=40960, gib=18.69, tokens=136080, concurrency="3.30")
    assert "  maximum concurrency       3.30     3.32  DIFFERS\n" in verify_text(verdict_of(log))


def test_no_line_of_a_verdict_is_wider_than_the_view():
    log = start_up("0.9.2", "Qwen/Qwen3-8B", length=40960, gib=18.69, tokens=136080, concurrency="3.32")
    for columns in (60, 70, 80):
        assert max(map(len, verify_text(verdict_of(log), View(columns)).splitlines())) <= columns


def test_lines_as_csv_leave_open_what_is_not_judged():
    verdict = next_80b(tokens=9999)
    assert lines_csv(verdict.lines) == (
        f"what,log,plan,agrees,reason\nattention_block_size,1072,1072,true,\nkv_cache_size_tokens,9999,,,{NO_MEMORY}\n"
    )
