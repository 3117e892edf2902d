# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Python's cycle collector, and when it must not run."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause Python's cycle collector.

    Scanning a million small objects takes longer than making them. And `ast.parse` of some releases of
    Python 3.11 and 3.12 raises SystemError if code that a collection runs in the middle of it parses, too
    (CPython issue 106905).
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
