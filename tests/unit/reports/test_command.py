# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench report` on a run directory that holds nothing but tables, a matrix and a manifest."""

from __future__ import annotations

import html
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import l4sbench
from l4sbench import tables
from l4sbench.app.api import EndedRun, decide
from l4sbench.app.api import load as load_run
from l4sbench.app.livepage import LivePage
from l4sbench.app.stored import StoredRun
from l4sbench.cli import main
from l4sbench.engine.loop import RunResult
from l4sbench.facts import events
from l4sbench.matrix import Matrix
from reports.result.load import RunTables, load
from tests.patience import wait_until
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
DOCUMENTS = {
    *("decision.md", "decision.csv", "cells.csv", "decision.json", "decision.tex", "metrics.csv"),
    "numbers.json",
}


FIFO: Mapping[str, Any] = {"aqm": "fifo", "l4s": [45.0, 46.0, 44.0], "classic": [50.0] * 3}
DUALPI2: Mapping[str, Any] = {"aqm": "dualpi2", "l4s": [43.0] * 3, "classic": [52.0] * 3}

Measure = Callable[..., None]


@pytest.fixture
def measure(make: Callable[[Any], RunTables], tmp_path: Path) -> Measure:
    """Makes the tables of cells, whose ids are those of the matrix's cells with their queues."""

    def measured(*cells: Mapping[str, Any]) -> None:
        make([{"l4s.fallback": "off", **cell} for cell in cells])
        own = {str(cell.aqm): cell.id for cell in Matrix.load(tmp_path / "matrix.yaml").cells}
        ids = {f"cell-{number:04d}": own.get(cell["aqm"], "former") for number, cell in enumerate(cells)}
        for name in ("trials", "flows"):
            path = tmp_path / "tables" / f"{name}.parquet"
            frame = pl.read_parquet(path).with_columns(pl.col("cell").replace(ids))
            tables.write(name, [tables.conform(name, frame).lazy()], path)

    return measured


@pytest.fixture
def run(measure: Measure, tmp_path: Path) -> Path:
    (tmp_path / "matrix.yaml").write_text(MATRIX, encoding="utf-8")
    measure(FIFO, DUALPI2)
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    for name in sorted(tables.SCHEMAS.keys() - {"trials", "flows", "sockets", "catalog"}):
        write(tmp_path / "tables", name, [])
    return tmp_path


def test_python_writes_the_same_report(run: Path, tmp_path: Path) -> None:
    assert main(["report", str(run)]) == 0
    other = tmp_path / "elsewhere"
    assert l4sbench.report(run, other) == other / "index.html"
    mine = run / "report"
    assert {path.name for path in other.iterdir()} == {path.name for path in mine.iterdir()} | {
        "verdicts.parquet"
    }
    for name in DOCUMENTS:
        assert (other / name).read_bytes() == (mine / name).read_bytes(), name
    before = (mine / "index.html").read_bytes()
    (mine / "index.html").unlink()
    assert l4sbench.report(run).read_bytes() == before


@pytest.mark.parametrize("columns", [200, 80])
def test_cells_are_shown_with_what_they_got(
    run: Path,
    measure: Measure,
    columns: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In two lines where one is too long, and with what is in doubt below."""
    monkeypatch.setenv("COLUMNS", str(columns))
    measure({**FIFO, "l4s": [30.0, 14.0, 25.0], "delay": 4.0}, DUALPI2)
    assert main(["report", str(run)]) == 0
    capsys.readouterr()
    assert main(["show", str(run)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    assert "l4s v classic: means over valid trials; delay: smoothed RTT minus base RTT" in lines
    at = next(number for number, line in enumerate(lines) if line.startswith("fifo_"))
    own = " ".join(lines[at : at + (1 if columns == 200 else 2)]).split()
    assert " ".join(own[1:]) == "23.0 v 50.0 4.0 v 7.0 none ended ✓ ok, unsure"
    doubt = lines[at + (1 if columns == 200 else 2)]
    assert doubt == "    Prague may get 3 to 43 % of the link, limit 20"
    assert main(["show", str(run), "--json"]) == 0
    (fifo, _) = json.loads(capsys.readouterr().out)["cells"]
    assert fifo["goodput_mbps"] == {"l4s": 23.0, "classic": 50.0}
    assert fifo["delay_ms"] == {"l4s": 4.0, "classic": 7.0}
    assert fifo["verdict"] == "ok"


def test_cells_of_a_matrix_without_a_rule_have_numbers(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "matrix.yaml").write_text(MATRIX.replace("rule: pam25", "rule: none"), encoding="utf-8")
    assert main(["report", str(run)]) == 0
    capsys.readouterr()
    assert main(["show", str(run)]) == 0
    out = capsys.readouterr().out
    assert "45.0 v 50.0" in out
    assert "verdict" not in out


def _becomes_a_link(file: Path) -> None:
    file.unlink()
    file.symlink_to("/etc/passwd")


def _becomes_a_fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda file: file.write_text('{"format": 1, "cells": {"fifo": 1}}'), "is damaged, or a newer"),
        (lambda file: file.write_text('{"format": 3}'), "is damaged, or a newer l4sbench wrote it"),
        (lambda file: file.write_bytes(b"\xff" * 100), "is damaged"),
        (_becomes_a_link, "cannot be read: it is a link"),
        (_becomes_a_fifo, "cannot be read: it is a FIFO"),
    ],
)
def test_numbers_that_are_damaged_are_not_shown(
    run: Path, damage: Callable[[Path], object], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(run)]) == 0
    damage(run / "report" / "numbers.json")
    capsys.readouterr()
    assert main(["show", str(run)]) == 0
    done = capsys.readouterr()
    assert "45.0" not in done.out
    assert f"warning: no numbers: report/numbers.json {why}" in done.err


def test_the_command_that_makes_it_sure_names_the_run(
    run: Path, measure: Measure, capsys: pytest.CaptureFixture[str]
) -> None:
    measure({**FIFO, "l4s": [45.0]}, {**DUALPI2, "l4s": [43.0]})
    assert main(["report", str(run)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"`l4sbench run {run}/matrix.yaml --sure` adds trials" in text
    assert main(["report", str(run), "aqm=fifo"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"`l4sbench run {run}/matrix.yaml aqm=fifo --sure` adds trials" in text
    trials = run / "tables" / "trials.parquet"
    on_hosts = pl.read_parquet(trials).with_columns(testbed=pl.lit("ssh"))
    tables.write("trials", [tables.conform("trials", on_hosts).lazy()], trials)
    assert main(["report", str(run)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"`l4sbench run {run}/matrix.yaml --on ssh:INVENTORY --sure` adds trials" in text


def test_cells_that_the_matrix_no_longer_has_do_not_decide(
    run: Path, measure: Measure, capsys: pytest.CaptureFixture[str]
) -> None:
    former = {"aqm": "codel", "l4s": [3.0, 3.1, 3.2, 3.0], "classic": [90.0] * 4}
    measure(FIFO, DUALPI2, former)
    assert main(["report", str(run)]) == 0
    text = capsys.readouterr().out
    assert "l4s-starved" not in text
    assert "not counted: 4 trials of 1 former cell, not in the matrix now; --all counts them" in text
    report = run / "report"
    page, document = (report / "index.html").read_text(), json.loads((report / "decision.json").read_text())
    assert "<b>4</b> trials of former cells not counted" in page
    assert (document["former"], len(document["cells"])) == ({"trials": 4, "cells": 1}, 2)
    assert "codel" not in (report / "cells.csv").read_text() + (report / "metrics.csv").read_text()
    assert set(load_run(run).trials["aqm"]) == {"fifo", "dualpi2"}
    assert set(load_run(run, every=True).flows["cell"]) > set(load_run(run).flows["cell"])
    assert main(["report", str(run), "--all"]) == 0
    text = capsys.readouterr().out
    assert "l4s-starved" in text
    assert "not counted" not in text
    assert '"former"' in (report / "index.html").read_text()
    assert main(["report", str(run), "--all", "aqm=fifo"]) == 2
    assert "leave out either the filters or --all" in capsys.readouterr().err


def test_an_answer_from_a_part_of_the_matrix_says_so(
    run: Path, measure: Measure, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that was interrupted, or that filters left a part of, has no answer for the whole matrix."""
    measure({**FIFO, "l4s": [45.0, 45.1, 44.9]})
    assert main(["report", str(run)]) == 0
    so_far = "Yes, so far: ok in 1 of 1 entry; 1 cell not run."
    assert so_far in capsys.readouterr().out
    report = run / "report"
    assert so_far in (report / "decision.md").read_text()
    assert "<b>1</b> cell not run" in (report / "index.html").read_text()
    assert json.loads((report / "decision.json").read_text())["not_run"] == 1
    assert main(["report", str(run), "aqm=fifo"]) == 0
    assert "Yes: ok in 1 of 1 entry." in capsys.readouterr().out
    measure({**FIFO, "l4s": [3.0, 3.1, 3.2]})
    assert main(["report", str(run)]) == 0
    assert "No, so far: ok in 0 of 1 entry; 1 cell not run." in capsys.readouterr().out


def test_a_run_of_former_cells_alone(run: Path, measure: Measure, capsys: pytest.CaptureFixture[str]) -> None:
    measure({**FIFO, "aqm": "codel"})
    assert main(["report", str(run)]) == 2
    assert capsys.readouterr().err == (
        "error: the run has no trial of its matrix's cells, but 3 of former cells; --all reports them\n"
    )
    assert main(["report", str(run), "--all"]) == 0


def test_more_trials_of_some_cells_are_further_looks(run: Path, measure: Measure) -> None:
    def narrow() -> tuple[int, float]:
        decision = decide(run)
        (share,) = (cell.result.share for cell in decision.cells if cell.label.head == "FIFO")
        assert share is not None
        assert share.interval is not None
        return decision.looks, share.interval[1] - share.interval[0]

    assert narrow()[0] == 1
    width = narrow()[1]
    measure(FIFO, {**DUALPI2, "l4s": [43.0, 44.0, 43.5, 42.0, 43.0], "classic": [50.0] * 5})
    assert narrow()[0] == 2
    assert narrow()[1] > width, "an interval that holds together with others is wider"


def rename_groups(run: Path, names: Mapping[str, str]) -> None:
    """Give the flow groups of a run other names, and its cells the ids that they have in its matrix."""
    own = {str(cell.aqm): cell.id for cell in Matrix.load(run / "matrix.yaml").cells}
    found = load(run)
    ids = {cell: own[aqm] for cell, aqm in found.trials.select("cell", "aqm").iter_rows()}
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
        conform = tables.conform(name, frame.with_columns(pl.col("cell").replace(ids)))
        tables.write(name, [conform.lazy()], run / "tables" / f"{name}.parquet")


def test_groups_may_have_any_name(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run), "--json"]) == 0
    before = json.loads(capsys.readouterr().out)
    groups = "  new: {cc: prague}\n  old: {cc: cubic}\n"
    own = MATRIX.replace("  l4s: {cc: prague}\n  classic: {cc: cubic}\n", groups)
    (run / "matrix.yaml").write_text(own + "roles: {l4s: new, classic: old}\n", encoding="utf-8")
    rename_groups(run, {"l4s": "new", "classic": "old"})
    assert main(["report", str(run), "--json"]) == 0
    after = json.loads(capsys.readouterr().out)
    words = [[(own["row"], own["verdict"], own["trials"]) for own in t["verdicts"]] for t in (before, after)]
    assert words[0] == words[1]
    assert (after["rule"]["l4s"], after["rule"]["classic"]) == ("new", "old")
    assert main(["report", str(run), "--against", "pam25"]) == 0
    assert capsys.readouterr().out.startswith("# Beside published results: pam25")


def without_rule(run: Path) -> None:
    (run / "matrix.yaml").write_text(MATRIX.replace("pam25", "none"), encoding="utf-8")


def report_numbers(run: Path, numbers: Mapping[str, Sequence[float]], side: str = "sender") -> None:
    """Write what the L4S group's sender or receiver reported in the trials of every cell, by names."""
    cells = pl.read_parquet(run / "tables" / "trials.parquet")["cell"].unique().sort()
    about = {"flow": "l4s-0", "side": side, "item": 1, "group": "l4s"}
    rows = [
        {"cell": cell, "trial": trial, "key": key, "value": value, **about}
        for cell in cells
        for key, values in numbers.items()
        for trial, value in enumerate(values, 1)
    ]
    write(run / "tables", "exec", sorted(rows, key=lambda row: (row["cell"], row["trial"], row["key"])))


def test_without_verdicts_a_report_has_numbers(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    without_rule(run)
    report_numbers(run, {"rtt_ms.smoothed": [20.0, 22.0, 24.0]})
    assert main(["report", str(run)]) == 0
    done = capsys.readouterr()
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert lines[0] == "cell group Mbit/s interval % of link delay ms trials"
    assert "FIFO l4s 45.0 42.5 to 47.5 45.0 5.0 3" in lines
    assert "FIFO classic 50.0 50.0 to 50.0 50.0 7.0 3" in lines
    page = run / "report" / "index.html"
    assert done.err == f"report: {page}\n"
    assert {path.name for path in page.parent.iterdir()} == {
        *("index.html", "data", "measured.csv", "measured.json", "metrics.csv"),
        "numbers.json",
    }
    numbers = pl.read_csv(page.parent / "measured.csv")
    own = numbers.filter(pl.col("number") == "sender rtt_ms.smoothed")
    assert own["mean"].to_list() == [22.0, 22.0]
    assert own["group"].to_list() == ["l4s", "l4s"]
    text = page.read_text(encoding="utf-8")
    assert "What l4s and classic got" in text
    assert '["l4s","sender rtt_ms.smoothed",[22.0,' in text
    assert main(["show", str(run)]) == 0
    assert capsys.readouterr().err.startswith(f"report: {page}\n")


def test_without_verdicts_a_notebook_shows_numbers(run: Path) -> None:
    without_rule(run)
    measured = StoredRun.find(run).measure()
    text = EndedRun(run, RunResult(ok=6, invalid=0, failed=0, left=0), None, measured=measured)._repr_html_()
    cells = [cell.partition("<")[0] for cell in text.split('<td style="text-align: left">')]
    assert cells[cells.index("FIFO") :][:4] == ["FIFO", "l4s", "45.0", "42.5 to 47.5"]
    assert "6 ok" in text
    assert "no verdicts" not in text
    assert measured._repr_html_() in text  # type: ignore[attr-defined]


def test_what_an_earlier_rule_left_is_removed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = {"cells.csv": "my cells\n", "notes.md": "# Decision table\n"}
    assert main(["report", str(run)]) == 0
    report, table = run / "report", run / "tables" / "verdicts.parquet"
    decided = {path.name for path in report.iterdir()}
    assert {"decision.md", "decision.csv", "decision.json", "decision.tex", "cells.csv"} < decided
    assert table.exists()
    for name, text in own.items():
        (report / name).write_text(text, encoding="utf-8")
    without_rule(run)
    assert main(["report", str(run)]) == 0
    measured = {"index.html", "data", "measured.csv", "measured.json", "metrics.csv", "numbers.json"}
    assert {path.name for path in report.iterdir()} == measured | own.keys()
    assert {name: (report / name).read_text(encoding="utf-8") for name in own} == own
    assert not table.exists()
    (run / "matrix.yaml").write_text(MATRIX, encoding="utf-8")
    assert main(["report", str(run)]) == 0
    assert {path.name for path in report.iterdir()} == decided | {"notes.md"}
    capsys.readouterr()


def test_media_has_its_frames_on_the_page(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    without_rule(run)
    path = run / "tables" / "flows.parquet"
    flows = pl.read_parquet(path).with_columns(pl.lit(60.0).alias("seconds"))
    tables.write("flows", [tables.conform("flows", flows).lazy()], path)
    delays = {"frames.delay_ms.p50": [40.0] * 3, "frames.delay_ms.p95": [90.0, 91.0, 92.0]}
    report_numbers(run, {**delays, "frames.freezes": [0.0] * 3, "frames.whole": [1800.0] * 3}, "receiver")
    assert main(["report", str(run)]) == 0
    assert "smooth" in capsys.readouterr().out
    text = (run / "report" / "index.html").read_text(encoding="utf-8")
    assert '"frame_p50":[40.0,40.0,40.0],"frame_p95":[91.0,' in text
    assert '"frame_rate":[30.0,30.0,30.0],"freezes":[0.0,' in text
    assert '"verdicts":[["smooth","frames","frames1 v1"]]' in text
    numbers = pl.read_csv(run / "report" / "measured.csv")
    assert numbers.filter(number="frame_rate_hz")["mean"].to_list() == [30.0, 30.0]


def test_without_verdicts_filters_and_json(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    without_rule(run)
    assert main(["report", str(run), "aqm=fifo", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rule"] is None
    (cell,) = found["cells"]
    assert cell["label"] == "FIFO"
    means = {row["number"]: row["mean"] for row in cell["groups"][0]["numbers"]}
    assert means == {"goodput_mbps": 45.0, "share_percent": 45.0, "delay_ms": 5.0}
    assert not (run / "report").exists()
    weights = run / "weights.yml"
    weights.write_text("prevalence: home\nqueues: {fifo: 3, dualpi2: 1}\n", encoding="utf-8")
    assert main(["report", str(run), "--prevalence", str(weights)]) == 2
    assert "needs verdicts" in capsys.readouterr().err
    assert main(["report", str(run), "--rule", "pam25"]) == 0
    assert (run / "report" / "decision.md").is_file()


def test_the_page_of_a_run_that_goes_on(run: Path) -> None:
    """It waits for the first result, then has the results so far, and at the end it is the ordinary page."""
    tables_of, page = run / "tables", run / "report" / "index.html"
    live = LivePage(lambda: StoredRun(run))
    live(events.RunPlanned(0.0, 84, 28, 2, 100.0))
    tables_of.rename(run / "later")
    live.stopped()
    assert "The run stopped before a trial had a result" in page.read_text(encoding="utf-8")
    (run / "later").rename(tables_of)
    with live.working():
        live(events.TrialEnded(1.0, "c", 1, events.Status.INVALID, ("r",), 1.0, 1.0, run / "cells/c/1"))
        wait_until(lambda: "Is it okay" in page.read_text(encoding="utf-8"))
    text = page.read_text(encoding="utf-8")
    assert "<b>1 of 84</b> trials have ended" in text
    assert ">1 invalid<" in text
    assert 'http-equiv="refresh"' in text
    assert '"series":""' in text
    live.stopped()
    text = page.read_text(encoding="utf-8")
    assert "the run has stopped, and the same command resumes it" in text
    assert 'http-equiv="refresh"' not in text
    assert main(["report", str(run)]) == 0
    assert 'id="going"' not in page.read_text(encoding="utf-8")
    assert live.problem == ""


@pytest.fixture
def sweep(run: Path, measure: Measure, tmp_path: Path) -> Path:
    """The folder of three runs of the matrix, of which a sweep has noted the first and the last."""
    home = tmp_path / "runs" / "mine"
    for day, dualpi2 in ((1, DUALPI2), (2, DUALPI2), (3, {**DUALPI2, "l4s": [4.0, 4.1, 4.2]})):
        measure(FIFO, dualpi2)
        night = home / f"2026010{day}T023000Z"
        shutil.copytree(run / "tables", night / "tables")
        for name in ("matrix.yaml", "manifest.json"):
            shutil.copy(run / name, night / name)
    (home / "history.tsv").write_text(
        "run\tcompared with\toutcome\n"
        "20260101T023000Z\tnone\tok\n"
        "../../etc\tnone\tok\n"
        "20260103T023000Z\t20260101T023000Z\tworse than good\n"
        "20260104T023000Z\n",
        encoding="utf-8",
    )
    return home


def test_the_nights_of_a_sweep_are_listed_and_have_a_page(
    sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", "mine", "--dir", str(sweep.parent)]) == 0
    said = capsys.readouterr()
    rows = [line.split() for line in said.out.splitlines()]
    assert rows[1] == ["20260101T023000Z", "6", "-", "ok"]
    assert rows[2] == ["20260103T023000Z", "6", "1", "worse", "than", "good"]
    assert len(rows) == 3, "only what the sweep noted, and that is still there"
    page = sweep / "history.html"
    assert f"page: {page}" in said.err
    assert '<span class="answer-word o-worse">Worse</span> in the newest night' in page.read_text()
    assert main(["history", str(sweep / "20260101T023000Z"), "--all", "--last", "2"]) == 0
    nights = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert nights == ["20260102T023000Z", "20260103T023000Z"]


def test_runs_that_no_sweep_has_noted_are_compared_with_the_one_before(
    sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (sweep / "history.tsv").unlink()
    output = tmp_path / "out" / "trend.html"
    assert main(["history", "mine", "--dir", str(sweep.parent), "-o", str(output)]) == 0
    worse = [line.split()[2] for line in capsys.readouterr().out.splitlines()[1:]]
    assert worse == ["-", "0", "1"]
    assert "compared with 20260102T023000Z" in output.read_text()
    output.write_text("mine")
    assert main(["history", "mine", "--dir", str(sweep.parent), "-o", str(output)]) == 2
    assert "trend.html exists, and is not a page of l4sbench" in capsys.readouterr().err


def test_a_history_needs_a_run(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "other", "--dir", str(sweep.parent)]) == 2
    assert "there is no run other" in capsys.readouterr().err
    for night in sweep.glob("2*"):
        (night / "tables").rename(night / "gone")
    assert main(["history", "mine", "--dir", str(sweep.parent)]) == 2
    assert f"no run in {sweep} has tables; `l4sbench collect RUN` writes them" in capsys.readouterr().err


def test_a_comparison_is_written_as_a_page(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "out" / "compare.html"
    assert main(["report", str(run)]) == 0
    assert main(["compare", str(run), str(run), "--page", str(page)]) == 0
    assert f"page: {page}" in capsys.readouterr().err
    assert 'href="../report/index.html#cell/' in page.read_text(encoding="utf-8")
    other = tmp_path / "notes.html"
    other.write_text("mine")
    assert main(["compare", str(run), str(run), "--page", str(other)]) == 2
    assert "notes.html exists, and is not a page of l4sbench" in capsys.readouterr().err
    assert other.read_text() == "mine"


def test_versions_of_a_program_compare_without_a_rule(
    run: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    without_rule(run)
    report_numbers(run, {"rtt_ms.smoothed": [20.0, 20.1, 20.2], "alpha": [0.5] * 3})
    new = tmp_path_factory.mktemp("new") / "run"
    shutil.copytree(run, new)
    report_numbers(new, {"rtt_ms.smoothed": [30.0, 30.1, 30.2], "alpha": [0.5] * 3})
    assert main(["compare", str(run), str(new)]) == 0, "nobody knows if a number of a program is worse"
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines.count("* l4s sender rtt_ms.smoothed 20.1 (19.85 to 20.35) -> 30.1 (29.85 to 30.35)") == 2
    assert "equal in both runs: 14 numbers" in lines


def test_figures_without_a_rule(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    without_rule(run)
    assert main(["report", str(run), "--figures", "--json", "--format", "json"]) == 0
    (figure,) = json.loads(capsys.readouterr().out)
    assert figure["name"] == "groups"
    drawn = Path(figure["files"][0]).read_text(encoding="utf-8")
    assert "goodput, % of the link's rate" in drawn
    assert "queuing delay per packet" not in drawn, "no packets were captured"
    assert list(l4sbench.figures(run)) == ["groups"]
    assert main(["report", str(run), "--map"]) == 2
    assert capsys.readouterr().err == (
        "error: mine has no rule for verdicts (flow groups: l4s, classic); "
        "--rule compares two flow groups by anrw24, l4sbench1, pam25\n"
    )


def test_one_group_alone_has_a_report(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = MATRIX.replace("rule: pam25\n", "").replace("  classic: {cc: cubic}\n", "")
    (run / "matrix.yaml").write_text(own, encoding="utf-8")
    cells = {str(cell.aqm): cell.id for cell in Matrix.load(run / "matrix.yaml").cells}
    trials, flows = (pl.read_parquet(run / "tables" / f"{name}.parquet") for name in ("trials", "flows"))
    ids = {was: cells[aqm] for was, aqm in trials.select("cell", "aqm").iter_rows()}
    alone = trials.select(pl.exclude("^classic[.].*$"))
    for name, frame in (("trials", alone), ("flows", flows.filter(pl.col("group") == "l4s"))):
        renamed = frame.with_columns(pl.col("cell").replace(ids)).sort("cell", "trial")
        tables.write(name, [tables.conform(name, renamed).lazy()], run / "tables" / f"{name}.parquet")
    assert main(["report", str(run)]) == 0
    assert "What l4s got" in (run / "report" / "index.html").read_text(encoding="utf-8")
    metrics = pl.read_csv(run / "report" / "metrics.csv")
    assert not [name for name in metrics.columns if name.startswith("classic")]
    assert "classic" not in capsys.readouterr().out


def test_beside_published_results_the_report_is_whole(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = run / "weights.yml"
    weights.write_text("prevalence: home\nqueues: {fifo: 3, dualpi2: 1}\n", encoding="utf-8")
    assert main(["report", str(run), "--against", "pam25", "--prevalence", str(weights)]) == 0
    assert capsys.readouterr().out.startswith("# Beside published results: pam25")
    report = run / "report"
    assert {path.name for path in report.iterdir()} >= DOCUMENTS | {"against-pam25.md", "index.html"}
    page = (report / "index.html").read_text(encoding="utf-8")
    assert "as in home, it lacks" in page
    assert 'aria-label="Prague against CUBIC, ECN off: ours minus published"' in page
    document = json.loads((report / "decision.json").read_text(encoding="utf-8"))
    assert document["regret"][0]["prevalence"] == "home"
    assert (run / "tables" / "verdicts.parquet").is_file()


def test_the_table_for_a_paper_has_no_commands(run: Path) -> None:
    weights = run / "weights.yml"
    weights.write_text("prevalence: home\nqueues: {fifo: 3, dualpi2: 1}\n", encoding="utf-8")
    (run / "matrix.yaml").write_text(MATRIX.replace("pam25", "l4sbench1"), encoding="utf-8")
    report = run / "report"
    for options, asked in (((), False), (("--prevalence", str(weights)), True)):
        assert main(["report", str(run), *options]) == 0
        text = (report / "decision.tex").read_text(encoding="utf-8")
        assert "l4sbench run" not in text
        assert "{-}{-}" not in text
        assert "--all" not in text
        assert ("expected regret" in text) == asked
        assert "Expected regret" in (report / "decision.md").read_text(encoding="utf-8")


def test_a_changed_matrix_is_not_the_study(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed = 'origin: "pam25-cubic with duration=60s"'
    text = MATRIX.replace("description: A run that never was.", changed)
    (run / "matrix.yaml").write_text(text, encoding="utf-8")
    assert main(["report", str(run), "--against", "pam25"]) == 0
    said = "This run is not of the study's matrix but of another: pam25-cubic with duration=60s."
    shown = capsys.readouterr().out
    assert f"**{said}**" in shown
    assert "Made by `l4sbench run matrix.yaml`" in shown
    page = html.unescape((run / "report" / "index.html").read_text(encoding="utf-8"))
    assert said in page
    assert "pam25-cubic with duration=60s" in page.partition("<b>Basis</b>")[2].partition("</details>")[0]


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
    assert main(["report", str(run), "--notes", "--json"]) == 2
    assert "--notes is for the decision table" in capfd.readouterr().err
