# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The ECN field on hosts: rules of nft for what delay nodes forward, and what events change of them.

Each port has a chain of its own, whose rules bear the value of `path.ecn` as their comment. They apply before
netem, so that the bottleneck sees packets as these rules leave them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from l4sbench.catalog import Expectation
from l4sbench.program.data import RULES, Expected, Readback, ReadKind
from l4sbench.program.shapers import Shaper, port_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from l4sbench.facts.cell import Cell
    from l4sbench.program.placement import Placement

MAKE_TABLE: Final = ("nft", "add", "table", *RULES)

_MANGLES: Final = "-150"
"""Priority of chains that change packets (nft's `mangle`, by a number that older versions know, too)."""
_FAMILIES: Final = ("ip", "ip6")
_CHANGES: Final = {"bleach": (("!=", "not-ect"), "not-ect"), "ect0": (("ect1",), "ect0")}
"""Value of `path.ecn` -> which values of the field change, and into which."""


def rewrites(cell: Cell) -> bool:
    """Return True if the path of a cell, at any time, changes the ECN field."""
    return cell.path_ecn != "pass" or any("path.ecn" in event.changes for event in cell.events)


def rules(placement: Placement, node: str) -> Iterator[Shaper]:
    """Yield the rules of the ports where a node changes the ECN field, for a table that is empty."""
    if not rewrites(placement.cell):
        return
    for network in networks(placement, node):
        hook = ("{", "type", "filter", "hook", "forward", "priority", _MANGLES, ";", "}")
        made = ("nft", "add", "chain", *RULES, _chain(network), *hook)
        yield _shaper(
            network, (*made, ";", *_rules(network, placement.cell.path_ecn)), placement.cell.path_ecn
        )


def networks(placement: Placement, node: str) -> tuple[str, ...]:
    """Return the networks towards which a node changes the ECN field."""
    return tuple(port.network for port in placement.topology.data_ports if port.node == node)


def changed(network: str, ecn: str, output: str) -> Shaper:
    """Return how a port gets another value of `path.ecn`: in one transaction, so that no packet is missed."""
    argv = ("nft", "flush", "chain", *RULES, _chain(network), ";", *_rules(network, ecn))
    return _shaper(network, argv, ecn, output)


def _rules(network: str, ecn: str) -> tuple[str, ...]:
    """Return the words of the rules; they count the packets that change, or all of them where none does."""
    match = ("add", "rule", *RULES, _chain(network), "oifname", port_name(network))
    if ecn not in _CHANGES:
        return (*match, "counter", "comment", ecn)
    which, into = _CHANGES[ecn]
    each = (
        (*match, family, "ecn", *which, "counter", family, "ecn", "set", into, "comment", ecn, ";")
        for family in _FAMILIES
    )
    return tuple(word for rule in each for word in rule)


def _shaper(network: str, argv: tuple[str, ...], ecn: str, output: str = "") -> Shaper:
    file = output or f"rules-{network}.json"
    show = ("nft", "-j", "list", "chain", *RULES, _chain(network))
    return Shaper(
        network,
        (argv,),
        (Readback(f"rules {network}", show, file, kind=ReadKind.RULES, network=network),),
        (
            Expected(
                f"rules at {network}",
                file,
                (("rule.chain", _chain(network)),),
                (Expectation("rule.comment", ecn),),
            ),
        ),
    )


def _chain(network: str) -> str:
    return f"ecn-{network}"
