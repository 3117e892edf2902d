# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Further figures of cells, from tables whose rows are written out here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reports.result.load import RunTables
from reports.result.metrics import cell_metrics, variations
from reports.result.stats import jain, variation
from tests.unit.reports.conftest import Make, write

KEY = {"cell": "cell-0000", "trial": 1}


def flow(name: str, mbps: float, **more: Any) -> dict[str, Any]:
    about = {"group": name.partition("-")[0], "cc": "x", "sender": "a", "receiver": "b"}
    times = {"start_ms": 0.0, "seconds": 60.0, "goodput_mbps": mbps, "goodput_whole_mbps": mbps}
    return KEY | {"flow": name} | about | times | more


def samples(name: str, steps: list[int], interval_ms: int = 100, begin_ms: int = 0) -> list[dict[str, Any]]:
    """A receiver's counter that grows by these bytes from sample to sample, the first of which is zero."""
    about = {"node": "rx", "flow": name, "group": name.partition("-")[0], "side": "receiver"}
    return [
        KEY | about | {"t_ms": begin_ms + interval_ms * number, "received_bytes": sum(steps[:number])}
        for number in range(len(steps) + 1)
    ]


def tables_of(
    make: Make, flows: list[dict[str, Any]], sockets: list[dict[str, Any]], **cell: Any
) -> RunTables:
    made = make([{"aqm": "fifo", "l4s": [1], "classic": [1], **cell}])
    write(made.folder, "flows", flows)
    write(made.folder, "sockets", sockets)
    return RunTables(made.folder)


def test_shares_count_every_flow(make: Make) -> None:
    """Two L4S flows with 30 each and one classic with 20: 1.5 for each bit, Jain 80² / (3 · 2200)."""
    flows = [flow("l4s-0", 30), flow("l4s-1", 30), flow("classic-0", 20)]
    (row,) = cell_metrics(tables_of(make, flows, [])).to_dicts()
    assert (row["flows"], row["utilisation"], row["ratio"]) == (3, 0.8, 1.5)
    assert row["jain"] == pytest.approx(6400 / 6600)
    assert row["jain"] == jain([30, 30, 20])
    assert row["l4s_sojourn_p99_ms"] is None
    assert row["classic_variation_100ms"] is None


def test_fairness_is_among_the_flows_that_send_as_fast_as_they_can(make: Make) -> None:
    flows = [flow("l4s-0", 30), flow("classic-0", 20), {**flow("udp-0", 10), "send": "paced"}]
    (row,) = cell_metrics(tables_of(make, flows, [])).to_dicts()
    assert (row["flows"], row["utilisation"], row["ratio"]) == (2, 0.6, 1.5)
    assert row["jain"] == jain([30, 20])


def test_a_goodput_that_is_not_known_is_not_zero(make: Make) -> None:
    """A flow with few bytes was over before the warm-up was."""
    flows = [flow("l4s-0", 30), flow("classic-0", 20) | {"goodput_mbps": None}]
    (row,) = cell_metrics(tables_of(make, flows, [])).to_dicts()
    assert row["flows"] == 2
    assert row["jain"] is row["utilisation"] is row["ratio"] is None


def test_flows_that_are_left_out_have_no_samples_and_the_goodput_of_the_others(make: Make) -> None:
    """One of 20 L4S flows ends early in the first of two trials; all others get 2 Mbit/s with 10 ms."""
    flows, sockets = [], []
    for trial in (1, 2):
        for name in (f"{group}-{number}" for group in ("l4s", "classic") for number in range(20)):
            out = (name, trial) == ("l4s-0", 1)
            about = {"trial": trial, "left_out": "ended early" if out else None}
            flows.append(flow(name, 0.1 if out else 2, **about))
            sockets += [row | {"trial": trial} for row in samples(name, [100, 700] if out else [100] * 20)]
            sender = {"trial": trial, "node": "tx", "side": "sender", "received_bytes": None}
            sockets += [row | sender | {"srtt_ms": 90 if out else 10} for row in samples(name, [0] * 60)]
    two = {"l4s": [1, 1], "classic": [1, 1], "l4s.count": 20, "classic.count": 20}
    tables = tables_of(make, flows, sockets, **two)
    (row,) = cell_metrics(tables).to_dicts()
    assert (row["flows"], row["ratio"], row["jain"]) == (40, pytest.approx(1), pytest.approx(1))
    assert row["utilisation"] == pytest.approx(0.8)
    assert row["l4s_srtt_p99_ms"] == row["classic_srtt_p99_ms"] == 10
    assert variations(tables)["variation_100ms"].to_list() == pytest.approx([0] * 4)


def test_quantiles_are_of_all_samples_together_and_keep_their_name(make: Make) -> None:
    """199 samples of 1 to 199 ms: enough for the median, one too few for p95."""
    flows = [flow("l4s-0", 30), flow("classic-0", 30)]
    sockets = [
        KEY
        | {"node": "tx", "flow": name, "group": name.partition("-")[0], "side": "sender"}
        | {"t_ms": 100 * number, "srtt_ms": float(number)}
        for name, count in (("l4s-0", 199), ("classic-0", 200))
        for number in range(1, count + 1)
    ]
    (row,) = cell_metrics(tables_of(make, flows, sockets)).to_dicts()
    assert (row["l4s_srtt_p50_ms"], row["l4s_srtt_p95_ms"]) == (100, None)
    assert row["classic_srtt_p95_ms"] == pytest.approx(float(np.quantile(range(1, 201), 0.95)))
    assert row["classic_sojourn_p50_ms"] is None


def test_quantiles_of_captured_packets(make: Make) -> None:
    tables = tables_of(make, [flow("l4s-0", 30)], [])
    rest = {"ip_bytes": 1500, "payload_bytes": 1448, "retransmit": False, "lost": False, "ecn": "ect1"}
    packets = [
        KEY
        | {"flow": "l4s-0", "group": "l4s", "packet": number, "t_ms": float(number), **rest}
        | {"sojourn_ms": None if number == 1001 else number / 1000}
        for number in range(1, 1002)
    ]
    write(tables.folder, "packets", packets)
    (row,) = cell_metrics(RunTables(tables.folder)).to_dicts()
    assert row["l4s_sojourn_p99_ms"] == pytest.approx(0.99, abs=1e-3)
    assert row["l4s_sojourn_p999_ms"] is None


def test_variation_by_bins(make: Make) -> None:
    steps = [100, 300, 200, 400, 100, 300, 200, 400, 100, 300]
    tables = tables_of(make, [flow("l4s-0", 1), flow("classic-0", 1)], samples("l4s-0", steps))
    (row,) = variations(tables).to_dicts()
    assert row["group"] == "l4s"
    assert row["variation_50ms"] is None, "finer than the samples"
    assert row["variation_100ms"] == pytest.approx(variation([float(step) for step in steps]))
    pairs = [float(a + b) for a, b in zip(steps[::2], steps[1::2], strict=True)]
    assert row["variation_200ms"] == pytest.approx(variation(pairs))
    assert row["variation_1000ms"] is None, "one bin does not vary"


def test_flows_of_a_group_are_added_up(make: Make) -> None:
    one, other = [100, 300, 100, 300], [300, 100, 300, 100]
    sockets = samples("l4s-0", one) + samples("l4s-1", other)
    tables = tables_of(make, [flow("l4s-0", 1), flow("l4s-1", 1)], sockets)
    (row,) = variations(tables).to_dicts()
    assert row["variation_100ms"] == pytest.approx(0)


def test_bins_of_the_same_time_are_added_up(make: Make) -> None:
    """Together both flows are even; the second one begins when the first has had one bin."""
    one, other = [100, 300, 100, 300, 100, 300], [300, 100, 300, 100, 300, 100]
    sockets = samples("l4s-0", one) + samples("l4s-1", other)
    tables = tables_of(make, [flow("l4s-0", 1), flow("l4s-1", 1, start_ms=100.0)], sockets)
    (row,) = variations(tables).to_dicts()
    assert row["variation_100ms"] == pytest.approx(0)


def test_the_warm_up_does_not_count(make: Make) -> None:
    steps = [1000, 5000, 1000, 200, 200, 200, 200]
    flows = [flow("l4s-0", 1, start_ms=50.0)]
    tables = tables_of(make, flows, samples("l4s-0", steps), warmup_s=0.25)
    (row,) = variations(tables).to_dicts()
    assert row["variation_100ms"] == pytest.approx(0)


def seconds(name: str, srtt_ms: list[float], warmup: int = 0, late_ms: int = 0) -> list[dict[str, Any]]:
    """The intervals of a flow, one per second, which may end a little later than whole seconds."""
    about = {"flow": name, "group": name.partition("-")[0], "seconds": 1.0}
    return [
        KEY | about | {"t_ms": 1000 * number + late_ms, "srtt_ms": srtt, "warmup": number <= warmup}
        for number, srtt in enumerate(srtt_ms, 1)
    ]


def starting(make: Make, series: dict[str, list[float]], warmup: int = 0, late_ms: int = 0) -> dict[str, Any]:
    """The metrics of one cell whose flows have these smoothed RTTs, second by second, on a path of 10 ms."""
    flows = []
    for name, srtt_ms in series.items():
        counted = srtt_ms[warmup:]
        flows.append(flow(name, 1, srtt_minus_base_ms=sum(counted) / len(counted) - 10))
    tables = tables_of(make, flows, [])
    rows = [row for name, srtt_ms in series.items() for row in seconds(name, srtt_ms, warmup, late_ms)]
    write(tables.folder, "intervals", rows)
    (row,) = cell_metrics(RunTables(tables.folder)).to_dicts()
    return row


def parts(row: dict[str, Any], group: str = "l4s") -> tuple[float | None, float | None]:
    return row[f"{group}_delay_first_5s_ms"], row[f"{group}_delay_after_5s_ms"]


def test_the_delay_of_the_start_is_apart_from_the_rest(make: Make) -> None:
    """Two flows of the group: the figure is the mean of both."""
    steady = [15.0] * 12
    row = starting(
        make, {"l4s-0": [70.0] * 5 + [17.0] * 7, "l4s-1": [50.0] * 5 + [15.0] * 7, "classic-0": steady}
    )
    assert parts(row) == pytest.approx((50, 6))
    assert parts(row, "classic") == pytest.approx((5, 5))


def test_the_start_has_five_samples_of_iperf3_too(make: Make) -> None:
    """Its intervals end at 1.001 s, 2.001 s and so on."""
    row = starting(make, {"l4s-0": [70.0] * 4 + [20.0] * 8}, late_ms=1)
    assert parts(row) == pytest.approx((50, 10))


def test_a_start_in_the_warm_up_is_known_but_not_in_the_rest(make: Make) -> None:
    row = starting(make, {"l4s-0": [70.0] * 5 + [40.0] * 2 + [17.0] * 5}, warmup=7)
    assert parts(row) == pytest.approx((60, 7))


def test_a_short_flow_has_no_rest(make: Make) -> None:
    assert parts(starting(make, {"l4s-0": [70.0] * 9})) == (None, None)
