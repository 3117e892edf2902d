# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Queuing disciplines of the path: the bottleneck with the queue under test, and the rate of the way back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from l4sbench.catalog import Expectation
from l4sbench.catalog.template import write
from l4sbench.program.data import Expected, Readback, ReadKind
from l4sbench.program.wires import air_rate

if TYPE_CHECKING:
    from l4sbench.program.placement import Placement
    from l4sbench.text.units import Rate

REVERSE_LIMIT = 1000
"""Packets that the queue of `path.reverse_rate` holds: the length of a device's queue in Linux."""
CLASS = "1:3"
"""HTB class of the bottleneck, as published."""


@dataclass(frozen=True)
class Shaper:
    """The queuing disciplines of one port."""

    network: str
    commands: tuple[tuple[str, ...], ...]
    readback: tuple[Readback, ...]
    expected: tuple[Expected, ...]


def bottleneck(placement: Placement, node: str, *, wires: bool) -> Iterator[Shaper]:
    """Yield the queuing disciplines of the bottleneck, if it is at this node.

    With Wi-Fi the lab's wire takes packets from the queue under test, and no shaper does; without `wires` the
    link has the mean rate of that Wi-Fi.
    """
    port = placement.topology.bottleneck_of(node)
    if port is None:
        return
    network = port.network
    dev = ("dev", port_name(network))
    rate, mcs = placement.setting.rate, placement.cell.wifi_mcs
    params = placement.cell.aqm_params
    kind, options = placement.queue.expects(params, placement.setting)
    qdiscs, classes = qdisc_file(network), f"class-{network}.json"
    queue = placement.queue.tc(params, placement.setting)
    wanted = tuple(Expectation(f"options.{item.key}", item.value, item.within) for item in options)
    if mcs is not None and not wires:
        rate = air_rate(placement.cell, mcs)
    elif mcs is not None:
        yield Shaper(
            network,
            (("tc", "qdisc", "replace", *dev, "root", "handle", "3:", *queue),),
            (show_qdiscs(network),),
            (Expected(f"{kind} at {network}", qdiscs, (("kind", kind), ("root", True)), wanted),),
        )
        return
    yield Shaper(
        network,
        (
            ("tc", "qdisc", "replace", *dev, "root", "handle", "1:", "htb", "default", "3"),
            _class("add", network, rate),
            ("tc", "qdisc", "replace", *dev, "parent", CLASS, "handle", "3:", *queue),
        ),
        (
            show_qdiscs(network),
            _show_classes(network, classes),
        ),
        (
            Expected(
                f"htb at {network}",
                qdiscs,
                (("kind", "htb"), ("root", True)),
                (Expectation("options.default", "0x3"),),
            ),
            _rate_expected(network, rate, classes),
            Expected(
                f"{kind} at {network}",
                qdiscs,
                (("kind", kind), ("parent", CLASS)),
                wanted,
            ),
        ),
    )


def reverse(placement: Placement, node: str) -> Iterator[Shaper]:
    """Yield what limits the rate of the packets of receivers, if anything does and it is at this node."""
    rate = placement.cell.reverse_rate
    for where, network in placement.topology.reverse_ports if rate is not None else ():
        if where != node or rate is None:
            continue
        dev = ("dev", port_name(network))
        fifo = ("pfifo", "limit", str(REVERSE_LIMIT))
        qdiscs, classes = qdisc_file(network), f"class-{network}.json"
        yield Shaper(
            network,
            (
                ("tc", "qdisc", "replace", *dev, "root", "handle", "1:", "htb", "default", "3"),
                _class("add", network, rate),
                ("tc", "qdisc", "replace", *dev, "parent", CLASS, "handle", "3:", *fifo),
            ),
            (show_qdiscs(network), _show_classes(network, classes)),
            (
                _rate_expected(network, rate, classes),
                Expected(
                    f"pfifo at {network}",
                    qdiscs,
                    (("kind", "pfifo"), ("parent", CLASS)),
                    (Expectation("options.limit", REVERSE_LIMIT),),
                ),
            ),
        )


def new_rate(network: str, rate: Rate, output: str) -> Shaper:
    """Return how a bottleneck gets another rate: its queue keeps its packets and its state."""
    return Shaper(
        network,
        (_class("change", network, rate),),
        (_show_classes(network, output),),
        (_rate_expected(network, rate, output),),
    )


def _class(verb: str, network: str, rate: Rate) -> tuple[str, ...]:
    what = ("dev", port_name(network), "parent", "1:", "classid", CLASS)
    return ("tc", "class", verb, *what, "htb", "rate", write(rate))


def _show_classes(network: str, output: str) -> Readback:
    argv = ("tc", "-s", "-j", "class", "show", "dev", port_name(network))
    return Readback(f"class {network}", argv, output, kind=ReadKind.CLASSES, network=network)


def _rate_expected(network: str, rate: Rate, output: str) -> Expected:
    rate_bytes = rate.bits_per_s // 8
    return Expected(
        f"htb class {CLASS} at {network}",
        output,
        (("class", "htb"), ("handle", CLASS)),
        (Expectation("rate", rate_bytes), Expectation("ceil", rate_bytes), *_burst(rate_bytes)),
    )


def _burst(rate_bytes: int) -> Iterator[Expectation]:
    """Return the default burst of tc: one timer tick of the rate and one packet of 1600 bytes.

    With high-resolution timers a tick is 1 ns. On a kernel that has not switched to them yet (before its
    first timer interrupt) tc uses a jiffy for a tick and makes a burst of many packets, so that the queue
    would not see the bottleneck. The kernel stores bursts as multiples of 64 ns, so they read back rounded.
    """
    exact = rate_bytes // 1_000_000_000 + 1600
    within = max(16, 2 * 64 * rate_bytes // 1_000_000_000)
    return (Expectation(key, exact, within) for key in ("burst", "cburst"))


def show_qdiscs(network: str, output: str = "") -> Readback:
    """Return the command that shows the queuing disciplines of a port."""
    argv = ("tc", "-s", "-j", "qdisc", "show", "dev", port_name(network))
    file = output or qdisc_file(network)
    return Readback(f"qdisc {network}", argv, file, kind=ReadKind.QDISCS, network=network)


def qdisc_file(network: str) -> str:
    """Return the raw file with the queuing disciplines of a port after the trial."""
    return f"qdisc-{network}.json"


def port_name(network: str) -> str:
    """Return the word that stands for the node's interface on a network."""
    return f"@{network}"
