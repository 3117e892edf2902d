# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Topologies, programs and senders of the user's own, which a matrix names by their files or folders."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from l4sbench.catalog.senders import SENDER_FILE, SenderEntry, read_sender
from l4sbench.disk.document import reported
from l4sbench.disk.executables import Executable, command_of
from l4sbench.disk.userfiles import is_file
from l4sbench.errors import BadValueError, InputError, Problem
from l4sbench.facts.factors import refers
from l4sbench.text.wording import quoted
from l4sbench.topology import find_topology, is_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from l4sbench.catalog import Catalog
    from l4sbench.matrix.reading import MatrixSource, Statement
    from l4sbench.text.parameters import Reference
    from l4sbench.topology import Topology


def own_topologies(source: MatrixSource, catalog: Catalog) -> Catalog:
    """Return the catalog with the topologies whose files a matrix names, each by its name.

    A path is relative to the file that states it. Those that the catalog has by name are not read: a run
    directory has copies.

    Raises:
        InputError: a file does not exist or is not valid, or two have the same name.
    """
    found: dict[str, Topology] = {}
    problems: list[Problem] = []
    for statement in _stated(source, "topology"):
        if not is_path(statement.raw):
            continue
        path = statement.file.parent / statement.raw
        if path.stem in catalog.topologies:
            continue
        if not is_file(path):
            message = f"file {quoted(statement.raw)} not found"
            problems.append(Problem(statement.where, statement.name, message))
            continue
        try:
            one = find_topology(statement.raw, statement.file.parent)
        except InputError as error:
            problems += error.problems
            continue
        other = found.setdefault(one.name, one)
        if other.file is not None and one.file is not None and other.file.resolve() != one.file.resolve():
            message = f"{one.name} is already the name of {other.file}"
            problems.append(Problem(statement.where, statement.name, message, "choose another name"))
    if problems:
        raise InputError(reported(problems))
    return catalog.with_topologies(found.values()) if found else catalog


def own_executables(source: MatrixSource, catalog: Catalog) -> Catalog:
    """Return the catalog with the programs that a matrix's commands name by their paths, as topologies.

    Raises:
        InputError: a program does not exist, is not one that nodes can run, or two have the same name.
    """
    found: dict[str, Executable] = {}
    problems: list[Problem] = []
    for statement in _stated(source, "program"):
        try:
            command = command_of(statement.raw)
        except BadValueError:
            continue  # reported with the value
        if command.program in catalog.executables or "/" not in command.path:
            continue
        one = Executable(command.program, statement.file.parent / command.path)
        if not is_file(one.file):
            message = f"file {quoted(command.path)} not found"
            problems.append(Problem(statement.where, statement.name, message, "compile it first"))
            continue
        other = found.setdefault(one.name, one)
        try:
            if other is one:
                one.require_usable()
            elif other.file.resolve() != one.file.resolve():
                message = f"{one.name} is already the name of {other.file}"
                problems.append(Problem(statement.where, statement.name, message, "choose another name"))
        except InputError as error:
            problems += [replace(bad, where=statement.where, path=statement.name) for bad in error.problems]
    if problems:
        raise InputError(reported(problems))
    return catalog.with_executables(found.values()) if found else catalog


def own_senders(source: MatrixSource, catalog: Catalog) -> Catalog:
    """Return the catalog with the senders whose folders a matrix names, as topologies.

    Raises:
        InputError: a folder has no valid `sender.yml`, or its sender has another name than the folder.
    """
    found: dict[str, SenderEntry] = {}
    problems: list[Problem] = []
    for statement in _stated(source, "send"):
        if not is_path(statement.raw):
            continue
        folder = statement.file.parent / statement.raw
        if folder.name in catalog.senders:
            continue
        try:
            one = read_sender(folder / SENDER_FILE)
        except InputError as error:
            problems += error.problems
            continue
        other = found.setdefault(one.name, one)
        message = ""
        if one.name != folder.name:
            message = f"folder {quoted(folder.name)} has the sender {one.name}; both need the same name"
        elif other.folder.resolve() != one.folder.resolve():
            message = f"{one.name} is already the name of {other.folder}"
        if message:
            problems.append(Problem(statement.where, statement.name, message, "choose another name"))
    if problems:
        raise InputError(reported(problems))
    return catalog.with_senders(found.values()) if found else catalog


def _stated(source: MatrixSource, to: Reference) -> Iterator[Statement]:
    """Yield where a matrix states factors that refer to such things."""
    points = [source.fixed, *(point for axis in source.axes.values() for point in axis.points)]
    points += [entry.statements for entry in source.include or ()]
    for point in points:
        for name, statement in point.items():
            if refers(name, to) and isinstance(statement.raw, str):
                yield statement
