# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Catalog entries that are not part of l4sbench: the code that they bring, and their copies in runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from l4sbench import assets
from l4sbench.catalog.entries import Queue
from l4sbench.errors import InputError, Problem
from l4sbench.files import new_folder, sync_folder
from l4sbench.trust import is_code, read_code, trust, trusted_copy

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog, CatalogEntry

CATALOG: Final = "catalog"
"""Folder of a run directory with copies of the catalog entries that are not part of l4sbench."""

_MODULE_FILE: Final = "module.yml"
_SHOWN: Final = 8
"""Files that a message names."""


@dataclass(frozen=True)
class Settled:
    """A catalog whose modules from outside are built only from what the user trusts.

    Attributes:
        catalog: The catalog; the sources of trusted modules are the copies that were kept with the consent.
        modules: Trusted modules from outside: name -> folder to build.
        untrusted: A problem for each entry with code that the user has not trusted yet.
        refused: The names of their modules.
        consented: The entries whose code is trusted from now on.
    """

    catalog: Catalog
    modules: Mapping[str, Path]
    untrusted: tuple[Problem, ...]
    refused: frozenset[str]
    consented: tuple[str, ...] = ()


def settle(catalog: Catalog, used: Iterable[CatalogEntry], *, consent: bool) -> Settled:
    """Find out which code from outside the entries in use bring, and whether the user trusts it.

    Args:
        catalog: The catalog.
        used: Those of its entries that are used; the code of others is not touched.
        consent: Trust all of it, now and later.

    Raises:
        InputError: Code is missing, has links or is too large, or what is trusted cannot be looked up.
    """
    queues, controls = dict(catalog.queues), dict(catalog.congestion_controls)
    modules: dict[str, Path] = {}
    untrusted: list[Problem] = []
    refused: set[str] = set()
    consented: list[str] = []
    for entry in used:
        if entry.module is None or entry.module.source is None or not _is_outside(entry):
            continue
        code = read_code(entry.module.source)
        if not code.sources:
            raise InputError(
                f"{entry.folder / _MODULE_FILE} says source: true, and there is no Kbuild beside it"
            )
        copy = trusted_copy(code)
        if copy is None and consent:
            copy = trust(code)
            consented.append(entry.name)
        if copy is None:
            more = f" and {len(code.sources) - _SHOWN} more" if len(code.sources) > _SHOWN else ""
            what = f"carries code that was not trusted yet: {', '.join(code.sources[:_SHOWN])}{more}"
            hint = f"look at {entry.folder}, then run with --trust (docs/security.md)"
            untrusted.append(Problem(str(entry.folder / _MODULE_FILE), entry.name, what, hint))
            refused.add(entry.module.name)
        else:
            modules[entry.module.name] = copy
            module = replace(entry.module, source=copy)
            if isinstance(entry, Queue):
                queues[entry.name] = replace(entry, module=module)
            else:
                controls[entry.name] = replace(entry, module=module)
    settled = replace(
        catalog, queues=MappingProxyType(queues), congestion_controls=MappingProxyType(controls)
    )
    return Settled(settled, MappingProxyType(modules), tuple(untrusted), frozenset(refused), tuple(consented))


def entries_with_code(files: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the kept catalog entries with code among a run's files, given by their paths."""
    found = (PurePosixPath(name).parts for name in files)
    return tuple(
        sorted({parts[1] for parts in found if len(parts) > 2 and parts[0] == CATALOG and is_code(parts[-1])})
    )


def keep_catalog(run: Path, catalog: Catalog) -> None:
    """Copy entries that are not part of l4sbench into the run directory, which then runs anywhere.

    Of a folder only `module.yml` is copied and, with `source: true`, the files that a build reads.

    Raises:
        InputError: Code has links or is too large.
    """
    import shutil

    kept = run / CATALOG
    outside = [entry for entry in catalog.entries if _is_outside(entry)]
    if all(entry.folder.resolve().is_relative_to(kept.resolve()) for entry in outside):
        return
    with new_folder(kept, replace=True) as partial:
        for entry in outside:
            folder = partial / entry.name
            source = entry.module.source if entry.module else None
            if source is not None:
                read_code(source).write(folder)
            else:
                folder.mkdir()
                shutil.copyfile(entry.folder / _MODULE_FILE, folder / _MODULE_FILE)
        sync_folder(partial)


def _is_outside(entry: CatalogEntry) -> bool:
    """Return True unless the entry is below one of the project's own folders, links and `..` resolved."""
    own = (assets.folder("kernels").resolve(), assets.folder("p4").resolve())
    return not any(map(entry.folder.resolve().is_relative_to, own))
