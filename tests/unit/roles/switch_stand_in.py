# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A switch for tests: switch_shell.py under the names of the SDE's programs, and BF Runtime by tests/p4."""

import json
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from l4sbench.disk import assets
from tests.lab.playbooks import Played, play

PLAYBOOK = assets.folder("playbooks") / "switch.yml"
HERE = Path(__file__).parent


@dataclass(frozen=True)
class StandIn:
    """A switch: its folder."""

    home: Path

    @property
    def variables(self) -> dict[str, Any]:
        """Its variables in an inventory, without its node and ports."""
        return {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "tofino_enter": [str(self.home / "bin/enter"), "--command"],
            "tofino_folder": str(self.folder),
            "tofino_grpc": f"127.0.0.1:{self.port}",
        }

    @property
    def port(self) -> int:
        """BF Runtime's port."""
        return int((self.home / "grpc").read_text())

    @property
    def steps(self) -> list[str]:
        """Steps of the role so far."""
        return [str(call["step"]) for call in self._notes if call["name"] == "enter"]

    @property
    def calls(self) -> list[dict[str, Any]]:
        """Calls so far, without entering the SDE's environment."""
        return [call for call in self._notes if call["name"] != "enter"]

    @property
    def _notes(self) -> list[dict[str, Any]]:
        notes = self.home / "calls.jsonl"
        return [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []

    @property
    def folder(self) -> Path:
        """Where the role keeps its files."""
        return self.home / "work"

    @property
    def tables(self) -> dict[str, list[Any]]:
        """The tables after the last setup."""
        return dict(json.loads((self.home / "tables.json").read_text()))

    def count(self, **tables: Any) -> None:
        """Set what the hardware counts: by table, key and counters of entries."""
        (self.home / "counters.json").write_text(json.dumps(tables))

    def playbook(self, **given: Any) -> Played:
        """Run the playbook with these variables on this switch, as the host `router`."""
        inventory = self.home / "hosts.json"
        hosts = {"router": {**self.variables, "l4sbench_switch": True}, "tx-l4s": {}}
        inventory.write_text(json.dumps({"all": {"hosts": hosts}}))
        return play(PLAYBOOK, inventory, "-e", json.dumps(given))

    def listens(self) -> bool:
        """Return whether BF Runtime's port is open."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@contextmanager
def switch_in(home: Path) -> Iterator[StandIn]:
    """Make a switch without a program in a new folder, and end what runs on it afterwards.

    Skips the test where the stand-in cannot compile programs.
    """
    if shutil.which("cpp") is None:
        pytest.skip("no C preprocessor (package cpp)")
    client = home / "install/lib/python3/site-packages/bfrt_grpc"
    for folder in (home / "bin", home / "install/bin", client):
        folder.mkdir(parents=True)
    shell = home / "switch_shell.py"
    shutil.copy(HERE / "switch_shell.py", shell)
    shell.write_text(f"#!{sys.executable}\n{shell.read_text()}")
    programs = ("bin/enter", "bin/sudo", "bin/sysctl", "bin/p4_build.sh")
    for place in (*programs, "install/bin/bf_kdrv_mod_load", "install/bin/bf_switchd"):
        _linked(shell, home / place)
    (client / "__init__.py").touch()
    shutil.copy(HERE / "bfrt_client.py", client / "client.py")
    (home / "project").write_text(str(HERE.parents[2]))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        (home / "grpc").write_text(str(probe.getsockname()[1]))
    found = StandIn(home)
    try:
        yield found
    finally:
        found.playbook(l4sbench_stop=True)
        assert not found.listens()


def _linked(shell: Path, place: Path) -> None:
    """Give the stand-in's program another name; its home is where the file itself is."""
    place.write_text(
        shell.read_text().replace("HOME = Path(__file__).parent\n", f"HOME = Path({str(shell.parent)!r})\n")
    )
    place.chmod(0o755)
