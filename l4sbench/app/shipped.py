# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Matrices, rules, workloads, sheets and keys that ship with l4sbench, in words.

They are kept in the user's cache until a file changes. Without a cache they take seconds: every matrix is
expanded to count its cells.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from l4sbench.disk import assets
from l4sbench.disk.memo import Memo
from l4sbench.errors import InputError
from l4sbench.planning.estimating import TrialWork

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog

_YEAR: Final = re.compile(r"[a-z]+[0-9]{2}")
_CODE: Final = (
    "app",
    "catalog",
    "disk",
    "facts",
    "matrix",
    "planning",
    "program",
    "text",
    "topology",
    "traffic",
)
"""Packages that decide what is kept."""

_NAMED: Final = ("rules", "workloads", "keys")
"""Parts of `Shipped` beside its matrices and sheets, in its order."""


@dataclass(frozen=True)
class ShippedMatrix:
    """A matrix in words.

    Attributes:
        name: its name.
        about: the question it asks.
        quick: True if it has a quick variant.
        cells: number of its cells; None if the file is not valid.
        study: study after which it is; empty for questions of l4sbench's own.
        work: its trials up to the first look, one for each kind of cell.
    """

    name: str
    about: str
    quick: bool
    study: str
    cells: int | None = None
    work: tuple[TrialWork, ...] = ()

    @property
    def file(self) -> Path:
        """Its file."""
        return assets.folder("matrices") / f"{self.name}.yaml"

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Self:
        """Return it again from plain data."""
        return cls(**{**plain, "work": tuple(TrialWork(**one) for one in plain["work"])})


@dataclass(frozen=True)
class ShippedSheet:
    """A sheet of requirements in words.

    Attributes:
        name: its name.
        document: the document that requires.
        about: a sentence about the sheet.
        measured: number of its rows that have cells.
        rows: of each row its id with its level, and the requirement.
    """

    name: str
    document: str
    about: str
    measured: int
    rows: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Self:
        """Return it again from plain data."""
        return cls(**{**plain, "rows": tuple((str(one), str(text)) for one, text in plain["rows"])})


@dataclass(frozen=True)
class Named:
    """A rule, workload or key in words: its name, meaning, and pairs of heading and text."""

    name: str
    about: str
    facts: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Self:
        """Return it again from plain data."""
        return cls(
            plain["name"], plain["about"], tuple((str(one), str(text)) for one, text in plain["facts"])
        )


@dataclass(frozen=True)
class Shipped:
    """Everything that is described here, by name; keys in the order of the grammar."""

    matrices: tuple[ShippedMatrix, ...]
    sheets: tuple[ShippedSheet, ...]
    rules: tuple[Named, ...]
    workloads: tuple[Named, ...]
    keys: tuple[Named, ...]

    @classmethod
    def load(cls) -> Self:
        """Return it from the cache if no file has changed, else from the files.

        Raises:
            InputError: a file is not valid YAML, or a rule, workload or sheet is not valid.
        """
        package, reports = Path(__file__).parents[1], _reports_folder()
        rules, standards = reports / "result" / "rules", reports / "published" / "standards"
        data = (
            *sorted(assets.folder("matrices").rglob("*.y*ml")),
            *sorted(assets.folder("kernels").glob("*/module.yml")),
            *assets.workloads().values(),
            *sorted(rules.glob("*.yml")),
            *sorted(standards.glob("*.yml")),
        )
        code = (*(package / name for name in _CODE), rules, standards)
        return cls._of(Memo.of("shipped", code=code, data=data))

    @classmethod
    @lru_cache(maxsize=1)
    def _of(cls, memo: Memo) -> Self:
        plain = memo.load()
        with suppress(LookupError, TypeError, ValueError, AttributeError):
            return cls(
                tuple(ShippedMatrix.of(one) for one in plain["matrices"]),
                tuple(ShippedSheet.of(one) for one in plain["sheets"]),
                *(tuple(Named.of(one) for one in plain[name]) for name in _NAMED),
            )
        named = (tuple(part) for part in (_rules(), _workloads(), _keys()))
        found = cls(tuple(_matrices()), tuple(_sheets()), *named)
        memo.save(asdict(found))
        return found


def _reports_folder() -> Path:
    """Return the folder of the package `reports` without importing its code, which is slow."""
    found = find_spec("reports")
    assert found is not None and found.origin is not None  # noqa: PT018, S101  (it ships with l4sbench)
    return Path(found.origin).parent


def _matrices() -> Iterator[ShippedMatrix]:
    from l4sbench.catalog import Catalog
    from l4sbench.disk.document import read

    catalog = Catalog.load()
    files = sorted(assets.folder("matrices").glob("*.yaml"))
    alike = Counter(file.stem.partition("-")[0] for file in files)
    for file in files:
        content = read(file).content
        stated = content if isinstance(content, dict) else {}
        about = " ".join(str(stated.get("description") or "no description").split())
        first = file.stem.partition("-")[0]
        study = first if _YEAR.fullmatch(first) or alike[first] > 1 else ""
        try:
            size = _size(file, catalog)
        except InputError:
            size = {}
        yield ShippedMatrix(file.stem, about, "quick" in stated, study, **size)


def _size(file: Path, catalog: Catalog) -> dict[str, Any]:
    from l4sbench.matrix import Matrix
    from l4sbench.planning.estimating import carried_mbps, kind_of
    from l4sbench.planning.trials import looks

    matrix = Matrix.load(file, catalog)
    each = looks(matrix.trials)[0]
    work: dict[str, TrialWork] = {}
    for cell in matrix.cells:
        kind, lasts_s = kind_of(cell), each * cell.length.ns / 1e9
        work[kind] = work.get(kind, TrialWork(kind)).and_more(each, lasts_s, lasts_s * carried_mbps(cell))
    return {"cells": len(matrix.asked), "work": tuple(work.values())}


def _rules() -> Iterator[Named]:
    from reports.result.rules import FOLDER, load_rule

    for rule in (load_rule(file.stem) for file in sorted(FOLDER.glob("*.yml"))):
        facts = (
            ("in a matrix", f"rule: {rule.rule}"),
            ("limits", f"{rule.limits_percent.low:g} to {rule.limits_percent.high:g} %"),
            ("version", str(rule.version)),
            ("source", rule.source.strip()),
        )
        yield Named(rule.rule, rule.about.strip(), facts)


def _workloads() -> Iterator[Named]:
    from l4sbench.disk.workloads import read_workload

    for name, file in assets.workloads().items():
        found = read_workload(file)
        used = ("in a matrix", f"<group>.send: workload and <group>.workload: {name}")
        yield Named(name, found.about.strip(), (used, ("source", found.source.strip())))


def _sheets() -> Iterator[ShippedSheet]:
    from reports.published.standards.model import load_sheet, offered

    for name in offered():
        found = load_sheet(name)
        rows = tuple((f"{row.id}, {row.level.value}", row.requires.strip()) for row in found.rows)
        yield ShippedSheet(name, found.document, found.about.strip(), len(found.measured), rows)


def _keys() -> Iterator[Named]:
    from l4sbench.matrix import json_schema
    from l4sbench.matrix.naming import SETTINGS

    schema = json_schema()
    for key in SETTINGS:
        shape = schema["properties"][key]
        part = next((one["$ref"] for one in shape.get("anyOf", ()) if "$ref" in one), "").rpartition("/")[2]
        about = shape.get("description") or schema["$defs"].get(part, {}).get("description", "")
        yield Named(key, about, (("more", "l4sbench docs matrix"),))
