# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The tables of a run: complete, incremental, and equal however they came about."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import signal
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from collectors import assemble
from collectors.assemble import Collected, behind, collect
from collectors.trialrows import rows_of
from l4sbench import tables
from l4sbench.catalog import Catalog
from l4sbench.facts.events import Status
from l4sbench.facts.traits import Identity
from l4sbench.store import Run
from tests.unit.collectors.conftest import Load

OF_CAPTURES = ("packet", "codepoints", "accecn")
IDENTITY = Identity("virtual", "7.3.4-l4slab", {}, {}, {})


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return Catalog.load()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path / "runs", "test", b"", 1, {})


def digest(run: Run) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(run.tables.glob("*.parquet"))}


def read(run: Run, table: str) -> pl.DataFrame:
    return tables.scan(run.tables / f"{table}.parquet").collect()


def test_all_tables_of_a_run(run: Run, captured: Load, catalog: Catalog) -> None:
    names = ("captured-dualpi2", "lean-codel-warmup", "iperf3-fifo")
    for name in names:
        captured(name).store(run)
    assert collect(run, catalog) == Collected(3, 3)
    assert sorted(p.stem for p in run.tables.iterdir()) == sorted({*tables.SCHEMAS} - {"verdicts"})
    for table in tables.OF_TRIALS:
        frame = read(run, table)
        # of trials in real time, with events, with requests, with tests of flent, with programs of a user
        if table in {"lateness", "events", "requests", "flent", "exec", "qlog"}:
            assert not frame.height
            continue
        assert frame["cell"].n_unique() == (1 if table.startswith(OF_CAPTURES) else 3), table
        assert frame.equals(tables.conform(table, frame)), f"{table} is as its schema says"
    trials = read(run, "trials")
    assert trials["warmup_s"].to_list().count(1.0) == 1
    queues = read(run, "catalog").filter(pl.col("kind") == "queue")
    assert queues.select("name", "label", "family").rows() == [
        ("codel", "CoDel (+ECN)", "sq-ecn"),
        ("dualpi2", "DualPI2", "dualq"),
        ("fifo", "FIFO", "sq-drop"),
    ]
    assert read(run, "catalog").filter(kind="cc")["name"].to_list() == ["cubic", "prague"]


def test_equal_runs_are_equal_files(tmp_path: Path, captured: Load, catalog: Catalog) -> None:
    """In whatever order trials ended, at once or bit by bit, parsed again or taken over."""
    steps = [("lean-dualpi2", 1), ("lean-dualpi2", 2), ("iperf3-fifo", 1), ("lean-codel-warmup", 3)]
    trials = {name: captured(name) for name in dict(steps)}
    at_once = Run.create(tmp_path / "a", "test", b"", 1, {})
    bit_by_bit = Run.create(tmp_path / "b", "test", b"", 2, {})
    for name, number in steps:
        trials[name].store(at_once, number)
    collect(at_once, catalog)
    for name, number in reversed(steps):
        trials[name].store(bit_by_bit, number)
        assert collect(bit_by_bit, catalog).parsed == 1
    assert digest(at_once) == digest(bit_by_bit)
    assert collect(bit_by_bit, catalog, full=True).parsed == 4
    assert digest(at_once) == digest(bit_by_bit)


def test_nothing_new_is_nothing_done(run: Run, captured: Load, catalog: Catalog) -> None:
    captured("lean-dualpi2").store(run)
    collect(run, catalog)
    before = {p: p.stat().st_mtime_ns for p in run.tables.glob("*.parquet") if p.stem != "catalog"}
    assert collect(run, catalog) == Collected(0, 1)
    assert {p: p.stat().st_mtime_ns for p in before} == before


def test_what_was_spilt_is_the_same(
    run: Run, captured: Load, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = captured("lean-dualpi2")
    for number in range(1, 6):
        trial.store(run, number)
    collect(run, catalog)
    before = digest(run)
    monkeypatch.setattr(assemble, "SPILL_ROWS", 60)
    collect(run, catalog, full=True)
    assert digest(run) == before
    assert not list(run.tables.glob(".parts-*"))


def test_the_newest_counts(run: Run, captured: Load, catalog: Catalog) -> None:
    trial = captured("lean-dualpi2")
    trial.store(run, 1)
    trial.store(run, 2)
    collect(run, catalog)
    trial.edit("rx-l4s/flow-l4s-0.receiver.json", lambda r: r.update(bytes_received=r["bytes_received"] * 2))
    trial.store(run, 1, inputs="fedcba9876543210")
    old = read(run, "flows").filter(trial=1, flow="l4s-0")["received_bytes"][0]
    assert collect(run, catalog) == Collected(1, 2)
    new = read(run, "flows").filter(trial=1, flow="l4s-0")["received_bytes"][0]
    assert new == 2 * old
    assert read(run, "trials")["inputs"].to_list() == ["fedcba9876543210", "0123456789abcdef"]
    assert collect(run, catalog) == Collected(0, 2)


def test_how_far_the_tables_are_behind(run: Run, captured: Load, catalog: Catalog) -> None:
    assert behind(run) == 0
    trial = captured("lean-dualpi2")
    folder = trial.store(run, 1)
    trial.store(run, 2)
    assert behind(run) == 2
    collect(run, catalog)
    assert behind(run) == 0
    trial.store(run, 3)
    trial.store(run, 1, inputs="fedcba9876543210")
    assert behind(run) == 2
    collect(run, catalog)
    shutil.rmtree(folder)  # a result that does not count any more
    assert behind(run) == 0
    shutil.rmtree(folder.with_name("2-0123456789abcdef"))  # one that counts: the tables have outlived it
    trial.store(run, 4)
    assert behind(run) == 0


def test_what_is_gone_from_the_store_is_gone_from_the_tables(
    run: Run, captured: Load, catalog: Catalog
) -> None:
    trial = captured("lean-dualpi2")
    trial.store(run, 1)
    folder = trial.store(run, 2)
    collect(run, catalog)
    shutil.rmtree(folder)
    assert collect(run, catalog) == Collected(0, 1)
    rare = (*OF_CAPTURES, "lateness", "events", "requests", "flent", "exec", "qlog")
    there = [table for table in tables.OF_TRIALS if not table.startswith(rare)]
    assert {read(run, table)["trial"].max() for table in there} == {1}


def test_invalid_trials_have_no_measurements(run: Run, captured: Load, catalog: Catalog) -> None:
    captured("lean-dualpi2").store(run, status=Status.INVALID)
    collect(run, catalog)
    assert read(run, "trials").select("status", "reasons").row(0) == ("invalid", "because")
    assert read(run, "flows").height == read(run, "intervals").height == 0
    assert read(run, "sockets").height > 0
    assert read(run, "hosts").height > 0


def test_failed_trials_have_a_reason_only(run: Run, captured: Load, catalog: Catalog) -> None:
    trial = captured("lean-dualpi2")
    trial.store(run, status=Status.FAILED)
    collect(run, catalog)
    assert read(run, "trials").select("status", "reasons").row(0) == ("failed", "because")
    assert read(run, "sockets").height == read(run, "flows").height == 0
    trial.store(run, status=Status.OK)
    assert collect(run, catalog) == Collected(1, 1)
    assert read(run, "trials")["status"].to_list() == ["ok"]
    assert read(run, "flows").height == 2


def test_factors_that_no_trial_has_any_more(run: Run, captured: Load, catalog: Catalog) -> None:
    captured("lean-dualpi2").store(run)
    folder = captured("iperf3-fifo").having(l4s__nonsense=3).store(run)
    collect(run, catalog)
    assert "l4s.nonsense" in read(run, "trials").columns
    shutil.rmtree(folder)
    collect(run, catalog)
    assert "l4s.nonsense" not in read(run, "trials").columns


def test_unreadable_samples_are_told(run: Run, captured: Load, catalog: Catalog) -> None:
    trial = captured("lean-dualpi2")
    path = trial.raw / "queues.jsonl"
    path.write_text(path.read_text()[:-20])
    trial.store(run)
    (problem,) = collect(run, catalog).problems
    assert "queues.jsonl" in problem
    assert trial.cell.id in problem
    assert "unread-queues" in read(run, "trials")["flags"][0]
    assert read(run, "flows").height == 2


@pytest.mark.parametrize(
    "classic", [{"classic__stop": "5s"}, {"classic__bytes": "1MB"}, {"classic__lifetime": "2s"}]
)
def test_low_utilisation_is_no_remark_where_flows_end_before_the_trial(
    run: Run, captured: Load, catalog: Catalog, classic: dict[str, str]
) -> None:
    captured("iperf3-fifo").having(rate="100mbit", **classic).store(run)
    collect(run, catalog)
    assert read(run, "trials")["flags"].to_list() == [None]


def test_low_utilisation_is_flagged(run: Run, captured: Load, catalog: Catalog) -> None:
    trial = captured("iperf3-fifo")
    trial.store(run)
    trial.having(rate="100mbit").store(run)
    collect(run, catalog)
    flags = dict(read(run, "trials").select("rate_mbps", "flags").rows())
    assert flags == {10.0: None, 100.0: ["low-utilisation"]}
    assert read(run, "flows").height == 4, "a result all the same"


def test_tables_of_another_format_are_made_anew(run: Run, captured: Load, catalog: Catalog) -> None:
    captured("lean-dualpi2").store(run)
    collect(run, catalog)
    before = digest(run)
    (run.tables / "flows.parquet").write_text("damaged")
    assert collect(run, catalog).parsed == 1
    assert digest(run) == before


def test_what_the_catalog_no_longer_offers_keeps_its_label(
    run: Run, captured: Load, catalog: Catalog
) -> None:
    captured("lean-dualpi2").store(run)
    collect(run, catalog)
    before = digest(run)
    collect(run, Catalog({}, {}))
    assert digest(run) == before


def test_nothing_of_the_machine_or_the_clock(run: Run, captured: Load, catalog: Catalog) -> None:
    import platform

    captured("lean-dualpi2").store(run)
    collect(run, catalog)
    year = str(datetime.now(UTC).year)
    for table in tables.OF_TRIALS:
        text = str(read(run, table).to_dicts())
        assert platform.node() not in text
        assert f"{year}-" not in text
        assert str(run.path) not in text


def test_a_damaged_description_of_hosts_costs_only_its_trial(
    run: Run, captured: Load, catalog: Catalog
) -> None:
    trial = captured("lean-dualpi2")
    for number, damage in enumerate(("", "[]", "\0", '{"kernel_release": 5, "modules": 7}'), start=2):
        place = trial.store(run, number)
        (place / "raw" / "host.json").write_text(damage)
    trial.store(run)
    collected = collect(run, catalog)
    assert (collected.parsed, len(collected.problems)) == (5, 4)
    trials = read(run, "trials").sort("trial")
    assert trials["status"].to_list() == ["ok", *["invalid"] * 4]
    assert all("host.json" in reason for reason in trials["reasons"].to_list()[1:])
    assert read(run, "flows")["trial"].unique().to_list() == [1]
    assert collect(run, catalog, full=True).problems == collected.problems


def test_values_that_no_table_takes_cost_only_their_trial(run: Run, captured: Load, catalog: Catalog) -> None:
    trial = captured("lean-dualpi2")
    trial.store(run)
    place = trial.store(run, 2)
    results = sorted(place.glob("raw/*/flow-*.receiver.json"))
    plain = json.loads(results[0].read_text())
    plain["bytes_received"] = -5
    results[0].write_text(json.dumps(plain))
    collected = collect(run, catalog)
    assert len(collected.problems) == 1
    assert read(run, "trials")["status"].to_list() == ["ok", "invalid"]
    assert read(run, "flows")["trial"].unique().to_list() == [1]


@pytest.mark.parametrize("kind", ["fifo", "loop", "folder"])
def test_what_is_no_file_is_not_read(kind: str, run: Run, captured: Load, catalog: Catalog) -> None:
    place = captured("lean-dualpi2").store(run)
    path = place / "raw" / "sockets.jsonl"
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path.name)
    else:
        path.mkdir()
    collected = collect(run, catalog)
    assert collected.parsed == 1
    assert (read(run, "trials")["status"].item() == "invalid") == (kind != "folder")


RAW = ("host.json", "programs.json", "queues.jsonl", "sockets.jsonl", "*/qdisc-*.json", "*/flow-*.json")


@pytest.mark.parametrize("pattern", [name for name in RAW if name != "programs.json"])
def test_no_raw_file_stops_the_tables(pattern: str, run: Run, captured: Load, catalog: Catalog) -> None:
    draw = random.Random(pattern)
    trial = captured("lean-dualpi2")
    trial.store(run)
    for number in range(2, 8):
        place = trial.store(run, number)
        path = draw.choice(sorted((place / "raw").glob(pattern)))
        data = bytearray(path.read_bytes())
        match number:
            case 2:
                data = data[: draw.randrange(len(data))]
            case 3:
                data = bytearray(b"[" * 100_000)
            case 4:
                data = bytearray(draw.randbytes(100))
            case 5:
                data = bytearray(re.sub(rb"[0-9]+", b"1e999", bytes(data), count=3))
            case 6:
                data = bytearray(re.sub(rb"[0-9]+", b"null", bytes(data), count=3))
            case 7:
                data = bytearray(b"{}\n")
        path.write_bytes(bytes(data))
    assert collect(run, catalog).parsed == 7
    trials = read(run, "trials")
    assert trials.height == 7
    assert trials["status"][0] == "ok"
    for table in tables.OF_TRIALS:
        tables.check(table, run.tables / f"{table}.parquet")


@pytest.mark.parametrize("name", ["captured-dualpi2", "lean-codel-warmup", "iperf3-fifo"])
def test_a_raw_file_that_is_a_pipe_is_not_waited_for(name: str, captured: Load) -> None:
    def waits(*_: object) -> None:
        raise TimeoutError

    trial = captured(name)
    before = signal.signal(signal.SIGALRM, waits)
    try:
        for path in sorted(path for path in trial.raw.rglob("*") if path.is_file()):
            kept = path.rename(trial.raw.with_name("kept"))
            os.mkfifo(path)
            signal.alarm(300)
            frames, problems = rows_of(trial.ended)
            assert any(f"{path.relative_to(trial.raw)} is not a regular file" in one for one in problems)
            assert set(frames["trials"]["status"]) == {"invalid"}
            kept.replace(path)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
