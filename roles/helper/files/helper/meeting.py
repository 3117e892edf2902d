# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The agreement of a trial's nodes on a start: over the experiment's own networks, by UDP.

Every node reports to the keeper (the router) when it is ready, and requests its time with each message. When
all are ready the keeper proposes an instant on its own monotonic clock, and each node repeats it. Once all
have done so in the first half of the time until then, the start is agreed; otherwise the keeper proposes a
later one, twice as far away, as a busy host may pause for longer than the time was. Every node converts the
agreed instant to its own clock: by Cristian's algorithm the offset of the clocks is the keeper's time minus
the middle of the exchange with the shortest round trip (F. Cristian, Probabilistic clock synchronization,
1989). Wall clocks do not matter, and a path with equal delays both ways costs no accuracy. A node that delays
what it sends has exchanges before it does (`exchanged`), which are shorter and so count.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from dataclasses import dataclass
from typing import Any, Sequence

from system import Failed

PORT = 4989
LEAD_S = 2.0
"""Time from the last node's readiness to the first start that is proposed."""
PATIENCE_S = 45.0
"""Limit for a ready node to wait for the others."""
_EXCHANGES = 8
_SOON_NS = 400_000_000
"""A start that is as near as this is kept with fewer exchanges, too; their round trip states the accuracy."""
_PKTINFO = getattr(socket, "IP_PKTINFO", 8)  # Python has a name for it from 3.12 on
_INFO = struct.Struct("I4s4s")
"""`struct in_pktinfo`: interface, own address, address in the header (ip(7))."""
_LINGER_S = 3.0


@dataclass(frozen=True)
class Start:
    """The start instant on this node's monotonic clock, and its accuracy, all in nanoseconds."""

    at_ns: int
    offset_ns: int
    round_trip_ns: int


class Meeting(threading.Thread):
    """Thread on the router that answers the nodes of one trial."""

    def __init__(self, trial: str, nodes: Sequence[str], *, ipv6: bool = False) -> None:
        super().__init__(name="keeper", daemon=True)
        self._trial = trial
        self._nodes = tuple(nodes)
        self._waiting = set(nodes)
        self._abort: str | None = None
        self._lead_ns = int(LEAD_S * 1e9)
        self._start_ns: int | None = None
        self._unaware: set[str] = set()
        """Nodes that have not repeated the start that is proposed."""
        self._end_ns: int | None = None
        self._socket = socket.socket(socket.AF_INET6 if ipv6 else socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if not ipv6:
            self._socket.setsockopt(socket.IPPROTO_IP, _PKTINFO, 1)
        self._socket.settimeout(0.1)
        try:
            self._socket.bind(("", PORT))
        except OSError as error:
            raise Failed(f"cannot use UDP port {PORT}: {error.strerror}") from error

    def abort(self, reason: str) -> None:
        """Report to the nodes that nothing will start, for some seconds."""
        self._abort = self._abort or reason
        self._end_ns = time.monotonic_ns() + int(_LINGER_S * 1e9)

    def linger(self) -> None:
        """Wait until the nodes know."""
        self.join(_LINGER_S + 1)

    def run(self) -> None:
        """Answer until some time after the start."""
        while self._end_ns is None or time.monotonic_ns() < self._end_ns:
            self._propose()
            try:
                data, more, _, sender = self._socket.recvmsg(2048, socket.CMSG_SPACE(_INFO.size))
                asked = json.loads(data)
            except (socket.timeout, ValueError):
                continue
            except OSError:
                return
            if isinstance(asked, dict) and asked.get("trial") == self._trial:
                self._hear(asked)
                self._answer(asked, sender, more)
        self._socket.close()

    def _hear(self, asked: dict[str, Any]) -> None:
        if asked.get("failed") and self._abort is None:
            self.abort(f"{asked.get('node')}: {asked['failed']}")
        if asked.get("ready"):
            self._waiting.discard(str(asked.get("node")))
        self._propose()
        if self._start_ns is not None and asked.get("start") == self._start_ns:
            self._unaware.discard(str(asked.get("node")))

    def _propose(self) -> None:
        """Propose a start as soon as all nodes are ready, and a later one if that is not agreed in time."""
        if self._waiting or self._abort is not None:
            return
        now_ns = time.monotonic_ns()
        if self._start_ns is not None:
            if not self._unaware or now_ns < self._start_ns - self._lead_ns // 2:
                return
            self._lead_ns *= 2
        self._start_ns = now_ns + self._lead_ns
        self._unaware = set(self._nodes)
        self._end_ns = self._start_ns + int(_LINGER_S * 1e9)

    def _answer(self, asked: dict[str, Any], sender: Any, more: list[tuple[int, int, bytes]]) -> None:
        """Answer; by IPv4 from the address of the request: hosts may drop others' packets (rp_filter)."""
        answer = {
            "trial": self._trial,
            "sent": asked.get("sent"),
            "now": time.monotonic_ns(),
            "start": self._start_ns,
            "agreed": self._start_ns is not None and not self._unaware,
            "abort": self._abort,
            "waiting": sorted(self._waiting)[:8],
        }
        own = [_INFO.unpack(info)[2] for *kind, info in more if kind == [socket.IPPROTO_IP, _PKTINFO]]
        source = [(socket.IPPROTO_IP, _PKTINFO, _INFO.pack(0, address, bytes(4))) for address in own]
        try:
            self._socket.sendmsg([json.dumps(answer).encode()], source, 0, sender)
        except OSError:
            return


def exchanged(trial: str, node: str, address: str) -> tuple[int, int]:
    """Return round trip and offset of the shortest exchange with the keeper, before this node is ready.

    Raises:
        Failed: another node failed, or the keeper did not answer.
    """
    deadline = time.monotonic() + PATIENCE_S
    found: list[tuple[int, int]] = []
    sent: set[int] = set()
    with socket.socket(_family(address), socket.SOCK_DGRAM) as own:
        own.settimeout(0.1)
        while time.monotonic() < deadline and len(found) < _EXCHANGES:
            got = _exchange(own, address, sent, {"trial": trial, "node": node})
            if got is not None:
                _raise_abort(got[0])
                found.append(got[1:])
                time.sleep(0.02)
    if not found:
        raise _silent(node, address)
    return min(found)


def attend(
    trial: str,
    node: str,
    address: str,
    *,
    failed: str | None = None,
    same_clock: bool = False,
    before: tuple[int, int] | None = None,
) -> Start:
    """Report to the keeper at `address` that this node is ready, or why it failed, and return the start.

    With `same_clock` the keeper is on this host, so that the offset is known to be none. `before` is what
    `exchanged` returned.

    Raises:
        Failed: another node failed, or the keeper did not answer, or too late.
    """
    deadline = time.monotonic() + (PATIENCE_S if failed is None else _LINGER_S)
    best = before
    heard = 0
    answer: dict[str, Any] = {}
    sent: set[int] = set()
    asked = {"trial": trial, "node": node, "ready": failed is None, "failed": failed}
    with socket.socket(_family(address), socket.SOCK_DGRAM) as own:
        own.settimeout(0.1)
        while time.monotonic() < deadline:
            got = _exchange(own, address, sent, {**asked, "start": answer.get("start")})
            if got is not None:
                answer, round_trip_ns, offset_ns = got[0], got[1], 0 if same_clock else got[2]
                heard += 1
                if best is None or round_trip_ns < best[0]:
                    best = (round_trip_ns, offset_ns)
                _raise_abort(answer)
            if answer.get("agreed") and best is not None:
                # on a busy host most answers come too late to count; the start does not wait for more
                soon = answer["start"] - best[1] - time.monotonic_ns() < _SOON_NS
                if heard >= _EXCHANGES or soon:
                    return _start(answer["start"], best)
            if got is not None:
                time.sleep(0.02 if heard < _EXCHANGES else 0.1)
    if not heard:
        raise _silent(node, address)
    waiting = ", ".join(answer.get("waiting", [])) or "a start that every node heard of in time"
    raise Failed(f"{node} was ready and waited {PATIENCE_S:g} s for {waiting}", secondary=True)


def _start(start_ns: int, best: tuple[int, int]) -> Start:
    at_ns = start_ns - best[1]
    if at_ns < time.monotonic_ns():
        reason = "received the start instant after it had passed: the network or the host is too slow"
        raise Failed(reason, missed=True)
    return Start(at_ns, best[1], best[0])


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _raise_abort(answer: dict[str, Any]) -> None:
    if answer.get("abort"):
        raise Failed(f"not started, as elsewhere: {answer['abort']}", secondary=True)


def _silent(node: str, address: str) -> Failed:
    reason = f"{address}, where the trial's time is kept, does not answer {node} (UDP port {PORT})"
    return Failed(reason, secondary=True)


def _exchange(
    own: socket.socket, address: str, sent: set[int], asked: dict[str, Any]
) -> tuple[dict[str, Any], int, int] | None:
    """Send one request, and wait a little for an answer.

    `sent` has when requests were sent that are not answered yet: a path's round trip may be longer than the
    wait, so that the answer to an earlier one comes.

    Returns:
        The answer, the round trip, and the keeper's clock minus ours; None if there was no answer in time.
    """
    sent_ns = time.monotonic_ns()
    try:
        own.sendto(json.dumps({**asked, "sent": sent_ns}).encode(), (address, PORT))
        sent.add(sent_ns)
    except OSError:
        time.sleep(0.1)
        return None
    while True:
        try:
            answer = json.loads(own.recv(2048))
        except (socket.timeout, ValueError):
            return None
        except OSError:  # a refused port shows here; the keeper may not have started yet
            time.sleep(0.1)
            return None
        here_ns = time.monotonic_ns()
        ours = isinstance(answer, dict) and answer.get("trial") == asked["trial"]
        asked_ns = answer.get("sent") if ours else None
        if isinstance(asked_ns, int) and asked_ns in sent:
            sent.remove(asked_ns)
            return answer, here_ns - asked_ns, int(answer["now"]) - (asked_ns + here_ns) // 2
