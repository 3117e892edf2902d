# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What switching costs or gains on average, given how common each queue and competitor is.

In one cell, the flow that switched gets its fair share of the goodput that both groups carry, or less, or
more. `cost_percent` is how much of its fair share it lacks; what it has too much is what its competitors lack
of theirs, `harm_percent`. Both are zero or more, at most one of them is above zero, and their sum over a
world of cells is the expected regret of a sender that counts others' losses as its own.

Weights are of queues and of competitors, taken as independent; the cells behind one pair of them (buffers,
rates, and whatever else a matrix varies) count alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from l4sbench.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from reports.result.verdicts import Decision

Weight = Annotated[float, Field(ge=0)]


class Prevalence(BaseModel):
    """How common queues and competitors are, in any unit.

    Attributes:
        prevalence: Its name.
        source: Where the weights come from.
        queues: Weight by the factor `aqm`; queues that are not named count nothing. Empty: all alike.
        competitors: Weight by the competitor's `cc`, or by `cc ecn` (`cubic classic`) for one of its ECN
            modes; those of one `cc` share its weight. Empty: all alike.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    prevalence: str = "uniform"
    source: str = ""
    queues: Mapping[str, Weight] = {}
    competitors: Mapping[str, Weight] = {}


UNIFORM = Prevalence()


def load_prevalence(path: Path) -> Prevalence:
    """The weights of a file.

    Raises:
        InputError: it cannot be read, or holds no weights.
    """
    hint = "such as `prevalence: mine`, `queues: {fifo: 70, fq-codel: 30}`, `competitors: {cubic: 1}`"
    try:
        return Prevalence.model_validate(YAML(typ="safe").load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    except (YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is no YAML: {error}", hint) from error
    except ValidationError as error:
        listed = (f"{'.'.join(map(str, item['loc'])) or 'file'}: {item['msg']}" for item in error.errors())
        raise InputError(f"{path} holds no weights: {'; '.join(listed)}", hint) from error


@dataclass(frozen=True)
class Regret:
    """What switching is expected to cost, by question.

    Attributes:
        l4s: What is switched to.
        prevalence: Name of the weights.
        cost_percent: Expected part of its fair share that the L4S group lacks.
        harm_percent: Expected part of their fair share that its competitors lack.
        delay_ms, classic_delay_ms: Expected delays (mean smoothed RTT minus base RTT) of the two groups, over
            the cells that have both.
        pairs: Pairs of queue and competitor that count.
        missing_percent: Weight of pairs that the run has no valid trial of; it is left out.
    """

    l4s: str
    prevalence: str
    cost_percent: float
    harm_percent: float
    delay_ms: float | None
    classic_delay_ms: float | None
    pairs: int
    missing_percent: float

    @property
    def regret_percent(self) -> float:
        """Own and others' expected loss together."""
        return self.cost_percent + self.harm_percent

    @property
    def text(self) -> str:
        """The one line that says it."""
        line = (
            f"expected regret of switching to {self.l4s}: {self.regret_percent:.0f} % of a fair share "
            f"({self.cost_percent:.0f} % its own, {self.harm_percent:.0f} % its competitors'), "
            f"prevalence {self.prevalence}, {self.pairs} pairs of queue and competitor"
        )
        if self.delay_ms is not None and self.classic_delay_ms is not None:
            line += (
                f"; delay {self.delay_ms:.1f} ms where its competitors have {self.classic_delay_ms:.1f} ms"
            )
        if self.missing_percent:
            line += f"; left out: {self.missing_percent:.0f} % of the weight, without valid trials"
        return line


def regret(decision: Decision, prevalence: Prevalence = UNIFORM) -> tuple[Regret, ...]:
    """What switching costs, for every question of a decision table.

    Raises:
        InputError: the weights name a queue or a competitor that the run does not have, or leave nothing.
    """
    rule = decision.rule
    ecn, cc = pl.col(f"{rule.classic}.ecn"), pl.col(f"{rule.classic}.cc")
    cells = decision.cells.with_columns(
        cc.alias("_cc"), pl.format("{} {}", cc, ecn).alias("_cc_ecn")
    ).with_columns(*_losses(rule.l4s, rule.classic))
    _check_names("queue", prevalence.queues, cells["aqm"].unique().to_list())
    known = {*cells["_cc"].unique().to_list(), *cells["_cc_ecn"].unique().to_list()}
    _check_names("competitor", prevalence.competitors, sorted(known))
    return tuple(
        _regret(question, cells.filter(pl.col("question") == question), prevalence)
        for question in decision.questions
    )


def _losses(l4s: str, classic: str) -> list[pl.Expr]:
    """`_own` and `_other`: lacking percent of the fair shares of what both groups carry."""
    counts = pl.col(f"{l4s}.count"), pl.col(f"{classic}.count")
    total, flows = pl.col("l4s_mbps") + pl.col("classic_mbps"), counts[0] + counts[1]
    lacking = [
        ((1 - pl.col(name) / (total * count / flows)) * 100).clip(lower_bound=0).alias(alias)
        for name, count, alias in (("l4s_mbps", counts[0], "_own"), ("classic_mbps", counts[1], "_other"))
    ]
    return [pl.when(total > 0).then(loss).alias(loss.meta.output_name()) for loss in lacking]


def _check_names(kind: str, weights: Mapping[str, float], known: list[str]) -> None:
    for name in weights:
        if name not in known:
            hint = did_you_mean(name, known) or f"it has {', '.join(sorted(known))}"
            raise InputError(f"the run has no {kind} {name} to weigh", hint)


def _regret(question: str, cells: pl.DataFrame, prevalence: Prevalence) -> Regret:
    pairs = cells.group_by("aqm", "_cc", "_cc_ecn", maintain_order=True).agg(
        *[pl.col(name).mean() for name in ("_own", "_other", "delay_ms", "classic_delay_ms")]
    )
    modes = pairs.group_by("_cc").agg(pl.col("_cc_ecn").n_unique())
    shared = dict(modes.iter_rows())
    weights = [
        _weight_of_queue(prevalence, aqm) * _weight_of_competitor(prevalence, cc, cc_ecn, shared[cc])
        for aqm, cc, cc_ecn in pairs.select("aqm", "_cc", "_cc_ecn").iter_rows()
    ]
    pairs = pairs.with_columns(pl.Series("_weight", weights, dtype=pl.Float64)).filter(pl.col("_weight") > 0)
    there = pairs.drop_nulls("_own")
    everything, valid = float(pairs["_weight"].sum()), float(there["_weight"].sum())
    if not valid:
        raise InputError(
            f"prevalence {prevalence.prevalence} weighs no queue and competitor with a valid trial",
            "give what the run has a weight above 0",
        )
    delays = there.drop_nulls(["delay_ms", "classic_delay_ms"])
    return Regret(
        l4s=question,
        prevalence=prevalence.prevalence,
        cost_percent=_weighted(there, "_own"),
        harm_percent=_weighted(there, "_other"),
        delay_ms=_weighted(delays, "delay_ms") if delays.height else None,
        classic_delay_ms=_weighted(delays, "classic_delay_ms") if delays.height else None,
        pairs=there.height,
        missing_percent=(everything - valid) / everything * 100,
    )


def _weight_of_queue(prevalence: Prevalence, aqm: str) -> float:
    return prevalence.queues.get(aqm, 0.0) if prevalence.queues else 1.0


def _weight_of_competitor(prevalence: Prevalence, cc: str, cc_ecn: str, modes: int) -> float:
    """The weight of one ECN mode of a competitor; its own where it has one, else its part of the whole's."""
    weights = prevalence.competitors
    if not weights:
        return 1.0
    return weights[cc_ecn] if cc_ecn in weights else weights.get(cc, 0.0) / modes


def _weighted(pairs: pl.DataFrame, name: str) -> float:
    return float((pairs[name] * pairs["_weight"]).sum()) / float(pairs["_weight"].sum())
