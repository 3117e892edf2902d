# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Runs on slices of the stand-in: lost slices, leases, tokens, several slices at once.

Slices are asked for by real HTTP and trials are real ones, of the virtual testbed: a slice's hosts here are a
lab that is reached as long as the stand-in has the slice.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from collectors.assemble import collect
from collectors.validity import judge
from fablib_slices import Access, SliceFile, Slices, spec_of
from l4sbench.app.stages import execute_stages
from l4sbench.catalog import Catalog
from l4sbench.engine.loop import Order, RunResult
from l4sbench.engine.testbed import TrialStopped
from l4sbench.errors import InputError, TestbedError, TrialFailed
from l4sbench.facts.events import Event, TrialDiscarded, TrialEnded
from l4sbench.facts.traits import Stage, Stages
from l4sbench.matrix import Matrix
from l4sbench.planning.estimating import Costs
from l4sbench.planning.plan import plan
from l4sbench.store import Run, locked
from l4sbench.testbeds.fabric import FabricTestbed, keeping, testbed
from l4sbench.testbeds.virtual.lab import Lab
from l4sbench.testbeds.virtual.testbed import VirtualTestbed
from l4sbench.topology import topology
from reports.result.load import load
from tests.fabric.conftest import StandIn, matrix_text
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from l4sbench.engine.testbed import Outcome
    from l4sbench.facts.cell import Cell
    from l4sbench.facts.traits import Identity
    from l4sbench.program.trial import TrialSpec

pytestmark = [pytest.mark.lab, pytest.mark.filterwarnings("ignore")]  # the libraries' own

MATRIX = matrix_text("short", "fifo", "codel", "pie", "dualpi2", duration="1s")

_names = (f"run-{number}" for number in itertools.count())


@dataclass
class Hosts(VirtualTestbed):
    """A slice's hosts; `ran` are the trials that ended there."""

    lab: Lab
    slice_name: str
    standin: StandIn
    ran: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(self.lab, Catalog.load())

    def run(self, spec: TrialSpec, raw: Path, stop: threading.Event) -> Outcome:
        ended = super().run(spec, raw, stop)
        if not self.standin.alive(self.slice_name):
            raise TrialFailed("router: cannot be reached: Connection timed out")
        self.ran.append(spec.cell.aqm)
        return ended


@dataclass
class Booting(Hosts):
    """A slice's hosts that boot a newer kernel for DualPI2."""

    booted: list[str] = field(default_factory=list)

    def identity(self) -> Identity:
        return replace(super().identity(), kernel_release=self.booted[-1] if self.booted else "older")

    def stages(self) -> Stages:
        def stage(kernel: str, *queues: str) -> Stage:
            ids = frozenset(cell.id for cell in CELLS if cell.aqm in queues)
            return Stage({"router": kernel}, ids, self.identity(), known=False)

        older, newer = stage("older", "fifo", "codel", "pie"), stage("newer", "dualpi2")
        return Stages((newer, older), {"router": "older"}, 60.0)

    def advice(self) -> tuple[str, ...]:
        return ()

    def installs(self) -> tuple[str, ...]:
        return ()

    def enter(self, stage: Stage, stop: threading.Event) -> Identity:
        self.booted.append(stage.state["router"])
        return self.identity()

    def release(self) -> None:
        pass


@dataclass
class Sweep:
    """A run directory and the messages about its slices."""

    matrix: Matrix
    run: Run
    slices: Slices
    standin: StandIn
    lab: Lab
    name: str
    kind: type[Hosts] = Hosts
    hosts: dict[str, Hosts] = field(default_factory=dict)
    states: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def go(
        self, slices: int = 1, on_event: Callable[[Event], None] = lambda _: None, work_s: float = 0.0
    ) -> RunResult:
        """Do what `l4sbench run --on fabric:NAME --slices N` does."""

        def heard(event: Event) -> None:
            self.events.append(event)
            on_event(event)

        def hosts(inventory: Path) -> Hosts:
            name = inventory.parent.name
            self.hosts[name] = self.kind(self.lab, name, self.standin)
            return self.hosts[name]

        self.states.clear()
        self.events.clear()
        fabric = FabricTestbed(
            self.name,
            self.matrix,
            slices=slices,
            work_s=work_s,
            connect=lambda: self.slices,
            hosts=hosts,
            on_state=self.states.append,
        )
        identity, stages = fabric.identity(), fabric.stages()
        with locked(self.run) as writer:
            cost = fabric.traits.cost
            planned = plan(self.matrix, writer.view, identity, fabric.traits, Costs(cost), stages=stages)
            assert not fabric.check(planned.needs)
            return execute_stages(Order(planned, writer, fabric, judge, on_event=heard), fabric.enter)

    def ended(self) -> Counter[str]:
        """Return the number of trials of every queue in the run directory, without failed ones."""
        return Counter(one.cell.aqm for one in self.run.ended() if one.status != "failed")

    def told(self, part: str) -> str:
        """Return the only message about slices that contains `part`."""
        (one,) = [state for state in self.states if part in state]
        return one


CELLS: list[Cell] = []
"""Of the matrix that is run."""
ALL = Counter(["fifo", "codel", "pie", "dualpi2"])


@pytest.fixture
def sweep(
    lab: Lab, slices: Slices, standin: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Sweep:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "short.yaml"
    path.write_text(MATRIX, encoding="utf-8")
    matrix = Matrix.load(path, Catalog.load())
    CELLS[:] = matrix.cells
    run = Run.create(tmp_path / "runs", matrix.name, matrix.source, matrix.seed, {})
    return Sweep(matrix, run, slices, standin, lab, next(_names))


def kept(run: Run) -> dict[Path, int]:
    """Return every ended trial, and the time of its file."""
    return {path: path.stat().st_mtime_ns for path in run.path.glob("cells/*/*/trial.json")}


def after(number: int, do: Callable[[], object]) -> Callable[[Event], None]:
    """Return a listener that calls something once, when this many trials have ended."""
    ended = itertools.count(1)

    def hear(event: Event) -> None:
        if isinstance(event, TrialEnded) and next(ended) == number:
            do()

    return hear


# ---- kernels
def test_all_slices_change_their_kernels_together(sweep: Sweep) -> None:
    sweep.kind = Booting
    result = sweep.go(slices=2)
    assert (result.ok + result.invalid, result.failed, result.left) == (4, 0, 0)
    assert [hosts.booted for hosts in sweep.hosts.values() if isinstance(hosts, Booting)] == [
        ["older", "newer"],
        ["older", "newer"],
    ]
    assert {(ended.cell.aqm, ended.kernel_release) for ended in sweep.run.ended()} == {
        ("fifo", "older"),
        ("codel", "older"),
        ("pie", "older"),
        ("dualpi2", "newer"),
    }
    assert {ended.testbed for ended in sweep.run.ended()} == {"fabric"}


def two_kernels(sweep: Sweep, **trouble: Callable[[], None]) -> tuple[str, str]:
    """One cell for each kernel; names of two slices that have trouble (`first`, `second`) with the newer."""
    own_cells = tuple(cell for cell in CELLS if cell.aqm in {"fifo", "dualpi2"})
    sweep.matrix = replace(sweep.matrix, cells=own_cells)
    names = f"{sweep.name}-1", f"{sweep.name}-2"
    own = dict(zip(names, map(trouble.get, ("first", "second")), strict=True))

    class Troubled(Booting):
        def enter(self, stage: Stage, stop: threading.Event) -> Identity:
            cause = own.get(self.slice_name)
            if cause and stage.state["router"] == "newer":
                cause()
                raise TrialFailed("hosts are not ready with newer: router: no space left on device")
            return super().enter(stage, stop)

    sweep.kind = Troubled
    return names


def booted(sweep: Sweep, name: str) -> list[str]:
    hosts = sweep.hosts[name]
    assert isinstance(hosts, Booting)
    return hosts.booted


def test_a_slice_that_vanishes_while_kernels_change_leaves_its_trials_to_the_others(
    sweep: Sweep, standin: StandIn
) -> None:
    first, second = two_kernels(
        sweep, second=lambda: standin.faults(vanish={f"{sweep.name}-2": "Host failed"})
    )
    result = sweep.go(slices=2)
    assert (result.ok + result.invalid, result.failed, result.left, result.error) == (2, 0, 0, None)
    gone = f"slice {second} is gone: FABRIC removed it (Dead; Host failed)"
    assert [(lost.message, lost.left) for lost in result.lost] == [(gone, 1)]
    assert sweep.told("continues without") == f"{gone}; the run continues without it"
    # the one that is left was ready already, and is asked once more
    assert booted(sweep, first) == ["older", "newer", "newer"]
    assert sweep.ended() == Counter(["fifo", "dualpi2"])


def test_a_slice_that_alone_does_not_get_its_kernel_is_given_up(sweep: Sweep) -> None:
    first, second = two_kernels(sweep, first=lambda: None)
    result = sweep.go(slices=2)
    assert (result.ok + result.invalid, result.failed, result.left) == (2, 0, 0)
    assert [lost.message for lost in result.lost] == [
        f"slice {first}: hosts are not ready with newer: router: no space left on device"
    ]
    assert booted(sweep, second)[-1] == "newer"


def test_a_kernel_that_no_slice_gets_fails_its_trials_and_costs_no_slice(sweep: Sweep) -> None:
    names = two_kernels(sweep, first=lambda: None, second=lambda: None)
    result = sweep.go(slices=2)
    assert (result.ok + result.invalid, result.failed, result.left, result.lost) == (1, 1, 0, ())
    (failed,) = [ended for ended in sweep.run.ended() if ended.status == "failed"]
    why = "hosts are not ready with newer: router: no space left on device"
    assert failed.reasons == ("; ".join(f"slice {name}: {why}" for name in names),)


def test_the_last_slice_that_vanishes_while_kernels_change_ends_the_run(
    sweep: Sweep, standin: StandIn
) -> None:
    def vanish() -> None:
        standin.faults(vanish={f"{sweep.name}-{number}": "" for number in (1, 2)})

    first, second = two_kernels(sweep, first=vanish, second=vanish)
    result = sweep.go(slices=2)
    assert (result.ok + result.invalid, result.failed, result.left, result.exit_code) == (1, 0, 1, 3)
    gone = "is gone: FABRIC removed it (Dead)"
    assert str(result.error) == (
        f"slice {first} {gone}; slice {second} {gone}; "
        "the same command makes a new one and resumes; finished trials are kept"
    )
    standin.faults()
    sweep.kind = Booting
    assert sweep.go(slices=2).left == 0
    assert sweep.ended() == Counter(["fifo", "dualpi2"])


# ---- slices that are lost
def test_a_slice_that_vanishes_ends_the_run_and_the_next_goes_on(sweep: Sweep, standin: StandIn) -> None:
    vanish = {sweep.name: "Host of router failed"}
    lost = sweep.go(on_event=after(2, lambda: standin.faults(vanish=vanish)))
    assert (lost.ok + lost.invalid, lost.failed, lost.left, lost.exit_code) == (2, 0, 2, 3)
    assert str(lost.error) == (
        f"slice {sweep.name} is gone: FABRIC removed it (Dead; Host of router failed); "
        "the same command makes a new one and resumes; finished trials are kept"
    )
    before = kept(sweep.run)
    assert len(before) == 2

    standin.faults()
    again = sweep.go()
    assert (again.ok + again.invalid, again.failed, again.left) == (2, 0, 0)
    assert sweep.states[-2:] == [f"slice {sweep.name}: {state}" for state in ("Configuring", "StableOK")]
    sweep.told("FABRIC makes machines of 4 cores, 16 GB memory and 100 GB disk")
    assert sweep.ended() == ALL
    assert before.items() <= kept(sweep.run).items()


@dataclass
class Silent(Hosts):
    """Hosts that fall silent once their slice is gone: no connection ends, and no trial does."""

    def run(self, spec: TrialSpec, raw: Path, stop: threading.Event) -> Outcome:
        if self.standin.alive(self.slice_name):
            return super().run(spec, raw, stop)
        assert stop.wait(spec.wall_limit_s)
        raise TrialStopped


def test_fabric_is_asked_while_machines_are_silent(
    sweep: Sweep, standin: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "WATCH_S", 1.0)
    sweep.kind = Silent
    first, second = f"{sweep.name}-1", f"{sweep.name}-2"
    vanish = after(1, lambda: standin.faults(vanish={second: "Host failed"}))
    result = sweep.go(slices=2, on_event=vanish)
    assert (result.ok + result.invalid, result.failed, result.left) == (4, 0, 0)
    gone = f"slice {second} is gone: FABRIC removed it (Dead; Host failed)"
    assert [lost.message for lost in result.lost] == [gone]
    assert Counter(sweep.hosts[first].ran + sweep.hosts[second].ran) == ALL


def test_what_fabric_says_of_a_slice_stands_in_the_error(sweep: Sweep, standin: StandIn) -> None:
    broken = sweep.go(on_event=after(1, lambda: standin.faults(breaks={sweep.name: "No space left"})))
    assert str(broken.error) == (
        f"slice {sweep.name} is broken: StableError; No space left; l4sbench slice down {sweep.name}; "
        "the same command then makes a new one and resumes"
    )
    standin.faults()
    assert sweep.slices.down(sweep.name)
    forgotten = sweep.go(on_event=after(1, lambda: standin.faults(forgotten=[sweep.name])))
    assert str(forgotten.error).startswith(
        f"slice {sweep.name} is gone: FABRIC no longer has it; the same command"
    )
    assert sweep.ended().total() == 2


def test_two_slices_share_out_the_trials_and_one_does_those_of_the_other(
    sweep: Sweep, standin: StandIn, tmp_path: Path
) -> None:
    first, second = f"{sweep.name}-1", f"{sweep.name}-2"
    vanish = after(1, lambda: standin.faults(vanish={second: ""}))
    result = sweep.go(slices=2, on_event=vanish)
    assert (result.ok + result.invalid, result.failed, result.left, result.error) == (4, 0, 0, None)
    assert [lost.message for lost in result.lost] == [f"slice {second} is gone: FABRIC removed it (Dead)"]
    (discarded,) = [event for event in sweep.events if isinstance(event, TrialDiscarded)]
    assert discarded.reason == result.lost[0].message
    # each trial ended once, wherever it began
    assert sweep.ended() == ALL
    assert Counter(sweep.hosts[first].ran + sweep.hosts[second].ran) == ALL
    assert not list((sweep.run.path / "cells").glob("*/*.partial"))
    collect(sweep.run, sweep.matrix.catalog)
    tables = load(sweep.run.path)
    assert sorted(tables.trials["aqm"]) == sorted(ALL)
    assert set(tables.trials["testbed"]) == {"fabric"}

    # both are there again for the next run, the one that was kept is adopted
    standin.faults()
    before = standin.creates()
    assert sweep.go(slices=2).exit_code == 0
    assert standin.creates() == before + 1


def test_slices_that_were_made_differently_are_told_before_anything_runs(sweep: Sweep) -> None:
    from fablib_slices.records import keep

    for number, cores in enumerate((2, 4), start=1):
        wishes = SliceFile(slice=f"{sweep.name}-{number}", cores=cores)
        keep(spec_of(topology("line6"), wishes))
    with pytest.raises(InputError, match=f"{sweep.name}-1 and {sweep.name}-2 were made from different"):
        sweep.go(slices=2)


def test_what_is_wrong_with_one_slice_is_told_without_waiting_for_the_others(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testbed, "LEAVE_S", 0.1)
    release, waited = threading.Event(), []

    class Stuck(Hosts):
        def identity(self) -> Identity:
            if self.slice_name.endswith("-1"):
                raise TestbedError("router: no space left on device")
            waited.append(release.wait(PATIENCE_S))
            return super().identity()

    sweep.kind = Stuck
    with pytest.raises(TestbedError, match="no space left on device"):
        sweep.go(slices=2)
    assert not waited
    release.set()


def test_machines_are_not_restarted_for_a_bastion_that_is_away(
    sweep: Sweep, standin: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    restarts: list[Callable[[list[str]], None]] = []

    class BySsh(Hosts):
        def __init__(self, *_: object, restart: Callable[[list[str]], None], **__: object) -> None:
            super().__init__(sweep.lab, sweep.name, standin)
            restarts.append(restart)

    monkeypatch.setattr(testbed, "SshTestbed", BySsh)
    monkeypatch.setattr(Access, "check", lambda *_: None)
    FabricTestbed(sweep.name, sweep.matrix, connect=lambda: sweep.slices).identity()
    monkeypatch.undo()
    monkeypatch.setenv("XDG_STATE_HOME", str(sweep.run.path))
    before = standin.call("/_state")["acted"]
    with pytest.raises(TestbedError, match="the bastion refuses"):
        restarts[0](["router"])
    assert standin.call("/_state")["acted"] == before


# ---- leases and tokens
TWO = Counter(["fifo", "codel"])


def reserve(sweep: Sweep, lease_s: float) -> None:
    """The run's slice, with a lease that is short because FABRIC shortened it, and two cells to run."""
    sweep.matrix = replace(sweep.matrix, cells=sweep.matrix.cells[:2])
    sweep.standin.faults(longest_s=lease_s)
    sweep.slices.up(spec_of(topology("line6"), SliceFile(slice=sweep.name)), poll_s=0.1)
    assert sweep.standin.lease_s(sweep.name) <= lease_s


def test_a_lease_is_renewed_once_half_of_it_is_over(sweep: Sweep, standin: StandIn) -> None:
    reserve(sweep, 600)
    standin.faults()
    before = standin.renewals()
    assert sweep.go().left == 0
    assert sweep.ended() == TWO
    assert standin.renewals() == before + 1
    assert standin.lease_s(sweep.name) == pytest.approx(24 * 3600, abs=1800)
    assert "as requested" not in sweep.told("lease ends")


def test_a_lease_is_renewed_before_machines_are_prepared(sweep: Sweep, standin: StandIn) -> None:
    lasting: list[float] = []

    class Prepared(Hosts):
        def identity(self) -> Identity:
            lasting.append(self.standin.lease_s(self.slice_name))
            return super().identity()

    reserve(sweep, 600)
    standin.faults()
    sweep.kind = Prepared
    assert sweep.go().left == 0
    assert min(lasting) > 3600


def test_a_lease_that_comes_out_shorter_is_told_and_counts(sweep: Sweep, standin: StandIn) -> None:
    reserve(sweep, 600)
    before = standin.renewals()
    assert sweep.go().left == 0
    assert sweep.ended() == TWO
    # asked once: half of what FABRIC gives is not over yet
    assert standin.renewals() == before + 1
    assert "as requested: FABRIC shortened it" in sweep.told("lease ends")


@pytest.mark.long
def test_a_run_goes_on_without_a_renewal_as_long_as_the_lease_lasts(sweep: Sweep, standin: StandIn) -> None:
    reserve(sweep, 600)
    standin.faults(renew_refused=99)
    assert sweep.go().left == 0
    assert sweep.ended() == TWO
    assert "project lease limit" in sweep.told("not renewed")


def test_no_trial_begins_that_would_outlive_the_lease(sweep: Sweep, standin: StandIn) -> None:
    reserve(sweep, 100)
    standin.faults(renew_refused=99)
    result = sweep.go()
    assert (result.ok, result.failed, result.left, result.exit_code) == (0, 0, 2, 3)
    told = str(result.error)
    assert told.startswith(f"the lease of slice {sweep.name} ends at ")
    assert "and is not renewed: FABRIC (renewing" in told
    assert told.endswith(
        f"project lease limit; l4sbench slice renew {sweep.name}; the same command then resumes"
    )
    standin.faults()
    sweep.slices.renew(sweep.name, 48)
    assert sweep.go().left == 0
    assert sweep.ended() == TWO


@pytest.mark.long
def test_a_lease_that_somebody_else_renewed_is_read(
    sweep: Sweep, standin: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "RETRY", timedelta(0))
    reserve(sweep, 600)
    standin.faults(renew_refused=4)  # the library asks that often

    def by_hand() -> None:
        standin.faults()
        sweep.slices.renew(sweep.name, 48)

    assert sweep.go(on_event=after(1, by_hand)).left == 0
    sweep.told("not renewed")
    assert standin.lease_s(sweep.name) > 47 * 3600


def test_a_lease_that_ends_under_way_is_told_with_why_it_was_not_renewed(
    sweep: Sweep, standin: StandIn
) -> None:
    reserve(sweep, 600)
    standin.faults(renew_refused=99)
    result = sweep.go(on_event=after(1, lambda: standin.faults(lease_over=[sweep.name])))
    assert (result.failed, result.left, result.exit_code) == (0, 1, 3)
    told = str(result.error)
    assert f"slice {sweep.name} is gone: its lease ended at " in told
    assert "(not renewed: FABRIC (renewing" in told
    standin.faults()
    assert sweep.go().left == 0
    assert sweep.ended() == TWO


def test_a_token_is_used_before_its_refresh_token_ends(
    sweep: Sweep, standin: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve(sweep, 86400)
    asked = standin.calls("/credmgr/tokens/validate")
    assert sweep.go().left == 0
    once = standin.calls("/credmgr/tokens/validate") - asked
    monkeypatch.setattr(keeping, "REFRESH", timedelta(0))
    sweep.run = Run.create(sweep.run.path.parents[1], "again", sweep.matrix.source, sweep.matrix.seed, {})
    assert sweep.go().left == 0
    # at least once more for each trial
    assert standin.calls("/credmgr/tokens/validate") - asked >= 2 * once + 2


@pytest.mark.long
def test_a_token_that_ends_before_the_run_is_told(sweep: Sweep, standin: StandIn) -> None:
    reserve(sweep, 600)
    standin.faults(token_s=1200, longest_s=600)  # a renewal does not help
    assert sweep.go(work_s=3600.0).left == 0
    assert "put a new one into fablib's token file by then" in sweep.told("the token ends at")
