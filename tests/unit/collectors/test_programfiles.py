# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Files of programs: those of a captured trial of examples/udp-l4s, and others in their place."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from collectors.collector import BadRawError
from collectors.programfiles import parse_exec, parse_qlog
from collectors.traffic import parse_flows
from collectors.trialrows import rows_of
from l4sbench import tables
from tests.captured import CapturedTrial, captured_trial

TRIAL = "exec-dualpi2"


@pytest.fixture
def trial(tmp_path: Path) -> CapturedTrial:
    return captured_trial(TRIAL).copied(tmp_path)


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
    flows = pl.DataFrame(parse_flows(trial.ended))
    assert flows is not None
    marked = flows.filter(pl.col("send") == "exec")["delivered_ce_packets"].item()
    received = found.filter(side="receiver", key="packets_received.ce")["value"].item()
    assert 0 <= received - marked <= 20


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


QLOG = Path(__file__).parents[2] / "cases" / "qlog" / "quic-go.sqlog"


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
