# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A row of a sheet with a candidate put in: its cells, and those that it is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reports.published.claims.model import Scalar
    from reports.published.standards.model import NegativeControl, Requirement


class RowOutcome(StrEnum):
    """The verdict of a row, a claim or a cell."""

    PASS = "pass"  # noqa: S105  (no password)
    FAIL = "fail"
    UNDECIDED = "undecided"
    NOT_APPLICABLE = "not applicable"
    NOT_POSSIBLE = "not possible here"


@dataclass(frozen=True)
class Place:
    """A cell of a row.

    Attributes:
        cell: Its id.
        values: Column of table `trials` -> its value, of the factors in which the row's cells differ.
        label: The same in words.
    """

    cell: str
    values: Mapping[str, Scalar]
    label: str


@dataclass(frozen=True)
class Case:
    """A row with a candidate.

    Attributes:
        row: The row.
        candidate: The candidate as the command line has it.
        places: Its cells.
        others: Candidate that claims compare with -> its cells.
        hindrance: Why there are no cells, with the outcome that this is; None where there are.
        control: The negative control that the candidate is; None for others.
    """

    row: Requirement
    candidate: str
    places: tuple[Place, ...] = ()
    others: Mapping[str, tuple[Place, ...]] = field(default_factory=lambda: MappingProxyType({}))
    hindrance: tuple[RowOutcome, str] | None = None
    control: NegativeControl | None = None

    @property
    def cells(self) -> frozenset[str]:
        """The ids of all cells that its verdict needs."""
        return frozenset(place.cell for places in (self.places, *self.others.values()) for place in places)
