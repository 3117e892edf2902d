# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Topologies, programs and senders of the user's own, which a matrix names by their files or folders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from l4sbench.catalog.senders import SENDER_FILE, SenderEntry, read_sender
from l4sbench.disk.document import reported
from l4sbench.disk.executables import Executable, command_of
from l4sbench.disk.userfiles import is_file
from l4sbench.errors import BadValueError, InputError, Problem
from l4sbench.facts.factors import refers
from l4sbench.text.wording import quoted
from l4sbench.topology import Topology, find_topology, is_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from l4sbench.catalog import Catalog
    from l4sbench.matrix.reading import MatrixSource, Statement
    from l4sbench.text.parameters import Reference

_Own = TypeVar("_Own", Topology, Executable, SenderEntry)

_ANOTHER: Final = "choose another name"


def own_topologies(source: MatrixSource, catalog: Catalog) -> Catalog:
    """Return the catalog with the topologies whose files a matrix names, each by its name.

    A path is relative to the file that states it. Those that the catalog has by name are not read: a run
    directory has copies.

    Raises:
        InputError: a file does not exist or is not valid, or two have the same name.
    """

    def path_of(statement: Statement) -> Path | None:
        path = _stated_path(statement)
        return None if path is None or path.stem in catalog.topologies else path

    def read(path: Path, statement: Statement) -> Topology:
        _require_file(path, statement, statement.raw)
        return find_topology(statement.raw, statement.file.parent)

    found = _own(source, "topology", path_of, read)
    return catalog.with_topologies(found) if found else catalog


def own_executables(source: MatrixSource, catalog: Catalog) -> Catalog:
    """Return the catalog with the programs that a matrix's commands name by their paths, as topologies.

    Raises:
        InputError: a program does not exist, is not one that nodes can run, or two have the same name.
    """

    def path_of(statement: Statement) -> Path | None:
        try:
            command = command_of(statement.raw)
        except BadValueError:
            return None  # reported with the value
        if command.program in catalog.executables or "/" not in command.path:
            return None
        return statement.file.parent / command.path

    def read(path: Path, statement: Statement) -> Executable:
        one = Executable(path.name, path)
        _require_file(path, statement, command_of(statement.raw).path, "compile it first")
        try:
            one.require_usable()
        except InputError as error:
            placed = [replace(bad, where=statement.where, path=statement.name) for bad in error.problems]
            raise InputError(placed) from None
        return one

    found = _own(source, "program", path_of, read)
    return catalog.with_executables(found) if found else catalog


def own_senders(source: MatrixSource, catalog: Catalog) -> Catalog:
    """Return the catalog with the senders whose folders a matrix names, as topologies.

    Raises:
        InputError: a folder has no valid `sender.yml`, or its sender has another name than the folder.
    """

    def path_of(statement: Statement) -> Path | None:
        path = _stated_path(statement)
        return None if path is None or path.name in catalog.senders else path

    def read(path: Path, statement: Statement) -> SenderEntry:
        file = path / SENDER_FILE
        _require_file(file, statement, f"{statement.raw.rstrip('/')}/{SENDER_FILE}")
        one = read_sender(file)
        if one.name != path.name:
            message = f"folder {quoted(path.name)} has the sender {one.name}; both need the same name"
            raise _wrong(statement, message, _ANOTHER)
        return one

    found = _own(source, "send", path_of, read)
    return catalog.with_senders(found) if found else catalog


def _own(
    source: MatrixSource,
    to: Reference,
    path_of: Callable[[Statement], Path | None],
    read: Callable[[Path, Statement], _Own],
) -> tuple[_Own, ...]:
    """Read what a matrix names by paths, each path once.

    Args:
        source: The matrix.
        to: The kind of factors that name it.
        path_of: Returns the path that a statement names, None for what the catalog has.
        read: Reads it; raises InputError.

    Raises:
        InputError: with all problems of all paths, and of different paths with the same name.
    """
    paths: dict[str, Path] = {}
    found: dict[Path, _Own] = {}
    problems: list[Problem] = []
    for statement in _stated(source, to):
        path = path_of(statement)
        if path is None or path in found:
            continue
        try:
            one = read(path, statement)
        except InputError as error:
            problems += error.problems
            continue
        other = paths.setdefault(one.name, path)
        if other.resolve() == path.resolve():
            found[path] = one
        else:
            message = f"{one.name} is already the name of {other}"
            problems += _wrong(statement, message, _ANOTHER).problems
    if problems:
        raise InputError(reported(problems))
    return tuple(found.values())


def _require_file(file: Path, statement: Statement, named: str, hint: str | None = None) -> None:
    """Raise InputError where the statement is if a file, which the matrix names so, does not exist."""
    if not is_file(file):
        raise _wrong(statement, f"file {quoted(named)} not found", hint)


def _wrong(statement: Statement, message: str, hint: str | None = None) -> InputError:
    return InputError([Problem(statement.where, statement.name, message, hint)])


def _stated_path(statement: Statement) -> Path | None:
    """Return the path that a statement has for a value; None for a name."""
    return statement.file.parent / statement.raw if is_path(statement.raw) else None


def _stated(source: MatrixSource, to: Reference) -> Iterator[Statement]:
    """Yield where a matrix states factors that refer to such things."""
    points = [source.fixed, *(point for axis in source.axes.values() for point in axis.points)]
    points += [entry.statements for entry in source.include or ()]
    for point in points:
        for name, statement in point.items():
            if refers(name, to) and isinstance(statement.raw, str):
                yield statement
