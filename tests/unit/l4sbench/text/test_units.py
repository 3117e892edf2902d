# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Quantities: what is read, what is refused and why, and that nothing is ever rounded."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from l4sbench.text.units import (
    Duration,
    Packets,
    Percent,
    PerPacket,
    Quantity,
    Rate,
    Size,
    Value,
    kind_of,
    parse_quantity,
)

AMOUNTS = st.integers(min_value=0, max_value=2**63 - 1)


@pytest.mark.parametrize(
    ("kind", "text", "value", "canonical"),
    [
        ("rate", "100mbit", Rate(100_000_000), "100mbit"),
        ("rate", "0.1gbit", Rate(100_000_000), "100mbit"),
        ("rate", "2.5mbit", Rate(2_500_000), "2.5mbit"),
        ("rate", "400kbit", Rate(400_000), "400kbit"),
        ("rate", "100Mbit", Rate(100_000_000), "100mbit"),
        ("rate", "0bit", Rate(0), "0bit"),
        ("duration", "10ms", Duration(10_000_000), "10ms"),
        ("duration", "500us", Duration(500_000), "500us"),
        ("duration", "500µs", Duration(500_000), "500us"),
        ("duration", "2min", Duration(120_000_000_000), "120s"),
        ("duration", "1500ms", Duration(1_500_000_000), "1.5s"),
        ("duration", "0ms", Duration(0), "0s"),
        ("duration", " 30s ", Duration(30_000_000_000), "30s"),
        ("size", "300kB", Size(300_000), "300kB"),
        ("size", "64KiB", Size(65_536), "65.536kB"),
        ("size", "62500B", Size(62_500), "62.5kB"),
        ("packets", "42p", Packets(42), "42p"),
        ("percent", "1%", Percent(10_000_000), "1%"),
        ("percent", "0.10%", Percent(1_000_000), "0.1%"),
        ("percent", "0%", Percent(0), "0%"),
        ("percent", "150%", Percent(1_500_000_000), "150%"),
        ("per_packet", "0.036/packet", PerPacket(36_000_000), "0.036/packet"),
        ("per_packet", "2/packet", PerPacket(2_000_000_000), "2/packet"),
    ],
)
def test_reads(kind: str, text: str, value: Quantity, canonical: str) -> None:
    found = parse_quantity(kind, text)
    assert found == value
    assert str(found) == canonical


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("rate", "100", 'expected a rate such as 100mbit, not "100"; add a unit: bit, kbit, mbit, gbit'),
        ("rate", "20 Mbps", 'expected a rate such as 100mbit, not "20 Mbps"; did you mean 20mbit?'),
        ("rate", "20 mbit", 'expected a rate such as 100mbit, not "20 mbit"; did you mean 20mbit?'),
        ("duration", "30 s", 'expected a duration such as 10ms, not "30 s"; did you mean 30s?'),
        ("duration", "30 x 1 s", 'expected a duration such as 10ms, not "30 x 1 s"'),
        ("rate", "100Mbps", 'expected a rate such as 100mbit, not "100Mbps"; did you mean 100mbit?'),
        ("rate", "fast", 'expected a rate such as 100mbit, not "fast"'),
        ("rate", "-1mbit", 'expected a rate such as 100mbit, not "-1mbit"'),
        ("rate", "1e3mbit", 'expected a rate such as 100mbit, not "1e3mbit"'),
        ("rate", "0.5bit", 'expected a rate such as 100mbit, but "0.5bit" is not a whole bit/s'),
        ("duration", "1m", 'expected a duration such as 10ms, not "1m"; did you mean 1min?'),
        ("duration", "10 5ms", 'expected a duration such as 10ms, not "10 5ms"'),
        ("duration", "1day", 'expected a duration such as 10ms, not "1day"; units are ns, us, ms, s, min, h'),
        ("duration", "0.1ns", 'expected a duration such as 10ms, but "0.1ns" is not a whole nanosecond'),
        ("size", "3kb", 'expected a size such as 300kB, not "3kb"; did you mean 3kB?'),
        ("size", "99999999999GB", 'expected a size such as 300kB, but "99999999999GB" is out of range'),
        ("packets", "1.5p", 'expected a number of packets such as 42p, but "1.5p" is not a whole packet'),
        ("percent", "1", 'expected a percentage such as 1%, not "1"; add a unit: %'),
        ("percent", "1percent", 'expected a percentage such as 1%, not "1percent"; did you mean 1%?'),
        (
            "percent",
            "0.00000001%",
            'expected a percentage such as 1%, but "0.00000001%" is not a whole 10^-9',
        ),
        (
            "per_packet",
            "0.1",
            'expected a number per packet such as 0.1/packet, not "0.1"; add a unit: /packet',
        ),
        ("packets", "٣p", 'expected a number of packets such as 42p, not "٣p"'),
        (
            "rate",
            "9" * 5000 + "bit",
            f'expected a rate such as 100mbit, but "{"9" * 17}..." is out of range',
        ),
    ],
)
def test_refuses_and_says_what_is_expected(kind: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_quantity(kind, text)


@pytest.mark.parametrize("kind", [Rate, Duration, Size, Packets, Percent, PerPacket])
def test_nothing_is_negative(kind: type[Rate]) -> None:
    with pytest.raises(ValueError, match="never negative"):
        kind(-1)


@given(AMOUNTS)
def test_the_canonical_form_parses_back(amount: int) -> None:
    for kind in (Rate, Duration, Size, Packets, Percent, PerPacket):
        value = kind(amount)
        assert type(value).parse(str(value)) == value
        assert parse_quantity(kind_of(value), str(value)) == value


@given(AMOUNTS, AMOUNTS)
def test_equal_quantities_have_equal_texts_and_order_is_the_amounts(one: int, other: int) -> None:
    assert (Duration(one) == Duration(other)) == (str(Duration(one)) == str(Duration(other)))
    assert (Duration(one) < Duration(other)) == (one < other)
    assert hash(Duration(one)) == hash(Duration.parse(str(Duration(one))))


@given(st.integers(0, 9_999_999), st.integers(0, 999))
def test_decimals_are_exact(whole: int, thousandths: int) -> None:
    assert Duration.parse(f"{whole}.{thousandths:03}ms") == Duration.parse(f"{whole * 1000 + thousandths}us")


def test_kinds_do_not_mix() -> None:
    values: set[Value] = {Rate(1), Duration(1), Size(1), Packets(1), Percent(1), PerPacket(1), 1}
    assert len(values) == 7
    assert [kind_of(v) for v in (Rate(1), Duration(1), Size(1), Packets(1), 1, 1.0, True, "1")] == [
        "rate",
        "duration",
        "size",
        "packets",
        "int",
        "float",
        "bool",
        "str",
    ]


def test_views_in_other_units() -> None:
    assert Rate.parse("2.5mbit").mbps == 2.5
    rtt = Duration.parse("1500us")
    assert (rtt.us, rtt.ms, rtt.s) == (1500.0, 1.5, 0.0015)
