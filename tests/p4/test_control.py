# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""p4/ncf/control.py against a stand-in of BF Runtime: all that it writes, and how it keeps time."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from l4sbench.catalog import Catalog
from tests.p4.packets import ALICE, BOB, HOSTS, Tcp
from tests.p4.plane import NCF, PIPE, P4Plane, configuration, control
from tests.p4.scenarios import DEEP, START, WINDOW, burst
from tests.p4.vectors import drive
from tests.patience import ran

OTHER = Tcp(port=40_001)


def change(path: Path, **changes: Any) -> str:
    """Write a configuration with changes; None removes a key."""
    content = {**configuration(), **changes}
    path.write_text(json.dumps({name: one for name, one in content.items() if one is not None}))
    return str(path)


def port(**changes: Any) -> list[dict[str, Any]]:
    """Return a list of one port with changes."""
    return [{**configuration()["ports"][0], **changes}]


# ---- configuration
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ports": None}, "needs a list 'ports'"),
        ({"ports": [{}]}, "ports[0]: needs 'port', the front port such as \"1/0\", or the device's number"),
        ({"ports": port(port=512)}, "ports[0]: 512 is not a valid port; choose from 0 to 511"),
        ({"ports": port(port="1/4")}, "ports[0]: port: '1/4' is not a valid int"),
        ({"ports": port(port="0/0")}, "ports[0]: port: '0/0' is not a valid int"),
        ({"ports": port(rate_kbps=True)}, "ports[0]: rate_kbps: True is not a valid int"),
        (
            {"ports": port(rate=5)},
            (
                "ports[0]: 'rate' is not a valid key; choose from port, speed, fec, mac, "
                "rate_kbps, buffer_bytes, bottleneck, name"
            ),
        ),
        (
            {"ports": port(buffer_bytes=0)},
            "ports[0]: a bottleneck needs 'rate_kbps', 'buffer_bytes' and 'bottleneck'",
        ),
        ({"ports": port(bottleneck=256)}, "ports[0]: 256 is not a valid bottleneck; choose from 1 to 255"),
        (
            {"ports": port(mac="02-00")},
            "ports[0]: '02-00' is not a valid MAC address, such as 02:00:00:00:00:01",
        ),
        ({"ports": port(buffer_bytes=79), "hosts": {}}, "port 129: 79 is not a valid buffer_bytes"),
        ({"ports": port() + port()}, "a port is listed twice"),
        ({"hosts": {"02:00:00:00:00:01": 7}}, "port 7 is not in 'ports'"),
        ({"hosts": {"A": 129}}, "'A' is not a valid MAC address, such as 02:00:00:00:00:01"),
        ({"routes": {"10.0.0.1/8": {}}}, "routes: 10.0.0.1/8 has host bits set"),
        (
            {"routes": {"10.0.0.0/8": {"port": 129}}},
            "routes: 10.0.0.0/8 needs 'port' and 'mac', nothing else",
        ),
        (
            {"routes": {"10.0.0.0/8": {"port": 129, "mac": "02:00:00:00:00:01"}}},
            "routes: 10.0.0.0/8 leaves by port 129, which has no 'mac'",
        ),
        ({"rho": 255}, "255 is not a valid rho; choose from 0 to 254"),
        ({"rho": "12"}, "rho: '12' is not a valid int"),
        ({"mice_share": 100}, "mice_share: 100 is not valid; choose from 1 to 99"),
        (
            {"ports": port(name="../x")},
            "ports[0]: '../x' is not a valid name; use letters, digits and dashes",
        ),
        ({"sample_ms": -1}, "-1 is not a valid sample_ms; choose from 0 to 3600000"),
        ({"sample_ms": 100}, "with 'sample_ms' each bottleneck needs a 'name' of its own"),
    ],
)
def test_configurations_that_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = change(tmp_path / "ports.json", **changes)
    with pytest.raises(control().ConfigError) as caught:
        control().read_config(path)
    assert str(caught.value) == f"{path}: {message}"


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_files_that_are_no_configuration(tmp_path: Path, content: str) -> None:
    path = tmp_path / "ports.json"
    path.write_text(content)
    with pytest.raises(control().ConfigError, match=r"ports\.json: "):
        control().read_config(str(path))


def test_the_example_is_valid() -> None:
    config = control().read_config(str(NCF / "ports.json"))
    assert [port.port for port in config.ports] == [128, 136]
    assert config.routes["10.0.2.0/24"] == (136, "02:00:00:00:00:02")


def test_front_ports_are_numbers_of_the_device(plane: P4Plane, tmp_path: Path) -> None:
    """As on FABRIC, whose interfaces are named after front ports: 1/0 is 132 and 2/0 is 140."""
    mac = "02:00:00:00:00:01"
    ports = [{"port": "1/0", "mac": mac}, {"port": "2/0", "mac": mac}]
    routes = {"10.0.1.0/24": {"port": "2/0", "mac": mac}}
    path = change(tmp_path / "ports.json", ports=ports, hosts={mac: "1/0"}, routes=routes)
    config = control().read_config(path, plane.switch.number_of)
    assert [one.port for one in config.ports] == [132, 140]
    assert (config.hosts, config.routes) == ({mac: 132}, {"10.0.1.0/24": (140, mac)})
    # without a switch it is checked, too
    unknown = control().read_config(path)
    assert len({one.port for one in unknown.ports}) == 2
    with pytest.raises(control().NotSo, match="the switch has no front port 9/0"):
        plane.switch.number_of("9/0")


def test_without_the_sde_the_error_says_what_to_set(ports_file: Path) -> None:
    done = ran(
        [sys.executable, NCF / "control.py", "setup", ports_file],
        env={**os.environ, "SDE_INSTALL": "/nonexistent"},
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: No module named 'bfrt_grpc'; set SDE_INSTALL to the SDE's install folder\n"


# ---- what is written
def test_ports_queues_and_shaping(plane: P4Plane) -> None:
    entries = plane.info.entries
    assert entries("$PORT")[(129,)] == {
        "$SPEED": "BF_SPEED_100G",
        "$FEC": "BF_FEC_TYP_NONE",
        "$PORT_ENABLE": True,
    }
    assert entries("tf1.tm.port.sched_shaping")[(130,)]["max_rate"] == 200_000
    assert entries("tf1.tm.port.sched_cfg")[(130,)] == {"max_rate_enable": True}
    # port 130 is the third of group 0 (130 - 128 = 2): its queues 0 and 1 are the group's 16 and 17
    queues = [entries("tf1.tm.queue.buffer")[(0, queue)] for queue in (16, 17)]
    assert [queue["guaranteed_cells"] for queue in queues] == [625, 2_500]
    assert {queue["dynamic_baf"] for queue in queues} == {"DISABLE"}
    weights = [entries("tf1.tm.queue.sched_cfg")[(0, queue)] for queue in (16, 17)]
    assert weights[0] == weights[1]
    assert {key: data["$max_pkt_len"] for key, data in entries("$mirror.cfg").items()} == {
        (1,): 72,
        (2,): 72,
        (3,): 72,
    }


def test_setup_can_be_repeated(plane: P4Plane) -> None:
    before = {name: [row.tests for row in table.rows] for name, table in plane.machine.tables.items()}
    control().setup(plane.switch, plane.config)
    assert {name: [row.tests for row in table.rows] for name, table in plane.machine.tables.items()} == before


def test_rho_is_a_setting(tmp_path: Path) -> None:
    plane = P4Plane(Path(change(tmp_path / "ports.json", rho=3)))
    outcomes = drive(plane, burst(Tcp(), 5, START), cleared=True)
    assert [outcome.queue for outcome in outcomes] == ["mice"] * 3 + ["elephants"] * 2


# ---- counters
class Time:
    """A host's clock, and traffic that goes on while it passes."""

    def __init__(self, plane: P4Plane, ahead_ns: int, until_ns: int, drift: float = 0) -> None:
        self.plane, self.until_ns = plane, until_ns
        self.host_ns = self.start_ns = 5_000_000_000
        self.ahead_ns, self.drift = ahead_ns, drift
        self.cleared: list[tuple[int, int]] = []
        empty = plane.switch.empty

        def note(name: str) -> None:
            self.cleared.append((self.switch_ns(), int(name[-1])))
            empty(name)

        plane.switch.empty = note

    def switch_ns(self) -> int:
        """The switch's time now."""
        passed = self.host_ns - self.start_ns
        return START + self.ahead_ns + passed + int(passed * self.drift)

    def now_ns(self) -> int:
        """The host's time; reading it takes some."""
        self.host_ns += 1_000
        return self.host_ns

    def sleep(self, seconds: float) -> None:
        """Let time pass, with a packet before its end."""
        self.host_ns += int(seconds * 1e9)
        seen = (self.switch_ns() - 300_000) % (1 << 48)
        self.plane.machine.registers["Ingress.clock"].values[0] = seen >> 16

    def stop(self) -> bool:
        """Report whether it is time to end."""
        return self.host_ns > self.until_ns


@pytest.mark.parametrize("ahead_ns", [0, WINDOW // 2, (1 << 48) - START - WINDOW])
@pytest.mark.parametrize("drift", [0, 1e-4, -1e-4])
def test_each_window_clears_the_register_of_the_next(plane: P4Plane, ahead_ns: int, drift: float) -> None:
    time = Time(plane, ahead_ns, 30_000_000_000, drift)
    try:
        missed = control().keep_clear(plane.switch, time.stop, time.now_ns, time.sleep)
    finally:
        del plane.switch.empty
    assert missed == 0
    assert len(time.cleared) >= 740  # 25 s of windows
    # all of the switch's time: the register of the window after, in each window once, in its first half
    assert [number for _, number in time.cleared] == [(at // WINDOW + 1) % 4 for at, _ in time.cleared]
    assert len({at // WINDOW for at, _ in time.cleared}) == len(time.cleared)
    assert max(at % WINDOW for at, _ in time.cleared[1:]) < WINDOW // 2


def test_packets_leave_their_time(plane: P4Plane) -> None:
    plane.packet(START, ALICE.port, Tcp().frame, 0)
    assert plane.switch.register("Ingress.clock", 0) == [0, START >> 16]


def test_missed_windows_are_reported(plane: P4Plane, capsys: pytest.CaptureFixture[str]) -> None:
    time = Time(plane, 0, 5_500_000_000)
    slow = iter([False] * 8 + [True] + [False] * 1_000)

    def sleep(seconds: float) -> None:
        time.sleep(0.1 if next(slow) else seconds)

    try:
        missed = control().keep_clear(plane.switch, time.stop, time.now_ns, sleep)
    finally:
        del plane.switch.empty
    assert missed in (1, 2, 3)
    assert "windows: mice may be taken for elephants" in capsys.readouterr().err


def test_nothing_is_cleared_before_the_first_packet(plane: P4Plane) -> None:
    times = iter(range(0, 10**9, 10**6))
    cleared: list[str] = []
    plane.switch.empty = cleared.append
    stops = iter([False] * 5 + [True])
    try:
        assert (
            control().keep_clear(plane.switch, lambda: next(stops), lambda: next(times), lambda _: None) == 0
        )
    finally:
        del plane.switch.empty
    assert cleared == []


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**7)), min_size=1, max_size=50))
def test_the_clock_is_never_ahead_of_the_least_delay(delays: list[tuple[int, int]]) -> None:
    clock = control().Clock()
    host, true = 10**12, START
    for passed, delay in delays:
        host, true = host + passed, true + passed
        clock.note(host, max(true - delay, 1 << 16) >> 16)
        estimate = clock.switch_ns(host)
        assert estimate is not None
        assert true - delay - (1 << 17) <= estimate <= true


# ---- sweeping
def test_sweeping_takes_silent_flows_out(plane: P4Plane) -> None:
    drive(plane, burst(Tcp(), 14, START) + burst(OTHER, 14, START + 1_000_000), cleared=True)
    assert control().show(plane.switch, plane.config)[BOB.port - 1] == "port 130: 2 elephants, mice calm"
    for window in range(33, 37):
        plane.clear(window)
    outcomes = drive(plane, burst(OTHER, 20, START + 5 * WINDOW, depth=DEEP), cleared=True)
    assert outcomes[-1].queue == "elephants"
    assert control().sweep(plane.switch, plane.config) == 1
    assert control().show(plane.switch, plane.config)[BOB.port - 1] == "port 130: 1 elephants, mice crowded"
    # and the flow is counted again when it comes back
    drive(plane, burst(Tcp(), 13, START + 5 * WINDOW + 10_000_000), cleared=False)
    assert control().show(plane.switch, plane.config)[BOB.port - 1].startswith("port 130: 2 elephants")


# ---- trials
QUEUES = [(0, 16), (0, 17)]
"""Keys of port 130's queues for mice and for elephants."""
PORT = 130


@pytest.fixture
def sampled(tmp_path: Path) -> P4Plane:
    """A switch whose bottlenecks have names and are sampled."""
    ports = [{**one, "name": f"net-{one['port']}"} for one in configuration()["ports"]]
    return P4Plane(Path(change(tmp_path / "ports.json", ports=ports, sample_ms=10)))


def count(plane: P4Plane, cells: tuple[int, int], drops: tuple[int, int], sent: int) -> None:
    """Set what the hardware counts at port 130."""
    for at, used, dropped in zip(QUEUES, cells, drops, strict=True):
        counters = {"usage_cells": used, "drop_count_packets": dropped}
        plane.info.driver("tf1.tm.counter.queue").entries[at] = dict(counters)
    plane.info.driver("$PORT_STAT").entries[(PORT,)] = {
        "$OctetsTransmittedTotal": 1500 * sent,
        "$FramesTransmittedAll": sent,
    }


def bottleneck(plane: P4Plane) -> Any:
    """Return port 130 of the configuration."""
    return next(port for port in plane.config.ports if port.port == PORT)


def test_a_sample_has_the_names_that_the_catalog_reads(sampled: P4Plane) -> None:
    drive(sampled, burst(Tcp(), 14, START), cleared=True)
    count(sampled, (3, 100), (1, 2), 7)
    queues = control().queues_of(sampled.switch, bottleneck(sampled))
    state = control().sample(sampled.switch, sampled.config, bottleneck(sampled), queues)
    assert state == {
        "kind": "ncf",
        "handle": "0:",
        "bytes": 10_500,
        "packets": 7,
        "drops": 3,
        "backlog": 103 * 80,
        "elephants": 1,
        "mice_crowded": 0,
        "mice_backlog": 240,
        "elephants_backlog": 8_000,
        "mice_drops": 1,
        "elephants_drops": 2,
    }
    exports = Catalog.load().exports["ncf"]
    assert set(dict(exports.statistics)) & set(state) == set(state) - {
        *("kind", "handle", "bytes", "packets", "drops", "backlog")
    }


def test_files_of_samples_are_bounded(tmp_path: Path, sampled: P4Plane) -> None:
    file = control().Samples(tmp_path, bottleneck(sampled), most_bytes=1_000)
    for number in range(200):
        file.add(number, {"bytes": number})
        assert sum(path.stat().st_size for path in tmp_path.glob("samples-*")) <= 2_000
    kept = list(file.read())
    assert kept[-1] == (199, {"bytes": 199})
    assert [at for at, _ in kept] == list(range(kept[0][0], 200))
    assert len(kept) > 30
    # a sample that is being written, or was not written to its end
    with file.path.open("ab") as opened:
        opened.write(b"@ 200\n[{")
    assert list(file.read()) == kept


def test_samples_are_taken_at_intervals(tmp_path: Path, sampled: P4Plane) -> None:
    slept: list[float] = []
    stops = iter([False] * 4 + [True])
    control().keep_sampling(sampled.switch, sampled.config, tmp_path, lambda: next(stops), slept.append)
    for port in sampled.config.bottlenecks:
        found = list(control().Samples(tmp_path, port).read())
        assert len(found) == 4
        assert [at for at, _ in found] == sorted(at for at, _ in found)
    assert all(0 <= seconds < 0.05 for seconds in slept)


def results(plane: P4Plane, folder: Path, start_ns: int, end_ns: int) -> list[tuple[float, Any]]:
    """Return the samples of port 130 between two instants, as results have them."""
    control().write_results(plane.switch, plane.config, folder, folder / "results", (start_ns, end_ns))
    return [
        (float(time[2:]), json.loads(line)[0])
        for time, line in zip(
            *[iter((folder / f"results/tc-net-{PORT}.txt").read_text().splitlines())] * 2, strict=True
        )
    ]


def test_results_are_of_the_trial_alone(tmp_path: Path, sampled: P4Plane) -> None:
    for number, port in enumerate(sampled.config.bottlenecks):
        file = control().Samples(tmp_path, port)
        for second in range(10):
            counters = dict.fromkeys(control().COUNTED_UP, 100 * number + 10 * second)
            file.add(second * 10**9, {**counters, "backlog": second})
    found = results(sampled, tmp_path, 3_500_000_000, 6_000_000_000)
    assert [(at, state["backlog"]) for at, state in found] == [(500, 4), (1500, 5), (2500, 6)]
    # counters of the sample before the start are subtracted
    assert [state["bytes"] for _, state in found] == [10, 20, 30]
    with pytest.raises(control().NotSo, match="has no samples of the trial, the latest is"):
        results(sampled, tmp_path, 20_000_000_000, 30_000_000_000)


def test_settings_are_read_from_the_switch(sampled: P4Plane) -> None:
    at = {"dev_port": PORT}
    before = control().settings(sampled.switch, sampled.config)
    shaper, queue = (one for one in before if one["network"] == f"net-{PORT}")
    assert shaper == {
        "kind": "shaper",
        "network": f"net-{PORT}",
        "unit": "BPS",
        "rate": 25_000_000,
        "enabled": True,
    }
    assert queue["options"] == {
        "limit": 250_000,
        "mice_share": 20.0,
        "rho": 12,
        "bottleneck": bottleneck(sampled).bottleneck,
        "capacity": 25_000_000,
        "mice_threshold": 49.92,  # 312 of 625 cells
        "elephants_threshold": 75.0,
    }
    # what somebody else wrote shows, whatever the configuration says
    sampled.switch.change("tf1.tm.port.sched_shaping", at, {"max_rate": 1_000})
    sampled.switch.empty("Ingress.classify")
    sampled.switch.change(
        "tf1.tm.queue.buffer",
        dict(zip(("pg_id", "pg_queue"), QUEUES[0], strict=True)),
        {"guaranteed_cells": 25},
        "shared_pool",
        1,
    )
    shaper, queue = (
        one for one in control().settings(sampled.switch, sampled.config) if one["network"] == f"net-{PORT}"
    )
    assert shaper["rate"] == 125_000
    assert (queue["options"]["rho"], queue["options"]["limit"]) == (None, (25 + 2_500) * 80)


def test_a_trial_begins_without_flows_and_with_all_ports(sampled: P4Plane) -> None:
    drive(sampled, burst(Tcp(), 14, START), cleared=True)
    assert sampled.switch.register("Egress.elephants", PORT)[1] == 1
    control().begin(sampled.switch, sampled.config)
    assert sampled.switch.register("Egress.elephants", PORT)[1] == 0
    sampled.info.driver("$PORT").down.add((PORT,))
    times = iter(range(100))
    with pytest.raises(control().NotSo, match="port 130 is down: its speed and error correction"):
        control().begin(sampled.switch, sampled.config, lambda: next(times), lambda _: None)


def test_every_host_has_a_port(plane: P4Plane) -> None:
    assert {host.mac.hex(":"): PIPE + host.port for host in HOSTS} == plane.config.hosts
