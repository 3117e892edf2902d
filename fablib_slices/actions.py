# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Operational actions on machines of a slice, times with room for one, and artifacts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from fablib_slices.answers import TIME_FORMAT
from fablib_slices.nics import cards_of, counted_names
from fablib_slices.pinning import cpu_map, memory_nodes
from l4sbench.errors import TestbedError

if TYPE_CHECKING:
    from pathlib import Path

    from fablib_slices.answers import Machine, Slice
    from fablib_slices.spec import SliceSpec

Ask = Callable[[str, Callable[[Any], Any]], Any]
"""Calls the orchestrator's client, and raises TestbedError with FABRIC's own words."""

MOST_DAYS: Final = 30
"""Longest time in which FABRIC searches for room."""

_TIMES: Final = (TIME_FORMAT, "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z")


@dataclass(frozen=True)
class Slot:
    """A time in which a slice fits at a site."""

    site: str
    start: datetime
    end: datetime


class Actions:
    """Actions of one account. `ask` calls the orchestrator's client."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def restart(self, found: Slice, names: Collection[str]) -> None:
        """Restart machines of a slice from outside, as one that hangs does not listen.

        Raises:
            TestbedError: FABRIC refuses, or has no such machine.
        """
        for machine in found.machines:
            if machine.name in names:
                sliver = _sliver(machine)
                self._ask(
                    f"restarting {machine.name}",
                    lambda manager, sliver=sliver: manager.os_reboot(sliver_id=sliver),
                )

    def pin(self, found: Slice) -> Iterator[tuple[str, str]]:
        """Bind the machines of a slice to CPUs and memory of their hosts, near their cards.

        Yields each machine with what was done, in words. Machines that are bound already stay as they are;
        others restart, for which nothing here waits. One after the other, as they may share a host.
        """
        for machine in found.machines:
            if not machine.switch:
                try:
                    yield machine.name, self._pin(machine)
                except TestbedError as error:
                    yield machine.name, f"not bound to CPUs: {error.message}"

    def _pin(self, machine: Machine) -> str:
        place = machine.place
        if place is None or not place.host:
            raise TestbedError("FABRIC does not report its host")
        cpus = cpu_map(self._poa(machine, "cpuinfo"), place)
        if not cpus:
            return "bound to CPUs already"
        self._poa(machine, "cpupin", vcpu_cpu_map=list(cpus))
        done = f"bound to CPUs {', '.join(one['cpu'] for one in cpus)} of {place.host}"
        try:
            nodes = memory_nodes(self._poa(machine, "numainfo"), place)
            self._poa(machine, "numatune", node_set=list(nodes))
        except TestbedError as error:
            done += f", memory not: {error.message}"
        self._ask(f"restarting {machine.name}", lambda manager: manager.os_reboot(sliver_id=place.sliver))
        return f"{done}; restarts"

    def _poa(self, machine: Machine, operation: str, **more: Any) -> Any:
        sliver = _sliver(machine)
        answer = self._ask(
            f"{operation} of {machine.name}",
            lambda manager: manager.poa(sliver_id=sliver, operation=operation, **more),
        )
        if isinstance(answer, list):  # the library waits some minutes, and then returns what it has
            raise TestbedError(f"FABRIC has not done {operation} of {machine.name} yet")
        return answer

    def slots(self, spec: SliceSpec, site: str, days: int) -> tuple[Slot, ...]:
        """Return the first time within these days in which a slice fits at a site, if there is one.

        Raises:
            TestbedError: FABRIC refuses, or its answer has no times that can be read.
        """
        start = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=5)
        parts = replace(spec, site=site).at_sites
        place = ", ".join(parts)
        answer = self._ask(
            f"room at {place}",
            lambda manager: manager.find_resource_slot(
                start=start,
                end=start + timedelta(days=min(days, MOST_DAYS)) - timedelta(minutes=1),
                duration=spec.hours,
                resources=[_resources(part, name) for name, part in parts.items()],
                max_results=1,
            ),
        )
        return tuple(_slots_in(answer, place))

    def publish(self, file: Path, title: str, about: str, tags: Sequence[str]) -> str:
        """Make an artifact with a file, or add the file to the one of this title, and return its id.

        Only its author sees a new one, until the author publishes it in the portal.

        Raises:
            TestbedError: FABRIC refuses.
        """
        # FABRIC searches for parts of titles, and the library would change the first artifact of the user's
        listed = self._ask(f"artifact {title}", lambda manager: manager.list_artifacts(search=title))
        made = next((one for one in listed if one.get("title") == title), None) or self._ask(
            f"artifact {title}",
            lambda manager: manager.create_artifact(
                artifact_title=title,
                description_short=about[:255],
                description_long=about,
                authors=[],
                tags=list(tags),
                update_existing=False,
            ),
        )
        own = str(made.get("uuid") or "") if isinstance(made, dict) else ""
        if not own:
            raise TestbedError(f"FABRIC made artifact {title} and gives no id of it")
        self._ask(
            f"uploading {file.name}",
            lambda manager: manager.upload_file_to_artifact(str(file), artifact_id=own),
        )
        return own


def _sliver(machine: Machine) -> str:
    if machine.place is None or not machine.place.sliver:
        raise TestbedError(f"FABRIC reports no reservation of {machine.name}")
    return machine.place.sliver


def _resources(spec: SliceSpec, site: str) -> dict[str, Any]:
    """Return the sum of what a slice needs at a site, as FABRIC counts it."""
    components: dict[str, int] = {}
    for cards in cards_of(spec).values():
        for nic, count in cards.items():
            name = counted_names(nic)[0]
            components[name] = components.get(name, 0) + count
    return {
        "type": "compute",
        "site": site,
        "cores": sum(vm.cores for vm in spec.vms),
        "ram": sum(vm.ram_gb for vm in spec.vms),
        "disk": sum(vm.disk_gb for vm in spec.vms),
        "components": components,
    }


def _slots_in(answer: object, site: str) -> Iterator[Slot]:
    """Yield the times of an answer: the maps with a start and an end in any of its lists.

    FABRIC publishes no name of that list. An empty one means that there is no room.

    Raises:
        TestbedError: there is neither.
    """
    lists = [one for one in answer.values() if isinstance(one, list)] if isinstance(answer, dict) else []
    found = [
        Slot(site, start, end)
        for one in lists
        for entry in one
        if isinstance(entry, dict)
        and (start := _time(entry.get("start"))) is not None
        and (end := _time(entry.get("end"))) is not None
    ]
    if not found and all(lists):
        keys = ", ".join(map(str, answer)) if isinstance(answer, dict) else type(answer).__name__
        raise TestbedError(f"FABRIC's answer about room at {site} has no times: {keys[:200]}")
    yield from found


def _time(text: object) -> datetime | None:
    for shape in _TIMES:
        try:
            return datetime.strptime(str(text), shape).astimezone(UTC)
        except ValueError:
            continue
    return None
