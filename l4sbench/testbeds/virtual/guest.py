# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""One user-mode Linux process: start it, wait for it, and leave nothing of it behind."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from l4sbench.disk.files import unfinished_folder
from l4sbench.engine.testbed import TrialStopped
from l4sbench.errors import TestbedError, TrialFailed
from l4sbench.store.leavings import TOO_MANY, holds_too_many
from l4sbench.testbeds.virtual import keeper
from l4sbench.testbeds.virtual.lab import GUEST_BIN
from l4sbench.testbeds.virtual.processors import own_cpu
from l4sbench.testbeds.virtual.traits import MEMORY_MB

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

GUEST_INIT: Final = GUEST_BIN / "lab-init"

EPOCH_NS: Final = 1_700_000_000_000_000_000
"""Wall-clock time at which every guest boots: a constant, so that equal trials are equal to the byte."""

_POLL_MS: Final = 200
_LOOK_S: Final = 1.0
"""Time between two looks at how many files a guest has left."""
_HERE: Final = "/proc/self/cwd"


@dataclass(frozen=True)
class Boot:
    """The inputs of one guest.

    Attributes:
        kernel: The user-mode Linux program.
        rootfs: Host folder that is the guest's root file system, mounted read-only.
        trial: Host folder mounted at /trial in the guest; the file `script` in it is what the guest executes.
        seed: 64-bit seed of the guest kernel's random numbers.
        virtual_time: False runs the guest on the wall clock (the interactive shell).
        memory_mb: The guest's memory.
    """

    kernel: Path
    rootfs: Path
    trial: Path
    seed: int
    virtual_time: bool = True
    memory_mb: int = MEMORY_MB

    def argv(self, cpu: int | None = None) -> list[str]:
        """Return the command line of a process whose working directory holds links to what it mounts.

        Args:
            cpu: The only CPU it may use; None for every one that this process may use.

        The guest's kernel stirs its command line into its random numbers. The line must not contain a path
        of the host, or equal trials would differ from run to run and from machine to machine.
        """
        # setpriv: the guest must not outlive the thread that waits for it, however l4sbench ends; if that
        # was before setpriv, the shell finds another parent
        clock = ["time-travel=inf-cpu", f"time-travel-start={EPOCH_NS}"] if self.virtual_time else []
        return [
            *([] if cpu is None else ["taskset", "--cpu-list", str(cpu)]),
            "setpriv",
            "--pdeathsig",
            "KILL",
            "sh",
            "-c",
            '[ "$PPID" = "$0" ] && exec "$@"',
            str(os.getpid()),
            str(self.kernel),
            "rootfstype=hostfs",
            f"rootflags={_HERE}/rootfs",
            "ro",
            f"init={GUEST_INIT}",
            f"mem={self.memory_mb}M",
            "con=null",
            "con0=fd:0,fd:1",
            "seccomp=on",
            f"uml_dir={_HERE}",
            f"lab.seed={self.seed}",
            *clock,
            "quiet",
            "panic=-1",
            f"LAB_TRIAL={_HERE}/trial",
            "LAB_SCRIPT=/trial/script",
        ]


@dataclass(frozen=True)
class Ended:
    """The end of a guest process: exit code, and wall and CPU seconds of the whole process tree."""

    returncode: int
    wall_s: float
    cpu_s: float


class Guests(Protocol):
    """A place where guests are booted."""

    @property
    def places(self) -> int | None:
        """Number of guests that run at once; None: one per core of this machine."""
        ...

    @property
    def queues(self) -> bool:
        """True if guests may be handed over that then wait for a place."""
        ...

    def run(self, boot: Boot, console: Path, limit_s: float, stop: threading.Event) -> Ended:
        """Boot a guest and wait for its end, as `run_guest` does."""
        ...


@dataclass(frozen=True)
class LocalGuests:
    """Guests on this machine."""

    places: int | None = None
    queues: bool = False

    def run(self, boot: Boot, console: Path, limit_s: float, stop: threading.Event) -> Ended:
        """Boot a guest and wait for its end, see `run_guest`."""
        return run_guest(boot, console, limit_s, stop)


def run_guest(boot: Boot, console: Path, limit_s: float, stop: threading.Event) -> Ended:
    """Boot a guest and wait until it has powered off.

    Args:
        boot: What to boot.
        console: File that receives the guest's console.
        limit_s: Wall-clock seconds after which the guest is killed.
        stop: Set from outside to end the guest at once.

    Raises:
        TrialFailed: the guest did not end within `limit_s`, or leaves more files than a trial may have.
        TrialStopped: `stop` was set.
        TestbedError: the guest could not be started at all.
    """
    with _run_dir(boot.memory_mb) as run_dir, console.open("wb") as out, own_cpu() as cpu:
        _link(boot, run_dir)
        began = time.monotonic()
        try:
            process = subprocess.Popen(
                boot.argv(cpu),
                cwd=run_dir,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=_environment(run_dir),
                start_new_session=True,
            )
        except OSError as error:
            raise TestbedError(f"cannot start the guest kernel: {error}", hint="l4sbench doctor") from error
        try:
            cpu_s = _wait(process, boot.trial, began + limit_s, stop)
        finally:
            _kill_session(process)
        wall_s = time.monotonic() - began
    if cpu_s is None:
        if stop.is_set():
            raise TrialStopped
        raise TrialFailed(f"no end within {limit_s:.0f} s of wall time; killed")
    return Ended(process.returncode, wall_s, cpu_s)


def attach_guest(boot: Boot) -> int:
    """Boot a guest with this process's terminal as its console; return its exit code when it ends.

    Raises:
        TestbedError: the guest could not be started.
    """
    with _run_dir(boot.memory_mb) as run_dir:
        _link(boot, run_dir)
        blocking = os.get_blocking(0)
        try:
            return subprocess.run(boot.argv(), cwd=run_dir, env=_environment(run_dir), check=False).returncode
        except OSError as error:
            raise TestbedError(f"cannot start the guest kernel: {error}", hint="l4sbench doctor") from error
        finally:
            os.set_blocking(0, blocking)  # user-mode Linux leaves its input non-blocking, for everyone


def _link(boot: Boot, run_dir: Path) -> None:
    (run_dir / "rootfs").symlink_to(boot.rootfs.resolve())
    (run_dir / "trial").symlink_to(boot.trial.resolve())


def _wait(
    process: subprocess.Popen[bytes], trial: Path, deadline: float, stop: threading.Event
) -> float | None:
    """CPU seconds of the ended process, or None when the deadline passed or `stop` was set first.

    Raises TrialFailed when its programs have filled the folder `trial`, which takes long to remove.
    """
    ended = select.poll()
    looked = time.monotonic()
    pidfd = os.pidfd_open(process.pid)
    try:
        ended.register(pidfd, select.POLLIN)
        while not stop.is_set() and time.monotonic() < deadline:
            if ended.poll(_POLL_MS):
                # wait4 and not Popen.wait: only wait4 reports the cost of this process and its children
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                return usage.ru_utime + usage.ru_stime
            if time.monotonic() - looked > _LOOK_S:
                if holds_too_many(trial):
                    raise TrialFailed(TOO_MANY)
                looked = time.monotonic()
    finally:
        os.close(pidfd)
    return None


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    """Kill all that is left of the guest: user-mode Linux keeps helper processes in its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.returncode is None:
        process.wait(timeout=10)


@contextlib.contextmanager
def _run_dir(memory_mb: int) -> Iterator[Path]:
    memory = memory_dir(memory_mb)
    _keep(memory)
    with unfinished_folder(memory) as path:
        path.chmod(0o700)
        yield path


_KEEPERS: Final[dict[Path, subprocess.Popen[bytes]]] = {}
_KEEPERS_LOCK: Final = threading.Lock()


def _keep(memory: Path) -> None:
    """Remove what killed processes left in `memory`, and see that the same is done after this one."""
    with _KEEPERS_LOCK:
        if memory in _KEEPERS:
            return
        keeper.sweep(memory)
        _KEEPERS[memory] = subprocess.Popen(
            [sys.executable, "-P", keeper.__file__, str(memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PYTHONPATH": str(Path(__file__).parents[3])},
            start_new_session=True,  # what kills this process must not kill the keeper
        )


def memory_dir(memory_mb: int) -> Path:
    """Return a folder in memory for guest memory, as a disk would write every touched page back."""
    shm = Path("/dev/shm")  # noqa: S108  (a folder of its own is made in it)
    if os.access(shm, os.W_OK) and shutil.disk_usage(shm).free > memory_mb * 1024 * 1024:
        return shm
    return Path(tempfile.gettempdir())


def _environment(run_dir: Path) -> Mapping[str, str]:
    # User-mode Linux puts the guest's memory below TMPDIR. Nothing else of the user's environment may reach
    # the guest, where it would make equal trials differ.
    return {"TMPDIR": str(run_dir), "HOME": str(run_dir), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
