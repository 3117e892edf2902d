# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Files of a page: the page itself, and beside it the series that it loads when they are looked at.

    report/index.html                 the page; whole without anything else
    report/data/<digest>/<cell>.js    time series of a cell
    report/data/vega-<version>.js     what draws them

The series' folder is named by what it is made from and appears whole before the page that names it:
whenever this is interrupted, the page and what it loads belong together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Final

from platformdirs import user_cache_path

from l4sbench.disk.files import new_folder, remove_tree, sync_folder, write_whole
from l4sbench.disk.plain import is_plain, is_real_folder
from l4sbench.errors import InputError
from l4sbench.store.files import room
from reports.figures.save import renderer

PAGE: Final = "index.html"
DATA: Final = "data"
SNIPPET: Final = "window.vegaEmbed = vegaEmbed;"

_OWN: Final = re.compile(r"[0-9a-f]{12}|vega-[0-9a-z.-]+\.js")
"""Names of what older pages loaded. Nothing else in their folder is ours."""

_FILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=,-]{0,240}")


def write_series(report: Path, digest: str, scripts: Iterable[tuple[str, str]]) -> str:
    """Write scripts, unless those of that digest exist already; return their folder below `report`.

    Raises:
        InputError: a script's name, which is a cell's id, is not a valid file name.
        DiskFull: no room is left.
    """
    folder = report / DATA / digest
    if not is_real_folder(folder):
        with room(report):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with new_folder(folder) as made:
                for name, script in scripts:
                    if not _FILE_NAME.fullmatch(name):
                        raise InputError(f"the tables have a cell {name!r}, which is not a valid cell id")
                    (made / f"{name}.js").write_bytes(script.encode())
                sync_folder(made)
    return f"{DATA}/{digest}"


def write_drawing(report: Path) -> str:
    """Put Vega, Vega-Lite and Vega-Embed beside the page; return their file's name below `report`.

    Raises:
        InputError: the address space is too small for making the file.
        DiskFull: no room is left.
    """
    import vl_convert  # versions alone need no renderer, so that a kept file serves any address space

    versions = "-".join(
        (vl_convert.get_vega_version(), vl_convert.get_vega_embed_version(), version("vl-convert-python"))
    )
    name = f"{DATA}/vega-{versions}.js"
    if not is_plain(report / name):
        # the bundle declares names of one letter; a function keeps them out of the page
        script = f"(function () {{\n{_bundle(versions)}\n}})();\n"
        with room(report):
            (report / DATA).mkdir(parents=True, exist_ok=True)
            write_whole(report / name, script)
    return name


def _bundle(versions: str) -> str:
    """Return the libraries as one script that sets `vegaEmbed`; making it takes a second, so it is kept."""
    snippet = sha256(SNIPPET.encode()).hexdigest()[:12]
    kept = user_cache_path("l4sbench", appauthor=False) / "page" / f"vega-{versions}-{snippet}.js"
    with suppress(OSError, UnicodeDecodeError):
        return kept.read_bytes().decode()
    bundle = str(renderer().javascript_bundle(SNIPPET))
    with suppress(OSError, InputError):  # without a cache it takes a second the next time, too
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, bundle)
    return bundle


def write_page(report: Path, page: str, keep: Iterable[str]) -> Path:
    """Write the page, from which moment the series it names count, and remove those of older pages.

    Raises DiskFull.
    """
    path = report / PAGE
    with room(report):
        report.mkdir(parents=True, exist_ok=True)
        write_whole(path, page)
    kept = {report / name for name in keep}
    for old in (report / DATA).iterdir() if is_real_folder(report / DATA) else ():
        if old not in kept and _OWN.fullmatch(old.name):
            remove_tree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
    return path
