# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Sample files of several trials that are parsed together: a query costs more than the rows of one trial."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeAlias

import polars as pl

from l4sbench.disk.plain import is_plain, is_real_folder

if TYPE_CHECKING:
    from pathlib import Path

    from l4sbench.program.trial import EndedTrial

PLACE: Final = "place"
"""Column that tells trials apart: the place of each among those that are parsed together."""

Parse: TypeAlias = "Callable[[Sequence[EndedTrial]], pl.DataFrame]"


def numbered(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return the rows of one frame per trial, each with its trial's place."""
    places = [place for place, frame in enumerate(frames) for _ in range(frame.height)]
    return pl.concat(frames).hstack([pl.Series(PLACE, places, pl.UInt32)])


class Ahead:
    """Rows of one kind of sample file, of the trials that are being parsed now."""

    def __init__(self) -> None:
        self._found: dict[Path, pl.DataFrame] = {}

    def of(self, path: Path) -> pl.DataFrame | None:
        """Return the rows of a file; None if it has to be parsed by itself."""
        return self._found.get(path)

    @contextmanager
    def reading(
        self, name: str, trials: Sequence[EndedTrial], alike: Callable[[EndedTrial], object], parse: Parse
    ) -> Iterator[None]:
        """Have the rows of the file `name` of trials, as long as the context lasts.

        Trials with equal `alike` are parsed together. If that fails, none of these has its rows: one of the
        files cannot be read, and parsing each by itself finds out which.
        """
        there = [trial for trial in trials if is_real_folder(trial.raw) and is_plain(trial.raw / name)]
        try:
            for _, some in groupby(there, alike):
                own = list(some)
                for trial, rows in zip(own, _parsed(own, parse), strict=False):
                    self._found[trial.raw / name] = rows
            yield
        finally:
            self._found.clear()


def _parsed(trials: Sequence[EndedTrial], parse: Parse) -> list[pl.DataFrame]:
    """Return the rows of each trial; nothing if they cannot be parsed together."""
    try:
        rows = parse(trials)
    except (Exception, pl.exceptions.PanicException):  # noqa: BLE001  (raw files come from elsewhere)
        return []
    parts = rows.partition_by(PLACE, as_dict=True, include_key=False, maintain_order=True)
    nothing = rows.clear().drop(PLACE)
    return [parts.get((place,), nothing) for place in range(len(trials))]
