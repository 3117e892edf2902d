# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Links from the page to what is beside it and exists: documents, figures, tables and raw files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.disk.plain import is_plain, is_real_folder

if TYPE_CHECKING:
    from reports.result.load import RunTables

_BESIDE: Final = (
    ("figures/index.html", "figures"),
    ("cells.csv", "cells.csv"),
    ("metrics.csv", "metrics.csv"),
    ("measured.csv", "measured.csv"),
    ("decision.csv", "decision.csv"),
    ("decision.md", "decision.md"),
    ("decision.tex", "decision.tex"),
    ("decision.json", "decision.json"),
    ("measured.json", "measured.json"),
)
_RAW: Final = "cells"


@dataclass(frozen=True)
class FileLink:
    """A file or folder beside the page: its address from there, and its name."""

    href: str
    name: str


@dataclass(frozen=True)
class Beside:
    """Files and folders beside a page.

    Attributes:
        files: Links to documents, tables and folders.
        raw: Address of the folder with the raw files of cells; empty where they are not there.
        without_raw: Trials, as `CELL/FOLDER`, whose folder is missing in it.
    """

    files: tuple[FileLink, ...] = ()
    raw: str = ""
    without_raw: tuple[str, ...] = ()


def beside(tables: RunTables, report: Path) -> Beside:
    """Return what is beside the page of a run in its report's folder.

    A report that was written elsewhere has documents, but no links to the run. No link of a file system is
    followed.
    """
    files = [FileLink(href, name) for href, name in _BESIDE if is_plain(report / href)]
    run = tables.folder.parent
    if report.resolve().parent != run.resolve():
        return Beside(tuple(files))
    if is_plain(run / "matrix.yaml"):
        files.append(FileLink("../matrix.yaml", "matrix"))
    files.append(FileLink(f"../{tables.folder.name}/", "tables (Parquet)"))
    if not is_real_folder(run / _RAW):
        return Beside(tuple(files))
    files.append(FileLink(f"../{_RAW}/", "raw files"))
    places = (f"{cell}/{folder}" for cell, folder in tables.trials.select("cell", "folder").iter_rows())
    gone = tuple(place for place in places if not is_real_folder(run / _RAW / place))
    return Beside(tuple(files), f"../{_RAW}", gone)
