# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Ansible callback: notes the file of every task that ran on a host, and was not skipped."""

import os
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase  # type: ignore[import-untyped]

DOCUMENTATION = """
name: executed
type: aggregate
short_description: Notes the files whose tasks were executed
description: One line per task and host in the file that the environment names.
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible-core has no types
    """Hears of the end of every task."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "executed"
    CALLBACK_NEEDS_ENABLED = True

    def v2_runner_on_ok(self, result: Any) -> None:
        """A task has done what it should."""
        task = getattr(result, "task", None) or result._task  # its name before 2.19
        path = str(task.get_path()).rpartition(":")[0]
        with Path(os.environ["L4SBENCH_EXECUTED"]).open("a", encoding="utf-8") as noted:
            noted.write(f"{path}\n")
