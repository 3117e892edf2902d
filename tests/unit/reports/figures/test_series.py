# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Trials over time, from captured trials."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import polars as pl
import pytest

from l4sbench.errors import InputError
from reports.colours import contrast
from reports.figures import datasets, specification, time_series, trial_series
from reports.figures.style import config
from reports.result.load import RunTables


def cell_of(tables: RunTables, aqm: str) -> str:
    return str(tables.trials.filter(pl.col("aqm") == aqm)["cell"][0])


def test_goodput_adds_up_to_what_arrived(real: RunTables) -> None:
    cell = cell_of(real, "dualpi2")
    series = trial_series(real, cell, 1)
    for flow in ("l4s-0", "classic-0"):
        own = series.flows.filter(pl.col("flow") == flow).sort("t_s")
        samples = real.sockets.filter(
            (pl.col("cell") == cell)
            & (pl.col("flow") == flow)
            & (pl.col("side") == "receiver")
            & (pl.col("t_ms") <= series.end_s * 1000)
        ).sort("t_ms")
        arrived = samples["received_bytes"][-1] - samples["received_bytes"][0]
        seconds = own["t_s"].diff()
        drawn = float((own["goodput_mbps"] * seconds).sum()) * 1e6 / 8
        assert drawn == pytest.approx(arrived, rel=0.01)


def test_samples_that_are_not_binned_stand_as_they_are(real: RunTables) -> None:
    cell = cell_of(real, "dualpi2")
    series = trial_series(real, cell, 1)
    assert series.bin_ms == 500  # as sampled
    senders = real.sockets.filter(
        (pl.col("cell") == cell) & (pl.col("side") == "sender") & (pl.col("t_ms") <= series.end_s * 1000)
    ).sort("flow", "t_ms")
    drawn = series.flows.filter(pl.col("srtt_ms").is_not_null()).sort("flow", "t_s")
    assert drawn["srtt_ms"].to_list() == pytest.approx(senders["srtt_ms"].to_list(), abs=0.0005)
    assert drawn["cwnd_packets"].to_list() == senders["cwnd_packets"].to_list()
    shares = drawn["ce_percent"].drop_nulls()
    assert shares.len() > 0
    assert shares.is_between(0, 100).all()
    assert set(series.queue["queue"]) == {"delay of the L4S queue", "delay of the classic queue"}


def test_fewer_points_are_wider_bins(real: RunTables) -> None:
    cell = cell_of(real, "dualpi2")
    series = trial_series(real, cell, 1, points=3)
    assert series.bin_ms == 1000
    assert series.flows.group_by("flow").len()["len"].max() == 3


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_specification_keeps_its_rows_apart(real: RunTables, theme: str) -> None:
    for cell in real.trials["cell"]:
        series = trial_series(real, cell, 1)
        spec = specification(time_series(series, "dark" if theme == "dark" else "light"))
        assert spec["datasets"] == datasets(series)
        assert series.title in str(spec["title"])
        # one selection moves the time axis of every panel
        (zoom,) = spec["params"]
        names = [panel.get("name") or panel["layer"][0]["name"] for panel in spec["vconcat"]]
        assert zoom["views"] == names
        assert len(names) >= 4
        assert series.fair_mbps == series.rate_mbps / 2


@pytest.mark.parametrize("nothing", [0.0, None])
def test_an_axis_of_zeros_has_more_than_one_tick(real: RunTables, nothing: float | None) -> None:
    series = trial_series(real, cell_of(real, "dualpi2"), 1)
    assert series.flat == ()
    marks = pl.lit(nothing, dtype=pl.Float64)
    series = replace(series, flows=series.flows.with_columns(ce_percent=marks))
    assert series.flat == ("ce_percent",)
    panels = {
        panel["name"]: panel for panel in specification(time_series(series))["vconcat"] if "name" in panel
    }
    scales = {name: panel["encoding"]["y"]["scale"] for name, panel in panels.items()}
    assert scales["ce_percent"] == {"domain": [0, 1]}
    assert scales["srtt_ms"] == {"zero": True}


SEEN = 3.0
"""Least contrast of a line: Web Content Accessibility Guidelines 2.1, success criterion 1.4.11."""


def test_every_line_is_seen_on_paper_and_on_a_dark_page(real: RunTables) -> None:
    for cell in real.trials["cell"]:
        spec = json.dumps(specification(time_series(trial_series(real, cell, 1))))
        ranges = re.findall(r'"range": (\["#[^]]*\])', spec)
        colours = {colour for found in ranges for colour in json.loads(found)}
        assert len(colours) >= 2
        for paper in ("#ffffff", config("dark")["background"]):
            assert {colour for colour in colours if contrast(colour, paper) < SEEN} == set()


def test_what_cannot_be_shown(real: RunTables) -> None:
    with pytest.raises(InputError, match="has no trial 2"):
        trial_series(real, cell_of(real, "dualpi2"), 2)
