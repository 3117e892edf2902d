# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Booted nodes for tests, and commands on them."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

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


@contextmanager
def booted(
    name: str, bastion: tuple[str, int] | None = None, topology: str = "line6"
) -> Iterator[nodes.NodesStatus]:
    """Boot a lab of nodes, and remove it with all its files afterwards."""
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
