# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Sample files: the output of a tool that ran periodically on a real host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from collectors.collector import BadRawError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


def timed_rows(
    text: str, name: str, rows: Callable[[str], Iterable[dict[str, object]]], orphan: str
) -> Iterator[dict[str, object]]:
    """Yield the rows of a sample file, each with its time `t_ms`.

    A sample is a line `@ <milliseconds since the start instant>`, followed by lines of the tool's output.

    Args:
        text: The file's content.
        name: The file's name, for messages.
        rows: Parses one line of output into rows; raises ValueError or BadRawError.
        orphan: The message for output before the first time.

    Raises:
        BadRawError: a line cannot be parsed. A last line that is cut short is ignored.
    """
    t_ms: float | None = None
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            if line.startswith("@ "):
                t_ms = float(line[2:])
            elif t_ms is None:
                raise ValueError(orphan)
            else:
                for row in rows(line):
                    yield {"t_ms": t_ms, **row}
        except (ValueError, BadRawError) as error:
            if number == len(lines) and not text.endswith("\n"):
                return
            raise BadRawError(f"{name}, line {number}: {error}") from error
