# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Standard streams that are closed, full or ASCII only, and other places that cannot be used."""

from __future__ import annotations

import codecs
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from l4sbench.disk.files import PARTIAL
from l4sbench.errors import TestbedError

_IN_ASCII: Final = "l4sbench-in-ascii"
_SIGNS: Final = {
    "✓": "+",
    "✗": "x",
    "★": "*",
    "☆": "(*)",
    "◆": "!!",
    "▲": "^",
    "▼": "v",
    "µ": "u",
    "²": "^2",
    "±": "+-",
    "√": "sqrt ",
    "Σ": "sum ",
}
"""Signs of l4sbench's own output, in ASCII; every other sign becomes an escape."""


class OutputFailed(TestbedError):  # noqa: N818  (named like the other errors)
    """The answer could not be written to the standard output."""


def prepare() -> None:
    """Make the standard streams fit for everything that is printed.

    A closed stream becomes /dev/null, as the next file that is opened would otherwise take its place and
    receive what children print. Writing to a closed standard output still fails, with EBADF.
    """
    if sys.stdin is None:
        _null(0, os.O_RDONLY)
        sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        _null(1, os.O_RDONLY)
        sys.stdout = open(1, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        _null(2, os.O_WRONLY)
        sys.stderr = open(2, "w", encoding="utf-8")  # noqa: SIM115
    codecs.register_error(_IN_ASCII, _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            reconfigure(errors=_IN_ASCII)


def _null(descriptor: int, flags: int) -> None:
    found = os.open(os.devnull, flags)
    if found != descriptor:
        os.dup2(found, descriptor)
        os.close(found)


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end]
    return "".join(_SIGNS.get(sign) or _escape(sign) for sign in signs), error.end


def _escape(sign: str) -> str:
    return sign.encode("ascii", "backslashreplace").decode("ascii")


def flush_answer() -> None:
    """Write what is buffered of the answer.

    Raises:
        OutputFailed: the standard output is full or closed.
        BrokenPipeError: its reader has ended.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritten(error) from None


def unwritten(error: OSError) -> OutputFailed:
    """Return the error for an answer that could not be written."""
    return OutputFailed(f"the answer cannot be written to the standard output: {error.strerror}")


def forget_answer() -> None:
    """Drop what is buffered of the answer; Python would try to write it again when it ends."""
    with suppress(OSError):
        sys.stdout.close()
    sys.stdout = None


def reason(error: OSError) -> str:
    """Return an error of the system for people: the place and what is wrong with it."""
    names = (error.filename, error.filename2)
    paths = [Path(os.fsdecode(name)) for name in names if isinstance(name, str | bytes)]
    # nobody knows the name of an unfinished file, but its folder
    places = dict.fromkeys(str(path.parent if path.name.endswith(PARTIAL) else path) for path in paths)
    what = error.strerror or type(error).__name__
    return f"{' -> '.join(places)}: {what}" if places else f"a file could not be used: {what}"
