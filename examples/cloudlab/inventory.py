# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Write the inventory of machines that CloudLab made by profile.py, from their manifest.

    python3 inventory.py manifest.xml [KERNEL] > hosts.yml

KERNEL is what they shall run: keep (default), distribution, or images/NAME (l4sbench docs ssh kernels).
"""

import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

MOST_BYTES = 4 << 20


def hosts_of(manifest: str) -> dict[str, dict[str, object]]:
    """Return the variables of each machine of a manifest, by node.

    Raises:
        ValueError: it is no manifest, or lacks a login or an address of an interface.
    """
    if "<!DOCTYPE" in manifest or "<!ENTITY" in manifest:
        raise ValueError("a manifest has no document type and no entities")
    try:
        root = ET.fromstring(manifest)  # noqa: S314  (without entities, and of a limited size)
    except ET.ParseError as error:
        raise ValueError(f"no XML: {error}") from error
    found = {}
    for node in root.iterfind("{*}node"):
        name = node.get("client_id", "")
        login = node.find("{*}services/{*}login")
        if login is None:
            raise ValueError(
                f"{name or 'a node'} has no login yet: is it a manifest, and are machines ready?"
            )
        ports = {}
        for interface in node.iterfind("{*}interface"):
            network = interface.get("client_id", "").partition(":")[2]
            digits = interface.get("mac_address", "").replace(":", "").lower()
            if not re.fullmatch("[0-9a-f]{12}", digits):
                raise ValueError(f"{name} has no hardware address on {network or 'a network'}")
            ports[network] = ":".join(digits[at : at + 2] for at in range(0, 12, 2))
        found[name] = {
            "ansible_host": login.get("hostname"),
            "ansible_port": int(login.get("port") or 22),
            "ansible_user": login.get("username"),
            "l4sbench_node": name,
            "l4sbench_ports": ports,
        }
    if not found:
        raise ValueError("it has no nodes")
    return found


def main(arguments: list[str]) -> int:
    """Print the inventory: JSON, which is YAML, with addresses in quotes."""
    try:
        with Path(arguments[0]).open(encoding="utf-8") as file:
            hosts = hosts_of(file.read(MOST_BYTES))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"error: {arguments[0]}: {error}\n")
        return 2
    kernel = arguments[1] if len(arguments) > 1 else "keep"
    inventory = {"all": {"vars": {"l4sbench_kernel": kernel}, "hosts": hosts}}
    sys.stdout.write(json.dumps(inventory, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
