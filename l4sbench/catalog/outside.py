# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Catalog entries that are not part of l4sbench, and their copies in run directories."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench import assets

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog, CatalogEntry

CATALOG: Final = "catalog"
"""Folder of a run directory with copies of the catalog entries that are not part of l4sbench."""


def _outside(catalog: Catalog) -> list[CatalogEntry]:
    own = (assets.folder("kernels"), assets.folder("p4"))
    return [entry for entry in catalog.entries if not any(map(entry.folder.is_relative_to, own))]


def modules_outside(catalog: Catalog) -> Mapping[str, Path]:
    """Return the source folders of kernel modules that are not part of l4sbench, by module name."""
    modules = (entry.module for entry in _outside(catalog))
    return {module.name: module.source for module in modules if module and module.source}


def keep_catalog(run: Path, catalog: Catalog) -> None:
    """Copy entries that are not part of l4sbench into the run directory, which then runs anywhere."""
    import shutil

    outside = _outside(catalog)
    kept = run / CATALOG
    outside = [entry for entry in outside if not entry.folder.resolve().is_relative_to(kept.resolve())]
    if not outside:
        return
    partial = run / f"{CATALOG}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    for entry in outside:
        shutil.copytree(entry.folder, partial / entry.name)
    shutil.rmtree(kept, ignore_errors=True)
    partial.rename(kept)
