# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Slices against the stand-in orchestrator: the regular course, and every fault."""

from __future__ import annotations

import itertools
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fablib_slices import Access, SliceFile, Slices, SliceSpec, preflight, spec_of
from fablib_slices.access import inventory
from fablib_slices.nics import cards_of
from fablib_slices.records import keep, keep_inventory, kept_spec
from fablib_slices.spec import PortWishes, SwitchWishes
from l4sbench.errors import InputError, TestbedError
from l4sbench.testbeds.ssh.hosts import hosts_of
from l4sbench.testbeds.ssh.inventory import read_inventory
from l4sbench.testbeds.ssh.layout import require_placed
from l4sbench.testbeds.ssh.switches import switches_of
from l4sbench.topology import topology
from tests.fabric.conftest import StandIn, manager_of

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries' own

FAST: dict[str, Any] = {"poll_s": 0.1, "limit_s": 300}
_names = (f"slice-{number}" for number in itertools.count())


@pytest.fixture
def spec() -> SliceSpec:
    return spec_of(topology("line6"), SliceFile(slice=next(_names), site="STAR"))


def test_up_makes_the_slice_and_waits(slices: Slices, spec: SliceSpec) -> None:
    states: list[str] = []
    found = slices.up(spec, on_state=states.append, **FAST)
    assert found.ready
    assert states == ["Configuring", "StableOK"]
    assert found.digest == spec.digest
    assert {machine.name: machine.role for machine in found.machines} == {
        "tx-l4s": "sender",
        "tx-classic": "sender",
        "delay": "delay",
        "router": "router",
        "rx-l4s": "receiver",
        "rx-classic": "receiver",
    }
    router = next(machine for machine in found.machines if machine.name == "router")
    assert [network for network, _ in router.ports] == ["net-mid", "net-rx"]
    assert len({mac for machine in found.machines for _, mac in machine.ports}) == 8


def test_a_switch_is_a_host_of_the_inventory(slices: Slices) -> None:
    ports = {"net-mid": PortWishes(port=132), "net-rx": PortWishes(port=140)}
    wishes = SwitchWishes(node="router", program="ncf", ports=ports, enter=("sde-env-9.13.3", "-c"))
    spec = spec_of(topology("line6"), SliceFile(slice=next(_names), site="STAR", switch=wishes))
    found = slices.up(spec, **FAST)
    assert found.digest == spec.digest
    variables = read_inventory(keep_inventory(found, slices.access, spec))
    switch = variables["router"]
    assert switch["ansible_user"] == "fabric"
    assert str(switch["ansible_host"]).startswith("2001:db8:5::")
    assert switch["ansible_become"] is False
    assert switch["tofino_enter"] == ["sde-env-9.13.3", "-c"]
    (named,) = switches_of(variables, "").values()
    assert {network: port.port for network, port in named.ports.items()} == {"net-mid": 132, "net-rx": 140}
    hosts = hosts_of(variables, "")
    assert {host.name for host in hosts} == set(topology("line6").by_name) - {"router"}
    # without numbers the ports are those that FABRIC connects, and the switch knows their numbers
    plain = spec_of(topology("line6"), SliceFile(slice=spec.name, switch=SwitchWishes(node="router")))
    (named,) = switches_of(read_inventory(keep_inventory(found, slices.access, plain)), "").values()
    assert {network: port.front for network, port in named.ports.items()} == {
        "net-mid": "1/0",
        "net-rx": "2/0",
    }
    require_placed(hosts, [topology("line6")], "", {"router"})
    # a record of the slice has the numbers, too
    keep(spec, found)
    assert kept_spec(spec.name) == spec
    # and without them it is the same slice
    unnamed = replace(spec, switches=tuple(replace(one, ports=()) for one in spec.switches))
    assert slices.up(unnamed, **FAST).id == found.id
    inventory = read_inventory(keep_inventory(found, slices.access))
    assert "l4sbench_switch" not in inventory["router"]


def test_up_again_adopts_what_is_there(slices: Slices, spec: SliceSpec, standin: StandIn) -> None:
    first = slices.up(spec, **FAST)
    before = standin.creates()
    again = slices.up(replace(spec, hours=48), **FAST)
    assert again.id == first.id
    assert standin.creates() == before


def test_a_slice_of_the_name_that_is_another_is_refused(slices: Slices, spec: SliceSpec) -> None:
    slices.up(spec, **FAST)
    bigger = replace(spec, vms=(replace(spec.vms[0], cores=8), *spec.vms[1:]))
    with pytest.raises(
        InputError,
        match=f"slice {spec.name} exists that was made from another description.*slice down {spec.name}",
    ):
        slices.up(bigger, **FAST)


def test_a_slice_of_the_name_at_another_site_is_refused(slices: Slices, spec: SliceSpec) -> None:
    first = slices.up(spec, **FAST)
    with pytest.raises(InputError, match=f"{spec.name} exists, and its tx-l4s is at STAR, not at NCSA; name"):
        slices.up(replace(spec, site="NCSA"), **FAST)
    assert slices.up(replace(spec, site="auto"), **FAST).id == first.id


def test_an_answer_that_is_lost_costs_nothing(slices: Slices, spec: SliceSpec, standin: StandIn) -> None:
    standin.faults(create_lost=1)
    before = len(standin.slices())
    assert slices.up(spec, **FAST).ready
    assert len(standin.slices()) == before + 1


def test_a_refusal_tells_fabrics_own_words(slices: Slices, spec: SliceSpec, standin: StandIn) -> None:
    standin.faults(create_refused=99)
    with pytest.raises(TestbedError, match="Unable to determine broker proxy for this controller"):
        slices.up(spec, **FAST)


def test_a_machine_that_fails_tells_why(slices: Slices, spec: SliceSpec, standin: StandIn) -> None:
    standin.faults(sliver_fails={"router": "Insufficient resources : No hosts available"})
    with pytest.raises(TestbedError) as told:
        slices.up(spec, **FAST)
    assert told.value.message == (
        f"slice {spec.name} is StableError: Insufficient resources : No hosts available"
    )
    assert "slice down" in (told.value.hint or "")


def test_a_slice_that_never_gets_ready_stays_and_says_so(
    slices: Slices, spec: SliceSpec, standin: StandIn
) -> None:
    standin.faults(configure_s=999)
    with pytest.raises(TestbedError, match="after 1 s; it stays, and the same command continues to wait"):
        slices.up(spec, poll_s=0.1, limit_s=1)  # expires: the slice never comes up
    assert slices.find(spec.name) is not None


def test_queries_that_fail_do_not_end_the_wait(slices: Slices, spec: SliceSpec, standin: StandIn) -> None:
    standin.faults(unanswered=2)
    states: list[str] = []
    assert slices.up(spec, on_state=states.append, **FAST).ready
    assert states[0] == "Configuring"
    assert states[-1] == "StableOK"
    assert any("database is busy; asking again" in state for state in states)
    standin.faults(unanswered=99)
    again = replace(spec, name=next(_names))
    with pytest.raises(TestbedError, match="database is busy"):
        slices.up(again, **FAST)
    standin.faults()
    assert slices.find(again.name) is not None


def test_waiting_can_be_stopped(slices: Slices, spec: SliceSpec, standin: StandIn) -> None:
    standin.faults(configure_s=999)
    stop = threading.Event()
    stop.set()
    with pytest.raises(TestbedError, match=r"stopped while slice .* was Configuring; it stays"):
        slices.up(spec, stop=stop, **FAST)


def test_an_expired_token_is_told_as_such(slices: Slices, spec: SliceSpec, standin: StandIn) -> None:
    standin.faults(token_expired=True)
    with pytest.raises(TestbedError, match=r"Signature has expired.*make a new token"):
        slices.up(spec, **FAST)


def test_a_token_is_not_blamed_for_a_network_that_is_away(access: Access) -> None:
    standin = StandIn()
    slices = Slices(manager_of(standin), access, standin.call("/_token")["project"])
    standin.close()
    for ask in (slices.token_expires, lambda: slices.look("00000401-4010-4010-4010-000000000401")):
        with pytest.raises(TestbedError, match="Connection refused") as told:
            ask()
        assert (told.value.hint or "").startswith("check this machine's network")


def test_a_new_token_is_taken_up_without_a_restart(
    slices: Slices, access: Access, spec: SliceSpec, standin: StandIn
) -> None:
    slices.up(spec, **FAST)
    standin.faults(epoch=1)
    with pytest.raises(TestbedError, match=r"Signature has expired.*token file"):
        slices.renew(spec.name, 48)
    asked = []

    def again() -> object:
        asked.append(1)
        return manager_of(standin)

    standin.faults()
    lasting = Slices(manager_of(standin), access, again=again)
    standin.faults(epoch=1)
    assert lasting.renew(spec.name, 68).exact
    assert lasting.find(spec.name)
    assert len(asked) == 1


def test_stdout_comes_back_whichever_thread_asks_last(slices: Slices, capsys: Any) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(slices.find, [f"nobody-{number}" for number in range(24)]))
    assert found == [None] * 24
    sys.stdout.write("heard\n")
    assert capsys.readouterr().out == "heard\n"


def test_renewing_is_exact_to_the_hour(slices: Slices, spec: SliceSpec) -> None:
    slices.up(spec, **FAST)
    renewal = slices.renew(spec.name, 68)
    assert renewal.exact
    expected = datetime.now(UTC) + timedelta(hours=68)
    assert abs(renewal.lease_end - expected) < timedelta(minutes=10)


def test_a_lease_beyond_14_days_needs_a_tag(slices: Slices, spec: SliceSpec, standin: StandIn) -> None:
    slices.up(spec, **FAST)
    assert slices.renew(spec.name, 14 * 24).exact
    with pytest.raises(
        TestbedError,
        match=r"lacking Slice.NoLimitLifetime tag.*beyond 14 days need the project tag Slice.NoLimitLifetime",
    ):
        slices.renew(spec.name, 15 * 24)
    assert any(
        "a lease of 360 h instead of 336 h needs the project tag Slice.NoLimitLifetime" in str(problem)
        for problem in preflight(replace(spec, hours=360), slices.facts())
    )


def test_a_lease_that_is_shortened_is_not_exact(slices: Slices, spec: SliceSpec, standin: StandIn) -> None:
    standin.faults(tags=["VM.NoLimit", "Slice.NoLimitLifetime"])
    slices.up(spec, **FAST)
    renewal = slices.renew(spec.name, 30 * 24)
    assert not renewal.exact
    assert abs(renewal.lease_end - datetime.now(UTC) - timedelta(days=15)) < timedelta(minutes=10)


def test_both_ports_of_a_dedicated_card_are_used(slices: Slices, spec: SliceSpec) -> None:
    dedicated = replace(spec, nets=tuple(replace(net, nic="NIC_ConnectX_6") for net in spec.nets))
    cards = cards_of(dedicated)
    assert {name: sum(own.values()) for name, own in cards.items()} == dict.fromkeys(cards, 1)
    found = slices.up(dedicated, **FAST)
    router = next(machine for machine in found.machines if machine.name == "router")
    assert [network for network, _ in router.ports] == ["net-mid", "net-rx"]
    assert len({mac for machine in found.machines for _, mac in machine.ports}) == 8


def test_an_address_may_be_in_the_sliver_only(slices: Slices, spec: SliceSpec, standin: StandIn) -> None:
    standin.faults(addresses_in_slivers=True)
    found = slices.up(spec, **FAST)
    assert all((machine.address or "").startswith("2001:db8::") for machine in found.machines)


def test_refused_renewals_are_errors(slices: Slices, spec: SliceSpec, standin: StandIn) -> None:
    slices.up(spec, **FAST)
    with pytest.raises(TestbedError, match=r"the lease of .* ends at .*, after .*FABRIC does not shorten"):
        slices.renew(spec.name, 2)
    standin.faults(renew_refused=9)
    with pytest.raises(TestbedError, match="Policy Violation: project lease limit"):
        slices.renew(spec.name, 68)
    with pytest.raises(TestbedError, match="slice nobody does not exist"):
        slices.renew("nobody", 1)


def test_a_slice_that_vanishes_while_it_is_made(slices: Slices, spec: SliceSpec, standin: StandIn) -> None:
    standin.faults(configure_s=999)

    def vanish(_: str) -> None:
        standin.faults(configure_s=0, vanish={spec.name: "Host of router failed"})

    with pytest.raises(TestbedError, match="is gone; FABRIC removed it: Host of router failed"):
        slices.up(spec, on_state=vanish, **FAST)


def test_down_is_idempotent(slices: Slices, spec: SliceSpec) -> None:
    slices.up(spec, **FAST)
    assert slices.down(spec.name)
    assert not slices.down(spec.name)
    assert slices.find(spec.name) is None


def test_facts_are_asked_of_fabric(slices: Slices, spec: SliceSpec, standin: StandIn) -> None:
    facts = slices.facts()
    assert facts.tags == ("Switch.P4", "VM.NoLimit")
    star = next(site for site in facts.sites or () if site.name == "STAR")
    assert (star.cores, star.switches) == (128 - 12, 1)
    assert star.components["SharedNIC-ConnectX-6"] == 381 - 38
    assert [(host.name, host.cores) for host in star.hosts] == [
        ("star-w1.fabric-testbed.net", 64 - 6),
        ("star-w2.fabric-testbed.net", 64 - 6),
    ]
    assert preflight(spec, facts, run_s=3600) == ()
    standin.faults(no_room=True, tags=[])
    problems = [str(problem) for problem in preflight(spec, slices.facts(), run_s=3600)]
    assert any("2 cores free, 24 needed" in problem for problem in problems)
    assert any("project tag VM.NoLimitCPU or VM.NoLimit" in problem for problem in problems)


def test_a_site_is_found_where_none_is_named(slices: Slices, spec: SliceSpec) -> None:
    found = slices.up(replace(spec, site="auto"), **FAST)
    assert {machine.site for machine in found.machines} == {"TACC"}


def test_machines_are_at_the_sites_that_a_file_names(
    slices: Slices, spec: SliceSpec, standin: StandIn
) -> None:
    standin.faults(tags=["VM.NoLimit", "Slice.Multisite"])
    away = tuple(replace(vm, site="TACC") if vm.role in {"router", "receiver"} else vm for vm in spec.vms)
    wanted = replace(spec, site="STAR", vms=away)
    assert preflight(wanted, slices.facts(), run_s=3600) == ()
    found = slices.up(wanted, **FAST)
    behind = {"router", "rx-l4s", "rx-classic"}
    assert {machine.name: machine.site for machine in found.machines} == {
        vm.name: "TACC" if vm.name in behind else "STAR" for vm in spec.vms
    }


def test_machines_get_the_key_and_become_an_inventory(
    slices: Slices, spec: SliceSpec, standin: StandIn, tmp_path: Any
) -> None:
    found = slices.up(spec, **FAST)
    assert [slices.access.public_key()] in standin.call("/_state")["keys"]
    made: Any = inventory(found, slices.access, tmp_path / "known_hosts")
    hosts = made["all"]["children"]["nodes"]["hosts"]
    assert sorted(hosts) == sorted(node.name for node in topology("line6").nodes)
    assert hosts["router"]["ansible_user"] == "debian"
    assert sorted(hosts["delay"]["l4sbench_ports"]) == ["net-mid", "net-tx"]
    assert list(made["all"]["children"]["role_receiver"]["hosts"]) == ["rx-l4s", "rx-classic"]
    arguments = made["all"]["vars"]["ansible_ssh_common_args"]
    assert "-W '[%h]:%p'" in arguments.replace("'\"'\"'", "'")
    assert "StrictHostKeyChecking=no" not in arguments
