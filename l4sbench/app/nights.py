# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The history of a matrix: the nights of a sweep, or any runs one after the other, and its page.

`tools/nightly.sh` keeps the outcome of every night in `history.tsv` beside the run directories.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.app.finding import RUNS, find_run
from l4sbench.app.reading import reading
from l4sbench.app.rules import find_rule
from l4sbench.app.sheets import write_sheet
from l4sbench.app.stored import StoredRun
from l4sbench.disk.plain import is_plain, read_plain
from l4sbench.disk.userfiles import is_folder
from l4sbench.errors import InputError
from l4sbench.store.run import begun

if TYPE_CHECKING:
    from reports.compare.history import History, NightRun

HISTORY: Final = "history.tsv"
PAGE: Final = "history.html"
LAST: Final = 60
"""Number of nights on a page by default."""

_MOST_BYTES: Final = 1 << 24


@dataclass(frozen=True)
class Noted:
    """A line of `history.tsv`: a night's run, the run it was compared with (empty for none), the outcome."""

    run: str
    against: str
    outcome: str


def noted(home: Path) -> tuple[Noted, ...]:
    """Return the lines of a matrix's `history.tsv` that name a run, the last of each; none without a file."""
    file = home / HISTORY
    if not is_plain(file):
        return ()
    found: dict[str, Noted] = {}
    for line in read_plain(file, _MOST_BYTES).decode(errors="replace").splitlines():
        run, against, outcome = (*line.split("\t"), "", "")[:3]
        if begun(run) is not None:
            found[run] = Noted(run, against if begun(against) else "", outcome)
    return tuple(found.values())


def home_of(matrix: str | Path, runs: str | Path = RUNS) -> Path:
    """Return the folder of a matrix's runs, given by name, or one of the runs.

    Raises InputError if there is no run of it.
    """
    home = Path(runs, matrix)
    if is_folder(home) and any(begun(path.name) for path in home.iterdir()):
        return home
    return find_run(matrix, Path(runs)).parent


def read_history(
    home: Path, *, last: int = LAST, every: bool = False, margins: str | Path | None = None
) -> History:
    """Return the newest nights of a matrix; all its runs where no sweep has noted any.

    A night is compared with the run that the sweep compared it with, any other run with the one before.

    Args:
        home: The folder of the matrix's runs.
        last: The number of nights.
        every: All runs, also those that a sweep has not noted.
        margins: A file with the differences that matter, instead of the default.

    Raises:
        InputError: there is no run with tables, or a table or the file is damaged.
    """
    from reports.compare import load_margins
    from reports.compare.history import history

    loaded = load_margins(Path(margins)) if margins else load_margins()
    notes = {night.run: night for night in noted(home)}
    of_sweep = bool(notes) and not every
    names = sorted(p.name for p in home.iterdir() if _is_run(p) and (p.name in notes or not of_sweep))
    if not names:
        raise InputError(f"no run in {home} has tables", "`l4sbench collect RUN` writes them")
    chosen = names[-last:]
    newest = StoredRun(home / chosen[-1])
    with reading(*(home / name for name in chosen)):
        nights = _nights(home, names, chosen, notes)
        return history(newest.matrix.name, nights, loaded, find_rule(newest.matrix, None))


def _nights(
    home: Path, names: Sequence[str], chosen: Sequence[str], notes: dict[str, Noted]
) -> list[NightRun]:
    from l4sbench.app.adaptive import looks_taken
    from reports.compare.history import NightRun
    from reports.result.load import load

    loaded = {name: load(home / name) for name in chosen}
    found = []
    for name in chosen:
        note = notes.get(name)
        place = names.index(name)
        against = note.against if note else names[place - 1] if place else ""
        if against and against not in loaded and _is_run(home / against):
            loaded[against] = load(home / against)
        base = (against, loaded[against]) if against in loaded else None
        tables = loaded[name]
        looks = looks_taken(StoredRun(home / name).matrix, tables)
        found.append(NightRun(name, tables, note.outcome if note else "", base, looks))
    return found


def _is_run(path: Path) -> bool:
    """Return True for a run directory with tables."""
    return begun(path.name) is not None and not path.is_symlink() and is_plain(path / "tables/trials.parquet")


def write_history(found: History, home: Path, file: Path | None = None) -> Path:
    """Write the page of a history, by default beside the runs; return the file.

    Raises:
        InputError: the file is somebody else's, or cannot be written.
    """
    from l4sbench.app.sheets import address
    from reports.page import NightLinks, history_page

    file = file or home / PAGE
    links = [
        NightLinks(
            address(home / night.side.name / "report" / "index.html", file),
            address(home / night.side.name / "report" / "against-good.html", file),
        )
        for night in found.nights
    ]
    return write_sheet(file, history_page(found, links))
