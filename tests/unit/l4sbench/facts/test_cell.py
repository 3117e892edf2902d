# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Cells: what their id depends on, and that they survive the store."""

from __future__ import annotations

import json
import pickle
import re
import sys
from collections.abc import Mapping
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from l4sbench.facts.cell import Cell
from l4sbench.facts.common import Common
from l4sbench.text.units import Duration, Packets, Rate, Size, Value
from l4sbench.traffic.family import Family
from tests.patience import ran

STATED: dict[str, Value] = {
    "rate": "100mbit",
    "rtt": "10ms",
    "duration": "30s",
    "aqm": "codel",
    "aqm.target": Duration(5_000_000),
    "l4s.cc": "prague",
    "l4s.ecn": "accecn",
    "classic.cc": "cubic",
    "classic.ecn": "off",
}
GROUPS = ("l4s", "classic")

quantities: st.SearchStrategy[Value] = st.one_of(
    st.builds(Rate, st.integers(1, 10**12)),
    st.builds(Duration, st.integers(0, 10**15)),
    st.builds(Size, st.integers(0, 10**12)),
    st.builds(Packets, st.integers(0, 10**6)),
)
numbers = (
    st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False, width=32) | st.booleans()
)
values = quantities | numbers | st.text(min_size=1, max_size=12)
params = st.dictionaries(
    st.from_regex(r"(aqm|l4s|classic)\.[a-z]{3}_[a-z]{2}", fullmatch=True), values, max_size=6
)


def cell(**changes: Value) -> Cell:
    return Cell.of(STATED | {name.replace("__", "."): value for name, value in changes.items()}, GROUPS)


def test_cells_of_before_there_was_ipv6_are_of_ipv4_and_keep_their_ids() -> None:
    assert cell().identity == cell(family="ipv4").identity
    assert cell().id != cell(family="ipv6").id
    stored = cell().to_json()
    for kind in ("factors", "kinds"):
        del stored[kind]["family"]  # type: ignore[attr-defined]
    stored["at_default"] = [name for name in stored["at_default"] if name != "family"]  # type: ignore[attr-defined]
    old = Cell.from_json(stored)
    assert (old.family, old.id) == (Family.IPV4, cell().id)
    assert cell(family="ipv6").family is Family.IPV6


def test_the_id_is_a_readable_slug_and_ten_hex_digits() -> None:
    assert re.fullmatch(
        r"codel_1bdp_100mbit_10ms_cubic\.off_prague\.accecn_aqm\.target-5ms-[0-9a-f]{10}", cell().id
    )


def test_ids_once_given_stay() -> None:
    """If this fails, results stored by released versions are no longer found."""
    assert cell().identity == (
        '{"aqm":"codel","aqm.target":"5ms","classic.cc":"cubic","classic.ecn":"off","duration":"30s",'
        '"l4s.cc":"prague","l4s.ecn":"accecn","rate":"100mbit","rtt":"10ms"}'
    )
    assert cell().id.endswith("-4f6ab69c00")


@given(st.permutations(list(STATED)), params)
def test_the_id_does_not_depend_on_order(names: list[str], extra: Mapping[str, Value]) -> None:
    stated = STATED | dict(extra)
    shuffled = {name: stated[name] for name in reversed([*extra, *names])}
    assert Cell.of(shuffled, GROUPS).id == Cell.of(stated, GROUPS).id
    assert Cell.of(shuffled, tuple(reversed(GROUPS))).id == Cell.of(stated, GROUPS).id


@given(params)
def test_the_id_survives_the_store(extra: Mapping[str, Value]) -> None:
    one = Cell.of(STATED | dict(extra), GROUPS)
    assert Cell.from_json(json.loads(json.dumps(one.to_json()))).id == one.id


def test_the_id_does_not_depend_on_the_hash_seed() -> None:
    code = f"from l4sbench.facts.cell import Cell; print(Cell.of({ {**STATED, 'aqm.target': '5ms'}!r}).id)"
    found = {
        ran(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def test_the_id_does_not_depend_on_spelling() -> None:
    assert cell(rate="0.1gbit", rtt="10000us", duration="0.5min").id == cell().id


@pytest.mark.parametrize(
    "default",
    [
        {"buffer_bdp": 1},
        {"topology": "line6"},
        {"warmup": "0ms"},
        {"l4s__count": 1},
        {"expect__bottleneck": True},
    ],
)
def test_defaults_are_left_out_of_the_id(default: dict[str, Value]) -> None:
    stated = cell(**default)
    assert stated.id == cell().id
    assert stated == cell()
    assert stated.given > cell().given


@pytest.mark.parametrize(
    "change",
    [
        {"buffer_bdp": 1.5},
        {"warmup": "1s"},
        {"duration": "31s"},
        {"path__noise": 0},
        {"classic__count": 2},
        {"classic__start": "1s"},
        {"l4s__from": "tx-classic"},
        {"aqm__ecn": True},
        {"aqm__ecn": "true"},
    ],
)
def test_everything_else_is_in_the_id(change: dict[str, Value]) -> None:
    assert cell(**change).id != cell().id
    assert cell(**change) != cell()


def test_values_that_compare_equal_in_python_are_told_apart() -> None:
    """1, 1.0 and True are one dictionary key; caches must not mix them up."""
    identities = [cell(aqm__x=value).identity for value in (1, True, "1", "true", Packets(1))]
    assert len(set(identities)) == 5
    assert cell(aqm__x=1).identity == cell(aqm__x=1.0).identity  # whole numbers are whole numbers


@given(params)
def test_survives_json_and_pickle(extra: Mapping[str, Value]) -> None:
    one = Cell.of(STATED | dict(extra), GROUPS)
    for other in (Cell.from_json(json.loads(json.dumps(one.to_json()))), pickle.loads(pickle.dumps(one))):
        assert other == one
        assert other.id == one.id
        assert other.group_names == one.group_names
        assert other.given == one.given
        assert {n: type(v) for n, v in other.factors.items()} == {n: type(v) for n, v in one.factors.items()}


def test_damaged_data_are_refused() -> None:
    data = json.loads(json.dumps(cell().to_json()))
    data["factors"]["rate"] = "50mbit"
    with pytest.raises(ValueError, match="does not have the factors"):
        Cell.from_json(data)


@pytest.mark.parametrize("value", [[1, 1], True, "1", 1.5, None, {}])
def test_a_factor_of_another_kind_is_refused(value: object) -> None:
    """Also one at its default, which is not part of the id."""
    data = json.loads(json.dumps(cell().to_json()))
    name = next(name for name, kind in data["kinds"].items() if kind == "int" and name in data["at_default"])
    data["factors"][name] = value
    with pytest.raises(ValueError, match="a factor is not of kind int"):
        Cell.from_json(data)


@pytest.mark.parametrize(
    ("send", "message"),
    [
        ("avian carriers", "avian carriers is not a valid kind of traffic"),
        ("paced", "flow group l4s sends nothing that is known"),
    ],
)
def test_a_kind_of_traffic_that_is_unknown_or_lacks_its_factors_is_refused(send: str, message: str) -> None:
    stated = Common(
        MappingProxyType({**cell().factors, "l4s.send": send}), frozenset({*STATED, "l4s.send"}), {}, GROUPS
    )
    data = Cell.whole(stated).to_json()
    with pytest.raises(ValueError, match=message):
        Cell.from_json(data)


def test_ids_are_safe_names_for_folders() -> None:
    odd = cell(aqm__x="../../../etc/passwd", aqm__y="a b\tc;$(d)'\"", aqm__z="ä" * 300)
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.+_-]*", odd.id)
    assert len(odd.id) <= 111


def test_typed_access() -> None:
    one = cell(
        buffer_bdp=4, classic__count=3, classic__start="2s", l4s__fallback="detect", classic__to="rx-l4s"
    )
    assert (one.topology, one.aqm, one.buffer_bdp, one.traffic_tool) == ("line6", "codel", 4.0, "auto")
    assert (one.rate, one.rtt) == (Rate(100_000_000), Duration(10_000_000))
    assert (one.duration, one.warmup, one.sample_interval) == (
        Duration(30 * 10**9),
        Duration(0),
        Duration(10**8),
    )
    assert (one.path_noise, one.expect_bottleneck) == (1.0, True)
    assert dict(one.aqm_params) == {"target": Duration(5_000_000)}
    l4s, classic = one.groups
    assert (l4s.name, l4s.cc, l4s.count, l4s.ecn, dict(l4s.params)) == (
        "l4s",
        "prague",
        1,
        "accecn",
        {"fallback": "detect"},
    )
    assert (classic.count, classic.start, *classic.nodes) == (
        3,
        Duration(2 * 10**9),
        None,
        "rx-l4s",
    )
    assert one.canonical()["buffer_bdp"] == 4
    assert list(one.factors) == sorted(one.factors)


def test_cells_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        cell().factors["rate"] = Rate(1)  # type: ignore[index]
    with pytest.raises(AttributeError):
        cell().given = frozenset()  # type: ignore[misc]


def test_required_factors_must_be_stated() -> None:
    with pytest.raises(KeyError, match="rtt"):
        Cell.of({name: value for name, value in STATED.items() if name != "rtt"})
    with pytest.raises(KeyError, match=r"l4s\.ecn"):
        Cell.of({name: value for name, value in STATED.items() if name != "l4s.ecn"})


def test_an_event_that_repeats_takes_effect_until_the_end() -> None:
    low = {"events.low.at": "2s", "events.low.every": "200ms", "events.low.rate": "5mbit"}
    high = {"events.high.at": "2100ms", "events.high.every": "200ms", "events.high.rate": "50mbit"}
    found = cell(**low, **high, duration="2500ms", warmup="0s").events
    assert [(event.id, event.at.ms) for event in found] == [
        *(("low", 2000), ("high", 2100), ("low.2", 2200), ("high.2", 2300), ("low.3", 2400)),
    ]
    assert {str(event.changes["rate"]) for event in found} == {"5mbit", "50mbit"}
    assert {event.name for event in found} == {"low", "high"}


def test_events_come_in_order_of_their_instants() -> None:
    stated = {"events.b.at": "2s", "events.b.rate": "50mbit", "events.a.at": "20s", "events.a.rtt": "5ms"}
    changed = cell(**{name.replace(".", "__"): value for name, value in stated.items()})
    late, early = changed.events[1], changed.events[0]
    assert (early.name, early.at, dict(early.changes)) == (
        "b",
        Duration(2_000_000_000),
        {"rate": Rate(50_000_000)},
    )
    assert (late.name, dict(late.changes)) == ("a", {"rtt": Duration(5_000_000)})
    assert Cell.from_json(changed.to_json()).events == changed.events
    assert cell().events == ()
