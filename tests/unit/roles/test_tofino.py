# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The role tofino against a stand-in of a switch's shell, which checks every command and file that it gets.

Ansible, the role's program on the switch and control.py are the real ones; the SDE's programs are
switch_shell.py, and BF Runtime is tests/p4's (switch_stand_in.py).
"""

import ast
import hashlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collectors.queues import parse_tc_text
from l4sbench.disk import assets
from l4sbench.testbeds.ssh.results import unpack
from tests.lab.playbooks import ON_SWITCHES, Played
from tests.patience import PATIENCE_S, ran
from tests.unit.roles.switch_stand_in import StandIn, switch_in

NCF = assets.folder("p4") / "ncf"
EXAMPLE: dict[str, Any] = json.loads((NCF / "ports.json").read_text(encoding="utf-8"))
FRONTS = {128: "31/0", 136: "32/0"}
"""Front ports of the example's, by which a run names them; the stand-in's own map has the numbers."""
CONFIG: dict[str, Any] = {
    **EXAMPLE,
    "ports": [
        {**port, "port": FRONTS[port["port"]], **more}
        for port, more in zip(EXAMPLE["ports"], ({}, {"name": "net-rx"}), strict=True)
    ],
    "routes": {to: {**route, "port": FRONTS[route["port"]]} for to, route in EXAMPLE["routes"].items()},
    "sample_ms": 50,
}
STEPS = [
    "tofino : Copy the program, its control part and its configuration",
    "tofino : Build the program",
    "tofino : Load the program",
    "tofino : Set up ports, queues and thresholds, and keep the counters clear",
]
END = "tofino : End the control part and bf_switchd"


@pytest.fixture
def switch(tmp_path: Path) -> Iterator[StandIn]:
    """A switch without a program."""
    with switch_in(tmp_path / "sde") as found:
        yield found


def load(switch: StandIn, config: dict[str, Any] = CONFIG, **given: Any) -> Played:
    """Load the program with a configuration."""
    return switch.playbook(l4sbench_switch_configs={"router": config}, **given)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def tables_of(switch: StandIn) -> dict[str, list[Any]]:
    """Return the driver's tables once the control part has written them."""
    deadline = time.monotonic() + PATIENCE_S
    while not (switch.home / "tables.json").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    return switch.tables


def test_a_program_is_built_loaded_and_controlled_once(switch: StandIn, tmp_path: Path) -> None:
    first = load(switch)
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
    again = load(switch)
    assert not any(again.changed.values())
    assert len(switch.calls) == calls
    trial = a_trial(switch, tmp_path)
    ended = switch.playbook(l4sbench_stop=True)
    assert ended.changed["router"] == [END]
    assert not switch.listens()
    assert not any(switch.playbook(l4sbench_stop=True).changed.values())
    assert first.executed | trial | ended.executed >= ON_SWITCHES


def a_trial(switch: StandIn, folder: Path) -> frozenset[str]:
    """Let time pass as a trial does, check what was sampled, and return the files that were executed."""
    # port 136 is the first of group 2 of its pipe
    queues = [[2, 0, {"usage_cells": 0}], [2, 1, {"usage_cells": 50, "drop_count_packets": 7}]]
    switch.count(**{"tf1.tm.counter.queue": queues, "$PORT_STAT": [[136, {"$OctetsTransmittedTotal": 9}]]})
    begun = switch.playbook(l4sbench_switch_steps=["begin"])
    start_ns = time.time_ns()
    samples = switch.folder / "samples-net-rx.txt"
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and (
        not samples.exists() or int(samples.read_text().rpartition("@ ")[2].split()[0]) < start_ns + 10**9
    ):
        time.sleep(0.2)
    part = {"node": "router", "start_ns": str(start_ns), "end_ns": str(start_ns + 10**9)}
    part["results"] = str(folder / "router.tar.gz")
    fetched = switch.playbook(l4sbench_switch_steps=["results"], l4sbench_switch_trials={"router": part})
    raw = folder / "raw"
    raw.mkdir()
    files = {"tc-net-rx.txt", "switch.json"}
    unpack(folder / "router.tar.gz", "router", ("router",), raw, files=files)
    assert {path.name for path in (raw / "router").iterdir()} == files
    rows = list(parse_tc_text((raw / "router/tc-net-rx.txt").read_text()))
    assert rows
    assert all(0 <= float(str(row["t_ms"])) <= 1000 for row in rows)
    assert {(row["elephants_backlog"], row["drops"]) for row in rows} == {(4000, 0)}
    shaper, queue = json.loads((raw / "router/switch.json").read_text())
    assert (shaper["rate"], queue["options"]["limit"]) == (25_000_000, 250_000)
    return begun.executed | fetched.executed


@pytest.mark.long
def test_another_cell_changes_the_control_part_alone(switch: StandIn) -> None:
    load(switch)
    tables_of(switch)
    (switch.home / "tables.json").unlink()
    ports = [CONFIG["ports"][0], {**CONFIG["ports"][1], "rate_kbps": 100_000}]
    changed = load(switch, {**CONFIG, "ports": ports})
    assert changed.changed["router"] == [STEPS[0], STEPS[3]]
    assert [entry[1]["max_rate"] for entry in tables_of(switch)["tf1.tm.port.sched_shaping"]] == [100_000]
    assert [call["name"] for call in switch.calls].count("bf_switchd") == 1


def controlling(switch: StandIn) -> list[int]:
    """Return the processes of the control part, of which one samples."""
    program = str(switch.folder / "control.py").encode()
    found = [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if program in path.read_bytes().split(b"\0")
    ]
    assert len(found) == 2
    return found


def failure(switch: StandIn, config: dict[str, Any] = CONFIG, **given: Any) -> str:
    """Return what is said when the playbook fails."""
    with pytest.raises(AssertionError) as failed:
        load(switch, config, **given)
    return str(failed.value).replace("\\n", "\n")


@pytest.mark.long
def test_failures_are_told_in_the_words_of_the_switch(switch: StandIn) -> None:
    (switch.home / "broken").touch()
    assert "ended with code 64" in (told := failure(switch))
    assert "error: table classify: could not place" in told
    (switch.home / "broken").unlink()
    told = failure(switch, {**CONFIG, "rho": 300})
    assert "control.py ended with code 2" in told
    assert "300 is not a valid rho; choose from 0 to 254" in told
    # what was done before the failure is not done again
    assert load(switch).changed["router"] == [STEPS[0], STEPS[3]]
    # a control part that ended is noticed before a trial, with its last words
    for pid in controlling(switch):
        os.kill(pid, signal.SIGKILL)
    assert "control.py has ended: ncf: 2 ports are set up" in failure(switch, l4sbench_switch_steps=["begin"])
    assert load(switch).changed["router"] == [STEPS[3]]


def test_a_build_is_judged_by_its_files(switch: StandIn) -> None:
    # words that the SDE's script does not know print its usage, and it ends with 0
    told = failure(switch, tofino_build=["p4_build.sh", "--with-p4c=bf-p4c"])
    assert "p4_build.sh made no" in told
    assert "usage: p4_build.sh" in told


def test_an_environment_that_takes_a_string_gets_no_words_that_it_would_change(switch: StandIn) -> None:
    assert "has characters that" in failure(switch, tofino_folder='/tmp/a"b')
    assert not switch.steps


def test_a_switch_in_use_is_left_alone(switch: StandIn) -> None:
    with socket.create_server(("127.0.0.1", int((switch.home / "grpc").read_text()))):
        assert "another bf_switchd serves 127.0.0.1" in failure(switch)
    assert "bf_switchd" not in [call["name"] for call in switch.calls]


@pytest.mark.parametrize("file", [assets.folder("roles") / "tofino/files/switch.py", NCF / "control.py"])
def test_it_runs_on_python_3_8(file: Path) -> None:
    ast.parse(file.read_text(), feature_version=(3, 8))


@pytest.mark.parametrize("name", ["../x", ".ssh", "a/b"])
def test_files_come_into_one_folder(tmp_path: Path, name: str) -> None:
    program = assets.folder("roles") / "tofino/files/switch.py"
    ended = ran([sys.executable, program, "put", tmp_path / "there"], given=json.dumps({name: ""}))
    assert ended.returncode == 1
    assert f"{name!r} is not a valid name of a file" in ended.stderr
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "there"]
