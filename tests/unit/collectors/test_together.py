# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Trials that are parsed together have the rows of each by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from collectors import assemble
from collectors.assemble import Collected, collect
from collectors.trialrows import rows_of
from l4sbench import tables
from l4sbench.catalog import Catalog
from l4sbench.store import Run
from tests.captured import CapturedTrial, captured_trial

NAMES = ("events-codel", "iperf3-fifo", "lean-bbr2", "lean-codel-warmup", "lean-dualpi2", "lean-sends")


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return Catalog.load()


def stored(home: Path, *trials: CapturedTrial) -> Run:
    run = Run.create(home, "test", b"", 1, {})
    for number, trial in enumerate(trials, start=1):
        trial.store(run, number)
    return run


def by_themselves(run: Run) -> dict[str, pl.DataFrame]:
    """Return the tables, made of the rows of one trial after the other."""
    found = [rows_of(ended)[0] for ended in run.ended()]
    whole = {}
    for table in tables.OF_TRIALS:
        frames = [frames[table] for frames in found if table in frames]
        frame = pl.concat(frames, how="diagonal_relaxed") if frames else tables.empty(table)
        if table == "trials":
            frame = frame.select(name for name in frame.columns if frame[name].null_count() < frame.height)
        whole[table] = frame
    return whole


def test_rows_are_those_of_each_trial_by_itself(
    tmp_path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also beside a trial whose samples cannot be read, and one that has a number of another kind."""
    samples = captured_trial("lean-codel-warmup").copied(tmp_path / "samples")
    (samples.raw / "sockets.jsonl").write_text('{"t_ms": "soon"}\n')
    half = captured_trial("lean-dualpi2").copied(tmp_path / "half")
    half.edit("tx-l4s/flow-l4s-0.sender.json", lambda result: result.update(retransmits=2.0))
    run = stored(tmp_path / "runs", *map(captured_trial, NAMES), samples, half)
    read: list[Path] = []
    one = rows_of

    def counted(ended: Any) -> Any:
        read.append(ended.raw)
        return one(ended)

    monkeypatch.setattr(assemble, "rows_of", counted)
    found = collect(run, catalog)
    assert (found.parsed, len(found.problems)) == (8, 2)  # tables `flows` and `sockets` lack the samples
    assert len(read) == 8, "a number of another kind fits only by itself"
    for table, expected in by_themselves(run).items():
        own = tables.scan(run.tables / f"{table}.parquet").collect()
        assert own.select(expected.columns).equals(expected), table


def test_whole_trials_are_parsed_once(
    tmp_path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way for trials whose values do not fit costs several times as much."""

    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(assemble, "rows_of", never)
    run = stored(tmp_path / "runs", *map(captured_trial, NAMES))
    assert collect(run, catalog) == Collected(6, 6)
