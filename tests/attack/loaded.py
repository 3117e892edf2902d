# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Ansible, imported once and forked for every inventory.

Importing it is most of what a command of Ansible costs. A fork has the limits, folder, environment and
streams of the command that it replaces. It is a child of this process, so that the oracle counts its time.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Final, NoReturn

from l4sbench.testbeds.ssh import inventory
from tests.patience import PATIENCE_S

_CONFINED: Final = ["sh", "-c", inventory._CONFINED, "sh", sys.executable, "-m", "ansible", "inventory"]
_MEMORY_BYTES: Final = inventory._MEMORY_LIMIT_KB * 1024


def keep_ansible_loaded() -> None:
    """Have inventories read by forks of this process, which must have no thread with a lock."""
    vars(inventory)["subprocess"] = SimpleNamespace(**vars(subprocess) | {"run": _run})


@cache
def _load(settings: frozenset[tuple[str, str]]) -> None:
    """Import Ansible, which reads its settings then."""
    assert "ansible" not in sys.modules, "the settings have changed"
    ours = dict(os.environ)
    os.environ.update(settings)
    import_module("ansible.cli.inventory")
    os.environ.clear()
    os.environ.update(ours)


def _run(argv: Sequence[str], *, cwd: str, env: Mapping[str, str], **_: object) -> object:
    """Do what `subprocess.run` does for the one command that reads an inventory."""
    assert argv[: len(_CONFINED)] == _CONFINED, argv
    _load(frozenset(env.items()))
    _await_end_of_threads()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = os.fork()
        if not pid:
            _become(list(argv[len(_CONFINED) - 1 :]), Path(cwd), env, (out.fileno(), err.fileno()))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return subprocess.CompletedProcess(argv, code, text(out), text(err))


def _await_end_of_threads() -> None:
    """Wait until there are no other threads, because these do not survive a fork.

    The system has a thread for a moment after it was joined. faulthandler has one that waits for the time to
    be up.
    """
    end_s = time.monotonic() + PATIENCE_S
    while len(os.listdir("/proc/self/task")) > 2:  # noqa: PTH208
        assert time.monotonic() < end_s, "a thread does not survive a fork"
        time.sleep(0.001)


def text(stream: IO[bytes]) -> str:
    """Return all that is in a file."""
    stream.seek(0)
    return stream.read().decode(errors="replace")


def _become(argv: list[str], folder: Path, env: Mapping[str, str], streams: tuple[int, int]) -> NoReturn:
    """Be the command, in a fork."""
    code = 1
    try:
        with Path(os.devnull).open("rb") as nothing:
            for number, descriptor in enumerate((nothing.fileno(), *streams)):
                os.dup2(descriptor, number)
        # Ansible sets the same for its own streams
        sys.stdout, sys.stderr = (
            open(number, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
            for number in (1, 2)
        )
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(env)
        resource.setrlimit(resource.RLIMIT_CPU, (inventory.CPU_LIMIT_S, inventory.CPU_LIMIT_S))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        import_module("ansible.cli.inventory").main(argv)
        code = 0
    except SystemExit as exiting:
        code = exiting.code if isinstance(exiting.code, int) else int(exiting.code is not None)
    except BaseException:  # noqa: BLE001  (as an interpreter reports it)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
