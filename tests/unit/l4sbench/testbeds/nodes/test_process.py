# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A remembered process is never taken for another one."""

import subprocess
from collections.abc import Iterator

import pytest

from l4sbench.testbeds.nodes.process import Process
from tests.patience import PATIENCE_S


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_a_process_is_found_while_it_runs_and_not_after(sleeper: subprocess.Popen[bytes]) -> None:
    process = Process.of(sleeper.pid)
    assert process is not None
    assert process.runs()
    process.kill()
    assert process.wait(PATIENCE_S)
    assert not process.runs()  # a zombie, as nobody has waited for it yet


def test_another_process_with_the_same_id_is_left_alone(sleeper: subprocess.Popen[bytes]) -> None:
    process = Process.of(sleeper.pid)
    assert process is not None
    for other in (
        process.model_copy(update={"start": process.start - 1}),
        process.model_copy(update={"boot": "another boot"}),
    ):
        assert not other.runs()
        other.kill()
        assert process.runs()


def test_no_process_has_an_id_that_is_free() -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    assert Process.of(ended.pid) is None
