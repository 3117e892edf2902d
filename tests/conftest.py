# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What holds for every test."""

import os
import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def standard_input_keeps_blocking() -> Iterator[None]:
    """ssh makes an inherited standard input non-blocking, for all who share it; Ansible then refuses it."""
    before = os.get_blocking(0)
    yield
    after = os.get_blocking(0)
    os.set_blocking(0, before)
    assert after == before, "a command changed the standard input: give it stdin=subprocess.DEVNULL"


@pytest.fixture(autouse=True, scope="session")
def interrupts_are_heard() -> None:
    """A shell has what it starts in the background ignore interrupts, and tests interrupt what they start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
