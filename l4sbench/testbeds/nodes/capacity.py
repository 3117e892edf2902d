# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Capacity of a lab of booted nodes on this machine: one flow through delay and queue, at rising rates.

A rate counts as carried if it arrives and no node is late, as in a valid trial (docs/nodes.md).
The ports of each node are in a network namespace of their own meanwhile, so that nothing is left over.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, TypeAdapter, ValidationError

from l4sbench.errors import TestbedError
from l4sbench.facts.traits import MOST_LATE, late_share
from l4sbench.testbeds.nodes import carrying
from l4sbench.testbeds.nodes.plan import BASTION
from l4sbench.testbeds.ssh.hosts import CARRIES_NOTHING
from l4sbench.text.models import Strict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from l4sbench.testbeds.nodes.plan import NodePlan
    from l4sbench.topology import Topology

RATES_MBPS: Final = (10, 25, 50, 100)
LEAST_ARRIVED: Final = 0.9
"""Share of the rate that must arrive."""

_TRIED_MBPS: Final = (RATES_MBPS[0], *RATES_MBPS)
"""The first try does not count: in it, nodes that have just booted read their programs from the disk."""

_SECONDS: Final = 1.0
_RTT_MS: Final = 10
_LEAD_S: Final = 0.5
_READY_S: Final = 60.0
_ETHERNET: Final = 1514 / 1500
"""HTB counts Ethernet headers, a device's statistics do not."""

_SHELL: Final = """\
set -e
test ! -e /var/lib/l4sbench || { echo "trials have run on this node" >&2; exit 1; }
ip netns add measure
# a port of a deleted namespace comes back some time later, one that is moved at once
trap 'for port in "$@"; do ip -n measure link set "$port" netns 1 || true; done; ip netns del measure' EXIT
for port in "$@"; do ip link set "$port" netns measure; done
ip netns exec measure python3 -c "$PROGRAM" "$PART"
"""


class _Answer(BaseModel):
    late_ms: tuple[float, ...]
    received_mbps: float


_ANSWERS: Final = TypeAdapter(tuple[_Answer, ...])


class RateTry(Strict):
    """One rate: the share of it that arrived, and the latest node with the share of its late timers."""

    rate_mbps: int
    arrived: float
    late: float
    node: str

    @property
    def carried(self) -> bool:
        """True if a trial at this rate would have been valid."""
        return self.arrived >= LEAST_ARRIVED and self.late <= MOST_LATE


class Capacity(Strict):
    """The result of a measurement.

    Attributes:
        tries: The rates in rising order.
        cores: Cores of this machine that the lab may use.
        load: Its load average (one minute) when the measurement began.
    """

    tries: tuple[RateTry, ...]
    cores: int
    load: float

    @property
    def mbps(self) -> int | None:
        """The highest rate up to which all were carried; None if the lowest was not."""
        carried = None
        for tried in self.tries:
            if not tried.carried:
                break
            carried = tried.rate_mbps
        return carried

    @property
    def rate(self) -> str:
        """The same as hosts of an inventory state it: `25mbit`, or `none`."""
        return CARRIES_NOTHING if self.mbps is None else f"{self.mbps}mbit"

    def __str__(self) -> str:
        """Return the result in words."""
        cores = f"with {self.cores} cores and a load of {self.load:g}"
        lowest = self.tries[0]
        if self.mbps is None:
            return (
                f"the nodes do not carry {lowest.rate_mbps} Mbit/s in time {cores}: "
                f"{lowest.arrived:.0%} arrived, {lowest.late:.0%} of the timers of {lowest.node} were late"
            )
        beyond = next((tried for tried in self.tries if not tried.carried), None)
        more = "" if beyond is None else f", not {beyond.rate_mbps}"
        return f"the nodes carry {self.mbps} Mbit/s in time{more}, {cores}"


def measure(ssh_config: Path, topology: Topology, nodes: Sequence[NodePlan]) -> Capacity:
    """Measure a lab on whose nodes no trial has run yet; takes some seconds.

    Raises:
        TestbedError: A node did not take part, for example because trials have run on it.
    """
    load = os.getloadavg()[0]
    chosen = [node for node in nodes if node.name != BASTION]
    started = {node.name: _start(ssh_config, topology, node) for node in chosen}
    try:
        with ThreadPoolExecutor(len(started)) as pool:
            ready = dict(zip(started, pool.map(_first_line, started.values()), strict=True))
            if unready := [name for name, line in ready.items() if line != "ready\n"]:
                raise _failure(unready[0], started[unready[0]])
            began = f"{time.time() + _LEAD_S}\n"
            said = pool.map(lambda name: _answer(name, started[name], began), started)
            found = dict(zip(started, said, strict=True))
    finally:
        for process in started.values():
            process.kill()
            process.wait()
    receiver = topology.pairs[0].receiver
    tries = []
    for place, rate_mbps in enumerate(RATES_MBPS, start=1):
        late = {name: late_share(answer[place].late_ms) for name, answer in found.items()}
        worst = max(late, key=late.__getitem__)
        arrived = found[receiver][place].received_mbps * _ETHERNET / rate_mbps
        tries.append(
            RateTry(rate_mbps=rate_mbps, arrived=round(arrived, 3), late=round(late[worst], 3), node=worst)
        )
    return Capacity(tries=tuple(tries), cores=len(os.sched_getaffinity(0)), load=round(load, 1))


def _start(ssh_config: Path, topology: Topology, node: NodePlan) -> subprocess.Popen[str]:
    """Start a node's part."""
    own = topology.by_name[node.name]
    # interfaces are numbered in the order of the plan, management first
    ports = {port.network: f"vec{place}" for place, port in enumerate(node.ports) if port.network}
    pair, bottleneck = topology.pairs[0], topology.bottleneck_of(node.name)
    part = {
        "ports": [{"name": ports[port.network], "address": str(port)} for port in own.addresses],
        "routes": [[route.to, route.via] for route in own.routes],
        "delay_ms": _RTT_MS / topology.parts if node.name in topology.delays else 0,
        "queue": None if bottleneck is None else ports[bottleneck.network],
        "to": topology.by_name[pair.receiver].addresses[0].ip if node.name == pair.sender else None,
        "serves": node.name == pair.receiver,
        "rates_mbps": _TRIED_MBPS,
        "seconds": _SECONDS,
    }
    program = Path(carrying.__file__).read_text(encoding="utf-8")
    given = [f"PROGRAM={program}", f"PART={json.dumps(part)}"]
    remote = ["sudo", "env", *given, "sh", "-c", _SHELL, "sh", *ports.values()]
    return subprocess.Popen(
        ["ssh", "-F", str(ssh_config), node.name, shlex.join(remote)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _first_line(process: subprocess.Popen[str]) -> str:
    timer = threading.Timer(_READY_S, process.kill)
    timer.start()
    try:
        return process.stdout.readline() if process.stdout else ""
    finally:
        timer.cancel()


def _answer(name: str, process: subprocess.Popen[str], began: str) -> tuple[_Answer, ...]:
    try:
        said, _ = process.communicate(began, timeout=_READY_S + len(_TRIED_MBPS) * (_SECONDS + 1))
        return _ANSWERS.validate_json(said)
    except (subprocess.TimeoutExpired, ValidationError):
        raise _failure(name, process) from None


def _failure(name: str, process: subprocess.Popen[str]) -> TestbedError:
    process.kill()
    said = process.stderr.read().strip().splitlines() if process.stderr and not process.stderr.closed else []
    return TestbedError(f"cannot measure what the lab carries: {name}: {said[-1] if said else 'no answer'}")
