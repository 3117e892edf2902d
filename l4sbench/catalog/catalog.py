# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The set of all entries: find the files, reject duplicate names, look entries up by name."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar, cast

from l4sbench.catalog.entries import CatalogEntry, CongestionControl, Queue
from l4sbench.catalog.kept import KeptEntries
from l4sbench.catalog.senders import no_sender, senders_in
from l4sbench.disk import assets
from l4sbench.disk.userfiles import is_file, is_folder
from l4sbench.errors import InputError, Problem, suggest
from l4sbench.facts.factors import EVENT_FACTORS, FACTORS, GROUP_FACTORS, FactorColumn, Owner, name_of
from l4sbench.text.wording import quoted
from l4sbench.topology import topology
from l4sbench.traffic.sender import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from l4sbench.catalog.entries import KernelModule
    from l4sbench.catalog.exports import Exports
    from l4sbench.catalog.senders import SenderEntry
    from l4sbench.disk.executables import Executable
    from l4sbench.text.parameters import Parameter
    from l4sbench.topology import Topology

MODULE_FILE = "module.yml"
_Entry = TypeVar("_Entry", Queue, CongestionControl)


@dataclass(frozen=True)
class Catalog:
    """The available queues and congestion controls by name, in alphabetical order.

    `folders` are the folders from outside that were read besides the project's own. `topologies` are those of
    the user's own, by name; those that ship with l4sbench are read when they are asked for. `executables`
    are programs of the user's own that send flows, `own_senders` senders that take the place of those in
    folders.
    """

    queues: Mapping[str, Queue]
    congestion_controls: Mapping[str, CongestionControl]
    folders: tuple[Path, ...] = ()
    topologies: Mapping[str, Topology] = field(default_factory=lambda: MappingProxyType({}))
    executables: Mapping[str, Executable] = field(default_factory=lambda: MappingProxyType({}))
    own_senders: Mapping[str, SenderEntry] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def load(cls, extra: Sequence[Path] = ()) -> Catalog:
        """Read every `<folder>/module.yml` below `kernels/` and each folder of `extra`.

        A folder of `extra` may itself be an entry. Folders without a `module.yml` are skipped.

        Raises:
            InputError: all problems of all files, including duplicate names.
        """
        problems = [
            Problem(str(place), "", "catalog folder not found") for place in extra if not is_folder(place)
        ]
        entries: dict[tuple[str, str], CatalogEntry] = {}  # a queue and a congestion control may share a name
        own = _files([assets.folder("kernels")])
        kept = KeptEntries.of(own)
        read: dict[Path, CatalogEntry] = {}
        for file in _files([assets.folder("kernels"), *extra]):
            try:
                read[file] = entry = kept.entries.get(file) or _read(file)
            except InputError as error:
                problems += error.problems
                continue
            key = (_kind(entry), entry.name)
            if (other := entries.get(key)) is not None:
                message = f"{entry.name} is already the name of {other.folder / MODULE_FILE}"
                problems.append(Problem(_where(file, "name"), "name", message, "choose another name"))
            entries[key] = entry
        if not problems:
            kept.keep(read[file] for file in own)
        problems += _exported_twice(entries.values())
        alike = {
            kind: {name: entry for (of, name), entry in entries.items() if of == kind} for kind, _ in entries
        }
        found = [_with_module(entry, alike[kind], problems) for (kind, _), entry in entries.items()]
        if problems:
            raise InputError(problems)
        ordered = sorted(found, key=lambda entry: entry.name)
        return cls(
            MappingProxyType({entry.name: entry for entry in ordered if isinstance(entry, Queue)}),
            MappingProxyType(
                {entry.name: entry for entry in ordered if isinstance(entry, CongestionControl)}
            ),
            tuple(extra),
        )

    @property
    def entries(self) -> tuple[CatalogEntry, ...]:
        """All queues, then all congestion controls."""
        return (*self.queues.values(), *self.congestion_controls.values())

    def queue(self, name: str) -> Queue:
        """Return the queue of that name; raise InputError with the available names if there is none."""
        return _lookup(self.queues, name, "aqm", "queue")

    def queue_name(self, name: str) -> str:
        """Return the name of a queue that may be spelled as in Linux, as `fq_codel`; another one as it is."""
        found = linux_name(name)
        return found if found in self.queues else name

    def congestion_control(self, name: str, path: str = "cc") -> CongestionControl:
        """Return the congestion control of that name; raise InputError as `queue`."""
        return _lookup(self.congestion_controls, name, path, "congestion control")

    def topology(self, name: str) -> Topology:
        """Return the topology of that name; raise InputError if there is none."""
        return self.topologies[name] if name in self.topologies else topology(name)

    def with_topologies(self, own: Iterable[Topology]) -> Catalog:
        """Return the catalog with topologies of the user's own."""
        return replace(
            self, topologies=MappingProxyType({**self.topologies, **{one.name: one for one in own}})
        )

    def executable(self, name: str, path: str = "send") -> Executable:
        """Return a program of the user's own or, after `sender:`, that of a sender.

        Raises:
            InputError: there is none of that name.
        """
        if name.startswith(PROGRAM):
            return self.sender(name.removeprefix(PROGRAM)).program
        try:
            return self.executables[name]
        except KeyError:
            message = f"there is no program {quoted(name)}"
            raise InputError([Problem("", path, message, f"write its path: ./{name}")]) from None

    def with_executables(self, own: Iterable[Executable]) -> Catalog:
        """Return the catalog with programs of the user's own."""
        return replace(
            self, executables=MappingProxyType({**self.executables, **{one.name: one for one in own}})
        )

    @cached_property
    def senders(self) -> Mapping[str, SenderEntry]:
        """The senders by name; their files are read when they are first asked for.

        Raises:
            InputError: a file is not valid.
        """
        found = {**senders_in(self.folders), **self.own_senders}
        return MappingProxyType({name: found[name] for name in sorted(found)})

    def sender(self, name: str) -> SenderEntry:
        """Return the sender of that name; raise InputError with the available names if there is none."""
        if name not in self.senders:
            raise no_sender(name, self.senders)
        return self.senders[name]

    def with_senders(self, own: Iterable[SenderEntry]) -> Catalog:
        """Return the catalog with senders of the user's own, or with other folders of those that it has."""
        return replace(
            self, own_senders=MappingProxyType({**self.own_senders, **{one.name: one for one in own}})
        )

    @cached_property
    def exports(self) -> Mapping[str, Exports]:
        """Counters that congestion controls and queues report, by kernel module or kind of queue."""
        entries: tuple[Queue | CongestionControl, ...] = (
            *self.queues.values(),
            *self.congestion_controls.values(),
        )
        return MappingProxyType({e.exports.source: e.exports for e in entries if e.exports is not None})

    def column(self, name: str) -> FactorColumn:
        """Return what a column of table `trials` holds, given its name: factor and unit.

        A column that is no factor's with a unit is named like its factor.
        """
        own = name_of(name)
        prefix = name.removesuffix(own.key)
        declared = (FactorColumn.of(f"{prefix}{one.name}", one.kind) for one in self._parameters[own.kind])
        return next((column for column in declared if column.name == name), FactorColumn(name, name))

    @cached_property
    def _parameters(self) -> Mapping[Owner, tuple[Parameter, ...]]:
        """Parameters that cells, queues, flow groups and events may have, whatever they are called."""
        of_ccs = (one for entry in self.congestion_controls.values() for one in entry.params.values())
        return {
            Owner.CELL: tuple(FACTORS.values()),
            Owner.QUEUE: tuple(one for entry in self.queues.values() for one in entry.params.values()),
            Owner.GROUP: (*GROUP_FACTORS.values(), *of_ccs),
            Owner.EVENT: tuple(EVENT_FACTORS.values()),
        }

    def digest(self) -> str:
        """Return the digest of all entries."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        text = "\n".join(f"{entry.name} {entry.digest}" for entry in self.entries)
        return hashlib.sha256(text.encode()).hexdigest()


def linux_name(name: str) -> str:
    """Return the name that an entry has here, given as Linux spells it: entries have no underscore."""
    return name.replace("_", "-")


def _kind(entry: CatalogEntry) -> str:
    return "queue" if isinstance(entry, Queue) else "congestion-control"


def _files(folders: Iterable[Path]) -> list[Path]:
    """Return every module.yml, each once, in a fixed order."""
    found: dict[Path, Path] = {}
    for folder in folders:
        for file in [folder / MODULE_FILE, *sorted(folder.glob(f"*/{MODULE_FILE}"))]:
            if is_file(file):
                found.setdefault(file.resolve(), file)
    return list(found.values())


def _read(file: Path) -> CatalogEntry:
    from l4sbench.catalog.reader import read_entry

    return read_entry(file)


def _where(file: Path, key: str) -> str:
    """Return the position of a key in a file that was read before."""
    from l4sbench.disk.document import read

    return read(file).where((key,), key=True)


def _exported_twice(entries: Iterable[Queue | CongestionControl]) -> list[Problem]:
    """Kinds of queues and modules whose counters several entries describe, and not alike."""
    found: list[Problem] = []
    first: dict[str, Queue | CongestionControl] = {}
    for entry in entries:
        if entry.exports is not None:
            other = first.setdefault(entry.exports.source, entry)
            if other.exports != entry.exports:
                source = entry.exports.source
                message = f"{other.folder / MODULE_FILE} describes the counters of {source} differently"
                hint = "leave exports out here: the others hold for every entry"
                found.append(Problem(_where(entry.folder / MODULE_FILE, "exports"), "exports", message, hint))
    return found


def _with_module(
    entry: CatalogEntry, entries: Mapping[str, CatalogEntry], problems: list[Problem]
) -> CatalogEntry:
    """Return an entry with the module, and what that exports, of the entry that it names for both.

    `entries` are those of its kind, by name.
    """
    if entry.module is None or not entry.module.of:
        return entry
    other = entries.get(entry.module.of)
    offered = [name for name, one in entries.items() if _brings_module(one)]
    if other is None or other.name not in offered:
        message = f"no entry {quoted(entry.module.of)} of the same kind brings a module"
        where = _where(entry.folder / MODULE_FILE, "module")
        problems.append(Problem(where, "module.from", message, suggest(entry.module.of, offered)))
        return entry
    module = replace(cast("KernelModule", other.module), params=entry.module.params, of=other.name)
    return replace(entry, module=module, exports=entry.exports or other.exports)


def _brings_module(entry: CatalogEntry) -> bool:
    return entry.module is not None and not entry.module.of


def _lookup(entries: Mapping[str, _Entry], name: str, path: str, what: str) -> _Entry:
    try:
        return entries[name]
    except KeyError:
        message = f"the catalog has no {what} {quoted(name)}"
        raise InputError([Problem("", path, message, suggest(name, entries))]) from None
