# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What the page shows of a cell that was clicked, embedded in it as JSON: factors, trials, programs, hosts.

Most nodes run the same program in most trials, and read back the same, but for the seeds. So each
different text is kept once and named by its place, and long numbers are kept apart from it. The scripts
of the page know the same shapes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from reports.page.others import others
from reports.result.cells import NOT_FACTORS
from reports.result.metrics import cell_metrics

if TYPE_CHECKING:
    from reports.page.model import Entry, HeatCell
    from reports.result.load import RunTables
    from reports.result.verdicts import Decision

LINE: Final = "\x1e"
"""Between the lines of a text that is kept once; no command holds it."""

FIELD: Final = "\x1f"
"""Between the fields of a line."""

NUMBER: Final = "\x1d"
"""Stands for a long number, which is kept with the trial."""

_LONG_NUMBER: Final = r"[0-9]{9,}"

TRIAL_COLUMNS: Final = (
    "trial",
    "status",
    "reasons",
    "flags",
    "seed",
    "testbed",
    "traffic",
    "kernels",
    "modules",
    "skew_ms",
    "inputs",
    "folder",
)
GROUP_COLUMNS: Final = (
    "group",
    "cc",
    "flows",
    "goodput_mbps",
    "srtt_minus_base_ms",
    "srtt_p50_ms",
    "srtt_p95_ms",
    "srtt_p99_ms",
    "ce_percent",
    "retransmits_packets",
    "ecn",
)


MEANS: Final = (
    "valid",
    "left_out",
    "percent",
    "percent_low",
    "percent_high",
    "l4s_mbps",
    "classic_mbps",
    "delay_ms",
)
HARMS: Final = (
    "l4s_harm_percent",
    "l4s_harm_low_percent",
    "l4s_harm_high_percent",
    "classic_harm_percent",
    "classic_harm_low_percent",
    "classic_harm_high_percent",
    "classic_same_harm_percent",
    "l4s_delay_harm_percent",
    "classic_delay_harm_percent",
)


FURTHER: Final = (
    "flows",
    "jain",
    "utilisation",
    "ratio",
    *(f"{group}_{name}" for name in ("variation_100ms", "variation_1000ms") for group in ("l4s", "classic")),
    *(f"l4s_{name}_{q}_ms" for name in ("sojourn", "srtt") for q in ("p50", "p95", "p99", "p999")),
)
"""Figures of `reports.result.metrics` that a cell shows, where it has them."""


class Pool:
    """Texts, each kept once."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def place(self, text: str) -> int:
        """Where a text stands in `texts`; it is added when it is new."""
        return self._places.setdefault(text, len(self._places))

    @property
    def texts(self) -> list[str]:
        """The texts in the order of their places."""
        return list(self._places)


def details(
    tables: RunTables, decision: Decision, cells: Mapping[str, tuple[Entry, HeatCell]]
) -> dict[str, object]:
    """All that is known about every cell of a run, as JSON types.

    `cells` are those of the decision table. The others, baselines above all, follow.
    """
    programs, hosts = Pool(), Pool()
    ran = _texts(tables.programs, ("phase", "command"), programs)
    read_back = _texts(_readable(tables.hosts), ("kind", "name", "value"), hosts)
    groups = _groups(tables)
    trials: dict[str, list[object]] = {}
    for row in tables.trials.select("cell", *TRIAL_COLUMNS).iter_rows():
        key = (row[0], row[1])
        own = [*map(_short, row[1:]), groups.get(key, []), ran.get(key, []), read_back.get(key, [])]
        trials.setdefault(row[0], []).append(own)
    return {
        "groups": [decision.rule.l4s, decision.rule.classic],
        "fixed": {name: _short(value) for name, value in _same(tables).items()},
        "trial_columns": [*TRIAL_COLUMNS, "groups", "programs", "hosts"],
        "group_columns": list(GROUP_COLUMNS),
        "programs": programs.texts,
        "hosts": hosts.texts,
        "cells": _cells(tables, decision, cells, trials),
    }


def _further(tables: RunTables, decision: Decision) -> dict[str, dict[str, object]]:
    """Fairness, steadiness and quantiles of delay of every cell with a valid trial."""
    found = cell_metrics(tables, decision.rule.l4s, decision.rule.classic)
    return {
        row["cell"]: {name: _short(row[name]) for name in FURTHER if row.get(name) is not None}
        for row in found.iter_rows(named=True)
    }


def _cells(
    tables: RunTables,
    decision: Decision,
    cells: Mapping[str, tuple[Entry, HeatCell]],
    trials: Mapping[str, list[object]],
) -> list[dict[str, object]]:
    """In the order of the decision table, then those that are not in it."""
    fixed, further, elsewhere = _same(tables), _further(tables, decision), others(tables, decision)
    differing = [name for name in _factors(tables) if name not in fixed]
    first = tables.trials.unique("cell", keep="first", maintain_order=True)
    factors = {
        row["cell"]: {name: _short(row[name]) for name in differing if row[name] is not None}
        for row in first.select("cell", *differing).iter_rows(named=True)
    }
    rerun = dict(
        tables.programs.unique("cell", keep="first", maintain_order=True).select("cell", "rerun").iter_rows()
    )
    found: list[dict[str, object]] = []
    for cell in [*cells, *(cell for cell in factors if cell not in cells)]:
        about: dict[str, object] = {
            "id": cell,
            "factors": factors[cell],
            "rerun": rerun.get(cell),
            "trials": trials[cell],
            "further": further.get(cell, {}),
        }
        if cell in cells:
            about |= _place(*cells[cell])
        else:
            about |= {name: _short(value) for name, value in elsewhere[cell].items()}
        found.append(about)
    return found


def _place(entry: Entry, cell: HeatCell) -> dict[str, object]:
    """A cell's place in the decision table and its means."""
    verdict, mean = entry.verdict, cell.mean
    harms = {name: _short(getattr(mean, name)) for name in HARMS if getattr(mean, name) is not None}
    return {
        "label": mean.label,
        "entry": entry.key,
        "l4s": verdict.l4s,
        "row": verdict.row,
        "column": verdict.column,
        "word": mean.word.value,
        "glyph": cell.glyph,
        "limits": cell.limits_percent,
        "straddles": cell.straddles,
        "bimodal": bool(mean.bimodal),
        "classic_delay_ms": _short(cell.classic_delay_ms),
        **{name: _short(getattr(mean, name)) for name in MEANS},
        **({"harm": harms} if harms else {}),
    }


def _factors(tables: RunTables) -> list[str]:
    return [name for name in tables.trials.columns if name not in NOT_FACTORS]


def _same(tables: RunTables) -> dict[str, object]:
    """The factors that all cells of the run share, decision table or not."""
    trials = tables.trials
    return {
        name: trials[name][0]
        for name in _factors(tables)
        if trials[name].n_unique() == 1 and trials[name].null_count() == 0
    }


def _texts(
    frame: pl.DataFrame, fields: tuple[str, ...], pool: Pool
) -> dict[tuple[str, int], list[list[object]]]:
    """For every trial the nodes, each with the place of its text and the long numbers in it.

    A text has one line per row, its fields joined.
    """
    shown = pl.concat_str([pl.col(name).fill_null("") for name in fields], separator=FIELD)
    whole = frame.group_by("cell", "trial", "node", maintain_order=True).agg(
        shown.str.join(LINE).alias("text")
    )
    parts = whole.select(
        "cell",
        "trial",
        "node",
        pl.col("text").str.replace_all(_LONG_NUMBER, NUMBER),
        pl.col("text").str.extract_all(_LONG_NUMBER).alias("numbers"),
    )
    found: dict[tuple[str, int], list[list[object]]] = {}
    for cell, trial, node, text, numbers in parts.iter_rows():
        found.setdefault((cell, trial), []).append([node, pool.place(text), *numbers])
    return found


def _readable(hosts: pl.DataFrame) -> pl.DataFrame:
    """The hosts with their queues, which are read back as JSON, in the manner of tc: kind, then options."""
    queues = hosts.filter(pl.col("kind") == "qdisc")["value"].drop_nulls().unique().to_list()
    return hosts.with_columns(pl.col("value").replace({value: _options(value) for value in queues}))


def _options(queue: str) -> str:
    try:
        said = json.loads(queue)
    except ValueError:
        return queue
    if not isinstance(said, dict):
        return queue
    words = {name: value if isinstance(value, str) else json.dumps(value) for name, value in said.items()}
    return " ".join([words.pop("kind", "?"), *(f"{name} {value}" for name, value in words.items())])


def _groups(tables: RunTables) -> dict[tuple[str, int], list[list[object]]]:
    """For every valid trial its flow groups: sums of goodput, means of delay, the worst flow's quantiles."""
    per_group = tables.flows.group_by("cell", "trial", "group", maintain_order=True).agg(
        pl.col("cc").first(),
        pl.len().alias("flows"),
        pl.col("goodput_mbps").sum(),
        pl.col("srtt_minus_base_ms").mean(),
        *[pl.col(f"srtt_{quantile}_ms").max() for quantile in ("p50", "p95", "p99")],
        (pl.col("delivered_ce_packets").sum() / pl.col("delivered_packets").sum() * 100).alias("ce_percent"),
        pl.col("retransmits_packets").sum(),
        pl.col("ecn").unique(maintain_order=True).drop_nulls().str.join(", "),
    )
    found: dict[tuple[str, int], list[list[object]]] = {}
    for cell, trial, *rest in per_group.select("cell", "trial", *GROUP_COLUMNS).iter_rows():
        found.setdefault((cell, trial), []).append([_short(value) for value in rest])
    return found


def _short(value: Any) -> Any:
    """A number with five digits, which is more than any table shows; JSON has no NaN."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.5g}") if math.isfinite(value) else None
