# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Run directories, for writing: trials appear whole or not at all."""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.disk.files import PARTIAL, remove_leftovers, remove_tree, sync, sync_folder, write_whole
from l4sbench.disk.plain import is_plain, is_real_folder, read_plain
from l4sbench.errors import TestbedError
from l4sbench.facts.events import Status
from l4sbench.facts.faults import texts
from l4sbench.store.files import FORMAT, DiskFull, RunMoved, as_json, as_utc, is_full, room
from l4sbench.store.links import refuse_links
from l4sbench.store.lock import hold
from l4sbench.store.names import TrialFolder
from l4sbench.store.run import sweep
from l4sbench.version import __version__

if TYPE_CHECKING:
    from l4sbench.facts.faults import Fault
    from l4sbench.facts.traits import Identity
    from l4sbench.program.trial import TrialSpec
    from l4sbench.store.run import Run

ROOM_BYTES: Final = 1 << 20
"""Space that must be left on the disk when a trial ends; with less, its raw files may be truncated."""

_PROGRAMS: Final = "programs.json"


@dataclass(frozen=True)
class Ending:
    """The end and the cost of a trial: the part of `trial.json` that is not in its spec."""

    status: Status
    faults: tuple[Fault, ...]
    identity: Identity
    started: datetime
    wall_s: float
    cpu_s: float = 0.0
    virtual_s: float = 0.0
    skew_ms: float = 0.0


@contextmanager
def locked(run: Run, command: str = "") -> Iterator[RunWriter]:
    """Lock a run for writing. Other processes report `command` as the holder of the lock.

    Raises:
        InputError: there are links in the run directory.
        RunLocked: another process writes; the message names it.
        DiskFull: there is no space to record the holder.
        RunMoved: anything failed within the `with` block because the run directory is no longer there.
    """
    refuse_links(run.path)
    try:
        with hold(run.path, command):
            yield RunWriter(run)
    except RunMoved:
        raise
    except Exception as error:
        if not (run.path / "manifest.json").exists():
            raise RunMoved(run.path) from error
        raise


class RunWriter:
    """The right to write into a run directory, obtained from `locked`. Unfinished trials are removed."""

    def __init__(self, run: Run) -> None:
        self.run = run
        for folder in (run.path, run.tables, run.report):
            remove_leftovers(folder)
        self.view = sweep(run.path / "cells", _remove)
        self._full = threading.Event()
        (run.path / "cells").mkdir(exist_ok=True)  # a bundle has no empty folder
        self._cells = (run.path / "cells").stat()

    def retry(self, kinds: Collection[str]) -> None:
        """Have `view` name trials of these kinds, and older results, to run again: see `Run.to_retry`.

        Raises:
            InputError: a kind is not one of `RETRIES`, or a `trial.json` cannot be read.
        """
        self.view = self.run.to_retry(kinds)

    def keep_matrix(self, source: bytes) -> None:
        """Replace the copy of the matrix file by the file as it was read now."""
        copy = self.run.path / "matrix.yaml"
        if not copy.is_file() or copy.read_bytes() != source:
            with room(self.run.path):
                write_whole(copy, source)

    @contextmanager
    def begin(self, spec: TrialSpec) -> Iterator[Partial]:
        """Make a folder for one trial with its programs. Without a call of `end` nothing of it remains.

        Raises:
            DiskFull: here, or for anything that is written within the `with` block.
            RunMoved: likewise, when the run directory is no longer where it was.
            TestbedError: likewise, when it cannot be written for another reason.
        """
        cell = self.run.path / "cells" / spec.cell.id
        folder = cell / f"{spec.trial}-{spec.inputs_digest}{PARTIAL}"
        try:
            self.check_place()
            cell.mkdir(exist_ok=True)  # no parents: these would be made where the run was before it was moved
            _remove(str(folder))
            raw = folder / "raw"
            folder.mkdir()
            raw.mkdir()
            programs = as_json({node: program.to_json() for node, program in spec.programs.items()}).encode()
            (raw / _PROGRAMS).write_bytes(programs)
            yield Partial(spec, folder, raw, self, programs)
        except OSError as error:
            if not is_full(error):
                self.check_place(error)
                hint = "ended trials are complete; run the same command again once it can be written"
                raise TestbedError(f"the run directory cannot be written: {error}", hint) from error
            self._full.set()  # before space is freed below, so that no truncated trial ends as complete
            raise DiskFull(self.run.path) from error
        finally:
            with suppress(OSError):  # the next writer removes it
                _remove(str(folder))

    def check_place(self, error: Exception | None = None) -> None:
        """Raise RunMoved, because of `error`, when the run directory is no longer where it was."""
        try:
            moved = not os.path.samestat((self.run.path / "cells").stat(), self._cells)
        except OSError:
            moved = True
        if moved:
            raise RunMoved(self.run.path) from error

    def place(self, spec: TrialSpec, status: Status) -> Path:
        """Return the folder for a trial that ended with this status."""
        cell, first = self.run.path / "cells" / spec.cell.id, TrialFolder(spec.trial, spec.inputs_digest)
        if status is Status.FAILED:
            return _unused(cell, replace(first, kind="failed"))
        known = self.view.of(spec.cell.id)
        if replace(first, kind="invalid") in known or replace(first, kind="older") in known:
            return _unused(cell, replace(first, kind="again"))
        return cell / str(first)

    def check_space(self, folder: Path) -> None:
        """Raise OSError (ENOSPC) when the disk is full, or was full since this writer was opened."""
        if self._full.is_set():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
        probe = folder / "room"
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, ROOM_BYTES)
        except OSError as error:
            if is_full(error):
                raise
            # This file system cannot reserve space, so that nothing is known about it.
        finally:
            os.close(descriptor)
            probe.unlink()


@dataclass(frozen=True)
class Partial:
    """A trial being written."""

    spec: TrialSpec
    folder: Path
    raw: Path
    _writer: RunWriter
    _programs: bytes

    def end(self, ending: Ending) -> Path:
        """Make it an ended trial, and return its folder.

        Raises:
            OSError: it could not be written; ENOSPC also when its raw files may be truncated.
        """
        self._writer.check_space(self.folder)
        identity = ending.identity
        plain = {
            "format": FORMAT,
            "cell_id": self.spec.cell.id,
            "cell": self.spec.cell.to_json(),
            "trial": self.spec.trial,
            "seed": self.spec.seed,
            "inputs_digest": self.spec.inputs_digest,
            "status": ending.status.value,
            "reasons": texts(ending.faults),
            "faults": [fault.to_json() for fault in ending.faults],
            "started": as_utc(ending.started),
            "ended": as_utc(datetime.now(UTC)),
            "wall_s": round(ending.wall_s, 3),
            "cpu_s": round(ending.cpu_s, 3),
            "virtual_s": ending.virtual_s,
            "skew_ms": ending.skew_ms,
            "l4sbench": __version__,
            "identity": {
                "testbed": identity.testbed,
                "kernel_release": identity.kernel_release,
                "common": dict(identity.common),
                "modules": dict(identity.modules),
                "tools": dict(identity.tools),
            },
        }
        kept = self.raw / _PROGRAMS
        if not is_plain(kept) or read_plain(kept) != self._programs:  # what ran there may write there
            _remove(str(kept))
            write_whole(kept, self._programs)
        write_whole(self.folder / "trial.json", as_json(plain))
        sync_folder(self.folder)
        place = self._writer.place(self.spec, ending.status)
        self.folder.rename(place)
        sync(place.parent)
        return place


def _remove(unfinished: str) -> None:
    if is_real_folder(unfinished):  # else it is not from a run
        remove_tree(Path(unfinished))


def _unused(folder: Path, name: TrialFolder) -> Path:
    numbered = (folder / f"{name}-{number}" for number in range(1, sys.maxsize))
    return next(path for path in numbered if not path.exists())
