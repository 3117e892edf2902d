# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A run as one archive that another machine can check, report from and rerun.

A bundle is a gzipped tar of one folder `<matrix>/<time>/`. Its first member, `bundle.json`, lists all files
with size and SHA-256. Equal run directories give equal bundles, byte for byte: members are sorted, and have
no owners, modes or times. Files that do not belong to the run (unfinished trials, locks) are left out.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from l4sbench import __version__
from l4sbench.errors import InputError, Problem

FORMAT: Final = 1
"""Version of the bundle's format; newer ones are rejected."""

SUFFIX: Final = ".l4sbench.tar.gz"

_LIST: Final = "bundle.json"
_CHUNK_BYTES: Final = 1 << 20


class BundledFile(BaseModel):
    """One file of a bundle."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    size_bytes: int
    sha256: str


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
        InputError: `run` is not a run directory, or it changed while it was read.
    """
    run = run.resolve()
    if not (run / "manifest.json").is_file():
        raise InputError(f"{run} is not a run directory: it has no manifest.json")
    contents = Contents(
        format=FORMAT,
        l4sbench=__version__,
        run=f"{run.parent.name}/{run.name}",
        files={name: _describe(run / name) for name in _files(run)},
    )
    partial = out.with_name(out.name + ".partial")
    try:
        with partial.open("wb") as file:
            with gzip.GzipFile("", "wb", mtime=0, fileobj=file) as packed:
                _write_members(run, contents, packed)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)
    return contents


def check_bundle(bundle: Path) -> Contents:
    """Compare every file of a bundle with its list, and return the list.

    Raises:
        InputError: it is not a bundle, a newer l4sbench wrote it, or files are missing, unlisted or changed;
            the error names them all.
    """
    with _members(bundle) as (contents, members):
        found = {name: _digest(file) for name, file in members}
    problems = [
        Problem(str(bundle), name, message)
        for name in sorted({*found, *contents.files})
        if (message := _difference(contents.files.get(name), found.get(name)))
    ]
    if problems:
        raise InputError(problems)
    return contents


def unpack_bundle(bundle: Path, runs: Path) -> Path:
    """Check a bundle and unpack it below `runs`, as if it had run here; returns the run directory.

    It becomes the matrix's `latest` run only if there is none yet.

    Raises:
        InputError: the bundle is damaged, or the run exists already.
    """
    contents = check_bundle(bundle)
    target = runs / contents.run
    if target.exists():
        raise InputError(f"{target} exists already", "use --dir to unpack it elsewhere")
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    with _members(bundle) as (_, members):
        for name, file in members:
            path = partial / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as copy:
                shutil.copyfileobj(file, copy, _CHUNK_BYTES)
    partial.rename(target)
    latest = target.parent / "latest"
    if not latest.is_symlink():
        latest.symlink_to(target.name)
    return target


def _files(run: Path) -> list[str]:
    """Files of a run by name, without unfinished trials and hidden files (locks)."""
    found = []
    for folder, folders, names in os.walk(run):
        folders[:] = [name for name in folders if not _left_out(name)]
        place = Path(folder).relative_to(run)
        found += [(place / name).as_posix() for name in names if not _left_out(name)]
    return sorted(found)


def _left_out(name: str) -> bool:
    return name.startswith(".") or name.endswith(".partial") or name == "lock.json"


def _describe(path: Path) -> BundledFile:
    with path.open("rb") as file:
        return _digest(file)


def _digest(file: IO[bytes]) -> BundledFile:
    total, size = hashlib.sha256(), 0
    while chunk := file.read(_CHUNK_BYTES):
        total.update(chunk)
        size += len(chunk)
    return BundledFile(size_bytes=size, sha256=total.hexdigest())


def _write_members(run: Path, contents: Contents, packed: gzip.GzipFile) -> None:
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        listed = contents.model_dump_json(indent=1).encode() + b"\n"
        tar.addfile(_member(_LIST, len(listed)), io.BytesIO(listed))
        for name, listing in contents.files.items():
            with (run / name).open("rb") as file:
                tar.addfile(_member(f"{contents.run}/{name}", listing.size_bytes), file)
    changed = [name for name, listing in contents.files.items() if _describe(run / name) != listing]
    if changed:
        raise InputError(f"{run} changed while it was bundled: {changed[0]}", "wait until the run has ended")


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    member.mode = 0o644
    return member


@contextmanager
def _members(bundle: Path) -> Iterator[tuple[Contents, Iterator[tuple[str, IO[bytes]]]]]:
    """Return the list of a bundle, and its files in their order; each must be read before the next."""
    try:
        with tarfile.open(bundle, "r|gz") as tar:
            contents = _read_list(bundle, tar)
            yield contents, _below(bundle, tar, contents.run)
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, OSError) as error:
        raise InputError(f"{bundle} is not a valid bundle: {error}") from error


def _read_list(bundle: Path, tar: tarfile.TarFile) -> Contents:
    first = tar.next()
    file = tar.extractfile(first) if first is not None and first.name == _LIST else None
    if file is None:
        raise InputError(f"{bundle} is not a bundle: {_LIST} does not come first")
    text = file.read()
    try:
        contents = Contents.model_validate_json(text)
    except ValidationError as error:
        raise InputError(f"{bundle}: {_LIST} cannot be read: {error.errors()[0]['msg']}") from error
    if contents.format > FORMAT:
        raise InputError(
            f"{bundle} has format {contents.format}, and this l4sbench reads up to {FORMAT}",
            "install a newer l4sbench",
        )
    for name in (contents.run, *contents.files):
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise InputError(f"{bundle}: {name} is outside the folder to unpack into")
    return contents


def _below(bundle: Path, tar: tarfile.TarFile, run: str) -> Iterator[tuple[str, IO[bytes]]]:
    while (member := tar.next()) is not None:
        file = tar.extractfile(member) if member.isreg() else None
        if file is None or not member.name.startswith(f"{run}/"):
            raise InputError(f"{bundle}: {member.name} does not belong to {run}")
        yield member.name.removeprefix(f"{run}/"), file


def _difference(listed: BundledFile | None, found: BundledFile | None) -> str | None:
    if listed is None:
        return "is not listed"
    if found is None:
        return "is missing"
    return None if listed == found else "was changed"
