# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Random numbers of a guest come from its seed alone, whatever signals the host sends it meanwhile."""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.guests import Outcome, Script, boot

pytestmark = pytest.mark.lab

SEED = 0x5EED_0F_51C41D
SLEEPS = 30
"""Seconds of virtual time: the kernel takes new entropy into use after one second, then more rarely."""
PAUSE_S = 0.0005


def random_bytes(lab: Lab, folder: Path) -> bytes:
    """Return what /dev/urandom gives a guest in its last second."""
    script = Script()
    for _ in range(SLEEPS):
        script.run("-", "busybox", "sleep", 1)
    script.run("-", "busybox", "dd", "if=/dev/urandom", "bs=32", "count=1", out="random")
    outcome: Outcome = boot(lab, script, folder, seed=SEED)
    assert outcome.end["ok"], outcome.end
    return (folder / "random").read_bytes()


def awaits_children(status: str) -> bool:
    """Return True if a process, by its /proc/PID/status, is our child and has a handler for SIGCHLD."""
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    caught = int(fields["SigCgt"], 16) & 1 << signal.SIGCHLD - 1
    return bool(caught) and int(fields["PPid"]) == os.getpid()


def send(stop: threading.Event, count: Callable[[], None]) -> None:
    """Send signals to the guest of this test, once it has booted, until it ends."""
    argument = f"lab.seed={SEED}".encode()
    while not stop.wait(PAUSE_S):  # expires: signals go on
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended
                if argument in (path / "cmdline").read_bytes().split(b"\0") and awaits_children(
                    (path / "status").read_text()
                ):
                    while not stop.wait(PAUSE_S):  # expires: signals go on
                        os.kill(int(path.name), signal.SIGCHLD)
                        count()


def test_signals_of_the_host_do_not_change_random_numbers(lab: Lab, tmp_path: Path) -> None:
    undisturbed = random_bytes(lab, tmp_path / "undisturbed")
    assert len(undisturbed) == 32
    stop, sent = threading.Event(), threading.Semaphore(0)
    sender = threading.Thread(target=send, args=(stop, sent.release))
    sender.start()
    try:
        disturbed = random_bytes(lab, tmp_path / "disturbed")
    finally:
        stop.set()
        sender.join()
    assert sent.acquire(blocking=False), "no signal was sent"
    assert disturbed == undisturbed
