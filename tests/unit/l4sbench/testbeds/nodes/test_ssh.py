# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Files by which nodes are reached, read back by ssh itself and by Ansible's own format."""

import shlex
import shutil
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from l4sbench.testbeds.nodes import ssh
from l4sbench.testbeds.nodes.plan import LabPlan, plan_lab
from l4sbench.topology import topology
from tests.patience import ran

LINE6 = topology("line6")

pytestmark = pytest.mark.skipif(shutil.which("ssh") is None, reason="no ssh here")


def written(folder: Path, plan: LabPlan, bastion: tuple[str, int] | None = None) -> Path:
    """The ssh configuration of a lab in this folder."""
    (folder / "host-keys").mkdir(parents=True)
    for node in plan.nodes:
        (folder / "host-keys" / f"{node.name}.pub").write_text(f"ssh-ed25519 AAAA{node.name} l4sbench\n")
    return ssh.write_ssh(folder, folder / "run", plan, "debian", bastion)


def understood(config: Path, host: str) -> dict[str, str]:
    """What ssh makes of the configuration for a host."""
    done = ran(["ssh", "-F", config, "-G", host], check=True)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def test_ssh_finds_every_node_with_the_labs_own_key_and_host_keys(tmp_path: Path) -> None:
    folder = tmp_path / "a lab"
    config = written(folder, plan_lab(LINE6))
    for node in plan_lab(LINE6).nodes:
        said = understood(config, node.name)
        assert said["hostname"] == node.address
        assert said["user"] == "debian"
        assert said["identityfile"] == str(folder / ssh.KEY)
        assert said["userknownhostsfile"] == str(folder / "known_hosts")
        assert said["stricthostkeychecking"] in {"true", "yes"}
        assert shlex.split(said["proxycommand"])[-3:] == [str(folder / "run" / "keeper"), "%h", "%p"]


def test_with_a_bastion_nodes_are_reached_through_it_and_itself_directly(tmp_path: Path) -> None:
    config = written(tmp_path / "lab", plan_lab(LINE6, bastion=True), ("127.0.0.1", 2222))
    assert understood(config, "router")["proxycommand"] == f"ssh -F {config} -W [%h]:%p bastion"
    direct = understood(config, "bastion")
    assert (direct["hostname"], direct["port"]) == ("127.0.0.1", "2222")
    assert "proxycommand" not in direct


def test_the_inventory_names_every_port_by_its_mac_and_no_bastion(tmp_path: Path) -> None:
    plan = plan_lab(LINE6, bastion=True)
    path = ssh.write_inventory(tmp_path, tmp_path / "run", plan, LINE6)
    children = YAML(typ="safe").load(path)["all"]["children"]
    hosts = children["nodes"]["hosts"]
    assert set(hosts) == set(LINE6.by_name)
    for node in LINE6.nodes:
        assert set(hosts[node.name]["l4sbench_ports"]) == {address.network for address in node.addresses}
    assert not set(children) & set(hosts)  # Ansible warns of a group that has a host's name
    grouped = [name for group, members in children.items() if group != "nodes" for name in members["hosts"]]
    assert sorted(grouped) == sorted(LINE6.by_name)


def test_a_key_is_made_once_and_whole(tmp_path: Path) -> None:
    key = tmp_path / "id"
    ssh.make_key(key, "ecdsa")
    before = key.read_bytes()
    ssh.make_key(key, "ecdsa")
    assert key.read_bytes() == before
    (tmp_path / "id.pub").unlink()  # half a pair is none
    ssh.make_key(key, "ecdsa")
    assert key.read_bytes() != before
    assert key.stat().st_mode & 0o077 == 0
