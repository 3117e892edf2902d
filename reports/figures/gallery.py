# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""All figures of a run, of several runs, or of a part of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import polars as pl

from l4sbench.errors import InputError
from l4sbench.text.wording import counted
from reports.figures.bars import columns, flow_bars, pairings
from reports.figures.columns import cells_in_columns, require_columns
from reports.figures.delays import Group, Kind, Source, delay_distribution
from reports.figures.delays import captured as has_captured
from reports.figures.files import Figure
from reports.figures.groups import group_means
from reports.figures.heatmaps import delay_map, difference_map, goodput_map
from reports.figures.overlay import trials_together
from reports.figures.packets import PacketView, sequence_numbers, sojourns
from reports.figures.panels import time_series
from reports.figures.plane import NAME, PlaneCell, plane_map
from reports.figures.points import dots_subject, goodput_against_delay, trial_dots
from reports.figures.published import published_maps
from reports.figures.series import series_of, trial_series
from reports.figures.several import runs_beside, values_beside
from reports.figures.sheets import column_by, sheets, slugged, usual_by
from reports.published import compare
from reports.result.cells import captured
from reports.result.load import OF_PROGRAMS
from reports.result.verdicts import Decision

if TYPE_CHECKING:
    from pathlib import Path

    import altair as alt

    from reports.figures.overlay import Together
    from reports.figures.packets import Captures
    from reports.figures.series import TrialSeries
    from reports.figures.sheets import Sheet
    from reports.result.load import RunTables
    from reports.result.measured import Measurements
    from reports.result.rules import Rule

Trials: TypeAlias = Literal["none", "median", "all", "trials", "band", "columns"]

QUEUES: Final = "none"
"""Value of `by` for no factor."""


def figures(
    tables: RunTables,
    result: Decision | Measurements,
    trials: Trials = "median",
    on_skipped: Callable[[str], None] = lambda _: None,
    by: str | None = None,
    captures: Captures | None = None,
    span_s: tuple[float, float] | None = None,
) -> Iterator[Figure]:
    """Yield all figures of a run, made one after the other: maps first.

    Args:
        tables: The run.
        result: Its decision, or its measurements without verdicts, made of the same cells.
        trials: Which trials of a cell get a time series: the one nearest to the cell's median, all, or none;
            or all trials of a cell together, as a line each or as a band; or, as the only figure, `columns`:
            the trial nearest to the median of each cell, side by side.
        on_skipped: Called for each figure that the run has no data for.
        by: The factor whose values are together on a plot; None: the only one that differs besides queues and
            competitors, or the lab; `none`: queues are together, and values of a factor apart.
        captures: Those of the run; of a trial that has some and is drawn alone, its packets are drawn, too.
        span_s: Begin and end of the part of trials whose packets are drawn, and nothing else.

    Raises:
        InputError: two cells are in one place of a map, the factor of `by` does not differ, there are too few
            or too many cells for columns, or a span is of trials without captures.
    """
    if trials == "columns":
        yield _in_columns(tables, result)
        return
    if span_s is not None:
        yield from _of_trials(tables, result, trials, captures, span_s, on_skipped)
        return
    if isinstance(result, Decision):
        column = usual_by(result) if by is None else None if by == QUEUES else column_by(result, by)
        found = sheets(result, by=column)
        yield from _maps(found, sheets(result) if column else found, result.rule)
        yield from _by(found, on_skipped)
        yield from _differences(tables, found, result.rule)
        for sheet in found:
            yield from _of_sheet(tables, sheet, result.rule, on_skipped)
        yield from _bars(found, on_skipped)
    elif by is None or by == QUEUES:
        caption = "Goodput and delays of every flow group of every cell: cell means with 95 % intervals."
        yield Figure("groups", caption, group_means(result))
    else:
        raise InputError(f"--by {by}: figures of a run without verdicts have no factor", "leave out --by")
    if trials in _TOGETHER:
        yield from _together(tables, result, _TOGETHER[trials])
        return
    yield from _of_trials(tables, result, trials, captures, None, on_skipped)


def _of_trials(
    tables: RunTables,
    result: Decision | Measurements,
    trials: Trials,
    captures: Captures | None,
    span_s: tuple[float, float] | None,
    on_skipped: Callable[[str], None],
) -> Iterator[Figure]:
    """Yield figures of trials: over time, and of packets; with a span, only of packets in it."""
    with_packets = set(captured(tables).select("cell", "trial").iter_rows()) if captures else set()
    if span_s and not with_packets:
        raise InputError("no trial of these cells has captures", "capture: headers in a matrix keeps them")
    for cell, trial in chosen(tables, result, trials):
        if span_s and (cell, trial) not in with_packets:
            on_skipped(f"{cell}_trial-{trial}: it has no captures")
            continue
        series = trial_series(tables, cell, trial)
        if not span_s:
            yield Figure(
                f"series_{cell}_trial-{trial}",
                f"{series.title}: goodput, smoothed RTT, queue, CE marks and congestion windows over time.",
                time_series(series),
            )
        if captures and (cell, trial) in with_packets:
            yield from _packets(tables, series, captures, span_s, on_skipped)


def _packets(
    tables: RunTables,
    series: TrialSeries,
    captures: Captures,
    span_s: tuple[float, float] | None,
    on_skipped: Callable[[str], None],
) -> Iterator[Figure]:
    """Yield the figures of a trial's packets, that of sequence numbers as long as its captures exist."""
    rest = f"{series.cell}_trial-{series.trial}" + ("_{:g}-{:g}s".format(*span_s) if span_s else "")
    try:
        files = captures.files(series.cell, series.trial)
    except InputError:  # which the figure that needs them reports
        files = ()
    view = PacketView(series, files, captures.folder, span_s)
    for name, about, draw in (
        (
            "sojourn",
            "sojourn of packets in the bottleneck's queue over time, with marks and drops",
            lambda: sojourns(tables, view),
        ),
        (
            "sequence",
            "sequence numbers of TCP packets over time, with marks, retransmissions and drops",
            lambda: sequence_numbers(captures.sequences(series.cell, series.trial), view),
        ),
    ):
        yield from _drawn(f"{name}_{rest}", f"{series.title}: {about}.", draw, on_skipped, files)


def _drawn(
    name: str,
    caption: str,
    draw: Callable[[], alt.TopLevelMixin],
    on_skipped: Callable[[str], None],
    sources: tuple[Path, ...] = (),
) -> Iterator[Figure]:
    """Yield a figure, or report that the run has no data for it."""
    try:
        chart = draw()
    except InputError as error:
        on_skipped(f"{name}: {error}")
    else:
        yield Figure(name, caption, chart, sources)


def _together(tables: RunTables, result: Decision | Measurements, how: Together) -> Iterator[Figure]:
    """Yield one figure of each cell with all its trials over time."""
    shown = chosen(tables, result, "all")
    for cell in dict.fromkeys(cell for cell, _ in shown):
        own = list(series_of(tables, tables.trials.filter(pl.col("cell") == cell)))
        if own:
            yield Figure(
                f"series_{cell}_{how}",
                f"{own[0].words}, {counted(len(own), 'trial')}: goodput, smoothed RTT, CE marks, congestion "
                "windows and queue over time.",
                trials_together(own, how),
            )


def _in_columns(tables: RunTables, result: Decision | Measurements) -> Figure:
    require_columns(len(result.cells))
    shown = chosen(tables, result, "median")
    sampled = {cell for cell, _ in shown}
    for cell in result.cells:
        if cell.id not in sampled:
            raise InputError(f"nothing was sampled in a valid trial of {cell.id}", "leave it out by filters")
    words = ", ".join(f"{cell} trial {trial}" for cell, trial in shown)
    return Figure(
        "columns",
        f"Side by side: {words}. Goodput, smoothed RTT, queue, CE marks and congestion windows over time.",
        cells_in_columns(tables, shown),
    )


def of_runs(
    runs: Sequence[tuple[str, Decision]], on_skipped: Callable[[str], None] = lambda _: None
) -> Iterator[Figure]:
    """Yield figures of several runs together, one for each competitor that at least two of them have.

    Args:
        runs: Names of runs, and their decisions.
        on_skipped: Called for each competitor that only one run has.

    Raises:
        InputError: no two runs have a competitor, with its flow counts and settings, in common, there are
            too many runs, or two have the same name.
    """
    found: dict[str, list[tuple[str, Sheet]]] = {}
    for name, decision in runs:
        for sheet in sheets(decision):
            found.setdefault(sheet.slug, []).append((name, sheet))
    drawn = False
    for slug, own in found.items():
        if len(own) < 2:
            on_skipped(f"runs_{slug}: only {own[0][0]} has it")
            continue
        names = ", ".join(name for name, _ in own)
        drawn = True
        yield Figure(
            f"runs_{slug}",
            f"{names}, {own[0][1].title}: goodput and delay of the L4S flows, cell means with 95 % "
            "confidence intervals.",
            runs_beside(own),
        )
    if not drawn:
        raise InputError("no two of these runs have a competitor with its flow counts and settings in common")


def the_plane(decision: Decision) -> Figure:
    """Return the map of rate and RTT, one page. Raises InputError for a run without such a plane."""
    caption = f"Where it is okay to switch, by rate and RTT: rule {decision.rule.rule}."
    return Figure(NAME, caption, plane_map(list(_on_plane(decision)), decision.trials, decision.rule.rule))


def _on_plane(decision: Decision) -> Iterator[PlaneCell]:
    """Yield the cells of entries that have a rate and a round-trip time."""
    several = len({str(verdict.question) for verdict in decision.verdicts}) > 1
    for verdict in decision.verdicts:
        row = f"{verdict.question}, {verdict.row}" if several else verdict.row
        for cell in verdict.cells:
            rate, rtt = (cell.result.value(name) for name in ("rate_mbps", "rtt_ms"))
            if isinstance(rate, int | float) and isinstance(rtt, int | float):
                yield PlaneCell(row, str(verdict.column), float(rate), float(rtt), cell.word)


def chosen(
    tables: RunTables, result: Decision | Measurements, trials: Trials = "median"
) -> list[tuple[str, int]]:
    """Choose cells and numbers of valid trials, in the order of the result's cells.

    `median`: of each cell the trial whose L4S goodput is nearest to the cell's median, the first of several;
    without verdicts the goodput is that of the first group. Trials of which nothing was sampled are left out.
    """
    if trials == "none":
        return []
    goodput = pl.col(result.rule.value if isinstance(result, Decision) else "goodput_mbps")
    sampled = tables.scan("sockets").select("cell", "trial").unique().collect()
    of_programs = tables.flows.filter(OF_PROGRAMS).select("cell", "trial")
    sampled = pl.concat([sampled, of_programs]).unique()
    own = tables.groups.filter(pl.col("group") == result.pair[0])
    own = own.join(sampled, on=["cell", "trial"], how="semi").sort("cell", "trial")
    if trials == "median":
        off = (goodput - goodput.median()).abs().over("cell")
        own = own.with_columns(off=off).sort("off", "trial", nulls_last=True)
        own = own.unique("cell", keep="first", maintain_order=True)
    by_cell: dict[str, list[int]] = {}
    for cell, trial in own.sort("cell", "trial").select("cell", "trial").iter_rows():
        by_cell.setdefault(cell, []).append(trial)
    return [(cell.id, trial) for cell in result.cells for trial in by_cell.get(cell.id, [])]


_TOGETHER: Final[Mapping[Trials, Together]] = {"trials": "trials", "band": "band"}

_DISTRIBUTIONS: Final[tuple[tuple[Source, Group, Kind], ...]] = (
    *(("srtt", "l4s", "cdf"), ("srtt", "l4s", "ccdf"), ("srtt", "classic", "cdf")),
    *(("sojourn", "l4s", "cdf"), ("sojourn", "l4s", "ccdf"), ("sojourn", "classic", "cdf")),
)


def _of_sheet(
    tables: RunTables, sheet: Sheet, rule: Rule, on_skipped: Callable[[str], None]
) -> Iterator[Figure]:
    yield Figure(
        f"trials_{sheet.slug}",
        f"Every trial of every cell, {sheet.title}: {dots_subject(sheet)}, with mean, "
        "95 % confidence interval and the rule's limits.",
        trial_dots(tables, sheet, rule),
    )
    yield Figure(
        f"goodput-delay_{sheet.slug}",
        f"Goodput against delay of both flow groups, {sheet.title}: cell means with 95 % confidence "
        "intervals.",
        goodput_against_delay(sheet),
    )
    has_packets = has_captured(tables, sheet)
    for source, group, kind in _DISTRIBUTIONS:
        if source == "sojourn" and not has_packets:
            continue
        word = "delay" if source == "srtt" else "sojourn"
        name = f"{'' if group == 'l4s' else 'classic-'}{word}-{kind}_{sheet.slug}"
        flows = "L4S flows'" if group == "l4s" else "classic flows'"
        of_what = {
            "srtt": f"{flows} delay, {sheet.title}: samples of the sender's smoothed RTT minus base RTT, not "
            "of single packets.",
            "sojourn": f"sojourn of the {flows} packets in the bottleneck's queue, {sheet.title}.",
        }
        draw = partial(delay_distribution, tables, sheet, rule, group, kind, source)
        yield from _drawn(name, f"{kind.upper()} of the {of_what[source]}", draw, on_skipped)


def _differences(tables: RunTables, found: Sequence[Sheet], rule: Rule) -> Iterator[Figure]:
    """Yield maps of differences from published cells, of the sheets that have any."""
    try:
        comparison = compare(tables, l4s=rule.l4s, classic=rule.classic)
    except InputError:
        return  # nobody published such cells
    own = {pair.cell.id for pair in comparison.pairs}
    for sheet in found:
        if own & {cell.id for cell in sheet.cells}:
            yield Figure(
                f"against-pam25_{sheet.slug}",
                f"Goodput of the L4S flows, {sheet.title}: run minus published cells (PAM 2025 study).",
                difference_map(sheet, comparison),
            )


def _bars(found: Sequence[Sheet], on_skipped: Callable[[str], None]) -> Iterator[Figure]:
    """Yield bars of families of sheets that have more than one flow somewhere."""
    families: dict[str, list[Sheet]] = {}
    for sheet in found:
        families.setdefault(sheet.family, []).append(sheet)
    for family, own in families.items():
        if all(sheet.flows == (1, 1) for sheet in own):
            continue
        abouts, settings = enumerate(pairings(own)), list(enumerate(columns(own)))
        for (panel, about), (x, column) in ((one, other) for one in abouts for other in settings):
            at = column.text
            yield from _drawn(
                f"flows_{family}_{slugged(about.question, about.column, at)}",
                f"Goodput per flow, {about}, {at}: cell means with 95 % confidence intervals and the fair "
                "share.",
                partial(flow_bars, own, panel, x),
                on_skipped,
            )


def _by(found: Sequence[Sheet], on_skipped: Callable[[str], None]) -> Iterator[Figure]:
    """Yield goodput and delay by a factor, of the sheets that have several of its values."""
    for sheet in (sheet for sheet in found if len(sheet.by) > 1):
        factor = sheet.by[0].of.factor
        yield from _drawn(
            f"by-{slugged(factor)}_{sheet.slug}",
            f"Goodput and delay of the L4S flows by {factor}, {sheet.title}: cell means with 95 % confidence "
            "intervals.",
            partial(values_beside, sheet),
            on_skipped,
        )


def _maps(found: Sequence[Sheet], as_published: Sequence[Sheet], rule: Rule) -> Iterator[Figure]:
    goodput = "Goodput of the L4S flows (of the classic flows), {}, Mbit/s: cell means"
    delay = "Mean smoothed RTT minus base RTT of the L4S flows (of the classic flows), {}, ms: cell means"
    limits = f"limits of rule {rule.rule}"
    for sheet in found:
        caption = f"{goodput.format(sheet.title)} with 95 % confidence intervals, {limits}."
        yield Figure(f"goodput_{sheet.slug}", caption, goodput_map(sheet, rule))
        yield Figure(f"delay_{sheet.slug}", f"{delay.format(sheet.title)}.", delay_map(sheet, rule))
    drawn = "drawn as in the PAM 2025 study"
    for part, chart in published_maps(as_published, "goodput"):
        yield Figure(f"published-goodput_{part.slug}", f"{goodput.format(part.title)}, {drawn}.", chart)
    for part, chart in published_maps(as_published, "delay"):
        caption = f"{delay.format(part.title)}, {drawn} (colours end at 15 ms)."
        yield Figure(f"published-delay_{part.slug}", caption, chart)
