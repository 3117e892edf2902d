# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Ansible as a function: an inventory's hosts, and a playbook's outcome per host. Through ansible-runner."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from l4sbench import assets
from l4sbench.errors import InputError, TestbedError

if TYPE_CHECKING:
    from collections.abc import Sequence

INVENTORY_LIMIT_S: Final = 60.0
_ACTION: Final = "l4sbench_helper"

Status = Literal["ok", "failed", "unreachable", "skipped"]


@dataclass(frozen=True)
class HostOutcome:
    """The outcome of a playbook on one host.

    `answer` is the result of the last of our own tasks, `message` the reason why the playbook ended early.
    """

    status: Status
    message: str = ""
    answer: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Played:
    """The outcome of a playbook, per host and as a whole (`canceled` when it was stopped, `timeout`)."""

    status: str
    hosts: Mapping[str, HostOutcome]
    output: str


def require() -> None:
    """Raise TestbedError when the extra `ansible` is not installed."""
    lacking = [name for name in ("ansible", "ansible_runner") if importlib.util.find_spec(name) is None]
    if lacking:
        raise TestbedError(
            f"{' and '.join(lacking).replace('_', '-')} are required for hosts by ssh but not installed",
            "pip install 'l4sbench[ansible]'",
        )


def environment() -> dict[str, str]:
    """Return the environment of every Ansible command of ours; a user's own ansible.cfg still applies."""
    bin_folder = str(Path(sys.executable).parent)
    given = {
        "ANSIBLE_ROLES_PATH": str(assets.folder("roles")),
        "ANSIBLE_PIPELINING": "True",
        "ANSIBLE_SSH_RETRIES": "2",
        "ANSIBLE_TIMEOUT": "30",
        "ANSIBLE_LOCALHOST_WARNING": "False",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "False",
        "ANSIBLE_DEPRECATION_WARNINGS": "False",
        "ANSIBLE_NOCOLOR": "1",
        "PATH": f"{bin_folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }
    return {name: os.environ.get(name, value) if name != "PATH" else value for name, value in given.items()}


def read_inventory(path: Path) -> dict[str, dict[str, object]]:
    """Return the variables of all hosts of an inventory, which Ansible reads: YAML, INI, a script, a folder.

    Raises:
        InputError: there is no such file, or Ansible cannot read it.
        TestbedError: Ansible is not installed.
    """
    require()
    if not path.exists():
        hint = "l4sbench lab up prints the inventory of a local lab; docs/ssh.md describes the format"
        raise InputError(f"inventory {path} does not exist", hint)
    argv = [sys.executable, "-m", "ansible", "inventory", "-i", str(path), "--list"]
    try:
        ended = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,  # Ansible refuses a non-blocking stdin, such as a notebook's
            capture_output=True,
            text=True,
            timeout=INVENTORY_LIMIT_S,
            check=False,
            env={**os.environ, **environment(), "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "True"},
        )
        plain = json.loads(ended.stdout) if not ended.returncode else None
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    if not isinstance(plain, dict):
        raise InputError(f"{path}: Ansible cannot read it: {_cause(path, ended.stderr)}")
    variables: dict[str, dict[str, object]] = plain.get("_meta", {}).get("hostvars", {})
    return variables


def _cause(path: Path, stderr: str) -> str:
    """Return why Ansible cannot read an inventory. It prints an error per reader, YAML's first."""
    errors = [part.partition("\n\n")[0].strip() for part in stderr.split("<<< caused by >>>\n\n")[1:]]
    causes = [re.sub(r"\s*\nOrigin: ", " at ", text) for text in errors] or [stderr.strip()[-1000:]]
    return causes[0 if path.suffix in {".yml", ".yaml", ".json"} else -1]


def play(
    playbook: str,
    inventory: Path,
    hosts: Sequence[str],
    variables: Mapping[str, object],
    *,
    limit_s: float,
    stop: Callable[[], bool] = lambda: False,
) -> Played:
    """Run one of our playbooks on these hosts, all at once.

    Failures on hosts raise nothing. The call returns within a few seconds once `stop` returns True.

    Raises:
        TestbedError: Ansible is not installed, or did not get as far as any host.
    """
    require()
    import ansible_runner  # type: ignore[import-untyped]

    events = _Events()
    with tempfile.TemporaryDirectory(prefix="l4sbench-") as folder:
        runner = ansible_runner.run(
            private_data_dir=folder,
            playbook=str(assets.folder("playbooks") / playbook),
            inventory=str(inventory.resolve()),
            extravars={**variables, "l4sbench_hosts": ":".join(hosts)},
            envvars=environment(),
            cmdline=f"--forks {max(5, len(hosts))}",
            quiet=True,
            event_handler=events,
            cancel_callback=stop,
            timeout=max(1, int(limit_s)),
        )
        output = _read(folder)
    missing = {host: HostOutcome("failed", "it reported nothing") for host in hosts}
    if runner.status == "failed" and not events.hosts:
        raise TestbedError(f"could not run {playbook}: {output[-1500:]}")
    return Played(runner.status, {**missing, **events.hosts}, output)


class _Events:
    """Collector of ansible-runner's events; the latest event of a host counts."""

    def __init__(self) -> None:
        self.hosts: dict[str, HostOutcome] = {}

    def __call__(self, event: Mapping[str, Any]) -> bool:
        kind = str(event.get("event"))
        data = event.get("event_data", {})
        host, answer = data.get("host"), data.get("res") or {}
        if host and kind in {"runner_on_ok", "runner_on_failed", "runner_on_unreachable"}:
            own = data.get("task_action") == _ACTION
            before = self.hosts.get(host, HostOutcome("ok"))
            said = answer if own else before.answer
            if kind == "runner_on_ok":
                self.hosts[host] = HostOutcome("ok", "", said)
            elif not data.get("ignore_errors"):
                status: Status = "unreachable" if kind == "runner_on_unreachable" else "failed"
                self.hosts[host] = HostOutcome(status, _why(answer), said)
        return False  # no file per event


def _why(answer: Mapping[str, Any]) -> str:
    """Return why a task failed: its message, a command's last output, or the failed items of a loop."""
    failed = [item for item in answer.get("results", []) if isinstance(item, dict) and item.get("failed")]
    if failed:
        return "; ".join(dict.fromkeys(_why(item) for item in failed))
    message = str(answer.get("msg", "")).strip()
    printed = str(answer.get("stderr") or answer.get("stdout") or "").strip()
    return f"{message}: {printed[-300:]}" if printed and message == "non-zero return code" else message


def _read(folder: str) -> str:
    found = sorted(Path(folder, "artifacts").glob("*/stdout"))
    return "".join(path.read_text(encoding="utf-8", errors="replace") for path in found)
