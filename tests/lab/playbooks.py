# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Playbooks as a user runs them by hand, and the lists of files that each test executes."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from l4sbench.disk import assets
from l4sbench.testbeds.ssh.environment import environment
from tests.patience import PATIENCE_S, ran

ON_NODES = frozenset(
    {
        "playbooks/fetch.yml",
        "playbooks/look.yml",
        "playbooks/path.yml",
        "playbooks/pauses.yml",
        "playbooks/prepare.yml",
        "playbooks/reach.yml",
        "playbooks/teardown.yml",
        "playbooks/trial.yml",
        "roles/bottleneck/tasks/main.yml",
        "roles/helper/tasks/tools.yml",
        "roles/kernel/tasks/main.yml",
        "roles/module/tasks/main.yml",
        "roles/traffic/tasks/executables.yml",
        "roles/traffic/tasks/fetch.yml",
        "roles/traffic/tasks/lean.yml",
        "roles/traffic/tasks/main.yml",
        "roles/traffic/tasks/stop.yml",
        "roles/tuning/tasks/main.yml",
    }
)
"""Files whose tasks tests/lab/ssh executes, and checks that it does."""

ON_DEBIAN = frozenset(
    {
        "playbooks/prepare.yml",
        "roles/helper/tasks/tools.yml",
        *(
            f"roles/kernel/tasks/{name}.yml"
            for name in (
                "carried",
                "default",
                "entry",
                "files",
                "install",
                "main",
                "once",
                "packages",
                "sources",
                "tool",
            )
        ),
        "roles/module/tasks/dkms.yml",
        "roles/module/tasks/source.yml",
        "roles/module/tasks/main.yml",
        "roles/module/tasks/tc.yml",
    }
)
"""Files whose tasks tests/lab/debian executes, and checks that it does."""

ON_EMULATED = frozenset({"roles/module/tasks/linux.yml"})
"""Files whose tasks tests/lab/debian/test_emulated.py executes besides, and checks that it does."""

ON_SWITCHES = frozenset(
    {
        "playbooks/switch.yml",
        *(f"roles/tofino/tasks/{name}.yml" for name in ("begin", "end", "main", "results")),
    }
)
"""Files whose tasks tests/unit/roles/test_tofino.py executes, and checks that it does."""


@dataclass(frozen=True)
class Played:
    """The outcome of a playbook that failed on no host.

    Attributes:
        counts: Host -> what Ansible counted, such as `changed`.
        changed: Host -> names of the tasks that changed something on it.
        executed: Files of playbooks and roles of which a task was executed and not skipped.
    """

    counts: dict[str, dict[str, int]]
    changed: dict[str, list[str]]
    executed: frozenset[str]


def _run(
    playbook: Path, inventory: Path, given: Sequence[str], timeout_s: float
) -> tuple[subprocess.CompletedProcess[str], frozenset[str]]:
    """Run a playbook in its folder's parent; return it, and the files of which a task was executed."""
    folder = playbook.parent.parent
    more = {"PATH": environment()["PATH"], "ANSIBLE_NOCOLOR": "1"}
    if not (folder / "ansible.cfg").exists():
        more["ANSIBLE_ROLES_PATH"] = str(assets.folder("roles"))
    with noting_executed() as executed:
        ended = ran(
            [sys.executable, "-m", "ansible", "playbook", "-i", str(inventory), str(playbook), *given],
            cwd=folder,
            env={**os.environ, **more},
            limit_s=timeout_s,
        )
    return ended, executed()


@contextmanager
def noting_executed() -> Iterator[Callable[[], frozenset[str]]]:
    """Note the files of which a task is executed by Ansible meanwhile; yield a function that returns them."""
    with tempfile.TemporaryDirectory() as scratch, pytest.MonkeyPatch.context() as patch:
        noted = Path(scratch) / "executed"
        noted.touch()
        patch.setenv("ANSIBLE_CALLBACK_PLUGINS", str(Path(__file__).parent / "callbacks"))
        patch.setenv("ANSIBLE_CALLBACKS_ENABLED", "executed")
        patch.setenv("L4SBENCH_EXECUTED", str(noted))
        files: list[str] = []
        yield lambda: frozenset(re.sub(r"^.*/((playbooks|roles)/)", r"\1", path) for path in files)
        files += noted.read_text().splitlines()


def play(playbook: Path, inventory: Path, *given: str, timeout_s: float = PATIENCE_S) -> Played:
    """Run a playbook in its folder's parent; no host may fail."""
    ended, executed = _run(playbook, inventory, given, timeout_s)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    tasks, _, recap = ended.stdout.partition("PLAY RECAP")
    counts = {
        host: {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", found)}
        for host, found in re.findall(r"^(\S+)\s+: (.*)$", recap, re.MULTILINE)
    }
    changed: dict[str, list[str]] = {host: [] for host in counts}
    for name, results in re.findall(
        r"^(?:TASK|RUNNING HANDLER) \[(.*)\].*\n((?:.+\n)*)", tasks, re.MULTILINE
    ):
        for host in re.findall(r"^changed: \[([^\] ]+)", results, re.MULTILINE):
            changed[host].append(name)
    assert all(bool(names) == bool(counts[host]["changed"]) for host, names in changed.items()), ended.stdout
    return Played(counts, changed, executed)


def only_in_next(listed: str) -> list[str]:
    """Return the packages in `apt list --installed` whose version only Debian's next release has."""
    found = re.findall(r"^([^/\s]+)/(\S+) ", listed, re.MULTILINE)
    return [name for name, suites in found if set(suites.split(",")) - {"now"} in ({"testing"}, {"forky"})]


def _prepare() -> Path:
    return assets.folder("playbooks") / "prepare.yml"


def prepare(inventory: Path, *, timeout_s: float = 1800, **more: Any) -> Played:
    """Run the project's own playbook that prepares hosts."""
    return play(_prepare(), inventory, "-e", json.dumps(more), timeout_s=timeout_s)


def refused(inventory: Path, *, timeout_s: float = 1800, **more: Any) -> str:
    """Run the same playbook where it must fail; return what Ansible printed, in one line."""
    ended, _ = _run(_prepare(), inventory, ("-e", json.dumps(more)), timeout_s)
    assert ended.returncode == 2, ended.stdout + ended.stderr
    return " ".join((ended.stdout + ended.stderr).split())
