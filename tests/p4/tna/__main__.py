# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Check a TNA program and print its budget: `python -m tests.p4.tna [--target tofino2] p4/ncf/ncf.p4`."""

import argparse
import sys
from pathlib import Path

from tests.p4.tna.chips import CHIPS, TOFINO
from tests.p4.tna.limits import problems
from tests.p4.tna.report import budget
from tests.p4.tna.syntax import RefusedError, load


def main() -> int:
    """Print problems or the budget of the programs named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.p4.tna", description=__doc__)
    parser.add_argument("--target", choices=list(CHIPS), default=TOFINO.name)
    parser.add_argument("programs", nargs="+", type=Path)
    arguments = parser.parse_args()
    chip = CHIPS[arguments.target]
    try:
        trees = [load(path, chip=chip) for path in arguments.programs]
        found = [problem for tree in trees for problem in problems(tree, chip)]
    except (OSError, RefusedError) as error:
        found = [str(error)]
        trees = []
    for problem in found:
        sys.stderr.write(f"{problem}\n")
    for tree in trees:
        sys.stdout.write("\n".join([*budget(tree, chip).lines(), ""]))
    return 2 if found else 0


if __name__ == "__main__":
    sys.exit(main())
