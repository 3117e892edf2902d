# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The tables of a run, from its ended trials.

Tables are sorted by cell and trial, so a table is a sequence of the rows of each trial. Rows of trials that
the old file has are copied, those of new trials are parsed, and the new file replaces the old one once it is
complete. Large amounts of parsed rows are kept in temporary files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from collectors import queues, sockets
from collectors.collector import Content, together
from collectors.trialrows import contents_of, made_invalid, rows_of
from l4sbench import tables
from l4sbench.disk.files import unfinished_folder
from l4sbench.errors import InputError
from l4sbench.facts.factors import name_of
from l4sbench.store import TrialFolder

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog
    from l4sbench.program.trial import EndedTrial
    from l4sbench.store import Run

TRIALS_TOGETHER: Final = 32
BYTES_TOGETHER: Final = 16 << 20
"""Number of trials, and size of their files of samples, that are parsed together."""

CHECKED_ROWS: Final = 40_000
"""Number of parsed rows that become tables, and are checked, together: each trial alone would take longer."""

SPILL_ROWS: Final = 30_000
"""Number of parsed rows that are held in memory."""


@dataclass(frozen=True)
class Collected:
    """Trials that `collect` parsed, trials that the tables have now, and files that could not be read."""

    parsed: int
    trials: int
    problems: tuple[str, ...] = ()


@dataclass
class _Rows:
    """Rows of consecutive trials of one table: a range of the old file, or parsed rows."""

    old: tuple[int, int] | None = None
    parsed: list[pl.DataFrame] = field(default_factory=list)
    spilt: Path | None = None

    def lazy(self, old: Path) -> pl.LazyFrame:
        if self.old is not None:
            offset, end = self.old
            return tables.scan(old).slice(offset, end - offset)
        if self.spilt is not None:
            return pl.scan_parquet(self.spilt)
        return pl.concat(self.parsed, how="diagonal").lazy()


def collect(
    run: Run,
    catalog: Catalog,
    *,
    full: bool = False,
    mend: bool = True,
    folder: Path | None = None,
    on_trial: Callable[[int], None] | None = None,
) -> Collected:
    """Update `tables/*.parquet` of a run with its ended trials.

    Args:
        run: The run.
        catalog: Has the queues and congestion controls that the run's cells name.
        full: Parse every trial again.
        mend: Do the same where the tables turn out to be damaged; a problem says so.
        folder: Folder of the tables; default: that of the run.
        on_trial: Called with the number of trials parsed so far.

    Raises:
        DamagedTable: a table is damaged, and neither `full` nor `mend` is set.
        InputError: a newer l4sbench wrote the tables, or a trial's `trial.json` is damaged.
    """
    work = _Work(run, catalog, folder or run.tables, on_trial)
    if not full:
        try:
            with tables.blaming(work.folder):
                return work.collect(full=False)
        except tables.DamagedTable as damaged:
            if not mend:
                raise
            problem = damaged.problems[0].message
        again = work.collect(full=True)
        return replace(again, problems=(f"{problem}; parsed every trial again", *again.problems))
    return work.collect(full=True)


def behind(run: Run) -> int:
    """Return how many trials have ended that the tables of a run lack; without table `trials`, all of them.

    It is 0 if trials that the tables have are gone: tables that outlived their trials stay as they are.

    Raises:
        DamagedTable: trials have ended since, but a table is missing or damaged; the message names it.
        InputError: a newer l4sbench wrote the tables, or a trial's `trial.json` is damaged.
    """
    folders = run.view().folders
    begun = (run.tables / "trials.parquet").exists()  # it is written last
    known = _listed(run.tables) if begun else {}
    if any(TrialFolder.parse(name) not in folders.get(cell, ()) for (cell, _), name in known.items()):
        return 0
    count = sum(ended is not None for _, _, ended in _wanted(run, known))
    if begun and count:
        for name in tables.OF_TRIALS:
            tables.scan(run.tables / f"{name}.parquet")
    return count


@dataclass(frozen=True)
class _Work:
    run: Run
    catalog: Catalog
    folder: Path
    on_trial: Callable[[int], None] | None

    def collect(self, *, full: bool) -> Collected:
        known = {} if full else _known(self.folder)
        self.folder.mkdir(exist_ok=True)
        with unfinished_folder(self.folder) as parts:
            assembly = _Assembly(self.folder, parts, reuse=bool(known))
            for cell, trial, ended in _wanted(self.run, known):
                if ended is None:
                    assembly.keep(cell, trial)
                    continue
                assembly.add(ended)
                if self.on_trial is not None:
                    self.on_trial(assembly.parsed)
            if assembly.parsed or assembly.kept != len(known) or not known:
                assembly.write()
        problems = [*assembly.problems, *_write_catalog(self.folder, self.catalog, full=full)]
        return Collected(assembly.parsed, assembly.parsed + assembly.kept, tuple(problems))


def _known(folder: Path) -> dict[tuple[str, int], str]:
    """Return the trials that all tables have, with their folders; empty when all must be parsed."""
    formats = [tables.format_of(folder / f"{name}.parquet") for name in tables.OF_TRIALS]
    if any(version is None or version < tables.FORMAT for version in formats):
        return {}
    return _listed(folder)


def _listed(folder: Path) -> dict[tuple[str, int], str]:
    """Return the trials that table `trials` has, with their folders."""
    frame = tables.scan(folder / "trials.parquet").select("cell", "trial", "folder").collect()
    return {(cell, trial): name for cell, trial, name in frame.iter_rows()}


def _wanted(run: Run, known: Mapping[tuple[str, int], str]) -> Iterator[tuple[str, int, EndedTrial | None]]:
    """Every trial that belongs in the tables, in order; None in place of one that they already have."""
    view = run.view()
    held = {cell: _trials_held(cell, view.of(cell), known) for cell in view.folders}
    newest = run.ended([cell for cell, trials in held.items() if trials is None])
    ended = next(newest, None)
    for cell in sorted(held):
        for trial in held[cell] or ():
            yield cell, trial, None
        while ended is not None and ended.cell.id == cell:
            there = known.get((cell, ended.trial)) == ended.raw.parent.name
            yield cell, ended.trial, None if there else ended
            ended = next(newest, None)


def _trials_held(
    cell: str, folders: tuple[TrialFolder, ...], known: Mapping[tuple[str, int], str]
) -> list[int] | None:
    """Return a cell's trials when the tables have all of them; None when its folders must be read."""
    same = all(known.get((cell, folder.trial)) == str(folder) for folder in folders)
    return sorted(folder.trial for folder in folders) if same else None


class _Assembly:
    """The new tables, under construction."""

    def __init__(self, folder: Path, parts: Path, *, reuse: bool) -> None:
        self.parsed = 0
        self.problems: list[str] = []
        self._folder = folder
        self._parts = parts
        self._waiting = 0
        self._queued: list[EndedTrial] = []
        self._queued_bytes = 0
        self._content: dict[str, list[_Rows]] = {name: [] for name in tables.OF_TRIALS if name != "trials"}
        self._trials: list[pl.DataFrame] = []
        self._old_trials = tables.scan(folder / "trials.parquet").collect() if reuse else None
        self._kept: list[tuple[str, int]] = []
        self._places = {name: _places(folder / f"{name}.parquet") if reuse else {} for name in self._content}

    @property
    def kept(self) -> int:
        """Number of trials copied from the old tables."""
        return len(self._kept)

    def keep(self, cell: str, trial: int) -> None:
        """Copy a trial from the old tables."""
        self._settle()
        self._kept.append((cell, trial))
        for name, parts in self._content.items():
            place = self._places[name].get((cell, trial))
            if place is None:
                continue
            last = parts[-1].old if parts else None
            if last is not None and last[1] == place[0]:
                parts[-1].old = (last[0], place[1])
            else:
                parts.append(_Rows(old=place))

    def add(self, ended: EndedTrial) -> None:
        """Have a trial parsed."""
        self._queued.append(ended)
        self._queued_bytes += _sample_bytes(ended.raw)
        self.parsed += 1
        if len(self._queued) >= TRIALS_TOGETHER or self._queued_bytes > BYTES_TOGETHER:
            self._settle()

    def _settle(self) -> None:
        """Parse the trials that were added last, check their values, and take up their rows."""
        queued, self._queued, self._queued_bytes = self._queued, [], 0
        parsed: list[_Read] = []
        with sockets.read_ahead(queued), queues.read_ahead(queued):
            for ended in queued:
                parsed.append(_Read(ended, *contents_of(ended)))
                if sum(one.height for one in parsed) > CHECKED_ROWS:
                    self._take_up(parsed)
                    parsed = []
            self._take_up(parsed)

    def _take_up(self, trials: list[_Read]) -> None:
        try:
            frames = _together(trials)
        except (Exception, pl.exceptions.PanicException):  # noqa: BLE001  (values come from raw files)
            # of some trial, so each by itself
            for parsed in _conforming([_Parsed(read.ended, *rows_of(read.ended)) for read in trials]):
                self._note(parsed.ended, parsed.problems)
                for table, frame in parsed.frames.items():
                    self._take(table, frame)
        else:
            for read in trials:
                self._note(read.ended, read.problems)
            for table, frame in frames.items():
                self._take(table, frame)
        if self._waiting > SPILL_ROWS:
            self._spill()

    def _note(self, ended: EndedTrial, problems: list[str]) -> None:
        self.problems += (f"{ended.cell.id}/{ended.trial}: {problem}" for problem in problems)

    def _take(self, table: str, frame: pl.DataFrame) -> None:
        if table == "trials":
            if frame.height:
                self._trials.append(frame)
        elif frame.height:
            parts = self._content[table]
            if not parts or parts[-1].old is not None or parts[-1].spilt is not None:
                parts.append(_Rows())
            parts[-1].parsed.append(frame)
            self._waiting += frame.height

    def _spill(self) -> None:
        for name, parts in self._content.items():
            for number, part in enumerate(parts):
                if part.parsed:
                    path = self._parts / f"{name}-{number}.parquet"
                    tables.write(name, [part.lazy(path)], path, compression="lz4", flush=False)
                    part.spilt, part.parsed = path, []
        self._waiting = 0

    def write(self) -> None:
        """Replace the old tables; `trials` comes last, since it lists the trials that the others have."""
        self._settle()
        for name, parts in self._content.items():
            path = self._folder / f"{name}.parquet"
            tables.write(name, [part.lazy(path) for part in parts], path)
        found = self._trials
        if self._old_trials is not None and self._kept:
            kept = pl.DataFrame(self._kept, schema={"cell": pl.String, "trial": pl.Int64}, orient="row")
            found = [self._old_trials.join(kept, on=["cell", "trial"], how="semi"), *found]
        together = pl.concat(found, how="diagonal_relaxed") if found else tables.empty("trials")
        factors = set(together.columns) - set(tables.SCHEMAS["trials"].columns())
        unused = [name for name in factors if together[name].null_count() == together.height]
        whole = tables.conform("trials", together.drop(unused))
        tables.write("trials", [whole.lazy()], self._folder / "trials.parquet")


def _places(path: Path) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the first row of each trial in a table, and the row after its last."""
    frame = (
        tables.scan(path)
        .select("cell", "trial")
        .with_row_index("row")
        .group_by("cell", "trial")
        .agg(pl.col("row").min().alias("first"), pl.len().alias("count"))
        .collect(engine="streaming")
    )
    return {(cell, trial): (first, first + count) for cell, trial, first, count in frame.iter_rows()}


@dataclass(frozen=True)
class _Read:
    """A trial with what its collectors made of its raw files, and those that could not be read."""

    ended: EndedTrial
    contents: Mapping[str, Content]
    problems: list[str]

    @property
    def height(self) -> int:
        return sum(map(len, self.contents.values()))


@dataclass(frozen=True)
class _Parsed:
    """A trial with its rows in every table, and the files of it that could not be read."""

    ended: EndedTrial
    frames: Mapping[str, pl.DataFrame]
    problems: list[str]


def _conforming(trials: list[_Parsed]) -> list[_Parsed]:
    """Return trials with values that match the schemas; one whose values do not is invalid instead."""
    misfits = _misfits(trials)
    found = []
    for place, parsed in enumerate(trials):
        reason = misfits.get(place)
        found.append(parsed if reason is None else _without_numbers(parsed, reason))
    return found


def _without_numbers(parsed: _Parsed, reason: str) -> _Parsed:
    ended = made_invalid(parsed.ended, reason)
    frames, problems = rows_of(ended)
    # what an invalid trial has left may not match either
    left = {table: frame for table, frame in frames.items() if _misfit(table, frame) is None}
    return _Parsed(ended, left, [*problems, reason])


def _misfits(trials: list[_Parsed]) -> dict[int, str]:
    """Return the trials, by their place, that have values which do not match a schema, with the reason."""
    found: dict[int, str] = {}
    for table in tables.OF_TRIALS:
        frames = {place: own.frames[table] for place, own in enumerate(trials) if table in own.frames}
        together = pl.concat(frames.values(), how="diagonal_relaxed") if frames else tables.empty(table)
        if _misfit(table, together) is not None:
            for place, frame in frames.items():
                if (reason := _misfit(table, frame)) is not None:
                    found.setdefault(place, reason)
    return found


def _misfit(table: str, frame: pl.DataFrame) -> str | None:
    """Return the reason why values do not match a table's schema; None if they do."""
    try:
        tables.conform(table, frame)
    except ValueError as error:
        return " ".join(str(error).split())[:300]
    return None


def _together(trials: Sequence[_Read]) -> dict[str, pl.DataFrame]:
    """Return the rows of several trials in every table, all values checked. Raises as `together`."""
    found = {}
    for table in tables.OF_TRIALS:
        own = [(read.ended, read.contents[table]) for read in trials if table in read.contents]
        found[table] = together(table, own)
    return found


def _sample_bytes(raw: Path) -> int:
    """Return the size of the files of samples of a trial."""
    found = 0
    for name in (sockets.NETLINK_FILE, queues.NETLINK_FILE):
        with suppress(OSError):
            found += (raw / name).lstat().st_size
    return found


def _write_catalog(folder: Path, catalog: Catalog, *, full: bool) -> list[str]:
    """Write table `catalog`: the entries that cells name. One that left the catalog keeps its old row.

    Returns the problems of the old table, which `full` replaces even if it is damaged.
    """
    trials = tables.scan(folder / "trials.parquet").collect()
    path = folder / "catalog.parquet"
    had, problems = tables.empty("catalog"), []
    try:
        if tables.format_of(path) == tables.FORMAT:
            had = tables.check("catalog", path)
    except InputError as error:
        if not full:
            raise
        problems.append(error.problems[0].message)
    rows = list(_catalog_rows(trials, catalog))
    now = pl.DataFrame(rows, schema=had.schema) if rows else had.clear()
    whole = pl.concat([now, had.join(now, on=["kind", "name"], how="anti")])
    tables.write("catalog", [tables.conform("catalog", whole).lazy()], path)
    return problems


def _catalog_rows(trials: pl.DataFrame, catalog: Catalog) -> Iterator[dict[str, object]]:
    """Yield the rows of the queues and congestion controls that trials name, those of senders among them."""
    for name in _names(trials, ["aqm"]):
        queue = catalog.queues.get(name)
        if queue is not None:
            own = {"label": queue.label, "family": queue.family, "l4s": queue.l4s, "panels": None}
            yield {"kind": "queue", "name": name, **own, "about": queue.about, "digest": queue.digest}
    of_senders = {name: one for one in catalog.senders.values() for name in one.controls}
    for name in _names(trials, [column for column in trials.columns if name_of(column).key == "cc"]):
        if (cc := catalog.congestion_controls.get(name)) is not None:
            panels = json.dumps(dict(cc.exports.panels)) if cc.exports and cc.exports.panels else None
            own = {"label": cc.label, "family": None, "l4s": cc.l4s, "panels": panels}
            yield {"kind": "cc", "name": name, **own, "about": cc.about, "digest": cc.digest}
        elif (sender := of_senders.get(name)) is not None:
            control = sender.controls[name]
            own = {"label": control.label, "family": None, "l4s": control.l4s, "panels": None}
            yield {"kind": "cc", "name": name, **own, "about": control.about, "digest": sender.digest}


def _names(trials: pl.DataFrame, columns: list[str]) -> list[str]:
    present = [column for column in columns if column in trials.columns]
    return sorted({name for column in present for name in trials[column].drop_nulls().unique()})
