# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Commands of tc that a node does one after the other during a trial.

One process of tc takes all of them, one per line, as starting one for each would take longer than a pause.
"""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Sequence

from during import During
from system import write_whole

_ENDS_S = 5
"""Limit for tc to do what is left and end."""


def line(argv: Sequence[str]) -> str:
    """Return a command of tc as a line for `tc -batch`."""
    return " ".join(argv[1:]) + "\n"


class TcBatch(During):
    """Does commands until `end`, leaves things as they were before, and writes a file.

    Attributes:
        failure: Why tc failed; empty where it did not.
    """

    def __init__(self, output: Path, start_ns: int) -> None:
        super().__init__(output, start_ns)
        self.failure = ""
        self._tc: subprocess.Popen[str] | None = None

    def act(self) -> None:
        """Do the commands until `wait` returns True."""
        raise NotImplementedError

    def done(self) -> object:
        """Return what was done, for the file."""
        raise NotImplementedError

    def run(self) -> None:
        """Act, and write the file."""
        argv = ["tc", "-batch", "-"]
        self._tc = tc = subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with suppress(OSError):  # tc has ended, and says why
            self.act()
        try:
            said = tc.communicate(timeout=_ENDS_S)[1].strip()
        except subprocess.TimeoutExpired:
            tc.kill()
            said = f"{tc.communicate()[1]} no end within {_ENDS_S} s".strip()
        if tc.returncode:
            self.failure = f"tc: {said[-300:]}"
        write_whole(self.output, json.dumps(self.done()))

    def do(self, lines: str) -> None:
        """Have tc do lines at once. Raises OSError when it has ended."""
        if self._tc is not None and self._tc.stdin is not None:
            self._tc.stdin.write(lines)
            self._tc.stdin.flush()
