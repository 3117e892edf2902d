# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""A stock kernel on counted instructions: a trial of all nodes on one host is the same to the byte again.

Each trial takes two minutes on a quiet core, as QEMU emulates the processor (docs/results/icount.md).
"""

from pathlib import Path

import polars as pl
import pytest

from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.debian.emulated_disk import missing_tools
from tests.lab.icount.machine import machine_image
from tests.lab.icount.runs import raw_digests, run_matrix

pytestmark = [pytest.mark.lab, pytest.mark.long]

MATRIX = """\
matrix: icount
topology: line6
rate: 10mbit
rtt: 40ms
duration: 5s
trials: {trials}
rule: none
sample.interval: 1s
flows:
  first: {{cc: cubic}}
  second: {{cc: cubic}}
axes:
  aqm: [fq-codel]
"""


def test_a_trial_is_the_same_again(lab: Lab, tmp_path: Path) -> None:
    if lacking := missing_tools():
        pytest.skip(f"emulated machines need {', '.join(lacking)}: tools/bootstrap.sh long")
    image = machine_image(tmp_path / "image")
    runs = []
    for trials in (2, 1):
        folder = tmp_path / f"{trials}"
        folder.mkdir()
        (matrix := folder / "icount.yaml").write_text(MATRIX.format(trials=trials))
        runs.append(run_matrix(image, matrix, (), folder))
    first = pl.read_parquet(runs[0] / "tables" / "flows.parquet").filter(trial=1)
    assert first.height == 2
    assert first["goodput_mbps"].sum() > 8
    both, again = (raw_digests(run) for run in runs)
    same = {name: digest for name, digest in both.items() if name in again}
    assert again == same
    # the other trial has another seed
    samples = {digest for name, digest in both.items() if name.endswith("/sockets.jsonl")}
    assert len(samples) == 2
