# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Text of `ss -tinemHO`, sampled on a real host, in the kernel's names and units.

The file holds one sample after the other. A sample begins with a line `@ <milliseconds since the start
instant>`, then comes what ss printed, one socket a line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from collectors.timed import timed_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

SS_FILE: Final = "ss.txt"

_OPTION_BITS: Final = {"ts": 1, "sack": 2, "ecn": 8, "ecnseen": 16, "fastopen": 32, "usec_ts": 64}
_RATE: Final = re.compile(r"([0-9.]+)([KMGT]?)bps(?:/\S+)?")
"""A rate; after the pacing rate follows the largest one that the program allows, if it does."""
_RATE_FACTORS: Final = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_PORT: Final = re.compile(r"\S+:([0-9]+|\*)$")
_ALPHA: Final = re.compile(r"alpha:([0-9]+)")


def _us(text: str) -> int:
    return round(float(text) * 1e3)


def _busy_us(text: str) -> int:
    """Convert `450ms` or `450ms(3.1%)`."""
    return round(float(text.partition("ms")[0]) * 1e3)


def _bytes_per_s(text: str) -> int:
    match = _RATE.fullmatch(text)
    if match is None:
        raise ValueError(f"no rate: {text}")
    return round(float(match[1]) * _RATE_FACTORS[match[2]] / 8)


_FIELDS: Final[Mapping[str, tuple[str, Callable[[str], int]]]] = {
    "minrtt": ("min_rtt", _us),
    "cwnd": ("snd_cwnd", int),
    "ssthresh": ("snd_ssthresh", int),
    "mss": ("snd_mss", int),
    "unacked": ("unacked", int),
    "lost": ("lost", int),
    "delivered": ("delivered", int),
    "delivered_ce": ("delivered_ce", int),
    "bytes_sent": ("bytes_sent", int),
    "bytes_acked": ("bytes_acked", int),
    "bytes_received": ("bytes_received", int),
    "segs_out": ("segs_out", int),
    "segs_in": ("segs_in", int),
    "data_segs_out": ("data_segs_out", int),
    "data_segs_in": ("data_segs_in", int),
    "snd_wnd": ("snd_wnd", int),
    "rcv_wnd": ("rcv_wnd", int),
    "busy": ("busy_time", _busy_us),
    "rwnd_limited": ("rwnd_limited", _busy_us),
    "sndbuf_limited": ("sndbuf_limited", _busy_us),
}
"""Word of ss -> field of the kernel, and how to convert the value. ss leaves out fields that are zero."""

_ZERO_WHEN_ABSENT: Final = (
    *("unacked", "lost", "delivered_ce", "total_retrans", "bytes_sent", "bytes_acked", "bytes_received"),
    *("data_segs_out", "data_segs_in", "busy_time", "rwnd_limited", "sndbuf_limited"),
)
_RATE_FIELDS: Final = ("pacing_rate", "delivery_rate")
"""Words of ss, the next one of which is a rate; fields of the kernel have the same names."""


def parse_ss(text: str) -> Iterator[dict[str, object]]:
    """Yield the rows of all samples.

    Raises:
        BadRawError: a line is neither the beginning of a sample nor a socket; the last line may be truncated.
    """
    orphan = "a socket before the first sample's time"
    return timed_rows(text, SS_FILE, lambda line: [parse_socket(line)], orphan)


def parse_socket(line: str) -> dict[str, object]:
    """Return one socket. Raises ValueError for a line that is not one."""
    words = line.split()
    if len(words) < 5:
        raise ValueError("no socket")
    local, remote = _PORT.match(words[3]), _PORT.match(words[4])
    if local is None or remote is None:
        raise ValueError("no addresses with ports")
    row: dict[str, object] = {"state": words[0], "lport": _port(local[1]), "rport": _port(remote[1])}
    row |= _congestion_control(words[5:])
    row |= dict.fromkeys(_ZERO_WHEN_ABSENT, 0)
    rate_field: str | None = None
    for word in words[5:]:
        name, colon, value = word.partition(":")
        if rate_field is not None:
            row[rate_field] = _bytes_per_s(word)
            rate_field = None
        elif word in _RATE_FIELDS:
            rate_field = word
        elif not colon:
            continue
        elif name == "rtt":
            rtt, _, rttvar = value.partition("/")
            row["rtt"], row["rttvar"] = _us(rtt), _us(rttvar)
        elif name == "retrans":
            row["total_retrans"] = int(value.partition("/")[2])
        elif name == "dctcp" and (alpha := _ALPHA.search(value)):
            row["alpha"] = float(alpha[1])
        elif name in _FIELDS:
            field, convert = _FIELDS[name]
            row[field] = convert(value)
    return row


def _port(text: str) -> int:
    return 0 if text == "*" else int(text)


def _congestion_control(words: list[str]) -> dict[str, object]:
    """Return options and the congestion control: the bare words between skmem and the first figure."""
    try:
        begin = next(i for i, word in enumerate(words) if word.startswith("skmem:")) + 1
    except StopIteration:
        begin = 0
    options = 0
    for word in words[begin:]:
        if word in _OPTION_BITS:
            options |= _OPTION_BITS[word]
        elif ":" in word:
            break
        elif word != "<->":
            return {"options": options, "cc": word}
    return {"options": options}
