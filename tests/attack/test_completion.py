# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Names of folders and files that a shell completes: none is executed, before or after Enter.

Real shells complete at a terminal; the Tab key cycles through all that they offer. The seed is that of the
other hostile inputs.
"""

from __future__ import annotations

import os
import pty
import random
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from l4sbench.cli import main
from tests.attack.hostile import MARKER, file_name
from tests.attack.test_inputs import SEED
from tests.patience import PATIENCE_S

NAMES: Final = 10
_FIXED: Final = (
    f"$(touch {MARKER})",
    f"`touch {MARKER}`",
    f"a\n$(touch {MARKER})",
    "-rf",
    "~",
    'it\'s "so" *',
)

SHELLS: Final = {
    "bash": (
        ("bash", "--norc", "--noprofile", "-i"),
        "source ../../bash; bind 'TAB: menu-complete'; HISTFILE=",
    ),
    "zsh": (
        ("zsh", "-f", "-i"),
        "fpath=($PWD/../.. $fpath); autoload -U compinit; compinit -u -D; setopt menucomplete",
    ),
}
"""How each shell starts, and what makes its Tab key insert the next of the completions."""

FILES: Final = {"bash": "bash", "zsh": "_l4sbench"}
STARTS: Final = ("report ", "run ", "clean --dir ", "report ./")
TAB: Final = "\t"
TABS: Final = (1, 2, 3, 5)
_ECHO: Final = 'l4sbench() { printf "got-%s %s\\n" $((40 + 2)) "$*"; }'


@dataclass
class Terminal:
    """A shell at a terminal."""

    descriptor: int

    def types(self, keys: str, until: str) -> str:
        """Press keys; return what appears until a text does."""
        os.write(self.descriptor, keys.encode())
        seen, deadline = b"", time.monotonic() + PATIENCE_S
        while until.encode() not in seen:
            assert time.monotonic() < deadline, f"{until!r} does not appear after {keys!r}: {seen!r}"
            if select.select([self.descriptor], [], [], 1)[0]:
                seen += os.read(self.descriptor, 65536)
        return seen.decode(errors="replace")


@contextmanager
def terminal(command: tuple[str, ...], folder: Path) -> Iterator[Terminal]:
    """Run a shell in a folder, at a terminal of its own."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "dumb", "PS1": "> ", "HOME": str(folder), "ZDOTDIR": str(folder)}
    with subprocess.Popen(
        command,
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            yield Terminal(ours)
        finally:
            process.kill()
            os.close(theirs)
            os.close(ours)


def hostile_folder(folder: Path, name: str) -> None:
    """Make a folder, a matrix and a run of this name, and a run that is fine."""
    for run in (name, "mine"):
        (folder / "runs" / run / "latest").mkdir(parents=True)
    (folder / name).mkdir()
    (folder / f"{name}.yaml").touch()


@pytest.mark.parametrize("shell", SHELLS)
def test_no_name_is_executed(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Zsh is among what the tests need: a shell that is missing is a failure, not a skip."""
    rng = random.Random(f"completion/{SEED}")
    names = [*_FIXED, *(file_name(rng) for _ in range(NAMES))]
    assert main(["completion", shell]) == 0
    (tmp_path / FILES[shell]).write_text(capsys.readouterr().out, encoding="utf-8")
    for number, name in enumerate(names):
        hostile_folder(tmp_path / "around" / str(number), name)
    command, setup = SHELLS[shell]
    with terminal(command, tmp_path / "around" / "0") as typed:
        typed.types(f"{setup}; {_ECHO}; echo set-$((40 + 2))\n", "set-42")
        for number, name in enumerate(names):
            typed.types(f"cd ../{number}; echo there-$((40 + 2))\n", "there-42")
            offered = "".join(
                typed.types(f"l4sbench {start}{tabs * TAB}\n", "got-42") for start in STARTS for tabs in TABS
            )
            about = f"{name!r}, number {number} of seed {SEED}: {offered}"
            assert not list(tmp_path.rglob(MARKER)), about
            assert "got-42 report mine" in offered, about
