# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Consent to code: for exact bytes, kept where only the user can write, and nothing else is ever built."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from l4sbench.disk.trust import read_code, trust, trust_program, trusted_copy, trusted_program
from l4sbench.errors import InputError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "l4sbench" / "trusted"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "entry"
    (folder / "inner").mkdir(parents=True)
    (folder / "module.yml").write_text("name: mine\n")
    (folder / "Kbuild").write_text("obj-m := tcp_mine.o\n")
    (folder / "tcp_mine.c").write_text("int mine;\n")
    (folder / "inner" / "more.h").write_text("#define MORE\n")
    return folder


def test_consent_is_for_exact_bytes_whatever_the_folder_is_called(folder: Path, tmp_path: Path) -> None:
    code = read_code(folder)
    assert code.sources == ("Kbuild", "inner/more.h", "tcp_mine.c")
    assert trusted_copy(code) is None
    trust(code)
    moved = folder.rename(tmp_path / "elsewhere")
    assert trusted_copy(read_code(moved)) is not None
    for name in ("module.yml", "Kbuild", "tcp_mine.c", "inner/more.h"):
        before = (moved / name).read_text()
        (moved / name).write_text(f"{before} ")
        assert trusted_copy(read_code(moved)) is None, name
        (moved / name).write_text(before)
    (moved / "one-more.c").write_text("")
    assert trusted_copy(read_code(moved)) is None


def test_objects_and_notes_do_not_count(folder: Path) -> None:
    before = read_code(folder).digest
    (folder / "tcp_mine.o").write_bytes(b"\x7fELF")
    (folder / "README.md").write_text("mine")
    (folder / ".git").mkdir()
    (folder / ".git" / "hook.c").write_text("int hook;")
    assert read_code(folder).digest == before


def test_what_is_built_is_a_copy_that_nobody_else_can_write(folder: Path, home: Path) -> None:
    code = read_code(folder)
    (folder / "tcp_mine.c").write_text("int changed_after_it_was_read;\n")
    copy = trust(code)
    assert copy == home / code.digest
    assert (copy / "tcp_mine.c").read_text() == "int mine;\n"
    assert {path.stat().st_mode & 0o077 for path in copy.rglob("*") if path.is_file()} == {0}
    assert home.stat().st_mode & 0o777 == copy.stat().st_mode & 0o777 == 0o700
    assert {path.name for path in home.iterdir()} == {".lock", code.digest}
    assert trust(code) == copy


def test_runs_that_trust_the_same_code_at_once_agree(folder: Path, home: Path) -> None:
    code = read_code(folder)
    with ThreadPoolExecutor(8) as pool:
        copies = set(pool.map(lambda _: trust(code), range(32)))
    assert copies == {home / code.digest}
    assert {path.name for path in home.iterdir()} == {".lock", code.digest}
    assert trusted_copy(code) == home / code.digest


def test_a_changed_copy_is_no_consent_and_is_replaced(folder: Path) -> None:
    code = read_code(folder)
    copy = trust(code)
    (copy / "tcp_mine.c").write_text("int other;\n")
    assert trusted_copy(code) is None
    assert trusted_copy(read_code(copy)) is None
    assert (trust(code) / "tcp_mine.c").read_text() == "int mine;\n"


@pytest.mark.parametrize("place", ["state", "state/l4sbench", "trusted", "copy", "copy/inner", "copy/Kbuild"])
@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_record_that_others_may_write_is_refused(folder: Path, home: Path, place: str, mode: int) -> None:
    copy = trust(read_code(folder))
    places = {"state": home.parents[1], "state/l4sbench": home.parent, "trusted": home, "copy": copy}
    path = places.get(place) or copy / place.removeprefix("copy/")
    path.chmod(mode)
    found = f"{path}: decides which code is trusted, and others may write to it; .* chmod go-w {path}$"
    with pytest.raises(InputError, match=found):
        trusted_copy(read_code(folder))
    path.chmod(mode & 0o755)
    assert trusted_copy(read_code(folder)) == copy


@pytest.mark.parametrize("place", ["", "program"])
def test_a_program_that_others_may_write_is_refused(home: Path, place: str) -> None:
    program = trust_program(b"#!program")
    path = program.parent / place
    path.chmod(0o777)
    with pytest.raises(InputError, match=f"others may write to it; .* chmod go-w {path}$"):
        trusted_program(program.parent.name)
    path.chmod(0o700)
    assert trusted_program(program.parent.name) == program


def test_every_folder_that_others_may_write_is_listed(folder: Path, home: Path) -> None:
    trust(read_code(folder))
    home.chmod(0o777)
    home.parent.chmod(0o777)
    with pytest.raises(InputError) as raised:
        trust(read_code(folder))
    assert {problem.where for problem in raised.value.problems} == {str(home), str(home.parent)}


def test_above_it_everybody_may_write_to_a_sticky_folder(folder: Path, home: Path) -> None:
    trust(read_code(folder))
    home.parents[1].chmod(0o1777)
    assert trusted_copy(read_code(folder)) is not None
    home.chmod(0o1777)
    with pytest.raises(InputError, match="others may write to it"):
        trusted_copy(read_code(folder))


def test_a_record_of_another_user_is_refused(folder: Path, home: Path) -> None:
    trust(read_code(folder))
    try:
        os.chown(home.parent, 65534, -1)
    except PermissionError:
        pytest.skip("only root gives files away")
    with pytest.raises(
        InputError, match=r"others may write to it; .* set XDG_STATE_HOME to a folder of yours"
    ):
        trusted_copy(read_code(folder))


def test_what_links_lead_to_counts(folder: Path, home: Path, tmp_path: Path) -> None:
    trust(read_code(folder))
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    home.parent.rename(tmp_path / "shared" / "moved")
    home.parent.symlink_to(tmp_path / "shared" / "moved")
    with pytest.raises(InputError, match=f"^{tmp_path / 'shared'}: decides which code is trusted"):
        trusted_copy(read_code(folder))


def test_folders_that_consent_makes_are_private_whatever_the_umask(folder: Path, home: Path) -> None:
    before = os.umask(0)
    try:
        copy = trust(read_code(folder))
    finally:
        os.umask(before)
    assert trusted_copy(read_code(folder)) == copy
    assert home.parents[1].stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("target", ["/etc/passwd", "tcp_mine.c", "/usr/include"])
def test_links_are_refused(folder: Path, target: str) -> None:
    (folder / "linked.c").symlink_to(target)
    with pytest.raises(InputError, match=r"linked\.c is a link, and code from outside must not have any"):
        read_code(folder)


def test_links_within_a_folder_that_is_named_are_read(folder: Path) -> None:
    (folder / "linked.c").symlink_to("tcp_mine.c")
    code = read_code(folder, links_below=folder)
    assert code.files["linked.c"] == code.files["tcp_mine.c"]
    (folder / "linked.c").unlink()
    (folder / "linked.c").symlink_to("/etc/passwd")
    with pytest.raises(InputError, match=r"linked\.c is a link"):
        read_code(folder, links_below=folder)


def test_pipes_and_large_files_are_refused_at_once(folder: Path) -> None:
    os.mkfifo(folder / "pipe.c")
    with pytest.raises(InputError, match=r"pipe\.c is not a plain file"):
        read_code(folder)
    (folder / "pipe.c").unlink()
    with (folder / "large.c").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(InputError, match=r"large\.c: is larger than 16 MiB"):
        read_code(folder)


def test_a_state_folder_that_cannot_be_written_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(InputError, match=r"cannot remember in .*set XDG_STATE_HOME"):
        trust(read_code(folder))
