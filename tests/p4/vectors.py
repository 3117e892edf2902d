# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Vectors: packets with time and queue depth, and what a data plane of NCF makes of them.

The files in `vectors/` are for every data plane; README.md there has the format. This module reads and writes
them, and drives a data plane with one; `make` makes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.p4.packets import HOSTS
from tests.p4.reference import Ncf, Outcome, Sent, Settings

FOLDER = Path(__file__).with_name("vectors")
FORMAT = 1
BOTTLENECKS = {host.port: Settings() for host in HOSTS}


@dataclass(frozen=True)
class Arrival:
    """A packet that comes in.

    Attributes:
        time_ns: Time of the switch.
        port: Port it comes in by.
        packet: An Ethernet frame.
        depth_bytes: Depth of the queue that it joins, at that time, without it.
    """

    time_ns: int
    port: int
    packet: bytes
    depth_bytes: int = 0


@dataclass(frozen=True)
class Preset:
    """The number of elephants of a port is set, as a controller may."""

    port: int
    flows: int


Event = Arrival | Preset


@dataclass(frozen=True)
class Vector:
    """Events in their order, with the outcome of each arrival.

    Attributes:
        name: File name without suffix.
        about: The behaviour that it shows.
        cleared: Whether counters are cleared in time; if not, it is for data planes that need a controller.
        events: Arrivals and presets.
        outcomes: One for each arrival.
    """

    name: str
    about: str
    cleared: bool
    events: tuple[Event, ...]
    outcomes: tuple[Outcome, ...]


class Plane(Protocol):
    """A data plane under test; ports are numbered as in the vectors."""

    def window(self, time_ns: int) -> int:
        """Return the number of the window of a time."""

    def clear(self, window: int) -> None:
        """Do the controller's work in a window."""

    def preset(self, port: int, flows: int) -> None:
        """Set the number of elephants of a port."""

    def packet(self, time_ns: int, port: int, frame: bytes, depth_bytes: int) -> Outcome:
        """Take a packet in."""


class Reference(Ncf):
    """The reference as a data plane under test."""

    def __init__(self) -> None:
        super().__init__({host.mac: host.port for host in HOSTS}, BOTTLENECKS)

    def preset(self, port: int, flows: int) -> None:
        """Set the number of elephants of a port."""
        self.flows[port] = flows


def drive(plane: Plane, events: Iterable[Event], *, cleared: bool) -> tuple[Outcome, ...]:
    """Return the outcomes of all arrivals."""
    outcomes: list[Outcome] = []
    window: int | None = None
    for event in events:
        if isinstance(event, Preset):
            plane.preset(event.port, event.flows)
            continue
        now = plane.window(event.time_ns)
        if cleared:
            for passed in range(max(now - 3, now if window is None else window + 1), now + 1):
                plane.clear(passed)
        window = now
        outcomes.append(plane.packet(event.time_ns, event.port, event.packet, event.depth_bytes))
    return tuple(outcomes)


# ---- files
def to_json(vector: Vector) -> str:
    """Return the file of a vector; equal arrivals with equal outcomes share a step."""
    steps: list[dict[str, Any]] = []
    outcomes = iter(vector.outcomes)
    for event in vector.events:
        if isinstance(event, Preset):
            steps.append({"set": {"port": event.port, "flows": event.flows}})
            continue
        outcome = next(outcomes)
        step = {
            "port": event.port,
            "packet": event.packet.hex(),
            "depth_bytes": event.depth_bytes,
            "queue": outcome.queue,
            "sent": [{"port": one.port, "packet": one.packet.hex()} for one in outcome.sent],
        }
        if steps and {**steps[-1], "times_ns": None} == {**step, "times_ns": None}:
            steps[-1]["times_ns"].append(event.time_ns)
        else:
            steps.append({"times_ns": [event.time_ns], **step})
    content = {
        "format": FORMAT,
        "about": vector.about,
        "cleared": vector.cleared,
        "hosts": {host.mac.hex(":"): host.port for host in HOSTS},
        "bottlenecks": {str(port): asdict(settings) for port, settings in BOTTLENECKS.items()},
        "steps": steps,
    }
    return json.dumps(content, indent=1) + "\n"


def from_json(path: Path) -> Vector:
    """Read the file of a vector.

    Raises:
        ValueError: It has another format.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    if content["format"] != FORMAT:
        raise ValueError(f"{path}: format {content['format']}; this reads {FORMAT}")
    events: list[Event] = []
    outcomes: list[Outcome] = []
    for step in content["steps"]:
        if "set" in step:
            events.append(Preset(step["set"]["port"], step["set"]["flows"]))
            continue
        sent = tuple(Sent(one["port"], bytes.fromhex(one["packet"])) for one in step["sent"])
        for time_ns in step["times_ns"]:
            events.append(Arrival(time_ns, step["port"], bytes.fromhex(step["packet"]), step["depth_bytes"]))
            outcomes.append(Outcome(step["queue"], sent))
    return Vector(path.stem, content["about"], content["cleared"], tuple(events), tuple(outcomes))


def stored() -> Sequence[Path]:
    """Return the files of all vectors."""
    return sorted(FOLDER.glob("*.json"))
