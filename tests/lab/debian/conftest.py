# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Debian hosts for tests: skipped, with the reason, where this machine cannot have them."""

import pytest

from l4sbench.errors import TestbedError
from l4sbench.testbeds.nodes.checks import node_checks
from tests.lab.debian.disk import missing
from tests.lab.debian.root import archive


@pytest.fixture(scope="session", autouse=True)
def able() -> None:
    """Skip where something is missing."""
    lacking = [f"{check.name}: {check.detail}" for check in node_checks(2, 768) if not check.ok]
    lacking += [f"{package} is not installed: tools/bootstrap.sh dev" for package in missing()]
    try:
        archive()
    except TestbedError as error:
        lacking.append(str(error))
    if lacking:
        pytest.skip("; ".join(lacking))
