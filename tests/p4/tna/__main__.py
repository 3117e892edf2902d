# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Check a TNA program and print its budget: `python -m tests.p4.tna p4/ncf/ncf.p4`."""

import sys
from pathlib import Path

from tests.p4.tna.limits import problems
from tests.p4.tna.report import budget
from tests.p4.tna.syntax import RefusedError, load


def main() -> int:
    """Print problems or the budget of the programs named on the command line."""
    try:
        trees = [load(Path(name)) for name in sys.argv[1:]]
        found = [problem for tree in trees for problem in problems(tree)]
    except (OSError, RefusedError) as error:
        found = [str(error)]
        trees = []
    for problem in found:
        sys.stderr.write(f"{problem}\n")
    for tree in trees:
        sys.stdout.write("\n".join([*budget(tree).lines(), ""]))
    return 2 if found else 0


if __name__ == "__main__":
    sys.exit(main())
