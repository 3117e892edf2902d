# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`send: exec`: a captured trial of examples/udp-l4s, and what its programs may leave instead."""

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
from collectors.collector import BadRawError
from collectors.flows import read_flows
from collectors.kinds.exec import parse_exec, parse_qlog
from collectors.packetflows import parse_packet_flows
from collectors.traffic import parse_flows, parse_intervals
from collectors.trialrows import rows_of
from l4sbench import tables
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


def test_numbers_of_the_json_are_rows(trial: CapturedTrial) -> None:
    found = pl.DataFrame(parse_exec(trial.ended))
    assert found is not None
    of_sender = {
        key: value
        for side, key, value in found.select("side", "key", "value").iter_rows()
        if side == "sender"
    }
    plain = json.loads((trial.raw / "tx-l4s/flow-l4s-0.sender.json").read_text())
    assert of_sender["rtt_ms.least"] == plain["rtt_ms"]["least"]
    assert of_sender["packets_sent"] == plain["packets_sent"]
    received = found.filter(side="receiver", key="packets_received.ce")["value"].item()
    assert 0 <= received - flow(trial)["delivered_ce_packets"] <= 20


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("{}", []),
        ("3", [("", 1, 3.0)]),
        (
            '{"a": [1, {"b": 2}, [3]], "c": true, "d": "4", "e": null}',
            [("a", 1, 1.0), ("a.b", 1, 2.0), ("a", 2, 3.0)],
        ),
        ('{"a": NaN, "b": Infinity, "c": 1e999, "d": -0.5}', [("d", 1, -0.5)]),
        ('{"' + "x" * 301 + '": 1, "y": 2}', [("y", 1, 2.0)]),
    ],
)
def test_forms_of_json(trial: CapturedTrial, text: str, rows: list[tuple[str, int, float]]) -> None:
    (trial.raw / "tx-l4s/flow-l4s-0.sender.json").write_text(text)
    found = pl.DataFrame(parse_exec(trial.ended))
    assert found is not None
    assert found.filter(side="sender").select("key", "item", "value").rows() == rows


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "(flow-l4s-0.sender.json) is missing"),
        (b" \n", "(flow-l4s-0.sender.json) is empty"),
        (b'{"a": 1,\n  oops}', "(flow-l4s-0.sender.json) is not JSON at line 2, column 3: Expecting"),
        (b'{"a": "\xff"}', "(flow-l4s-0.sender.json) is not UTF-8 at byte 7"),
        (b"[" * 200_000, "(flow-l4s-0.sender.json) is nested too deeply"),
        (b"1" * 10_000, "(flow-l4s-0.sender.json) cannot be read: Exceeds the limit"),
    ],
)
def test_broken_json_makes_a_trial_invalid(trial: CapturedTrial, content: bytes | None, message: str) -> None:
    path = trial.raw / "tx-l4s/flow-l4s-0.sender.json"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    (reason,) = trial.judged().reasons
    assert reason.startswith(f"l4s-0: the sender's JSON {message}")
    frames, problems = rows_of(trial.ended)
    assert frames["flows"].height == 2  # the packets are there all the same
    assert [problem for problem in problems if message in problem]


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


FRAMES = {
    "whole": 100,
    "bytes": 100_000,
    "freezes": 0,
    "delay_ms": {"p50": 30.0, "p95": 60.0, "most": 90.0},
}


def test_frames_that_packets_do_not_disprove_are_numbers(trial: CapturedTrial) -> None:
    report_frames(trial, {})
    assert trial.faults() == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"whole": 1e9}, "has 1000000000 frames of 100000 bytes, and "),
        ({"bytes": 1e12}, "has 100 frames of 1000000000000 bytes, and "),
        ({"freezes": [9, 0]}, "has several values of frames.freezes"),
        ({"bytes": None}, "lacks frames.bytes"),
        ({"freezes": -1}, "has a negative frames.freezes"),
        (
            {"delay_ms": {"p50": 9, "p95": 5, "most": 90}},
            "has delays of frames that cannot be: 9, 5 and 90 ms",
        ),
        ({"delay_ms": {"p50": 0, "p95": 0, "most": 0}}, "has frames of at most 0 ms, and half of the"),
    ],
)
def test_frames_that_packets_disprove_make_a_trial_invalid(
    trial: CapturedTrial, changes: dict[str, Any], message: str
) -> None:
    report_frames(trial, changes)
    (reason,) = trial.judged().reasons
    assert reason.startswith(f"l4s-0: the receiver's JSON (flow-l4s-0.receiver.json) {message}")


def report_frames(trial: CapturedTrial, changes: dict[str, Any]) -> None:
    frames = {name: value for name, value in (FRAMES | changes).items() if value is not None}
    (trial.raw / "rx-l4s/flow-l4s-0.receiver.json").write_text(json.dumps({"frames": frames}))


# ---- qlog
QLOG = Path(__file__).parents[3] / "cases" / "qlog" / "quic-go.sqlog"


def with_qlog(trial: CapturedTrial) -> tuple[CapturedTrial, Path]:
    """Return the trial as one whose sender is to write a qlog, and the file of that."""
    programs = {
        node: replace(
            program,
            flows=tuple(
                replace(run, argv=(*run.argv, f"%folder/flow-{run.flow}.sender.sqlog")) for run in own
            ),
        )
        for node, program in trial.programs.items()
        for own in [program.flows]
    }
    return replace(trial, programs=programs), trial.raw / "tx-l4s/flow-l4s-0.sender.sqlog"


def test_a_qlog_has_rows_that_match_their_schema(trial: CapturedTrial) -> None:
    assert parse_qlog(trial.ended) is None
    own, file = with_qlog(trial)
    shutil.copyfile(QLOG, file)
    assert own.faults() == []
    frames, problems = rows_of(own.ended)
    assert problems == []
    log = tables.conform("qlog", frames["qlog"])
    assert log["flow"].unique().to_list() == ["l4s-0"]
    assert (log["t_ms"].diff().drop_nulls() == 100).all()
    assert log["cwnd_bytes"].null_count() == 0
    assert log["ssthresh_bytes"].null_count() == log.height


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "the qlog of l4s-0 (flow-l4s-0.sender.sqlog) is missing"),
        (b"", "the qlog of l4s-0 is empty"),
        (
            QLOG.read_bytes().replace(b'"smoothed_rtt":', b'"smoothed_rtt":1e-3,"x":'),
            "the qlog of l4s-0 has a smoothed",
        ),
    ],
)
def test_a_bad_qlog_costs_its_table_and_no_other(
    trial: CapturedTrial, content: bytes | None, message: str
) -> None:
    own, file = with_qlog(trial)
    if content is not None:
        file.write_bytes(content)
    assert own.faults() == []
    frames, (problem,) = rows_of(own.ended)
    assert problem.startswith(message)
    assert frames["trials"]["flags"].to_list() == [["unread-qlog"]]
    assert "qlog" not in frames
    assert frames["exec"].height


def test_no_link_is_followed_to_a_qlog(trial: CapturedTrial) -> None:
    own, file = with_qlog(trial)
    file.symlink_to(QLOG)
    with pytest.raises(BadRawError, match="cannot be read"):
        parse_qlog(own.ended)
