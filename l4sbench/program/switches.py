# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Programs of nodes that are switches, and what the nodes beside them need. Pure.

A switch is told its settings by its control part (p4/*/control.py), which a testbed hands it. So the program
of such a node has no commands of setup: it samples the bottleneck, and says what reads back afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from l4sbench.catalog import Expectation
from l4sbench.program.data import Expected, Neighbour, Program, Readback, ReadKind, Route, Sampler
from l4sbench.text.units import Rate

if TYPE_CHECKING:
    from l4sbench.program.placement import Placement
    from l4sbench.topology import Node

READBACK_FILE: Final = "switch.json"
RATE_WITHIN: Final = 0.01
"""Share by which a shaper of a switch may miss a rate: it has steps."""


def switch_program(placement: Placement, node: Node) -> Program:
    """Return what a node that is a switch does in a trial: it samples its bottleneck."""
    port = placement.topology.bottleneck_of(node.name)
    if port is None:
        return Program(node.name)
    return Program(
        node.name,
        samplers=(Sampler("queues", placement.cell.sample_interval, port.network, placement.queue_exports),),
        readback=(Readback("switch", ("control.py", "show", "--json"), READBACK_FILE, kind=ReadKind.SWITCH),),
        expected=tuple(_expected(placement, port.network)),
    )


def _expected(placement: Placement, network: str) -> Iterator[Expected]:
    from l4sbench.catalog.switches import switch_programs

    kind, _ = placement.queue.expects(placement.cell.aqm_params, placement.setting)
    rate_bytes = placement.setting.rate.bits_per_s // 8
    yield Expected(
        f"shaper at {network}",
        READBACK_FILE,
        (("kind", "shaper"), ("network", network)),
        (
            Expectation("unit", "BPS"),
            Expectation("rate", rate_bytes, RATE_WITHIN * rate_bytes),
            Expectation("enabled", value=True),
        ),
    )
    given = placement.queue.effective(placement.cell.aqm_params, placement.setting)
    limit = placement.queue.limit_bytes(placement.cell.aqm_params, placement.setting)
    program = switch_programs().get(kind)
    read_back = (program.rate, *program.takes) if program is not None else ()
    values = {name: plain_value(given[name]) for name in read_back if name in given}
    within: dict[str, float] = {}
    if program is not None:
        within = {placement.queue.buffer: 4 * program.cell_bytes, **program.within(limit, values)}
    values = {placement.queue.buffer: limit, **values}
    yield Expected(
        f"{kind} at {network}",
        READBACK_FILE,
        (("kind", kind), ("network", network)),
        tuple(Expectation(f"options.{name}", value, within.get(name, 0.0)) for name, value in values.items()),
    )


def plain_value(value: object) -> int:
    """Return a value of a parameter as control parts have it: rates in bytes per second."""
    return value.bits_per_s // 8 if isinstance(value, Rate) else int(str(value))


def neighbours(
    placement: Placement, node: Node, switches: Mapping[str, Mapping[str, str]]
) -> Iterator[Neighbour]:
    """Yield the addresses of switches beside a node, which answer no ARP."""
    for address in node.addresses:
        for other in placement.topology.nodes:
            macs = switches.get(other.name, {})
            if other.name != node.name and address.network in macs:
                own = (one.ip for one in other.addresses if one.network == address.network)
                yield from (Neighbour(address.network, ip, macs[address.network]) for ip in own)


def routes_beside(
    placement: Placement, node: Node, switches: Mapping[str, Mapping[str, str]]
) -> Iterator[Route]:
    """Yield routes of a node beside a switch to what is on the switch's other networks.

    Trials begin by the clock of a node beside the switch, which has to answer those on the other side.
    """
    own = {address.network for address in node.addresses}
    known = {route.to for route in node.routes}
    for other in placement.topology.nodes:
        shared = [address for address in other.addresses if address.network in own]
        if other.name == node.name or other.name not in switches or not shared:
            continue
        for network in placement.topology.networks:
            if other.name in network.nodes and network.name not in own and network.prefix not in known:
                yield Route(network.prefix, shared[0].ip)
