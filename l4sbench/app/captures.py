# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The captures of a stored run, for figures of packets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from l4sbench.errors import InputError
from l4sbench.store import Run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TypeVar

    import polars as pl

    from l4sbench.program.trial import EndedTrial

    _Found = TypeVar("_Found")


@dataclass(frozen=True)
class StoredCaptures:
    """The captures of the trials in a run directory, as `reports.figures` takes them."""

    folder: Path

    def files(self, cell: str, trial: int) -> tuple[Path, ...]:
        """Return the captures of a trial, those before the queue first; empty where it has none.

        Raises:
            InputError: the trial is gone, its files have links, or only one side of the queue has a capture.
        """
        from collectors.packets import find_captures

        found = self._of(cell, trial, lambda ended: find_captures(ended.programs, ended.raw))
        return (*found[0], found[1]) if found else ()

    def sequences(self, cell: str, trial: int) -> pl.DataFrame:
        """Return the TCP packets of a trial, as `collectors.sequences` does.

        Raises:
            InputError: the trial or its captures are gone, a capture cannot be read, or there are links.
        """
        from collectors.sequences import read_sequences

        found = self._of(cell, trial, lambda ended: read_sequences(ended.programs, ended.raw))
        if found is None:
            raise InputError(f"trial {trial} of {cell} has no captures any more")
        return found

    def _of(self, cell: str, trial: int, read: Callable[[EndedTrial], _Found]) -> _Found:
        from collectors import BadRawError
        from collectors.trialrows import odd_file

        for ended in Run.open(self.folder).ended([cell]):
            if ended.trial == trial:
                try:
                    if odd := odd_file(ended.raw):
                        raise BadRawError(odd)
                    return read(ended)
                except BadRawError as error:
                    raise InputError(f"trial {trial} of {cell}: {error}") from error
        raise InputError(f"trial {trial} of {cell} is not in the run any more")
