# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Text from files without signs that do something instead of being seen.

A terminal obeys ESC and its kin, and a bidirectional override swaps what a reader sees. Whatever prints text
for people, in any format, passes it through `printable` first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Final

_KEPT: Final = frozenset("\t\u00a0")
"""Tabs and blanks without a break: `str.isprintable` denies them, as it does line breaks; all do no harm."""


def printable(text: str) -> str:
    r"""Return a text with every sign that is not visible written as in Python: ESC becomes `\x1b`.

    These are control characters other than line break and tab, marks of direction, lone surrogates (bytes of
    a file name that are not UTF-8), and code points without a meaning.
    """
    if text.isprintable():
        return text
    return "\n".join(line if line.isprintable() else _escaped(line) for line in text.split("\n"))


def printable_json(plain: object, shown: Callable[[str], str] = printable) -> object:
    """Return JSON types with every text in them, names included, as `shown` returns it."""
    if isinstance(plain, dict):
        return {
            shown(name) if isinstance(name, str) else name: printable_json(value, shown)
            for name, value in plain.items()
        }
    if isinstance(plain, list | tuple):
        return [printable_json(item, shown) for item in plain]
    return shown(plain) if isinstance(plain, str) else plain


def html_text(*lines: str) -> str:
    """Return lines as paragraphs of HTML; empty ones are left out."""
    return "".join(f"<p>{escape(printable(line))}</p>" for line in lines if line)


def html_table(rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows of equal keys as a table in HTML; empty without rows. A line break in a value stays one."""
    if not rows:
        return ""

    def line(values: Sequence[object], tag: str) -> str:
        shown = (escape(printable(str(value))).replace("\n", "<br>") for value in values)
        return (
            "<tr>" + "".join(f'<{tag} style="text-align: left">{value}</{tag}>' for value in shown) + "</tr>"
        )

    body = "".join(line(list(row.values()), "td") for row in rows)
    return f"<table><thead>{line(list(rows[0]), 'th')}</thead><tbody>{body}</tbody></table>"


def _escaped(line: str) -> str:
    signs = (
        sign if sign.isprintable() or sign in _KEPT else sign.encode("unicode_escape").decode("ascii")
        for sign in line
    )
    return "".join(signs)
