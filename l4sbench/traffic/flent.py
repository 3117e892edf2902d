# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Tests of flent, by name (flent 2.3; `flent --list-tests`). They run on hosts, on the wall clock.

Almost all of them measure by netperf, which Debian has in non-free; a few do not. irtt takes the place of
netperf for round-trip times of UDP wherever it is installed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from l4sbench.errors import Problem
from l4sbench.traffic.family import Family
from l4sbench.traffic.send import FOLDER, FlowCommands, HostTools, Ready, Send, factor
from l4sbench.traffic.tools import SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from l4sbench.traffic.send import Asked, Flow

FLENT: Final = "flent"

_NETSERVER: Final = "netserver"
_IPERF: Final = "iperf"
WITHOUT_NETPERF: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "ping": (("ping", "irtt"), ("irtt", "server")),
    "udp_flood": (("ping", _IPERF), (_IPERF, "-s", "-u")),
}
"""Tests that need no netperf: the programs at the sender, and the command of the server."""
_BY_NETPERF: Final = (("ping", "netperf"), (_NETSERVER, "-D"))
_TEST: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, kw_only=True)
class Flent(Send):
    """One test of flent between the group's nodes."""

    name = FLENT
    about = "one of its tests, on hosts"
    own_tool = FLENT
    hosts_only = True
    output = "txt"
    close_s = 40.0  # a large program needs seconds to start and to write what it measured

    test: str = factor("str", "send: flent: name of its test, such as ping.")

    def commands(self, flow: Flow, tool: str) -> FlowCommands:
        """Return the commands of one test, without the seconds that flent leaves before and after it.

        Its data file has the flow's name as title.
        """
        del tool
        port, seconds = str(flow.port), str(max(1, flow.length.ns // SECOND_NS))
        version = "-6" if flow.family is Family.IPV6 else "-4"
        to = (version, "-H", flow.address, "--netperf-control-port", port)
        how = ("-l", seconds, "-d", "0", "-t", flow.id, "-D", FOLDER, "-r", "/dev/null")
        _, server = self._programs
        # netperf meets its server at this port, the others at their own
        by_tcp = server[0] == _NETSERVER
        at: tuple[str, ...] = (version, "-p", port) if by_tcp else ()
        if server[0] == _IPERF and flow.family is Family.IPV6:
            at = ("-V",)
        ready = Ready.LISTENS if by_tcp else Ready.AT_ONCE
        return FlowCommands((FLENT, self.test, *to, *how), (*server, *at), ready)

    def problems(self, asked: Asked) -> Iterator[Problem]:
        """Yield the problem of a text that is no name of a test."""
        if not _TEST.fullmatch(self.test):
            message = f"{self.test!a} is not a valid name of a test of flent"
            yield Problem("", f"{asked.group}.test", message, "flent --list-tests prints them")

    @property
    def host_tools(self) -> HostTools:
        """Programs of the test."""
        sender, server = self._programs
        return HostTools((FLENT, *sender), server[:1], f"flent's {self.test}")

    @property
    def _programs(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return WITHOUT_NETPERF.get(self.test, _BY_NETPERF)
