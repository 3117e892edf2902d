# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Runs on a Dask cluster of processes: the results of local runs, whatever is lost on the way."""

from __future__ import annotations

import platform
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.dask.cluster import Cluster, Command, StallingProxy, cluster, kill, wait_for
from tests.patience import PATIENCE_S

pytest.importorskip("distributed", reason="needs the extra `scale`")
pytestmark = pytest.mark.lab

MATRIX = """\
matrix: scale
topology: line6
rate: 20mbit
rtt: 10ms
duration: 10s
trials: 3
rule: l4sbench1
flows:
  l4s: {cc: prague}
  classic: {cc: cubic}
axes:
  aqm: [codel, dualpi2]
"""
TRIALS = 6
STALL_S = 30.0
MOUNT = 'mount -t tmpfs -o size=300k tmpfs "$0" && exec "$@"'

# all that may differ between two runs of one trial
TIMES = ('"cpu_s"', '"ended"', '"started"', '"wall_s"')


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scale") / "scale.yaml"
    path.write_text(MATRIX)
    return path


@pytest.fixture(scope="module")
def local(lab: Lab, matrix: Path) -> dict[str, bytes]:
    """The files of the same run without Dask."""
    runs = matrix.parent / "local"
    assert Command(matrix, runs).end() == 0
    return files(runs)


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path / "cluster") as made:
        yield made


def files(runs: Path) -> dict[str, bytes]:
    """Return the content of all files of trials and tables, without times."""
    run = runs / "scale" / "latest"
    found = {}
    for folder in ("cells", "tables"):
        for path in sorted((run / folder).rglob("*")):
            if path.is_file():
                content = path.read_bytes()
                if path.name == "trial.json":
                    lines = content.decode().splitlines()
                    content = "\n".join(x for x in lines if not x.strip().startswith(TIMES)).encode()
                found[str(path.relative_to(run))] = content
    return found


def on(address: str) -> list[str]:
    return ["--on", f"dask:{address}"]


def check_same(runs: Path, local: dict[str, bytes]) -> None:
    """All trials are there, none twice, each as in the local run."""
    found = files(runs)
    assert sorted(found) == sorted(local)
    assert [name for name in found if found[name] != local[name]] == []
    assert sum(name.endswith("trial.json") for name in found) == TRIALS


def test_two_workers_give_the_files_of_a_local_run(
    dask: Cluster, matrix: Path, local: dict[str, bytes], tmp_path: Path
) -> None:
    workers = [dask.start_worker(name) for name in ("one", "two")]
    wait_for(lambda: all("Registered" in log.read_text() for log in _logs(dask)), "no workers")
    first = Command(matrix, tmp_path, *on(dask.address))
    assert first.end() == 0, first.text
    check_same(tmp_path, local)
    # each got the lab once, whether or not it then ran the most
    assert [len(worker.labs()) for worker in workers] == [1, 1]
    assert first.text.count("gets the lab") == 2
    # resume: nothing to run, whoever asks; more trials: no lab travels again
    again = Command(matrix, tmp_path)
    assert again.end() == 0
    assert "0 trials" in again.text or "nothing to run" in again.text, again.text
    more = Command(matrix, tmp_path, *on(dask.address), "--trials", "4")
    assert more.end() == 0, more.text
    assert "gets the lab" not in more.text
    assert sum(name.endswith("trial.json") for name in files(tmp_path)) == TRIALS + 2


def _logs(dask: Cluster) -> list[Path]:
    return [dask.home / "one.log", dask.home / "two.log"]


def test_a_killed_worker_costs_nothing(
    dask: Cluster, matrix: Path, local: dict[str, bytes], tmp_path: Path
) -> None:
    workers = [dask.start_worker(name) for name in ("one", "two")]
    command = Command(matrix, tmp_path, *on(dask.address))
    command.wait_for_trial()
    wait_for(lambda: any(worker.guests() for worker in workers) or command.process.poll() is not None, "")
    dead = next(worker for worker in workers if worker.guests())
    kill(dead.process)
    wait_for(lambda: not dead.guests(), "guests outlive their worker")
    assert command.end() == 0, command.text
    check_same(tmp_path, local)


@pytest.mark.long
def test_a_killed_scheduler_that_comes_back_costs_running_trials(
    dask: Cluster, matrix: Path, local: dict[str, bytes], tmp_path: Path
) -> None:
    scheduler = dask.processes[0]
    worker = dask.start_worker("one")
    command = Command(matrix, tmp_path, *on(dask.address))
    command.wait_for_trial()
    kill(scheduler)
    wait_for(lambda: not worker.guests(), "guests outlive the scheduler")
    dask.start_scheduler()
    dask.start_worker("two")
    assert command.end() == 0, command.text
    assert "was lost" in command.text
    check_same(tmp_path, local)


@pytest.mark.long
def test_a_scheduler_that_is_gone_ends_the_run_and_another_resumes_it(
    dask: Cluster, matrix: Path, local: dict[str, bytes], tmp_path: Path
) -> None:
    dask.start_worker("one")
    command = Command(matrix, tmp_path, *on(dask.address))
    command.wait_for_trial()
    kill(dask.processes[0])
    assert command.end() == 3, command.text
    assert f"the Dask scheduler at {dask.address} is lost; ended trials are kept" in command.text
    assert "Traceback" not in command.text
    # without a cluster, with the same results
    assert Command(matrix, tmp_path).end() == 0
    check_same(tmp_path, local)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_guests_end_with_the_client_and_the_run_resumes(
    dask: Cluster, matrix: Path, local: dict[str, bytes], tmp_path: Path, number: signal.Signals
) -> None:
    worker = dask.start_worker("one")
    command = Command(matrix, tmp_path, *on(dask.address))
    command.wait_for_trial()
    wait_for(worker.guests, "no guest runs")
    command.process.send_signal(number)
    assert command.end() == (130 if number == signal.SIGINT else -number), command.text
    wait_for(lambda: not worker.guests(), "guests outlive their client")
    assert Command(matrix, tmp_path, *on(dask.address)).end() == 0
    check_same(tmp_path, local)


@pytest.mark.long
def test_a_network_that_stalls_costs_only_time(
    dask: Cluster, matrix: Path, local: dict[str, bytes], tmp_path: Path
) -> None:
    dask.start_worker("one")
    proxy = StallingProxy(dask.port)
    try:
        command = Command(matrix, tmp_path, *on(f"127.0.0.1:{proxy.port}"))
        command.wait_for_trial()
        proxy.stall(STALL_S)
        assert command.end() == 0, command.text
    finally:
        proxy.close()
    check_same(tmp_path, local)


@pytest.mark.long
@pytest.mark.parametrize("others", [0, 1])
def test_a_worker_with_a_full_disk_is_left_out(
    dask: Cluster, matrix: Path, local: dict[str, bytes], tmp_path: Path, others: int
) -> None:
    unshare = next((words for words in (["unshare", "-m"], ["unshare", "-rm"]) if _can_mount(words)), None)
    if unshare is None:
        pytest.skip("this user may not mount a tmpfs")
    small = tmp_path / "small"
    small.mkdir()
    dask.start_worker("small", [*unshare, "sh", "-c", MOUNT, str(small)], local=str(small))
    wait_for(lambda: "Registered" in (dask.home / "small.log").read_text(), "no worker")
    for _ in range(others):
        dask.start_worker("large")
        wait_for(lambda: "Registered" in (dask.home / "large.log").read_text(), "no worker")
    command = Command(matrix, tmp_path, *on(dask.address))
    assert command.end() == (0 if others else 3), command.text
    assert "is left out: the disk is full" in command.text
    if others:
        check_same(tmp_path, local)
    else:
        assert "no worker at " in command.text
        assert not [name for name in files(tmp_path) if name.endswith("trial.json")]


def _can_mount(unshare: list[str]) -> bool:
    if not shutil.which("unshare"):
        return False
    words = [*unshare, "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
    return subprocess.run(words, capture_output=True, timeout=PATIENCE_S, check=False).returncode == 0


@pytest.mark.skipif(platform.machine() != "x86_64", reason="linux32 makes it i686")
def test_a_worker_of_another_architecture_is_left_out(dask: Cluster, matrix: Path, tmp_path: Path) -> None:
    dask.start_worker("old", ["setarch", "i686"])
    command = Command(matrix, tmp_path, *on(dask.address))
    assert command.end() == 3, command.text
    assert "its architecture is i686, the lab's is x86_64" in command.text
    assert not (tmp_path / "scale").exists(), "a run directory was made"
