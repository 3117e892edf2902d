# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Parts of a matrix that are not part of l4sbench: code of catalog entries, and copies of all in runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from l4sbench.catalog.entries import Queue
from l4sbench.catalog.senders import SENDER_FILE, SenderEntry, senders_below
from l4sbench.disk import assets
from l4sbench.disk.executables import Executable
from l4sbench.disk.files import new_folder, sync_folder
from l4sbench.disk.trust import is_code, read_code, trust, trust_program, trusted_copy, trusted_program
from l4sbench.disk.userfiles import read_bytes
from l4sbench.errors import InputError, Problem
from l4sbench.topology import read_topology
from l4sbench.traffic.sender import PROGRAM

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog, CatalogEntry
    from l4sbench.topology import Topology

CATALOG: Final = "catalog"
"""Folder of a run directory with copies of the catalog entries that are not part of l4sbench."""

TOPOLOGIES: Final = "topologies"
"""Folder of a run directory with copies of the topologies that are not part of l4sbench."""

SENDERS: Final = "senders"
"""Folder of a run directory with copies of the folders of senders that are not part of l4sbench."""

EXECUTABLES: Final = "executables"
"""Folder of a run directory with copies of the user's own programs that send flows."""

_MODULE_FILE: Final = "module.yml"
_SHOWN: Final = 8
"""Files that a message names."""


@dataclass(frozen=True)
class Settled:
    """A catalog whose modules from outside are built only from what the user trusts.

    Attributes:
        catalog: The catalog; the sources of trusted modules are the copies that were kept with the consent.
        modules: Trusted modules from outside: name -> folder to build.
        untrusted: A problem for each entry with code that the user has not trusted yet.
        refused: The names of their modules.
        consented: The entries whose code is trusted from now on.
    """

    catalog: Catalog
    modules: Mapping[str, Path]
    untrusted: tuple[Problem, ...]
    refused: frozenset[str]
    consented: tuple[str, ...] = ()


def settle(catalog: Catalog, used: Iterable[CatalogEntry], *, consent: bool) -> Settled:
    """Find out which code from outside the entries in use bring, and whether the user trusts it.

    Args:
        catalog: The catalog.
        used: Those of its entries that are used; the code of others is not touched.
        consent: Trust all of it, now and later.

    Raises:
        InputError: Code is missing, has links or is too large, or what is trusted cannot be looked up.
    """
    queues, controls = dict(catalog.queues), dict(catalog.congestion_controls)
    modules: dict[str, Path] = {}
    untrusted: list[Problem] = []
    refused: set[str] = set()
    consented: list[str] = []
    for entry in used:
        if entry.module is None or entry.module.source is None or not _is_outside(entry.module.source):
            continue
        code = read_code(entry.module.source)
        if not code.sources:
            raise InputError(
                f"{entry.folder / _MODULE_FILE} says source: true, and there is no Kbuild beside it"
            )
        copy = trusted_copy(code)
        if copy is None and consent:
            copy = trust(code)
            consented.append(entry.name)
        if copy is None:
            what = f"carries code that was not trusted yet: {_listed(code.sources)}"
            hint = f"look at {entry.module.source}, then run with --trust (l4sbench docs security)"
            untrusted.append(Problem(str(entry.folder / _MODULE_FILE), entry.name, what, hint))
            refused.add(entry.module.name)
        else:
            modules[entry.module.name] = copy
            module = replace(entry.module, source=copy)
            if isinstance(entry, Queue):
                queues[entry.name] = replace(entry, module=module)
            else:
                controls[entry.name] = replace(entry, module=module)
    settled = replace(
        catalog, queues=MappingProxyType(queues), congestion_controls=MappingProxyType(controls)
    )
    return Settled(settled, MappingProxyType(modules), tuple(untrusted), frozenset(refused), tuple(consented))


def settle_executables(settled: Settled, used: Iterable[str], *, consent: bool) -> Settled:
    """Find out in the same way whether the user trusts the programs in use that send flows.

    Programs of senders are not asked about here: their sources are (`settle_senders`).

    Raises:
        InputError: A program cannot be read, or what is trusted cannot be looked up.
    """

    def asked(name: str) -> _Asked:
        own = settled.catalog.executable(name)
        hint = f"run with --trust to run {own.file} here and on hosts (l4sbench docs security)"
        problem = Problem(str(own.file), name, "is a program that was not trusted yet", hint)
        return _Asked(name, trusted_program(own.digest), lambda: trust_program(own.content), problem)

    own = sorted(one for one in used if not one.startswith(PROGRAM))
    settled, copies = _answered(settled, map(asked, own), consent=consent)
    found = [Executable(name, copy) for name, copy in copies.items()]
    return replace(settled, catalog=settled.catalog.with_executables(found))


def settle_senders(settled: Settled, used: Iterable[str], *, consent: bool) -> Settled:
    """Find out in the same way whether the user trusts the senders in use, all files of their folders.

    Raises:
        InputError: A folder cannot be read, or what is trusted cannot be looked up.
    """

    def asked(one: SenderEntry) -> _Asked:
        what = f"carries code that was not trusted yet: {_listed(tuple(one.code.files))}"
        hint = f"look at {one.folder}, then run with --trust (l4sbench docs security)"
        problem = Problem(str(one.folder / SENDER_FILE), one.name, what, hint)
        return _Asked(one.name, trusted_copy(one.code), lambda: trust(one.code), problem)

    senders = map(settled.catalog.sender, sorted(used))
    own = {one.name: one for one in senders if one.is_outside}
    settled, copies = _answered(settled, map(asked, own.values()), consent=consent)
    found = [replace(own[name], folder=copy) for name, copy in copies.items()]
    return replace(settled, catalog=settled.catalog.with_senders(found)) if found else settled


@dataclass(frozen=True)
class _Asked:
    """Code from outside that the user is asked about.

    Attributes:
        name: Its name.
        copy: The copy that was kept with an earlier consent; None if there was none.
        keep: Keeps one, and returns it.
        problem: The problem of code that is not trusted.
    """

    name: str
    copy: Path | None
    keep: Callable[[], Path]
    problem: Problem


def _answered(
    settled: Settled, asked: Iterable[_Asked], *, consent: bool
) -> tuple[Settled, Mapping[str, Path]]:
    """Return what is settled with the answers, and the trusted copies by name."""
    copies: dict[str, Path] = {}
    untrusted, consented = list(settled.untrusted), list(settled.consented)
    for one in asked:
        copy = one.copy
        if copy is None and consent:
            copy = one.keep()
            consented.append(one.name)
        if copy is None:
            untrusted.append(one.problem)
        else:
            copies[one.name] = copy
    return replace(settled, untrusted=tuple(untrusted), consented=tuple(consented)), copies


def trusted_senders(catalog: Catalog, names: Iterable[str], *, consent: bool) -> tuple[SenderEntry, ...]:
    """Return senders by their names, those from outside as the copies that the user trusts.

    Raises:
        InputError: there is no such sender, or the user does not trust it and `consent` is not given.
    """
    unsettled = Settled(catalog, MappingProxyType({}), (), frozenset())
    wanted = tuple(names)
    settled = settle_senders(unsettled, wanted, consent=consent)
    if settled.untrusted:
        raise InputError(settled.untrusted)
    return tuple(settled.catalog.sender(name) for name in wanted)


def _listed(files: Sequence[str]) -> str:
    more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
    return f"{', '.join(files[:_SHOWN])}{more}"


def entries_with_code(files: Iterable[str]) -> tuple[str, ...]:
    """Return the kept entries with code, senders and programs among a run's files, given by their paths."""
    found = (PurePosixPath(name).parts for name in files)
    return tuple(
        sorted(
            {
                parts[1]
                for parts in found
                if (len(parts) > 2 and parts[0] == CATALOG and is_code(parts[-1]))
                or (len(parts) > 2 and parts[0] == SENDERS)
                or (len(parts) == 2 and parts[0] == EXECUTABLES)
            }
        )
    )


def keep_catalog(run: Path, catalog: Catalog) -> None:
    """Copy what is not part of l4sbench into the run directory, which then runs anywhere.

    Of an entry's folder only `module.yml` is copied and, with `source: true`, the files that a build reads.

    Raises:
        InputError: Code has links or is too large.
    """
    _keep_entries(run, catalog)
    _keep_topologies(run, catalog)
    _keep_executables(run, catalog)
    _keep_senders(run, catalog)


def _keep_entries(run: Path, catalog: Catalog) -> None:
    import shutil

    kept = run / CATALOG
    outside = [entry for entry in catalog.entries if _is_outside(entry.folder)]
    if all(entry.folder.resolve().is_relative_to(kept.resolve()) for entry in outside):
        return
    with new_folder(kept, replace=True) as partial:
        for entry in outside:
            folder = partial / entry.name
            source = entry.module.source if entry.module else None
            if source is not None and not (entry.module and entry.module.of):
                read_code(source).write(folder)
            else:
                folder.mkdir()
                shutil.copyfile(entry.folder / _MODULE_FILE, folder / _MODULE_FILE)
        sync_folder(partial)


def _keep_topologies(run: Path, catalog: Catalog) -> None:
    kept = run / TOPOLOGIES
    files = {name: one.file for name, one in catalog.topologies.items() if one.file is not None}
    if all(file.resolve().is_relative_to(kept.resolve()) for file in files.values()):
        return
    contents = {name: read_bytes(file) for name, file in files.items()}
    with new_folder(kept, replace=True) as partial:
        for name, content in contents.items():
            (partial / f"{name}.yml").write_bytes(content)
        sync_folder(partial)


def _keep_executables(run: Path, catalog: Catalog) -> None:
    """Copy the programs; those of an earlier look at the matrix stay, if they have not changed."""
    kept, own = run / EXECUTABLES, catalog.executables
    before = {one.name: one for one in kept_executables(run)}
    if not own or all(name in before and before[name].digest == one.digest for name, one in own.items()):
        return
    with new_folder(kept, replace=True) as partial:
        for name, one in own.items():
            (partial / name).write_bytes(one.content)
            (partial / name).chmod(0o755)
        sync_folder(partial)


def _keep_senders(run: Path, catalog: Catalog) -> None:
    """Copy the folders of senders; those of an earlier look at the matrix stay, if they have not changed."""
    kept = run / SENDERS
    own = [one for one in catalog.senders.values() if one.is_outside]
    before = senders_below(kept)
    if all(one.name in before and before[one.name].code.digest == one.code.digest for one in own):
        return
    with new_folder(kept, replace=True) as partial:
        for one in own:
            one.code.write(partial / one.name)
        sync_folder(partial)


def kept_senders(run: Path) -> tuple[SenderEntry, ...]:
    """Return the senders whose folders were copied into a run directory.

    Raises:
        InputError: one is not valid.
    """
    return tuple(senders_below(run / SENDERS).values())


def kept_executables(run: Path) -> tuple[Executable, ...]:
    """Return the programs that were copied into a run directory; they are read when they are needed."""
    return tuple(Executable(file.name, file) for file in sorted((run / EXECUTABLES).glob("*")))


def kept_topologies(run: Path) -> tuple[Topology, ...]:
    """Return the topologies that were copied into a run directory.

    Raises:
        InputError: one is not valid.
    """
    return tuple(read_topology(file) for file in sorted((run / TOPOLOGIES).glob("*.yml")))


def _is_outside(folder: Path) -> bool:
    """Return True unless a folder is below one of the project's own, links and `..` resolved."""
    own = (assets.folder("kernels").resolve(), assets.folder("p4").resolve())
    return not any(map(folder.resolve().is_relative_to, own))
