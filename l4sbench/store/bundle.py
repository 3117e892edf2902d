# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A run as one archive that another machine can check, report from and rerun.

A bundle is a gzipped tar of one folder `<matrix>/<time>/`. Its first member, `bundle.json`, lists all files
with size and SHA-256. Equal run directories give equal bundles, byte for byte: members are sorted, and have
no owners, modes or times. Files that do not belong to the run (unfinished trials, locks) are left out. The
folder is an RO-Crate: its `ro-crate-metadata.json` describes the run, see `crate`. Its copy of the matrix
names no folder of the machine that wrote it.
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

from pydantic import Field, ValidationError

from l4sbench.disk import assets
from l4sbench.disk.files import PARTIAL, new_file, sync_folder, unfinished_folder
from l4sbench.disk.plain import NotPlain, is_plain, kind_of, open_below, read_plain
from l4sbench.disk.userfiles import MOST_PROBLEMS
from l4sbench.errors import InputError, Problem, TestbedError
from l4sbench.store.crate import CRATE, README, crate_of
from l4sbench.store.files import room
from l4sbench.store.lock import making_runs
from l4sbench.store.run import Run, begun
from l4sbench.text.models import Strict, first_problem
from l4sbench.version import __version__

FORMAT: Final = 1
"""Version of the bundle's format; newer ones are rejected."""

SUFFIX: Final = ".l4sbench.tar.gz"

README_MARK: Final = "<!-- Written by l4sbench bundle. -->"
"""The first line of a README.md that a bundle may replace."""

_LIST: Final = "bundle.json"
_MATRIX_FILE: Final = "matrix.yaml"
_SCHEMA: Final = re.compile(rb"(?m)^#\s*yaml-language-server:\s*\$schema=(?:[/~\\]|[A-Za-z]:|file:).*$")
_NO_SCHEMA: Final = b"# A matrix of l4sbench: l4sbench docs matrix"
_BEGINS: Final = rb"(?:(?<=(?P<quote>[\"']))|(?<![\w./~}-])|(?<=file://))"
"""The place before a folder: its text is part of neither a longer path nor a URL."""
_BELOW: Final = (
    rb"(?:(?(quote)/(?:(?!(?P=quote)|[\n{]| [-/]).)*(?=(?P=quote))|(?!))|(?:/[^\s\"',;:\]\[{}()]*)?)"
)
"""The rest of a path below a folder: in quotes, up to these, unless arguments of a program follow."""
_SEARCHED_MOST_BYTES: Final = 1 << 20
_CHUNK_BYTES: Final = 1 << 20
_PACKED_BYTES: Final = 1 << 14
_GZIP: Final = 31
"""Format of a gzip file with the largest window, as zlib counts them."""
_HEADERS_MOST_BYTES: Final = 1 << 20
"""Limit for the headers between two files, which tarfile reads into memory as a whole."""
_LIST_MOST_BYTES: Final = 256 << 20
"""Limit for the list, enough for 1.5 million files."""
_LIST_FACTOR: Final = 16
"""The list is at most this many times as long as the bundle, because checksums hardly compress."""
_SKIPPED_MOST_BYTES: Final = 64 << 20
"""A larger file that differs from the list ends the reading, so that it takes no time."""
_PATH_MOST_BYTES: Final = 1024

_MATRIX: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")
_PART: Final = re.compile(r"[^/\x00-\x1f\x7f]{1,255}")
_DAMAGE: Final = (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError, OverflowError)
"""Errors of the standard library for a damaged archive; ValueError is for numbers and texts in headers."""


class BundledFile(Strict):
    """One file of a bundle."""

    size_bytes: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Contents(Strict):
    """The list of files in a bundle.

    Attributes:
        format: Version of the bundle's format.
        l4sbench: Version of the l4sbench that wrote it.
        run: Matrix and time of the run, `quickstart/20260102T030405Z`.
        files: Every file by its path below the run directory.
    """

    format: int
    l4sbench: str
    run: str
    files: Mapping[str, BundledFile]


def write_bundle(run: Path, out: Path, readme: str = "") -> Contents:
    """Write the run directory `run` as the bundle `out`, which appears whole or not at all.

    `readme` becomes its README.md, unless the run has one that is not from a bundle.

    Raises:
        InputError: `run` is not a run directory, it changed while it was read, or something else than files
            is in it, or something else than a bundle at `out`.
    """
    run = run.resolve()
    if not is_plain(run / "manifest.json"):
        raise InputError(f"{run} is not a run directory: it has no manifest.json")
    _require_ours(out)
    root = os.open(run, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        name = name_of(run)
        try:
            names = _files(run)
        except FileNotFoundError as error:  # a folder
            raise _Changed(Path(error.filename).relative_to(run)) from error
        made = _made_files(root, names, readme)
        files = {path: _describe(root, path) for path in names if path not in made}
        files |= {path: _digest([data]) for path, data in made.items()}
        sizes_bytes = {path: file.size_bytes for path, file in files.items()}
        made[CRATE] = crate_of(run, name, made.get(_MATRIX_FILE, b""), sizes_bytes)
        files[CRATE] = _digest([made[CRATE]])
        contents = Contents(format=FORMAT, l4sbench=__version__, run=name, files=dict(sorted(files.items())))
        with (
            new_file(out) as temporary,
            temporary.open("wb") as file,
            gzip.GzipFile("", "wb", mtime=0, fileobj=file) as packed,
        ):
            _write_members(run, root, contents, made, packed)
            packed.close()
            _require_list(out, len(_listed(contents)), temporary.stat().st_size)
    except _Changed as changed:
        name = changed.args[0]
        raise InputError(
            f"{run} changed while it was bundled: {name}", "wait until the run has ended"
        ) from changed
    finally:
        os.close(root)
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


def places_named(run: Path, contents: Contents) -> Mapping[str, str]:
    """Return the texts of a bundled run that name a folder of this machine, each with the first such folder.

    Compressed files and those above 1 MiB are not searched, and the bundle's own copy of the matrix has none.
    """
    places = _machine_places()
    found: dict[str, str] = {}
    for name, file in contents.files.items():
        if (
            name in (_MATRIX_FILE, CRATE)
            or file.size_bytes > _SEARCHED_MOST_BYTES
            or not is_plain(run / name)
        ):
            continue
        named = places and re.search(places, read_plain(run / name))
        if named:
            found[name] = os.fsdecode(named["folder"])
    return found


# ---- writing
def _machine_places() -> bytes:
    """Return a regular expression for folders of this machine and what is below them; empty for none."""
    folders = {str(assets.root())}
    for folder in (Path.home, Path.cwd):
        with suppress(OSError, RuntimeError):  # there is none, or it was removed
            folders.add(str(folder()))
    known = sorted(
        (folder for folder in folders if folder.count("/") and folder != "/"), key=len, reverse=True
    )
    any_of = b"|".join(re.escape(os.fsencode(folder)) for folder in known)
    return rb"%s(?P<folder>%s)(?![\w.-])%s" % (_BEGINS, any_of, _BELOW) if known else b""


def _portable(matrix: bytes) -> bytes:
    """Return a matrix without folders of this machine; what it named there is in the bundle by its name."""
    matrix = _SCHEMA.sub(_NO_SCHEMA, matrix)
    places = _machine_places()
    return re.sub(places, lambda found: b"./" + found[0].rpartition(b"/")[2], matrix) if places else matrix


def _made_files(root: int, names: Iterable[str], readme: str) -> dict[str, bytes]:
    """Return the files of a bundle that are not those of the run: its matrix, and its README."""
    made: dict[str, bytes] = {}
    if _MATRIX_FILE in names:
        with _reading(root, _MATRIX_FILE) as file:
            made[_MATRIX_FILE] = _portable(file.read())
    if readme:
        made[README] = _portable(readme.encode())
    if README in names:
        with _reading(root, README) as file:
            if file.read(len(README_MARK)) != README_MARK.encode():
                made.pop(README, None)
    return made


def _require_ours(out: Path) -> None:
    """Refuse to replace a file with something in it that is not a bundle."""
    if out.is_symlink() or not out.is_file() or not out.stat().st_size:
        return  # a link is replaced and not followed; `new_file` refuses what is no file
    try:
        with _opened(out):
            pass
    except InputError as error:
        raise InputError(f"{out} exists and is not a bundle", "choose another name, or remove it") from error


def name_of(run: Path) -> str:
    """Matrix and time of a run, by its folders or, if these were renamed, by its manifest."""
    name = f"{run.parent.name}/{run.name}"
    if _is_run(name):
        return name
    manifest = Run(run).manifest
    with suppress(ValueError, TypeError):
        name = f"{manifest.matrix}/{datetime.fromisoformat(manifest.created):%Y%m%dT%H%M%SZ}"
        if _is_run(name):
            return name
    raise InputError(f"{run / 'manifest.json'} has no valid matrix and time")


def _is_run(name: str) -> bool:
    """Return True for the name of a run, as bundles have it: `quickstart/20260102T030405Z`."""
    matrix, _, time = name.partition("/")
    return bool(_MATRIX.fullmatch(matrix)) and begun(time) is not None


def _files(run: Path) -> list[str]:
    """Return the files of a run by name, without unfinished trials, hidden files (locks) and its crate.

    Raises:
        InputError: there are links, or something else that no bundle holds; the error names them.
    """
    found: list[str] = []
    wrong: list[Problem] = []
    waiting = [""]
    while waiting and len(wrong) < MOST_PROBLEMS:
        place = waiting.pop()
        with os.scandir(run / place) as entries:
            for entry in entries:
                name = f"{place}{entry.name}"
                if _left_out(name) or name == CRATE:
                    continue
                if not _is_name(name):
                    wrong.append(
                        Problem(f"{run}/{_quoted(name)}", "", "is not a name that a bundle can hold")
                    )
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{name}/")
                elif entry.is_file(follow_symlinks=False):
                    found.append(name)
                else:
                    kind = kind_of(entry.stat(follow_symlinks=False).st_mode)
                    hint = "remove it, it is not part of the run"
                    wrong.append(Problem(f"{run / name}", "", f"is {kind}, not a regular file", hint))
    if wrong:
        raise InputError(wrong[:MOST_PROBLEMS])
    return sorted(found)


def _left_out(name: str) -> bool:
    """Return True for the path of a lock, of something hidden, or of what the store did not finish.

    Elsewhere, such as in the folder of a sender, files with these names are the user's.
    """
    *above, last = name.split("/")
    if last.startswith("."):
        return True
    if not last.endswith(PARTIAL):
        return name == "lock.json"
    return not above or above[0] in {"tables", "report"} or (above[0] == "cells" and len(above) == 2)


class _Changed(Exception):  # noqa: N818  (it is internal)
    """A file of the run changed, or is no longer there."""


@contextmanager
def _reading(root: int, name: str) -> Iterator[IO[bytes]]:
    """Open a file of a run; no folder on the way is a link. Raises _Changed when it is not there any more."""
    try:
        file = open_below(root, name)
    except (FileNotFoundError, NotPlain) as error:
        raise _Changed(name) from error
    with file:
        yield file


def _describe(root: int, name: str) -> BundledFile:
    with _reading(root, name) as file:
        return _digest(iter(lambda: file.read(_CHUNK_BYTES), b""))


def _digest(chunks: Iterable[bytes], copy: IO[bytes] | None = None) -> BundledFile:
    total, size = hashlib.sha256(), 0
    for chunk in chunks:
        total.update(chunk)
        size += len(chunk)
        if copy is not None:
            copy.write(chunk)
    return BundledFile(size_bytes=size, sha256=total.hexdigest())


def _write_members(
    run: Path, root: int, contents: Contents, made: Mapping[str, bytes], packed: gzip.GzipFile
) -> None:
    listed = _listed(contents)
    if len(listed) > _LIST_MOST_BYTES:
        raise InputError(f"{run} has too many files for a bundle: {len(contents.files)}")
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(_member(_LIST, len(listed)), io.BytesIO(listed))
        for name, listing in contents.files.items():
            if name in made:
                tar.addfile(_member(f"{contents.run}/{name}", listing.size_bytes), io.BytesIO(made[name]))
                continue
            with _reading(root, name) as file:
                if os.fstat(file.fileno()).st_size != listing.size_bytes:
                    raise _Changed(name)
                tar.addfile(_member(f"{contents.run}/{name}", listing.size_bytes), file)
    for name, listing in contents.files.items():
        if name not in made and _describe(root, name) != listing:
            raise _Changed(name)


def _listed(contents: Contents) -> bytes:
    return contents.model_dump_json(indent=1).encode() + b"\n"


def _require_list(bundle: Path, list_bytes: int, size_bytes: int) -> None:
    """Raise InputError if the list of a bundle of this size is longer than readers accept."""
    most = min(_LIST_MOST_BYTES, _HEADERS_MOST_BYTES + _LIST_FACTOR * size_bytes)
    if list_bytes > most:
        raise InputError(f"{bundle}: {_LIST} is too large: {list_bytes} bytes instead of {most} at most")


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    member.mode = 0o644
    return member


# ---- reading
class _DamagedError(InputError):
    """An archive that cannot be read; the cause is the error of the standard library."""


class _Inflated:
    """The data of a gzip file. What precedes damage is read before the error, as it shows where that is."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._inflate = zlib.decompressobj(_GZIP)
        self._most_bytes = _CHUNK_BYTES

    def read(self, size: int) -> bytes:
        """Read up to `size` bytes, at least one where the data goes on."""
        while True:
            ended = self._inflate.eof
            packed = self._inflate.unused_data if ended else self._inflate.unconsumed_tail
            packed = packed or self._file.read(_PACKED_BYTES)
            if not packed and ended:
                return b""
            if not packed:
                raise EOFError("it ends early")
            if ended:
                self._inflate = zlib.decompressobj(_GZIP)
            if data := self._part(packed, min(size, self._most_bytes)):
                return data

    def _part(self, packed: bytes, most_bytes: int) -> bytes:
        before = self._inflate.copy()
        try:
            return self._inflate.decompress(packed, most_bytes)
        except zlib.error:
            if most_bytes <= tarfile.BLOCKSIZE:
                raise
        # once more in small parts: what was inflated before the error is lost with it
        self._inflate, self._most_bytes = before, tarfile.BLOCKSIZE
        return self._inflate.decompress(packed, self._most_bytes)


class _Metered(io.RawIOBase):
    """A stream that ends with an error when more than `left_bytes` are read from it."""

    def __init__(self, stream: _Inflated) -> None:
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

    def __init__(self, bundle: Path, stream: _Inflated, size_bytes: int) -> None:
        self._bundle = bundle
        self._stream = stream
        self._metered = _Metered(stream)
        with self._damage():
            self._tar = tarfile.open(fileobj=self._metered, mode="r|")  # noqa: SIM115  (closed with `stream`)
        first = self._next()
        if first is None or first.name != _LIST or not _is_plain(first):
            raise InputError(f"{bundle} is not a bundle: {_LIST} does not come first")
        _require_list(bundle, first.size, size_bytes)
        self.contents = _contents(bundle, b"".join(self._chunks(first)))
        self._wrong: dict[str, str] = {}
        self._left = dict.fromkeys(sorted(self.contents.files))

    def read(self, keep: Callable[[str, Iterator[bytes]], BundledFile]) -> None:
        """Have `keep` read and describe every file, and compare the results with the list.

        Raises:
            InputError: the bundle differs from its list, in every file that the error names.
        """
        try:
            whole = self._compare(keep)
        except _DamagedError as error:
            if isinstance(error.__cause__, EOFError) or not self._has_other_bytes():
                raise
            raise self._damaged() from error
        if self._wrong and whole and self._has_other_bytes():
            raise self._damaged()
        if self._wrong:
            raise InputError(
                [Problem(str(self._bundle), _quoted(name), self._wrong[name]) for name in sorted(self._wrong)]
            )

    def _compare(self, keep: Callable[[str, Iterator[bytes]], BundledFile]) -> bool:
        """Note what is wrong with files, in the order of the bundle; return False if not all were read."""
        wrong, found = self._wrong, set[str]()
        for name, member in self._files():
            listed = self.contents.files.get(name)
            if listed is None:
                wrong[name] = "is not listed"
            elif name in found:
                wrong[name] = "is in it twice"
            elif member.size != listed.size_bytes or keep(name, self._chunks(member)) != listed:
                wrong[name] = "was changed"
            found.add(name)
            self._left.pop(name, None)
            if name in wrong and member.size > _SKIPPED_MOST_BYTES:
                return False
        wrong |= dict.fromkeys(self._left, "is missing")
        return True

    def _has_other_bytes(self) -> bool:
        """Return True if bytes of the archive were changed, and not a file before it was made."""
        most_bytes = _HEADERS_MOST_BYTES + sum(self.contents.files[name].size_bytes for name in self._left)
        try:
            while most_bytes > 0 and (data := self._stream.read(_CHUNK_BYTES)):
                most_bytes -= len(data)
        except zlib.error:
            return True
        except EOFError:
            pass
        return False

    def _damaged(self) -> InputError:
        """Return an error that names the first file with other bytes, from which what follows differs."""
        first = next(iter(self._wrong), "")
        if (
            first not in self.contents.files
        ):  # its header was changed: it has another name, or ends the archive
            first = next(iter(self._left), _LIST)
        message = "is damaged, so that nothing behind it could be checked"
        return InputError([Problem(str(self._bundle), _quoted(first), message, "copy the bundle again")])

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
            raise _DamagedError(f"{self._bundle} is not a valid bundle: {error}") from error


@contextmanager
def _opened(bundle: Path) -> Iterator[_Reader]:
    try:
        if bundle.exists() and not bundle.is_file():
            raise InputError(f"{bundle} is not a regular file", "save the bundle to a file first")
        file = bundle.open("rb")
    except OSError as error:
        raise InputError(f"{bundle} cannot be read: {error.strerror}") from error
    with file:
        yield _Reader(bundle, _Inflated(file), os.fstat(file.fileno()).st_size)


def _is_plain(member: tarfile.TarInfo) -> bool:
    """Return True for a regular file that is as long in the archive as outside of it."""
    return member.type in {tarfile.REGTYPE, tarfile.AREGTYPE} and not member.issparse()


def _contents(bundle: Path, text: bytes) -> Contents:
    try:
        contents = Contents.model_validate_json(text)
    except ValidationError as error:
        raise InputError(f"{bundle}: {_LIST} cannot be read: {first_problem(error)}") from error
    if contents.format > FORMAT:
        raise InputError(
            f"{bundle} has format {contents.format}, and this l4sbench reads up to {FORMAT}",
            "install a newer l4sbench",
        )
    if not _is_run(contents.run):
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
    parts = name.split("/")
    places = ("/".join(parts[:number]) for number in range(1, len(parts) + 1))
    return short and all(map(_PART.fullmatch, parts)) and not any(map(_left_out, places))


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
