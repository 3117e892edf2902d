# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Whatever programs leave among raw files: what stays are plain files, and nothing elsewhere changes."""

from __future__ import annotations

import os
import random
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from l4sbench.disk.files import remove_tree
from l4sbench.store.leavings import MOST_FILES, TOO_MANY, holds_too_many, tidy
from tests.attack.hostile import TEXTS
from tests.attack.test_inputs import SEED

MANY: Final = 200


def _device(path: Path, rng: random.Random) -> None:
    kind = rng.choice((stat.S_IFCHR, stat.S_IFBLK))
    with suppress(PermissionError):  # only root may make one
        os.mknod(path, kind | 0o666, os.makedev(1, 3))


def _socket(path: Path, _: random.Random) -> None:
    here = os.open(path.parent, os.O_PATH)
    try:  # the path of a socket is short
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(f"/proc/self/fd/{here}/{path.name[:60]}")
    finally:
        os.close(here)


def _link(path: Path, rng: random.Random) -> None:
    path.symlink_to(rng.choice((path.name, "..", "/nowhere", "../../outside", "../../outside/kept")))


def _file(path: Path, rng: random.Random) -> None:
    with path.open("xb") as new:  # never through a link
        new.write(rng.randbytes(rng.choice((0, 1, 5000))))
    path.chmod(rng.choice((0o644, 0o600, 0o000, 0o777, 0o4755, 0o2755, 0o1644)))


def _deep(path: Path, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 3, 12, 40))):
        path.mkdir(rng.choice((0o755, 0o700)))
        path = path / "x"
    path.touch()


LEFT: Final[tuple[Callable[[Path, random.Random], None], ...]] = (
    *(_device, _socket, _link, _file, _deep),
    lambda path, _: os.mkfifo(path),
    lambda path, rng: path.mkdir(rng.choice((0o755, 0o1777, 0o2755, 0o500))),
)


def leave(rng: random.Random, raw: Path) -> None:
    """Put things of all kinds, at places of all kinds, below a folder."""
    for _ in range(rng.choice((0, 1, 1, 3, 10))):
        folders = [raw, *(path for path in raw.rglob("*") if path.is_dir() and not path.is_symlink())]
        name = rng.choice((f"{rng.randrange(9)}.txt", rng.choice(TEXTS)))
        path = rng.choice(folders) / name.replace("/", "_").replace("\0", "_")[:40]
        with suppress(OSError, UnicodeError):  # the name is taken, or none that a file can have
            rng.choice(LEFT)(path, rng)


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """A folder for raw files, and one outside where links lead."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("of a user")
    return tmp_path / "trial" / "raw", outside


def as_they_are(folder: Path) -> list[tuple[str, int, bytes]]:
    found = [folder, *sorted(folder.rglob("*"))]
    return [(str(p), p.lstat().st_mode, p.read_bytes() if p.is_file() else b"") for p in found]


def test_only_plain_files_stay(places: tuple[Path, Path]) -> None:
    raw, outside = places
    before = as_they_are(outside)
    for number in range(MANY):
        rng = random.Random(f"leavings/{SEED}/{number}")
        raw.mkdir(0o755, parents=True)
        leave(rng, raw)
        about = f"number {number} of seed {SEED}"
        removed = tidy(raw)
        assert removed.isprintable(), about
        assert len(removed) < 3000, about
        for path in raw.rglob("*"):
            mode = path.lstat().st_mode
            assert stat.S_IMODE(mode) in ((0o755, 0o744, 0o700) if stat.S_ISDIR(mode) else (0o644,)), about
            assert stat.S_ISDIR(mode) or stat.S_ISREG(mode), about
        assert tidy(raw) == "", about
        assert as_they_are(outside) == before, about
        remove_tree(raw.parent)


def test_of_too_many_files_none_stays(places: tuple[Path, Path]) -> None:
    raw, _ = places
    for number, many in enumerate((MOST_FILES - 1, MOST_FILES)):
        rng = random.Random(f"leavings/{SEED}/many/{number}")
        raw.mkdir(0o755, parents=True)
        (raw / "folder").mkdir()
        for name in range(many):
            os.close(os.open(raw / "folder" / str(name), os.O_CREAT | os.O_WRONLY))
        assert holds_too_many(raw) == (many == MOST_FILES)
        if many == MOST_FILES:
            leave(rng, raw)
        removed = tidy(raw)
        assert (removed == TOO_MANY) == (many == MOST_FILES)
        assert len(list(raw.rglob("*"))) == (0 if removed else MOST_FILES)
        remove_tree(raw.parent)
