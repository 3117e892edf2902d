# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The folder of one lab of nodes in the cache, and what is remembered there."""

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
    """What any version must know of a lab in order to remove it; these names and meanings stay.

    Attributes:
        keeper: The process that holds the lab's namespaces; None while it is not started.
        run: Folder of its sockets and memory.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")
    keeper: Process | None
    run: Path


class State(Remains):
    """What is remembered of a lab that was started.

    Attributes:
        key: Digest of everything it was started from.
        plan: Its nodes and bridges.
        bastion: Address and port of the host where its bastion is found; None without one.
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
    def of(cls, name: str, cache: Path | None) -> Self:
        """The lab of this name, whether it is there or not.

        Raises:
            InputError: No folder can have this name.
        """
        if not _NAME.fullmatch(name):
            raise InputError(f"{name!r} is no name for a lab", "letters, digits, dots and dashes are")
        return cls(Cache.open(cache).root / "nodes" / name)

    @property
    def note(self) -> Path:
        """Where its state is remembered."""
        return self.folder / "state.json"

    @property
    def consoles(self) -> Path:
        """Folder with what every node wrote to its console."""
        return self.folder / "consoles"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Be the only one who starts or ends this lab."""
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
        """What was started last; None when nothing was, or another version of l4sbench did it."""
        return read_note(self.note, State)

    def remains(self) -> Remains | None:
        """What has to be removed, whichever version of l4sbench started it; None when there is nothing."""
        return read_note(self.note, Remains)


def tail(path: Path) -> str:
    """The end of a log, for a message."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    return "\n".join(f"  {line}" for line in lines[-_TAIL_LINES:]) or "  (it said nothing)"
