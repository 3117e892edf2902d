# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Fixtures that skip tests, with the reason, on machines without the tools for Debian hosts."""

import pytest

from l4sbench.errors import TestbedError
from l4sbench.testbeds.nodes.checks import node_checks
from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.debian.disk import debian_lab, missing
from tests.lab.debian.emulated_disk import missing_tools
from tests.lab.debian.root import archive


@pytest.fixture(scope="session")
def able() -> None:
    """Skip if hosts on user-mode Linux need a missing tool or archive."""
    lacking = [f"{check.name}: {check.detail}" for check in node_checks(2, 768) if not check.ok]
    lacking += [f"{package} is not installed: tools/bootstrap.sh long" for package in missing()]
    try:
        archive()
    except TestbedError as error:
        lacking.append(str(error))
    if lacking:
        pytest.skip("; ".join(lacking))


@pytest.fixture(scope="session")
def lab(lab: Lab, able: None) -> Lab:
    """Return the lab whose kernel boots Debian hosts, built for these sources."""
    return debian_lab()


@pytest.fixture(scope="session")
def able_to_emulate() -> None:
    """Skip if emulated machines need a missing tool."""
    if lacking := missing_tools():
        pytest.skip(f"emulated machines need {', '.join(lacking)}: tools/bootstrap.sh long")
