# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Action that runs the helper (roles/helper/files/helper) on a host, and copies it there if it is missing.

Unlike a module it keeps no Python process waiting on the host, and reconnects when a connection drops during
a trial, which continues without it.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import hashlib
import io
import json
import re
import resource
import shlex
import signal
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError, AnsibleFileNotFound
from ansible.plugins.action import ActionBase

FOLDER = Path(__file__).parents[1] / "files" / "helper"
STATE = "/var/lib/l4sbench"
ASK_S = 20
"""Seconds that one query of a trial's end waits for an answer."""
SLACK_S = 60
"""Time after a trial's limit during which the host is still queried."""
NO_FILE = 2
"""Exit code of Python when its program does not exist."""
NO_PROGRAM = (126, 127)
"""Exit codes of a shell when it cannot run a program, or finds none."""
SSH_FAILED = 255
"""Exit code of ssh for its own failures."""
ANSWER_BYTES = 1 << 20
"""Longest accepted answer of the helper; one of a host with 200 interfaces has 40 kB."""
ARCHIVE_BYTES = 2 << 30
"""Largest accepted archive of results."""
MEMORY_BYTES = 2 << 30
"""Limit of this process's address space, so of what a host can make it keep."""
_PR_SET_PDEATHSIG = 1
CHANGING = frozenset({"wiring", "tuning", "bottleneck", "files", "teardown"})
COMMANDS = CHANGING | {"echo", "facts", "trial", "fetch", "stop", "trials", "pauses"}
FACTS = frozenset(
    {
        *("accecn", "boot_id", "ccs", "config", "distribution", "free_mb", "interfaces", "kernel_release"),
        *("kernel_version", "machine", "modules", "python", "queues", "root", "secure_boot", "systemd"),
        *("tc_folder", "time_s", "tools"),
    }
)
ANSWERS = {
    "echo": frozenset({"round_trips_ms"}),
    "facts": FACTS,
    "stop": frozenset({"id", "running"}),
    "trials": frozenset({"trials"}),
    "pauses": frozenset({"pauses"}),
}
"""Keys of an answer that become results of the task. Ansible gives C(ansible_facts), C(add_host) and others
a meaning: with them a host could replace variables of any host, and so run commands elsewhere."""
WORDS = {"stop": ("trial",), "pauses": ("seconds",)}
"""Arguments of the task that become words of the helper's command."""
STATES = frozenset({"running", "ended", "lost", "unknown"})


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core has no types
    """The action; roles/helper/library/l4sbench_helper.py documents its arguments."""

    TRANSFERS_FILES = True
    _supports_check_mode = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run one command of the helper."""
        _end_with_ansible()
        _limit_memory()
        result: dict[str, Any] = super().run(tmp, task_vars)
        self._vars = task_vars or {}
        args = self._task.args
        command = str(args.get("command"))
        if command not in COMMANDS:
            raise AnsibleActionFail(f"command must be one of {', '.join(sorted(COMMANDS))}")
        given = args.get("part") or args.get("asked") or {}
        if result.get("skipped"):
            return result
        if command == "trial":
            return {**result, **self._trial(given, Path(args["results"]))}
        if command == "fetch":
            return {**result, **self._fetch(str(args["trial"]), Path(args["results"]))}
        if command == "files":
            source = Path(self._find_needle("files", str(args["source"])))
            texts = {
                str(name): _base64(str(text).encode()) for name, text in (args.get("texts") or {}).items()
            }
            given = {"folder": str(args["folder"]), "files": _encoded(source) | texts}
        words = [command, *(str(args[name]) for name in WORDS.get(command, ()))]
        if command == "teardown" and self._execute(["test", "-e", STATE], b"")["rc"]:
            return {**result, "changed": False, "changes": []}
        began_s = time.time()
        answer = self._helper(words, given)
        if "failed" in answer:
            return {**result, "failed": True, "msg": str(answer["failed"])}
        kept = {key: value for key, value in answer.items() if key in ANSWERS.get(command, ())}
        if command == "facts":
            kept["asked_s"] = [began_s, time.time()]
        listed = answer.get("changed") if command in CHANGING else None
        changes = [str(line) for line in listed] if isinstance(listed, list) else []
        return {**result, **kept, "changed": bool(changes), "changes": changes}

    # ---- a trial
    def _trial(self, part: dict[str, Any], results: Path) -> dict[str, Any]:
        """Launch a host's part, wait until it has ended, and fetch its results."""
        hosts = self._vars.get("ansible_play_hosts", [])
        forks = int(context.CLIARGS.get("forks") or 5)
        if forks < len(hosts):
            message = f"all {len(hosts)} hosts of a trial must be under way at once: use --forks {len(hosts)}"
            raise AnsibleActionFail(message)
        deadline = time.monotonic() + float(part["limit_s"]) + SLACK_S
        launched = self._retried(["launch"], part, deadline)
        if "failed" in launched:
            return {"failed": True, "msg": str(launched["failed"])}
        return {
            **self._collect(str(part["id"]), results, deadline),
            "ended_before": str(launched.get("ended", "")),
        }

    def _fetch(self, trial: str, results: Path) -> dict[str, Any]:
        return self._collect(trial, results, time.monotonic() + SLACK_S)

    def _collect(self, trial: str, results: Path, deadline: float) -> dict[str, Any]:
        reported: dict[str, Any] = {"state": "running"}
        while reported.get("state") == "running":
            if time.monotonic() > deadline:
                return {"failed": True, "msg": "the trial did not end within its limit", "state": "running"}
            reported = self._retried(["wait", trial, str(ASK_S)], {}, deadline)
        state = str(reported.get("state"))
        if state != "ended":
            reason = reported.get("reason") or reported.get("failed") or "the helper's answer has no state"
            return {"failed": True, "msg": str(reason), "state": state if state in STATES else "failed"}
        digest, size = str(reported.get("sha256")), reported.get("bytes")
        if not re.fullmatch("[0-9a-f]{64}", digest):
            return {"failed": True, "msg": "the helper's answer has no checksum", "state": state}
        if isinstance(size, int) and size > ARCHIVE_BYTES:
            return {"failed": True, "msg": _too_large(), "state": state}
        results.parent.mkdir(parents=True, exist_ok=True)
        self._bring(trial, digest, results, deadline)
        answer = {"changed": True, "state": state, "results": str(results), "sha256": digest}
        if reported.get("ok") is not True:
            kind = {mark: reported.get(mark) is True for mark in ("secondary", "missed")}
            return {**answer, "failed": True, "msg": str(reported.get("reason")), **kind}
        return answer

    def _bring(self, trial: str, digest: str, results: Path, deadline: float) -> None:
        """Fetch a trial's archive from where the helper keeps it, whatever place a host names."""
        partial = results.with_name(results.name + ".partial")
        try:
            while (reason := self._fetched(trial, digest, partial)) is not None:
                if partial.is_file() and partial.stat().st_size >= ARCHIVE_BYTES:
                    raise AnsibleActionFail(_too_large())
                if time.monotonic() > deadline:
                    raise AnsibleActionFail(f"cannot fetch the results: {reason}")
                self._connect_again()
            partial.replace(results)
        finally:
            partial.unlink(missing_ok=True)

    def _fetched(self, trial: str, digest: str, partial: Path) -> str | None:
        """Fetch the archive once; return why it did not come whole."""
        try:
            with _largest_file(ARCHIVE_BYTES):
                self._connection.fetch_file(f"{STATE}/trials/{trial}/results.tar.gz", str(partial))
            with partial.open("rb") as file:
                received = hashlib.file_digest(file, "sha256").hexdigest()
        except AnsibleFileNotFound:
            raise
        except (AnsibleError, OSError) as error:
            return str(error)
        return None if received == digest else "the checksum of the received file is wrong"

    # ---- the helper
    def _retried(self, words: list[str], given: dict[str, Any], deadline: float) -> dict[str, Any]:
        """Return the helper's answer; ask again when the connection drops."""
        while True:
            try:
                return self._helper(words, given)
            except AnsibleConnectionFailure:
                if time.monotonic() > deadline:
                    raise
            self._connect_again()

    def _connect_again(self) -> None:
        time.sleep(1)
        try:
            self._connection.reset()
        except (AnsibleConnectionFailure, NotImplementedError):
            time.sleep(1)

    def _helper(self, words: list[str], given: dict[str, Any]) -> dict[str, Any]:
        """Run the helper, after copying it to the host if it is missing."""
        digest, archive = _packed()
        place = f"{STATE}/helper-{digest[:12]}"
        python = str(self._vars.get("l4sbench_python", "python3"))
        argv = [python, place, *words]
        ended = self._execute(argv, json.dumps(given))
        if ended["rc"] in NO_PROGRAM:
            raise AnsibleActionFail(f"cannot run {python} there (l4sbench_python names it): {_said(ended)}")
        if ended["rc"] == NO_FILE and "{" not in ended["stdout"]:
            partial = f"{place}.partial"
            steps = (
                ("mkdir", "-p", partial),
                ("tar", "-xzf", "-", "-C", partial),
                ("chmod", "755", STATE),
                ("mv", "-T", partial, place),
            )
            put = self._execute_all(steps, archive)
            if put["rc"]:
                raise AnsibleActionFail(f"cannot copy the helper to {STATE}: {_said(put)}")
            ended = self._execute(argv, json.dumps(given))
        lines = [line for line in ended["stdout"].splitlines() if line.startswith("{")]
        if lines and len(lines[-1]) > ANSWER_BYTES:
            raise AnsibleActionFail(f"the helper's answer is longer than {ANSWER_BYTES >> 20} MB")
        if not lines and (ended["rc"] < 0 or ended["rc"] == SSH_FAILED):
            raise AnsibleConnectionFailure(f"the connection was lost: {_said(ended)}")
        if not lines:
            raise AnsibleActionFail(f"the helper failed ({python}, code {ended['rc']}): {_said(ended)}")
        try:
            answer = json.loads(lines[-1])
        except RecursionError as error:
            raise AnsibleActionFail("the helper's answer is nested too deeply") from error
        except ValueError as error:
            raise AnsibleConnectionFailure("the connection was lost in the middle of an answer") from error
        return answer if isinstance(answer, dict) else {}

    def _execute(self, argv: list[str], stdin: str | bytes) -> dict[str, Any]:
        return self._execute_all((argv,), stdin)

    def _execute_all(self, steps: Any, stdin: str | bytes) -> dict[str, Any]:
        """Run commands one after the other, until one fails; every word is quoted."""
        line = " && ".join(shlex.join(step) for step in steps)
        data = stdin.encode() if isinstance(stdin, str) else stdin
        try:
            ended: dict[str, Any] = self._low_level_execute_command(line, in_data=data)
        except MemoryError as error:
            raise AnsibleActionFail("the host printed too much") from error
        return ended


def _end_with_ansible() -> None:
    """Let the kernel end this process when ansible-playbook ends, even when that is killed.

    It is in its own session, so no signal of the terminal or to the process group reaches it.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _limit_memory() -> None:
    """Limit this process, which Ansible forks for one task on one host."""
    if sys.platform == "linux":
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (_least(MEMORY_BYTES, hard), hard))


@contextlib.contextmanager
def _largest_file(limit_bytes: int) -> Iterator[None]:
    """Limit files that this process and those that it starts write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (_least(limit_bytes, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _least(limit: int, hard: int) -> int:
    return limit if hard == resource.RLIM_INFINITY else min(limit, hard)


def _too_large() -> str:
    return f"the results are larger than {ARCHIVE_BYTES >> 30} GB"


def _said(ended: dict[str, Any]) -> str:
    return str(ended["stderr"] or ended["stdout"]).strip()[-500:]


def _encoded(source: Path) -> dict[str, str]:
    """Return the content of every file below a folder, by path."""
    files = (path for path in source.rglob("*") if path.is_file())
    return {path.relative_to(source).as_posix(): _base64(path.read_bytes()) for path in files}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _packed() -> tuple[str, bytes]:
    """Return the digest of the helper, and the helper as an archive."""
    total = hashlib.sha256()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for file in sorted(FOLDER.glob("*.py")):
            content = file.read_bytes()
            total.update(f"{file.name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
            entry = tarfile.TarInfo(file.name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return total.hexdigest(), packed.getvalue()
