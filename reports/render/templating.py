# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Templates of Markdown and LaTeX documents, which escape every value, and tables in Markdown.

What a template prints is a text unless it is `Markdown` or `Latex` already, as with autoescape in HTML: a
label from a file cannot end a table's cell, bring HTML or call a LaTeX command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from l4sbench.printable import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reports.result.grid import Grid, T

_TEX: Final = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    # behind the end of a row, brackets and an asterisk would belong to its command
    **{sign: f"{{{sign}}}" for sign in "[]*"},
}

_MARKED: Final = re.compile(
    r"""
    [|*`\[\]]                    # cells, emphasis, code, links
    | \\(?=[^\w\s])              # an escape
    | (?<!\w)_ | _(?!\w)         # emphasis; within a word the sign means nothing
    | ~(?=~)                     # strikethrough
    | <(?=[A-Za-z/!?])           # HTML, or a link
    | &(?=\#?\w+;)               # an entity
    """,
    re.VERBOSE,
)


class Markdown(str):
    """Text that is Markdown already."""

    __slots__ = ()


class Latex(str):
    """Text that is LaTeX already."""

    __slots__ = ()


@cache  # compiling them takes longer than filling them in
def markdown_templates(folder: Path) -> Environment:
    """Return the Markdown templates of a folder; they know `table`, `grid_table` and two filters.

    `code` is for code, `prose` for a sentence with code between backquotes.
    """
    found = _environment(folder, finalize=md)
    found.filters |= {"code": code, "prose": prose}
    found.globals |= {"table": table, "grid_table": grid_table}
    return found


def latex_templates(folder: Path, signs: Mapping[str, str] | None = None) -> Environment:
    """Return the LaTeX templates of a folder, in which `<< >>` print, `<% %>` decide and `<# #>` remark.

    `signs` are commands for signs that LaTeX does not know.
    """
    escape = partial(tex, signs=signs)
    found = _environment(
        folder,
        finalize=escape,
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
    )
    found.filters["tex"] = escape
    return found


def _environment(folder: Path, **delimiters: Any) -> Environment:
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=False,  # noqa: S701  (no HTML; `finalize` escapes)
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **delimiters,
    )


def table(heads: Iterable[object], rows: Iterable[Iterable[object]]) -> Markdown:
    """Return a Markdown table, without a line break at its end."""
    first, *rest = [[md(cell) for cell in line] for line in (heads, *rows)]
    lines: tuple[Sequence[str], ...] = (first, ["---"] * len(first), *rest)
    return Markdown("\n".join(f"| {' | '.join(line)} |" for line in lines))


def grid_table(grid: Grid[object, object, object, T], show: Callable[[T], object]) -> Markdown:
    """Return the first panel of a grid as a Markdown table.

    `show` turns an item into the text, or the Markdown, of its place; places without one are empty.
    """
    rows = ([about, *("" if item is None else show(item) for item in items)] for about, items in grid.lines())
    return table(["queue", *grid.columns], rows)


def md(text: object) -> Markdown:
    """Return a text as Markdown prints it, in a table too; `Markdown` as it is."""
    if isinstance(text, Markdown):
        return text
    return Markdown(_MARKED.sub(r"\\\g<0>", _line(text)))


def code(text: object) -> Markdown:
    """Return a text as Markdown prints code."""
    return Markdown(f"`{_line(text).replace('`', chr(39))}`")


def prose(text: str) -> Markdown:
    """Return a sentence as Markdown prints it, what is between backquotes as code."""
    parts = enumerate(text.split("`"))
    return Markdown("".join(code(part) if number % 2 else md(part) for number, part in parts))


def tex(text: object, signs: Mapping[str, str] | None = None) -> Latex:
    """Return a text as LaTeX prints it, whatever signs it holds; `Latex` as it is.

    `signs` are commands for further ones.
    """
    if isinstance(text, Latex):
        return text
    known = _TEX | dict(signs or {})
    return Latex("".join(known.get(sign, sign) for sign in _line(text)))


def _line(text: object) -> str:
    return " ".join(printable(str(text)).split("\n"))
