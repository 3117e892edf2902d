# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Distributions, bars and points: the numbers are the tables', and too little data says so."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from l4sbench import tables as schemas
from l4sbench.errors import InputError
from reports.figures import (
    chosen,
    delay_distribution,
    delay_samples,
    figures,
    flow_bars,
    goodput_against_delay,
    quantiles,
    runs_beside,
    sheets,
    specification,
    trial_dots,
    values_beside,
)
from reports.figures.delays import captured
from reports.figures.sheets import column_by, usual_by
from reports.result.load import RunTables
from reports.result.rules import load_rule
from reports.result.verdicts import decide
from tests.unit.reports.conftest import Make, write

PAM25 = load_rule("pam25")


def rows_of(chart: Any, *fields: str) -> Iterator[dict[str, Any]]:
    """All rows of a chart's specification that have these fields."""
    for rows in specification(chart)["datasets"].values():
        yield from (row for row in rows if set(fields) <= set(row))


@given(st.lists(st.floats(-1, 1000), min_size=11, max_size=400))
def test_quantiles_are_the_least_samples_that_reach_their_share(values: list[float]) -> None:
    found = quantiles(pl.Series(values))
    assert found[0] == (0, min(values))
    for share, value in found[1:]:
        wanted = Fraction(round(share * 10_000), 10_000) * len(values)
        assert sum(sample <= value for sample in values) >= wanted
        assert sum(sample < value for sample in values) < wanted
        assert len(values) - wanted >= 10


def test_quantiles_are_those_of_another_library() -> None:
    values = np.random.default_rng(1).gamma(2, 3, 20_000)
    for share, value in quantiles(pl.Series(values)):
        assert value == pytest.approx(np.quantile(values, share), rel=0.01, abs=0.05)


def test_a_tail_needs_samples() -> None:
    assert max(share for share, _ in quantiles(pl.Series(range(999)))) == 0.98
    assert max(share for share, _ in quantiles(pl.Series(range(1000)))) == 0.99
    assert max(share for share, _ in quantiles(pl.Series(range(100_000)))) == 0.9999
    assert quantiles(pl.Series([1.0] * 5)) == []


def test_samples_of_delay_are_those_of_the_senders(real: RunTables) -> None:
    cell = str(real.trials.filter(pl.col("aqm") == "codel")["cell"][0])
    about = real.trials.filter(pl.col("cell") == cell).to_dicts()[0]
    assert about["warmup_s"] > 0
    flow = real.flows.row(by_predicate=(pl.col("cell") == cell) & (pl.col("flow") == "l4s-0"), named=True)
    assert flow["start_ms"] > 0
    first, last = (flow["start_ms"] + after_s * 1000 for after_s in (about["warmup_s"], flow["seconds"]))
    own = real.sockets.filter(
        (pl.col("cell") == cell)
        & (pl.col("flow") == "l4s-0")
        & (pl.col("side") == "sender")
        & pl.col("t_ms").is_between(first, last)
    )
    samples = delay_samples(real, [cell], "l4s")["delay_ms"].sort().to_list()
    assert samples == pytest.approx(sorted(rtt - about["rtt_ms"] for rtt in own["srtt_ms"]))


def sampled(tables: RunTables, samples: int) -> RunTables:
    """The tables with samples of the senders' smoothed RTT, 10.00 ms, 10.01 ms and so on, in every trial."""
    rows = [
        {"cell": cell, "trial": trial, "node": "tx", "flow": f"{group}-0", "group": group, "side": "sender"}
        | {"t_ms": 100 * i, "srtt_ms": 10 + i / 100}
        for cell, trial in tables.trials.select("cell", "trial").iter_rows()
        for group in ("l4s", "classic")
        for i in range(samples)
    ]
    frame = schemas.conform("sockets", pl.DataFrame(rows))
    schemas.write("sockets", [frame.lazy()], tables.folder / "sockets.parquet")
    return tables


def test_distributions_are_of_the_samples(make: Make) -> None:
    cells = [{"aqm": aqm, "l4s": [50, 50], "classic": [40, 40]} for aqm in ("fifo", "dualpi2")]
    tables = sampled(make(cells), samples=100)
    (sheet,) = sheets(decide(tables, PAM25))
    for kind, ends in (("cdf", {0.5: 0.5, 0.95: 0.95}), ("ccdf", {0.5: 0.5, 0.05: 0.95})):
        chart = delay_distribution(tables, sheet, PAM25, "classic", "cdf" if kind == "cdf" else "ccdf")
        drawn = {(r["queue"], round(r["share"], 6)): r["delay_ms"] for r in rows_of(chart, "share")}
        for queue in ("FIFO", "DualPI2"):
            for share, quantile in ends.items():
                assert drawn[queue, share] == pytest.approx(quantile, abs=0.011)


def test_samples_of_delay_of_a_group_with_an_rtt_of_its_own_are_less_that_rtt(make: Make) -> None:
    cells = [{"aqm": "fifo", "l4s": [50], "classic": [40], **own} for own in ({}, {"l4s.rtt_ms": 4.0})]
    tables = sampled(make(cells), samples=1)
    without, own = tables.trials["cell"]
    for cell, group, delay_ms in ((without, "l4s", 0), (own, "l4s", 6), (own, "classic", 0)):
        assert delay_samples(tables, [cell], group)["delay_ms"].to_list() == [delay_ms]


def test_samples_of_delay_are_of_flows_that_count(make: Make) -> None:
    tables = sampled(make([{"aqm": "fifo", "l4s": [50], "classic": [40]}]), samples=20)
    assert delay_samples(tables, ["cell-0000"], "l4s").height == 20
    out = [row | {"left_out": "ended early"} for row in tables.flows.to_dicts()]
    write(tables.folder, "flows", out)
    assert not delay_samples(RunTables(tables.folder), ["cell-0000"], "l4s").height


def test_samples_of_delay_are_those_while_the_flow_runs_after_its_warmup(make: Make) -> None:
    """A flow that starts at 0.5 s, has a warm-up of 0.5 s and ends at 1.5 s; samples are 100 ms apart."""
    tables = sampled(make([{"aqm": "fifo", "l4s": [50], "classic": [40], "warmup_s": 0.5}]), samples=20)
    write(
        tables.folder, "flows", [row | {"start_ms": 500.0, "seconds": 1.0} for row in tables.flows.to_dicts()]
    )
    found = delay_samples(RunTables(tables.folder), ["cell-0000"], "l4s")
    assert found["delay_ms"].to_list() == pytest.approx([0.10, 0.11, 0.12, 0.13, 0.14, 0.15])


def test_too_few_samples_for_a_distribution(make: Make) -> None:
    tables = sampled(make([{"aqm": "fifo", "l4s": [50], "classic": [40]}]), samples=10)
    (sheet,) = sheets(decide(tables, PAM25))
    with pytest.raises(InputError, match="no distribution"):
        delay_distribution(tables, sheet, PAM25)


def test_sojourns_are_of_packets_that_left(make: Make) -> None:
    tables = sampled(make([{"aqm": "dualpi2", "l4s": [50], "classic": [40]}]), samples=20)
    (cell,) = tables.trials["cell"]
    (sheet,) = sheets(decide(tables, PAM25))
    assert not captured(tables, sheet)
    with pytest.raises(InputError, match="capture: headers"):
        delay_distribution(tables, sheet, PAM25, source="sojourn")
    packets = [
        {"cell": cell, "trial": 1, "flow": "l4s-0", "group": "l4s", "packet": i + 1, "t_ms": i * 1.0}
        | {"sojourn_ms": None if i == 7 else i / 1000, "ip_bytes": 1500, "payload_bytes": 1448}
        | {"retransmit": False, "lost": i == 7, "ecn": "ect1", "marked": False}
        for i in range(1000)
    ]
    frame = schemas.conform("packets", pl.DataFrame(packets, infer_schema_length=None))
    schemas.write("packets", [frame.lazy()], tables.folder / "packets.parquet")
    assert captured(tables, sheet)
    samples = delay_samples(tables, [cell], "l4s", "sojourn")["delay_ms"]
    assert samples.to_list() == [i / 1000 for i in range(1000) if i != 7]
    assert not delay_samples(tables, [cell], "classic", "sojourn").height
    chart = delay_distribution(tables, sheet, PAM25, source="sojourn")
    drawn = {round(row["share"], 6): row["delay_ms"] for row in rows_of(chart, "share")}
    assert drawn[0.5] == pytest.approx(0.5, abs=0.002)
    assert "Sojourn" in specification(chart)["title"]["text"]


def several(make: Make) -> RunTables:
    """1 against 2 flows and 5 against 1, three trials each."""
    return make(
        [
            {"aqm": aqm, "l4s.count": a, "classic.count": b, "l4s": [30, 31, 32], "classic": [60, 61, 62]}
            for aqm in ("fifo", "dualpi2")
            for a, b in ((1, 2), (5, 1))
        ]
    )


def test_bars_are_per_flow(make: Make) -> None:
    found = sheets(decide(several(make), PAM25))
    assert [sheet.flows for sheet in found] == [(1, 2), (5, 1)]
    pairings = {str(panel.about) for sheet in found for panel in sheet.grid.panels}
    assert pairings == {"Prague against CUBIC, ECN off"}
    assert {sheet.family for sheet in found} == {"cubic"}
    rows = list(rows_of(flow_bars(found), "mbps", "whose"))
    means = {(row["whose"], round(row["mbps"], 6)) for row in rows}
    assert means == {
        ("L4S, per flow", 31),
        ("classic, per flow", 30.5),
        ("L4S, per flow", 6.2),
        ("classic, per flow", 61),
    }
    assert all(row["low"] < row["mbps"] < row["high"] for row in rows)
    fairs = sorted(row["fair_mbps"] for row in rows_of(flow_bars(found), "fair_mbps"))
    assert fairs == pytest.approx([100 / 6, 100 / 3])
    with pytest.raises(InputError, match="no panel"):
        flow_bars(found, panel=7)


def test_bars_are_of_one_competitor_where_sheets_have_others(make: Make) -> None:
    """One flow each was run against both modes of ECN, two flows against one only against classic ECN."""
    cells = [
        {"aqm": "fifo", "l4s.count": count, "classic.ecn": ecn, "l4s": [mbps] * 3, "classic": [40.0] * 3}
        for count, ecn, mbps in ((1, "off", 10.0), (1, "classic", 20.0), (2, "classic", 30.0))
    ]
    found = sheets(decide(make(cells), PAM25))
    for panel, ecn, drawn in ((0, "off", {"cell-0000"}), (1, "classic", {"cell-0001", "cell-0002"})):
        chart = flow_bars(found, panel)
        assert f"ECN {ecn}" in specification(chart)["title"]["text"]
        assert {row["cell"] for row in rows_of(chart, "mbps", "whose")} == drawn


def test_bars_leave_room_for_the_fair_share(make: Make) -> None:
    """Four flows use 42 % of the link: each of them gets less than its fair share."""
    cells = [{"aqm": "fifo", "l4s.count": 2, "classic.count": 2, "l4s": [20, 20], "classic": [22, 22]}]
    chart = flow_bars(sheets(decide(make(cells), PAM25)))
    (plot,) = specification(chart)["vconcat"][0]["hconcat"]
    (fair,) = rows_of(chart, "fair_mbps")
    assert plot["layer"][0]["encoding"]["y"]["scale"]["domain"][1] > fair["fair_mbps"] == 25


def test_dots_are_the_trials(make: Make) -> None:
    tables = several(make)
    for sheet in sheets(decide(tables, PAM25)):
        chart = trial_dots(tables, sheet, PAM25)
        drawn = sorted((r["cell"], r["trial"], r["percent"]) for r in rows_of(chart, "trial", "percent"))
        cells = {cell.id for cell in sheet.cells}
        own = tables.flows.filter((pl.col("group") == "l4s") & pl.col("cell").is_in(cells))
        assert drawn == sorted(own.select("cell", "trial", "goodput_mbps").iter_rows())


def test_trials_whose_goodput_is_not_known_are_no_dots_and_not_the_median(make: Make) -> None:
    """A flow with few bytes may be over before the warm-up is."""
    tables = make([{"aqm": "fifo", "l4s": [40.0, 50.0, 60.0], "classic": [40.0] * 3}])
    flows = [row | {"send": "exec"} for row in tables.flows.to_dicts()]
    early = next(row for row in flows if (row["group"], row["trial"]) == ("l4s", 1))
    early["goodput_mbps"] = None
    write(tables.folder, "flows", flows)
    tables = RunTables(tables.folder)
    decision = decide(tables, PAM25)
    (sheet,) = sheets(decision)
    drawn = {(row["trial"], row["percent"]) for row in rows_of(trial_dots(tables, sheet, PAM25), "trial")}
    assert drawn == {(2, 50.0), (3, 60.0)}
    assert chosen(tables, decision) == [("cell-0000", 2)]


def test_dots_of_a_rule_that_measures_both_groups(make: Make) -> None:
    """A figure shows why a verdict is open: here the classic group's interval and its limit."""
    rule = load_rule("l4sbench1")
    cells = [
        {"aqm": "fifo", "l4s": [52.5, 62.8, 48.7], "classic": [43.0, 32.2, 46.9]},
        {"aqm": "dualpi2", "l4s": [44.0, 44.1, 44.2], "classic": [51.0, 51.1, 51.2]},
    ]
    tables = make(cells)
    (sheet,) = sheets(decide(tables, rule))
    chart = trial_dots(tables, sheet, rule)
    drawn = sorted((r["role"], r["percent"]) for r in rows_of(chart, "trial", "percent"))
    wanted = [(group, value) for cell in cells for group in ("l4s", "classic") for value in cell[group]]
    assert drawn == sorted(wanted), "of a link of 100 Mbit/s"
    open_ = [row for row in rows_of(chart, "doubt") if row["doubt"]]
    assert [(row["role"], row["where"]) for row in open_] == [("classic", "FIFO, 1 BDP")]
    assert open_[0]["low"] < 25 < open_[0]["high"]
    assert {(row["a"], row["b"]) for row in rows_of(chart, "a", "role")} == {(0, 25)}
    words = " ".join(specification(chart)["title"]["subtitle"]).replace("\u00a0", " ")
    assert "grey: below 25 %; dashed: fair share; ?: in doubt" in words
    assert "undecided: CUBIC may get 22 to 60 Mbit/s, limit 25 (FIFO)" in words


@pytest.mark.parametrize(
    ("rule", "subject"),
    [
        ("pam25", "L4S goodput in percent of the link's rate"),
        ("l4sbench1", "goodput of each group in percent of the link's rate"),
    ],
)
def test_the_caption_of_dots_names_the_groups_that_are_drawn(make: Make, rule: str, subject: str) -> None:
    tables = make([{"aqm": "fifo", "l4s": [50, 51], "classic": [40, 41]}])
    found = figures(tables, decide(tables, load_rule(rule)), "none")
    (dots,) = [figure for figure in found if figure.name.startswith("trials_")]
    assert f": {subject}, with mean" in dots.caption
    assert subject[1:] in specification(dots.chart)["title"]["subtitle"][0]


def test_goodput_against_delay_has_both_groups(make: Make) -> None:
    tables = make([{"aqm": "dualpi2", "l4s": [40, 42], "classic": [50, 52], "delay": 0.4}])
    (sheet,) = sheets(decide(tables, PAM25))
    found = {row["group"]: row for row in rows_of(goodput_against_delay(sheet), "mbps", "group")}
    assert (found["L4S"]["mbps"], found["L4S"]["delay_ms"]) == (41, 0.4)
    assert (found["classic"]["mbps"], found["classic"]["delay_ms"]) == (51, 7.0)
    (join,) = rows_of(goodput_against_delay(sheet), "mbps2")
    assert (join["mbps"], join["mbps2"]) == (41, 51)


def delay_ends(chart: Any) -> set[float]:
    """The ends of all axes of delays."""

    def scales(part: Any) -> Iterator[list[float]]:
        if isinstance(part, list):
            for item in part:
                yield from scales(item)
        elif isinstance(part, dict):
            if part.get("type") == "log":
                yield part["domain"]
            for item in part.values():
                yield from scales(item)

    return {max(domain) for domain in scales(specification(chart)) if min(domain) == 0.1}


def test_an_axis_of_delays_has_room_for_all_means_and_intervals(make: Make) -> None:
    long = {"aqm": "fifo", "l4s": [45] * 3, "classic": [48] * 3, "delay": [640, 650, 660]}
    short = long | {"aqm": "dualpi2", "delay": [0.5, 0.6, 0.7]}

    def ends(*cells: Any) -> list[set[float]]:
        rows = [cell | {"l4s.rtt_target_ms": ms} for cell in cells for ms in (10.0, 25.0)]
        decision = decide(make(rows), PAM25)
        plain, by = sheets(decision)[0], sheets(decision, by="l4s.rtt_target_ms")[0]
        charts = goodput_against_delay(plain), runs_beside([("a", plain), ("b", plain)]), values_beside(by)
        return [delay_ends(chart) for chart in charts]

    assert ends(short) == [{300}] * 3
    for found in ends(long, short):
        (end_ms,) = found  # all plots of a figure have one
        assert end_ms > 650 + 25


def test_several_runs_have_a_mark_each(make: Make) -> None:
    (sheet,) = sheets(decide(make([{"aqm": "dualpi2", "l4s": [40, 42], "classic": [50, 52]}]), PAM25))
    chart = runs_beside([("before", sheet), ("after", sheet)])
    rows = list(rows_of(chart, "run", "percent", "delay_ms"))
    assert {(row["run"], row["percent"], row["delay_ms"]) for row in rows} == {
        ("before", 41, 5.0),
        ("after", 41, 5.0),
    }
    assert all(row["percent_low"] < 41 < row["percent_high"] for row in rows)
    (fair,) = {row["fair"] for row in rows_of(chart, "fair")}
    assert fair == 50


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["one"], "one plot shows 2 to 9 runs, not 1"),
        ([f"run {number}" for number in range(10)], "one plot shows 2 to 9 runs, not 10"),
        (["one", "one"], "every run on a plot needs a name of its own"),
    ],
)
def test_runs_need_names_and_there_is_room_for_nine(names: list[str], message: str, make: Make) -> None:
    (sheet,) = sheets(decide(make([{"aqm": "dualpi2", "l4s": [40], "classic": [50]}]), PAM25))
    with pytest.raises(InputError, match=message):
        runs_beside([(name, sheet) for name in names])


def varied(make: Make, name: str, values: tuple[Any, ...], **others: Any) -> RunTables:
    """Two queues, each with all values of a factor."""
    return make(
        [
            {"aqm": aqm, name: value, "l4s": [40 + place] * 2, "classic": [50, 50], "delay": 2.0} | others
            for aqm in ("fifo", "dualpi2")
            for place, value in enumerate(values)
        ]
    )


def test_values_of_words_have_a_mark_each_on_one_plot(make: Make) -> None:
    decision = decide(varied(make, "lab", ("default", "mine")), PAM25)
    assert len(sheets(decision)) == 2, "labs are apart without `by`"
    (sheet,) = sheets(decision, by="lab")
    assert sheet.rows == ("FIFO, lab default", "FIFO, lab mine", "DualPI2, lab default", "DualPI2, lab mine")
    drawn = {(r["run"], r["where"]): r["percent"] for r in rows_of(values_beside(sheet), "run", "percent")}
    assert drawn == {
        (f"lab {lab}", f"{queue}, 1 BDP"): 40 + place
        for queue in ("FIFO", "DualPI2")
        for place, lab in enumerate(("default", "mine"))
    }


def test_numbers_go_across_with_a_line_per_queue(make: Make) -> None:
    decision = decide(varied(make, "l4s.rtt_target_ms", (10.0, 25.0, 50.0)), PAM25)
    (sheet,) = sheets(decision, by="l4s.rtt_target_ms")
    assert sheet.xs == ("10", "25", "50")
    assert len(sheet.grid.panels) == 1
    chart = values_beside(sheet)
    drawn = {(r["queue"], r["at"]): r["percent"] for r in rows_of(chart, "at", "percent")}
    assert drawn == {(q, at): 40 + n for q in ("FIFO", "DualPI2") for n, at in enumerate((10, 25, 50))}


def test_curves_and_points_differ_by_the_factor(make: Make) -> None:
    tables = sampled(varied(make, "lab", ("default", "mine")), samples=100)
    (sheet,) = sheets(decide(tables, PAM25), by="lab")
    for chart in (delay_distribution(tables, sheet, PAM25), goodput_against_delay(sheet)):
        assert {row["queue"] for row in rows_of(chart, "queue", "delay_ms")} == {"lab default", "lab mine"}
        views = [
            view["title"]["text"] for line in specification(chart)["vconcat"] for view in line["hconcat"]
        ]
        assert views == [f"Prague against CUBIC, ECN off, {queue}, 1 BDP" for queue in ("FIFO", "DualPI2")]


@pytest.mark.parametrize(
    ("name", "values", "others", "wanted"),
    [
        ("rtt_ms", (5.0, 20.0), {}, "rtt_ms"),
        ("l4s.rtt_target_ms", (5.0, 20.0), {}, "l4s.rtt_target_ms"),
        ("aqm.target_ms", (1.0, 5.0), {}, "aqm.target_ms"),
        ("classic.cc", ("cubic", "bbr1"), {}, None),
        ("classic.count", (1, 2), {}, None),
    ],
)
def test_the_one_factor_that_differs(
    make: Make, name: str, values: tuple[Any, ...], others: dict[str, Any], wanted: str | None
) -> None:
    assert usual_by(decide(varied(make, name, values, **others), PAM25)) == wanted


def test_two_labs_are_compared_whatever_else_differs(make: Make) -> None:
    cells = [
        {"aqm": "fifo", "lab": lab, "rtt_ms": rtt_ms, "l4s": [40], "classic": [50]}
        for lab in ("default", "mine")
        for rtt_ms in (5.0, 20.0)
    ]
    assert usual_by(decide(make(cells), PAM25)) == "lab"
    assert usual_by(decide(make(cells[:2]), PAM25)) == "rtt_ms"


@pytest.mark.parametrize(
    ("factor", "message"),
    [
        ("rtf", "rtf is no factor of these cells; did you mean rtt"),
        ("rate", "rate is the same in all cells; choose from aqm, rtt"),
        ("aqm", "figures cannot be drawn by aqm"),
    ],
)
def test_factors_that_figures_are_not_drawn_by(make: Make, factor: str, message: str) -> None:
    decision = decide(varied(make, "rtt_ms", (5.0, 20.0)), PAM25)
    assert column_by(decision, "rtt") == column_by(decision, "rtt_ms") == "rtt_ms"
    with pytest.raises(InputError, match=message):
        column_by(decision, factor)
