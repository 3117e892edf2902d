# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Topologies: named nodes and networks and what they are for, as data that testbeds set up.

Each is a file `matrices/topologies/<name>.yml`, or one of the user's own (docs/matrix.md):

    topology("line6")                   # one that ships with l4sbench
    find_topology("./mine.yml", here)   # either, as matrices and commands name them

A port is (node, network). A network of more than two ports is a bridge. `model` has the values and the ways
of packets through them, `reader` the grammar of the files.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.disk import assets
from l4sbench.errors import InputError, Problem, suggest
from l4sbench.text.wording import quoted
from l4sbench.topology.model import (
    ROLES,
    Address,
    Network,
    Node,
    NodePair,
    Port,
    StaticRoute,
    Topology,
    mac_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = [
    "ROLES",
    "Address",
    "Network",
    "Node",
    "NodePair",
    "Port",
    "StaticRoute",
    "Topology",
    "find_topology",
    "is_path",
    "mac_of",
    "offered",
    "read_topology",
    "topology",
]

_SUFFIXES: Final = (".yml", ".yaml")


def offered() -> Mapping[str, Path]:
    """Return the files of the topologies that ship with l4sbench, by name."""
    return {path.stem: path for path in sorted((assets.folder("matrices") / "topologies").glob("*.yml"))}


@lru_cache(maxsize=64)
def topology(name: str) -> Topology:
    """Return the topology of that name that ships with l4sbench.

    Raises:
        InputError: there is none; the hint has those that there are.
    """
    files = offered()
    if name not in files:
        raise InputError([Problem("", "topology", f"unknown topology {quoted(name)}", suggest(name, files))])
    return read_topology(files[name])


def is_path(text: str) -> bool:
    """Return True if a matrix or an option names a topology's file, and not a topology by its name."""
    return "/" in text or text.endswith(_SUFFIXES)


def find_topology(text: str, folder: Path = Path()) -> Topology:
    """Return a topology by its name, or by the path of its file, which is relative to `folder`.

    Raises:
        InputError: there is none, or its file is not valid or has the name of one that ships with l4sbench.
    """
    if not is_path(text):
        return topology(text)
    path, files = folder / text, offered()
    shipped = files.get(path.stem)
    if shipped is not None and os.path.realpath(shipped) == os.path.realpath(path):
        return topology(path.stem)
    return read_topology(path, taken=files)


def read_topology(path: Path, *, taken: Collection[str] = ()) -> Topology:
    """Read a topology from its file, whose name is that of the topology, and not among those `taken`.

    Raises:
        InputError: it is not valid; with the line and column of every problem.
    """
    from l4sbench.topology import reader  # pydantic is slow to import

    return reader.read_topology(path, taken)
