# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Folders that travel arrive as they were, or not at all."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from l4sbench.errors import TestbedError
from l4sbench.testbeds.dask.packing import Member, Packed, checksum_of, pack, read, unpack


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "from"
    (made / "router").mkdir(parents=True)
    (made / "empty").mkdir()
    (made / "router" / "queue.json").write_bytes(b"\x00\xff")
    (made / "script").write_text("run\n")
    (made / "script").chmod(0o750)
    return made


def test_a_folder_arrives_as_it_was(folder: Path, tmp_path: Path) -> None:
    to = tmp_path / "to"
    to.mkdir()
    unpack(pack(folder), to)
    assert pack(to) == pack(folder)
    assert (to / "router" / "queue.json").read_bytes() == b"\x00\xff"
    assert (to / "empty").is_dir()
    assert (to / "script").stat().st_mode & 0o777 == 0o750


def test_links_travel_only_in_labs_and_are_not_written_through(folder: Path, tmp_path: Path) -> None:
    (folder / "a").symlink_to("/etc")
    assert "a" not in [entry.name for entry in pack(folder).entries]
    links = (Member("a", 0o777, link=str(tmp_path)), Member("a/b", 0o644, content=b"x"))
    to = tmp_path / "to"
    to.mkdir()
    with pytest.raises(FileNotFoundError):
        unpack(Packed(links, checksum_of(links)), to, links=True)
    assert not (tmp_path / "b").exists()
    with pytest.raises(TestbedError, match="the files are not those of a trial: 'a'"):
        unpack(Packed(links, checksum_of(links)), to)


@pytest.mark.parametrize("name", ["", "..", "../x", "a/../../x", "/x", "a\0b"])
def test_nothing_is_written_outside(tmp_path: Path, name: str) -> None:
    to = tmp_path / "to"
    to.mkdir()
    entries = (Member("first", 0o644, content=b""), Member(name, 0o644, content=b"x"))
    with pytest.raises(TestbedError, match="not those of a trial"):
        unpack(Packed(entries, checksum_of(entries)), to)
    assert list(tmp_path.rglob("*")) == [to]


@pytest.mark.parametrize("change", [{"content": b"\x00\xfe"}, {"mode": 0o600}, {"name": "router/other"}])
def test_damage_on_the_way_is_noticed(folder: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    packed = pack(folder)
    entries = [
        replace(entry, **change) if entry.name == "router/queue.json" else entry for entry in packed.entries
    ]
    with pytest.raises(TestbedError, match="the files do not match their checksum"):
        unpack(Packed(tuple(entries), packed.checksum), tmp_path / "to")


def test_a_lab_arrives_with_links_and_read_only_folders(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "sh").symlink_to("/usr/bin/dash")
    (root / "bin").chmod(0o555)
    entries = tuple(read(tmp_path, "root", links=True))
    to = tmp_path / "to"
    to.mkdir()
    unpack(Packed(entries, checksum_of(entries)), to, links=True)
    assert tuple(read(to, "root", links=True)) == entries
    for path in (root / "bin", to / "root" / "bin"):
        path.chmod(0o755)
