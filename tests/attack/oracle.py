# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The one oracle of all hostile inputs: what a command may do, whatever it is given.

It ends with a code for fine or for bad input, gives a position where a file is at fault, shows no traceback,
prints no NaN or infinity as a figure, executes nothing of what the input says, reads and writes nothing
beside the case, and needs no more than the case's `cpu_s` seconds and `MEMORY_MB` megabytes. The processor's
time counts, so that a busy machine is no failure.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Final

from l4sbench.disk.plain import is_plain
from tests.attack.hostile import MARKER, NOBODY, OUTSIDE, SECRET

if TYPE_CHECKING:
    from tests.attack.hostile import Case

MEMORY_MB: Final = 500.0
HANG_S: Final = 600.0
"""Guard against commands that wait for ever; no verdict depends on it otherwise."""

_MOST_BYTES: Final = 64 << 20

_YAML: Final = re.compile(r":[1-9][0-9]*:[1-9][0-9]*: ")
_NO_NUMBER: Final = re.compile(r"\b(?:nan|inf|infinity)\b", re.IGNORECASE)
_NOTHING_LEFT: Final = re.compile(
    r"error: (there is no (matrix|run) |no cell |\S+: no cell has |the run has no packets)"
)
"""Messages about what is not there: a file, captures, or cells that filters or rules ask for."""
_WHOLE_FILE: Final = re.compile(r": (cannot be read|is larger than|is a pipe that) ?|file \S+ does not exist")


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        code: its exit code.
        out: what it wrote to stdout.
        err: what it wrote to stderr.
        cpu_s: time of the processor that it and its children used.
        memory_mb: most memory that it used.
    """

    code: int
    out: str
    err: str
    cpu_s: float
    memory_mb: float


_BY_NAME: Final = frozenset({"runs", "bundles", "inventories"})
"""Kinds whose files are named without a line: Parquet and archives have none, Ansible reads inventories."""


def objections(case: Case, argv: tuple[str, ...], ended: Ended) -> list[str]:
    """Return what a command did that it must not do."""
    found: list[str] = []
    if ended.code not in case.exits:
        found.append(f"exit code {ended.code}, not one of {case.exits}")
    if "Traceback (most recent call last)" in ended.out + ended.err:
        found.append("a traceback")
    if ended.code in {2, 3} and not re.search(r"^(error: |not ready)", ended.err + ended.out, re.MULTILINE):
        found.append("no reason")
    if ended.code == 2 and case.files:
        lines = [line for line in ended.err.splitlines() if line.startswith("error: ")]
        found += [f"no position: {line[:200]}" for line in lines if not _placed(case, line)]
    found += [f"{word} in its output" for word in _no_numbers(case, ended)]
    if any(character in ended.err + ended.out for character in "\x1b\x07\x9b"):
        found.append("a control character for the terminal")
    if ended.cpu_s > case.limit_s(argv):
        found.append(f"{ended.cpu_s:.1f} s of processor time")
    if ended.memory_mb > MEMORY_MB:
        found.append(f"{ended.memory_mb:.0f} MB of memory")
    if any(case.folder.rglob(MARKER)):
        found.append("a command of the input was executed")
    if sorted(path.name for path in case.folder.parent.iterdir()) != [case.folder.name]:
        found.append("something was written beside the case")
    outside = case.folder.parent.parent / OUTSIDE
    if [(path.name, path.read_text("ascii")) for path in outside.iterdir()] != [("secret", SECRET)]:
        found.append("something was written where a link leads")
    if SECRET in ended.out + ended.err or any(SECRET.encode() in content for content in _contents(case)):
        found.append("what a link leads to was read")
    return found


def _no_numbers(case: Case, ended: Ended) -> list[str]:
    """Return NaN and infinity in the output, unless files or names of the case have such a word."""
    words = set(_NO_NUMBER.findall(ended.out))
    if not words:
        return []
    texts = [
        str(case.commands).encode(),
        *(path.read_bytes() for path in case.folder.rglob("*") if path.is_file()),
    ]
    return sorted(word for word in words if not any(word.lower().encode() in text.lower() for text in texts))


def _contents(case: Case) -> Iterator[bytes]:
    """Yield the content of every file of a case, unpacked."""
    for path in case.folder.rglob("*"):
        if is_plain(path) and path.stat().st_size < _MOST_BYTES:
            content = path.read_bytes()
            yield content
            if path.suffix == ".gz":
                with suppress(OSError, EOFError, zlib.error), gzip.GzipFile(fileobj=BytesIO(content)) as file:
                    yield file.read(_MOST_BYTES)


def _placed(case: Case, line: str) -> bool:
    """Return True if a message names the file at fault and, in YAML, line and column."""
    if _NOTHING_LEFT.match(line) or NOBODY in line:
        return True
    if not any(name in line for name in case.files):
        return False
    if any(name.endswith((".yaml", ".yml")) and name in line for name in case.files):
        return bool(_YAML.search(line) or _WHOLE_FILE.search(line)) or case.kind in _BY_NAME
    return True
