# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Reasons for which trials of a cell run or not: their numbers, and the folders of those that have ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from l4sbench.store import TrialFolder

if TYPE_CHECKING:
    from l4sbench.facts.cell import Cell
    from l4sbench.matrix import Trials
    from l4sbench.planning.inputs import TrialInputs

SECOND_LOOK: Final = 5
"""Adaptive cells are judged after the minimum number of trials, after this many, and after the maximum."""

MOST_TRIES: Final = 3
"""A trial that failed so often with the same inputs is not tried again, unless a user asks for it."""


class Reason(StrEnum):
    """The reason for which a trial runs or, for `ended` and `failed 3 times`, does not."""

    NEW = "new"
    ENDED = "ended"
    FAILED_BEFORE = "failed before"
    GIVEN_UP = f"failed {MOST_TRIES} times"
    INVALID_BEFORE = "invalid before"
    INPUTS_CHANGED = "inputs changed"
    NO_CAPTURES = "ended without captures"

    @property
    def runs(self) -> bool:
        """True if a run starts trials with this reason."""
        return self in _RUNS

    __hash__ = str.__hash__  # that of enumerations is slow, and a plan counts reasons by the million


_RUNS: Final = frozenset(Reason) - {Reason.ENDED, Reason.GIVEN_UP}


class PlannedTrial(NamedTuple):
    """One trial of a cell; it runs unless it has ended."""

    trial: int
    reason: Reason

    @property
    def runs(self) -> bool:
        """True if a run would start it."""
        return self.reason.runs


def looks(trials: Trials) -> tuple[int, ...]:
    """Return the numbers of trials after which an adaptive cell is judged; one number when trials are fixed.

    Few looks reduce the risk of stopping on a lucky streak.
    """
    if trials.until is None:
        return (trials.max,)
    return tuple(sorted({trials.min, min(max(SECOND_LOOK, trials.min), trials.max), trials.max}))


def reason_of(ended: Sequence[TrialFolder], trial: int, digest: str, *others: str) -> Reason:
    """Return why a trial runs or not, given the folders of its cell's ended trials.

    `others` are digests of results that serve as well, see `TrialInputs.accepted`.
    """
    if not ended:
        return Reason.NEW
    own = [folder for folder in ended if folder.trial == trial]
    if any(not folder.kind and folder.inputs in (digest, *others) for folder in own):
        return Reason.ENDED
    kinds = [folder.kind for folder in own if folder.inputs == digest]
    if "invalid" in kinds:
        return Reason.INVALID_BEFORE
    if "older" in kinds:
        return Reason.INPUTS_CHANGED
    if tries := kinds.count("failed"):
        return Reason.FAILED_BEFORE if tries < MOST_TRIES else Reason.GIVEN_UP
    return Reason.INPUTS_CHANGED if own else Reason.NEW


def trials_of(
    cell: Cell, numbers: range, inputs: TrialInputs | None, ended: Sequence[TrialFolder]
) -> tuple[PlannedTrial, ...]:
    """Return the trials of a cell with these numbers, and those beyond that ended with other inputs.

    Tables have all trials of a cell: if the latter did not run again, means would mix both inputs.
    """
    if not ended:
        return _new(tuple(numbers))
    if inputs is None:
        return tuple(PlannedTrial(number, _unknown(ended, number)) for number in numbers)
    beyond = sorted({folder.trial for folder in ended if folder.trial not in numbers})
    known = (*numbers, *beyond)
    each = zip(known, inputs.accepted(cell, known), inputs.without_capture(cell, known), strict=True)
    found = []
    for number, digests, bare in each:
        reason = reason_of(ended, number, *digests)
        if reason is Reason.INPUTS_CHANGED and TrialFolder(number, bare) in ended:
            reason = Reason.NO_CAPTURES
        if number in numbers or reason is Reason.INPUTS_CHANGED:
            found.append(PlannedTrial(number, reason))
    return tuple(found)


@lru_cache(maxsize=4096)
def number_to_run(trials: tuple[PlannedTrial, ...]) -> int:
    """Return how many of these trials would run; cells share them, so that the number is known."""
    return sum([trial.reason in _RUNS for trial in trials])


@cache
def _new(numbers: tuple[int, ...]) -> tuple[PlannedTrial, ...]:
    """Return these trials as new ones; cells share them, as a large plan has mostly new ones."""
    return tuple(PlannedTrial(number, Reason.NEW) for number in numbers)


def _unknown(ended: Sequence[TrialFolder], trial: int) -> Reason:
    own = [folder for folder in ended if folder.trial == trial]
    kinds = {folder.kind for folder in own}
    if "" in kinds:
        return Reason.ENDED
    if "invalid" in kinds:
        return Reason.INVALID_BEFORE
    tries = Counter(folder.inputs for folder in own)
    if not tries:
        return Reason.NEW
    return Reason.FAILED_BEFORE if max(tries.values()) < MOST_TRIES else Reason.GIVEN_UP
