# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Pages about several runs, each one file, with links to the runs' own pages where there are such."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from l4sbench.app.reading import refuse_page, writing
from l4sbench.disk.files import write_whole

if TYPE_CHECKING:
    from reports.compare import Comparison, Side


def write_comparison(comparison: Comparison, file: Path) -> Path:
    """Write the page of a comparison; return the file.

    Raises:
        InputError: the file is somebody else's, or cannot be written.
    """
    from reports.page import Links, comparison_page

    links = Links(_page_of(comparison.base, file), _page_of(comparison.new, file))
    return write_sheet(file, comparison_page(comparison, links))


def write_sheet(file: Path, page: str) -> Path:
    """Write a page, whole or not at all; return its file. Raises InputError as `write_comparison` does."""
    refuse_page(file)
    with writing(file.parent, "name another file"):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, page)
    return file


def _page_of(side: Side, file: Path) -> str:
    return address(side.folder.parent / "report" / "index.html", file)


def address(page: Path, file: Path) -> str:
    """Return the address of a page in links of a file; empty if there is no such page."""
    if not page.is_file():
        return ""
    # `Path.resolve` fails where links lead in a circle, which writing the file reports
    return quote(os.path.relpath(os.path.realpath(page), os.path.realpath(file.parent)))
