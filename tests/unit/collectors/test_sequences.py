# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Sequence numbers of captured packets, beside what tshark printed of the same captures."""

from __future__ import annotations

import csv
import gzip
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.collector import BadRawError
from collectors.packets import read_packets
from collectors.sequences import read_sequences
from tests.captured import captured_trial
from tests.unit.collectors.conftest import Load


def test_numbers_are_those_of_tshark(captured: Load, cases: Path) -> None:
    trial = captured("captured-dualpi2")
    found = read_sequences(trial.programs, trial.raw)
    assert found is not None
    ports = {run.flow: str(run.port) for program in trial.programs.values() for run in program.flows}
    with (cases / "pcap" / "net-mid.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    for flow, port in ports.items():
        numbers = [
            int(row["tcp.seq_raw"]) for row in rows if row["tcp.dstport"] == port and row["tcp.len"] != "0"
        ]
        since = [(number - numbers[0]) % 2**32 for number in numbers]
        own = found.filter(pl.col("flow") == flow)
        assert len(since) > 200
        assert own["begin_bytes"].to_list() == since
        assert own["t_ms"].is_sorted()


def test_every_event_is_one_of_table_packets(captured: Load) -> None:
    trial = captured("captured-dualpi2")
    found = read_sequences(trial.programs, trial.raw)
    capture = read_packets(trial.programs, trial.raw)
    assert found is not None
    assert capture is not None
    assert found["retransmit"].sum() == capture.data["retransmit"].sum() > 50
    assert found["lost"].sum() == capture.data["lost"].sum() > 50
    left = (pl.col("ecn_out") == 3) & (pl.col("ecn") != 3)
    assert found["marked"].sum() == capture.data.select(left.sum()).item() > 100


def test_connections_begin_at_0_each(captured: Load) -> None:
    trial = captured("captured-sends")
    found = read_sequences(trial.programs, trial.raw)
    assert found is not None
    mice = found.filter(pl.col("flow") == "mice-0")
    assert mice.filter(pl.col("begin_bytes") == 0).height >= 10
    assert mice["begin_bytes"].min() == 0


def test_no_captures_and_damaged_ones(captured: Load) -> None:
    trial = captured("captured-dualpi2")
    (trial.raw / "router" / "net-rx.pcap.gz").write_bytes(b"\x1f\x8b no gzip")
    with pytest.raises(BadRawError, match=r"^net-rx\.pcap\.gz: "):
        read_sequences(trial.programs, trial.raw)
    for name in ("net-rx", "net-mid"):
        (trial.raw / "router" / f"{name}.pcap.gz").unlink()
    assert read_sequences(trial.programs, trial.raw) is None


@given(place=st.integers(24, 50_000), noise=st.binary(min_size=1, max_size=200))
def test_hostile_captures_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, place: int, noise: bytes
) -> None:
    trial = captured_trial("captured-dualpi2").copied(tmp_path_factory.mktemp("hostile"))
    path = trial.raw / "router" / "net-rx.pcap.gz"
    content = bytearray(gzip.decompress(path.read_bytes()))
    content[place : place + len(noise)] = noise
    path.write_bytes(gzip.compress(content, 1))
    with suppress(BadRawError):
        found = read_sequences(trial.programs, trial.raw)
        assert found is not None
        assert found.columns == ["flow", "group", "t_ms", "begin_bytes", "retransmit", "lost", "marked"]
