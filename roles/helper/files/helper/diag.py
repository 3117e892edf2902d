# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""TCP sockets as the kernel reports them by netlink (sock_diag), in the form of the lab's own sampler.

This has what `ss` does not print, such as the kind of ECN that was negotiated, and needs no process per
sample. A congestion control may list its sockets in `/proc/net/tcp_<name>`, with the names of the columns in
the first line, among them `local` and `remote`; its other columns are added as `<name>_<column>`.
"""

from __future__ import annotations

import json
import socket
import struct
from pathlib import Path
from typing import Any, Iterator, Mapping

from netlink import Netlink, attributes

_SOCK_DIAG_BY_FAMILY = 20
_NETLINK_SOCK_DIAG = 4
_INFO, _VEGASINFO, _CONG, _DCTCPINFO = 2, 3, 4, 9
_STATES = {1: "ESTAB", 4: "FIN-WAIT-1", 5: "FIN-WAIT-2", 8: "CLOSE-WAIT", 9: "LAST-ACK", 11: "CLOSING"}
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
    """Requests the sockets of flows.

    Args:
        ports: Of the flows, at either end.
        accecn: True if this kernel's struct tcp_info has AccECN where mainline's has it.
    """

    def __init__(self, ports: set[int], *, accecn: bool) -> None:
        self._ports = ports
        self._accecn = accecn
        self._netlink = Netlink(_NETLINK_SOCK_DIAG)

    def close(self) -> None:
        """End the requests."""
        self._netlink.close()

    def sockets(self) -> Iterator[dict[str, Any]]:
        """Yield one map per socket that has one of the ports. Raises OSError."""
        exported = _exported()
        extensions = sum(1 << (kind - 1) for kind in (_INFO, _VEGASINFO, _CONG))
        states = sum(1 << state for state in _STATES)
        for family in (socket.AF_INET, socket.AF_INET6):
            body = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, extensions, 0, states) + bytes(48)
            for message in self._netlink.dump(_SOCK_DIAG_BY_FAMILY, body):
                found = self._socket(message)
                if found is not None:
                    yield {**found, **exported.get((found["lport"], found["rport"]), {})}

    def _socket(self, message: bytes) -> dict[str, Any] | None:
        lport, rport = struct.unpack_from(">HH", message, 4)
        if not {lport, rport} & self._ports:
            return None
        given = attributes(message, _DIAG_BYTES)
        info = given.get(_INFO)
        if info is None:
            return None
        found: dict[str, Any] = {
            "lport": lport,
            "rport": rport,
            "state": _STATES.get(message[1], "UNKNOWN"),
            "cc": given.get(_CONG, b"").rstrip(b"\0").decode(errors="replace") or None,
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
        if len(given.get(_DCTCPINFO, b"")) >= 8:
            found["alpha"] = struct.unpack_from("=I", given[_DCTCPINFO], 4)[0]
        return found


def _exported() -> dict[tuple[int, int], dict[str, Any]]:
    """Return the state that congestion controls list of their sockets, by local and remote port."""
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
    """Return a socket as a line of `sockets.jsonl`."""
    return json.dumps({"t_ms": round(at_ms, 3), "node": node, **found}) + "\n"
