# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A lab of booted nodes: it comes up, is reached by ssh and Ansible, and leaves nothing behind."""

import contextlib
import hashlib
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from l4sbench.errors import InputError
from l4sbench.testbeds import nodes
from l4sbench.testbeds.virtual.lab import Lab
from l4sbench.topology import topology
from tests.lab.nodes.hosts import booted, on
from tests.patience import PATIENCE_S, ran

LINE6 = topology("line6")

pytestmark = pytest.mark.lab

NAME = f"test-{os.getpid()}"


@pytest.fixture(scope="module")
def up(able: None) -> Iterator[nodes.NodesStatus]:
    """Boot a lab for these tests alone; one in use stays as it is."""
    with booted(NAME) as state:
        yield state


def processes_in(folder: Path) -> list[Path]:
    """Processes that work in a folder or below it, as seen from outside; ids inside the lab are others."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if (path / "cwd").readlink().is_relative_to(folder):
                found.append(path)
        except OSError:
            continue
    return found


def run_folder(lab: nodes.NodesStatus) -> Path:
    """Return the folder of the lab's sockets and memory."""
    return Path(json.loads((lab.folder / "state.json").read_text())["run"])


def until(true: Callable[[], bool]) -> None:
    """Wait for something that comes at once, however busy the machine is."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_every_node_is_a_host_of_its_own(up: nodes.NodesStatus) -> None:
    assert up.up
    assert up.fresh
    for node in LINE6.nodes:
        assert on(up, node.name, "hostname").strip() == node.name
    boots = {on(up, node.name, "cat", "/proc/sys/kernel/random/boot_id") for node in LINE6.nodes}
    assert len(boots) == len(LINE6.nodes)


def test_what_the_lab_carries_is_measured_once_and_nothing_is_left_over(up: nodes.NodesStatus) -> None:
    ports = {node.name: on(up, node.name, "ip", "-br", "link") for node in LINE6.nodes}
    found = nodes.measured(NAME)
    assert found.capacity is not None
    assert [tried.rate_mbps for tried in found.capacity.tries] == [10, 25, 50, 100]
    assert nodes.measured(NAME) == nodes.status(NAME) == found
    assert found.inventory is not None
    stated = YAML(typ="safe").load(found.inventory)["all"]["vars"]["l4sbench_carries"]
    assert stated == found.capacity.rate
    for node in LINE6.nodes:
        assert on(up, node.name, "ip", "netns") == ""
        assert on(up, node.name, "ip", "-br", "link") == ports[node.name]


def test_nodes_come_before_other_processes_where_this_user_may_ask_for_it(up: nodes.NodesStatus) -> None:
    allowed = ran(["nice", "-n", "-19", "nice"])
    found = set()
    for path in processes_in(run_folder(up)):
        # A guest's own processes come and go.
        with contextlib.suppress(ProcessLookupError):
            found.add(os.getpriority(os.PRIO_PROCESS, int(path.name)))
    assert found == {int(allowed.stdout)}


def test_one_logs_in_as_a_user_who_may_become_root(up: nodes.NodesStatus) -> None:
    assert on(up, "router", "id", "-un").strip() == "debian"
    assert on(up, "router", "sudo", "-n", "id", "-un").strip() == "root"


def test_a_host_key_that_changed_is_refused(up: nodes.NodesStatus, tmp_path: Path) -> None:
    assert up.ssh_config is not None
    known = (up.folder / "known_hosts").read_text().splitlines()
    swapped = [f"{a.split()[0]} {' '.join(b.split()[1:])}\n" for a, b in zip(known, known[::-1], strict=True)]
    (tmp_path / "known_hosts").write_text("".join(swapped))
    done = ran(
        ["ssh", "-F", up.ssh_config, "-o", f"UserKnownHostsFile={tmp_path / 'known_hosts'}", "delay", "true"]
    )
    assert done.returncode == 255
    assert "Host key verification failed" in done.stderr


def test_ansible_reaches_all_of_them(up: nodes.NodesStatus, tmp_path: Path) -> None:
    ansible = shutil.which("ansible", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if ansible is None:
        pytest.skip("no ansible: it comes with l4sbench[ansible]")
    done = ran(
        [ansible, "-i", str(up.inventory), "nodes", "-m", "ping", "--become"],
        env={**os.environ, "ANSIBLE_LOCAL_TEMP": str(tmp_path), "ANSIBLE_HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("SUCCESS") == len(LINE6.nodes)


def test_networks_are_those_of_the_topology(up: nodes.NodesStatus) -> None:
    """Addresses of the topology on ports found by MAC; neighbours answer, others are out of reach."""
    assert up.inventory is not None
    hosts = YAML(typ="safe").load(up.inventory)["all"]["children"]["nodes"]["hosts"]
    for node in LINE6.nodes:
        macs = hosts[node.name]["l4sbench_ports"]
        lines = [
            f"port=$(grep -l {macs[address.network]} /sys/class/net/vec*/address | cut -d/ -f5);"
            f" ip address replace {address} dev $port; ip link set $port up"
            for address in node.addresses
        ]
        on(up, node.name, f"sudo sh -ec {shlex.quote('; '.join(lines))}")
    for network in LINE6.networks:
        first, *others = network.nodes
        at = [LINE6.by_name[other].address_on(network.name).ip for other in others]
        on(up, first, " && ".join(f"ping -c2 -i0.2 -W5 {ip}" for ip in at))
    far = LINE6.by_name["rx-l4s"].addresses[0].ip
    said = on(up, "tx-l4s", f"sudo ip route replace {far} dev vec1; ping -c1 -W1 {far}", check=False)
    assert "100% packet loss" in said


def test_our_modules_load_and_built_in_ones_count_as_loaded(up: nodes.NodesStatus, lab: Lab) -> None:
    on(up, "tx-l4s", "sudo modprobe tcp_prague && sudo modprobe sch_dualpi2")
    loaded = on(up, "tx-l4s", "cat /sys/module/tcp_prague/srcversion").strip()
    assert loaded == lab.srcversions["tcp_prague"]
    assert "prague" in on(up, "tx-l4s", "cat /proc/sys/net/ipv4/tcp_available_congestion_control")


def test_a_node_may_be_written_to_and_the_others_do_not_see_it(up: nodes.NodesStatus) -> None:
    on(up, "rx-l4s", "sudo touch /usr/bin/mine /etc/mine && sudo rm /usr/bin/iperf3")
    assert on(up, "rx-classic", "ls /usr/bin/iperf3 && ls /etc/mine || true").split() == ["/usr/bin/iperf3"]


def test_a_large_file_arrives(up: nodes.NodesStatus) -> None:
    """Frames leave this machine's TCP longer than a link's; a node that took none of them got nothing."""
    sent = os.urandom(4 << 20)
    done = subprocess.run(
        ["ssh", "-F", str(up.ssh_config), "router", "sha256sum"],
        input=sent,
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert done.stdout.split()[0].decode() == hashlib.sha256(sent).hexdigest()


def test_up_again_changes_nothing(up: nodes.NodesStatus) -> None:
    before = on(up, "router", "cat /proc/sys/kernel/random/boot_id")
    assert nodes.up("line6", name=NAME) == nodes.status(NAME)
    assert on(up, "router", "cat /proc/sys/kernel/random/boot_id") == before


def test_up_mends_a_lab_one_of_whose_nodes_died(up: nodes.NodesStatus) -> None:
    nodes.halt(NAME, "delay")
    other = on(up, "router", "cat /proc/sys/kernel/random/boot_id")
    until(lambda: not nodes.status(NAME).up)
    assert not next(node for node in nodes.status(NAME).nodes if node.name == "delay").running
    assert nodes.up("line6", name=NAME).up
    assert on(up, "delay", "hostname").strip() == "delay"
    assert on(up, "router", "cat /proc/sys/kernel/random/boot_id") == other


def test_a_lab_that_is_up_does_not_become_another_one(up: nodes.NodesStatus) -> None:
    with pytest.raises(InputError, match="no bastion"):
        nodes.up("line6", name=NAME, bastion=("127.0.0.1", 0))


def test_a_node_that_reboots_is_there_again(up: nodes.NodesStatus) -> None:
    before = on(up, "router", "cat /proc/sys/kernel/random/boot_id")
    on(up, "router", "sudo reboot", check=False)
    until(lambda: on(up, "router", "cat /proc/sys/kernel/random/boot_id", check=False) not in {"", before})
    assert nodes.status(NAME).up


def test_a_lab_whose_keeper_was_killed_leaves_nothing_and_comes_up_again(up: nodes.NodesStatus) -> None:
    state = json.loads((up.folder / "state.json").read_text())
    left = processes_in(run_folder(up))
    assert len(left) >= len(LINE6.nodes)
    os.kill(state["keeper"]["pid"], signal.SIGKILL)
    until(lambda: not any(path.exists() for path in left))
    assert not nodes.status(NAME).up
    assert nodes.up("line6", name=NAME).up
    assert not Path(state["run"]).exists()
    assert on(up, "router", "hostname").strip() == "router"


def test_down_leaves_nothing_but_keys_and_logs(up: nodes.NodesStatus) -> None:
    run = run_folder(up)
    running = processes_in(run)
    with socket.socket(socket.AF_UNIX) as hangs:  # as a shared connection of ssh that answers nobody
        hangs.bind(str(run / "ssh-hangs"))
        hangs.listen()
        assert nodes.down(NAME)
    assert not run.exists()
    assert not any(path.exists() for path in running)
    left = {path.name for path in up.folder.iterdir()}
    assert left <= {"id_ecdsa", "id_ecdsa.pub", "host-keys", "consoles", "keeper.log", "lock"}
    assert not nodes.down(NAME)
    assert NAME not in {each.name for each in nodes.labs()}


def test_a_name_that_is_no_folder_is_refused() -> None:
    with pytest.raises(InputError, match="not a valid name"):
        nodes.down("../line6")
