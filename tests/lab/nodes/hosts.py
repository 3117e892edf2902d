# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Booted nodes for tests, and commands on them."""

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from l4sbench.testbeds import nodes
from tests.patience import PATIENCE_S

_BUSY = re.compile(
    r"(\S+: (limited by its |its host was too busy: |sent |step: \w+ changed \d+ ms late|"
    r"its last packet came |the (sender|receiver) ran |\d+ packets (are missing from|dropped at) )"
    r".*?(; |$))*"
)


def only_busy(reasons: str | None) -> bool:
    """Return whether a trial is valid, or invalid for want of time on a busy machine alone."""
    return _BUSY.fullmatch(reasons or "") is not None


_TURN: Final = Path(tempfile.gettempdir(), f"l4sbench-tests-{os.getuid()}.lock")
_held: set[str] = set()


@contextmanager
def _turn(name: str) -> Iterator[None]:
    """Wait until the nodes of other processes' tests are gone.

    Nodes come before all other processes, except those of other nodes: in real time they would be late.
    """
    with _TURN.open("w") as lock:
        if not _held:
            fcntl.flock(lock, fcntl.LOCK_EX)
        _held.add(name)
        try:
            yield
        finally:
            _held.discard(name)


@contextmanager
def booted(
    name: str, bastion: tuple[str, int] | None = None, topology: str = "line6"
) -> Iterator[nodes.NodesStatus]:
    """Boot a lab of nodes when no other tests have one, and remove it with all its files afterwards."""
    with _turn(name), _booted(name, bastion, topology) as up:
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
    done = subprocess.run(
        ["ssh", "-F", str(lab.ssh_config), node, *argv],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0 or not check, done.stdout + done.stderr
    return done.stdout
