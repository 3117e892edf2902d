# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Action that runs one step of roles/tofino/files/switch.py where the SDE is.

The program is passed as an argument: nothing has to be on the switch before, and files appear where the SDE
sees them. Unlike a module's, an answer becomes no result of the task but for what is expected of it: Ansible
gives keys such as C(ansible_facts) a meaning of their own.
"""

from __future__ import annotations

import base64
import ctypes
import json
import resource
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

PROGRAM = Path(__file__).parents[1] / "files" / "switch.py"
STEPS = ("put", "build", "load", "control", "begin", "results", "end")
FACTS = ("sde", "program", "python", "time_s")
ARCHIVE_BYTES = 64 << 20
"""Longest accepted answer: 32 MB of packed results are 43 MB in base64."""
MEMORY_BYTES = 2 << 30
"""Limit of this process's address space, so of what a switch can make it keep."""
_PR_SET_PDEATHSIG = 1


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core has no types
    """The action; roles/tofino/library/tofino_step.py documents its arguments."""

    _supports_check_mode = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run a step."""
        _confine()
        result: dict[str, Any] = super().run(tmp, task_vars)
        args = self._task.args
        step = str(args.get("step"))
        if step not in STEPS:
            raise AnsibleActionFail(f"step must be one of {', '.join(STEPS)}")
        enter = [str(word) for word in args.get("enter") or []]
        words = [str(word) for word in args.get("words") or []]
        argv = [
            *enter,
            "python3",
            "-c",
            PROGRAM.read_text(encoding="utf-8"),
            step,
            str(args["folder"]),
            *words,
        ]
        given = json.dumps(args.get("files") or {}).encode("utf-8")
        try:
            ended = self._low_level_execute_command(shlex.join(argv), in_data=given)
        except MemoryError as error:
            raise AnsibleActionFail("the switch printed too much") from error
        if ended["rc"]:
            said = str(ended["stderr"] or ended["stdout"]).strip()
            return {**result, "failed": True, "msg": said[-1500:] or f"code {ended['rc']}"}
        return {**result, **self._taken(step, str(ended["stdout"]))}

    def _taken(self, step: str, printed: str) -> dict[str, Any]:
        """Return what is expected of an answer, and write an archive to its file."""
        line = (printed.strip().splitlines() or [""])[-1]
        try:
            answer = json.loads(line) if len(line) <= ARCHIVE_BYTES else None
            changed = [str(one) for one in answer["changed"]]
            packed = base64.b64decode(answer["archive"], validate=True) if step == "results" else b""
            told = answer.get("facts") or {}
            facts = {name: told[name] for name in FACTS if isinstance(told.get(name), str | float | int)}
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return {"failed": True, "msg": f"the switch's answer cannot be used: {line[:200]}"}
        if step == "results":
            place = Path(str(self._task.args["results"]))
            place.parent.mkdir(parents=True, exist_ok=True)
            partial = place.with_name(place.name + ".partial")
            partial.write_bytes(packed)
            partial.replace(place)
        return {"changed": bool(changed), "changes": changed, **({"facts": facts} if facts else {})}


def _confine() -> None:
    """End this process with ansible-playbook, however that ends, and limit its memory."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
