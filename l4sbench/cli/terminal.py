# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Text output: the answer to stdout, everything else to stderr, colour only on terminals.

It does without rich, whose import takes longer than a whole `l4sbench plan`.
"""

from __future__ import annotations

import itertools
import os
import shlex
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from l4sbench.cli.streams import unwritten
from l4sbench.printable import printable

_PARTS_AT_ONCE: Final = 10_000
_SGR = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


def is_terminal(stream: TextIO) -> bool:
    """Return True if `stream` is a terminal that can redraw."""
    return stream.isatty() and os.environ.get("TERM", "") != "dumb"


def colour(stream: TextIO) -> bool:
    """Return True if `stream` takes colour: a terminal, without NO_COLOR set (https://no-color.org)."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


@dataclass(frozen=True)
class Styled:
    """A part of a line that is bold, dim, red, green or yellow where the stream takes colour."""

    text: str
    style: str


def answer(*parts: str | Styled) -> None:
    """Print the answer, to stdout; control characters in it are shown, not sent."""
    _put([_line(parts, sys.stdout), "\n"])


def answer_json(value: object) -> None:
    """Print `value` as JSON, part by part, so that a long one needs no more memory than a short one."""
    _put(itertools.chain(_json_parts(value), "\n"))


def _put(parts: Iterable[str]) -> None:
    try:
        sys.stdout.writelines(parts)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritten(error) from None


def say(*parts: str | Styled) -> None:
    """Print progress, hints and warnings, to stderr; control characters in them are shown, not sent."""
    with suppress(OSError):  # a run must not end because nobody reads its progress any more
        print(_line(parts, sys.stderr), file=sys.stderr, flush=True)


def ask(prompt: str) -> str:
    """Return a line from the standard input, with its end; the prompt goes to stderr."""
    print(printable(prompt), end="", file=sys.stderr, flush=True)
    return sys.stdin.readline()


def warn(text: str) -> None:
    """Print a warning, to stderr."""
    say(Styled("warning:", "yellow"), f" {text}")


def _line(parts: Sequence[str | Styled], stream: TextIO) -> str:
    return "".join(
        printable(part) if isinstance(part, str) else _styled(part, colour=colour(stream)) for part in parts
    )


def _styled(part: Styled, *, colour: bool) -> str:
    text = printable(part.text)
    return f"\x1b[{_SGR[part.style]}m{text}\x1b[0m" if colour else text


class OneByOne(list[object]):
    """A list whose items are made when `answer_json` prints them, and not kept."""

    def __init__(self, items: Iterator[object]) -> None:
        super().__init__((None,))  # the encoder asks whether there are any
        self._items = items

    def __iter__(self) -> Iterator[object]:
        return self._items


def _json_parts(value: object) -> Iterator[str]:
    import json

    ascii_only = (sys.stdout.encoding or "").lower() != "utf-8"
    parts = json.JSONEncoder(indent=2, ensure_ascii=ascii_only).iterencode(value)
    while text := "".join(itertools.islice(parts, _PARTS_AT_ONCE)):
        if text.replace("\n", "").isprintable():
            yield text
        else:  # what `answer` would show in Python's way is written in JSON's
            yield "".join(s if s == "\n" or s.isprintable() else json.dumps(s)[1:-1] for s in text)


def as_table(rows: Sequence[Mapping[str, object]], *, right: frozenset[str] = frozenset()) -> list[str]:
    """Return rows of equal keys as aligned lines under a heading; columns in `right` are right-aligned."""
    if not rows:
        return []
    names = list(rows[0])
    cells = [names, *([str(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    return [
        "  ".join(
            text.rjust(width) if name in right else text.ljust(width)
            for name, text, width in zip(names, line, widths, strict=True)
        ).rstrip()
        for line in cells
    ]


def answer_table(
    rows: Sequence[Mapping[str, object]], *, right: frozenset[str] = frozenset(), indent: str = ""
) -> None:
    """Print rows as `as_table` has them."""
    for line in as_table(rows, right=right):
        answer(f"{indent}{line}")


_LEAST: Final = 50
"""Columns that a text needs beside others; with fewer it goes below them."""


def as_blocks(
    rows: Sequence[Mapping[str, object]], width: int, *, right: frozenset[str] = frozenset()
) -> list[list[str]]:
    """Return the lines of the heading and of each row, as those of `as_table`, but none longer than `width`.

    The last column is wrapped beside the others, or below them. Where even these are too wide, each row has
    its first column as a heading.
    """
    table = as_table(rows, right=right)
    if max(map(len, table), default=0) <= width:
        return [[line] for line in table]
    last = list(rows[0])[-1]
    narrow = as_table([{k: v for k, v in row.items() if k != last} for row in rows], right=right)
    used = max(map(len, narrow))
    if used > width:
        return [[], *(_block(row, last, width) for row in rows)]
    beside = width - used - 2 >= _LEAST
    room, indent = (width - used - 2, " " * (used + 2)) if beside else (width - 4, " " * 4)
    blocks = []
    for line, text in zip(narrow, (last, *(str(row[last]) for row in rows)), strict=True):
        texts = _wrapped(text, room)
        first = f"{line.ljust(used)}  {texts.pop(0)}" if beside and texts else line
        blocks.append([first, *(f"{indent}{text}" for text in texts)])
    return blocks if beside else [blocks[0][:1], *blocks[1:]]


def _block(row: Mapping[str, object], last: str, width: int) -> list[str]:
    first, *others = (name for name in row if name != last)
    stated = "; ".join(f"{name}: {row[name]}" for name in others if row[name])
    below = (*_wrapped(str(row[last]), width - 4), *_wrapped(stated, width - 4))
    return [str(row[first]), *(f"    {line}" for line in below)]


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)


def as_path(path: Path) -> str:
    """Return a path for people: relative to the current folder if it is below."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def as_command(*words: str | Path) -> str:
    """Return a command for people to copy: each word quoted for a shell, paths as `as_path` has them."""
    texts = (as_path(word) if isinstance(word, Path) else word for word in words)
    paths = (isinstance(word, Path) for word in words)
    return shlex.join(
        f"./{text}" if path and text.startswith("-") else text
        for text, path in zip(texts, paths, strict=True)
    )


def kernels_text(kernels: Mapping[str, str]) -> str:
    """Return which kernel is on which hosts, for people: `debian-stock on a, b; debian-backports on c`."""
    hosts: dict[str, list[str]] = {}
    for host, kernel in kernels.items():
        hosts.setdefault(kernel, []).append(host)
    return "; ".join(f"{kernel} on {', '.join(names)}" for kernel, names in hosts.items())
