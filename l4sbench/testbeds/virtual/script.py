# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Programs of all nodes -> the one script that the guest's init executes (docs/guest.md).

All nodes of a topology are network namespaces of one guest. A port of a node is an interface with the
network's name, of the kind `wire` (kernels/lab/wire), which joins all interfaces of one name. Running a
program in the guest costs 2 to 7 ms of processor time: init does by itself what takes a system call, and
commands of `ip` and `tc` go to them in batches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from l4sbench.errors import InputError, Problem
from l4sbench.program.trial import draw_unit
from l4sbench.testbeds.virtual.lab import GUEST_BIN, GUEST_MODULES
from l4sbench.topology import mac_of
from l4sbench.traffic import EXECUTABLE, FOLDER, INPUT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from l4sbench.catalog import Exports
    from l4sbench.program import Change, Program, Readback
    from l4sbench.topology import Topology

WIRE: Final = "wire"
"""Kernel module of the networks, and the kind of their interfaces."""
SINK: Final = "lab_sink"
"""Kernel module that discards what the receivers of the lean traffic tool get."""

READ_BY_INIT: Final = frozenset({"uname", "sysctl", "ethtool", "grep"})
"""Programs whose read-backs init writes without starting them."""

OF_ONE_NODE: Final = frozenset({"sysctl", "port", "offloads", "neighbour", "route", "read"})
"""Instructions that init carries out in the node that their first field names."""

PROGRAMS: Final = ".programs"
"""Folder of a trial, while it runs, with the user's own programs that it starts; no node has such a name."""

MANY_ROWS: Final = "65536"
"""Rows of the nodes' tables of TCP connections where a flood opens tens of thousands."""

_PAGES_OF_A_MB: Final = 256

SETUP_LIMIT_MS: Final = 10_000
LEAD_MS: Final = 100
"""Time from the last preparation to the start instant, before rounding up to a whole second."""
READ_AFTER_NS: Final = 1_000_000
"""Time from a change to its read-back; programs of one instant do not wait for each other."""
GRACE_S: Final = 5.0
"""Time that a flow may take to close after its planned end."""


@dataclass(frozen=True)
class GuestScript:
    """The script, and the files it reads, both relative to the trial's raw folder.

    `changes` are what events change, with the node, by the line whose program completes it.
    """

    text: str
    files: Mapping[str, str]
    folders: tuple[str, ...]
    changes: Mapping[int, tuple[str, Change]] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write the script, the files it reads and the folders of its outputs into a trial's raw folder."""
        for name in self.folders:
            (folder / name).mkdir(exist_ok=True)
        for name, text in self.files.items():
            (folder / name).write_text(text, encoding="utf-8")
        (folder / "script").write_text(self.text, encoding="utf-8")

    def explain(self, reason: str) -> str:
        """Return init's reason for a failure, with node and command instead of the line of the script."""
        at = re.match(r"line (\d+): ", reason)
        if not at:
            return reason
        instruction, *fields = self.text.splitlines()[int(at[1]) - 1].split("\t")
        if instruction in OF_ONE_NODE:
            return f"{reason[at.end() :]} (on {fields[0]}: {' '.join((instruction, *fields[1:]))})"
        if instruction in {"at", "daemon"}:
            command = fields[4:] if instruction == "at" else fields[3:]
            return f"{reason[at.end() :].strip()} (on {fields[0]}: {' '.join(command)})"
        if instruction != "run":
            return reason
        node, _, stdin, _, *argv = fields
        failed = re.search(r"Command failed -:(\d+)", reason)
        if failed and stdin in self.files:
            argv = [argv[0], self.files[stdin].splitlines()[int(failed[1]) - 1]]
        return f"{reason[at.end() :].strip()} (on {node}: {' '.join(argv)})"


def guest_script(
    programs: Mapping[str, Program],
    topology: Topology,
    linux: Sequence[str] = (),
    *,
    seed: int = 0,
    tcp_mb: int | None = None,
    session: Sequence[str] = (),
    session_ms: int = 0,
) -> GuestScript:
    """Compile the programs of one trial.

    `linux` are modules of Linux to load, in load order. `seed` draws when samples begin, at most an interval
    after the start instant. `tcp_mb` is the memory for TCP, of all nodes together; None: the kernel's choice.
    `session` is a program that runs after the setup in place of flows, for up to `session_ms`.

    Raises:
        InputError: two nodes need different parameters of one kernel module; all nodes share a kernel.
    """
    writer = _Writer()
    if tcp_mb is not None:
        pages = str(tcp_mb * _PAGES_OF_A_MB)
        writer.line("sysctl", "-", "net/ipv4/tcp_mem", f"{pages} {pages} {pages}")
    _build(writer, programs, topology, linux)
    if session:
        writer.line("run", "-", str(session_ms), "-", "-", *session)
        return GuestScript(writer.text(), writer.files, tuple(programs))
    for node, program in programs.items():
        for server in program.servers:
            out = f"{node}/{server.output}"
            writer.line("daemon", node, out, f"{out}.stderr", *_of_flow(node, server.argv))
    writer.line("start", str(LEAD_MS))
    changes = _changes(writer, programs)
    _flows(writer, programs, seed)
    for node, program in programs.items():
        for reading in program.readback:
            _read_back(writer, node, reading)
    return GuestScript(writer.text(), writer.files, tuple(programs), changes)


def _changes(writer: _Writer, programs: Mapping[str, Program]) -> dict[int, tuple[str, Change]]:
    """Write what events change, at their instants, and read it back just after."""
    found: dict[int, tuple[str, Change]] = {}
    for node, program in programs.items():
        for change in program.changes:
            out = f"{node}/{change.readback.output}"
            for argv in change.commands:
                number = writer.line("at", node, str(change.at.ns), "-", "-", *_local(argv))
                found[number] = node, change
            then = str(change.at.ns + READ_AFTER_NS)
            writer.line("at", node, then, out, f"{out}.stderr", *_local(change.readback.argv))
    return found


def _read_back(writer: _Writer, node: str, reading: Readback) -> None:
    out, argv = f"{node}/{reading.output}", _local(reading.argv)
    if argv[0] in READ_BY_INIT:
        writer.line("read", node, out, *argv)
    else:
        writer.line("run", node, str(SETUP_LIMIT_MS), "-", out, *argv)


def _build(
    writer: _Writer, programs: Mapping[str, Program], topology: Topology, linux: Sequence[str]
) -> None:
    """Write namespaces, modules and links, then every node's own settings."""
    flows = (run for program in programs.values() for run in program.flows)
    rows = (MANY_ROWS,) if any(run.kind.many_open for run in flows) else ()
    for name in programs:
        writer.line("netns", name, *rows)
    for module, params in _modules(programs, linux).items():
        writer.line("module", str(GUEST_MODULES / f"{module}.ko"), " ".join(params) or "-")
    writer.batch("-", "links", "ip", _link_lines(topology))
    for node, program in programs.items():
        _prepare(writer, node, program, _neighbours(topology, node))


def _prepare(writer: _Writer, node: str, program: Program, neighbours: Sequence[tuple[str, str]]) -> None:
    """Write sysctls before links come up, links before routes, offloads before anything is queued."""
    for key, value in program.sysctls:
        writer.line("sysctl", node, key.replace(".", "/"), value)
    for link in program.links:
        mac = mac_of(link.address.partition("/")[0])
        writer.line("port", node, link.network, mac, link.address)
        flags = [word for name, on in link.offloads for word in (name, "on" if on else "off")]
        writer.line("offloads", node, link.network, *flags)
    for network, address in neighbours:
        writer.line("neighbour", node, network, address, mac_of(address))
    for route in program.routes:
        if not route.options:
            writer.line("route", node, route.to, route.via)
    with_options = [route for route in program.routes if route.options]
    lines = [" ".join(("route add", route.to, "via", route.via, *route.options)) for route in with_options]
    writer.batch(node, f"{node}/ip", "ip", lines)
    batch: list[str] = []
    for number, command in enumerate(program.setup):
        argv = _local(command.argv)
        if argv[0] == "tc" and not any(" " in word for word in argv):
            batch.append(" ".join(argv[1:]))
            continue
        writer.batch(node, f"{node}/tc-{number}", "tc", batch)
        batch = []
        writer.line("run", node, str(int(command.timeout_s * 1000)), "-", "-", *argv)
    writer.batch(node, f"{node}/tc", "tc", batch)


def _flows(writer: _Writer, programs: Mapping[str, Program], seed: int) -> None:
    """Write flows and the sampler at their instants, and how long to wait for them."""
    end_ns = 0
    for node, program in programs.items():
        for flow in program.flows:
            out = f"{node}/{flow.output}"
            argv = _of_flow(node, flow.argv)
            if INPUT in flow.argv:  # which may be empty
                name = f"{node}/flow-{flow.flow}.input"
                writer.files[name] = flow.input
                argv = [f"/trial/{name}" if word == INPUT else word for word in argv]
            writer.line("at", node, str(flow.start.ns), out, f"{out}.stderr", *argv)
            end_ns = max(end_ns, flow.start.ns + int(flow.seconds * 1e9))
    sampler = _sampler_argv(programs, end_ns, seed)
    if sampler:
        writer.line("at", "-", "0", "-", "sampler.stderr", *sampler)
    writer.line("wait", str(end_ns + int(GRACE_S * 1e9)))


def _sampler_argv(programs: Mapping[str, Program], end_ns: int, seed: int) -> list[str]:
    sockets: list[str] = []
    queues: list[str] = []
    layouts: list[str] = []
    intervals_ms: set[int] = set()
    for node, program in programs.items():
        for sampler in program.samplers:
            intervals_ms.add(max(1, sampler.interval.ns // 1_000_000))
            if sampler.kind == "sockets":
                sockets.append(node)
            else:
                queues.append(f"{node}:{sampler.network}")
                layouts += map(layout, sampler.exports)
    if not intervals_ms:
        return []
    interval_ms = min(intervals_ms)
    argv = [str(GUEST_BIN / "lab-sampler"), "--interval-ms", str(interval_ms)]
    argv += ["--offset-us", str(int(draw_unit(seed, "samples") * interval_ms * 1000))]
    argv += ["--seconds", str(-(-end_ns // 1_000_000_000))]
    if sockets:
        argv += ["--sockets-of", ",".join(sockets), "--out-sockets", "/trial/sockets.jsonl"]
        runs = (run for program in programs.values() for run in program.flows)
        if ports := sorted({run.port for run in runs if not run.kind.one_connection}):
            argv += ["--without-ports", ",".join(map(str, ports))]
    if queues:
        argv += ["--queues", ",".join(queues), "--out-queues", "/trial/queues.jsonl"]
    return [*argv, *(word for text in dict.fromkeys(layouts) for word in ("--layout", text))]


def layout(exports: Exports) -> str:
    """Return the statistics of a kind of queue as lab-sampler takes them (docs/guest.md)."""
    return ",".join((exports.source, *(f"{name}:{kind}" for name, kind in exports.statistics)))


def _modules(programs: Mapping[str, Program], linux: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """Return the modules to load and their parameters: of Linux, the lab's, ours; others are built in."""
    found: dict[str, tuple[str, ...]] = {WIRE: (), SINK: ()}
    for node, program in programs.items():
        for module in program.modules:
            if not module.ours and module.name not in linux:
                continue
            params = tuple(f"{key}={value}" for key, value in module.params)
            if found.setdefault(module.name, params) != params:
                asked, other = " ".join(params), " ".join(found[module.name])
                raise InputError([Problem("", module.name, _shared(node, asked, other))])
    return {name: found.get(name, ()) for name in (*linux, *found)}


def _shared(node: str, asked: str, other: str) -> str:
    return (
        f"{node} asks for {asked or 'no parameters'} and another node for {other or 'none'}, but all nodes "
        "of the virtual testbed share one kernel"
    )


def _link_lines(topology: Topology) -> list[str]:
    return [
        f"link add {network.name} netns {node} type {WIRE}"
        for network in topology.networks
        for node in network.nodes
    ]


def _neighbours(topology: Topology, node: str) -> list[tuple[str, str]]:
    """Return the network and address of a node's neighbours.

    They are made known to it, as on hosts that communicated before. Otherwise the first packet of a trial
    waits for ARP, and the first flow measures twice its RTT.
    """
    return [
        (network.name, address.ip)
        for network in topology.networks
        if node in network.nodes
        for address in (topology.by_name[other].address_on(network.name) for other in network.nodes)
        if topology.by_name[node].address_on(network.name) != address
    ]


def _local(argv: Sequence[str]) -> list[str]:
    """Resolve `@<network>` to the interface, which has the network's name in this testbed."""
    return [word.removeprefix("@") if word.startswith("@") else word for word in argv]


def _of_flow(node: str, argv: Sequence[str]) -> list[str]:
    """Resolve also the folder of the node's raw files, and programs of the user's own."""
    first, *words = (word.replace(FOLDER, f"/trial/{node}") for word in _local(argv))
    return [first.replace(EXECUTABLE, f"/trial/{PROGRAMS}/", 1), *words]


class _Writer:
    """Lines of a script with tab-separated fields, and the batch files they name."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self.files: dict[str, str] = {}

    def line(self, *fields: str) -> int:
        """Add a line and return its number, from 1."""
        self._lines.append("\t".join(_escape(field) for field in fields))
        return len(self._lines)

    def batch(self, netns: str, name: str, tool: str, commands: Iterable[str]) -> None:
        text = "".join(f"{command}\n" for command in commands)
        if text:
            self.files[f"{name}.batch"] = text
            self.line("run", netns, str(SETUP_LIMIT_MS), f"{name}.batch", "-", tool, "-batch", "-")

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)


def _escape(field: str) -> str:
    return field.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
