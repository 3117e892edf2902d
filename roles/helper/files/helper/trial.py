# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""One node's part of one trial: setup, ready, start, stop, readback. Runs in the node's namespace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence

from echo import FILE as ROUND_TRIPS_FILE
from echo import round_trips
from lateness import FILE as LATENESS_FILE
from lateness import Watch
from meeting import Meeting, Start, attend, exchanged
from pausing import FILE as PAUSES_FILE
from pausing import Pausing
from queues import clear, queues
from samplers import samplers
from system import (
    Failed,
    duration_ns,
    ended_from_outside,
    port,
    read_text,
    resolve,
    run,
    write_whole,
)
from tuning import connect, is_ipv6, tune
from walking import FILE as WALKS_FILE
from walking import Walking

if TYPE_CHECKING:
    from during import During
    from tcbatch import TcBatch

DRAIN_S = 0.5
"""Time from the planned end of the last flow to the read-back."""
SERVER_CLOSE_S = 3.0
"""Limit for a server to end by itself, and then by a signal."""
LEAN = "lab-traffic"
_END_WITH_FLOW = (LEAN, "iperf3")
"""Receivers that end with their flow. As it may close later over a long path, they have its sender's time."""
LEAD_NS = 200_000_000
"""Time before its flow at which a sender of lab-traffic is started; it waits for the instant by itself."""
FLOW_STARTS = Path("/run/lab-flow")
"""Folder where receivers of lab-traffic find the start instants of their flows, by port (docs/guest.md)."""
_READY_S = 10.0
"""Time in which a program must be ready for its flow."""
CODEPOINTS = 4
"""Packet sockets by which lab-traffic counts: one for each codepoint."""
INPUT = "%input"
"""Argument that stands for the path of a file with the flow's input."""
FOLDER = "%folder"
"""Part of an argument that stands for the folder of the node's raw files."""
_PROTOCOLS = ("0800", "86dd")
"""IPv4 and IPv6, as /proc/net/packet prints them."""
BEFORE_START_S = 0.5
"""Time before the start instant by which everything that comes before flows has ended."""
CHANGES_FILE = "events.json"
"""Raw file with when each change of this node took effect, after the start instant."""


def perform(part: Mapping[str, Any], node: str, folder: Path) -> bool:
    """Do a node's part, and write `<node>.json` and the raw files to the trial's folder."""
    raw = folder / "raw" / node
    raw.mkdir(parents=True, exist_ok=True)
    began_s = time.monotonic()
    result: dict[str, Any] = {"node": node, "ok": False, "reason": "", "secondary": False, "missed": False}
    result["took_s"] = {}
    keeper: Meeting | None = None
    signal.signal(signal.SIGTERM, ended_from_outside)
    try:
        if node == part["router"]:
            keeper = Meeting(part["id"], list(part["programs"]), ipv6=is_ipv6(str(part["meet"])))
            keeper.start()
        performer = _Performer(part, node, raw, result)
        try:
            try:
                if part.get("broken"):
                    raise Failed(part["broken"])
                performer.setup()
            except Failed as failure:
                _tell(part, node, keeper, failure.reason)
                raise
            result["took_s"]["setup"] = time.monotonic() - began_s
            start = performer.meet()
            result["took_s"]["ready"] = time.monotonic() - began_s
            performer.go(start)
        finally:
            performer.end_all()
        result["ok"] = True
        result["took_s"]["readback"] = time.monotonic() - began_s
    except Failed as failure:
        result.update(reason=failure.reason, secondary=failure.secondary, missed=failure.missed)
    if keeper is not None and keeper.is_alive():
        keeper.linger()
    write_whole(folder / f"{node}.json", json.dumps(result))
    return bool(result["ok"])


def _tell(part: Mapping[str, Any], node: str, keeper: Meeting | None, reason: str) -> None:
    """Report to the other nodes that this one failed, so that they need not wait."""
    if keeper is not None:
        keeper.abort(f"{node}: {reason}")
    try:
        connect(part, node)
        if keeper is not None:
            return
        attend(part["id"], node, _meeting_place(part, node), failed=reason)
    except Failed:
        return


def _meeting_place(part: Mapping[str, Any], node: str) -> str:
    meet = str(part["meet"])
    if node != part["router"]:
        return meet
    return "::1" if is_ipv6(meet) else "127.0.0.1"


class _Performer:
    """The processes of one node, and their results."""

    def __init__(self, part: Mapping[str, Any], node: str, raw: Path, result: dict[str, Any]) -> None:
        self._part = part
        self._node = node
        self._raw = raw
        self._result = result
        self._program = part["programs"][node]
        # how each server shows that flows may begin (`l4sbench.traffic.Ready`)
        self._ready = {server["id"]: server["ready"] for server in self._program["servers"]}
        self._servers: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._flows: list[tuple[dict[str, Any], subprocess.Popen[bytes]]] = []
        self._samplers: list[During] = []
        self._changed: list[dict[str, Any]] = []
        self._ports: dict[str, str] = {}
        self._one_clock = part["router"] in part["host_nodes"]
        self._exchanged: tuple[int, int] | None = None

    def setup(self) -> None:
        """Apply settings, set up queues and start servers."""
        self._result["changed"] = tune(self._part, self._node)
        if self._program["flows"] and self._program["setup"] and not self._one_clock:
            # a sender may delay what it sends, so that its requests would take longer than their answers
            clear(self._part, self._node)
            self._exchanged = exchanged(self._part["id"], self._node, _meeting_place(self._part, self._node))
        queues(self._part, self._node, fresh=True)
        networks = [link["network"] for link in self._program["links"]]
        self._ports = {network: port(self._part, self._node, network) for network in networks}
        self._host_file()
        for server in self._program["servers"]:
            self._servers.append((server["id"], self._spawn(server["argv"], server["output"])))
        received = {flow["flow"]: flow["port"] for flow in self._received()}
        _await_listening({port for flow, port in received.items() if self._ready.get(flow) == "listens"})
        for name, process in self._servers:
            if self._ready[name] == "counts":
                _await_counting(name, process)
            if self._ready[name] == "own":
                _await_bound(received[name], process)
        self._require_running()

    def meet(self) -> Start:
        """Return the start instant that all nodes agree on."""
        return attend(
            self._part["id"],
            self._node,
            _meeting_place(self._part, self._node),
            same_clock=self._one_clock,
            before=self._exchanged,
        )

    def go(self, start: Start) -> None:
        """Run the trial from the start instant to the read-back."""
        late = _end_ns(self._part)
        self._result.update(offset_ns=start.offset_ns, round_trip_ns=start.round_trip_ns, flows=[])
        self._measure_path(start.at_ns)
        # the start by the clock of captures
        self._result["start_epoch_ns"] = time.time_ns() - time.monotonic_ns() + start.at_ns
        self._samplers = [
            *samplers(self._part, self._node, self._raw, start.at_ns),
            Watch(self._raw / LATENESS_FILE, start.at_ns),
        ]
        batches: list[TcBatch] = [*self._pausing(start.at_ns), *self._walking(start.at_ns)]
        self._samplers += batches
        for sampler in self._samplers:
            sampler.start()
        self._announce(start.at_ns)
        due: list[tuple[int, Callable[[int], None]]]
        due = [(_due_ns(flow), partial(self._start, flow)) for flow in self._program["flows"]]
        events: dict[str, list[dict[str, Any]]] = {}
        for one in self._program.get("changes", []):
            events.setdefault(one["event"], []).append(one)
        due += ((duration_ns(ones[0]["at"]), partial(self._change, ones)) for ones in events.values())
        for after_ns, act in sorted(due, key=itemgetter(0)):
            _sleep_until(start.at_ns + after_ns)
            act(start.at_ns)
        if events:
            write_whole(self._raw / CHANGES_FILE, json.dumps(self._changed))
        self._await_flows(start.at_ns)
        _sleep_until(start.at_ns + late + int(DRAIN_S * 1e9))
        for sampler in self._samplers:
            sampler.end()
        for thread in batches:
            if thread.failure:
                raise Failed(thread.failure)
        self._stop_servers(start.at_ns)
        self._read_back()

    def _measure_path(self, start_ns: int) -> None:
        """Write the round-trip times of a path that has them by itself, before there is traffic."""
        if addresses := self._program.get("echoes"):
            found = round_trips(addresses, start_ns / 1e9 - BEFORE_START_S)
            write_whole(self._raw / ROUND_TRIPS_FILE, json.dumps(found))

    def _pausing(self, start_ns: int) -> list[Pausing]:
        """Return the thread that makes the node's pauses, if it has any."""
        there = self._raw / PAUSES_FILE
        return [
            Pausing(pauses, self._resolved, there, start_ns) for pauses in self._program.get("pauses", [])
        ]

    def _walking(self, start_ns: int) -> list[Walking]:
        """Return the thread that has the node's delays walk, if they do."""
        walks, there = self._program.get("walks"), self._raw / WALKS_FILE
        if not walks:
            return []
        return [Walking(walks, self._resolved, there, start_ns)]

    def _announce(self, start_ns: int) -> None:
        """Write the start instants of the flows that lab-traffic receives here."""
        lean = {server["id"] for server in self._program["servers"] if server["argv"][0] == LEAN}
        for flow in self._received():
            if flow["flow"] in lean:
                FLOW_STARTS.mkdir(parents=True, exist_ok=True)
                write_whole(FLOW_STARTS / str(flow["port"]), str(start_ns + duration_ns(flow["start"])))

    def _start(self, flow: dict[str, Any], start_ns: int) -> None:
        at_ns = start_ns + duration_ns(flow["start"])
        argv = flow["argv"]
        if INPUT in argv:  # which may be empty
            file = self._raw.parent.parent / f"{flow['flow']}.input"
            file.write_text(flow.get("input", ""), encoding="utf-8")
            argv = [str(file) if word == INPUT else word for word in argv]
        process = self._spawn(argv, flow["output"], {"LAB_START_NS": str(at_ns)})
        late_ns = max(0, time.monotonic_ns() - at_ns)
        self._flows.append((flow, process))
        self._result["flows"].append({"flow": flow["flow"], "late_ms": late_ns / 1e6})

    def _change(self, changes: list[dict[str, Any]], start_ns: int) -> None:
        """Do what an event changes at this node, and only then read it back, which takes time."""
        for change in changes:
            for argv in change["commands"]:
                run(self._resolved(argv))
            t_ms = (time.monotonic_ns() - start_ns) / 1e6
            self._changed.append({"event": change["event"], "factor": change["factor"], "t_ms": t_ms})
        for change in changes:
            shown = run(self._resolved(change["readback"]["argv"])).stdout
            (self._raw / change["readback"]["output"]).write_text(shown, encoding="utf-8")

    def _resolved(self, argv: Sequence[str]) -> list[str]:
        """Return what `resolve` does, without a process that looks for an interface at an instant."""
        known = [self._ports.get(word[1:], word) if word.startswith("@") else word for word in argv]
        return resolve(self._part, self._node, known)

    def end_all(self) -> None:
        """End all processes, whatever happened."""
        for sampler in self._samplers:
            sampler.end()
        processes = [process for _, process in (*self._servers, *self._flows)]
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        for process in processes:
            try:
                process.wait(2)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _spawn(
        self, argv: list[str], output: str, more: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a program with its output in a raw file, and with `more` in its environment."""
        argv = [word.replace(FOLDER, str(self._raw)) for word in argv]
        full, environment = self._resolved(argv), {**os.environ, **(more or {})}
        with (self._raw / output).open("wb") as out, (self._raw / f"{output}.stderr").open("wb") as err:
            try:
                return subprocess.Popen(
                    full, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment
                )
            except OSError as error:
                raise Failed(f"cannot run {full[0]}: {error.strerror}") from error

    def _received(self) -> list[dict[str, Any]]:
        """Return the flows that end at this node."""
        return [flow for flow in _flows(self._part) if flow["receiver"] == self._node]

    def _await_flows(self, start_ns: int) -> None:
        for flow, process in self._flows:
            limit_s = flow["close_s"]
            left_s = (start_ns + _planned_ns(flow) - time.monotonic_ns()) / 1e9 + limit_s
            try:
                code = process.wait(max(0.1, left_s))
            except subprocess.TimeoutExpired as error:
                raise Failed(f"{flow['flow']} did not end within {limit_s:g} s of its planned end") from error
            if code:
                raise Failed(f"{flow['flow']} ended with code {code}: {self._said(flow['output'])}")

    def _said(self, output: str) -> str:
        """Return why a traffic tool failed: iperf3 reports it in its JSON, others on stderr."""
        try:
            reported = json.loads(read_text(self._raw / output)).get("error", "")
        except (ValueError, AttributeError):
            reported = ""
        return str(reported or read_text(self._raw / f"{output}.stderr")[-300:] or "no output")

    def _require_running(self) -> None:
        """Raise Failed if a receiver of the user's own or a capture has failed."""
        outputs = {server["id"]: server["output"] for server in self._program["servers"]}
        for name, process in self._servers:
            if self._ready[name] == "own" and process.poll():
                said = self._said(outputs[name])
                raise Failed(f"{name}: its receiver ended with code {process.returncode}: {said}")
            if self._ready[name] == "captures" and process.poll() is not None:
                said = read_text(self._raw / f"{outputs[name]}.stderr")[-300:] or "no output"
                raise Failed(f"{name} ended during the trial, with code {process.returncode}: {said}")

    def _close_ns(self, start_ns: int) -> dict[str, int]:
        """Return until when the receivers that end with their flow may take to end, by their flow."""
        own = {server["id"] for server in self._program["servers"] if server["argv"][0] in _END_WITH_FLOW}
        return {
            flow["flow"]: start_ns + _planned_ns(flow) + int(flow["close_s"] * 1e9)
            for flow in self._received()
            if flow["flow"] in own
        }

    def _stop_servers(self, start_ns: int) -> None:
        """End the servers: receivers of flows end by themselves, others such as captures by a signal."""
        self._require_running()
        soon_ns = time.monotonic_ns() + int(SERVER_CLOSE_S * 1e9)
        flows = {flow["flow"] for flow in self._received()}
        close_ns = self._close_ns(start_ns)
        for name, process in self._servers:
            left_s = (max(soon_ns, close_ns.get(name, 0)) - time.monotonic_ns()) / 1e9
            try:
                process.wait(max(0.05, left_s) if name in flows else 0)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)  # iperf3 and tcpdump then write their results
        for name, process in self._servers:
            own = self._ready[name] == "own"
            if name not in flows or own:
                try:
                    process.wait(SERVER_CLOSE_S)
                except subprocess.TimeoutExpired as error:
                    if not own:
                        raise Failed(f"{name} does not end within {SERVER_CLOSE_S:g} s") from error
                    process.kill()
                    process.wait()

    def _read_back(self) -> None:
        for reading in self._program["readback"]:
            ended = run(self._resolved(reading["argv"]), check=False)
            (self._raw / reading["output"]).write_text(ended.stdout, encoding="utf-8")
            if ended.returncode and not reading["host"]:
                raise Failed(f"cannot read back {reading['name']}: {ended.stderr.strip()[-300:]}")
        changed = [line for line in tune(self._part, self._node) if not line.endswith(" up")]
        if changed:
            raise Failed(f"another program changed this node during the trial: {'; '.join(changed)}")

    def _host_file(self) -> None:
        modules = {module["name"]: source_version(module["name"]) for module in self._program["modules"]}
        host = {
            "testbed": "ssh",
            "kernel_release": read_text("/proc/sys/kernel/osrelease"),
            "kernel_version": read_text("/proc/sys/kernel/version"),
            "iproute2": run(["tc", "-V"]).stdout.strip(),
            "modules": {name: version for name, version in modules.items() if version},
        }
        text = json.dumps(host, indent=1, sort_keys=True) + "\n"
        (self._raw / "host.json").write_text(text, encoding="utf-8")


def source_version(module: str) -> str:
    """Return `srcversion` of a loaded module, a digest of its source; empty when there is none."""
    return read_text(f"/sys/module/{module}/srcversion")


def _due_ns(flow: Mapping[str, Any]) -> int:
    """Return when to start a flow's sender, after the start instant; some wait for it by themselves."""
    return duration_ns(flow["start"]) - (LEAD_NS if flow["argv"][0] == LEAN else 0)


def _end_ns(part: Mapping[str, Any]) -> int:
    """Return the planned end of the last flow of any node, after the start instant."""
    return max(map(_planned_ns, _flows(part)), default=0)


def _flows(part: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [flow for program in part["programs"].values() for flow in program["flows"]]


def _planned_ns(flow: Mapping[str, Any]) -> int:
    """Return the planned end of a flow, after the start instant."""
    return duration_ns(flow["start"]) + int(flow["seconds"] * 1e9)


def _sleep_until(at_ns: int) -> None:
    left_ns = at_ns - time.monotonic_ns()
    if left_ns > 0:
        time.sleep(left_ns / 1e9)


def _await_listening(ports: set[int]) -> None:
    deadline = time.monotonic() + _READY_S
    missing = set(ports)
    while missing:
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            for line in read_text(table).splitlines()[1:]:
                words = line.split()
                if words[3] == "0A":  # TCP_LISTEN
                    missing.discard(int(words[1].rpartition(":")[2], 16))
        if missing and time.monotonic() > deadline:
            raise Failed(f"no program listens on port {min(missing)} after {_READY_S:g} s")
        if missing:
            time.sleep(0.05)


def _await_bound(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a program of the user's own has a socket at its port, or has ended; it need not have one."""
    deadline = time.monotonic() + _READY_S
    while process.poll() is None and time.monotonic() < deadline:
        for table in ("udp", "udp6", "tcp", "tcp6"):
            for line in read_text(f"/proc/net/{table}").splitlines()[1:]:
                if int(line.split()[1].rpartition(":")[2], 16) == port:
                    return
        time.sleep(0.05)


def _await_counting(name: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until lab-traffic counts the packets of a flow: nobody listens for those."""
    deadline = time.monotonic() + _READY_S
    while True:
        rows = [line.split() for line in read_text("/proc/net/packet").splitlines()[1:]]
        taking = {f"socket:[{row[-1]}]" for row in rows if row[3] in _PROTOCOLS}
        if len(taking & _open_files(process.pid)) >= CODEPOINTS:
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise Failed(f"{name}: its receiver does not count packets")
        time.sleep(0.05)


def _open_files(pid: int) -> set[str]:
    """Return what the file descriptors of a process are."""
    found = set()
    try:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            found.add(str(link.readlink()))
    except OSError:  # it has ended, or closed one
        pass
    return found
