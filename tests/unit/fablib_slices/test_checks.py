# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What pre-flight checks find, without fablib."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fablib_slices.checks import Facts, Site, preflight, site_with_room, warnings
from fablib_slices.spec import SliceFile, SliceSpec, SwitchWishes, VmWishes, load_slice_file, spec_of
from l4sbench.errors import InputError
from l4sbench.topology import topology

STAR = Site("STAR", True, 200, 1000, 5000, {"SharedNIC-ConnectX-6": 100}, 1, False)
FACTS = Facts(
    images={"default_ubuntu_22", "default_ubuntu_24"},
    nics={"NIC_Basic", "NIC_ConnectX_6", "GPU_A30"},
    tags={"VM.NoLimit"},
    sites=(STAR, replace(STAR, name="NCSA", cores=500)),
)


def spec(**wishes: Any) -> SliceSpec:
    return spec_of(topology("line6"), SliceFile(**({"slice": "l4s", "site": "STAR"} | wishes)))


def found(made: SliceSpec, facts: Facts = FACTS, run_s: float = 0.0) -> list[str]:
    return [f"{problem.path}: {problem.message}" for problem in preflight(made, facts, run_s)]


def test_nothing_is_wrong_with_a_plain_slice() -> None:
    assert found(spec()) == []


def test_small_machines_need_no_permission() -> None:
    nothing = replace(FACTS, tags=())
    assert found(spec(cores=2, ram_gb=8, disk_gb=10), nothing) == []
    assert found(spec(), nothing) == [
        "cores: 4 instead of 2 needs the project tag VM.NoLimitCPU or VM.NoLimit",
        "ram_gb: 16 instead of 10 needs the project tag VM.NoLimitRAM or VM.NoLimit",
        "disk_gb: 50 instead of 10 needs the project tag VM.NoLimitDisk or VM.NoLimit",
    ]


def test_one_big_machine_is_enough_to_need_permission() -> None:
    small = {"cores": 2, "ram_gb": 8, "disk_gb": 10}
    made = spec(**small, nodes={"router": VmWishes(cores=8)})
    assert found(made, replace(FACTS, tags=())) == [
        "cores: 8 instead of 2 needs the project tag VM.NoLimitCPU or VM.NoLimit"
    ]


def test_what_fabric_does_not_offer() -> None:
    made = spec(image="default_ubuntu_42", nic="NIC_Basics", site="MOON")
    told = [str(problem) for problem in preflight(made, FACTS)]
    assert (
        "FABRIC has no image default_ubuntu_42; did you mean default_ubuntu_24 or default_ubuntu_22?"
        in told[0]
    )
    assert any("FABRIC has no component NIC_Basics; did you mean NIC_Basic?" in text for text in told)
    assert any("FABRIC has no site MOON" in text for text in told)


def test_a_dedicated_nic_and_a_switch_need_permission() -> None:
    made = spec(nic="NIC_ConnectX_6", switch=SwitchWishes(node="router", program="ncf"))
    rooms = replace(STAR, components={"SmartNIC-ConnectX-6": 9})
    assert found(made, replace(FACTS, sites=(rooms,))) == [
        "nic: NIC_ConnectX_6 needs the project tag Component.SmartNIC or Component.SmartNIC_ConnectX_6",
        "switch: a programmable switch needs the project tag Switch.P4",
    ]


@pytest.mark.parametrize(
    ("site", "lack"),
    [
        (replace(STAR, cores=23), "STAR: 23 cores free, 24 needed"),
        (replace(STAR, ram_gb=95), "STAR: 95 ram_gb free, 96 needed"),
        (replace(STAR, disk_gb=0), "STAR: 0 disk_gb free, 300 needed"),
        (replace(STAR, components={}), "STAR: 0 NIC_Basic free, 8 needed"),
        (replace(STAR, active=False), "STAR: not active (maintenance?)"),
    ],
)
def test_a_site_that_is_full(site: Site, lack: str) -> None:
    sites = (site, replace(STAR, name="NCSA"))
    assert found(spec(), replace(FACTS, sites=sites)) == [f"site: {lack}"]
    (problem,) = preflight(spec(), replace(FACTS, sites=sites))
    assert problem.hint == "NCSA has room"


def test_any_site_with_room() -> None:
    assert site_with_room(spec(), FACTS.sites or ()) == "NCSA"
    full = replace(FACTS, sites=(replace(STAR, cores=0),))
    assert found(spec(site="auto"), full) == ["site: no site has room for this slice now"]
    assert found(spec(site="auto")) == []


def test_a_switch_needs_no_machine_and_no_nic() -> None:
    made = spec(switch=SwitchWishes(node="router"))
    just = replace(STAR, cores=20, components={"SharedNIC-ConnectX-6": 6})
    permitted = replace(FACTS, tags={"VM.NoLimit", "Switch.P4"}, sites=(just,))
    assert found(made, permitted) == []
    assert found(made, replace(permitted, sites=(replace(just, switches=0),))) == [
        "site: STAR: 0 programmable switches free, 1 needed"
    ]


def test_lease_and_token_outlive_the_run() -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    facts = replace(FACTS, now=now, token_expires=now + timedelta(hours=3))
    assert found(spec(), facts, run_s=2 * 3600) == []
    assert found(spec(), facts, run_s=4 * 3600) == [
        "token: the token ends in 3 h 0 min, and the run takes about 4 h 0 min"
    ]
    ending = replace(facts, token_expires=now + timedelta(minutes=10))
    assert found(spec(), ending) == ["token: the token ends in 0 h 10 min"]
    long = found(spec(), replace(FACTS, tags={"VM.NoLimit"}), run_s=16 * 86400)
    assert long == ["hours: the run takes about 384 h 0 min, and leases end after 15 days at most"]
    unlimited = replace(FACTS, tags={"VM.NoLimit", "Slice.NoLimitLifetime"})
    assert found(spec(), unlimited, run_s=16 * 86400) == []


def test_warnings() -> None:
    told = warnings(spec(hours=30 * 24), FACTS)
    assert "IPv6 addresses only" in told[0]
    assert "shortened to 15 days" in told[1]
    assert warnings(spec(), replace(FACTS, sites=(replace(STAR, ipv4_management=True),))) == ()


def test_the_digest_is_about_what_is_made() -> None:
    own = spec().digest
    assert spec(slice="other", hours=99, site="NCSA").digest == own
    assert spec(cores=8).digest != own
    assert spec(switch=SwitchWishes(node="router")).digest != own


def test_a_file_with_mistakes_tells_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "slice.yaml"
    path.write_text("slice: x\nsites: STAR\ncores: 0\n")
    with pytest.raises(InputError) as told:
        load_slice_file(path)
    text = [str(problem) for problem in told.value.problems]
    assert len(text) == 3
    assert any("sites: Extra inputs are not permitted; did you mean" in line for line in text)
    path.write_text("slice: l4s\nnodes: {routr: {cores: 8}}\nswitch: {node: dlay}\n")
    with pytest.raises(InputError) as told:
        spec_of(topology("line6"), load_slice_file(path))
    assert [problem.hint for problem in told.value.problems] == [
        "did you mean router?",
        "did you mean delay?",
    ]
