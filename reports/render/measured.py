# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A run without verdicts as rows for a terminal, as CSV and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from json import dumps
from typing import TYPE_CHECKING, Final

import polars as pl

from l4sbench.text.wording import counted
from reports.render.words import between, fixed_text, former_text, left_out_hints, number, span
from reports.result.measured import FRAME_DELAY, FREEZES

if TYPE_CHECKING:
    from reports.result.measured import MeasuredGroup, Measurements

BEGINNINGS: Final[Mapping[str, bytes]] = {
    "measured.csv": b"cell,label,group,number,",
    "measured.json": b'{\n  "format": ',
}
"""Documents that only a run without verdicts has, by name, with the beginning by which it is known."""

FORMAT: Final = 2
"""Version of the JSON document; grows when a field changes its meaning or goes away."""


def rows(measured: Measurements) -> list[Mapping[str, str]]:
    """Return a row for every flow group of every cell, for people; columns that nobody has are left out."""
    found = [
        {
            "cell": str(cell.label),
            "group": group.name,
            "Mbit/s": number(group.goodput),
            "interval": between(group.goodput),
            "% of link": number(group.share),
            "delay ms": number(group.delay),
            "per packet ms": number(group.sojourn, 2),
            "p99 ms": number(group.sojourn_p99, 2),
            "frame p95 ms": number(group.own.get(FRAME_DELAY)),
            "freezes": number(group.own.get(FREEZES)),
            "slowdown": number(group.slowdown),
            "RPM": number(group.rpm, 0),
            "verdict": ", ".join(map(str, group.verdicts)),
            "trials": str(cell.valid),
        }
        for cell in measured.cells
        for group in cell.groups
    ]
    nothing = {"", number(None)}
    kept = [name for name in (found[0] if found else ()) if any(row[name] not in nothing for row in found)]
    return [{name: row[name] for name in kept} for row in found]


def notes(measured: Measurements) -> list[str]:
    """Return what the rows must state about themselves."""
    trials, cells = counted(measured.trials, "valid trial"), counted(len(measured.cells), "cell")
    each = span(measured.trials_per_cell)
    lines = [
        f"means over {trials} of {cells}, {each} per cell; interval: 95 % confidence",
        "delay: smoothed RTT minus base RTT, of TCP",
        f"kernels: {', '.join(measured.kernels) or 'none'}; modules: {', '.join(measured.modules) or 'none'}",
    ]
    if any(group.sojourn for cell in measured.cells for group in cell.groups):
        lines[1] += "; per packet, p99: time in the bottleneck's queue"
    judged = {
        one.judges: one.rule for cell in measured.cells for group in cell.groups for one in group.verdicts
    }
    lines += [f"verdict on {judges}: by rule {rule}" for judges, rule in sorted(judged.items())]
    if fixed := fixed_text(measured):
        lines.append(f"the same in all cells: {fixed}")
    if former := former_text(measured):
        lines.append(former)
    if measured.not_run:
        lines.append(f"not run: {counted(measured.not_run, 'cell')}")
    if measured.left_out:
        lines.append(f"left out: {counted(len(measured.left_out), 'trial')}")
        lines += left_out_hints(measured)
    return lines


def documents(measured: Measurements, metrics: pl.DataFrame) -> Mapping[str, str]:
    """Return every document of a run without verdicts by its file name.

    `metrics` are further figures of all cells (`reports.result.metrics.cell_metrics`) for `measured.pair`.
    """
    return {
        "measured.csv": measured_csv(measured),
        "measured.json": dumps(document(measured), indent=2, ensure_ascii=False) + "\n",
        "metrics.csv": _by_own_names(measured, metrics).write_csv(),
    }


def measured_csv(measured: Measurements) -> str:
    """Return a line for every number of every flow group: mean, interval, standard deviation, trials."""
    lines = [
        {"cell": cell.id, "label": str(cell.label), "group": group.name, **row}
        for cell in measured.cells
        for group in cell.groups
        for row in _numbers(group)
    ]
    words, reals = ("cell", "label", "group", "number"), ("mean", "low", "high", "sd")
    schema = {**dict.fromkeys(words, pl.String()), **dict.fromkeys(reals, pl.Float64()), "trials": pl.Int64()}
    return pl.DataFrame(lines, schema=schema).write_csv()


def document(measured: Measurements) -> dict[str, object]:
    """Return everything as JSON values; names of numbers carry their units, except the programs' own."""
    return {
        "format": FORMAT,
        "rule": None,
        "groups": list(measured.groups),
        "cells": [
            {
                "cell": cell.id,
                "label": str(cell.label),
                "valid": cell.valid,
                "left_out": cell.left_out,
                "groups": [
                    {
                        "group": group.name,
                        "flows": group.flows,
                        "numbers": list(_numbers(group)),
                        "verdicts": [asdict(verdict) for verdict in group.verdicts],
                    }
                    for group in cell.groups
                ],
            }
            for cell in measured.cells
        ],
        "kernels": list(measured.kernels),
        "modules": list(measured.modules),
        "testbeds": list(measured.testbeds),
        "same_in_all_cells": {column: setting.value for column, setting in measured.fixed.items()},
        "left_out": [asdict(trial) for trial in measured.left_out],
        "flags": dict(measured.flagged),
        "former": asdict(measured.former),
        "not_run": measured.not_run,
    }


def _numbers(group: MeasuredGroup) -> Iterable[dict[str, object]]:
    for name, found in group.numbers.items():
        yield {
            "number": name,
            "mean": found.value,
            "low": found.low,
            "high": found.high,
            "sd": found.sd,
            "trials": found.trials,
        }


def _by_own_names(measured: Measurements, metrics: pl.DataFrame) -> pl.DataFrame:
    """Return metrics with the names of the two groups in place of `l4s` and `classic`."""
    names = dict(zip(("l4s", "classic"), measured.pair, strict=True))
    split = {column: column.partition("_") for column in metrics.columns}
    lacking = [column for column, (role, *_) in split.items() if names.get(role) == ""]
    return metrics.drop(lacking).rename(
        {column: f"{names[role]}_{rest}" for column, (role, _, rest) in split.items() if names.get(role)}
    )
