# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Inventories of tests: hosts that hold one node of a topology each."""

import json
from collections.abc import Mapping
from pathlib import Path

from l4sbench.topology import Topology


def hosts_for(place: Topology, prefix: str = "") -> dict[str, dict[str, object]]:
    """Return the variables of a host for each node, by name; hardware addresses end with node and port."""
    return {
        f"{prefix}{node.name}": {
            "l4sbench_node": node.name,
            "l4sbench_ports": {
                address.network: f"02:00:00:00:{number:02x}:{port:02x}"
                for port, address in enumerate(node.addresses)
            },
        }
        for number, node in enumerate(place.nodes)
    }


def write_inventory(folder: Path, hosts: Mapping[str, object]) -> Path:
    """Write an inventory with these hosts."""
    path = folder / "hosts.json"
    path.write_text(json.dumps({"all": {"hosts": hosts}}), encoding="utf-8")
    return path
