# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""TCP sockets as the kernel tells of them by netlink (sock_diag), in the form of the lab's own sampler.

It tells what `ss` does not print, such as which kind of ECN was negotiated, and costs no process per sample.
A congestion control that lists its sockets in `/proc/net/tcp_<name>` (columns named in the first line, among
them `local` and `remote`) is asked too; its columns appear as `<name>_<column>`.
"""

from __future__ import annotations

import json
import socket
import struct
from pathlib import Path
from typing import Any, Iterator, Mapping

_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST, _NLM_F_DUMP = 1, 0x300
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_NETLINK_SOCK_DIAG = 4
_INFO, _VEGASINFO, _CONG, _DCTCPINFO = 2, 3, 4, 9
_STATES = {1: "ESTAB", 4: "FIN-WAIT-1", 5: "FIN-WAIT-2", 8: "CLOSE-WAIT", 9: "LAST-ACK", 11: "CLOSING"}
_MESSAGE = struct.Struct("=IHHII")
_DIAG_BYTES = 72  # struct inet_diag_msg

# offsets in struct tcp_info (include/uapi/linux/tcp.h), which the kernel only ever appends to
_U32 = {
    "snd_mss": 16,
    "unacked": 24,
    "lost": 32,
    "rtt": 68,
    "rttvar": 72,
    "snd_ssthresh": 76,
    "snd_cwnd": 80,
    "total_retrans": 100,
    "segs_out": 136,
    "segs_in": 140,
    "min_rtt": 148,
    "data_segs_in": 152,
    "data_segs_out": 156,
    "delivered": 192,
    "delivered_ce": 196,
    "snd_wnd": 228,
    "rcv_wnd": 232,
}
_U64 = {
    "pacing_rate": 104,
    "bytes_acked": 120,
    "bytes_received": 128,
    "delivery_rate": 160,
    "busy_time": 168,
    "rwnd_limited": 176,
    "sndbuf_limited": 184,
    "bytes_sent": 200,
}
_OPTIONS_AT = 5
_RECEIVED_CE_AT, _ECN_MODE_AT = 248, 276
"""AccECN, since Linux 7.0; other trees put other things there."""


class Diag:
    """Asks for the sockets of flows.

    Args:
        ports: Of the flows, at either end.
        accecn: Whether this kernel's struct tcp_info tells of AccECN where mainline's does.
    """

    def __init__(self, ports: set[int], *, accecn: bool) -> None:
        self._ports = ports
        self._accecn = accecn
        self._netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)
        self._netlink.settimeout(2)

    def close(self) -> None:
        """Ask no more."""
        self._netlink.close()

    def sockets(self) -> Iterator[dict[str, Any]]:
        """One map per socket that has one of the ports. Raises OSError."""
        own = _own_words()
        for family in (socket.AF_INET, socket.AF_INET6):
            for message in self._dump(family):
                found = self._socket(message)
                if found is not None:
                    yield {**found, **own.get((found["lport"], found["rport"]), {})}

    def _dump(self, family: int) -> Iterator[bytes]:
        extensions = sum(1 << (kind - 1) for kind in (_INFO, _VEGASINFO, _CONG))
        states = sum(1 << state for state in _STATES)
        body = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, extensions, 0, states) + bytes(48)
        head = _MESSAGE.pack(
            _MESSAGE.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST | _NLM_F_DUMP, 0, 0
        )
        self._netlink.send(head + body)
        while True:
            data = self._netlink.recv(1 << 18)
            at = 0
            while at + _MESSAGE.size <= len(data):
                length, kind, _, _, _ = _MESSAGE.unpack_from(data, at)
                if kind in {_NLMSG_DONE, _NLMSG_ERROR} or length < _MESSAGE.size:
                    return
                yield data[at + _MESSAGE.size : at + length]
                at += (length + 3) & ~3

    def _socket(self, message: bytes) -> dict[str, Any] | None:
        lport, rport = struct.unpack_from(">HH", message, 4)
        if not {lport, rport} & self._ports:
            return None
        attributes = dict(_attributes(message))
        info = attributes.get(_INFO)
        if info is None:
            return None
        found: dict[str, Any] = {
            "lport": lport,
            "rport": rport,
            "state": _STATES.get(message[1], "UNKNOWN"),
            "cc": attributes.get(_CONG, b"").rstrip(b"\0").decode(errors="replace") or None,
            "options": info[_OPTIONS_AT],
        }
        found.update(
            (n, struct.unpack_from("=I", info, at)[0]) for n, at in _U32.items() if at + 4 <= len(info)
        )
        found.update(
            (n, struct.unpack_from("=Q", info, at)[0]) for n, at in _U64.items() if at + 8 <= len(info)
        )
        if self._accecn and len(info) >= _ECN_MODE_AT + 4:
            found["received_ce"] = struct.unpack_from("=I", info, _RECEIVED_CE_AT)[0]
            found["ecn_mode"] = struct.unpack_from("=I", info, _ECN_MODE_AT)[0] & 3
        if len(attributes.get(_DCTCPINFO, b"")) >= 8:
            found["alpha"] = struct.unpack_from("=I", attributes[_DCTCPINFO], 4)[0]
        return found


def _attributes(message: bytes) -> Iterator[tuple[int, bytes]]:
    at = _DIAG_BYTES
    while at + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if length < 4:
            return
        yield kind, message[at + 4 : at + length]
        at += (length + 3) & ~3


def _own_words() -> dict[tuple[int, int], dict[str, Any]]:
    """What congestion controls themselves list of their sockets, by local and remote port."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for path in Path("/proc/net").glob("tcp_*"):
        try:
            head, *lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except (OSError, ValueError):
            continue
        cc, columns = path.name[len("tcp_") :], head.split()
        for line in lines:
            row = dict(zip(columns, line.split()))
            if {"local", "remote"} <= row.keys():
                ports = (_port(row.pop("local")), _port(row.pop("remote")))
                found[ports] = {f"{cc}_{name}": _value(word) for name, word in row.items() if word != "-"}
    return found


def _port(address: str) -> int:
    return int(address.rpartition(":")[2] or 0)


def _value(word: str) -> Any:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


def line(at_ms: float, node: str, found: Mapping[str, Any]) -> str:
    """A socket as a line of `sockets.jsonl`."""
    return json.dumps({"t_ms": round(at_ms, 3), "node": node, **found}) + "\n"
