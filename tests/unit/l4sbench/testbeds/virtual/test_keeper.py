# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The keeper of guests: it ends and removes what a killed owner left, and touches nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from l4sbench.disk.files import temporary_name, unfinished_folder
from l4sbench.testbeds.virtual import keeper
from tests.patience import PATIENCE_S


def worker(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "600"], cwd=folder)


def test_what_lost_its_owner_goes(tmp_path: Path) -> None:
    dead = tmp_path / temporary_name()
    dead.mkdir()
    (dead / "memory").write_bytes(b"0" * 1000)
    orphans = [worker(dead) for _ in range(3)]
    keeper.sweep(tmp_path)
    assert [orphan.wait(PATIENCE_S) for orphan in orphans] == [-9, -9, -9]
    assert not list(tmp_path.iterdir())


def test_an_orphan_in_a_folder_that_is_gone_goes(tmp_path: Path) -> None:
    gone = tmp_path / temporary_name()
    gone.mkdir()
    orphan = worker(gone)
    gone.rmdir()
    keeper.sweep(tmp_path / "elsewhere")
    assert orphan.poll() is None
    keeper.sweep(tmp_path)
    assert orphan.wait(PATIENCE_S) == -9


def test_what_lives_or_is_not_ours_stays(tmp_path: Path) -> None:
    mine = tmp_path / "l4sbench-guest-mine"
    mine.mkdir()
    with unfinished_folder(tmp_path) as held:
        living = [worker(mine), worker(held), worker(tmp_path)]
        keeper.sweep(tmp_path)
        assert [process.poll() for process in living] == [None] * 3
        assert held.is_dir()
        for process in living:
            process.kill()
            process.wait()
    assert mine.is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of another user")
def test_folders_of_other_users_stay(tmp_path: Path) -> None:
    other = tmp_path / temporary_name()
    other.mkdir()
    os.chown(other, 65534, 65534)
    keeper.sweep(tmp_path)
    assert other.is_dir()


def start(memory: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", keeper.__file__, str(memory)],
        stdin=subprocess.PIPE,
        cwd="/",
        env={"PYTHONPATH": str(Path(keeper.__file__).parents[3])},
    )


def test_it_waits_for_the_end_of_its_owner(tmp_path: Path) -> None:
    with start(tmp_path) as process:
        dead = tmp_path / temporary_name()
        dead.mkdir()
        assert process.stdin is not None
        process.stdin.close()  # as when the owner ends
        assert process.wait(PATIENCE_S) == 0
    assert not dead.exists()


def test_it_sweeps_again_while_the_owner_is_still_ending(tmp_path: Path) -> None:
    first, last = (tmp_path / temporary_name() for _ in range(2))
    first.mkdir()
    with start(tmp_path) as process:
        with unfinished_folder(tmp_path) as held:
            held.rename(last)  # or this process would remove it
            assert process.stdin is not None
            process.stdin.close()
            while first.exists():  # the first sweep found the other folder locked
                assert process.poll() is None
                time.sleep(0.01)
            assert last.is_dir()
        assert process.wait(PATIENCE_S) == 0
    assert not last.exists()
