# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A run as one archive that another machine can check, report from and rerun.

A bundle is a gzipped tar of one folder `<matrix>/<time>/`. Its first member, `bundle.json`, lists all files
with size and SHA-256. Equal run directories give equal bundles, byte for byte: members are sorted, and have
no owners, modes or times. Files that do not belong to the run (unfinished trials, locks) are left out. The
folder is an RO-Crate: its `ro-crate-metadata.json` describes the run, see `crate`.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import IO, Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from l4sbench import __version__
from l4sbench.errors import InputError, Problem, TestbedError
from l4sbench.files import PARTIAL, new_file, sync_folder, unfinished_folder
from l4sbench.store.crate import CRATE, crate_of
from l4sbench.store.files import room
from l4sbench.store.lock import making_runs
from l4sbench.store.run import NAME, Run

FORMAT: Final = 1
"""Version of the bundle's format; newer ones are rejected."""

SUFFIX: Final = ".l4sbench.tar.gz"

_LIST: Final = "bundle.json"
_CHUNK_BYTES: Final = 1 << 20
_HEADERS_MOST_BYTES: Final = 1 << 20
"""Limit for the headers between two files, which tarfile reads into memory as a whole."""
_LIST_MOST_BYTES: Final = 256 << 20
"""Limit for the list, enough for 1.5 million files."""
_LIST_FACTOR: Final = 16
"""The list is at most this many times as long as the bundle, because checksums hardly compress."""
_SKIPPED_MOST_BYTES: Final = 64 << 20
"""A larger file that differs from the list ends the reading, so that it takes no time."""
_PATH_MOST_BYTES: Final = 1024

_RUN: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,200}}/{NAME.pattern}")
_PART: Final = re.compile(r"[^/\x00-\x1f\x7f]{1,255}")
_DAMAGE: Final = (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError, OverflowError)
"""Errors of the standard library for a damaged archive; ValueError is for numbers and texts in headers."""


class BundledFile(BaseModel):
    """One file of a bundle."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    size_bytes: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Contents(BaseModel):
    """The list of files in a bundle.

    Attributes:
        format: Version of the bundle's format.
        l4sbench: Version of the l4sbench that wrote it.
        run: Matrix and time of the run, `quickstart/20260102T030405Z`.
        files: Every file by its path below the run directory.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: int
    l4sbench: str
    run: str
    files: Mapping[str, BundledFile]


def write_bundle(run: Path, out: Path) -> Contents:
    """Write the run directory `run` as the bundle `out`, which appears whole or not at all.

    Raises:
        InputError: `run` is not a run directory, it changed while it was read, or something else than files
            is in it or at `out`.
    """
    run = run.resolve()
    if not (run / "manifest.json").is_file():
        raise InputError(f"{run} is not a run directory: it has no manifest.json")
    try:
        name = _name_of(run)
        files = {path: _describe(run / path) for path in _files(run)}
        crate = crate_of(run, name, {path: file.size_bytes for path, file in files.items()})
        files[CRATE] = _digest([crate])
        contents = Contents(format=FORMAT, l4sbench=__version__, run=name, files=dict(sorted(files.items())))
        with (
            new_file(out) as temporary,
            temporary.open("wb") as file,
            gzip.GzipFile("", "wb", mtime=0, fileobj=file) as packed,
        ):
            _write_members(run, contents, crate, packed)
    except FileNotFoundError as error:
        if not Path(error.filename).is_relative_to(run):
            raise
        raise _changed(run, Path(error.filename)) from error
    return contents


def check_bundle(bundle: Path) -> Contents:
    """Compare every file of a bundle with its list, and return the list.

    Raises:
        InputError: it is not a bundle, a newer l4sbench wrote it, or files are missing, unlisted or changed;
            the error names them all.
    """
    with _opened(bundle) as reader:
        reader.read(lambda _, chunks: _digest(chunks))
    return reader.contents


def unpack_bundle(bundle: Path, runs: Path) -> Path:
    """Check a bundle and unpack it below `runs`, as if it had run here; returns the run directory.

    It becomes the matrix's `latest` run only if there is none yet. An error leaves nothing behind.

    Raises:
        InputError: the bundle is damaged, or the run exists already.
        RunLocked: another process makes a run directory of the same matrix all the time.
        TestbedError: there is no space for it.
    """
    with _opened(bundle) as reader, room(runs):
        target = runs / reader.contents.run
        _require_new(target)
        with _made(target.parent) as home, unfinished_folder(home) as folder:
            _require_space(bundle, reader.contents, home)
            reader.read(lambda name, chunks: _keep(chunks, folder / name))
            sync_folder(folder)
            with making_runs(home):
                _require_new(target)
                folder.rename(target)
                if not os.path.lexists(home / "latest"):
                    (home / "latest").symlink_to(target.name)
    return target


# ---- writing
def _name_of(run: Path) -> str:
    """Matrix and time of a run, by its folders or, if these were renamed, by its manifest."""
    name = f"{run.parent.name}/{run.name}"
    if _RUN.fullmatch(name):
        return name
    manifest = Run(run).manifest
    with suppress(ValueError, TypeError):
        name = f"{manifest.matrix}/{datetime.fromisoformat(manifest.created):%Y%m%dT%H%M%SZ}"
        if _RUN.fullmatch(name):
            return name
    raise InputError(f"{run / 'manifest.json'} has no valid matrix and time")


def _files(run: Path) -> list[str]:
    """Files of a run by name, without unfinished trials, hidden files (locks) and its crate."""
    found = []
    for folder, folders, names in os.walk(run):
        folders[:] = [name for name in folders if not _left_out(name)]
        place = Path(folder).relative_to(run)
        found += [(place / name).as_posix() for name in names if not _left_out(name)]
    return sorted(set(found) - {CRATE})


def _left_out(name: str) -> bool:
    return name.startswith(".") or name.endswith(PARTIAL) or name == "lock.json"


def _describe(path: Path) -> BundledFile:
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is not a regular file", "remove it, it is not part of the run")
    with path.open("rb") as file:
        return _digest(iter(lambda: file.read(_CHUNK_BYTES), b""))


def _digest(chunks: Iterable[bytes], copy: IO[bytes] | None = None) -> BundledFile:
    total, size = hashlib.sha256(), 0
    for chunk in chunks:
        total.update(chunk)
        size += len(chunk)
        if copy is not None:
            copy.write(chunk)
    return BundledFile(size_bytes=size, sha256=total.hexdigest())


def _write_members(run: Path, contents: Contents, crate: bytes, packed: gzip.GzipFile) -> None:
    listed = contents.model_dump_json(indent=1).encode() + b"\n"
    if len(listed) > _LIST_MOST_BYTES:
        raise InputError(f"{run} has too many files for a bundle: {len(contents.files)}")
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(_member(_LIST, len(listed)), io.BytesIO(listed))
        for name, listing in contents.files.items():
            if name == CRATE:
                tar.addfile(_member(f"{contents.run}/{name}", len(crate)), io.BytesIO(crate))
                continue
            with (run / name).open("rb") as file:
                if os.fstat(file.fileno()).st_size != listing.size_bytes:
                    raise _changed(run, run / name)
                tar.addfile(_member(f"{contents.run}/{name}", listing.size_bytes), file)
    for name, listing in contents.files.items():
        if name != CRATE and _describe(run / name) != listing:
            raise _changed(run, run / name)


def _changed(run: Path, path: Path) -> InputError:
    name = path.relative_to(run)
    return InputError(f"{run} changed while it was bundled: {name}", "wait until the run has ended")


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    member.mode = 0o644
    return member


# ---- reading
class _Metered(io.RawIOBase):
    """A stream that ends with an error when more than `left_bytes` are read from it."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream
        self.left_bytes = _HEADERS_MOST_BYTES

    def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes."""
        data = self._stream.read(size)
        self.left_bytes -= len(data)
        if self.left_bytes < 0:
            raise tarfile.ReadError("the headers of a file are too long")
        return data


class _Reader:
    """An open bundle: its list, and then its files, in one pass."""

    def __init__(self, bundle: Path, stream: gzip.GzipFile, size_bytes: int) -> None:
        self._bundle = bundle
        self._metered = _Metered(stream)
        with self._damage():
            self._tar = tarfile.open(fileobj=self._metered, mode="r|")  # noqa: SIM115  (closed with `stream`)
        first = self._next()
        if first is None or first.name != _LIST or not _is_plain(first):
            raise InputError(f"{bundle} is not a bundle: {_LIST} does not come first")
        most = min(_LIST_MOST_BYTES, _HEADERS_MOST_BYTES + _LIST_FACTOR * size_bytes)
        if first.size > most:
            raise InputError(f"{bundle}: {_LIST} is too large: {first.size} bytes instead of {most} at most")
        self.contents = _contents(bundle, b"".join(self._chunks(first)))

    def read(self, keep: Callable[[str, Iterator[bytes]], BundledFile]) -> None:
        """Have `keep` read and describe every file, and compare the results with the list.

        Raises:
            InputError: the bundle differs from its list, in every file that the error names.
        """
        wrong: dict[str, str] = {}
        found: set[str] = set()
        for name, member in self._files():
            listed = self.contents.files.get(name)
            if listed is None:
                wrong[name] = "is not listed"
            elif name in found:
                wrong[name] = "is in it twice"
            elif member.size != listed.size_bytes or keep(name, self._chunks(member)) != listed:
                wrong[name] = "was changed"
            found.add(name)
            if name in wrong and member.size > _SKIPPED_MOST_BYTES:
                break
        else:
            wrong |= dict.fromkeys(self.contents.files.keys() - found, "is missing")
        if wrong:
            raise InputError(
                [Problem(str(self._bundle), _quoted(name), wrong[name]) for name in sorted(wrong)]
            )

    def _files(self) -> Iterator[tuple[str, tarfile.TarInfo]]:
        run = f"{self.contents.run}/"
        skipped_bytes = 0
        while (member := self._next(skipped_bytes)) is not None:
            if not member.name.startswith(run) or not _is_plain(member):
                kind = "does not belong to" if _is_plain(member) else "is not a regular file of"
                raise InputError(f"{self._bundle}: {_quoted(member.name)} {kind} {self.contents.run}")
            yield member.name.removeprefix(run), member
            skipped_bytes = member.size

    def _next(self, skipped_bytes: int = 0) -> tarfile.TarInfo | None:
        self._metered.left_bytes = _HEADERS_MOST_BYTES + skipped_bytes
        with self._damage():
            following: tarfile.TarInfo | None = self._tar.next()
        return following

    def _chunks(self, member: tarfile.TarInfo) -> Iterator[bytes]:
        self._metered.left_bytes = _HEADERS_MOST_BYTES + member.size
        with self._damage():
            file = self._tar.extractfile(member)
        while file is not None:
            with self._damage():
                chunk = file.read(_CHUNK_BYTES)
            if not chunk:
                return
            yield chunk

    @contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            yield
        except (*_DAMAGE, OSError) as error:
            raise InputError(f"{self._bundle} is not a valid bundle: {error}") from error


@contextmanager
def _opened(bundle: Path) -> Iterator[_Reader]:
    try:
        if bundle.exists() and not bundle.is_file():
            raise InputError(f"{bundle} is not a regular file", "save the bundle to a file first")
        file = bundle.open("rb")
    except OSError as error:
        raise InputError(f"{bundle} cannot be read: {error.strerror}") from error
    with file, gzip.GzipFile(fileobj=file) as stream:
        yield _Reader(bundle, stream, os.fstat(file.fileno()).st_size)


def _is_plain(member: tarfile.TarInfo) -> bool:
    """Return True for a regular file that is as long in the archive as outside of it."""
    return member.type in {tarfile.REGTYPE, tarfile.AREGTYPE} and not member.issparse()


def _contents(bundle: Path, text: bytes) -> Contents:
    try:
        contents = Contents.model_validate_json(text)
    except ValidationError as error:
        raise InputError(f"{bundle}: {_LIST} cannot be read: {error.errors()[0]['msg']}") from error
    if contents.format > FORMAT:
        raise InputError(
            f"{bundle} has format {contents.format}, and this l4sbench reads up to {FORMAT}",
            "install a newer l4sbench",
        )
    if not _RUN.fullmatch(contents.run):
        hint = "it is a matrix's name and a UTC time, such as quickstart/20260102T030405Z"
        raise InputError(f"{bundle}: {_quoted(contents.run)} is not a valid name of a run", hint)
    if "manifest.json" not in contents.files:
        raise InputError(f"{bundle}: {contents.run} is not a run directory: it has no manifest.json")
    for name in contents.files:
        if not _is_name(name) or any(str(parent) in contents.files for parent in PurePosixPath(name).parents):
            raise InputError(f"{bundle}: {_quoted(name)} is not a valid name of a file of a run")
    return contents


def _is_name(name: str) -> bool:
    """Return True for the path of a file below a run directory, as `write_bundle` lists it."""
    try:
        short = len(name.encode()) <= _PATH_MOST_BYTES
    except UnicodeEncodeError:
        return False
    return short and all(_PART.fullmatch(part) and not _left_out(part) for part in name.split("/"))


def _quoted(name: str) -> str:
    return name if name.isprintable() and len(name) <= _PATH_MOST_BYTES else ascii(name[:100])


# ---- unpacking
def _require_new(target: Path) -> None:
    if os.path.lexists(target):
        raise InputError(f"{target} exists already", "use --dir to unpack it elsewhere")


def _require_space(bundle: Path, contents: Contents, home: Path) -> None:
    needed = sum(file.size_bytes for file in contents.files.values())
    free = shutil.disk_usage(home).free
    if needed > free:
        message = f"{bundle} needs {needed / 1e6:,.0f} MB, but {home} has room for {free / 1e6:,.0f} MB"
        raise TestbedError(message, "free some space, or use --dir to unpack it elsewhere")


@contextmanager
def _made(home: Path) -> Iterator[Path]:
    """Make a folder, and those above it; an error removes them again."""
    missing = [path for path in (home, *home.parents) if not path.exists()]
    home.mkdir(parents=True, exist_ok=True)
    try:
        yield home
    except BaseException:
        for path in missing:
            with suppress(OSError):  # something else is in it by now
                path.rmdir()
        raise


def _keep(chunks: Iterator[bytes], path: Path) -> BundledFile:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as copy:
        return _digest(chunks, copy)
