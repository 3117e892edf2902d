# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Factors with their values, and labels made of them: values that print as text and are never parsed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from l4sbench.facts.factors import FactorColumn
    from l4sbench.text.units import Plain

BUFFER: Final = "buffer_bdp"


@dataclass(frozen=True)
class Setting:
    """A factor with its value.

    Attributes:
        of: The factor as a column of table `trials`.
        value: Its value in the unit of that column.
        label: The catalog's label for the value, for a queue or a congestion control; else empty.
        under: A prefix of the factor's name that is not printed, such as `l4s.`.
    """

    of: FactorColumn
    value: Plain
    label: str = ""
    under: str = ""

    @property
    def column(self) -> str:
        """The name of the column, its unit included: `rtt_ms`, `aqm.target_ms`."""
        return self.of.name

    @property
    def unit(self) -> str:
        """The unit of the value: `ms`, `Mbit/s`; empty for a word or a bare number."""
        return self.of.unit

    @property
    def name(self) -> str:
        """The factor without the prefix `under`: `rtt`, `target`."""
        return self.of.factor.removeprefix(self.under)

    @property
    def amount(self) -> float:
        """The value as a number, to sort by; 0 for a word."""
        return self.value if isinstance(self.value, int | float) else 0.0

    @property
    def called(self) -> str:
        """The value as tables print it: the catalog's label where there is one, else the value itself."""
        match self.value:
            case bool():
                return "on" if self.value else "off"
            case float():
                return f"{self.value:g}"
            case _:
                return self.label or str(self.value)

    @property
    def text(self) -> str:
        """The setting in words: `2 BDP`, `rtt 10 ms`, `ECN off`."""
        if self.column == BUFFER:
            return f"{self.called} BDP"
        name = "ECN" if self.name == "ecn" else self.name
        return " ".join(word for word in (name, self.called, self.unit) if word)

    def __str__(self) -> str:
        return self.text

    def below(self, prefix: str) -> Setting:
        """Return the setting, to be printed without this prefix of its name."""
        return replace(self, under=prefix)


@dataclass(frozen=True)
class Label:
    """A name for cells: what they are, and the settings that distinguish them from others of that name."""

    head: str
    settings: tuple[Setting, ...] = ()

    @property
    def text(self) -> str:
        """The label in words: `CoDel (+ECN), 2 BDP`."""
        return ", ".join([self.head, *(setting.text for setting in self.settings)])

    @property
    def order(self) -> tuple[object, ...]:
        """A key to sort labels by: words as words, and numbers as numbers."""
        return (self.head, tuple((own.column, own.amount, own.called) for own in self.settings))

    def __str__(self) -> str:
        return self.text

    def without(self, *columns: str) -> Label:
        """Return the label without the settings of these columns."""
        return Label(self.head, tuple(own for own in self.settings if own.column not in columns))
