# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Traffic that is not one connection at full speed, from a captured trial with a flow of each kind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from collectors.traffic import parse_flows, parse_intervals, parse_requests
from collectors.trialrows import rows_of
from tests.unit.collectors.conftest import Load


def flows(trial: Any) -> dict[str, dict[str, Any]]:
    frame = pl.DataFrame(parse_flows(trial.ended))
    assert frame is not None
    return {row["send"]: row for row in frame.iter_rows(named=True) if row["flow"] != "short-0"}


def test_the_captured_trial_is_valid(captured: Load) -> None:
    assert captured("lean-sends").faults() == []


def test_every_kind_has_its_figures(captured: Load) -> None:
    found = flows(captured("lean-sends"))
    assert set(found) == {"paced", "syn-flood", "requests", "connect-flood", "workload"}
    paced, flood, mice = found["paced"], found["syn-flood"], found["requests"]
    assert (paced["cc"], paced["ecn"]) == (flood["cc"], flood["ecn"]) == (None, None)
    assert paced["offered_mbps"] == pytest.approx(1, rel=0.003)  # 375 packets of 1000 bytes in 3 s
    assert paced["sent_bytes"] == 375 * 958
    assert paced["received_bytes"] == paced["delivered_packets"] * 958
    assert flood["offered_mbps"] == pytest.approx(0.5, rel=0.001)
    assert (flood["goodput_mbps"], flood["received_bytes"]) == (0, 0)
    assert (mice["cc"], mice["ecn"], mice["connections"], mice["received_bytes"]) == ("reno", "off", 6, 300)
    assert found["connect-flood"]["connections"] == pytest.approx(100e3 * 3 / 8 / 388, abs=1)


def test_senders_of_many_connections_count_no_bytes(captured: Load) -> None:
    trial = captured("lean-sends")
    intervals = pl.DataFrame(parse_intervals(trial.ended), infer_schema_length=None)
    for name in ("requests", "connect-flood", "workload"):
        row = flows(trial)[name]
        assert row["sent_bytes"] is None
        assert row["received_bytes"] > 0
        assert intervals.filter(flow=row["flow"])["sent_mbps"].null_count() == 3


def test_a_flow_of_given_bytes_has_its_completion_time(captured: Load) -> None:
    frame = pl.DataFrame(parse_flows(captured("lean-sends").ended))
    assert frame is not None
    (short,) = frame.filter(flow="short-0").iter_rows(named=True)
    assert short["received_bytes"] == 200_000
    assert 160 < short["completed_ms"] < 1000
    assert short["seconds"] == pytest.approx(short["completed_ms"] / 1e3, abs=0.03)


def test_requests_have_a_row_each(captured: Load) -> None:
    requests = pl.DataFrame(parse_requests(captured("lean-sends").ended))
    assert requests is not None
    mice = requests.filter(group="mice")
    assert mice["request"].to_list() == [1, 2, 3, 4, 5, 6]
    assert mice["t_ms"].diff().drop_nulls().to_list() == pytest.approx([500] * 5, abs=0.1)
    assert mice["payload_bytes"].unique().to_list() == [50]
    assert (mice["handshake_ms"] >= 20).all()
    assert (mice["response_ms"] >= 2 * 20).all()
    assert set(requests["group"]) == {"mice", "work"}
    assert parse_requests(captured("lean-dualpi2").ended) is None


def test_intervals_add_up(captured: Load) -> None:
    trial = captured("lean-sends")
    frame = pl.DataFrame(parse_intervals(trial.ended))
    assert frame is not None
    for name, row in flows(trial).items():
        own = frame.filter(flow=row["flow"])
        received = float((own["goodput_mbps"] * own["seconds"]).sum()) * 1e6 / 8
        assert received == pytest.approx(row["received_bytes"]), name


def test_a_flow_may_end_just_after_a_whole_second(captured: Load) -> None:
    """Table `intervals` tells intervals apart by their end in whole milliseconds."""
    trial = captured("lean-sends")
    for file, name, end_s in (
        ("rx-l4s/flow-short-0.receiver.json", "bytes_received", 1.0003),
        ("tx-l4s/flow-short-0.sender.json", "bytes_acked", 1.01),
    ):

        def end_later(plain: Any, name: str = name, end_s: float = end_s) -> None:
            (last,) = plain["intervals"]
            plain["intervals"] = [{**last, "end_s": 1.0, name: 199_000}, {**last, "end_s": end_s}]

        trial.edit(file, end_later)

    frames, problems = rows_of(trial.ended)

    assert not problems
    (short,) = frames["intervals"].filter(flow="short-0").iter_rows(named=True)
    assert (short["t_ms"], short["seconds"]) == (1000, 1.0003)
    assert short["goodput_mbps"] == pytest.approx(200_000 * 8e-6 / 1.0003)
    assert short["sent_mbps"] == pytest.approx(200_000 * 8e-6 / 1.01)
    assert short["retransmits_packets"] == 4


NOTHING = {"not_ect": 0, "ect1": 0, "ect0": 0, "ce": 0}
ENDED = [{"end_s": 1.5, "packets_sent": 187}]


@pytest.mark.parametrize(
    ("file", "change", "fault"),
    [
        ("tx-classic/flow-syn-0.sender.json", {"packets_sent": 90_000}, "syn-0 rate 12.96 0.5"),
        ("tx-classic/flow-conns-0.sender.json", {"unopened": 3}, "conns-0 no-port 3 97"),
        ("tx-classic/flow-udp-0.sender.json", {"intervals": ENDED}, "udp-0 ended-early sender 1.5 3"),
        ("tx-classic/flow-mice-0.sender.json", {"ecn": {"mode": "rfc3168"}}, "mice-0 ecn sender classic off"),
        ("rx-classic/flow-syn-0.receiver.json", {"packets_received": NOTHING}, "syn-0 no-data"),
    ],
)
def test_what_was_not_sent_as_asked_makes_a_trial_invalid(
    captured: Load, file: str, change: dict[str, Any], fault: str
) -> None:
    trial = captured("lean-sends")
    trial.edit(file, lambda result: result.update(change))
    assert trial.faults() == [fault]


@pytest.mark.parametrize(
    ("wanted", "faults"), [("classic", []), ("accecn", []), ("off", ["mice-0 ecn sender on off"])]
)
def test_a_kernel_that_does_not_distinguish_kinds_of_ecn_shows_that_it_is_on(
    captured: Load, wanted: str, faults: list[str]
) -> None:
    trial = captured("lean-sends")
    trial.edit("tx-classic/flow-mice-0.sender.json", lambda result: result.update({"ecn": {"mode": "ecn"}}))
    sender = trial.programs["tx-classic"]
    runs = tuple(replace(run, ecn=wanted) if run.flow == "mice-0" else run for run in sender.flows)
    changed = replace(trial, programs={**trial.programs, "tx-classic": replace(sender, flows=runs)})
    assert changed.faults() == faults
