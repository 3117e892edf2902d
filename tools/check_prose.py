# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""List lines of prose in Markdown files that are longer than 120 columns; tables and code may be."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
COLUMNS: Final = 120


def too_long(text: str) -> Iterator[int]:
    """Yield the numbers of lines that are too long, from 1."""
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("```"):
            fenced = not fenced
        elif len(line) > COLUMNS and not fenced and _breakable(line):
            yield number


def _breakable(line: str) -> bool:
    """Return whether a line is prose, and more than one long link."""
    return not line.startswith(("|", "    ", "![")) and " " in line.lstrip("- ")


def main() -> int:
    """Check every Markdown file that git tracks, but for captured ones."""
    listed = subprocess.run(
        ["git", "ls-files", "*.md", ":!tests/cases"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found = [
        f"{name}:{number}: longer than {COLUMNS} columns"
        for name in listed.stdout.splitlines()
        if (ROOT / name).is_file()
        for number in too_long((ROOT / name).read_text(encoding="utf-8"))
    ]
    sys.stdout.writelines(f"{line}\n" for line in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
