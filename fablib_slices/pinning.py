# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""CPUs and memory of a host for a machine that is bound to them, so that it pauses less. Pure.

The maps are made from FABRIC's answers: fablib's own `pin_cpu` takes free CPUs in no order and binds fewer
than a machine has when there are too few.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from l4sbench.errors import TestbedError

_NUMBER: Final = re.compile(r"[0-9]{1,6}")
_RANGE: Final = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
_MB_OF_GB: Final = 1024


@dataclass(frozen=True)
class CardPlace:
    """The place of a machine in its host, as operational actions need it.

    Attributes:
        sliver: Id of its reservation.
        host: Name of the host; empty as long as FABRIC does not report it.
        instance: The hypervisor's name of the machine; empty likewise.
        numa: NUMA nodes of its cards.
        ram_gb: Its memory.
    """

    sliver: str
    host: str
    instance: str
    numa: tuple[str, ...]
    ram_gb: int


def cpu_map(cpuinfo: Mapping[str, Any], place: CardPlace) -> tuple[dict[str, str], ...]:
    """Return a CPU of the host for each of a machine's: near its first card, on cores that nobody else has.

    Empty if each of its CPUs is bound to one already.

    Raises:
        TestbedError: there are too few free CPUs, or the answer is not as documented.
    """
    cpus = [_map(cpu) for cpu in _of(cpuinfo, place.instance, list)]
    own = [str(cpu["VCPU"]) for cpu in cpus if "VCPU" in cpu]
    if not cpus or len(own) < len(cpus):
        raise TestbedError(f"FABRIC does not report the CPUs of {place.instance}")
    if all(_NUMBER.fullmatch(str(cpu.get("CPU Affinity"))) for cpu in cpus):
        return ()
    if not place.numa:
        raise TestbedError("FABRIC does not report the NUMA node of its cards")
    host = _of(cpuinfo, place.host, dict)
    listed = host.get(f"NUMA node{place.numa[0]} CPU(s):")
    if not isinstance(listed, str):
        raise TestbedError(f"FABRIC does not report the CPUs of NUMA node {place.numa[0]} of {place.host}")
    pinned = host.get("pinned_cpus")
    taken = {str(cpu) for cpu in pinned} if isinstance(pinned, list) else set()
    free = _by_core(_ranges(listed), taken)
    if len(free) < len(own):
        raise TestbedError(
            f"{len(free)} CPUs of NUMA node {place.numa[0]} of {place.host} are free, and it has {len(own)}"
        )
    return tuple({"vcpu": vcpu, "cpu": cpu} for vcpu, cpu in zip(own, free, strict=False))


def memory_nodes(numainfo: Mapping[str, Any], place: CardPlace) -> tuple[str, ...]:
    """Return the NUMA nodes to keep a machine's memory on: those of its cards.

    Raises:
        TestbedError: its memory does not fit there, or the answer is not as documented.
    """
    host, own = _of(numainfo, place.host, dict), _of(numainfo, place.instance, dict)
    room = sum(
        _number(_map(host.get(f"node {node}")).get("free"))
        + _number(_map(own.get(f"Node {node}")).get("Total"))
        for node in place.numa
    )
    if room < place.ram_gb * _MB_OF_GB:
        nodes = ", ".join(place.numa)
        raise TestbedError(
            f"its memory of {place.ram_gb} GB does not fit on NUMA node {nodes}: {room} MB free"
        )
    return place.numa


def _map(part: object) -> Mapping[str, Any]:
    """Return a part of an answer if it is a map, else an empty one."""
    return part if isinstance(part, Mapping) else {}


def _by_core(ranges: Sequence[Sequence[int]], taken: set[str]) -> list[str]:
    """Return free CPUs: first one of each core of which nobody has the other, then the remaining ones.

    Linux numbers the first CPUs of all cores, then the second ones, so ranges of one length are siblings.
    """
    siblings: dict[int, set[int]] = {}
    if len({len(one) for one in ranges}) == 1:
        for core in zip(*ranges, strict=True):
            siblings |= {cpu: {*core} for cpu in core}
    free = [cpu for one in ranges for cpu in one if str(cpu) not in taken]
    alone = [cpu for cpu in free if not {str(other) for other in siblings.get(cpu, ())} & taken]
    first = set(ranges[0]) if ranges else set()
    best = [cpu for cpu in alone if cpu in first]
    return [str(cpu) for cpu in dict.fromkeys([*best, *alone, *free])]


def _ranges(text: str) -> list[range]:
    """Return the CPUs in a text such as `0-7,64-71`. Raises TestbedError."""
    found = []
    for part in text.split(","):
        one = _RANGE.fullmatch(part.strip())
        if one is None:
            raise TestbedError(f"FABRIC reports {text[:100]!r} as CPUs")
        found.append(range(int(one[1]), int(one[2] or one[1]) + 1))
    return found


def _of(answer: Mapping[str, Any], name: str, kind: type) -> Any:
    """Return an answer's part about a host or a machine. Raises TestbedError."""
    part = answer.get(name) if isinstance(answer, Mapping) else None
    if not isinstance(part, kind):
        raise TestbedError(f"FABRIC reports nothing about {name}")
    return part


def _number(text: object) -> int:
    found = _NUMBER.match(str(text))
    return int(found[0]) if found else 0
