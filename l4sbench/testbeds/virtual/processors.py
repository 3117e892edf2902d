# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A processor of its own for every guest.

A guest is two processes that take turns, its kernel and the program in it, thousands of times a second. The
host's scheduler moves the one that is woken to an idle processor, which wakes up more slowly than the other
would have gone on: on one processor the same guest takes a third less CPU time (docs/results/speed.md).
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


@contextlib.contextmanager
def own_cpu() -> Iterator[int | None]:
    """Hold the number of a CPU that no other guest of this machine holds; None if there is none.

    The holds are abstract sockets, which all users see and which end with their process. Someone who takes
    them all only makes guests slower.
    """
    with contextlib.ExitStack() as held:
        yield next((cpu for cpu in _in_order(os.sched_getaffinity(0)) if _hold(cpu, held)), None)


def _hold(cpu: int, held: contextlib.ExitStack) -> bool:
    name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        name.bind(f"\0l4sbench-cpu-{cpu}")
    except OSError:
        name.close()
        return False
    held.enter_context(name)
    return True


def _in_order(cpus: set[int]) -> list[int]:
    """Return CPUs with one of every core first: two guests on one core slow each other down."""

    def place(cpu: int) -> int:
        try:
            siblings = Path(_SIBLINGS.format(cpu)).read_text()
        except OSError:
            return 0
        return sum(other < cpu for other in _numbers(siblings))

    return sorted(cpus, key=lambda cpu: (place(cpu), cpu))


def _numbers(text: str) -> set[int]:
    """Return the CPUs of a list such as `0-1,8`."""
    ranges = re.findall(r"(\d+)(?:-(\d+))?", text)
    return {cpu for low, high in ranges for cpu in range(int(low), int(high or low) + 1)}
