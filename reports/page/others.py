# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Cells that have no place in the decision table, baselines above all: what the page calls them, means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from reports.result.cells import totals
from reports.result.labels import setting

if TYPE_CHECKING:
    from reports.result.load import RunTables
    from reports.result.verdicts import Decision


def others(tables: RunTables, decision: Decision) -> dict[str, dict[str, object]]:
    """By cell: `label` (queue and buffer), `company` (who runs, beside whom), and means over valid trials.

    The means have the names of those of cells in the table; what a cell has no group for is left out.
    """
    rule, labels = decision.rule, dict(tables.catalog.select("name", "label").iter_rows())
    cells = tables.trials.filter(~pl.col("cell").is_in(decision.cells["cell"].to_list()))
    found: dict[str, dict[str, object]] = {}
    for row in cells.unique("cell", keep="first", maintain_order=True).iter_rows(named=True):
        settings = (_called(labels, row.get("aqm")), setting("buffer_bdp", row.get("buffer_bdp")))
        label = ", ".join(filter(None, settings)) or row["cell"]
        found[row["cell"]] = {"label": label, "company": _company(row, labels), "valid": 0}
    figures = {rule.l4s: ("l4s_mbps", "delay_ms"), rule.classic: ("classic_mbps", "classic_delay_ms")}
    for group, (goodput, delay) in figures.items():
        of_group = totals(tables, group, rule.value).filter(pl.col("cell").is_in(list(found)))
        means = of_group.group_by("cell").agg(pl.col("mbps").mean(), pl.col("delay_ms").mean(), pl.len())
        for cell, mbps, delay_ms, valid in means.iter_rows():
            found[cell] |= {goodput: mbps, delay: delay_ms, "valid": valid}
    return found


def _company(row: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """`CUBIC, ECN off, alone` or `CUBIC, ECN off beside CUBIC, ECN off`."""
    groups = [name.removesuffix(".cc") for name, value in row.items() if name.endswith(".cc") and value]
    named = [_flows(row, group, labels) for group in groups]
    return f"{named[0]}, alone" if len(named) == 1 else " beside ".join(named)


def _flows(row: Mapping[str, Any], group: str, labels: Mapping[str, str]) -> str:
    count = row.get(f"{group}.count")
    many = f"{count} " if count not in (None, 1) else ""
    name = f"{many}{_called(labels, row[f'{group}.cc'])}"
    return ", ".join(filter(None, (name, setting("ecn", row.get(f"{group}.ecn")))))


def _called(labels: Mapping[str, str], name: str | None) -> str:
    return labels.get(name, name) if name else ""
