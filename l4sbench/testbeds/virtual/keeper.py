# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Folders of guests in memory, and the end of the guests in them when their owner is killed.

A guest dies with the thread that started it, by its own death signal. Its helper processes set theirs as
their first step, so that one which has just been cloned when the guest is killed would stay for ever, and pin
the guest's memory. Every process of a guest has the guest's folder as its working directory, and the folder
is locked while its owner lives: what runs in a folder without an owner is killed, by this module run as a
process that outlives the owner, and by the next l4sbench.

As a program it needs nothing but the standard library: it waits for the end of its standard input, which its
owner holds open, and then removes what the owner left in the folder that is its argument.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from l4sbench.disk.files import is_temporary, remove_leftovers

_EMPTY_LOOKS: Final = 2
"""Looks in a row that must find no process: one look may miss a process that is just being made."""

_END_S: Final = 10.0
_POLL_S: Final = 0.01
_LAST_S: Final = 30.0
_LONGEST_POLL_S: Final = 1.0
_DELETED: Final = " (deleted)"


def sweep(memory: Path) -> None:
    """End the guests in `memory` that have lost their owner, and remove their folders.

    Only folders of this user that no living process holds are touched, and processes of this user that work
    in one of them or in one that was removed already.
    """
    remove_leftovers(memory, before=_vacate)
    for pid, folder in _workers():
        if folder.name.endswith(_DELETED) and folder.parent == memory:
            _kill(pid, folder)


def _vacate(folder: Path) -> None:
    """Kill all that runs in a folder.

    Raises:
        OSError: the folder is another user's, or something in it does not end.
    """
    if folder.stat().st_uid != os.geteuid():
        raise PermissionError(folder)
    deadline = time.monotonic() + _END_S
    empty = 0
    while empty < _EMPTY_LOOKS:
        pids = [pid for pid, where in _workers() if where == folder]
        for pid in pids:
            _kill(pid, folder)
        empty = 0 if pids else empty + 1
        if pids:
            if time.monotonic() > deadline:
                raise TimeoutError(folder)
            time.sleep(_POLL_S)


def _workers() -> Iterator[tuple[int, Path]]:
    """Yield the processes that work in a temporary folder, each with its folder."""
    for name in os.listdir("/proc"):  # noqa: PTH208  (looked at often)
        if name.isdecimal() and (folder := _works_in(int(name))) is not None:
            yield int(name), folder


def _works_in(pid: int) -> Path | None:
    """Return the temporary folder that a process of this user works in; None for every other process."""
    process = Path(f"/proc/{pid}")
    try:
        if process.stat().st_uid != os.geteuid():
            return None
        folder = (process / "cwd").readlink()
    except OSError:
        return None
    return folder if is_temporary(folder.name.removesuffix(_DELETED)) else None


def _kill(pid: int, folder: Path) -> None:
    with suppress(OSError):
        handle = os.pidfd_open(pid)  # from here on the id is unambiguous
        try:
            if _works_in(pid) == folder:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def sweep_last(memory: Path) -> None:
    """Sweep `memory` until nothing is left there of an owner that has just closed its files.

    The end of an owner's files is not one instant: the pipe to this process may be closed while the lock of a
    folder is still held, by the owner or by a child that it had just forked. Folders that stay belong to
    another owner, so that looking ends after `_LAST_S`.
    """
    left = [path for path in memory.iterdir() if is_temporary(path.name)]
    deadline = time.monotonic() + _LAST_S
    poll_s = _POLL_S
    sweep(memory)
    while any(map(os.path.lexists, left)) and time.monotonic() < deadline:
        time.sleep(poll_s)
        poll_s = min(2 * poll_s, _LONGEST_POLL_S)
        sweep(memory)


def main() -> None:
    """Wait until the owner has ended, then sweep."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 1):
        pass
    sweep_last(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
