# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Kernels and modules on booted nodes.

A run that changes kernels: one kernel is there, and no other can be installed or booted (tests/lab/debian has
hosts that restart). A run with a congestion control and a queue of one's own.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from l4sbench.app import api
from l4sbench.facts import events
from l4sbench.testbeds.nodes import NodesStatus
from l4sbench.testbeds.virtual.lab import Lab, with_modules
from tests.lab.nodes.hosts import on
from tests.lab.ssh.test_ssh import matrix, written
from tests.lab.test_own_module import ENTRIES, MATRIX

pytestmark = [pytest.mark.lab, pytest.mark.long]


def image(name: str, release: str, distribution: str, **offers: object) -> dict[str, object]:
    return {
        "name": name,
        "about": "of a test",
        "rank": 1,
        "distributions": [distribution],
        "release": release,
        "offers": {"kernel": "7.3", "accecn": True, **offers},
        "evidence": "none",
    }


def inventory(hosts: NodesStatus, folder: Path) -> Path:
    """The lab's own, in which the router boots the lab's kernel for FIFO alone.

    CoDel needs a kernel that is nowhere, and CoDel that drops one that has to be installed, which takes GRUB.
    """
    told = on(hosts, "router", ". /etc/os-release; echo $ID ${VERSION_ID:-$VERSION_CODENAME}").strip()
    plain: Any = YAML(typ="safe").load(hosts.inventory)
    router = plain["all"]["children"]["nodes"]["hosts"]["router"]
    router["l4sbench_kernels"] = [
        image("lab", r"7\..*-l4sbench", told, not_entries=["codel", "codel-drop"]),
        image("nowhere", r"99\..*", told, not_entries=["fifo", "codel-drop"]),
        image("packaged", r"98\..*", told, not_entries=["fifo", "codel"]) | {"packages": ["linux-image-98"]},
    ]
    path = folder / "hosts.yml"
    YAML().dump(plain, path)
    return path


def test_a_kernel_that_cannot_be_had_fails_its_trials_alone(hosts: NodesStatus, tmp_path: Path) -> None:
    wanted, where = matrix(tmp_path, "codel, codel-drop, fifo", "2s"), f"ssh:{inventory(hosts, tmp_path)}"
    before = api.plan_of(wanted, options=api.RunOptions(on=where, runs=tmp_path))
    assert "have not been queried yet" in before.untested
    seen: list[events.Event] = []
    ended = api.run(wanted, on=where, runs=tmp_path, on_event=seen.append)
    begun = [event.kernels for event in seen if isinstance(event, events.StageBegun)]
    assert begun == [{"router": "lab"}, {"router": "nowhere"}, {"router": "packaged"}]
    over = {e.cell_id.partition("_")[0]: e for e in seen if isinstance(e, events.TrialEnded)}
    assert over["fifo"].status != "failed"
    assert over["codel"].status == "failed"
    assert "nowhere is not installed" in over["codel"].reasons[0]
    assert "the boot loader is not GRUB: /boot/grub/grub.cfg is missing" in over["codel-drop"].reasons[0]
    assert ended.result.error is None
    # what runs there is known now, so a plan knows without asking that FIFO's trial has ended
    after = api.plan_of(wanted, options=api.RunOptions(on=where, runs=tmp_path))
    assert (after.untested, after.plan.to_run) == ("", 2)
    batches = [(batch.to_run, batch.changes) for batch in after.plan.staged]
    assert sorted(batches) == [(0, ()), (1, ("router",)), (1, ("router",))]
    release = on(hosts, "router", "uname", "-r").strip()
    [known] = [batch.stage for batch in after.plan.staged if batch.stage.known]
    assert release in known.identity.kernel_release


def with_own_modules(hosts: NodesStatus, lab: Lab, folder: Path) -> Path:
    """Write the nodes' inventory, with the modules of `folder` for the hosts that need them."""
    sources = folder / "entries"
    built = with_modules(lab, {"tcp_mine": sources / "mine", "sch_mine": sources / "mine-q"}).modules
    plain: Any = YAML(typ="safe").load(hosts.inventory)
    for node, given in plain["all"]["children"]["nodes"]["hosts"].items():
        module = "sch_mine" if node == "router" else "tcp_mine"
        if node in {"router", "tx-l4s", "rx-l4s"}:
            given["l4sbench_modules"] = {module: str(built[module])}
    path = folder / "hosts.yml"
    YAML().dump(plain, path)
    return path


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a matrix with own modules, whose entries are in `entries` beside it, in a state of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    shutil.copytree(ENTRIES, tmp_path / "entries")
    path = tmp_path / "mine.yaml"
    path.write_text(MATRIX, encoding="utf-8")
    return path


def test_modules_from_outside_report_on_hosts(
    hosts: NodesStatus, lab: Lab, tmp_path: Path, mine: Path
) -> None:
    where = f"ssh:{with_own_modules(hosts, lab, tmp_path)}"
    ended = api.run(mine, on=where, runs=tmp_path / "runs", trust=True)
    assert (ended.result.failed, ended.result.error) == (0, None)
    sockets = written(ended.path, "sockets").filter(group="l4s", side="sender")
    assert sockets["mine_acks"].max() > 100  # type: ignore[operator]
    assert set(sockets["mine_phase"].drop_nulls()) <= {"open", "recovering"}
    queue = written(ended.path, "queues").filter(kind="mine")
    assert queue["marks_packets"].is_not_null().all()
    assert 0 < queue["mine_q_longest_packets"].max() <= 60  # type: ignore[operator]


def test_modules_that_were_built_again_are_loaded_again(
    hosts: NodesStatus, lab: Lab, tmp_path: Path, mine: Path
) -> None:
    """They are in use all the time: a queue stays set up, and a congestion control the default."""
    versions = []
    for turn in range(2):
        for source in (tmp_path / "entries").glob("*/*.c"):
            source.write_text(f'{source.read_text()}MODULE_INFO(turn{turn}, "here");\n')
        where = f"ssh:{with_own_modules(hosts, lab, tmp_path)}"
        ended = api.run(mine, on=where, runs=tmp_path / "runs", trust=True)
        assert (ended.result.failed, ended.result.error) == (0, None)
        loaded = written(ended.path, "hosts").filter(kind="module")
        versions.append({row["name"]: row["value"] for row in loaded.iter_rows(named=True)})
    assert versions[0].keys() == versions[1].keys() == {"tcp_mine", "sch_mine"}
    assert all(versions[0][name] != versions[1][name] for name in versions[0])
