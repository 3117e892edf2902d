# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Virtual machines for tests: skipped, with the reason, where this machine cannot have them."""

import pytest

from tests.lab.vms.image import missing_tools


@pytest.fixture(scope="session", autouse=True)
def able() -> None:
    """Skip where QEMU and the like are not installed."""
    if missing := missing_tools():
        pytest.skip(f"virtual machines need {', '.join(missing)}: tools/bootstrap.sh long")
