# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The folder of one lab of nodes in the cache, and its state files."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict

from l4sbench.errors import InputError, TestbedError
from l4sbench.testbeds.nodes.plan import LabPlan  # noqa: TC001  (pydantic reads it)
from l4sbench.testbeds.nodes.process import Process  # noqa: TC001  (pydantic reads it)
from l4sbench.testbeds.virtual.lab.cache import Cache, read_note

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LOCK_S = 300.0
_TAIL_LINES = 8


class Remains(BaseModel):
    """State that any version needs for removing a lab; names and meanings never change.

    Attributes:
        keeper: The process that holds the lab's namespaces; None while it is not started.
        run: Folder of its sockets and memory.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")
    keeper: Process | None
    run: Path


class State(Remains):
    """State of a lab that was started.

    Attributes:
        key: Digest of everything it was started from.
        plan: Its nodes and bridges.
        bastion: Address and port on the host of its bastion; None without one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    keeper: Process
    key: str
    plan: LabPlan
    bastion: tuple[str, int] | None = None


@dataclass(frozen=True)
class Home:
    """The folder of one lab."""

    folder: Path

    @classmethod
    def of(cls, name: str) -> Self:
        """Return the folder of the lab of this name, which need not exist.

        Raises:
            InputError: No folder can have this name.
        """
        if not _NAME.fullmatch(name):
            raise InputError(
                f"{name!r} is not a valid name for a lab", "use letters, digits, dots and dashes"
            )
        return cls(Cache.open().root / "nodes" / name)

    @property
    def note(self) -> Path:
        """File of its state."""
        return self.folder / "state.json"

    @property
    def capacity_note(self) -> Path:
        """File of what the lab carries."""
        return self.folder / "capacity.json"

    @property
    def topology(self) -> Path:
        """Folder of the topology's file, if it is one of the user's own."""
        return self.folder / "topology"

    @property
    def consoles(self) -> Path:
        """Folder of its nodes' console output."""
        return self.folder / "consoles"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock for starting and ending this lab."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        lock = FileLock(self.folder / "lock")
        try:
            lock.acquire(timeout=_LOCK_S)
        except Timeout as error:
            raise TestbedError(
                f"another `lab up` or `lab down` of {self.folder.name} is under way"
            ) from error
        try:
            yield
        finally:
            lock.release()

    def state(self) -> State | None:
        """Return the state of the lab; None when there is none, or another version of l4sbench started it."""
        return read_note(self.note, State)

    def remains(self) -> Remains | None:
        """Return what has to be removed, whichever version of l4sbench started it; None when nothing."""
        return read_note(self.note, Remains)


def tail(path: Path) -> str:
    """Return the end of a log, for a message."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    return "\n".join(f"  {line}" for line in lines[-_TAIL_LINES:]) or "  (it is empty)"
