#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Control part of NCF on a Tofino switch, over BF Runtime.

It runs where the SDE's Python packages are, on the switch or elsewhere; nothing else is needed (Python 3.8):

    control.py setup ports.json   write ports, queues, thresholds, forwarding and mirror sessions
    control.py run ports.json     the same, then clear counters of packets, one register in each window, and
                                  have `sample` beside it if the configuration has `sample_ms`
    control.py sample ports.json  append samples of each bottleneck to samples-NAME.txt beside the file
    control.py begin ports.json   forget all flows, and wait until the ports are up: before a trial
    control.py results ports.json --folder FOLDER --start NS --end NS
                                  write the samples of a time, and what `show --json` prints
    control.py sweep ports.json   take flows that fell silent out of the number of elephants
    control.py show ports.json    print the number of elephants of each port; with --json, the settings of
                                  each bottleneck as the switch has them
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

CELL_BYTES = 80  # a cell of Tofino 1's packet buffer
WINDOW_BIT = 25  # as in ncf.p4
WRAP_NS = 1 << 48  # the switch's time
MARGIN_NS = 3_000_000  # after a roll, so that an error of the clock clears no register that is read
COUNTED = 0x8000  # state of a counted flow, with the port below in bits 1 to 9
SIGNAL_BYTES = 18 + 54  # of a trimmed copy: mirror header, then Ethernet, IPv4 and TCP
MICE, ELEPHANTS = 0, 1  # queues
MOST_CELLS = (1 << 19) - 1
ALL_PIPES = 0xFFFF
OF_FLOWS = ("Egress.state_of", "Egress.elephants", "Egress.mice", "Egress.last_signal")  # registers
COUNTED_UP = (
    "bytes",
    "packets",
    "drops",
    "mice_drops",
    "elephants_drops",
)  # parts of a sample that only grow
MOST_BYTES = 32 << 20  # of a file of samples; one older file is kept
UP_S = 30.0  # ports come up within this time
READBACK = "switch.json"
FRONT = re.compile(r"[1-9][0-9]?/[0-3]")  # a front port: connector and channel
NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


class ConfigError(Exception):
    """A configuration that cannot be applied; the text says where it is wrong."""


class NotSo(Exception):  # noqa: N818  (it names a state)
    """A switch that is not in the state that a trial needs."""


@dataclass(frozen=True)
class Port:
    """A port of the switch; with `rate_kbps` and `buffer_bytes` it is a bottleneck with NCF.

    Attributes:
        port: The device's number for it; a configuration may name its front port instead, such as `1/0`.
        speed: As `BF_SPEED_25G` without its prefix.
        fec: As `BF_FEC_TYP_NONE` without its prefix.
        mac: Address of the switch on this port's network, if it routes.
        rate_kbps: Rate that the port is shaped to.
        buffer_bytes: Memory of both queues.
        bottleneck: Number that signals carry, 1 to 255.
        name: Name of its network, in samples and where settings are read back.
    """

    port: int
    speed: str = "100G"
    fec: str = "NONE"
    mac: str = ""
    rate_kbps: int = 0
    buffer_bytes: int = 0
    bottleneck: int = 0
    name: str = ""


@dataclass(frozen=True)
class Config:
    """Everything that the switch is told.

    Attributes:
        ports: Ports.
        hosts: Port of each MAC address, for bridging.
        routes: Port and next hop's MAC address for each network, for routing.
        program: Name of the program that runs on the switch.
        rho: A flow with more packets in the last windows is an elephant.
        mice_share: Percentage of the buffer that the mice's queue gets (alpha in the paper).
        mice_threshold: Percentage of their queue above which mice are crowded (mu).
        elephants_threshold: Percentage of their queue above which elephants get signals (eta).
        sample_ms: Time from one sample of the bottlenecks to the next; 0: none are taken.
    """

    ports: tuple[Port, ...]
    hosts: Mapping[str, int]
    routes: Mapping[str, tuple[int, str]]
    program: str = "ncf"
    rho: int = 12
    mice_share: int = 20
    mice_threshold: int = 50
    elephants_threshold: int = 75
    sample_ms: int = 0

    @property
    def bottlenecks(self) -> tuple[Port, ...]:
        """The ports with NCF."""
        return tuple(port for port in self.ports if port.rate_kbps)

    def cells(self, port: Port, queue: int) -> int:
        """Return the size of a queue."""
        percent = self.mice_share if queue == MICE else 100 - self.mice_share
        return port.buffer_bytes * percent // (100 * CELL_BYTES)

    def threshold_cells(self, port: Port, queue: int) -> int:
        """Return the depth above which a queue is crowded."""
        share = self.mice_threshold if queue == MICE else self.elephants_threshold
        return self.cells(port, queue) * share // 100


def read_config(path: str, number_of: Callable[[str], int] | None = None) -> Config:
    """Read a configuration.

    Args:
        path: Its file.
        number_of: Returns the device's number for a front port such as `1/0`; without it, front ports get
            numbers that are good for a check alone.

    Raises:
        ConfigError: The file cannot be read, or something in it is not valid.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("ports"), list):
        raise ConfigError(f"{path}: needs a list 'ports'")
    content = _numbered(content, number_of)
    ports = tuple(_port(entry, f"{path}: ports[{at}]") for at, entry in enumerate(content["ports"]))
    numbers = [port.port for port in ports]
    if len(set(numbers)) != len(numbers):
        raise ConfigError(f"{path}: a port is listed twice")
    hosts = {_mac(mac, path): _known(port, numbers, path) for mac, port in content.get("hosts", {}).items()}
    routes = {}
    for network, route in content.get("routes", {}).items():
        try:
            name = str(ipaddress.IPv4Network(network))
        except ValueError as error:
            raise ConfigError(f"{path}: routes: {error}") from error
        if not isinstance(route, dict) or set(route) != {"port", "mac"}:
            raise ConfigError(f"{path}: routes: {network} needs 'port' and 'mac', nothing else")
        via = next((port for port in ports if port.port == _known(route["port"], numbers, path)), ports[0])
        if not via.mac:
            raise ConfigError(f"{path}: routes: {network} leaves by port {via.port}, which has no 'mac'")
        routes[name] = (via.port, _mac(route["mac"], path))
    rest = {name: value for name, value in content.items() if name not in ("ports", "hosts", "routes")}
    _check_names(rest, Config, path)
    config = Config(ports, hosts, routes, **rest)
    _check_ranges(config, path)
    return config


def _numbered(content: Mapping[str, Any], number_of: Callable[[str], int] | None) -> Mapping[str, Any]:
    """Return a configuration with the device's numbers in the place of front ports."""
    numbers: dict[str, int] = {}

    def number(port: Any) -> Any:
        if not isinstance(port, str) or not FRONT.fullmatch(port):
            return port
        if port not in numbers:
            numbers[port] = number_of(port) if number_of is not None else 511 - len(numbers)
        return numbers[port]

    def part(entry: Any) -> Any:
        if isinstance(entry, dict) and "port" in entry:
            return {**entry, "port": number(entry["port"])}
        return entry

    found = {**content, "ports": [part(entry) for entry in content["ports"]]}
    for name, one in (("hosts", number), ("routes", part)):
        if isinstance(content.get(name), dict):
            found[name] = {key: one(value) for key, value in content[name].items()}
    return found


def _port(entry: Any, where: str) -> Port:
    if not isinstance(entry, dict) or "port" not in entry:
        raise ConfigError(f"{where}: needs 'port', the front port such as \"1/0\", or the device's number")
    _check_names(entry, Port, where)
    port = Port(**entry)
    if not 0 <= port.port < 512:
        raise ConfigError(f"{where}: {port.port} is not a valid port; choose from 0 to 511")
    if bool(port.rate_kbps) != bool(port.buffer_bytes) or bool(port.rate_kbps) != bool(port.bottleneck):
        raise ConfigError(f"{where}: a bottleneck needs 'rate_kbps', 'buffer_bytes' and 'bottleneck'")
    if not 0 <= port.bottleneck <= 255:
        raise ConfigError(f"{where}: {port.bottleneck} is not a valid bottleneck; choose from 1 to 255")
    if port.mac:
        _mac(port.mac, where)
    if set(port.name) - NAME or len(port.name) > 64:
        raise ConfigError(f"{where}: {port.name!r} is not a valid name; use letters, digits and dashes")
    return port


def _check_names(entry: Mapping[str, Any], kind: type, where: str) -> None:
    known = {one.name: one.type for one in fields(kind)}
    for name, value in entry.items():
        if name not in known:
            raise ConfigError(f"{where}: {name!r} is not a valid key; choose from {', '.join(known)}")
        wanted = str if known[name] == "str" else int
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise ConfigError(f"{where}: {name}: {value!r} is not a valid {wanted.__name__}")


def _check_ranges(config: Config, path: str) -> None:
    if not 0 <= config.rho < 255:
        raise ConfigError(f"{path}: {config.rho} is not a valid rho; choose from 0 to 254")
    if not 0 <= config.sample_ms <= 3_600_000:
        raise ConfigError(f"{path}: {config.sample_ms} is not a valid sample_ms; choose from 0 to 3600000")
    names = [port.name for port in config.bottlenecks]
    if config.sample_ms and (len(set(names)) != len(names) or "" in names):
        raise ConfigError(f"{path}: with 'sample_ms' each bottleneck needs a 'name' of its own")
    for name in ("mice_share", "mice_threshold", "elephants_threshold"):
        if not 1 <= getattr(config, name) <= 99:
            raise ConfigError(f"{path}: {name}: {getattr(config, name)} is not valid; choose from 1 to 99")
    for port in config.ports:
        if port.rate_kbps and not 0 < config.cells(port, MICE) <= MOST_CELLS:
            raise ConfigError(f"{path}: port {port.port}: {port.buffer_bytes} is not a valid buffer_bytes")


def _known(port: Any, numbers: Sequence[int], where: str) -> int:
    if port not in numbers:
        raise ConfigError(f"{where}: port {port!r} is not in 'ports'")
    return int(port)


def _mac(text: Any, where: str) -> str:
    parts = text.split(":") if isinstance(text, str) else []
    if len(parts) != 6 or any(len(part) != 2 or set(part) - set("0123456789abcdefABCDEF") for part in parts):
        raise ConfigError(f"{where}: {text!r} is not a valid MAC address, such as 02:00:00:00:00:01")
    return str(text).lower()


def mac_number(mac: str) -> int:
    """Return a MAC address as a number."""
    return int(mac.replace(":", ""), 16)


class Switch:
    """Tables of the switch, by the SDE's client (module `bfrt_grpc.client`)."""

    def __init__(self, client: Any, info: Any) -> None:
        self.client = client
        self.info = info

    def target(self, pipe: int = ALL_PIPES) -> Any:
        """Return one pipe, or all."""
        return self.client.Target(device_id=0, pipe_id=pipe)

    def key(self, table: Any, key: Mapping[str, Any]) -> Any:
        """Return a key; a value is a number, or the keyword arguments of KeyTuple."""
        made = [
            self.client.KeyTuple(name, **value)
            if isinstance(value, dict)
            else self.client.KeyTuple(name, value)
            for name, value in key.items()
        ]
        return table.make_key(made)

    def data(self, table: Any, data: Mapping[str, Any], action: str | None) -> Any:
        """Return data; bools and texts are passed as such."""
        made = []
        for name, value in data.items():
            how = "bool_val" if isinstance(value, bool) else "str_val" if isinstance(value, str) else "val"
            made.append(self.client.DataTuple(name, **{how: value}))
        return table.make_data(made, action) if action else table.make_data(made)

    def put(
        self, name: str, key: Mapping[str, Any], data: Mapping[str, Any], action: str | None = None
    ) -> None:
        """Add an entry, or change it if it is there."""
        table = self.info.table_get(name)
        entry = (self.target(), [self.key(table, key)], [self.data(table, data, action)])
        try:
            table.entry_add(*entry)
        except self.client.BfruntimeReadWriteRpcException:
            table.entry_mod(*entry)

    def change(
        self,
        name: str,
        key: Mapping[str, Any],
        data: Mapping[str, Any],
        action: str | None = None,
        pipe: int = ALL_PIPES,
    ) -> None:
        """Change an entry of a table that the driver fills."""
        table = self.info.table_get(name)
        table.entry_mod(self.target(pipe), [self.key(table, key)], [self.data(table, data, action)])

    def empty(self, name: str) -> None:
        """Remove all entries of a table, or set a register to its initial values."""
        self.info.table_get(name).entry_del(self.target())

    def read(
        self, name: str, key: Mapping[str, Any], pipe: int = ALL_PIPES, *, from_hw: bool = True
    ) -> Mapping[str, Any]:
        """Return the data of one entry."""
        table = self.info.table_get(name)
        data, _ = next(iter(table.entry_get(self.target(pipe), [self.key(table, key)], {"from_hw": from_hw})))
        return dict(data.to_dict())

    def number_of(self, front: str) -> int:
        """Return the device's number for a front port. Raises NotSo."""
        connector, channel = front.split("/")
        key = {"$CONN_ID": int(connector), "$CHNL_ID": int(channel)}
        try:
            # the driver's own map of the board; the hardware has none
            return int(self.read("$PORT_HDL_INFO", key, from_hw=False)["$DEV_PORT"])
        except self.client.BfruntimeReadWriteRpcException as error:
            raise NotSo(f"the switch has no front port {front}") from error

    def entries(self, name: str) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """Return key and data of all entries of a table of the program; the data name the action."""
        table = self.info.table_get(name)
        for data, key in table.entry_get(self.target(), None, {"from_hw": False}):
            yield dict(key.to_dict()), dict(data.to_dict())

    def register(self, name: str, index: int) -> list[int]:
        """Return a register's value in each pipe."""
        return list(self.read(name, {"$REGISTER_INDEX": index})[f"{name}.f1"])

    def values(self, name: str) -> Iterator[tuple[int, list[int]]]:
        """Return all values of a register, by index, in each pipe."""
        table = self.info.table_get(name)
        for data, key in table.entry_get(self.target(), None, {"from_hw": True}):
            yield key.to_dict()["$REGISTER_INDEX"]["value"], list(data.to_dict()[f"{name}.f1"])

    def set_register(self, name: str, index: int, value: int) -> None:
        """Set a register's value in all pipes; of a port or a flow, only one of them is in use."""
        self.change(name, {"$REGISTER_INDEX": index}, {f"{name}.f1": value})


def setup(switch: Switch, config: Config) -> None:
    """Write everything that the switch needs."""
    for table in (
        "Ingress.route",
        "Ingress.bridge",
        "Ingress.way_back",
        "Ingress.classify",
        "Egress.depth",
        "Egress.link",
    ):
        switch.empty(table)
    classify = {"md.sum": {"low": config.rho + 1, "high": 255}, "$MATCH_PRIORITY": 0}
    switch.put("Ingress.classify", classify, {}, "Ingress.elephant")
    for mac, number in config.hosts.items():
        switch.put("Ingress.bridge", {"hdr.eth.dst": mac_number(mac)}, {"port": number}, "Ingress.send")
    macs = {port.port: port.mac for port in config.ports}
    for network, (number, mac) in config.routes.items():
        to = ipaddress.IPv4Network(network)
        key = {"hdr.ip.dst": {"value": int(to.network_address), "prefix_len": to.prefixlen}}
        data = {"port": number, "dst": mac_number(mac), "src": mac_number(macs[number])}
        switch.put("Ingress.route", key, data, "Ingress.send_via")
    for session, port in enumerate(config.ports, 1):
        setup_port(switch, port, session)
        if port.rate_kbps:
            setup_bottleneck(switch, config, port)


def setup_port(switch: Switch, port: Port, session: int) -> None:
    """Enable a port, and make the mirror session that leads back to it."""
    enabled = {"$SPEED": f"BF_SPEED_{port.speed}", "$FEC": f"BF_FEC_TYP_{port.fec}", "$PORT_ENABLE": True}
    switch.put("$PORT", {"$DEV_PORT": port.port}, enabled)
    switch.put("Ingress.way_back", {"ig.ingress_port": port.port}, {"session": session}, "Ingress.back_by")
    mirrored = {
        "$direction": "EGRESS",
        "$session_enable": True,
        "$ucast_egress_port": port.port,
        "$ucast_egress_port_valid": True,
        "$max_pkt_len": SIGNAL_BYTES,
    }
    switch.put("$mirror.cfg", {"$sid": session}, mirrored, "$normal")


def queues_of(switch: Switch, port: Port) -> list[Mapping[str, int]]:
    """Return the keys of a port's queues for mice and for elephants."""
    group = switch.read("tf1.tm.port.cfg", {"dev_port": port.port}, port.port >> 7)
    return [
        {"pg_id": group["pg_id"], "pg_queue": group["egress_qid_queues"][queue]}
        for queue in (MICE, ELEPHANTS)
    ]


def setup_bottleneck(switch: Switch, config: Config, port: Port) -> None:
    """Shape a port, share its buffer among two equal queues, and set their thresholds."""
    shaping = {"unit": "BPS", "provisioning": "UPPER", "max_rate": port.rate_kbps, "max_burst_size": 16384}
    switch.change("tf1.tm.port.sched_shaping", {"dev_port": port.port}, shaping)
    switch.change("tf1.tm.port.sched_cfg", {"dev_port": port.port}, {"max_rate_enable": True})
    pipe = port.port >> 7
    for queue, at in enumerate(queues_of(switch, port)):
        equal = {"scheduling_enable": True, "dwrr_weight": 512, "max_priority": "0"}
        switch.change("tf1.tm.queue.sched_cfg", at, equal, pipe=pipe)
        # static: the guaranteed cells, nothing of the pool that queues share
        memory = {
            "guaranteed_cells": config.cells(port, queue),
            "tail_drop_enable": True,
            "pool_id": "EG_APP_POOL_0",
            "pool_max_cells": 0,
            "dynamic_baf": "DISABLE",
        }
        switch.change("tf1.tm.queue.buffer", at, memory, "shared_pool", pipe)
    mice, elephants = (config.threshold_cells(port, queue) for queue in (MICE, ELEPHANTS))
    for queue, low, high, action in (
        (MICE, 0, mice, "mice_calm"),
        (MICE, mice + 1, MOST_CELLS, "mice_crowded"),
        (ELEPHANTS, elephants + 1, MOST_CELLS, "elephants_crowded"),
    ):
        key = {
            "eg.egress_port": port.port,
            "hdr.bridge.elephant": queue,
            "eg.enq_qdepth": {"low": low, "high": high},
            "$MATCH_PRIORITY": 0,
        }
        switch.put("Egress.depth", key, {}, f"Egress.{action}")
    link = {
        "bottleneck": port.bottleneck,
        "capacity_kbps": port.rate_kbps,
        "queue_bytes": config.cells(port, ELEPHANTS) * CELL_BYTES,
    }
    switch.put("Egress.link", {"hdr.mirror.port": port.port}, link, "Egress.describe")


class Clock:
    """The switch's time, from the times at which it saw packets, against a clock of this host.

    A packet came before its time was read, so the smallest difference is nearest to the truth. Clocks drift:
    only differences of the last two periods count.
    """

    PERIOD_NS = 10_000_000_000

    def __init__(self) -> None:
        self._differences: list[int] = []
        self._since = 0

    def note(self, host_ns: int, ticks: int) -> None:
        """Take in the switch's time of its last packet, in units of 65,536 ns, read at a time of the host."""
        if not ticks:
            return  # no packet yet
        difference = (host_ns - (ticks << 16)) % WRAP_NS
        if not self._differences or host_ns - self._since > self.PERIOD_NS:
            self._differences = [*self._differences[-1:], difference]
            self._since = host_ns
        elif (difference - self._differences[-1]) % WRAP_NS > WRAP_NS // 2:
            self._differences[-1] = difference

    def switch_ns(self, host_ns: int) -> int | None:
        """Return the switch's time; None before its first packet."""
        if not self._differences:
            return None
        newest = self._differences[-1]
        least = min(self._differences, key=lambda one: (one - newest + WRAP_NS // 2) % WRAP_NS)
        return (host_ns - least) % WRAP_NS


def keep_clear(
    switch: Switch,
    stop: Callable[[], bool],
    now_ns: Callable[[], int] = time.monotonic_ns,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Clear the counters of the coming window in each window; return how many windows were missed."""
    clock, last, missed = Clock(), None, 0
    while not stop():
        ticks = max(switch.register("Ingress.clock", 0))
        clock.note(now_ns(), ticks)
        time_ns = clock.switch_ns(now_ns())
        if time_ns is None:
            sleep(0.005)
            continue
        late_ns = (time_ns - MARGIN_NS) % WRAP_NS
        window = late_ns >> WINDOW_BIT
        if window != last:
            switch.empty(f"Ingress.window{(window + 1) % 4}")
            if last is not None and 1 < window - last < 1 << 22:
                missed += window - last - 1
                print(f"missed {window - last - 1} windows: mice may be taken for elephants", file=sys.stderr)
            last = window
        sleep(min(0.005, ((1 << WINDOW_BIT) - late_ns % (1 << WINDOW_BIT)) / 1e9 + 0.0002))
    return missed


# ---- trials
def begin(
    switch: Switch,
    config: Config,
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Forget all flows, so that a trial finds no state of the one before, and wait for the ports.

    Raises:
        NotSo: A port does not come up.
    """
    for name in OF_FLOWS:
        switch.empty(name)
    deadline = now_s() + UP_S
    while True:
        down = [
            port.port
            for port in config.ports
            if not switch.read("$PORT", {"$DEV_PORT": port.port}).get("$PORT_UP")
        ]
        if not down:
            return
        if now_s() > deadline:
            raise NotSo(
                f"port {down[0]} is down: its speed and error correction must suit the cable, "
                "and the interface at its other end must be up"
            )
        sleep(0.5)


def sample(switch: Switch, config: Config, port: Port, queues: Sequence[Mapping[str, int]]) -> dict[str, Any]:
    """Return the state of a bottleneck as `tc -s -j qdisc` names it, and NCF's own."""
    pipe = port.port >> 7
    mice, elephants = (switch.read("tf1.tm.counter.queue", at, pipe) for at in queues)
    sent = switch.read("$PORT_STAT", {"$DEV_PORT": port.port})
    return {
        "kind": config.program,
        "handle": "0:",
        "bytes": sent["$OctetsTransmittedTotal"],
        "packets": sent["$FramesTransmittedAll"],
        "drops": mice["drop_count_packets"] + elephants["drop_count_packets"],
        "backlog": (mice["usage_cells"] + elephants["usage_cells"]) * CELL_BYTES,
        "elephants": switch.register("Egress.elephants", port.port)[pipe],
        "mice_crowded": switch.register("Egress.mice", port.port)[pipe],
        "mice_backlog": mice["usage_cells"] * CELL_BYTES,
        "elephants_backlog": elephants["usage_cells"] * CELL_BYTES,
        "mice_drops": mice["drop_count_packets"],
        "elephants_drops": elephants["drop_count_packets"],
    }


class Samples:
    """A bounded file of samples, each a line with its time and a line of JSON; the one before is kept."""

    def __init__(self, folder: Path, port: Port, most_bytes: int = MOST_BYTES) -> None:
        self.path = folder / f"samples-{port.name}.txt"
        self.before = folder / f"samples-{port.name}.old.txt"
        self._most_bytes = most_bytes

    def add(self, time_ns: int, state: Mapping[str, Any]) -> None:
        """Append a sample in one piece."""
        line = f"@ {time_ns}\n{json.dumps([state])}\n".encode("ascii")
        if self.path.exists() and self.path.stat().st_size + len(line) > self._most_bytes:
            self.path.replace(self.before)
        with self.path.open("ab", buffering=0) as file:
            file.write(line)

    def read(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Return the samples, the oldest first; one that is just being written is left out."""
        for path in (self.before, self.path):
            if not path.exists():
                continue
            time_ns = None
            for line in path.read_text(encoding="ascii", errors="replace").splitlines():
                try:
                    if line.startswith("@ "):
                        time_ns = int(line[2:])
                    elif time_ns is not None:
                        yield time_ns, json.loads(line)[0]
                except ValueError:
                    continue


def keep_sampling(
    switch: Switch,
    config: Config,
    folder: Path,
    stop: Callable[[], bool],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Sample each bottleneck every `sample_ms`; a sample that comes late delays no later one."""
    files = [(port, queues_of(switch, port), Samples(folder, port)) for port in config.bottlenecks]
    interval_s = config.sample_ms / 1e3
    began_s, number = time.monotonic(), 0
    while not stop():
        for port, queues, file in files:
            time_ns = time.time_ns()
            file.add(time_ns, sample(switch, config, port, queues))
        passed_s = time.monotonic() - began_s
        number = max(number + 1, int(passed_s / interval_s))
        sleep(max(0.0, number * interval_s - passed_s))


def write_results(
    switch: Switch, config: Config, source: Path, folder: Path, times_ns: tuple[int, int]
) -> None:
    """Write the samples between two instants, in milliseconds after the first, and the settings.

    Counters begin at zero: those of the last sample before the first instant are subtracted.

    Raises:
        NotSo: There are no samples of that time.
    """
    start_ns, end_ns = times_ns
    folder.mkdir(parents=True, exist_ok=True)
    for port in config.bottlenecks:
        lines: list[str] = []
        base: dict[str, Any] = {}
        latest_ns = 0
        for time_ns, state in Samples(source, port).read():
            latest_ns = time_ns
            if time_ns < start_ns or not base:
                base = state
            if start_ns <= time_ns <= end_ns:
                grown = {name: state[name] - base[name] for name in COUNTED_UP if state[name] >= base[name]}
                lines += [f"@ {(time_ns - start_ns) / 1e6:.3f}", json.dumps([{**state, **grown}])]
        if not lines:
            ago = (
                f"the latest is {(end_ns - latest_ns) / 1e9:+.1f} s before its end"
                if latest_ns
                else "none at all"
            )
            raise NotSo(
                f"{port.name} has no samples of the trial, {ago}: "
                "does the clock of the switch agree with the hosts'?"
            )
        (folder / f"tc-{port.name}.txt").write_text("\n".join([*lines, ""]), encoding="ascii")
    (folder / READBACK).write_text(json.dumps(settings(switch, config), indent=1) + "\n", encoding="ascii")


def settings(switch: Switch, config: Config) -> list[dict[str, Any]]:
    """Return the settings of each bottleneck as the switch has them: its shaper, and NCF's options.

    Nothing but the ports, their names and the program's name comes from the configuration.
    """
    found: list[dict[str, Any]] = []
    rho = min((key["md.sum"]["low"] - 1 for key, _ in switch.entries("Ingress.classify")), default=None)
    for port in config.bottlenecks:
        pipe, at = port.port >> 7, {"dev_port": port.port}
        shaping = switch.read("tf1.tm.port.sched_shaping", at, pipe)
        scheduling = switch.read("tf1.tm.port.sched_cfg", at, pipe)
        found.append(
            {
                "kind": "shaper",
                "network": port.name,
                "unit": shaping["unit"],
                "rate": shaping["max_rate"] * 1000 // 8,
                "enabled": scheduling["max_rate_enable"],
            }
        )
        cells = [
            switch.read("tf1.tm.queue.buffer", queue, pipe)["guaranteed_cells"]
            for queue in queues_of(switch, port)
        ]
        link = next(
            (
                one
                for key, one in switch.entries("Egress.link")
                if key["hdr.mirror.port"]["value"] == port.port
            ),
            {},
        )
        options = {
            "limit": sum(cells) * CELL_BYTES,
            "mice_share": _percent(cells[MICE], sum(cells)),
            "rho": rho,
            "bottleneck": link.get("bottleneck"),
            "capacity": link.get("capacity_kbps", 0) * 1000 // 8,
        }
        for name, queue, action in (
            ("mice_threshold", MICE, "Egress.mice_crowded"),
            ("elephants_threshold", ELEPHANTS, "Egress.elephants_crowded"),
        ):
            lowest = [
                key["eg.enq_qdepth"]["low"] - 1
                for key, one in switch.entries("Egress.depth")
                if key["eg.egress_port"]["value"] == port.port and one["action_name"] == action
            ]
            options[name] = _percent(min(lowest), cells[queue]) if lowest else None
        found.append({"kind": config.program, "network": port.name, "options": options})
    return found


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 2) if whole else None


def sweep(switch: Switch, config: Config) -> int:
    """Take flows without a packet in any window out of the number of elephants; return how many."""
    # in several pipes, if its route led from one to another
    counted = {
        (flow, state >> 1 & 0x1FF)
        for flow, states in switch.values("Egress.state_of")
        for state in states
        if state & COUNTED
    }
    silent = {flow for flow, _ in counted}
    for window in range(4):
        silent -= {flow for flow, packets in switch.values(f"Ingress.window{window}") if any(packets)}
    for flow in silent:
        switch.set_register("Egress.state_of", flow, 0)
    for port in config.ports:
        number = sum(at == port.port and flow not in silent for flow, at in counted)
        switch.set_register("Egress.elephants", port.port, number)
    return len(silent)


def show(switch: Switch, config: Config) -> list[str]:
    """Return a line for each bottleneck."""
    return [
        f"port {port.port}: {switch.register('Egress.elephants', port.port)[port.port >> 7]} elephants, "
        f"mice {'crowded' if switch.register('Egress.mice', port.port)[port.port >> 7] else 'calm'}"
        for port in config.bottlenecks
    ]


def connect(program: str, address: str) -> Switch:
    """Return the switch whose BF Runtime server is at an address.

    Raises:
        ConfigError: The SDE's packages are not to be found.
    """
    install = Path(os.environ.get("SDE_INSTALL", "."))
    for folder in sorted(install.glob("lib/python3*/site-packages")):
        sys.path += [str(folder), str(folder / "tofino"), str(folder / "tofino" / "bfrt_grpc")]
    try:
        from bfrt_grpc import client
    except ImportError as error:
        raise ConfigError(f"{error}; set SDE_INSTALL to the SDE's install folder") from error
    # clients of one switch have numbers of their own: `sweep` and `show` may run beside `run`
    interface = client.ClientInterface(grpc_addr=address, client_id=os.getpid() % 1000, device_id=0)
    info = interface.bfrt_info_get(program)
    interface.bind_pipeline_config(program)
    return Switch(client, info)


def run(switch: Switch, config: Config, words: Sequence[str]) -> int:
    """Keep counters clear until a signal comes, with samples from a process of its own.

    A client of BF Runtime waits for each answer, and a sample takes several, so another process takes them:
    the clearing of windows does not wait for samples. Without samples a trial is lost, so both end together.

    Args:
        switch: The switch.
        config: Its configuration.
        words: The arguments of this program after the command.
    """
    stopped: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _: stopped.append(received))
    if not config.sample_ms:
        keep_clear(switch, lambda: bool(stopped))
        return 0
    sampler = subprocess.Popen([sys.executable, __file__, "sample", *words], stdin=subprocess.DEVNULL)
    try:
        keep_clear(switch, lambda: bool(stopped) or sampler.poll() is not None)
    finally:
        ended = sampler.poll()
        if ended is None:
            sampler.terminate()
            try:
                sampler.wait(10)
            except subprocess.TimeoutExpired:
                sampler.kill()
    if not stopped:
        print(f"error: sampling ended with code {ended}", file=sys.stderr)
        return 1
    return 0


def sample_until_left(switch: Switch, config: Config, folder: Path) -> None:
    """Sample until a signal comes or the process that began this one is gone."""
    parent = os.getppid()
    stopped: list[int] = []
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's is for the process that began this one
    signal.signal(signal.SIGTERM, lambda received, _: stopped.append(received))
    keep_sampling(switch, config, folder, lambda: bool(stopped) or os.getppid() != parent)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks for."""
    commands = ("setup", "run", "sample", "begin", "results", "sweep", "show")
    parser = argparse.ArgumentParser(description="Control NCF on a Tofino switch, over BF Runtime.")
    parser.add_argument("command", choices=commands)
    parser.add_argument("config", help="ports, hosts, routes and thresholds: ports.json is an example")
    parser.add_argument("--grpc", default="localhost:50052", metavar="ADDRESS", help="BF Runtime server")
    parser.add_argument("--json", action="store_true", help="show: settings as the switch has them")
    parser.add_argument("--folder", type=Path, default=Path(), help="results: where to write them")
    parser.add_argument(
        "--start", type=int, default=0, metavar="NS", help="results: first instant, since 1970"
    )
    parser.add_argument("--end", type=int, default=1 << 63, metavar="NS", help="results: last instant")
    args = parser.parse_args(arguments)
    try:
        switch = connect(read_config(args.config).program, args.grpc)
        config = read_config(args.config, switch.number_of)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except NotSo as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    source = Path(args.config).parent
    try:
        return do(args, switch, config, source)
    except NotSo as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def do(args: argparse.Namespace, switch: Switch, config: Config, source: Path) -> int:
    """Do a command. Raises NotSo."""
    if args.command in ("setup", "run"):
        setup(switch, config)
        print(f"{config.program}: {len(config.ports)} ports are set up", flush=True)
    if args.command == "run":
        return run(switch, config, [args.config, "--grpc", args.grpc])
    if args.command == "sample":
        if not config.sample_ms:
            raise NotSo(f"{args.config} has no 'sample_ms'")
        sample_until_left(switch, config, source)
    elif args.command == "begin":
        begin(switch, config)
    elif args.command == "results":
        write_results(switch, config, source, args.folder, (args.start, args.end))
    elif args.command == "sweep":
        print(f"{sweep(switch, config)} silent flows are no longer counted")
    elif args.command == "show":
        print(
            json.dumps(settings(switch, config), indent=1) if args.json else "\n".join(show(switch, config))
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
