# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The slices that a run needs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.errors import InputError
from l4sbench.topology import find_topology

if TYPE_CHECKING:
    from fablib_slices import SliceSpec
    from l4sbench.matrix import Matrix

_FILES: Final = frozenset({".yaml", ".yml"})


def specs_of(name: str, matrix: Matrix, slices: int) -> tuple[SliceSpec, ...]:
    """Return the slices that a run needs: as a file describes them, as they were made before, or by default.

    Raises:
        InputError: the file is wrong, the slice has a switch, or the matrix's cells need several topologies.
    """
    from fablib_slices import load_slice_file, slice_file, spec_of
    from fablib_slices.records import kept_spec

    shapes = sorted({cell.topology for cell in matrix.cells})
    if len(shapes) > 1:
        raise InputError(
            f"a slice is made for one topology, and this matrix has {', '.join(shapes)}",
            f"run one topology at a time: topology={shapes[0]}",
        )
    path = Path(name)
    if path.suffix in _FILES:
        wishes = load_slice_file(path)
        one = spec_of(find_topology(wishes.topology), wishes)
    else:
        one = kept_spec(name) or spec_of(matrix.catalog.topology(shapes[0]), slice_file(name))
    if one.switches:
        raise InputError(
            f"slice {one.name} has a switch for {one.switches[0].name}, and trials need a machine there",
            "l4sbench docs tofino: how to load its program and run trials by hand",
        )
    if one.topology != shapes[0]:
        raise InputError(f"slice {one.name} is made for {one.topology}, and this matrix has {shapes[0]}")
    if slices == 1:
        return (one,)
    named = [replace(one, name=f"{one.name}-{number}") for number in range(1, slices + 1)]
    specs = tuple(named if path.suffix in _FILES else (kept_spec(spec.name) or spec for spec in named))
    other = next((spec for spec in specs if spec.digest != specs[0].digest), None)
    if other:
        raise InputError(
            f"slices {specs[0].name} and {other.name} were made from different descriptions",
            f"l4sbench slice down {other.name}, then slice up {other.name} as {specs[0].name} was made",
        )
    return specs
