# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The atlas point by point: a point that has run is in the table, and is not run again."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from l4sbench.app.atlas import ALONE, AtlasSources, read_atlas, shipped, write_atlas
from l4sbench.catalog import Catalog
from l4sbench.testbeds.virtual.lab import Lab
from tests.patience import ran

TOOL = Path(__file__).parents[2] / "tools" / "atlas_campaign.py"
TABLE = TOOL.with_name("atlas_table.py")


@pytest.mark.lab
@pytest.mark.long
def test_a_point_becomes_rows_and_is_done(lab: Lab, tmp_path: Path) -> None:
    table, runs = tmp_path / "atlas.csv.gz", tmp_path / "runs"
    write_atlas([replace(row, trials=0, left_out=0, sources="") for row in read_atlas(shipped())], table)
    words: list[str | Path] = [sys.executable, TOOL, runs, "-o", table, "--matrix", "atlas-step", "--points"]
    first = ran([*words, "1"])
    assert first.returncode == 0, first.stderr
    cells, points = map(int, first.stdout.split(" points to run")[0].split(" cells of "))
    done = [row for row in read_atlas(table) if row.trials + row.left_out]
    assert {(row.matrix, row.rate_mbps, row.rtt_ms) for row in done} == {("atlas-step", 1, 5)}
    sources = AtlasSources(Catalog.load())
    assert all(row.trials + row.left_out == 3 and sources.made(row) for row in done)
    assert not list(runs.glob("*/*"))
    second = ran([*words, "0"])
    assert second.stdout == f"{cells - len(done)} cells of {points - 1} points to run\n"
    filtered = ran([*words, "0", "rate=1mbit", "rtt=5ms"])
    assert filtered.stdout == "0 cells of 0 points to run\n"


def test_a_matrix_without_the_rate_asked_for_is_left_out(tmp_path: Path) -> None:
    table = tmp_path / "atlas.csv.gz"
    write_atlas([replace(row, trials=0, left_out=0, sources="") for row in read_atlas(shipped())], table)
    words: list[str | Path] = [sys.executable, TOOL, tmp_path / "runs", "-o", table, "--points", "0"]
    some = ran([*words, "rate=30mbit", "rtt=20ms"])  # which atlas-step does not have
    assert some.stdout == "200 cells of 3 points to run\n", some.stderr
    nothing = ran([*words, "rate=31mbit"])
    assert nothing.returncode == 1
    assert nothing.stderr.startswith("error: rate=31mbit: no cell has rate=31mbit; choose from 1mbit, 3mbit")


@pytest.mark.lab
@pytest.mark.long
def test_lone_flows_have_a_table_of_their_own(lab: Lab, tmp_path: Path) -> None:
    table, runs = tmp_path / "alone.csv.gz", tmp_path / "runs"
    write_atlas([replace(row, trials=0, left_out=0, sources="") for row in read_atlas(shipped(ALONE))], table)
    words: list[str | Path] = [sys.executable, TOOL, runs, "--table", ALONE, "-o", table, "aqm=fifo"]
    ended = ran([*words, "rate=3mbit", "rtt=10ms", "buffer_bdp=2"])
    assert ended.returncode == 0, ended.stderr
    done = [row for row in read_atlas(table) if row.trials]
    assert [row.column.classic for row in done] == ["cubic", "bbr1", "bbr3"]
    for row in done:
        assert row.classic_percent is not None
        assert row.l4s_percent is None
        assert 85 < row.classic_percent.mean < 97
        assert len(row.classic_each_percent) == row.trials == 3


@pytest.mark.lab
@pytest.mark.long
def test_an_invalid_trial_does_not_end_a_campaign(lab: Lab, tmp_path: Path) -> None:
    """Behind 8 BDP of 1 Mbit/s and 100 ms, a receiver's window limits BBR in one of three trials."""
    table, runs = tmp_path / "atlas.csv.gz", tmp_path / "runs"
    write_atlas([replace(row, trials=0, left_out=0, sources="") for row in read_atlas(shipped())], table)
    words: list[str | Path] = [sys.executable, TOOL, runs, "-o", table, "--matrix", "atlas-bbr"]
    ended = ran([*words, "aqm=fifo", "rate=1mbit", "rtt=100ms,200ms", "buffer_bdp=8"])
    assert ended.returncode == 0, ended.stderr
    rows = [row for row in read_atlas(table) if row.trials + row.left_out]
    assert [row.rtt_ms for row in rows] == [100, 200]
    assert all(row.trials and row.left_out for row in rows)


@pytest.mark.lab
@pytest.mark.long
def test_a_cell_with_a_failed_trial_is_not_in_the_table(lab: Lab, tmp_path: Path) -> None:
    table, runs = tmp_path / "atlas.csv.gz", tmp_path / "runs"
    cells = ["rate=1mbit", "rtt=5ms", "--trials", "1"]
    command: list[str | Path] = [sys.executable, "-m", "l4sbench", "run", "atlas-step", *cells, "--dir", runs]
    assert ran(command).returncode == 0
    files = sorted(runs.glob("atlas-step/*/cells/*/*/trial.json"))
    ended = json.loads(files[0].read_bytes())
    files[0].write_text(json.dumps(ended | {"status": "failed", "reasons": ["as if the machine was busy"]}))
    assert ran([sys.executable, TABLE, runs, "-o", table]).returncode == 0
    asked = {folder.parent.parent.name for folder in files}
    assert {row.cell for row in read_atlas(table) if row.trials} == asked - {files[0].parent.parent.name}


@pytest.mark.lab
@pytest.mark.long
def test_trials_of_now_take_the_place_of_more_old_ones(lab: Lab, tmp_path: Path) -> None:
    table, runs = tmp_path / "atlas.csv.gz", tmp_path / "runs"
    rows = read_atlas(shipped())
    first, *_ = [row for row in rows if (row.column.aqm, row.rate_mbps, row.rtt_ms) == ("fifo", 10, 20)]
    write_atlas([replace(row, trials=5, sources="old") if row == first else row for row in rows], table)
    words = ["aqm=fifo", "rate=10mbit", "rtt=20ms", "classic.cc=cubic", "--matrix", "atlas"]
    ended = ran([sys.executable, TOOL, runs, "-o", table, *words])
    assert ended.stdout.startswith("1 cells of 1 points to run\n"), ended.stderr
    assert "[3/3]" in ended.stdout + ended.stderr  # no trial of other cells there
    (row,) = [row for row in read_atlas(table) if row.cell == first.cell]
    assert (row.trials, row.sources) == (3, first.sources)


@pytest.mark.lab
@pytest.mark.long
def test_a_cell_without_a_valid_trial_stays_when_others_run(lab: Lab, tmp_path: Path) -> None:
    table, runs = tmp_path / "atlas.csv.gz", tmp_path / "runs"
    rows = read_atlas(shipped())
    own = [row for row in rows if row.matrix == "atlas-step" and (row.rate_mbps, row.rtt_ms) == (10, 2)]
    invalid = replace(own[0], trials=0, left_out=3, verdict="invalid")
    write_atlas([invalid if row == own[0] else replace(row, trials=0, sources="") for row in rows], table)
    words = ["--matrix", "atlas-step", "rate=10mbit", "rtt=5ms", "buffer_bdp=8", "classic.cc=cubic"]
    ended = ran([sys.executable, TOOL, runs, "-o", table, *words])
    assert ended.stdout.startswith("1 cells of 1 points to run\n"), ended.stderr
    assert invalid in read_atlas(table)
