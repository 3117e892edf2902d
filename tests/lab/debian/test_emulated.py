# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The ssh testbed on emulated Debian machines: Debian's own kernels, GRUB, Prague by DKMS, trials.

Covers what test_debian.py does not: its kernels are the lab's, and its boot loader replaces GRUB.
Takes about half an hour on two quiet cores, as QEMU emulates the processor (docs/ssh.md).
"""

import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from l4sbench.app import api
from l4sbench.catalog import Catalog
from l4sbench.disk import assets
from l4sbench.testbeds.ssh.kernels import module_sources
from tests.lab.debian.emulated import machines
from tests.lab.debian.hosts import TWO
from tests.lab.debian.test_debian import check_fallback, check_prepared, check_trials
from tests.lab.nodes.hosts import on
from tests.lab.playbooks import ON_EMULATED, only_in_next, prepare
from tests.lab.ssh.test_ssh import written
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.lab, pytest.mark.long]

PREPARE_S = 5400
# machines that are emulated are hundreds of milliseconds late when they have much to do
MATRIX = """\
matrix: vms
topology: line6
rate: 2mbit
rtt: 40ms
duration: 8s
trials: 1
rule: pam25
sample.interval: 1s
flows:
  l4s: {cc: prague}
  classic: {cc: cubic}
axes:
  aqm: [fq-codel-l4s, dualpi2]
"""


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the matrix, which is sound before a machine is prepared for half an hour."""
    path = tmp_path_factory.mktemp("matrix") / "vms.yaml"
    path.write_text(MATRIX)
    assert api.load_matrix(path).cells
    return path


@pytest.fixture(scope="module")
def prepared(wanted: Path, able_to_emulate: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the disk of a machine, prepared as a user does from Debian 13 as it is installed."""
    folder = tmp_path_factory.mktemp("prepared")
    image = dict(YAML(typ="safe").load(assets.folder("kernels") / "images" / "debian-backports.yml"))
    sources = module_sources(Catalog.load(), ["tcp_prague", "sch_dualpi2"])
    given: dict[str, Any] = {
        "l4sbench_kernel": image,
        "l4sbench_module_sources": [source.variables() for source in sources],
    }
    with machines({"one": ["router"]}, folder) as vms:
        assert on(vms, "one", "uname", "-r").startswith("6.12.")
        first = prepare(vms.inventory, timeout_s=PREPARE_S, **given)
        assert first.changed["one"]
        assert first.executed >= ON_EMULATED
        release = on(vms, "one", "uname", "-r").strip()
        assert re.fullmatch(str(image["release"]), release)
        assert prepare(vms.inventory, timeout_s=PREPARE_S, **given).changed["one"] == []
        check_prepared(vms, "one", release)
        on(vms, "one", "sudo", "tc", "qdisc", "add", "dev", "lo", "root", "dualpi2")
        assert "qdisc dualpi2 " in on(vms, "one", "sudo", "tc", "qdisc", "show", "dev", "lo")
        on(vms, "one", "sudo", "tc", "qdisc", "del", "dev", "lo", "root")
        # without an initrd it finds no root file system, and panics
        on(vms, "one", "sudo", "cp", f"/boot/vmlinuz-{release}", f"/boot/vmlinuz-{release}-panics")
        check_fallback(vms, vms.inventory, "one", release, f"{release}-panics")
        assert "Kernel panic" in vms.running["one"].console.read_text(errors="replace")
        on(vms, "one", "sudo", "rm", f"/boot/vmlinuz-{release}-panics")
        on(vms, "one", "sudo", "update-grub", timeout_s=PATIENCE_S)
        assert only_in_next(on(vms, "one", "apt", "list", "--installed")) == ["iproute2"]
        vms.stop("one")
        vms.keep("one", folder / "kept.qcow2")
    return folder / "kept.qcow2"


def test_trials_on_a_stock_kernel(wanted: Path, prepared: Path, tmp_path: Path) -> None:
    with machines(TWO, tmp_path / "vms", disk=prepared) as vms:
        ended = api.run(wanted, on=f"ssh:{vms.inventory}", runs=tmp_path, capture=False)
        release = on(vms, "middle", "uname", "-r").strip()
    assert (ended.result.failed, ended.result.left, ended.result.error) == (0, 0, None)
    assert ended.problems == ()
    check_trials(ended.path, release)
    flows = written(ended.path, "flows")
    assert flows.height == 2 * written(ended.path, "trials").filter(status="ok").height
    if flows.height:
        assert flows["goodput_mbps"].min() > 0.3  # type: ignore[operator]
        assert set(flows.filter(group="l4s")["ecn"]) == {"accecn"}
        assert set(flows.filter(group="classic")["ecn"]) == {"off"}
    sockets = written(ended.path, "sockets")
    assert sockets.filter(group="l4s")["prague_mode"].is_not_null().any()
