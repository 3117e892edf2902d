# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Programs are run with a time limit, and an error says what they said."""

import os
import select
from pathlib import Path

import pytest

from l4sbench.errors import TestbedError
from l4sbench.testbeds.virtual.lab.command import Commands, KilledError
from tests.patience import PATIENCE_S


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands.logging_to(tmp_path / "log" / "step.log", {"LAB_TEST": "yes"})


def test_lines_reach_the_callback_and_the_log(commands: Commands) -> None:
    lines: list[str] = []
    commands.run(
        ["sh", "-c", "echo one; echo two >&2"], what="a try", timeout_s=PATIENCE_S, on_line=lines.append
    )
    assert lines == ["one", "two"]
    assert commands.log.read_text() == "$ sh -c 'echo one; echo two >&2'\none\ntwo\n"


def test_output_is_what_was_printed_and_no_more(commands: Commands) -> None:
    assert (
        commands.output(["sh", "-c", "echo $LAB_TEST; echo no >&2"], what="a try", timeout_s=PATIENCE_S)
        == "yes\n"
    )
    assert "no\n" in commands.log.read_text()


def test_a_failure_carries_the_end_of_the_log_and_its_name(commands: Commands) -> None:
    with pytest.raises(TestbedError) as caught:
        commands.run(
            ["sh", "-c", "seq 100; echo gcc: no space >&2; exit 3"], what="compiling", timeout_s=PATIENCE_S
        )
    message = str(caught.value)
    assert "compiling failed (exit code 3)" in message
    assert "gcc: no space" in message
    assert "\n  50\n" not in message
    assert str(commands.log) in message


def test_a_late_program_is_ended_with_its_children(commands: Commands, tmp_path: Path) -> None:
    pipe = tmp_path / "held"
    os.mkfifo(pipe)
    held = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    argv = ["sh", "-c", f"exec 3>{pipe}; sh -c 'echo started >&3; sleep 600' & sleep 600"]
    try:
        with pytest.raises(TestbedError, match="took longer than"):
            commands.run(argv, what="waiting", timeout_s=1.0)  # expires: the command never ends
        # the pipe ends when the last process that could write to it has ended
        os.set_blocking(held, True)
        while select.select([held], [], [], PATIENCE_S)[0] and os.read(held, 100):
            pass
        assert select.select([held], [], [], 0)[0], "a child is still alive"
    finally:
        os.close(held)


def test_a_killed_program_is_told_from_one_that_failed(commands: Commands) -> None:
    with pytest.raises(TestbedError, match="killed by SIGSEGV"):
        commands.run(["sh", "-c", "kill -SEGV $$"], what="a try", timeout_s=PATIENCE_S)


def test_a_program_that_is_not_there_sends_to_the_doctor(commands: Commands) -> None:
    with pytest.raises(TestbedError, match="l4sbench doctor"):
        commands.run(["no-such-program"], what="a try", timeout_s=PATIENCE_S)


def test_a_pipe_hands_bytes_on(commands: Commands, tmp_path: Path) -> None:
    commands.pipe(["printf", "a\\nb\\n"], ["tee", tmp_path / "out"], what="a pipe", timeout_s=PATIENCE_S)
    assert (tmp_path / "out").read_text() == "a\nb\n"


@pytest.mark.parametrize(
    ("source", "sink"),
    [("exit 2", "cat"), ("yes", "exit 2"), ("yes | head -c 100000000", "head -c 10; exit 2")],
)
def test_a_pipe_fails_when_either_end_does(commands: Commands, source: str, sink: str) -> None:
    with pytest.raises(TestbedError, match=r"a pipe failed \(exit code 2\)"):
        commands.pipe(["sh", "-c", source], ["sh", "-c", sink], what="a pipe", timeout_s=PATIENCE_S)


def test_a_callers_make_does_not_steer_ours(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAKEFLAGS", "--dry-run")
    monkeypatch.setenv("ARCH", "arm64")
    said = commands.output(["sh", "-c", "echo [$MAKEFLAGS$ARCH]"], what="a try", timeout_s=PATIENCE_S)
    assert said == "[]\n"


def test_a_child_that_keeps_the_output_open_is_late_too(commands: Commands) -> None:
    argv = ["sh", "-c", "sleep 600 & exit 0"]
    with pytest.raises(KilledError, match="took longer than"):
        commands.run(argv, what="waiting", timeout_s=1.0)  # expires: the child never ends
