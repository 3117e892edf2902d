# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench report` on a run directory that holds nothing but tables, a matrix and a manifest."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from l4sbench import tables
from l4sbench.cli import main
from reports.result.load import RunTables, load
from tests.unit.reports.conftest import write

MATRIX = """\
matrix: mine
description: A run that never was.
topology: line6
rate: 100mbit
rtt: 10ms
duration: 60s
trials: 3
rule: pam25
flows:
  l4s: {cc: prague}
  classic: {cc: cubic}
axes:
  aqm: [fifo, dualpi2]
"""
DOCUMENTS = {"decision.md", "decision.csv", "cells.csv", "decision.json", "decision.tex", "metrics.csv"}


@pytest.fixture
def run(make: Callable[[Any], RunTables], tmp_path: Path) -> Path:
    make(
        [
            {"aqm": "fifo", "l4s.fallback": "off", "l4s": [45.0, 46.0, 44.0], "classic": [50.0] * 3},
            {"aqm": "dualpi2", "l4s.fallback": "off", "l4s": [43.0] * 3, "classic": [52.0] * 3},
        ]
    )
    (tmp_path / "matrix.yaml").write_text(MATRIX, encoding="utf-8")
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    for name in sorted(tables.SCHEMAS.keys() - {"trials", "flows", "sockets", "catalog"}):
        write(tmp_path / "tables", name, [])
    return tmp_path


def rename_groups(run: Path, names: Mapping[str, str]) -> None:
    """Give the flow groups of a run other names."""
    found = load(run)
    columns = {
        column: f"{names[column.split('.')[0]]}.{column.partition('.')[2]}"
        for column in found.trials.columns
        if column.split(".")[0] in names
    }
    renamed = {
        "trials": found.trials.rename(columns),
        "flows": found.flows.with_columns(pl.col("group").replace(names)),
    }
    for name, frame in renamed.items():
        tables.write(name, [frame.lazy()], run / "tables" / f"{name}.parquet")


def test_groups_may_have_any_name(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run), "--json"]) == 0
    before = json.loads(capsys.readouterr().out)
    rename_groups(run, {"l4s": "new", "classic": "old"})
    groups = "  new: {cc: prague}\n  old: {cc: cubic}\n"
    own = MATRIX.replace("  l4s: {cc: prague}\n  classic: {cc: cubic}\n", groups)
    (run / "matrix.yaml").write_text(own + "roles: {l4s: new, classic: old}\n", encoding="utf-8")
    assert main(["report", str(run), "--json"]) == 0
    after = json.loads(capsys.readouterr().out)
    assert after["verdicts"] == before["verdicts"]
    assert (after["rule"]["l4s"], after["rule"]["classic"]) == ("new", "old")
    assert main(["report", str(run), "--against", "pam25"]) == 0
    assert capsys.readouterr().out.startswith("# Beside published results: pam25")


def test_without_verdicts_a_report_needs_a_rule(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "matrix.yaml").write_text(MATRIX.replace("pam25", "none"), encoding="utf-8")
    assert main(["report", str(run)]) == 2
    assert capsys.readouterr().err == (
        "error: mine has no rule for verdicts (flow groups: l4s, classic); "
        "--rule compares two flow groups by anrw24, l4sbench1, pam25\n"
    )
    assert main(["report", str(run), "--rule", "pam25"]) == 0


def test_beside_published_results_the_report_is_whole(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = run / "weights.yml"
    weights.write_text("prevalence: home\nqueues: {fifo: 3, dualpi2: 1}\n", encoding="utf-8")
    assert main(["report", str(run), "--against", "pam25", "--prevalence", str(weights)]) == 0
    assert capsys.readouterr().out.startswith("# Beside published results: pam25")
    report = run / "report"
    assert {path.name for path in report.iterdir()} >= DOCUMENTS | {"against-pam25.md", "index.html"}
    page = (report / "index.html").read_text(encoding="utf-8")
    assert "prevalence home" in page
    assert 'aria-label="Prague against CUBIC, ECN off: ours minus published"' in page
    document = json.loads((report / "decision.json").read_text(encoding="utf-8"))
    assert document["regret"][0]["prevalence"] == "home"
    assert (run / "tables" / "verdicts.parquet").is_file()


def test_the_page_is_opened_in_a_browser(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BROWSER", "echo")
    monkeypatch.setattr("webbrowser._tryorder", None)  # what a new process has
    assert main(["report", str(run), "--open"]) == 0
    page = run / "report" / "index.html"
    assert f"{page.resolve().as_uri()}\n" in capfd.readouterr().out
    assert main(["report", str(run), "--open", "--json"]) == 2
    assert "--open is for the page of a whole run" in capfd.readouterr().err
