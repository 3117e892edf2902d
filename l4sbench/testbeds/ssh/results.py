# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The raw files of a trial, put together from those of its hosts.

A host may send anything: whatever an archive contains, it adds regular files of the host's own nodes, and no
more of them than a trial can produce.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import IO, Annotated, Final, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from l4sbench.errors import TrialFailed
from l4sbench.store.leavings import MOST_FILES
from l4sbench.text.models import first_problem

SOCKETS_FILE: Final = "sockets.jsonl"
RESULT_FILE: Final = "result.json"
LOG_FILE: Final = "log"

MOST_BYTES: Final = 4 << 30
"""Largest accepted size of an unpacked archive: headers of 25 million packets."""
_MOST_RESULT_BYTES: Final = 16 << 20
_MOST_AT_ONCE_BYTES: Final = 1 << 20
"""Largest accepted piece of metadata, which `tarfile` reads as one piece."""
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@-]{0,200}")


class _Plain(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class FlowReport(_Plain):
    """A flow that a node started, and its lateness."""

    late_ms: float


class NodeReport(_Plain):
    """A node's part of a trial. `start_epoch_ns`: the start instant by its wall clock."""

    start_epoch_ns: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    flows: tuple[FlowReport, ...] | None = None


class HostReport(_Plain):
    """Report of a host on its nodes."""

    nodes: dict[str, NodeReport] = {}


class _Unusable(Exception):  # noqa: N818  it is internal, and names the archive's state
    """An archive that cannot be used, with the reason."""


def unpack(
    archive: Path,
    host: str,
    nodes: Collection[str],
    raw: Path,
    *,
    files: Collection[str] | None = None,
    most_bytes: int | None = None,
) -> HostReport:
    """Add the raw files of a host's nodes to the trial's, and return what it reported of them.

    Args:
        archive: The host's archive.
        host: Its name, for messages.
        nodes: Its nodes.
        raw: The trial's folder of raw files.
        files: Names that files of its nodes may have; None: any that is safe.
        most_bytes: Largest accepted size, unpacked; None: that of a host's results.

    Raises:
        TrialFailed: the archive is damaged, or holds anything else.
    """
    if not archive.is_file():
        return HostReport()
    with tempfile.TemporaryDirectory(dir=raw, prefix="unpack-") as folder:
        try:
            _extract(archive, Path(folder), nodes, files, most_bytes or MOST_BYTES)
            report = _report(Path(folder, RESULT_FILE))
        # ValueError: for malformed headers of sparse files
        except (_Unusable, tarfile.TarError, ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise TrialFailed(f"{host}: its results cannot be used: {error}") from error
        for node in nodes:
            if Path(folder, "raw", node).is_dir():
                Path(folder, "raw", node).rename(raw / node)
                _gather_sockets(raw / node / SOCKETS_FILE, raw / SOCKETS_FILE)
        kept = raw / "hosts"
        kept.mkdir(exist_ok=True)
        for name in (RESULT_FILE, LOG_FILE):
            if Path(folder, name).is_file() and Path(folder, name).stat().st_size:
                Path(folder, name).rename(kept / f"{host}.{name}")
    return HostReport(nodes={name: own for name, own in report.nodes.items() if name in nodes})


def _extract(
    archive: Path, folder: Path, nodes: Collection[str], files: Collection[str] | None, most_bytes: int
) -> None:
    """Write the files of an archive below a folder.

    Raises:
        _Unusable: it has entries that are not results, or too much.
        tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile: it is damaged.
    """
    with archive.open("rb") as packed, gzip.GzipFile(fileobj=packed) as unpacked:
        source = cast("IO[bytes]", _Bounded(unpacked, most_bytes))
        with tarfile.open(fileobj=source, mode="r:") as listed:
            for number, member in enumerate(listed, 1):
                if number > MOST_FILES:
                    raise _Unusable(f"more than {MOST_FILES} files")
                path = folder / _place(member, nodes, files)
                if member.isdir():
                    path.mkdir(parents=True, exist_ok=True)
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                content = listed.extractfile(member)
                if path.exists():
                    raise _Unusable(f"{member.name!a} occurs twice")
                with path.open("xb") as out:
                    if content is not None:
                        shutil.copyfileobj(content, out)
        while source.read(_MOST_AT_ONCE_BYTES):  # the checksum is at the end
            pass


def _place(member: tarfile.TarInfo, nodes: Collection[str], files: Collection[str] | None) -> Path:
    """Return the place of an entry of an archive. Raises _Unusable unless it is a result of these nodes."""
    name = ascii(member.name)[:100]
    match member.name.split("/"):
        case [first] if first in {RESULT_FILE, LOG_FILE} and not member.isdir():
            pass
        case ["raw"] if member.isdir():
            pass
        case ["raw", node] if node in nodes and member.isdir():
            pass
        case ["raw", node, file] if node in nodes and _is_file(file, files) and not member.isdir():
            pass
        case _:
            raise _Unusable(f"{name} is not a result of {', '.join(sorted(nodes))}")
    if not (member.isdir() or member.isreg()) or member.issparse():
        raise _Unusable(f"{name} is not a regular file")
    return Path(member.name)


def _is_file(name: str, files: Collection[str] | None) -> bool:
    return _FILE_NAME.fullmatch(name) is not None and (files is None or name in files)


class _Bounded(io.RawIOBase):
    """A file that is read forward, in pieces that memory has room for, and up to a limit."""

    def __init__(self, source: gzip.GzipFile, most_bytes: int) -> None:
        self._source = source
        self._most_bytes = most_bytes
        self._at = 0

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MOST_AT_ONCE_BYTES:
            raise _Unusable("its metadata are too long")
        found = self._source.read(size)
        self._at += len(found)
        if self._at > self._most_bytes:
            raise _Unusable(f"more than {self._most_bytes >> 20} MB")
        return found

    def seek(self, at: int, whence: int = io.SEEK_SET) -> int:
        if whence != io.SEEK_SET or at < self._at:
            raise _Unusable("it is not in order")
        while self._at < at and self.read(min(at - self._at, _MOST_AT_ONCE_BYTES)):
            pass
        return self._at


def _report(path: Path) -> HostReport:
    if not path.is_file():
        raise _Unusable(f"{RESULT_FILE} is missing")
    if path.stat().st_size > _MOST_RESULT_BYTES:
        raise _Unusable(f"{RESULT_FILE} is larger than {_MOST_RESULT_BYTES >> 20} MB")
    try:
        return HostReport.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise _Unusable(f"{RESULT_FILE}: {first_problem(error)}") from error


def _gather_sockets(own: Path, common: Path) -> None:
    """Append samples to the trial's one file of sockets; every line names its node."""
    if own.is_file():
        with own.open("rb") as samples, common.open("ab") as out:
            shutil.copyfileobj(samples, out)
        own.unlink()


def write_start(raw: Path, reports: Mapping[str, HostReport], keeper: str, capture: str = "") -> int | None:
    """Write the start instant by the clock that dates captures: of the node `capture`, else of the keeper.

    Returns:
        The start instant by the keeper's clock; None if it has none.
    """
    nodes = {name: node for host in reports.values() for name, node in host.nodes.items()}
    found = [nodes[name].start_epoch_ns if name in nodes else None for name in (capture, keeper)]
    dated = next((start_ns for start_ns in found if start_ns is not None), None)
    if dated is not None:
        (raw / "start.json").write_text(json.dumps({"t0_ns": dated}) + "\n", encoding="utf-8")
    return found[-1]


def skew_ms(reports: Mapping[str, HostReport]) -> float:
    """Return how far apart the nodes started: the time between the least and the most late flow."""
    late_ms = [
        flow.late_ms for host in reports.values() for node in host.nodes.values() for flow in node.flows or ()
    ]
    return max(late_ms) - min(late_ms) if late_ms else 0.0
