# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Booted nodes for tests, and commands on them."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

import polars as pl

from l4sbench.facts.faults import FaultKind
from l4sbench.testbeds import nodes
from tests.patience import PATIENCE_S, ran

_BUSY: Final = frozenset(
    kind.code
    for kind in (
        FaultKind.BUSY,
        FaultKind.LIMITED,
        FaultKind.RATE,
        FaultKind.ENDED_EARLY,
        FaultKind.SILENT_EARLY,
        FaultKind.LATE_EVENT,
        FaultKind.PACKETS_MISSING,
        FaultKind.DROPS,
    )
)


def check_only_busy(trials: pl.DataFrame) -> None:
    """Check that trials are valid, or invalid for want of time on a busy machine alone."""
    for status, faults, reasons in trials.select("status", "faults", "reasons").iter_rows():
        assert status in {"ok", "invalid"}, reasons
        assert set(faults) <= _BUSY, reasons


_TURNS: Final = Path(tempfile.gettempdir(), f"l4sbench-tests-{os.getuid()}.turns")
_SUITE: Final = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid())


@contextmanager
def _turn() -> Iterator[None]:
    """Wait until the nodes of other suites' tests on this machine are gone.

    Nodes come before all other processes, but not before other nodes, which would make them late.
    """
    own = f"{_SUITE} {os.getpid()}"
    deadline_s = time.monotonic() + 4 * PATIENCE_S
    while not _entered(own):
        assert time.monotonic() < deadline_s, f"others have nodes: {_TURNS.read_text()}"
        time.sleep(1)
    try:
        yield
    finally:
        with _turns() as users:
            users.remove(own)


def _entered(own: str) -> bool:
    """Add this process to those that have nodes, unless they are of another suite."""
    with _turns() as users:
        if any(not user.startswith(f"{_SUITE} ") for user in users):
            return False
        users.append(own)
    return True


@contextmanager
def _turns() -> Iterator[list[str]]:
    """Yield the processes that have nodes, as a list to change: suite and process id; none that is gone."""
    with _TURNS.open("a+", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        users = [line for line in file.read().splitlines() if Path("/proc", line.split()[1]).exists()]
        yield users
        file.seek(0)
        file.truncate()
        file.write("".join(f"{user}\n" for user in users))
        file.flush()


@contextmanager
def booted(
    name: str, bastion: tuple[str, int] | None = None, topology: str = "line6"
) -> Iterator[nodes.NodesStatus]:
    """Boot a lab of nodes when no other tests have one, and remove it with all its files afterwards."""
    with _turn(), _booted(name, bastion, topology) as up:
        yield up


@contextmanager
def _booted(name: str, bastion: tuple[str, int] | None, topology: str) -> Iterator[nodes.NodesStatus]:
    try:
        yield nodes.up(topology, name=name, bastion=bastion)
    finally:
        nodes.down(name)
        shutil.rmtree(nodes.status(name).folder)


class Reachable(Protocol):
    """Hosts that ssh knows by name."""

    @property
    def ssh_config(self) -> Path | None:
        """File with their configuration for ssh."""


def on(lab: Reachable, node: str, *argv: str, check: bool = True, timeout_s: float = PATIENCE_S) -> str:
    """Run a command on a node and return its output; with `check` it must succeed."""
    done = ran(["ssh", "-F", str(lab.ssh_config), node, *argv], limit_s=timeout_s)
    assert done.returncode == 0 or not check, done.stdout + done.stderr
    return done.stdout
