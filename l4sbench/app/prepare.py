# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The options of a run, and what `run`, `plan` and the estimate for leases all start from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import Parameter, cleandoc, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict, TypeVar

from l4sbench.app.finding import RUNS, find_matrix, load_matrix
from l4sbench.catalog.outside import settle, settle_executables, settle_senders
from l4sbench.disk.userfiles import is_file
from l4sbench.errors import InputError, Problem, did_you_mean
from l4sbench.facts.factors import DEFAULT_LAB, MAX_TRIALS
from l4sbench.text.units import Duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from l4sbench.catalog.outside import Settled
    from l4sbench.engine.testbed import Testbed
    from l4sbench.facts.traits import Identity, Stages, TestbedTraits
    from l4sbench.matrix import Matrix, Trials
    from l4sbench.planning.cost import CostBook
    from l4sbench.planning.plan import Plan
    from l4sbench.store import Run, StoreView
    from reports.result.rules import Rule

_Function = TypeVar("_Function", bound="Callable[..., object]")

_IN_LABS: Final = ("virtual", "dask")
REAL: Final = ("ssh", "fabric")
"""Testbeds whose paths may have a delay of their own."""
TESTBEDS: Final = ("virtual", "ssh", "fabric", "dask")


class TestbedPlace(NamedTuple):
    """A kind of testbed, and what follows the colon: the address of a cluster, an inventory, a slice."""

    kind: str
    place: str


@dataclass(frozen=True)
class RunOptions:
    """Choices for a run that its matrix does not make.

    Attributes:
        on: The testbed: `virtual`, `dask:ADDRESS`, `ssh:INVENTORY` or `fabric[:SLICE]`.
        jobs: Number of trials that run at once; None: as many as the testbed has places, or one per core.
        trials: Trials per cell, instead of the matrix's number.
        new: Start a new run directory instead of resuming the latest.
        catalog: Folders with further queues and congestion controls.
        capture: Capture the packets of every trial; those that ended without captures run again.
        slices: Number of FABRIC slices that share the trials.
        runs: Folder of run directories.
        trust: Trust the code that catalog entries from outside bring, as far as the cells use them: it is
            built and loaded, now and in later runs (docs/security.md).
        retry: Kinds of ended trials that run again: `failed` (however often they failed), `invalid`.
        sure: Add trials to the cells in doubt until their verdicts are sure, instead of the matrix's number,
            up to `trials` or 10 each.
        lab: Lab for cells that do not set `lab`, for the virtual testbed, also on a cluster.
        quick: Run the matrix's quick variant, which has a run directory of its own.
        changes: `KEY=VALUE` as a matrix states it, which take the place of what the matrix states; the run
            has a name of its own.
    """

    on: str = "virtual"
    jobs: int | None = None
    trials: int | None = None
    new: bool = False
    catalog: Sequence[str | Path] = ()
    capture: bool = False
    slices: int = 1
    runs: str | Path = RUNS
    trust: bool = False
    retry: Sequence[str] = ()
    sure: bool = False
    lab: str = DEFAULT_LAB
    quick: bool = False
    changes: Sequence[str] = ()

    @cached_property
    def testbed(self) -> TestbedPlace:
        """The testbed that `on` names.

        Raises:
            InputError: no such testbed, or its name lacks a part or has one too many.
        """
        kind, colon, place = self.on.partition(":")
        if kind not in TESTBEDS:
            hint = did_you_mean(kind, TESTBEDS)
            raise InputError(f"{self.on} is not a valid testbed; choose from {', '.join(TESTBEDS)}", hint)
        if kind == "ssh" and not place:
            hint = "--on ssh:hosts.yml (l4sbench docs ssh; `l4sbench lab up` prints one)"
            raise InputError("ssh needs an inventory", hint)
        if kind == "dask":
            from l4sbench.testbeds.dask.address import check_address

            check_address(place)
        if kind == "virtual" and colon:
            raise InputError(f"virtual takes nothing after its name, not {place!r}", "--on virtual")
        if self.slices > 1 and kind != "fabric":
            raise InputError(f"{kind} has no slices", "use --slices with --on fabric")
        if self.lab != DEFAULT_LAB and kind not in _IN_LABS:
            raise InputError(f"{kind} has no labs", f"use --lab with --on {' or '.join(_IN_LABS)}")
        return TestbedPlace(kind, place)


class RunChoices(TypedDict, total=False):
    """The types of the fields of `RunOptions`, for functions that take them as keywords."""

    on: str
    jobs: int | None
    trials: int | None
    new: bool
    catalog: Sequence[str | Path]
    capture: bool
    slices: int
    runs: str | Path
    trust: bool
    retry: Sequence[str]
    sure: bool
    lab: str
    quick: bool
    changes: Sequence[str]


def takes_choices(function: _Function) -> _Function:
    """Show in the help of a function, whose last parameter is `RunChoices`, what they are and mean."""
    shown: Any = function
    *own, _ = signature(function).parameters.values()
    named = (one.replace(kind=Parameter.KEYWORD_ONLY) for one in signature(RunOptions).parameters.values())
    shown.__signature__ = signature(function).replace(parameters=[*own, *named])
    shown.__doc__ = f"{cleandoc(function.__doc__ or '')}\n\n{cleandoc(RunOptions.__doc__ or '')}"
    return function


@dataclass(frozen=True)
class Prepared:
    """A matrix with its options, and what they lead to.

    Attributes:
        matrix: With the cells that pass the filters; its catalog has the trusted copies of code from outside.
        options: The options.
        latest: The run that goes on: the latest, or that of the matrix's copy in a run directory; None where
            a new one begins.
        traits: The testbed's traits.
        settled: Which code from outside the cells use, and what of it the user trusts.
        rule: How verdicts are made; None for a matrix without verdicts.
        whole: The matrix as the run directory stores it: all its cells, and its own number of trials.
    """

    matrix: Matrix
    options: RunOptions
    latest: Run | None
    traits: TestbedTraits
    settled: Settled
    rule: Rule | None
    whole: Matrix

    def require_trust(self) -> None:
        """Raise InputError if the cells use code from outside that the user does not trust yet."""
        if self.settled.untrusted:
            raise InputError(self.settled.untrusted)

    def costs(self, run: Run | None) -> CostBook:
        """Return the measured costs of the testbed that `run` and this user know."""
        from l4sbench.planning.cost import CostBook

        return CostBook.of(self.options.testbed.kind, self.traits, run.path if run else None)

    def plan(
        self, identity: Identity | None = None, stages: Stages | None = None, view: StoreView | None = None
    ) -> Plan:
        """Return the plan, by default for an unknown testbed and the latest run as it is on disk."""
        from l4sbench.planning.plan import plan
        from l4sbench.store import StoreView

        if view is None:
            view = self.latest.to_retry(self.options.retry) if self.latest else StoreView()
        costs = self.costs(self.latest).costs(self.traits.workers(self.options.jobs))
        capture = self.options.capture
        return plan(self.matrix, view, identity, self.traits, costs, stages, capture=capture)

    def open_testbed(
        self, *, contact: bool = True, on_state: Callable[[str], None] = lambda _: None
    ) -> Testbed:
        """Open the testbed.

        Args:
            contact: Connect to hosts, and build what the cells need; otherwise what is recorded counts.
            on_state: Called with the state of slices or of a cluster, in words.

        Raises:
            InputError: the inventory or the slice is wrong, or code would be built that is not trusted.
            TestbedError: the lab is not built, or Ansible or fablib is missing.
        """
        kind, place = self.options.testbed
        if contact:
            self.require_trust()
            if kind not in _IN_LABS:  # else only where there is a lab: a build takes long
                self._build_senders(on_state)
        if kind == "fabric":
            from l4sbench.testbeds.fabric import FabricTestbed

            return FabricTestbed(
                place,
                self.matrix,
                slices=self.options.slices,
                contact=contact,
                work_s=self.plan().work_s if contact else 0.0,
                on_state=on_state,
            )
        if kind == "ssh":
            from l4sbench.testbeds.ssh import SshTestbed
            from l4sbench.testbeds.ssh.inventory import require_inventory

            require_inventory(Path(place))  # what is missing is reported before Ansible, which may be, too
            catalog, cells = self.matrix.catalog, self.matrix.cells
            return SshTestbed(Path(place), catalog, cells, contact=contact)
        return self._open_labs(kind, place, contact=contact, on_state=on_state)

    def _build_senders(self, on_state: Callable[[str], None]) -> None:
        """Build the programs of the senders that the cells use and that are not built."""
        from l4sbench.planning.inputs import senders_used
        from l4sbench.testbeds.senders import build

        for name in sorted(senders_used(self.matrix.cells)):
            if not (sender := self.matrix.catalog.sender(name)).program.is_built:
                on_state(f"building sender {name}")
                build(sender)

    def _open_labs(self, kind: str, place: str, *, contact: bool, on_state: Callable[[str], None]) -> Testbed:
        """Open the virtual testbed with the labs that the cells name, here or on a cluster."""
        from l4sbench.planning.inputs import needs
        from l4sbench.testbeds.virtual.lab import Lab, with_built_modules, with_modules
        from l4sbench.testbeds.virtual.testbed import VirtualTestbed

        catalog, modules = self.matrix.catalog, self.settled.modules
        wanted = needs(catalog, self.matrix.cells, self.traits)
        options = frozenset[str]().union(*wanted.options.values())
        lab = Lab.locate(needs=options, name=self.options.lab)
        labs = {name: Lab.locate(needs=options, name=name) for name in sorted(wanted.labs)}
        if contact:
            self._build_senders(on_state)
        if contact and kind == "dask":
            from l4sbench.testbeds.dask.guests import DaskGuests

            if labs and (len(labs) > 1 or any(cell.lab == DEFAULT_LAB for cell in self.matrix.cells)):
                hint = f"run the cells of one after the other: lab={DEFAULT_LAB}, lab={min(labs)}"
                raise InputError("a cluster runs the trials of one lab at a time", hint)
            whole = with_modules(next(iter(labs.values()), lab), modules)
            return VirtualTestbed(whole, catalog, guests=DaskGuests(place, whole, on_state))
        if contact:
            whole_labs = {name: with_modules(one, modules) for name, one in labs.items()}
            return VirtualTestbed(with_modules(lab, modules), catalog, labs=whole_labs)
        folders = {**dict.fromkeys(self.settled.refused), **modules}
        known = with_built_modules(lab, folders)
        known_labs = {name: with_built_modules(one, folders) for name, one in labs.items()}
        unbuilt = {*modules, *self.settled.refused} - known.modules.keys()
        return VirtualTestbed(known, catalog, frozenset(unbuilt), labs=known_labs)


def prepare(
    matrix: str | Path, filters: Sequence[str], options: RunOptions, path_rtt: Duration | None = None
) -> Prepared:
    """Load what a run of the matrix needs; touches no host.

    `path_rtt` is the round-trip time of the path that `rtt: measured` means; None: that of the run that
    goes on.

    Raises:
        InputError: the matrix, its rule, a filter or an option is wrong; it carries every problem of the
            matrix.
    """
    from l4sbench.app.rules import find_rule
    from l4sbench.matrix import Trials

    trials = options.trials
    if trials is not None and not 1 <= trials <= MAX_TRIALS:
        raise InputError(f"{trials} trials are out of range; choose from 1 to {MAX_TRIALS}")
    change = until_decided(trials) if options.sure else None
    if path_rtt is None and options.testbed.kind in REAL and wants_path(matrix, options):
        path_rtt = run_path(matrix, options)
    whole = load_matrix(
        matrix, options.catalog, change, quick=options.quick, changes=options.changes, path_rtt=path_rtt
    )
    loaded = whole.select(filters)
    if trials is not None and not options.sure:
        loaded = replace(loaded, trials=Trials(trials, trials, None))
    rule = find_rule(loaded)
    if rule is None and loaded.trials.until is not None:
        raise InputError(
            [
                Problem(
                    loaded.places.get("trials", ""),
                    "trials",
                    "are added until the verdict is decided, and the matrix has no verdicts",
                    f"write trials: {loaded.trials.max}",
                )
            ]
        )
    traits = _traits(options)
    require_possible(loaded, traits)
    settled = _settled(loaded, traits, consent=options.trust)
    latest = None if options.new else _latest(matrix, loaded.name, options)
    return Prepared(replace(loaded, catalog=settled.catalog), options, latest, traits, settled, rule, whole)


def wants_path(matrix: str | Path, options: RunOptions) -> bool:
    """Return True if a matrix states `rtt: measured`.

    Raises:
        InputError: the matrix cannot be read.
    """
    from l4sbench.matrix import Matrix

    return Matrix.wants_path(find_matrix(matrix), quick=options.quick, changes=options.changes)


def run_path(matrix: str | Path, options: RunOptions) -> Duration | None:
    """Return the path's own round-trip time that the run has that would go on; None before there is one.

    Raises:
        InputError: the matrix is wrong.
    """
    if options.new:
        return None
    assumed = Duration(10**9)  # the name of the run does not depend on it
    changes = options.changes
    name = load_matrix(matrix, options.catalog, quick=options.quick, changes=changes, path_rtt=assumed).name
    if (latest := _latest(matrix, name, options)) is None:
        return None
    cells = load_matrix(latest.path / "matrix.yaml").cells
    return next((cell.rtt for cell in cells if cell.has_own_delay), None)


def require_possible(matrix: Matrix, traits: TestbedTraits) -> None:
    """Raise InputError if a testbed with these traits cannot run the cells, whatever its hosts are."""
    from l4sbench.planning.inputs import impossible

    places = matrix.factor_places
    if found := impossible(matrix.cells, traits):
        raise InputError([replace(one, where=places.get(one.path, "")) for one in found])


def _latest(matrix: str | Path, name: str, options: RunOptions) -> Run | None:
    """Return the run that a further `run` of a matrix resumes; None before the first.

    A run directory's own copy of the matrix resumes that run, wherever the command is given: a report's
    command to make it sure means the trials that it shows. In another folder for runs it is like any matrix,
    and so is a variant of it.
    """
    from l4sbench.store import Run

    runs, own = Path(options.runs), find_matrix(matrix).parent
    variant = options.quick or options.changes
    if (
        not variant
        and is_file(own / "manifest.json")
        and (runs == RUNS or own.resolve().parents[1] == runs.resolve())
    ):
        return Run.open(own)
    return Run.latest(runs, name)


def trusted(matrix: Matrix, *, consent: bool) -> Matrix:
    """Return the matrix with the trusted copies of the code that its cells bring from outside.

    Raises:
        InputError: the user does not trust it yet, and `consent` is not given.
    """
    from l4sbench.testbeds import ssh

    settled = _settled(matrix, ssh.TRAITS, consent=consent)
    if settled.untrusted:
        raise InputError(settled.untrusted)
    return replace(matrix, catalog=settled.catalog)


def _settled(matrix: Matrix, traits: TestbedTraits, *, consent: bool) -> Settled:
    from l4sbench.planning.inputs import entries_used, executables_used, senders_used

    used = entries_used(matrix.catalog, matrix.cells, traits)
    settled = settle(matrix.catalog, used, consent=consent)
    settled = settle_executables(settled, executables_used(matrix.cells), consent=consent)
    return settle_senders(settled, senders_used(matrix.cells), consent=consent)


def _traits(options: RunOptions) -> TestbedTraits:
    match options.testbed.kind:
        case "fabric":
            from l4sbench.testbeds import fabric

            return fabric.traits(options.slices)
        case "ssh":
            from l4sbench.testbeds import ssh

            return ssh.TRAITS
        case _:
            from l4sbench.testbeds.virtual.traits import TRAITS

            return TRAITS


def until_decided(most: int | None) -> Callable[[Trials], Trials]:
    """Return the change that adds trials until the verdict is decided.

    There are at least `LEAST_TRIALS`, and at most `most` or `MOST_TRIALS` per cell, twice the least where
    that is not more.
    """
    from l4sbench.matrix import LEAST_TRIALS, MOST_TRIALS, Trials

    def change(stated: Trials) -> Trials:
        least = max(stated.min, LEAST_TRIALS)
        limit = most or max(stated.max, MOST_TRIALS)
        return Trials(least, limit if limit > least else 2 * least, "decided")

    return change
