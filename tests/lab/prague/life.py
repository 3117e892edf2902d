# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Lives of modules and of connections that they serve, for tests of all our congestion controls."""

import re
from pathlib import Path

import pytest

from l4sbench.testbeds.virtual.lab import Lab
from l4sbench.testbeds.virtual.lab.lab import GUEST_MODULES
from tests.lab.guests import Outcome, compiled
from tests.lab.prague.captures import segments
from tests.lab.prague.experiment import MS, PORT, RX, Experiment


@pytest.fixture(scope="session")
def connections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that opens and closes connections in all ways, for the guest."""
    return compiled(Path(__file__).with_name("connections.c"), tmp_path_factory.mktemp("connections"))


def serve(this: Experiment) -> None:
    """Have rx read whatever connections bring."""
    this.script.line("daemon", "rx", "-", "serve.err", "/trial/connections", "serve", PORT)


def check_codepoints_of_a_socket_that_becomes_ipv4(this: Experiment, cc: str, lab: Lab, folder: Path) -> None:
    """Check that an IPv6 socket sends ECT(1) also once IPV6_ADDRFORM has made an IPv4 socket of it.

    What leaves before the next ACK may be ECT(0): the module learns of the change by that.

    Args:
        this: An experiment with the program of `connections`.
    """
    this.set("tx", "net/ipv4/tcp_congestion_control", cc)
    this.capture("tx")
    serve(this)
    this.start()
    this.at("tx", 0, "/trial/connections", "become", RX, PORT, 1, out="became")
    outcome = this.end(lab, folder)
    assert (outcome.folder / "became").read_text().split() == ["IPv4", cc]
    captured = list(segments(outcome.folder / "tx.pcap", PORT))
    sent = [s for s in captured if s.to_server and s.kind == "data"]
    others = [s.time_s for s in sent if s.ecn != "ECT(1)"]
    assert {s.ecn for s in sent} <= {"ECT(1)", "ECT(0)"}
    assert sent[-1].time_s - sent[0].time_s > 1.5
    assert not others or others[-1] - others[0] < 0.03  # a round trip takes 20 ms
    assert not others or others[0] - sent[0].time_s > 0.9


def check_unloading(this: Experiment, module: str, lab: Lab, folder: Path) -> None:
    """Check that a module stays while the flow of an experiment runs, and can go and come back afterwards."""
    this.start()
    attempt = ("busybox", "sh", "-c", f"! /usr/sbin/rmmod {module}")
    this.script.line("at", "-", 1000 * MS, "-", "refused.err", *attempt)
    this.script.line("wait", 20_000 * MS)
    this.script.run("-", "busybox", "sleep", 5)
    this.script.run("-", "rmmod", module)
    this.script.line("module", GUEST_MODULES / f"{module}.ko", "-")
    this.script.run("-", "rmmod", module)
    outcome = this.boot(lab, folder)
    assert f"{module} is in use" in (outcome.folder / "refused.err").read_text()
    assert outcome.json("tx.json")["bytes_acked"] > 10_000_000


def check_connections_leave_nothing(this: Experiment, cc: str, module: str, lab: Lab, folder: Path) -> None:
    """Check that 10,000 connections with a congestion control at both ends leave no record and no memory.

    Args:
        this: An experiment with the program of `connections`.
    """
    for node in ("tx", "rx"):
        this.set(node, "net/ipv4/tcp_congestion_control", cc)
    serve(this)
    for count, name in ((2000, "before"), (10_000, "after")):
        argv = ("/trial/connections", "open", RX, PORT, count, 100)
        this.script.run("tx", *argv, out=f"{name}.opened", limit_ms=600_000)
        this.script.run("-", "busybox", "sleep", 70, limit_ms=80_000)  # TIME_WAIT lasts 60 s
        this.set("-", "vm/drop_caches", 3)
        this.script.run("-", "busybox", "cat", "/proc/meminfo", out=name)
        for node in ("tx", "rx"):
            this.script.run(node, "busybox", "cat", f"/proc/net/{module}", out=f"{name}.{node}")
    for node in ("tx", "rx"):
        this.set(node, "net/ipv4/tcp_congestion_control", "cubic")
    this.script.run("-", "busybox", "killall", "connections")
    this.script.run("-", "busybox", "sleep", 5)
    this.script.run("-", "rmmod", module)
    outcome = this.boot(lab, folder)
    assert (outcome.folder / "after.opened").read_text() == "10000\n"
    for node in ("tx", "rx"):
        assert len((outcome.folder / f"after.{node}").read_text().splitlines()) == 1  # the heading
    assert _slab_kb(outcome, "after") - _slab_kb(outcome, "before") < 200


def _slab_kb(outcome: Outcome, name: str) -> int:
    """Memory in slabs that only their owners can free."""
    found = re.search(r"^SUnreclaim:\s+(\d+) kB$", (outcome.folder / name).read_text(), re.MULTILINE)
    assert found
    return int(found[1])
