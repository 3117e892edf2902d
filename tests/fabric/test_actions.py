# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Operational actions, room and artifacts, by the real library against the stand-in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fablib_slices import SliceFile, Slices, SliceSpec, spec_of
from l4sbench.errors import TestbedError
from l4sbench.topology import topology
from tests.fabric.conftest import StandIn

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries' own

FAST: dict[str, Any] = {"poll_s": 0.1, "limit_s": 300}


def spec(name: str) -> SliceSpec:
    return spec_of(topology("line6"), SliceFile(slice=name, site="STAR", cores=2, ram_gb=8, disk_gb=10))


def acted(standin: StandIn, operation: str) -> list[Any]:
    """Return machine and data of every action of a kind, since the stand-in began."""
    return [(name, data) for name, done, data in standin.call("/_state")["acted"] if done == operation]


def test_machines_are_bound_to_cpus_of_their_host_once(slices: Slices, standin: StandIn) -> None:
    found = slices.up(spec("pinned"), **FAST)
    done = dict(slices.actions.pin(found))
    assert set(done) == {machine.name for machine in found.machines}
    assert all("restarts" in what for what in done.values()), done
    # the cards are at NUMA node 1, and no two machines share a CPU
    cpus = [pair["cpu"] for _, data in acted(standin, "cpupin") for pair in data["vcpu_cpu_map"]]
    assert cpus[:4] == ["32", "33", "34", "35"]
    assert len(set(cpus)) == len(cpus) == 12
    assert {tuple(data["node_set"]) for _, data in acted(standin, "numatune")} == {("1",)}
    restarts = len(acted(standin, "reboot"))
    assert restarts == 6
    again = dict(slices.actions.pin(found))
    assert set(again.values()) == {"bound to CPUs already"}
    assert len(acted(standin, "reboot")) == restarts


def test_an_action_that_fails_is_told_and_the_others_go_on(slices: Slices, standin: StandIn) -> None:
    found = slices.up(spec("unpinned"), **FAST)
    standin.faults(poa_fails="no such domain")
    done = dict(slices.actions.pin(found))
    assert len(done) == 6
    assert all(what.startswith("not bound to CPUs: FABRIC (cpuinfo of ") for what in done.values())
    assert all("failed: no such domain" in what for what in done.values())


def test_a_machine_is_restarted_from_outside(slices: Slices, standin: StandIn) -> None:
    found = slices.up(spec("hangs"), **FAST)
    before = len(acted(standin, "reboot"))
    slices.actions.restart(found, ["router"])
    assert [name for name, _ in acted(standin, "reboot")][before:] == ["router"]


def test_the_first_time_with_room_is_found(slices: Slices, standin: StandIn) -> None:
    standin.faults(room_in_h=5.0)
    (slot,) = slices.actions.slots(spec("later"), "STAR", days=7)
    assert timedelta(hours=4.9) < slot.start - datetime.now(UTC) < timedelta(hours=5.2)
    assert slot.end - slot.start == timedelta(hours=24)
    standin.faults(room_in_h=10 * 24.0)
    assert slices.actions.slots(spec("later"), "STAR", days=7) == ()


def test_without_a_place_for_artifacts_the_error_says_so(slices: Slices, tmp_path: Any) -> None:
    bundle = tmp_path / "bundle.tar.gz"
    bundle.write_bytes(b"")
    with pytest.raises(TestbedError, match="am_host must be provided"):
        slices.actions.publish(bundle, "L4S", "L4S", ())
