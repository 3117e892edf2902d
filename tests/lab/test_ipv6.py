# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Cells of `family: ipv6` in the lab: their packets, and that they measure what those of IPv4 do."""

from __future__ import annotations

import gzip
import socket
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from l4sbench.app import api
from l4sbench.testbeds.virtual.lab import Lab
from reports.result.load import RunTables
from tests.lab.wires import tables

pytestmark = pytest.mark.lab

IPV6 = 0x86DD
ECT1, CE = 1, 3


def headers(run: Path, capture: str) -> Iterator[tuple[int, int, int, int]]:
    """Yield Ethernet's type, the ECN field, the receiver's port and the payload of frames of TCP over IPv6.

    They are read without the project's reader; of other frames all but the type is 0.
    """
    (file,) = run.glob(f"cells/*/1-*/raw/router/{capture}.pcap.gz")
    data, at = gzip.decompress(file.read_bytes()), 24
    while at < len(data):
        (kept,) = struct.unpack_from("<I", data, at + 8)
        frame, at = data[at + 16 : at + 16 + kept], at + 16 + kept
        (kind,) = struct.unpack_from("!H", frame, 12)
        if kind != IPV6 or frame[20] != socket.IPPROTO_TCP:
            yield kind, 0, 0, 0
            continue
        first, length = struct.unpack_from("!IH", frame, 14)
        (port,) = struct.unpack_from("!H", frame, 56)
        yield kind, first >> 20 & 3, port, length - (frame[66] >> 4) * 4


@pytest.mark.parametrize("cc", ["prague", "bbr2-l4s", "bbr3-ect1"])
def test_every_data_packet_of_l4s_is_ect1_until_it_is_marked(lab: Lab, tmp_path: Path, cc: str) -> None:
    matrix = tmp_path / "six.yaml"
    matrix.write_text(
        "matrix: six\nrate: 20mbit\nrtt: 20ms\nduration: 5s\ntrials: 1\nfamily: ipv6\ncapture: headers\n"
        f"aqm: dualpi2\nrule: none\nflows: {{l4s: {{cc: {cc}}}, classic: {{cc: cubic}}}}\n"
    )
    ended = api.run(matrix, runs=tmp_path / "runs")
    found = api.load(ended)
    assert found.trials["status"].to_list() == ["ok"], found.trials["reasons"].to_list()
    ports = {"l4s": 5001, "classic": 5002}
    before, behind = (
        {
            group: Counter(ecn for _, ecn, to, payload in headers(ended.path, name) if to == port and payload)
            for group, port in ports.items()
        }
        for name in ("net-mid", "net-rx")
    )
    assert set(before["l4s"]) == {ECT1}
    assert set(behind["l4s"]) == {ECT1, CE}
    assert set(before["classic"]) == {0}
    assert {kind for kind, *_ in headers(ended.path, "net-rx")} == {IPV6}
    # the project's reader sees the same, and has a sojourn for each packet that left the queue
    flows = {row["group"]: row for row in found.packet_flows.iter_rows(named=True)}
    for group in ports:
        row = flows[group]
        assert row["data_packets"] - row["lost_packets"] == pytest.approx(row["sojourn_samples"], abs=50)
        assert row["retransmits_packets"] == pytest.approx(row["lost_packets"], abs=4)
    assert flows["l4s"]["sojourn_mean_ms"] < 2 < flows["classic"]["sojourn_mean_ms"]
    marked = found.scan("packets").filter(pl.col("marked")).collect()["group"].value_counts()
    assert dict(marked.iter_rows()) == {"l4s": behind["l4s"][CE]}


def test_packets_are_known_again_behind_a_queue_that_drops(lab: Lab, tmp_path: Path) -> None:
    """IPv6 has no identification; a packet that is taken for another one would wait longer than any can."""
    matrix = tmp_path / "six.yaml"
    matrix.write_text(
        "matrix: six\nrate: 20mbit\nrtt: 20ms\nduration: 8s\ntrials: 1\nfamily: ipv6\ncapture: headers\n"
        "aqm: fifo\nrule: none\nflows:\n  classic: {cc: cubic}\n  reno: {cc: reno}\n"
        "  udp: {send: paced, rate: 2mbit, size: 100B, codepoint: not-ect, from: tx-l4s, to: rx-l4s}\n"
    )
    found = api.load(api.run(matrix, runs=tmp_path / "runs"))
    assert found.trials["status"].to_list() == ["ok"], found.trials["reasons"].to_list()
    packets = found.scan("packets").collect()
    for group in ("classic", "reno", "udp"):
        own = packets.filter(group=group)
        assert own["lost"].sum() > 0
        assert own["sojourn_ms"].max() < 22  # type: ignore[operator]
    assert packets["lost"].sum() == found.queues.filter(kind="bfifo")["drops_packets"].max()


def shares(found: RunTables) -> pl.DataFrame:
    """Return mean and standard deviation over trials of the share of Prague, by queue and family."""
    cells = found.trials.select("cell", "aqm", "family")
    goodputs = found.flows.pivot("group", index=["cell", "trial"], values="goodput_mbps")
    percent = pl.col("l4s") / (pl.col("l4s") + pl.col("classic")) * 100
    return (
        goodputs.join(cells.unique(), on="cell")
        .group_by("aqm", "family")
        .agg(percent.mean().alias("mean"), percent.std().alias("sd"))
        .sort("aqm", "family")
    )


@pytest.mark.long
def test_shares_agree_with_ipv4_within_the_spread_of_seeds(lab: Lab, tmp_path: Path) -> None:
    more = "axes:\n  aqm: [dualpi2, fq-codel, codel-drop, codel]\n  family: [ipv4, ipv6]\n"
    found = tables(tmp_path, more, aqm=None, trials=5)
    for (aqm,), both in shares(found).group_by("aqm"):
        four, six = both.sort("family").iter_rows(named=True)
        assert (four["family"], six["family"]) == ("ipv4", "ipv6")
        # two means of five trials; a share of a fair queue hardly varies, and one point is no difference
        spread = 2.3 * ((four["sd"] ** 2 + six["sd"] ** 2) / 5) ** 0.5
        assert abs(four["mean"] - six["mean"]) < max(1.0, spread), (aqm, four, six)


def test_the_same_seed_gives_the_same_packets(lab: Lab, tmp_path: Path) -> None:
    first, second = (
        tables(tmp_path, "family: ipv6\n", name, aqm="dualpi2").sockets for name in ("first", "second")
    )
    assert first.equals(second)
