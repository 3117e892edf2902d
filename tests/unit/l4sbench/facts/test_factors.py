# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Factors: defaults, values, table columns."""

from __future__ import annotations

import pytest

from l4sbench.errors import BadValueError
from l4sbench.facts.factors import EVENT_FACTORS, FACTORS, GROUP_FACTORS, RESERVED, column_of, factor_of
from l4sbench.text.parameters import Parameter
from l4sbench.text.units import Duration, Packets, Percent, Plain, Rate, Size, Value


def refused(name: str, raw: object) -> BadValueError:
    factor = factor_of(name)
    assert factor is not None
    with pytest.raises(BadValueError) as raised:
        factor.parse(raw)
    return raised.value


def test_released_defaults_never_change() -> None:
    """Ids of cells leave out what is at its default, so a changed default would give old ids to new cells."""
    defaults = {name: str(factor.default) for name, factor in FACTORS.items() if factor.default is not None}
    assert defaults == {
        "topology": "line6",
        "family": "ipv4",
        "warmup": "0s",
        "buffer_bdp": "1.0",
        "host": "ideal",
        "path.delay": "added",
        "path.noise": "1.0",
        "path.pause": "0s",
        "path.pause_every": "330ms",
        "path.pause_at": "delay",
        "path.jitter": "0s",
        "path.jitter_model": "walk",
        "path.jitter_every": "10ms",
        "path.jitter_order": "keep",
        "path.jitter_direction": "data",
        "path.loss": "0%",
        "path.loss_burst": "0p",
        "path.ecn": "pass",
        "path.mark": "0%",
        "path.ack_thinning": "1",
        "path.wifi_loss": "0%",
        "host.packet_cost": "0s",
        "sample.interval": "100ms",
        "capture": "off",
        "traffic.tool": "auto",
        "lab": "default",
        "expect.bottleneck": "True",
    }
    assert {n: str(f.default) for n, f in GROUP_FACTORS.items() if f.default is not None} == {
        "send": "bulk",
        "count": "1",
        "start": "0s",
        "start_within": "1s",
    }


@pytest.mark.parametrize(
    ("name", "value", "column"),
    [
        ("rate", Rate(100_000_000), ("rate_mbps", 100.0)),
        ("rtt", Duration(10_000_000), ("rtt_ms", 10.0)),
        ("duration", Duration(30_000_000_000), ("duration_s", 30.0)),
        ("classic.start", Duration(1_500_000_000), ("classic.start_s", 1.5)),
        ("classic.every", Duration(25_000_000_000), ("classic.every_s", 25.0)),
        ("classic.stop", Duration(9_000_000_000), ("classic.stop_s", 9.0)),
        ("classic.lifetime", Duration(9_000_000_000), ("classic.lifetime_s", 9.0)),
        ("far.rtt", Duration(80_000_000), ("far.rtt_ms", 80.0)),
        ("mice.period", Duration(100_000_000), ("mice.period_ms", 100.0)),
        ("aqm.target", Duration(5_000_000), ("aqm.target_ms", 5.0)),
        ("aqm.limit", Size(1000), ("aqm.limit_bytes", 1000)),
        ("aqm.limit", Packets(42), ("aqm.limit_packets", 42)),
        ("aqm.limit", "default", ("aqm.limit", "default")),
        ("path.loss", Percent(10**7), ("path.loss_percent", 1.0)),
        ("events.step.path.loss", Percent(5 * 10**6), ("events.step.path.loss_percent", 0.5)),
        ("events.step.at", Duration(20_000_000_000), ("events.step.at_s", 20.0)),
        ("events.step.rtt", Duration(20_000_000), ("events.step.rtt_ms", 20.0)),
        ("l4s.at", Duration(20_000_000), ("l4s.at_ms", 20.0)),
        ("buffer_bdp", 0.5, ("buffer_bdp", 0.5)),
        ("expect.bottleneck", True, ("expect.bottleneck", True)),
    ],
)
def test_columns_carry_units(name: str, value: Value, column: tuple[str, Plain]) -> None:
    assert column_of(name, value) == column


def test_factors_of_groups_are_found_by_dotted_name() -> None:
    assert factor_of("flood.count") is GROUP_FACTORS["count"]
    assert factor_of("rate") is FACTORS["rate"]
    assert factor_of("aqm.cc") is None  # aqm is no flow group
    assert factor_of("l4s.fallback") is None
    assert {"aqm", "path", "sample", "traffic", "expect", "rate", "events"} <= RESERVED


def test_factors_of_events_are_found_by_dotted_name() -> None:
    assert factor_of("events.step.at") is EVENT_FACTORS["at"]
    rate = factor_of("events.step.rate")
    assert rate is not None
    assert rate.kind == "rate"
    assert not rate.required
    assert factor_of("events.rate") is None
    assert factor_of("events.step.aqm") is None


@pytest.mark.parametrize(
    ("name", "raw", "value"),
    [
        ("buffer_bdp", 1, 1.0),
        ("buffer_bdp", "0.5", 0.5),
        ("rate", Rate(5), Rate(5)),
        ("path.loss", "0.5%", Percent(5_000_000)),
        ("path.loss", Percent(1), Percent(1)),
        ("expect.bottleneck", "false", False),
        ("l4s.count", "3", 3),
        ("path.wifi_mcs", "4", 4),
        ("events.step.path.wifi_mcs", 9, 9),
    ],
)
def test_values(name: str, raw: object, value: Value) -> None:
    factor = factor_of(name)
    assert factor is not None
    found = factor.parse(raw)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        ("buffer_bdp", float("nan"), "nan is out of range"),
        ("buffer_bdp", float("inf"), "inf is out of range"),
        ("buffer_bdp", "1e999", '"1e999" is out of range'),
        ("buffer_bdp", 10**350, f"1{'0' * 16}... is out of range"),
        ("buffer_bdp", -(10**350), f"-1{'0' * 15}... is out of range"),
        ("buffer_bdp", "9" * 5000, f'"{"9" * 17}..." is out of range'),
        ("l4s.count", "9" * 5000, f'"{"9" * 17}..." is out of range'),
        ("buffer_bdp", True, "expected a number, not true"),
        ("l4s.count", 1.5, "expected a whole number, not 1.5"),
        ("l4s.count", 10**30, "is out of range"),
        ("rate", True, "expected a rate such as 100mbit, not true"),
        ("rate", Duration(5), "expected a rate such as 100mbit"),
        ("path.loss", 1, "expected a percentage such as 1%, but 1 has no unit"),
        ("path.loss", "101%", "101% is out of range; it must be at most 100%"),
        ("path.loss", "0.1", 'expected a percentage such as 1%, not "0.1"'),
        ("path.wifi_mcs", 3, "expected one of 2, 4, 7, 9, not 3"),
        ("path.wifi_mcs", "mcs4", 'expected a whole number, not "mcs4"'),
        ("path.wifi_loss", "95%", "95% is out of range; it must be at most 90%"),
        ("aqm", "", "expected a name, not an empty text"),
        ("aqm", 5, "expected a name, not 5"),
    ],
)
def test_bad_values(name: str, raw: object, message: str) -> None:
    assert message in str(refused(name, raw))


@pytest.mark.parametrize(
    ("name", "raw", "meant"),
    [
        ("rate", 100, "100mbit"),
        ("rate", 100_000_000, "100mbit"),
        ("rate", 2.5e6, "2.5mbit"),
        ("rate", float("inf"), "infmbit"),
        ("rtt", 10, "10ms"),
        ("rtt", 0.01, "0.01ms or 0.01s"),
        ("path.loss", 1, "1%"),
        ("path.loss", 0.01, "0.01% or 1%"),
    ],
)
def test_a_number_without_unit_is_told_what_it_may_mean(name: str, raw: float, meant: str) -> None:
    assert refused(name, raw).hint == f"did you mean {meant}?"


@pytest.mark.parametrize(
    ("parameter", "raw", "value"),
    [
        (Parameter("a", "float"), "1e-3", 0.001),
        (Parameter("a", "bool"), True, True),
        (Parameter("a", "packets", own=Packets(9)), "default", "default"),
        (Parameter("a", "size"), Size(9), Size(9)),
    ],
)
def test_values_of_parameters(parameter: Parameter, raw: object, value: Value) -> None:
    assert parameter.parse(raw) == value
    assert type(parameter.parse(raw)) is type(value)


@pytest.mark.parametrize(
    ("parameter", "raw", "message"),
    [
        (Parameter("a", "duration"), "default", 'expected a duration such as 10ms, not "default"'),
        (
            Parameter("a", "packets", own=Packets(9)),
            "many",
            'expected a number of packets such as 42p, not "many"; default leaves it to the queue',
        ),
        (Parameter("a", "bool"), 1, "expected true or false, not 1"),
        (Parameter("a", "str", pattern="0x[0-9]"), "; rm", '"; rm" does not match the pattern 0x[0-9]'),
        (Parameter("a", "int", minimum=1), 0, "0 is out of range; it must be at least 1"),
        (Parameter("a", "int", positive=True), 0, "0 is out of range; it must be more than 0"),
        (
            Parameter("a", "duration", maximum=Duration(1)),
            "2ns",
            "2ns is out of range; it must be at most 1ns",
        ),
    ],
)
def test_bad_values_of_parameters(parameter: Parameter, raw: object, message: str) -> None:
    with pytest.raises(BadValueError) as raised:
        parameter.parse(raw)
    assert str(raised.value) == message
