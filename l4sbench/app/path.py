# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The round-trip time for which a matrix states `measured`: that of its run, or what hosts measure now."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.app.prepare import REAL, prepare, run_path, wants_path
from l4sbench.errors import TestbedError
from l4sbench.testbeds.staged import Measuring
from l4sbench.text.units import Duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from l4sbench.app.prepare import RunOptions

PROVISIONAL: Final = Duration(10_000_000)
"""Round-trip time of cells that are made only to be measured; nothing that is measured depends on it."""


def path_of(
    matrix: str | Path, filters: Sequence[str], options: RunOptions, on_state: Callable[[str], None]
) -> Duration | None:
    """Return the path's own round-trip time; None for a matrix that does not want it.

    A run that goes on keeps the one that it began with. Hosts are prepared before they measure.

    Raises:
        InputError: the matrix or an option is wrong, or the testbed has no path of its own.
        TestbedError: hosts cannot be reached or prepared, or do not answer.
    """
    if options.testbed.kind not in REAL or not wants_path(matrix, options):
        return None  # where the lab cannot do it, reading the matrix reports so
    if (known := run_path(matrix, options)) is not None:
        return known
    testbed = prepare(matrix, filters, options, path_rtt=PROVISIONAL).open_testbed(on_state=on_state)
    if not isinstance(testbed, Measuring):
        raise TypeError(f"{options.on} measures no path")
    on_state("measuring the path's own round-trip time")
    rtt = testbed.measure_path()
    on_state(f"the path's own round-trip time is {rtt}")
    return rtt


def require_path(matrix: str | Path, filters: Sequence[str], options: RunOptions) -> None:
    """Raise InputError if a matrix wants a path that its testbed does not have, as far as a plan can know."""
    if options.testbed.kind not in REAL or not wants_path(matrix, options) or run_path(matrix, options):
        return
    with suppress(TestbedError):  # Ansible is missing, or fablib
        testbed = prepare(matrix, filters, options, path_rtt=PROVISIONAL).open_testbed(contact=False)
        if isinstance(testbed, Measuring):
            testbed.require_path()
