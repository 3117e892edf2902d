# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Names of the folders of ended trials."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, Self, TypeAlias, cast

TryKind: TypeAlias = Literal["", "failed", "again", "invalid", "older"]

_NAME: Final = re.compile(r"([1-9][0-9]*)-([0-9a-f]+)(?:\.(again|failed)-([1-9][0-9]*))?")


@dataclass(frozen=True, slots=True)
class TrialFolder:
    """Name of the folder of an ended trial: `3-9f2c`, `3-9f2c.failed-1`, `3-9f2c.again-2`.

    Attributes:
        trial: number of the trial in its cell.
        inputs: digest of its inputs.
        kind: empty for the first result, `failed` for a try without one, `again` for a result after an
            invalid or older one. Only a plan has, and no folder, `invalid` for an invalid result that runs
            again, and `older` for one that is older than a result with other inputs.
        number: number of the try among those of its kind, from 1; 0 for the kinds without one.
    """

    trial: int
    inputs: str
    kind: TryKind = ""
    number: int = 0

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Return what a name says; None if no folder of an ended trial has it."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        trial, inputs, kind, number = found.groups()
        return cls(int(trial), inputs, cast("TryKind", kind or ""), int(number or 0))

    def __str__(self) -> str:
        kind = f".{self.kind}" if self.kind else ""
        return f"{self.trial}-{self.inputs}{kind}{f'-{self.number}' if self.number else ''}"

    @property
    def first(self) -> TrialFolder:
        """The name of the first result with the same inputs."""
        return TrialFolder(self.trial, self.inputs)

    @property
    def rank(self) -> tuple[bool, int]:
        """Order of the folders of one trial with the same inputs: failed tries, then results as they came."""
        return self.kind != "failed", self.number
