# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What hosts tell of themselves, what keeps them from running, and what of it goes into the inputs.

tests/cases/hosts/router.json is what the helper said on the router of a local lab.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from l4sbench.app.api import load_matrix
from l4sbench.facts.cell import Cell
from l4sbench.facts.traits import Needs
from l4sbench.testbeds.ssh.facts import (
    HostFacts,
    HostModule,
    asked_of,
    identity,
    node_needs,
    older,
    read_facts,
)
from l4sbench.testbeds.ssh.fitness import unfit
from l4sbench.testbeds.ssh.hosts import Host
from l4sbench.topology import topology
from l4sbench.traffic.family import Family

LINE6 = topology("line6")

STORED = json.loads((Path(__file__).parents[3] / "cases/hosts/router.json").read_text(encoding="utf-8"))
SLOW_S = 900.0
"""Longest answer of a host, as of an emulated machine that is prepared on a busy one."""
TOLD = read_facts(STORED | {"asked_s": [STORED["time_s"] - SLOW_S, STORED["time_s"] + 1]}, "router")
OWN = TOLD.interfaces
PORTS = {i.addresses[0].rpartition(".")[0]: i.mac for i in TOLD.interfaces if i.addresses}
ROUTER = Host("router", ("router",), {"net-mid": PORTS["10.0.2"], "net-rx": PORTS["10.0.5"]})
MATRIX = load_matrix("quickstart")
WANTED = node_needs(MATRIX.cells, MATRIX.catalog)


NEEDS = Needs(traffic=frozenset({"iperf3"}))


def problems(told: HostFacts, host: Host = ROUTER, **given: Any) -> list[str]:
    needs = replace(NEEDS, **given)
    return [str(p) for p in unfit([host], {host.name: told}, LINE6, WANTED, needs)]


def test_a_fit_host_has_no_problems() -> None:
    assert problems(TOLD, capture=True) == []


def test_captures_need_tcpdump() -> None:
    bare = TOLD.model_copy(update={"tools": {k: v for k, v in TOLD.tools.items() if k != "tcpdump"}})
    assert problems(bare) == []
    (problem,) = problems(bare, capture=True)
    assert problem.startswith("router: tcpdump is missing (capture needs it)")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"kernel_release": "6.1.0-31-amd64"}, "dualpi2 needs Linux 6.17, and 6.1.0-31-amd64 is running"),
        ({"tools": {**TOLD.tools, "tc": "6.1.0"}}, "dualpi2 needs iproute2 6.18, and 6.1.0 is installed"),
        ({"tools": {"tc": "7.2.0"}}, "router: ethtool is missing"),
        ({"config": {"NET_SCH_CODEL": "y"}}, "dualpi2 needs CONFIG_NET_SCH_DUALPI2"),
        ({"root": False}, "does not run as root"),
        ({"time_s": TOLD.time_s - SLOW_S - 3600}, "its clock is -3600 s off"),
        ({"time_s": TOLD.time_s + 62}, "its clock is +61 s off"),
        ({"free_mb": 3}, "3 MB are free"),
        ({"interfaces": ()}, "no interface has the address"),
        (
            {"interfaces": [i.model_copy(update={"management": True}) for i in OWN]},
            "is used by the ssh connection or the default route",
        ),
        (
            {
                "interfaces": [
                    i.model_copy(update={"addresses": ("192.168.1.2/24",)}) for i in TOLD.interfaces
                ]
            },
            "has the address 192.168.1.2/24 as well",
        ),
    ],
)
def test_every_problem_is_told(changed: dict[str, Any], told: str) -> None:
    assert any(told in line for line in problems(TOLD.model_copy(update=changed)))


PAUSED = """\
matrix: paused
rate: 10mbit
rtt: 10ms
duration: 2s
aqm: fifo
rule: none
path.pause: 5ms
path.pause_at: receivers
flows: {far: {cc: cubic, rtt: 40ms}}
"""


@pytest.mark.parametrize(
    ("node", "config", "modules", "said"),
    [
        ("rx-l4s", {}, {}, "rx-l4s: path.pause needs CONFIG_NET_SCH_NETEM, which 7.3.4-l4sbench lacks"),
        (
            "rx-l4s",
            {"NET_SCH_NETEM": "m"},
            {},
            "path.pause needs the module sch_netem, which is not installed",
        ),
        ("rx-l4s", {"NET_SCH_NETEM": "m"}, {"sch_netem": HostModule(srcversion="A")}, ""),
        ("rx-l4s", {"NET_SCH_NETEM": "y"}, {}, ""),
        ("rx-l4s", None, {}, ""),
        ("tx-l4s", {}, {}, "tx-l4s: far.rtt needs CONFIG_NET_SCH_NETEM"),
        ("delay", {}, {}, "delay: the delay needs CONFIG_NET_SCH_NETEM"),
        ("router", {}, {}, ""),
        ("tx-classic", {}, {}, ""),
    ],
)
def test_nodes_that_hold_packets_need_netem(
    node: str, config: dict[str, str] | None, modules: dict[str, HostModule], said: str, tmp_path: Path
) -> None:
    (tmp_path / "m.yaml").write_text(PAUSED)
    matrix = load_matrix(tmp_path / "m.yaml")
    wanted = node_needs(matrix.cells, matrix.catalog)
    known = TOLD.model_copy(update={"config": config, "modules": modules})
    host = Host("h", (node,))
    found = [str(one) for one in unfit([host], {"h": known}, LINE6, wanted, NEEDS)]
    assert [said in one for one in found if "NETEM" in one or "netem" in one] == [True] * bool(said)


def test_foreign_addresses_of_ipv6_matter_to_cells_of_ipv6() -> None:
    foreign = ("2001:db8::1/64", "fd4c:3453:46::a00:501/120", "fd4c:3453:46::a00:201/120")
    seen = TOLD.model_copy(
        update={"interfaces": [i.model_copy(update={"addresses_6": foreign}) for i in TOLD.interfaces]}
    )
    assert problems(seen) == []
    found = problems(seen, families=frozenset({Family.IPV4, Family.IPV6}))
    assert len(found) == len(ROUTER.ports)
    assert all("has the address 2001:db8::1/64 as well; remove it: ip address del" in one for one in found)


def test_what_ends_of_flows_need() -> None:
    sender = Host("s", ("tx-l4s",), {"net-tx": ROUTER.ports["net-rx"]})
    old = TOLD.model_copy(
        update={"ccs": ("cubic",), "modules": {}, "accecn": False, "tools": {}, "machine": "riscv64"}
    )
    found = "\n".join(problems(old, sender, traffic=frozenset({"iperf3", "lean"})))
    for told in (
        "iperf3 is missing (traffic needs it)",
        "it is a machine of type riscv64, and lab-traffic is compiled here",
        "has no congestion control prague",
        "kernel module tcp_prague is missing",
        "has no AccECN, which prague negotiates",
    ):
        assert told in found
    brought = HostModule(srcversion="A", state="for 7.2.12+deb13-amd64")
    other_kernel = TOLD.model_copy(update={"modules": {"tcp_prague": brought}})
    told = (
        f"tcp_prague was built for 7.2.12+deb13-amd64, and {TOLD.kernel_release} is running; l4sbench_modules"
    )
    assert told in "\n".join(problems(other_kernel, sender))
    # the other pair runs CUBIC alone
    other = Host("s", ("tx-classic",), sender.ports)
    assert "prague" not in "\n".join(problems(old, other))


def test_a_queue_that_tc_does_not_know_is_told() -> None:
    wanted = node_needs([Cell.of({**MATRIX.cells[0].factors, "aqm": "ncf"})], MATRIX.catalog)
    assert asked_of(MATRIX.catalog)["queues"] == ["ncf"]

    def found(*queues: str) -> str:
        seen = TOLD.model_copy(update={"queues": queues})
        return "\n".join(map(str, unfit([ROUTER], {"router": seen}, LINE6, wanted, NEEDS)))

    assert "router: tc does not know the queue ncf; playbooks/prepare.yml compiles q_ncf.so" in found()
    assert "tc does not know" not in found("ncf")
    assert not any(of.queues for node, of in wanted.items() if node != "router")


def test_problems_of_all_hosts_at_once() -> None:
    old = TOLD.model_copy(update={"kernel_release": "5.15.0", "root": False})
    hosts = [ROUTER, replace(ROUTER, name="b", nodes=("delay",))]
    facts = {"router": old, "b": old}
    found = unfit(hosts, facts, LINE6, WANTED, NEEDS)
    assert {problem.path for problem in found} == {"router", "b"}


def test_identity_is_of_nodes_and_not_of_machines() -> None:
    one = identity([ROUTER], {"router": TOLD}, "h", "l")
    renamed = replace(ROUTER, name="other")
    assert (
        identity([renamed], {"other": TOLD.model_copy(update={"boot_id": "x", "time_s": 1.0})}, "h", "l")
        == one
    )
    assert one.kernel_release == TOLD.kernel_release
    assert one.modules["tcp_prague"] == TOLD.modules["tcp_prague"].srcversion
    rebuilt = TOLD.model_copy(update={"kernel_version": "#2"})
    assert identity([ROUTER], {"router": rebuilt}, "h", "l").common != one.common
    mixed = identity(
        [ROUTER, Host("a", ("delay",))],
        {"router": TOLD, "a": TOLD.model_copy(update={"kernel_release": "6.12.0"})},
        "h",
        "l",
    )
    assert mixed.kernel_release == f"6.12.0, {TOLD.kernel_release}"


@pytest.mark.parametrize(
    ("version", "than", "is_older"),
    [("6.12.48-amd64", "7.0", True), ("7.3.4-l4sbench", "7.0", False), ("6.17", "6.17", False)],
)
def test_releases_compare_by_their_numbers(version: str, than: str, is_older: bool) -> None:
    assert older(version, than) is is_older


def test_a_test_by_netperf_needs_it_at_both_ends() -> None:
    def found(test: str, *tools: str) -> str:
        probe = {"probe.send": "flent", "probe.test": test, "probe.from": "tx-l4s", "probe.to": "rx-l4s"}
        wanted = node_needs([Cell.of({**MATRIX.cells[0].factors, **probe})], MATRIX.catalog)
        seen = TOLD.model_copy(update={"tools": {**TOLD.tools, **dict.fromkeys(tools, "1")}})
        hosts = [Host("s", ("tx-l4s",)), Host("r", ("rx-l4s",))]
        return "\n".join(map(str, unfit(hosts, {"s": seen, "r": seen}, LINE6, wanted, NEEDS)))

    assert "s: flent is missing (flent's ping needs it)" in found("ping")
    assert "r: irtt is missing (flent's ping needs it)" in found("ping", "flent", "ping")
    assert "flent's" not in found("ping", "flent", "ping", "irtt")
    told = found("rrul", "flent", "ping")
    assert "s: netperf is missing (flent's rrul needs it); choose a test without it (ping, udp_flood)" in told
    assert "r: netserver is missing (flent's rrul needs it)" in told
    assert "flent's" not in found("rrul", "flent", "ping", "netperf", "netserver")
