# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Compile p4/ncf/ncf.p4 for Tofino 1 and 2 with a p4c on PATH, and print the stages that it uses on each.

p4c (github.com/p4lang/p4c) has the back end since 2024; it is left out unless built with ENABLE_TOFINO. The
SDE's compiler is called `bf-p4c` and takes the same options. What they write stays in a temporary folder.

Stages come from context.json, which the assembler writes (`bfas`). A p4c may lack it: then the compiler
proper runs alone (`-S`), and stages come from its log of table placement, which it writes with `-g`. That log
counts stages beyond the chip's as well, where only the assembler would fail. Beside them is the estimate of
p4/ncf/README.md (tests/p4/tna): the longest chain of dependent tables, which no compiler can place in fewer.

Exit code: 0 it compiles for both, 1 it does not, 77 there is no such compiler (the reason is printed).
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from l4sbench.disk import assets

COMPILERS = ("bf-p4c", "p4c")
CANNOT = 77
TIMEOUT_S = 900
NO_ASSEMBLER = re.compile(r"\bbfas\b.*\bnot found\b", re.IGNORECASE)
"""The driver's words for a missing assembler."""
ERROR = re.compile(r"\berror:|internal compiler error|compiler bug", re.IGNORECASE)
PLACED = re.compile(r"Number of stages for (ingress|egress) table allocation: (\d+)")
"""The log of table placement: once per attempt, so the last ones count."""


@dataclass(frozen=True, slots=True)
class Target:
    """A chip as p4c names it, with its architecture and the stages that it has (bf-p4c, specs/device.h)."""

    name: str
    arch: str
    stages: int


TARGETS = (Target("tofino", "tna", 12), Target("tofino2", "t2na", 20))


class CannotError(Exception):
    """Something this machine lacks."""


class FailedError(Exception):
    """The compiler does not take the program, with the compiler's words."""


def find_compiler() -> str:
    """Return a compiler for Tofino.

    Raises:
        CannotError: There is none.
    """
    found = [path for name in COMPILERS if (path := shutil.which(name))]
    if not found:
        raise CannotError(f"no {' or '.join(COMPILERS)} on PATH")
    for path in found:
        done = run(path, "--target-help", timeout_s=60)
        if re.search(r"\btofino\b", done.stdout + done.stderr):
            return path
    raise CannotError(f"{', '.join(found)}: no target tofino (p4c is built with ENABLE_TOFINO for it)")


def run(*command: str, timeout_s: float = TIMEOUT_S) -> subprocess.CompletedProcess[str]:
    """Run a command.

    Raises:
        FailedError: It takes too long.
    """
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise FailedError(f"{command[0]} did not end within {timeout_s:g} s") from error


def stage_numbers(content: Any) -> Iterator[int]:
    """Return every stage number in a part of context.json."""
    if isinstance(content, dict):
        for name, value in content.items():
            if name == "stage_number" and isinstance(value, int):
                yield value
            else:
                yield from stage_numbers(value)
    elif isinstance(content, list):
        for value in content:
            yield from stage_numbers(value)


def assembled_stages(context: Path) -> dict[str, int]:
    """Return the number of stages of each direction, from an assembler's context.json."""
    tables = json.loads(context.read_text(encoding="utf-8")).get("tables", [])
    used: dict[str, int] = {}
    for table in tables:
        direction = str(table.get("direction", "?"))
        used[direction] = max([used.get(direction, 0), *(number + 1 for number in stage_numbers(table))])
    return used


def placed_stages(log: Path) -> dict[str, int]:
    """Return the number of stages of each direction, from a compiler's log of table placement."""
    return {direction: int(number) for direction, number in PLACED.findall(log.read_text(encoding="utf-8"))}


def stages(folder: Path) -> dict[str, int]:
    """Return the number of stages of each direction, from what a compiler wrote.

    Raises:
        FailedError: It wrote none.
    """
    for name, read in (("context.json", assembled_stages), ("table_summary.log", placed_stages)):
        for path in sorted(folder.rglob(name)):
            try:
                used = read(path)
            except (ValueError, AttributeError) as error:
                raise FailedError(f"{name} cannot be read: {error}") from error
            if sum(used.values()):
                return used
    raise FailedError("it reports no stages, neither in context.json nor in logs/table_summary.log")


def compiled(compiler: str, target: Target, program: Path, folder: Path) -> tuple[dict[str, int], str]:
    """Compile a program; return the stages of each direction, and a note if the assembler did not see it.

    Raises:
        FailedError: The compiler fails, or what it wrote is not what the chip has.
    """
    command = [compiler, "--target", target.name, "--arch", target.arch, "-g", "-o", str(folder)]
    done, note = run(*command, str(program)), ""
    if done.returncode and NO_ASSEMBLER.search(done.stdout + done.stderr):
        done, note = run(*command, "-S", str(program)), " (placed, not assembled: this p4c has no bfas)"
    words = (done.stderr.strip() or done.stdout.strip())[-4000:]
    if done.returncode:
        raise FailedError(f"exit code {done.returncode}: {words}")
    if ERROR.search(done.stdout + done.stderr):
        raise FailedError(f"it reports an error: {words}")
    used = stages(folder)
    for direction, number in sorted(used.items()):
        if number > target.stages:
            raise FailedError(f"{direction} takes {number} stages; {target.name} has {target.stages}")
    return used, note


def estimates(target: Target, program: Path) -> dict[str, int]:
    """Return the least number of stages of each direction, by the chains of dependent tables.

    Raises:
        FailedError: The program cannot be read.
    """
    from tests.p4.tna.chips import CHIPS
    from tests.p4.tna.report import budget
    from tests.p4.tna.syntax import RefusedError, load

    chip = CHIPS[target.name]
    try:
        chains = budget(load(program, chip=chip), chip).chains
    except (OSError, RefusedError) as error:
        raise FailedError(f"its stages cannot be estimated: {error}") from error
    return dict(zip(("ingress", "egress"), (len(one.steps) for one in chains), strict=True))


def compared(number: int, least: int) -> str:
    """Return the estimate of a direction, and that it is wrong if a compiler used fewer stages."""
    wrong = "" if number >= least else ", which is wrong: correct p4/ncf/README.md"
    return f"estimate: at least {least}{wrong}"


def main() -> int:
    """Compile for each target, and print stages beside the estimate, or errors."""
    program = assets.folder("p4") / "ncf" / "ncf.p4"
    try:
        compiler = find_compiler()
    except CannotError as reason:
        print(f"not tried: {reason}", file=sys.stderr)
        return CANNOT
    except FailedError as error:
        print(error, file=sys.stderr)
        return 1
    failed = False
    for target in TARGETS:
        with tempfile.TemporaryDirectory(prefix="check-p4-") as folder:
            try:
                used, note = compiled(compiler, target, program, Path(folder))
                least = estimates(target, program)
            except FailedError as error:
                failed = True
                print(f"{target.name}: {compiler}: {error}", file=sys.stderr)
                continue
        for direction, number in sorted(used.items()):
            used_here = f"{target.name}: {direction}: {number} of {target.stages} stages{note}"
            print(f"{used_here}; {compared(number, least[direction])}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
