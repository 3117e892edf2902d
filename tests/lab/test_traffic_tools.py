# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""lab-traffic gives what iperf3 gives: throughput, delay, marks, ACKs, advertised window, end of slow start.

Tolerances are on means over trials. Single trials differ as seeds do: iperf3's control connection takes
random numbers and some round trips before its data starts. The delay of CoDel at 1 Mbit/s, where a packet
takes 12 ms, has a standard deviation of 1.3 to 2 ms (12 trials with either tool; means 40.6 and 41.1 ms).
"""

from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest

from l4sbench.app import api
from l4sbench.testbeds.virtual.lab import Lab
from reports.result.load import RunTables

pytestmark = pytest.mark.lab

SOLO = """\
matrix: solo
topology: line6
trials: 6
sample.interval: 20ms
flows:
  solo: {cc: cubic, ecn: classic}
axes:
  path: [{rate: 1mbit, rtt: 40ms, duration: 20s}, {rate: 100mbit, rtt: 10ms, duration: 8s}]
  queue: [{aqm: fifo, buffer_bdp: 1}, {aqm: fifo, buffer_bdp: 8}, {aqm: codel, buffer_bdp: 4}]
  traffic.tool: [lean, iperf3]
"""

PAIR = """\
matrix: pair
rule: none
topology: line6
rate: 100mbit
rtt: 10ms
duration: 60s
trials: 6
flows:
  one: {cc: cubic}
  two: {cc: reno}
aqm: fifo
axes:
  buffer_bdp: [1, 2, 8]
  traffic.tool: [lean, iperf3]
"""

WINDOW_AT_MS = (500, 1000, 2000, 5000)


class Tolerance(NamedTuple):
    """Relative and absolute; the larger counts."""

    relative: float
    absolute: float

    def allows(self, lean: float, iperf3: float) -> bool:
        return abs(lean - iperf3) <= max(self.absolute, self.relative * abs(iperf3))


TOLERANCES = {
    # iperf3 divides by a time of its own, which ends when the queue has drained: 0.3 s of 8 BDP at 40 ms
    "goodput_mbps": Tolerance(0.03, 0.0),
    "srtt_minus_base_ms": Tolerance(0.06, 1.5),
    "marked": Tolerance(0.25, 0.001),
    "acks_per_segment": Tolerance(0.06, 0.0),
    "first_ssthresh_packets": Tolerance(0.2, 3.0),
    "slow_start_ms": Tolerance(0.2, 100.0),
    # the window opens in steps whose instants differ by some round trips
    **{f"window_at_{ms}_ms_bytes": Tolerance(0.3, 16_000.0) for ms in WINDOW_AT_MS},
}


def measures(tables: RunTables) -> pl.DataFrame:
    """One row per trial of what both tools must agree on."""
    socket = tables.sockets.filter(pl.col("side") == "sender").sort("t_ms")
    began = pl.col("t_ms").filter(pl.col("data_out_packets") > 0).min()
    left = pl.col("ssthresh_packets").is_not_null()
    per_trial = socket.group_by("cell", "trial").agg(
        (pl.col("segments_in_packets").last() / pl.col("data_out_packets").last()).alias("acks_per_segment"),
        pl.col("ssthresh_packets").drop_nulls().first().cast(pl.Float64).alias("first_ssthresh_packets"),
        (pl.col("t_ms").filter(left).min() - began).cast(pl.Float64).alias("slow_start_ms"),
        *(
            pl.col("peer_window_bytes")
            .filter(pl.col("t_ms") >= began + ms)
            .first()
            .cast(pl.Float64)
            .alias(f"window_at_{ms}_ms_bytes")
            for ms in WINDOW_AT_MS
        ),
    )
    flows = tables.flows.select(
        "cell",
        "trial",
        "goodput_mbps",
        "srtt_minus_base_ms",
        (pl.col("delivered_ce_packets") / pl.col("delivered_packets")).alias("marked"),
    )
    return flows.join(per_trial, on=["cell", "trial"], validate="1:1")


@pytest.mark.long
def test_one_flow_is_the_same_with_either_tool(lab: Lab, tmp_path: Path) -> None:
    matrix = tmp_path / "solo.yaml"
    matrix.write_text(SOLO, encoding="utf-8")
    tables = api.load(api.run(matrix, runs=tmp_path / "runs"))
    factors = ["rate_mbps", "rtt_ms", "aqm", "buffer_bdp", "traffic.tool"]
    rows = measures(tables).join(tables.trials.select("cell", "trial", *factors), on=["cell", "trial"])
    # bits per microsecond are Mbit/s; a window of four times what fits on the path is as good as any
    most = 4 * (1 + pl.col("buffer_bdp")) * pl.col("rate_mbps") * pl.col("rtt_ms") * 1000 / 8
    windows = [name for name in TOLERANCES if name.startswith("window_at_")]
    rows = rows.with_columns(pl.min_horizontal(name, most).alias(name) for name in windows)
    means = rows.group_by(factors).agg(pl.col(name).mean() for name in TOLERANCES)
    wide = means.filter(pl.col("traffic.tool") == "lean").join(
        means.filter(pl.col("traffic.tool") == "iperf3"), on=factors[:-1], suffix="_iperf3"
    )
    assert wide.height == 6, tables.trials["reasons"].to_list()
    wrong = [
        f"{row['rate_mbps']:g} Mbit/s {row['aqm']} {row['buffer_bdp']:g} BDP: {name} is "
        f"{row[name]:g} with lean, {row[f'{name}_iperf3']:g} with iperf3"
        for row in wide.iter_rows(named=True)
        for name, tolerance in TOLERANCES.items()
        if row[name] is not None or row[f"{name}_iperf3"] is not None
        if not tolerance.allows(row[name], row[f"{name}_iperf3"])
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.long
def test_two_flows_share_alike_with_either_tool(lab: Lab, tmp_path: Path) -> None:
    """Means over seeds agree within three standard errors of their difference, and 2 % of the link's rate."""
    matrix = tmp_path / "pair.yaml"
    matrix.write_text(PAIR, encoding="utf-8")
    tables = api.load(api.run(matrix, runs=tmp_path / "runs"))
    factors = ["buffer_bdp", "traffic.tool"]
    rows = tables.flows.join(tables.trials.select("cell", "trial", *factors), on=["cell", "trial"])
    goodput = pl.col("goodput_mbps")
    means = rows.group_by("group", *factors).agg(
        goodput.mean(), (goodput.std() / pl.len().sqrt()).alias("error")
    )
    wide = means.filter(pl.col("traffic.tool") == "lean").join(
        means.filter(pl.col("traffic.tool") == "iperf3"), on=["group", "buffer_bdp"], suffix="_iperf3"
    )
    assert wide.height == 6
    for row in wide.iter_rows(named=True):
        error = (row["error"] ** 2 + row["error_iperf3"] ** 2) ** 0.5
        assert abs(row["goodput_mbps"] - row["goodput_mbps_iperf3"]) <= 3 * error + 2.0, row
