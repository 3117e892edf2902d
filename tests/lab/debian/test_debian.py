# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The ssh testbed on ordinary Debian hosts: kernels installed and booted, modules by DKMS, a cell, a restart.

Package manager, archive, boot menu, systemd, restart and compiler are Debian's. The kernels are the lab's,
as Debian packages of two releases (kernels.py).
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest
from ruamel.yaml import YAML

from l4sbench.app import api
from l4sbench.disk import assets
from l4sbench.facts import events
from l4sbench.facts.faults import FaultKind
from l4sbench.testbeds.ssh.carriedtc import carried_tc
from l4sbench.testbeds.virtual.lab import Lab
from l4sbench.testbeds.virtual.lab.cache import Cache
from tests.lab.debian.disk import KERNELS, SUITE, debian_lab
from tests.lab.debian.hosts import TWO, DebianHosts, debian_hosts
from tests.lab.debian.kernels import pack, second_release
from tests.lab.nodes.hosts import Reachable, on
from tests.lab.playbooks import ON_DEBIAN, only_in_next, prepare, refused
from tests.lab.ssh.test_ssh import matrix, written

pytestmark = [pytest.mark.lab, pytest.mark.long]

SOURCE = {"name": "tcp_prague", "version": "1.0", "folder": str(assets.folder("kernels") / "tcp_prague")}
NCF = {**SOURCE, "name": "sch_ncf", "folder": str(assets.folder("kernels") / "sch_ncf"), "tc": ["ncf"]}
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def entry(name: str, release: str, *not_entries: str) -> dict[str, object]:
    """Return a kernel of the hosts, as an entry of `l4sbench_kernels`."""
    return {
        "name": name,
        "about": "The lab's kernel as a Debian package.",
        "rank": 1,
        "distributions": ["debian 13"],
        "release": re.escape(release),
        "packages": [f"linux-image-{release}", f"linux-headers-{release}"],
        "offers": {
            "kernel": "7.3",
            "accecn": True,
            "builds": ["tcp_prague"],
            "not_entries": list(not_entries),
        },
        "evidence": "This test.",
    }


def newer_tools() -> list[dict[str, object]]:
    """Return the entry of the newer iproute2 for Debian 13, from Debian's next release."""
    plain = YAML(typ="safe").load(assets.folder("kernels") / "images" / "debian-backports.yml")
    return list(plain["tools"])


def by_files(hosts: DebianHosts, name: str, release: str) -> dict[str, object]:
    """Serve the headers of a kernel on the host itself; return an entry with their address and checksum."""
    serve = ("systemd-run", "--quiet", f"--working-directory={KERNELS}", "python3", "-m", "http.server")
    on(hosts, name, "sudo", *serve, "--bind", "127.0.0.1", "8000")
    file = f"linux-headers-{release}_1_amd64.deb"
    digest = on(hosts, name, "sha256sum", f"{KERNELS}/{file}").split()[0]
    files = [{"url": f"http://127.0.0.1:8000/{file}", "sha256": digest}]
    return {"name": "by-files", "release": re.escape(release), "files": files}


def check_prepared(hosts: Reachable, name: str, release: str) -> None:
    """Check that a host can load Prague, built by DKMS for a kernel."""
    on(hosts, name, "sudo", "modprobe", "tcp_prague")
    shown = on(hosts, name, "sudo", "modinfo", "tcp_prague")
    assert "/updates/dkms/" in shown
    assert f"vermagic:       {release} " in shown
    offered = on(hosts, name, "sudo", "sysctl", "net.ipv4.tcp_available_congestion_control")
    assert "prague" in offered.split()


def check_fallback(hosts: Reachable, inventory: Path, name: str, running: str, broken: str) -> None:
    """Check that a host which is to boot a kernel that does not start comes back with its own."""
    kernel = {"name": "broken", "release": re.escape(broken)}
    told = refused(inventory, l4sbench_kernel_of={name: kernel})
    assert f"{broken} did not start: the host is back on {running}, which stays its default" in told
    assert on(hosts, name, "uname", "-r").strip() == running
    settings = on(hosts, name, "cat", "/etc/default/grub.d/90-l4sbench.cfg")
    assert f"gnulinux-{running}-advanced-" in settings


_BUSY: Final = {FaultKind.LIMITED.code, FaultKind.BUSY.code}
_CUT_OFF: Final = {FaultKind.TOOL.code}


def check_trials(run: Path, release: str) -> None:
    """Check the trials of a run with Prague: valid but for a busy machine, on a kernel, with our module."""
    # a busy machine may hold flows up, even past the end of their trial: that alone may make it invalid
    trials = written(run, "trials").filter(pl.col("status") != "ok")
    for faults, reasons in trials.select("faults", "reasons").iter_rows():
        assert set(faults) <= _BUSY | _CUT_OFF, reasons
        assert set(faults) & _BUSY, reasons
        assert faults.count(FaultKind.TOOL.code) == reasons.count("result iperf3: interrupt - "), reasons
    hosts = written(run, "hosts")
    assert set(hosts.filter(kind="kernel", node="router")["value"]) == {release}
    assert set(hosts.filter(kind="module", name="tcp_prague")["node"]) == {"tx-l4s", "rx-l4s"}


def running(hosts: DebianHosts, name: str) -> str:
    return on(hosts, name, "uname", "-r").strip()


@pytest.fixture(scope="session")
def lab(lab: Lab, able: None) -> Lab:
    """Return the lab whose kernel boots Debian hosts, built for these sources."""
    return debian_lab()


@pytest.fixture(scope="module")
def prepared(able: None, lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DebianHosts]:
    """Prepare two hosts as a user does, starting from Debian 13 as it is installed.

    One gets its kernel from an archive, builds Prague, and gets the lab's tc. The other one gets its kernel
    from this machine, a package from an address, and a newer tc from Debian.
    """
    other = second_release(lab.kernel_release)
    packages = tmp_path_factory.mktemp("packages")
    image = pack(lab, other, packages).image
    with debian_hosts(lab, TWO, tmp_path_factory.mktemp("debian") / "hosts") as hosts:
        assert {running(hosts, name) for name in TWO} == {lab.kernel_release}
        # one as an image for clouds is: without lists of packages
        on(hosts, "ends", "sudo", "rm", "-rf", "/var/lib/apt/lists/*")
        backports = {"suites": f"{SUITE}-backports", "components": "main", "signed_by": KEYRING}
        carried = {"package": "iproute2", "program": "tc", "version": "6.18"}
        kernel = {**entry("other", other), "repository": backports, "tools": [carried]}
        given: dict[str, Any] = {
            # what each of them needs, as a run has it
            "l4sbench_kernel_of": {
                "ends": kernel,
                "middle": {**by_files(hosts, "middle", other), "built": True, "tools": newer_tools()},
            },
            "l4sbench_kernel_packages": [str(image)],
            "l4sbench_carried_tc": str(carried_tc(Cache.open())),
            "l4sbench_module_sources_of": {"ends": [SOURCE, NCF]},
        }
        first = prepare(hosts.inventory, **given)
        assert all(first.changed.values())
        assert {running(hosts, name) for name in TWO} == {other}
        assert first.executed >= ON_DEBIAN
        again = prepare(hosts.inventory, **given)
        assert not any(again.changed.values())
        yield hosts


def test_what_prepare_has_done(lab: Lab, prepared: DebianHosts) -> None:
    other = second_release(lab.kernel_release)
    check_prepared(prepared, "ends", other)
    on(prepared, "ends", "sudo", "modprobe", "sch_ncf")
    told = on(prepared, "ends", "sudo", "tc", "qdisc", "add", "ncf", "help", "2>&1", check=False)
    assert "mice_share" in told
    for host in TWO:
        assert "iproute2-7." in on(prepared, host, "sudo", "tc", "-V")
    assert "iproute2-6." in on(prepared, "ends", "/usr/sbin/tc", "-V")
    # from Debian's next release came what was asked for, and no more
    assert only_in_next(on(prepared, "middle", "apt", "list", "--installed")) == ["iproute2"]
    for host in TWO:
        assert re.search(r"iperf 3", on(prepared, host, "iperf3", "--version"))


def test_a_kernel_that_does_not_start(prepared: DebianHosts) -> None:
    """This one restarts at once; one that panics does so after 30 s."""
    now = running(prepared, "ends")
    program = r'#!/bin/sh\nexec ./restart "$@"\n'
    on(prepared, "ends", f"printf '{program}' | sudo tee /boot/vmlinuz-{now}-broken >/dev/null")
    check_fallback(prepared, prepared.inventory, "ends", now, f"{now}-broken")
    on(prepared, "ends", "sudo", "rm", f"/boot/vmlinuz-{now}-broken")
    on(prepared, "ends", "sudo", "update-grub")
    assert not prepare(prepared.inventory).changed["ends"]


def test_a_cell_from_matrix_to_decision(prepared: DebianHosts, tmp_path: Path) -> None:
    ended = api.run(matrix(tmp_path, "dualpi2"), on=f"ssh:{prepared.inventory}", runs=tmp_path, capture=False)
    assert (ended.result.failed, ended.result.left, ended.result.error) == (0, 0, None)
    assert ended.problems == ()
    check_trials(ended.path, running(prepared, "middle"))
    # the helper ran as a service of systemd's, not in a session of ssh's
    for host in TWO:
        assert re.search(
            r"l4sbench-[0-9a-f]{12}\.service", on(prepared, host, "sudo", "journalctl", "--boot")
        )


def test_a_run_restarts_a_host_between_its_cells(lab: Lab, prepared: DebianHosts, tmp_path: Path) -> None:
    """Each of the middle host's kernels is for one of the queues."""
    first, other = lab.kernel_release, second_release(lab.kernel_release)
    plain = json.loads(prepared.inventory.read_text())
    kernels = [entry("first", first, "codel"), entry("other", other, "fifo")]
    plain["all"]["hosts"]["middle"]["l4sbench_kernels"] = kernels
    inventory = tmp_path / "hosts.json"
    inventory.write_text(json.dumps(plain))
    wanted, where = matrix(tmp_path, "fifo, codel"), f"ssh:{inventory}"
    before = "first" if running(prepared, "middle") == first else "other"
    after = {"first": "other", "other": "first"}[before]
    begun: list[events.StageBegun] = []

    def hear(event: events.Event) -> None:
        if isinstance(event, events.StageBegun):
            begun.append(event)

    ended = api.run(wanted, on=where, runs=tmp_path, on_event=hear, capture=False)
    assert (ended.result.failed, ended.result.left, ended.result.error) == (0, 0, None)
    assert [(stage.kernels["middle"], stage.restarts) for stage in begun] == [
        (before, ()),
        (after, ("middle",)),
    ]
    told = pl.read_parquet(ended.path / "tables" / "hosts.parquet")
    found = told.filter(kind="kernel", node="router").select("cell", "value").iter_rows()
    assert {cell.partition("_")[0]: release for cell, release in found} == {"fifo": first, "codel": other}
    assert running(prepared, "middle") == {"first": first, "other": other}[after]
    # nothing is left to do, and nothing restarts for it
    boot = on(prepared, "middle", "cat", "/proc/sys/kernel/random/boot_id")
    assert api.run(wanted, on=where, runs=tmp_path).result.exit_code == 0
    assert on(prepared, "middle", "cat", "/proc/sys/kernel/random/boot_id") == boot
    # more trials would begin with the kernel that runs now
    more = api.plan_of(wanted, options=api.RunOptions(on=where, runs=tmp_path, trials=2)).plan
    assert [(batch.to_run, batch.changes) for batch in more.staged] == [(1, ()), (1, ("middle",))]
    assert more.change_s > 0
