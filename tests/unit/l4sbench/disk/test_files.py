# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A file appears whole or not at all, and nothing that is not ours is overwritten or removed."""

import multiprocessing
import os
from pathlib import Path

import pytest

from l4sbench.disk.files import (
    new_file,
    new_folder,
    remove_leftovers,
    remove_tree,
    unfinished_folder,
    write_whole,
)
from l4sbench.errors import InputError


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, "one")
    write_whole(path, b"two")
    assert path.read_text() == "two"
    assert names(tmp_path) == ["file"]


def test_an_error_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def write() -> None:
        with new_file(path) as temporary:
            temporary.write_text("half")
            raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        write()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_other_unfinished_files_stay(tmp_path: Path) -> None:
    mine = ["file.partial", ".file.partial", ".l4sbench-mine.partial", ".l4sbench-0123456789abcdef.part"]
    for name in mine:
        (tmp_path / name).write_text(name)
    write_whole(tmp_path / "file", "new")
    with new_folder(tmp_path / "folder") as temporary:
        (temporary / "x").touch()
    remove_leftovers(tmp_path)
    assert names(tmp_path) == sorted([*mine, "file", "folder"])
    assert all((tmp_path / name).read_text() == name for name in mine)


def test_two_writers_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with new_file(path) as one:
        one.write_text("one")
        with new_file(path) as two:
            two.write_text("two")
        assert path.read_text() == "two"
    assert path.read_text() == "one"


@pytest.mark.parametrize("kind", ["folder", "fifo"])
def test_only_a_regular_file_is_replaced(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "it"
    if kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    with pytest.raises(InputError, match=r"is (a folder|not a regular file); choose the name of a file"):
        write_whole(path, "text")
    assert names(tmp_path) == ["it"]
    with pytest.raises(InputError, match="/dev/full is not a regular file"):
        write_whole(Path("/dev/full"), "text")


def test_a_name_as_long_as_the_system_allows_can_be_written(tmp_path: Path) -> None:
    write_whole(tmp_path / ("x" * 255), "text")
    assert names(tmp_path) == ["x" * 255]


def test_a_folder_replaces_another_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    (path / "old").touch()
    (path / "read-only").mkdir(mode=0o500)
    with pytest.raises(OSError, match="not empty"), new_folder(path) as temporary:
        (temporary / "new").touch()
    assert names(path) == ["old", "read-only"]
    with new_folder(path, replace=True) as temporary:
        (temporary / "new").touch()
    assert names(path) == ["new"]
    assert names(tmp_path) == ["folder"]


def _die_within(folder: Path) -> None:
    with new_file(folder / "file"), new_folder(folder / "folder") as temporary:
        (temporary / "x").touch()
        os._exit(9)


def test_leftovers_of_the_dead_go_and_work_of_the_living_stays(tmp_path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_die_within, args=(tmp_path,))
    process.start()
    process.join(300)
    assert process.exitcode == 9
    assert len(names(tmp_path)) == 2
    with unfinished_folder(tmp_path) as folder, new_file(tmp_path / "file") as file:
        remove_leftovers(tmp_path)
        assert names(tmp_path) == sorted([folder.name, file.name])
    assert names(tmp_path) == ["file"]
    remove_leftovers(tmp_path / "file")  # not a folder: nothing to do
    remove_leftovers(tmp_path / "none")


def test_a_folder_that_another_process_takes_for_a_leftover_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its making and its lock there is an instant in which nothing tells it from a leftover."""
    made, mkdir = [], Path.mkdir

    def make(path: Path) -> None:
        mkdir(path)
        made.append(path)
        if len(made) == 1:
            remove_leftovers(tmp_path)

    monkeypatch.setattr(Path, "mkdir", make)
    with unfinished_folder(tmp_path) as folder:
        assert made[1:] == [folder]
        assert names(tmp_path) == [folder.name]


def test_a_folder_is_removed_however_deep_and_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    folder = tmp_path / "folder"
    folder.mkdir()
    here = os.open(folder, os.O_RDONLY)
    for _ in range(3000):  # deeper than a path, the stack or the descriptors of a process allow
        os.mkdir("a", dir_fd=here)
        os.symlink(tmp_path / "mine", "link", dir_fd=here)
        inner = os.open("a", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.fchmod(here, 0)
    os.close(here)
    remove_tree(folder)
    assert names(tmp_path) == ["mine"]
    assert (tmp_path / "mine" / "file").read_text() == "mine"
