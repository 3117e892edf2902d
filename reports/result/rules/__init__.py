# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Verdict rules as data: one YAML file each, named and versioned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from l4sbench.disk.document import Flaw, load_model
from l4sbench.errors import InputError, suggest
from l4sbench.text.models import Strict
from l4sbench.text.wording import quoted

FOLDER: Final = Path(__file__).parent

Percent = Annotated[float, Field(ge=0, le=100)]

_NOT_RUN: Final = "(of the link's rate where that was not run)"


class Limits(Strict):
    """Limits in percent of the link's rate. A group below is starved, a group above starves the other."""

    low: Percent
    high: Percent

    @model_validator(mode="after")
    def _in_order(self) -> Limits:
        if self.low >= self.high:
            raise ValueError(f"limits from {self.low:g} to {self.high:g} leave nothing within")
        return self


class Row(Strict):
    """A row of the decision table, its name and the queues it gathers: single ones, and whole families."""

    label: str
    queues: tuple[str, ...] = ()
    families: tuple[str, ...] = ()


class Columns(Strict):
    """Columns of the decision table: one per congestion control of the classic group and way of using ECN.

    `together`: ways of using ECN that share one column; every other one has a column of its own.
    """

    together: tuple[str, ...] = ()


class Rule(Strict):
    """A rule that makes verdicts of cell means.

    Attributes:
        rule: Its name, that of its file.
        version: Grows with every change of meaning.
        about: Its meaning.
        source: Its origin.
        l4s: Flow group the question is about; `for_roles` changes it.
        classic: Flow group it competes with.
        metric: `l4s-goodput`: the L4S group's goodput in percent of the link's rate, which both limits are
            for. `own-goodput`: the L4S group's goodput measured by the lower limit and the classic group's by
            what the upper one leaves, each in percent of what the group gets alone; of the link's rate where
            the run has no such baseline.
        window: The part of a trial that counts: `measured`, after the warm-up, or `whole`.
        limits_percent: Limits of the cell mean. Outside of them somebody is starved.
        fair_share: Whether the limits are those of groups with equally many flows, and move with the fair
            share of others.
        own_kind: Whether a classic group is only starved when it is harmed more than by its own kind, where
            the run has that baseline.
        intervals: Whether confidence intervals count. `none`: cell means decide, and nothing is undecided.
            `decide`: a cell is on one side of a limit only if its whole interval is.
        low_latency_of: `mean`: smoothed RTT minus base RTT. `p99`: the 99 % quantile of queuing delay per
            packet, where packets were captured. Of either it is the cell mean that counts, with
            `intervals: decide` the upper end of its interval.
        low_latency_ms: The delay below which latency counts as low.
        rows: Rows of the table in order. Families that no row names follow as rows of their own.
        columns: Columns of the table.
    """

    rule: str
    version: int
    about: str
    source: str
    l4s: str
    classic: str
    metric: Literal["l4s-goodput", "own-goodput"]
    window: Literal["measured", "whole"]
    limits_percent: Limits
    fair_share: bool = False
    own_kind: bool = False
    intervals: Literal["none", "decide"]
    low_latency_of: Literal["mean", "p99"] = "mean"
    low_latency_ms: float
    rows: tuple[Row, ...]
    columns: Columns = Columns()

    def for_roles(self, roles: Mapping[str, str]) -> Rule:
        """Return the rule for the flow groups that have the roles `l4s` and `classic` in a matrix."""
        return self.model_copy(update={role: roles[role] for role in ("l4s", "classic") if role in roles})

    @property
    def value(self) -> str:
        """Column of table `flows` that is summed over a group."""
        return "goodput_mbps" if self.window == "measured" else "goodput_whole_mbps"

    def row_of(self, queue: str, family: str | None) -> str:
        """Return the row that a queue belongs to: the one that names it, else that of its family."""
        named = (row.label for row in self.rows if queue in row.queues)
        related = (row.label for row in self.rows if family in row.families)
        return next(named, None) or next(related, None) or family or "other queues"

    def row_order(self, label: str) -> tuple[int, str]:
        """Return a sort key: rows as the rule lists them, others behind."""
        labels = [row.label for row in self.rows]
        return (labels.index(label) if label in labels else len(labels), label)

    def limits(self, l4s_flows: int = 1, classic_flows: int = 1) -> Limits:
        """Return the limits for groups of these sizes."""
        if not self.fair_share or l4s_flows == classic_flows:
            return self.limits_percent
        share = l4s_flows / (l4s_flows + classic_flows)
        low, high = self.limits_percent.low, self.limits_percent.high
        return Limits(low=2 * share * low, high=100 - 2 * (1 - share) * (100 - high))

    def required_percent(self, l4s_flows: int = 1, classic_flows: int = 1) -> tuple[float, float]:
        """Return the part of its fair share that each group must keep, in percent and at most all of it."""
        limits, share = self.limits(l4s_flows, classic_flows), l4s_flows / (l4s_flows + classic_flows)
        return min(100.0, limits.low / share), min(100.0, (100 - limits.high) / (1 - share))

    def limits_of_rate(self, l4s_flows: int = 1, classic_flows: int = 1) -> Limits | None:
        """Return the limits in percent of the link's rate; None where goodput alone is the measure."""
        return self.limits(l4s_flows, classic_flows) if self.metric == "l4s-goodput" else None

    @property
    def limits_text(self) -> str:
        """The limits in words."""
        value = "goodput" if self.window == "measured" else "goodput, warm-up included,"
        low, high = self.limits_percent.low, self.limits_percent.high
        if self.fair_share:
            return self._fair_share_text(value)
        if self.metric == "l4s-goodput":
            return f"{value} of group {self.l4s} within {low:g}-{high:g} % of the link's rate in every cell"
        return (
            f"{value} of group {self.l4s} at least {low:g} % and of group {self.classic} at least "
            f"{100 - high:g} % of what it gets alone {_NOT_RUN} in every cell"
        )

    def _fair_share_text(self, value: str) -> str:
        """Write limits that move with the fair share, which is half with equally many flows."""
        own, other = 2 * self.limits_percent.low, 2 * (100 - self.limits_percent.high)
        if self.metric == "l4s-goodput":
            return (
                f"{value} of group {self.l4s} at least {own:g} % of its fair share of the link's rate, and "
                f"what it leaves at least {other:g} % of that of group {self.classic}, in every cell"
            )
        keeps = f"each group keeps at least {own:g} %"
        if own != other:
            keeps = f"group {self.l4s} keeps at least {own:g} % and group {self.classic} at least {other:g} %"
        return f"{keeps} of its fair share of the {value} that it gets alone {_NOT_RUN} in every cell"


def offered() -> tuple[str, ...]:
    """Return the names of all rules."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yml")))


@cache
def load_rule(name: str) -> Rule:
    """Return a rule by its name.

    Raises:
        InputError: there is none of that name, or its file is not a valid rule.
    """
    if name not in offered():
        hint = suggest(name, offered())
        raise InputError(f"{name} is not a verdict rule", hint)
    return read_rule(FOLDER / f"{name}.yml")


def read_rule(path: Path) -> Rule:
    """Read a rule from its file, whose name is that of the rule.

    Raises:
        InputError: it is not a valid rule; with the line and column of every problem.
    """

    def misnamed(rule: Rule) -> Iterator[Flaw]:
        if rule.rule != path.stem:
            yield Flaw(("rule",), f"expected {path.stem}, the name of the file, not {quoted(rule.rule)}")

    return load_model(path, Rule, check=misnamed)
