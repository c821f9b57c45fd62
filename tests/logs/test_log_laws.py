"""Laws: what carries a log does not change what it says, and nothing in a log makes the reader fail."""
# ruff: noqa: E501 (log lines as they are printed)

from __future__ import annotations

import time
import tracemalloc
from random import Random

import log_startups as startups
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.logs import read_log
from kvplan.logs.facts import SENTENCES
from kvplan.logs.values import read_dict, read_pairs

NAMES = sorted(startups.ALL)


@pytest.mark.parametrize("transport", sorted(startups.TRANSPORTS))
@pytest.mark.parametrize("name", NAMES)
def test_what_carries_a_log_does_not_change_the_reading(name: str, transport: str):
    lines = startups.ALL[name].split("\n")
    assert read_log(map(startups.TRANSPORTS[transport], lines)) == read_log(lines)


# Cut, these are no JSON, colours, frames or tags of every line any more.
WHOLE_LINES = (
    "docker json-file", "terminal colours", "a cloud's text payload", "a cloud's nested payload", "loki",
    "journald as JSON", "a table", "in quotes", "a job's tag", "a replica's tag", "supervisor",
)  # fmt: skip


@given(
    name=st.sampled_from(NAMES),
    mark=st.sampled_from(sorted(startups.MARKS)),
    width=st.integers(78, 250),
)
@settings(max_examples=60, deadline=None)
def test_marks_on_lines_that_a_terminal_has_cut_do_not_change_the_document(name: str, mark: str, width: int):
    lines = startups.ALL[name].split("\n")
    cut = [line[at : at + width] for line in lines for at in range(0, max(len(line), 1), width)]
    assert read_log(map(startups.MARKS[mark], cut)).document() == read_log(lines).document()


@given(
    name=st.sampled_from(NAMES),
    transport=st.sampled_from(sorted(set(startups.TRANSPORTS) - set(WHOLE_LINES))),
    width=st.integers(70, 250),
)
@settings(max_examples=100, deadline=None)
def test_a_terminal_that_cuts_lines_does_not_change_the_document(name: str, transport: str, width: int):
    lines = startups.ALL[name].split("\n")
    carry = startups.TRANSPORTS[transport]
    carried = map(carry, lines)
    width = max(width, len(carry("")) + 40)  # the process and the level stand whole on the first line
    cut = [line[at : at + width] for line in carried for at in range(0, max(len(line), 1), width)]
    assert read_log(cut).document() == read_log(lines).document()


@given(name=st.sampled_from(NAMES), data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_truncated_log_says_nothing_that_the_whole_log_contradicts(name: str, data: st.DataObject):
    lines = startups.ALL[name].split("\n")
    end = data.draw(st.integers(0, len(lines)))
    whole, part = read_log(lines), read_log(lines[:end])
    told_by_ranks = (
        ("weights_gib", "kv_cache_size_tokens", "max_concurrency") if len(whole.memory.weights_gib) > 1 else ()
    )
    for key in ("version", "model", "drafter", "weights_gib", "kv_cache_size_tokens", "max_concurrency", "layout"):
        if key not in told_by_ranks:
            assert part.document()[key] in (None, whole.document()[key])
    for rank in part.memory.available_gib:
        assert rank in whole.memory.available_gib


FRAGMENTS = st.sampled_from(
    [sentence.replace("{int}", "12").replace("{dec}", "1.5").replace("{word}", "x") for _, _, sentence in SENTENCES]
    + [words for words, _, _ in SENTENCES]
    + [line for text in startups.ALL.values() for line in text.split("\n")]
    + [
        "(EngineCore_DP7 pid=1) INFO ",
        "\x1b[0m",
        '{"message": "',
        '{"log":"',
        "\r",
        "\x00",
        "\ufeff",
        "9" * 5000,
        "{" * 400,
    ]
)
JUNK = st.one_of(FRAGMENTS, st.text(max_size=40), st.integers().map(str))


@given(st.lists(st.lists(JUNK, max_size=6).map("".join), max_size=12))
@settings(max_examples=200, deadline=None)
def test_no_text_makes_the_reader_fail(lines: list[str]):
    reading = read_log(lines)
    assert set(reading.missing) <= set(reading.document())


@given(st.lists(st.binary(max_size=200), max_size=10))
@settings(max_examples=60, deadline=None)
def test_no_bytes_make_the_reader_fail(lines: list[bytes]):
    assert isinstance(read_log(lines).document(), dict)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, min_size=1, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=6))
def test_the_repr_of_a_dict_reads_back_as_the_dict(value: dict[str, object]):
    assert read_dict(repr(value)) == value


@given(st.text(max_size=300))
@settings(deadline=None)
def test_reprs_of_any_text_are_read_without_an_error(text: str):
    assert isinstance(read_dict("{" + text), dict)
    assert isinstance(read_pairs(text), dict)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{'a': <Mode.FULL: (2, 1)>, 'b': torch.bfloat16, 'c': PosixPath('/x'), 'd': (1, 2.5), 'e': {1, 2}}",
         {"a": "FULL", "b": "torch.bfloat16", "c": "/x", "d": [1, 2.5], "e": [1, 2]}),
        ("{'a': Config(x=1, y='z'), 'b': <function f at 0x7>, 'c': inf}", {"a": {"x": 1, "y": "z"}, "b": "<function f at 0x7>", "c": "inf"}),
        ("{'a': 1, 'b': 2", {"a": 1}),
        ("{'a': 'it\\'s', 'b': \"D:\\\\m\"}", {"a": "it's", "b": "D:\\m"}),
        ("nothing", {}),
    ],
)  # fmt: skip
def test_reprs_that_are_no_literals(text: str, expected: dict[str, object]):
    assert read_dict(text) == expected


def test_a_long_log_streams_in_constant_memory():
    def lines():
        yield from startups.V0220_DRAFTER.split("\n")
        steady = "(APIServer pid=1) INFO 05-30 [loggers.py:259] Engine 000: GPU KV cache usage: 12.4%"
        for _ in range(40_000):
            yield steady
            yield "no header " * 4
            yield "x" * 200
        yield from startups.V0130_HYBRID.split("\n")

    read_log(startups.V0220_DRAFTER.split("\n"))  # compiled patterns are not the log's
    tracemalloc.start()
    reading = read_log(lines())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert reading.startups == 2
    assert peak < 8 * 2**20


def test_ten_megabytes_in_under_a_second():
    head = startups.V0220_DRAFTER.split("\n")
    steady = (
        "(APIServer pid=1) INFO 05-30 07:20:10 [loggers.py:259] Engine 000: Avg prompt throughput: 1203.4 tokens/s, "
        "Running: 8 reqs, Waiting: 0 reqs, GPU KV cache usage: 12.4%, Prefix cache hit rate: 43.1%"
    )
    lines = [*head, *[steady, "(EngineCore pid=2) some other line that this process prints now and then"] * 38_000]
    assert sum(map(len, lines)) > 10**7
    start = time.process_time()
    reading = read_log(lines)
    assert time.process_time() - start < 1
    assert reading.kv_cache_size_tokens == 1470588


def progress(step: int) -> str:
    return f"Capturing CUDA graphs (PIECEWISE): {step * 10:3}%|{'#' * step:10}| {step}/10 [00:0{step}<00:05,  8.3{step}it/s]"


@given(name=st.sampled_from(NAMES), data=st.data())
@settings(max_examples=60, deadline=None)
def test_progress_bars_between_messages_say_nothing(name: str, data: st.DataObject):
    lines = startups.ALL[name].split("\n")
    out = []
    for line in lines:
        bars = [progress(step) for step in range(data.draw(st.integers(0, 10)))]
        where = data.draw(st.sampled_from(["over", "before", "glued"]))
        if where == "over":
            out.append("\r".join([*bars, line]))
        elif where == "before":
            out += ["\r".join(bars), line]
        else:
            out.append("".join(bars[-1:]) + line)
    assert read_log(out).document() == read_log(lines).document()


ERAS = ("0.9.2", "0.10.0", "0.10.1", "0.10.2", "0.11.0", "0.11.1", "0.14.0", "0.20.1", "0.26.0", "0.28.0", "0.33.0")


@given(
    version=st.sampled_from(ERAS),
    engines=st.sampled_from([1, 2, 4]),
    sizes=st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 2), (8, 1)]),
    restarts=st.integers(0, 2),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=80, deadline=None)
def test_the_first_engine_s_smallest_rank_is_read(
    version: str, engines: int, sizes: tuple[int, int], restarts: int, seed: int
):
    """Engines and ranks print at once, and all ranks up to 0.11.0; the last of several start-ups counts."""
    if engines > 1 and version in ("0.9.2", "0.10.0", "0.10.1"):
        engines = 1  # their workers' tags do not tell the engine
    random = Random(seed)
    lines: list[str] = []
    for _ in range(restarts + 1):
        more, said = startups.several(version, engines, *sizes, random)
        lines += more
    found = read_log(lines).document()
    assert {key: found[key] for key in said} == said
