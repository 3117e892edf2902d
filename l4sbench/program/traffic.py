# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Command lines of the traffic tools. Every flow is a process of its own with a port of its own.

`lean` is lab-traffic (docs/guest.md), made for virtual time. `iperf3` is the reference that the ecosystem
knows; it takes whole seconds, and several flows of a group are several processes rather than `-P`, so that
both tools have the same flows under the same names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from l4sbench.errors import InputError, Problem

if TYPE_CHECKING:
    from l4sbench.units import Duration

FIRST_PORT = 5001
"""Port of the first flow; the others count on in the order of the matrix."""
INTERVAL_S = 1
"""Length of the intervals in the tools' results, as published."""


@dataclass(frozen=True)
class Flow:
    """What a traffic tool needs to know of one flow."""

    id: str
    address: str
    port: int
    kernel_cc: str
    length: Duration


@dataclass(frozen=True)
class FlowCommands:
    """Sender and receiver of one flow."""

    sender: tuple[str, ...]
    receiver: tuple[str, ...]


def commands(tool: str, flow: Flow) -> FlowCommands:
    """The argument lists of a flow's two ends; the testbed resolves the programs' places.

    Raises:
        InputError: no such tool, or iperf3 is asked for a part of a second.
    """
    if tool == "lean":
        return _lean(flow)
    if tool == "iperf3":
        return _iperf3(flow)
    raise InputError([Problem("", "traffic.tool", f"no traffic tool {tool}; there are lean, iperf3")])


def whole_seconds(length: Duration) -> bool:
    """Whether iperf3 can run this long."""
    return length.ns % 1_000_000_000 == 0


def _seconds(length: Duration) -> str:
    whole, rest = divmod(length.ns, 1_000_000_000)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")


def _lean(flow: Flow) -> FlowCommands:
    # No low-water mark: lab-traffic sleeps in one system call anyway, and a mark would make the kernel
    # measure the reader as slower than it is and keep the window small.
    common = ("--port", str(flow.port), "--seconds", _seconds(flow.length), "--interval", str(INTERVAL_S))
    return FlowCommands(
        ("lab-traffic", "send", "--to", flow.address, *common, "--cc", flow.kernel_cc, "--flow", flow.id),
        ("lab-traffic", "receive", *common),
    )


def _iperf3(flow: Flow) -> FlowCommands:
    if not whole_seconds(flow.length):
        message = f"iperf3 runs whole seconds, and {flow.id} is to run {flow.length}"
        raise InputError(
            [Problem("", "duration", message, "use traffic.tool: lean, or round warmup + duration")]
        )
    port, seconds = str(flow.port), str(flow.length.ns // 1_000_000_000)
    every = ("-i", str(INTERVAL_S), "-J")
    return FlowCommands(
        ("iperf3", "-c", flow.address, "-p", port, "-t", seconds, "-C", flow.kernel_cc, *every),
        ("iperf3", "-s", "-1", "-p", port, *every),
    )
