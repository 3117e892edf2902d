# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Trials over time, from captured trials."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pytest

from collectors.assemble import collect
from l4sbench.catalog import Catalog
from l4sbench.errors import InputError
from l4sbench.store import Run
from reports.colours import contrast
from reports.figures import (
    TrialSeries,
    datasets,
    figures,
    series_of,
    specification,
    time_series,
    trial_series,
    trials_together,
)
from reports.figures.series import FairShare
from reports.figures.style import config
from reports.result.load import RunTables, load
from reports.result.rules import load_rule
from reports.result.verdicts import decide
from tests.captured import captured_trial
from tests.unit.reports.conftest import Make, write
from tests.unit.reports.figures.conftest import MATRIX


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


def test_many_trials_together_are_what_each_is_alone(real: RunTables) -> None:
    together = list(series_of(real, real.trials))
    assert len(together) > 1
    for series in together:
        alone = trial_series(real, series.cell, series.trial)
        assert replace(series, flows=alone.flows, queue=alone.queue, panels=alone.panels) == alone
        assert series.flows.equals(alone.flows)
        assert series.queue.equals(alone.queue)
        pairs = zip(series.panels, alone.panels, strict=True)
        assert all(ours.title == own.title and ours.rows.equals(own.rows) for ours, own in pairs)


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


def test_backlogs_and_fair_shares_are_at_the_rate_of_each_instant(make: Make) -> None:
    """Of 10,000 bytes at 10 Mbit/s, and from 2.5 s on at 2.5."""
    tables = make([{"aqm": "fifo", "rate_mbps": 10.0, "duration_s": 5.0, "l4s": [1], "classic": [1]}])
    key = {"cell": tables.trials["cell"][0], "trial": 1}
    samples = [key | {"t_ms": t_ms} for t_ms in range(500, 5001, 500)]
    socket = {"node": "rx", "flow": "l4s-0", "group": "l4s", "side": "receiver", "received_bytes": 0}
    queue = {"node": "router", "network": "net-rx", "handle": "3:", "kind": "pfifo", "backlog_bytes": 10_000}
    change = {"event": "step", "node": "router", "port": "net-rx", "factor": "rate", "value": "2500kbit"}
    write(tables.folder, "sockets", [row | socket for row in samples])
    write(tables.folder, "queues", [row | queue for row in samples])
    write(tables.folder, "events", [key | change | {"at_ms": 2500.0, "t_ms": 2500.02}])
    tables = RunTables(tables.folder)
    series = trial_series(tables, key["cell"], 1)
    assert series.queue["delay_ms"].to_list() == pytest.approx([8.0] * 5 + [32.0] * 5)
    assert series.fair == (FairShare(0, 2.50002, 10), FairShare(2.50002, 5, 2.5))


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
        assert series.fair == (FairShare(0, series.end_s, series.rate_mbps / 2),)


def test_state_is_drawn_as_the_catalog_puts_it_together(real: RunTables) -> None:
    cell = cell_of(real, "dualpi2")
    series = trial_series(real, cell, 1)
    (alpha,) = series.panels
    assert (alpha.title, alpha.words, alpha.lines) == ("alpha", False, ("alpha",))
    own = (pl.col("cell") == cell) & (pl.col("flow") == "l4s-0") & (pl.col("side") == "sender")
    sampled = real.sockets.filter(own & pl.col("alpha").is_not_null()).sort("t_ms")
    drawn = alpha.rows.filter(pl.col("flow") == "l4s-0")
    assert drawn["t_s"].to_list() == [t / 1000 for t in sampled["t_ms"] if t <= series.end_s * 1000]
    assert drawn["value"].to_list() == pytest.approx(sampled["alpha"][: drawn.height].to_list(), abs=0.0005)
    assert not alpha.flat
    spec = specification(time_series(series))
    assert spec["datasets"]["state0"] == alpha.rows.to_dicts()
    last = spec["vconcat"][-1]
    assert (last["name"], last["encoding"]["y"]["title"]) == ("state0", "alpha")
    assert last["encoding"]["x"]["axis"]["title"] == "time since the trial's start, s"


def test_bbrs_state_has_charts_of_its_own(tmp_path: Path) -> None:
    """A captured trial of both names of a module: 10 Mbit/s, DualPI2, 3 s."""
    run = Run.create(tmp_path, "captured", MATRIX, 1, {})
    captured_trial("lean-bbr2").store(run)
    collect(run, Catalog.load())
    tables = load(run.path)
    series = trial_series(tables, str(tables.trials["cell"][0]), 1)
    bandwidth, bounds, alpha, state = series.panels
    assert (bandwidth.title, bandwidth.lines) == ("bandwidth, Mbit/s", ("max bw", "bw"))
    assert bounds.lines == ("inflight hi", "inflight lo")
    assert set(alpha.rows["flow"]) == {"l4s-0"}  # the other does not respond to marks
    assert bounds.rows["value"].null_count() > 0  # no lower bound while probing
    assert state.words
    assert set(state.rows["value"]) >= {"startup", "probe_bw", "up", "down", "cruise", "refill"}
    spec = specification(time_series(series))
    assert {f"state{n}" for n in range(4)} <= spec["datasets"].keys()
    assert spec["vconcat"][-1]["encoding"]["y"]["type"] == "nominal"


@pytest.mark.parametrize("panels", ["", "[1]", '{"a": 1, "b": ["c"]}', '{"alpha": []}', None])
def test_panels_that_name_nothing_are_left_out(real: RunTables, panels: str | None) -> None:
    tables = RunTables(real.folder)
    changed = real.catalog.with_columns(panels=pl.lit(panels, dtype=pl.String))
    vars(tables)["catalog"] = changed
    assert trial_series(tables, cell_of(real, "dualpi2"), 1).panels == ()


def panels_of(series: TrialSeries) -> list[str]:
    return [panel.get("name", "goodput_mbps") for panel in specification(time_series(series))["vconcat"]]


@pytest.mark.parametrize("nothing", [0.0, None])
def test_what_is_zero_all_the_time_has_no_panel(real: RunTables, nothing: float | None) -> None:
    series = trial_series(real, cell_of(real, "dualpi2"), 1)
    assert series.flat == ()
    assert {"ce_percent", "state0"} <= set(panels_of(series))
    marks = pl.lit(nothing, dtype=pl.Float64)
    (alpha,) = series.panels
    none = replace(alpha, rows=alpha.rows.with_columns(value=marks))
    series = replace(series, flows=series.flows.with_columns(ce_percent=marks), panels=(none,))
    assert series.flat == ("ce_percent",)
    assert not {"ce_percent", "state0"} & set(panels_of(series))
    spec = specification(time_series(series))
    assert "all the time zero: CE marks, alpha" in " ".join(spec["title"]["subtitle"])
    assert spec["vconcat"][-1]["encoding"]["x"]["axis"]["title"] == "time since the trial's start, s"


def test_a_legend_names_the_groups_that_have_the_series(real: RunTables) -> None:
    series = trial_series(real, cell_of(real, "dualpi2"), 1)
    (alpha,) = series.panels
    assert len(series.groups) > len(alpha.groups) == 1
    colour = specification(time_series(series))["vconcat"][-1]["encoding"]["color"]
    assert colour["scale"]["domain"] == list(alpha.groups)
    assert colour["legend"]


def several(real: RunTables) -> list[TrialSeries]:
    """A trial, and two in which everything is twice and three times as much."""
    first = trial_series(real, cell_of(real, "dualpi2"), 1)
    measures = pl.col("goodput_mbps", "srtt_ms", "cwnd_packets")
    return [
        replace(first, trial=times, flows=first.flows.with_columns(measures * times)) for times in (1, 2, 3)
    ]


def rows_of(spec: dict[str, Any], panel: int) -> list[dict[str, Any]]:
    """The rows of a panel."""
    own = spec["vconcat"][panel]
    data = own.get("data") or own["layer"][0]["data"]
    rows: list[dict[str, Any]] = data["values"] if "values" in data else spec["datasets"][data["name"]]
    return rows


def test_trials_of_a_cell_are_lines_on_one_plot(real: RunTables) -> None:
    series = several(real)
    rows = rows_of(specification(trials_together(series, "trials")), 0)
    for own in series:
        drawn = [(row["flow"], row["t_s"], row["value"]) for row in rows if row["trial"] == own.trial]
        known = own.flows.filter(pl.col("goodput_mbps").is_not_null())
        assert drawn == list(known.select("flow", "t_s", "goodput_mbps").iter_rows())


def test_a_band_is_the_median_within_the_extremes(real: RunTables) -> None:
    series = several(real)
    rows = rows_of(specification(trials_together(series, "band")), 0)
    known = series[0].flows.filter(pl.col("goodput_mbps").is_not_null())
    assert len(rows) == known.height, "one flow per group"
    wanted = {
        (group, t_s): mbps for group, t_s, mbps in known.select("group", "t_s", "goodput_mbps").iter_rows()
    }
    for row in rows:
        mbps = wanted[row["whose"], row["t_s"]]
        assert [row["low"], row["middle"], row["high"]] == pytest.approx(
            [mbps, 2 * mbps, 3 * mbps], abs=0.002
        )


@pytest.mark.parametrize("how", ["trials", "band"])
def test_each_cell_has_one_figure_of_its_trials(real: RunTables, how: Literal["trials", "band"]) -> None:
    decision = decide(real, load_rule("pam25"))
    names = [figure.name for figure in figures(real, decision, how) if figure.name.startswith("series_")]
    assert names == [f"series_{cell.id}_{how}" for cell in decision.cells]


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


def test_flows_of_programs_are_counted_by_their_packets(make: Make, tmp_path: Path) -> None:
    """Nobody samples sockets of UDP; a bin without packets is one of zero, not a gap."""
    alone = dict.fromkeys(("l4s.cc", "l4s.ecn", "classic.cc"))
    tables = make([{"aqm": "fifo", "l4s.send": "exec", "status": ["ok"], **alone}])
    key = {"cell": "cell-0000", "trial": 1, "flow": "l4s-0", "group": "l4s"}
    write(tables.folder, "flows", [{**key, "send": "exec", "sender": "a", "receiver": "b"}])
    about = {"ip_bytes": 1278, "payload_bytes": 1250, "retransmit": False, "ecn": "ect1"}
    packets = [(10.0, 5.0, False), (150.0, 60.0, True), (190.0, None, False), (480.0, 10.0, False)]
    rows = [
        {**key, **about, "packet": n, "t_ms": t, "sojourn_ms": sojourn, "lost": sojourn is None, "marked": ce}
        for n, (t, sojourn, ce) in enumerate(packets, 1)
    ]
    for name, own in (("packets", rows), ("queues", [])):
        write(tables.folder, name, own)
    found = trial_series(load(tmp_path), "cell-0000", 1, points=600)
    assert found.groups == ("l4s: exec",)
    assert found.panels == ()
    assert found.bin_ms == 100
    bins = found.flows.select("t_s", "goodput_mbps", "ce_percent").rows()
    assert bins == [
        (0.1, 0.1, 0.0),
        (0.2, 0.0, None),
        (0.3, 0.1, 100.0),
        (0.4, 0.0, None),
        (0.5, 0.1, 0.0),
    ]
    assert found.flows["srtt_ms"].null_count() == 5
    json.dumps(specification(time_series(found)))
    log = [(100, 20.0, 2500, None), (300, 30.0, 5000, 2), (400, 40.0, None, 5)]
    logged = [
        {**key, "t_ms": t, "srtt_ms": srtt, "cwnd_bytes": cwnd, "inflight_bytes": cwnd, "lost_packets": lost}
        for t, srtt, cwnd, lost in log
    ]
    write(tables.folder, "qlog", logged)
    found = trial_series(load(tmp_path), "cell-0000", 1, points=600)
    assert found.flows.select("srtt_ms", "cwnd_packets").rows() == [
        (20.0, 2.0),
        (None, None),
        (30.0, 4.0),
        (40.0, None),
        (None, None),
    ]
    assert {panel.title: panel.rows["value"].to_list() for panel in found.panels} == {
        "in flight, packets": [2.0, None, 4.0, None, None],
        "lost, packets": [0.0, None, 2.0, 3.0, None],
    }
    json.dumps(specification(time_series(found)))
