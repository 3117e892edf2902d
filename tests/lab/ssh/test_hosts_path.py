# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Losses, jitter and the ECN field of the path on booted nodes: numbered probes, and trials with events.

Bounds are those of chance alone, six standard deviations, or hold however late a busy machine is.
"""

from __future__ import annotations

import itertools
import json
import math
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from collectors.pcap import find_capture, read_capture
from l4sbench.app import api
from l4sbench.disk import assets
from l4sbench.errors import L4sbenchError
from l4sbench.testbeds.nodes import NodesStatus
from l4sbench.text.units import Duration
from l4sbench.topology import topology
from tests.lab.nodes.hosts import check_only_busy, on
from tests.lab.playbooks import play
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.lab

MATRIX = """\
matrix: path
rate: 25mbit
rtt: 40ms
duration: {duration}
trials: 1
aqm: fifo
rule: none
expect.bottleneck: false
sample.interval: 200ms
{more}
flows:
  classic: {{cc: cubic}}
"""
PROBES = 3000
SIGMAS = 6


def matrix(folder: Path, more: str, duration: str = "4s") -> Path:
    path = folder / "path.yaml"
    path.write_text(MATRIX.format(more=more, duration=duration))
    return path


@pytest.fixture(scope="module")
def probing(hosts: NodesStatus, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodesStatus]:
    """Nodes with a program that sends and receives numbered packets; nothing of a path remains on them."""
    made = tmp_path_factory.mktemp("probe") / "probe"
    source = Path(__file__).parents[1] / "probe.c"
    subprocess.run(["gcc", "-static", "-O2", "-o", made, source], check=True, timeout=PATIENCE_S)
    for node in ("tx-classic", "rx-classic"):
        put = ["ssh", "-F", str(hosts.ssh_config), node, "cat > probe && chmod +x probe"]
        subprocess.run(put, input=made.read_bytes(), check=True, timeout=PATIENCE_S)
    yield hosts
    assert hosts.inventory is not None
    play(assets.folder("playbooks") / "teardown.yml", hosts.inventory)
    assert "netem" not in on(hosts, "delay", "tc qdisc")


@dataclass(frozen=True)
class Arrived:
    """The numbers of probes that arrived, in order of arrival; netem's counters of the way there."""

    numbers: Sequence[int]
    passed: int
    dropped: int

    @property
    def overtaken(self) -> int:
        """Number of probes that arrived before one that was sent earlier."""
        return sum(later < before for before, later in itertools.pairwise(self.numbers))

    @property
    def bursts(self) -> list[int]:
        """Number of probes that were lost in a row, each time."""
        pairs = itertools.pairwise(self.numbers)
        return [later - before - 1 for before, later in pairs if later > before + 1]


def netem(hosts: NodesStatus) -> dict[str, Any]:
    """Return netem towards the receivers, with its counters."""
    text = on(hosts, "delay", "for dev in $(ls /sys/class/net); do tc -s -j qdisc show dev $dev; echo; done")
    found = [one for line in text.splitlines() if line for one in json.loads(line) if one["kind"] == "netem"]
    return dict(max(found, key=lambda one: one["packets"]))


def sent(hosts: NodesStatus, folder: Path, more: str) -> Arrived:
    """Set the path up by the exported playbooks, and send probes."""
    assert hosts.inventory is not None
    made = folder / "by-hand"
    api.export(matrix(folder, more), made, options=api.RunOptions(on=f"ssh:{hosts.inventory}"))
    (cell,) = (made / "cells").iterdir()
    play(made / "playbooks" / "prepare.yml", hosts.inventory, "-e", f"@{cell}")
    to = topology("line6").by_name["rx-classic"].addresses[0].ip
    receive = f"(timeout 60 ./probe receive {PROBES // 1000 + 12} > arrived 2>&1 &)"
    on(hosts, "rx-classic", f"sudo sh -c '{receive}'")
    on(hosts, "tx-classic", f"./probe send {to} {PROBES} 1000000 1")
    on(hosts, "rx-classic", "while pgrep -x probe >/dev/null; do sleep 0.5; done")
    lines = on(hosts, "rx-classic", "cat arrived").splitlines()
    seen = netem(hosts)
    return Arrived([int(line.split()[0]) for line in lines], seen["packets"], seen["drops"])


@pytest.mark.long
def test_losses_are_as_many_as_asked_for(probing: NodesStatus, tmp_path: Path) -> None:
    arrived = sent(probing, tmp_path, "path.loss: 10%")
    total = arrived.passed + arrived.dropped
    assert total > PROBES / 10  # where the machine is busy, nodes lose some before they come to netem
    assert abs(arrived.dropped - 0.1 * total) < SIGMAS * math.sqrt(total * 0.1 * 0.9)
    assert 0 < len(arrived.numbers) <= min(arrived.passed, PROBES - arrived.dropped / 2)
    assert arrived.overtaken == 0


@pytest.mark.long
def test_losses_come_in_bursts(probing: NodesStatus, tmp_path: Path) -> None:
    """Gilbert's model: the number of losses varies as (1 + r) / (1 - r) of independent ones."""
    arrived = sent(probing, tmp_path, "path.loss: 20%\npath.loss_burst: 5p")
    total = arrived.passed + arrived.dropped
    kept = 1 - 0.05 - 0.2
    deviation = math.sqrt(total * 0.2 * 0.8 * (1 + kept) / (1 - kept))
    assert abs(arrived.dropped - 0.2 * total) < SIGMAS * deviation
    # lost one by one, the mean would be 1.25
    assert sum(arrived.bursts) / len(arrived.bursts) > 2.5


@pytest.mark.long
@pytest.mark.parametrize("model", ["uniform", "normal"])
def test_packets_overtake_only_where_they_may(probing: NodesStatus, tmp_path: Path, model: str) -> None:
    jitter = f"path.jitter: 5ms\npath.jitter_model: {model}\n"
    kept = sent(probing, tmp_path, f"{jitter}path.jitter_order: keep")
    assert kept.overtaken == kept.dropped == 0
    assert len(kept.numbers) > PROBES / 10
    # the playbook leaves alone what is as asked for, and so must see that the order is not
    free = sent(probing, tmp_path, f"{jitter}path.jitter_order: free")
    assert free.dropped == 0
    assert free.overtaken > len(free.numbers) / 10


EVENTS = """\
path.loss: 1%
events:
  lossy: {at: 1s, path.loss: 30%, rtt: 60ms}
  clean: {at: 3s, path.loss: 0%}
"""


@pytest.mark.long
def test_events_change_losses_and_delay_of_trials(hosts: NodesStatus, tmp_path: Path) -> None:
    """Drops of netem make no trial invalid, and what events leave behind is what is expected at the end."""
    ended = api.run(matrix(tmp_path, EVENTS), on=f"ssh:{hosts.inventory}", runs=tmp_path)
    assert (ended.result.failed, ended.result.left, ended.result.error) == (0, 0, None)
    check_only_busy(pl.read_parquet(ended.path / "tables" / "trials.parquet"))
    events = pl.read_parquet(ended.path / "tables" / "events.parquet")
    shown = {
        (event, port): json.loads(text)
        for event, port, text in events.select("event", "port", "shown").iter_rows()
    }
    assert shown["lossy", "net-mid"]["options.loss-random.loss"] == pytest.approx(0.3, abs=1e-6)
    assert (
        shown["lossy", "net-mid"]["options.delay.delay"]
        == shown["lossy", "net-tx"]["options.delay.delay"]
        == 0.03
    )
    assert "options.loss-random.loss" not in shown["clean", "net-mid"]


@pytest.mark.long
@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_the_delay_of_a_path_of_its_own_is_measured(hosts: NodesStatus, tmp_path: Path, family: str) -> None:
    """Nodes of one machine answer within some ms; a second run measures nothing and has nothing to run."""
    wanted = matrix(tmp_path, f"family: {family}\nbuffer_bdp: 50")
    wanted.write_text(wanted.read_text().replace("rtt: 40ms", "rtt: measured"))
    said: list[str] = []
    ended = api.run(wanted, on=f"ssh:{hosts.inventory}", runs=tmp_path, on_state=said.append)
    assert (ended.result.failed, ended.result.left, ended.result.error) == (0, 0, None)
    trials = pl.read_parquet(ended.path / "tables" / "trials.parquet")
    check_only_busy(trials)
    (rtt_ms,) = trials["rtt_ms"]
    assert trials["path.delay"].to_list() == ["own"]
    assert 0.01 < rtt_ms < 40
    assert f"the path's own round-trip time is {Duration.of_ms(rtt_ms)}" in said
    seen = pl.read_parquet(ended.path / "tables" / "hosts.parquet").filter(pl.col("kind") == "rtt")
    assert seen["node"].to_list() == ["tx-l4s"]
    assert "netem" not in on(hosts, "delay", "tc qdisc")
    again = api.run(wanted, on=f"ssh:{hosts.inventory}", runs=tmp_path)
    assert (again.path, again.result.ok + again.result.invalid) == (ended.path, 0)


PAUSED = """\
path.pause: 60ms
path.pause_every: 400ms
path.pause_at: {at}
classic.start_within: 0s
capture: headers
"""
PAUSE_MS, SENT_MS = 60, 4000
"""Length of the pauses, and time in which the flow sends."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("at", "nodes"),
    [
        ("delay", ["delay"]),
        ("receivers", ["rx-classic", "rx-l4s"]),
        ("senders", ["tx-classic", "tx-l4s"]),
    ],
)
def test_what_a_node_sends_waits_while_it_pauses(
    hosts: NodesStatus, tmp_path: Path, at: str, nodes: list[str]
) -> None:
    """Without pauses a full link has no gaps; on a busy machine there may be more of them, but not fewer.

    The first pause may be over before a first packet.
    """
    ended = api.run(matrix(tmp_path, PAUSED.format(at=at)), on=f"ssh:{hosts.inventory}", runs=tmp_path)
    assert (ended.result.failed, ended.result.left, ended.result.error) == (0, 0, None)
    check_only_busy(pl.read_parquet(ended.path / "tables" / "trials.parquet"))
    facts = pl.read_parquet(ended.path / "tables" / "hosts.parquet").filter(pl.col("kind") == "pauses")
    assert sorted(facts["node"]) == nodes
    (trial,) = (ended.path / "cells").glob("*/*")
    pausing = nodes[-1]  # of two the one that has the flow
    made = json.loads((trial / "raw" / pausing / "pauses.json").read_text())
    pauses = [start_ms for start_ms in made["start_ms"] if start_ms < SENT_MS - PAUSE_MS]
    assert len(pauses) >= 3
    # data before the queue, or ACKs behind it
    capture = find_capture(trial / "raw" / "router", "net-rx.pcap" if at == "receivers" else "net-mid.pcap")
    assert capture is not None
    seen = read_capture(capture)
    if at == "receivers":
        seen = seen.filter(pl.col("payload_bytes") == 0)
    gaps_ms = seen.sort("time_ns")["time_ns"].diff().drop_nulls() / 1e6
    assert (gaps_ms > 0.75 * PAUSE_MS).sum() >= len(pauses) - 1


@pytest.mark.long
def test_a_delay_walks_and_is_in_the_middle_again(hosts: NodesStatus, tmp_path: Path) -> None:
    """A busy host passes over steps, and takes more of them at once."""
    walk = "path.jitter: 10ms\npath.jitter_every: 20ms"
    ended = api.run(matrix(tmp_path, walk), on=f"ssh:{hosts.inventory}", runs=tmp_path)
    assert (ended.result.failed, ended.result.left, ended.result.error) == (0, 0, None)
    check_only_busy(pl.read_parquet(ended.path / "tables" / "trials.parquet"))
    facts = pl.read_parquet(ended.path / "tables" / "hosts.parquet").filter(pl.col("kind") == "walk")
    assert facts["node"].to_list() == ["delay"]
    (gone,) = json.loads(facts["value"][0])
    assert gone["steps"] >= 200
    assert 0 < gone["set"] <= gone["steps"]


WIFI = """\
path.wifi_mcs: 2
path.wifi_loss: 50%
events: {faster: {at: 2s, path.wifi_mcs: 4}}
"""


@pytest.mark.long
def test_wifi_has_its_mean_rate_and_changes_it(hosts: NodesStatus, tmp_path: Path) -> None:
    ended = api.run(matrix(tmp_path, WIFI), on=f"ssh:{hosts.inventory}", runs=tmp_path)
    assert (ended.result.failed, ended.result.left, ended.result.error) == (0, 0, None)
    check_only_busy(pl.read_parquet(ended.path / "tables" / "trials.parquet"))
    (row,) = pl.read_parquet(ended.path / "tables" / "events.parquet").to_dicts()
    assert (row["factor"], row["value"]) == ("path.wifi_mcs", "4")
    assert json.loads(row["shown"])["rate"] == 19_000_000 // 8


@pytest.mark.long
def test_a_kernel_without_tables_is_named(hosts: NodesStatus, tmp_path: Path) -> None:
    """The lab's kernel has no nf_tables, so that nodes cannot change the ECN field."""
    if "=y" in on(hosts, "delay", "zcat /proc/config.gz | grep CONFIG_NF_TABLES=", check=False):
        pytest.skip("this kernel has nf_tables")
    assert hosts.inventory is not None
    own = tmp_path / "nodes"
    own.mkdir()
    shutil.copy(hosts.inventory, own / "inventory.yml")
    (own / "z.yml").write_text("all: {vars: {l4sbench_install: false, l4sbench_rewrites: true}}")
    bleached = matrix(tmp_path, "path.ecn: bleach")
    with pytest.raises(L4sbenchError, match=r"delay: path\.ecn needs nf_tables, which its kernel"):
        api.plan_of(bleached, options=api.RunOptions(on=f"ssh:{hosts.inventory}"))
    with pytest.raises(L4sbenchError, match=r"delay: path\.ecn needs CONFIG_NF_TABLES, which"):
        api.run(bleached, on=f"ssh:{own}", runs=tmp_path)
