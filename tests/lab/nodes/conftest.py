# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A fixture that skips tests where nodes cannot be booted."""

import pytest

from l4sbench.testbeds.nodes.checks import node_checks
from l4sbench.testbeds.virtual.lab import Lab


@pytest.fixture(scope="session")
def able(lab: Lab) -> None:
    """Skip, with what is missing, where no nodes can be booted."""
    missing = [check for check in node_checks() if not check.ok]
    if missing:
        pytest.skip("; ".join(f"{check.name}: {check.detail}" for check in missing))
