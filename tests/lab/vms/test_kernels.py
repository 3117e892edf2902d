# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A run that restarts a host with another kernel between its cells, on ordinary Debian machines.

Takes about half an hour on two quiet cores, as QEMU emulates the processor.
"""

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from ruamel.yaml import YAML

from l4sbench import api, assets, events
from tests.lab.debian.hosts import TWO
from tests.lab.vms.machines import Machines, machines

pytestmark = [pytest.mark.lab, pytest.mark.long]

MATRIX = """\
matrix: kernels
topology: line6
rate: 10mbit
rtt: 20ms
duration: 5s
trials: 1
rule: pam25
sample.interval: 500ms
flows:
  l4s: {cc: reno}
  classic: {cc: cubic}
axes:
  aqm: [fifo, codel]
"""


CLOUD = {
    "name": "debian-cloud",
    "about": "Debian's stock kernel with fewer drivers, which is installed in a tenth of the time.",
    "rank": 1,
    "distributions": ["debian 13"],
    "release": r"6\.12\.\d+\+deb13-cloud-amd64",
    "packages": ["linux-image-cloud-amd64"],
    "offers": {"kernel": "6.12", "accecn": False, "not_entries": ["fifo"]},
    "evidence": "This test.",
}


def stock() -> dict[str, Any]:
    """The kernel that the machines come with, kept from CoDel, as one would write it into an inventory."""
    plain = dict(YAML(typ="safe").load(assets.folder("kernels") / "images" / "debian-stock.yml"))
    offers = {**plain["offers"], "not_entries": ["codel"]}
    return {**plain, "release": r"6\.12\.\d+\+deb13-amd64", "offers": offers}


def inventory(vms: Machines, folder: Path) -> Path:
    """The machines' own, in which the middle one may boot two kernels: each for one of the queues."""
    plain = YAML(typ="safe").load(vms.inventory)
    plain["all"]["hosts"]["middle"]["l4sbench_kernels"] = [stock(), CLOUD]
    path = folder / "hosts.json"
    path.write_text(json.dumps(plain))
    return path


def test_a_run_restarts_a_host_between_its_cells(tmp_path: Path) -> None:
    wanted = tmp_path / "kernels.yaml"
    wanted.write_text(MATRIX)
    begun: list[events.StageBegun] = []

    def hear(event: events.Event) -> None:
        if isinstance(event, events.StageBegun):
            begun.append(event)

    with machines(TWO, tmp_path / "vms") as vms:
        where = f"ssh:{inventory(vms, tmp_path)}"
        ended = api.run(wanted, on=where, runs=tmp_path, on_event=hear)
        assert (ended.result.failed, ended.result.left, ended.result.error) == (0, 0, None)
        assert [(stage.kernels["middle"], stage.restarts) for stage in begun] == [
            ("debian-stock", ()),
            ("debian-cloud", ("middle",)),
        ]
        told = pl.read_parquet(ended.path / "tables" / "hosts.parquet")
        kernels = told.filter(kind="kernel", node="router").select("cell", "value")
        found = {cell.partition("_")[0]: release for cell, release in kernels.iter_rows()}
        assert re.fullmatch(stock()["release"], found["fifo"])
        assert re.fullmatch(str(CLOUD["release"]), found["codel"])
        assert vms.on("middle", "uname", "-r").strip() == found["codel"]
        # nothing is left to do, and nothing restarts for it
        boot = vms.on("middle", "cat", "/proc/sys/kernel/random/boot_id")
        assert api.run(wanted, on=where, runs=tmp_path).result.exit_code == 0
        assert vms.on("middle", "cat", "/proc/sys/kernel/random/boot_id") == boot
        # more trials would begin with the kernel that runs now
        more = api.plan_of(wanted, on=where, runs=tmp_path, trials=2).plan
        assert [(part.to_run, part.changes) for part in more.parts] == [(1, ()), (1, ("middle",))]
        assert more.change_s > 0
