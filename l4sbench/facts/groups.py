# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Flow groups: the factors that all of them have, each declared once, and the values of one group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self

from l4sbench.text.parameters import DAY, HOUR, Parameter, declared, declares
from l4sbench.text.units import Duration, Packets
from l4sbench.traffic import DEFAULT_SEND, OF_SEND, SENDS, Send, Sender, kind_of_send

if TYPE_CHECKING:
    from l4sbench.text.units import Kind, Value

ECN_MODES: Final = ("off", "classic", "accecn", "dctcp")
_OFFERS: Final = ECN_MODES[:3]
"""Offers of a host when a connection opens, in order: both use the lesser one."""


def _factor(kind: Kind, meaning: str, **limits: Any) -> Any:
    parameter = Parameter(limits.pop("name", ""), kind, meaning, **limits)
    return declares(parameter, default=parameter.default)


@dataclass(frozen=True, kw_only=True)
class Group:
    """A named group of flows that differ only in their ports: the values of the factors `<name>.*`.

    A factor is None where it is neither stated nor has a default. `cc` is None for what has no congestion
    control, `ecn` for what TCP does not send, `from_` and `to` if the group runs on its own pair of nodes.

    Attributes:
        name: its name.
        params: the parameters of its congestion control, without the group's name.
        of_send: the factors that its kind of traffic has, from which `sends` is made.
    """

    name: str
    params: Mapping[str, Value] = field(default_factory=dict)
    of_send: Mapping[str, Value] = field(default_factory=dict)

    send: str = _factor(
        "str",
        f"Kind of traffic: {', '.join(f'{send.name} ({send.about})' for send in SENDS.values())}; "
        f"or {Sender.about}.",
        default=DEFAULT_SEND,
        refers="send",
    )
    cc: str | None = _factor(
        "str",
        "Congestion control of the group, by its name in the catalog, or one that its sender has; required "
        "of what TCP sends.",
        required=True,
        refers="cc",
    )
    count: int = _factor(
        "int",
        "Number of flows; or for each packet of the bandwidth-delay product and the buffer together, such as "
        "0.1/packet, rounded.",
        default=1,
        minimum=1,
        maximum=1000,
        scales=True,
        source="RFC 7928 section 8.2",
    )
    ecn: str | None = _factor(
        "str",
        "How its flows use ECN: off, classic (RFC 3168), accecn, dctcp (the receiver echoes as DCTCP). "
        "Default: what its congestion control declares.",
        choices=ECN_MODES,
        source="RFC 3168, RFC 9768, RFC 8257",
    )
    receiver_ecn: str | None = _factor(
        "str",
        "ECN of its receivers' hosts, where it is not its own: off, classic or accecn. The lesser of both is "
        "what its flows negotiate.",
        choices=_OFFERS,
        source="RFC 9768",
    )
    initial_window: Packets | None = _factor(
        "packets",
        "Initial congestion window of both hosts of its flows, by their routes. Default: Linux's, 10p.",
        minimum=Packets(1),
        maximum=Packets(1000),
        source="RFC 6928",
    )
    start: Duration = _factor(
        "duration",
        "When it starts, after the trial's start.",
        default=Duration(0),
        maximum=DAY,
        unit="s",
    )
    start_within: Duration = _factor(
        "duration",
        "Time after its start within which each flow starts, evenly at random, which averages effects of "
        "phase over trials; 0s: exactly then.",
        default=Duration(10**9),
        maximum=HOUR,
        unit="s",
    )
    every: Duration | None = _factor(
        "duration",
        "Time from the start of one flow of the group to the start of the next; all then start equally late.",
        positive=True,
        maximum=DAY,
        unit="s",
    )
    lifetime: Duration | None = _factor(
        "duration",
        "How long each flow lasts; default: warmup and duration.",
        positive=True,
        maximum=DAY,
        unit="s",
    )
    stop: Duration | None = _factor(
        "duration",
        "When all flows of the group end that have not ended before, after the trial's start.",
        positive=True,
        maximum=DAY,
        unit="s",
    )
    rtt: Duration | None = _factor(
        "duration",
        "Round-trip time of the group without queues, at least that of the cell: its senders delay what they "
        "send by the difference.",
        positive=True,
        maximum=HOUR,
    )
    from_: str | None = _factor("str", "Node its flows come from; default: its own.", name="from")
    to: str | None = _factor("str", "Node its flows go to; default: its own.")

    @classmethod
    def of(cls, name: str, values: Mapping[str, Value]) -> Self:
        """Return a group with these values of its factors and parameters, whose names lack the group's."""
        # the kinds of the parameters are the types of the fields
        own: dict[str, Any] = {
            field: values[one.name] for field, one in _FACTORS.items() if one.name in values
        }
        return cls(
            name=name,
            params=MappingProxyType({k: v for k, v in values.items() if k not in _NAMED}),
            of_send=MappingProxyType({key: value for key, value in values.items() if key in OF_SEND}),
            **own,
        )

    @property
    def negotiates(self) -> str | None:
        """The ECN that its flows negotiate (RFC 9768 section 3.1.1); None for what TCP does not send."""
        if self.ecn is None or self.receiver_ecn is None:
            return self.ecn
        own = self.ecn if self.ecn in _OFFERS else "classic"
        lesser = min(own, self.receiver_ecn, key=_OFFERS.index)
        return self.ecn if lesser == own else lesser

    @property
    def nodes(self) -> tuple[str | None, str | None]:
        """The nodes that the matrix states for it, as `Topology.place` takes them."""
        return self.from_, self.to

    @property
    def kind(self) -> type[Send]:
        """The kind of traffic that it sends."""
        return kind_of_send(self.send)

    @property
    def complete(self) -> bool:
        """True if it has all factors that its kind of traffic needs."""
        return all(name in self.of_send for name in self.kind.needs())

    @cached_property
    def sends(self) -> Send:
        """Its traffic. Raises KeyError if it is not complete."""
        return self.kind.of(self.of_send)


_FACTORS: Final = declared(Group)
_NAMED: Final = frozenset({*OF_SEND, *(one.name for one in _FACTORS.values())})
"""Names that are no parameters of a congestion control."""
