# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Packet captures as columns: pcap and pcapng files, plain or gzipped, of TCP over IPv4 over Ethernet.

Capture libraries make an object per packet, which takes minutes for the millions of packets of a trial. Here
only the chain of record lengths is followed packet by packet; each header field is then read for all packets
at once.

Formats: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng (section header, interface description and enhanced
packet blocks; other blocks are skipped).
"""

from __future__ import annotations

import gzip
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
from numpy.lib.stride_tricks import sliding_window_view

from collectors.collector import BadRawError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

GZIPPED: Final = ".gz"

_ETHERNET: Final = 1
_ETHERNET_BYTES: Final = 14
_IPV4: Final = 0x0800
_TCP: Final = 6
_LEAST_IP: Final = 20
_LEAST_TCP: Final = 20

_MICRO: Final = 0xA1B2C3D4
_NANO: Final = 0xA1B23C4D
_SECTION: Final = 0x0A0D0D0A
_BYTE_ORDER: Final = 0x1A2B3C4D
_INTERFACE: Final = 1
_ENHANCED: Final = 6
_ENHANCED_BYTES: Final = 32
_TSRESOL: Final = 9

SCHEMA: Final = pl.Schema(
    {
        "time_ns": pl.Int64(),
        "src_port": pl.UInt16(),
        "dst_port": pl.UInt16(),
        "ip_bytes": pl.UInt16(),
        "ip_id": pl.UInt16(),
        "ecn": pl.UInt8(),
        "seq": pl.UInt32(),
        "ack": pl.UInt32(),
        "flags": pl.UInt16(),
        "payload_bytes": pl.UInt16(),
    }
)
"""Columns of a capture. `time_ns` counts from the epoch; `ecn` is the IP header's codepoint (0 Not-ECT, 1
ECT(1), 2 ECT(0), 3 CE); `flags` has the nine bits from AE down to FIN; `ip_bytes` is the packet's length on
the wire from the IP header on, however much of it was captured."""


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


@dataclass(frozen=True)
class _Records:
    """Start offset, captured bytes and time of every packet of a file."""

    start: NDArray[np.int64]
    captured: NDArray[np.int64]
    time_ns: NDArray[np.int64]


def find_capture(folder: Path, name: str) -> Path | None:
    """Return the capture of that name in a folder, plain or gzipped; None when there is none."""
    for path in (folder / name, folder / (name + GZIPPED)):
        if path.is_file():
            return path
    return None


def read_capture(path: Path) -> pl.DataFrame:
    """Read the TCP packets of a capture in file order, with the columns of `SCHEMA`; skip other packets.

    A last record that is cut short is skipped too.

    Raises:
        BadRawError: the file is not a capture, is damaged, or is not from Ethernet.
    """
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == GZIPPED else path.read_bytes()
    except (EOFError, gzip.BadGzipFile, OSError) as error:
        raise BadRawError(f"{path.name}: {error}") from error
    if len(data) < 8:
        raise BadRawError(f"{path.name}: the capture is empty")
    try:
        records = _pcapng(data) if struct.unpack("<I", data[:4])[0] == _SECTION else _pcap(data)
    except (struct.error, ValueError) as error:
        raise BadRawError(f"{path.name}: {error}") from error
    return _columns(np.frombuffer(data, np.uint8), records)


def _pcap(data: bytes) -> _Records:
    for order in "<>":
        (magic,) = struct.unpack(f"{order}I", data[:4])
        if magic in {_MICRO, _NANO}:
            break
    else:
        raise ValueError("neither pcap nor pcapng")
    (link,) = struct.unpack(f"{order}I", data[20:24])
    _check_link(link & 0xFFFF)
    starts: list[int] = []
    length = struct.Struct(f"{order}I").unpack_from
    at, end = 24, len(data)
    while at + 16 <= end:
        following: int = at + 16 + length(data, at + 8)[0]
        if following > end:
            break
        starts.append(at)
        at = following
    head = np.array(starts, np.int64)
    names = ("second", "fraction", "captured", "length")
    found = _at(np.frombuffer(data, np.uint8), head, np.dtype([(name, f"{order}u4") for name in names]))
    second, fraction, captured = (found[name].astype(np.int64) for name in names[:3])
    return _Records(head + 16, captured, second * 1_000_000_000 + fraction * (1000 if magic == _MICRO else 1))


def _pcapng(data: bytes) -> _Records:
    order = "<"
    ticks_per_s: list[int] = []
    starts: list[int] = []
    resolution: list[int] = []
    at, end = 0, len(data)
    while at + 12 <= end:
        if data[at : at + 4] == b"\n\r\r\n":
            order = "<" if struct.unpack_from("<I", data, at + 8)[0] == _BYTE_ORDER else ">"
            ticks_per_s = []
        kind, length = struct.unpack_from(f"{order}II", data, at)
        if length < 12 or length % 4:
            raise ValueError(f"a block of {length} bytes at byte {at}")
        if at + length > end:
            break
        if kind == _INTERFACE:
            _check_link(struct.unpack_from(f"{order}H", data, at + 8)[0])
            ticks_per_s.append(_ticks_per_s(data[at + 16 : at + length - 4], order))
        elif kind == _ENHANCED:
            if length < _ENHANCED_BYTES:
                raise ValueError(f"a packet block of {length} bytes at byte {at}")
            (interface,) = struct.unpack_from(f"{order}I", data, at + 8)
            if interface >= len(ticks_per_s):
                raise ValueError(f"a packet of interface {interface}, which the file does not declare")
            starts.append(at)
            resolution.append(ticks_per_s[interface])
        at += length
    head = np.array(starts, np.int64)
    names = ("high", "low", "captured")
    found = _at(np.frombuffer(data, np.uint8), head + 12, np.dtype([(name, f"{order}u4") for name in names]))
    high, low, captured = (found[name].astype(np.int64) for name in names)
    per_s = np.array(resolution, np.int64)
    ticks = (high << 32) + low
    second, rest = np.divmod(ticks, per_s) if len(head) else (ticks, ticks)
    return _Records(
        head + 28, captured, second * 1_000_000_000 + (rest * 1_000_000_000 // per_s if len(head) else rest)
    )


def _ticks_per_s(options: bytes, order: str) -> int:
    """Ticks per second of an interface's times: 10^n or 2^n by its option, microseconds by default."""
    at = 0
    while at + 4 <= len(options):
        code, length = struct.unpack_from(f"{order}HH", options, at)
        if code == _TSRESOL and length == 1:
            value = options[at + 4]
            ticks: int = 2 ** (value & 0x7F) if value & 0x80 else 10**value
            if ticks > 1_000_000_000:
                raise ValueError("times finer than nanoseconds")
            return ticks
        at += 4 + (length + 3) // 4 * 4
    return 1_000_000


def _check_link(link: int) -> None:
    if link != _ETHERNET:
        raise ValueError(f"link type {link} is not Ethernet")


def _at(raw: NDArray[np.uint8], start: NDArray[np.int64], kind: np.dtype[np.void]) -> NDArray[np.void]:
    """Return the headers of this kind that begin at these offsets."""
    if len(start) == 0:
        return np.zeros(0, kind)
    return np.ascontiguousarray(sliding_window_view(raw, kind.itemsize)[start]).view(kind)[:, 0]


def _columns(raw: NDArray[np.uint8], records: _Records) -> pl.DataFrame:
    start, captured, time_ns = records.start, records.captured, records.time_ns
    whole = captured >= _ETHERNET_BYTES + _LEAST_IP + _LEAST_TCP
    start, captured, time_ns = start[whole], captured[whole], time_ns[whole]
    frames = _at(raw, start, _FRAME)
    header = (frames["version"] & 15).astype(np.int64) * 4
    is_tcp = (frames["kind"] == _IPV4) & (frames["version"] >> 4 == 4) & (frames["protocol"] == _TCP)
    first_fragment = frames["fragment"] & 0x1FFF == 0
    there = _ETHERNET_BYTES + header + _LEAST_TCP <= captured
    good = is_tcp & first_fragment & there & (header >= _LEAST_IP)
    frames, header = frames[good], header[good]
    segments = _at(raw, start[good] + _ETHERNET_BYTES + header, _SEGMENT)
    payload = frames["length"].astype(np.int64) - header - (segments["flags"] >> 12).astype(np.int64) * 4
    return pl.DataFrame(
        {
            "time_ns": time_ns[good],
            "src_port": segments["src_port"].astype(np.uint16),
            "dst_port": segments["dst_port"].astype(np.uint16),
            "ip_bytes": frames["length"].astype(np.uint16),
            "ip_id": frames["id"].astype(np.uint16),
            "ecn": frames["tos"] & 3,
            "seq": segments["seq"].astype(np.uint32),
            "ack": segments["ack"].astype(np.uint32),
            "flags": segments["flags"].astype(np.uint16) & 0x1FF,
            "payload_bytes": np.maximum(payload, 0),
        }
    ).cast(SCHEMA)
