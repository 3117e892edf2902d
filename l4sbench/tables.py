# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The tables of a run: every column with its type, unit and meaning, in this one place.

A table is one Parquet file below `tables/` of a run directory, sorted by its key. Units stand in column
names (`_mbps` is 10^6 bit/s, `_ms` milliseconds, `_packets`, `_bytes`). No table holds a wall-clock time, a
host name or the state of a git tree, so equal runs give equal files, byte for byte.

Times named `t_ms` count from the start instant of the trial, which all its nodes share.
"""

from __future__ import annotations

import inspect
import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Final

import dataframely as dy
import polars as pl

from l4sbench.columns import OfTrial as _OfTrial
from l4sbench.columns import count as _count
from l4sbench.columns import real as _real
from l4sbench.columns import text as _text
from l4sbench.columns import time as _time
from l4sbench.errors import InputError
from l4sbench.packet_tables import PacketFlows, Packets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

FORMAT: Final = 1
"""Version of the tables' format, in every file's metadata. A reader refuses a newer one."""

ROW_GROUP_ROWS: Final = 100_000
FORMAT_KEY: Final = "l4sbench.format"
TABLE_KEY: Final = "l4sbench.table"


class Trials(_OfTrial):
    """One row per trial, the newest where a trial was run more than once.

    Every factor is a column of its own under its dotted name, quantities with their unit (`rate_mbps`,
    `rtt_ms`, `aqm`, `aqm.target_ms`, `l4s.cc`); a factor that a cell does not have is null.
    """

    status = _text("`ok`, `invalid` (the apparatus was wrong) or `failed` (the trial broke)")
    reasons = _text("why a trial is invalid or failed, several joined by `; `", null=True)
    flags = _text(
        "remarks that do not make a trial invalid: `low-utilisation`, `busy-host`, `unread-<table>`",
        null=True,
    )
    seed = _text("seed of the trial, as a decimal number")
    testbed = _text("where the trial ran: `virtual`, `ssh`, `fabric`", null=True)
    traffic = _text("traffic tool: `lean` or `iperf3`", null=True)
    kernels = _text("kernel releases of the nodes, each once, joined by `, `", null=True)
    modules = _text("loaded modules of ours as `name=srcversion`, joined by `, `", null=True)
    skew_ms = _real("how far apart the nodes began", "ms")
    inputs = _text("digest of all that went into the trial: programs, kernel, modules, tools")
    folder = _text("folder of the trial below `cells/<cell>/`")


class Flows(_OfTrial):
    """One row per valid trial and flow: what the flow got, and what it met."""

    flow = _text("id of the flow, `<group>-<index>`", key=True)
    group = _text("flow group")
    cc = _text("congestion control of the group")
    sender = _text("node that sends")
    receiver = _text("node that receives")
    start_ms = _real("start of the flow, from the start instant", "ms")
    seconds = _real("time the flow ran by its own clock", "s")
    goodput_mbps = _real(
        "bytes delivered to the receiver after the warm-up, over the measured duration (TCP_INFO at clock "
        "boundaries; iperf3: receiver's intervals)",
        "Mbit/s",
    )
    goodput_whole_mbps = _real("the same over the whole flow, warm-up and slow start included", "Mbit/s")
    srtt_minus_base_ms = _real(
        "mean of the 1 s samples of the sender's smoothed RTT after the warm-up, minus the nominal base RTT: "
        "the published experiments' queuing delay; neither a percentile nor per packet",
        "ms",
        minimum=None,
    )
    srtt_min_ms = _real("least sample of the smoothed RTT after the warm-up", "ms")
    srtt_p50_ms = _real("median of the samples of the smoothed RTT after the warm-up", "ms")
    srtt_p90_ms = _real("90 % quantile of the same; null with fewer than 100 samples", "ms")
    srtt_p95_ms = _real("95 % quantile of the same; null with fewer than 200 samples", "ms")
    srtt_p99_ms = _real("99 % quantile of the same; null with fewer than 1,000 samples", "ms")
    srtt_samples = _count("samples of the smoothed RTT behind the quantiles", null=True)
    sent_bytes = _count("payload the receiver acknowledged", "bytes", null=True)
    received_bytes = _count("payload that reached the receiver", "bytes", null=True)
    retransmits_packets = _count("segments sent again", "packets", null=True)
    delivered_packets = _count("segments delivered, as the sender counts", "packets", null=True)
    delivered_ce_packets = _count("of these, segments that arrived with a CE mark", "packets", null=True)
    mss_bytes = _count("sender's segment size at the end", "bytes", null=True)
    ecn = _text("ECN as negotiated: `off`, `classic`, `accecn`; null where it is not known", null=True)
    busy_ms = _real("time with data in flight or to send", "ms")
    rwnd_limited_ms = _real("of this, limited by the receiver's window", "ms")
    sndbuf_limited_ms = _real("of this, limited by the send buffer", "ms")


class Intervals(_OfTrial):
    """One row per valid trial, flow and interval of the traffic tool (1 s); the last may be shorter."""

    flow = _text("id of the flow", key=True)
    t_ms = _time("end of the interval, from the flow's own start")
    group = _text("flow group")
    seconds = _real("length of the interval", "s", null=False)
    goodput_mbps = _real("bytes that reached the receiver in the interval", "Mbit/s")
    sent_mbps = _real("bytes acknowledged (iperf3: written) at the sender in the interval", "Mbit/s")
    srtt_ms = _real("smoothed RTT at the end of the interval", "ms")
    cwnd_packets = _real("congestion window at the end of the interval", "packets")
    retransmits_packets = _count("segments sent again in the interval", "packets", null=True)
    delivered_packets = _count("segments delivered in the interval", "packets", null=True)
    delivered_ce_packets = _count("of these, with a CE mark", "packets", null=True)
    warmup = dy.Bool(nullable=False, description="whether the interval began in the warm-up")


class Sockets(_OfTrial):
    """One row per trial, node, flow and sample of its TCP socket (TCP_INFO by netlink or `ss`)."""

    node = _text("node the socket is on", key=True)
    flow = _text("id of the flow", key=True)
    t_ms = _time("time of the sample")
    group = _text("flow group")
    side = _text("`sender` or `receiver`")
    state = _text("state of the connection as `ss` names it", null=True)
    cc = _text("congestion control as the kernel names it", null=True)
    srtt_ms = _real("smoothed RTT", "ms")
    rttvar_ms = _real("mean deviation of the RTT", "ms")
    min_rtt_ms = _real("least RTT of the kernel's window", "ms")
    cwnd_packets = _count("congestion window", "packets", null=True)
    ssthresh_packets = _count("slow start threshold; null while it is infinite", "packets", null=True)
    mss_bytes = _count("segment size in sending", "bytes", null=True)
    inflight_packets = _count("segments not acknowledged", "packets", null=True)
    pacing_mbps = _real("pacing rate; null while unlimited", "Mbit/s")
    delivery_mbps = _real("newest delivery rate sample", "Mbit/s")
    delivered_packets = _count("segments delivered so far", "packets", null=True)
    delivered_ce_packets = _count("of these, with a CE mark", "packets", null=True)
    received_ce_packets = _count("packets with a CE mark that arrived here (AccECN)", "packets", null=True)
    retransmits_packets = _count("segments sent again so far", "packets", null=True)
    lost_packets = _count("segments believed lost at this moment", "packets", null=True)
    sent_bytes = _count("payload sent so far, retransmissions included", "bytes", null=True)
    acked_bytes = _count("payload acknowledged so far", "bytes", null=True)
    received_bytes = _count("payload received in order so far", "bytes", null=True)
    segments_out_packets = _count("all segments sent so far, pure ACKs included", "packets", null=True)
    segments_in_packets = _count("all segments received so far", "packets", null=True)
    data_out_packets = _count("segments with payload sent so far", "packets", null=True)
    data_in_packets = _count("segments with payload received so far", "packets", null=True)
    peer_window_bytes = _count("window the peer advertises", "bytes", null=True)
    window_bytes = _count("window advertised to the peer", "bytes", null=True)
    busy_ms = _real("time with data in flight or to send, so far", "ms")
    rwnd_limited_ms = _real("of this, limited by the receiver's window", "ms")
    sndbuf_limited_ms = _real("of this, limited by the send buffer", "ms")
    ecn = _text("ECN as negotiated: `off`, `classic`, `accecn`", null=True)
    alpha = _real("smoothed fraction of marked packets, of congestion controls that report it (0 to 1)")
    prague_mode = _text(
        "TCP Prague: what is in control, `window` or `rate`; null where it was not asked", null=True
    )
    prague_frac_cwnd_packets = _real("TCP Prague: window with its fraction", "packets")
    prague_rate_mbps = _real("TCP Prague: its rate, IP headers included", "Mbit/s")
    prague_packet_bytes = _count("TCP Prague: a full packet, IP header included", "bytes", null=True)
    prague_fallback_score = _real(
        "TCP Prague: score of a classic ECN queue (0 to 17; falls back from 8 to 9); null while not detecting"
    )
    prague_fallback_rtt_ms = _real("TCP Prague: mean RTT of the detection", "ms")
    prague_fallback_mdev_ms = _real("TCP Prague: its mean deviation", "ms")


class Queues(_OfTrial):
    """One row per trial, queue and sample of its counters (by netlink or `tc -s -j qdisc`)."""

    node = _text("node the queue is on", key=True)
    network = _text("network the queue's port leads to", key=True)
    handle = _text("handle of the qdisc", key=True)
    t_ms = _time("time of the sample")
    kind = _text("kind of the qdisc")
    parent = _text("parent of the qdisc; null at the root", null=True)
    sent_bytes = _count("bytes that left the queue so far, link headers included", "bytes", null=True)
    sent_packets = _count("packets that left the queue so far", "packets", null=True)
    drops_packets = _count("packets dropped so far", "packets", null=True)
    overlimits_packets = _count("times the queue held a packet back", "packets", null=True)
    requeues_packets = _count("packets the driver gave back", "packets", null=True)
    backlog_bytes = _count("bytes in the queue", "bytes", null=True)
    backlog_packets = _count("packets in the queue", "packets", null=True)
    marks_packets = _count(
        "CE marks so far, for any of the queue's reasons (dualpi2 counts a packet twice that both its PI "
        "controller and its step mark)",
        "packets",
        null=True,
    )
    threshold_marks_packets = _count(
        "of these, for a sojourn time over a threshold: ce_threshold, or dualpi2's step", "packets", null=True
    )
    delay_ms = _real("the queue's own newest delay: codel's sojourn time, pie's estimate", "ms")
    prob = _real("drop or mark probability of pie, base probability of dualpi2 (0 to 1)")
    delay_classic_ms = _real("dualpi2: delay of the classic queue", "ms")
    delay_l4s_ms = _real("dualpi2: delay of the L4S queue", "ms")
    classic_packets = _count("dualpi2: packets that entered the classic queue so far", "packets", null=True)
    l4s_packets = _count("dualpi2: packets that entered the L4S queue so far", "packets", null=True)
    flows = _count("flows the queue keeps apart at this moment", null=True)


class Hosts(_OfTrial):
    """One row per trial, node and fact read back from the node after the trial, for provenance."""

    node = _text("the node", key=True)
    kind = _text("`kernel`, `module`, `parameter`, `sysctl`, `offload` or `qdisc`", key=True)
    name = _text("a sysctl's name, `<network> <offload>`, `<network> <handle>` of a qdisc, ...", key=True)
    value = _text("what it said; of a qdisc its kind and options as JSON, names sorted", null=True)


class Lateness(_OfTrial):
    """One row per trial in real time and node: whether its host had a CPU for it when it needed one.

    Every node has itself woken at instants 50 ms apart, from the start instant to the read-back.
    """

    node = _text("the node", key=True)
    instants = _count("instants")
    late_share = _real("share of them that came more than 5 ms late (0 to 1)")
    late_p50_ms = _real("median of how late they came; null with fewer than 20 instants", "ms")
    late_p90_ms = _real("90 % quantile of the same; null with fewer than 100", "ms")
    late_p99_ms = _real("99 % quantile of the same; null with fewer than 1,000", "ms")
    late_max_ms = _real("the latest", "ms")
    busy_share = _real("share of the CPUs' time in which they were not idle; null where not told (0 to 1)")
    stolen_share = _real("share of it that the machine below took, as the kernel tells (0 to 1)")
    waited_share = _real("share of the time in which some task waited for a CPU (/proc/pressure/cpu)")


class Programs(_OfTrial):
    """One row per trial, node and step of its program: what ran, and how to run it again."""

    node = _text("the node", key=True)
    step = _count("place of the step in the node's program, from 1", key=True)
    phase = _text("`setup`, `ready`, `start` or `readback`")
    command = _text("the step as a command line, quoted for a shell; `@<network>` is the node's port on it")
    rerun = _text("command that runs the cell again")


class Catalog(dy.Schema):
    """One row per queue and congestion control that the run's cells name, as the catalog describes them."""

    kind = _text("`queue` or `cc`", key=True)
    name = _text("name, as in `aqm` and `<group>.cc`", key=True)
    label = _text("how tables print it")
    family = _text("row of the decision table a queue belongs to; null for a congestion control", null=True)
    l4s = dy.Bool(nullable=False, description="whether it treats ECT(1) differently, or sends it")
    about = _text("one sentence")
    digest = _text("digest over everything that decides what is run")


class Verdicts(dy.Schema):
    """One row per rule, question and cell of the decision table. Written by the report."""

    rule = _text("name of the verdict rule", key=True)
    l4s = _text("L4S congestion control the question is about", key=True)
    row = _text("row of the table: a family of queues", key=True)
    column = _text("column of the table: a competitor with its ECN", key=True)
    verdict = _text("`ok`, `l4s-starved`, `classic-starved`, `both`, `undecided` or `invalid`")
    low_latency = _text("whether the L4S flow's delay stays low in `all`, `some` or `none` of the cells")
    low_latency_in = _text("queues where it does, when it is `some`", null=True)
    cells = _count("cells behind the verdict")
    trials = _count("valid trials behind the verdict")
    left_out = _count("invalid and failed trials, which are left out")
    worst_cell = _text("id of the cell farthest outside of the limits, or nearest to them", null=True)
    worst_label = _text("the same in words", null=True)
    worst_trials = _count("its valid trials", null=True)
    worst_percent = _real("its L4S goodput in percent of the link's rate, mean of the trials", "%")
    worst_low_percent = _real("lower end of the 95 % confidence interval of that mean", "%")
    worst_high_percent = _real("upper end of it", "%")
    worst_l4s_mbps = _real("its L4S goodput", "Mbit/s")
    worst_classic_mbps = _real("its classic goodput", "Mbit/s")
    worst_l4s_harm_percent = _real(
        "harm to the L4S group's goodput in it; null without a baseline", "%", minimum=None
    )
    worst_classic_harm_percent = _real("the same of the classic group", "%", minimum=None)
    undecided_cells = _count("cells whose intervals leave the verdict in doubt, by whatever rule")
    bimodal_cells = _count("cells whose trials fall into two groups")
    delay_ms = _real("greatest cell mean of the L4S flow's delay", "ms", minimum=None)
    version = _count("version of the rule")


SCHEMAS: Final[Mapping[str, type[dy.Schema]]] = {
    "trials": Trials,
    "flows": Flows,
    "intervals": Intervals,
    "sockets": Sockets,
    "queues": Queues,
    "packets": Packets,
    "packet_flows": PacketFlows,
    "hosts": Hosts,
    "lateness": Lateness,
    "programs": Programs,
    "catalog": Catalog,
    "verdicts": Verdicts,
}
"""All tables by name, in the order of the documentation."""

OF_TRIALS: Final[tuple[str, ...]] = tuple(
    name for name, schema in SCHEMAS.items() if issubclass(schema, _OfTrial)
)
"""The tables whose rows belong to trials, which is what collectors write."""


@cache
def key(table: str) -> tuple[str, ...]:
    """The columns a table is sorted by; together they tell its rows apart."""
    return tuple(SCHEMAS[table].primary_key())


@cache
def columns(table: str) -> Mapping[str, pl.DataType]:
    """The columns of a table with their types, in order; of `trials` those that are no factors."""
    return {name: column.dtype for name, column in SCHEMAS[table].columns().items()}


@cache
def empty(table: str) -> pl.DataFrame:
    """A table without rows."""
    return SCHEMAS[table].create_empty()


def shape(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with the table's columns in order, of their types, sorted by key; values are not checked.

    Columns that the frame lacks become null. `trials` keeps columns its schema does not know, which are the
    factors: they stand behind the key, by name. Anywhere else an unknown column is an error.

    Raises:
        ValueError: a column that is not in the schema, or one of another type.
    """
    own, key_columns = columns(table), list(key(table))
    others = sorted(set(frame.columns) - own.keys())
    if others and table != "trials":
        raise ValueError(f"columns {', '.join(others)} are not in table {table}")
    names = [*key_columns, *others, *(name for name in own if name not in key_columns)]
    if not others:
        names = list(own)
    there = set(frame.columns)
    typed = [
        pl.col(name)
        if name not in own
        else pl.col(name).cast(own[name])
        if name in there
        else pl.lit(None, own[name]).alias(name)
        for name in names
    ]
    try:
        return frame.select(typed).sort(key_columns)
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"table {table}: {error}") from error


def conform(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The frame as the table stores it: in `shape`, and every value as the schema says.

    Raises:
        ValueError: as `shape`, or values that break the schema (dataframely's message).
    """
    shaped = shape(table, frame)
    try:
        SCHEMAS[table].validate(shaped.select(list(columns(table))))
    except (dy.exc.ValidationError, dy.exc.SchemaError) as error:
        raise ValueError(f"table {table}: {error}") from error
    return shaped


def write(table: str, parts: Sequence[pl.LazyFrame], path: Path) -> None:
    """Write a table from parts that are in key order; the file appears whole or not at all.

    How the rows are cut into parts does not show in the file.
    """
    partial = path.with_name(path.name + ".partial")
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = pl.concat(parts, how="vertical") if parts else empty(table).lazy()
    frame.sink_parquet(
        partial,
        compression="zstd",
        row_group_size=ROW_GROUP_ROWS,
        maintain_order=True,
        metadata={FORMAT_KEY: str(FORMAT), TABLE_KEY: table},
        engine="streaming",
    )
    with partial.open("rb") as written:
        os.fsync(written.fileno())
    partial.replace(path)


def format_of(path: Path) -> int | None:
    """The format version of a table's file; None when the file is not there or is no table of ours."""
    try:
        text = pl.read_parquet_metadata(path).get(FORMAT_KEY, "")
    except (OSError, pl.exceptions.PolarsError):
        return None
    return int(text) if text.isdecimal() else None


def scan(path: Path) -> pl.LazyFrame:
    """A table as a lazy frame.

    Raises:
        InputError: no table is there, or a newer l4sbench wrote it.
    """
    version = format_of(path)
    if version is None:
        raise InputError(f"{path} is no table of l4sbench", "l4sbench collect writes the tables of a run")
    if version > FORMAT:
        raise InputError(
            f"{path} has format {version}, and this l4sbench reads up to {FORMAT}",
            "a newer l4sbench reads it",
        )
    return pl.scan_parquet(path)


def document() -> str:
    """The text of `docs/tables.md`."""
    lines = [
        "# Tables",
        "",
        "Generated by `python -m l4sbench.tables > docs/tables.md`; do not edit.",
        "",
        *(__doc__ or "").strip().split("\n")[2:],
        "",
        f"Format version {FORMAT} (`{FORMAT_KEY}` in the metadata of every file). `l4sbench.load(run)` gives",
        "polars frames; DuckDB, pandas and everything else that reads Parquet reads them as well.",
    ]
    for table, schema in SCHEMAS.items():
        lines += ["", f"## {table}", "", *(inspect.getdoc(schema) or "").split("\n")]
        lines += ["", f"Key: {', '.join(f'`{name}`' for name in key(table))}.", ""]
        lines += ["| column | type | unit | null | meaning |", "|---|---|---|---|---|"]
        lines += [_row(name, column) for name, column in schema.columns().items()]
    return "\n".join(lines) + "\n"


def _row(name: str, column: dy.Column) -> str:
    kind = {"String": "text", "Int64": "integer", "Float64": "real", "Boolean": "flag"}[str(column.dtype)]
    unit = (column.metadata or {}).get("unit", "")
    return f"| `{name}` | {kind} | {unit} | {'yes' if column.nullable else ''} | {column.description} |"


if __name__ == "__main__":
    sys.stdout.write(document())
