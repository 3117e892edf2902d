# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The matrix: a YAML file that declares an experiment; read it, check it, expand it into cells.

    matrix = load(Path("matrices/quickstart.yaml"))
    for cell in matrix.select(["aqm=codel,fq*", "rate=0.1gbit"]).cells:
        ...

`reading` reads files, `naming` resolves names, `shapes` applies the catalog, `expand` crosses the axes;
`grammar` holds the pydantic models and the JSON Schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from l4sbench.matrix.model import LEAST_TRIALS, MOST_TRIALS, Axis, Matrix, Trials

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def load(path: Path, *, catalog_dirs: Sequence[Path] = ()) -> Matrix:
    """Read and expand a matrix file; `catalog_dirs` add queues and congestion controls.

    Raises:
        InputError: all problems, each with its position.
    """
    return Matrix.load(path, catalog_dirs=catalog_dirs)


def json_schema() -> dict[str, Any]:
    """Return the grammar of matrix files as JSON Schema for editors, as in `matrices/matrix.schema.json`."""
    from l4sbench.matrix import grammar

    return grammar.json_schema()


__all__ = ["LEAST_TRIALS", "MOST_TRIALS", "Axis", "Matrix", "Trials", "json_schema", "load"]
