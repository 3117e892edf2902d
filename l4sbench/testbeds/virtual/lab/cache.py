# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The cache folder: parts named by digest, complete or absent, one builder at a time.

Layout below the root (the user's cache folder, `~/.cache/l4sbench` or below `XDG_CACHE_HOME`):

    source/ kernel/ userland/ tools/ modules/ rootfs/ node-userland/
                                                        one folder per part, named by the digest of its inputs
    labs/<key>.json                                     which parts make the lab for one state of our sources
    apt/                                                scratch state of apt, safe to delete
    log/                                                one log file per external command
    build.lock, build.json                              the lock and its holder
"""

import hashlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

import platformdirs
from pydantic import BaseModel, ConfigDict, ValidationError

from l4sbench.disk.files import PARTIAL, remove_tree, write_whole
from l4sbench.errors import TestbedError

if TYPE_CHECKING:
    from filelock import FileLock

PARTS = ("source", "kernel", "userland", "tools", "modules", "rootfs", "node-userland")
DIGEST_LENGTH = 16
"""Hex digits kept of a SHA-256: 64 bits distinguish a few hundred parts, and paths stay readable."""


_Noted = TypeVar("_Noted", bound=BaseModel)


class Holder(BaseModel):
    """The process that builds, or that built last and did not finish."""

    model_config = ConfigDict(frozen=True)
    pid: int
    host: str
    user: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} (user {self.user}, since {self.since})"

    @classmethod
    def me(cls) -> Self:
        """Return the holder that is this process."""
        return cls(
            pid=os.getpid(),
            host=socket.gethostname(),
            user=str(os.environ.get("USER") or os.getuid()),
            since=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        )


def digest_of(items: Iterable[str]) -> str:
    """Return a short digest of a list of strings; the borders between items count."""
    text = json.dumps(list(items), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]


def digest_of_file(path: Path) -> str:
    """Return a short digest of a file's content."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:DIGEST_LENGTH]


def digest_of_files(root: Path, files: Iterable[Path]) -> str:
    """Return a short digest of files: names below a root, content, executable bits."""
    items: list[str] = []
    for path in sorted(files):
        executable = bool(path.stat().st_mode & 0o100)
        items += [path.relative_to(root).as_posix(), str(executable), digest_of_file(path)]
    return digest_of(items)


def read_note(path: Path, kind: type[_Noted]) -> _Noted | None:
    """Read a note from a JSON file; None if it is absent or another version of l4sbench wrote it."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


@dataclass(frozen=True)
class Cache:
    """The cache folder; make one with `Cache.open`."""

    root: Path

    @classmethod
    def open(cls, root: Path | None = None) -> Self:
        """Return the cache at this folder, or the user's own; create nothing."""
        return cls((root or platformdirs.user_cache_path("l4sbench", appauthor=False)).absolute())

    @property
    def logs(self) -> Path:
        """Folder of the log files."""
        return self.root / "log"

    def part(self, kind: str, digest: str) -> Path:
        """Return the path of a part, present or not."""
        if kind not in PARTS:
            raise ValueError(f"{kind} is not a kind of part")
        return self.root / kind / digest

    def record(self, key: str) -> Path:
        """Return the path of the record of the lab for these inputs, present or not."""
        return self.root / "labs" / f"{key}.json"

    def records(self) -> list[Path]:
        """Return the records of finished builds, newest first."""
        found = [(path.stat().st_mtime_ns, path) for path in (self.root / "labs").glob("*.json")]
        return [path for _, path in sorted(found, reverse=True)]

    @contextmanager
    def stage(self, kind: str, digest: str) -> Iterator[Path]:
        """Yield a folder to build a part in; it becomes the part if the block succeeds, else it goes."""
        target = self.part(kind, digest)
        partial = target.with_name(f"{digest}{PARTIAL}")
        if partial.exists():
            remove_tree(partial)
        partial.mkdir(parents=True)
        try:
            yield partial
            if target.exists():
                old = target.with_name(f"{digest}.old{PARTIAL}")
                target.rename(old)
                partial.rename(target)
                remove_tree(old)
            else:
                partial.rename(target)
        finally:
            if partial.exists():
                remove_tree(partial)

    def clean(self) -> tuple[Path, ...]:
        """Remove the leftovers of builds that did not finish; call it with the lock held."""
        left = [path for kind in (*PARTS, "labs") for path in (self.root / kind).glob(f"*{PARTIAL}")]
        for path in left:
            if path.is_dir():
                remove_tree(path)
            else:
                path.unlink()
        return tuple(left)

    def holder(self) -> Holder | None:
        """Return the holder of the lock, or the last one if it did not release the lock."""
        return read_note(self.root / "build.json", Holder)

    def builder(self) -> Holder | None:
        """Return the process that is building now; None if there is none."""
        path = self.root / "build.lock"
        if not path.exists():
            return None
        from filelock import FileLock, Timeout  # slow to import, and only builds lock anything

        lock = FileLock(path)
        try:
            lock.acquire(timeout=0)
        except (Timeout, OSError):
            return self.holder()
        lock.release()
        return None

    @contextmanager
    def lock(self, on_wait: Callable[[str], None], timeout_s: float) -> Iterator[Holder | None]:
        """Hold the lock. Yields the holder before, if it did not finish; else None.

        Args:
            on_wait: Receives a message that names the holder, if the lock is not free at once.
            timeout_s: How long to wait for another builder.

        Raises:
            TestbedError: The cache folder cannot be written, or another build still holds the lock.
        """
        from filelock import FileLock

        try:
            self.root.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.root / "build.lock")
            self._acquire(lock, on_wait, timeout_s)
        except OSError as error:
            raise TestbedError(
                f"cannot write to the cache folder {self.root}: {error}",
                hint="set XDG_CACHE_HOME to a folder of your own",
            ) from error
        # The system frees the lock of a process that dies, but its note stays.
        lost = self.holder()
        try:
            write_whole(self.root / "build.json", Holder.me().model_dump_json())
            yield lost
        finally:
            (self.root / "build.json").unlink(missing_ok=True)
            lock.release()

    def _acquire(self, lock: "FileLock", on_wait: Callable[[str], None], timeout_s: float) -> None:
        from filelock import Timeout

        deadline, reported = time.monotonic() + timeout_s, ""
        while True:
            try:
                lock.acquire(timeout=min(2.0, timeout_s))
            except Timeout as error:
                holder = self.holder()
                who = "another build" if holder is None else str(holder)
                if time.monotonic() >= deadline:
                    raise TestbedError(f"{who} is building the lab and did not release its lock") from error
                if who != reported:
                    on_wait(f"waiting for the build of {who}")
                    reported = who
            else:
                return
