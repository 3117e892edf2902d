# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Programs of the user's own that send and receive flows, by their commands (`l4sbench.disk.executables`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from l4sbench.disk.executables import OF_CODEPOINT, OF_SENDER, command_of
from l4sbench.errors import Problem
from l4sbench.traffic.send import (
    CODEPOINT,
    CODEPOINTS,
    EXECUTABLE,
    FOLDER,
    FlowCommands,
    Ready,
    Send,
    factor,
    shared,
)
from l4sbench.traffic.tools import seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from l4sbench.traffic.send import Asked, Flow

EXEC: Final = "exec"


@dataclass(frozen=True, kw_only=True)
class Exec(Send):
    """Packets of a program of the user's own, by UDP or TCP; they are measured at the bottleneck."""

    name = EXEC
    about = "programs of your own"
    transports = ("tcp", "udp")
    own_tool = EXEC
    output = "txt"

    exec_sender: str = factor(
        "str",
        "send: exec: command of the sender: the path of a static program, relative to the matrix, and its "
        "arguments, in which {address}, {port}, {seconds} and others stand for what the flow has.",
        refers="program",
        source="l4sbench docs exec",
    )
    exec_receiver: str | None = factor(
        "str",
        "send: exec: command of the receiver, likewise; it runs from before the flow to the trial's end.",
        optional=True,
        refers="program",
        source="l4sbench docs exec",
    )
    codepoint: str | None = shared(CODEPOINT, optional=True)

    def commands(self, flow: Flow, tool: str) -> FlowCommands:
        """Return the commands of both programs, with all placeholders filled in."""
        del tool
        code = str(CODEPOINTS.index(self.codepoint)) if self.codepoint else ""
        values = {
            "address": flow.address,
            "port": str(flow.port),
            "seconds": seconds(flow.length),
            "flow": flow.id,
            "index": str(flow.index),
            **({"codepoint": self.codepoint, "ecn": code} if self.codepoint else {}),
        }

        def argv(side: str, text: str | None, network: str) -> tuple[str, ...]:
            if text is None:
                return ()
            command, json = command_of(text), json_path(flow, side)
            own = {"interface": f"@{network}", "json": json, "qlog": qlog_path(flow)}
            filled = command.filled({**values, **own})
            return program_argv(flow, command.program, filled)

        at_sender, at_receiver = flow.networks
        return FlowCommands(
            argv("sender", self.exec_sender, at_sender),
            argv("receiver", self.exec_receiver, at_receiver),
            Ready.OWN,
        )

    def problems(self, asked: Asked) -> Iterator[Problem]:
        """Yield the problems of a trial without packets, and of placeholders without a value."""
        yield from measured_by_packets(asked, f"send: {EXEC}")
        for name, text in (("exec_sender", self.exec_sender), ("exec_receiver", self.exec_receiver)):
            if text is not None and self.codepoint is None and command_of(text).placeholders & OF_CODEPOINT:
                message = "has {ecn} or {codepoint}, and the group states no codepoint"
                yield Problem("", f"{asked.group}.{name}", message, f"write {asked.group}.codepoint: ect1")
        if self.exec_receiver is not None and command_of(self.exec_receiver).placeholders & OF_SENDER:
            message = "has {qlog}, and only the sender's qlog is read"
            yield Problem("", f"{asked.group}.exec_receiver", message, "write it in exec_sender")


def program_argv(flow: Flow, program: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command of a program that nodes are given for the trial, by its name in the catalog."""
    return (f"{EXECUTABLE}{flow.handle(program)}", *arguments)


def json_path(flow: Flow, side: str) -> str:
    """Return the path of a program's JSON as a word of its command."""
    return f"{FOLDER}/{json_file(flow.id, side)}"


def qlog_path(flow: Flow) -> str:
    """Return the path of a sender's qlog as a word of its command."""
    return f"{FOLDER}/{qlog_file(flow.id)}"


def measured_by_packets(asked: Asked, what: str) -> Iterator[Problem]:
    """Yield the problem of a trial that keeps no packets, by which flows of such programs are measured."""
    if not asked.captured:
        message = f"{what} is measured by packets, and this cell keeps none"
        yield Problem("", f"{asked.group}.send", message, "write capture: headers")


def json_file(flow: str, side: str) -> str:
    """Return the raw file in which a program leaves its JSON; `side`: sender, receiver."""
    return f"flow-{flow}.{side}.json"


def qlog_file(flow: str) -> str:
    """Return the raw file in which a sender leaves its qlog."""
    return f"flow-{flow}.sender.sqlog"
