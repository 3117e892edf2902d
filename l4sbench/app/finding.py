# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Matrices and run directories by the names and paths that users give; matrices loaded from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.catalog.outside import CATALOG
from l4sbench.disk import assets
from l4sbench.disk.userfiles import is_file, is_folder, short
from l4sbench.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog
    from l4sbench.matrix import Matrix, Trials
    from l4sbench.text.units import Duration

RUNS: Final = Path("runs")
"""Default folder of run directories."""


def load_matrix(
    matrix: str | Path,
    catalog: Sequence[str | Path] = (),
    change_trials: Callable[[Trials], Trials] | None = None,
    *,
    quick: bool = False,
    changes: Sequence[str] = (),
    path_rtt: Duration | None = None,
) -> Matrix:
    """Load and expand a matrix by its file or name, or its `quick` variant, with `changes` (`KEY=VALUE`).

    `change_trials` changes the number of trials, in the matrix's source, too. `path_rtt` is the time that
    `rtt: measured` means.

    Raises:
        InputError: it carries every problem of the file.
    """
    from l4sbench.matrix import Matrix
    from l4sbench.store import Run
    from l4sbench.store.links import refuse_links

    path = find_matrix(matrix)
    folders = [Path(folder) for folder in catalog]
    if is_file(path.parent / "manifest.json"):
        refuse_links(path.parent)
        # a run directory has its own copies of the entries from outside
        catalog_kept = kept_catalog(path.parent, folders)
        stored = Matrix.load(path, catalog_kept, change_trials=change_trials, stored=True, changes=changes)
        if quick:
            raise _not_quick(path, stored.name, quick=Run(path.parent).manifest.quick)
        return stored
    return Matrix.load(
        path,
        catalog_dirs=folders,
        change_trials=change_trials,
        quick=quick,
        changes=changes,
        path_rtt=path_rtt,
    )


def _not_quick(path: Path, name: str, *, quick: bool) -> InputError:
    """Return why --quick does not go with the copy of a matrix in a run directory, perhaps of its variant."""
    if quick:
        return InputError(f"{short(str(path))} is the quick variant already", "leave out --quick")
    message = f"{short(str(path))} is the copy of a run, and the quick variant has a run of its own"
    if name in assets.matrices():
        return InputError(message, f"l4sbench run {name} --quick")
    return InputError(message, "l4sbench run FILE --quick, with the matrix file that the run was made from")


def kept_catalog(run: Path, more: Sequence[Path] = ()) -> Catalog:
    """Load the catalog of a run directory: ours, and the run's copies of what is from outside."""
    from l4sbench.catalog import Catalog
    from l4sbench.catalog.outside import kept_executables, kept_senders, kept_topologies

    kept = run / CATALOG
    catalog = Catalog.load([*([kept] if kept.is_dir() else []), *more])
    catalog = catalog.with_topologies(kept_topologies(run)).with_executables(kept_executables(run))
    return catalog.with_senders(kept_senders(run))


def find_matrix(matrix: str | Path) -> Path:
    """Return the file of a matrix, given as a path or as the name of a matrix that ships with l4sbench.

    Raises:
        InputError: there is no such file.
    """
    path = Path(matrix)
    if is_file(path):
        return path
    shipped = assets.matrices()
    if str(matrix) in shipped:
        return shipped[str(matrix)]
    if os.path.lexists(path):
        return path  # reading it reports what it is: a folder, a device, a circle of links
    parent = str(matrix).removesuffix("-quick")
    hint = (
        (f"{parent} --quick is its quick variant" if parent in shipped else None)
        or did_you_mean(str(path), (*shipped, *_matrices_beside(path)))
        or "`l4sbench list matrices` prints those that there are, or give a path"
    )
    raise InputError(f"there is no matrix {short(str(matrix))}", hint)


def _matrices_beside(file: Path) -> list[str]:
    """Return the paths of matrices in the folder where this file was looked for."""
    with suppress(OSError), os.scandir(file.parent) as entries:
        names = sorted(entry.name for entry in islice(entries, _MOST_BESIDE))
        names = [name for name in names if name.endswith(_MATRIX_FILES) and name.isprintable()]
        return [str(file.parent / name) for name in names]
    return []


_MOST_BESIDE: Final = 1000


_MATRIX_FILES: Final = (".yaml", ".yml")


def _name_in(file: Path) -> str:
    """Return the name of the matrix in a file; that of the file where there is no valid one."""
    try:
        return load_matrix(file).name
    except InputError:
        return file.stem


def find_run(run: str | Path, runs: Path = RUNS) -> Path:
    """Return a run directory, given as its path or as a matrix's name or file for its latest run in `runs`.

    Raises:
        InputError: there is no such run, links are in it, or a newer l4sbench wrote it.
    """
    from l4sbench.store.files import refuse_newer
    from l4sbench.store.links import refuse_links

    places = [Path(run), Path(run, "latest"), runs / run, runs / run / "latest"]
    if Path(run).suffix in _MATRIX_FILES:
        places += [Path(run).parent, runs / _name_in(Path(run)) / "latest"]
    for path in places:
        if is_file(path / "manifest.json"):
            refuse_links(found := path.resolve())
            refuse_newer(found / "manifest.json")
            return found
    names = sorted(path.parents[1].name for path in runs.glob("*/latest/manifest.json"))
    own, own_latest, below, latest_below, *_ = places
    if (folder := next(filter(is_folder, (own_latest, own, latest_below, below)), None)) is not None:
        named = run or "." if folder == own else folder  # as it was given: `./mine`
        hint = f"choose from {', '.join(names)}" if names else None
        raise InputError(f"{named} has no manifest.json, so it is no run directory", hint)
    known = f"choose from {', '.join(names)}, or give a path" if names else f"there are no runs below {runs}"
    raise InputError(f"there is no run {short(str(run))}", did_you_mean(str(run), names) or known)
