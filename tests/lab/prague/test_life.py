# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""TCP Prague: beginning and end, of the module and of connections."""

import re
import subprocess
from pathlib import Path

import pytest

from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.guests import Outcome
from tests.lab.prague.experiment import MODULE, MS, PORT, RX, Experiment

pytestmark = pytest.mark.lab


def test_unloading(lab: Lab, tmp_path: Path) -> None:
    """Refused while a flow runs; afterwards clean, and the module can be loaded again."""
    this = Experiment()
    this.flow(2)
    this.start()
    attempt = ("busybox", "sh", "-c", "! /usr/sbin/rmmod tcp_prague")
    this.script.line("at", "-", 1000 * MS, "-", "refused.err", *attempt)
    this.script.line("wait", 20_000 * MS)
    this.script.run("-", "busybox", "sleep", 5)
    this.script.run("-", "rmmod", "tcp_prague")
    this.script.line("module", MODULE, "-")
    this.script.run("-", "rmmod", "tcp_prague")
    outcome = this.boot(lab, tmp_path)
    assert "tcp_prague is in use" in (outcome.folder / "refused.err").read_text()
    assert outcome.json("tx.json")["bytes_acked"] > 10_000_000


@pytest.fixture(scope="session")
def connections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that opens and closes connections in all ways, for the guest."""
    source = Path(__file__).with_name("connections.c")
    program = tmp_path_factory.mktemp("connections") / "connections"
    gcc = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-o", str(program), str(source)]
    subprocess.run(gcc, check=True, timeout=300)
    return program


def slab_kb(outcome: Outcome, name: str) -> int:
    """Memory in slabs that only their owners can free."""
    found = re.search(r"^SUnreclaim:\s+(\d+) kB$", (outcome.folder / name).read_text(), re.MULTILINE)
    assert found
    return int(found[1])


def test_connections_leave_nothing_behind(lab: Lab, tmp_path: Path, connections: Path) -> None:
    """Prague at both ends, hence 20,000 sockets: one leaked record of 64 B each would be 1.3 MB."""
    program = "/trial/connections"
    this = Experiment(rtt_ms=1)
    this.programs.append(connections)
    for node in ("tx", "rx"):
        this.set(node, "net/ipv4/tcp_congestion_control", "prague")
    this.script.line("daemon", "rx", "-", "serve.err", program, "serve", PORT)
    for count, name in ((2000, "before"), (10_000, "after")):
        this.script.run("tx", program, "open", RX, PORT, count, 100, out=f"{name}.opened", limit_ms=600_000)
        this.script.run("-", "busybox", "sleep", 70, limit_ms=80_000)  # TIME_WAIT lasts 60 s
        this.set("-", "vm/drop_caches", 3)
        this.script.run("-", "busybox", "cat", "/proc/meminfo", out=name)
        for node in ("tx", "rx"):
            this.script.run(node, "busybox", "cat", "/proc/net/tcp_prague", out=f"{name}.{node}")
    for node in ("tx", "rx"):
        this.set(node, "net/ipv4/tcp_congestion_control", "cubic")
    this.script.run("-", "busybox", "killall", "connections")
    this.script.run("-", "busybox", "sleep", 5)
    this.script.run("-", "rmmod", "tcp_prague")
    outcome = this.boot(lab, tmp_path)
    assert (outcome.folder / "after.opened").read_text() == "10000\n"
    for node in ("tx", "rx"):
        assert len((outcome.folder / f"after.{node}").read_text().splitlines()) == 1  # the heading
    assert slab_kb(outcome, "after") - slab_kb(outcome, "before") < 200


def test_a_socket_that_became_reno_is_prague_again_on_its_next_connection(
    lab: Lab, tmp_path: Path, connections: Path
) -> None:
    this = Experiment()
    this.programs.append(connections)
    this.set("tx", "net/ipv4/tcp_congestion_control", "prague")
    this.set("rx", "net/ipv4/tcp_ecn", 0)
    this.script.line("daemon", "rx", "-", "serve.err", "/trial/connections", "serve", PORT)
    this.start()
    this.at("tx", 0, "/trial/connections", "rejoin", RX, PORT, 2, out="names")
    this.at("rx", 1000, "busybox", "sh", "-c", "echo 3 > /proc/sys/net/ipv4/tcp_ecn")
    outcome = this.end(lab, tmp_path)
    assert (outcome.folder / "names").read_text().split() == ["prague-reno", "prague"]
