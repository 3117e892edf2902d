# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`send: exec`: the flow of a captured trial of examples/udp-l4s, whole, cut and without captures."""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from collectors.accecn import parse_codepoints
from collectors.flows import read_flows
from collectors.packetflows import parse_packet_flows
from collectors.traffic import parse_flows, parse_intervals
from l4sbench.facts.cell import Cell
from l4sbench.facts.faults import Fault, FaultKind
from tests.captured import CapturedTrial, captured_trial

TRIAL = "exec-dualpi2"


@pytest.fixture
def trial(tmp_path: Path) -> CapturedTrial:
    return captured_trial(TRIAL).copied(tmp_path)


def flow(trial: CapturedTrial) -> dict[str, Any]:
    found = pl.DataFrame(parse_flows(trial.ended))
    assert found is not None
    return found.filter(pl.col("send") == "exec").row(0, named=True)


def test_a_flow_is_its_packets(trial: CapturedTrial) -> None:
    assert trial.faults() == []
    own, reported = flow(trial), json.loads((trial.raw / "tx-l4s/flow-l4s-0.sender.json").read_text())
    packets = parse_packet_flows(trial.ended)
    assert packets is not None
    sent = packets.filter(pl.col("flow") == "l4s-0").row(0, named=True)
    assert own["cc"] is None
    # the cell has no warm-up: all packets count
    assert own["goodput_mbps"] * own["seconds"] * 1e6 / 8 / 1200 == pytest.approx(
        own["delivered_packets"], abs=0.01
    )
    # what was sent at the very end arrives after it
    assert 0 <= reported["packets_sent"] - sent["data_packets"] <= 20
    assert 0 <= sent["data_packets"] - sent["lost_packets"] - own["delivered_packets"] <= 20
    assert own["delivered_ce_packets"] == sent["ce_packets"] > 0
    assert own["arrived_mbps"] == pytest.approx(own["goodput_mbps"] * 1242 / 1200)
    assert own["offered_mbps"] >= own["arrived_mbps"]
    intervals = pl.DataFrame(parse_intervals(trial.ended))
    assert intervals is not None
    seconds = intervals.filter(pl.col("flow") == "l4s-0")
    assert (seconds["goodput_mbps"] * seconds["seconds"]).sum() == pytest.approx(
        own["goodput_mbps"] * own["seconds"]
    )


def test_codepoints_are_counted_on_both_sides(trial: CapturedTrial) -> None:
    found = parse_codepoints(trial.ended)
    assert found is not None
    forward = found.filter((pl.col("flow") == "l4s-0") & (pl.col("direction") == "forward"))
    before, behind = (forward.filter(place=place).row(0, named=True) for place in ("before", "behind"))
    assert (before["not_ect_packets"], before["ce_packets"]) == (0, 0)
    assert 0 <= behind["ce_packets"] - flow(trial)["delivered_ce_packets"] <= 20


def cut(trial: CapturedTrial, keep: float) -> None:
    """Keep only a share of each capture, from its beginning."""
    for path in (trial.raw / "router").glob("*.pcap.gz"):
        data = gzip.decompress(path.read_bytes())
        at, ends = 24, []
        while at < len(data):
            at += 16 + int.from_bytes(data[at + 8 : at + 12], "little")
            ends.append(at)
        path.write_bytes(gzip.compress(data[: ends[int(len(ends) * keep) - 1]]))


def test_a_sender_that_ended_early_is_named_with_its_stderr(trial: CapturedTrial) -> None:
    cut(trial, 0.5)
    (trial.raw / "tx-l4s/flow-l4s-0.sender.txt.stderr").write_text("udp-l4s: the receiver\nis gone\x1b[2J\n")
    (reason,) = (one for one in trial.judged().reasons if one.startswith("l4s-0: its last packet"))
    assert "s of 4 s; its sender's stderr: udp-l4s: the receiver is gone [2J" in reason


def test_a_sender_whose_packets_go_elsewhere_is_named(trial: CapturedTrial) -> None:
    moved = {
        node: replace(
            program,
            flows=tuple(replace(run, port=4000) if run.send == "exec" else run for run in program.flows),
        )
        for node, program in trial.programs.items()
    }
    (found,) = (one for one in read_flows(moved, trial.raw) if one.run.send == "exec")
    assert found.faults == (Fault.of(FaultKind.NO_PACKET, "l4s-0", port=4000),)


def test_another_codepoint_than_stated_makes_a_trial_invalid(trial: CapturedTrial) -> None:
    other = trial.having(l4s__codepoint="ect0")
    assert other.faults() == ["l4s-0 codepoint 1 ect0 ect1"]
    factors = dict(trial.cell.factors) | {"path.ecn": "bleach", "l4s.codepoint": "ect0"}
    assert replace(trial, cell=Cell.of(factors)).faults() == []


def test_without_captures_nothing_is_measured(trial: CapturedTrial) -> None:
    shutil.rmtree(trial.raw / "router")
    assert "l4s-0 not-captured" in trial.faults()
