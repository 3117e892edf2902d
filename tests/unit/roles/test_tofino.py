# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The role tofino against a stand-in of a switch's shell, which checks every command and file that it gets.

Ansible, the role's program on the switch and control.py are the real ones; the SDE's programs are
switch_shell.py, and BF Runtime is tests/p4's.
"""

import ast
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from l4sbench import assets
from tests.lab.playbooks import ON_SWITCHES, Played, play

NCF = assets.folder("p4") / "ncf"
PLAYBOOK = assets.folder("playbooks") / "switch.yml"
HERE = Path(__file__).parent
CONFIG: dict[str, Any] = json.loads((NCF / "ports.json").read_text(encoding="utf-8"))
STEPS = [
    "tofino : Copy the program, its control part and its configuration",
    "tofino : Build the program",
    "tofino : Load the program",
    "tofino : Set up ports, queues and thresholds, and keep the counters clear",
]
END = "tofino : End the control part and bf_switchd"


@dataclass(frozen=True)
class StandIn:
    """A switch: its folder, and the inventory that names it."""

    home: Path
    inventory: Path

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
        """The driver's tables after the last setup."""
        return dict(json.loads((self.home / "tables.json").read_text()))

    def playbook(self, **given: Any) -> Played:
        """Run the playbook, with the configuration of the example unless another one is given."""
        given = {"l4sbench_switch_configs": {"router": CONFIG}, **given}
        return play(PLAYBOOK, self.inventory, "-e", json.dumps(given))

    def listens(self) -> bool:
        """Return whether BF Runtime's port is open."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", int((self.home / "grpc").read_text()))) == 0


@pytest.fixture
def switch(tmp_path: Path) -> Iterator[StandIn]:
    """A switch without a program."""
    if shutil.which("cpp") is None:
        pytest.skip("no C preprocessor (package cpp)")
    home = tmp_path / "sde"
    client = home / "install/lib/python3/site-packages/bfrt_grpc"
    for folder in (home / "bin", home / "install/bin", client):
        folder.mkdir(parents=True)
    shell = home / "switch_shell.py"
    shutil.copy(HERE / "switch_shell.py", shell)
    shell.write_text(f"#!{sys.executable}\n{shell.read_text()}")
    for place in ("bin/enter", "bin/p4_build.sh", "install/bin/bf_kdrv_mod_load", "install/bin/bf_switchd"):
        linked(shell, home / place)
    (client / "__init__.py").touch()
    shutil.copy(HERE / "bfrt_client.py", client / "client.py")
    (home / "project").write_text(str(HERE.parents[2]))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (home / "grpc").write_text(str(port))
    variables = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "l4sbench_switch": True,
        "tofino_enter": [str(home / "bin/enter")],
        "tofino_folder": str(home / "work"),
        "tofino_grpc": f"127.0.0.1:{port}",
    }
    inventory = tmp_path / "hosts.json"
    inventory.write_text(json.dumps({"all": {"hosts": {"router": variables, "tx-l4s": {}}}}))
    found = StandIn(home, inventory)
    try:
        yield found
    finally:
        found.playbook(l4sbench_stop=True)
        assert not found.listens()


def linked(shell: Path, place: Path) -> None:
    """Give the stand-in's program another name; its home is where the file itself is."""
    place.write_text(
        shell.read_text().replace("HOME = Path(__file__).parent\n", f"HOME = Path({str(shell.parent)!r})\n")
    )
    place.chmod(0o755)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def tables_of(switch: StandIn) -> dict[str, list[Any]]:
    """Return the driver's tables once the control part has written them."""
    deadline = time.monotonic() + 300
    while not (switch.home / "tables.json").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    return switch.tables


def test_a_program_is_built_loaded_and_controlled_once(switch: StandIn) -> None:
    first = switch.playbook()
    assert first.changed["router"] == STEPS
    names = [call["name"] for call in switch.calls]
    driver = [] if Path("/sys/module/bf_kdrv").exists() else ["bf_kdrv_mod_load"]
    assert names == ["p4_build.sh", *driver, "bf_switchd"]
    # the compiler got this very program
    assert switch.calls[0]["files"] == {name: sha256(NCF / name) for name in ("ncf.p4", "wire.h")}
    assert switch.calls[-1]["program"] == "ncf"
    assert switch.calls[-1]["argv"][3] == str(switch.folder / "ncf.conf")
    assert json.loads((switch.folder / "ports.json").read_text()) == CONFIG
    assert (switch.folder / "control.py").read_bytes() == (NCF / "control.py").read_bytes()
    assert switch.listens()
    # and the switch got ports, shaping, thresholds and mirror sessions from the configuration
    tables = tables_of(switch)
    assert [entry[0] for entry in tables["$PORT"]] == [128, 136]
    assert [entry[1]["max_rate"] for entry in tables["tf1.tm.port.sched_shaping"]] == [200_000]
    assert [entry[2]["guaranteed_cells"] for entry in tables["tf1.tm.queue.buffer"]] == [625, 2500]
    assert [entry[1]["$ucast_egress_port"] for entry in tables["$mirror.cfg"]] == [128, 136]
    calls = len(switch.calls)
    again = switch.playbook()
    assert not any(again.changed.values())
    assert len(switch.calls) == calls
    ended = switch.playbook(l4sbench_stop=True)
    assert ended.changed["router"] == [END]
    assert not switch.listens()
    assert not any(switch.playbook(l4sbench_stop=True).changed.values())
    assert first.executed | ended.executed >= ON_SWITCHES


@pytest.mark.long
def test_another_cell_changes_the_control_part_alone(switch: StandIn) -> None:
    switch.playbook()
    tables_of(switch)
    (switch.home / "tables.json").unlink()
    ports = [CONFIG["ports"][0], {**CONFIG["ports"][1], "rate_kbps": 100_000}]
    changed = switch.playbook(l4sbench_switch_configs={"router": {**CONFIG, "ports": ports}})
    assert changed.changed["router"] == [STEPS[0], STEPS[3]]
    assert [entry[1]["max_rate"] for entry in tables_of(switch)["tf1.tm.port.sched_shaping"]] == [100_000]
    assert [call["name"] for call in switch.calls].count("bf_switchd") == 1


def failure(switch: StandIn, **given: Any) -> str:
    """Return what is said when the playbook fails."""
    with pytest.raises(AssertionError) as failed:
        switch.playbook(**given)
    return str(failed.value).replace("\\n", "\n")


@pytest.mark.long
def test_failures_are_told_in_the_words_of_the_switch(switch: StandIn) -> None:
    (switch.home / "broken").touch()
    assert "ended with code 64" in (told := failure(switch))
    assert "error: table classify: could not place" in told
    (switch.home / "broken").unlink()
    wrong = {**CONFIG, "rho": 300}
    told = failure(switch, l4sbench_switch_configs={"router": wrong})
    assert "control.py ended with code 2" in told
    assert "300 is not a valid rho; choose from 0 to 254" in told
    # what was done before the failure is not done again
    assert switch.playbook().changed["router"] == [STEPS[0], STEPS[3]]


def test_a_switch_in_use_is_left_alone(switch: StandIn) -> None:
    with socket.create_server(("127.0.0.1", int((switch.home / "grpc").read_text()))):
        assert "another bf_switchd serves 127.0.0.1" in failure(switch)
    assert "bf_switchd" not in [call["name"] for call in switch.calls]


def test_it_runs_on_python_3_8() -> None:
    ast.parse((assets.folder("roles") / "tofino/files/switch.py").read_text(), feature_version=(3, 8))


@pytest.mark.parametrize("name", ["../x", ".ssh", "a/b"])
def test_files_come_into_one_folder(tmp_path: Path, name: str) -> None:
    program = assets.folder("roles") / "tofino/files/switch.py"
    ended = subprocess.run(
        [sys.executable, program, "put", tmp_path / "there"],
        input=json.dumps({name: ""}),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ},
    )
    assert ended.returncode == 1
    assert f"{name!r} is not a valid name of a file" in ended.stderr
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "there"]
