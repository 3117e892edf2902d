# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Templates of Markdown and LaTeX documents, and the one way to write a table in either."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

if TYPE_CHECKING:
    from reports.result.grid import Grid, T

_TEX: Final = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


def markdown_templates(folder: Path) -> Environment:
    """Return the Markdown templates of a folder; they know `table` and `grid_table`, and the filter `md`."""
    found = _environment(folder)
    found.filters["md"] = md
    found.globals |= {"table": table, "grid_table": grid_table}
    return found


def latex_templates(folder: Path) -> Environment:
    """Return the LaTeX templates of a folder, in which `<< >>` print, `<% %>` decide and `<# #>` remark."""
    return _environment(
        folder,
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
    )


def _environment(folder: Path, **delimiters: Any) -> Environment:
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=False,  # noqa: S701  (no HTML; the filters md and tex escape)
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **delimiters,
    )


def table(heads: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    """Return a Markdown table of cells that are Markdown already, without a line break at its end."""
    first, *rest = [[str(cell) for cell in line] for line in (heads, *rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (first, ["---"] * len(first), *rest))


def grid_table(
    grid: Grid[object, object, object, T],
    show: Callable[[T], object],
    *,
    head: str = "queue",
    row: str = "{}",
    column: str = "{}",
    empty: str = "",
) -> str:
    """Return the first panel of a grid as a Markdown table.

    Args:
        grid: The grid.
        show: Turns an item into the Markdown of its place.
        head: Head of the first column.
        row: Format of the rows' names.
        column: Format of the columns' names.
        empty: Shown in places without an item.
    """
    heads = [head, *(column.format(md(about)) for about in grid.columns)]
    rows = (
        [row.format(md(about)), *(empty if item is None else show(item) for item in items)]
        for about, items in grid.lines()
    )
    return table(heads, rows)


def md(text: object) -> str:
    """Return a text with the signs escaped that mean something in a Markdown table."""
    return str(text).replace("|", "\\|").replace("*", "\\*")


def tex(text: object, signs: dict[str, str] | None = None) -> str:
    """Return a text as LaTeX prints it, whatever signs it holds; `signs` are commands for further ones."""
    known = _TEX | (signs or {})
    return "".join(known.get(sign, sign) for sign in str(text))
