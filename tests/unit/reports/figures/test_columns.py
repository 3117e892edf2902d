# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Cells side by side, from captured trials."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from l4sbench import tables
from l4sbench.errors import InputError
from reports.figures import Paper, figures, fitted, specification, trial_series
from reports.figures.columns import POINTS
from reports.figures.save import drawn_width
from reports.result.load import RunTables, load
from reports.result.rules import load_rule
from reports.result.verdicts import decide
from tests.unit.reports.conftest import Make, write


def columns_of(run: RunTables) -> dict[str, Any]:
    """The specification of the only figure."""
    (figure,) = figures(run, decide(run, load_rule("pam25")), "columns")
    assert figure.name == "columns"
    return specification(figure.chart)


def rows_of(spec: dict[str, Any], plot: dict[str, Any], layer: int = 0) -> list[dict[str, Any]]:
    data = plot["layer"][layer].get("data") or plot["data"]  # Altair moves data that all layers have
    rows: list[dict[str, Any]] = data["values"] if "values" in data else spec["datasets"][data["name"]]
    return rows


def test_every_column_is_a_trial_of_its_cell(real: RunTables) -> None:
    spec = columns_of(real)
    cells = [cell.id for cell in decide(real, load_rule("pam25")).cells]
    goodput = spec["vconcat"][0]["hconcat"]
    assert len(goodput) == len(cells) == 3
    for cell, plot in zip(cells, goodput, strict=True):
        drawn = [(row["flow"], row["t_s"], row["value"]) for row in rows_of(spec, plot)]
        series = trial_series(real, cell, 1, POINTS)
        assert drawn == list(series.flows.select("flow", "t_s", "goodput_mbps").iter_rows())


def test_columns_have_equal_axes_and_say_what_differs_once(real: RunTables) -> None:
    spec = columns_of(real)
    labels = dict(real.catalog.filter(pl.col("kind") == "queue").select("name", "label").iter_rows())
    titles = [" ".join(plot["title"]["text"]) for plot in spec["vconcat"][0]["hconcat"]]
    assert [title.partition(",")[0] for title in titles] == [
        labels[cell.result.queue.value] for cell in decide(real, load_rule("pam25")).cells
    ]
    for line in spec["vconcat"]:
        scales = [plot["layer"][0]["encoding"][at]["scale"] for plot in line["hconcat"] for at in ("x", "y")]
        assert {str(scale) for scale in scales} == {str(scales[0]), str(scales[1])}
        assert not any("title" in plot for plot in line["hconcat"] if line is not spec["vconcat"][0])


def test_columns_stay_beside_each_other_on_narrow_paper(real: RunTables) -> None:
    spec = fitted(columns_of(real), Paper(317))
    assert [len(line["hconcat"]) for line in spec["vconcat"]] == [3] * len(spec["vconcat"])
    assert drawn_width(spec) == pytest.approx(317, abs=3)


@pytest.mark.parametrize("count", [1, 5])
def test_there_is_room_for_two_to_four(make: Make, count: int) -> None:
    cells = [
        {"aqm": "fifo", "buffer_bdp": float(n), "l4s": [50], "classic": [50]} for n in range(1, count + 1)
    ]
    message = f"^2 to 4 cells have room side by side, not {count};.*filters"
    with pytest.raises(InputError, match=message):
        columns_of(make(cells))


def test_a_measure_that_a_cell_lacks_is_said_to_be_missing(real: RunTables, tmp_path: Path) -> None:
    first = decide(real, load_rule("pam25")).cells[0].id
    folder = shutil.copytree(real.folder, tmp_path / "tables")
    marks = pl.when(pl.col("cell") != first).then(pl.col("delivered_ce_packets"))
    tables.write("sockets", [real.sockets.with_columns(marks).lazy()], folder / "sockets.parquet")
    spec = columns_of(load(tmp_path))
    (line,) = [
        line["hconcat"]
        for line in spec["vconcat"]
        if line["hconcat"][0]["layer"][0]["encoding"]["y"]["title"] == "CE marks, %"
    ]
    words = [[row["words"] for row in rows_of(spec, plot, -1) if "words" in row] for plot in line]
    assert words == [["not sampled"], [], []]


def sampled(run: RunTables, mbps: dict[str, float]) -> RunTables:
    """The run with samples of a second, of one flow per group that receives this much in every trial."""
    rows = [
        {"cell": cell, "trial": 1, "node": side, "flow": f"{group}-0", "group": group, "side": side}
        | {"t_ms": t_ms, "srtt_ms": 15.0, "received_bytes": round(rate * 125 * t_ms)}
        for cell in run.trials["cell"].unique()
        for side in ("sender", "receiver")
        for group, rate in mbps.items()
        for t_ms in range(0, 1001, 100)
    ]
    write(run.folder, "sockets", rows)
    write(run.folder, "queues", [])
    return RunTables(run.folder)


def looks_of(spec: dict[str, Any]) -> dict[str, tuple[str, list[int]]]:
    """The colour and dash of each group in the first row."""
    line = spec["vconcat"][0]["hconcat"][0]["layer"][0]["encoding"]
    colours, dashes = line["color"]["scale"], line["strokeDash"]["scale"]
    assert colours["domain"] == dashes["domain"]
    return dict(zip(colours["domain"], zip(colours["range"], dashes["range"], strict=True), strict=True))


def test_no_two_groups_look_alike(make: Make) -> None:
    """A congestion control may be the first group of one column and the second of another."""
    cells = [{"aqm": "fifo", "l4s.cc": cc, "l4s": [50], "classic": [40]} for cc in ("prague", "cubic")]
    looks = looks_of(columns_of(sampled(make(cells), {"l4s": 50, "classic": 40})))
    assert len(looks) == 3
    assert len({str(look) for look in looks.values()}) == 3


def test_a_fair_share_that_nobody_reaches_is_on_the_plot(make: Make) -> None:
    cells = [{"aqm": aqm, "l4s": [40], "classic": [20]} for aqm in ("fifo", "codel")]
    for plot in columns_of(sampled(make(cells), {"l4s": 40, "classic": 20}))["vconcat"][0]["hconcat"]:
        assert plot["layer"][0]["encoding"]["y"]["scale"]["domain"][1] > 50


def test_nothing_to_draw_is_an_error(make: Make) -> None:
    cells = [{"aqm": aqm, "l4s": [50], "classic": [50]} for aqm in ("fifo", "codel")]
    with pytest.raises(InputError, match=r"^nothing was sampled in a valid trial of cell-000"):
        columns_of(make(cells))
