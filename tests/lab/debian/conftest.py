# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Fixtures that skip tests, with the reason, on machines without the tools for Debian hosts."""

import pytest

from l4sbench.errors import TestbedError
from l4sbench.testbeds.nodes.checks import node_checks
from tests.lab.debian.disk import missing
from tests.lab.debian.emulated_disk import missing_tools
from tests.lab.debian.root import archive


@pytest.fixture(scope="session")
def able() -> None:
    """Skip if hosts on user-mode Linux need a missing tool or archive."""
    lacking = [f"{check.name}: {check.detail}" for check in node_checks(2, 768) if not check.ok]
    lacking += [f"{package} is not installed: tools/bootstrap.sh long" for package in missing()]
    _skip_for(lacking)


@pytest.fixture(scope="session")
def able_to_emulate() -> None:
    """Skip if emulated machines need a missing tool or archive."""
    _skip_for([f"{tool} is not installed: tools/bootstrap.sh long" for tool in missing_tools()])


def _skip_for(lacking: list[str]) -> None:
    """Skip if anything is lacking, or the archive."""
    try:
        archive()
    except TestbedError as error:
        lacking.append(str(error))
    if lacking:
        pytest.skip("; ".join(lacking))
