# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Flow groups in programs: what they send and when, their own round-trip times, and what is refused."""

from __future__ import annotations

import pytest

from l4sbench.facts.traits import Identity, TestbedTraits
from l4sbench.planning.inputs import TrialInputs, needs
from l4sbench.program import FlowRun, Program, problems
from l4sbench.program.trial import draw_conditions
from l4sbench.text.units import Duration
from tests.unit.l4sbench.program.test_program import CATALOG, build, cell

LAB = TestbedTraits(default_traffic="lean", wires=True)


def flows(**factors: str | int) -> dict[str, FlowRun]:
    wanted = cell(**factors)
    conditions = draw_conditions(wanted, 7, LAB)
    made = build(wanted, traffic="lean", wire_seed=1, start_offsets=conditions.start_offsets)
    return {run.flow: run for program in made.values() for run in program.flows}


def test_flows_of_a_group_start_at_intervals_and_equally_late() -> None:
    found = flows(classic__count=4, classic__every="25s", classic__start="2s", classic__lifetime="100s")
    starts = [found[f"classic-{index}"].start.ns for index in range(4)]
    assert 2e9 <= starts[0] < 3e9
    assert [start - starts[0] for start in starts] == [0, 25e9, 50e9, 75e9]
    assert {found[f"classic-{index}"].seconds for index in range(4)} == {100}


def test_without_an_interval_each_flow_is_late_by_itself() -> None:
    starts = {run.start.ns for name, run in flows(classic__count=4).items() if name.startswith("classic")}
    assert len(starts) == 4
    assert all(0 <= start < 1e9 for start in starts)


def test_stop_ends_all_flows_of_a_group_at_once() -> None:
    found = flows(classic__count=3, classic__every="1s", classic__stop="20s")
    ends = [run.start.s + run.seconds for name, run in found.items() if name.startswith("classic")]
    assert ends == pytest.approx([20] * 3)
    assert found["l4s-0"].seconds == 30


def test_stop_does_not_make_a_flow_longer() -> None:
    assert flows(classic__lifetime="5s", classic__stop="6s")["classic-0"].seconds == 5


def test_what_tcp_does_not_send_shares_the_node_of_a_group_with_its_own_round_trip_time() -> None:
    flood = {"flood__send": "syn-flood", "flood__rate": "5mbit", "flood__codepoint": "ect0"}
    flood |= {"flood__from": "tx-classic", "flood__to": "rx-classic"}
    assert not problems(cell(classic__rtt="20ms", **flood), CATALOG)
    (clash,) = problems(cell(classic__rtt="20ms", flood__rtt="30ms", **flood), CATALOG)
    assert "the round-trip time cannot be both 20ms and 30ms" in str(clash)


def delays(made: Program) -> list[str]:
    by_wire = [f"{key}={value}" for key, value in made.sysctls if key.endswith("delay_ns")]
    by_netem = [command.argv[-3] for command in made.setup if "netem" in command.argv]
    return by_wire + by_netem


@pytest.mark.parametrize("wire_seed", [1, None])
def test_a_longer_round_trip_time_is_delay_at_its_sender(wire_seed: int | None) -> None:
    made = build(cell(classic__rtt="80ms"), wire_seed=wire_seed)
    expected = ["net.wire.net-tx.delay_ns=70000000"] if wire_seed else ["70ms"]
    assert delays(made["tx-classic"]) == expected
    assert delays(made["tx-l4s"]) == []
    keys = [key for key, _ in made["tx-classic"].sysctls]
    assert len(keys) == len(set(keys))
    own, usual = (
        int(dict(made[node].sysctls)["net.ipv4.tcp_rmem"].split()[2]) for node in ("tx-l4s", "rx-l4s")
    )
    assert own == usual >= 4 * 100e6 * 0.08 / 8


def test_what_tcp_does_not_send_sets_nothing_of_tcp_and_shares_any_node() -> None:
    udp = {"udp__send": "paced", "udp__rate": "5mbit", "udp__codepoint": "ect1"}
    place = {"udp__from": "tx-classic", "udp__to": "rx-classic"}
    assert problems(cell(**udp, **place), CATALOG) == ()
    made = build(cell(**udp, **place))
    assert made["tx-classic"].sysctls == build(cell())["tx-classic"].sysctls
    run = made["tx-classic"].flows[-1]
    assert (run.send, run.cc, run.ecn) == ("paced", "", "")


def test_ids_of_cells_leave_out_what_is_usual() -> None:
    usual = cell()
    assert cell(classic__send="bulk").id == usual.id
    assert cell(classic__send="bulk", classic__bytes="30MB").id != usual.id
    udp = cell(udp__send="paced", udp__rate="5mbit", udp__codepoint="ect1")
    assert "_paced" in udp.id
    assert "udp.send" not in udp.id


@pytest.mark.parametrize(
    ("factors", "path"),
    [
        ({"classic__count": 4, "classic__every": "5s", "classic__stop": "16s"}, "classic.stop"),
        ({"classic__start": "10s", "classic__stop": "47s"}, "classic.stop"),
        ({"warmup": "5s", "classic__lifetime": "5s"}, "classic.lifetime"),
        ({"warmup": "5s", "classic__stop": "5s"}, "classic.stop"),
        ({"warmup": "5s", "classic__start": "2s", "classic__stop": "8999ms"}, "classic.stop"),
        ({"classic__rtt": "9ms"}, "classic.rtt"),
        (
            {
                "classic__rtt": "20ms",
                "m__cc": "reno",
                "m__ecn": "off",
                "m__from": "tx-classic",
                "m__to": "rx-l4s",
            },
            "m",
        ),
        ({"classic__count": 1000, "classic__every": "100s"}, "classic.every"),
        ({"udp__send": "paced", "udp__rate": "5mbit"}, "udp.codepoint"),
        ({"classic__period": "1s"}, "classic.period"),
        (
            {"classic__send": "workload", "classic__workload": "facebook-hadoop", "classic__load": "900%"}
            | {"rate": "10gbit"},
            "classic.load",
        ),
        ({"traffic__tool": "iperf3", "classic__bytes": "1MB"}, "classic.bytes"),
        ({"traffic__tool": "iperf3", "classic__lifetime": "1500ms"}, "classic.lifetime"),
    ],
)
def test_what_cannot_be_is_refused(factors: dict[str, str | int], path: str) -> None:
    assert path in [problem.path for problem in problems(cell(**factors), CATALOG)]


@pytest.mark.parametrize(("family", "most"), [("ipv4", 1472), ("ipv6", 1452)])
def test_packets_of_a_paced_flow_are_at_most_full(family: str, most: int) -> None:
    udp = {"udp__send": "paced", "udp__rate": "5mbit", "udp__codepoint": "ect1"}
    udp |= {"udp__from": "tx-classic", "udp__to": "rx-classic", "family": family}
    full, longer = (cell(**udp, udp__size=f"{size}B") for size in (most, most + 1))
    assert problems(full, CATALOG) == ()
    assert [problem.path for problem in problems(longer, CATALOG)] == ["udp.size"]


def test_a_flow_may_stop_a_second_after_its_warmup() -> None:
    late = cell(warmup="5s", classic__start="2s", classic__stop="9s")
    assert problems(late, CATALOG) == ()
    made = build(late, traffic="iperf3", start_offsets={"classic-0": Duration(999_999_999)})
    assert made["tx-classic"].flows[0].seconds == 6


def test_a_workload_is_drawn_from_the_seed() -> None:
    many = {"many__send": "workload", "many__cc": "reno", "many__ecn": "off", "many__workload": "web-search"}
    many |= {"many__from": "tx-classic", "many__to": "rx-classic"}
    drawn = [flows(**many, many__load=load)["many-0"].input for load in ("80%", "80%", "40%")]
    assert drawn[0] == drawn[1] != drawn[2]
    first, other = ([line.split()[1] for line in text.splitlines()] for text in drawn[1:])
    assert len(other) > 5
    assert first[: len(other)] == other


MICE = {"mice__send": "requests", "mice__cc": "reno", "mice__ecn": "off", "mice__period": "1s"}
MICE |= {"mice__size": "50B", "mice__from": "tx-classic", "mice__to": "rx-classic"}


@pytest.mark.parametrize(
    ("factors", "tools"),
    [
        ({}, {"l4s": "iperf3", "classic": "iperf3"}),
        (MICE, {"l4s": "iperf3", "classic": "iperf3", "mice": "lab-traffic"}),
        ({"classic__bytes": "1MB"}, {"l4s": "lab-traffic", "classic": "lab-traffic"}),
        ({"duration": "2500ms"}, {"l4s": "lab-traffic", "classic": "lab-traffic"}),
        ({"l4s__lifetime": "1500ms"}, {"l4s": "lab-traffic", "classic": "lab-traffic"}),
        ({"l4s__lifetime": "2s"}, {"l4s": "iperf3", "classic": "iperf3"}),
        ({"l4s__stop": "9500ms"}, {"l4s": "iperf3", "classic": "iperf3"}),
        ({"traffic__tool": "lean"}, {"l4s": "lab-traffic", "classic": "lab-traffic"}),
    ],
)
def test_on_hosts_lean_does_what_iperf3_cannot(factors: dict[str, str], tools: dict[str, str]) -> None:
    wanted = cell(**factors)
    assert not problems(wanted, CATALOG)
    made = build(wanted, traffic=draw_conditions(wanted, 1, TestbedTraits()).traffic)
    runs = [run for program in made.values() for run in program.flows]
    assert {run.group: run.argv[0] for run in runs} == tools
    by_port = {run.port: run.argv[0] for run in runs}
    servers = [server for program in made.values() for server in program.servers]
    assert {server.argv[0] for server in servers} == set(by_port.values())
    names = {"lab-traffic": "lean", "iperf3": "iperf3"}
    assert needs(CATALOG, [wanted], TestbedTraits()).traffic == {names[tool] for tool in tools.values()}
    assert needs(CATALOG, [wanted], LAB).traffic == {"lean"}


def test_flent_runs_on_hosts_only() -> None:
    probe = {"probe__send": "flent", "probe__test": "ping", "probe__from": "tx-l4s", "probe__to": "rx-l4s"}
    wanted = cell(**probe)
    assert not problems(wanted, CATALOG)
    made = build(wanted, traffic="iperf3")
    (run,) = [run for run in made["tx-l4s"].flows if run.group == "probe"]
    assert (run.argv[:2], run.output) == (("flent", "ping"), "flow-probe-0.sender.txt")
    assert ("irtt", "server") in [server.argv for server in made["rx-l4s"].servers]
    found = needs(CATALOG, [wanted], TestbedTraits())
    assert found.hosts == {"probe.send"}
    assert found.traffic == {"iperf3", "flent"}
    assert needs(CATALOG, [wanted], LAB).hosts == {"probe.send"}
    (problem,) = problems(cell(**probe | {"probe__test": "../x"}), CATALOG)
    assert "'../x' is not a valid name of a test of flent" in str(problem)


def test_a_cell_with_two_tools_has_inputs_of_both() -> None:
    wanted = cell(**MICE)

    def digest(**versions: str) -> str:
        software = Identity("ssh", "7.0", tools={"lean": "1", "iperf3": "3.18"} | versions)
        return TrialInputs(CATALOG, 1, software, TestbedTraits()).digests(wanted, [1])[0]

    assert len({digest(), digest(lean="2"), digest(iperf3="3.20")}) == 3


def test_iperf3_ends_with_the_last_whole_second_before_stop() -> None:
    made = build(
        cell(classic__stop="9s"), traffic="iperf3", start_offsets={"classic-0": Duration(400_000_000)}
    )
    assert made["tx-classic"].flows[0].seconds == 8
