# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The matrix: a YAML file that declares an experiment, read, checked and expanded into cells.

    matrix = load(Path("matrices/quickstart.yaml"))
    for cell in matrix.select(["aqm=codel,fq*", "rate=0.1gbit"]).cells:
        ...

`reading` knows files, `naming` what a name may mean, `shapes` the catalog, `expand` the order of things;
`grammar` has the pydantic models and the JSON Schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from l4sbench.matrix.model import Axis, Matrix, Trials

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def load(path: Path, *, catalog_dirs: Sequence[Path] = ()) -> Matrix:
    """Reads and expands a matrix file; `catalog_dirs` add queues and congestion controls.

    Raises:
        InputError: every problem at once, each with its place.
    """
    return Matrix.load(path, catalog_dirs=catalog_dirs)


def json_schema() -> dict[str, Any]:
    """The grammar of matrix files as JSON Schema, for editors; kept in `matrices/matrix.schema.json`."""
    from l4sbench.matrix import grammar

    return grammar.json_schema()


__all__ = ["Axis", "Matrix", "Trials", "json_schema", "load"]
