# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Senders in the lab: QUIC stacks fill a link, react and repeat; folders of one's own that fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from l4sbench.app import api
from l4sbench.catalog import Catalog
from l4sbench.errors import TestbedError
from l4sbench.testbeds import senders
from l4sbench.testbeds.virtual.lab import Lab

pytestmark = pytest.mark.lab

HEAD = """\
matrix: m
rate: 10mbit
rtt: 20ms
trials: 1
duration: 6s
capture: headers
"""
STATED = """\
sender: mine
label: Mine
about: A stack.
version: "1"
licence: MIT
sources: [RFC 9000]
build: cc
codepoints: [ect0]
ccs: {reno: {label: Reno, about: Reno.}}
"""


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def needs(name: str) -> None:
    """Skip a test whose sender can be neither found in the cache nor built."""
    sender = Catalog.load().sender(name)
    if not sender.program.is_built:
        try:
            senders.require_toolchain(sender)
        except TestbedError as error:
            pytest.skip(str(error))


def run(folder: Path, text: str, **options: Any) -> api.EndedRun:
    matrix = folder / "m.yaml"
    matrix.write_text(HEAD + text)
    return api.run(matrix, runs=folder / "runs", **options)


def test_quic_go_is_judged_beside_cubic_and_repeats(lab: Lab, tmp_path: Path) -> None:
    needs("quic-go")
    flows = (
        "baselines: solo\naqm: codel\nflows:\n  l4s: {send: quic-go}\n  classic: {cc: cubic, ecn: classic}\n"
    )
    ended = run(tmp_path, flows)
    tables = api.load(ended)
    assert tables.trials["status"].to_list() == ["ok"] * 3, tables.trials["reasons"].to_list()
    assert ended.decision is not None
    (cell,) = ended.decision.cells
    assert cell.question.head == "quic-go Reno"
    assert cell.result.classic.harm is not None
    without = tables.trials.filter(pl.col("classic.cc").is_null()).select("cell")
    alone = tables.flows.join(without, on="cell", how="semi")["goodput_mbps"].item()
    assert 8 < alone < 10
    marks = tables.flows.filter(group="l4s")["delivered_ce_packets"].to_list()
    assert all(packets > 5 for packets in marks)
    packets = tables.packet_flows.filter(group="l4s")
    assert (packets["lost_packets"] < 0.02 * packets["data_packets"]).all()  # those of its start
    assert captures(run(tmp_path, flows, new=True)) == captures(ended)


@pytest.mark.long
@pytest.mark.parametrize(
    ("send", "losses"), [("quinn, cc: cubic", 0.02), ("quinn, cc: newreno", 0.02), ("quinn, cc: bbr", 0.5)]
)
def test_quinn_fills_a_link_and_repeats(lab: Lab, tmp_path: Path, send: str, losses: float) -> None:
    needs("quinn")
    flows = f"rule: none\naqm: fifo\nflows:\n  l4s: {{send: {send}}}\n"
    ended = run(tmp_path, flows)
    tables = api.load(ended)
    assert tables.trials["status"].to_list() == ["ok"], tables.trials["reasons"].to_list()
    assert 8 < tables.flows["goodput_mbps"].item() < 10
    packets = tables.packet_flows.row(0, named=True)
    assert packets["lost_packets"] < losses * packets["data_packets"]
    assert captures(run(tmp_path, flows, new=True)) == captures(ended)


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ('fprintf(stderr, "no such thing"); return 127;', "failed", "no such thing"),
        ("return 0;", "invalid", "no packet"),
    ],
)
def test_a_folder_of_one_s_own_that_does_not_send(
    lab: Lab, tmp_path: Path, body: str, status: str, reason: str
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "sender.yml").write_text(STATED)
    (folder / "mine.c").write_text(
        "#include <stdio.h>\n#include <string.h>\n#include <unistd.h>\n"
        f'int main(int n, char **w) {{ if (n > 1 && !strcmp(w[1], "receive")) pause(); {body} }}\n'
    )
    ended = run(tmp_path, "rule: none\naqm: fifo\nflows:\n  l4s: {send: ./mine}\n", trust=True)
    trials = api.load(ended).trials
    assert trials["status"].to_list() == [status]
    assert reason in str(trials["reasons"].item())


def captures(ended: api.EndedRun) -> dict[str, bytes]:
    """Return the captures of a run's trials by cell."""
    return {path.parts[-5]: path.read_bytes() for path in ended.path.glob("cells/*/1-*/raw/router/*.pcap.gz")}
