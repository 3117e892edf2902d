# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Verdicts on a flow group by its application, such as media: each rule is a YAML file of this package.

A rule applies to groups that have all of its measures. Verdicts on bulk flows compare two groups
(`reports.result.rules`); these judge a group by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field, model_validator

from l4sbench.disk.document import load_model
from l4sbench.text.models import Strict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reports.result.stats import Estimate

UNDECIDED: Final = "undecided"

_Number = Annotated[float, Field(allow_inf_nan=False)]


class GroupFault(Strict):
    """A fault that a group may have.

    Attributes:
        word: The verdict on a group that surely has it.
        measure: The number that shows it, as `ApplicationRule.verdict` takes them.
        above: It has the fault above this; or
        below: below this.
    """

    word: str
    measure: str
    above: _Number | None = None
    below: _Number | None = None

    @model_validator(mode="after")
    def _one_limit(self) -> GroupFault:
        if (self.above is None) == (self.below is None):
            raise ValueError("state either above or below")
        return self

    def is_so(self, found: Estimate) -> bool | None:
        """Return whether the whole interval has the fault, or none of it; None if it straddles the limit."""
        if found.interval is None:
            return None
        low, high = found.interval
        if self.above is not None:
            return True if low > self.above else False if high <= self.above else None
        assert self.below is not None  # noqa: S101  (as validated)
        return True if high < self.below else False if low >= self.below else None


class ApplicationRule(Strict):
    """A rule for a kind of application.

    Attributes:
        rule: Its name.
        version: Grows with every change of meaning.
        judges: The subject of its verdicts, a noun.
        about: Its meaning.
        source: Its origin.
        good: The verdict on a group that surely has none of its faults.
        faults: In the order of their words.
    """

    rule: str
    version: int
    judges: str
    about: str
    source: str
    good: str
    faults: Annotated[list[GroupFault], Field(min_length=1)]

    def verdict(self, measures: Mapping[str, Estimate | None]) -> ApplicationVerdict | None:
        """Return the verdict on a flow group with these numbers; None where one is not known."""
        found = [(fault, measures.get(fault.measure)) for fault in self.faults]
        known = [(fault, number) for fault, number in found if number is not None]
        if len(known) < len(found):
            return None
        wrong = {fault.word: fault.is_so(number) for fault, number in known}
        words = tuple(word for word, is_so in wrong.items() if is_so)
        whole = UNDECIDED if None in wrong.values() else self.good
        return ApplicationVerdict(words or (whole,), f"{self.rule} v{self.version}", self.judges)


@dataclass(frozen=True)
class ApplicationVerdict:
    """The faults that a flow group surely has; without any, the rule's good word, or that it is undecided.

    Attributes:
        words: These.
        rule: Name and version of the rule.
        judges: Its subject.
    """

    words: tuple[str, ...]
    rule: str
    judges: str

    def __str__(self) -> str:
        return ", ".join(self.words)


@cache
def application_rules() -> tuple[ApplicationRule, ...]:
    """Return all rules, by name of their files."""
    return tuple(load_model(path, ApplicationRule) for path in sorted(Path(__file__).parent.glob("*.yml")))


def judge_application(measures: Mapping[str, Estimate | None]) -> tuple[ApplicationVerdict, ...]:
    """Return the verdicts of the rules that apply to a flow group.

    Args:
        measures: The numbers that its programs reported by docs/exec.md, and those of
            `reports.result.measured`; None: not known.
    """
    verdicts = (rule.verdict(measures) for rule in application_rules())
    return tuple(verdict for verdict in verdicts if verdict is not None)
