# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A trial: what is asked of a testbed, and what stands in the store afterwards.

All randomness of a trial comes from its seed, through `draw_unit`: SHA-256 over text, so that a seed means
the same on every Python version and machine. The seed depends on the matrix's seed and the trial's number and
not on the cell, so that cells are compared under common random numbers: trial 3 of every cell starts its
flows at the same offsets.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from l4sbench.events import Status
from l4sbench.program.data import Conditions, Program
from l4sbench.units import Duration

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from l4sbench.cell import Cell
    from l4sbench.topology import Topology
    from l4sbench.traits import TestbedTraits

START_SPREAD_NS: Final = 1_000_000_000
"""Flows start up to this long after their nominal start, nanoseconds; averages phase effects over trials."""

DEFAULT_WALL_LIMIT_S: Final = 600.0


@dataclass(frozen=True)
class TrialSpec:
    """One trial as a testbed gets it.

    `trial` counts from 1. `seed` feeds everything random, the kernel's own random numbers included.
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
    """Whether the apparatus did what the cell says: `ok`, or `invalid` with every reason."""

    status: Status
    reasons: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.status is Status.FAILED:
            raise ValueError("a judge says ok or invalid; failed is said by the testbed")
        if (self.status is Status.INVALID) != bool(self.reasons):
            raise ValueError("an invalid trial has reasons, and an ok one has none")


@dataclass(frozen=True)
class EndedTrial:
    """One ended trial as it stands in the store; `raw` is the folder of its raw files.

    `wall_s` is wall-clock time and never goes into a table. `virtual_s` and `skew_ms` are as in `Outcome`; 0
    for a trial that failed before it could tell.
    """

    cell: Cell
    trial: int
    seed: int
    status: Status
    reasons: tuple[str, ...]
    raw: Path
    programs: Mapping[str, Program]
    inputs_digest: str = ""
    testbed: str = ""
    kernel_release: str = ""
    wall_s: float = 0.0
    virtual_s: float = 0.0
    skew_ms: float = 0.0


def seed_of(matrix_seed: int, trial: int) -> int:
    """The 64-bit seed of trial `trial` (from 1) of every cell of a matrix: the first 8 bytes of a SHA-256."""
    return _hash64("l4sbench trial seed", matrix_seed, trial)


def draw_unit(seed: int, *names: str | int) -> float:
    """A number drawn uniformly from [0, 1) for the purpose that `names` spell; the same on every machine.

    It has 53 random bits, as many as a float holds exactly.
    """
    return (_hash64("l4sbench draw", seed, *names) >> 11) / float(1 << 53)


def draw_seed(seed: int, *names: str | int) -> int:
    """A 64-bit seed for the purpose that `names` spell, independent of every other draw from `seed`."""
    return _hash64("l4sbench seed", seed, *names)


def draw_conditions(cell: Cell, seed: int, traits: TestbedTraits) -> Conditions:
    """What is left to chance or to the testbed in one trial: start offsets, noise, and the traffic tool.

    Every flow `<group>-<index>` starts uniformly 0 to 1 s after its nominal start. Testbeds without noise of
    their own get a noise seed when the cell asks for noise.
    """
    offsets = {
        flow: Duration(int(draw_unit(seed, "start", flow) * START_SPREAD_NS))
        for group in cell.groups
        for flow in (f"{group.name}-{index}" for index in range(group.count))
    }
    return Conditions(
        traffic=traffic_of(cell, traits),
        noise_seed=draw_seed(seed, "noise") if traits.noise else None,
        start_offsets=offsets,
    )


def traffic_of(cell: Cell, traits: TestbedTraits) -> str:
    """The traffic tool of a cell: what it asks for, or with `traffic.tool: auto` the testbed's default."""
    asked = cell.traffic_tool
    return traits.default_traffic if asked == "auto" else asked


def _hash64(*parts: str | int) -> int:
    text = "\0".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
