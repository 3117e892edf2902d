# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A bundle holds a whole run, says so, and notices every change."""

import gzip
import io
import os
import tarfile
from pathlib import Path

import pytest

from l4sbench.errors import InputError
from l4sbench.store.bundle import check_bundle, unpack_bundle, write_bundle

FILES = {
    "manifest.json": "{}\n",
    "matrix.yaml": "matrix: first\n",
    "cells/fifo-0123456789/1-abcdef/trial.json": '{"status": "ok"}\n',
    "cells/fifo-0123456789/1-abcdef/raw/router/qdisc.json": "[]\n",
    "tables/trials.parquet": "PAR1",
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory as the store leaves it, with a trial under way in it."""
    run = tmp_path / "runs" / "first" / "20260102T030405Z"
    for name, text in FILES.items():
        path = run / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    under_way = run / "cells/fifo-0123456789/2-abcdef.partial"
    under_way.mkdir()
    (under_way / "trial.json").write_text("{", encoding="utf-8")
    (run / ".lock").touch()
    (run / "lock.json").touch()
    return run


def repacked(bundle: Path, edit: dict[str, bytes | None]) -> Path:
    """The bundle with members replaced, left out (None) or added."""
    changed = bundle.with_name("changed.tar.gz")
    with tarfile.open(bundle) as old, tarfile.open(changed, "w:gz") as new:
        contents = {m.name: old.extractfile(m).read() for m in old}  # type: ignore[union-attr]
        for name, data in {**contents, **edit}.items():
            if data is not None:
                member = tarfile.TarInfo(name)
                member.size = len(data)
                new.addfile(member, io.BytesIO(data))
    return changed


def test_bundle_holds_what_has_ended_and_nothing_else(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "first.tar.gz"
    contents = write_bundle(run, out)
    assert set(contents.files) == set(FILES)
    assert contents.run == "first/20260102T030405Z"
    assert check_bundle(out) == contents


def test_the_same_run_is_the_same_bundle(run: Path, tmp_path: Path) -> None:
    write_bundle(run, tmp_path / "a.tar.gz")
    for path in run.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700)
    write_bundle(run, tmp_path / "b.tar.gz")
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tar.gz").read_bytes()


def test_unpacked_it_is_the_run_again(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "first.tar.gz"
    write_bundle(run, out)
    there = unpack_bundle(out, tmp_path / "elsewhere")
    assert there == tmp_path / "elsewhere/first/20260102T030405Z"
    assert {p.relative_to(there).as_posix(): p.read_text() for p in there.rglob("*") if p.is_file()} == FILES
    assert (there.parent / "latest").resolve() == there.resolve()
    with pytest.raises(InputError, match="exists already"):
        unpack_bundle(out, tmp_path / "elsewhere")


def test_every_change_is_named(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "first.tar.gz"
    write_bundle(run, out)
    at = "first/20260102T030405Z"
    changed = repacked(
        out, {f"{at}/matrix.yaml": b"matrix: other\n", f"{at}/manifest.json": None, f"{at}/more": b"!"}
    )
    with pytest.raises(InputError) as caught:
        check_bundle(changed)
    assert [(p.path, p.message) for p in caught.value.problems] == [
        ("manifest.json", "is missing"),
        ("matrix.yaml", "was changed"),
        ("more", "is not listed"),
    ]
    with pytest.raises(InputError):
        unpack_bundle(changed, tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()


def test_cut_short_it_is_not_sound(run: Path, tmp_path: Path) -> None:
    (run / "big").write_bytes(os.urandom(100_000))
    out = tmp_path / "first.tar.gz"
    write_bundle(run, out)
    out.write_bytes(out.read_bytes()[:-50_000])
    with pytest.raises(InputError, match="is not a valid bundle"):
        check_bundle(out)


@pytest.mark.parametrize("data", [b"", b"text", gzip.compress(b"text", mtime=0)])
def test_something_else_is_no_bundle(data: bytes, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(data)
    with pytest.raises(InputError, match="bundle"):
        check_bundle(other)


def test_nothing_is_unpacked_outside_of_the_runs(run: Path, tmp_path: Path) -> None:
    evil = run / "x"
    evil.write_text("x", encoding="utf-8")
    out = tmp_path / "first.tar.gz"
    contents = write_bundle(run, out)
    listed = contents.model_dump_json().replace('"x"', '"../../../../x"').encode()
    at = contents.run
    changed = repacked(out, {"bundle.json": listed, f"{at}/x": None, f"{at}/../../../../x": b"x"})
    with pytest.raises(InputError, match="is outside the folder"):
        unpack_bundle(changed, tmp_path / "elsewhere")
    assert not (tmp_path / "x").exists()


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a run directory"):
        write_bundle(tmp_path, tmp_path / "out")
