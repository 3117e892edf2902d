# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The lab, for tests that boot it."""

import pytest

from l4sbench.errors import TestbedError
from l4sbench.testbeds.virtual.lab import Lab


@pytest.fixture(scope="session")
def lab() -> Lab:
    """Return the lab that is built for these sources, or skip."""
    try:
        return Lab.locate()
    except TestbedError as error:
        pytest.skip(str(error))
