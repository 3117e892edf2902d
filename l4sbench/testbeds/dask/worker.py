# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The part that runs on workers: it boots one guest for a task and returns the guest's files.

All answers are bytes, see `answers`.

A worker keeps labs in its user's cache, below `carried/`, each named by the checksum of its files.
"""

from __future__ import annotations

import errno
import os
import pickle
import platform
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.disk.files import remove_leftovers, remove_tree, unfinished_folder
from l4sbench.engine.testbed import TrialStopped
from l4sbench.errors import L4sbenchError, TestbedError, TrialFailed
from l4sbench.store.files import is_full
from l4sbench.testbeds.dask.answers import (
    Answer,
    BadAnswer,
    Facts,
    FailedTrial,
    LabInstalled,
    LabMissing,
    Ran,
    Unusable,
    encode,
    new_files,
    one_line,
)
from l4sbench.testbeds.dask.packing import Member, Packed, checksum_of, read, unpack
from l4sbench.testbeds.virtual import guest
from l4sbench.testbeds.virtual.captures import compress_captures
from l4sbench.testbeds.virtual.guest import Boot, run_guest
from l4sbench.testbeds.virtual.lab.cache import Cache
from l4sbench.version import __version__

if TYPE_CHECKING:
    from distributed import Worker

KERNEL: Final = "linux"
ROOTFS: Final = "rootfs"

CONSOLE: Final = "console.log"

_CARRIED: Final = "carried"
_KEPT_S: Final = 30 * 86400.0
_ROOM_BYTES: Final = 1 << 20
"""Space that must be left when a guest has ended; with less, its files may be truncated."""

_POLL_S: Final = 0.5


@cache
def facts() -> Facts:
    """Return the facts about this process."""
    libc, version = platform.libc_ver()
    folders = (Path(guest.__file__).parent, Path(__file__).parent)
    files = [file for folder in folders for file in sorted(folder.glob("*.py"))]
    return Facts(
        machine=platform.machine(),
        libc=libc or "unknown",
        libc_version=tuple(int(part) for part in version.split(".") if part.isdecimal()),
        python=".".join(platform.python_version_tuple()[:2]),
        l4sbench=__version__,
        code=checksum_of(Member(file.name, 0, file.read_bytes()) for file in files)[:8],
        zlib=zlib.ZLIB_RUNTIME_VERSION,
    )


def report_facts() -> bytes:
    """Return the facts about this process as an answer."""
    return encode(facts())


def unfit(theirs: Facts, ours: Facts) -> str:
    """Return why a worker cannot run a lab that was built here; empty when it can."""
    if theirs.machine != ours.machine:
        return f"its architecture is {theirs.machine}, the lab's is {ours.machine}"
    if theirs.libc != ours.libc:
        return f"its C library is {theirs.libc}, the lab's is {ours.libc}"
    if theirs.libc_version < ours.libc_version:
        had, needed = (".".join(map(str, facts.libc_version)) for facts in (theirs, ours))
        return f"its {theirs.libc} is {had}, the lab needs {needed} or newer"
    if (theirs.l4sbench, theirs.code) != (ours.l4sbench, ours.code):
        had, needed = (f"{facts.l4sbench} ({facts.code})" for facts in (theirs, ours))
        return f"its l4sbench is {had}, this one is {needed}"
    return f"its Python is {theirs.python}, this one is {ours.python}" if theirs.python != ours.python else ""


@dataclass(frozen=True)
class Work:
    """One guest to boot: checksum of the lab, the guest's seed, memory and files, and facts of who asks."""

    lab: str
    seed: int
    memory_mb: int
    limit_s: float
    files: Packed
    asker: Facts


# ---- labs
def lab_checksum(kernel: Path, rootfs: Path) -> str:
    """Return the checksum of a lab's files. One file at a time is in memory."""
    return checksum_of(_lab_entries(kernel, rootfs))


def pack_lab(kernel: Path, rootfs: Path) -> bytes:
    """Pack a lab, compressed."""
    entries = tuple(_lab_entries(kernel, rootfs))
    return zlib.compress(pickle.dumps(Packed(entries, checksum_of(entries))), 1)


def _lab_entries(kernel: Path, rootfs: Path) -> Iterator[Member]:
    yield Member(KERNEL, 0o755, kernel.read_bytes())
    for entry in read(rootfs.parent, rootfs.name, links=True):
        yield Member(f"{ROOTFS}{entry.name[len(rootfs.name) :]}", entry.mode, entry.content, entry.link)


def install_lab(checksum: str, packed: bytes) -> bytes:
    """Unpack a lab into this worker's cache; answers `LabInstalled`, or `Unusable` with the reason."""
    return encode(_install_lab(checksum, packed))


def _install_lab(checksum: str, packed: bytes) -> Answer:
    home = Cache.open().root / _CARRIED
    try:
        home.mkdir(parents=True, exist_ok=True)
        remove_leftovers(home)
        _remove_old(home)
        with unfinished_folder(home) as folder:
            # a cluster runs what its clients send, as these functions, by pickle
            lab: Packed = pickle.loads(zlib.decompress(packed))  # noqa: S301
            unpack(lab, folder, links=True)
            if lab.checksum != checksum:
                raise TestbedError("it is another lab than the one that was announced")
            with suppress(FileExistsError):  # another worker of this machine was faster
                _rename_new(folder, home / checksum)
    except (OSError, L4sbenchError) as error:
        return Unusable(reason=one_line(f"the lab cannot be unpacked: {error}"))
    return LabInstalled()


def _rename_new(folder: Path, target: Path) -> None:
    try:
        folder.rename(target)
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            raise
        raise FileExistsError(target) from error


def _remove_old(home: Path) -> None:
    for path in home.iterdir():
        if time.time() - path.stat().st_mtime > _KEPT_S:
            remove_tree(path)


# ---- guests
def run_work(work: Work) -> bytes:
    """Boot a guest, wait for its end and answer with its files. Ends early when the task is cancelled."""
    return encode(_run_work(work))


def _run_work(work: Work) -> Answer:
    if reason := unfit(facts(), work.asker):
        return Unusable(reason=one_line(reason))
    lab = Cache.open().root / _CARRIED / work.lab
    if not lab.is_dir():
        return LabMissing()
    try:
        os.utime(lab)  # it is in use
        with _scratch() as folder, _cancelled() as stop:
            trial = folder / "trial"
            trial.mkdir()
            boot = Boot(lab / KERNEL, lab / ROOTFS, trial, work.seed, memory_mb=work.memory_mb)
            return _run_guest(work, boot, stop)
    except (TrialFailed, TrialStopped, BadAnswer) as failure:
        return FailedTrial(reason=one_line(str(failure) or "stopped"))
    except TestbedError as error:
        return Unusable(reason=one_line(str(error)))
    except OSError as error:
        if is_full(error):
            place = error.filename or tempfile.gettempdir()
            return Unusable(reason=one_line(f"the disk is full: {place}"))
        return Unusable(reason=one_line(f"it cannot run guests: {error}"))


def _run_guest(work: Work, boot: Boot, stop: threading.Event) -> Ran:
    unpack(work.files, boot.trial)
    ended = run_guest(boot, boot.trial / CONSOLE, work.limit_s, stop)
    _check_room(boot.trial)
    if facts().zlib == work.asker.zlib:  # else the client compresses them, as it would its own
        compress_captures(boot.trial)
    return Ran(ended, new_files(boot.trial, work.files))


def _check_room(folder: Path) -> None:
    """Raise OSError (ENOSPC) when the disk is full, so that files of the guest may be truncated."""
    with tempfile.TemporaryFile(dir=folder) as probe:
        try:
            os.posix_fallocate(probe.fileno(), 0, _ROOM_BYTES)
        except OSError as error:
            if is_full(error):
                raise OSError(error.errno, error.strerror, str(folder)) from error


@contextmanager
def _scratch() -> Iterator[Path]:
    """Yield a folder for one guest in the worker's local directory; Dask clears those of killed workers."""
    worker = _worker()
    home = Path(worker.local_directory) if worker is not None else Path(tempfile.gettempdir())
    with unfinished_folder(home) as folder:
        yield folder


@contextmanager
def _cancelled() -> Iterator[threading.Event]:
    """Yield an event that is set once the scheduler no longer wants the result of the current task.

    Dask does not end running tasks, but the worker is informed at once: when the client cancels, ends or is
    lost.
    """
    cancelled, over = threading.Event(), threading.Event()
    worker = _worker()
    if worker is None:
        yield cancelled
        return
    key = worker.get_current_task()

    def watch() -> None:
        while not over.wait(_POLL_S):
            task = worker.state.tasks.get(key)
            if task is None or task.state == "cancelled":
                cancelled.set()
                return

    threading.Thread(target=watch, name="l4sbench-cancel", daemon=True).start()
    try:
        yield cancelled
    finally:
        over.set()


def _worker() -> Worker | None:
    from distributed import get_worker

    try:
        return get_worker()
    except ValueError:  # not in a task
        return None
