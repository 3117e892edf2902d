# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The slices that a run needs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from l4sbench.errors import InputError
from l4sbench.testbeds.fabric.kernels import require_kernel
from l4sbench.testbeds.ssh.switches import Switch, unsuitable
from l4sbench.topology import find_topology

if TYPE_CHECKING:
    from fablib_slices import SliceSpec
    from l4sbench.matrix import Matrix

_FILES: Final = frozenset({".yaml", ".yml"})


def specs_of(name: str, matrix: Matrix, slices: int) -> tuple[SliceSpec, ...]:
    """Return the slices that a run needs: as a file describes them, as they were made before, or by default.

    Raises:
        InputError: the file is wrong, the matrix's cells need several topologies, or the slice has a switch
            that cannot run them.
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
    if one.topology != shapes[0]:
        raise InputError(f"slice {one.name} is made for {one.topology}, and this matrix has {shapes[0]}")
    _require_usable(one, matrix, slices)
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


def addresses_of(spec: SliceSpec) -> dict[str, dict[str, str]]:
    """Return the hardware addresses of a slice's switches by network, for each node that is one."""
    return {switch.name: {one.network: one.mac for one in switch.ports} for switch in spec.switches}


def _require_usable(spec: SliceSpec, matrix: Matrix, slices: int) -> None:
    """Raise InputError unless the slice's kernel exists, and its switches can run the matrix's cells."""
    require_kernel(spec)
    if spec.switches and slices > 1:
        message = f"slice {spec.name} has a switch, whose ports are those of one slice"
        raise InputError(message, "leave out --slices")
    nodes = [Switch(node=switch.name, ports={}) for switch in spec.switches]
    if problems := unsuitable(matrix.cells, matrix.catalog, nodes, ""):
        raise InputError(problems)
