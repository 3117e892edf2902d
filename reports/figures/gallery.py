# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""All figures of a run as files, with an index that says what each shows."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import polars as pl

from l4sbench.store.files import write_whole
from reports.figures.heatmaps import delay_map, goodput_map
from reports.figures.published import published_maps
from reports.figures.save import render, specification
from reports.figures.series import time_series, trial_series
from reports.figures.sheets import sheets

if TYPE_CHECKING:
    import altair as alt

    from reports.load import RunTables
    from reports.verdicts import Decision

Trials: TypeAlias = Literal["none", "median", "all"]

INDEX: Final = "index.html"


@dataclass(frozen=True)
class Figure:
    """A figure: `name` is its file's without the ending, `caption` says what it shows."""

    name: str
    caption: str
    chart: alt.TopLevelMixin


@dataclass(frozen=True)
class Written:
    """A figure on the disk, one file per format."""

    name: str
    caption: str
    files: tuple[Path, ...]


def figures(tables: RunTables, decision: Decision, trials: Trials = "median") -> Iterator[Figure]:
    """All figures of a run, made one after the other: maps first.

    Args:
        tables: The run.
        decision: Its decision, made of the same cells.
        trials: Which trials of a cell get a time series: the one nearest to the cell's median, all, or none.

    Raises:
        InputError: two cells fall on one place of a map.
    """
    yield from _maps(decision)
    for cell, trial in chosen(tables, decision, trials):
        series = trial_series(tables, cell, trial)
        yield Figure(
            f"series_{cell}_trial-{trial}",
            f"{series.title}: goodput, smoothed RTT, queue, CE marks and congestion windows over time.",
            time_series(series),
        )


def chosen(tables: RunTables, decision: Decision, trials: Trials = "median") -> list[tuple[str, int]]:
    """Cells and numbers of valid trials, in the order of the decision's cells.

    `median`: of each cell the trial whose L4S goodput is nearest to the cell's median, the first of several.
    Trials whose sockets were not sampled are no choice.
    """
    if trials == "none":
        return []
    goodput = pl.col(decision.rule.value)
    sampled = tables.scan("sockets").select("cell", "trial").unique().collect()
    own = tables.groups.filter(pl.col("group") == decision.rule.l4s)
    own = own.join(sampled, on=["cell", "trial"], how="semi").sort("cell", "trial")
    if trials == "median":
        off = (goodput - goodput.median()).abs().over("cell")
        own = own.with_columns(off=off).sort("off", "trial").unique("cell", keep="first", maintain_order=True)
    by_cell: dict[str, list[int]] = {}
    for cell, trial in own.sort("cell", "trial").select("cell", "trial").iter_rows():
        by_cell.setdefault(cell, []).append(trial)
    return [(cell, trial) for cell in decision.cells["cell"] for trial in by_cell.get(cell, [])]


def _maps(decision: Decision) -> Iterator[Figure]:
    found = sheets(decision)
    rule = decision.rule
    for sheet in found:
        yield Figure(
            f"goodput_{sheet.slug}",
            f"Goodput of the L4S flows (of the classic flows), {sheet.title}, Mbit/s: cell means with 95 % "
            f"confidence intervals, limits of rule {rule.rule}.",
            goodput_map(sheet, rule),
        )
        yield Figure(
            f"delay_{sheet.slug}",
            f"Mean smoothed RTT minus base RTT of the L4S flows (of the classic flows), {sheet.title}, ms: "
            "cell means.",
            delay_map(sheet, rule),
        )
    for part, chart in published_maps(found, "goodput"):
        yield Figure(
            f"published-goodput_{part.slug}",
            f"Goodput of the L4S flows (of the classic flows), {part.title}, Mbit/s: cell means, drawn as in "
            "the PAM 2025 study.",
            chart,
        )
    for part, chart in published_maps(found, "delay"):
        yield Figure(
            f"published-delay_{part.slug}",
            f"Mean smoothed RTT minus base RTT of the L4S flows (of the classic flows), {part.title}, ms: "
            "cell means, drawn as in the PAM 2025 study (colours end at 15 ms).",
            chart,
        )


def write(
    shown: Iterator[Figure],
    folder: Path,
    forms: Sequence[str] = ("svg",),
    on_written: Callable[[Written], None] = lambda _: None,
) -> tuple[Written, ...]:
    """Write figures into a folder, each in all formats, and an index of them.

    Files of the same name are replaced, others stay; each appears whole or not at all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found: list[Written] = []
    for figure in shown:
        spec = specification(figure.chart)
        files = []
        for form in forms:
            path = folder / f"{figure.name}.{form}"
            write_whole(path, render(spec, form))
            files.append(path)
        written = Written(figure.name, figure.caption, tuple(files))
        found.append(written)
        on_written(written)
    write_whole(folder / INDEX, _index(found))
    return tuple(found)


_PAGE: Final = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Figures</title>
<style>
body {{ font: 16px/1.4 sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; }}
figure {{ margin: 0 0 3em; }}
img {{ max-width: 100%; background: white; }}
</style>
<h1>Figures</h1>
{body}
</html>
"""


def _index(found: Sequence[Written]) -> str:
    return _PAGE.format(body="\n".join(_entry(written) for written in found))


def _entry(written: Written) -> str:
    caption = html.escape(written.caption)
    images = [path for path in written.files if path.suffix in {".svg", ".png"}]
    shown = ""
    if images:
        shown = f'<img src="{html.escape(images[0].name)}" alt="{caption}" loading="lazy">\n'
    links = ", ".join(
        f'<a href="{html.escape(path.name)}">{path.suffix.removeprefix(".")}</a>' for path in written.files
    )
    name = html.escape(written.name)
    return (
        f'<figure id="{name}">\n{shown}<figcaption>{caption} <code>{name}</code>: {links}</figcaption>\n'
        "</figure>"
    )
