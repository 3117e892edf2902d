# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Draw docs/architecture.svg: the floors that pyproject.toml declares, with the imports between them.

An arrow is an import that no chain of other arrows explains (the transitive reduction), so that the drawing
stays readable. Arrows into the lowest floors, those below the last place, are left out.

usage: python tools/architecture.py [--check]
"""

from __future__ import annotations

import sys
import tomllib
from functools import cache
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Final

import grimp

ROOT: Final = Path(__file__).parents[1]
DRAWING: Final = ROOT / "docs" / "architecture.svg"

PLACES: Final = {
    "cli": (2.7, "commands"),
    "app": (2.7, "a call per command"),
    "testbeds": (1.0, "where trials run"),
    "collectors": (4.0, "raw files to rows"),
    "reports": (5.6, "tables to verdicts"),
    "fablib_slices": (2.1, "slices of FABRIC"),
    "engine": (0.6, "runs a plan"),
    "planning": (0.6, "trials, inputs, cost"),
    "store": (2.2, "run directory"),
    "program": (3.0, "what a node does"),
    "tables": (5.6, "schemas"),
    "matrix": (4.95, "YAML to cells"),
    "catalog": (4.95, "queues, cc"),
    "topology": (4.6, "nodes, networks"),
    "facts": (4.6, "cells, factors"),
    "traffic": (4.6, "kinds of flows"),
    "disk": (4.6, "safe files, trust"),
    "text": (4.6, "units, parameters"),
}
"""Column and caption of each part that gets a box. Its row is that of its floor."""

_COLUMN: Final = 112
_ROW: Final = 56
_BOX: Final = (104, 34)
_WIDTH: Final = round(6.2 * _COLUMN)

_HEAD: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" \
font-family="Liberation Sans, Arial, Helvetica, sans-serif" \
text-anchor="middle">
<title>Imports between the parts of l4sbench, from the command line down</title>
<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">\
<path d="M0 0 8 4 0 8z" fill="#47536b"/></marker></defs>
<rect width="{width}" height="{height}" fill="#fff"/>
"""


def floors() -> list[list[str]]:
    """Return the parts of each floor, the highest first, as the contracts of import-linter declare them."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    core, beside, *_ = (
        [
            [part.strip().removeprefix("l4sbench.") for part in layer.split("|")]
            for layer in contract["layers"]
        ]
        for contract in declared["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    )
    wider = {part: layer for layer in beside for part in layer}
    rows = [wider.get(layer[0], layer) for layer in core if layer != ["__main__"]]
    for above, layer in pairwise(beside):
        if layer not in rows:  # a floor of which the core has no part
            rows.insert(rows.index(above) + 1, layer)
    return rows


def imports() -> dict[str, frozenset[str]]:
    """Return the parts that each part imports directly, whatever the module, type checking left out."""
    graph = grimp.build_graph(
        "l4sbench",
        "collectors",
        "reports",
        "fablib_slices",
        exclude_type_checking_imports=True,
        cache_dir=None,
    )
    found: dict[str, set[str]] = {}
    for module in graph.modules:
        targets = {_part(name) for name in graph.find_modules_directly_imported_by(module)}
        found.setdefault(_part(module), set()).update(targets - {_part(module), "l4sbench"})
    return {part: frozenset(targets) for part, targets in found.items()}


def _part(module: str) -> str:
    package, _, rest = module.partition(".")
    return rest.partition(".")[0] if package == "l4sbench" and rest else package


def reduced(direct: dict[str, frozenset[str]]) -> list[tuple[str, str]]:
    """Return the imports that remain when every import that others imply is left out, sorted."""

    @cache
    def below(part: str) -> frozenset[str]:
        return direct[part].union(*(below(target) for target in direct[part]))

    return sorted(
        (part, target)
        for part, targets in direct.items()
        for target in targets
        if not any(target in below(other) for other in targets - {target})
    )


def drawing() -> str:
    """Return the drawing as SVG: the same text for the same floors and imports.

    Raises:
        SystemExit: A part has no entry in PLACES.
    """
    lowest = max(index for index, row in enumerate(floors()) if set(row) & set(PLACES)) + 1
    rows, ground = floors()[:lowest], [part for row in floors()[lowest:] for part in row]
    if wrong := {part for row in rows for part in row} ^ set(PLACES):
        raise SystemExit(
            f"{Path(__file__).name}: PLACES and the floors disagree about {', '.join(sorted(wrong))}"
        )
    top = {part: 12 + index * _ROW for index, row in enumerate(rows) for part in row}
    middle = {part: round(PLACES[part][0] * _COLUMN) for part in top}
    foot = 12 + len(rows) * _ROW
    lines = [_HEAD.format(width=_WIDTH, height=foot + 48)]
    lines += [
        f'<path d="M{middle[part]} {top[part] + _BOX[1]}L{middle[target]} {top[target]}" '
        'fill="none" stroke="#47536b" stroke-width="1.2" marker-end="url(#tip)"/>\n'
        for part, target in reduced(imports())
        if part in top and target in top
    ]
    lines += [_box(middle[part], top[part], part, *_BOX) for part in PLACES]
    lines.append(_ground(foot, ", ".join(ground)))
    return "".join(lines) + "</svg>\n"


def _box(middle: int, top: int, part: str, width: int, height: int) -> str:
    ours = "#e8f0fb" if part in {"collectors", "reports", "fablib_slices"} else "#f4f1e6"
    return (
        f'<rect x="{middle - width // 2}" y="{top}" width="{width}" height="{height}" rx="4" fill="{ours}" '
        'stroke="#47536b"/>\n'
        f'<text x="{middle}" y="{top + 15}" font-size="13" font-weight="bold">{escape(part)}</text>\n'
        f'<text x="{middle}" y="{top + 28}" font-size="10" fill="#333">{escape(PLACES[part][1])}</text>\n'
    )


def _ground(top: int, names: str) -> str:
    return (
        f'<rect x="12" y="{top}" width="{_WIDTH - 24}" height="34" rx="4" fill="#eee" stroke="#47536b"/>\n'
        f'<text x="{_WIDTH // 2}" y="{top + 15}" font-size="11" font-weight="bold">{escape(names)}</text>\n'
        f'<text x="{_WIDTH // 2}" y="{top + 28}" font-size="10">used from all floors above</text>\n'
    )


def main(argv: list[str]) -> int:
    """Write the drawing, or with --check return 1 when the committed one differs."""
    text = drawing()
    if argv == ["--check"]:
        return int(DRAWING.read_text(encoding="utf-8") != text)
    DRAWING.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
