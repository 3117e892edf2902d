# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Whatever an input says: a code, a reason, a position; no traceback, no hang, nothing elsewhere.

The seed is in `L4SBENCH_ATTACK_SEED`. Cases that the oracle objects to are kept, below `L4SBENCH_ATTACK_KEEP`
or the folder for temporary files.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

import pytest

from tests.attack import command
from tests.attack.hostile import KINDS, ROOT, make_case
from tests.attack.oracle import HANG_S
from tests.attack.worker import base_run
from tests.patience import ran

SEED: Final = int(os.environ.get("L4SBENCH_ATTACK_SEED") or 20260102)
MANY: Final = 8
AS_COMMANDS: Final = 3
LONG_AS_COMMANDS: Final = 20
LONG: Final = 2000

NEEDS: Final = {"inventories": "ansible"}


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run directory that cases are made from."""
    folder = tmp_path_factory.mktemp("attack")
    base_run(folder)
    return folder


def report(kind: str, number: int, texts: list[str], case: Path) -> str:
    """Keep the files of a case; return what the reader of a failure needs."""
    keep = Path(os.environ.get("L4SBENCH_ATTACK_KEEP") or Path(tempfile.gettempdir(), "l4sbench-attack"))
    kept = keep / case.name
    shutil.rmtree(kept, ignore_errors=True)
    with_pipes = {str(path) for path in case.rglob("*") if path.is_fifo() or path.is_socket()}
    shutil.copytree(
        case, kept, symlinks=True, ignore=lambda at, names: [n for n in names if f"{at}/{n}" in with_pipes]
    )
    again = f"python -m tests.attack.command {kind} {SEED} {number}"
    return "\n".join((f"{kind} {number} of seed {SEED}, kept in {kept}; again: {again}", *texts))


def in_one_process(kind: str, first: int, count: int, folder: Path) -> list[str]:
    """Run cases in one process; return a text per case that the oracle objects to."""
    argv = [sys.executable, "-m", "tests.attack.worker", kind, str(SEED), str(first), str(count), str(folder)]
    env = command.environment(folder)
    ended = ran(argv, cwd=ROOT, env=env, limit_s=HANG_S + count * 10)
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    found = [
        report(
            kind,
            line["number"],
            [str(line["argv"]), *line["objections"], line["err"]],
            folder / f"{kind}-{SEED}-{line['number']}",
        )
        for line in lines
        if "objections" in line
    ]
    if ended.returncode:
        number = next((line["began"] for line in reversed(lines) if "began" in line), first)
        around = folder / f"{kind}-{SEED}-{number}"
        found.append(report(kind, number, ["the process ended", ended.stderr[-3000:]], around))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_many_in_one_process(kind: str, home: Path) -> None:
    if kind in NEEDS:
        pytest.importorskip(NEEDS[kind])
    found = in_one_process(kind, 0, MANY, home)
    assert not found, "\n\n".join(found)


@pytest.mark.parametrize("count", [AS_COMMANDS, pytest.param(LONG_AS_COMMANDS, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", KINDS)
def test_some_as_commands(kind: str, count: int, home: Path) -> None:
    """In processes of their own, where what outlives a command would show, and memory is that of one."""
    if kind in NEEDS:
        pytest.importorskip(NEEDS[kind])
    found: list[str] = []
    for number in range(MANY, MANY + count):
        around = home / f"{kind}-{SEED}-{number}"
        case = make_case(kind, SEED, number, around / "case", base_run(home))
        if texts := command.attack(case, command.environment(home)):
            found.append(report(kind, number, texts, around))
    assert not found, "\n\n".join(found)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_very_many(kind: str, home: Path) -> None:
    if kind in NEEDS:
        pytest.importorskip(NEEDS[kind])
    found = in_one_process(kind, MANY, LONG, home)
    assert not found, "\n\n".join(found)
