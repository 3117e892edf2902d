# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""What stands in a run directory has ended, and stays as it is."""

import fcntl
import json
import multiprocessing
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from l4sbench.errors import InputError, TestbedError
from l4sbench.facts.events import Status
from l4sbench.facts.faults import Fault, FaultKind, stored_fault
from l4sbench.facts.traits import Identity
from l4sbench.matrix import Matrix
from l4sbench.planning.estimating import Costs
from l4sbench.planning.plan import plan
from l4sbench.program import programs
from l4sbench.program.trial import TrialSpec, draw_conditions, seed_of
from l4sbench.store import Ending, Run, RunLocked, RunMoved, RunWriter, TrialFolder, locked, user_of
from l4sbench.store.trialfile import TrialEnding
from l4sbench.topology import topology
from tests.unit.l4sbench import small

OK = Ending(Status.OK, (), small.IDENTITY, datetime.now(UTC), 1.5, 0.5, 2.0, 0.1)
BUSY = Fault.of(FaultKind.BUSY, "router", late=0.5, limit_ms=5.0, most_ms=12, stolen=0.25)
FAILED = Ending(
    Status.FAILED, (Fault.of(FaultKind.FAILED, problem="it hung"),), small.IDENTITY, datetime.now(UTC), 60.0
)


@pytest.fixture
def writer(run: Run) -> Iterator[RunWriter]:
    with locked(run) as writer:
        yield writer


def spec_of(wanted: Matrix, cell: int = 0, trial: int = 1, digest: str = "aaaa") -> TrialSpec:
    chosen, place = wanted.cells[cell], topology("line6")
    seed = seed_of(wanted.seed, trial)
    made = programs(chosen, place, wanted.catalog, draw_conditions(chosen, seed, small.TRAITS))
    return TrialSpec(chosen, trial, seed, made, place, digest)


def end(writer: RunWriter, spec: TrialSpec, ending: Ending = OK, text: str = "raw") -> Path:
    with writer.begin(spec) as partial:
        (partial.raw / "router").mkdir()
        (partial.raw / "router" / "qdisc.json").write_text(text)
        return partial.end(ending)


# ---- the directory
def test_a_new_run_has_manifest_matrix_and_latest(tmp_path: Path, wanted: Matrix, run: Run) -> None:
    home = tmp_path / "runs" / "small"
    assert sorted(path.name for path in home.iterdir() if not path.name.startswith(".")) == [
        run.path.name,
        "latest",
    ]
    assert (home / "latest").readlink() == Path(run.path.name)
    assert (run.path / "matrix.yaml").read_bytes() == wanted.source
    assert run.manifest.matrix == "small"
    assert run.manifest.provenance == {"git": "v0"}
    assert datetime.fromisoformat(run.manifest.created).tzinfo is not None
    for path in (run.path, home, home / "latest"):
        assert Run.open(path).path == run.path


def test_runs_of_one_second_do_not_share_a_directory(tmp_path: Path, wanted: Matrix) -> None:
    runs = [small.new_run(tmp_path / "runs", wanted) for _ in range(3)]
    assert len({run.path for run in runs}) == 3
    newest = Run.latest(tmp_path / "runs", "small")
    assert newest is not None
    assert newest.path == runs[-1].path
    assert max(run.path for run in runs) == runs[-1].path


def test_latest_before_the_first_run_is_none(tmp_path: Path) -> None:
    assert Run.latest(tmp_path, "small") is None
    with pytest.raises(InputError, match="is not a run directory"):
        Run.open(tmp_path)


def test_what_is_not_from_the_store_stays(tmp_path: Path, wanted: Matrix, run: Run) -> None:
    mine = [run.path.with_name(name) for name in ("mine.partial", "20200101T000000Z.partial")]
    mine.append(run.path / "cells" / "some-cell" / "notes.partial")
    for path in mine:
        path.mkdir(parents=True)
    odd = run.path / "cells" / "some-cell" / "1-aaaa.partial"
    odd.write_text("a file")
    small.new_run(tmp_path / "runs", wanted)
    with locked(run):
        assert all(path.is_dir() for path in mine)
        assert odd.read_text() == "a file"


def test_a_newer_format_is_refused_with_what_to_do(run: Run) -> None:
    manifest = run.path / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"format": 2}))
    with pytest.raises(InputError, match=r"format 2, .* reads formats up to 1; install the newer l4sbench"):
        Run.open(run.path)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": "1"}', '{"format": 1}', '{"format": 1, "x": 2}']
)
def test_a_damaged_manifest_is_bad_input(run: Run, text: str) -> None:
    (run.path / "manifest.json").write_text(text)
    with pytest.raises(InputError, match=r"manifest\.json"):
        Run.open(run.path)


@pytest.mark.parametrize(
    ("name", "value"),
    [("provenance", []), ("provenance", {"variant": 1}), ("matrix", {}), ("order_seed", "7"), ("created", 1)],
)
def test_facts_of_a_manifest_have_types(run: Run, name: str, value: object) -> None:
    manifest = run.path / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {name: value}))
    with pytest.raises(InputError, match=rf"manifest\.json has no valid {name}$"):
        Run.open(run.path)


# ---- trials
def test_an_ended_trial_comes_back_as_it_was(wanted: Matrix, run: Run, writer: RunWriter) -> None:
    spec = spec_of(wanted)
    place = end(writer, spec)
    assert place == run.path / "cells" / spec.cell.id / "1-aaaa"
    (ended,) = run.ended()
    assert (ended.cell, ended.trial, ended.seed, ended.inputs_digest) == (spec.cell, 1, spec.seed, "aaaa")
    assert (ended.status, ended.reasons) == (Status.OK, ())
    assert ended.programs == spec.programs
    assert (ended.raw / "router" / "qdisc.json").read_text() == "raw"
    assert (ended.testbed, ended.kernel_release, ended.virtual_s) == ("small", "7.0.0", 2.0)
    plain = json.loads((place / "trial.json").read_text())
    assert plain["format"] == 1
    assert plain["cell"]["factors"]["rate"] == "100mbit"
    assert plain["identity"]["modules"] == {"tcp_prague": "p1"}


def test_a_trial_that_does_not_end_leaves_nothing(wanted: Matrix, run: Run, writer: RunWriter) -> None:
    with writer.begin(spec_of(wanted)) as partial:
        assert partial.folder.name.endswith(".partial")
        (partial.raw / "a").write_text("x")
    assert not list((run.path / "cells").glob("*/*"))
    assert not list(run.ended())


def test_failed_tries_stand_beside_each_other(wanted: Matrix, run: Run, writer: RunWriter) -> None:
    spec = spec_of(wanted)
    assert end(writer, spec, FAILED).name == "1-aaaa.failed-1"
    assert end(writer, spec, FAILED).name == "1-aaaa.failed-2"
    (failed,) = run.ended()
    assert (failed.status, failed.reasons, failed.raw.parent.name) == (
        Status.FAILED,
        ("it hung",),
        "1-aaaa.failed-2",
    )
    assert end(writer, spec).name == "1-aaaa"
    (ended,) = run.ended()
    assert ended.status is Status.OK
    assert len(run.view().of(spec.cell.id)) == 3


def test_other_inputs_stand_beside_and_the_newest_counts(wanted: Matrix, run: Run, writer: RunWriter) -> None:
    end(writer, spec_of(wanted, digest="ffff"))
    end(writer, spec_of(wanted, digest="bbbb"), text="newer")
    (ended,) = run.ended()
    assert (ended.inputs_digest, (ended.raw / "router" / "qdisc.json").read_text()) == ("bbbb", "newer")


def test_a_good_try_counts_whatever_the_clock_said(wanted: Matrix, run: Run, writer: RunWriter) -> None:
    spec = spec_of(wanted)
    failed, good = end(writer, spec, FAILED), end(writer, spec)
    note = json.loads((failed / "trial.json").read_text())
    for folder in (failed, good.with_name("1-aaaa.failed-10")):
        folder.mkdir(exist_ok=True)
        # before the good one, by a clock that was set back then
        (folder / "trial.json").write_text(json.dumps(note | {"ended": "2999-01-01T00:00:00.000000Z"}))
    (ended,) = run.ended()
    assert (ended.status, ended.raw.parent) == (Status.OK, good)


def test_of_failed_tries_the_last_counts(wanted: Matrix, run: Run, writer: RunWriter) -> None:
    for _ in range(11):
        end(writer, spec_of(wanted), FAILED)
    (ended,) = run.ended()
    assert ended.raw.parent.name == "1-aaaa.failed-11"


def test_an_ended_trial_is_never_overwritten(wanted: Matrix, run: Run, writer: RunWriter) -> None:
    end(writer, spec_of(wanted), text="first")
    with pytest.raises(TestbedError, match=r"cannot be written: .*not empty"):
        end(writer, spec_of(wanted), text="second")
    (ended,) = run.ended()
    assert (ended.raw / "router" / "qdisc.json").read_text() == "first"
    assert not small.partials(run)


def test_trials_come_sorted_and_by_cell(wanted: Matrix, run: Run, writer: RunWriter) -> None:
    for cell, trial in ((2, 10), (2, 9), (0, 1)):
        end(writer, spec_of(wanted, cell, trial))
    found = [(ended.cell.id, ended.trial) for ended in run.ended()]
    assert found == sorted(found)
    assert len(found) == 3
    chosen = wanted.cells[2].id
    assert [ended.trial for ended in run.ended([chosen, "no-such-cell"])] == [9, 10]
    assert [
        ended.trial for ended in run.ended_as(chosen, [TrialFolder(10, "aaaa"), TrialFolder(9, "bbbb")])
    ] == [10]


def test_what_is_no_trial_is_not_taken_for_one(wanted: Matrix, run: Run, writer: RunWriter) -> None:
    end(writer, spec_of(wanted))
    cell = run.path / "cells" / wanted.cells[0].id
    for name in ("2-aaaa.partial", "2-aaaa.bak", "notes", "0-aaaa", "2-aaaa.failed-0"):
        (cell / name).mkdir()
    (run.path / "cells" / "README").write_text("mine")
    assert run.view().of(wanted.cells[0].id) == (TrialFolder(1, "aaaa"),)


def test_damage_is_told_with_what_to_do(wanted: Matrix, run: Run, writer: RunWriter) -> None:
    place = end(writer, spec_of(wanted))
    (place / "raw" / "programs.json").unlink()
    with pytest.raises(InputError, match=r"is damaged.*move it away"):
        list(run.ended())


def rename_node(programs: Any, name: str) -> None:
    programs[name] = programs.pop("router")


NAMES: dict[str, Callable[[Any, str], None]] = {
    "node": rename_node,
    "node in a program": lambda programs, name: programs["router"].update(node=name),
    "link": lambda programs, name: programs["router"]["links"][0].update(network=name),
    "samples": lambda programs, name: programs["router"]["samplers"][0].update(network=name),
    "read-back": lambda programs, name: programs["router"]["readback"][0].update(output=name),
    "expected": lambda programs, name: programs["router"]["expected"][0].update(output=name),
    "server": lambda programs, name: programs["rx-l4s"]["servers"][0].update(output=name),
    "flow": lambda programs, name: programs["tx-l4s"]["flows"][0].update(flow=name),
    "result": lambda programs, name: programs["tx-l4s"]["flows"][0].update(output=name),
    "receiver": lambda programs, name: programs["tx-l4s"]["flows"][0].update(receiver=name),
    "change": lambda programs, name: programs["router"]["changes"].append(
        {
            "event": "late",
            "factor": "rate",
            "value": "1mbit",
            "at": "1s",
            "commands": [],
            "readback": {"name": "late", "argv": ["tc"], "output": name},
        }
    ),
}
"""Names in the programs of a trial that become parts of paths of its raw files."""


@pytest.mark.parametrize("where", NAMES)
def test_names_of_raw_files_lead_nowhere_else(
    wanted: Matrix, run: Run, writer: RunWriter, where: str
) -> None:
    """A run may come from elsewhere, and what it names is read and reported."""
    file = end(writer, spec_of(wanted)) / "raw" / "programs.json"
    before = file.read_text()
    for name in ("", ".", "..", "../secret", "/etc/passwd", "a/b", "a\\b", "a\0b"):
        programs = json.loads(before)
        NAMES[where](programs, name)
        file.write_text(json.dumps(programs))
        message = re.escape(f'"{name}" is not a valid name of a raw file or its folder; move it away')
        with pytest.raises(InputError, match=rf"is damaged: raw/programs\.json: .*{message}"):
            list(run.ended())
    programs = json.loads(before)
    NAMES[where](programs, "...")
    file.write_text(json.dumps(programs))
    assert len(list(run.ended())) == 1


def test_raw_files_in_a_linked_folder_are_not_read(
    wanted: Matrix, run: Run, writer: RunWriter, tmp_path: Path
) -> None:
    raw = end(writer, spec_of(wanted)) / "raw"
    raw.rename(tmp_path / "elsewhere")
    raw.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="is damaged: raw is not a folder; move it away"):
        list(run.ended())


@pytest.mark.parametrize("kind", ["a link", "a FIFO"])
def test_a_trial_file_that_is_no_regular_file_is_not_read(
    wanted: Matrix, run: Run, writer: RunWriter, tmp_path: Path, kind: str
) -> None:
    """A link leads to files of the user, and a FIFO has no end."""
    file = end(writer, spec_of(wanted)) / "trial.json"
    file.rename(tmp_path / "elsewhere.json")
    if kind == "a FIFO":
        os.mkfifo(file)
    else:
        file.symlink_to(tmp_path / "elsewhere.json")
    for read in (run.endings, run.ended):
        with pytest.raises(InputError) as caught:
            list(read())
        assert str(caught.value) == (
            f"{file.parent} is damaged: trial.json: cannot be read: it is {kind}; "
            "move it away, and `l4sbench run` runs that trial again"
        )


def test_endings_are_those_of_the_trials(wanted: Matrix, run: Run, writer: RunWriter) -> None:
    end(writer, spec_of(wanted), replace(OK, status=Status.FAILED, faults=FAILED.faults))
    end(writer, spec_of(wanted), replace(OK, status=Status.INVALID, faults=(BUSY,)))
    end(writer, spec_of(wanted, trial=2))
    assert list(run.endings()) == [TrialEnding.of(trial) for trial in run.ended()]
    assert [ending.status for ending in run.endings()] == ["invalid", "ok"]
    assert next(run.endings()).faults == (BUSY,)


def test_reasons_that_an_older_version_wrote_are_read(wanted: Matrix, run: Run, writer: RunWriter) -> None:
    place = end(writer, spec_of(wanted), replace(OK, status=Status.INVALID, faults=(BUSY,)))
    plain = json.loads((place / "trial.json").read_text())
    del plain["faults"]
    (place / "trial.json").write_text(json.dumps(plain))
    (ended,) = run.ended()
    assert ended.reasons == (BUSY.text,)
    assert ended.faults == (stored_fault(BUSY.text),)


def test_an_ending_is_read_without_the_programs(wanted: Matrix, run: Run, writer: RunWriter) -> None:
    place = end(writer, spec_of(wanted))
    (place / "raw" / "programs.json").unlink()
    assert [ending.raw for ending in run.endings()] == [place / "raw"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"status": "ok"', '"status": "fine"', "is damaged: 'fine' is not a valid Status"),
        ('"trial": 1', '"trial": 3', "is damaged: its trial.json is of "),
        ('"format": 1', '"format": 99', "reads formats up to"),
        ('"format": 1,', "", r"is damaged: trial\.json has no format version; move it away"),
        ("{", "", r"is damaged: trial\.json:.* is not valid JSON.*; move it away"),
    ],
)
def test_a_damaged_ending_is_told_as_a_damaged_trial(
    wanted: Matrix, run: Run, writer: RunWriter, old: str, new: str, message: str
) -> None:
    file = end(writer, spec_of(wanted)) / "trial.json"
    file.write_text(file.read_text().replace(old, new, 1))
    for read in (run.endings, run.ended):
        with pytest.raises(InputError, match=message):
            list(read())


def test_the_copy_of_the_matrix_is_what_ran_last(run: Run, writer: RunWriter) -> None:
    writer.keep_matrix(b"matrix: small\n")
    assert (run.path / "matrix.yaml").read_bytes() == b"matrix: small\n"


# ---- the lock
def test_the_second_process_is_refused_and_told_who_runs(run: Run) -> None:
    with locked(run, "l4sbench run quickstart"), pytest.raises(RunLocked) as refused, locked(run, "second"):
        pass
    assert f"process {os.getpid()} on " in str(refused.value)
    assert "l4sbench run quickstart" in str(refused.value)
    since = str(refused.value).partition(" since ")[2].partition(": ")[0]
    assert timedelta(0) < datetime.now(UTC) - datetime.fromisoformat(since) < timedelta(minutes=1)
    assert refused.value.exit_code == 2
    with locked(run, "third"):
        pass
    assert not (run.path / "lock.json").exists()


def _hold_and_die(path: Path) -> None:
    with locked(Run.open(path), "dies"):
        (path / "cells" / "some-cell" / "1-aaaa.partial" / "raw").mkdir(parents=True)
        os._exit(9)


def test_a_dead_process_holds_no_lock_and_its_leftovers_go(run: Run) -> None:
    left = run.path / "cells" / "some-cell" / "1-aaaa.partial" / "raw"
    process = multiprocessing.get_context("spawn").Process(target=_hold_and_die, args=(run.path,))
    process.start()
    process.join(300)
    assert process.exitcode == 9
    assert (run.path / "lock.json").exists()
    assert left.exists()
    with locked(run) as writer:
        assert not left.parent.exists()
        assert writer.view.folders == {}


def test_reading_removes_nothing(run: Run) -> None:
    left = run.path / "cells" / "some-cell" / "1-aaaa.partial"
    left.mkdir(parents=True)
    assert list(run.ended()) == []
    assert left.exists()


def test_a_plan_reads_what_the_store_wrote(wanted: Matrix, run: Run, writer: RunWriter) -> None:
    identity = Identity("small", "7.0.0")
    first = plan(wanted, writer.view, identity, small.TRAITS, Costs(small.TRAITS.cost))
    (digest,) = first.inputs(identity).digests(first.cells[0].cell, [1])
    end(writer, spec_of(wanted, digest=digest))
    second = plan(wanted, run.view(), identity, small.TRAITS, Costs(small.TRAITS.cost))
    assert not second.cells[0].trials[0].runs
    assert second.to_run == first.to_run - 1


def test_a_run_that_is_moved_while_it_is_locked_is_not_made_again(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late(FileLock):
        def acquire(self, *args: Any, **kwargs: Any) -> Any:
            run.path.rename(tmp_path / "away")
            return super().acquire(*args, **kwargs)

    monkeypatch.setattr("filelock.FileLock", Late)
    with pytest.raises(RunMoved), locked(run):
        pass
    assert not run.path.exists()
    assert Run.open(tmp_path / "away").view().folders == {}
    with pytest.raises(RunMoved), locked(run):
        pass


def test_a_process_that_looks_who_holds_the_lock_keeps_nobody_out(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the lock together with others that look, until its look is over."""
    with (run.path / ".lock").open("w") as looks:
        fcntl.flock(looks, fcntl.LOCK_SH)
        monkeypatch.setattr("l4sbench.store.lock.time.sleep", lambda _: fcntl.flock(looks, fcntl.LOCK_UN))
        with locked(run):
            assert user_of(run.path) is not None


def test_whoever_holds_the_lock_is_named_and_pipes_are_not_waited_for(run: Run) -> None:
    assert user_of(run.path) is None
    with locked(run, "l4sbench run mine.yaml"):
        assert str(os.getpid()) in (user_of(run.path) or "")
        assert "l4sbench run mine.yaml" in (user_of(run.path) or "")
        (run.path / "lock.json").write_bytes(b"x" * 100)
        assert user_of(run.path) == "an unknown process"
    (run.path / ".lock").unlink()
    os.mkfifo(run.path / ".lock")
    assert user_of(run.path) is None
