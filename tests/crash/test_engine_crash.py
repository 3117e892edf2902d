# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Killing, interrupting and a full disk lose no ended trial and leave nothing that looks ended.

Done for real: every run here is a process of its own that runs the matrix of `small`.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from l4sbench.matrix import Matrix
from l4sbench.store import Run, locked
from tests.patience import PATIENCE_S, ran
from tests.unit.l4sbench import small

ROOT = Path(small.__file__).parents[3]
"""Limit for what ends soon, on a machine that is busy with other work."""
SMALL = (sys.executable, "-m", "tests.unit.l4sbench.small")


@contextmanager
def running(
    runs: Path, *options: str, command: Sequence[str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A process that runs the matrix, its first trial begun; it leads a process group, as a shell's job."""
    process = subprocess.Popen(
        command or [*SMALL, str(runs), *options],
        stdin=subprocess.DEVNULL,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "began\n", process.communicate()[1]
        yield process
    finally:
        process.kill()
        process.communicate()


def finished(runs: Path, *options: str) -> dict[str, object]:
    """What the process says that runs the matrix to its end."""
    done = ran([*SMALL, str(runs), *options], cwd=ROOT)
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]), exit=done.returncode)


def latest(runs: Path) -> Run:
    run = Run.latest(runs, "small")
    assert run is not None
    return run


def check_whole(run: Run, size: int) -> int:
    """Everything that looks ended is whole; how many trials that are."""
    ended = list(run.ended())
    for each in ended:
        for name in ("a.txt", "b.txt"):
            text = (each.raw / name).read_text()
            assert len(text) == size // 8 * 4
            assert text.startswith(f"{each.cell.id} {each.seed}")
    assert len(looking_ended(run)) == len(ended)
    return len(ended)


def looking_ended(run: Run) -> list[Path]:
    return [path for path in (run.path / "cells").glob("*/*") if not path.name.endswith(".partial")]


def has_ended(runs: Path, number: int) -> bool:
    """Return True if this many trials have ended."""
    return len(looking_ended(latest(runs))) >= number


def is_writing(runs: Path) -> bool:
    """Return True if a trial's process has begun to write, so has left the process group as well."""
    return any((path / "raw" / "a.txt").is_file() for path in small.partials(latest(runs)))


def until(true: Callable[[], bool]) -> None:
    """Wait for something that comes soon, however busy the machine is."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], tuple[str, str]]:
    runs = tmp_path_factory.mktemp("undisturbed")
    finished(runs, "--trials", "8")
    return dict(small.contents(latest(runs)))


def test_kill_at_any_point_leaves_only_whole_trials(
    tmp_path: Path, undisturbed: dict[tuple[str, int], tuple[str, str]]
) -> None:
    draw, ended, cut_short = random.Random(4711), [0], 0
    for _ in range(10):
        with running(tmp_path, "--trials", "8", "--sleep", "0.5", "--jobs", "3") as process:
            wanted = ended[-1] + draw.randint(0, 1)
            until(partial(has_ended, tmp_path, wanted))
            until(lambda: is_writing(tmp_path))
            time.sleep(draw.uniform(0.0, 0.1))  # anywhere in a trial
            os.kill(process.pid, signal.SIGKILL)
            process.wait(PATIENCE_S)
        run = latest(tmp_path)
        cut_short += len(small.partials(run))
        ended.append(check_whole(run, 1000))
        assert ended[-1] >= ended[-2]
    assert cut_short >= 5  # else nothing was killed in the middle of anything
    assert 0 < ended[-1] < len(undisturbed)
    assert finished(tmp_path, "--trials", "8")["error"] is None
    assert small.contents(latest(tmp_path)) == undisturbed
    assert not small.partials(latest(tmp_path))


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_kill_between_any_two_system_calls_of_the_store(tmp_path: Path) -> None:
    """Not at random: the process dies before each fsync and each rename of a trial in turn."""
    wanted = small.matrix(tmp_path)
    points = 0
    for point in range(1, 100):
        runs = tmp_path / f"runs-{point}"
        runs.mkdir()
        pid = os.fork()
        if pid == 0:
            _die_at(point, runs, wanted)
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0
            break
        points = point
        run = Run.latest(runs, "small")
        if run is not None:
            check_whole(run, 1000)
            with locked(run) as writer:
                assert not small.partials(run)
                assert sum(len(names) for names in writer.view.folders.values()) == len(list(run.ended()))
        shutil.rmtree(runs)
    assert points >= 15


def _die_at(point: int, runs: Path, wanted: Matrix) -> None:
    """In a forked child: run two trials, and die before the lasting system call of this number."""
    left = point

    def counting(call: Callable[..., object]) -> Callable[..., object]:
        def counted(*args: object, **kwargs: object) -> object:
            nonlocal left
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **kwargs)

        return counted

    try:
        for name in ("fsync", "rename", "replace", "symlink", "mkdir"):
            setattr(os, name, counting(getattr(os, name)))
        chosen = wanted.select(["aqm=fifo", "buffer_bdp=1"])
        small.run_matrix(chosen, small.new_run(runs, wanted), small.SmallTestbed(), jobs=1)
        os._exit(0)
    finally:
        os._exit(1)


def test_ctrl_c_in_a_terminal_keeps_what_ended(tmp_path: Path) -> None:
    finished(tmp_path, "--trials", "1")
    before = small.contents(latest(tmp_path))
    with running(tmp_path, "--sleep", "20") as process:
        until(lambda: is_writing(tmp_path))
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole group
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "stopping" in out
    run = latest(tmp_path)
    assert small.contents(run) == before
    assert not small.partials(run)


def test_ctrl_c_twice_ends_the_process_at_once(tmp_path: Path) -> None:
    with running(tmp_path, "--sleep", "60", "--stubborn") as process:
        until(lambda: is_writing(tmp_path))
        os.killpg(process.pid, signal.SIGINT)
        assert process.stdout is not None
        while process.stdout.readline() not in {"stopping\n", ""}:
            pass
        time.sleep(0.2)
        assert process.poll() is None  # it waits for a trial that does not stop
        os.killpg(process.pid, signal.SIGINT)
        process.wait(PATIENCE_S)
    assert check_whole(latest(tmp_path), 1000) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_terminating_and_hanging_up_is_interrupting(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path, "--sleep", "20") as process:
        process.send_signal(number)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert not small.partials(latest(tmp_path))


def test_hanging_up_twice_is_hanging_up_once(tmp_path: Path) -> None:
    with running(tmp_path, "--sleep", "60", "--stubborn") as process:
        process.send_signal(signal.SIGHUP)
        assert process.stdout is not None
        while process.stdout.readline() not in {"stopping\n", ""}:
            pass
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):  # it waits for a trial that does not stop
            process.wait(0.5)  # expires: nothing has to end


def test_hanging_up_does_nothing_where_it_is_ignored(tmp_path: Path) -> None:
    command = ["nohup", *SMALL, str(tmp_path), "--trials", "1", "--sleep", "0.5"]
    with running(tmp_path, command=command) as process:
        process.send_signal(signal.SIGHUP)
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert json.loads(out.splitlines()[-1])["ok"] == 6


def test_the_second_run_on_a_directory_is_refused(tmp_path: Path) -> None:
    with running(tmp_path, "--sleep", "20") as process:
        until(lambda: is_writing(tmp_path))
        second = ran([*SMALL, str(tmp_path)], cwd=ROOT)
        assert second.returncode != 0
        assert f"is in use by process {process.pid} on " in second.stderr
        assert "l4sbench run small" in second.stderr
        assert is_writing(tmp_path)  # it has not touched what the first is writing


def test_a_run_that_is_moved_away_ends_and_is_not_made_again(
    tmp_path: Path, undisturbed: dict[tuple[str, int], tuple[str, str]]
) -> None:
    with running(tmp_path, "--trials", "8", "--sleep", "0.1") as process:
        run = latest(tmp_path)
        while len(list(run.ended())) < 3:
            time.sleep(0.01)
        away = run.path.rename(tmp_path / "away")
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 3, err
    assert "the run directory was moved or removed" in json.loads(out.splitlines()[-1])["error"]
    assert not run.path.exists()
    check_whole(Run.open(away), 1000)
    away.rename(run.path)
    finished(tmp_path, "--trials", "8")
    assert small.contents(latest(tmp_path)) == undisturbed


# ---- full disks
FULL = """\
import json, sys
from pathlib import Path
from tests.unit.l4sbench import small
runs, size = Path(sys.argv[1]), int(sys.argv[2])
wanted = small.matrix(runs, trials="8")
ballast = runs / "ballast"
ballast.write_bytes(bytes(int(sys.argv[3])))
said = []
careless = sys.argv[4] == "careless"
for testbed in (small.SmallTestbed(size=size, careless=careless) for _ in range(2)):
    run = small.Run.latest(runs, "small") or small.new_run(runs, wanted)
    result = small.run_matrix(wanted, run, testbed, jobs=2)
    ended = list(run.ended())
    whole = [len((each.raw / name).read_text()) for each in ended for name in ("a.txt", "b.txt")]
    said.append({
        "exit": result.exit_code, "error": str(result.error), "failed": result.failed, "left": result.left,
        "ended": len(ended), "cut_short": sum(length != size // 8 * 4 for length in whole),
        "partials": len(small.partials(run)), "tried": len(testbed.ran),
    })
    ballast.unlink(missing_ok=True)
print(json.dumps(said))
"""
MOUNTED = 'mount -t tmpfs -o size=12m tmpfs "$1" && exec "$0" -c "$2" "$1" "$3" "$4" "$5"'


def _own_mounts() -> list[str]:
    """The command that gives a process mounts of its own: as root, or in a user namespace."""
    for command in (["unshare", "-m"], ["unshare", "-rm"]):
        if (
            shutil.which("unshare")
            and not subprocess.run([*command, "true"], check=False, capture_output=True).returncode
        ):
            return command
    pytest.skip("no mount namespaces here: neither root nor user namespaces")


@pytest.mark.parametrize("manner", ["careful", "careless"])
def test_a_full_disk_stops_the_run_and_ended_trials_are_whole(tmp_path: Path, manner: str) -> None:
    # 48 trials of 400 kB on a disk of 12 MB, of which 6 MB are taken at first and free for the second run.
    run_on_it = ["sh", "-c", MOUNTED, sys.executable, str(tmp_path), FULL, "400000", "6000000", manner]
    command = [*_own_mounts(), *run_on_it]
    done = ran(command, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)
    for said in (first, second):
        assert said["exit"] == 3
        assert "the disk is full" in said["error"]
        assert "free some space and run the same command again" in said["error"]
        assert (said["failed"], said["cut_short"], said["partials"]) == (0, 0, 0)
    assert 5 <= first["ended"] < second["ended"] < 48
    # It stops with the first trials that find no room, and does not try them all.
    assert first["tried"] <= first["ended"] + 2
    assert first["left"] == 48 - first["ended"]


def test_a_trial_that_may_not_write_so_much_fails_with_the_reason(tmp_path: Path) -> None:
    limit = f"ulimit -f 100; exec {' '.join(SMALL)} {tmp_path} --size 800000"
    done = ran(["bash", "-c", limit], cwd=ROOT)
    assert json.loads(done.stdout.splitlines()[-1])["failed"] == 12, done.stderr
    (reason,) = next(iter(latest(tmp_path).ended())).reasons
    assert reason == f"ended by signal {signal.SIGXFSZ.value}"
