# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Write a merged source as one matrix file, so that a run directory needs no other matrix."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from l4sbench.matrix.reading import ListEntry, MatrixSource, Point


def as_yaml(source: MatrixSource) -> bytes:
    """Return the source as an equivalent YAML file in the same folder that does not extend others.

    Texts are quoted to keep their type; the folders of `catalog` are still references.
    """
    lines = ["# Written by l4sbench: this matrix together with the files it extends."]
    trials = {key: value for key, value in source.settings.get("trials", {}).items() if key != "whole"}
    settings = source.settings | ({"trials": trials} if trials else {})
    if "catalog" in settings:
        folder = Path(source.path).parent
        settings["catalog"] = [os.path.relpath(place, folder) for place in settings["catalog"]]
    for name, value in settings.items():
        lines.append(f"{name}: {_flow(value)}")
    lines += [f"{_flow(name)}: {_flow(statement.raw)}" for name, statement in source.fixed.items()]
    lines.append(f"flows: {{{', '.join(f'{_flow(group)}: {{}}' for group in source.groups)}}}")
    if source.axes:
        lines.append("axes:")
    for axis in source.axes.values():
        lines.append(f"  {_flow(axis.name)}:")
        for point in axis.points:
            lines.append(f"    - {_point(point) if axis.linked else _flow(next(iter(point.values())).raw)}")
    lines += _rules("exclude", source.exclude) + _rules("include", source.include)
    return ("\n".join(lines) + "\n").encode()


def _rules(name: str, rules: Sequence[ListEntry] | None) -> list[str]:
    return [f"{name}:", *(f"  - {_point(rule.statements)}" for rule in rules)] if rules else []


def _point(point: Point) -> str:
    return _flow({name: statement.raw for name, statement in point.items()})


def _flow(value: Any) -> str:
    """Return a value in YAML's flow style, which includes JSON."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)
