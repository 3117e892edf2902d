# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Files that users name: the one way to read them, so that none can hang l4sbench or fill its memory.

    data = read_bytes(Path("mine.yaml"))    # InputError: missing, too large, a device, a pipe without an end
    plain = read_json(Path("bundle.json"))  # InputError with line and column

A pipe such as that of `l4sbench plan <(make-matrix)` is read too, once.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any, Final

from l4sbench.disk.plain import open_plain
from l4sbench.errors import InputError, Problem
from l4sbench.text.wording import quoted

MAX_BYTES: Final = 16 * 2**20
"""Size limit of one input."""

WAIT_S: Final = 10.0
"""Time after which a pipe must have ended."""

_PAUSE_S: Final = 0.01

MAX_INTEGER: Final = 2**63 - 1
"""Limit of every whole number in an input, in both directions: what Parquet and kernel interfaces hold."""

MOST_PROBLEMS: Final = 100
"""Number of problems of one input that are reported; a file with more is not of its kind at all."""

_KINDS: Final = (
    (stat.S_ISCHR, "it is a device"),
    (stat.S_ISBLK, "it is a device"),
    (stat.S_ISSOCK, "it is a socket"),
)
_LINE_BREAK: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_CHUNK_BYTES: Final = 2**20


def is_file(path: Path) -> bool:
    """Return True if a regular file or a pipe is at `path`; False for a name that no file can have, too."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # too long a name, a circle of links, a NUL
        return False
    return stat.S_ISREG(mode) or stat.S_ISFIFO(mode)


def is_folder(path: Path) -> bool:
    """Return True if a folder is at `path`; False for a name that no folder can have, too."""
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def read_bytes(path: Path, *, name: str = "", most_bytes: int = MAX_BYTES, plain: bool = False) -> bytes:
    """Return the content of a file or pipe.

    Args:
        path: the file.
        name: the file as messages name it; default: `path`.
        most_bytes: its largest size.
        plain: Only a regular file, and not a link to one, as in a run directory.

    Raises:
        InputError: it cannot be read, is neither a file nor a pipe, is larger than `most_bytes`, or is a pipe
            that has not ended after `WAIT_S` seconds.
    """
    name = name or str(path)
    try:
        if plain:
            with open_plain(path) as file:
                return _content(file.fileno(), name, most_bytes, waits=False)
        _refuse_kind(path.stat().st_mode, name)
        # a FIFO without a writer must not block, and a terminal must not become that of this process
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            _refuse_kind(status.st_mode, name)
            if stat.S_ISDIR(status.st_mode):
                raise _unreadable(name, "Is a directory")
            if status.st_size > most_bytes:
                raise _too_large(name, most_bytes)
            # files that the kernel makes up have no size, and some wait for what is yet to happen
            waits = stat.S_ISFIFO(status.st_mode) or not status.st_size
            return _content(descriptor, name, most_bytes, waits=waits)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _unreadable(name, error.strerror or str(error)) from None
    except UnicodeEncodeError:
        raise _unreadable(name, "its name has characters that this locale does not have") from None
    except ValueError:
        raise _unreadable(name, "its name contains a NUL") from None


def _content(descriptor: int, name: str, most_bytes: int, *, waits: bool) -> bytes:
    import select
    import time

    deadline = time.monotonic() + WAIT_S
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    parts: list[bytes] = []
    size = 0
    while True:
        if waits:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not poll.poll(left_s * 1000):
                problem = f"is a pipe that has not ended after {WAIT_S:g} s"
                raise InputError([Problem(name, "", problem, "write it to a file first")])
        try:
            part = os.read(descriptor, _CHUNK_BYTES)
        except BlockingIOError:  # another reader was faster
            time.sleep(_PAUSE_S)
            continue
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
        if size > most_bytes:
            raise _too_large(name, most_bytes)


def _refuse_kind(mode: int, name: str) -> None:
    for is_kind, reason in _KINDS:
        if is_kind(mode):
            raise _unreadable(name, reason)


def _unreadable(name: str, reason: str) -> InputError:
    return InputError([Problem(name, "", f"cannot be read: {reason}")])


def _too_large(name: str, most_bytes: int) -> InputError:
    limit = f"{most_bytes // 2**20} MiB" if most_bytes >= 2**20 else f"{most_bytes} bytes"
    return InputError([Problem(name, "", f"is larger than {limit}")])


def read_text(path: Path, *, name: str = "", plain: bool = False) -> str:
    """Return the content of a file or pipe that is UTF-8 text, without its byte order mark.

    Raises:
        InputError: as `read_bytes`; or it is not UTF-8 text, with the position.
    """
    name = name or str(path)
    return as_text(read_bytes(path, name=name, plain=plain), name)


def as_text(data: bytes, name: str) -> str:
    """Return UTF-8 text without its byte order mark; messages call it `name`.

    Raises:
        InputError: it is not UTF-8 text, with the position of the first byte that is not.
    """
    wide = next((size for size in (32, 16) if _starts_wide(data, size)), None)
    if wide is not None:
        problem = Problem(f"{name}:1:1", "", f"is UTF-{wide} text", "save it as UTF-8")
        raise InputError([problem])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", errors="replace")
        where = position(name, before, len(before))
        raise InputError([Problem(where, "", "is not UTF-8 text")]) from None


def _starts_wide(data: bytes, bits: int) -> bool:
    marks = {16: (b"\xff\xfe", b"\xfe\xff"), 32: (b"\xff\xfe\0\0", b"\0\0\xfe\xff")}
    return data.startswith(marks[bits])


def position(name: str, text: str, index: int) -> str:
    """Return `name:line:column` of the character at `index` of a text."""
    breaks = list(_LINE_BREAK.finditer(text, 0, index))
    start = breaks[-1].end() if breaks else 0
    return f"{name}:{len(breaks) + 1}:{index - start + 1}"


def read_json(path: Path, *, name: str = "", plain: bool = False) -> Any:
    """Return the value of a JSON file: maps, lists, texts, finite numbers, booleans, None.

    Raises:
        InputError: as `read_text`; or it is not JSON, has a number that is out of range, or half a character.
    """
    import json

    name = name or str(path)
    text = read_text(path, name=name, plain=plain)
    try:
        found: Any = json.loads(text, parse_constant=_no_number, parse_float=_finite, parse_int=_whole)
        if "\\u" in text:
            json.dumps(found, ensure_ascii=False).encode()  # the halves of surrogate pairs cannot be encoded
    except json.JSONDecodeError as error:
        problem = Problem(f"{name}:{error.lineno}:{error.colno}", "", f"is not valid JSON: {error.msg}")
        raise InputError([problem]) from None
    except UnicodeEncodeError:
        raise InputError([Problem(name, "", "is not valid JSON: it has half a surrogate pair")]) from None
    except RecursionError:
        raise InputError([Problem(name, "", "is not valid JSON: it is nested too deeply")]) from None
    except ValueError as error:
        raise InputError([Problem(name, "", str(error))]) from None
    return found


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is not a finite number")


def _finite(word: str) -> float:
    number = float(word)
    if number in {float("inf"), float("-inf")}:
        raise ValueError(f"{quoted(word)} is out of range")
    return number


def _whole(word: str) -> int:
    if len(word) > 21 or abs(int(word)) >= 2**64:  # seeds and counters have 64 bits
        raise ValueError(f"{quoted(word)} is out of range")
    return int(word)


def short(text: str, most: int = 200) -> str:
    """Return a long text that is no file's as messages show it: whole, or its beginning and its length."""
    return text if len(text) <= most else f"{text[: most // 2]}... ({len(text)} characters)"
