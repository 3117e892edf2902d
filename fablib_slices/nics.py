# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Network cards that machines of FABRIC can have: ports, names in sites' counts, and permissions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fablib_slices.spec import SliceSpec


@dataclass(frozen=True)
class Nic:
    """A component model.

    Attributes:
        ports: Its number of ports; cards with two are the machine's alone.
        counted: Its names in the counts of sites and hosts; a card has several where FABRIC's parts differ.
        tags: Permissions of which a project needs one; none for a card that everybody can have.
    """

    ports: int
    counted: tuple[str, ...]
    tags: tuple[str, ...] = ()


def _dedicated(model: str, *counted: str) -> Nic:
    return Nic(2, counted, ("Component.SmartNIC", f"Component.SmartNIC_{model}"))


NICS: Final[Mapping[str, Nic]] = {
    "NIC_Basic": Nic(1, ("SharedNIC-ConnectX-6",)),
    "NIC_ConnectX_5": _dedicated("ConnectX_5", "SmartNIC-ConnectX-5"),
    "NIC_ConnectX_6": _dedicated("ConnectX_6", "SmartNIC-ConnectX-6"),
    "NIC_ConnectX_7_100": _dedicated("ConnectX_7_100", "SmartNIC-ConnectX-7-100"),
    "NIC_ConnectX_7_400": _dedicated("ConnectX_7_400", "SmartNIC-ConnectX-7-400"),
    "NIC_BlueField_2_ConnectX_6": _dedicated(
        "BlueField2_ConnectX_6", "SmartNIC-BlueField-2-ConnectX-6", "SmartNIC-BlueField2-ConnectX-6"
    ),
}
"""Component model in slices -> the card."""


def cards_of(spec: SliceSpec) -> Mapping[str, Counter[str]]:
    """Return the number of cards of every machine, by component model; networks share a card's ports."""
    ports = {vm.name: Counter[str]() for vm in spec.vms}
    for net in spec.nets:
        for node in net.nodes:
            if node in ports:  # ports of a switch need no card
                ports[node][net.nic] += 1
    return {
        name: Counter({nic: -(-count // ports_of(nic)) for nic, count in own.items()})
        for name, own in ports.items()
    }


def ports_of(nic: str) -> int:
    """Return the number of ports of a card."""
    known = NICS.get(nic)
    return known.ports if known else 1


def counted_names(nic: str) -> tuple[str, ...]:
    """Return the names of a card in the counts of sites and hosts."""
    known = NICS.get(nic)
    return known.counted if known else (nic,)


def free_of(nic: str, components: Mapping[str, int]) -> int:
    """Return the number of free cards among these counts."""
    return max(components.get(name, 0) for name in counted_names(nic))
