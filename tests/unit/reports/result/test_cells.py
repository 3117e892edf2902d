# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Results of cells: their estimates are those of the pure functions, their factors are typed."""

from __future__ import annotations

import polars as pl
import pytest

from l4sbench.disk import assets
from l4sbench.facts.factors import FactorColumn
from reports.result.cells import CellResult, cells, varying
from reports.result.labels import Setting
from reports.result.load import RunTables, load
from reports.result.measured import measure
from reports.result.stats import estimate
from tests.unit.reports.conftest import Make, write


def of(tables: RunTables, looks: int = 1) -> tuple[CellResult, ...]:
    return cells(tables, "l4s", "classic", looks=looks)


@pytest.mark.parametrize("looks", [1, 3])
def test_intervals_are_those_of_the_pure_function(make: Make, looks: int) -> None:
    trials = [12.0, 10.0, 17.0]
    classic = [80.0, 85.0, 82.0]
    (cell,) = of(make([{"aqm": "fifo", "rate_mbps": 200.0, "l4s": trials, "classic": classic}]), looks)
    for group, values in ((cell.l4s, trials), (cell.classic, classic)):
        found, wanted = group.goodput, estimate(values, "Mbit/s", least=0, most=200, looks=looks)
        assert found is not None
        assert (found.unit, found.trials, found.median) == ("Mbit/s", 3, wanted.median)
        assert [found.value, found.low, found.high, found.sd] == pytest.approx(
            [wanted.value, wanted.low, wanted.high, wanted.sd]
        )
    assert cell.l4s.goodput is not None
    assert cell.share == cell.l4s.goodput.percent_of(200)


def test_intervals_end_where_goodputs_do(make: Make) -> None:
    (cell,) = of(make([{"aqm": "fifo", "rate_mbps": 10.0, "l4s": [0.1, 9.9], "classic": [9, 1]}]))
    assert cell.share is not None
    assert cell.l4s.goodput is not None
    assert (cell.share.interval, cell.l4s.goodput.high) == ((0, 100), 10)


def test_without_enough_trials_there_is_no_interval(make: Make) -> None:
    one, none = of(
        make([{"aqm": "fifo", "l4s": [50], "classic": [40]}, {"aqm": "codel", "status": ["failed"]}])
    )
    assert one.share is not None
    assert (one.share.interval, one.share.sd, one.bimodal) == (None, None, None)
    assert (none.share, none.l4s.goodput, none.valid, none.left_out, none.bimodal) == (None, None, 0, 1, None)


def test_two_modes_are_reported_where_they_matter(make: Make) -> None:
    two, one = [30.0, 31, 84, 85, 86], [44.0, 44.1, 46, 46.1, 46]
    tables = make([{"aqm": aqm, "l4s": got, "classic": got} for aqm, got in (("codel", two), ("fifo", one))])
    assert [cell.bimodal for cell in of(tables)] == [True, False]


def test_factors_have_values_units_and_labels(make: Make) -> None:
    (cell,) = of(make([{"aqm": "fifo", "l4s": [50], "classic": [40]}]))
    assert set(cell.factors) == {
        *("aqm", "buffer_bdp", "rate_mbps", "rtt_ms", "duration_s"),
        *(f"{group}.{name}" for group in ("l4s", "classic") for name in ("cc", "ecn", "count")),
    }
    assert cell.queue == Setting(FactorColumn("aqm", "aqm"), "fifo", "FIFO")
    rtt = cell.factors["rtt_ms"]
    assert (rtt.name, rtt.value, rtt.unit, rtt.text) == ("rtt", 10.0, "ms", "rtt 10 ms")
    assert [str(cell.factors["classic.ecn"].below("classic.")), str(cell.factors["buffer_bdp"])] == [
        "ECN off",
        "1 BDP",
    ]


def test_the_catalog_of_a_run_tells_units_of_queues_from_outside(make: Make) -> None:
    made = make([{"aqm": "mine", "aqm.most_bytes": 9000, "l4s": [50], "classic": [40]}])
    (cell,) = of(made)
    assert str(cell.factors["aqm.most_bytes"]) == "aqm.most_bytes 9000"
    text = (assets.folder("kernels") / "fifo" / "module.yml").read_text(encoding="utf-8")
    mine = made.folder.parent / "catalog" / "mine"
    mine.mkdir(parents=True)
    text = text.replace("name: fifo", "name: mine").replace("limit", "most")
    (mine / "module.yml").write_text(text, encoding="utf-8")
    (cell,) = of(load(made.folder))
    assert str(cell.factors["aqm.most_bytes"].below("aqm.")) == "most 9000 bytes"


def test_a_parameter_of_some_queues_alone_does_not_vary_within_a_queue(make: Make) -> None:
    rows = [
        {"aqm": aqm, "aqm.target_ms": target, "buffer_bdp": buffer, "l4s": [50], "classic": [40]}
        for aqm, target in (("fifo", None), ("codel", 5.0))
        for buffer in (1.0, 4.0)
    ]
    found = of(make(rows))
    names = ["aqm.target_ms", "buffer_bdp", "rtt_ms"]
    assert varying(found, names, within="aqm") == ["buffer_bdp"]
    assert varying(found, names) == ["aqm.target_ms", "buffer_bdp"]


def test_flows_that_are_left_out_have_no_sojourn(make: Make) -> None:
    tables = make([{"aqm": "fifo", "l4s.count": 2, "l4s": [20], "classic": [40]}])
    (first, *rest) = tables.flows.to_dicts()
    flows = [first, *rest, first | {"flow": "l4s-1", "left_out": "ended early"}]
    write(tables.folder, "flows", flows)
    counts = ("data", "ack", "retransmits", "lost", "ce")
    packets = [
        {name: one[name] for name in ("cell", "trial", "flow", "group")}
        | {"seconds": 60.0, "sojourn_samples": 1000, **{f"{name}_packets": 1 for name in counts}}
        | dict.fromkeys(("sojourn_mean_ms", "sojourn_p99_ms"), 101.0 if one.get("left_out") else 1.0)
        for one in flows
    ]
    write(tables.folder, "packet_flows", packets)
    tables = RunTables(tables.folder)
    (cell,) = of(tables)
    assert cell.l4s.sojourn_p99 is not None
    assert cell.l4s.sojourn_p99.value == 1
    for group in measure(tables).cells[0].groups:
        assert (group.numbers["sojourn_ms"].value, group.numbers["sojourn_p99_ms"].value) == (1, 1)


def test_a_goodput_that_is_not_known_is_not_zero(make: Make) -> None:
    tables = make([{"aqm": "fifo", "l4s": [50, 52], "classic": [40, 40]}])
    flows = tables.flows.with_columns(
        pl.when((pl.col("trial") == 2) & (pl.col("group") == "l4s"))
        .then(None)
        .otherwise(pl.col("goodput_mbps"))
        .alias("goodput_mbps")
    )
    write(tables.folder, "flows", flows.to_dicts())
    (cell,) = of(RunTables(tables.folder))
    assert cell.l4s.goodput is not None
    assert (cell.valid, cell.left_out, cell.l4s.goodput.value) == (1, 1, 50)
