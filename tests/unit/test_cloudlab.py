# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The profile for CloudLab and the inventory of its machines.

`request.xml` is what geni-lib made of the profile; its release for PyPI is for an older Python, so that tests
do not run it. Manifests here are that request with what CloudLab's documentation says is added to it.
"""

import ast
import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from l4sbench.app.api import plan_of
from l4sbench.app.prepare import RunOptions
from l4sbench.testbeds.ssh.hosts import hosts_of
from l4sbench.testbeds.ssh.inventory import read_inventory
from l4sbench.testbeds.ssh.layout import require_placed
from l4sbench.topology import topology
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "cloudlab"
REQUEST = (ROOT / "tests" / "cases" / "cloudlab" / "request.xml").read_text(encoding="utf-8")
LINE6 = {node.name: {one.network: one.ip for one in node.addresses} for node in topology("line6").nodes}
SPACE = "{http://www.geni.net/resources/rspec/3}"


def manifest(*, colons: bool = False, logins: bool = True) -> str:
    """Return the request as CloudLab answers it: with hardware addresses and logins."""
    root = ET.fromstring(REQUEST)
    root.set("type", "manifest")
    for number, node in enumerate(root.iterfind(f"{SPACE}node")):
        for port, interface in enumerate(node.iterfind(f"{SPACE}interface")):
            digits = f"a0369f00{number:02x}{port:02x}"
            address = ":".join(digits[at : at + 2] for at in range(0, 12, 2)) if colons else digits
            interface.set("mac_address", address)
        if logins:
            services = ET.SubElement(node, f"{SPACE}services")
            login = {"authentication": "ssh-keys", "hostname": f"pc{number}.example.net", "port": "22"}
            ET.SubElement(services, f"{SPACE}login", {**login, "username": "l4s"})
    return ET.tostring(root, encoding="unicode")


def inventory(folder: Path, text: str, *more: str) -> subprocess.CompletedProcess[str]:
    (folder / "manifest.xml").write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, str(FOLDER / "inventory.py"), "manifest.xml", *more],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_the_profile_asks_for_the_line_of_six() -> None:
    tree = ast.parse((FOLDER / "profile.py").read_text(encoding="utf-8"))
    (table,) = [
        ast.literal_eval(one.value)
        for one in tree.body
        if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "NODES"
    ]
    assert table == LINE6
    root = ET.fromstring(REQUEST)
    made = {
        node.get("client_id"): {
            str(interface.get("client_id")).partition(":")[2]: ip.get("address")
            for interface in node.iterfind(f"{SPACE}interface")
            for ip in interface.iterfind(f"{SPACE}ip")
        }
        for node in root.iterfind(f"{SPACE}node")
    }
    assert made == LINE6
    ends = {
        link.get("client_id"): {str(end.get("client_id")).partition(":")[0] for end in link}
        for link in root.iterfind(f"{SPACE}link")
    }
    assert {name: nodes - {""} - {"None"} for name, nodes in ends.items()} == {
        network.name: set(network.nodes) for network in topology("line6").networks
    }


@pytest.mark.parametrize("colons", [False, True])
def test_the_inventory_of_a_manifest_plans(tmp_path: Path, colons: bool) -> None:
    made = inventory(tmp_path, manifest(colons=colons), "images/ubuntu24-hwe")
    assert made.returncode == 0, made.stderr
    path = tmp_path / "hosts.yml"
    path.write_text(made.stdout, encoding="utf-8")
    variables = read_inventory(path)
    hosts = hosts_of(variables, "")
    require_placed(hosts, [topology("line6")], "")
    router = next(host for host in hosts if host.name == "router")
    assert router.ports == {"net-mid": "a0:36:9f:00:03:00", "net-rx": "a0:36:9f:00:03:01"}
    assert variables["router"]["ansible_host"] == "pc3.example.net"
    planned = plan_of("quickstart", ["aqm=fq_codel"], RunOptions(on=f"ssh:{path}"))
    assert planned.plan.cells
    assert any("linux-generic-hwe-24.04" in line for line in planned.installs)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no XML: no element found"),
        (REQUEST, "tx-l4s has no login yet: is it a manifest, and are machines ready?"),
        ('<!DOCTYPE x [<!ENTITY a "aa">]><x>&a;</x>', "a manifest has no document type and no entities"),
        ("<rspec/>", "it has no nodes"),
    ],
)
def test_what_is_no_manifest_is_told(tmp_path: Path, text: str, told: str) -> None:
    made = inventory(tmp_path, text)
    assert made.returncode == 2
    assert made.stderr.startswith(f"error: manifest.xml: {told}")
    assert not made.stdout


def test_a_machine_without_an_address_is_told(tmp_path: Path) -> None:
    text = manifest().replace('mac_address="a0369f000000"', "")
    made = inventory(tmp_path, text)
    assert (made.returncode, made.stderr) == (
        2,
        "error: manifest.xml: tx-l4s has no hardware address on net-tx\n",
    )
    # without a kernel, hosts keep theirs
    assert json.loads(inventory(tmp_path, manifest()).stdout)["all"]["vars"] == {"l4sbench_kernel": "keep"}
