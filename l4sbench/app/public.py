# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The public interface: `run`, `load`, `plan`, `decide`, `report`, `compare`, `figures`; docs/notebook.md.

They do what the commands of these names do, and return values, which notebooks show as tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

from l4sbench.app import api
from l4sbench.app.api import Planned, RunLike, load, run
from l4sbench.app.notebook import shown
from l4sbench.app.prepare import RUNS, RunChoices, RunOptions, takes_choices

if TYPE_CHECKING:
    from reports.compare import Comparison
    from reports.figures import Figure
    from reports.result.verdicts import Decision

__all__ = ["compare", "decide", "figures", "load", "plan", "report", "run"]


@takes_choices
def plan(matrix: str | Path, *filters: str, **choices: Unpack[RunChoices]) -> Planned:
    """Return what `run` would do with the same arguments. Nothing runs, and no host is contacted.

    Raises:
        InputError: the matrix, a filter or an option is wrong.
    """
    return api.plan_of(matrix, filters, RunOptions(**choices))


def decide(
    run: RunLike, *filters: str, rule: str | None = None, runs: str | Path = RUNS, every: bool = False
) -> Decision:
    """Return the decision table of a run, from its tables alone.

    Args:
        run: The value that `run` returned, a run directory, or a matrix's name for its latest run.
        filters: `FACTOR=PATTERN`, only cells of the run's matrix that match all of them.
        rule: The verdict rule, instead of the matrix's.
        runs: Folder of run directories.
        every: Count former cells, which the run's matrix no longer has, too.

    Raises:
        InputError: there is no such run or rule, or nothing to decide on.
    """
    return api.decide(_place(run), filters, rule=rule, runs=runs, every=every)[1]


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

    place = api.find_run(_place(run), Path(runs))
    api.catch_up(place)
    stored = StoredRun(place)
    decision = stored.decide(rule=rule, every=every)
    weights = None if prevalence is None else Path(prevalence)
    target = Report(stored, None if into is None else Path(into), every)
    return target.write(decision, regrets(decision, weights))


def compare(
    base: RunLike,
    new: RunLike,
    *filters: str,
    rule: str | None = None,
    margins: str | Path | None = None,
    runs: str | Path = RUNS,
    every: bool = False,
    between: str | None = None,
) -> Comparison:
    """Compare two runs cell by cell: which got worse by more than noise.

    Args:
        base: The run to compare with: as for `decide`.
        new: The run in question.
        filters: `FACTOR=PATTERN`, only cells of the two matrices that match all of them.
        rule: The verdict rule for both, instead of that of the base's matrix.
        margins: A file with the differences that matter, instead of the default (docs/statistics.md).
        runs: Folder of run directories.
        every: Compare former cells, which the runs' matrices no longer have, too.
        between: `FACTOR=BASE,NEW`, such as `lab=default,mine`: compare cells that differ in this factor.

    Raises:
        InputError: there is no such run, rule or file, or the runs have no cell in common.
    """
    from reports.compare.render import as_html

    places = (_place(base), _place(new))
    found = api.compare(*places, filters, rule=rule, margins=margins, runs=runs, every=every, between=between)
    return shown(found, as_html)


def figures(
    run: RunLike,
    *filters: str,
    series: Literal["none", "median", "all"] = "none",
    rule: str | None = None,
    runs: str | Path = RUNS,
    every: bool = False,
    beside: Sequence[RunLike] = (),
) -> Mapping[str, Figure]:
    """Return the figures of a run by name (docs/notebook.md); each has a `caption` and an Altair `chart`.

    With `beside` they are figures of several runs, and no others.

    Args:
        run: As for `decide`.
        filters: `FACTOR=PATTERN`, only cells of the run's matrix that match all of them.
        series: Which trials of a cell get a time series: none, the one nearest to the median, or all.
        rule: The verdict rule, instead of the matrix's; figures show its limits.
        runs: Folder of run directories.
        every: Draw former cells, which the run's matrix no longer has, too.
        beside: Further runs to put on one plot with this one, each as for `decide`.

    Raises:
        InputError: there is no such run or rule, two cells are in one place of a map, or the runs have
            nothing in common.
    """
    from reports.figures import figures as drawn
    from reports.figures import of_runs

    if beside:
        places = [_place(run), *map(_place, beside)]
        several = api.decide_several(places, filters, rule=rule, runs=runs, every=every)
        return {figure.name: figure for figure in of_runs(several)}
    path, decision = api.decide(_place(run), filters, rule=rule, runs=runs, every=every)
    tables = load(path, *filters, every=every)
    return {figure.name: figure for figure in drawn(tables, decision, series)}


def _place(run: RunLike) -> str | Path:
    return run.path if isinstance(run, api.EndedRun) else run
