# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Facts of an inventory's hosts, kept between runs: for plans, and for kernels that are not running."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from platformdirs import user_cache_path

from l4sbench.disk.files import write_whole
from l4sbench.errors import TestbedError
from l4sbench.testbeds.ssh.facts import HostFacts, SwitchFacts, read_facts, read_switch_facts

if TYPE_CHECKING:
    from filelock import FileLock

CHANGE_S: Final = 180.0
"""Assumed duration of a change of kernels, without installing, until one was measured."""
_MOST_STAGES: Final = 32


@dataclass(frozen=True)
class Seen:
    """Facts that hosts reported while each ran the kernel that `state` names."""

    state: Mapping[str, str]
    facts: Mapping[str, HostFacts]


@dataclass(frozen=True)
class Known:
    """Everything that is remembered of an inventory's hosts.

    Attributes:
        facts: Their latest facts.
        switches: The latest facts of its switches.
        stages: Their facts under each choice of kernels, the newest last.
        change_s: Wall seconds that the last change of kernels took; None before any.
        changing: True if a change was begun and its end not seen: hosts may be restarting.
    """

    facts: Mapping[str, HostFacts] = field(default_factory=dict)
    stages: tuple[Seen, ...] = ()
    change_s: float | None = None
    changing: bool = False
    switches: Mapping[str, SwitchFacts] = field(default_factory=dict)

    def with_stage(self, state: Mapping[str, str], facts: Mapping[str, HostFacts]) -> Known:
        """Return a copy with the facts of hosts that now run these kernels."""
        others = tuple(seen for seen in self.stages if dict(seen.state) != dict(state))
        return replace(self, facts=facts, stages=(*others[1 - _MOST_STAGES :], Seen(state, facts)))

    def of(self, state: Mapping[str, str]) -> Mapping[str, HostFacts]:
        """Return the facts of hosts when they ran these kernels; empty when they never did."""
        return next((seen.facts for seen in self.stages if dict(seen.state) == dict(state)), {})


class Memory:
    """The file in the user's cache that keeps it, and what else one controller keeps of an inventory there.

    Attributes:
        path: The file.
        known: What was last read from it or written to it.
    """

    def __init__(self, inventory: Path, cache: Path | None = None) -> None:
        # not Path.resolve, which raises RuntimeError for a link to itself; reading reports that
        where = hashlib.sha256(os.path.realpath(inventory).encode()).hexdigest()[:16]
        self._inventory = inventory
        self.path: Final = (cache or user_cache_path("l4sbench") / "hosts") / f"{where}.json"
        self.known = Known()
        self._locked: FileLock | None = None

    def lock(self) -> None:
        """Lock the inventory for this process: two runs on the same hosts would end each other's trials.

        Raises:
            TestbedError: it is locked.
        """
        from filelock import FileLock, Timeout

        self.path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.path.with_suffix(".lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            message = f"another run uses the hosts of {self._inventory}"
            raise TestbedError(message, "wait until it ends, or use other hosts") from error
        self._locked = lock  # it would end with its last reference

    def unlock(self) -> None:
        """Release the inventory, if it was locked."""
        if self._locked is not None:
            self._locked.release()
            self._locked = None

    def owner(self) -> str:
        """Return this controller's name for hosts: its next trial may end one that it left behind."""
        path = self.path.with_name("owner")
        if not path.exists():
            path.write_text(secrets.token_hex(8), encoding="ascii")
        return path.read_text(encoding="ascii")

    def recall(self) -> None:
        """Read what is remembered, if anything is, unless facts are known already."""
        if not self.known.facts:
            with suppress(TestbedError):
                self.load()

    def load(self, hosts: Iterable[str] = (), switches: Iterable[str] = ()) -> Known:
        """Read and return what is remembered.

        Raises:
            TestbedError: the file is malformed or lacks one of these hosts or switches.
        """
        try:
            plain = json.loads(self.path.read_text(encoding="utf-8"))
            known = Known(
                _facts(plain["facts"]),
                tuple(Seen(seen["state"], _facts(seen["facts"])) for seen in plain.get("stages", [])),
                plain.get("change_s"),
                bool(plain.get("changing")),
                {name: read_switch_facts(own, name) for name, own in plain.get("switches", {}).items()},
            )
            for name in hosts:
                known.facts[name]
            for name in switches:
                known.switches[name]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, TestbedError) as error:
            raise TestbedError(
                f"the hosts of {self._inventory} have not been queried yet", "a run queries them"
            ) from error
        self.known = known
        return known

    def save(self, known: Known) -> None:
        """Write this to the file."""
        self.known = known
        plain = {
            "facts": _plain(known.facts),
            "stages": [{"state": dict(s.state), "facts": _plain(s.facts)} for s in known.stages],
            "change_s": known.change_s,
            "changing": known.changing,
            "switches": {name: own.model_dump(mode="json") for name, own in known.switches.items()},
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path, json.dumps(plain, indent=1))


def _facts(plain: Mapping[str, object]) -> dict[str, HostFacts]:
    return {name: read_facts(own, name) for name, own in plain.items()}


def _plain(facts: Mapping[str, HostFacts]) -> dict[str, object]:
    return {name: own.model_dump(mode="json") for name, own in facts.items()}
