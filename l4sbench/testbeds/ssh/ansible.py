# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Ansible as a function: a playbook's outcome per host. Through ansible-runner.

Hosts are chosen by a group that a second inventory defines, and variables are passed as data: neither a name
of a host nor a text from a file reaches Ansible as a pattern or as a template.
"""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from l4sbench.disk import assets
from l4sbench.errors import TestbedError
from l4sbench.testbeds.ssh.environment import environment, require
from l4sbench.testbeds.ssh.hosts import is_template

if TYPE_CHECKING:
    from collections.abc import Sequence

_ACTIONS: Final = frozenset({"l4sbench_helper", "tofino_step"})
"""Our own actions, which take from a host's answer only what is expected."""
_LONGEST: Final = 2000
"""Characters of a host's message that are kept."""

Status = Literal["ok", "failed", "unreachable", "unfinished"]


@dataclass(frozen=True)
class HostOutcome:
    """The outcome of a playbook on one host.

    `answer` is the result of the last of our own tasks, `message` the reason why the playbook ended early. A
    host is unfinished if the playbook's time ended first: it is slow, or has become silent.
    """

    status: Status
    message: str = ""
    answer: Mapping[str, Any] = field(default_factory=dict)

    def reason(self, otherwise: str = "") -> str:
        """Return why the playbook ended early there, or `otherwise` where no task said it."""
        manner = "cannot be reached: " if self.status == "unreachable" else ""
        return f"{manner}{self.message or otherwise}"


@dataclass(frozen=True)
class Played:
    """The outcome of a playbook, per host and as a whole (`canceled` when it was stopped, `timeout`)."""

    status: str
    hosts: Mapping[str, HostOutcome]
    output: str

    @property
    def wrong(self) -> Mapping[str, HostOutcome]:
        """The hosts on which it did not end well, sorted by name."""
        return {host: outcome for host, outcome in sorted(self.hosts.items()) if outcome.status != "ok"}

    @property
    def away(self) -> Mapping[str, HostOutcome]:
        """Those of them that could not be reached."""
        return {host: outcome for host, outcome in self.wrong.items() if outcome.status == "unreachable"}


def listed(wrong: Mapping[str, HostOutcome], separator: str = "; ") -> str:
    """Return the reasons of all these hosts as one text."""
    return separator.join(f"{host}: {outcome.reason()}" for host, outcome in wrong.items())


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
    group = f"l4sbench_{secrets.token_hex(8)}"
    with tempfile.TemporaryDirectory(prefix="l4sbench-") as folder:
        chosen = Path(folder, "hosts.json")
        chosen.write_text(json.dumps({group: {"hosts": dict.fromkeys(hosts)}}), encoding="utf-8")
        runner = ansible_runner.run(
            private_data_dir=folder,
            playbook=str(assets.folder("playbooks") / playbook),
            inventory=[str(inventory.resolve()), str(chosen)],
            extravars={**_literal(variables), "l4sbench_hosts": group},
            envvars=environment(),
            cmdline=f"--forks {max(5, len(hosts))}",
            quiet=True,
            event_handler=events,
            cancel_callback=stop,
            timeout=max(1, int(limit_s)),
        )
        output = _read(folder)
    if runner.status == "failed" and not events.hosts:
        raise TestbedError(f"could not run {playbook}: {output[-1500:]}")
    missing = {host: HostOutcome("failed", "it reported nothing") for host in hosts}
    late = events.unfinished(hosts, limit_s) if runner.status == "timeout" else {}
    return Played(runner.status, {**missing, **events.hosts, **late}, output)


def _literal(plain: Any) -> Any:
    """Return plain data in which Ansible evaluates no text."""
    if isinstance(plain, str):
        return {"__ansible_unsafe": plain} if is_template(plain) else plain
    if isinstance(plain, Mapping):
        return {key: _literal(value) for key, value in plain.items()}
    return [_literal(item) for item in plain] if isinstance(plain, list | tuple) else plain


class _Events:
    """Collector of ansible-runner's events; the latest event of a host counts."""

    def __init__(self) -> None:
        self.hosts: dict[str, HostOutcome] = {}
        self._under_way: dict[str, str] = {}
        """The task that a host has begun and not ended."""

    def unfinished(self, hosts: Sequence[str], limit_s: float) -> dict[str, HostOutcome]:
        """Return the outcome of hosts that a time limit ended; of all if it ended none of their tasks."""
        known = {host: self.hosts.get(host, HostOutcome("ok")) for host in hosts}
        going = [host for host, outcome in known.items() if outcome.status == "ok"]
        outcomes = {}
        for host in [host for host in going if host in self._under_way] or going:
            step = repr(self._under_way[host]) if host in self._under_way else "the playbook"
            message = f"{step} did not end within {limit_s:g} s"
            outcomes[host] = HostOutcome("unfinished", message, known[host].answer)
        return outcomes

    def __call__(self, event: Mapping[str, Any]) -> bool:
        kind = str(event.get("event"))
        data = event.get("event_data", {})
        host, answer = data.get("host"), _map(data.get("res"))
        if host and kind == "runner_on_start":
            self._under_way[host] = str(data.get("task"))
        elif host:
            self._under_way.pop(host, None)
        if host and kind in {"runner_on_ok", "runner_on_failed", "runner_on_unreachable"}:
            own = data.get("task_action") in _ACTIONS
            before = self.hosts.get(host, HostOutcome("ok"))
            said = answer if own else before.answer
            if kind == "runner_on_ok":
                self.hosts[host] = HostOutcome("ok", "", said)
            elif not data.get("ignore_errors"):
                status: Status = "unreachable" if kind == "runner_on_unreachable" else "failed"
                self.hosts[host] = HostOutcome(status, _why(answer)[:_LONGEST], said)
        return False  # no file per event


def _why(answer: Mapping[str, Any]) -> str:
    """Return why a task failed: its message, a command's last output, or the failed items of a loop."""
    results = answer.get("results")
    items = [_map(item) for item in results] if isinstance(results, list) else []
    failed = [item for item in items if item.get("failed")]
    if failed:
        return "; ".join(dict.fromkeys(_why({**item, "results": None}) for item in failed))
    message = str(answer.get("msg", "")).strip()
    printed = str(answer.get("stderr") or answer.get("stdout") or "").strip()
    return f"{message}: {printed[-300:]}" if printed and message == "non-zero return code" else message


def _map(plain: object) -> Mapping[str, Any]:
    """Return what a host answered if it is a map, else an empty one."""
    return plain if isinstance(plain, dict) else {}


def _read(folder: str) -> str:
    found = sorted(Path(folder, "artifacts").glob("*/stdout"))
    return "".join(path.read_text(encoding="utf-8", errors="replace") for path in found)
