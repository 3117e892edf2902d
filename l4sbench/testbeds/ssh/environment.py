# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Ansible's presence, and the settings of every Ansible command of ours."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Final

from l4sbench.disk import assets
from l4sbench.errors import TestbedError

READERS: Final = "yaml,ini,toml"
"""Ansible's readers of inventories that execute nothing, unlike those for scripts and plugins."""


def require() -> None:
    """Raise TestbedError when the extra `ansible` is not installed."""
    lacking = [name for name in ("ansible", "ansible_runner") if importlib.util.find_spec(name) is None]
    if lacking:
        raise TestbedError(
            f"{' and '.join(lacking).replace('_', '-')} are required for hosts by ssh but not installed",
            assets.install_command("ansible"),
        )


def environment() -> dict[str, str]:
    """Return the environment of every Ansible command of ours; a user's own ansible.cfg still applies."""
    bin_folder = str(Path(sys.executable).parent)
    defaults = {
        "ANSIBLE_ROLES_PATH": str(assets.folder("roles")),
        "ANSIBLE_PIPELINING": "True",
        "ANSIBLE_SSH_RETRIES": "2",
        "ANSIBLE_TIMEOUT": "30",
        "ANSIBLE_LOCALHOST_WARNING": "False",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "False",
        "ANSIBLE_DEPRECATION_WARNINGS": "False",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_CONFIG": str(_settings()),
    }
    return {
        **{name: os.environ.get(name, value) for name, value in defaults.items()},
        "PATH": f"{bin_folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "ANSIBLE_INVENTORY_ENABLED": READERS,
        # otherwise what a host reports as facts would replace variables of the inventory
        "ANSIBLE_INJECT_FACT_VARS": "False",
    }


def _settings() -> Path:
    """Return the user's or the system's ansible.cfg, or ours.

    Ansible itself prefers one in the current folder, which may come with a matrix from someone else and can
    name plugins to execute.
    """
    own = (Path(os.path.expanduser("~/.ansible.cfg")), Path("/etc/ansible/ansible.cfg"))  # noqa: PTH111  raises nothing
    return next((path for path in own if path.is_file()), assets.folder("playbooks") / "ansible.cfg")
