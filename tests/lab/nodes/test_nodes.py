# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A lab of booted nodes: it comes up, is reached by ssh and Ansible, and leaves nothing behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from l4sbench.errors import InputError
from l4sbench.testbeds import nodes
from l4sbench.testbeds.nodes.checks import node_checks
from l4sbench.testbeds.virtual.build import Lab
from l4sbench.topology import LINE6

pytestmark = pytest.mark.lab

NAME = f"test-{os.getpid()}"


@pytest.fixture(scope="module")
def up(lab: Lab) -> Iterator[nodes.NodesStatus]:
    """A lab of its own, so that one in use stays as it is."""
    missing = [check for check in node_checks(6, nodes.MEMORY_MB) if not check.ok]
    if missing:
        pytest.skip("; ".join(f"{check.name}: {check.detail}" for check in missing))
    try:
        yield nodes.up("line6", name=NAME)
    finally:
        nodes.down(NAME)
        shutil.rmtree(nodes.status(NAME).folder)


def on(lab: nodes.NodesStatus, node: str, *argv: str, check: bool = True) -> str:
    """What a command on a node says."""
    done = subprocess.run(
        ["ssh", "-F", str(lab.ssh_config), node, *argv],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout


def processes_of(lab: nodes.NodesStatus) -> list[Path]:
    """Every process that works below the lab's run folder, found by whoever looks from outside."""
    run = json.loads((lab.folder / "state.json").read_text())["run"]
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if (path / "cwd").readlink().is_relative_to(run):
                found.append(path)
        except OSError:
            continue
    return found


def until(true: Callable[[], bool]) -> None:
    """Wait for something that comes at once, however busy the machine is."""
    while not true():
        time.sleep(0.05)


def test_every_node_is_a_host_of_its_own(up: nodes.NodesStatus) -> None:
    assert up.up
    assert up.fresh
    for node in LINE6.nodes:
        assert on(up, node.name, "hostname").strip() == node.name
    boots = {on(up, node.name, "cat", "/proc/sys/kernel/random/boot_id") for node in LINE6.nodes}
    assert len(boots) == len(LINE6.nodes)


def test_one_logs_in_as_a_user_who_may_become_root(up: nodes.NodesStatus) -> None:
    assert on(up, "router", "id", "-un").strip() == "debian"
    assert on(up, "router", "sudo", "-n", "id", "-un").strip() == "root"


def test_a_host_key_that_changed_is_refused(up: nodes.NodesStatus, tmp_path: Path) -> None:
    assert up.ssh_config is not None
    known = (up.folder / "known_hosts").read_text().splitlines()
    swapped = [f"{a.split()[0]} {' '.join(b.split()[1:])}\n" for a, b in zip(known, known[::-1], strict=True)]
    (tmp_path / "known_hosts").write_text("".join(swapped))
    done = subprocess.run(
        ["ssh", "-F", up.ssh_config, "-o", f"UserKnownHostsFile={tmp_path / 'known_hosts'}", "delay", "true"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 255
    assert "Host key verification failed" in done.stderr


def test_ansible_reaches_all_of_them(up: nodes.NodesStatus, tmp_path: Path) -> None:
    ansible = shutil.which("ansible", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if ansible is None:
        pytest.skip("no ansible: it comes with l4sbench[ansible]")
    done = subprocess.run(
        [ansible, "-i", str(up.inventory), "nodes", "-m", "ping", "--become"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "ANSIBLE_LOCAL_TEMP": str(tmp_path), "ANSIBLE_HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("SUCCESS") == len(LINE6.nodes)


def test_networks_are_those_of_the_topology(up: nodes.NodesStatus) -> None:
    """Addresses of the topology on ports found by MAC; neighbours answer, others are out of reach."""
    inventory = up.inventory
    assert inventory is not None
    from ruamel.yaml import YAML

    hosts = YAML(typ="safe").load(inventory)["all"]["children"]["nodes"]["hosts"]
    for node in LINE6.nodes:
        for address in node.addresses:
            mac = hosts[node.name]["l4sbench_ports"][address.network]
            links = json.loads(on(up, node.name, "ip", "-j", "link"))
            port = next(link["ifname"] for link in links if link["address"] == mac)
            on(up, node.name, f"sudo ip address replace {address} dev {port} && sudo ip link set {port} up")
    for network in LINE6.networks:
        first, *others = network.nodes
        for other in others:
            at = next(node for node in LINE6.nodes if node.name == other).address_on(network.name)
            assert ", 0% packet loss" in on(up, first, "ping", "-c2", "-i0.2", "-W5", at.ip)
    far = LINE6.by_name["rx-l4s"].addresses[0].ip
    on(up, "tx-l4s", f"sudo ip route replace {far} dev vec1")
    assert "100% packet loss" in on(up, "tx-l4s", "ping", "-c1", "-W1", far, check=False)


def test_our_modules_load_and_built_in_ones_count_as_loaded(up: nodes.NodesStatus, lab: Lab) -> None:
    on(up, "tx-l4s", "sudo modprobe tcp_prague && sudo modprobe sch_dualpi2")
    loaded = on(up, "tx-l4s", "cat /sys/module/tcp_prague/srcversion").strip()
    assert loaded == lab.srcversions["tcp_prague"]
    assert "prague" in on(up, "tx-l4s", "cat /proc/sys/net/ipv4/tcp_available_congestion_control")


def test_a_node_may_be_written_to_and_the_others_do_not_see_it(up: nodes.NodesStatus) -> None:
    on(up, "rx-l4s", "sudo touch /usr/bin/mine /etc/mine && sudo rm /usr/bin/iperf3")
    assert on(up, "rx-classic", "ls /usr/bin/iperf3 && ls /etc/mine || true").split() == ["/usr/bin/iperf3"]


def test_up_again_changes_nothing(up: nodes.NodesStatus) -> None:
    before = on(up, "router", "cat /proc/sys/kernel/random/boot_id")
    assert nodes.up("line6", name=NAME) == nodes.status(NAME)
    assert on(up, "router", "cat /proc/sys/kernel/random/boot_id") == before


def test_up_mends_a_lab_one_of_whose_nodes_died(up: nodes.NodesStatus) -> None:
    run = json.loads((up.folder / "state.json").read_text())["run"]
    os.kill(int((Path(run) / "delay" / "kernel" / "pid").read_text()), signal.SIGKILL)
    other = on(up, "router", "cat /proc/sys/kernel/random/boot_id")
    until(lambda: not nodes.status(NAME).up)
    assert not next(node for node in nodes.status(NAME).nodes if node.name == "delay").running
    assert nodes.up("line6", name=NAME).up
    assert on(up, "delay", "hostname").strip() == "delay"
    assert on(up, "router", "cat /proc/sys/kernel/random/boot_id") == other


def test_a_lab_whose_keeper_was_killed_leaves_nothing_and_comes_up_again(up: nodes.NodesStatus) -> None:
    state = json.loads((up.folder / "state.json").read_text())
    left = processes_of(up)
    assert len(left) >= len(LINE6.nodes)
    os.kill(state["keeper"]["pid"], signal.SIGKILL)
    until(lambda: not any(path.exists() for path in left))
    assert not nodes.status(NAME).up
    assert nodes.up("line6", name=NAME).up
    assert not Path(state["run"]).exists()
    assert on(up, "router", "hostname").strip() == "router"


def test_down_leaves_nothing_but_keys_and_logs(up: nodes.NodesStatus) -> None:
    run = Path(json.loads((up.folder / "state.json").read_text())["run"])
    running = processes_of(up)
    assert nodes.down(NAME)
    assert not run.exists()
    assert not any(path.exists() for path in running)
    left = {path.name for path in up.folder.iterdir()}
    assert left <= {"id_ecdsa", "id_ecdsa.pub", "host-keys", "consoles", "keeper.log", "lock"}
    assert not nodes.down(NAME)
    assert NAME not in {each.name for each in nodes.labs()}


def test_a_name_that_is_no_folder_is_refused() -> None:
    with pytest.raises(InputError, match="no name"):
        nodes.down("../line6")
