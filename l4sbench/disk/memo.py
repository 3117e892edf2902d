# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Values that take long to work out from files, kept in the user's cache until one of the files changes.

    memo = Memo.of("catalog", code=[Path(__file__).parent], data=files)
    plain = memo.load()       # None: nothing is kept, or it was made from other contents, or it is damaged
    memo.save(plain)          # plain data, as JSON has it

What is kept was made from the very contents of the files, and from the code that made it: a digest of all of
them is part of it. A file of somebody else, a link, or one that others may write is not read.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from l4sbench.disk import assets
from l4sbench.disk.files import new_file
from l4sbench.disk.plain import open_plain
from l4sbench.errors import InputError

_FORMAT: Final = "l4sbench memo 1"
_MOST_BYTES: Final = 16 * 2**20
_MOST_INSTALLATIONS: Final = 8
"""Installations of l4sbench of which something is kept, as each has files of its own."""


@dataclass(frozen=True)
class Memo:
    """One value that is kept; make it with `Memo.of`.

    Attributes:
        path: the file that keeps it.
        made_from: the digest of everything that it is made from.
    """

    path: Path
    made_from: str

    @classmethod
    def of(cls, name: str, *, code: Iterable[Path], data: Iterable[Path]) -> Self:
        """Return what is kept under a name for these contents of files; folders of code stand for theirs."""
        from platformdirs import user_cache_path

        sources = (
            file for path in code for file in ([path] if path.is_file() else sorted(path.glob("*.py")))
        )
        total = hashlib.sha256()
        for file in (*sources, *data):
            total.update(hashlib.sha256(os.fsencode(file)).digest())
            with suppress(OSError):  # whoever makes the value reports that
                total.update(hashlib.sha256(file.read_bytes()).digest())
        place = hashlib.sha256(os.fsencode(assets.root())).hexdigest()[:16]
        folder = user_cache_path("l4sbench", appauthor=False) / "memo"
        return cls(folder / f"{name}-{place}.json", total.hexdigest())

    def load(self) -> Any:
        """Return the value; None if there is none that is of this user and whole."""
        with suppress(OSError, ValueError, RecursionError), open_plain(self.path) as file:
            about = os.fstat(file.fileno())
            if about.st_uid != os.geteuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return None
            head, _, body = file.read(_MOST_BYTES).partition(b"\n")
            if head.decode() == self._head(body):
                return json.loads(body)
        return None

    def save(self, value: object) -> None:
        """Keep a value; where that is not possible it is worked out again the next time."""
        body = json.dumps(value, separators=(",", ":")).encode()
        with suppress(OSError, InputError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with new_file(self.path, flush=False) as temporary:
                temporary.chmod(0o600)
                temporary.write_bytes(f"{self._head(body)}\n".encode() + body)
            self._forget_others()

    def _head(self, body: bytes) -> str:
        return f"{_FORMAT} {self.made_from} {hashlib.sha256(body).hexdigest()}"

    def _forget_others(self) -> None:
        """Remove what was kept for the installations that were used longest ago."""
        name = self.path.stem.rpartition("-")[0]
        kept = sorted(
            self.path.parent.glob(f"{name}-{'[0-9a-f]' * 16}.json"), key=lambda path: path.lstat().st_mtime
        )
        for path in kept[:-_MOST_INSTALLATIONS]:
            path.unlink(missing_ok=True)
