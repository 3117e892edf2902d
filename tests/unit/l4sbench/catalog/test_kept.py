# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Entries that the user's cache keeps: the same as those that are read, and never older than their files."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from l4sbench.catalog import Catalog
from l4sbench.disk import assets
from tests.patience import ran


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a catalog that may change, in a home without a cache."""
    files = list(assets.folder("kernels").glob("*/module.yml"))
    for file in files:
        (tmp_path / "kernels" / file.parent.name).mkdir(parents=True)
        shutil.copyfile(file, tmp_path / "kernels" / file.parent.name / file.name)
    monkeypatch.setattr(assets, "root", lambda: tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "kernels"


def kept(kernels: Path) -> Path:
    """The file that keeps the entries."""
    (file,) = (kernels.parent / "cache").rglob("catalog-*.json")
    return file


def everything(catalog: Catalog) -> str:
    """All of a catalog's entries, with what comparisons leave out."""
    return repr(catalog.entries)


def test_entries_that_were_kept_are_those_that_were_read(kernels: Path) -> None:
    read = Catalog.load()
    assert kept(kernels).stat().st_mode & 0o777 == 0o600
    again = Catalog.load()
    assert again == read
    assert everything(again) == everything(read)
    assert again.digest() == read.digest()
    assert all(entry.folder == kernels / entry.folder.name for entry in again.entries)


def test_a_file_that_changes_is_noticed_at_once(kernels: Path) -> None:
    Catalog.load()
    file = kernels / "codel" / "module.yml"
    before, text = file.stat(), file.read_text(encoding="utf-8")
    file.write_text(text.replace("label: CoDel (+ECN)", "label: CoDel (+NCE)"), encoding="utf-8")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size
    assert Catalog.load().queue("codel").label == "CoDel (+NCE)"
    shutil.rmtree(kernels / "red")
    assert "red" not in Catalog.load().queues


def _another_user_may_write(file: Path) -> None:
    file.chmod(0o620)


def _link(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")


def _folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def _fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def _other_words(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"CoDel", b"Codel"))


def _something_else(file: Path) -> None:
    file.write_bytes(b"\xff\0\n[" * 100_000)


@pytest.mark.parametrize(
    "damage", [_another_user_may_write, _link, _folder, _fifo, _cut, _other_words, _something_else]
)
def test_what_is_damaged_or_foreign_is_not_read(kernels: Path, damage: Callable[[Path], None]) -> None:
    read = everything(Catalog.load())
    whole = kept(kernels).read_bytes()
    damage(kept(kernels))
    assert everything(Catalog.load()) == read
    if damage not in (_folder, _fifo):  # which are not ours to replace
        assert not kept(kernels).is_symlink()
        assert kept(kernels).read_bytes() == whole


def test_it_works_without_a_place_to_keep_anything(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(kernels / "codel" / "module.yml"))
    assert "codel" in Catalog.load().queues


def test_entries_with_problems_are_not_kept(kernels: Path) -> None:
    file = kernels / "codel" / "module.yml"
    file.write_text(file.read_text(encoding="utf-8") + "nonsense: 1\n", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(Exception, match="nonsense: unknown key"):
            Catalog.load()
    assert not list((kernels.parent / "cache").rglob("*.json"))


def test_a_list_of_queues_reads_no_yaml_the_second_time(tmp_path: Path) -> None:
    told = (
        "import sys; from l4sbench.cli import main; main(['list', 'queues']); print('ruamel' in sys.modules)"
    )
    seen = []
    for _ in range(2):
        ended = ran(
            [sys.executable, "-c", told],
            cwd=Path(__file__).parents[4],
            env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)},
            check=True,
        )
        seen.append(ended.stdout.splitlines()[-1])
    assert seen == ["True", "False"]
