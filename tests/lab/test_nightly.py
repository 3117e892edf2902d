# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Nights of a regression sweep, with the real script."""

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from l4sbench import tables
from l4sbench.testbeds.virtual.lab import Lab
from tests.patience import ran

ROOT = Path(__file__).parents[2]

MATRIX = """\
matrix: nights
topology: line6
rate: 10mbit
rtt: 10ms
duration: 3s
trials: 4
rule: pam25
aqm: fifo
flows:
  l4s: {cc: prague}
  classic: {cc: cubic}
"""


def night(folder: Path) -> subprocess.CompletedProcess[str]:
    command = folder / "l4sbench"
    command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m l4sbench "$@"\n')
    command.chmod(0o755)
    return ran(
        [ROOT / "tools" / "nightly.sh", "nights.yaml"],
        cwd=folder,
        env=os.environ | {"L4SBENCH": str(command)},
    )


@pytest.mark.long
@pytest.mark.lab
def test_nights(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "nights.yaml").write_text(MATRIX)
    home = tmp_path / "runs" / "nights"

    first = night(tmp_path)
    assert first.returncode == 0, first.stderr
    was_good = (home / "good").readlink()
    # run directories are named by the second; a night later is a second later at least
    second = night(tmp_path)
    assert second.returncode == 0, second.stderr
    assert "compared with good" in second.stderr
    good = (home / "good").readlink()
    assert good != was_good

    # the last good run had shorter queues than this machine's kernel can ever give
    flows = home / "good" / "tables" / "flows.parquet"
    better = pl.read_parquet(flows).with_columns(srtt_minus_base_ms=pl.col("srtt_minus_base_ms") / 100)
    tables.write("flows", [better.lazy()], flows)
    (home / "baseline").symlink_to(was_good)
    third = night(tmp_path)
    assert third.returncode == 1, third.stderr
    assert "delay_ms of l4s" in third.stdout.split("Worse by more than noise:")[1]
    assert (home / "good").readlink() == good
    outcomes = [line.split("\t")[-1] for line in (home / "history.tsv").read_text().splitlines()]
    assert outcomes == ["outcome", "ok", "ok", "worse than good"]
    assert "compared with baseline" in third.stderr
    assert (home / "history.tsv").read_text().splitlines()[-1].split("\t")[1] == str(good)
    page = (home / "history.html").read_text()
    assert '<span class="answer-word o-worse">Worse</span> in the newest night' in page
    assert page.count('/report/index.html"') >= 3
    newest = (home / "history.tsv").read_text().splitlines()[-1].split("\t")[0]
    assert "delay of l4s, ms" in (home / newest / "report" / "against-good.html").read_text()

    # a night that cannot be compared is in the history, too
    flows.write_bytes(b"not a table")
    fourth = night(tmp_path)
    assert fourth.returncode >= 2, fourth.stderr
    assert (home / "history.tsv").read_text().splitlines()[-1].endswith("\tcould not be compared with good")
    assert (home / "good").readlink() == good

    # nor is one ok whose baseline is gone
    (home / "good").unlink()
    (home / "baseline").unlink()
    (home / "baseline").symlink_to("20250102T030405Z")
    fifth = night(tmp_path)
    assert fifth.returncode == 2, fifth.stderr
    assert "baseline leads to no run" in fifth.stderr
    assert (home / "history.tsv").read_text().splitlines()[-1].endswith("compared with baseline")


def test_usage_is_said(tmp_path: Path) -> None:
    told = ran([ROOT / "tools" / "nightly.sh"])
    assert told.returncode == 2
    assert "usage: tools/nightly.sh MATRIX [RUNS]" in told.stderr


def test_a_matrix_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    told = night(tmp_path)
    assert told.returncode == 2
    assert "nights.yaml" in told.stderr
    assert "Traceback" not in told.stderr
    assert not (tmp_path / "runs").exists()
