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
from l4sbench.errors import BadValueError, L4sbenchError
from l4sbench.text.licences import licence_id, licence_page

CRATE: Final = "ro-crate-metadata.json"

README: Final = "README.md"

_CONTEXT: Final = "https://w3id.org/ro/crate/1.1/context"
_PROFILE: Final = "https://w3id.org/ro/crate/1.1"
_SOFTWARE: Final = "#l4sbench"
NO_LICENCE: Final = "The run states no licence; ask those who made it."

_Entity: TypeAlias = dict[str, Any]

FILES: Final[Mapping[str, str]] = {
    README: "What the run claims, how to check it and how to make it again",
    "manifest.json": "Facts about the run: matrix, time, order of the trials, version of l4sbench",
    "matrix.yaml": "The experiment: a matrix of l4sbench",
    "report/index.html": "The page of the run: decision table, heat maps, cells and trials",
    "report/decision.md": "The decision table as Markdown",
    "report/decision.csv": "The decision table, one line per entry",
    "report/decision.json": "The decision table with its rule, kernels and what was left out",
    "report/decision.tex": "The decision table for LaTeX",
    "report/cells.csv": "Means, intervals and factors of every cell",
    "report/metrics.csv": "Further figures of every cell",
    "report/numbers.json": "Goodput and delay of every flow group of every cell, and verdicts",
}
"""Descriptions of files by their paths; those of tables come from their schemas."""

FOLDERS: Final[Mapping[str, str]] = {
    "cells/": "A folder per cell and trial, with the raw files that the trial wrote",
    "catalog/": "Queues and congestion controls that came with the matrix",
    "executables/": "Programs that came with the matrix and sent flows",
    "senders/": "Senders that came with the matrix, as their sources",
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


def crate_of(run: Path, name: str, matrix_file: bytes, sizes_bytes: Mapping[str, int]) -> bytes:
    """Return `ro-crate-metadata.json` of a run; equal runs give equal bytes.

    Args:
        run: The run directory.
        name: Matrix and time of the run, `quickstart/20260102T030405Z`.
        matrix_file: Its `matrix.yaml`, as the bundle has it.
        sizes_bytes: Sizes of its files by their paths.
    """
    matrix, _, time = name.partition("/")
    created = datetime.strptime(time[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).isoformat()
    parts = [*_files(sizes_bytes), *_folders(sizes_bytes)]
    made = [part["@id"] for part in parts if part["@id"] not in (README, "manifest.json", "matrix.yaml")]
    stated = _stated(matrix_file)
    about = " ".join((_text(stated, "description") or _text(stated, "origin")).split())
    licence = _licence(_text(stated, "licence"))
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": f"Run of the matrix {matrix}, {time}",
        "description": about or f"A run of the matrix {matrix} by l4sbench.",
        "datePublished": created,
        "license": {"@id": licence["@id"]} if licence else NO_LICENCE,
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
    graph = [descriptor, root, *parts, action, _software(run), *([licence] if licence else [])]
    return json.dumps({"@context": _CONTEXT, "@graph": graph}, indent=1, ensure_ascii=False).encode() + b"\n"


def _refer(ids: Iterator[str]) -> list[_Entity]:
    return [{"@id": one} for one in ids]


def _files(sizes_bytes: Mapping[str, int]) -> Iterator[_Entity]:
    from l4sbench.tables import FOLDER, SCHEMAS

    tables = {f"{FOLDER}/{table}.parquet": _first_line(schema.__doc__) for table, schema in SCHEMAS.items()}
    for path, about in {**FILES, **tables}.items():
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
    for folder, about in FOLDERS.items():
        if any(path.startswith(folder) for path in sizes_bytes):
            name = PurePosixPath(folder).name
            yield {"@id": folder, "@type": "Dataset", "name": name, "description": about}


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


def _stated(matrix: bytes) -> Mapping[str, object]:
    """Return what a matrix states; nothing where it cannot be read."""
    from l4sbench.disk.document import parse

    with suppress(L4sbenchError):
        content = parse(matrix, "matrix.yaml").content
        return content if isinstance(content, dict) else {}
    return {}


def _text(stated: Mapping[str, object], key: str) -> str:
    found = stated.get(key)
    return found if isinstance(found, str) else ""


def _licence(name: str) -> _Entity | None:
    """Return the licence of the run's data; None where its matrix states none, or no valid one."""
    try:
        licence = licence_id(name)
    except BadValueError:
        return None
    return {"@id": licence_page(licence), "@type": "CreativeWork", "name": licence, "identifier": licence}


def _software(run: Path) -> _Entity:
    """Return the software that made the run, with its version where the manifest has one."""
    found: _Entity = {"@id": _SOFTWARE, "@type": "SoftwareApplication", "name": "l4sbench"}
    with suppress(OSError, ValueError, AttributeError):
        version = json.loads(read_plain(run / "manifest.json")).get("l4sbench")
        if isinstance(version, str):
            found["softwareVersion"] = version
    return found
