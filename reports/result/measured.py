# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A run without verdicts: what every flow group of every cell got, and what its own programs reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import polars as pl

from l4sbench.errors import InputError
from l4sbench.facts.factors import name_of
from l4sbench.tables import empty
from reports.result.applications import ApplicationVerdict, judge_application
from reports.result.basis import Basis, trials_left_out
from reports.result.cells import base_rtt_ms, captured, factors_of, groups_of
from reports.result.connections import RPM_WITHOUT_DELAY, responsiveness, slowdowns
from reports.result.labels import BUFFER, Label
from reports.result.stats import Estimate, estimate

if TYPE_CHECKING:
    from reports.result.cells import Factors
    from reports.result.load import RunTables


FRAME_MEDIAN: Final = "receiver frames.delay_ms.p50"
FRAME_DELAY: Final = "receiver frames.delay_ms.p95"
FREEZES: Final = "receiver frames.freezes"
"""Names of numbers in `MeasuredGroup.own` that media report by docs/exec.md."""


@dataclass(frozen=True)
class MeasuredGroup:
    """The result of one flow group of a cell. Estimates are None where no valid trial has them.

    Attributes:
        name: Name of the group.
        flows: Number of its flows.
        goodput: Sum of its flows' goodputs, Mbit/s.
        share: The same in percent of the link's rate.
        delay: Mean over its flows of the smoothed RTT minus base RTT, ms; only TCP has one.
        sojourn: Mean over its flows of the queuing delay per packet, ms, where packets were captured.
        sojourn_p99: Mean over its flows of that delay's 99 % quantile, ms.
        own: Numbers that its own programs reported, by side and name: `sender rtt_ms.smoothed`. Each is a
            mean over flows, and over the items of a list.
        frame_rate: Whole frames per second, of media, mean over its flows.
        slowdown: Completion time of its connections or pages by that with the flow's equal share of the link
            and no queue, median.
        rpm: Round trips per minute of its requests.
        verdicts: Those on its application, such as its frames.
    """

    name: str
    flows: int
    goodput: Estimate | None
    share: Estimate | None
    delay: Estimate | None
    sojourn: Estimate | None
    sojourn_p99: Estimate | None
    own: Mapping[str, Estimate]
    frame_rate: Estimate | None = None
    slowdown: Estimate | None = None
    rpm: Estimate | None = None
    verdicts: tuple[ApplicationVerdict, ...] = ()

    @property
    def numbers(self) -> Mapping[str, Estimate]:
        """Everything that is known of the group, by names with their unit; its programs' numbers last."""
        known = {
            "goodput_mbps": self.goodput,
            "share_percent": self.share,
            "delay_ms": self.delay,
            "sojourn_ms": self.sojourn,
            "sojourn_p99_ms": self.sojourn_p99,
            "frame_rate_hz": self.frame_rate,
            "slowdown": self.slowdown,
            "rpm": self.rpm,
        }
        return {name: found for name, found in known.items() if found is not None} | dict(self.own)


@dataclass(frozen=True)
class MeasuredCell:
    """A cell with its flow groups.

    Attributes:
        id: Id of the cell.
        label: Queue, and whatever else distinguishes the cell from others of the run.
        valid: Number of its valid trials.
        left_out: Number of invalid and failed trials.
        groups: Its flow groups, in the order of the run's.
    """

    id: str
    label: Label
    valid: int
    left_out: int
    groups: tuple[MeasuredGroup, ...]


@dataclass(frozen=True)
class Measurements(Basis):
    """The contents of a report without verdicts.

    Attributes:
        groups: Its flow groups, those with the roles of rules first.
        cells: Its cells, in the order of tables.
    """

    groups: tuple[str, ...]
    cells: tuple[MeasuredCell, ...]

    def __repr__(self) -> str:
        return f"<Measurements of {len(self.cells)} cells, {', '.join(self.groups)}>"

    @property
    def trials(self) -> int:
        """Number of valid trials."""
        return sum(cell.valid for cell in self.cells)

    @property
    def trials_per_cell(self) -> Mapping[int, int]:
        """Numbers of cells by their number of valid trials."""
        return dict(sorted(Counter(cell.valid for cell in self.cells).items()))

    @property
    def pair(self) -> tuple[str, str]:
        """Its first two groups, for figures that compare two; empty where it has fewer."""
        first, second = (*self.groups, "", "")[:2]
        return first, second


def measure(tables: RunTables, first: Sequence[str] = ("l4s", "classic")) -> Measurements:
    """Return what the cells of a run got, for which no rule is needed.

    Args:
        tables: The run.
        first: Names of flow groups that come first, where there are such.
    """
    factors = factors_of(tables)
    groups = list(dict.fromkeys(group for own in factors.values() for group in groups_of(own)))
    groups.sort(key=lambda group: first.index(group) if group in first else len(first))
    labels = _labels(factors)
    counts = tables.counts()
    got, own, derived = _got(tables), _own(tables), _derived(tables)
    cells = [
        MeasuredCell(
            cell,
            labels[cell],
            *counts[cell],
            tuple(
                _group(
                    group,
                    about,
                    got.get((cell, group), {}),
                    own.get((cell, group), {}),
                    derived.get((cell, group), {}),
                )
                for group in groups
                if group in groups_of(about)
            ),
        )
        for cell, about in factors.items()
    ]
    common = next(iter(factors.values()), {})
    return Measurements(
        groups=tuple(groups),
        cells=tuple(sorted(cells, key=lambda cell: (cell.label.order, cell.id))),
        kernels=tuple(tables.listed("kernels", tables.trials)),
        modules=tuple(tables.listed("modules", tables.trials)),
        testbeds=tuple(tables.listed("testbed", tables.trials)),
        left_out=trials_left_out(tables.trials),
        flagged=tables.listed("flags", tables.valid),
        fixed={
            name: setting
            for name, setting in common.items()
            if all(about.get(name) == setting for about in factors.values())
        },
    )


def own_numbers(tables: RunTables) -> Mapping[tuple[str, str], Mapping[str, Estimate]]:
    """Return the numbers of `MeasuredGroup.own` by cell and flow group, of the groups that have any."""
    return {
        key: {name: estimate(values) for name, values in found.items()} for key, found in _own(tables).items()
    }


def labels_of(tables: RunTables) -> dict[str, Label]:
    """Return queue and settings of every cell of a run, as far as they distinguish it from others."""
    return _labels(factors_of(tables))


def _labels(factors: Mapping[str, Factors]) -> dict[str, Label]:
    """Return queue and settings of every cell; what all cells with its queue share is left out."""
    of_queue: dict[str, list[Factors]] = {}
    for about in factors.values():
        of_queue.setdefault(_queue(about), []).append(about)
    varying = {queue: _varying(own) for queue, own in of_queue.items()}
    return {
        cell: Label(
            _queue(about) or cell,
            tuple(
                replace(about[name], value=text) if text else about[name]
                for name, texts in varying[_queue(about)].items()
                if name in about
                for text in [texts.get(about[name].called, "")]
            ),
        )
        for cell, about in factors.items()
    }


def _queue(about: Factors) -> str:
    return about["aqm"].called if "aqm" in about else ""


def _varying(cells: Sequence[Factors]) -> dict[str, Mapping[str, str]]:
    """Return the columns that distinguish cells, with texts for long values by these; buffers come first.

    A command is told by those of its words that not all have.
    """
    found = _distinguishing(cells)
    found.sort(key=lambda name: (name != BUFFER, name))
    return {
        name: _told_apart({about[name].called for about in cells if name in about})
        if name_of(name).key.startswith("exec_")
        else {}
        for name in found
    }


def _distinguishing(cells: Sequence[Factors]) -> list[str]:
    """Return the columns in which cells differ.

    A column that only some cells have, all with one value, is left out where others say which cells have it:
    the parameters of a congestion control, for one, beside its name.
    """
    columns = dict.fromkeys(name for about in cells for name in about)
    values = {
        name: tuple(about[name].value if name in about else None for about in cells) for name in columns
    }
    several = {name: own for name, own in values.items() if len(set(own) - {None}) > 1}
    known = list(zip(*several.values(), strict=True)) if several else [()] * len(cells)
    partly = [name for name, own in values.items() if name not in several and len(set(own)) > 1]
    for name in sorted(partly, key=lambda name: (name_of(name).key not in {"cc", "send"}, name)):
        more = list(zip(known, values[name], strict=True))
        if len(set(more)) > len(set(known)):
            several[name], known = values[name], more
    return [name for name in columns if name in several]


def _told_apart(commands: Iterable[str]) -> Mapping[str, str]:
    words = {command: command.split() for command in commands}
    common = frozenset.intersection(*map(frozenset, words.values()))
    return {command: " ".join(w for w in own if w not in common) for command, own in words.items()}


_GOT: Final = ("goodput_mbps", "delay_ms", "sojourn_ms", "sojourn_p99_ms")


def _got(tables: RunTables) -> dict[tuple[str, str], dict[str, list[float]]]:
    """Return one value per valid trial of what each group of a cell got, as `_GOT` names them."""
    sojourn = captured(tables).group_by("cell", "trial", "group", maintain_order=True)
    delays = sojourn.agg(
        pl.col("sojourn_mean_ms").mean().alias("sojourn_ms"), pl.col("sojourn_p99_ms").mean()
    )
    groups = tables.groups.rename({"srtt_minus_base_ms": "delay_ms"})
    wide = groups.join(delays, on=["cell", "trial", "group"], how="left", maintain_order="left")
    found = wide.group_by("cell", "group", maintain_order=True).agg(pl.col(_GOT).drop_nulls())
    return {
        (row["cell"], row["group"]): {name: row[name] for name in _GOT if row[name]}
        for row in found.iter_rows(named=True)
    }


def _derived(tables: RunTables) -> dict[tuple[str, str], dict[str, list[float]]]:
    """Return one value per valid trial of what only some kinds of traffic have, by cell and group."""
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for name, measure in (("frame_rate", _frame_rates), ("slowdown", slowdowns), ("rpm", responsiveness)):
        of_trials = measure(tables).group_by("cell", "group", maintain_order=True)
        for cell, group, values in of_trials.agg(pl.col(name).drop_nulls()).iter_rows():
            if values:
                found.setdefault((cell, group), {})[name] = values
    return found


def _frame_rates(tables: RunTables) -> pl.DataFrame:
    """Return `frame_rate`, of whole frames, of every valid trial and group that reports them."""
    whole = _reported(tables).filter((pl.col("side") == "receiver") & (pl.col("key") == "frames.whole"))
    keys = ["cell", "trial", "flow"]
    lasted = whole.join(tables.flows.select(*keys, "seconds").filter(pl.col("seconds") > 0), on=keys)
    return lasted.group_by("cell", "group", "trial", maintain_order=True).agg(
        (pl.col("value") / pl.col("seconds")).mean().alias("frame_rate")
    )


def _reported(tables: RunTables) -> pl.DataFrame:
    """Return the rows of table `exec` whose flows count."""
    try:
        found = tables.exec
    except InputError:  # older tables
        return empty("exec")
    return found.join(tables.flows_left_out, on=["cell", "trial", "flow"], how="anti", maintain_order="left")


def _own(tables: RunTables) -> dict[tuple[str, str], dict[str, list[float]]]:
    """Return one value per valid trial of the numbers that programs reported, by cell and group."""
    keys = ["cell", "group", "side", "key"]
    per_trial = _reported(tables).group_by(*keys, "trial", maintain_order=True).agg(pl.col("value").mean())
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    rows = (
        per_trial.group_by(keys, maintain_order=True)
        .agg("value")
        .sort("side", "key", descending=[True, False])
    )
    for cell, group, side, key, values in rows.iter_rows():
        found.setdefault((cell, group), {})[f"{side} {key}"] = values
    return found


def _group(
    name: str,
    about: Factors,
    got: Mapping[str, list[float]],
    own: Mapping[str, list[float]],
    derived: Mapping[str, list[float]],
) -> MeasuredGroup:
    rate_mbps = about["rate_mbps"].amount
    mbps = got.get("goodput_mbps")
    goodput = estimate(mbps, "Mbit/s", least=0.0, most=rate_mbps) if mbps else None
    delay, sojourn, p99 = (
        estimate(values, "ms", least=0.0) if (values := got.get(column)) else None for column in _GOT[1:]
    )
    flows = int(about[f"{name}.count"].amount)
    share = goodput and goodput.percent_of(rate_mbps)
    reported = {name: estimate(values) for name, values in own.items()}
    fair_percent = 100 * flows / sum(about[f"{group}.count"].amount for group in groups_of(about))
    further = {name: estimate(values) for name, values in derived.items()}
    rpm = further.get("rpm")
    measures = {
        **reported,
        "share_of_fair_percent": share and share.percent_of(fair_percent),
        "slowdown": further.get("slowdown"),
        "rpm_percent": rpm and rpm.percent_of(RPM_WITHOUT_DELAY / base_rtt_ms(about, name)),
    }
    return MeasuredGroup(
        name=name,
        flows=flows,
        goodput=goodput,
        share=share,
        delay=delay,
        sojourn=sojourn,
        sojourn_p99=p99,
        own=reported,
        **further,
        verdicts=judge_application(measures),
    )
