# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Topologies as trials see them: delays where they should be, and the queue of every bottleneck."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from l4sbench.app import api
from l4sbench.app.api import load_matrix, programs_of
from l4sbench.disk import assets
from l4sbench.testbeds.virtual.lab import Lab
from l4sbench.testbeds.virtual.shell import run_commands
from l4sbench.topology import offered, topology
from reports.result.load import RunTables

pytestmark = pytest.mark.lab

MATRIX = """\
matrix: place
topology: {topology}
rate: 20mbit
rtt: 40ms
duration: 20s
warmup: 5s
trials: 1
rule: none
aqm: fifo
flows: {{{flows}}}
"""
CUBIC = "{cc: cubic, ecn: 'off'}"


def matrix(folder: Path, name: str, groups: tuple[str, ...], more: str = "") -> Path:
    flows = ", ".join(f"{group}: {CUBIC}" for group in groups)
    path = folder / "place.yaml"
    path.write_text(MATRIX.format(topology=name, flows=flows) + more, encoding="utf-8")
    return path


def groups_of(name: str) -> tuple[str, ...]:
    place = topology(name)
    return tuple(group or f"g{number}" for number, group in enumerate(place.groups))


def tables(folder: Path, name: str, groups: tuple[str, ...], more: str = "", runs: str = "runs") -> RunTables:
    ended = api.run(matrix(folder, name, groups, more), runs=folder / runs)
    assert (ended.result.ok, ended.result.invalid, ended.result.failed) == (len(load_cells(ended.path)), 0, 0)
    return api.load(ended)


def load_cells(run: Path) -> tuple[object, ...]:
    return load_matrix(run / "matrix.yaml").cells


def rtts_ms(lab: Lab, path: Path, pings: list[tuple[str, str]]) -> list[float]:
    """Return the least round-trip time from one node to an address, for each."""
    _, place, programs = programs_of(path)
    lines = "".join(f"{source} ping -c 3 -i 0.2 {target}\n" for source, target in pings)
    done = run_commands(lab, programs, place, lines)
    assert done.code == 0, done.err.decode()
    found = re.findall(r"min/avg/max(?:/mdev)? = ([0-9.]+)/", done.out.decode())
    assert len(found) == len(pings), done.out.decode()
    return [float(text) for text in found]


@pytest.mark.parametrize("name", sorted(offered()))
def test_every_pair_has_the_round_trip_time(lab: Lab, tmp_path: Path, name: str) -> None:
    place = topology(name)
    path = matrix(tmp_path, name, groups_of(name), "path.noise: 0\n")
    pings = [(pair.sender, place.by_name[pair.receiver].addresses[0].ip) for pair in place.pairs]
    for rtt_ms in rtts_ms(lab, path, pings):
        assert rtt_ms == pytest.approx(40, abs=0.5)


def test_the_delays_of_segsize7_are_on_both_sides_of_the_bottleneck(lab: Lab, tmp_path: Path) -> None:
    place = topology("segsize7")
    path = matrix(tmp_path, "segsize7", groups_of("segsize7"), "path.noise: 0\n")
    router = place.by_name["router"].address_on("net-right").ip
    to_router, from_receiver, near = rtts_ms(
        lab,
        path,
        [
            ("tx-l4s", router),
            ("rx-l4s", router),
            ("router", place.by_name["delay-rx"].address_on("net-right").ip),
        ],
    )
    assert to_router == pytest.approx(20, abs=0.5)  # two of the four parts
    assert from_receiver == pytest.approx(20, abs=0.5)
    assert near == pytest.approx(10, abs=0.5)  # the answer leaves by the port that delays ACKs


def test_a_trial_on_segsize7_has_the_whole_rtt_and_one_queue(lab: Lab, tmp_path: Path) -> None:
    found = tables(tmp_path, "segsize7", groups_of("segsize7"), "capture: headers\n")
    ports = found.queues.select("node", "network").unique().rows()
    assert ports == [("router", "net-right")]
    assert found.sockets["min_rtt_ms"].min() == pytest.approx(40, abs=1.5)
    assert set(found.scan("packet_flows").collect()["group"]) == {"g0", "g1"}
    assert found.flows["goodput_mbps"].sum() == pytest.approx(19.1, abs=0.6)


def test_the_dumbbell_has_a_pair_of_hosts_for_each_group(lab: Lab, tmp_path: Path) -> None:
    groups = ("a", "b", "c", "d")
    found = tables(tmp_path, "dumbbell", groups)
    rows = found.flows.sort("group").select("group", "sender", "receiver").rows()
    assert rows == [(group, f"tx-{n}", f"rx-{n}") for n, group in enumerate(groups, 1)]
    assert found.flows["goodput_mbps"].sum() == pytest.approx(19.1, abs=0.6)
    assert found.queues.select("node", "network").unique().rows() == [("router", "net-rx")]


def test_each_bottleneck_of_the_parking_lot_has_its_queue_and_its_rows(lab: Lab, tmp_path: Path) -> None:
    found = tables(tmp_path, "parking-lot", ("long", "first", "second"))
    queues = found.queues.filter(
        pl.col("kind") == "bfifo" if "bfifo" in found.queues["kind"] else pl.lit(True)
    )
    for node, network, others in (
        ("router-1", "net-mid", ("first",)),
        ("router-2", "net-rx", ("second",)),
    ):
        own = queues.filter((pl.col("node") == node) & (pl.col("network") == network))
        assert own.height > 200
        assert own.filter(pl.col("backlog_packets") > 20).height
        flows = found.flows.filter(pl.col("group").is_in(["long", *others]))
        assert flows["goodput_mbps"].sum() == pytest.approx(19.1, abs=0.8)
    shares = dict(found.flows.select("group", "goodput_mbps").rows())
    # the long flow meets two queues, and its losses at either
    assert shares["long"] < 0.8 * min(shares["first"], shares["second"])
    assert set(found.queues.select("node", "network").unique().rows()) == {
        ("router-1", "net-mid"),
        ("router-2", "net-rx"),
    }


def test_an_event_changes_the_rate_of_both_bottlenecks(lab: Lab, tmp_path: Path) -> None:
    more = "events: {slow: {at: 10s, rate: 10mbit}}\n"
    found = tables(tmp_path, "parking-lot", ("long", "first", "second"), more)
    assert sorted(found.events.select("node", "port").rows()) == [
        ("router-1", "net-mid"),
        ("router-2", "net-rx"),
    ]
    later = (
        found.intervals.filter(pl.col("t_ms") > 14_000).group_by("group").agg(pl.col("goodput_mbps").mean())
    )
    shares = dict(later.rows())
    for cross in ("first", "second"):
        assert shares["long"] + shares[cross] == pytest.approx(9.55, abs=0.8)


def test_a_flow_alone_need_not_queue_at_the_second_bottleneck(lab: Lab, tmp_path: Path) -> None:
    """The first one limits it already: the trial is valid although the second queue stays empty."""
    found = tables(tmp_path, "parking-lot", ("long",))
    most = dict(found.queues.group_by("node").agg(pl.col("backlog_packets").max()).rows())
    assert most["router-1"] > 20
    assert most["router-2"] < 5
    assert found.flows["goodput_mbps"].sum() == pytest.approx(19.1, abs=0.6)


def test_an_own_topology_runs_from_its_file_and_again_from_the_run(lab: Lab, tmp_path: Path) -> None:
    line = (assets.folder("matrices") / "topologies" / "line6.yml").read_text(encoding="utf-8")
    own = tmp_path / "mine.yml"
    own.write_text(
        line.replace("topology: line6", "topology: mine").replace("10.0.", "10.9."), encoding="utf-8"
    )
    ended = api.run(matrix(tmp_path, "./mine.yml", ("one", "two")), runs=tmp_path / "runs")
    assert (ended.result.ok, ended.result.invalid) == (1, 0)
    own.unlink()
    again = api.run(ended.path / "matrix.yaml", runs=tmp_path / "again")
    assert (again.result.ok, again.result.invalid) == (1, 0)
    first, second = (api.load(run).flows.drop("cell") for run in (ended, again))
    assert first.equals(second)
