# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The public interface, as in docs/notebook.md: `ask`, `run`, `load`, `plan`, `decide`, `report` ...

They do what the commands of these names do, and return values, which notebooks show as tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

from l4sbench.app import api
from l4sbench.app.api import Planned, RunLike, compare, decide, load, place_of, run
from l4sbench.app.finding import RUNS
from l4sbench.app.prepare import RunChoices, RunOptions, takes_choices

if TYPE_CHECKING:
    from l4sbench.app.asking import AtlasAnswer
    from reports.figures import Figure

__all__ = ["ask", "compare", "decide", "figures", "load", "plan", "report", "run"]


def ask(*words: str, atlas: str | Path | None = None) -> AtlasAnswer:
    """Return the answer of the atlas to a question, as `l4sbench ask` does: no lab is needed.

        l4sbench.ask("aqm=fq-codel", "rate=50mbit", "rtt=20ms", "against=bbr3").word

    Args:
        words: `KEY=VALUE` (`l4sbench.app.asking.AtlasQuestion.parse`), or plain words.
        atlas: Another table than the one that ships, as `tools/atlas_table.py` makes it.

    Raises:
        InputError: the question is not valid, or the table has no such queue or competitor.
    """
    from l4sbench.app.asking import Atlas

    return Atlas.load(None if atlas is None else Path(atlas)).ask(*words)


@takes_choices
def plan(matrix: str | Path, *filters: str, **choices: Unpack[RunChoices]) -> Planned:
    """Return what `run` would do with the same arguments. Nothing runs, and no host is contacted.

    Raises:
        InputError: the matrix, a filter or an option is wrong.
    """
    return api.plan_of(matrix, filters, RunOptions(**choices))


def report(
    run: RunLike,
    into: str | Path | None = None,
    *,
    rule: str | None = None,
    prevalence: str | Path | None = None,
    runs: str | Path = RUNS,
    every: bool = False,
) -> Path:
    """Write the report of a run, as the command does: documents, table `verdicts`, page. Return the page.

    Args:
        run: As for `decide`. Trials that have ended since its tables were written are taken in.
        into: Another folder for the report than `report/` of the run, which then stays as it is.
        rule: The verdict rule, instead of the matrix's.
        prevalence: A file with weights of queues and competitors for the expected regret; None: all alike.
        runs: Folder of run directories.
        every: Count former cells, which the run's matrix no longer has, too.

    Raises:
        InputError: there is no such run, rule or file, nothing to decide on, or the folder cannot be written.
    """
    from l4sbench.app.reporting import Report, regrets
    from l4sbench.app.stored import StoredRun

    place = api.find_run(place_of(run), Path(runs))
    api.catch_up(place)
    stored = StoredRun(place)
    result = stored.result(rule=rule, every=every)
    weights = None if prevalence is None else Path(prevalence)
    target = Report(stored, None if into is None else Path(into), every)
    return target.write(result, regrets(result, weights))


def figures(
    run: RunLike,
    *filters: str,
    series: Literal["none", "median", "all", "trials", "band", "columns"] = "none",
    rule: str | None = None,
    runs: str | Path = RUNS,
    every: bool = False,
    beside: Sequence[RunLike] = (),
    by: str | None = None,
    span_s: tuple[float, float] | None = None,
) -> Mapping[str, Figure]:
    """Return the figures of a run by name (docs/notebook.md); each has a `caption` and an Altair `chart`.

    With `beside` they are figures of several runs, and no others.

    Args:
        run: As for `decide`.
        filters: `FACTOR=PATTERN`, only cells of the run's matrix that match all of them.
        series: Which trials of a cell get a time series: none, the one nearest to the median, or all; or all
            trials of a cell together, as a line each (`trials`) or as a band. `columns`: no other figure than
            `columns`, of 2 to 4 cells side by side.
        rule: The verdict rule, instead of the matrix's; figures show its limits.
        runs: Folder of run directories.
        every: Draw former cells, which the run's matrix no longer has, too.
        beside: Further runs to put on one plot with this one, each as for `decide`.
        by: The factor whose values are together on a plot; None: the only one that differs besides queues and
            competitors, or the lab; `none`: no factor.
        span_s: Begin and end of a part of the trials that `series` chooses: the figures are those of their
            packets in it, and no others.

    Raises:
        InputError: there is no such run, rule or factor, two cells are in one place of a map, or the runs
            have nothing in common.
    """
    from l4sbench.app.captures import StoredCaptures
    from l4sbench.app.stored import StoredRun
    from reports.figures import figures as drawn
    from reports.figures import of_runs

    if beside:
        several = api.decide_several([run, *beside], filters, rule=rule, runs=runs, every=every)
        return {figure.name: figure for figure in of_runs(several)}
    stored = StoredRun.find(place_of(run), runs)
    result = stored.result(filters, rule=rule, every=every)
    tables = load(run, *filters, runs=runs, every=every)
    found = drawn(tables, result, series, by=by, captures=StoredCaptures(stored.path), span_s=span_s)
    return {figure.name: figure for figure in found}
