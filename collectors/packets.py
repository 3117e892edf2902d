# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Captures at both sides of the bottleneck's queue -> the packets of a trial, and table `packets`.

A packet that entered the queue and one that left it are the same packet when flow, IP identification,
sequence number and length agree; Linux gives every packet of a connection, retransmissions included, its own
identification, and the packets of a UDP socket one after the other. IPv6 has none: packets of TCP differ by
their timestamps instead, and those of UDP by the first bytes of their payload (`collectors.pcap.SCHEMA`). The
time between the two is the packet's sojourn. It includes the time for which the shaper above the queue holds
a packet back, but not the packet's own time on the link.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from collectors.collector import BadRawError, raw_bytes
from collectors.pcap import TCP, UDP, find_capture, read_capture
from l4sbench.disk.plain import is_plain
from l4sbench.traffic import kind_of_send

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from l4sbench.program import Program
    from l4sbench.program.trial import EndedTrial
    from l4sbench.traffic.send import Transport

START_FILE: Final = "start.json"

CE: Final = 3
_ECN: Final[Mapping[int, str]] = {0: "not-ect", 1: "ect1", 2: "ect0", CE: "ce"}
FIN: Final = 0x001
SYN: Final = 0x002
RST: Final = 0x004
ACK: Final = 0x010
_PROTOCOLS: Final[Mapping[Transport, int]] = {"tcp": TCP, "udp": UDP}
FIRST_BYTES: Final[Mapping[str, int]] = {"e0_bytes": 1, "ce_bytes": 0, "e1_bytes": 1}
"""Counters of the AccECN option before any payload (RFC 9768 section 3.2.1)."""
_SAME: Final = ("dst_port", "src_port", "packet_key", "copy")
"""Columns that identify a packet on both sides of the queue; `packet_key` has sequence, IP id and length."""


class _Flow(NamedTuple):
    """A flow as its packets show it: the receiver's port, its names, its start and its kind of traffic."""

    port: int
    flow: str
    group: str
    start_ms: float
    send: str


class Capture(NamedTuple):
    """The packets of a trial's flows.

    Attributes:
        data: Data packets that arrived at the queue, each with the time it left.
        acks: Pure ACKs that return.
        arrived: All packets towards the receivers before the queue: flow, group, codepoint.
        left: All behind it, with their connection and payload.
        returned: All that return, with what they report; `src_port` is the sender's here, too.
    """

    data: pl.DataFrame
    acks: pl.DataFrame
    arrived: pl.DataFrame
    left: pl.DataFrame
    returned: pl.DataFrame


def parse_packets(trial: EndedTrial) -> pl.DataFrame | None:
    """Return table `packets`: every data packet that arrived at the bottleneck; None without captures."""
    capture = read_packets(trial.programs, trial.raw)
    if capture is None:
        return None
    left = pl.col("ecn_out")
    return capture.data.select(
        "flow",
        "packet",
        "group",
        pl.col("t_ms").round(4),
        pl.col("sojourn_ms").round(4),
        pl.col("ip_bytes").cast(pl.Int64),
        pl.col("payload_bytes").cast(pl.Int64),
        "retransmit",
        "lost",
        pl.col("ecn").replace_strict(_ECN, return_dtype=pl.String),
        ((left == CE) & (pl.col("ecn") != CE)).alias("marked"),
    )


def wrapped(step: pl.Expr, bits: int) -> pl.Expr:
    """Return the step of a counter of so many bits, forward or back, whichever is shorter."""
    half: int = 2 ** (bits - 1)
    return (step + half) % (2 * half) - half


_ID_BITS: Final = 16
_PAUSE_MS: Final = 10_000.0
"""No packet overtakes one from so long ago. In a pause the timestamps that stand for IPv6's identification
may go on by more than half of their range."""
_STEP: Final = wrapped(pl.col("ip_id").cast(pl.Int64).diff().fill_null(0), _ID_BITS)
_PAUSED: Final = pl.col("t_ms").diff() > _PAUSE_MS
_SENT: Final = (
    pl.when((pl.col("ip_id") == 0).all())
    .then(pl.int_range(pl.len()))
    .otherwise(pl.when(_PAUSED).then(_STEP % 2**_ID_BITS).otherwise(_STEP).cum_sum())
    .alias("sent")
)
"""A connection's packets in the order of sending: their identification, without its wraps. Where packets have
none it is the order of arrival. Timestamps of packets that were sent together may be equal."""


def read_packets(programs: Mapping[str, Program], raw: Path) -> Capture | None:
    """Return the packets of a trial's flows; None when it has no captures. Raises BadRawError."""
    sides = find_captures(programs, raw)
    if sides is None:
        return None
    flows = tuple(
        _Flow(run.port, run.flow, run.group, run.start.ms, run.send)
        for program in programs.values()
        for run in program.flows
    )
    stamps = tuple(path.stat().st_mtime_ns for path in (*sides[0], sides[1]))
    return _join(*sides, flows, _start_ns(raw), stamps)


def find_captures(programs: Mapping[str, Program], raw: Path) -> tuple[tuple[Path, ...], Path] | None:
    """Return the captures before and behind the queue; None when the trial has none. Raises BadRawError."""
    for node, program in programs.items():
        behind = [sampler.network for sampler in program.samplers if sampler.kind == "queues"]
        if not behind:
            continue
        there = {
            link.network: path
            for link in program.links
            if (path := find_capture(raw / node, f"{link.network}.pcap")) is not None
        }
        if not there:
            continue
        out = there.pop(str(behind[0]), None)
        if out is None or not there:
            raise BadRawError(f"{node}: packets were captured on one side of the queue only")
        return tuple(there.values()), out
    return None


def _start_ns(raw: Path) -> int | None:
    """Return the start instant in nanoseconds since the epoch; None without `start.json`."""
    path = raw / START_FILE
    if not is_plain(path):
        return None
    try:
        return int(json.loads(raw_bytes(path, START_FILE))["t0_ns"])
    except (ValueError, LookupError, TypeError) as error:
        raise BadRawError(f"{START_FILE}: {error}") from error


@lru_cache(maxsize=1)  # several tables are made from one trial's captures
def _join(
    before: tuple[Path, ...],
    behind: Path,
    flows: tuple[_Flow, ...],
    t0_ns: int | None,
    stamps: tuple[int, ...],  # noqa: ARG001  they tell the cache when a file has changed
) -> Capture:
    """One row per packet, joined from the captures before and after the queue.

    Args:
        before: Captures where flows arrive.
        behind: The capture where they leave and ACKs arrive.
        flows: Every flow.
        t0_ns: The start instant; None: take it from the first packet.
        stamps: When the captures were written.
    """
    names = _names(flows)
    out = read_capture(behind)
    arrived, left = (
        side.join(
            names, left_on=("dst_port", "protocol"), right_on=("port", "protocol"), maintain_order="left"
        )
        for side in (pl.concat(map(read_capture, before)), out)
    )
    connections = _connections(arrived)
    arrived, left = (
        _numbered(side.join(connections, on=["flow", "src_port"], how="semi", maintain_order="left"))
        for side in (arrived, left)
    )
    since = (pl.col("time_ns") - (_first_ns(arrived) if t0_ns is None else t0_ns)) / 1e6
    first_ids = dict(arrived.group_by("flow").agg(pl.col("ip_id").first()).iter_rows())
    gone = _data(left, first_ids).select(*_SAME, since.alias("left_ms"), pl.col("ecn").alias("ecn_out"))
    joined = (
        _data(arrived, first_ids)
        .with_columns(since.alias("t_ms"))
        .join(gone, on=_SAME, how="left", maintain_order="left")
        .with_columns((pl.col("left_ms") - pl.col("t_ms")).alias("sojourn_ms"))
    )
    data = pl.concat([_of_flow(joined.filter(pl.col("flow") == one.flow)) for one in sorted(flows)])
    # the port of a connection is the sender's, in both directions
    back = out.rename({"src_port": "dst_port", "dst_port": "src_port"}).join(
        names, left_on=("dst_port", "protocol"), right_on=("port", "protocol"), maintain_order="left"
    )
    returned = _numbered(back.join(connections, on=["flow", "src_port"], how="semi", maintain_order="left"))
    pure = (pl.col("payload_bytes") == 0) & (pl.col("flags") & (SYN | FIN | RST) == 0)
    acks = returned.filter(pure & (pl.col("protocol") == TCP)).select("flow", since.alias("t_ms"))
    shown = ("flow", "group", "ecn")
    own = (*shown, "time_ns", "src_port", "connection")
    marked, counters = (*own, "payload_bytes"), (*own, "ack", "flags", *FIRST_BYTES)
    return Capture(data, acks, arrived.select(shown), left.select(marked), returned.select(counters))


def _names(flows: Iterable[_Flow]) -> pl.DataFrame:
    """Return the flows by port and protocol, and whether each is one connection, and a flood of SYNs.

    iperf3 opens another connection of the same port for control.
    """
    rows = [
        (
            one.port,
            protocol,
            one.flow,
            one.group,
            one.start_ms,
            kind_of_send(one.send).one_connection,
            kind_of_send(one.send).only_syns,
        )
        for one in flows
        for protocol in (_PROTOCOLS[name] for name in kind_of_send(one.send).transports)
    ]
    schema = {"port": pl.UInt16, "protocol": pl.UInt8, "flow": pl.String, "group": pl.String}
    schema |= {"start_ms": pl.Float64, "one": pl.Boolean, "flood": pl.Boolean}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _connections(arrived: pl.DataFrame) -> pl.DataFrame:
    """Return every flow's connections; of one that is a single connection the one with most payload."""
    found = (
        arrived.group_by("flow", "src_port", "one")
        .agg(pl.col("payload_bytes").cast(pl.Int64).sum())
        .sort("payload_bytes", "src_port", descending=True)
    )
    largest = found.filter("one").unique("flow", keep="first", maintain_order=True)
    return pl.concat([largest, found.filter(~pl.col("one"))]).select("flow", "src_port")


def _numbered(side: pl.DataFrame) -> pl.DataFrame:
    """Return the packets with `connection`: the number of the connection among those of its source port."""
    if side["one"].all():
        return side.with_columns(pl.lit(0, pl.UInt32).alias("connection"))
    begun = pl.when(pl.col("flags") & SYN > 0).then(pl.col("seq")).forward_fill()
    number = begun.ne_missing(begun.shift(1)).cast(pl.UInt32).cum_sum().over("flow", "src_port")
    return side.with_columns(pl.when("one").then(0).otherwise(number).cast(pl.UInt32).alias("connection"))


def _first_ns(arrived: pl.DataFrame) -> int:
    """Return the start instant from the packets: the first flow's first packet minus its planned start."""
    starts = (pl.col("time_ns") - (pl.col("start_ms") * 1e6).cast(pl.Int64)).min()
    first = arrived.select(starts).item() if arrived.height else 0
    return int(first)


def _data(side: pl.DataFrame, first_ids: Mapping[str, int]) -> pl.DataFrame:
    """Return the packets with payload, and the SYNs of floods; `copy` numbers those otherwise identical.

    `first_ids` are the IP identifications of the flows' first packets.
    """
    syn = pl.col("flood") & (pl.col("flags") & (SYN | ACK) == SYN)
    data = _counted(side.filter((pl.col("payload_bytes") > 0) | syn), first_ids)
    key = (
        pl.col("seq").cast(pl.UInt64) * 2**32
        + pl.col("ip_id").cast(pl.UInt64) * 2**16
        + pl.col("payload_bytes")
    )
    # one number instead of three columns: comparing packets is most of the work
    data = data.with_columns(packet_key=key)
    if data["packet_key"].n_unique() == data.height:  # the usual case, and much faster to find out
        return data.with_columns(pl.lit(0, pl.Int64).alias("copy"))
    same = [name for name in _SAME if name != "copy"]
    return data.with_columns(pl.int_range(pl.len()).over(same).alias("copy"))


def _counted(data: pl.DataFrame, first_ids: Mapping[str, int]) -> pl.DataFrame:
    """Write into `seq` of UDP how often the identification began anew: a fast flow uses one up in seconds."""
    by_udp = (data["protocol"] == UDP).to_numpy()
    if not by_udp.any():
        return data
    sequence = data["seq"].to_numpy().astype(np.int64)
    flow, ids = data["flow"].to_numpy(), data["ip_id"].to_numpy()
    for name, first in first_ids.items():
        own = np.flatnonzero(by_udp & (flow == name))
        if ids[own].any():  # of IPv6 they are all 0
            steps = np.diff(ids[own], prepend=np.uint16(first)).view(np.int16).astype(np.int64)
            sequence[own] = (first + 2**16 + np.cumsum(steps)) >> 16
    return data.with_columns(pl.Series("seq", sequence).cast(pl.UInt32))


def _of_flow(own: pl.DataFrame) -> pl.DataFrame:
    """Return the packets of one flow, in order, with the columns that depend on the order.

    A packet is a retransmission when it begins before the highest byte that its connection had sent. The
    order of sending follows from the identification, as packets overtake others on paths that reorder. A
    packet is lost when it never left the queue although a later packet did.
    """
    of_tcp = own.height > 0 and own["protocol"][0] == TCP and not own["flood"][0]
    if not of_tcp:
        again = pl.Series("retransmit", np.zeros(own.height, np.bool_))
    elif own["one"][0]:
        again = pl.Series("retransmit", _sent_again(own))
    else:
        again = _sent_again_by_connection(own)
    staying = pl.col("left_ms").is_null()
    left_later = (~staying).cast(pl.Int64).reverse().cum_sum().reverse() > 0
    return own.with_columns(
        again,
        (staying & left_later).alias("lost"),
        pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("packet"),
    )


def _sent_again(own: pl.DataFrame) -> NDArray[np.bool_]:
    """Return which packets of a connection begin before the highest byte that it had sent."""
    sequence = own["seq"].to_numpy()
    # sequence numbers wrap at 2^32; no packet is 2^31 bytes from the one before
    steps = np.diff(sequence, prepend=sequence[:1]).view(np.int32).astype(np.int64)
    begin = np.cumsum(steps)
    end = begin + own["payload_bytes"].to_numpy()
    number = own.select(_SENT)["sent"].to_numpy()
    in_order = (number[1:] > number[:-1]).all()  # the usual case
    order = np.arange(len(begin)) if in_order else np.lexsort((begin, number))
    begin, end = begin[order], end[order]
    highest = np.maximum.accumulate(end) if len(end) else end
    again = np.zeros(len(begin), np.bool_)
    again[order[1:]] = begin[1:] < highest[:-1]
    return again


def _sent_again_by_connection(own: pl.DataFrame) -> pl.Series:
    """Return the same for a flow of many connections."""
    key = ["src_port", "connection"]
    steps = wrapped(pl.col("seq").cast(pl.Int64).diff().fill_null(0), 32)
    begin = steps.cum_sum().over(key).alias("begin")
    ends = own.with_columns(begin, _SENT.over(key)).with_columns(
        (pl.col("begin") + pl.col("payload_bytes").cast(pl.Int64)).alias("end")
    )
    in_order = ends.select((pl.col("sent").diff() > 0).all().over(key).all()).item()  # the usual case
    ends = ends.with_row_index("at")
    ends = ends if in_order else ends.sort(*key, "sent", "begin")
    highest = pl.col("end").cum_max().shift(1).over(key)
    again = (pl.col("begin") < highest).fill_null(value=False).alias("retransmit")
    return ends.with_columns(again).sort("at")["retransmit"]
