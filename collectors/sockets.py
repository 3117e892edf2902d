# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Samples of TCP sockets -> table `sockets`: by netlink (lab-sampler, `sockets.jsonl`) or as text of `ss`.

Both kinds become a frame of the kernel's own names and units first (`struct tcp_info` without `tcpi_`, times
in microseconds, rates in bytes per second), so that the meaning of the columns is decided once, here. State
that congestion controls export is added as their catalog entries describe it.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

import polars as pl

from collectors.ahead import PLACE, Ahead, numbered
from collectors.collector import read_samples, refuse_samples
from collectors.exported import counters, exports_of, merged, values
from collectors.ss import SS_FILE, parse_ss
from l4sbench import tables
from l4sbench.disk.plain import is_plain, plain_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from l4sbench.catalog import Exports
    from l4sbench.program import Program
    from l4sbench.program.trial import EndedTrial

NETLINK_FILE: Final = "sockets.jsonl"

_COUNTS: Final[Mapping[str, str]] = {
    "cwnd_packets": "snd_cwnd",
    "mss_bytes": "snd_mss",
    "inflight_packets": "unacked",
    "delivered_packets": "delivered",
    "delivered_ce_packets": "delivered_ce",
    "received_ce_packets": "received_ce",
    "retransmits_packets": "total_retrans",
    "lost_packets": "lost",
    "sent_bytes": "bytes_sent",
    "acked_bytes": "bytes_acked",
    "received_bytes": "bytes_received",
    "segments_out_packets": "segs_out",
    "segments_in_packets": "segs_in",
    "data_out_packets": "data_segs_out",
    "data_in_packets": "data_segs_in",
    "peer_window_bytes": "snd_wnd",
    "window_bytes": "rcv_wnd",
}
_TIMES: Final[Mapping[str, str]] = {
    "srtt_ms": "rtt",
    "rttvar_ms": "rttvar",
    "min_rtt_ms": "min_rtt",
    "busy_ms": "busy_time",
    "rwnd_limited_ms": "rwnd_limited",
    "sndbuf_limited_ms": "sndbuf_limited",
}
_RATES: Final[Mapping[str, str]] = {"pacing_mbps": "pacing_rate", "delivery_mbps": "delivery_rate"}

_KERNEL: Final[Mapping[str, type[pl.DataType]]] = {
    "t_ms": pl.Float64,
    "node": pl.String,
    "lport": pl.Int64,
    "rport": pl.Int64,
    "state": pl.String,
    "cc": pl.String,
    **dict.fromkeys(_COUNTS.values(), pl.Int64),
    **dict.fromkeys(_TIMES.values(), pl.Int64),
    **dict.fromkeys(_RATES.values(), pl.UInt64),
    "snd_ssthresh": pl.Int64,
    "options": pl.Int64,
    "ecn_mode": pl.Int64,
    "alpha": pl.Float64,
}

_INFINITE_SSTHRESH: Final = 0x7FFFFFFF  # TCP_INFINITE_SSTHRESH
_NO_RTT_US: Final = 0xFFFFFFFF  # tcpi_min_rtt before the first sample
_UNPACED: Final = 2**63  # sk_max_pacing_rate of an unlimited socket is all ones
_OPTION_ECN: Final = 8  # TCPI_OPT_ECN
_DCTCP_MAX_ALPHA: Final = 1024
_STATES: Final = {"ESTABLISHED": "ESTAB"}


def parse_sockets(trial: EndedTrial) -> pl.DataFrame | None:
    """Return table `sockets` from netlink samples; None without the file."""
    return _netlink_rows(trial.programs, trial.raw)


def parse_ss_text(trial: EndedTrial) -> pl.DataFrame | None:
    """Return table `sockets` from the text of `ss` on every node; None without such files."""
    return _ss_rows(trial.programs, trial.raw)


def socket_rows(programs: Mapping[str, Program], raw: Path) -> pl.DataFrame:
    """Return the samples of a trial however they were taken, in order; without rows if there are none."""
    found = _netlink_rows(programs, raw)
    if found is None:
        found = _ss_rows(programs, raw)
    return found if found is not None else tables.empty("sockets")


_AHEAD: Final = Ahead()


def read_ahead(trials: Sequence[EndedTrial]) -> AbstractContextManager[None]:
    """Read the netlink samples of several trials together, for as long as the context lasts."""
    return _AHEAD.reading(NETLINK_FILE, trials, _alike, _of_trials)


def _alike(trial: EndedTrial) -> object:
    return exports_of("sockets", trial.programs)


def _of_trials(trials: Sequence[EndedTrial]) -> pl.DataFrame:
    read = [read_netlink(trial.raw / NETLINK_FILE, trial.programs) for trial in trials]
    ends = _ends([trial.programs for trial in trials])
    return _of_flows(numbered(read), ends, exports_of("sockets", trials[0].programs))


def _netlink_rows(programs: Mapping[str, Program], raw: Path) -> pl.DataFrame | None:
    path = raw / NETLINK_FILE
    found = _AHEAD.of(path)
    if found is None and is_plain(path):
        return of_flows(read_netlink(path, programs), programs)
    return found


def _ss_rows(programs: Mapping[str, Program], raw: Path) -> pl.DataFrame | None:
    rows: list[dict[str, object]] = []
    for node in programs:
        path = raw / node / SS_FILE
        if is_plain(path):
            refuse_samples(path)
            found = parse_ss(plain_text(path))
            rows += ({"node": node, **row} for row in found)
    return of_flows(pl.DataFrame(rows, schema=_schema(programs)), programs) if rows else None


def _schema(programs: Mapping[str, Program]) -> dict[str, type[pl.DataType]]:
    return _schema_of(exports_of("sockets", programs))


@cache
def _schema_of(exports: tuple[Exports, ...]) -> dict[str, type[pl.DataType]]:
    return {**_KERNEL, **counters(exports)}


def read_netlink(path: Path, programs: Mapping[str, Program]) -> pl.DataFrame:
    """Return the samples of lab-sampler under the kernel's names. Raises as `read_samples`."""
    stat = path.stat()
    return _read_netlink(path, (stat.st_size, stat.st_mtime_ns), tuple(_schema(programs).items()))


@lru_cache(maxsize=1)  # the tables `flows` and `sockets` of a trial need it one after the other
def _read_netlink(
    path: Path,
    stamp: tuple[int, int],  # noqa: ARG001  it tells the cache when the file has changed
    schema: tuple[tuple[str, type[pl.DataType]], ...],
) -> pl.DataFrame:
    return read_samples(path, dict(schema))


def of_flows(samples: pl.DataFrame, programs: Mapping[str, Program]) -> pl.DataFrame:
    """Return the samples of the flows' data connections, as table `sockets`.

    The port identifies a flow. Where several connections use it (iperf3 has one for control), the flow's is
    the one that carried most bytes.
    """
    exports = exports_of("sockets", programs)
    return _of_flows(numbered([samples]), _ends([programs]), exports).drop(PLACE)


def _of_flows(samples: pl.DataFrame, ends: pl.DataFrame, exports: tuple[Exports, ...]) -> pl.DataFrame:
    """Do the same for several trials, which the column `PLACE` tells apart."""
    by_port, socket = [PLACE, "node", "port"], [PLACE, "node", "flow"]
    at_sender, at_receiver = (
        samples.join(
            ends.filter(side=side), left_on=[PLACE, "node", port], right_on=by_port, maintain_order="left"
        )
        for side, port in (("sender", "rport"), ("receiver", "lport"))
    )
    found = pl.concat([at_sender, at_receiver], how="diagonal").filter(pl.col("rport") > 0)
    carried = (pl.col("bytes_acked").fill_null(0) + pl.col("bytes_received").fill_null(0)).max()
    connection = ["lport", "rport"]
    busiest = (
        found.group_by(*socket, *connection)
        .agg(carried.alias("carried"))
        .sort(*socket, "carried", *connection)
        .unique(socket, keep="last")
    )
    return (
        found.join(busiest, on=[*socket, *connection], how="semi", maintain_order="left")
        .select(PLACE, *_columns(exports))
        .sort(*socket, "t_ms", maintain_order=True)
        .unique([*socket, "t_ms"], keep="last", maintain_order=True)
    )


def _ends(trials: Sequence[Mapping[str, Program]]) -> pl.DataFrame:
    """Return the node and port of each flow's sockets in trials, of flows that are one connection."""
    rows = []
    for place, programs in enumerate(trials):
        for node, program in programs.items():
            for run in (run for run in program.flows if run.kind.one_connection):
                rows.append((place, node, run.port, run.flow, run.group, "sender"))
                rows.append((place, run.receiver, run.port, run.flow, run.group, "receiver"))
    return pl.DataFrame(rows, schema=_ENDS, orient="row")


_ENDS: Final[Mapping[str, type[pl.DataType]]] = {
    PLACE: pl.UInt32,
    "node": pl.String,
    "port": pl.Int64,
    "flow": pl.String,
    "group": pl.String,
    "side": pl.String,
}


@cache  # most trials of a run export the same
def _columns(exports: tuple[Exports, ...]) -> list[pl.Expr]:
    # tcpi_rtt is 0, and tcpi_rttvar the kernel's guess, until a first RTT is sampled
    sampled = {"srtt_ms": pl.col("rtt") > 0, "rttvar_ms": pl.col("rtt") > 0}
    sampled["min_rtt_ms"] = pl.col("min_rtt") < _NO_RTT_US
    modes = {0: "off", 1: "classic", 2: "accecn", 3: "pending"}
    by_option = pl.when(pl.col("options") & _OPTION_ECN == 0).then(pl.lit("off")).otherwise(pl.lit("on"))
    return [
        *[pl.col(name) for name in ("node", "flow", "group", "side", "cc")],
        pl.col("t_ms").round().cast(pl.Int64),
        pl.col("state").replace(_STATES),
        *[pl.col(source).alias(name) for name, source in _COUNTS.items()],
        *[
            pl.when(sampled.get(name, True)).then(pl.col(source) / 1e3).alias(name)
            for name, source in _TIMES.items()
        ],
        *[
            # tcpi_delivery_rate is 0 until a first sample, and at receivers
            pl.when(pl.col(source).is_between(0, _UNPACED, closed="none"))
            .then(pl.col(source) * 8 / 1e6)
            .alias(name)
            for name, source in _RATES.items()
        ],
        pl.when(pl.col("snd_ssthresh") < _INFINITE_SSTHRESH)
        .then(pl.col("snd_ssthresh"))
        .alias("ssthresh_packets"),
        pl.when(pl.col("ecn_mode").is_not_null())
        .then(pl.col("ecn_mode").replace_strict(modes, default=None, return_dtype=pl.String))
        .otherwise(by_option)
        .alias("ecn"),
        *merged([*map(values, exports), {"alpha": pl.col("alpha") / _DCTCP_MAX_ALPHA}]),
    ]
