# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Action that runs one step of roles/tofino/files/switch.py where the SDE is.

Nothing has to be on the switch before, and files appear where the SDE sees them. Unlike a module's, an
answer becomes no result of the task but for what is expected of it: Ansible gives keys such as
C(ansible_facts) a meaning of their own.
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
AS_STRING = "--command"
"""Last word of a command that takes the rest as one string, such as `sde-env-9.13.3 --command`."""
UNSAFE = frozenset('"$`\\\n')
INLINE = ["python3", "-c", PROGRAM.read_text(encoding="utf-8")]
"""The program as an argument: nothing has to be on the switch before."""
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
        folder = str(args["folder"])
        files = dict(args.get("files") or {})
        try:
            if enter[-1:] == [AS_STRING]:
                # such an environment takes one string, without double quotes, and no input: files come first
                code = base64.b64encode(PROGRAM.read_bytes()).decode("ascii")
                ended = self._do(INLINE, "put", folder, given={**files, PROGRAM.name: code})
                if step != "put" and not ended["rc"]:
                    ended = self._do_string(enter, [step, folder, *words])
            else:
                ended = self._do([*enter, *INLINE], step, folder, *words, given=files)
        except MemoryError as error:
            raise AnsibleActionFail("the switch printed too much") from error
        if ended["rc"]:
            said = str(ended["stderr"] or ended["stdout"]).strip()
            return {**result, "failed": True, "msg": said[-1500:] or f"code {ended['rc']}"}
        return {**result, **self._taken(step, str(ended["stdout"]))}

    def _do(self, argv: list[str], *words: str, given: dict[str, str]) -> dict[str, Any]:
        """Run the program with files on stdin."""
        data = json.dumps(given).encode("utf-8")
        done: dict[str, Any] = self._low_level_execute_command(shlex.join([*argv, *words]), in_data=data)
        return done

    def _do_string(self, enter: list[str], words: list[str]) -> dict[str, Any]:
        """Run the program, which is in its folder, in an environment that takes a string."""
        if refused := [word for word in words if set(word) & UNSAFE]:
            raise AnsibleActionFail(f"{refused[0]} has characters that {enter[0]} would change")
        string = shlex.join(["python3", f"{words[1]}/{PROGRAM.name}", *words]) + "; exit $?"
        done: dict[str, Any] = self._low_level_execute_command(f"{shlex.join([*enter, string])} </dev/null")
        return done

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
