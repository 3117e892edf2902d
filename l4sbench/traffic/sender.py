# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Senders: programs around a published stack, each one folder (`l4sbench.catalog.senders`).

A group names its sender where others name a kind of traffic. All senders have the same arguments, those of
docs/exec.md, so that commands follow from the group alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from l4sbench.traffic.exec import EXEC, json_path, measured_by_packets, program_argv, qlog_path
from l4sbench.traffic.send import CODEPOINT, FlowCommands, Ready, Send, shared
from l4sbench.traffic.tools import seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from l4sbench.errors import Problem
    from l4sbench.traffic.send import Asked, Flow

PROGRAM: Final = "sender:"
"""Beginning of the name under which the catalog has a sender's program; no file of a user's has it."""


@dataclass(frozen=True, kw_only=True)
class Sender(Send):
    """Packets of a sender; they are measured at the bottleneck."""

    name = ""
    about = "a sender by its name, such as quinn (`l4sbench list senders`)"
    transports = ("tcp", "udp")
    own_tool = EXEC
    output = "txt"
    has_controls = True

    codepoint: str | None = shared(CODEPOINT, optional=True)

    def commands(self, flow: Flow, tool: str) -> FlowCommands:
        """Return the commands of both ends, by the contract that all senders keep."""
        del tool
        place = ("--address", flow.address, "--port", str(flow.port))
        how = ("--cc", flow.own_cc, "--codepoint", self.codepoint or "")
        log = ("--qlog", qlog_path(flow)) if flow.has_qlog else ()
        left = ("--json", json_path(flow, "sender"), *log)
        sends = ("send", *place, "--seconds", seconds(flow.length), *how, *left)
        receives = ("receive", *place, "--json", json_path(flow, "receiver"))
        program = f"{PROGRAM}{flow.sender}"
        return FlowCommands(
            program_argv(flow, program, sends), program_argv(flow, program, receives), Ready.OWN
        )

    def problems(self, asked: Asked) -> Iterator[Problem]:
        """Yield the problem of a trial without packets."""
        yield from measured_by_packets(asked, "a sender")
