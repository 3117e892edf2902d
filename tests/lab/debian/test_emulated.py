# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""An untouched Debian becomes an L4S host by `l4sbench run`: Debian's GRUB, a newer kernel, valid trials.

Covers what test_debian.py does not: its kernels are the lab's, and its boot loader replaces GRUB. The machine
is emulated, holds all nodes, and its clock counts instructions (emulated.py): its trials are on time.
Each Debian takes half an hour on two quiet cores, and Debian 12 an hour more for `l4sbench kernel build`.
"""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from l4sbench.app import api
from l4sbench.testbeds.ssh.ownkernel import RELEASE, built
from l4sbench.testbeds.virtual.lab import Lab
from l4sbench.testbeds.virtual.lab.cache import Cache
from l4sbench.topology import topology
from tests.lab.debian.emulated import Machines, machines
from tests.lab.debian.test_debian import check_fallback, check_prepared
from tests.lab.nodes.hosts import on
from tests.lab.playbooks import ON_EMULATED, noting_executed, only_in_next
from tests.lab.ssh.test_ssh import written
from tests.patience import PATIENCE_S, ran

pytestmark = [pytest.mark.lab, pytest.mark.long]

MATRIX = """\
matrix: vms
topology: line6
rate: 25mbit
rtt: 20ms
duration: 10s
sample.interval: 1s
trials: {trials}
rule: pam25
flows:
  l4s: {{cc: prague}}
  classic: {{cc: cubic}}
axes:
  aqm: [fq-codel-l4s, dualpi2]
"""
LAB_TRIALS = 8
SLOWDOWN = 100
"""A generous limit, for tests beside other load: on a quiet core a second of the machine takes five."""


@dataclass(frozen=True)
class Stock:
    """A Debian as it is installed: its codename, its kernel, and the one that it is given and boots."""

    suite: str
    before: str
    kernel: str
    after: str


DEBIAN_13 = Stock("trixie", r"6\.12\..*", "distribution", r"7\.[0-9.]+\+deb13.*")
DEBIAN_12 = Stock("bookworm", r"6\.1\..*", "own", rf"7\.[0-9.]+-{RELEASE}")


@dataclass(frozen=True)
class Prepared:
    """A machine that was untouched before its first run."""

    stock: Stock
    vms: Machines
    first: api.EndedRun
    executed: frozenset[str]


@pytest.fixture(scope="module", params=[DEBIAN_13, DEBIAN_12], ids=lambda stock: stock.suite)
def prepared(
    request: pytest.FixtureRequest, lab: Lab, able_to_emulate: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prepared]:
    """Run a matrix on a machine that is as installed."""
    stock: Stock = request.param
    if stock.kernel == "own" and built(Cache.open()) is None:
        ran([sys.executable, "-m", "l4sbench", "kernel", "build"], check=True, limit_s=6 * 3600)
    folder = tmp_path_factory.mktemp(stock.suite)
    nodes = tuple(topology("line6").by_name)
    with machines({"one": nodes}, folder / "vms", suite=stock.suite, counted=True) as vms:
        assert re.fullmatch(stock.before, on(vms, "one", "uname", "-r").strip())
        _keep_all_nodes(vms.inventory, stock.kernel)
        with noting_executed() as executed:
            first = _run(vms, folder, 1)
        yield Prepared(stock, vms, first, executed())


def _keep_all_nodes(inventory: Path, kernel: str) -> None:
    """Have the only host keep the nodes as network namespaces, and a kernel."""
    plain = json.loads(inventory.read_text())
    (host,) = plain["all"]["hosts"].values()
    del host["l4sbench_ports"]
    host |= {"l4sbench_nodes": "all", "l4sbench_kernel": kernel, "l4sbench_slowdown": SLOWDOWN}
    inventory.write_text(json.dumps(plain))


def _run(vms: Machines, folder: Path, trials: int) -> api.EndedRun:
    matrix = folder / "vms.yaml"
    matrix.write_text(MATRIX.format(trials=trials))
    return api.run(matrix, on=f"ssh:{vms.inventory}", runs=folder, capture=False)


def _state(vms: Machines) -> str:
    """Return everything that preparing a host changes: its boot, packages, modules and settings."""
    files = "sudo find /lib/modules /etc /usr/local -type f -printf '%p %s %T@\\n' | sort"
    return on(vms, "one", f"cat /proc/sys/kernel/random/boot_id; dpkg -l; {files}", timeout_s=PATIENCE_S)


def _goodputs(run: Path) -> pl.DataFrame:
    """Return a run's goodput by queue, group and trial, of valid trials."""
    valid = written(run, "trials").filter(status="ok").select("cell", "trial", "aqm")
    return written(run, "flows").join(valid, on=["cell", "trial"])


def test_trials_are_valid_and_as_in_the_lab(prepared: Prepared, tmp_path: Path) -> None:
    ended = prepared.first
    assert ended.problems == ()
    assert (ended.result.failed, ended.result.left, ended.result.error) == (0, 0, None), ended.result
    trials = written(ended.path, "trials")
    assert trials["status"].to_list() == ["ok", "ok"], trials["reasons"].to_list()
    assert trials["flags"].to_list() == [None, None]
    hosts = written(ended.path, "hosts")
    (release,) = set(hosts.filter(kind="kernel")["value"])
    assert re.fullmatch(prepared.stock.after, release)
    assert set(hosts.filter(kind="module", name="tcp_prague")["node"]) == {"tx-l4s", "rx-l4s"}
    found = _goodputs(ended.path)
    assert set(found.filter(group="l4s")["ecn"]) == {"accecn"}
    assert set(found.filter(group="classic")["ecn"]) == {"off"}
    (matrix := tmp_path / "lab.yaml").write_text(MATRIX.format(trials=LAB_TRIALS))
    simulated = _goodputs(api.run(matrix, runs=tmp_path, capture=False).path)
    for queue, group, goodput_mbps in found.select("aqm", "group", "goodput_mbps").iter_rows():
        seeds = simulated.filter(aqm=queue, group=group)["goodput_mbps"].to_list()
        # another value lies outside the span of eight in two of nine cases, but seldom by all of that span
        span = max(seeds) - min(seeds) + 0.01 * 25
        assert min(seeds) - span <= goodput_mbps <= max(seeds) + span, (queue, group, goodput_mbps, seeds)


def test_prepared_once(prepared: Prepared) -> None:
    vms, release = prepared.vms, on(prepared.vms, "one", "uname", "-r").strip()
    check_prepared(vms, "one", release)
    on(vms, "one", "sudo", "tc", "qdisc", "add", "dev", "lo", "root", "dualpi2")
    assert "qdisc dualpi2 " in on(vms, "one", "sudo", "tc", "qdisc", "show", "dev", "lo")
    on(vms, "one", "sudo", "tc", "qdisc", "del", "dev", "lo", "root")
    if prepared.stock is DEBIAN_13:
        assert prepared.executed >= ON_EMULATED
        assert only_in_next(on(vms, "one", "apt", "list", "--installed")) == ["iproute2"]
    before = _state(vms)
    again = _run(vms, prepared.first.path.parent, 2)
    assert (again.result.failed, again.result.left, again.result.error) == (0, 0, None)
    assert written(again.path, "trials")["status"].to_list() == ["ok"] * 4
    assert _state(vms) == before


def test_a_panic_leads_back(prepared: Prepared, tmp_path: Path) -> None:
    """Its clock is ours: a kernel that panicked waits in a loop, which counted instructions prolong."""
    stock, disk = prepared.stock, tmp_path / "kept.qcow2"
    release = on(prepared.vms, "one", "uname", "-r").strip()
    prepared.vms.stop("one")
    prepared.vms.keep("one", disk)
    nodes = tuple(topology("line6").by_name)
    with machines({"one": nodes}, tmp_path / "vms", disk=disk, suite=stock.suite) as vms:
        _keep_all_nodes(vms.inventory, stock.kernel)
        _check_panic(vms, release)


def _check_panic(vms: Machines, release: str) -> None:
    kernel, initrd = f"/boot/vmlinuz-{release}-panics", f"/boot/initrd.img-{release}-panics"
    on(vms, "one", "sudo", "cp", f"/boot/vmlinuz-{release}", kernel)
    # its init is no program, so that it panics; without an initrd one with built-in drivers starts
    packed = "cd $(mktemp -d) && touch init && chmod +x init && echo init | cpio --quiet -o -H newc"
    on(vms, "one", f"{packed} | sudo tee {initrd} >/dev/null")
    check_fallback(vms, vms.inventory, "one", release, f"{release}-panics")
    assert "Kernel panic" in vms.running["one"].console.read_text(errors="replace")
