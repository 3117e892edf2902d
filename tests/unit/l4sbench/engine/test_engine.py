# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The engine on a small real testbed: order, workers, failures, limits, adaptive trials, interrupts."""

import os
import signal
import socket
import stat
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from l4sbench.engine import crew, worker
from l4sbench.engine.loop import Order, RunResult, execute
from l4sbench.engine.testbed import Outcome, TrialStopped
from l4sbench.errors import InputError, PlaceLost, TestbedError, TrialFailed
from l4sbench.facts import events
from l4sbench.facts.cell import Cell
from l4sbench.facts.events import Progress, Status
from l4sbench.facts.traits import CostModel
from l4sbench.matrix import Matrix
from l4sbench.planning.cost import CostBook
from l4sbench.planning.estimating import Costs, kind_of
from l4sbench.planning.plan import plan
from l4sbench.planning.trials import Reason
from l4sbench.program.trial import EndedTrial, TrialSpec
from l4sbench.store import Run, TrialFolder, locked
from l4sbench.store.leavings import MOST_FILES, TOO_MANY
from tests.patience import PATIENCE_S
from tests.unit.l4sbench import small

ADAPTIVE = "{min: 3, max: 10, until: decided}"


def failing(*numbers: int, aqm: str = "dualpi2") -> Callable[[TrialSpec, Path], None]:
    """A fault: the trials of these numbers fail in every cell with this queue."""

    def fault(spec: TrialSpec, raw: Path) -> None:
        (raw / "console.log").write_text("Kernel panic")
        if spec.trial in numbers and spec.cell.aqm == aqm:
            raise TrialFailed("the guest panicked")

    return fault


# ---- what becomes of trials
def test_a_run_ends_every_trial_and_a_second_has_nothing_to_do(wanted: Matrix, run: Run) -> None:
    result = small.run_matrix(wanted, run, small.SmallTestbed())
    assert result == RunResult(ok=10, invalid=2, failed=0, left=0)
    assert result.exit_code == 1
    assert len(small.contents(run)) == 12
    again = small.SmallTestbed()
    assert small.run_matrix(wanted, run, again) == RunResult(0, 0, 0, 0)
    assert again.ran == []


def test_jobs_and_order_change_no_result(tmp_path: Path, wanted: Matrix) -> None:
    found = []
    for jobs, seed in ((1, 1), (4, 1), (3, 77)):
        run = Run.create(tmp_path / "runs", "small", wanted.source, seed, {})
        testbed = small.SmallTestbed(sleep_s=0.01)
        small.run_matrix(wanted, run, testbed, jobs=jobs)
        found.append((small.contents(run), testbed.ran))
    assert found[0][0] == found[1][0] == found[2][0]
    assert found[0][1] != found[2][1]
    assert found[0][1] != sorted(found[0][1])


def test_workers_run_at_the_same_time_and_no_more_than_asked(wanted: Matrix, run: Run) -> None:
    meeting = threading.Barrier(3, timeout=PATIENCE_S)  # broken unless three trials are under way at once
    lock, under_way, most = threading.Lock(), 0, 0

    def fault(spec: TrialSpec, raw: Path) -> None:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        meeting.wait()
        with lock:
            under_way -= 1

    result = small.run_matrix(wanted, run, small.SmallTestbed(fault=fault), jobs=3)
    assert (result.ok + result.invalid, most) == (12, 3)


def test_a_testbed_that_is_not_parallel_gets_one_worker() -> None:
    assert replace(small.TRAITS, parallel=False).workers(8) == 1
    assert small.TRAITS.workers(8) == 8
    assert small.TRAITS.workers() >= 1


def left_by(program: Callable[[Path], None]) -> Callable[[TrialSpec, Path], None]:
    """A fault: the first trials' programs leave these things in a folder among the raw files."""

    def fault(spec: TrialSpec, raw: Path) -> None:
        (raw / "tx").mkdir()
        (raw / "tx" / "open").touch(0o777)
        if spec.trial == 1:
            program(raw / "tx")

    return fault


def with_rights(folder: Path) -> None:
    (folder / "root").touch()
    (folder / "root").chmod(0o6755)


def with_socket(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        descriptor = os.open(folder, os.O_RDONLY)  # the path of a socket is short
        bound.bind(f"/proc/self/fd/{descriptor}/socket")
        os.close(descriptor)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (lambda folder: os.mkfifo(folder / "fifo"), "tx/fifo is a FIFO"),
        (lambda folder: (folder / "link").symlink_to("/etc/passwd"), "tx/link is a link"),
        (lambda folder: (folder / "link").symlink_to("/nowhere"), "tx/link is a link"),
        (lambda folder: (folder / "link").symlink_to(folder), "tx/link is a link"),
        (with_rights, "tx/root is a file with special rights"),
        (with_socket, "tx/socket is a socket"),
        (lambda folder: (folder / Path(*"abcdefghij")).mkdir(parents=True), "is too deep"),
        pytest.param(
            lambda folder: [(folder / f"{n}").touch() for n in range(10_001)],
            "left more than 10000 files",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_trial_whose_programs_leave_no_raw_files_fails_and_the_run_goes_on(
    wanted: Matrix, run: Run, program: Callable[[Path], None], reason: str
) -> None:
    result = small.run_matrix(wanted, run, small.SmallTestbed(fault=left_by(program)))
    assert (result.failed, result.ok + result.invalid, result.error) == (6, 6, None)
    failed = [ended for ended in run.ended() if ended.status is Status.FAILED]
    assert all(reason in ended.reasons[0] for ended in failed), failed[0].reasons
    for path in (run.path / "cells").rglob("*"):
        mode = path.lstat().st_mode
        assert stat.S_ISDIR(mode) or (stat.S_ISREG(mode) and not mode & 0o7133), path


def test_a_trial_that_is_ended_for_too_many_files_says_so_once(wanted: Matrix, run: Run) -> None:
    def fault(spec: TrialSpec, raw: Path) -> None:
        if spec.cell == wanted.cells[0] and spec.trial == 1:
            for number in range(MOST_FILES + 1):
                (raw / f"{number}").touch()
            raise TrialFailed(TOO_MANY)  # as the lab does while the guest still runs

    small.run_matrix(wanted, run, small.SmallTestbed(fault=fault))
    assert [ended.reasons for ended in run.ended() if ended.status is Status.FAILED] == [(TOO_MANY,)]


def test_programs_that_a_guest_changed_are_kept_as_they_were(wanted: Matrix, run: Run) -> None:
    def fault(spec: TrialSpec, raw: Path) -> None:
        (raw / "programs.json").unlink()
        if spec.trial == 1:
            (raw / "programs.json").write_text("[]")
        if spec.trial == 2:
            (raw / "programs.json" / "folder").mkdir(parents=True)

    small.run_matrix(wanted, run, small.SmallTestbed(fault=fault))
    assert all(ended.programs for ended in run.ended())


def test_failed_trials_are_kept_and_tried_again(wanted: Matrix, run: Run) -> None:
    result = small.run_matrix(wanted, run, small.SmallTestbed(fault=failing(1, 2)))
    assert (result.ok, result.invalid, result.failed, result.exit_code) == (6, 2, 4, 1)
    failed = [ended for ended in run.ended() if ended.status is Status.FAILED]
    assert {ended.reasons for ended in failed} == {("the guest panicked",)}
    assert (failed[0].raw / "console.log").read_text() == "Kernel panic"
    planned = plan(wanted, run.view(), small.IDENTITY, small.TRAITS, Costs(small.TRAITS.cost))
    assert planned.trials[Reason.FAILED_BEFORE] == 4

    again = small.SmallTestbed(fault=failing(2))
    result = small.run_matrix(wanted, run, again)
    assert (result.ok, result.failed, len(again.ran)) == (2, 2, 4)
    statuses = [ended.status for ended in run.ended() if ended.cell.aqm == "dualpi2"]
    assert statuses == [Status.OK, Status.FAILED] * 2
    folders = [name for cell in wanted.cells if cell.aqm == "dualpi2" for name in run.view().of(cell.id)]
    kinds = Counter((name.kind, name.number) for name in folders)
    assert kinds == {("", 0): 2, ("failed", 1): 4, ("failed", 2): 2}


def test_a_trial_that_failed_three_times_runs_again_only_on_request(wanted: Matrix, run: Run) -> None:
    broken = small.SmallTestbed(fault=failing(1, 2))
    failed = [small.run_matrix(wanted, run, broken).failed for _ in range(3)]
    assert failed == [4, 4, 4]
    result = small.run_matrix(wanted, run, broken)
    assert (result.failed, result.given_up, result.exit_code) == (0, 4, 1)
    assert len(broken.ran) == 12 + 4 + 4
    result = small.run_matrix(wanted, run, small.SmallTestbed(fault=failing(2)), retry=("failed",))
    assert (result.ok, result.failed, result.given_up) == (2, 2, 0)
    result = small.run_matrix(wanted, run, broken)
    assert (result.failed, result.given_up) == (0, 2)


def test_an_invalid_trial_runs_again_on_request_and_stays(wanted: Matrix, run: Run) -> None:
    small.run_matrix(wanted, run, small.SmallTestbed())
    invalid = [ended for ended in run.ended() if ended.status is Status.INVALID]
    assert len(invalid) == 2
    before = small.everything(run)
    again = small.SmallTestbed(size=2000)
    result = small.run_matrix(wanted, run, again, retry=("failed", "invalid"))
    assert (result.invalid, len(again.ran)) == (2, 2)
    after = [ended for ended in run.ended() if ended.status is Status.INVALID]
    assert [ended.raw.parent.name for ended in after] == [
        f"{ended.raw.parent.name}.again-1" for ended in invalid
    ]
    assert before.items() <= small.everything(run).items()
    assert (after[0].raw / "a.txt").stat().st_size == 1000
    # of the looks at adaptive cells too
    first = TrialFolder.parse(invalid[0].raw.parent.name)
    assert first is not None
    (found,) = run.ended_as(after[0].cell.id, [first])
    assert found.raw == after[0].raw
    # once more: the newest is invalid, and runs again
    small.run_matrix(wanted, run, small.SmallTestbed(), retry=("invalid",))
    assert {ended.raw.parent.name.partition(".")[2] for ended in run.ended() if ended.reasons} == {"again-2"}
    # a repetition that fails does not count
    small.run_matrix(wanted, run, small.SmallTestbed(fault=failing(1, 2, aqm="codel")), retry=("invalid",))
    assert {ended.raw.parent.name.partition(".")[2] for ended in run.ended() if ended.reasons} == {"again-2"}


def test_only_failed_and_invalid_trials_can_be_chosen_to_run_again(wanted: Matrix, run: Run) -> None:
    with pytest.raises(InputError, match="ok is not a valid kind of trial; choose from failed, invalid"):
        small.run_matrix(wanted, run, small.SmallTestbed(), retry=("ok",))


def test_a_process_that_dies_fails_its_trial_with_what_it_said(wanted: Matrix, run: Run) -> None:
    def fault(spec: TrialSpec, raw: Path) -> None:
        if spec.trial == 2:
            (raw / "b.txt").mkdir()  # the process cannot open it

    result = small.run_matrix(wanted, run, small.SmallTestbed(fault=fault))
    assert (result.ok, result.failed) == (6, 6)
    (reason,) = next(ended.reasons for ended in run.ended() if ended.trial == 2)
    assert "b.txt" in reason


def test_changed_inputs_run_again_and_stand_beside_the_old(wanted: Matrix, run: Run) -> None:
    small.run_matrix(wanted, run, small.SmallTestbed())
    module = replace(small.IDENTITY, modules={"tcp_prague": "p2"})
    result = small.run_matrix(wanted, run, small.SmallTestbed(identity_=module))
    assert result.ok + result.invalid == 12
    assert all(len(run.view().of(cell.id)) == 4 for cell in wanted.cells)
    assert len(list(run.ended())) == 12


def test_trials_beyond_those_asked_for_run_again_if_their_inputs_changed(wanted: Matrix, run: Run) -> None:
    more = replace(wanted, trials=replace(wanted.trials, min=4, max=4))
    small.run_matrix(more, run, small.SmallTestbed())
    before = {ended.inputs_digest for ended in run.ended()}
    assert small.run_matrix(wanted, run, small.SmallTestbed()) == RunResult(0, 0, 0, 0)
    other = replace(small.IDENTITY, common={"kernel": "k2"})
    result = small.run_matrix(wanted, run, small.SmallTestbed(identity_=other))
    assert result.ok + result.invalid == 24
    assert before.isdisjoint(ended.inputs_digest for ended in run.ended())


def test_inputs_that_change_back_run_again_so_that_the_newest_result_is_theirs(
    wanted: Matrix, run: Run
) -> None:
    before, other = small.SmallTestbed(), replace(small.IDENTITY, common={"kernel": "k2"})
    small.run_matrix(wanted, run, before)
    small.run_matrix(wanted, run, small.SmallTestbed(identity_=other))
    others = {ended.inputs_digest for ended in run.ended()}
    result = small.run_matrix(wanted, run, small.SmallTestbed())
    assert result.ok + result.invalid == 12
    assert others.isdisjoint(ended.inputs_digest for ended in run.ended())
    assert small.run_matrix(wanted, run, small.SmallTestbed()) == RunResult(0, 0, 0, 0)
    planned = plan(wanted, run.to_retry(()), other, small.TRAITS, Costs(small.TRAITS.cost))
    assert planned.trials[Reason.INPUTS_CHANGED] == 12


def test_trials_without_captures_run_again_for_captures_and_not_the_other_way_round(
    wanted: Matrix, run: Run
) -> None:
    small.run_matrix(wanted, run, small.SmallTestbed())
    result = small.run_matrix(wanted, run, small.SmallTestbed(), capture=True)
    assert result.ok + result.invalid == 12
    for ended in run.ended():
        servers = {server.id: server.argv[0] for server in ended.programs["router"].servers}
        assert servers == {"capture-net-mid": "tcpdump", "capture-net-rx": "tcpdump"}
    for capture in (True, False):
        again = small.run_matrix(wanted, run, small.SmallTestbed(), capture=capture)
        assert again == RunResult(0, 0, 0, 0)


def test_adaptive_cells_count_trials_with_captures(tmp_path: Path) -> None:
    wanted = small.matrix(tmp_path, "  aqm: [codel]\n", trials=ADAPTIVE)
    run = small.new_run(tmp_path / "runs", wanted)
    small.run_matrix(wanted, run, small.SmallTestbed(), capture=True)
    small.run_matrix(wanted, run, small.SmallTestbed(), decide=Decider())
    assert numbers(run) == {"codel": [1, 2, 3, 4, 5]}
    again = small.run_matrix(wanted, run, small.SmallTestbed(), decide=Decider())
    assert again == RunResult(0, 0, 0, 0)


# ---- what stops a run
def test_a_testbed_error_stops_the_run_cleanly(wanted: Matrix, run: Run) -> None:
    def fault(spec: TrialSpec, raw: Path) -> None:
        if len(testbed.ran) == 4:
            raise TestbedError("the lab is gone", "l4sbench lab build")

    testbed = small.SmallTestbed(fault=fault)
    result = small.run_matrix(wanted, run, testbed, jobs=1)
    assert (result.ok + result.invalid, result.left, result.exit_code) == (3, 9, 3)
    assert str(result.error) == "the lab is gone; l4sbench lab build"
    assert len(list(run.ended())) == 3
    assert not small.partials(run)
    assert small.run_matrix(wanted, run, small.SmallTestbed()).left == 0
    assert len(list(run.ended())) == 12


def test_a_bug_is_raised_and_its_trial_kept_as_evidence(wanted: Matrix, run: Run) -> None:
    def fault(spec: TrialSpec, raw: Path) -> None:
        (raw / "seen").write_text("raw")
        if len(testbed.ran) == 3:
            raise ZeroDivisionError("oops")

    testbed = small.SmallTestbed(fault=fault)
    with pytest.raises(ZeroDivisionError, match="oops"):
        small.run_matrix(wanted, run, testbed, jobs=1)
    ended = list(run.ended())
    (failed,) = [each for each in ended if each.status is Status.FAILED]
    assert len(ended) == 3
    assert failed.reasons == ("internal error: ZeroDivisionError('oops')",)
    assert "ZeroDivisionError: oops" in (failed.raw / "traceback.txt").read_text()
    assert (failed.raw / "seen").exists()


def test_a_listener_that_raises_ends_the_run(wanted: Matrix, run: Run) -> None:
    def on_event(event: events.Event) -> None:
        if event.at_s and isinstance(event, events.TrialEnded):
            raise LookupError("no terminal")

    with pytest.raises(LookupError, match="no terminal"):
        small.run_matrix(wanted, run, small.SmallTestbed(), on_event=on_event, jobs=1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# ---- limits
def test_a_hanging_trial_fails_at_its_limit_and_the_run_goes_on(
    wanted: Matrix, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "LEAST_LIMIT_S", 0.5)
    monkeypatch.setattr(worker, "LIMIT_FACTOR", 0.0)
    monkeypatch.setattr(worker, "LENGTH_FACTOR", 0.0)
    one = replace(wanted, cells=wanted.cells[:1])
    result = small.run_matrix(one, run, small.SmallTestbed(sleep_s=60.0))
    assert (result.failed, result.left) == (2, 0)
    assert {ended.reasons for ended in run.ended()} == {("no end within 0.5 s",)}


def losing(places: int) -> Callable[[TrialSpec, Path], None]:
    """A fault: the second trial and those after it each find their place gone, until one is left for good."""
    lock, taken = threading.Lock(), []

    def fault(spec: TrialSpec, raw: Path) -> None:
        with lock:
            taken.append((spec.cell.id, spec.trial))
            number = len(taken)
        if 2 <= number <= places:
            raise PlaceLost(f"place {number} is gone", left=places - number + 1)

    return fault


def test_the_places_that_are_left_do_the_trials_of_a_lost_one(wanted: Matrix, run: Run) -> None:
    traits = replace(small.TRAITS, slots=3)
    heard: list[events.Event] = []
    testbed = small.SmallTestbed(fault=losing(3), traits=traits, sleep_s=0.02)
    result = small.run_matrix(wanted, run, testbed, on_event=heard.append)
    assert (result.ok, result.invalid, result.failed, result.left) == (10, 2, 0, 0)
    assert {lost.message for lost in result.lost} == {"place 2 is gone", "place 3 is gone"}
    assert (result.error, result.exit_code) == (None, 1)
    assert len(small.contents(run)) == 12
    assert len(testbed.ran) == 14
    # one worker is left: from the second loss on no two trials are under way at once
    under_way, after = 0, []
    for event in heard:
        under_way += isinstance(event, events.TrialStarted)
        under_way -= isinstance(event, (events.TrialEnded, events.TrialDiscarded))
        after.append(under_way)
    lost = max(place for place, event in enumerate(heard) if isinstance(event, events.TrialDiscarded))
    assert max(after[lost:]) == 1


def test_the_last_place_ends_the_run_when_it_is_lost(wanted: Matrix, run: Run) -> None:
    def fault(spec: TrialSpec, raw: Path) -> None:
        left = 2 - len(testbed.ran)
        if left < 2:
            raise PlaceLost("gone", left=max(0, left))

    testbed = small.SmallTestbed(fault=fault, traits=replace(small.TRAITS, slots=2))
    result = small.run_matrix(wanted, run, testbed, jobs=1)
    assert (result.ok, result.left, result.exit_code) == (0, 12, 3)
    again = small.run_matrix(wanted, run, small.SmallTestbed())
    assert (again.ok, again.invalid, again.left) == (10, 2, 0)


def test_a_testbed_that_forgets_the_limit_is_told(
    wanted: Matrix, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "LEAST_LIMIT_S", 0.2)
    monkeypatch.setattr(worker, "LIMIT_FACTOR", 0.0)
    monkeypatch.setattr(worker, "LENGTH_FACTOR", 0.0)
    monkeypatch.setattr(crew, "GRACE_S", 0.3)
    stopped = []

    class Forgetful(small.SmallTestbed):
        def run(self, spec: TrialSpec, raw: Path, stop: threading.Event) -> Outcome:
            if spec.trial == 2:
                return super().run(spec, raw, stop)
            stopped.append(stop.wait(PATIENCE_S))
            monkeypatch.setattr(worker, "LEAST_LIMIT_S", PATIENCE_S)  # the next trial has time
            raise TrialStopped

    one = replace(wanted, cells=wanted.cells[:1])
    result = small.run_matrix(one, run, Forgetful(), jobs=1)
    assert (stopped, result.ok, result.failed) == ([True], 1, 1)
    assert next(ended.reasons for ended in run.ended()) == ("no end within 0.2 s of wall time",)


def test_a_testbed_that_does_not_stop_is_given_up(
    wanted: Matrix, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "GRACE_S", 0.3)
    release = threading.Event()

    def fault(spec: TrialSpec, raw: Path) -> None:
        if len(testbed.ran) == 1:
            release.wait(PATIENCE_S)
            raise TrialStopped
        raise TestbedError("gone")

    testbed = small.SmallTestbed(fault=fault)
    result = small.run_matrix(wanted, run, testbed, jobs=2)
    release.set()
    assert (result.ok, result.left, result.exit_code) == (0, 12, 3)
    assert not list(run.ended())


def test_a_limit_is_generous(wanted: Matrix, tmp_path: Path) -> None:
    costly = CostModel(fixed_s=100.0)
    planned = plan(wanted, Run(Path("/nonexistent")).view(), small.IDENTITY, small.TRAITS, Costs(costly))
    chosen = planned.cells[0]
    assert worker.Task(chosen, 1).limit_s(small.TRAITS) == pytest.approx(1020.0)
    short = worker.Task(chosen._replace(trial_s=1.0), 1)
    assert short.limit_s(small.TRAITS) == 180.0
    assert short.limit_s(replace(small.TRAITS, slowdown=20.0)) == 3600.0
    (long,) = small.matrix(tmp_path, axes="  aqm: [fifo]\n  warmup: [98s]\n", name="long").cells
    assert worker.Task(chosen._replace(cell=long, trial_s=1.0), 1).limit_s(small.TRAITS) == 500.0


# ---- adaptive trials
def numbers(run: Run) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for ended in run.ended():
        found.setdefault(ended.cell.aqm, []).append(ended.trial)
    return found


class Decider:
    """FIFO is decided at once, CoDel with five trials, DualPI2 never."""

    def __init__(self) -> None:
        self.looks: set[tuple[str, tuple[int, ...]]] = set()

    def __call__(self, cell: Cell, ended: Sequence[EndedTrial]) -> Literal["more", "enough"]:
        self.looks.add((cell.aqm, tuple(each.trial for each in ended)))
        enough = {"fifo": 3, "codel": 5, "dualpi2": 99}[cell.aqm]
        return "enough" if len(ended) >= enough else "more"


@pytest.mark.parametrize("jobs", [1, 4])
def test_adaptive_cells_are_looked_at_after_3_5_and_10(tmp_path: Path, jobs: int) -> None:
    wanted = small.matrix(tmp_path, "  aqm: [fifo, codel, dualpi2]\n", trials=ADAPTIVE)
    run = small.new_run(tmp_path / "runs", wanted)
    decide, happened = Decider(), list[events.Event]()
    result = small.run_matrix(
        wanted, run, small.SmallTestbed(), jobs=jobs, decide=decide, on_event=happened.append
    )
    assert numbers(run) == {"fifo": [1, 2, 3], "codel": [1, 2, 3, 4, 5], "dualpi2": list(range(1, 11))}
    first, second = (1, 2, 3), (1, 2, 3, 4, 5)
    looks = {("fifo", first), ("codel", first), ("dualpi2", first), ("codel", second), ("dualpi2", second)}
    assert decide.looks == looks
    assert result.ok + result.invalid == 18
    progress = Progress()
    for event in happened:
        progress = progress.after(event)
    assert (progress.trials, progress.ended) == (18, 18)
    assert progress.fraction == pytest.approx(1.0)


def test_an_adaptive_run_goes_on_where_it_was(tmp_path: Path) -> None:
    wanted = small.matrix(tmp_path, "  aqm: [fifo, codel, dualpi2]\n", trials=ADAPTIVE)
    run = small.new_run(tmp_path / "runs", wanted)
    small.run_matrix(wanted, run, small.SmallTestbed())  # nobody decides: the least number
    assert numbers(run) == {queue: [1, 2, 3] for queue in ("fifo", "codel", "dualpi2")}
    some = replace(wanted, cells=tuple(cell for cell in wanted.cells if cell.aqm == "codel"))
    small.run_matrix(
        some, run, small.SmallTestbed(), decide=lambda cell, ended: "more" if len(ended) < 4 else "enough"
    )
    assert numbers(run)["codel"] == [1, 2, 3, 4, 5]
    testbed = small.SmallTestbed()
    result = small.run_matrix(wanted, run, testbed, decide=Decider())
    assert numbers(run) == {"fifo": [1, 2, 3], "codel": [1, 2, 3, 4, 5], "dualpi2": list(range(1, 11))}
    assert len(testbed.ran) == result.ok + result.invalid == 7
    assert small.run_matrix(wanted, run, small.SmallTestbed(), decide=Decider()) == RunResult(0, 0, 0, 0)


def test_trials_that_a_cell_has_already_count_in_its_first_look(tmp_path: Path) -> None:
    """Tables have all of them, so fewer must not end the matter where all leave it open."""
    wanted = small.matrix(tmp_path, "  aqm: [fifo, codel, dualpi2]\n", trials=ADAPTIVE)
    run = small.new_run(tmp_path / "runs", wanted)
    five = small.matrix(tmp_path, "  aqm: [fifo, codel, dualpi2]\n", trials="5", name="five")
    small.run_matrix(five, run, small.SmallTestbed())
    small.run_matrix(
        wanted, run, small.SmallTestbed(), decide=lambda cell, ended: "enough" if len(ended) < 5 else "more"
    )
    assert numbers(run) == {queue: [*range(1, 11)] for queue in ("fifo", "codel", "dualpi2")}


@pytest.mark.parametrize("jobs", [1, 4])
def test_adaptive_trials_with_other_inputs_all_run_again(tmp_path: Path, jobs: int) -> None:
    wanted = small.matrix(tmp_path, "  aqm: [fifo, codel, dualpi2]\n", trials=ADAPTIVE)
    run = small.new_run(tmp_path / "runs", wanted)
    five = small.matrix(tmp_path, "  aqm: [fifo, codel, dualpi2]\n", trials="5", name="five")
    small.run_matrix(five, run, small.SmallTestbed())
    before = {ended.inputs_digest for ended in run.ended()}
    other = replace(small.IDENTITY, common={"kernel": "k2"})
    decide = Decider()
    testbed = small.SmallTestbed(identity_=other)
    small.run_matrix(wanted, run, testbed, jobs=jobs, decide=decide)
    assert before.isdisjoint(ended.inputs_digest for ended in run.ended())
    assert numbers(run) == {"fifo": [*range(1, 6)], "codel": [*range(1, 6)], "dualpi2": [*range(1, 11)]}
    assert len(testbed.ran) == len(set(testbed.ran)) == 20
    assert decide.looks == {(queue, (1, 2, 3, 4, 5)) for queue in ("fifo", "codel", "dualpi2")}
    again = small.run_matrix(wanted, run, small.SmallTestbed(identity_=other), decide=Decider())
    assert again == RunResult(0, 0, 0, 0)


def test_cells_whose_trials_all_fail_get_no_more(tmp_path: Path) -> None:
    wanted = small.matrix(tmp_path, "  aqm: [dualpi2]\n", trials=ADAPTIVE)
    run = small.new_run(tmp_path / "runs", wanted)
    result = small.run_matrix(wanted, run, small.SmallTestbed(fault=failing(1, 2, 3)), decide=Decider())
    assert (result.failed, result.ok) == (3, 0)


def test_a_decision_that_breaks_is_raised(tmp_path: Path) -> None:
    wanted = small.matrix(tmp_path, "  aqm: [fifo]\n", trials=ADAPTIVE)
    run = small.new_run(tmp_path / "runs", wanted)

    def decide(cell: Cell, ended: Sequence[EndedTrial]) -> Literal["more", "enough"]:
        raise LookupError("no such rule")

    with pytest.raises(LookupError, match="no such rule"):
        small.run_matrix(wanted, run, small.SmallTestbed(), decide=decide)
    assert len(list(run.ended())) == 3


# ---- interrupts
def test_one_interrupt_discards_what_runs_and_keeps_what_ended(wanted: Matrix, run: Run) -> None:
    happened = []

    def on_event(event: events.Event) -> None:
        happened.append(event)
        if isinstance(event, events.TrialEnded) and len(small.contents(run)) == 2:
            signal.raise_signal(signal.SIGINT)

    testbed = small.SmallTestbed(sleep_s=0.2)
    result = small.run_matrix(wanted, run, testbed, jobs=1, on_event=on_event)
    assert (result.interrupted, result.exit_code, result.ok + result.invalid) == (True, 130, 2)
    assert result.left == 10
    assert len(small.contents(run)) == 2
    assert not small.partials(run)
    assert [type(event) for event in happened[-3:]] in (
        [events.RunStopping, events.TrialDiscarded, events.RunEnded],
        [events.TrialEnded, events.RunStopping, events.RunEnded],
    )
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    small.run_matrix(wanted, run, small.SmallTestbed())
    assert len(small.contents(run)) == 12


def test_a_trial_that_the_interrupt_itself_ends_has_not_failed(wanted: Matrix, run: Run) -> None:
    """As if a terminal's signal met a trial's process before the engine took notice of it."""

    def hit(spec: TrialSpec, raw: Path) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        raise TrialFailed("ended by signal 2")

    result = small.run_matrix(wanted, run, small.SmallTestbed(fault=hit), jobs=1)
    assert (result.interrupted, result.failed, result.left) == (True, 0, 12)
    assert not list(run.ended())


def test_two_interrupts_stop_at_once(wanted: Matrix, run: Run) -> None:
    def on_event(event: events.Event) -> None:
        if isinstance(event, events.TrialStarted | events.RunStopping):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        small.run_matrix(
            wanted, run, small.SmallTestbed(sleep_s=10.0, stubborn=True), jobs=1, on_event=on_event
        )
    # a stubborn trial that was waited for would have ended
    assert not list(run.ended())


# ---- events and costs
def test_events_tell_the_whole_story(wanted: Matrix, run: Run) -> None:
    happened = list[events.Event]()
    thread = set()

    def on_event(event: events.Event) -> None:
        happened.append(event)
        thread.add(threading.current_thread())

    small.run_matrix(wanted, run, small.SmallTestbed(fault=failing(1)), jobs=4, on_event=on_event)
    assert thread == {threading.main_thread()}
    planned, *middle, last = happened
    assert isinstance(planned, events.RunPlanned)
    assert (planned.trials, planned.cells, planned.jobs) == (12, 6, 4)
    assert isinstance(last, events.RunEnded)
    started = {(e.cell_id, e.trial) for e in middle if isinstance(e, events.TrialStarted)}
    ended = {(e.cell_id, e.trial): e for e in middle if isinstance(e, events.TrialEnded)}
    assert started == ended.keys()
    assert {e.path for e in ended.values()} == set((run.path / "cells").glob("*/*"))
    assert {e.status for e in ended.values()} == set(Status)
    assert [event.at_s for event in happened] == sorted(event.at_s for event in happened)


def test_costs_are_learnt_and_make_the_next_estimate(wanted: Matrix, run: Run, tmp_path: Path) -> None:
    files = (tmp_path / "cache" / "cost.json",)
    book = CostBook("small", small.TRAITS.cost, files)
    testbed = small.SmallTestbed(sleep_s=0.1, fault=failing(2))
    small.run_matrix(wanted, run, testbed, jobs=1, costs=book)
    measured = CostBook("small", small.TRAITS.cost, files).costs()
    real_s = [ended.wall_s for ended in run.ended() if ended.status is not Status.FAILED]
    assert measured.every.cost_s(2.0, 100.0) == pytest.approx(sum(real_s) / len(real_s), rel=0.05)
    assert measured.every != small.TRAITS.cost
    assert measured.kinds.keys() == {kind_of(cell) for cell in wanted.cells}


def test_where_trials_compute_waiting_is_no_cost(wanted: Matrix, run: Run, tmp_path: Path) -> None:
    files = (tmp_path / "cost.json",)
    testbed = small.SmallTestbed(sleep_s=0.3, traits=replace(small.TRAITS, processor_bound=True))
    small.run_matrix(wanted, run, testbed, costs=CostBook("small", small.TRAITS.cost, files))
    found = CostBook("small", small.TRAITS.cost, files).costs().every.cost_s(2.0, 100.0)
    assert 0.01 < found < 0.2  # what the testbed states, and our own processor time
    assert min(ended.wall_s for ended in run.ended()) > 0.3


def test_a_plan_without_a_testbed_cannot_be_run(wanted: Matrix, run: Run) -> None:
    planned = plan(wanted, run.view(), None, small.TRAITS, Costs(small.TRAITS.cost))
    with locked(run) as writer, pytest.raises(ValueError, match="identity"):
        execute(Order(planned, writer, small.SmallTestbed(), small.judge))
