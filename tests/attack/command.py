# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""One hostile input as a user meets it: its files, and the commands in processes of their own.

    python -m tests.attack.command KIND SEED NUMBER

makes the case in the current folder, prints its commands, runs them and prints the oracle's objections.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.attack.hostile import ROOT, Case, make_case
from tests.attack.loaded import text
from tests.attack.oracle import HANG_S, Ended, objections
from tests.attack.worker import base_run

_ADDRESS_SPACE: Final = 8 * 2**30


def environment(folder: Path) -> dict[str, str]:
    """Return an environment with nothing of this user's: no lab, no runs, no consent."""
    homes = ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
    own = {name: str(folder / "home" / name) for name in homes}
    return {**os.environ, **own, "PYTHONPATH": str(ROOT), "POLARS_MAX_THREADS": "1"}


def perform(argv: tuple[str, ...], folder: Path, env: dict[str, str], cpu_s: float) -> Ended:
    """Run one command in a process of its own, with limits that end it should it run away."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s * 2), int(cpu_s * 2)))
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))

    command = [sys.executable, "-m", "l4sbench", *argv]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            [os.fsencode(word) for word in command],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            preexec_fn=limit,  # noqa: PLW1509  (this process has no threads)
        )
        previous = signal.signal(signal.SIGALRM, lambda *_: os.killpg(process.pid, signal.SIGKILL))
        signal.alarm(int(HANG_S))
        try:
            _, status, used = os.wait4(process.pid, 0)
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, previous)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.returncode = os.waitstatus_to_exitcode(status)
        used_s = used.ru_utime + used.ru_stime
        return Ended(process.returncode, text(out), text(err), used_s, used.ru_maxrss / 1024)


def attack(case: Case, env: dict[str, str]) -> list[str]:
    """Run the commands of a case; return what the oracle objects to."""
    found: list[str] = []
    for argv in case.commands:
        ended = perform(argv, case.folder, env, case.limit_s(argv))
        against = objections(case, argv, ended)
        found += [f"{argv}: {text}\n{ended.err[-2000:]}" for text in against]
    return found


def main() -> int:
    """Make and run one case in the current folder."""
    kind, seed, number = sys.argv[1:]
    here = Path.cwd()
    around = here / f"{kind}-{seed}-{number}"
    case = make_case(kind, int(seed), int(number), around / "case", base_run(here))
    found = attack(case, environment(here))
    print(*(f"cd {case.folder}; l4sbench {' '.join(map(repr, argv))}" for argv in case.commands), sep="\n")  # noqa: T201
    print(*found, sep="\n")  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
