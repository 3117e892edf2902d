# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Kernel, disk, cards and boot loader of a slice's machines, as they print them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.testbeds.ssh import ansible
from l4sbench.testbeds.ssh.inventory import read_inventory

if TYPE_CHECKING:
    from collections.abc import Mapping

LIMIT_S: Final = 300.0
MOST_BYTES: Final = 1 << 20


def looks(inventory: Path) -> Mapping[str, str]:
    """Return what every host that answers prints; of others why it does not.

    Raises:
        InputError: the inventory is invalid.
        TestbedError: Ansible is not installed.
    """
    names = sorted(read_inventory(inventory))
    with tempfile.TemporaryDirectory(prefix="l4sbench-") as folder:
        played = ansible.play("look.yml", inventory, names, {"l4sbench_results": folder}, limit_s=LIMIT_S)
        seen = {}
        for name in names:
            path = Path(folder, f"{name}.txt")
            if path.is_file() and not path.is_symlink():
                with path.open(encoding="utf-8", errors="replace") as file:
                    seen[name] = file.read(MOST_BYTES)
            else:
                seen[name] = played.hosts[name].reason("it printed nothing") + "\n"
    return seen
