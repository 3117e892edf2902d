# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Run the commands of a page of docs/ and write what they print below them.

    .venv/bin/python tools/transcripts.py docs/tutorial.md examples/sessions/student.md
    .venv/bin/python tools/transcripts.py examples/sessions/fabric.md  # boots a place like FABRIC

A block ```console of a page is a piece of a session: lines `$ COMMAND` (and `> MORE` of the same command),
each followed by what it prints. All blocks of a page run in order in one new folder, and nothing is replaced:
l4sbench is the one of this checkout, the lab the one in the user's cache.

Lines of trials that ended well are left out: on a terminal a bar takes their place.

With --check nothing is written: the exit code is 1 if commands print something else than their page shows.
Times and the names that contain them may differ, and so may everything in blocks behind `<!-- varies -->`,
where only errors count: trials on hosts are never the same twice, and a busy host makes some invalid.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FABRIC: Final = "<!-- runs on fabric -->"
"""Mark of a page whose commands need a place like FABRIC."""
VARIES: Final = "<!-- varies -->\n"
"""Mark before a block whose output is never the same twice."""
LIMIT_S: Final = 1800.0
COLUMNS: Final = 100

_BLOCK: Final = re.compile(rf"({re.escape(VARIES)})?^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EXIT: Final = re.compile(r"^\(exit code (\d+)\)$", re.MULTILINE)

_MASKS: Final = (
    (re.compile(r"\b\d{8}T\d{6}Z\b|\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?([+-]\d\d:\d\d)?"), "TIME"),
    (re.compile(r"\b(\d+( s| min)? to )?(\d+ h )?(\d+ min )?\d+(\.\d+)? (s|min|h)\b"), "DURATION"),
    (re.compile(r"; the machine is busy \(load \d+ on \d+ cores?\)|; no trial was measured here yet"), ""),
    (re.compile(r"\b\d+ at once\b|\bone after another\b"), "JOBS"),
    (re.compile(r"\b\d+(\.\d+)? [kMG]B\b"), "SIZE"),
    (re.compile(r"\b\d+ files\b"), "FILES"),
    (re.compile(r"=[0-9A-F]{23}\b"), "=SRCVERSION"),
)
"""Parts of an output that differ from machine to machine, or with every change of a module."""
_PROGRESS: Final = re.compile(
    r"^(\[\d+/\d+(, [^]]* left)?\] ok .*|writing tables(, \d+ trials read)?)\n?", re.MULTILINE
)
"""Lines of trials that ended well, and of tables."""


@dataclass(frozen=True)
class Step:
    """A command of a page, and what it printed.

    Attributes:
        command: as given to a shell, of one line or several.
        output: everything it printed, without trailing blank lines.
        code: its exit code.
        varies: True if only the exit code is the same every time.
    """

    command: str
    output: str
    code: int
    varies: bool


def steps_of(page: str) -> list[Step]:
    """Return the commands of a page with the outputs that it shows."""
    found = []
    for block in _BLOCK.finditer(page):
        for part in re.split(r"^(?=\$ )", block[2], flags=re.MULTILINE)[1:]:
            lines = part.splitlines()
            end = next((n for n, line in enumerate(lines) if n and not line.startswith("> ")), len(lines))
            command = "\n".join(line[2:] for line in lines[:end])
            output = "\n".join(lines[end:]).rstrip("\n")
            code = _EXIT.search(output)
            found.append(
                Step(command, _EXIT.sub("", output).rstrip("\n"), int(code[1]) if code else 0, bool(block[1]))
            )
    return found


def written(page: str, steps: list[Step]) -> str:
    """Return a page with other outputs of its commands, in order."""
    left = iter(steps)

    def block(found: re.Match[str]) -> str:
        count = len(re.findall(r"^\$ ", found[2], re.MULTILINE))
        text = "".join(_shown(next(left)) for _ in range(count))
        return f"{found[1] or ''}```console\n{text}```"

    return _BLOCK.sub(block, page)


def _shown(step: Step) -> str:
    first, *more = step.command.splitlines()
    code = f"(exit code {step.code})" if step.code else ""
    lines = [
        f"$ {first}",
        *(f"> {line}" for line in more),
        *step.output.splitlines(),
        *([code] if code else []),
    ]
    return "\n".join(lines) + "\n"


def run(steps: list[Step], home: Path, folder: Path, environment: Mapping[str, str]) -> Iterator[Step]:
    """Run commands one after the other in a folder below `home`, and yield them with what they print."""
    for step in steps:
        done = subprocess.run(
            ["bash", "-c", step.command],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            check=False,
        )
        text = _PROGRESS.sub("", done.stdout)
        text = (
            text.replace(f"{folder}/", "").replace(str(home), "~").replace(str(ROOT), "l4sbench").rstrip("\n")
        )
        yield replace(
            step, output="\n".join(line.rstrip() for line in text.splitlines()), code=done.returncode
        )


def comparable(step: Step) -> list[str]:
    """Return a command and its output as lines that are the same every time."""
    lines = [] if step.varies else step.output.splitlines()
    for pattern, name in _MASKS:
        lines = [pattern.sub(name, line) for line in lines]
    # 1: a trial is invalid
    code = "0 or 1" if step.varies and step.code in {0, 1} else step.code
    return [f"$ {step.command}", *lines, f"(exit code {code})"]


@contextmanager
def place_of(page: str, home: Path) -> Iterator[tuple[Path, Mapping[str, str]]]:
    """Yield the folder and the environment in which a page's commands run."""
    with ExitStack() as stack:
        folder, environment = home, dict(os.environ)
        if FABRIC in page:
            sys.path.insert(0, str(ROOT))
            from tests.fabric.place import one_lab
            from tests.fabric.place import place_of as fabric_of

            host = f"127.79.{os.getpid() % 250}.1"
            lab = stack.enter_context(one_lab(f"transcript-{os.getpid()}", host))
            fabric = stack.enter_context(fabric_of(lab, host, home))
            folder, environment = fabric.home, dict(fabric.account)
        tools = home / "bin"
        tools.mkdir()
        command = tools / "l4sbench"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m l4sbench "$@"\n', encoding="utf-8")
        command.chmod(0o755)
        environment |= {
            "PATH": f"{tools}:{Path(sys.executable).parent}:{environment['PATH']}",
            "PYTHONPATH": str(ROOT),
            "COLUMNS": str(COLUMNS),
            "LC_ALL": "C.UTF-8",
            "NO_COLOR": "1",
        }
        work = folder / "work"
        work.mkdir()
        yield work, environment


def main() -> int:
    """Write the pages, or compare them."""
    parser = argparse.ArgumentParser(description="Run the commands of pages and write what they print.")
    parser.add_argument("pages", nargs="+", type=Path, metavar="PAGE")
    parser.add_argument("--check", action="store_true", help="only compare")
    args = parser.parse_args()
    differ = False
    for path in args.pages:
        page = path.read_text(encoding="utf-8")
        kept = steps_of(page)
        if not kept:
            parser.error(f"{path} has no block ```console with a command")
        with tempfile.TemporaryDirectory() as home, place_of(page, Path(home)) as (folder, environment):
            made = list(run(kept, Path(home), folder, environment))
        if not args.check:
            path.write_text(written(page, made), encoding="utf-8")
            continue
        before, after = ([line for step in steps for line in comparable(step)] for steps in (kept, made))
        lines = list(difflib.unified_diff(before, after, str(path), "now", lineterm="", n=1))
        print("\n".join(lines), file=sys.stderr)
        differ = differ or bool(lines)
    return int(differ)


if __name__ == "__main__":
    sys.exit(main())
