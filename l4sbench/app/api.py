# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The commands as functions.

    ended = l4sbench.run("quickstart", "aqm=fifo,dualpi2", trials=1)
    l4sbench.load(ended).flows

Only this package picks a testbed, collectors and reports for the engine, which knows none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, Unpack

from l4sbench.app.finding import RUNS, find_matrix, find_run, kept_catalog, load_matrix
from l4sbench.app.notebook import listener, shown
from l4sbench.app.path import path_of, require_path
from l4sbench.app.plans import as_html
from l4sbench.app.prepare import (
    Prepared,
    RunChoices,
    RunOptions,
    prepare,
    require_possible,
    takes_choices,
    trusted,
)
from l4sbench.app.reading import copy_description, reading, writable, writing
from l4sbench.app.rules import find_rule
from l4sbench.app.stored import StoredRun
from l4sbench.catalog.outside import keep_catalog
from l4sbench.disk import assets
from l4sbench.errors import InputError, TestbedError
from l4sbench.printable import html_text

if TYPE_CHECKING:
    from collectors.assemble import Collected
    from l4sbench.app.adaptive import Forecast
    from l4sbench.engine.loop import RunResult
    from l4sbench.engine.testbed import Testbed
    from l4sbench.errors import Problem
    from l4sbench.facts.cell import Cell
    from l4sbench.facts.events import OnEvent
    from l4sbench.planning.plan import Plan
    from l4sbench.program import Program
    from l4sbench.topology import Topology
    from reports.compare import Comparison
    from reports.result.load import RunTables
    from reports.result.measured import Measurements
    from reports.result.verdicts import Decision

__all__ = [
    "CaughtUp",
    "EndedRun",
    "Planned",
    "RunOptions",
    "catch_up",
    "collect",
    "compare",
    "decide",
    "decide_several",
    "export",
    "find_matrix",
    "find_run",
    "load",
    "load_matrix",
    "place_of",
    "plan_of",
    "prepare",
    "programs_of",
    "run",
    "run_prepared",
]

RunLike: TypeAlias = "str | Path | EndedRun"


@dataclass(frozen=True)
class EndedRun:
    """A run that has ended.

    Attributes:
        path: The run directory.
        result: How the trials ended.
        decision: From the tables; None when the run was interrupted, or when its matrix has no verdicts.
        problems: Raw files that could not be read.
        measured: What cells got, where the matrix has no verdicts.
    """

    path: Path
    result: RunResult
    decision: Decision | None
    problems: tuple[str, ...] = ()
    measured: Measurements | None = None

    def __repr__(self) -> str:
        return f"<EndedRun {self.path}: {self._counts()}>"

    def _repr_html_(self) -> str:
        """Return the decision table, or what cells got, for a notebook, and how the trials ended."""
        warnings = html_text(*(f"warning: {problem}" for problem in self.problems))
        from reports.render.notebook import decision_html, measured_html

        ended = f"{self.path}: {self._counts()}"
        if self.decision is not None:
            return decision_html(self.decision) + html_text(ended) + warnings
        if self.measured is not None:
            return measured_html(self.measured) + html_text(ended) + warnings
        why = "interrupted; the same call resumes it" if self.result.interrupted else "no verdicts"
        return html_text(f"{ended}; {why}") + warnings

    def _counts(self) -> str:
        result = self.result
        counts = {"ok": result.ok, "invalid": result.invalid, "failed": result.failed, "not run": result.left}
        return ", ".join(f"{number} {word}" for word, number in counts.items() if number) or "nothing to run"


@dataclass(frozen=True)
class Planned:
    """A plan, with everything that `l4sbench plan` prints beside it.

    Attributes:
        plan: The plan.
        jobs: Number of trials that would run at once.
        untested: Why the testbed's software is unknown; empty when it is known.
        forecast: Trials that adaptive cells will probably get in addition; None when the number is fixed.
        advice: Changes that would let hosts run cells that they cannot run now.
        problems: What else prevents a run: on hosts as last recorded, in the lab's kernel.
        untrusted: Catalog entries with code that the user does not trust yet, which prevents a run, too.
        unbuilt: Kernel modules that `run` builds first; until then trials that load them are pending.
        installs: What a run installs on hosts, in words.
    """

    plan: Plan
    jobs: int
    untested: str
    forecast: Forecast | None = None
    advice: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    untrusted: tuple[Problem, ...] = ()
    unbuilt: tuple[str, ...] = ()
    installs: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Planned {self.plan!r}>"

    def _repr_html_(self) -> str:
        """Return the plan for a notebook, and what prevents it."""
        stops = [f"warning: {problem}" for problem in (*self.untrusted, *self.problems)]
        notes = [f"note: {self.untested}"] if self.untested else []
        return as_html(self.plan, self.jobs) + html_text(*stops, *notes)


def load(run: RunLike, *filters: str, runs: str | Path = RUNS, every: bool = False) -> RunTables:
    """Load the tables of a run as polars frames: `load("quickstart").flows`. docs/tables.md has all columns.

    Args:
        run: The value that `run` returned, a run directory, or a matrix's name for its latest run.
        filters: `FACTOR=PATTERN`, only cells of the run's matrix that match all of them.
        runs: Folder of run directories.
        every: Also the rows of former cells, which the run's matrix no longer has.

    Raises:
        InputError: there is no such run, or it has no tables.
    """
    from reports.render.notebook import tables_html

    found = StoredRun(run.path) if isinstance(run, EndedRun) else StoredRun.find(run, runs)
    return shown(found.tables(filters, every=every), tables_html)


@takes_choices
def run(
    matrix: str | Path,
    *filters: str,
    on_state: Callable[[str], None] = lambda _: None,
    on_plan: Callable[[Plan], None] = lambda _: None,
    on_event: OnEvent | None = None,
    **choices: Unpack[RunChoices],
) -> EndedRun:
    """Run the trials of a matrix that have not ended yet, write the tables, and decide.

    Args:
        matrix: A matrix file, or the name of one that ships with l4sbench.
        filters: `FACTOR=PATTERN`, only cells that match all of them.
        on_state: Called with the state of the testbed while it is prepared, in words.
        on_plan: Called with the plan before anything runs.
        on_event: Called with every event of the run (`l4sbench.facts.events`); default: a bar in a notebook.
        choices: The fields of `l4sbench.app.prepare.RunOptions`.

    Raises:
        InputError: the matrix, a filter or a folder is wrong, or a cell needs code that is not trusted yet.
        TestbedError: the testbed cannot run this matrix. If it breaks during the run, the error is in the
            result instead.
    """
    told = listener() if on_event is None else on_event
    options = RunOptions(**choices)
    prepared = prepare(matrix, filters, options, path_of(matrix, filters, options, on_state))
    return run_prepared(prepared, on_state=on_state, on_plan=on_plan, on_event=told)


def run_prepared(
    prepared: Prepared,
    *,
    on_state: Callable[[str], None] = lambda _: None,
    on_plan: Callable[[Plan], None] = lambda _: None,
    on_event: OnEvent = lambda _: None,
) -> EndedRun:
    """Do as `run` does, with a matrix that is read already."""
    from l4sbench.testbeds.staged import Staged

    if prepared.settled.consented:
        on_state(f"trusted from now on: the code of {', '.join(prepared.settled.consented)}")
    testbed = prepared.open_testbed(on_state=on_state)
    try:
        return _run_on(testbed, prepared, on_plan, on_event)
    finally:  # in a notebook a traceback keeps the testbed, and so what it has locked
        if isinstance(testbed, Staged):
            testbed.release()


def _run_on(
    testbed: Testbed, prepared: Prepared, on_plan: Callable[[Plan], None], on_event: OnEvent
) -> EndedRun:
    from collectors.assemble import collect as assemble
    from collectors.validity import judge
    from l4sbench.app.adaptive import decider
    from l4sbench.app.stages import execute_stages
    from l4sbench.engine.control import Teller
    from l4sbench.engine.loop import Order, execute
    from l4sbench.facts import events
    from l4sbench.store import DiskFull, Run, RunMoved, locked
    from l4sbench.store.files import room
    from l4sbench.testbeds.staged import Staged

    options = prepared.options
    loaded = prepared.matrix
    enough = decider(loaded, prepared.rule)
    identity = testbed.identity()
    staged = testbed if isinstance(testbed, Staged) else None
    stages = staged.stages() if staged else None
    # a new run directory is made only now, so that a testbed that cannot be used leaves none behind
    runs = Path(options.runs)
    made = _provenance(quick=options.quick)
    found = prepared.latest or Run.create(runs, loaded.name, loaded.source, loaded.seed, made)
    with locked(found) as writer:
        writer.retry(options.retry)
        plan = prepared.plan(identity, stages, writer.view)
        missing = testbed.check(plan.needs)
        if missing:
            raise TestbedError("\n".join(str(problem) for problem in missing))
        on_plan(plan)
        writer.keep_matrix(loaded.source)
        keep_catalog(found.path, loaded.catalog)
        costs = prepared.costs(found)
        tell = Teller(on_event)
        order = Order(plan, writer, testbed, judge, enough, on_event, options.jobs, costs)
        result = execute_stages(order, staged.enter) if staged else execute(order)
        if result.interrupted or isinstance(result.error, DiskFull | RunMoved):
            return EndedRun(found.path, result, None)
        writer.check_place()
        with room(found.path), reading(found.path):
            collected = assemble(
                found, loaded.catalog, on_trial=lambda parsed: tell(events.TrialParsed, parsed)
            )
            problems = collected.problems
            stored = StoredRun(found.path, prepared.whole)
            try:
                if prepared.rule is None:
                    return EndedRun(found.path, result, None, problems, stored.measure())
                decision = stored.decide(rule=prepared.rule)
                return EndedRun(found.path, result, decision, problems)
            except InputError as error:
                return EndedRun(found.path, result, None, (*problems, str(error)))


def plan_of(
    matrix: str | Path,
    filters: Sequence[str] = (),
    options: RunOptions = RunOptions(),  # noqa: B008  (a frozen value)
) -> Planned:
    """Plan what `run` would do with the same arguments; touches no host and no run directory, builds nothing.

    A kernel module from outside decides which trials have to run. Until `run` has built it, all trials of
    cells that use it are pending.

    Raises:
        InputError: the matrix, a filter or an option is wrong.
    """
    from l4sbench.app.adaptive import forecast
    from l4sbench.testbeds.staged import Staged

    require_path(matrix, filters, options)
    prepared = prepare(matrix, filters, options)
    testbed, identity, stages, untested = None, None, None, ""
    advice: tuple[str, ...] = ()
    installs: tuple[str, ...] = ()
    try:
        testbed = prepared.open_testbed(contact=False)
        if isinstance(testbed, Staged):
            installs = testbed.installs()
            stages, advice = testbed.stages(), testbed.advice()
        identity = testbed.identity()
    except TestbedError as error:
        untested = str(error)
    plan = prepared.plan(identity, stages)
    unbuilt: set[str] = set()
    if identity is not None and identity.testbed == "virtual":
        unbuilt = prepared.settled.modules.keys() - identity.modules.keys()
    return Planned(
        shown(plan, as_html),
        prepared.traits.workers(options.jobs),
        untested,
        forecast(plan, prepared.rule, prepared.latest.path if prepared.latest else None),
        advice,
        tuple(testbed.check(plan.needs)) if testbed and identity else (),
        prepared.settled.untrusted,
        tuple(sorted(unbuilt)),
        installs,
    )


def programs_of(
    matrix: str | Path, filters: Sequence[str] = (), catalog: Sequence[str | Path] = ()
) -> tuple[Cell, Topology, Mapping[str, Program]]:
    """Return the first cell that passes the filters, its topology, and the programs of its first trial.

    The programs are those for the virtual testbed.
    """
    from l4sbench.program import programs
    from l4sbench.program.trial import draw_conditions, seed_of
    from l4sbench.testbeds.virtual.traits import TRAITS

    loaded = load_matrix(matrix, catalog).select(filters)
    cell = loaded.cells[0]
    shape = loaded.catalog.topology(cell.topology)
    conditions = draw_conditions(cell, seed_of(loaded.seed, 1), TRAITS)
    return cell, shape.of_family(cell.family), programs(cell, shape, loaded.catalog, conditions)


def export(
    matrix: str | Path,
    folder: str | Path,
    filters: Sequence[str] = (),
    options: RunOptions = RunOptions(),  # noqa: B008  (a frozen value)
) -> int:
    """Write a folder for running the cells' first trials by hand with Ansible; returns their number.

    An inventory, `on="ssh:INVENTORY"`, is checked against the cells' topologies. Hosts will build the code
    that catalog entries from outside bring, so that it must be trusted.

    Raises:
        InputError: the matrix, a filter, the inventory or the folder is wrong, hosts cannot run the cells,
            there are too many of them for an export, or hosts would build code that is not trusted yet.
    """
    from l4sbench.testbeds.ssh import TRAITS
    from l4sbench.testbeds.ssh.export import export as write

    inventory = Path(options.testbed.place) if options.on.startswith("ssh") else None
    loaded = load_matrix(matrix, options.catalog, quick=options.quick, changes=options.changes).select(
        filters
    )
    require_possible(loaded, TRAITS)
    return write(Path(folder), trusted(loaded, consent=options.trust), inventory)


def collect(
    run: str | Path, *, full: bool = False, into: str | Path | None = None, runs: str | Path = RUNS
) -> tuple[Path, Collected]:
    """Update the tables of a run with its ended trials; `full` parses every trial again.

    With `into`, the run stays as it is: the tables, its manifest, its matrix and its catalog are written into
    that folder, from which reports can be made.

    Returns the tables' folder and a summary of the update.

    Raises:
        InputError: there is no such run, a trial's folder is damaged, or a folder cannot be written.
        RunLocked: another process writes into the run.
    """
    from collectors.assemble import collect as assemble
    from l4sbench.store import Run, locked, steady

    found = Run.open(find_run(run, Path(runs)))
    hint = "`l4sbench collect -o DIR` writes tables elsewhere"
    if into is None:
        with writing(found.path, hint), locked(found), steady(found.path):
            return found.tables, assemble(found, kept_catalog(found.path), full=full)
    with writing(Path(into), "choose another folder"):
        copy = Run(copy_description(found.path, Path(into)))
        with locked(copy), steady(copy.path):
            return copy.tables, assemble(found, kept_catalog(found.path), full=full, folder=copy.tables)


@dataclass(frozen=True)
class CaughtUp:
    """Trials that `catch_up` took into the tables, and raw files of them that could not be read."""

    trials: int = 0
    problems: tuple[str, ...] = ()


def catch_up(run: str | Path, *, runs: str | Path = RUNS) -> CaughtUp:
    """Take trials that have ended since into the tables of a run, also while it goes on.

    Where there is nothing to add, or the run directory cannot be written, nothing happens. Damaged tables
    stay as they are: `collect` writes them again.

    Raises:
        InputError: there is no such run, or a table or a trial's folder is damaged.
        RunLocked: another process writes the tables or the report for long.
    """
    from collectors.assemble import behind
    from collectors.assemble import collect as assemble
    from l4sbench.store import Run

    path = find_run(run, Path(runs))
    found = Run(path)
    if not writable(path):
        return CaughtUp()
    with reading(path):
        if not behind(found):
            return CaughtUp()
        collected = assemble(found, kept_catalog(path), mend=False)
        return CaughtUp(collected.parsed, collected.problems)


def place_of(run: RunLike) -> str | Path:
    """Return what a run is found by: its directory, or a matrix's name for its latest run."""
    return run.path if isinstance(run, EndedRun) else run


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
    return StoredRun.find(place_of(run), runs).decide(filters, rule=rule, every=every)


def decide_several(
    wanted: Sequence[RunLike],
    filters: Sequence[str] = (),
    *,
    rule: str | None = None,
    runs: str | Path = RUNS,
    every: bool = False,
) -> list[tuple[str, Decision]]:
    """Return the decisions of several runs with names: the matrices' where these differ, else with the times.

    Raises:
        InputError: a run is there twice, or as for `decide`.
    """
    found = [find_run(place_of(one), Path(runs)).resolve() for one in wanted]
    if len(set(found)) < len(found):
        raise InputError("a run cannot be drawn beside itself", "name another run")
    plain = len({path.parent.name for path in found}) == len(found)
    with reading(*found):
        return [
            (
                path.parent.name if plain else f"{path.parent.name}/{path.name}",
                decide(path, *filters, rule=rule, every=every),
            )
            for path in found
        ]


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
    """Compare two runs, or two halves of one, cell by cell, from their tables alone: which got worse.

    Args:
        base: The run to compare with: as for `decide`.
        new: The run in question.
        filters: `FACTOR=PATTERN`, only cells of the two matrices that match all of them.
        rule: The verdict rule for both, instead of that of the base's matrix. Without one there are no
            verdicts, and all numbers side by side.
        margins: A file with the differences that matter, instead of the default (docs/statistics.md).
        runs: Folder of run directories.
        every: Compare former cells, which the runs' matrices no longer have, too.
        between: `FACTOR=BASE,NEW`: compare the cells in which the factor has the first value with those that
            are the same but for the second, such as `lab=default,mine`.

    Raises:
        InputError: there is no such run, rule or file, or the runs have no cell in common.
    """
    from l4sbench.app.halves import sides
    from reports.compare import compare as compare_tables
    from reports.compare import load_margins
    from reports.compare.render import as_html as comparison_html
    from reports.result.load import load as load_tables

    found = [StoredRun.find(place_of(one), runs) for one in (base, new)]
    matrices = [one.matrix for one in found]
    names = _called(found[0].path, Path(runs)), _called(found[1].path, Path(runs))
    with reading(*(one.path for one in found)):
        if between is not None:
            halves = sides(between, matrices[0], matrices[1], filters)
            tables = [
                replace(load_tables(one.path, half.cells), ids=half.ids)
                for one, half in zip(found, halves, strict=True)
            ]
            names = (f"{names[0]} {halves[0].label}", f"{names[1]} {halves[1].label}")
        else:
            tables = [one.tables(filters, every=every) for one in found]
        compared = compare_tables(
            *tables,
            names=names,
            margins=load_margins(Path(margins)) if margins else load_margins(),
            rule=find_rule(matrices[0], rule),
            looks=(found[0].looks(every=every), found[1].looks(every=every)),
        )
        return shown(compared, comparison_html)


def _called(run: Path, runs: Path) -> str:
    """Return the path of a run as the user writes it, if it is below the folder of run directories."""
    home = runs.resolve()
    return str(runs / run.relative_to(home) if run.is_relative_to(home) else run)


def _provenance(*, quick: bool) -> dict[str, str]:
    """Return facts for the manifest: the matrix's variant and, in a checkout, `git describe`."""
    import subprocess

    from l4sbench.store.run import QUICK

    known = {"variant": QUICK} if quick else {}
    checkout = assets.root()
    if not (checkout / ".git").exists():
        return known
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--tags"],
            cwd=checkout,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return known
    return {"git": described.stdout.strip(), **known}
