# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The README of a bundle: what its run claims, and how to check and repeat it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from l4sbench.errors import InputError

if TYPE_CHECKING:
    from l4sbench.app.stored import StoredRun
    from reports.result.verdicts import Decision


def readme_of(run: Path, name: str) -> str:
    """Return the README of a run's bundle; equal runs have equal ones.

    Args:
        run: The run directory.
        name: Matrix and time of the run, `quickstart/20260102T030405Z`.
    """
    from l4sbench.app.stored import StoredRun
    from l4sbench.store.bundle import README_MARK
    from l4sbench.store.crate import FILES, FOLDERS, NO_LICENCE, README
    from reports.render.bundled import About, readme

    stored = StoredRun(run)
    decision, without = _decision(stored)
    parts = {
        path: about
        for path, about in {**FILES, **FOLDERS}.items()
        if path != README and (run / path).exists()
    }
    parts |= {"tables/": "The tables, as Parquet"} if (run / "tables").is_dir() else {}
    try:
        matrix = stored.matrix
        description, licence = matrix.description, matrix.licence
    except InputError:
        description, licence = "", ""
    return readme(
        About(
            mark=README_MARK,
            run=name,
            description=" ".join(description.split()),
            parts=parts,
            versions=_versions(stored),
            licence=licence,
            no_licence=NO_LICENCE,
            without=without,
        ),
        decision,
    )


def _decision(stored: StoredRun) -> tuple[Decision | None, str]:
    """Return the run's decision table, or None with the reason why it has none."""
    from l4sbench.app.reading import reading
    from l4sbench.app.rules import find_rule

    try:
        with reading(stored.path):
            rule = find_rule(stored.matrix)
            if rule is None:
                return None, "Its matrix has no rule for verdicts: the run measures, and claims nothing."
            return stored.decide(rule=rule), ""
    except InputError as error:
        return None, f"It has no decision table: {error.problems[0].message}."


def _versions(stored: StoredRun) -> tuple[str, ...]:
    """Return what made the run, one line each; what is damaged is left out."""
    from l4sbench.app.reading import reading
    from l4sbench.store import Run

    lines = []
    with suppress(InputError, AttributeError):
        manifest = Run(stored.path).manifest
        git = manifest.provenance.get("git")
        lines.append(f"l4sbench {manifest.l4sbench}{f', {git}' if git else ''}")
    try:
        with reading(stored.path):
            tables = stored.tables()
            for what, column in (("kernels", "kernels"), ("modules", "modules"), ("testbeds", "testbed")):
                if found := tables.listed(column, tables.trials):
                    lines.append(f"{what}: {', '.join(found)}")
    except InputError:
        lines.append("kernels: see the trial.json of every trial")
    return tuple(lines)
