"""Every read of a config states its type and bounds, and every refusal names the file, the field and the value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.errors import KvplanError
from kvplan.hf import Config


def config(**values: Any) -> Config:
    return Config(values, "config.json", {"from_class": 7}, {"other_name": "hidden_size"})


def test_a_key_of_the_file_wins_over_a_default_also_when_it_is_null() -> None:
    assert config().integer("from_class") == 7
    assert config(from_class=8).integer("from_class") == 8
    assert config(from_class=None).optional_integer("from_class") is None


def test_an_alias_reads_and_replaces_the_field_it_stands_for() -> None:
    c = config(hidden_size=64)
    assert "other_name" in c
    assert c.integer("other_name") == 64
    assert c.replace(other_name=128).integer("hidden_size") == 128


def test_a_whole_float_is_an_integer_and_true_is_none() -> None:
    assert config(a=128.0).integer("a") == 128
    with pytest.raises(KvplanError, match=r"^config.json: a must be an integer, got True\.$"):
        config(a=True).integer("a")


@pytest.mark.parametrize(
    ("read", "value", "says"),
    [
        (lambda c: c.integer("a"), 0, "a must be between 1 and 1,099,511,627,776, got 0"),
        (lambda c: c.integer("a"), -1, "a must be between 1 and"),
        (lambda c: c.integer("a"), 2**50, "a must be between 1 and"),
        (lambda c: c.integer("a"), 1.5, "a must be an integer, got 1.5"),
        (lambda c: c.integer("a"), "32", "a must be an integer, got '32'"),
        (lambda c: c.integer("a"), None, "a must be an integer, got None"),
        (lambda c: c.integer("a"), float("inf"), "a must be an integer, got inf"),
        (lambda c: c.number("a"), float("nan"), "a must be a number, got nan"),
        (lambda c: c.number("a"), float("inf"), "a must be between"),
        (lambda c: c.number("a"), False, "a must be a number, got False"),
        (lambda c: c.boolean("a"), 1, "a must be true or false, got 1"),
        (lambda c: c.text("a"), 1, "a must be a string, got 1"),
        (lambda c: c.sequence("a"), {}, "a must be a list, got {}"),
        (lambda c: c.sequence("a", length=3), [1, 2], "a must have 3 entries, got 2"),
        (lambda c: c.integers("a"), [1, "x"], "a[1] must be an integer, got 'x'"),
        (lambda c: c.texts("a", allowed=("p", "q")), ["p", "r"], "a[1] must be one of p, q, got 'r'"),
        (lambda c: c.section("a"), [], "a must be a JSON object, got []"),
        (lambda c: c.objects("a"), [{}, 3], "a[1] must be a JSON object, got 3"),
        (lambda c: c.integer("missing"), 1, "missing is missing; add it as the published config has it"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_by_name(read: Callable[[Config], Any], value: Any, says: str) -> None:
    with pytest.raises(KvplanError) as caught:
        read(config(a=value))
    assert str(caught.value).startswith(f"config.json: {says}")


def test_a_long_value_is_cut_in_the_sentence() -> None:
    with pytest.raises(KvplanError) as caught:
        config(a="x" * 10_000).integer("a")
    assert len(str(caught.value)) < 120


def test_a_nested_section_names_its_path() -> None:
    section = config(a={"b": {"c": "x"}}).section("a")
    assert section is not None
    inner = section.section("b")
    assert inner is not None
    with pytest.raises(KvplanError, match=r"^config.json: a: b: c must be an integer, got 'x'\.$"):
        inner.integer("c")


def test_one_layers_entry_is_put_over_the_whole() -> None:
    c = config(head_dim=256, per_layer_config={"1": {"head_dim": 512}})
    assert [c.layer(i).integer("head_dim") for i in range(3)] == [256, 512, 256]


@pytest.mark.parametrize(
    ("entries", "sizes"),
    [
        ({"01": {"head_dim": 512}}, [256, 512, 256]),
        ({"1": {"head_dim": 512}, "01": {"head_dim": 128}}, [256, 128, 256]),
        ({"2": {"head_dim": 256}}, [256, 256, 256]),
        (None, [256, 256, 256]),
    ],
)
def test_a_layers_number_may_be_padded_and_the_last_of_two_counts(entries: Any, sizes: list[int]) -> None:
    c = config(head_dim=256, per_layer_config=entries)
    assert [c.layer(i).integer("head_dim") for i in range(3)] == sizes


def test_a_layer_has_only_those_fields_of_its_own_that_differ() -> None:
    c = config(head_dim=256, per_layer_config={"1": {"head_dim": 256, "skip": ["mlp"]}, "2": {"head_dim": 8, "a": 1}})
    assert {i: dict(own.data) for i, own in c.layer_fields().items()} == {2: {"head_dim": 8, "a": 1}}


READS: list[Callable[[Config], Any]] = [
    lambda c: c.integer("a"),
    lambda c: c.optional_integer("a"),
    lambda c: c.number("a"),
    lambda c: c.boolean("a"),
    lambda c: c.truthy("a"),
    lambda c: c.text("a"),
    lambda c: c.optional_text("a"),
    lambda c: c.sequence("a"),
    lambda c: c.integers("a"),
    lambda c: c.texts("a"),
    lambda c: c.section("a"),
    lambda c: c.objects("a"),
    lambda c: c.layer(0),
]
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(value=anything, read=st.sampled_from(READS))
def test_any_value_is_read_or_refused(value: Any, read: Callable[[Config], Any]) -> None:
    sentence = "config.json: "
    try:
        read(config(a=value, per_layer_config=value))
    except KvplanError as error:
        sentence = str(error)
    assert sentence.startswith("config.json: ")
