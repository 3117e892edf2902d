# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Queues under test: their samples, how much each holds, and which only dropped although they can mark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from l4sbench.catalog import Bottleneck
from l4sbench.text.parameters import OWN
from l4sbench.text.units import Duration, Packets, Rate, Size, parse_quantity
from reports.result.labels import BUFFER

if TYPE_CHECKING:
    from l4sbench.catalog import Catalog
    from reports.result.labels import Setting
    from reports.result.load import RunTables

_DROPS: Final = "sq-drop"
"""Family of the queues that never mark."""

_NOT_UNDER_TEST: Final = ("htb", "netem", "noqueue", "mq", "pfifo_fast", "ingress", "clsact")
"""Kinds of queues that are sampled beside the one under test."""

_PLACE: Final = ("node", "network", "handle")
"""Columns that identify a queue of a trial."""

SAMPLED: Final = (*_PLACE, "kind", "t_ms", "backlog_bytes")
"""Columns of table `queues` that `fullest` needs, and the time of each sample."""


def fullest(samples: pl.DataFrame, trial: Sequence[str]) -> pl.DataFrame:
    """Return the samples of the queue under test that was fullest in its trial: there may be several.

    `trial` are the columns that identify a trial.
    """
    place = [*trial, *_PLACE]
    under_test = samples.filter(~pl.col("kind").is_in(_NOT_UNDER_TEST))
    most = under_test.group_by(place).agg(pl.col("backlog_bytes").max()).sort("backlog_bytes", *_PLACE)
    own = most.unique(trial, keep="last", maintain_order=True).select(place)
    return under_test.join(own, on=place, how="semi", maintain_order="left")


def rate_changes(events: pl.DataFrame) -> pl.DataFrame:
    """Return the events that change the link's rate, in order of time, with the rate from then on."""
    own = events.filter(pl.col("factor") == "rate", pl.col("value").is_not_null()).sort("t_ms")
    mbps = [parse_quantity("rate", value).mbps for value in own["value"]]
    return own.with_columns(pl.Series("changed_mbps", mbps, pl.Float64))


@dataclass(frozen=True)
class OnlyDropped:
    """Number of packets that a queue dropped in all valid trials of a cell, while it marked none."""

    packets: int
    trials: int


def limit(factors: Mapping[str, Setting], catalog: Catalog) -> Packets | Size | None:
    """Return how much the queue of a cell with these factors holds; None if the catalog does not know it."""
    queue = catalog.queues.get(str(factors["aqm"].value))
    if queue is None or not {"rate_mbps", "rtt_ms", BUFFER} <= set(factors):
        return None
    rate, rtt = Rate.of_mbps(factors["rate_mbps"].amount), Duration.of_ms(factors["rtt_ms"].amount)
    at = Bottleneck(rate, rtt, factors[BUFFER].amount)
    name = f"aqm.{queue.buffer}"
    if name in factors:  # a word
        return queue.limit({queue.buffer: OWN}, at)
    if (packets := factors.get(f"{name}_packets")) is not None:
        return Packets(int(packets.amount))
    if (size := factors.get(f"{name}_bytes")) is not None:
        return Size(int(size.amount))
    return queue.limit({}, at)


def only_dropped(tables: RunTables, cells: Iterable[str]) -> dict[str, OnlyDropped]:
    """Return those of the cells whose queue can mark, whose flows use ECN, and whose queue only dropped.

    Samples of queues are many, so they are read for cells alone in which no flow got a mark.
    """
    marking = tables.catalog.filter(pl.col("kind") == "queue", pl.col("family") != _DROPS)["name"]
    trials = tables.valid.filter(
        pl.col("cell").is_in(list(cells)), pl.col("aqm").is_in(marking.implode())
    ).select("cell", "trial")
    flows = tables.flows.join(trials, on=["cell", "trial"], how="semi").filter(pl.col("ecn") != "off")
    marks = flows.group_by("cell").agg(pl.col("delivered_ce_packets").eq(0).all(ignore_nulls=False))
    unmarked = marks.filter(pl.col("delivered_ce_packets"))["cell"].to_list()
    if not unmarked:
        return {}
    ended = (
        tables.scan("queues")
        .filter(pl.col("cell").is_in(unmarked), pl.col("marks_packets").is_not_null())
        .join(trials.lazy(), on=["cell", "trial"], how="semi")
        .group_by("cell", "trial", "node", "network", "handle")
        .agg(pl.col("drops_packets", "marks_packets").sort_by("t_ms").last())
        .group_by("cell")
        .agg(pl.col("drops_packets", "marks_packets").sum(), pl.col("trial").n_unique().alias("trials"))
        .filter(pl.col("drops_packets") > 0, pl.col("marks_packets") == 0)
        .collect()
    )
    found = ended.select("cell", "drops_packets", "trials").iter_rows()
    return {cell: OnlyDropped(packets, trials) for cell, packets, trials in found}
