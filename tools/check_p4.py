# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Compile p4/ncf/ncf.p4 with a p4c for Tofino, if one is on PATH, and print the stages that it uses.

p4c (github.com/p4lang/p4c) has the back end since 2024; it is left out unless built with ENABLE_TOFINO. The
SDE's compiler is called `bf-p4c` and takes the same options. What they write stays in a temporary folder.

Exit code: 0 it compiles, 1 it does not, 77 there is no such compiler (the reason is printed).
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from l4sbench import assets

COMPILERS = ("bf-p4c", "p4c")
CANNOT = 77
TIMEOUT_S = 900


class CannotError(Exception):
    """Something this machine lacks."""


def find_compiler() -> str:
    """Return a compiler for Tofino.

    Raises:
        CannotError: There is none.
    """
    found = [path for name in COMPILERS if (path := shutil.which(name))]
    if not found:
        raise CannotError(f"no {' or '.join(COMPILERS)} on PATH")
    for path in found:
        done = subprocess.run(
            [path, "--target-help"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if re.search(r"\btofino\b", done.stdout + done.stderr):
            return path
    raise CannotError(f"{', '.join(found)}: no target tofino (p4c is built with ENABLE_TOFINO for it)")


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


def stages(context: Path) -> dict[str, int]:
    """Return the number of stages of each direction, from a compiler's context.json."""
    tables = json.loads(context.read_text(encoding="utf-8")).get("tables", [])
    used: dict[str, int] = {}
    for table in tables:
        direction = str(table.get("direction", "?"))
        used[direction] = max([used.get(direction, 0), *(number + 1 for number in stage_numbers(table))])
    return used


def main() -> int:
    """Compile, and print stages or errors."""
    try:
        compiler = find_compiler()
    except CannotError as reason:
        print(f"not tried: {reason}", file=sys.stderr)
        return CANNOT
    program = assets.folder("p4") / "ncf" / "ncf.p4"
    with tempfile.TemporaryDirectory(prefix="check-p4-") as folder:
        done = subprocess.run(
            [compiler, "--target", "tofino", "--arch", "tna", "-o", folder, str(program)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        contexts = sorted(Path(folder).rglob("context.json"))
        if not contexts:
            print(done.stderr.strip() or f"{compiler}: no context.json", file=sys.stderr)
            return 1
        for direction, number in sorted(stages(contexts[0]).items()):
            print(f"{direction}: {number} stages")
    if done.returncode:  # p4c without the assembler ends so after everything else
        print(f"{compiler}: exit code {done.returncode}: {done.stderr.strip()}", file=sys.stderr)
    return 1 if re.search(r"\berror:", done.stderr) else 0


if __name__ == "__main__":
    sys.exit(main())
