# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Runs on a testbed that changes its kernels between trials: order, resuming, states that cannot be had."""

import os
import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from l4sbench.app.stages import execute_stages
from l4sbench.engine.looks import Decide
from l4sbench.engine.loop import Order, RunResult
from l4sbench.engine.testbed import Outcome, TrialStopped
from l4sbench.errors import PlaceLost, TestbedError, TrialFailed
from l4sbench.facts import events
from l4sbench.facts.cell import Cell
from l4sbench.facts.events import Progress, Status
from l4sbench.facts.traits import Identity, Stage, Stages
from l4sbench.matrix import Matrix
from l4sbench.planning.estimating import Costs
from l4sbench.planning.plan import Plan, as_json, plan
from l4sbench.planning.trials import Reason
from l4sbench.program.trial import TrialSpec
from l4sbench.store import Run, StoreView, locked
from tests.patience import PATIENCE_S
from tests.unit.l4sbench import small

KERNEL_OF = {"fifo": "six", "codel": "six", "dualpi2": "seven"}
CHANGE_S = 30.0


def identity(kernel: str) -> Identity:
    return replace(small.IDENTITY, kernel_release=f"{kernel}.1")


@dataclass
class TwoKernels(small.SmallTestbed):
    """A small testbed that boots kernel `six` for some queues, `seven` for DualPI2."""

    kernel: str = "six"
    told: set[str] = field(default_factory=set)
    booted: list[str] = field(default_factory=list)
    broken: dict[str, Exception] = field(default_factory=dict)
    ran_on: list[tuple[str, str]] = field(default_factory=list)

    def stages(self, cells: Sequence[Cell]) -> Stages:
        found = []
        for kernel in ("six", "seven"):
            ids = frozenset(cell.id for cell in cells if KERNEL_OF[cell.aqm] == kernel)
            known = kernel in self.told
            runs = identity(kernel) if known else replace(small.IDENTITY, kernel_release=f"image {kernel}")
            found.append(Stage({"router": kernel}, ids, runs, known))
        return Stages(tuple(found), {"router": self.kernel}, CHANGE_S)

    def enter(self, stage: Stage, stop: threading.Event) -> Identity:
        kernel = stage.state["router"]
        if kernel in self.broken:
            raise self.broken[kernel]
        if kernel != self.kernel:
            self.booted.append(kernel)
        self.kernel = kernel
        self.told.add(kernel)
        return identity(kernel)

    def run(self, spec: TrialSpec, raw: Path, stop: threading.Event) -> Outcome:
        self.ran_on.append((spec.cell.aqm, self.kernel))
        return super().run(spec, raw, stop)


def planned(wanted: Matrix, testbed: TwoKernels, view: StoreView | None = None) -> Plan:
    return plan(
        wanted,
        view or StoreView(),
        None,
        small.TRAITS,
        Costs(small.TRAITS.cost),
        stages=testbed.stages(wanted.cells),
    )


def go(
    wanted: Matrix,
    run: Run,
    testbed: TwoKernels,
    *,
    jobs: int | None = None,
    decide: "Decide | None" = None,
    on_event: events.OnEvent = lambda _: None,
) -> RunResult:
    with locked(run) as writer:
        found = planned(wanted, testbed, writer.view)
        order = Order(found, writer, testbed, small.judge, decide, on_event, jobs)
        return execute_stages(order, testbed.enter)


@pytest.mark.parametrize(("runs_now", "booted"), [("six", ["seven"]), ("seven", ["six"])])
def test_cells_of_the_kernel_that_runs_come_first(
    wanted: Matrix, run: Run, runs_now: str, booted: list[str]
) -> None:
    testbed = TwoKernels(kernel=runs_now)
    assert go(wanted, run, testbed) == RunResult(ok=10, invalid=2, failed=0, left=0)
    assert testbed.booted == booted
    assert all(kernel == KERNEL_OF[queue] for queue, kernel in testbed.ran_on)
    releases = {(ended.cell.aqm, ended.kernel_release) for ended in run.ended()}
    assert releases == {("fifo", "six.1"), ("codel", "six.1"), ("dualpi2", "seven.1")}


def test_trials_are_shuffled_within_their_part(wanted: Matrix, run: Run) -> None:
    testbed = TwoKernels()
    go(wanted, run, testbed, jobs=1)
    first = [queue for queue, kernel in testbed.ran_on if kernel == "six"]
    assert sorted(first) not in (first, first[::-1])
    assert [kernel for _, kernel in testbed.ran_on] == ["six"] * 8 + ["seven"] * 4


def test_nothing_is_booted_for_trials_that_have_ended(wanted: Matrix, run: Run) -> None:
    go(wanted, run, TwoKernels())
    # one that remembers what ran there, and one that was never asked
    for told in ({"six", "seven"}, set[str]()):
        again = TwoKernels(kernel="seven", told=told)
        with locked(run) as writer:
            found = planned(wanted, again, writer.view)
            assert (found.to_run, found.change_s, found.wall_s(1)) == (0, 0.0, 0.0)
        assert go(wanted, run, again) == RunResult(0, 0, 0, 0)
        assert (again.booted, again.ran) == ([], [])


def test_a_run_goes_on_with_the_part_that_needs_no_restart(wanted: Matrix, run: Run) -> None:
    def fault(spec: TrialSpec, raw: Path) -> None:
        if spec.trial == 2:
            raise TrialFailed("the router fell over")

    assert go(wanted, run, TwoKernels(fault=fault)).failed == 6
    again = TwoKernels(kernel="seven", told={"six", "seven"})
    with locked(run) as writer:
        found = planned(wanted, again, writer.view)
        assert [(batch.to_run, batch.changes) for batch in found.staged] == [(2, ()), (4, ("router",))]
        assert found.trials[Reason.FAILED_BEFORE] == 6
    go(wanted, run, again)
    assert [kernel for _, kernel in again.ran_on] == ["seven"] * 2 + ["six"] * 4


def test_what_a_new_kernel_makes_new_is_found_once_it_runs(wanted: Matrix, run: Run) -> None:
    go(wanted, run, TwoKernels())
    only = wanted.select(["aqm=dualpi2"])
    one_more = replace(only, trials=replace(only.trials, min=3, max=3))
    seen: list[events.Event] = []

    class Renewed(TwoKernels):
        def enter(self, stage: Stage, stop: threading.Event) -> Identity:
            return replace(super().enter(stage, stop), kernel_release="seven.2")

    testbed = Renewed(kernel="seven")
    with locked(run) as writer:
        found = planned(one_more, testbed, writer.view)
        # what ended counts as good until the kernel that runs says otherwise
        assert found.to_run == 2
    go(one_more, run, testbed, on_event=seen.append)
    assert len(testbed.ran) == 6
    progress = Progress()
    for event in seen:
        progress = progress.after(event)
    assert (progress.trials, progress.ended) == (6, 6)
    assert progress.fraction == pytest.approx(1.0)


def test_a_kernel_that_cannot_be_had_fails_its_trials_and_no_others(wanted: Matrix, run: Run) -> None:
    testbed = TwoKernels(kernel="five", broken={"six": TrialFailed("router: no kernel six in /boot")})
    result = go(wanted, run, testbed)
    assert (result.ok, result.failed, result.left, result.error) == (4, 8, 0, None)
    failed = [ended for ended in run.ended() if ended.status is Status.FAILED]
    assert {ended.reasons for ended in failed} == {("router: no kernel six in /boot",)}
    assert {ended.cell.aqm for ended in failed} == {"fifo", "codel"}
    with locked(run) as writer:
        assert planned(wanted, testbed, writer.view).trials[Reason.FAILED_BEFORE] == 8
    again = TwoKernels(kernel="seven")
    result = go(wanted, run, again)
    assert (result.ok + result.invalid, result.failed) == (8, 0)
    assert all(ended.status is not Status.FAILED for ended in run.ended())


def test_hosts_that_stay_away_end_the_run(wanted: Matrix, run: Run) -> None:
    testbed = TwoKernels(broken={"seven": TestbedError("router did not come back", "look at its console")})
    result = go(wanted, run, testbed)
    assert (result.ok + result.invalid, result.left, result.exit_code) == (8, 4, 3)
    assert result.error is testbed.broken["seven"]


def test_the_places_that_are_left_are_entered_again(wanted: Matrix, run: Run) -> None:
    under_way, most = [], []

    class Losing(TwoKernels):
        left = 3

        def enter(self, stage: Stage, stop: threading.Event) -> Identity:
            if stage.state["router"] == "seven" and self.left > 1:
                self.left -= 1
                raise PlaceLost(f"place {self.left} is gone", left=self.left)
            return super().enter(stage, stop)

        def run(self, spec: TrialSpec, raw: Path, stop: threading.Event) -> Outcome:
            under_way.append(spec)
            most.append((self.kernel, len(under_way)))
            try:
                return super().run(spec, raw, stop)
            finally:
                under_way.pop()

    testbed = Losing(traits=replace(small.TRAITS, slots=3), sleep_s=0.02)
    result = go(wanted, run, testbed)
    assert (result.ok + result.invalid, result.failed, result.left, result.error) == (12, 0, 0, None)
    assert [lost.message for lost in result.lost] == ["place 2 is gone", "place 1 is gone"]
    assert testbed.booted == ["seven"]
    assert {number for kernel, number in most if kernel == "seven"} == {1}
    assert len(testbed.ran) == 12


def test_a_stop_during_a_change_keeps_what_ended(wanted: Matrix, run: Run) -> None:
    inside = threading.Event()

    class Slow(TwoKernels):
        def enter(self, stage: Stage, stop: threading.Event) -> Identity:
            if stage.state["router"] == "seven":
                inside.set()
                assert stop.wait(PATIENCE_S)
                raise TrialStopped
            return super().enter(stage, stop)

    def interrupt() -> None:
        assert inside.wait(PATIENCE_S)
        os.kill(os.getpid(), signal.SIGINT)

    def later(event: events.Event) -> None:
        if isinstance(event, events.StageBegun) and event.kernels["router"] == "seven":
            threading.Thread(target=interrupt, daemon=True).start()

    result = go(wanted, run, Slow(), on_event=later)
    assert (result.ok + result.invalid, result.left, result.exit_code) == (8, 4, 130)
    assert not small.partials(run)
    testbed = TwoKernels()
    assert go(wanted, run, testbed).ok == 4
    assert testbed.booted == ["seven"]


def test_adaptive_cells_get_their_trials_before_the_next_restart(tmp_path: Path) -> None:
    wanted = small.matrix(tmp_path, trials="{min: 3, max: 6, until: decided}")
    run = small.new_run(tmp_path / "runs", wanted)
    testbed = TwoKernels()
    result = go(wanted, run, testbed, decide=lambda cell, ended: "more")
    assert result.ok + result.invalid == 36
    assert [kernel for _, kernel in testbed.ran_on] == ["six"] * 24 + ["seven"] * 12
    assert testbed.booted == ["seven"]
    # decided on by what stands there, without a restart
    again = TwoKernels(kernel="seven", told={"six", "seven"})
    assert go(wanted, run, again, decide=lambda cell, ended: "enough").left == 0
    assert (again.booted, again.ran) == ([], [])


def test_restarts_are_part_of_the_estimate(wanted: Matrix) -> None:
    found = planned(wanted, TwoKernels())
    assert [batch.changes for batch in found.staged] == [(), ("router",)]
    assert found.change_s == CHANGE_S
    assert found.wall_s(1) == pytest.approx(found.work_s + CHANGE_S)
    plain = as_json(found, 1)["stages"]
    assert isinstance(plain, list)
    assert [(p["kernels"], p["trials_to_run"], p["restarts"]) for p in plain] == [
        ({"router": "six"}, 8, []),
        ({"router": "seven"}, 4, ["router"]),
    ]
