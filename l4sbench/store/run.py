# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Run directories, for reading."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.disk.files import PARTIAL, new_folder, remove_leftovers, temporary_name, write_whole
from l4sbench.disk.plain import is_plain
from l4sbench.errors import InputError
from l4sbench.facts.events import Status
from l4sbench.program.trial import EndedTrial, draw_seed
from l4sbench.store.files import FORMAT, MOVE_AWAY, as_json, as_utc, read_object, read_trial_object, room
from l4sbench.store.links import linked, refuse_links
from l4sbench.store.lock import making_runs
from l4sbench.store.names import TrialFolder
from l4sbench.text.wording import quoted_within
from l4sbench.version import __version__

if TYPE_CHECKING:
    from l4sbench.store.trialfile import TrialEnding

_NAME: Final = re.compile(r"([0-9]{8}T[0-9]{6}Z)(-[1-9][0-9]{0,8})?")
_TIME: Final = "%Y%m%dT%H%M%SZ"

RETRIES: Final = ("failed", "invalid")
"""Kinds of ended trials that a user may have run again."""

_UNDER_WAY: Final = re.compile(rf"[1-9][0-9]*-[0-9a-f]+{re.escape(PARTIAL)}")


def begun(name: str) -> datetime | None:
    """Return when a run began, by the name of its directory; None for anything else than such a name.

    It is the UTC time of the creation, and a number from the second run of that time on.
    """
    found = _NAME.fullmatch(name)
    try:
        return datetime.strptime(found[1], _TIME).replace(tzinfo=UTC) if found else None
    except ValueError:  # the 99th of the 13th month
        return None


QUICK: Final = "quick"
"""The variant of a matrix that its key of this name makes, in `Manifest.provenance`."""


@dataclass(frozen=True)
class Manifest:
    """The facts in a run directory about itself.

    Attributes:
        matrix: The matrix's name.
        created: UTC time in ISO form.
        order_seed: Shuffles the order of trials.
        l4sbench: Version that made the directory.
        provenance: Further facts about how it was made: `git`, `git describe` of the program; `variant`, the
            variant of the matrix that it runs.
        format: Version of the directory's format.
    """

    matrix: str
    created: str
    order_seed: int
    l4sbench: str = __version__
    provenance: Mapping[str, str] = field(default_factory=dict)
    format: int = FORMAT

    @property
    def quick(self) -> bool:
        """True if it runs the quick variant of its matrix."""
        return self.provenance.get("variant") == QUICK


_KINDS: Final = {"matrix": str, "created": str, "order_seed": int, "l4sbench": str}
"""Types of the facts of a manifest, which may come from elsewhere."""


@dataclass(frozen=True)
class StoreView:
    """The folders of ended trials, by cell id: everything that a plan needs from a store."""

    folders: Mapping[str, tuple[TrialFolder, ...]] = field(default_factory=dict)

    def of(self, cell_id: str) -> tuple[TrialFolder, ...]:
        """Return the folders of one cell's ended trials; empty when it has none."""
        return self.folders.get(cell_id, ())


@dataclass(frozen=True)
class Run:
    """A run directory, for reading. `l4sbench.store.locked` gives the right to write."""

    path: Path

    @classmethod
    def create(cls, runs: Path, matrix: str, source: bytes, seed: int, provenance: Mapping[str, str]) -> Run:
        """Create a directory below `runs/<matrix>/`, and link `latest` to it.

        `source` is the matrix file as it was read; `seed` is the matrix's.

        Raises:
            DiskFull: there is no space for it.
        """
        home = runs / matrix
        now = datetime.now(UTC)
        with room(home):
            home.mkdir(parents=True, exist_ok=True)
            with making_runs(home):
                remove_leftovers(home)
                path = _unused(home, now.strftime(_TIME))
                with new_folder(path) as made:
                    (made / "cells").mkdir()
                    order_seed = draw_seed(seed, "order")
                    manifest = Manifest(matrix, as_utc(now), order_seed, provenance=dict(provenance))
                    write_whole(made / "manifest.json", as_json(asdict(manifest)))
                    write_whole(made / "matrix.yaml", source)
                link = home / temporary_name()
                link.symlink_to(path.name)
                link.replace(home / "latest")
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> Run:
        """Open the run at `path`: a run directory, or the folder of a matrix for its latest run.

        Raises:
            InputError: there is no run, links are in it, or a newer l4sbench wrote it.
        """
        for candidate in (path, path / "latest"):
            if (candidate / "manifest.json").is_file():
                run = cls(candidate.resolve())
                refuse_links(run.path)
                _ = run.manifest
                return run
        raise InputError(f"{path} is not a run directory", "`l4sbench run MATRIX` creates one below runs/")

    @classmethod
    def latest(cls, runs: Path, matrix: str) -> Run | None:
        """Return the newest run of a matrix; None before the first."""
        link = runs / matrix / "latest"
        return cls.open(link) if link.exists() else None

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest. Raises InputError when it cannot be read, or when a newer l4sbench wrote it."""
        file = self.path / "manifest.json"
        plain = read_object(file)
        try:
            found = Manifest(**plain)
        except TypeError as error:
            reason = quoted_within(str(error), "\n".join(plain))
            raise InputError(f"{file}: {reason}") from error
        facts = found.provenance
        known = isinstance(facts, dict) and all(isinstance(fact, str) for fact in facts.values())
        wrong = [name for name, kind in _KINDS.items() if not isinstance(getattr(found, name), kind)]
        if wrong or not known:
            raise InputError(f"{file} has no valid {', '.join((*wrong, *([] if known else ['provenance'])))}")
        return found

    @property
    def tables(self) -> Path:
        """Folder of the Parquet tables."""
        return self.path / "tables"

    @property
    def report(self) -> Path:
        """Folder of the report."""
        return self.path / "report"

    def view(self) -> StoreView:
        """Return all ended trials, in one pass over folder names."""
        return sweep(self.path / "cells", lambda _: None)

    def to_retry(self, kinds: Collection[str]) -> StoreView:
        """Return all ended trials, with those that a plan shall have run again named so.

        These are trials of the kinds: of one that failed too often the first try remains, and the folders of
        an invalid one are replaced by one of kind `invalid`. They are also results that are older than one
        with other inputs, which tables have instead: their folders are replaced by one of kind `older`.

        Raises:
            InputError: a kind is not one of `RETRIES`, or a `trial.json` cannot be read.
        """
        for kind in kinds:
            if kind not in RETRIES:
                raise InputError(f"{kind} is not a valid kind of trial; choose from {', '.join(RETRIES)}")
        folders = {}
        for cell_id, names in self.view().folders.items():
            kept = set(names)
            if "failed" in kinds:
                kept = {name for name in names if name.kind != "failed" or name.number == 1}
            if "invalid" in kinds:
                for base in {name for name in names if not name.kind}:
                    tries = {name for name in names if name.first == base}
                    last = str(max(tries, key=attrgetter("rank")))
                    newest = self.path / "cells" / cell_id / last
                    if read_trial_object(newest).get("status") == Status.INVALID:
                        kept = (kept - tries) | {replace(base, kind="invalid")}
            for older in self._older(cell_id, names):
                kept = {name for name in kept if name.first != older} | {replace(older, kind="older")}
            folders[cell_id] = tuple(sorted(kept, key=str))
        return StoreView(folders)

    def _older(self, cell_id: str, names: Iterable[TrialFolder]) -> Iterator[TrialFolder]:
        """Yield the first results of a cell that tables do not have, as the newest has other inputs."""
        by_trial: dict[int, list[TrialFolder]] = {}
        for name in names:
            by_trial.setdefault(name.trial, []).append(name)
        for own in by_trial.values():
            results = {name.first for name in own if name.kind != "failed"}
            if results and len({name.first for name in own}) > 1:
                yield from results - {self._newest_of(cell_id, own).first}

    def ended(self, cells: Collection[str] | None = None) -> Iterator[EndedTrial]:
        """Yield the newest ended trial of every cell and number, sorted by both; only of `cells` when given.

        Raises:
            InputError: a `trial.json` cannot be read.
        """
        yield from map(self._load, self._newest(cells))

    def endings(self, cells: Collection[str] | None = None) -> Iterator[TrialEnding]:
        """Yield how the same trials ended, at a tenth of the work: only `trial.json` is read.

        Raises:
            InputError: a `trial.json` cannot be read.
        """
        from l4sbench.store.trialfile import read_ending

        for folder in self._newest(cells):
            found = read_ending(folder)
            _check_place(folder, found.cell_id, found.trial, found.inputs_digest)
            yield found

    def ended_as(self, cell_id: str, wanted: Collection[TrialFolder]) -> list[EndedTrial]:
        """Return the ended trials of a cell with these first results, those that exist.

        Of a trial that ran again because it was invalid, the newest counts.
        """
        folder = self.path / "cells" / cell_id
        newest: dict[TrialFolder, TrialFolder] = {}
        for name in sorted(_ended(_names(folder)), key=attrgetter("rank")):
            if name.kind != "failed" and is_plain(folder / str(name) / "trial.json"):
                newest[name.first] = name
        found = [self._load(folder / str(newest[name])) for name in wanted if name in newest]
        return sorted(found, key=lambda ended: ended.trial)

    def _newest(self, cells: Collection[str] | None) -> Iterator[Path]:
        """Yield the folder of the newest result of every cell and number, sorted by both."""
        view = self.view()
        for cell_id in sorted(view.folders if cells is None else set(cells) & view.folders.keys()):
            by_trial: dict[int, list[TrialFolder]] = {}
            for name in view.of(cell_id):
                by_trial.setdefault(name.trial, []).append(name)
            for trial in sorted(by_trial):
                yield self.path / "cells" / cell_id / str(self._newest_of(cell_id, by_trial[trial]))

    def _newest_of(self, cell_id: str, names: list[TrialFolder]) -> TrialFolder:
        """Return the name of the folder of a trial's newest result.

        Of tries with the same inputs a failed one counts only if all failed. Their numbers decide, not their
        times, since a clock may have been set back.
        """
        folder = self.path / "cells" / cell_id
        of_inputs = {name.first: name for name in sorted(names, key=attrgetter("rank"))}
        counting = sorted(of_inputs.values(), key=str)
        if len(counting) > 1:
            counting.sort(key=lambda name: str(read_trial_object(folder / str(name)).get("ended")))
        return counting[-1]

    def _load(self, folder: Path) -> EndedTrial:
        from l4sbench.store.trialfile import read_trial

        found = read_trial(folder)
        _check_place(folder, found.cell.id, found.trial, found.inputs_digest)
        return found


def _check_place(folder: Path, cell_id: str, trial: int, inputs: str) -> None:
    name = TrialFolder.parse(folder.name)
    if name is None or (cell_id, trial, inputs) != (folder.parent.name, name.trial, name.inputs):
        raise InputError(
            f"{folder} is damaged: its trial.json is of {cell_id}/{trial}-{inputs}",
            MOVE_AWAY,
        )


def sweep(cells: Path, remove: Callable[[str], None]) -> StoreView:
    """Return names of ended trials by cell id, from one listing per cell; `remove` gets unfinished ones.

    Raises:
        InputError: a cell's or a trial's folder is a link.
    """
    folders: dict[str, tuple[TrialFolder, ...]] = {}
    for cell_id in _names(cells):
        names = _names(cells / cell_id)
        for name in names:
            if _UNDER_WAY.fullmatch(name):
                remove(str(cells / cell_id / name))
        if kept := tuple(_ended(names)):
            folders[cell_id] = kept
    return StoreView(folders)


def _names(folder: Path) -> list[str]:
    """Return the names in a folder; none if it is no folder. Raises InputError where one is a link."""
    names = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_symlink():
                    raise linked(entry.path)
                names.append(entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return names


def _ended(names: Iterable[str]) -> Iterator[TrialFolder]:
    """Yield those of these names that folders of ended trials have."""
    return filter(None, map(TrialFolder.parse, names))


def _unused(home: Path, name: str) -> Path:
    numbered = (f"{name}-{number}" if number > 1 else name for number in range(1, sys.maxsize))
    return next(path for candidate in numbered if not os.path.lexists(path := home / candidate))
