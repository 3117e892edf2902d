# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Switches in a run: their program is loaded, told a cell's settings, and brings its part of a trial."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.disk import assets
from l4sbench.errors import InputError, Problem, TestbedError, TrialFailed
from l4sbench.program.switches import READBACK_FILE
from l4sbench.testbeds.ssh import ansible
from l4sbench.testbeds.ssh.facts import SwitchFacts, clock_off_s, older, read_switch_facts
from l4sbench.testbeds.ssh.results import unpack
from l4sbench.testbeds.ssh.switches import (
    Switch,
    addresses_of,
    misplaced_switches,
    switch_config,
    unsuitable,
)

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog
    from l4sbench.facts.cell import Cell
    from l4sbench.facts.traits import Needs
    from l4sbench.testbeds.ssh.hosts import Host
    from l4sbench.topology import Topology

PLAYBOOK: Final = "switch.yml"
CLOCK_S: Final = 2.0
"""Largest accepted difference of a switch's clock, or a trial's, from this machine's.

Samples of a switch are placed in the trial by its wall clock. The check cannot see less, because Ansible
takes its time; NTP keeps clocks within milliseconds.
"""
AFTER_S: Final = 1.0
"""Samples are fetched until this long after the last flow."""
BEGIN_LIMIT_S: Final = 600.0
RESULTS_LIMIT_S: Final = 600.0
MOST_BYTES: Final = 512 << 20
"""Largest accepted size of what a switch sampled in a trial: ten hours, every 10 ms."""
_PYTHON: Final = "3.8"


class Switching:
    """The switches of an inventory; without any, everything here does nothing.

    Args:
        inventory: Ansible inventory.
        switches: The switches by their hosts' names.
        hosts: The other hosts.
        catalog: The queues that cells may name.
    """

    def __init__(
        self, inventory: Path, switches: Mapping[str, Switch], hosts: Sequence[Host], catalog: Catalog
    ) -> None:
        self._inventory = inventory
        self._switches = switches
        self._hosts = hosts
        self._catalog = catalog
        self._told: Mapping[str, Mapping[str, object]] = {}
        self._seen: Mapping[str, SwitchFacts] = {}

    def __bool__(self) -> bool:
        """Return True if there are any."""
        return bool(self._switches)

    @property
    def names(self) -> tuple[str, ...]:
        """Their hosts' names."""
        return tuple(self._switches)

    @property
    def addresses(self) -> Mapping[str, Mapping[str, str]]:
        """Hardware addresses by network, of each node that is a switch."""
        return addresses_of(self._switches)

    def misplaced(self, topologies: Sequence[Topology], where: str) -> list[Problem]:
        """Return why they cannot be nodes of these topologies."""
        return [one for place in topologies for one in misplaced_switches(self._switches, place, where)]

    def problems(self, cells: Sequence[Cell], where: str) -> list[Problem]:
        """Return why they cannot run these cells; what is the same for several cells once."""
        if found := unsuitable(cells, self._catalog, self._switches.values(), where):
            return found
        for cell in {cell.topology: cell for cell in cells}.values() if self._switches else ():
            try:
                self._configs(cell)  # its routes are the same for all cells of a topology
            except InputError as error:
                found += [Problem(where, one.path, one.message, one.hint) for one in error.problems]
        return found

    def unable(self, needs: Needs, facts: Mapping[str, SwitchFacts]) -> Iterator[Problem]:
        """Yield why they cannot do what a plan needs, or why switches that reported this can do nothing."""
        for place in (self._catalog.topology(name) for name in sorted(needs.topologies)):
            if needs.capture and place.capture in self.addresses:
                message = f"packets would be captured at {place.capture}, which is a switch"
                yield Problem("", place.name, message, "run without captures, or use a router")
        for name in self._switches:
            seen = facts.get(name)
            if seen is not None and older(seen.python or _PYTHON, _PYTHON):
                yield Problem("", name, f"its Python is {seen.python}; {_PYTHON} or newer is needed")

    def runs(self, facts: Mapping[str, SwitchFacts]) -> dict[str, str]:
        """Return what each node that is a switch runs: its SDE, the program, and our part of it."""
        own = assets.digest(assets.folder("roles") / "tofino", suffixes=(".py",))
        control = assets.digest(assets.folder("p4"), suffixes=(".py",))
        found = {}
        for name, switch in self._switches.items():
            seen = facts.get(name, SwitchFacts(sde="?", program="?"))
            found[switch.node] = f"{seen.sde}, {seen.program}, control {control[:12]}, role {own[:12]}"
        return found

    # ---- plays
    def load(self, cell: Cell, *, limit_s: float, stop: Callable[[], bool] = lambda: False) -> ansible.Played:
        """Build and load the program of a cell's queue, with the cell's settings: minutes at first."""
        configs = self._configs(cell)
        played = self._play(["load"], configs, limit_s, stop)
        self._told = {} if played.wrong else configs
        return played

    def facts(self, played: ansible.Played) -> dict[str, SwitchFacts]:
        """Return the facts of switches after they were loaded. Raises TestbedError if they are malformed."""
        return {
            name: read_switch_facts(played.hosts[name].answer.get("facts"), name) for name in self._switches
        }

    def begin(self, cell: Cell, stop: Callable[[], bool]) -> None:
        """Prepare for a trial: the cell's settings, no state of earlier flows, all ports up, clocks equal.

        Raises:
            TrialFailed: one of these is not so.
        """
        if not self._switches:
            return
        configs = self._configs(cell)
        again = configs == self._told
        self._told = {}
        began_s = time.time()
        played = self._play(["begin"] if again else ["load", "begin"], configs, BEGIN_LIMIT_S, stop)
        if stop():
            return
        _raise_failure(played)
        self._seen = self._facts_or_fail(played)
        for name, seen in self._seen.items():
            require_clock(f"{name}: its clock", seen.time_s, began_s, time.time())
        self._told = configs

    def _facts_or_fail(self, played: ansible.Played) -> dict[str, SwitchFacts]:
        try:
            return self.facts(played)
        except TestbedError as error:
            raise TrialFailed(error.message) from error

    def collect(
        self, start_ns: int, seconds: float, raw: Path, folder: Path, stop: Callable[[], bool]
    ) -> None:
        """Add the raw files of the switches to a trial's.

        Args:
            start_ns: The trial's start instant by the wall clock.
            seconds: Its length.
            raw: Its folder of raw files.
            folder: A folder for archives on their way.
            stop: Returns True to end it early, with nothing added.

        Raises:
            TrialFailed: a switch has no samples of that time, or sends anything else.
        """
        if not self._switches:
            return
        end_ns = start_ns + round((seconds + AFTER_S) * 1e9)
        trials = {
            name: {
                "node": switch.node,
                "start_ns": str(start_ns),
                "end_ns": str(end_ns),
                "results": str(folder / f"{name}.tar.gz"),
            }
            for name, switch in self._switches.items()
        }
        given = {"l4sbench_switch_steps": ["results"], "l4sbench_switch_trials": trials}
        played = ansible.play(
            PLAYBOOK, self._inventory, self.names, given, limit_s=RESULTS_LIMIT_S, stop=stop
        )
        if stop():
            return
        try:
            _raise_failure(played)
        except TrialFailed:
            self._told = {}  # the control part may have ended
            raise
        for name, switch in self._switches.items():
            archive = folder / f"{name}.tar.gz"
            files = {READBACK_FILE, *(f"tc-{network}.txt" for network in switch.ports)}
            unpack(archive, name, (switch.node,), raw, files=files, most_bytes=MOST_BYTES)
            _write_software(raw / switch.node, self._seen[name])

    def _configs(self, cell: Cell) -> dict[str, Mapping[str, object]]:
        place = self._catalog.topology(cell.topology)
        return {
            name: switch_config(cell, place, self._catalog, switch, self._hosts)
            for name, switch in self._switches.items()
        }

    def _play(
        self,
        steps: Sequence[str],
        configs: Mapping[str, Mapping[str, object]],
        limit_s: float,
        stop: Callable[[], bool],
    ) -> ansible.Played:
        given = {
            "l4sbench_switch_steps": list(steps),
            "l4sbench_switch_configs": configs,
            "l4sbench_p4": str(assets.folder("p4")),
        }
        return ansible.play(PLAYBOOK, self._inventory, self.names, given, limit_s=limit_s, stop=stop)


def require_clock(whose: str, shown_s: float, after_s: float, before_s: float) -> None:
    """Raise TrialFailed if a clock showed an instant that was not between two others of this machine."""
    off_s = clock_off_s(shown_s, after_s, before_s)
    if abs(off_s) > CLOCK_S:
        raise TrialFailed(f"{whose} is {off_s:+.1f} s off: synchronize it, and this machine, by NTP")


def _write_software(folder: Path, seen: SwitchFacts) -> None:
    """Write what a switch runs where hosts have their kernel."""
    folder.mkdir(exist_ok=True)
    release = f"{seen.sde} ({seen.program})"
    (folder / "host.json").write_text(json.dumps({"kernel_release": release}) + "\n", encoding="utf-8")


def _raise_failure(played: ansible.Played) -> None:
    for name, outcome in played.wrong.items():
        raise TrialFailed(f"{name}: {outcome.reason(played.status)}")
