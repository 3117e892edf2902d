# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Running other programs: argument lists, a time limit, a log file, and the log's last lines in the error."""

import os
import shlex
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from l4sbench.errors import TestbedError

Argv = Sequence[str | Path]


class KilledError(TestbedError):
    """A program that did not end by itself, so that it may have left half of a file."""


_TAIL_LINES = 12
_SAME_EVERYWHERE = {"LC_ALL": "C.UTF-8", "LANGUAGE": "C"}
"""Variables that keep output and sort order independent of the user who builds."""

# fmt: off
_DROPPED = frozenset({
    "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "ARCH", "SUBARCH", "CROSS_COMPILE",
    "KBUILD_OUTPUT", "KBUILD_EXTMOD", "KCONFIG_CONFIG", "KCFLAGS", "KCPPFLAGS", "KAFLAGS", "CFLAGS",
    "LDFLAGS", "LOCALVERSION", "O", "M", "V", "W", "C", "TAR_OPTIONS",
})
# fmt: on
"""Variables that control make, the kernel's build or tar, and which the caller set for something else."""


@dataclass(frozen=True)
class Commands:
    """Runs the programs of one step of a build.

    Attributes:
        log: File to which every command line and all output is appended.
        env: Variables to add to the environment.
    """

    log: Path
    env: Mapping[str, str]

    @classmethod
    def logging_to(cls, log: Path, env: Mapping[str, str] | None = None) -> Self:
        """Start with an empty log.

        Raises:
            TestbedError: The log cannot be written.
        """
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_bytes(b"")
        except OSError as error:
            raise TestbedError(f"cannot write the log {log}: {error}") from error
        return cls(log=log, env={**_SAME_EVERYWHERE, **(env or {})})

    def run(
        self,
        argv: Argv,
        *,
        what: str,
        timeout_s: float,
        cwd: Path | None = None,
        stdin: IO[bytes] | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> None:
        """Run a program to its end; its output goes into the log and, line by line, to `on_line`.

        Raises:
            TestbedError: The program did not start, failed, or took longer than `timeout_s`.
        """
        with (
            self.log.open("ab") as log,
            self._started(argv, what, timeout_s, log, subprocess.STDOUT, cwd, stdin) as process,
        ):
            for raw in process.stdout or ():
                log.write(raw)
                if on_line is not None:
                    on_line(raw.decode(errors="replace").rstrip("\n"))

    def output(self, argv: Argv, *, what: str, timeout_s: float) -> str:
        """Run a program and return its standard output; its error output goes into the log.

        Raises:
            TestbedError: As `run`.
        """
        with self.log.open("ab") as log, self._started(argv, what, timeout_s, log, log) as process:
            text = b"".join(process.stdout or ())
        return text.decode(errors="replace")

    def pipe(self, source: Argv, sink: Argv, *, what: str, timeout_s: float) -> None:
        """Run two programs, and feed the output of the first to the second.

        Raises:
            TestbedError: As `run`.
        """
        with (
            self.log.open("ab") as log,
            self._started(source, what, timeout_s, log, log) as process,
        ):
            self.run(sink, what=what, timeout_s=timeout_s, stdin=process.stdout)
            if process.stdout is not None:
                process.stdout.close()  # else a source with more output would wait forever

    @contextmanager
    def _started(
        self,
        argv: Argv,
        what: str,
        timeout_s: float,
        log: IO[bytes],
        stderr: IO[bytes] | int,
        cwd: Path | None = None,
        stdin: IO[bytes] | None = None,
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Start a program and yield it; wait for its end, and raise if it failed."""
        log.write(f"$ {shlex.join(map(str, argv))}\n".encode())
        log.flush()
        try:
            process = subprocess.Popen(
                [str(word) for word in argv],
                cwd=cwd,
                env={name: value for name, value in os.environ.items() if name not in _DROPPED}
                | dict(self.env),
                stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,  # its children end with it
            )
        except OSError as error:
            raise TestbedError(f"{what}: cannot start {argv[0]}: {error}", hint="l4sbench doctor") from error
        late = threading.Event()

        def end_late() -> None:
            late.set()
            _end(process)

        timer = threading.Timer(timeout_s, end_late)
        timer.daemon = True
        timer.start()
        try:
            yield process
            code = process.wait()
        except BaseException:
            _end(process)
            process.wait()
            raise
        finally:
            timer.cancel()
            if process.stdout is not None:
                process.stdout.close()
        log.flush()
        if late.is_set():
            raise KilledError(*self._reason(f"{what} took longer than {timeout_s:.0f} s"))
        if code != 0:
            kind = TestbedError if code > 0 else KilledError
            raise kind(*self._reason(f"{what} failed ({_how(code)})"))

    def _reason(self, message: str) -> tuple[str, str]:
        """Return the message of an error, with the end of the log, and the hint where the whole is."""
        with self.log.open(encoding="utf-8", errors="replace") as stream:
            tail = "".join(f"  {line}" for line in deque(stream, maxlen=_TAIL_LINES)).rstrip("\n")
        return f"{message}:\n{tail}", f"the whole log is {self.log}"


def _how(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"killed by {signal.Signals(-code).name}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and all that it started: one of them may outlive it and keep its output open."""
    if process.returncode is None:  # its number is not yet another's
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            process.kill()
