# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The description of a bundled run as an RO-Crate, by which archives of research data index what is in it.

RO-Crate 1.1 (https://w3id.org/ro/crate/1.1): one JSON-LD file in the run directory that names the run, its
matrix, the software that made it, and the files that others will look for. Raw files of trials are described
by their folder; `bundle.json` lists every one of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from l4sbench.disk.plain import read_plain
from l4sbench.errors import L4sbenchError

CRATE: Final = "ro-crate-metadata.json"

_CONTEXT: Final = "https://w3id.org/ro/crate/1.1/context"
_PROFILE: Final = "https://w3id.org/ro/crate/1.1"
_SOFTWARE: Final = "#l4sbench"
_NO_LICENCE: Final = "The run states no licence; ask those who made it."

_Entity: TypeAlias = dict[str, Any]

_FILES: Final[Mapping[str, str]] = {
    "manifest.json": "Facts about the run: matrix, time, order of the trials, version of l4sbench",
    "matrix.yaml": "The experiment: a matrix of l4sbench",
    "report/index.html": "The page of the run: decision table, heat maps, cells and trials",
    "report/decision.md": "The decision table as Markdown",
    "report/decision.csv": "The decision table, one line per entry",
    "report/decision.json": "The decision table with its rule, kernels and what was left out",
    "report/decision.tex": "The decision table for LaTeX",
    "report/cells.csv": "Means, intervals and factors of every cell",
    "report/metrics.csv": "Further figures of every cell",
}
"""Descriptions of files; those of tables come from their schemas."""

_FOLDERS: Final[Mapping[str, str]] = {
    "cells/": "A folder per cell and trial, with the raw files that the trial wrote",
    "catalog/": "Queues and congestion controls that came with the matrix",
    "executables/": "Programs that came with the matrix and sent flows",
    "report/data/": "Time series of the page",
    "report/figures/": "Figures of the run",
}

_FORMATS: Final[Mapping[str, str]] = {
    ".csv": "text/csv",
    ".html": "text/html",
    ".json": "application/json",
    ".md": "text/markdown",
    ".parquet": "application/vnd.apache.parquet",
    ".tex": "application/x-tex",
    ".yaml": "application/yaml",
}


def crate_of(run: Path, name: str, sizes_bytes: Mapping[str, int]) -> bytes:
    """Return `ro-crate-metadata.json` of a run; equal runs give equal bytes.

    Args:
        run: The run directory.
        name: Matrix and time of the run, `quickstart/20260102T030405Z`.
        sizes_bytes: Sizes of its files by their paths.
    """
    matrix, _, time = name.partition("/")
    created = datetime.strptime(time[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).isoformat()
    parts = [*_files(sizes_bytes), *_folders(sizes_bytes)]
    made = [part["@id"] for part in parts if part["@id"] not in ("manifest.json", "matrix.yaml")]
    about = _description(run / "matrix.yaml")
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": f"Run of the matrix {matrix}, {time}",
        "description": about or f"A run of the matrix {matrix} by l4sbench.",
        "datePublished": created,
        "license": _NO_LICENCE,
        "hasPart": _refer(part["@id"] for part in parts),
        "mentions": {"@id": "#run"},
    }
    action = {
        "@id": "#run",
        "@type": "CreateAction",
        "name": f"l4sbench run {matrix}",
        "startTime": created,
        "instrument": {"@id": _SOFTWARE},
        "object": _refer(part["@id"] for part in parts if part["@id"] == "matrix.yaml"),
        "result": _refer(iter(made)),
    }
    descriptor = {
        "@id": CRATE,
        "@type": "CreativeWork",
        "conformsTo": {"@id": _PROFILE},
        "about": {"@id": "./"},
    }
    graph = [descriptor, root, *parts, action, _software(run)]
    return json.dumps({"@context": _CONTEXT, "@graph": graph}, indent=1, ensure_ascii=False).encode() + b"\n"


def _refer(ids: Iterator[str]) -> list[_Entity]:
    return [{"@id": one} for one in ids]


def _files(sizes_bytes: Mapping[str, int]) -> Iterator[_Entity]:
    from l4sbench.tables import FOLDER, SCHEMAS

    tables = {f"{FOLDER}/{table}.parquet": _first_line(schema.__doc__) for table, schema in SCHEMAS.items()}
    for path, about in {**_FILES, **tables}.items():
        if path in sizes_bytes:
            yield {
                "@id": quote(path),
                "@type": "File",
                "name": PurePosixPath(path).name,
                "description": about,
                "encodingFormat": _FORMATS[PurePosixPath(path).suffix],
                "contentSize": str(sizes_bytes[path]),
            }


def _folders(sizes_bytes: Mapping[str, int]) -> Iterator[_Entity]:
    for folder, about in _FOLDERS.items():
        if any(path.startswith(folder) for path in sizes_bytes):
            name = PurePosixPath(folder).name
            yield {"@id": folder, "@type": "Dataset", "name": name, "description": about}


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


def _description(matrix: Path) -> str:
    """Return the description that a matrix states, or its origin; empty without, or if it cannot be read."""
    from l4sbench.disk.document import read

    with suppress(L4sbenchError, OSError):
        content = read(matrix).content
        found = content.get("description", content.get("origin")) if isinstance(content, dict) else None
        return " ".join(found.split()) if isinstance(found, str) else ""
    return ""


def _software(run: Path) -> _Entity:
    """Return the software that made the run, with its version where the manifest has one."""
    found: _Entity = {"@id": _SOFTWARE, "@type": "SoftwareApplication", "name": "l4sbench"}
    with suppress(OSError, ValueError, AttributeError):
        version = json.loads(read_plain(run / "manifest.json")).get("l4sbench")
        if isinstance(version, str):
            found["softwareVersion"] = version
    return found
