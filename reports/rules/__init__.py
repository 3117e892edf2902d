# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Verdict rules as data: one YAML file each, named and versioned."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from l4sbench.errors import InputError, did_you_mean

FOLDER: Final = Path(__file__).parent
DEFAULT: Final = "pam25"

Percent = Annotated[float, Field(ge=0, le=100)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Limits(_Strict):
    """Percent of the link's rate. What is outside of them is starved, or starves the other."""

    low: Percent
    high: Percent


class Row(_Strict):
    """A row of the decision table: the families of queues it gathers, and its name."""

    families: tuple[str, ...]
    label: str


class Rule(_Strict):
    """How verdicts are made of cell means.

    Attributes:
        rule: Its name, that of its file.
        version: Grows with every change of meaning.
        about: What it says.
        source: Where it comes from.
        l4s: Flow group the question is about.
        classic: Flow group it competes with.
        value: Column of table `flows` that is summed over the group and compared with the limits.
        limits_percent: Limits of that value's cell mean, in percent of the link's rate.
        low_latency_ms: Cell mean of the delay below which latency counts as low.
        intervals: Whether confidence intervals count; `none`: cell means alone decide.
        rows: Rows of the table in order. Families that no row names follow as rows of their own.
    """

    rule: str
    version: int
    about: str
    source: str
    l4s: str
    classic: str
    value: Literal["goodput_mbps", "goodput_whole_mbps"] = "goodput_mbps"
    limits_percent: Limits
    low_latency_ms: float
    intervals: Literal["none"] = "none"
    rows: tuple[Row, ...]

    def row_of(self, family: str | None) -> str:
        """The row that queues of a family belong to."""
        return next((row.label for row in self.rows if family in row.families), family or "other queues")

    def row_order(self, label: str) -> tuple[int, str]:
        """Sorts rows as the rule lists them, others behind."""
        labels = [row.label for row in self.rows]
        return (labels.index(label) if label in labels else len(labels), label)

    @property
    def limits_text(self) -> str:
        """The limits in words."""
        value = "goodput" if self.value == "goodput_mbps" else "goodput, warm-up included,"
        low, high = self.limits_percent.low, self.limits_percent.high
        return f"{value} of group {self.l4s} within {low:g}-{high:g} % of the link's rate in every cell"


def offered() -> tuple[str, ...]:
    """Names of all rules."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yml")))


@cache
def load_rule(name: str = DEFAULT) -> Rule:
    """A rule by its name.

    Raises:
        InputError: there is none of that name, or its file is no rule.
    """
    if name not in offered():
        hint = did_you_mean(name, offered()) or f"rules are {', '.join(offered())}"
        raise InputError(f"there is no verdict rule {name}", hint)
    path = FOLDER / f"{name}.yml"
    try:
        rule = Rule.model_validate(YAML(typ="safe").load(path.read_text(encoding="utf-8")))
    except (YAMLError, ValidationError) as error:
        raise InputError(f"{path.name} is no verdict rule: {error}") from error
    if rule.rule != name:
        raise InputError(f"{path.name} calls itself {rule.rule}")
    return rule
