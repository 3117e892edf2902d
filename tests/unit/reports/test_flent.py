# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Trials as data files of flent: what is in them, and flent itself, which opens and plots them."""

from __future__ import annotations

import csv
import gzip
import json
import os
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from collectors.trialrows import rows_of
from l4sbench import tables
from reports.flent import FlentFile, Origin, flent_files
from reports.result.load import RunTables, load
from tests.captured import CapturedTrial, captured_trial
from tests.patience import ran

BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ORIGIN = Origin("mine", "20260102T030405Z", BEGAN, "1.2.3")


def tables_of(folder: Path, trial: CapturedTrial) -> RunTables:
    frames, problems = rows_of(trial.ended)
    assert not problems
    folder.mkdir(exist_ok=True)
    for name in tables.OF_TRIALS:
        frame = tables.conform(name, frames[name]) if name in frames else tables.empty(name)
        tables.write(name, [frame.lazy()], folder / "tables" / f"{name}.parquet")
    return load(folder)


def exported(folder: Path, name: str) -> tuple[FlentFile, RunTables]:
    found = tables_of(folder, captured_trial(name))
    (file,) = flent_files(found, ORIGIN)
    return file, found


def plain(file: FlentFile) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(gzip.decompress(file.content))
    return content


def test_series_are_the_flows_of_the_tables(tmp_path: Path) -> None:
    file, found = exported(tmp_path, "lean-dualpi2")
    content = plain(file)
    flows = sorted(found.flows["flow"].to_list())
    assert content["version"] == 4
    about = content["metadata"]
    assert about["NAME"] == "tcp_nup"
    assert about["TEST_PARAMETERS"]["upload_streams"] == str(len(flows)) == "2"
    assert about["TEST_PARAMETERS"]["aqm"] == "dualpi2"
    assert (about["TIME"], about["BATCH_NAME"]) == ("2026-01-02T03:04:05.000000Z", "mine")
    t0_s = BEGAN.timestamp()
    for number, flow in enumerate(flows, 1):
        name = f"TCP upload::{number}"
        (row,) = found.flows.filter(flow=flow).iter_rows(named=True)
        assert about["SERIES_META"][name]["FLOW"] == flow
        assert about["SERIES_META"][name]["MEAN_VALUE"] == row["goodput_mbps"]
        own = found.intervals.filter(flow=flow)
        values = {one["t"]: one["val"] for one in content["raw_values"][name] if "val" in one}
        assert list(values) == pytest.approx([t0_s + (row["start_ms"] + t) / 1e3 for t in own["t_ms"]])
        assert list(values.values()) == pytest.approx(own["goodput_mbps"].to_list())
        samples = found.sockets.filter(flow=flow, side="sender").sort("t_ms")
        windows = [one["tcp_cwnd"] for one in content["raw_values"][name] if "tcp_cwnd" in one]
        assert windows == samples["cwnd_packets"].to_list()
    assert "Ping (ms) ICMP" not in content["results"]


@pytest.mark.parametrize(("family", "version"), [("ipv4", 4), ("ipv6", 6)])
def test_the_version_of_ip_is_that_of_the_trial(tmp_path: Path, family: str, version: int) -> None:
    (file,) = flent_files(tables_of(tmp_path, captured_trial("lean-dualpi2").having(family=family)), ORIGIN)
    assert plain(file)["metadata"]["IP_VERSION"] == version


def test_values_at_common_steps_lie_between_those_measured(tmp_path: Path) -> None:
    file, found = exported(tmp_path, "lean-dualpi2")
    content = plain(file)
    results, steps = content["results"], content["x_values"]
    assert steps == pytest.approx([step / 10 for step in range(len(steps))])
    assert all(len(series) == len(steps) for series in results.values())
    for number, flow in enumerate(sorted(found.flows["flow"]), 1):
        series = results[f"TCP upload::{number}"]
        start_s = found.flows.filter(flow=flow)["start_ms"].item() / 1e3
        own = found.intervals.filter(flow=flow)["goodput_mbps"]
        there = [(at, value) for at, value in zip(steps, series, strict=True) if value is not None]
        assert there
        assert there[0][0] >= start_s + 1  # nothing is known before the first interval has ended
        assert own.min() <= min(value for _, value in there)
        assert own.max() >= max(value for _, value in there)
    both = [
        (one, two, total)
        for one, two, total in zip(
            results["TCP upload::1"], results["TCP upload::2"], results["TCP upload sum"], strict=True
        )
        if one is not None and two is not None
    ]
    assert both
    assert all(one + two == pytest.approx(total, abs=1e-5) for one, two, total in both)


def test_handshakes_of_short_connections_are_the_ping(tmp_path: Path) -> None:
    file, found = exported(tmp_path, "lean-sends")
    content = plain(file)
    pings = [one["val"] for one in content["raw_values"]["Ping (ms) ICMP"]]
    known = found.requests.filter(pl.col("handshake_ms").is_not_null()).sort("t_ms")
    assert pings == known.unique("t_ms", keep="first", maintain_order=True)["handshake_ms"].to_list()
    assert "handshakes" in content["metadata"]["NOTE"]


def test_equal_tables_give_equal_files(tmp_path: Path) -> None:
    one, _ = exported(tmp_path / "one", "lean-dualpi2")
    two, _ = exported(tmp_path / "two", "lean-dualpi2")
    assert one == two


def test_invalid_trials_have_no_file_and_names_stay_in_the_folder(tmp_path: Path) -> None:
    found = tables_of(tmp_path, captured_trial("lean-dualpi2"))
    path = tmp_path / "tables"

    def rewritten(name: str, frame: pl.DataFrame) -> None:
        tables.write(name, [tables.conform(name, frame).lazy()], path / f"{name}.parquet")

    for name in tables.OF_TRIALS:
        rewritten(name, pl.read_parquet(path / f"{name}.parquet").with_columns(cell=pl.lit("../../up/x")))
    (file,) = flent_files(load(tmp_path), ORIGIN)
    assert file.name == "-..-up-x-trial-1.flent.gz"
    rewritten("trials", found.trials.with_columns(status=pl.lit("invalid"), reasons=pl.lit("x")))
    assert list(flent_files(load(tmp_path), ORIGIN)) == []


@pytest.fixture(scope="module")
def flent() -> tuple[list[str], dict[str, str]]:
    """flent's command and environment: from requirements/flent.txt (`make env-flent`), or the system's."""
    own = Path(os.environ.get("L4SBENCH_FLENT", Path(sys.prefix) / "flent"))
    environment = {**os.environ, "MPLBACKEND": "agg", "QT_QPA_PLATFORM": "offscreen"}
    if (own / "flent").is_dir():
        return [sys.executable, "-m", "flent"], {**environment, "PYTHONPATH": str(own)}
    installed = shutil.which("flent")
    if installed is None:
        pytest.skip("no flent: make env-flent installs it")
    return [installed], environment


def told(flent: tuple[list[str], dict[str, str]], folder: Path, *argv: str) -> str:
    command, environment = flent
    ended = ran([*command, *argv], cwd=folder, env={**environment, "HOME": str(folder)})
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "ERROR" not in ended.stderr, ended.stderr
    return ended.stdout


def test_flent_reads_the_values(flent: tuple[list[str], dict[str, str]], tmp_path: Path) -> None:
    file, _ = exported(tmp_path, "lean-dualpi2")
    (tmp_path / file.name).write_bytes(file.content)
    told(flent, tmp_path, "-f", "csv", "-o", "out.csv", file.name)
    rows = list(csv.reader((tmp_path / "out.csv").read_text().splitlines()))
    results = plain(file)["results"]
    for name in ("TCP upload::1", "TCP upload::2", "TCP upload sum"):
        column = rows[0].index(name)
        read = [float(row[column]) if row[column] else None for row in rows[1:]]
        assert read == pytest.approx(results[name]), name


@pytest.mark.parametrize("plot", ["totals", "upload", "box_totals", "tcp_cwnd", "tcp_rtt"])
def test_flent_draws_its_plots(flent: tuple[list[str], dict[str, str]], tmp_path: Path, plot: str) -> None:
    file, _ = exported(tmp_path, "lean-dualpi2")
    (tmp_path / file.name).write_bytes(file.content)
    told(flent, tmp_path, "-p", plot, "-o", "out.svg", file.name)
    drawn = (tmp_path / "out.svg").read_text()
    assert drawn.count("<path") > 10
