# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What pre-flight checks find, without fablib."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fablib_slices.answers import sites_of
from fablib_slices.checks import FabricFacts, preflight, warnings
from fablib_slices.room import Site, SiteHost, rounded, site_with_room
from fablib_slices.spec import (
    PortWishes,
    SliceFile,
    SliceSpec,
    SwitchWishes,
    VmWishes,
    load_slice_file,
    slice_file,
    spec_of,
)
from l4sbench.errors import InputError
from l4sbench.topology import topology

STAR = Site("STAR", True, 200, 1000, 5000, {"SharedNIC-ConnectX-6": 100}, 1, False)
FACTS = FabricFacts(
    images={"default_ubuntu_22", "default_ubuntu_24"},
    nics={"NIC_Basic", "NIC_ConnectX_6", "GPU_A30"},
    tags={"VM.NoLimit"},
    sites=(STAR, replace(STAR, name="NCSA", cores=500)),
)


def spec(**wishes: Any) -> SliceSpec:
    plain = {"slice": "l4s", "site": "STAR", "image": "default_ubuntu_24"}
    return spec_of(topology("line6"), SliceFile(**(plain | wishes)))


def found(made: SliceSpec, facts: FabricFacts = FACTS, run_s: float = 0.0) -> list[str]:
    return [f"{problem.path}: {problem.message}" for problem in preflight(made, facts, run_s)]


def test_nothing_is_wrong_with_a_plain_slice() -> None:
    assert found(spec()) == []


AWAY = {"NCSA": ("router", "rx-l4s", "rx-classic")}
FAR = replace(FACTS, tags={"VM.NoLimit", "Slice.Multisite"})


def test_a_slice_at_several_sites_needs_room_at_each_and_a_permission() -> None:
    made = spec(sites=AWAY)
    assert found(made, FAR) == []
    assert found(made) == ["sites: a slice at several sites needs the project tag Slice.Multisite"]
    assert {site: sorted(part.names) for site, part in made.at_sites.items()} == {
        "STAR": ["delay", "tx-classic", "tx-l4s"],
        "NCSA": ["router", "rx-classic", "rx-l4s"],
    }
    assert [net.name for net in made.nets if made.crosses(net)] == ["net-mid"]
    full = replace(STAR, name="NCSA", cores=11)
    assert found(made, replace(FAR, sites=(STAR, full))) == ["sites.NCSA: NCSA: 11 cores free, 12 needed"]
    assert found(spec(sites={"MOON": AWAY["NCSA"]}), FAR) == ["sites.MOON: FABRIC has no site MOON"]


def test_where_machines_are_is_a_part_of_a_slice_only_if_a_file_places_them() -> None:
    assert spec().digest == spec(site="NCSA").digest == spec(sites={"STAR": ("rx-l4s",)}).digest
    assert spec().digest != spec(sites=AWAY).digest


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
    (problem,) = preflight(made, replace(FACTS, tags=()))
    assert str(problem) == (
        "cores: 8 instead of 2 needs the project tag VM.NoLimitCPU or VM.NoLimit; --cores 2 --ram-gb 8 "
        "--disk-gb 10, and no more for a single node, goes without, or ask the project's lead for it in the "
        "portal; the project has none"
    )


def test_what_to_do_about_large_machines_is_said_once() -> None:
    hints = [problem.hint for problem in preflight(spec(), replace(FACTS, tags=()))]
    assert hints[:2] == [None, None]
    assert (hints[2] or "").startswith("--cores 2 --ram-gb 8 --disk-gb 10 goes without, or ask")


def size_of(asked: tuple[int, int, int]) -> tuple[int, int, int]:
    return (2, 8, 10) if asked == (2, 8, 10) else (4, 16, 100)


def test_machines_come_in_sizes() -> None:
    sized = replace(FACTS, size_of=size_of)
    assert [(vm.cores, vm.ram_gb, vm.disk_gb) for vm in rounded(spec(), size_of).vms] == [(4, 16, 100)] * 6
    (told,) = warnings(spec(site="NCSA"), replace(sized, sites=()))
    of, asked = "4 cores, 16 GB memory and 100 GB disk", "4 cores, 16 GB memory and 50 GB disk"
    assert told == f"FABRIC makes machines of {of} for {asked}"
    assert warnings(spec(cores=2, ram_gb=8, disk_gb=10), replace(sized, sites=())) == ()
    # what a site must have free is what will be made
    just = replace(STAR, disk_gb=599)
    assert found(spec(), replace(sized, sites=(just,))) == ["site: STAR: 599 disk_gb free, 600 needed"]
    # how much room there is for them says nothing then
    assert found(spec(nodes={"router": VmWishes(cores=10_000)}), sized) == [
        "nodes.router: FABRIC has no machine of 10000 cores, 16 GB memory and 50 GB disk"
    ]
    assert found(spec(cores=10_000), sized) == [
        ": FABRIC has no machine of 10000 cores, 16 GB memory and 50 GB disk"
    ]


def test_what_fabric_does_not_offer() -> None:
    made = spec(image="default_ubuntu_42", nic="NIC_Basics", site="MOON")
    told = [str(problem) for problem in preflight(made, FACTS)]
    assert len(told) == 3  # what there is not needs no permission
    assert (
        "FABRIC has no image default_ubuntu_42; did you mean default_ubuntu_24 or default_ubuntu_22?"
        in told[0]
    )
    assert any("FABRIC has no component NIC_Basics; did you mean NIC_Basic?" in text for text in told)
    assert any("FABRIC has no site MOON" in text for text in told)


def test_a_dedicated_nic_and_a_switch_need_permission() -> None:
    made = spec(nic="NIC_ConnectX_6", switch=SwitchWishes(node="router", program="ncf"))
    rooms = replace(STAR, components={"SmartNIC-ConnectX-6": 5})  # one of two ports for each machine
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


def test_a_lease_beyond_14_days_is_denied_without_a_tag() -> None:
    assert found(spec(hours=336)) == []
    (problem,) = preflight(spec(hours=337), FACTS)
    assert str(problem) == (
        "hours: a lease of 337 h instead of 336 h needs the project tag Slice.NoLimitLifetime; --hours 336 "
        "goes without, and `run` renews at half of it, or ask the project's lead for it in the portal; the "
        "project has VM.NoLimit"
    )
    assert found(spec(hours=337), replace(FACTS, tags={"VM.NoLimit", "Slice.NoLimitLifetime"})) == []


def test_a_bluefield_goes_by_either_name() -> None:
    made = spec(nic="NIC_BlueField_2_ConnectX_6")
    counted = ("SmartNIC-BlueField-2-ConnectX-6", "SmartNIC-BlueField2-ConnectX-6")
    facts = replace(
        FACTS,
        nics={"NIC_BlueField_2_ConnectX_6"},
        tags={"VM.NoLimit", "Component.SmartNIC_BlueField2_ConnectX_6"},
    )
    for name in counted:
        assert found(made, replace(facts, sites=(replace(STAR, components={name: 6}),))) == []
    (lack,) = found(made, replace(facts, tags={"VM.NoLimit"}, sites=None))
    assert lack.endswith("tag Component.SmartNIC or Component.SmartNIC_BlueField2_ConnectX_6")


def test_a_machine_fits_one_host() -> None:
    def at(*hosts: SiteHost) -> list[str]:
        return found(spec(), replace(FACTS, sites=(replace(STAR, hosts=hosts),)))

    nics = {"SharedNIC-ConnectX-6": 2}
    one = SiteHost("star-w1", 4, 16, 50, nics)
    assert at(*[one] * 6) == []
    size = "4 cores, 16 GB memory and 50 GB disk"
    # a site has as much as is needed in all, and no host has enough of it
    assert at(*[replace(one, cores=3)] * 60) == [
        f"site: STAR: no host has room for delay ({size}, 2 NIC_Basic)"
    ]
    assert at(*[replace(one, components={"SharedNIC-ConnectX-6": 1})] * 60) == [
        f"site: STAR: no host has room for delay ({size}, 2 NIC_Basic)"
    ]
    assert at(*[one] * 5) == [f"site: STAR: no host has room for rx-classic ({size}, 1 NIC_Basic)"]


def test_no_capacity_is_none() -> None:
    def counts(capacity: int) -> dict[str, int]:
        return {"capacity": capacity, "allocated": 0}

    plain = {"name": "STAR", "cores_capacity": 8, "cores_allocated": 2}
    site = {**plain, "p4_switches": [counts(0)], "components": {"SharedNIC-ConnectX-6": counts(0)}}
    hosts = [
        {**plain, "name": "star-w1", "site": "STAR"},
        {**plain, "name": "star-w2", "site": "STAR", "state": "Maintenance"},
    ]
    (read,) = sites_of({"sites": [site], "hosts": hosts})
    assert (read.cores, read.disk_gb, read.switches, read.components) == (
        6,
        0,
        0,
        {"SharedNIC-ConnectX-6": 0},
    )
    assert [host.cores for host in read.hosts] == [6, 0]


def test_any_site_with_room() -> None:
    assert site_with_room(spec(), FACTS.sites or ()) == "NCSA"
    full = replace(FACTS, sites=(replace(STAR, cores=0),))
    assert found(spec(site="auto"), full) == ["site: no site has room for this slice now"]
    (problem,) = preflight(spec(site="auto"), full)
    assert problem.hint == "nearest is STAR: 0 cores free, 24 needed; smaller machines, or later"
    # who is avoided can be named all the same
    sites = tuple(replace(site, avoided=site.name == "NCSA") for site in FACTS.sites or ())
    assert site_with_room(spec(), sites) == "STAR"
    assert found(spec(site="NCSA"), replace(FACTS, sites=sites)) == []
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
    # renewing goes on for as long as there are tokens
    assert found(spec(), FACTS, run_s=16 * 86400) == []
    (renewed,) = warnings(spec(), replace(FACTS, sites=()), run_s=16 * 86400)
    assert renewed.startswith("the run takes about 384 h 0 min, longer than a lease: it is renewed under way")
    assert warnings(spec(), replace(FACTS, sites=()), run_s=23 * 3600) == ()


def test_an_image_that_nobody_booted_is_told() -> None:
    (told,) = warnings(spec(image="default_debian_13"), replace(FACTS, sites=()))
    assert told.startswith("default_debian_13 was not booted on FABRIC yet")


def test_an_image_for_which_no_kernel_is_known_is_told() -> None:
    (told,) = warnings(spec(image="default_rocky_9"), replace(FACTS, sites=()))
    assert told.startswith("kernels/images has nothing for default_rocky_9")
    assert warnings(spec(image="default_rocky_9", kernel="keep"), replace(FACTS, sites=())) == ()


def test_warnings() -> None:
    told = warnings(spec(hours=200 * 24), FACTS)
    assert "IPv6 addresses only" in told[0]
    assert "shortened to 182 days" in told[1]
    reached = replace(STAR, ipv4_management=True)
    assert warnings(spec(), replace(FACTS, sites=(reached,))) == ()
    # of the site that is taken where none is named
    larger = replace(STAR, name="NCSA", cores=500)
    (told_of,) = warnings(spec(site="auto"), replace(FACTS, sites=(reached, larger)))
    assert told_of.startswith("machines at NCSA have IPv6 addresses only")
    assert warnings(spec(site="auto"), replace(FACTS, sites=(reached, replace(larger, cores=0)))) == ()


PORTS = {"net-mid": PortWishes(port=132), "net-rx": PortWishes(port=140, speed="25G")}


def test_what_is_set_up_on_a_switch_changes_nothing_about_its_slice() -> None:
    named = spec(switch=SwitchWishes(node="router", ports=PORTS))
    plain = spec(switch=SwitchWishes(node="router"))
    assert named.digest == plain.digest
    assert [(one.network, one.port) for one in plain.switches[0].ports] == [
        ("net-mid", None),
        ("net-rx", None),
    ]
    (switch,) = named.switches
    assert [(one.network, one.port, one.mac, one.speed) for one in switch.ports] == [
        ("net-mid", 132, "02:00:0a:00:02:01", "100G"),
        ("net-rx", 140, "02:00:0a:00:05:01", "25G"),
    ]


def test_ports_are_on_the_switchs_networks() -> None:
    ports = dict.fromkeys(["net-mid", "net-rx", "net-tx"], PortWishes(port=1))
    with pytest.raises(InputError, match="router is not on net-tx"):
        spec(switch=SwitchWishes(node="router", ports=ports))


def test_the_digest_is_about_what_is_made() -> None:
    own = spec().digest
    assert spec(slice="other", hours=99, site="NCSA").digest == own
    assert spec(cores=8).digest != own
    assert spec(switch=SwitchWishes(node="router")).digest != own


def test_a_missing_file_of_a_slice(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        load_slice_file(tmp_path / "none.yaml")


def test_a_switch_stands_where_the_queue_is() -> None:
    with pytest.raises(InputError, match="a switch cannot replace tx-l4s; use router"):
        spec(switch=SwitchWishes(node="tx-l4s"))
    with pytest.raises(InputError, match="router is a switch, which has no size"):
        spec(switch=SwitchWishes(node="router"), nodes={"router": VmWishes(cores=8)})


@pytest.mark.parametrize("name", ["x", "..", ".l4s", "a b", "a/b", "é" * 4])
def test_names_that_fabric_or_a_folder_cannot_have(name: str) -> None:
    with pytest.raises(InputError, match="use 2 to 255 letters"):
        slice_file(name)
