# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What nodes ran and how they were set."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from collectors import BadRawError
from collectors.hostinfo import (
    parse_offloads,
    parse_parameters,
    parse_pauses,
    parse_round_trips,
    parse_rules,
    parse_sysctls,
    parse_walks,
)
from l4sbench.program import Readback
from l4sbench.program.data import PAUSES_FILE, ROUND_TRIPS_FILE, WALKS_FILE, NodePauses, NodeWalk
from l4sbench.text.units import Duration
from tests.unit.collectors.conftest import Load, rows


def test_facts_of_a_virtual_trial(captured: Load) -> None:
    trial = captured("lean-dualpi2").ended
    host = json.loads((trial.raw / "host.json").read_text())
    source = host["kernel_source"]
    (trial.raw / "host.json").write_text(json.dumps({**host, "lab": "mine"}))
    found = rows("hosts", trial)
    facts = {(node, kind, name): value for _, _, node, kind, name, value in found.iter_rows()}
    assert facts["router", "kernel", "release"].startswith("7.3.4")
    assert facts["router", "kernel", "source"] == source
    assert facts["router", "kernel", "lab"] == "mine"
    assert ("tx-l4s", "module", "tcp_prague") in facts
    assert ("tx-classic", "module", "tcp_prague") not in facts, "only what its program loads"
    queue = json.loads(facts["router", "qdisc", "net-rx 3:"])
    assert (queue["kind"], queue["target"]) == ("dualpi2", 5000)
    assert any(kind == "qdisc" and node == "delay" for node, kind, _ in facts)


def test_facts_of_a_real_host(captured: Load, cases: Path) -> None:
    trial = captured("lean-dualpi2")
    (trial.raw / "host.json").unlink()
    node = trial.raw / "router"
    for name in ("ethtool", "sysctl"):
        (node / f"{name}.txt").write_text((cases / f"hostinfo/{name}.txt").read_text())
    (node / "uname.txt").write_text("Linux secret-host 6.1.0-18-amd64 #1 SMP Debian x86_64 GNU/Linux\n")
    (node / "module.txt").write_text("/sys/module/tcp_prague/parameters/prague_ecn_fallback:0\n")
    trial.programs["router"] = replace(
        trial.programs["router"],
        readback=(
            Readback("offloads", ("ethtool", "-k", "@net-rx"), "ethtool.txt", host=True),
            Readback("sysctls", ("sysctl", "net.ipv4.tcp_ecn"), "sysctl.txt", host=True),
            Readback("kernel", ("uname", "-a"), "uname.txt", host=True),
            Readback("parameters", ("grep", "-r", ""), "module.txt", host=True),
        ),
    )
    found = rows("hosts", trial.ended).filter(pl.col("node") == "router")
    facts = {(kind, name): value for _, _, _, kind, name, value in found.iter_rows()}
    assert facts["offload", "net-rx tso"] == "off"
    assert facts["sysctl", "net.ipv4.tcp_ecn"] == "3"
    assert facts["kernel", "release"] == "6.1.0-18-amd64"
    assert facts["parameter", "tcp_prague prague_ecn_fallback"] == "0"
    assert "secret-host" not in str(found.to_dicts())


def test_captured_outputs(cases: Path) -> None:
    shown = parse_offloads((cases / "hostinfo/ethtool.txt").read_text())
    assert shown == {"tso": False, "gso": False, "gro": False, "lro": False}
    assert parse_sysctls("net.ipv4.tcp_rmem = 4096\t131072\t6291456\n") == {
        "net.ipv4.tcp_rmem": "4096 131072 6291456"
    }
    assert parse_parameters("nonsense\n") == {}


def test_rules_of_nft_are_facts_whatever_else_is_listed() -> None:
    rule = {"chain": "ecn-net-mid", "comment": "bleach", "handle": 2}
    listed = {"nftables": [{"metainfo": {}}, {"chain": {"name": "ecn-net-mid"}}, {"rule": rule}, 7]}
    assert parse_rules(json.dumps(listed)) == [rule]
    assert [parse_rules(text) for text in ("", "[]", '{"nftables": 3}', "[" * 100_000)] == [[]] * 4


def test_round_trip_times_of_a_path_are_facts(captured: Load) -> None:
    trial = captured("lean-dualpi2")
    (trial.raw / "tx-l4s" / ROUND_TRIPS_FILE).write_text('{"10.0.5.100": 31.415, "10.0.5.101": null}')
    trial.programs["tx-l4s"] = replace(trial.programs["tx-l4s"], echoes=("10.0.5.100", "10.0.5.101"))
    (row,) = rows("hosts", trial.ended).filter(pl.col("kind") == "rtt").to_dicts()
    assert (row["node"], row["name"], row["value"]) == ("tx-l4s", "10.0.5.100", "31.415 ms")
    for text in ("", "[]", '{"10.0.5.100": "1"}', "[" * 100_000):
        assert parse_round_trips(text) == {}


def test_walks_of_a_host_are_facts(captured: Load) -> None:
    trial = captured("lean-dualpi2")
    (trial.raw / "delay" / WALKS_FILE).write_text('[{"steps": 400, "set": 398, "more": 1}, {"steps": 3}]')
    walk = NodeWalk(Duration(10_000_000), 7, (("tc",),))
    trial.programs["delay"] = replace(trial.programs["delay"], walks=(walk,))
    (row,) = rows("hosts", trial.ended).filter(pl.col("kind") == "walk").to_dicts()
    assert (row["node"], row["name"]) == ("delay", "path.jitter")
    assert json.loads(row["value"]) == [{"set": 398, "steps": 400}]
    for text in ("", "{}", '[{"steps": "a", "set": 1}]', "[" * 100_000):
        assert parse_walks(text) == []


def test_pauses_that_a_host_made_are_facts(captured: Load) -> None:
    trial = captured("lean-dualpi2")
    made = {"start_ms": [12.5, 400.0, 700.0], "length_ms": [4.2, 9.0, 4.1]}
    (trial.raw / "delay" / PAUSES_FILE).write_text(json.dumps(made))
    paused = NodePauses(Duration(4_000_000), Duration(330_000_000), 7, (), ())
    trial.programs["delay"] = replace(trial.programs["delay"], pauses=(paused,))
    (row,) = rows("hosts", trial.ended).filter(pl.col("kind") == "pauses").to_dicts()
    assert (row["node"], row["name"]) == ("delay", "path.pause")
    assert json.loads(row["value"]) == {"number": 3, "median_ms": 4.2, "longest_ms": 9.0}
    assert parse_pauses('{"length_ms": [4, 5, 9, 6]}')["median_ms"] == 5.5
    for text in ("", "[]", '{"length_ms": 3}', '{"length_ms": ["a"]}', "[" * 100_000):
        assert parse_pauses(text) == {"number": 0}


def test_a_damaged_host_file(captured: Load) -> None:
    trial = captured("lean-dualpi2").ended
    (trial.raw / "host.json").write_text("{}")
    with pytest.raises(BadRawError, match=r"host\.json"):
        rows("hosts", trial)


def test_trial_rows(captured: Load) -> None:
    trial = captured("lean-dualpi2").ended
    (row,) = rows("trials", trial).to_dicts()
    assert row["cell"] == trial.cell.id
    assert (row["status"], row["reasons"], row["seed"], row["traffic"]) == ("ok", None, "7", "lean")
    assert (row["rate_mbps"], row["rtt_ms"], row["duration_s"], row["aqm"]) == (10.0, 10.0, 3.0, "dualpi2")
    assert (row["l4s.cc"], row["classic.ecn"]) == ("prague", "off")
    assert row["modules"][0].startswith("tcp_prague=")
    assert row["folder"] == "1-0123456789abcdef"
    assert (row["inputs"], row["testbed"]) == ("0123456789abcdef", "virtual")


def test_programs_can_be_read_and_run_again(captured: Load) -> None:
    trial = captured("lean-dualpi2").ended
    found = rows("programs", trial)
    router = found.filter(pl.col("node") == "router")
    commands = router["command"].to_list()
    assert any(c.startswith("tc qdisc replace dev @net-rx parent 1:3 handle 3: dualpi2") for c in commands)
    assert router["step"].to_list() == list(range(1, router.height + 1))
    phases = ["setup", "ready", "start", "readback"]
    assert [p for p in phases if p in found["phase"].unique().to_list()] == phases
    (rerun,) = found["rerun"].unique()
    assert rerun == f"l4sbench run matrix.yaml cell={trial.cell.id} --new --dir ../../../again"
