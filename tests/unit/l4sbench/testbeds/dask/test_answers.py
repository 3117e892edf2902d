# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Answers of workers arrive as they were, and what no honest worker answers is refused."""

import hashlib
import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from l4sbench.testbeds.dask import answers
from l4sbench.testbeds.dask.answers import (
    BadAnswer,
    Facts,
    FailedTrial,
    LabInstalled,
    LabMissing,
    Ran,
    RawFile,
    Unusable,
    decode,
    encode,
    new_files,
    write,
)
from l4sbench.testbeds.dask.packing import Packed, pack
from l4sbench.testbeds.virtual.guest import Ended

ENDED = Ended(0, 1.5, 0.5)
FACTS = Facts(
    machine="x86_64", libc="glibc", libc_version=(2, 36), python="3.11", l4sbench="0.1.0", code="ab", zlib="1"
)
HEADER = {"kind": "ran", "returncode": 0, "wall_s": 1.0, "cpu_s": 1.0}


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    """A trial's folder as it is sent."""
    made = tmp_path / "trial"
    (made / "router").mkdir(parents=True)
    (made / ".programs").mkdir()
    (made / ".programs" / "own").write_text("program")
    (made / "router" / "tc.batch").write_text("qdisc\n")
    (made / "script").write_text("run\n")
    return made


@pytest.fixture
def sent(trial: Path) -> Packed:
    return pack(trial)


def packed(header: bytes | dict[str, Any], contents: bytes = b"") -> bytes:
    """Return an answer with any header, whose checksum matches."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    body = struct.pack("<I", len(text)) + text + contents
    return b"l4sb-an1" + hashlib.sha256(body).digest() + body


def refused(data: bytes, reason: str, sent: Packed | None = None) -> None:
    with pytest.raises(BadAnswer, match=reason):
        decode(data, sent)


@pytest.mark.parametrize(
    "answer",
    [FACTS, FailedTrial(reason="it hung"), LabMissing(), LabInstalled(), Unusable(reason="the disk is full")],
)
def test_answers_without_files_arrive_as_they_were(answer: answers.Answer) -> None:
    assert decode(encode(answer)) == answer


def test_files_that_a_guest_adds_arrive_with_the_usual_permissions(
    trial: Path, sent: Packed, tmp_path: Path
) -> None:
    (trial / "status.jsonl").write_text("{}\n")
    (trial / "router" / "queue.json").write_bytes(b"\x00\xff")
    (trial / "router" / "queue.json").chmod(0o6777)
    (trial / "router" / "own" / "deep").mkdir(parents=True)
    (trial / "router" / "own" / "deep" / "é 1").write_text("")
    (trial / ".programs" / "own").write_text("changed by itself")
    answer = decode(encode(Ran(ENDED, new_files(trial, sent))), sent)
    assert isinstance(answer, Ran)
    assert answer.ended == ENDED
    to = tmp_path / "to"
    (to / "router").mkdir(parents=True)
    umask = os.umask(0o077)
    try:
        write(answer.files, to)
    finally:
        os.umask(umask)
    found = {str(path.relative_to(to)): path for path in to.rglob("*") if path.is_file()}
    assert sorted(found) == ["router/own/deep/é 1", "router/queue.json", "status.jsonl"]
    assert found["router/queue.json"].read_bytes() == b"\x00\xff"
    assert {path.stat().st_mode & 0o7777 for path in found.values()} == {0o644}
    assert (to / "router" / "own").stat().st_mode & 0o7777 == 0o755


def test_what_an_answer_cannot_have_is_named_at_the_worker(trial: Path, sent: Packed) -> None:
    (trial / "router" / "link").symlink_to("/etc/passwd")
    with pytest.raises(BadAnswer, match=r"^the guest left 'router/link', which is not a regular file$"):
        new_files(trial, sent)
    (trial / "router" / "link").unlink()
    os.mkfifo(trial / "router" / "pipe")
    with pytest.raises(BadAnswer, match="not a regular file"):
        new_files(trial, sent)
    (trial / "router" / "pipe").unlink()
    (trial / "script").write_text("other\n")
    with pytest.raises(BadAnswer, match=r"^the guest changed 'script'$"):
        new_files(trial, sent)
    (trial / "script").write_text("run\n")
    (trial / "trial.json").write_text("{}")
    with pytest.raises(BadAnswer, match=r"'trial.json' is not a file that a guest leaves"):
        new_files(trial, sent)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/",
        "/etc/passwd",
        "..",
        "../x",
        "router",
        "router/",
        "router/..",
        "router/../../x",
        "router/./x",
        "router//x",
        "router/a\nb",
        "router/a\0b",
        "router/a\x1b[2J",
        "router/\u2028",
        "router/\u202egnp",
        "router/" + "x" * 256,
        "router/" + "é" * 128,
        "router/" + "/".join("x" * 8),
        "router/" + "/".join(["x" * 200] * 5),
        "other/x",
        "trial.json",
        "script",
        "host.json",
        "programs.json",
        ".lock",
        ".programs/own",
        ".programs/other",
        "router/tc.batch",
        "router/tc.batch/x",
        "status.jsonl/x",
    ],
)
def test_names_that_no_guest_leaves_are_refused(sent: Packed, name: str) -> None:
    header = {**HEADER, "files": [{"name": name, "size": 1}]}
    reason = r"not a file that a guest leaves|it was given|is below a file|not valid: ran\.files"
    refused(packed(header, b"x"), reason, sent)
    assert isinstance(decode(packed({**HEADER, "files": []}), sent), Ran)


@pytest.mark.parametrize(
    ("files", "contents", "reason"),
    [
        ([("status.jsonl", 1), ("status.jsonl", 1)], b"xx", "'status.jsonl' occurs twice"),
        ([("router/a", 1), ("router/a/b", 1)], b"xx", "'router/a/b' is below a file"),
        ([("router/a/b", 1), ("router/a", 1)], b"xx", "'router/a/b' is below a file"),
        ([("router/a", 1)], b"", "the sizes of its files"),
        ([("router/a", 1)], b"xx", "the sizes of its files"),
        ([("router/a", -1)], b"", "not valid: ran.files.0.size"),
        ([("router/a", True)], b"x", "not valid: ran.files.0.size"),
        ([("router/a", 1.0)], b"x", "not valid: ran.files.0.size"),
        ([("router/a", 10**30)], b"x", "not valid: ran.files.0.size"),
        ([(f"router/{n}", 0) for n in range(answers.MOST_FILES + 1)], b"", "not valid: ran.files"),
    ],
)
def test_lists_of_files_that_are_none_are_refused(
    sent: Packed, files: list[tuple[str, Any]], contents: bytes, reason: str
) -> None:
    listed = [{"name": name, "size": size} for name, size in files]
    refused(packed({**HEADER, "files": listed}, contents), reason, sent)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "too short"),
        (b"\x80\x05cos\nsystem\n(S'touch x'\ntR." + b"." * 100, "not in the format"),
        (packed(b"{}")[:-1], "the header of its answer is too long"),
        (packed({"kind": "lab-missing"}, b"x"), "something follows"),
        (packed({"kind": "lab-missing"})[:-1] + b" ", "does not match its checksum"),
        (packed(b"[" * 100_000), "not valid"),
        (packed(b'{"kind": "failed", "reason": "\\ud800"}'), "not valid"),
        (packed(b'{"kind": "failed", "reason": "\xff"}'), "not valid"),
        (packed(b'{"kind": "failed", "reason": 9' + b"9" * 5000 + b"}"), "not valid"),
        (packed({"kind": "failed"}), "not valid: failed.reason"),
        (packed({"kind": "failed", "reason": "x" * 5000}), "not valid: failed.reason"),
        (packed({"kind": "failed", "reason": "x", "more": 1}), "not valid: failed.more"),
        (packed({"kind": "nothing"}), "not valid"),
        (packed({}), "not valid"),
        (packed({**HEADER, "wall_s": -1, "files": []}), "not valid: ran.wall_s"),
        (packed(json.dumps({**HEADER, "files": []}).replace("1.0", "1e999").encode()), "not valid"),
        (packed({**HEADER, "returncode": 2**40, "files": []}), "not valid: ran.returncode"),
        (b"l4sb-an1" + bytes(32) + b"\xff\xff\xff\xff" + bytes(100), "the header of its answer is too long"),
    ],
)
def test_anything_else_is_refused(data: bytes, reason: str) -> None:
    refused(data, reason)


def test_reasons_of_workers_are_one_visible_line() -> None:
    answer = decode(packed({"kind": "unusable", "reason": "a\nerror: b \x1b[2J\u202e"}))
    assert answer == Unusable(reason=r"a error: b \x1b[2J\u202e")


def test_an_answer_that_is_too_large_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_BYTES", 100)
    refused(b"l4sb-an1" + bytes(100), "its answer is larger than")


def test_files_are_written_all_or_none(tmp_path: Path) -> None:
    (tmp_path / "router").mkdir()
    (tmp_path / "router" / "there").write_text("ours")
    files = (RawFile("status.jsonl", b"x"), RawFile("router/new/a", b"x"), RawFile("router/there", b"x"))
    with pytest.raises(FileExistsError):
        write(files, tmp_path)
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "router", tmp_path / "router" / "there"]
    assert (tmp_path / "router" / "there").read_text() == "ours"
