# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The parts put together: what the command line does, as functions.

    ended = l4sbench.run("quickstart", "aqm=fifo,dualpi2", trials=1)
    l4sbench.load(ended).flows

This is the only place that picks a testbed, collectors and reports for the engine, which knows none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from l4sbench import assets
from l4sbench.catalog.outside import CATALOG, keep_catalog, modules_outside
from l4sbench.errors import InputError, TestbedError, did_you_mean

if TYPE_CHECKING:
    from collectors.assemble import Collected
    from l4sbench.app.adaptive import Forecast
    from l4sbench.catalog import Catalog
    from l4sbench.cell import Cell
    from l4sbench.engine.loop import RunResult
    from l4sbench.errors import Problem
    from l4sbench.events import OnEvent
    from l4sbench.matrix import Matrix
    from l4sbench.planning.plan import Plan
    from l4sbench.program import Program
    from l4sbench.store import Run
    from l4sbench.topology import Topology
    from reports.compare import Comparison
    from reports.result.load import RunTables
    from reports.result.verdicts import Decision

RUNS: Final = Path("runs")
"""Where run directories are unless somebody says otherwise."""

RunLike: TypeAlias = "str | Path | Ended"


@dataclass(frozen=True)
class Ended:
    """A run that came to its end: where it stands, how its trials ended, and what the tables say.

    `decision` is None when there is nothing to decide on: the run was interrupted, or no cell has the flow
    groups that the rule compares. `problems` are raw files that could not be read.
    """

    path: Path
    result: RunResult
    decision: Decision | None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Planned:
    """A plan, and why it could not ask the testbed what it runs; empty when it could.

    `forecast`: what adaptive cells will probably get on top; None when the number of trials is fixed.
    `advice`: what would let hosts run cells that they cannot run. `problems`: what else of the hosts, as
    they told last, keeps a run from beginning.
    """

    plan: Plan
    jobs: int
    untested: str
    forecast: Forecast | None = None
    advice: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def load(run: RunLike, *filters: str, runs: str | Path = RUNS) -> RunTables:
    """The tables of a run as polars frames: `load("quickstart").flows`. docs/tables.md has all columns.

    Args:
        run: What `run` returned, a run directory, or a matrix's name for its latest run.
        filters: `FACTOR=PATTERN`, only cells of the run's matrix that match all of them.
        runs: Where run directories are.

    Raises:
        InputError: there is no such run, or it has no tables.
    """
    from reports.result.load import load as load_tables

    path = run.path if isinstance(run, Ended) else find_run(run, Path(runs))
    return load_tables(path, _cells(load_matrix(path / "matrix.yaml"), filters) if filters else None)


def run(
    matrix: str | Path,
    *filters: str,
    on: str = "virtual",
    jobs: int | None = None,
    trials: int | None = None,
    new: bool = False,
    catalog: Sequence[str | Path] = (),
    capture: bool = False,
    slices: int = 1,
    runs: str | Path = RUNS,
    on_state: Callable[[str], None] = lambda _: None,
    on_plan: Callable[[Plan], None] = lambda _: None,
    on_event: OnEvent = lambda _: None,
) -> Ended:
    """Run what of a matrix has not ended yet, make its tables, and decide.

    Args:
        matrix: A matrix file, or the name of one that ships with l4sbench.
        filters: `FACTOR=PATTERN`, only cells that match all of them.
        on: The testbed.
        jobs: Trials at a time; default: one per core.
        trials: Trials per cell, instead of what the matrix says.
        new: Begin a new run directory instead of going on with the latest.
        catalog: Folders with further queues and congestion controls.
        capture: Keep the packets of every trial.
        slices: How many slices of FABRIC share out the trials.
        runs: Where run directories are.
        on_state: Told what becomes of the testbed while it is made ready, for people.
        on_plan: Given the plan before anything runs.
        on_event: Told what happens, see `l4sbench.events`.

    Raises:
        InputError: the matrix, a filter or a folder is wrong.
        TestbedError: the testbed cannot run this. One that breaks down under way stands in the result.
    """
    from collectors.validity import judge
    from l4sbench.app.adaptive import decider
    from l4sbench.app.choose import open_testbed
    from l4sbench.engine.loop import execute
    from l4sbench.engine.testbed import Staged
    from l4sbench.planning.cost import CostBook
    from l4sbench.planning.plan import plan
    from l4sbench.store import DiskFull, locked

    loaded = load_matrix(matrix, catalog, trials).select(filters)
    enough = decider(loaded)
    testbed = open_testbed(
        on,
        loaded,
        modules_outside(loaded.catalog),
        capture=capture,
        slices=slices,
        work_s=_left_s(loaded, on, slices, None if new else Path(runs)),
        on_state=on_state,
    )
    identity = testbed.identity()
    stages, enter = (testbed.stages(), testbed.enter) if isinstance(testbed, Staged) else (None, None)
    found = _open_run(loaded, Path(runs), new=new)
    costs = CostBook.of(testbed.name, testbed.traits.cost, found.path)
    with locked(found) as writer:
        planned = plan(loaded, writer.view, identity, testbed.traits, costs.model(), stages=stages)
        _require(testbed.check(planned.needs))
        on_plan(planned)
        writer.keep_matrix(loaded.source)
        keep_catalog(found.path, loaded.catalog)
        result = execute(
            planned,
            writer,
            testbed,
            judge,
            enter=enter,
            decide=enough,
            on_event=on_event,
            jobs=jobs,
            costs=costs,
        )
        if result.interrupted or isinstance(result.error, DiskFull):
            return Ended(found.path, result, None)
        return _decided(found.path, result, loaded, _collect(found, loaded.catalog).problems)


def plan_of(
    matrix: str | Path,
    filters: Sequence[str] = (),
    *,
    on: str = "virtual",
    jobs: int | None = None,
    trials: int | None = None,
    new: bool = False,
    catalog: Sequence[str | Path] = (),
    slices: int = 1,
    runs: str | Path = RUNS,
) -> Planned:
    """What `run` would do with the same arguments; touches no host and no run directory.

    A kernel module from outside is built into the cache, as what it is built to decides what has to run.

    Raises:
        InputError: the matrix or a filter is wrong.
    """
    from l4sbench.app.adaptive import forecast
    from l4sbench.app.choose import kind_of, open_testbed, traits_of
    from l4sbench.engine.testbed import Staged
    from l4sbench.engine.work import workers
    from l4sbench.planning.cost import CostBook
    from l4sbench.planning.plan import plan
    from l4sbench.store import Run, StoreView

    loaded = load_matrix(matrix, catalog, trials).select(filters)
    latest = None if new else Run.latest(Path(runs), loaded.name)
    traits = traits_of(on, slices)
    costs = CostBook.of(kind_of(on)[0], traits.cost, latest.path if latest else None)
    testbed, identity, stages, untested = None, None, None, ""
    advice: tuple[str, ...] = ()
    try:
        modules = modules_outside(loaded.catalog)
        testbed = open_testbed(on, loaded, modules, contact=False, slices=slices)
        if isinstance(testbed, Staged):
            stages, advice = testbed.stages(), testbed.advice()
        identity = testbed.identity()
    except TestbedError as error:
        untested = str(error)
    view = latest.view() if latest else StoreView()
    planned = plan(loaded, view, identity, traits, costs.model(), stages=stages)
    known = forecast(planned, latest.path if latest else None)
    asked = identity is not None and isinstance(testbed, Staged)
    problems = tuple(testbed.check(planned.needs)) if testbed is not None and asked else ()
    return Planned(planned, workers(traits, jobs), untested, known, advice, problems)


def load_matrix(matrix: str | Path, catalog: Sequence[str | Path] = (), trials: int | None = None) -> Matrix:
    """The matrix of that file or name, expanded, with as many trials as asked for.

    Raises:
        InputError: it carries every problem of the file.
    """
    from l4sbench.matrix import Matrix, Trials

    path = find_matrix(matrix)
    folders = [Path(folder) for folder in catalog]
    if (path.parent / "manifest.json").is_file():
        # a run directory has its own copy of what the matrix took from outside
        loaded = Matrix.load(path, kept_catalog(path.parent, folders))
    else:
        loaded = Matrix.load(path, catalog_dirs=folders)
    return loaded if trials is None else replace(loaded, trials=Trials(trials, trials, None))


def programs_of(
    matrix: str | Path, filters: Sequence[str] = (), catalog: Sequence[str | Path] = ()
) -> tuple[Cell, Topology, Mapping[str, Program]]:
    """The first cell that passes the filters, with what every node does in its first trial."""
    from l4sbench.app.choose import traits_of
    from l4sbench.program import programs
    from l4sbench.program.trial import draw_conditions, seed_of
    from l4sbench.topology import topology

    loaded = load_matrix(matrix, catalog).select(filters)
    cell = loaded.cells[0]
    shape = topology(cell.topology)
    conditions = draw_conditions(cell, seed_of(loaded.seed, 1), traits_of("virtual"))
    return cell, shape, programs(cell, shape, loaded.catalog, conditions)


def export(
    matrix: str | Path,
    folder: str | Path,
    filters: Sequence[str] = (),
    *,
    on: str = "",
    catalog: Sequence[str | Path] = (),
) -> int:
    """Write a folder for running the cells' first trials by hand with Ansible; returns their number.

    With `on="ssh:INVENTORY"` the inventory is checked against the cells' topologies.

    Raises:
        InputError: the matrix, a filter, the inventory or the folder is wrong.
    """
    from l4sbench.app.choose import kind_of
    from l4sbench.testbeds.ssh.export import export as write

    inventory = Path(kind_of(on)[1]) if on.startswith("ssh") else None
    return write(Path(folder), load_matrix(matrix, catalog).select(filters), inventory)


def _left_s(matrix: Matrix, on: str, slices: int, runs: Path | None) -> float:
    """Wall seconds that one slice of FABRIC takes for what no run below `runs` has ended; 0 elsewhere."""
    from l4sbench.app.choose import kind_of, traits_of
    from l4sbench.planning.cost import CostBook
    from l4sbench.planning.plan import plan
    from l4sbench.store import Run, StoreView

    if kind_of(on)[0] != "fabric":
        return 0.0
    latest = None if runs is None else Run.latest(runs, matrix.name)
    traits = traits_of(on, slices)
    costs = CostBook.of("fabric", traits.cost, latest.path if latest else None)
    view = latest.view() if latest else StoreView()
    return plan(matrix, view, None, traits, costs.model()).work_s


def _open_run(matrix: Matrix, runs: Path, *, new: bool) -> Run:
    """The latest run of a matrix, or a new one where there is none or a new one is wanted."""
    from l4sbench.store import Run

    latest = None if new else Run.latest(runs, matrix.name)
    return latest or Run.create(runs, matrix.name, matrix.source, matrix.seed, _provenance())


def collect(run: str | Path, *, full: bool = False, runs: str | Path = RUNS) -> tuple[Path, Collected]:
    """Bring the tables of a run up to date with its ended trials; `full` parses every trial again.

    Returns the tables' folder and what was done.

    Raises:
        InputError: there is no such run, or a trial's folder is damaged.
        RunLocked: a process runs in it.
    """
    from l4sbench.store import Run, locked

    found = Run.open(find_run(run, Path(runs)))
    with locked(found):
        return found.tables, _collect(found, kept_catalog(found.path), full=full)


def decide(
    run: str | Path, filters: Sequence[str] = (), *, rule: str | None = None, runs: str | Path = RUNS
) -> tuple[Path, Decision]:
    """The run directory and its decision table, from its tables alone.

    Args:
        run: A run directory, or a matrix's name for its latest run.
        filters: `FACTOR=PATTERN`, only cells of the run's matrix that match all of them.
        rule: The verdict rule, instead of what the matrix says.
        runs: Where run directories are.

    Raises:
        InputError: there is no such run or rule, or nothing to decide on.
    """
    from l4sbench.app.adaptive import number_of_looks

    path = find_run(run, Path(runs))
    matrix = load_matrix(path / "matrix.yaml")
    cells = _cells(matrix, filters) if filters else None
    return path, _decide(path, rule or matrix.rule, cells, number_of_looks(matrix))


def compare(
    base: str | Path,
    new: str | Path,
    filters: Sequence[str] = (),
    *,
    rule: str | None = None,
    margins: str | Path | None = None,
    runs: str | Path = RUNS,
) -> Comparison:
    """Two runs cell by cell, from their tables alone.

    Args:
        base: The run that is held to be good: a run directory, or a matrix's name for its latest run.
        new: The run in question, likewise.
        filters: `FACTOR=PATTERN`, only cells of the two matrices that match all of them.
        rule: The verdict rule for both, instead of what the base's matrix says.
        margins: A file that says what differences matter, instead of the default.
        runs: Where run directories are.

    Raises:
        InputError: there is no such run, rule or file, or the runs have no cell in common.
    """
    from l4sbench.app.adaptive import number_of_looks
    from reports.compare import compare as compare_tables
    from reports.compare import load_margins
    from reports.result.load import load as load_tables
    from reports.result.rules import load_rule

    paths = [find_run(run, Path(runs)) for run in (base, new)]
    matrices = [load_matrix(path / "matrix.yaml") for path in paths]
    chosen = [
        frozenset(cell.id for cell in matrix.select(filters).cells) if filters else None
        for matrix in matrices
    ]
    tables = [load_tables(path, cells) for path, cells in zip(paths, chosen, strict=True)]
    return compare_tables(
        *tables,
        names=(str(base), str(new)),
        margins=load_margins(Path(margins)) if margins else load_margins(),
        rule=load_rule(rule or matrices[0].rule),
        looks=(number_of_looks(matrices[0]), number_of_looks(matrices[1])),
    )


def kept_catalog(run: Path, more: Sequence[Path] = ()) -> Catalog:
    """The catalog as a run directory's matrix needs it: ours, and the copies of entries from outside."""
    from l4sbench.catalog import Catalog

    kept = run / CATALOG
    return Catalog.load([*([kept] if kept.is_dir() else []), *more])


def find_matrix(matrix: str | Path) -> Path:
    """The file that a matrix is named by: a path, or the name of a matrix that ships with l4sbench.

    Raises:
        InputError: there is no such file.
    """
    path = Path(matrix)
    if path.is_file():
        return path
    shipped = {file.stem: file for file in sorted(assets.folder("matrices").glob("*.yaml"))}
    if str(matrix) in shipped:
        return shipped[str(matrix)]
    raise InputError(
        f"there is no matrix {matrix}",
        did_you_mean(str(matrix), shipped) or f"shipped ones are {', '.join(shipped)}; the rest are paths",
    )


def find_run(run: str | Path, runs: Path = RUNS) -> Path:
    """The run directory that a run is named by: its path, or a matrix's name for its latest run below `runs`.

    Raises:
        InputError: there is no such run.
    """
    for path in (Path(run), Path(run, "latest"), runs / run, runs / run / "latest"):
        if (path / "manifest.json").is_file():
            return path.resolve()
    there = sorted(path.parent.name for path in runs.glob("*/latest"))
    known = f"below {runs} there are {', '.join(there)}" if there else f"there are none below {runs}"
    raise InputError(f"there is no run {run}", did_you_mean(str(run), there) or known)


def _collect(run: Run, catalog: Catalog, *, full: bool = False) -> Collected:
    from collectors.assemble import collect as assemble

    return assemble(run, catalog, full=full)


def _decide(path: Path, rule: str, cells: frozenset[str] | None = None, looks: int = 1) -> Decision:
    from reports.result.load import load as load_tables
    from reports.result.rules import load_rule
    from reports.result.verdicts import decide as verdicts_of

    return verdicts_of(load_tables(path, cells), load_rule(rule), looks)


def _decided(path: Path, result: RunResult, matrix: Matrix, problems: tuple[str, ...]) -> Ended:
    """A run that came to its end, with the decision from its tables where there is one."""
    from l4sbench.app.adaptive import number_of_looks

    try:
        decision = _decide(path, matrix.rule, looks=number_of_looks(matrix))
    except InputError as error:
        return Ended(path, result, None, (*problems, str(error)))
    return Ended(path, result, decision, problems)


def _require(problems: Sequence[Problem]) -> None:
    """Raises TestbedError with all that keeps a testbed from running a plan."""
    if problems:
        raise TestbedError("\n".join(str(problem) for problem in problems))


def _cells(matrix: Matrix, filters: Sequence[str]) -> frozenset[str]:
    """Ids of the cells that pass the filters."""
    return frozenset(cell.id for cell in matrix.select(filters).cells)


def _provenance() -> dict[str, str]:
    """What the manifest keeps about the code that ran, as far as it can be known."""
    import subprocess

    checkout = assets.root()
    if not (checkout / ".git").exists():
        return {}
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
        return {}
    return {"git": described.stdout.strip()}
