# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Files of users: limits of size and time, and what is not a file."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from l4sbench.disk import userfiles
from l4sbench.disk.plain import is_plain
from l4sbench.disk.userfiles import is_file, is_folder, read_bytes, read_json, short
from l4sbench.errors import InputError


def refused(path: Path) -> str:
    with pytest.raises(InputError) as raised:
        read_bytes(path, most_bytes=100)
    return str(raised.value).removeprefix(str(path))


def test_a_file_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    assert read_bytes(path, most_bytes=100) == b"x" * 100
    path.write_bytes(b"x" * 101)
    assert refused(path) == ": is larger than 100 bytes"
    with path.open("r+b") as file:
        file.truncate(2**40)  # sparse: it must not be read to know that
    with pytest.raises(InputError, match="is larger than 16 MiB"):
        read_bytes(path)


def test_not_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    link = tmp_path / "link"
    link.symlink_to(link)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")  # the path of a socket is short
        assert refused(tmp_path / "socket") == ": cannot be read: it is a socket"
    assert refused(tmp_path) == ": cannot be read: Is a directory"
    assert refused(link) == ": cannot be read: Too many levels of symbolic links"
    assert refused(tmp_path / "none") == ": cannot be read: No such file or directory"
    assert refused(tmp_path / ("x" * 300)) == ": cannot be read: File name too long"
    assert refused(Path("/dev/zero")) == ": cannot be read: it is a device"
    assert refused(Path("a\0b")) == ": cannot be read: its name contains a NUL"
    assert not any(is_file(Path(name)) for name in (".", "link", "x" * 300, "a\0b", "/dev/zero"))
    assert not any(is_folder(Path(name)) for name in ("link", "x" * 300, "a\0b", "/dev/zero"))


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert is_file(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"x" * 200_000,), daemon=True)
    writer.start()
    assert read_bytes(path) == b"x" * 200_000
    writer.join()


def test_a_pipe_that_was_closed_before_it_is_opened() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"content")
    os.close(writing)
    assert read_bytes(Path(f"/dev/fd/{reading}")) == b"content"
    assert read_bytes(Path(f"/dev/fd/{reading}")) == b""
    os.close(reading)


def test_a_pipe_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("l4sbench.disk.userfiles.WAIT_S", 0.05)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    endless = ": is a pipe that has not ended after 0.05 s; write it to a file first"
    assert refused(path) == endless  # nothing has it open for writing
    writer = os.open(path, os.O_RDWR)
    os.write(writer, b"x" * 50)
    assert refused(path) == endless
    os.write(writer, b"x" * 200)
    assert refused(path) == ": is larger than 100 bytes"
    os.close(writer)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"a":\n  1 2}', ":2:5: is not valid JSON: "),
        (b'{"a": "\xff"}', ":1:8: is not UTF-8 text"),
        (b'{"a": NaN}', ": NaN is not a finite number"),
        (b'{"a": 1e999}', ": 1e999 is out of range"),
        (b'{"a": 18446744073709551616}', ": 18446744073709551616 is out of range"),
        (b"9" * 5000, ": 99"),
        (rb'{"a": "\ud800"}', ": is not valid JSON: it has half a surrogate pair"),
        (b"[" * 100_000, ": is not valid JSON: it is nested too deeply"),
        (b"", ":1:1: is not valid JSON: "),
    ],
)
def test_json_that_is_not_valid(text: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(text)
    with pytest.raises(InputError) as raised:
        read_json(path)
    assert str(raised.value).removeprefix(str(path)).startswith(message)


def test_json(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('\ufeff{"a": [1.5, 18446744073709551615, "\\ud83d\\ude00é", null]}', encoding="utf-8")
    assert read_json(path) == {"a": [1.5, 18446744073709551615, "😀é", None]}


def test_long_texts_are_quoted_in_part() -> None:
    assert short("x" * 200) == "x" * 200
    assert short("x" * 201) == f"{'x' * 100}... (201 characters)"


@pytest.mark.skipif(not os.access("/proc/kmsg", os.R_OK) or os.geteuid() != 0, reason="only for root")
def test_a_file_that_the_kernel_makes_up_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(userfiles, "WAIT_S", 0.1)
    with pytest.raises(InputError, match=r"/proc/kmsg: is a pipe that has not ended after 0.1 s"):
        read_bytes(Path("/proc/kmsg"))


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/etc/passwd"), Path.mkdir])
def test_only_a_regular_file_is_plain(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "file")
    with pytest.raises(InputError, match=r"file: cannot be read: it is a (FIFO|link|folder)"):
        read_bytes(tmp_path / "file", plain=True)
    assert not is_plain(tmp_path / "file")
