# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""sch_ncf as a data plane under test: a router in the guest, whose ports have the queue.

The module is that of kernels/sch_ncf but for clock and depths, which come with each packet.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from l4sbench.disk.assets import folder
from l4sbench.testbeds.virtual.lab import Lab, with_modules
from l4sbench.testbeds.virtual.lab.lab import GUEST_MODULES
from tests.lab.guests import Script, boot
from tests.p4.packets import HOSTS
from tests.p4.reference import Outcome, Sent
from tests.p4.vectors import Arrival, Event, Preset

HERE = Path(__file__).parent
QUEUES = ("mice", "elephants")
ROUTER = "router"


def lab_under_test(lab: Lab, work: Path) -> Lab:
    """Return the lab with sch_ncf built for tests."""
    source = work / "sch_ncf"
    shutil.copytree(folder("kernels") / "sch_ncf", source)
    shutil.copy(HERE / "ncf_inputs.h", source)
    return with_modules(lab, {"sch_ncf": source})


def steps(runs: Iterable[Sequence[Event]]) -> Iterable[str]:
    """Yield the steps of the program `drive`; each run begins without any knowledge."""
    ports = {host.mac: host.port for host in HOSTS}
    for events in runs:
        yield "reset\n"
        for event in events:
            if isinstance(event, Preset):
                yield f"flows {event.flows}\n"
            else:
                out = ports[event.packet[:6]]
                yield f"packet {event.time_ns} {event.depth_bytes} {out} {event.packet.hex()}\n"


def _network() -> Script:
    """Return a script with the vectors' hosts at ports of a router, which knows them."""
    script = Script()
    script.line("module", GUEST_MODULES / "sch_ncf.ko", "-")
    for node in (ROUTER, *(f"host{host.port}" for host in HOSTS)):
        script.line("netns", node)
        for scope in ("all", "default"):
            script.line("sysctl", node, f"net/ipv6/conf/{scope}/disable_ipv6", 1)
    for host in HOSTS:
        node, port = f"host{host.port}", f"p{host.port}"
        address = ".".join(str(byte) for byte in host.ip)
        script.batch(
            *("-", "ip"),
            f"link add name {port} netns {node} type veth peer name {port} netns {ROUTER}",
        )
        script.batch(node, "ip", f"link set {port} address {host.mac.hex(':')} up")
        script.batch(
            *(ROUTER, "ip", f"link set {port} up", f"route add {address} dev {port}"),
            f"neigh add {address} lladdr {host.mac.hex(':')} dev {port}",
        )
    return script


def driven(lab: Lab, runs: Sequence[Sequence[Event]], work: Path, drive: Path) -> list[list[Outcome]]:
    """Return the outcomes of all arrivals of each run, from one guest."""
    script = _network()
    script.files["steps"] = "".join(steps(runs))
    names = [f"host{host.port}" for host in HOSTS]
    script.line("run", "-", 600_000, "steps", "outcomes", "/trial/drive", ROUTER, *names)
    outcome = boot(lab, script, work / "trial", programs=[drive])
    assert outcome.end["ok"], outcome.end
    lines = iter((outcome.folder / "outcomes").read_text().splitlines())
    return [[_outcome(next(lines)) for event in events if isinstance(event, Arrival)] for events in runs]


def _outcome(line: str) -> Outcome:
    queue, *frames = line.split()
    sent = (frame.split(":") for frame in frames)
    return Outcome(QUEUES[int(queue)], tuple(Sent(int(port), bytes.fromhex(frame)) for port, frame in sent))


def beyond_ethernet(outcome: Outcome) -> Outcome:
    """Return an outcome from the IP headers on: a queue does not make Ethernet's."""
    return Outcome(outcome.queue, tuple(Sent(one.port, one.packet[14:]) for one in outcome.sent))
