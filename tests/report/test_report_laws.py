"""Laws that hold for every result, whatever its layers: widths, characters, sums and round trips."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_build import attention, cached, deal, engine_config, group, limits_of, plan, result
from report_cases import gemma, qwen, qwen_dflash, qwen_mtp, sparse_mla

from kvplan.comparison import bytes_per_request, causes, compare
from kvplan.errors import KvplanError
from kvplan.planning import GROUPINGS, plan_layers
from kvplan.report import compare_document, costs, diagram, padding
from kvplan.report.compare_markdown import compare_markdown
from kvplan.report.compare_text import compare_text
from kvplan.report.csv import compare_csv, layers_csv, plan_csv
from kvplan.report.decision import error_words
from kvplan.report.document import to_document, to_json
from kvplan.report.layers_text import layers_markdown, layers_text, names
from kvplan.report.lines import wrap
from kvplan.report.markdown import plan_markdown
from kvplan.report.read_document import read_document
from kvplan.report.style import ASCII, PLAIN, VIEW, View, ansi
from kvplan.report.text import plan_text
from kvplan.result import DrafterInfo, Layout, Reason, Result
from kvplan.spec import Limits, StateSpec

KINDS = (
    "full_attention",
    "sliding_window",
    "chunked_local",
    "mla",
    "sliding_window_mla",
    "circular_buffer",
    "cross_attention",
    "sink_full_attention",
    "rswa",
    "hidden_state",
    "mamba",
)
LIMITS = Limits(32768, 4096, max_num_encoder_input_tokens=1500)
WORDS = st.text("abcdefgh/-_.| `*[]<é", min_size=1, max_size=120)


@st.composite
def specs(draw, page: int | None = None):
    kind = draw(st.sampled_from(KINDS))
    block = draw(st.sampled_from([1, 4, 16, 64, 640, 7808]))
    if kind == "mamba":
        drafted = draw(st.integers(0, 8))
        shapes = ((draw(st.integers(1, 12)), 8192), (32, 128, 128))[: draw(st.integers(1, 2))]
        spec = StateSpec(shapes, ("bfloat16",) * len(shapes), block, num_speculative_blocks=drafted)
    else:
        spec = attention(
            kind,
            block,
            draw(st.integers(1, 64)),
            draw(st.sampled_from([64, 128, 192, 256, 576])),
            sliding_window=draw(st.sampled_from([8, 128, 4096])) if "window" in kind else None,
            attention_chunk_size=8192 if kind == "chunked_local" else None,
            tokens_per_state=draw(st.sampled_from([1, 4])) if kind == "mla" and block >= 4 else 1,
        )
    return spec if page is None else spec._replace(page_size_padded=page)


@st.composite
def results(draw) -> Result:
    """A result of up to five sets of layers, grouped with uniform pages and packed; with and without a budget."""
    config = engine_config(
        max_model_len=draw(st.sampled_from([16, 1000, 32768, 1048576])),
        enable_prefix_caching=draw(st.booleans()),
        is_hybrid=draw(st.booleans()),
    )
    limits = limits_of(config)
    page = 2**33 if draw(st.booleans()) else None
    sets = []
    for i, spec in enumerate(draw(st.lists(specs(page), min_size=1, max_size=5))):
        owner = draw(st.sampled_from(["target", "drafter"]))
        stem = draw(st.sampled_from(["layers.{}.attn", "layers.{}.indexer.k_cache", "layers.{}.compressor.state"]))
        count = draw(st.integers(1, 40))
        sets.append(cached(f"{owner}{i}.{stem}", range(count), spec, draw(WORDS), owner))
    layers = [layer for part in sets for layer in part]
    owners = {layer.name: layer.owner for layer in layers}
    budget = draw(st.sampled_from([None, 2**30, 2**44]))
    error = draw(st.one_of(st.none(), WORDS))
    packed_groups = [group(g, limits) for part in sets for g in deal(part, draw(st.integers(1, 40)))]
    packed = plan(packed_groups, limits, owners, budget, layout="BLNHC", error=error)
    main = packed._replace(layout="LBNHC")
    if page is not None:
        size = draw(st.integers(max(len(p) for p in sets) // 2 + 1, 50))
        uniform_groups = [group(g, limits) for part in sets for g in deal(part, size)]
        main = plan(uniform_groups, limits, owners, budget, group_size=size)
    reason = Reason(draw(WORDS), draw(st.booleans()), draw(WORDS))
    has_drafter = "drafter" in owners.values()
    return result(
        config,
        layers,
        {"main": main, "uniform": main, "packed": packed},
        model=draw(WORDS),
        architecture="A" * draw(st.integers(1, 100)),
        drafter=DrafterInfo(draw(WORDS), "path", None, "dflash", 7) if has_drafter else None,
        selected=draw(st.sampled_from(["main", "packed"])),
        layout=Layout("LBNHC", ("LBNHC", "BLNHC"), (reason,)),
        budget=budget,
        assumed=("GPU B300, as none was given",),
        notes=tuple(draw(st.lists(WORDS, max_size=2))),
    )


VIEWS = st.builds(View, st.sampled_from([60, 80, 120]), st.sampled_from([VIEW.glyphs, ASCII]), st.just(PLAIN))
many = settings(max_examples=40, deadline=None)


@many
@given(results(), VIEWS)
def test_no_line_of_a_plan_is_wider_than_its_view(found: Result, view: View) -> None:
    for text in (plan_text(found, view), layers_text(found, view, explain=True)):
        assert max(map(len, text.splitlines())) <= view.columns


@many
@given(results(), results(), VIEWS)
def test_no_line_of_a_comparison_is_wider_than_its_view(before: Result, after: Result, view: View) -> None:
    text = compare_text(compare(before, [after, before]), view)
    assert max(map(len, text.splitlines())) <= view.columns


@many
@given(results())
def test_the_ascii_drawing_has_only_ascii(found: Result) -> None:
    layers = {layer.name: layer for layer in found.layers}
    for drawn in found.plans.values():
        lines = diagram.draw(drawn, layers, View(glyphs=ASCII))
        assert lines
        assert all(line.isascii() for line in lines)


@many
@given(results())
def test_packed_rows_have_one_width(found: Result) -> None:
    layers = {layer.name: layer for layer in found.layers}
    packed = found.plans["packed"]
    if diagram.is_packed(packed):
        widths = {line.rindex("│") - line.index("│") for line in diagram.draw(packed, layers)}
        assert len(widths) == 1


def _drawn_layers(lines: list[str]) -> int:
    """Layers that a uniform-page drawing shows: letters one by one, counts, and repeated brackets."""
    total = 0
    for bracket, times in re.findall(
        r"\[([^\]]*)\](?: x([\d,]+))?", "".join(line[line.index("[") :] for line in lines)
    ):
        if " " in bracket:
            shown = sum(int(n) for n, mark in re.findall(r"(\d+) (\S)", bracket) if mark.isalpha())
        else:
            shown = sum(mark.isalpha() for mark in bracket)
        total += shown * int(times or 1)
    return total


@pytest.mark.parametrize("case", [qwen, qwen_dflash, qwen_mtp, gemma])
def test_a_uniform_drawing_shows_every_layer_once(case) -> None:
    found = case()
    layers = {layer.name: layer for layer in found.layers}
    for name in ("main", "uniform"):
        assert _drawn_layers(diagram.draw(found.plans[name], layers)) == len(found.layers)


@many
@given(results(), results())
def test_causes_add_up_to_the_change_of_the_request(before: Result, after: Result) -> None:
    for entry in compare(before, [after]).variants:
        difference = bytes_per_request(after.plans[after.selected]) - bytes_per_request(before.plans[before.selected])
        assert sum(cause.difference for cause in entry.causes) == difference
        sizes = [abs(cause.difference) for cause in entry.causes]
        assert sizes == sorted(sizes, reverse=True)


@many
@given(results())
def test_a_plan_has_no_difference_from_itself(found: Result) -> None:
    entry = compare(found, [found]).variants[0]
    assert entry.causes == ()
    assert entry.change in (None, 0.0)


@many
@given(results())
def test_colour_adds_nothing_but_escape_codes(found: Result) -> None:
    assert re.sub(r"\x1b\[[\d;]*m", "", plan_text(found, View(paint=ansi))) == plan_text(found)


@many
@given(results())
def test_every_format_of_any_plan_is_text(found: Result) -> None:
    assert plan_markdown(found).endswith("\n")
    assert plan_csv(found).count("\n") >= 4
    comparison = compare(found, [found])
    assert compare_markdown(comparison).endswith("\n")
    assert compare_csv(comparison).count("\n") >= 7


@many
@given(results())
def test_a_document_is_read_back_with_the_same_sums(found: Result) -> None:
    saved = json.loads(to_json(to_document(found)))
    back = read_document(saved, "a.json")
    assert back.selected == found.selected
    assert list(back.layers) == [layer.name for layer in found.layers]
    for name, made in found.plans.items():
        assert causes(made, back.plans[name]) == ()
        assert back.plans[name].kv_cache_size_tokens == made.kv_cache_size_tokens
        assert [g.layers for g in back.plans[name].groups] == [g.layers for g in made.groups]


@pytest.mark.parametrize("case", [qwen, qwen_dflash, qwen_mtp, gemma, sparse_mla])
def test_a_document_is_read_back_with_the_same_pages(case) -> None:
    found = case()
    back = read_document(json.loads(to_json(to_document(found))), "a.json")
    for name, made in found.plans.items():
        for own, read in zip(made.groups, back.plans[name].groups, strict=True):
            assert [s.page_size_bytes for s in own.layer_specs] == [s.page_size_bytes for s in read.layer_specs]
            assert own.padding_bytes == read.padding_bytes
            assert own.block_size == read.block_size


def test_saved_documents_compare_as_their_results_do() -> None:
    before, after = (json.loads(to_json(to_document(found))) for found in (qwen(), qwen_dflash()))
    saved = compare_document.compare_documents(before, after, ("a.json", "b.json"))
    direct = compare(qwen(), [qwen_dflash()])
    assert saved.variants[0].causes == direct.variants[0].causes
    assert saved.variants[0].change == direct.variants[0].change
    for entry, found in ((saved.baseline, qwen()), (saved.variants[0], qwen_dflash())):
        for name, own in found.plans.items():
            cost = entry.deployment.plans[name].request_cost
            assert (cost and dict(cost.parts)) == (own.request_cost and dict(own.request_cost.parts))


def test_a_document_against_itself_is_the_same_plan() -> None:
    document = json.loads(to_json(to_document(qwen_dflash())))
    same = compare_document.compare_documents(document, document, ("a.json", "b.json"))
    assert "b.json: the same plan." in compare_text(same)
    assert "Why" not in compare_text(same)
    assert "the same plan.**" in compare_markdown(same)


def test_documents_of_which_one_has_a_budget_are_not_compared_in_tokens() -> None:
    before, after = (json.loads(to_json(to_document(found))) for found in (qwen(), gemma()))
    for each in after["plans"].values():
        each.update(num_blocks=None, kv_cache_size_tokens=None, max_concurrency=None)
    found = compare_document.compare_documents(before, after, ("a.json", "g.json"))
    assert found.variants[0].change is None
    assert all(row.change is None for row in found.variants[0].rows)
    text = " ".join(compare_text(found).split())
    assert (
        "in a.json; g.json: not comparable, as no KV budget was given in g.json (google/gemma-3-27b-it, requests of "
        "131,072 tokens)." in text
    )
    assert (
        "blocks/req: for one request of the deployment's max_model_len (262,144 in a.json, 131,072 in g.json)" in text
    )


def test_changed_options_are_told_in_units() -> None:
    before, after = (json.loads(to_json(to_document(found))) for found in (qwen(), qwen_dflash()))
    before["options"].update(kv_cache_memory_bytes=60 * 2**30, max_num_batched_tokens=16384)
    after["options"].update(kv_cache_memory_bytes=20 * 2**30, max_num_batched_tokens=8192)
    text = " ".join(compare_text(compare_document.compare_documents(before, after, ("a.json", "b.json"))).split())
    assert "kv_cache_memory_bytes 20.0 GiB instead of 60.0 GiB" in text
    assert "max_num_batched_tokens 8,192 instead of 16,384" in text


@pytest.mark.parametrize("columns", [60, 70, 80, 100, 160])
def test_a_narrow_comparison_keeps_tokens_and_change_and_explains_no_column_that_it_lacks(columns: int) -> None:
    lines = compare_text(compare(qwen(), [qwen_dflash()]), View(columns)).splitlines()
    head = next(line for line in lines if line.startswith("  grouping"))
    assert head.split()[-2:] == ["tokens", "change"]
    legend = " ".join(lines).partition("* is what ")[2].partition("Why ")[0]
    for title in ("growing", "blocks/req"):
        assert (title in head) == (f"{title}: " in legend)
    tokens = [line.split()[-1] for line in lines if line.startswith("* main")]
    assert "\u2026" not in "".join(tokens)


def test_layers_have_a_row_in_each_table() -> None:
    found = qwen_dflash()
    rows = list(csv.DictReader(io.StringIO(layers_csv(found))))
    assert [row["name"] for row in rows] == [layer.name for layer in found.layers]
    assert {row["page_size_bytes"] for row in rows} == {str(layer.spec.page_size_bytes) for layer in found.layers}
    table = layers_markdown(found).split("\n\n")[1].splitlines()
    assert sum(int(line.split("|")[2]) for line in table[2:]) == len(found.layers)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("needs max_model_len 163840 tokens", "needs max_model_len 163,840 tokens."),
        ("set --max-num-seqs 14829 or less", "set --max-num-seqs 14829 or less."),
        ("1.5 and 16384.5 GiB of model-2048 v2048", "1.5 and 16384.5 GiB of model-2048 v2048."),
        ("vLLM does not start: 4096.", "4,096."),
    ],
)
def test_counts_of_a_sentence_have_separators_and_values_of_flags_have_none(error: str, words: str) -> None:
    assert error_words(error) == words


def _mutations(value, path=()):
    """Every place of a document, as a path of keys."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, item in items:
        yield from _mutations(item, (*path, key))


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_a_spoiled_document_is_one_clear_sentence(data) -> None:
    document = json.loads(to_json(to_document(gemma())))
    path = data.draw(st.sampled_from([p for p in _mutations(document) if p]))
    spoiled = data.draw(st.sampled_from([None, "x", -1, 0, 1.5, [], {}, True, 2**70, [None], {"a": 1}]))
    place = document
    for key in path[:-1]:
        place = place[key]
    if data.draw(st.booleans()):
        place[path[-1]] = spoiled
    elif isinstance(path[-1], str):
        del place[path[-1]]
    sentence = ""
    try:
        read = compare_document.compare_documents(document, document, ("a.json", "b.json"))
        assert compare_text(read)
        assert to_json(compare_document.comparison_document(read))
    except KvplanError as error:
        sentence = str(error)
    assert not sentence or sentence.startswith("a.json: ")
    assert "\n" not in sentence


@given(st.text(" abc12BGi%", max_size=200), st.integers(20, 90))
def test_wrapping_keeps_every_word(text: str, width: int) -> None:
    lines = wrap(text, width, "  - ", "    ")
    assert max(map(len, lines)) <= width
    assert "".join("".join(lines).split()) == "-" + "".join(text.split())


def test_layer_names_are_folded_by_their_number() -> None:
    assert names(["a.layers.0.x", "a.layers.1.x", "a.layers.3.x"]) == ["a.layers.{0-1, 3}.x"]
    assert names(["a.layers.7.x"]) == ["a.layers.7.x"]
    assert names(["encoder.x", "a.layers.1.x"]) == ["encoder.x", "a.layers.1.x"]


@many
@given(st.lists(st.tuples(specs(), st.integers(1, 12)), min_size=1, max_size=4), st.sampled_from(GROUPINGS))
def test_the_padding_lines_add_up_to_the_planners_sums(sets, grouping: str) -> None:
    layers = [x for i, (spec, n) in enumerate(sets) for x in cached(f"l{i}.{{}}.attn", range(n), spec)]
    made = plan_layers(
        layers, Limits(32768, 4096, max_num_encoder_input_tokens=1500), grouping=grouping, layout="LBNHC"
    )
    if made.padding is None:
        assert made.error
        return
    found = padding.wastes(made, {layer.name: layer for layer in layers})
    growing = sum(w.bytes_per_token for w in found if w.what == padding.EMPTY and w.grows)
    assert growing == pytest.approx(made.padding.growing_bytes_per_token)
    bounded = sum(w.bytes_per_request for w in found if w.what == padding.EMPTY and not w.grows)
    assert bounded == made.padding.bounded_bytes_per_request
    rounding = sum(w.bytes_per_request for w in found if w.what == padding.ROUNDING)
    assert rounding == made.padding.page_rounding_bytes_per_request


@many
@given(st.lists(st.tuples(specs(), st.integers(1, 12)), min_size=1, max_size=4), st.sampled_from(GROUPINGS))
def test_every_category_of_a_planned_request_is_described(sets, grouping: str) -> None:
    layers = [x for i, (spec, n) in enumerate(sets) for x in cached(f"l{i}.{{}}.attn", range(n), spec)]
    made = plan_layers(
        layers, Limits(32768, 4096, max_num_encoder_input_tokens=1500), grouping=grouping, layout="LBNHC"
    )
    holder = costs.Holder(made, {layer.name: layer for layer in layers}, {"max_in_flight_tokens": 4096})
    held = made.request_cost.at_max_model_len if made.request_cost else {}
    assert held or made.error
    assert all(costs.describe(category, holder) for category, n in held.items() if n)
