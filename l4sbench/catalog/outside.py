# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What a run takes from outside of l4sbench: queues and congestion controls of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench import assets

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog, CongestionControl, Queue

CATALOG: Final = "catalog"
"""Folder of a run directory with copies of the catalog entries that are not l4sbench's own."""


def _outside(catalog: Catalog) -> list[Queue | CongestionControl]:
    """The entries of a catalog that are not l4sbench's own."""
    entries: list[Queue | CongestionControl] = [
        *catalog.queues.values(),
        *catalog.congestion_controls.values(),
    ]
    return [entry for entry in entries if not entry.folder.is_relative_to(assets.root())]


def modules_outside(catalog: Catalog) -> Mapping[str, Path]:
    """Folders with the C source of kernel modules from outside, by the modules' names."""
    modules = (entry.module for entry in _outside(catalog))
    return {module.name: module.source for module in modules if module and module.source}


def keep_catalog(run: Path, catalog: Catalog) -> None:
    """Copy the catalog entries from outside into the run directory, which then runs anywhere."""
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
