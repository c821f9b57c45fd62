"""The table of releases, and known start-ups reckoned with it."""
# ruff: noqa: E501 (log lines as they are printed)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.errors import Refused
from kvplan.logs.capacity import (
    Alignment,
    blocks_printed_as,
    bytes_printed_as,
    hybrid_block_size,
    in_flight_tokens,
    mamba_request_blocks,
    request_blocks,
    retained_tokens,
    tokens_and_concurrency,
)
from kvplan.logs.rules import (
    CHANGES,
    RULE_NAMES,
    VERIFIED,
    Rules,
    differences,
    relevant_rules,
    rules_for,
    source_of,
)

TOKENS_ONLY = ("token_line", "request_blocks", "in_flight")


def test_every_release_has_every_rule_and_a_source_for_it():
    for release in VERIFIED:
        rules = rules_for(release)
        for name in RULE_NAMES:
            row = source_of(rules, name)
            assert (row.rule, row.value) == (name, getattr(rules, name))
            assert ".py" in row.source or "/" in row.source


def test_every_row_of_the_table_changes_something_from_its_release_on():
    for row in CHANGES:
        assert row.since in VERIFIED
        if row.since != VERIFIED[0]:
            before = rules_for(VERIFIED[VERIFIED.index(row.since) - 1])
            assert getattr(before, row.rule) != row.value


@pytest.mark.parametrize(
    ("rule", "last", "first"),
    [
        ("token_line", "0.20.0", "0.20.1"),
        ("token_line", "0.9.1", "0.9.2"),
        ("token_line", "0.10.2", "0.11.0"),
        ("context_parallel", "0.10.2", "0.11.0"),
        ("request_blocks", "0.9.0.1", "0.9.1"),
        ("request_blocks", "0.26.0", "0.27.0"),
        ("in_flight", "0.25.1", "0.26.0"),
        ("retained", "0.27.1", "0.28.0"),
        ("null_block", "0.28.0", "0.29.0"),
        ("mamba", "0.14.1", "0.15.0"),
        ("mamba", "0.28.0", "0.29.0"),
        ("group_size", "0.11.2", "0.12.0"),
        ("group_size", "0.17.1", "0.18.0"),
        ("override", "0.20.0", "0.20.1"),
        ("cuda_graphs", "0.19.1", "0.20.0"),
        ("plain_block", "0.17.1", "0.18.0"),
        ("plain_block", "0.30.0", "0.31.0"),
        ("flash_attn_blocks", "0.28.0", "0.29.0"),
    ],
)
def test_boundaries_between_releases(rule: str, last: str, first: str):
    assert VERIFIED.index(first) == VERIFIED.index(last) + 1
    assert getattr(rules_for(last), rule) != getattr(rules_for(first), rule)


@pytest.mark.parametrize(
    ("release", "tokens"), [("0.9.2", 32112), ("0.10.2", 32112), ("0.11.0", 4110336), ("0.20.0", 4110336)]
)
def test_tokens_of_a_model_of_states_only(release: str, tokens: int):
    """Falcon Mamba 7B, 40 GB: 2,007 blocks; its one group was counted in the configured block until 0.11.0."""
    printed = tokens_and_concurrency(
        rules_for(release), num_blocks=2007, per_group_blocks=[1], block_sizes=[2048], max_model_len=2048,
        page_sizes=[311296], configured_block_size=16,
    )  # fmt: skip
    assert (printed.kv_cache_size_tokens, printed.concurrency_text) == (tokens, "2007.00")


def test_context_parallelism_multiplied_one_group_only_in_0_10_2():
    def tokens(release: str, groups: int) -> int:
        return tokens_and_concurrency(
            rules_for(release), num_blocks=1000, per_group_blocks=[8] * groups, block_sizes=[16] * groups,
            max_model_len=128, configured_block_size=16, decode_context_parallel_size=2,
        ).kv_cache_size_tokens  # fmt: skip

    assert (tokens("0.10.1", 1), tokens("0.10.2", 1), tokens("0.10.2", 2), tokens("0.11.0", 2)) == (
        16000, 32000, 8000, 16000,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("0.33.0", "0.33.0"),
        ("v0.31.0", "0.31.0"),
        ("0.13.0+faa43dbf.nv26.01", "0.13.0"),
        ("0.9.0.1", "0.9.0.1"),
        ("0.19.0.post1", "0.19.0"),
        ("0.20.1.dev0+g101584af0.d20260424", "0.20.0"),
        ("0.19.2rc1.dev8+g4b7f5ea1a", "0.19.1"),
        ("0.22.1rc1.dev281+gad2337814", "0.22.0"),
        ("0.30.1rc1.dev143+g29468dde8", "0.30.0"),
        ("0.13.0rc2.dev98+g393de22d2", "0.12.0"),
    ],
)
def test_versions_as_logs_have_them(version: str, release: str):
    assert rules_for(version, relevant=TOKENS_ONLY).release == release


@pytest.mark.parametrize(
    ("version", "sentence"),
    [
        ("0.34.0", "vLLM 0.34.0 is not a version whose rules were verified (0.9.0 to 0.33.0); name the release it follows with --assume-engine."),
        ("0.8.5", "vLLM 0.8.5 is not a version whose rules were verified (0.9.0 to 0.33.0); name the release it follows with --assume-engine."),
        ("0.31.1", "vLLM 0.31.1 is not a version whose rules were verified (0.9.0 to 0.33.0); name the release it follows with --assume-engine."),
        ("0.33.1rc1.dev5+gabc", "vLLM 0.33.1rc1.dev5+gabc is not a version whose rules were verified (0.9.0 to 0.33.0); name the release it follows with --assume-engine."),
        ("0.1.dev1+g9759e3b06", "vLLM 0.1.dev1+g9759e3b06 is not a version whose rules were verified (0.9.0 to 0.33.0); name the release it follows with --assume-engine."),
        ("dev", "vLLM version 'dev' is not readable; name the release with --assume-engine."),
        ("0.20.1rc1.dev3+gabc", "vLLM 0.20.1rc1.dev3+gabc lies between 0.20.0 and 0.21.0, which differ in token_line; name the one it follows with --assume-engine."),
        ("0.11.0rc2.dev98+g393de22d2", "vLLM 0.11.0rc2.dev98+g393de22d2 lies between 0.10.2 and 0.11.0, which differ in token_line; name the one it follows with --assume-engine."),
        (None, "The log does not say which vLLM printed it; name the release with --assume-engine."),
    ],
)  # fmt: skip
def test_versions_that_were_not_verified_are_refused(version: str | None, sentence: str):
    with pytest.raises(Refused) as refused:
        rules_for(version, relevant=TOKENS_ONLY)
    assert str(refused.value) == sentence


def test_assume_engine_takes_a_release_whatever_the_log_says():
    assert rules_for("0.34.0", assume="0.33.0") == rules_for("0.33.0")._replace(
        basis="taken as 0.33.0 by --assume-engine"
    )
    with pytest.raises(Refused, match=r"--assume-engine 1\.2 is not a release"):
        rules_for("0.33.0", assume="1.2")


def test_only_rules_that_matter_can_refuse_a_build():
    build = "0.21.1rc1.dev339+g1967a5627bc3"
    assert rules_for(build, relevant=relevant_rules(mixed=True, window=True)).release == "0.21.0"
    with pytest.raises(Refused, match="differ in mamba"):
        rules_for(build, relevant=relevant_rules(mixed=True, state=True))
    assert differences(rules_for("0.21.0"), rules_for("0.22.0")) == ("mamba", "connector_groups")


KNOWN = [
    # release, blocks, blocks of each group, block sizes, length, tokens, concurrency
    ("0.9.2", 8505, [2560], [16], 40960, 136080, "3.32"),  # Qwen3-8B on an A100
    ("0.11.0", 89994, [256, *[256] * 5, 256], [16] * 7, 4096, 205696, "50.22"),
    ("0.13.0", 1473, [9, *[1] * 6], [992, *[8192] * 6], 8192, 208320, "98.20"),  # Nemotron 3 Nano 4B
    ("0.12.0", 83, [1, 1], [2080, 2048], 2048, 83968, "41.50"),  # Falcon-H1: the state group's block is the smallest
    ("0.20.0", 147, [32, 2, 2, 2], [2096] * 4, 65536, 75456, "3.87"),  # Qwen3.6-35B, align mode
    ("0.20.0", 3496, [225, 225, 225, *[17] * 4], [1168] * 7, 262144, 582832, "4.71"),  # with 15 drafted tokens
    ("0.22.0", 4250, [182, 182, 182, *[8] * 4], [1104] * 7, 200000, 1470588, "7.35"),
    ("0.25.1", 1545, [328, 4, 4, 4], [800] * 4, 262144, 1191213, "4.54"),  # Qwen3.8-27B with MTP
    ("0.27.1", 626, [502, 1, 1, 1], [1568] * 4, 786432, 974864, "1.24"),
    ("0.30.0", 84094, [32768, *[1033] * 5, 1089], [32, *[16] * 6], 1048576, 2259724, "2.16"),  # MiMo with DFlash
]


@pytest.mark.parametrize(("release", "blocks", "groups", "sizes", "length", "tokens", "concurrency"), KNOWN)
def test_known_start_ups(release, blocks, groups, sizes, length, tokens, concurrency):
    printed = tokens_and_concurrency(
        rules_for(release), num_blocks=blocks, per_group_blocks=groups, block_sizes=sizes, max_model_len=length
    )
    assert (printed.kv_cache_size_tokens, printed.concurrency_text) == (tokens, concurrency)


def test_the_first_release_reckons_concurrency_from_tokens():
    printed = tokens_and_concurrency(
        rules_for("0.9.0"), num_blocks=1000, per_group_blocks=[7], block_sizes=[16], max_model_len=100
    )
    assert printed == (16000, 160.0, None)


def test_context_parallel_sizes_multiply_tokens_only_where_they_did():
    def tokens(release: str) -> int:
        return tokens_and_concurrency(
            rules_for(release), num_blocks=1000, per_group_blocks=[10], block_sizes=[16], max_model_len=320,
            decode_context_parallel_size=2, prefill_context_parallel_size=3,
        ).kv_cache_size_tokens  # fmt: skip

    assert [tokens(release) for release in ("0.10.1", "0.11.2", "0.20.0", "0.20.1")] == [16000, 32000, 96000, 32000]


def test_blocks_of_a_request_are_counted_in_pages_of_the_first_group_up_to_0_26():
    blocks, pages = [10, 3], [1000, 1500]
    assert request_blocks(rules_for("0.26.0"), blocks, pages) == 15  # ceil(14500 / 1000)
    assert request_blocks(rules_for("0.27.0"), blocks, pages) == 13


def test_configured_block_size_is_needed_where_a_release_counts_in_it():
    rules = rules_for("0.9.1")
    with pytest.raises(Refused, match="--block-size"):
        tokens_and_concurrency(rules, num_blocks=9, per_group_blocks=[1, 1], block_sizes=[16, 32], max_model_len=16)
    printed = tokens_and_concurrency(
        rules, num_blocks=9, per_group_blocks=[1, 1], block_sizes=[16, 32], max_model_len=16, configured_block_size=32
    )
    assert printed.kv_cache_size_tokens == 128


@pytest.mark.parametrize(
    ("release", "mode", "expected"),
    [
        ("0.10.2", "none", 1), ("0.13.0", "none", 1), ("0.13.0", "all", 10),
        ("0.15.0", "none", 4), ("0.15.0", "align", 5), ("0.21.0", "all", 10),
        ("0.22.0", "all", 13), ("0.28.0", "align", 5), ("0.29.0", "align", 6), ("0.33.0", "align", 6),
    ],
)  # fmt: skip
def test_state_blocks_of_a_request(release: str, mode: str, expected: int):
    rules = rules_for(release)
    size = 1000 if mode == "none" else 100
    blocks = mamba_request_blocks(
        rules, mode=mode, num_speculative_tokens=3, max_model_len=1000, mamba_block_size=size, checkpoint_blocks=1
    )
    assert blocks == expected


@pytest.mark.parametrize(("release", "mode"), [("0.9.1", "none"), ("0.32.0", "all"), ("0.33.0", "other")])
def test_state_modes_that_a_release_does_not_have_are_refused(release: str, mode: str):
    with pytest.raises(Refused, match=release.replace(".", r"\.")):
        mamba_request_blocks(
            rules_for(release), mode=mode, num_speculative_tokens=0, max_model_len=10, mamba_block_size=5
        )


@pytest.mark.parametrize(
    ("release", "async_scheduling", "stages", "v2", "batches"),
    [
        ("0.25.1", True, 1, False, 1),
        ("0.26.0", True, 1, False, 2),
        ("0.26.0", False, 1, False, 1),
        ("0.26.0", True, 4, False, 4),
        ("0.33.0", True, 4, True, 5),
        ("0.33.0", False, 4, True, 4),
    ],
)
def test_tokens_in_flight(release: str, async_scheduling: bool, stages: int, v2: bool, batches: int):
    tokens = in_flight_tokens(
        rules_for(release),
        max_num_batched_tokens=2048,
        async_scheduling=async_scheduling,
        pipeline_parallel_size=stages,
        v2_model_runner=v2,
    )
    assert tokens == batches * 2048


def test_tokens_retained_for_several_mtp_modules():
    def retained(release: str, multi: bool, eagle: bool) -> int:
        return retained_tokens(rules_for(release), num_speculative_tokens=3, multi_module_mtp=multi, eagle_like=eagle)

    assert [retained(release, True, True) for release in ("0.27.1", "0.28.0", "0.33.0")] == [0, 2, 2]
    assert (retained("0.33.0", True, False), retained("0.33.0", False, True)) == (0, 0)


def test_bytes_inside_the_rounding_of_a_printed_value():
    assert bytes_printed_as(30.0) == range(32206886011, 32217623430)
    assert bytes_printed_as(0.123) == range(0, 0) or not bytes_printed_as(0.123)
    assert 32212254720 in bytes_printed_as(30.0)
    assert blocks_printed_as(0.67, 458752) == range(1556, 1580)
    assert not blocks_printed_as(-0.45, 4096)


@given(st.integers(0, 2**44))
def test_a_number_of_bytes_is_among_those_that_print_as_it_does(size: int):
    assert size in bytes_printed_as(round(size / 2**30, 2))


@given(st.integers(1, 10**7), st.lists(st.integers(1, 10**5), min_size=1, max_size=8), st.integers(1, 10**7))
def test_from_0_20_1_on_tokens_are_concurrency_times_length(num_blocks, groups, length):
    rules: Rules = rules_for("0.33.0")
    printed = tokens_and_concurrency(
        rules, num_blocks=num_blocks, per_group_blocks=groups, block_sizes=[16] * len(groups), max_model_len=length
    )
    assert printed.kv_cache_size_tokens == int(num_blocks / sum(groups) * length)


QWEN3_NEXT_TP2 = 4096 * 3 * 2 + 16 * 128 * 128 * 2  # conv state and temporal state of one rank, bytes


@pytest.mark.parametrize(
    ("release", "state", "per_token", "mode", "alignment", "expected"),
    [
        ("0.10.2", QWEN3_NEXT_TP2, 1024, "none", Alignment(), 544),  # printed with 1.49 % padding
        ("0.13.0", QWEN3_NEXT_TP2, 512, "none", Alignment(), 1072),  # fp8: exactly full
        ("0.13.0", QWEN3_NEXT_TP2, 1024, "none", Alignment(blackwell_head_256=True), 544),
        ("0.13.0", 1000, 10, "none", Alignment(blackwell_head_256=True), 128),
        ("0.18.0", 1000, 10, "none", Alignment(blackwell_head_256=True), 112),
        ("0.13.0", 1000, 10, "all", Alignment(chunk=256), 256),
        ("0.13.0", 1000, 10, "none", Alignment(mla=True), 128),
        ("0.20.0", 1000, 10, "none", Alignment(smallest_kernel_block=64), 128),
        ("0.26.0", 1000, 10, "none", Alignment(smallest_kernel_block=32, mla=True), 128),
        ("0.27.0", 2000, 10, "none", Alignment(smallest_kernel_block=32, mla=True), 256),
        ("0.32.0", 1000, 10, "none", Alignment(every_smallest_kernel_block=(16, 48)), 144),
        ("0.32.0", 1000, 10, "align", Alignment(checkpoint=96), 112),
        ("0.33.0", 1000, 10, "align", Alignment(checkpoint=96), 192),
        ("0.33.0", 10, 10, "none", Alignment(), 16),
    ],
)
def test_attention_block_of_hybrid_models(release, state, per_token, mode, alignment, expected):
    size = hybrid_block_size(
        rules_for(release), state_bytes=state, attention_bytes_per_token=per_token, mode=mode, alignment=alignment
    )
    assert size == expected


def test_first_releases_leave_the_attention_block_to_the_user():
    with pytest.raises(Refused, match=r"0\.9\.2"):
        hybrid_block_size(rules_for("0.9.2"), state_bytes=1000, attention_bytes_per_token=10)
