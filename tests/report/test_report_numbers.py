"""Numbers as text."""

from __future__ import annotations

import pytest

from kvplan.report.numbers import concurrency, exact, gib, number, percent, plural, share, signed_size, size

GIB = 2**30


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (200 * GIB, "200.0 GiB"),
        (207_000_000_000, "192.78 GiB"),
        (7851212800, "7.31 GiB"),
        (GIB, "1.0 GiB"),
        (GIB // 1000, "1.02 MiB"),
        (15728640, "15 MiB"),
        (1310720, "1.25 MiB"),
        (12288, "12 KiB"),
        (1024, "1 KiB"),
        (1023, "1,023 B"),
        (4.5625, "4.56 B"),
        (0.001, "0.001 B"),
        (0, "0 B"),
        (-12288, "-12 KiB"),
    ],
)
def test_sizes_are_in_the_largest_unit_that_keeps_them_at_one_or_more(n: float, text: str) -> None:
    assert size(n) == text


@pytest.mark.parametrize(
    ("n", "text"), [(200 * GIB, "200.0 GiB"), (85_520_809_984, "79.65 GiB"), (GIB // 3, "0.33 GiB"), (0, "0.0 GiB")]
)
def test_gib_has_the_digits_of_a_vllm_log(n: int, text: str) -> None:
    assert gib(n) == text


def test_exact_sizes_name_the_bytes() -> None:
    assert exact(2621440) == "2.5 MiB (2,621,440 bytes)"
    assert exact(512) == "512 bytes"


def test_differences_have_a_sign() -> None:
    assert [signed_size(n) for n in (1073741824, -512, 0)] == ["+1.0 GiB", "-512 B", "0 B"]


def test_counts_and_shares() -> None:
    assert number(262144) == "262,144"
    assert number(2.5) == "2.50"
    assert number(3.0) == "3"
    assert concurrency(1234.567) == "1,234.57"
    assert [percent(x, sign=True) for x in (-0.3105, 0.0, 0.5)] == ["-31.1 %", "+0.0 %", "+50.0 %"]
    assert percent(-0.0001, sign=True) == "+0.0 %"
    assert [share(x) for x in (0.5, 1 / 6, 12.0)] == ["+50 %", "+16.7 %", "+1,200 %"]
    assert [plural(1, "group"), plural(46, "group"), plural(2, "batch", "batches")] == [
        "1 group",
        "46 groups",
        "2 batches",
    ]
