# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Packet captures as columns: pcap files, plain or gzipped, of TCP and UDP over IP over Ethernet.

Capture libraries make an object per packet, which takes minutes for the millions of packets of a trial. Here
only the chain of record lengths is followed packet by packet; each header field is then read for all packets
at once.

Formats: draft-ietf-opsawg-pcap; IPv4 (RFC 791), IPv6 with its extension headers (RFC 8200), TCP
(RFC 9293) with the AccECN option (RFC 9768 section 3.2.3), UDP (RFC 768).
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, TypeAlias

import numpy as np
import polars as pl
from numpy.lib.stride_tricks import sliding_window_view

from collectors.collector import BadRawError
from l4sbench.disk.plain import is_plain, open_plain

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

GZIPPED: Final = ".gz"
MOST_BYTES: Final = 4 << 30
"""Largest accepted size of an unpacked capture: headers of 25 million packets."""
PIECE_BYTES: Final = 32 << 20
"""Size of the pieces in which captures are read."""
MOST_CAPTURED_BYTES: Final = 256 << 10
"""Largest accepted size of a packet, as libpcap has it."""
TCP: Final = 6
UDP: Final = 17

_HEADER_BYTES: Final = 24
_RECORD_BYTES: Final = 16
_CHAIN_BYTES: Final = 32 << 10
"""Distance between places from which records are followed."""
_SEARCHED_BYTES: Final = 512
"""Bytes at such a place in which a record is looked for."""
_LEAST_CHAINS: Final = 32
"""Chains from which on it is faster to follow them at once."""
_MOST_SECONDS: Final = 3600
"""Time within which most records of a piece follow its first; those outside only take longer to read."""
_ETHERNET: Final = 1
_ETHERNET_BYTES: Final = 14
_IPV4: Final = 0x0800
_IPV6: Final = 0x86DD
_LEAST_IPV4: Final = 20
_IPV6_BYTES: Final = 40
_LEAST_TCP: Final = 20
_UDP_BYTES: Final = 8
_FRAGMENT: Final = 44
_EXTENSIONS: Final = (0, 43, 60, _FRAGMENT)
"""Extension headers of IPv6 that may precede TCP: options of a hop, routing, options of the destination."""
_MOST_EXTENSIONS: Final = 8

_MICRO: Final = 0xA1B2C3D4
_NANO: Final = 0xA1B23C4D

SCHEMA: Final = pl.Schema(
    {
        "time_ns": pl.Int64(),
        "protocol": pl.UInt8(),
        "src_port": pl.UInt16(),
        "dst_port": pl.UInt16(),
        "ip_bytes": pl.UInt32(),
        "ip_id": pl.UInt16(),
        "ecn": pl.UInt8(),
        "seq": pl.UInt32(),
        "ack": pl.UInt32(),
        "flags": pl.UInt16(),
        "payload_bytes": pl.UInt16(),
        "e0_bytes": pl.UInt32(),
        "ce_bytes": pl.UInt32(),
        "e1_bytes": pl.UInt32(),
    }
)
"""Columns of a capture. `time_ns` counts from the epoch; `protocol` is `TCP` or `UDP`; `ecn` is the IP
header's codepoint (0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE); `ip_bytes` is the packet's length on the wire from
the IP header on, however much of it was captured. `seq`, `ack` and `flags` are 0 of UDP; `flags` has the nine
bits from AE down to FIN. IPv6 has no identification: `ip_id` are there the lowest bits of TCP's timestamp, by
which retransmissions differ, and `seq` of UDP is a digest of the first bytes of its payload. The last three
are the counters of the AccECN option as sent (24 bits: payload that arrived with ECT(0), CE, ECT(1)); null
where a packet has none.
"""


_FRAME: Final = np.dtype(
    [
        *(("addresses", "V12"), ("kind", ">u2"), ("version", "u1"), ("tos", "u1"), ("length", ">u2")),
        *(("id", ">u2"), ("fragment", ">u2"), ("ttl", "u1"), ("protocol", "u1"), ("checksum", ">u2")),
        *(("source", ">u4"), ("destination", ">u4")),
    ]
)
"""Ethernet header and IPv4 header without options (RFC 791); `version` is also the header's length."""

_SEGMENT: Final = np.dtype(
    [
        *(("src_port", ">u2"), ("dst_port", ">u2"), ("seq", ">u4"), ("ack", ">u4"), ("flags", ">u2")),
        *(("window", ">u2"), ("checksum", ">u2"), ("urgent", ">u2")),
    ]
)
"""TCP header without options (RFC 9293); the upper 4 bits of `flags` are the header's length."""

_FRAME6: Final = np.dtype(
    [
        *(("addresses", "V12"), ("kind", ">u2"), ("first", ">u4"), ("length", ">u2")),
        *(("next", "u1"), ("hops", "u1"), ("source", "V16"), ("destination", "V16")),
    ]
)
"""Ethernet and IPv6 header (RFC 8200 section 3); `first` has version, traffic class and flow label."""

_EXTENSION: Final = np.dtype([("next", "u1"), ("length", "u1"), ("offset", ">u2"), ("rest", "V4")])
"""First 8 bytes of an extension header; `offset` is that of a fragment, with 3 other bits below it."""

_DATAGRAM: Final = np.dtype(
    [("src_port", ">u2"), ("dst_port", ">u2"), ("length", ">u2"), ("checksum", ">u2")]
)

_END_OF_OPTIONS: Final = 0
_NO_OPERATION: Final = 1
_TIMESTAMP: Final = 8
_TIMESTAMP_BYTES: Final = 10
_DIGESTED_BYTES: Final = 16
_TIMESTAMP_ALONE: Final = 12
"""Bytes of the options that are two of no operation and a timestamp."""
_OPTIONS: Final = np.dtype([("first", ">u4")])
_TIMESTAMP_FIRST: Final = _NO_OPERATION << 24 | _NO_OPERATION << 16 | _TIMESTAMP << 8 | _TIMESTAMP_BYTES
"""The number that these begin with."""
_ACCECN0: Final = 172
_ACCECN1: Final = 174
_ORDERS: Final = {
    _ACCECN0: ("e0_bytes", "ce_bytes", "e1_bytes"),
    _ACCECN1: ("e1_bytes", "ce_bytes", "e0_bytes"),
}
"""Counters of the AccECN option in the order of each of its two kinds; the last ones may be missing."""
_COUNTERS: Final = _ORDERS[_ACCECN0]


_Bytes: TypeAlias = BinaryIO | gzip.GzipFile


@dataclass(frozen=True)
class _Records:
    """Start offset, captured bytes and time of every packet of a file."""

    start: NDArray[np.int64]
    captured: NDArray[np.int64]
    time_ns: NDArray[np.int64]


class _Ip(NamedTuple):
    """IP packets: their record, where the header after IP begins, and fields of the IP header."""

    record: NDArray[np.int64]
    start: NDArray[np.int64]
    protocol: NDArray[np.int64]
    ip_bytes: NDArray[np.int64]
    header_bytes: NDArray[np.int64]
    ip_id: NDArray[np.int64]
    ecn: NDArray[np.int64]

    def only(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> _Ip:
        """Return those packets of a mask, or in this order."""
        if which.dtype == np.bool_ and which.all():
            return self
        return _Ip(*(column[which] for column in self))


def find_capture(folder: Path, name: str) -> Path | None:
    """Return the capture of that name in a folder, plain or gzipped; None when there is none."""
    for path in (folder / name, folder / (name + GZIPPED)):
        if is_plain(path):
            return path
    return None


def read_capture(path: Path) -> pl.DataFrame:
    """Read the TCP and UDP packets of a capture in file order, with the columns of `SCHEMA`.

    The file is read piece by piece, so that only the columns need memory. Other packets are skipped, as is a
    last record that is cut short.

    Raises:
        BadRawError: the file is not a capture of Ethernet in the format pcap, or is damaged or too large.
    """
    try:
        with _opened(path) as file:
            form = _format(file.read(_HEADER_BYTES))
            parts = [_columns(raw, records) for raw, records in _pieces(file, form)]
    except (EOFError, OSError, zlib.error, struct.error, ValueError) as error:
        raise BadRawError(f"{path.name}: {error}") from error
    return pl.concat(parts)


@contextmanager
def _opened(path: Path) -> Iterator[_Bytes]:
    with open_plain(path) as file:
        if path.suffix != GZIPPED:
            yield file
            return
        with gzip.GzipFile(fileobj=file) as packed:
            yield packed


class _Format(NamedTuple):
    """The byte order of a capture, as `struct` names it, and the unit of the fractions of its times."""

    order: str
    fraction_ns: int


def _format(head: bytes) -> _Format:
    if not head:
        raise ValueError("the capture is empty")
    for order in "<>":
        magic = int.from_bytes(head[:4], "little" if order == "<" else "big")
        if magic in {_MICRO, _NANO}:
            break
    else:
        raise ValueError("it is not pcap, to which editcap -F nsecpcap converts captures")
    if len(head) < _HEADER_BYTES:
        raise ValueError("it ends within its header")
    (link,) = struct.unpack(f"{order}I", head[20:24])
    if link & 0xFFFF != _ETHERNET:
        raise ValueError(f"link type {link & 0xFFFF} is not Ethernet")
    return _Format(order, 1000 if magic == _MICRO else 1)


def _pieces(file: _Bytes, form: _Format) -> Iterator[tuple[NDArray[np.uint8], _Records]]:
    """Yield whole records in pieces of about `PIECE_BYTES`, at least one piece."""
    rest, size = b"", _HEADER_BYTES
    while True:
        piece = file.read(PIECE_BYTES)
        size += len(piece)
        if size > MOST_BYTES:  # a few MB of gzip may hold far more than memory does
            raise ValueError(f"the capture is larger than {MOST_BYTES >> 20} MB")
        data = rest + piece
        records, end = _records(data, form)
        yield np.frombuffer(data, np.uint8), records
        if not piece:
            return
        rest = data[end:]


def _records(data: bytes, form: _Format) -> tuple[_Records, int]:
    """Return the whole records of a piece, which begins with one, and where the last of them ends."""
    head, end = _heads(data, form.order)
    names = ("second", "fraction", "captured", "length")
    found = _at(np.frombuffer(data, np.uint8), head, np.dtype([(name, f"{form.order}u4") for name in names]))
    second, fraction, lengths = (found[name].astype(np.int64) for name in names[:3])
    return _Records(head + _RECORD_BYTES, lengths, second * 1_000_000_000 + fraction * form.fraction_ns), end


def _heads(data: bytes, order: str) -> tuple[NDArray[np.int64], int]:
    """Return where the whole records of a piece begin, in order, and where the last of them ends.

    A record's place follows from the length of the one before it, and a step of Python per record takes most
    of the time of reading a capture. So many chains are followed at once, from places that look like records.
    One that begins where the chain before it ends is right, and others are left out.
    """
    begin = _likely(data, order)
    chains = _chains(data, order, begin) if len(begin) >= _LEAST_CHAINS else []
    heads: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    at = 0
    for head, end in chains:
        steps, at = _steps(data, order, at, int(head[0]))
        heads.append(steps)
        if at == head[0]:
            heads.append(head)
            at = end
    steps, at = _steps(data, order, at, len(data))
    return np.concatenate([*heads, steps]), at


def _steps(data: bytes, order: str, at: int, to: int) -> tuple[NDArray[np.int64], int]:
    """Return the records from one place to another, and where the last of them ends."""
    length = struct.Struct(f"{order}I").unpack_from
    found: list[int] = []
    while at < to and at + _RECORD_BYTES <= len(data):
        captured: int = length(data, at + 8)[0]
        if captured > MOST_CAPTURED_BYTES:  # as Wireshark does; pieces would grow up to the whole file
            raise ValueError(f"a packet of {captured} bytes is longer than {MOST_CAPTURED_BYTES}")
        if at + _RECORD_BYTES + captured > len(data):
            break
        found.append(at)
        at += _RECORD_BYTES + captured
    return np.array(found, np.int64), at


def _chains(data: bytes, order: str, begin: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], int]]:
    """Yield the records of each chain before the next one begins, and where the last of them ends.

    A chain may end too early: when few have another record, a step for all of them saves no time.
    """
    numbers = _numbers(data, order)
    stop = np.append(begin[1:], len(data))
    at, active = begin.copy(), np.arange(len(begin))
    steps: list[NDArray[np.int64]] = []
    while len(active) >= _LEAST_CHAINS // 2:  # a step is one record of every chain that has another
        here = at[active]
        captured = numbers[here + 8].astype(np.int64)
        following = here + _RECORD_BYTES + captured
        whole = (captured <= MOST_CAPTURED_BYTES) & (following <= len(data))
        active, here, following = active[whole], here[whole], following[whole]
        steps.append(here)
        at[active] = following
        active = active[(following < stop[active]) & (following + _RECORD_BYTES <= len(data))]
    found = np.sort(np.concatenate(steps))
    for own, end in zip(np.split(found, np.searchsorted(found, stop[:-1])), at, strict=True):
        if len(own):
            yield own, int(end)


def _likely(data: bytes, order: str) -> NDArray[np.int64]:
    """Return places all over a piece that look like records: their second is soon after the first one's."""
    places = np.arange(0, max(len(data) - _SEARCHED_BYTES - _RECORD_BYTES, 0), _CHAIN_BYTES)
    if not len(places):
        return places
    seconds = _numbers(data, order)[places[:, None] + np.arange(_SEARCHED_BYTES)]
    looks = seconds - seconds[0, 0] <= _MOST_SECONDS
    found: NDArray[np.int64] = (places + looks.argmax(axis=1))[looks.any(axis=1)]
    return found


def _numbers(data: bytes, order: str) -> NDArray[np.uint32]:
    """Return the number of 32 bits at every byte of a piece that holds one."""
    return np.ndarray((len(data) - 3,), f"{order}u4", data, strides=(1,))


def _at(raw: NDArray[np.uint8], start: NDArray[np.int64], kind: np.dtype[np.void]) -> NDArray[np.void]:
    """Return the headers of this kind that begin at these offsets."""
    if len(start) == 0:
        return np.zeros(0, kind)
    return np.ascontiguousarray(sliding_window_view(raw, kind.itemsize)[start]).view(kind)[:, 0]


def _columns(raw: NDArray[np.uint8], records: _Records) -> pl.DataFrame:
    end = records.start + records.captured
    packets = _packets(raw, records.start, end)
    least = np.where(packets.protocol == TCP, _LEAST_TCP, _UDP_BYTES)
    known = (packets.protocol == TCP) | (packets.protocol == UDP)
    packets = packets.only(known & (packets.start + least <= end[packets.record]))
    tcp = packets.protocol == TCP
    segments, datagrams = _at(raw, packets.start[tcp], _SEGMENT), _at(raw, packets.start[~tcp], _DATAGRAM)
    header = np.full(len(tcp), _UDP_BYTES, np.int64)
    header[tcp] = (segments["flags"] >> 12).astype(np.int64) * 4
    found = {name: np.zeros(len(tcp), np.int64) for name in ("src_port", "dst_port", "seq", "ack", "flags")}
    for name, values in found.items():
        values[tcp] = segments[name]
    for name in ("src_port", "dst_port"):
        found[name][~tcp] = datagrams[name]
    captured_end = end[packets.record]
    ip_id, by_6 = packets.ip_id, raw[packets.start - packets.header_bytes] >> 4 == 6
    if by_6.any():
        ip_id = np.where(by_6, _timestamps(raw, packets.start, header, captured_end, tcp), ip_id)
        datagram = by_6 & ~tcp
        found["seq"][datagram] = _digests(raw, packets.start[datagram], captured_end[datagram])
    payload = packets.ip_bytes - packets.header_bytes - header
    payload[~tcp] = (
        datagrams["length"].astype(np.int64) - _UDP_BYTES
    )  # of the whole datagram, if in fragments
    counters = _accecn(raw, packets.start + _LEAST_TCP, packets.start + header, captured_end, tcp)
    return pl.DataFrame(
        {
            "time_ns": records.time_ns[packets.record],
            "protocol": packets.protocol,
            "src_port": found["src_port"],
            "dst_port": found["dst_port"],
            "ip_bytes": packets.ip_bytes,
            "ip_id": ip_id,
            "ecn": packets.ecn,
            "seq": found["seq"],
            "ack": found["ack"],
            "flags": found["flags"] & 0x1FF,
            "payload_bytes": np.maximum(payload, 0),
            **counters,
        }
    ).cast(SCHEMA)


def _timestamps(
    raw: NDArray[np.uint8],
    start: NDArray[np.int64],
    header: NDArray[np.int64],
    captured_end: NDArray[np.int64],
    tcp: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Return the lowest 16 bits of TCP's timestamps, where Linux has them in packets with payload; else 0."""
    option = start + _LEAST_TCP + 2  # behind two of no operation
    there = tcp & (header >= _LEAST_TCP + _TIMESTAMP_ALONE) & (option + 6 <= captured_end)
    found = np.zeros(len(start), np.int64)
    at = option[there]
    value = raw[at + 4].astype(np.int64) << 8 | raw[at + 5]
    found[there] = np.where((raw[at] == _TIMESTAMP) & (raw[at + 1] == _TIMESTAMP_BYTES), value, 0)
    return found


def _digests(
    raw: NDArray[np.uint8], start: NDArray[np.int64], captured_end: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return a number of 32 bits for the first bytes of the payload of datagrams (FNV-1a)."""
    found = np.full(len(start), 2_166_136_261, np.uint64)
    for number in range(_UDP_BYTES, _UDP_BYTES + _DIGESTED_BYTES):
        there = start + number < captured_end
        byte = raw[np.minimum(start + number, len(raw) - 1)].astype(np.uint64)
        found = np.where(there, (found ^ byte) * np.uint64(16_777_619) & np.uint64(0xFFFF_FFFF), found)
    return found.astype(np.int64)


def _packets(raw: NDArray[np.uint8], start: NDArray[np.int64], end: NDArray[np.int64]) -> _Ip:
    """Return the IP packets of records from `start` to `end`, in order; of fragments only the first."""
    of4, of6 = _ipv4(raw, start, end), _ipv6(raw, start, end)
    if not len(of6.record):
        return of4
    both = _Ip(*(np.concatenate(pair) for pair in zip(of4, of6, strict=True)))
    return both.only(np.argsort(both.record, kind="stable"))


def _ipv4(raw: NDArray[np.uint8], start: NDArray[np.int64], end: NDArray[np.int64]) -> _Ip:
    record = np.flatnonzero(start + _FRAME.itemsize <= end)
    frames = _at(raw, start[record], _FRAME)
    header = (frames["version"] & 15).astype(np.int64) * 4
    good = (frames["kind"] == _IPV4) & (frames["version"] >> 4 == 4) & (header >= _LEAST_IPV4)
    good &= frames["fragment"] & 0x1FFF == 0
    return _Ip(
        record,
        start[record] + _ETHERNET_BYTES + header,
        frames["protocol"].astype(np.int64),
        frames["length"].astype(np.int64),
        header,
        frames["id"].astype(np.int64),
        (frames["tos"] & 3).astype(np.int64),
    ).only(good)


def _ipv6(raw: NDArray[np.uint8], start: NDArray[np.int64], end: NDArray[np.int64]) -> _Ip:
    record = np.flatnonzero(start + _FRAME6.itemsize <= end)
    kind = (raw[start[record] + 12].astype(np.int64) << 8) + raw[start[record] + 13]
    record = record[kind == _IPV6]
    frames = _at(raw, start[record], _FRAME6)
    first = frames["first"].astype(np.int64)
    protocol, at = frames["next"].astype(np.int64), start[record] + _FRAME6.itemsize
    good = first >> 28 == 6
    for _ in range(_MOST_EXTENSIONS):
        more = np.flatnonzero(
            np.isin(protocol, _EXTENSIONS) & (at + _EXTENSION.itemsize <= end[record]) & good
        )
        if not len(more):
            break
        headers = _at(raw, at[more], _EXTENSION)
        fragment = protocol[more] == _FRAGMENT
        good[more] = ~fragment | (headers["offset"] >> 3 == 0)
        at[more] += np.where(fragment, 8, (headers["length"].astype(np.int64) + 1) * 8)
        protocol[more] = headers["next"]
    header = at - start[record] - _ETHERNET_BYTES
    ip_bytes = frames["length"].astype(np.int64) + _IPV6_BYTES
    none = np.zeros(len(record), np.int64)
    return _Ip(record, at, protocol, ip_bytes, header, none, first >> 20 & 3).only(good)


def _accecn(
    raw: NDArray[np.uint8],
    begin: NDArray[np.int64],
    header_end: NDArray[np.int64],
    captured_end: NDArray[np.int64],
    tcp: NDArray[np.bool_],
) -> dict[str, pl.Series]:
    """Return the counters of every packet's AccECN option; options lie from `begin` to `header_end`."""
    found = {name: np.full(len(begin), -1, np.int64) for name in _COUNTERS}
    end = np.minimum(header_end, captured_end)
    at = begin.copy()
    active = np.flatnonzero(tcp & (at + _TIMESTAMP_ALONE <= end))
    first = _at(raw, begin[active], _OPTIONS)["first"]  # most packets begin with a timestamp
    at[active[first == _TIMESTAMP_FIRST]] += _TIMESTAMP_ALONE
    active = np.flatnonzero(tcp & (at < end))
    while len(active):  # a step is one option of every packet that has another
        here, last = at[active], end[active]
        kind = raw[here]
        length = np.where(here + 1 < last, raw[np.minimum(here + 1, last - 1)], 0).astype(np.int64)
        length[kind == _NO_OPERATION] = 1
        whole = (kind == _NO_OPERATION) | (length >= 2)
        whole &= (kind != _END_OF_OPTIONS) & (here + length <= last)
        for option, order in _ORDERS.items():
            for number, name in enumerate(order):
                has = active[whole & (kind == option) & (length >= 5 + 3 * number)]
                place = at[has] + 2 + 3 * number
                value = raw[place].astype(np.int64) << 16 | raw[place + 1].astype(np.int64) << 8
                found[name][has] = value | raw[place + 2]
        at[active] = here + length
        active = active[whole]
        active = active[at[active] < end[active]]
    return {name: _known(values) for name, values in found.items()}


def _known(values: NDArray[np.int64]) -> pl.Series:
    """Return a column with null for -1."""
    return pl.Series(values).replace(-1, None)
