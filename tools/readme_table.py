# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Put the decision table of a run of matrices/quickstart.yaml into README.md.

    .venv/bin/l4sbench run matrices/quickstart.yaml
    .venv/bin/python tools/readme_table.py runs/quickstart/latest

With --check nothing is written: the exit code is 1 if README.md has another table than the run.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from pathlib import Path
from typing import Final

README: Final = Path(__file__).parents[1] / "README.md"
BEGIN: Final = "<!-- from a run, by tools/readme_table.py -->"
END: Final = "<!-- end of the table -->"
WIDTH: Final = 120


def table_of(run: Path) -> str:
    """Return the question, the answer and the decision table of a run's report, as README.md shows them."""
    text = (run / "report" / "decision.md").read_text(encoding="utf-8")
    found = re.search(r"^## (.+)\n\n(.+)\n", text, re.MULTILINE)
    rows = re.search(r"^(?:\|.*\n)+", text, re.MULTILINE)
    if found is None or rows is None:
        raise SystemExit(f"{run}/report/decision.md has no decision table")
    answer = textwrap.fill(
        f"**{found[1]}** {found[2]}", WIDTH, break_long_words=False, break_on_hyphens=False
    )
    return f"{answer}\n\n{rows[0]}"


def replaced(page: str, table: str) -> str:
    """Return a page with another table between its marks."""
    head, begin, rest = page.partition(f"{BEGIN}\n")
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"README.md lacks {END if begin else BEGIN}")
    return f"{head}{begin}{table}{end}{tail}"


def main() -> int:
    """Write the table, or compare it."""
    parser = argparse.ArgumentParser(description="Put a run's decision table into README.md.")
    parser.add_argument("run", type=Path, help="a run of matrices/quickstart.yaml")
    parser.add_argument("--check", action="store_true", help="only compare")
    args = parser.parse_args()
    page = README.read_text(encoding="utf-8")
    wanted = replaced(page, table_of(args.run))
    if not args.check:
        README.write_text(wanted, encoding="utf-8")
        return 0
    if page == wanted:
        return 0
    print(
        f"README.md has another table than {args.run}: run {Path(__file__).name} without --check",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
