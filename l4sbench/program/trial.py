# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Trials: as a testbed receives them, and as the store keeps them.

All randomness of a trial comes from its seed, through `draw_unit`: SHA-256 over text, so that a seed means
the same on every Python version and machine. The seed depends on the matrix's seed and the trial's number and
not on the cell, so that cells are compared under common random numbers: trial 3 of every cell starts its
flows at the same offsets.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from l4sbench.facts.events import Status
from l4sbench.facts.faults import texts
from l4sbench.program.data import Conditions, Program
from l4sbench.text.units import Duration

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from l4sbench.facts.cell import Cell
    from l4sbench.facts.faults import Fault
    from l4sbench.facts.traits import TestbedTraits
    from l4sbench.topology import Topology

DEFAULT_WALL_LIMIT_S: Final = 600.0


@dataclass(frozen=True)
class TrialSpec:
    """One trial as a testbed receives it.

    `trial` counts from 1. `seed` seeds everything random, including the kernel's random numbers.
    `wall_limit_s` is the wall-clock time after which the testbed ends the trial with `TrialFailed`.
    """

    cell: Cell
    trial: int
    seed: int
    programs: Mapping[str, Program]
    topology: Topology
    inputs_digest: str
    wall_limit_s: float = DEFAULT_WALL_LIMIT_S

    @property
    def name(self) -> str:
        """The trial's name in messages: cell id and number."""
        return f"{self.cell.id}/{self.trial}"


@dataclass(frozen=True)
class Judgement:
    """`ok` if the apparatus did what the cell asks for, or `invalid` with every fault."""

    status: Status
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        if self.status is Status.FAILED:
            raise ValueError("a judgement is ok or invalid; only a testbed reports failed")
        if (self.status is Status.INVALID) != bool(self.faults):
            raise ValueError("an invalid trial has faults, and an ok one has none")

    @property
    def reasons(self) -> tuple[str, ...]:
        """The faults in words."""
        return texts(self.faults)


@dataclass(frozen=True)
class EndedTrial:
    """One ended trial in the store; `raw` is the folder of its raw files.

    `wall_s` is wall-clock time and never goes into a table. `virtual_s` and `skew_ms` are as in `Outcome`; 0
    for a trial that failed before they were known.
    """

    cell: Cell
    trial: int
    seed: int
    status: Status
    faults: tuple[Fault, ...]
    raw: Path
    programs: Mapping[str, Program]
    inputs_digest: str = ""
    testbed: str = ""
    kernel_release: str = ""
    wall_s: float = 0.0
    virtual_s: float = 0.0
    skew_ms: float = 0.0

    @property
    def reasons(self) -> tuple[str, ...]:
        """The faults in words: why it is invalid or failed."""
        return texts(self.faults)


def seed_of(matrix_seed: int, trial: int) -> int:
    """Return the 64-bit seed of trial `trial` (from 1) of every cell: the first 8 bytes of a SHA-256."""
    return _hash64("l4sbench trial seed", matrix_seed, trial)


def draw_unit(seed: int, *names: str | int) -> float:
    """Draw a number uniformly from [0, 1) for the purpose that `names` state; the same on every machine.

    The number has 53 random bits, the precision of a float.
    """
    return (_hash64("l4sbench draw", seed, *names) >> 11) / float(1 << 53)


def draw_seed(seed: int, *names: str | int) -> int:
    """Derive a 64-bit seed for the purpose that `names` state, independent of every other draw."""
    return _hash64("l4sbench seed", seed, *names)


def draw_conditions(cell: Cell, seed: int, traits: TestbedTraits, *, capture: bool = False) -> Conditions:
    """Draw the conditions of one trial: start offsets, noise, and the traffic tool.

    Every flow `<group>-<index>` starts uniformly within `start_within` after its nominal start; those of a
    group with `every` all start equally late, so that the time between them is exact. A testbed with wires
    gets a seed for their noise and pauses.
    """
    offsets = {
        f"{group.name}-{index}": Duration(int(draw_unit(seed, "start", drawn) * group.start_within.ns))
        for group in cell.groups
        for index in range(group.count)
        for drawn in [f"{group.name}-{0 if group.every else index}"]
    }
    return Conditions(
        traffic=traffic_of(cell, traits),
        wire_seed=draw_seed(seed, "noise") if traits.wires else None,
        pause_seed=draw_seed(seed, "pauses"),
        start_offsets=offsets,
        capture=capture,
        workload_seed=draw_seed(seed, "workload"),
        switches=traits.switches,
    )


def traffic_of(cell: Cell, traits: TestbedTraits) -> str:
    """Return the traffic tool of a cell; for `traffic.tool: auto`, the testbed's default."""
    return tool_of(cell.traffic_tool, traits)


def tool_of(asked: str, traits: TestbedTraits) -> str:
    """Return the traffic tool for a value of `traffic.tool`."""
    return traits.default_traffic if asked == "auto" else asked


def _hash64(*parts: str | int) -> int:
    text = "\0".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
