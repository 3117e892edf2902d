# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Run a matrix on machines of counted instructions, and print what every flow got.

usage: python -m tests.lab.icount FOLDER MODULES MATRIX [FILTER...]

FOLDER gets the machine's files and the run; a second call resumes it. MODULES is the folder of a kernel that
`tools/module_headers.py trixie-backports --keep DIR` leaves in DIR, or - for none of our modules.
"""

import sys
from pathlib import Path

import polars as pl

from tests.lab.icount.machine import machine_image
from tests.lab.icount.runs import run_matrix

COLUMNS = ("cell", "trial", "group", "goodput_mbps", "srtt_ms", "status")


def main(argv: list[str]) -> int:
    """Run the matrix."""
    if len(argv) < 3:
        print(__doc__, file=sys.stderr)  # noqa: T201
        return 2
    folder, modules, matrix = map(Path, argv[:3])
    image = machine_image(folder / "image", None if str(modules) == "-" else modules)
    run = run_matrix(image, matrix, argv[3:], folder)
    flows = pl.read_parquet(run / "tables" / "flows.parquet")
    with pl.Config(tbl_rows=-1, tbl_width_chars=200, fmt_str_lengths=80):
        print(flows.select(name for name in COLUMNS if name in flows.columns))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
