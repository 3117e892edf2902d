# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""All entries together: found, checked for clashes, looked up by name."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from l4sbench import assets
from l4sbench.catalog.entries import CongestionControl, Queue
from l4sbench.catalog.reader import read_entry
from l4sbench.errors import InputError, Problem, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

MODULE_FILE = "module.yml"
_Entry = TypeVar("_Entry", Queue, CongestionControl)


@dataclass(frozen=True)
class Catalog:
    """The queues and congestion controls on offer, by name, in alphabetical order."""

    queues: Mapping[str, Queue]
    congestion_controls: Mapping[str, CongestionControl]

    @classmethod
    def load(cls, extra: Sequence[Path] = ()) -> Catalog:
        """Reads every `<folder>/module.yml` below `kernels/` and `p4/` and below each folder of `extra`.

        A folder of `extra` may also be an entry itself. A folder without a `module.yml` is no entry.

        Raises:
            InputError: every problem of every file at once, two entries of one name included.
        """
        problems = [
            Problem(str(place), "", "no such folder; it was named as a catalog")
            for place in extra
            if not place.is_dir()
        ]
        entries: dict[str, Queue | CongestionControl] = {}
        for file in _files([assets.folder("kernels"), assets.folder("p4"), *extra]):
            try:
                entry = read_entry(file)
            except InputError as error:
                problems += error.problems
                continue
            if (other := entries.get(entry.name)) is not None:
                message = f"{entry.name} is already offered by {other.folder / MODULE_FILE}"
                problems.append(Problem(str(file), "name", message, "give it another name"))
            entries[entry.name] = entry
        if problems:
            raise InputError(problems)
        ordered = sorted(entries.values(), key=lambda entry: entry.name)
        return cls(
            MappingProxyType({entry.name: entry for entry in ordered if isinstance(entry, Queue)}),
            MappingProxyType(
                {entry.name: entry for entry in ordered if isinstance(entry, CongestionControl)}
            ),
        )

    def queue(self, name: str) -> Queue:
        """The queue of that name; InputError that lists what is offered when there is none."""
        return _lookup(self.queues, name, "aqm", "queue")

    def congestion_control(self, name: str, path: str = "cc") -> CongestionControl:
        """The congestion control of that name; InputError that lists what is offered when there is none."""
        return _lookup(self.congestion_controls, name, path, "congestion control")

    def digest(self) -> str:
        """Digest over all entries."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        entries: list[Queue | CongestionControl] = [*self.queues.values(), *self.congestion_controls.values()]
        text = "\n".join(f"{entry.name} {entry.digest}" for entry in entries)
        return hashlib.sha256(text.encode()).hexdigest()


def _files(folders: Iterable[Path]) -> list[Path]:
    """Every module.yml, each once, in a fixed order."""
    found: dict[Path, Path] = {}
    for folder in folders:
        for file in [folder / MODULE_FILE, *sorted(folder.glob(f"*/{MODULE_FILE}"))]:
            if file.is_file():
                found.setdefault(file.resolve(), file)
    return list(found.values())


def _lookup(entries: Mapping[str, _Entry], name: str, path: str, what: str) -> _Entry:
    try:
        return entries[name]
    except KeyError:
        message = f"no {what} {name} in the catalog; it offers {', '.join(entries)}"
        raise InputError([Problem("", path, message, did_you_mean(name, entries))]) from None
