# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Command lines of the traffic tools. Every flow has its own process and its own port.

`lean` is lab-traffic (docs/guest.md), made for virtual time. `iperf3` is the widely used tool; it takes whole
seconds, and a group of several flows is several processes instead of `-P`, so that both tools have the same
flows with the same names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from l4sbench.errors import InputError, Problem

if TYPE_CHECKING:
    from l4sbench.units import Duration

FIRST_PORT = 5001
"""Port of the first flow; the others follow in the order of the matrix."""
INTERVAL_S = 1
"""Length of the intervals in the tools' results, as in the published experiments."""


@dataclass(frozen=True)
class Flow:
    """Parameters of one flow for a traffic tool."""

    id: str
    address: str
    port: int
    kernel_cc: str
    length: Duration


@dataclass(frozen=True)
class FlowCommands:
    """Argument lists of the sender and the receiver of one flow."""

    sender: tuple[str, ...]
    receiver: tuple[str, ...]


def commands(tool: str, flow: Flow) -> FlowCommands:
    """Return the argument lists of a flow's two ends; the testbed resolves the paths of the tools.

    Raises:
        InputError: no such tool, or a fraction of a second for iperf3.
    """
    if tool == "lean":
        return _lean(flow)
    if tool == "iperf3":
        return _iperf3(flow)
    raise InputError(
        [Problem("", "traffic.tool", f"{tool} is not a valid traffic tool; choose from lean, iperf3")]
    )


def whole_seconds(length: Duration) -> bool:
    """Return True if iperf3 can run for this time."""
    return length.ns % 1_000_000_000 == 0


def _seconds(length: Duration) -> str:
    whole, rest = divmod(length.ns, 1_000_000_000)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")


def _lean(flow: Flow) -> FlowCommands:
    # No low-water mark: lab-traffic sleeps in one system call anyway, and with a mark the kernel would
    # underestimate the reader's speed and keep the window small.
    common = ("--port", str(flow.port), "--seconds", _seconds(flow.length), "--interval", str(INTERVAL_S))
    return FlowCommands(
        ("lab-traffic", "send", "--to", flow.address, *common, "--cc", flow.kernel_cc, "--flow", flow.id),
        ("lab-traffic", "receive", *common),
    )


def _iperf3(flow: Flow) -> FlowCommands:
    if not whole_seconds(flow.length):
        message = f"iperf3 runs for whole seconds, and {flow.id} must run for {flow.length}"
        raise InputError(
            [Problem("", "duration", message, "use traffic.tool: lean, or round warmup + duration")]
        )
    port, seconds = str(flow.port), str(flow.length.ns // 1_000_000_000)
    every = ("-i", str(INTERVAL_S), "-J")
    return FlowCommands(
        ("iperf3", "-c", flow.address, "-p", port, "-t", seconds, "-C", flow.kernel_cc, *every),
        ("iperf3", "-s", "-1", "-p", port, *every),
    )
