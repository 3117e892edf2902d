# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A bundle holds a whole run, says so, and notices every change."""

import gzip
import hashlib
import io
import json
import os
import random
import re
import sys
import tarfile
import zlib
from pathlib import Path

import pytest

from l4sbench.errors import InputError, TestbedError
from l4sbench.store import Run
from l4sbench.store.bundle import check_bundle, unpack_bundle, write_bundle
from l4sbench.store.crate import CRATE

FILES = {
    "manifest.json": "{}\n",
    "matrix.yaml": "matrix: first\n",
    "cells/fifo-0123456789/1-abcdef/trial.json": '{"status": "ok"}\n',
    "cells/fifo-0123456789/1-abcdef/raw/router/qdisc.json": "[]\n",
    "tables/trials.parquet": "PAR1",
}


RUN = "first/20260102T030405Z/"


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


def repacked(bundle: Path, edit: dict[str, bytes | tarfile.TarInfo | None]) -> Path:
    """The bundle with members replaced, left out (None) or added."""
    changed = bundle.with_name("changed.tar.gz")
    with tarfile.open(bundle) as old, tarfile.open(changed, "w:gz") as new:
        contents = {m.name: old.extractfile(m).read() for m in old}  # type: ignore[union-attr]
        for name, data in {**contents, **edit}.items():
            if isinstance(data, tarfile.TarInfo):
                new.addfile(data)
            elif data is not None:
                member = tarfile.TarInfo(name)
                member.size = len(data)
                new.addfile(member, io.BytesIO(data))
    return changed


def renamed(bundle: Path, run: str) -> Path:
    """The bundle as if its run had another name."""
    edit: dict[str, bytes | tarfile.TarInfo | None] = {}
    with tarfile.open(bundle) as old:
        for member in old:
            data = old.extractfile(member).read()  # type: ignore[union-attr]
            if member.name == "bundle.json":
                edit[member.name] = json.dumps(json.loads(data) | {"run": run}).encode()
            else:
                edit[member.name] = None
                edit[f"{run}/{member.name.removeprefix(RUN)}".removeprefix("/")] = data
    return repacked(bundle, edit)


def everything(folder: Path) -> dict[str, bytes | None]:
    """All files and folders below a folder."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_bundle_holds_what_has_ended_and_nothing_else(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "first.tar.gz"
    contents = write_bundle(run, out)
    assert set(contents.files) == {*FILES, CRATE}
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
    files = {p.relative_to(there).as_posix(): p.read_text() for p in there.rglob("*") if p.is_file()}
    assert files.pop(CRATE)
    assert files == FILES
    write_bundle(there, tmp_path / "again.tar.gz")
    assert (tmp_path / "again.tar.gz").read_bytes() == out.read_bytes()
    assert (there.parent / "latest").resolve() == there.resolve()


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


def file_at(bundle: Path, place: int) -> str | None:
    """The file whose data begin to be wrong when a byte of an archive is; None near the ends of files."""
    before = len(zlib.decompressobj(31).decompress(bundle.read_bytes()[:place]))
    with tarfile.open(bundle) as archive:
        for member in archive:
            if member.offset_data + 100 < before < member.offset_data + member.size - 100:
                return member.name.removeprefix(RUN)
    return None


def test_a_flipped_bit_is_one_error_that_names_the_file(run: Path, tmp_path: Path) -> None:
    """Whatever follows is wrong, too, and says nothing more."""
    rng = random.Random(1)
    for number in range(30):
        text = " ".join(str(rng.random()) for _ in range(100))
        (run / f"cells/fifo-0123456789/1-abcdef/raw/{number:02d}.json").write_text(text)
    out, changed = tmp_path / "first.tar.gz", tmp_path / "changed.tar.gz"
    write_bundle(run, out)
    whole = out.read_bytes()
    named = set()
    for place in rng.sample(range(20, len(whole) - 8), 100):
        data = bytearray(whole)
        data[place] ^= 1 << rng.randrange(8)
        changed.write_bytes(data)
        try:
            check_bundle(changed)
            continue  # nothing but padding
        except InputError as error:
            (problem,) = error.problems
        name = file_at(out, place)
        if name is not None and name != "bundle.json":
            assert (problem.path, problem.hint) == (name, "copy the bundle again")
            named.add(name)
        with pytest.raises(InputError, match=re.escape(str(problem))):
            unpack_bundle(changed, tmp_path / "elsewhere")
        assert not (tmp_path / "elsewhere").exists()
    assert len(named) > 10


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


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a run directory"):
        write_bundle(tmp_path, tmp_path / "out")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("https://zenodo.example/data/record/7", None),
        ("https://data/record/7", None),
        ("../data/queues, ./topo/data/mine.yml, ~/data/x", None),
        ("/data-of-others/x, /database/x", None),
        ("/data", "./data"),
        ("see /data/private/plan.txt, or (/data/b)", "see ./plan.txt, or (./b)"),
        ("[/data/a, '/data/b']", "[./a, './b']"),
        ("file:///data/private/plan.txt", "file://./plan.txt"),
        ("PATH=/usr/bin:/data/bin:/bin", "PATH=/usr/bin:./bin:/bin"),
        ('"/data/my exp/base.yaml"', '"./base.yaml"'),
        ("'/data/my exp/base.yaml' isn't", "'./base.yaml' isn't"),
        ('"/data/a and /data/b"', '"./a and ./b"'),
        ('"/data/mine --port {port} --to a/b"', '"./mine --port {port} --to a/b"'),
        ('"/data/mine send {port} a/b"', '"./mine send {port} a/b"'),
        ('"/data/a', '"./a'),
    ],
)
def test_only_folders_of_this_machine_are_replaced_in_the_matrix(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, kept: str | None
) -> None:
    monkeypatch.setenv("HOME", "/data")
    (run / "matrix.yaml").write_text(f"matrix: first\n# {text}\n", encoding="utf-8")
    write_bundle(run, tmp_path / "out")
    with tarfile.open(tmp_path / "out") as archive:
        member = archive.extractfile(f"{RUN}matrix.yaml")
        assert member is not None
        assert member.read().decode() == f"matrix: first\n# {kept or text}\n"


def test_files_of_a_sender_are_bundled_whatever_their_names(run: Path, tmp_path: Path) -> None:
    """Its digest is of all of them, and it is built from its copy."""
    kept = ["senders/mine/lock.json", "senders/mine/data.partial", "executables/x.partial"]
    kept.append("cells/fifo-0123456789/1-abcdef/raw/router/out.partial")
    for name in (*kept, "tables/flows.parquet.partial", "report/data/x.partial", "x.partial"):
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text("x", encoding="utf-8")
    contents = write_bundle(run, tmp_path / "out")
    assert set(contents.files) == {*FILES, CRATE, *kept}
    assert check_bundle(tmp_path / "out") == contents


# ---- attacks
@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "first",
        "first/",
        "first/latest",
        "other/20260102T030405Z/cells/fifo-0123456789",
        "other/20260102T030405Z/",
        "other/../first/20260102T030405Z",
        "/tmp/20260102T030405Z",
        "..",
        ".hidden/20260102T030405Z",
        "first/20260102T030405Z.partial",
        "first/20260102T030405Z\n",
        "first/20261399T250000Z",  # no calendar has this date
        "x" * 300 + "/20260102T030405Z",
    ],
)
def test_only_the_name_of_a_run_is_unpacked(run: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "first.tar.gz"
    write_bundle(run, out)
    runs = tmp_path / "elsewhere"
    (runs / "other" / "20260102T030405Z" / "cells").mkdir(parents=True)
    before = everything(runs)
    for read in (check_bundle, lambda bundle: unpack_bundle(bundle, runs)):
        with pytest.raises(InputError, match=r"is not a valid name of a run; it is a matrix's name"):
            read(renamed(out, name))
    assert everything(runs) == before


@pytest.mark.parametrize(
    "name",
    [
        "",
        "cells//x",
        "cells/./x",
        "cells/../x",
        "../../../../x",
        "/x",
        "cells/fifo-0123456789/3-abcdef.partial/trial.json",
        "tables/flows.parquet.partial",
        "senders/.mine/x",
        ".lock",
        "lock.json",
        "manifest.json/x",
        "a\nb",
        "x" * 256,
        "x/" * 600 + "x",
    ],
)
def test_only_names_of_files_of_a_run_are_unpacked(run: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "first.tar.gz"
    listed = json.loads(write_bundle(run, out).model_dump_json())
    listed["files"][name] = {"size_bytes": 1, "sha256": hashlib.sha256(b"x").hexdigest()}
    changed = repacked(out, {"bundle.json": json.dumps(listed).encode(), f"{RUN}{name}": b"x"})
    with pytest.raises(InputError, match="is not a valid name of a file of a run"):
        unpack_bundle(changed, tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()


def test_an_existing_run_stays_and_so_does_what_is_not_ours(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "first.tar.gz"
    write_bundle(run, out)
    (run.parent / "20260102T030405Z.partial").write_text("mine")
    (run.parent / ".l4sbench-mine.partial").mkdir()
    before = everything(tmp_path / "runs")
    with pytest.raises(InputError, match="exists already; use --dir to unpack it elsewhere"):
        unpack_bundle(out, tmp_path / "runs")
    assert everything(tmp_path / "runs") == before
    dangling = tmp_path / "elsewhere" / RUN
    dangling.parent.mkdir(parents=True)
    (dangling.parent / dangling.name).symlink_to(tmp_path / "outside")
    with pytest.raises(InputError, match="exists already"):
        unpack_bundle(out, tmp_path / "elsewhere")
    assert not (tmp_path / "outside").exists()


def test_a_damaged_bundle_leaves_nothing_behind(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "first.tar.gz"
    write_bundle(run, out)
    runs = tmp_path / "elsewhere"
    (runs / "first").mkdir(parents=True)
    edits: dict[str, bytes | tarfile.TarInfo | None] = {"matrix.yaml": b"x", "tables/trials.parquet": None}
    for name, data in {**edits, "z": b"z"}.items():
        with pytest.raises(InputError):
            unpack_bundle(repacked(out, {f"{RUN}{name}": data}), runs)
    assert list((runs / "first").iterdir()) == []


def test_a_new_run_does_not_disturb_an_unpacking_one(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "first.tar.gz"
    write_bundle(run, out)
    runs = tmp_path / "elsewhere"
    made: list[Run] = []

    def make(event: str, arguments: tuple[object, ...]) -> None:
        # in the middle: the last file of the bundle is about to be written
        if event == "open" and str(arguments[0]).endswith("tables/trials.parquet") and not made:
            made.append(Run.create(runs, "first", b"", 1, {}))

    sys.addaudithook(make)
    there = unpack_bundle(out, runs)
    assert len(made) == 1
    assert {p.relative_to(there).as_posix() for p in there.rglob("*") if p.is_file()} == {*FILES, CRATE}
    assert (runs / "first/latest").resolve() == made[0].path.resolve()


def _header(kind: bytes, **values: str | dict[str, str]) -> tarfile.TarInfo:
    member = tarfile.TarInfo(f"{RUN}x")
    member.type = kind
    for name, value in values.items():
        setattr(member, name, value)
    return member


@pytest.mark.parametrize(
    "member",
    [
        _header(tarfile.SYMTYPE, linkname="/etc"),
        _header(tarfile.LNKTYPE, linkname=f"{RUN}manifest.json"),
        _header(tarfile.DIRTYPE),
        _header(tarfile.FIFOTYPE),
        _header(tarfile.CHRTYPE),
        _header(tarfile.GNUTYPE_SPARSE),
        _header(
            tarfile.REGTYPE,
            pax_headers={"GNU.sparse.map": "0,1", "GNU.sparse.size": str(1 << 50)},
        ),
    ],
    ids=["symbolic link", "hard link", "folder", "fifo", "device", "sparse", "sparse by pax"],
)
def test_only_plain_files_are_unpacked(run: Path, tmp_path: Path, member: tarfile.TarInfo) -> None:
    out = tmp_path / "first.tar.gz"
    write_bundle(run, out)
    with pytest.raises(InputError, match="is not a regular file of first/20260102T030405Z"):
        unpack_bundle(repacked(out, {"x": member}), tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()


def test_a_list_of_blanks_is_refused_before_it_is_read(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "first.tar.gz"
    listed = write_bundle(run, out).model_dump_json().encode()
    blanks = repacked(out, {"bundle.json": listed + b" " * (32 << 20)})
    with pytest.raises(InputError, match=r"bundle\.json is too large: 3\d+ bytes instead of 1\d+ at most"):
        check_bundle(blanks)


def test_long_headers_are_refused_before_they_are_read(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "first.tar.gz"
    write_bundle(run, out)
    member = _header(tarfile.REGTYPE, pax_headers={"comment": " " * (32 << 20)})
    with pytest.raises(InputError, match="the headers of a file are too long"):
        check_bundle(repacked(out, {"x": member}))


def test_a_file_that_is_longer_than_listed_is_not_read(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "first.tar.gz"
    write_bundle(run, out)
    bomb = repacked(out, {f"{RUN}matrix.yaml": bytes(65 << 20)})
    with pytest.raises(InputError, match=r"^[^\n]*matrix.yaml: was changed$"):  # and no more was read
        check_bundle(bomb)


def test_a_bundle_that_does_not_fit_is_not_begun(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "first.tar.gz"
    listed = json.loads(write_bundle(run, out).model_dump_json())
    listed["files"]["matrix.yaml"]["size_bytes"] = 1 << 60
    changed = repacked(out, {"bundle.json": json.dumps(listed).encode()})
    with pytest.raises(TestbedError, match=r"but .* has room for .*; free some space, or use --dir"):
        unpack_bundle(changed, tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()


def test_a_renamed_run_gets_its_own_name_in_the_bundle(run: Path, tmp_path: Path) -> None:
    made = {"format": 1, "matrix": "first", "created": "2026-01-02T03:04:05.000000Z", "order_seed": 1}
    (run / "manifest.json").write_text(json.dumps(made))
    before = run.rename(tmp_path / "before the change")
    assert write_bundle(before, tmp_path / "out").run == "first/20260102T030405Z"


def test_something_else_in_a_run_is_not_bundled(run: Path, tmp_path: Path) -> None:
    os.mkfifo(run / "pipe")
    with pytest.raises(InputError, match="pipe: is a FIFO, not a regular file"):
        write_bundle(run, tmp_path / "out")
    with pytest.raises(InputError, match="pipe is not a regular file"):
        check_bundle(run / "pipe")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("place", "target"),
    [
        ("notes", "secret"),
        ("cells/fifo-0123456789/1-abcdef/raw/link", "secret"),
        ("cells/fifo-0123456789/1-abcdef/raw/tx", "folder"),
        ("report", "folder"),
        ("dangling", "nowhere"),
        ("loop", "loop"),
    ],
)
def test_a_link_is_never_packed_and_is_named(run: Path, tmp_path: Path, place: str, target: str) -> None:
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "secret").write_text("secret", encoding="utf-8")
    (run / place).symlink_to(tmp_path / target if target != "loop" else "loop")
    with pytest.raises(InputError, match=f"{run / place}: is a link, not a regular file"):
        write_bundle(run, tmp_path / "b.tar.gz")
    assert not (tmp_path / "b.tar.gz").exists()


@pytest.mark.parametrize("name", [b"a\nb", b"a\xff", b"/".join([b"d" * 200] * 6)])
def test_a_name_that_checking_would_refuse_is_refused_at_once(run: Path, tmp_path: Path, name: bytes) -> None:
    place = run / os.fsdecode(name)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.touch()
    with pytest.raises(InputError, match="is not a name that a bundle can hold"):
        write_bundle(run, tmp_path / "b.tar.gz")


def test_only_a_bundle_is_replaced(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("mine")
    with pytest.raises(InputError, match="out exists and is not a bundle"):
        write_bundle(run, out)
    assert out.read_text() == "mine"
    out.write_bytes(b"")  # of mktemp
    assert write_bundle(run, out) == write_bundle(run, out) == check_bundle(out)
