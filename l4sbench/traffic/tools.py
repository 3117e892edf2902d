# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Command lines of the two traffic tools that send several kinds. Every flow has its own process and port.

`lean` is lab-traffic (docs/guest.md), made for virtual time. `iperf3` is the widely used tool; it takes whole
seconds, and a group of several flows is several processes instead of `-P`, so that both tools have the same
flows with the same names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from l4sbench.errors import InputError, Problem
from l4sbench.traffic.family import Family
from l4sbench.traffic.send import FlowCommands, Ready

if TYPE_CHECKING:
    from collections.abc import Sequence

    from l4sbench.text.units import Duration
    from l4sbench.traffic.send import Flow

IPERF3: Final = "iperf3"
LEAN: Final = "lean"

INTERVAL_S: Final = 1
"""Length of the intervals in the tools' results, as in the published experiments."""
SECOND_NS: Final = 1_000_000_000


def whole_seconds(length: Duration) -> bool:
    """Return True if iperf3 can run for this time."""
    return length.ns % SECOND_NS == 0


def seconds(length: Duration) -> str:
    """Return a time in seconds, exactly."""
    whole, rest = divmod(length.ns, SECOND_NS)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")


def lean(
    flow: Flow, sender: Sequence[str], receiver: Sequence[str], ready: Ready = Ready.LISTENS
) -> FlowCommands:
    """Return the commands of lab-traffic: each end has a subcommand and its own options."""
    # No low-water mark: lab-traffic sleeps in one system call anyway, and with a mark the kernel would
    # underestimate the reader's speed and keep the window small.
    common = ("--port", str(flow.port), "--seconds", seconds(flow.length), "--interval", str(INTERVAL_S))
    to, name = ("--to", flow.address, *common), ("--flow", flow.id)
    # a sender learns it from the address
    family = ("--ipv6",) if flow.family is Family.IPV6 else ()
    return FlowCommands(
        ("lab-traffic", sender[0], *to, *sender[1:], *name),
        ("lab-traffic", receiver[0], *common, *receiver[1:], *family),
        ready,
    )


def iperf3(flow: Flow, *options: str) -> FlowCommands:
    """Return the commands of iperf3 with these options of its client.

    Raises:
        InputError: the flow lasts a fraction of a second.
    """
    if not whole_seconds(flow.length):
        message = f"iperf3 runs for whole seconds, and {flow.id} must run for {flow.length}"
        raise InputError(
            [Problem("", "duration", message, "use traffic.tool: lean, or round warmup + duration")]
        )
    port, length = str(flow.port), str(flow.length.ns // SECOND_NS)
    every = ("-i", str(INTERVAL_S), "-J")
    to = (IPERF3, "-c", flow.address, "-p", port, "-t", length)
    return FlowCommands((*to, *options, *every), (IPERF3, "-s", "-1", "-p", port, *every))
