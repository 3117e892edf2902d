# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Regular files, and an interrupt at every step of opening one."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from l4sbench.disk.plain import NotPlain, open_below, open_plain


def interrupted(opened: Callable[[], BinaryIO], step: int) -> bytes:
    """Open a file and read it, with Ctrl-C after so many calls and returns of functions."""
    left = step

    def profile(frame: object, event: str, arg: Any) -> None:
        nonlocal left
        del frame, event, arg
        left -= 1
        if not left:
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(profile)
    try:
        with opened() as file:
            sys.setprofile(None)
            return file.read()
    finally:
        sys.setprofile(None)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # files that nobody got close
@pytest.mark.parametrize("below", [False, True])
def test_an_interrupt_is_no_file_that_cannot_be_read(tmp_path: Path, below: bool) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"content")
    root = os.open(tmp_path, os.O_RDONLY)

    def opened() -> BinaryIO:
        return open_below(root, "a/file") if below else open_plain(tmp_path / "a" / "file")

    for step in itertools.count(1):
        try:
            found = interrupted(opened, step)
        except KeyboardInterrupt:
            continue
        assert found == b"content"
        break
    os.close(root)
    assert step > 10


@pytest.mark.parametrize("kind", ["a link", "a folder", "a FIFO"])
def test_what_is_no_file_is_not_opened(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "it"
    if kind == "a link":
        path.symlink_to("/etc/hostname")
    elif kind == "a folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    with pytest.raises(NotPlain, match=f"it is {kind}"):
        open_plain(path)
