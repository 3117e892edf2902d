# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What the ssh testbed makes of an inventory that allows kernels, and of what its hosts told before."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from l4sbench.app.api import load_matrix
from l4sbench.errors import InputError, TestbedError
from l4sbench.facts.traits import Stages
from l4sbench.matrix import Matrix
from l4sbench.planning.inputs import impossible, needs
from l4sbench.testbeds.ssh import TRAITS, SshTestbed
from l4sbench.testbeds.ssh.declared import declared
from l4sbench.testbeds.ssh.facts import HostFacts, HostModule
from l4sbench.testbeds.ssh.memory import CHANGE_S, Known, Memory
from l4sbench.topology import topology
from tests.unit.l4sbench.testbeds.inventories import hosts_for, write_inventory

LINE6 = topology("line6")

OLD = HostFacts(kernel_release="6.12.48+deb13-amd64", distribution="debian 13", accecn=False)
NEW = OLD.model_copy(update={"kernel_release": "7.3.4+deb13-amd64", "accecn": True})


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    """DualPI2 needs Linux 6.17 at the router, FIFO nothing."""
    return load_matrix("quickstart").select(["aqm=fifo,dualpi2"])


def inventory(folder: Path, kernels: object) -> Path:
    """One host per node; the router may boot these kernels, and for DualPI2 alone a newer one."""
    hosts = hosts_for(LINE6)
    if kernels is not None:
        hosts["router"]["l4sbench_kernels"] = kernels
    return write_inventory(folder, hosts)


def own(name: str, release: str, **offers: object) -> dict[str, object]:
    return {
        "name": name,
        "about": "of a test",
        "rank": 1,
        "distributions": ["debian 13"],
        "release": release,
        "offers": {"kernel": "7.3", "accecn": True, **offers},
        "evidence": "none",
    }


TWO = [own("six", r"6\..*", kernel="6.12"), own("seven", r"7\..*", not_entries=["fifo"])]


def stages(folder: Path, matrix: Matrix, kernels: object = TWO) -> Stages | None:
    path = inventory(folder, kernels)
    return SshTestbed(path, matrix.catalog, matrix.cells, contact=False, cache=folder).stages()


def remember(folder: Path, told: Known) -> None:
    Memory(folder / "hosts.json", folder).save(told)


def asked(now: HostFacts) -> Known:
    return Known(dict.fromkeys(LINE6.by_name, OLD) | {"router": now})


def test_hosts_install_only_the_programs_that_their_nodes_need(tmp_path: Path) -> None:
    matrix = load_matrix("quickstart", changes=["path.ecn=bleach"])
    hosts = declared(inventory(tmp_path, None), matrix.catalog, matrix.cells, own=False)
    found = hosts.preparing(None)["l4sbench_tools_of"]
    assert isinstance(found, Mapping)
    assert {host: tools for host, tools in found.items() if tools} == {"delay": ["nft"]}


def test_hosts_that_were_never_asked(tmp_path: Path, matrix: Matrix) -> None:
    found = stages(tmp_path, matrix)
    assert found is not None
    assert {(s.state["router"], len(s.cells), s.known) for s in found.all} == {
        ("six", 4, False),
        ("seven", 4, False),
    }
    assert (found.now, found.change_s) == ({}, CHANGE_S)


def test_what_ran_before_is_known_without_asking(tmp_path: Path, matrix: Matrix) -> None:
    inventory(tmp_path, TWO)
    told = asked(OLD)
    told = replace(told.with_stage({"router": "seven"}, {**told.facts, "router": NEW}), change_s=77.0)
    remember(tmp_path, replace(told, facts=asked(OLD).facts))
    found = stages(tmp_path, matrix)
    assert found is not None
    assert (found.now, found.change_s) == ({"router": "six"}, 77.0)
    seven, six = sorted(found.all, key=lambda stage: stage.state["router"])
    assert (seven.known, six.known) == (True, False)
    assert seven.identity.common["kernel of router"].strip() == NEW.kernel_release
    assert seven.identity.common["kernel of delay"].strip() == OLD.kernel_release
    assert "image six" in six.identity.kernel_release


def test_a_kernel_that_is_not_what_the_inventory_says_any_more_is_not_known(
    tmp_path: Path, matrix: Matrix
) -> None:
    inventory(tmp_path, TWO)
    told = asked(OLD)
    remember(tmp_path, told.with_stage({"router": "seven"}, {**told.facts, "router": NEW}))
    changed = [TWO[0], {**TWO[1], "release": r"8\..*"}]
    found = stages(tmp_path, matrix, changed)
    assert found is not None
    assert not any(stage.known for stage in found.all)


def test_hosts_that_may_boot_nothing_stay_as_they_are(tmp_path: Path, matrix: Matrix) -> None:
    assert stages(tmp_path, matrix, None) is None
    remember(tmp_path, asked(OLD))
    testbed = SshTestbed(tmp_path / "hosts.json", matrix.catalog, matrix.cells, contact=False, cache=tmp_path)
    advice = testbed.advice()
    router, ends = sorted(advice)
    assert router == (
        "router: Linux 6.12.48+deb13-amd64 without dualpi2; with `l4sbench_kernels: [debian-backports]` in "
        "the inventory a run boots a suitable one"
    )
    assert "l4sbench_kernels: [debian-backports]" in ends


def named(folder: Path, matrix: Matrix, kernel: str) -> SshTestbed:
    """Hosts of an inventory that names a kernel for all of them."""
    hosts = {name: {**given, "l4sbench_kernel": kernel} for name, given in hosts_for(LINE6).items()}
    return SshTestbed(
        write_inventory(folder, hosts), matrix.catalog, matrix.cells, contact=False, cache=folder
    )


def test_an_inventory_lets_hosts_boot_what_cells_need(tmp_path: Path, matrix: Matrix) -> None:
    before = named(tmp_path, matrix, "distribution")
    assert before.stages() is None  # not before their distribution is known
    lines = before.installs()
    debian = "router, where it is Debian 13: debian-backports: linux-image-[cloud-]amd64, "
    (router,) = (line for line in lines if line.startswith(debian))
    assert "sch_dualpi2 by DKMS" in router
    assert any("where it is Ubuntu 24.04: ubuntu24-hwe: linux-generic-hwe-24.04" in line for line in lines)
    remember(tmp_path, asked(OLD))
    testbed = named(tmp_path, matrix, "distribution")
    found = testbed.stages()
    assert found is not None
    assert {stage.state["router"] for stage in found.all} == {"debian-backports"}
    assert named(tmp_path, matrix, "keep").stages() is None
    router, ends = sorted(testbed.installs())
    tool = "iproute2 of forky where tc is older than 6.18"
    packages = "debian-backports: linux-image-amd64, linux-headers-amd64 of trixie-backports"
    assert router == f"router: {packages}; sch_dualpi2 by DKMS; {tool}"
    assert ends.endswith(f"{packages}; tcp_prague by DKMS; {tool}")
    assert "delay" not in ends


def test_what_hosts_have_is_not_installed(tmp_path: Path, matrix: Matrix) -> None:
    tools = {"tc": "7.2.0", "ip": "7.2.0"}
    modules = {name: HostModule(srcversion="A") for name in ("tcp_prague", "sch_dualpi2")}
    remember(tmp_path, asked(OLD))
    unknown = named(tmp_path, matrix, "images/debian-backports").installs()
    assert all("linux-image-amd64" in line for line in unknown)
    ready = NEW.model_copy(update={"tools": tools, "modules": modules})
    remember(tmp_path, Known(dict.fromkeys(LINE6.by_name, ready)))
    assert named(tmp_path, matrix, "images/debian-backports").installs() == ()


OF_THE_LAB = """\
path.pause: 3ms
path.pause_at: router
path.loss: 0%
axes: {host.packet_cost: [0s, 1us], path.jitter: [0s, 1ms]}
events: {off: {at: 1s, path.loss: 1%, path.ecn: bleach, path.wifi_mcs: 9, rtt: 20ms}}
path.reverse_rate: 1mbit
path.wifi_mcs: 4
path.wifi_loss: 1%
"""


def test_what_hosts_cannot_do_is_refused(tmp_path: Path) -> None:
    text = "matrix: m\nrate: 10mbit\nrtt: 10ms\nduration: 2s\naqm: fifo\nflows: {one: {cc: cubic}}\n"
    (tmp_path / "m.yaml").write_text(text + OF_THE_LAB)
    matrix = load_matrix(tmp_path / "m.yaml")
    assert {problem.path for problem in impossible(matrix.cells, TRAITS)} == {
        "path.pause_at",
        "host.packet_cost",
        # the delay walks on hosts, but not beside events that set netem anew
        "events.off.rtt",
        "events.off.path.loss",
    }


OF_THE_LABS_TRAFFIC_TOOL = """\
flows:
  one: {cc: cubic, bytes: 1MB}
  far: {cc: cubic, rtt: 40ms, every: 1s, count: 2, lifetime: 1500ms, stop: 2700ms}
  udp: {send: paced, rate: 1mbit, codepoint: ect0, from: tx-l4s, to: rx-l4s}
  syn: {send: syn-flood, rate: 1mbit, codepoint: ect0, from: tx-l4s, to: rx-l4s}
  mice: {send: requests, cc: cubic, period: 1s, size: 50B, from: tx-l4s, to: rx-l4s}
  flood: {send: connect-flood, cc: cubic, rate: 1mbit, size: 50B, from: tx-l4s, to: rx-l4s}
  work: {send: workload, cc: cubic, workload: web-search, load: 10%, from: tx-l4s, to: rx-l4s}
"""


def test_what_iperf3_cannot_send_the_labs_traffic_tool_sends(tmp_path: Path) -> None:
    text = "matrix: m\nrate: 10mbit\nrtt: 10ms\nduration: 2s\naqm: fifo\nrule: none\n"
    (tmp_path / "m.yaml").write_text(text + OF_THE_LABS_TRAFFIC_TOOL)
    matrix = load_matrix(tmp_path / "m.yaml")
    remember(tmp_path, asked(NEW))
    testbed = SshTestbed(
        inventory(tmp_path, None), matrix.catalog, matrix.cells, contact=False, cache=tmp_path
    )
    wanted = needs(matrix.catalog, matrix.cells, testbed.traits)
    assert "lean" in wanted.traffic
    assert [problem for problem in testbed.check(wanted) if "iperf3 cannot" in problem.message] == []


def test_a_wrong_inventory_is_told_in_full(tmp_path: Path, matrix: Matrix) -> None:
    with pytest.raises(InputError) as caught:
        stages(tmp_path, matrix, ["debian-bckports", 7])
    assert len(caught.value.problems) == 2


def test_what_is_remembered_comes_back(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "hosts.json", tmp_path)
    with pytest.raises(TestbedError, match="have not been queried yet"):
        memory.load()
    told = replace(asked(NEW).with_stage({"router": "seven"}, {"router": NEW}), change_s=1.5, changing=True)
    memory.save(told)
    assert memory.load(["router"]) == told
    with pytest.raises(TestbedError, match="have not been queried yet"):
        memory.load(["a host that is new"])
    memory.path.write_text(memory.path.read_text()[:50])
    with pytest.raises(TestbedError):
        memory.load()
