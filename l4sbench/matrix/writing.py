# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Write a merged source as one matrix file, so that a run directory needs no other matrix."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from l4sbench.facts.factors import refers
from l4sbench.topology import is_path

if TYPE_CHECKING:
    from l4sbench.matrix.reading import ListEntry, MatrixSource, Point, Statement


def as_yaml(source: MatrixSource) -> bytes:
    """Return the source as an equivalent YAML file in the same folder that does not extend others.

    Texts are quoted to keep their type; the folders of `catalog` and own topologies are still references.
    """
    folder = Path(source.path).parent
    lines = ["# Written by l4sbench: this matrix together with the files it extends."]
    trials = {key: value for key, value in source.settings.get("trials", {}).items() if key != "whole"}
    settings = source.settings | ({"trials": trials} if trials else {})
    if "catalog" in settings:
        settings["catalog"] = [os.path.relpath(place, folder) for place in settings["catalog"]]
    for name, value in settings.items():
        lines.append(f"{name}: {_flow(value)}")
    lines += [f"{_flow(name)}: {_value(statement, folder)}" for name, statement in source.fixed.items()]
    lines.append(f"flows: {{{', '.join(f'{_flow(group)}: {{}}' for group in source.groups)}}}")
    if source.axes:
        lines.append("axes:")
    for axis in source.axes.values():
        lines.append(f"  {_flow(axis.name)}:")
        for point in axis.points:
            own = _point(point, folder) if axis.linked else _value(next(iter(point.values())), folder)
            lines.append(f"    - {own}")
    lines += _rules("exclude", source.exclude, folder) + _rules("include", source.include, folder)
    return ("\n".join(lines) + "\n").encode()


def _rules(name: str, rules: Sequence[ListEntry] | None, folder: Path) -> list[str]:
    return [f"{name}:", *(f"  - {_point(rule.statements, folder)}" for rule in rules)] if rules else []


def _point(point: Point, folder: Path) -> str:
    inside = (f"{_flow(name)}: {_value(statement, folder)}" for name, statement in point.items())
    return f"{{{', '.join(inside)}}}"


def _value(statement: Statement, folder: Path) -> str:
    """Return a value; the path of a topology, a sender or a program becomes relative to this folder."""
    raw = statement.raw
    if not isinstance(raw, str):
        return _flow(raw)
    if (refers(statement.name, "topology") or refers(statement.name, "send")) and is_path(raw):
        return _flow(_moved(raw, statement, folder))
    if refers(statement.name, "program"):
        program, space, rest = raw.strip().partition(" ")
        return _flow(f"{_moved(program, statement, folder)}{space}{rest}" if "/" in program else raw)
    return _flow(raw)


def _moved(path: str, statement: Statement, folder: Path) -> str:
    """Return a path of a statement relative to this folder."""
    path = os.path.relpath(statement.file.parent / path, folder)
    return path if "/" in path else f"./{path}"


def _flow(value: Any) -> str:
    """Return a value in YAML's flow style, which includes JSON."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)
