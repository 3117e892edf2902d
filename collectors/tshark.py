# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Captures as tshark reads them, for those that `collectors.pcap` refuses: other links, finer times."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Final

import polars as pl

from collectors.collector import BadRawError

if TYPE_CHECKING:
    from pathlib import Path

FIELDS: Final = (
    *("frame.time_epoch", "tcp.srcport", "tcp.dstport", "udp.srcport", "udp.dstport", "ip.len", "ipv6.plen"),
    *("ip.id", "ip.dsfield.ecn", "ipv6.tclass.ecn", "tcp.seq_raw", "tcp.ack_raw", "tcp.flags", "tcp.len"),
    *("udp.length", "tcp.options"),
)
"""Fields of a packet by tshark's names; of one that occurs twice, as in tunnels, the first is meant."""

_LIMIT_S: Final = 600.0
_PREFERENCES: Final = ("tcp.desegment_tcp_streams:FALSE", "ip.defragment:FALSE", "ipv6.defragment:FALSE")


class NoTshark(Exception):  # noqa: N818  it names a state
    """tshark is not installed."""


def by_tshark(path: Path) -> pl.DataFrame:
    """Return one row per packet of a capture with the fields `FIELDS` as text, null where a packet has none.

    Raises:
        NoTshark: tshark is not installed.
        BadRawError: tshark cannot read the file, or does not end.
    """
    tool = shutil.which("tshark")
    if tool is None:
        raise NoTshark
    asked = (word for field in FIELDS for word in ("-e", field))
    preferences = (word for preference in _PREFERENCES for word in ("-o", preference))
    how = ("-n", "-T", "fields", "-E", "separator=/t", "-E", "occurrence=f", *asked, *preferences)
    argv = [tool, "-r", str(path.absolute()), *how]
    try:
        ended = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise BadRawError(f"{path.name}: tshark did not end within {_LIMIT_S:g} s") from error
    if ended.returncode:
        said = ended.stderr.decode(errors="replace").strip()[-300:]
        raise BadRawError(f"{path.name}: tshark ended with code {ended.returncode}: {said}")
    return parse_fields(ended.stdout)


def parse_fields(text: bytes) -> pl.DataFrame:
    """Parse what tshark prints of `FIELDS`: a line per packet, fields separated by tabs."""
    schema = dict.fromkeys(FIELDS, pl.String())
    if not text.strip():
        return pl.DataFrame(schema=schema)
    return pl.read_csv(
        text, separator="\t", has_header=False, schema=schema, quote_char=None, encoding="utf8-lossy"
    )
