# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Booted nodes for the tests of the ssh testbed."""

import os
from collections.abc import Iterator

import pytest

from l4sbench.testbeds.nodes import NodesStatus
from l4sbench.testbeds.nodes.checks import node_checks
from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.nodes.hosts import booted


@pytest.fixture(scope="module")
def hosts(lab: Lab) -> Iterator[NodesStatus]:
    """Boot six nodes of line6; skip, with what is missing, where none can be booted."""
    missing = [check for check in node_checks() if not check.ok]
    if missing:
        pytest.skip("; ".join(f"{check.name}: {check.detail}" for check in missing))
    with booted(f"test-ssh-{os.getpid()}") as status:
        yield status
