# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The ssh testbed on ordinary Debian machines: a stock kernel installed and booted, Prague by DKMS, trials.

Takes about half an hour on two quiet cores, as QEMU emulates the processor (docs/ssh.md).
"""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from ruamel.yaml import YAML

from l4sbench import assets
from l4sbench.app import api
from l4sbench.testbeds.ssh.ansible import environment
from tests.lab.debian.hosts import TWO
from tests.lab.playbooks import only_in_next, prepare
from tests.lab.vms.machines import machines

pytestmark = [pytest.mark.lab, pytest.mark.long]

SOURCE = {"name": "tcp_prague", "version": "0.7", "folder": str(assets.folder("kernels") / "tcp_prague")}
PREPARE_S = 5400
MATRIX = """\
matrix: vms
topology: line6
rate: 10mbit
rtt: 20ms
duration: 8s
trials: 1
rule: pam25
sample.interval: 200ms
flows:
  l4s: {cc: prague}
  classic: {cc: cubic}
axes:
  aqm: [fq-codel-l4s, dualpi2]
"""


def image(name: str) -> dict[str, object]:
    """What one gives as `l4sbench_kernel`: a file of kernels/images as it is."""
    path = assets.folder("kernels") / "images" / f"{name}.yml"
    return dict(YAML(typ="safe").load(path))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The disk of a machine that a user has prepared, starting from Debian 13 as it is installed."""
    folder = tmp_path_factory.mktemp("prepared")
    with machines({"one": ["router"]}, folder) as vms:
        before = vms.on("one", "uname", "-r")
        assert before.startswith("6.12.")
        given: dict[str, Any] = {
            "l4sbench_kernel": image("debian-backports"),
            "l4sbench_module_sources": [SOURCE],
        }
        assert prepare(vms.inventory, timeout_s=PREPARE_S, **given).changed["one"] > 0
        release = vms.on("one", "uname", "-r").strip()
        assert re.fullmatch(str(image("debian-backports")["release"]), release)
        assert prepare(vms.inventory, timeout_s=PREPARE_S, **given).changed["one"] == 0
        vms.on("one", "sudo", "modprobe", "tcp_prague")
        told = vms.on("one", "sudo", "modinfo", "tcp_prague")
        assert "/updates/dkms/" in told
        assert f"vermagic:       {release} " in told
        assert "prague" in vms.on("one", "sudo", "sysctl", "net.ipv4.tcp_available_congestion_control")
        # from Debian's next release came what was asked for, and no more
        assert only_in_next(vms.on("one", "apt", "list", "--installed")) == ["iproute2"]
        vms.stop("one")
        disk = folder / "kept.qcow2"
        vms.keep("one", disk)
    yield disk
    disk.unlink()


def test_trials_on_a_stock_kernel(prepared: Path, tmp_path: Path) -> None:
    wanted = tmp_path / "vms.yaml"
    wanted.write_text(MATRIX)
    with machines(TWO, tmp_path / "vms", disk=prepared) as vms:
        ended = api.run(wanted, on=f"ssh:{vms.inventory}", runs=tmp_path, capture=False)
        release = vms.on("middle", "uname", "-r").strip()
    assert (ended.result.failed, ended.result.left, ended.result.error) == (0, 0, None)
    assert ended.problems == ()
    # an emulated machine may hold flows up, which makes a trial invalid; nothing else may
    for reasons in written(ended.path, "trials")["reasons"].drop_nulls():
        assert re.fullmatch(r"(\S+: (limited by its|its host was too busy:) .*?(; )?)*", reasons), reasons
    flows = written(ended.path, "flows")
    assert flows.height == 2 * written(ended.path, "trials").filter(status="ok").height
    if flows.height:
        assert flows["goodput_mbps"].min() > 0.3  # type: ignore[operator]
        assert set(flows.filter(group="l4s")["ecn"]) == {"accecn"}
        assert set(flows.filter(group="classic")["ecn"]) == {"off"}
    sockets = written(ended.path, "sockets")
    assert sockets.filter(group="l4s")["prague_mode"].is_not_null().any()
    hosts = written(ended.path, "hosts")
    assert set(hosts.filter(kind="kernel", node="router")["value"]) == {release}
    assert set(hosts.filter(kind="module", name="tcp_prague")["node"]) == {"tx-l4s", "rx-l4s"}


def written(run: Path, table: str) -> pl.DataFrame:
    """A table as it was written, rows of invalid trials and all."""
    return pl.read_parquet(run / "tables" / f"{table}.parquet")


FETCH = """\
set -e
mkdir -p /srv/files && cd /srv/files
apt-get -q download "$1" >&2
mv linux-image-*.deb image.deb
systemd-run --quiet --working-directory=/srv/files python3 -m http.server --bind 127.0.0.1 8000
sha256sum image.deb
"""


def test_a_kernel_from_files(prepared: Path, tmp_path: Path) -> None:
    """The same release's build for clouds, by address and checksum, from a server on the machine itself."""
    with machines({"one": ["router"]}, tmp_path, disk=prepared) as vms:
        release = vms.on("one", "uname", "-r").strip().replace("-amd64", "-cloud-amd64")
        script = tmp_path / "fetch"
        script.write_text(FETCH)
        put = ["ansible", "one", "-i", str(vms.inventory), "--become", "-m", "ansible.builtin.script"]
        digest = ""
        told = subprocess.run(
            [*put, "-a", f"{script} linux-image-{release}"],
            env={**os.environ, "PATH": environment()["PATH"]},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=900,
            check=True,
        ).stdout
        (digest,) = set(re.findall(r"\b[0-9a-f]{64}\b", told))
        kernel = {
            "name": "by-files",
            "release": re.escape(release),
            "files": [{"url": "http://127.0.0.1:8000/image.deb", "sha256": digest}],
        }
        assert prepare(vms.inventory, timeout_s=PREPARE_S, l4sbench_kernel=kernel).changed["one"] > 0
        assert vms.on("one", "uname", "-r").strip() == release
        assert prepare(vms.inventory, timeout_s=PREPARE_S, l4sbench_kernel=kernel).changed["one"] == 0
