# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Find what nobody needs any more, and remove it: runs, leftovers of runs, parts of old labs.

Nothing that is in use is found, and what has come into use since is not removed. Links beside run
directories, such as `good` and `baseline` of a nightly sweep, use theirs; `latest` does not, as it moves to
the newest that is left.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from l4sbench.disk.files import remove_tree, temporary_name
from l4sbench.errors import InputError, L4sbenchError
from l4sbench.store import Run, locked, steady, user_of
from l4sbench.store.lock import making_runs
from l4sbench.store.run import begun
from l4sbench.testbeds.virtual.lab.pruning import remove_parts, unused_parts

YOUNG = timedelta(minutes=10)
"""A run without ended trials is unfinished only after this time: another process may be starting it."""


@dataclass(frozen=True)
class Litter:
    """Something to remove.

    Attributes:
        kind: A whole run, unfinished trials of one, or a part of a lab.
        path: A folder; for unfinished trials that of their run.
        size_bytes: Its size on the disk.
        why: Why nobody needs it.
    """

    kind: Literal["run", "unfinished trials", "lab"]
    path: Path
    size_bytes: int
    why: str


def litter_of_runs(
    runs: Path, *, keep: int | None = None, older_than_days: int | None = None
) -> Iterator[Litter]:
    """Yield runs without ended trials and unfinished trials of others, and old runs if asked for.

    Args:
        runs: Folder of run directories.
        keep: Also older runs than the newest `keep` of each matrix.
        older_than_days: Also runs that were begun longer ago, except the latest of each matrix.
    """
    now = datetime.now(UTC)
    for home in sorted(path for path in runs.glob("*") if path.is_dir() and not path.is_symlink()):
        found = sorted((path for path in home.iterdir() if _is_run(path)), key=_begun, reverse=True)
        linked = _linked(home)
        for number, path in enumerate(found):
            if user_of(path) is not None:
                continue
            age, why = now - _begun(path), ""
            if path.name in linked:
                pass
            elif not _has_trials(path):
                why = "no trial has ended" if age > YOUNG else ""
            elif keep is not None and number >= keep:
                why = f"not among the newest {keep}" if keep > 1 else "not the newest"
            elif older_than_days is not None and number and age > timedelta(days=older_than_days):
                why = f"{age.days} days old"
            if why:
                yield Litter("run", path, _size([path]), why)
            elif partial := list((path / "cells").glob("*/*.partial")):
                yield Litter("unfinished trials", path, _size(partial), "their process has ended")


def _is_run(path: Path) -> bool:
    return begun(path.name) is not None and not path.is_symlink() and (path / "manifest.json").is_file()


def _linked(home: Path) -> frozenset[str]:
    """Return the names of the runs of a matrix that links of the user's or of a sweep lead to."""
    links = (path for path in home.iterdir() if path.is_symlink() and path.name != "latest")
    found = (Path(os.path.realpath(path)) for path in links)  # a circle of links leads nowhere
    return frozenset(path.name for path in found if path.parent == Path(os.path.realpath(home)))


def _has_trials(path: Path) -> bool:
    """Return True for a run with ended trials, or with rows of some that were removed to save space."""
    try:
        if Run(path).view().folders:
            return True
        table = path / "tables" / "trials.parquet"
        if not os.path.lexists(table):
            return False
        from l4sbench import tables  # slow to import, and few runs need it

        with tables.blaming(table.parent):
            return bool(tables.scan(table).select("cell").collect().height)
    except InputError:  # links are in it, or damage: nobody knows
        return True


def _begun(path: Path) -> datetime:
    """Return when a run began, by its name."""
    return begun(path.name) or datetime.min.replace(tzinfo=UTC)


def _size(folders: Iterable[Path]) -> int:
    total = 0
    for folder in folders:
        for here, _, names in os.walk(folder):
            for name in names:
                with suppress(FileNotFoundError):
                    total += Path(here, name).lstat().st_blocks * 512
    return total


def litter_of_labs() -> tuple[Litter, ...]:
    """Return the parts of the cache that no lab of the current sources uses."""
    return tuple(
        Litter("lab", part.path, part.size_bytes, f"{part.kind} of other sources") for part in unused_parts()
    )


def remove(litter: Iterable[Litter]) -> tuple[int, tuple[str, ...]]:
    """Remove these things; return the number of bytes that this freed, and why some were kept."""
    freed, kept = 0, []
    labs: set[Path] = set()
    for one in litter:
        try:
            if one.kind == "lab":
                labs.add(one.path)
                continue
            if one.kind == "run":
                _remove_run(one.path)
            else:
                with locked(Run(one.path)):  # which removes them
                    pass
        except (L4sbenchError, OSError) as error:
            kept.append(f"{one.path} is kept: {error}")
        else:
            freed += one.size_bytes
    if labs:
        try:
            freed += remove_parts(part for part in unused_parts() if part.path in labs)
        except (L4sbenchError, OSError) as error:
            kept.append(f"labs are kept: {error}")
    return freed, tuple(kept)


def _remove_run(path: Path) -> None:
    """Remove a run directory at once for others, and link `latest` to the newest that is left."""
    home = path.parent
    if not _is_run(path):
        raise InputError(f"{path} is not a run directory any more")
    if path.name in _linked(home):
        raise InputError("a link leads to it by now")
    aside = home / temporary_name()
    with locked(Run(path)), steady(path), making_runs(home):
        path.rename(aside)
        latest = home / "latest"
        if latest.is_symlink() and os.readlink(latest) == path.name:  # noqa: PTH115  (as it is written)
            latest.unlink()
            left = sorted((other for other in home.iterdir() if _is_run(other)), key=_begun)
            if left:
                latest.symlink_to(left[-1].name)
    remove_tree(aside)
    with suppress(OSError):
        if not any(_is_run(other) for other in home.iterdir()):
            (home / ".lock").unlink(missing_ok=True)
            home.rmdir()
