# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Programs that flent's tests run, by the name of the test (flent 2.3; `flent --list-tests`).

Almost all of them measure by netperf, which Debian has in non-free; these few do not. irtt takes the place of
netperf for round-trip times of UDP wherever it is installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class TestTools:
    """The programs of a test: at its sender, and the server at its receiver, without a port; empty: none."""

    __test__ = False  # not a test class

    sender: tuple[str, ...]
    receiver: tuple[str, ...] = ()

    def server(self, port: str) -> tuple[str, ...]:
        """Return the server's command; netperf meets its server at `port`, the others at their own."""
        if not self.receiver:
            return ()
        return (*self.receiver, "-p", port) if self.receiver[0] == "netserver" else self.receiver


WITHOUT_NETPERF: Final[Mapping[str, TestTools]] = {
    "ping": TestTools(("ping", "irtt"), ("irtt", "server")),
    "udp_flood": TestTools(("ping", "iperf"), ("iperf", "-s", "-u")),
}
"""Tests that need no netperf."""

_BY_NETPERF: Final = TestTools(("ping", "netperf"), ("netserver", "-D", "-4"))


def tools_of(test: str) -> TestTools:
    """Return the programs of a test; of one that is not listed above, netperf's."""
    return WITHOUT_NETPERF.get(test, _BY_NETPERF)
