# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Answers of workers as plain bytes: a header in JSON, then the contents of files.

A worker may answer anything. `decode` takes what an honest one can answer, and nothing of it is executed.

    magic (8 bytes), SHA-256 of all that follows (32), length of the header (4), header, contents
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from l4sbench.printable import printable
from l4sbench.testbeds.virtual.guest import Ended
from l4sbench.testbeds.virtual.script import PROGRAMS
from l4sbench.text.models import first_problem

if TYPE_CHECKING:
    from l4sbench.testbeds.dask.packing import Packed

MOST_BYTES: Final = 4 << 30
"""Largest accepted size of an answer, as of a host's results."""
MOST_FILES: Final = 10_000
"""Largest accepted number of files; a trial of 100 flows has about 500."""

OF_GUEST: Final = frozenset(
    {"console.log", "queues.jsonl", "sampler.stderr", "sockets.jsonl", "status.jsonl"}
)
"""Files that a guest leaves outside the folders of nodes."""

_MAGIC: Final = b"l4sb-an1"
_START: Final = struct.Struct("<8s32sI")
_MOST_HEADER_BYTES: Final = 4 << 20
_MOST_REASON_CHARS: Final = 2000
_MOST_NAME_BYTES: Final = 1000
_MOST_PART_BYTES: Final = 255
_DEEPEST: Final = 8


class BadAnswer(Exception):  # noqa: N818  (it names an event, as `TrialFailed` does)
    """An answer that no honest worker gives, with the reason."""


def one_line(text: str) -> str:
    """Return a text of a cluster as messages quote it: visible signs, in one line that is not too long."""
    return " ".join(printable(text).split())[:_MOST_REASON_CHARS]


_Text: TypeAlias = Annotated[str, Field(max_length=100), AfterValidator(one_line)]
_Reason: TypeAlias = Annotated[str, Field(max_length=_MOST_REASON_CHARS), AfterValidator(one_line)]
_Number: TypeAlias = Annotated[int, Field(ge=0, lt=2**31)]
_Seconds: TypeAlias = Annotated[float, Field(ge=0, le=1e9)]


class _Plain(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Facts(_Plain):
    """Facts about the machine and the software of a worker.

    Attributes:
        kind: Of the answer.
        machine: The architecture, as `uname -m` prints it.
        libc: Name of the C library.
        libc_version: Its version, as numbers.
        python: Version of Python, without the last part.
        l4sbench: Version of l4sbench.
        code: Checksum of the code that boots guests.
        zlib: Version of zlib, on which compressed captures depend.
    """

    kind: Literal["facts"] = "facts"
    machine: _Text
    libc: _Text
    libc_version: Annotated[tuple[_Number, ...], Field(max_length=10)]
    python: _Text
    l4sbench: _Text
    code: _Text
    zlib: _Text


class FailedTrial(_Plain):
    """The trial failed on a worker that is all right."""

    kind: Literal["failed"] = "failed"
    reason: _Reason


class LabMissing(_Plain):
    """The worker does not have the lab yet."""

    kind: Literal["lab-missing"] = "lab-missing"


class LabInstalled(_Plain):
    """The worker has the lab now."""

    kind: Literal["lab-installed"] = "lab-installed"


class Unusable(_Plain):
    """The worker cannot run trials, for this reason."""

    kind: Literal["unusable"] = "unusable"
    reason: _Reason


class _Listed(_Plain):
    name: Annotated[str, Field(max_length=_MOST_NAME_BYTES)]
    size: Annotated[int, Field(ge=0, le=MOST_BYTES)]


class _RanHeader(_Plain):
    kind: Literal["ran"] = "ran"
    returncode: Annotated[int, Field(ge=-255, le=255)]
    wall_s: _Seconds
    cpu_s: _Seconds
    files: Annotated[tuple[_Listed, ...], Field(max_length=MOST_FILES)]


_Header: TypeAlias = Annotated[
    Facts | FailedTrial | LabMissing | LabInstalled | Unusable | _RanHeader, Field(discriminator="kind")
]
_HEADERS: Final[TypeAdapter[_Header]] = TypeAdapter(_Header)


@dataclass(frozen=True)
class RawFile:
    """A file of a trial: its path below the trial's folder, with slashes, and its content."""

    name: str
    content: bytes | memoryview


@dataclass(frozen=True)
class Ran:
    """A guest ran to its end, whatever it did."""

    ended: Ended
    files: tuple[RawFile, ...]


Answer: TypeAlias = Facts | FailedTrial | LabMissing | LabInstalled | Unusable | Ran


def encode(answer: Answer) -> bytes:
    """Return an answer as bytes."""
    contents: tuple[bytes | memoryview, ...] = ()
    if isinstance(answer, Ran):
        contents = tuple(file.content for file in answer.files)
        listed = [{"name": file.name, "size": len(file.content)} for file in answer.files]
        ended = answer.ended
        ran = {"returncode": ended.returncode, "wall_s": ended.wall_s, "cpu_s": ended.cpu_s, "files": listed}
        header = json.dumps({"kind": "ran", **ran}).encode()
    else:
        header = answer.model_dump_json().encode()
    length = struct.pack("<I", len(header))
    total = hashlib.sha256()
    for part in (length, header, *contents):
        total.update(part)
    return b"".join((_MAGIC, total.digest(), length, header, *contents))


def decode(data: bytes | memoryview, sent: Packed | None = None) -> Answer:
    """Return an answer; contents of files are views of `data`.

    `sent` is what the worker got: a guest adds files to the folders in it, and replaces none of its files.

    Raises:
        BadAnswer: it is not an answer that an honest worker gives.
    """
    view = memoryview(data)
    if len(view) > MOST_BYTES:
        raise BadAnswer(f"its answer is larger than {MOST_BYTES >> 20} MB")
    if len(view) < _START.size:
        raise BadAnswer("its answer is too short")
    magic, digest, length = _START.unpack_from(view)
    if magic != _MAGIC:
        raise BadAnswer("its answer is not in the format of l4sbench")
    if length > _MOST_HEADER_BYTES or length > len(view) - _START.size:
        raise BadAnswer("the header of its answer is too long")
    if hashlib.sha256(view[_START.size - 4 :]).digest() != digest:
        raise BadAnswer("its answer does not match its checksum")
    end = _START.size + length
    header = _header(bytes(view[_START.size : end]))
    if isinstance(header, _RanHeader):
        return _ran(header, view[end:], sent)
    if len(view) > end:
        raise BadAnswer("something follows its answer")
    return header


def _header(text: bytes) -> _Header:
    try:
        return _HEADERS.validate_json(text)
    except ValidationError as error:
        raise BadAnswer(one_line(f"the header of its answer is not valid: {first_problem(error)}")) from None


def _ran(header: _RanHeader, contents: memoryview, sent: Packed | None) -> Ran:
    check_names([file.name for file in header.files], sent)
    if sum(file.size for file in header.files) != len(contents):
        raise BadAnswer("the sizes of its files are not those of its answer")
    files: list[RawFile] = []
    at = 0
    for file in header.files:
        files.append(RawFile(file.name, contents[at : at + file.size]))
        at += file.size
    return Ran(Ended(header.returncode, header.wall_s, header.cpu_s), tuple(files))


def check_names(names: Sequence[str], sent: Packed | None) -> None:
    """Check that files may come from a guest that got `sent`.

    Raises:
        BadAnswer: one may not, or two exclude each other.
    """
    entries = sent.entries if sent is not None else ()
    folders = {entry.name for entry in entries if entry.content is None and entry.link is None} - {PROGRAMS}
    taken = {entry.name for entry in entries if entry.content is not None}
    for name in names:
        if not (name in OF_GUEST or _is_below(name, folders)):
            raise BadAnswer(f"{_shown(name)} is not a file that a guest leaves")
        if name in taken:
            raise BadAnswer(f"{_shown(name)} occurs twice, or is a file that it was given")
        taken.add(name)
    for name in names:
        parts = name.split("/")
        if any("/".join(parts[:count]) in taken for count in range(1, len(parts))):
            raise BadAnswer(f"{_shown(name)} is below a file")


def _is_below(name: str, folders: Iterable[str]) -> bool:
    first, *parts = name.split("/")
    return (
        first in folders
        and 0 < len(parts) < _DEEPEST
        and all(map(_is_part, parts))
        and len(name.encode()) <= _MOST_NAME_BYTES
    )


def _is_part(part: str) -> bool:
    # no control characters, line breaks or halves of surrogate pairs are printable
    return part not in {"", ".", ".."} and part.isprintable() and len(part.encode()) <= _MOST_PART_BYTES


def _shown(name: str) -> str:
    return ascii(name)[:100]


# ---- files of a trial
def new_files(folder: Path, sent: Packed) -> tuple[RawFile, ...]:
    """Return the files that a guest added to what was sent. Its copies of own programs are no results.

    Raises:
        BadAnswer: it left something that an answer cannot have, with the reason.
        OSError: they cannot be read.
    """
    inputs = {entry.name: entry.content for entry in sent.entries if entry.content is not None}
    names: list[str] = []
    total = 0
    for name, size in _listed(folder, ""):
        if name in inputs:
            if (folder / name).read_bytes() != inputs[name]:
                raise BadAnswer(f"the guest changed {_shown(name)}")
            continue
        names.append(name)
        total += size
        if len(names) > MOST_FILES or total > MOST_BYTES - _MOST_HEADER_BYTES:
            limit = f"{MOST_FILES} files or {MOST_BYTES >> 20} MB"
            raise BadAnswer(f"the guest left more than {limit}")
    check_names(names, sent)
    try:
        return tuple(RawFile(name, (folder / name).read_bytes()) for name in names)
    except PermissionError as error:
        raise BadAnswer(f"the guest left files that cannot be read: {error}") from error


def _listed(folder: Path, above: str) -> Iterator[tuple[str, int]]:
    with os.scandir(folder / above) as found:
        for entry in sorted(found, key=lambda entry: entry.name):
            name = f"{above}{entry.name}"
            if name == PROGRAMS:
                continue
            if name.count("/") >= _DEEPEST:
                raise BadAnswer(f"the guest left {_shown(name)}, which is below too many folders")
            if entry.is_dir(follow_symlinks=False):
                yield from _listed(folder, f"{name}/")
            elif entry.is_file(follow_symlinks=False):
                yield name, entry.stat(follow_symlinks=False).st_size
            else:
                raise BadAnswer(f"the guest left {_shown(name)}, which is not a regular file")


def write(files: Sequence[RawFile], folder: Path) -> None:
    """Write files into a trial's folder: all of them, or, if there is an error, none.

    Raises:
        OSError, UnicodeEncodeError: they cannot be written.
    """
    made: list[Path] = []
    try:
        for file in files:
            path = folder / file.name
            for above in reversed(path.relative_to(folder).parents[:-1]):
                with suppress(FileExistsError):
                    (folder / above).mkdir()
                    made.append(folder / above)
                    (folder / above).chmod(0o755)
            with path.open("xb") as out:
                made.append(path)
                out.write(file.content)
                os.fchmod(out.fileno(), 0o644)
    except (OSError, UnicodeEncodeError):
        for path in reversed(made):
            path.rmdir() if path.is_dir() else path.unlink()
        raise
