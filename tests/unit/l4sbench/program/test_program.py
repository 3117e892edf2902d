# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Programs of whole cells, compared with the listings in tests/cases/program, and properties of their parts.

After a wanted change `L4SBENCH_UPDATE_CASES=1 pytest tests/unit/l4sbench/program/test_program.py` writes the
listings again; read their diff before committing it.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from l4sbench.catalog import Catalog, Expectation, Exports
from l4sbench.errors import InputError
from l4sbench.facts.cell import Cell
from l4sbench.program import (
    Conditions,
    Expected,
    Program,
    Route,
    differences,
    oddities,
    problems,
    programs,
)
from l4sbench.text.units import Duration, Packets, Value
from l4sbench.topology import topology

LINE6 = topology("line6")

CASES = Path(__file__).parents[3] / "cases" / "program"
CATALOG = Catalog.load()
PLAIN: Mapping[str, Value] = {
    "rate": "100mbit",
    "rtt": "10ms",
    "duration": "30s",
    "aqm": "codel",
    "l4s.cc": "prague",
    "l4s.ecn": "accecn",
    "classic.cc": "cubic",
    "classic.ecn": "off",
}


GLOBAL = """\
name: mine
kind: congestion-control
label: Mine
about: One whose parameter is its module's.
kernel_name: mine
module: {name: tcp_mine, params: {gain: "{gain}"}}
ecn: {default: "off", allowed: ["off"], reacts: []}
params:
  gain: {kind: int, default: 1, doc: A gain}
"""


def cell(**factors: Value) -> Cell:
    """A cell that differs from `PLAIN`; `__` stands for a dot, parameters may be text."""
    stated = dict(PLAIN) | {name.replace("__", "."): value for name, value in factors.items()}
    groups = [name.removesuffix(".cc") for name in stated if name.endswith(".cc")]
    declared = {f"aqm.{name}": param for name, param in CATALOG.queue(str(stated["aqm"])).params.items()}
    for group in groups:
        entry = CATALOG.congestion_controls.get(str(stated[f"{group}.cc"]))
        declared |= {f"{group}.{name}": param for name, param in (entry.params if entry else {}).items()}
    return Cell.of({name: declared[name].parse(v) if name in declared else v for name, v in stated.items()})


def build(wanted: Cell, **conditions: Any) -> Mapping[str, Program]:
    return programs(wanted, LINE6, CATALOG, Conditions(**conditions))


def words(program: Program) -> list[str]:
    return [" ".join(command.argv) for command in program.setup]


DRAWN = {
    "wire_seed": 42,
    "start_offsets": {"l4s-0": Duration(123_456_789), "classic-0": Duration(987_654_321)},
}
SWITCH = {"net-mid": "02:00:00:00:01:84", "net-rx": "02:00:00:00:01:8c"}
WHOLE: Mapping[str, tuple[dict[str, Value], dict[str, Any]]] = {
    "codel-classic-ecn": ({"aqm": "codel", "classic__ecn": "classic"}, DRAWN),
    "literal-fq-three-groups": (
        {
            "aqm": "fq",
            "aqm__form": "literal",
            "buffer_bdp": 8.0,
            "rate": "2500kbit",
            "rtt": "25ms",
            "l4s__count": 2,
            "mice__cc": "reno",
            "mice__ecn": "off",
            "mice__from": "tx-classic",
            "mice__to": "rx-classic",
            "mice__start": "5s",
            "warmup": "2500ms",
        },
        DRAWN,
    ),
    "published-dualpi2-iperf3": (
        {
            "aqm": "dualpi2",
            "aqm__limit": "default",
            "duration": "60s",
            "classic__cc": "bbr1",
            "buffer_bdp": 0.5,
        },
        {"traffic": "iperf3"},
    ),
    "red-dctcp": (
        {
            "aqm": "red",
            "classic__cc": "dctcp",
            "classic__ecn": "dctcp",
            "l4s__rtt_target": "10ms",
            "rate": "1gbit",
        },
        DRAWN,
    ),
    "dualpi2-ipv6": (
        {"aqm": "dualpi2", "family": "ipv6", "capture": "headers", "classic__ecn": "classic"},
        DRAWN,
    ),
    "ncf-on-a-switch": (
        {"aqm": "ncf", "aqm__rho": 14, "l4s__cc": "ncf", "l4s__ecn": "off", "sample__interval": "50ms"},
        {**DRAWN, "wire_seed": None, "switches": {"router": SWITCH}},
    ),
}
"""Name of a case -> factors that differ from `PLAIN`, and conditions."""


def listing(program: Program) -> str:
    """Return a program, one step per line: phase, command, then what else is not at its default."""
    lines = [f"[{program.node}]\n"]
    for phase in fields(Program)[1:]:
        for step in getattr(program, phase.name):
            words = shlex.join(getattr(step, "argv", ()))
            rest = " ".join(_stated(step)) if is_dataclass(step) else _text(step)
            lines.append(f"{phase.name}: {'  # '.join(filter(None, (words, rest)))}\n")
    return "".join(lines)


def _stated(step: Any) -> Iterator[str]:
    """Yield the fields of a step that are not at their default, but for its command."""
    for field in fields(step):
        value = getattr(step, field.name)
        if field.name != "argv" and value != field.default:
            yield f"{field.name}={_text(value)}"


def _text(value: object) -> str:
    """Return a field's value as text; pairs as `name=value`."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        return f"{value[0]}={_text(value[1])}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, Expectation):
        return f"{value.key}={value.value!r}" + (f"+-{value.within!r}" if value.within else "")
    return value.source if isinstance(value, Exports) else str(value)


@pytest.mark.parametrize("name", WHOLE)
def test_whole_cells(name: str) -> None:
    factors, conditions = WHOLE[name]
    made = build(cell(**factors), **conditions)
    assert {node: Program.from_json(program.to_json()) for node, program in made.items()} == made
    text = "\n".join(map(listing, made.values()))
    file = CASES / f"{name}.txt"
    if os.environ.get("L4SBENCH_UPDATE_CASES"):
        file.write_text(text)
    assert text == file.read_text()


def test_ncf_is_for_ipv4_only() -> None:
    found = problems(cell(aqm="ncf", l4s__cc="ncf", l4s__ecn="off", family="ipv6"), CATALOG)
    assert [str(problem) for problem in found] == [
        "aqm: ncf is for IPv4 only, not for IPv6; write family: ipv4",
        "l4s.cc: ncf is for IPv4 only, not for IPv6; write family: ipv4",
    ]
    assert problems(cell(aqm="ncf", l4s__cc="ncf", l4s__ecn="off"), CATALOG) == ()


def test_a_damaged_program_is_refused() -> None:
    plain = build(cell())["router"].to_json()
    with pytest.raises(ValueError, match="setup"):
        Program.from_json(plain | {"setup": [{"argv": "tc qdisc"}]})


def test_the_bottleneck_is_set_up_as_published() -> None:
    router = build(cell(aqm="fifo", buffer_bdp=0.5))["router"]
    assert words(router) == [
        "tc qdisc replace dev @net-rx root handle 1: htb default 3",
        "tc class add dev @net-rx parent 1: classid 1:3 htb rate 100mbit",
        "tc qdisc replace dev @net-rx parent 1:3 handle 3: bfifo limit 62500",
    ]


@pytest.mark.parametrize(("rtt", "half"), [("10ms", "5ms"), ("25ms", "12500us"), ("1us", "500ns")])
def test_the_delay_is_split_on_both_ports(rtt: str, half: str) -> None:
    delay = build(cell(rtt=rtt))["delay"]
    assert words(delay) == [
        f"tc qdisc replace dev @net-tx root netem delay {half} limit 60000",
        f"tc qdisc replace dev @net-mid root netem delay {half} limit 60000",
    ]


def wires(program: Program) -> dict[str, str]:
    """Return the settings of a node's wires, without `net.wire.`."""
    return {key.removeprefix("net.wire."): v for key, v in program.sysctls if key.startswith("net.wire.")}


def test_wires_delay_as_netem_does() -> None:
    delay = build(cell(rtt="25ms"), wire_seed=1)["delay"]
    assert delay.setup == ()
    ports = ("net-tx", "net-mid")
    assert [wires(delay)[f"{port}.delay_ns"] for port in ports] == ["12500000"] * 2
    assert [wires(delay)[f"{port}.limit"] for port in ports] == ["60000"] * 2


def test_noise_is_one_packet_time_at_most_and_differs_between_senders() -> None:
    made = build(cell(rate="10mbit"), wire_seed=7)
    # 1514 bytes at 10 Mbit/s take 1211.2 us
    assert wires(made["tx-l4s"])["net-tx.jitter_ns"] == "1211200"
    seeds = {node: wires(made[node])["net-tx.seed"] for node in ("tx-l4s", "tx-classic")}
    assert seeds["tx-l4s"] != seeds["tx-classic"]
    assert wires(build(cell(rate="10mbit"), wire_seed=8)["tx-l4s"])["net-tx.seed"] != seeds["tx-l4s"]
    assert not any(wires(program) for node, program in made.items() if node.startswith("rx"))


@pytest.mark.parametrize(("noise", "seed"), [(0.0, 7), (1.0, None)])
def test_no_noise_where_none_is_wanted(noise: float, seed: int | None) -> None:
    made = build(cell(path__noise=noise), wire_seed=seed)
    assert made["tx-l4s"].setup == ()
    assert not wires(made["tx-l4s"])


@pytest.mark.parametrize(
    ("where", "nodes"),
    [
        ("delay", {"delay"}),
        ("router", {"router"}),
        ("receivers", {"rx-l4s", "rx-classic"}),
        ("senders+router", {"tx-l4s", "tx-classic", "router"}),
    ],
)
def test_pauses_are_where_they_are_asked_for(where: str, nodes: set[str]) -> None:
    made = build(cell(path__pause="3ms", path__pause_every="250ms", path__pause_at=where), wire_seed=1)
    found = {node: wires(program) for node, program in made.items() if "pause_ns" in wires(program)}
    assert found.keys() == nodes
    assert {(own["pause_ns"], own["pause_every_ns"]) for own in found.values()} == {("3000000", "250000000")}
    assert len({own["pause_seed"] for own in found.values()}) == len(nodes)


def test_packets_cost_every_node() -> None:
    made = build(cell(host__packet_cost="2us"), wire_seed=1)
    assert {wires(program)["packet_cost_ns"] for program in made.values()} == {"2000"}


def test_marks_are_towards_receivers_and_acks_are_thinned_on_the_way_back() -> None:
    made = build(cell(path__mark="5%", path__ack_thinning=4), wire_seed=1)
    found = {node: wires(program) for node, program in made.items()}
    assert found["delay"]["net-mid.mark_ppb"] == "50000000"
    assert found["delay"]["net-tx.thin"] == "4"
    others = {name for node, settings in found.items() if node != "delay" for name in settings}
    assert not any(name.endswith(("mark_ppb", "thin")) for name in others)


@pytest.mark.parametrize(
    ("cc", "ecn", "tcp_ecn", "route"),
    [
        ("cubic", "off", "0", ()),
        ("cubic", "classic", "1", ()),
        ("cubic", "accecn", "3", ()),
        ("dctcp", "dctcp", "1", ("congctl", "dctcp")),
        ("prague", "accecn", "3", ("congctl", "prague")),
    ],
)
def test_ecn_is_set_at_both_ends(cc: str, ecn: str, tcp_ecn: str, route: tuple[str, ...]) -> None:
    made = build(cell(classic__cc=cc, classic__ecn=ecn))
    for node in ("tx-classic", "rx-classic"):
        assert dict(made[node].sysctls)["net.ipv4.tcp_ecn"] == tcp_ecn
    assert made["rx-classic"].routes[0].options == route
    assert made["tx-classic"].routes[0].options == ()
    assert made["tx-classic"].flows[0].ecn == ecn


@pytest.mark.parametrize(
    ("own", "others", "met", "tcp_ecn"),
    [
        ("accecn", "off", "off", ("3", "0")),
        ("accecn", "classic", "classic", ("3", "1")),
        ("accecn", "accecn", "accecn", ("3", "3")),
        ("classic", "accecn", "classic", ("1", "3")),
        ("off", "accecn", "off", ("0", "3")),
    ],
)
def test_a_receiver_may_have_another_ecn(own: str, others: str, met: str, tcp_ecn: tuple[str, str]) -> None:
    made = build(cell(classic__cc="cubic", classic__ecn=own, classic__receiver_ecn=others))
    nodes = ("tx-classic", "rx-classic")
    assert tuple(dict(made[node].sysctls)["net.ipv4.tcp_ecn"] for node in nodes) == tcp_ecn
    assert made["tx-classic"].flows[0].ecn == met


def test_routes_of_both_hosts_have_the_initial_window() -> None:
    made = build(cell(classic__cc="dctcp", classic__ecn="dctcp", classic__initial_window="3p"))
    assert made["tx-classic"].routes[0].options == ("initcwnd", "3")
    assert made["rx-classic"].routes[0].options == ("congctl", "dctcp", "initcwnd", "3")
    assert made["tx-l4s"].routes[0].options == made["router"].routes[0].options == ()


def test_dctcp_keeps_its_own_echo_beside_a_receiver_with_ecn() -> None:
    made = build(cell(classic__cc="dctcp", classic__ecn="dctcp", classic__receiver_ecn="classic"))
    assert made["tx-classic"].flows[0].ecn == "dctcp"


def test_every_node_forwards_and_forgets() -> None:
    for program in build(cell()).values():
        sysctls = dict(program.sysctls)
        assert sysctls["net.ipv4.ip_forward"] == sysctls["net.ipv4.tcp_no_metrics_save"] == "1"


@pytest.mark.parametrize(
    ("factors", "rmem", "wmem"),
    [
        ({"buffer_bdp": 1.0}, 6_291_456, 4_194_304),
        ({"buffer_bdp": 8.0}, 6_291_456, 4_500_000),  # (8 + 1) * 125,000 bytes * 4
        (
            {"aqm": "dualpi2", "aqm__limit": "default"},
            60_500_000,
            60_500_000,
        ),  # (10,000 * 1500 + 125,000) * 4
    ],
)
def test_sockets_hold_what_the_path_can(factors: dict[str, Value], rmem: int, wmem: int) -> None:
    sysctls = dict(build(cell(**factors))["tx-l4s"].sysctls)
    assert sysctls["net.ipv4.tcp_rmem"] == f"4096 131072 {rmem}"
    assert sysctls["net.ipv4.tcp_wmem"] == f"4096 16384 {wmem}"


@pytest.mark.parametrize("tool", ["lean", "iperf3"])
def test_flows_have_names_ports_and_starts(tool: str) -> None:
    wanted = cell(l4s__count=2, classic__start="5s", warmup="10s")
    offsets = {"l4s-1": Duration(7), "classic-0": Duration(9)}
    made = build(wanted, traffic=tool, start_offsets=offsets)
    flows = [flow for program in made.values() for flow in program.flows]
    assert [(f.flow, f.port, f.start.ns, f.seconds) for f in flows] == [
        ("l4s-0", 5001, 0, 40.0),
        ("l4s-1", 5002, 7, 40.0),
        ("classic-0", 5003, 5_000_000_009, 40.0),
    ]
    servers = {server.id: (node, server) for node, p in made.items() for server in p.servers}
    for flow in flows:
        node, server = servers[flow.flow]
        assert node == flow.receiver
        assert str(flow.port) in server.argv
        assert str(flow.port) in flow.argv
    outputs = [(node, s.output) for node, s in servers.values()] + [("", f.output) for f in flows]
    assert len(set(outputs)) == 6


def test_offloads_are_off_on_every_port() -> None:
    made = build(cell())
    links = [link for program in made.values() for link in program.links]
    assert len(links) == 8
    assert {link.offloads for link in links} == {
        (("tso", False), ("gso", False), ("gro", False), ("lro", False))
    }


def test_what_is_sampled() -> None:
    made = build(cell(sample__interval="20ms"))
    sampled = {(node, s.kind, s.network, s.interval.ms) for node, p in made.items() for s in p.samplers}
    assert sampled == {
        *((node, "sockets", None, 20.0) for node in ("tx-l4s", "tx-classic", "rx-l4s", "rx-classic")),
        ("router", "queues", "net-rx", 20.0),
    }


def test_packets_are_captured_on_both_sides_of_the_queue_where_asked() -> None:
    found = build(cell(capture="headers"))
    captured = {
        node: [s for s in program.servers if s.argv[0] == "tcpdump"] for node, program in found.items()
    }
    before, behind = captured.pop("router")
    assert not any(captured.values())
    assert (before.output, behind.output) == ("net-mid.pcap", "net-rx.pcap")
    assert " -i @net-mid -Q in " in " ".join(before.argv)
    assert "-Q" not in behind.argv
    assert not any(s.argv[0] == "tcpdump" for program in build(cell()).values() for s in program.servers)


def test_capturing_packets_makes_another_cell_and_not_capturing_does_not() -> None:
    assert cell(capture="off").id == cell().id != cell(capture="headers").id


def test_every_expectation_is_read_back() -> None:
    for aqm in CATALOG.queues:
        for program in build(cell(aqm=aqm), wire_seed=1).values():
            outputs = {readback.output for readback in program.readback}
            assert len(outputs) == len(program.readback)
            assert {expected.output for expected in program.expected} <= outputs
            read = {word for reading in program.readback for word in reading.argv}
            assert {key for key, _ in program.sysctls} <= read


def test_modules_go_where_the_flows_are() -> None:
    made = build(cell())
    found = {node: [m for m in p.modules if m.ours] for node, p in made.items()}
    assert {node for node, modules in found.items() if modules} == {"tx-l4s", "rx-l4s"}
    assert found["tx-l4s"] == found["rx-l4s"]


def test_each_sender_gets_the_parameters_of_its_group() -> None:
    """All nodes may share a kernel: Prague's parameters are those of a network namespace."""
    made = build(
        cell(l4s__segsize="log", classic__cc="prague", classic__ecn="accecn", classic__segsize="rtt")
    )
    key = "net.ipv4.prague_segsize"
    assert {node: dict(p.sysctls)[key] for node, p in made.items() if key in dict(p.sysctls)} == {
        "tx-l4s": "log",
        "tx-classic": "rtt",
    }
    # read back, and compared with the program by collectors.validity
    for node in ("tx-l4s", "tx-classic"):
        assert any(key in reading.argv for reading in made[node].readback if reading.argv[0] == "sysctl")
    assert len({module for program in made.values() for module in program.modules if module.ours}) == 1


@pytest.mark.parametrize(
    ("factors", "enable", "longest"),
    [
        ({"classic__ecn": "off"}, None, None),
        ({"classic__ecn": "classic"}, "1", "0"),
        ({"classic__ecn": "dctcp"}, "1", "0"),
        ({"classic__ecn": "dctcp", "classic__ecn_max_rtt_us": 5000}, "1", "5000"),
        ({"classic__ecn": "classic", "classic__ecn_enable": 0}, "0", "0"),
    ],
)
def test_a_parameter_wins_over_what_the_ecn_mode_sets(
    factors: dict[str, Value], enable: str | None, longest: str | None
) -> None:
    sysctls = dict(build(cell(classic__cc="bbr2", **factors))["tx-classic"].sysctls)
    assert sysctls.get("net.ipv4.bbr2_ecn_enable") == enable
    assert sysctls.get("net.ipv4.bbr2_ecn_max_rtt_us") == longest
    assert not problems(cell(classic__cc="bbr2", **factors), CATALOG)


def test_parameters_of_a_whole_kernel_cannot_differ(tmp_path: Path) -> None:
    (tmp_path / "module.yml").write_text(GLOBAL)
    catalog = Catalog.load([tmp_path])
    wanted = cell(l4s__cc="mine", l4s__ecn="off", classic__cc="mine", classic__ecn="off")
    stated = {**wanted.factors, "l4s.gain": 1, "classic.gain": 2}
    (problem,) = problems(Cell.of(stated), catalog)
    assert str(problem) == (
        "l4s: module parameter gain of tcp_mine holds for the whole kernel: classic wants 2, l4s wants 1"
    )


def test_samplers_are_told_what_is_exported() -> None:
    made = build(cell(aqm="codel-drop"))
    exported = {
        (node, sampler.kind): [exports.source for exports in sampler.exports]
        for node, program in made.items()
        for sampler in program.samplers
    }
    assert exported["tx-l4s", "sockets"] == exported["rx-l4s", "sockets"] == ["tcp_prague"]
    assert exported["tx-classic", "sockets"] == []
    assert exported["router", "queues"] == ["codel"]


@pytest.mark.parametrize(
    ("factors", "path"),
    [
        ({"classic__from": "tx-l4s", "classic__to": "rx-classic"}, "classic.ecn"),
        (
            {
                "classic__cc": "prague",
                "classic__ecn": "accecn",
                "classic__rtt_target": "10ms",
                "classic__from": "tx-l4s",
                "classic__to": "rx-classic",
            },
            "classic",
        ),
        ({"l4s__ecn": "classic"}, "l4s.ecn"),
        ({"l4s__cc": "prage"}, "l4s.cc"),
        ({"flood__cc": "cubic", "flood__ecn": "off"}, "flood"),
    ],
)
def test_cells_that_cannot_be_run(factors: dict[str, Value], path: str) -> None:
    wanted = cell(**factors)
    assert [problem.path for problem in problems(wanted, CATALOG)] == [path]
    with pytest.raises(InputError) as error:
        build(wanted)
    assert error.value.problems == problems(wanted, CATALOG)


def test_groups_that_agree_share_a_node() -> None:
    shared = {"mice__cc": "cubic", "mice__ecn": "off", "mice__from": "tx-classic", "mice__to": "rx-classic"}
    assert problems(cell(**shared), CATALOG) == ()
    made = build(cell(**shared))
    assert [flow.flow for flow in made["tx-classic"].flows] == ["classic-0", "mice-0"]


def test_a_step_that_lone_packets_do_not_reach_is_not_odd() -> None:
    for factors in ({"rate": "24mbit"}, {"rate": "16mbit", "aqm__min_qlen_step": "1p"}):
        assert oddities(cell(aqm="dualpi2", **factors), CATALOG) == ()


def test_a_plain_cell_is_not_odd() -> None:
    for aqm in CATALOG.queues:
        assert oddities(cell(aqm=aqm, buffer_bdp=1.5), CATALOG) == ()


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        (
            {"buffer_bdp": 0.5},
            "codel seldom marks, as its aqm.target is not below its buffer: 5ms of queue against 5ms at 100",
        ),
        (
            {"aqm": "codel-drop", "aqm__limit": "20p"},
            "codel-drop seldom drops early, as its aqm.target is not below its buffer: 5ms of queue",
        ),
        (
            {"aqm": "fifo", "buffer_bdp": 0.02},
            "the buffer of fifo is smaller than two full-size packets: 2500 bytes",
        ),
        (
            {"aqm": "dualpi2", "rate": "16mbit"},
            "dualpi2 marks L4S packets that hardly queue, as two take longer than aqm.step",
        ),
        (
            {"aqm": "dualpi2", "l4s__cc": "reno", "l4s__ecn": "accecn"},
            "dualpi2 treats L4S flows apart, and no group of this cell sends any (AccECN, ECT(1))",
        ),
        (
            {"classic__cc": "bbr1", "classic__ecn": "classic"},
            "classic.ecn is classic, but bbr1 does not react to marks",
        ),
        (
            {"aqm__limit": "100p", "buffer_bdp": 2.0},
            "aqm.limit replaces buffer_bdp for codel: other buffers are the same cell",
        ),
        (
            {"aqm": "fq", "aqm__flow_limit": "10p"},
            "aqm.flow_limit has no effect on fq with these other parameters",
        ),
        (
            {"path__jitter_model": "uniform"},
            "path.jitter_model has no effect without path.jitter, which is 0 unless stated",
        ),
        (
            {"rtt": "20s", "duration": "60s"},
            "a trial is shorter than 10 round-trip times, in which flows hardly start: 60s with an rtt",
        ),
        (
            {"rate": "10kbit", "duration": "60s"},
            "fewer than 100 full-size packets fit into a trial: 60s at 10kbit",
        ),
    ],
)
def test_oddities(factors: dict[str, Value], message: str) -> None:
    assert message in "\n".join(str(one) for one in oddities(cell(**factors), CATALOG))


@pytest.mark.parametrize(
    "factors",
    [
        {"path__pause_at": "senders", "path__pause": "0s"},  # one value of an axis
        {"path__pause_at": "senders", "host": "vm"},
        {"path__loss_burst": "3p", "events__x__at": "1s", "events__x__path.loss": "1%"},
    ],
)
def test_details_of_what_is_stated_are_not_odd(factors: dict[str, Value]) -> None:
    assert not oddities(cell(**factors), CATALOG)


QDISCS = """[
 {"kind": "htb", "handle": "1:", "root": true, "options": {"default": "0x3"}},
 {"kind": "codel", "handle": "3:", "parent": "1:3", "options": {"limit": 42, "target": 4999, "ecn": true}}
]"""


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ((Expectation("options.limit", 42), Expectation("options.target", 5000.0, 2.0)), ()),
        ((Expectation("options.ecn", value=True),), ()),
        ((Expectation("options.limit", 84),), ("it: options.limit is 42, not 84",)),
        ((Expectation("options.target", 5000),), ("it: options.target is 4999, not 5000",)),
        ((Expectation("options.ecn", value=False),), ("it: options.ecn is set and should not be",)),
        ((Expectation("options.ce", 5),), ("it: options.ce is missing, expected 5",)),
    ],
)
def test_differences(values: tuple[Expectation, ...], found: tuple[str, ...]) -> None:
    assert differences(Expected("it", "", (("kind", "codel"), ("parent", "1:3")), values), QDISCS) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (QDISCS, "it: missing; found htb, codel"),
        ("[]", "it: missing; found nothing"),
        ("Cannot find device", "it: the output is not JSON"),
        ('{"kind": "pie"}', "it: missing; found nothing"),
    ],
)
def test_a_missing_qdisc_is_a_difference(text: str, found: str) -> None:
    assert differences(Expected("it", "", (("kind", "pie"),), ()), text) == (found,)


def test_limits_may_be_given_in_packets() -> None:
    assert CATALOG.queue("codel").params["limit"].parse("20p") == Packets(20)


STEP: Mapping[str, Value] = {
    "events__step__at": "20s",
    "events__step__rate": "25mbit",
    "events__step__rtt": "40ms",
}


def test_an_event_changes_rate_and_delay_in_place() -> None:
    made = build(cell(**STEP), wire_seed=7)
    (rate,) = made["router"].changes
    assert rate.at == Duration(20_000_000_000)
    assert [" ".join(argv) for argv in rate.commands] == [
        "tc class change dev @net-rx parent 1: classid 1:3 htb rate 25mbit"
    ]
    (rtt,) = made["delay"].changes
    assert rtt.commands == (
        ("sysctl", "-w", "net.wire.net-tx.delay_ns=20000000", "net.wire.net-mid.delay_ns=20000000"),
    )
    assert not any(program.changes for node, program in made.items() if node not in {"router", "delay"})
    assert Program.from_json(made["delay"].to_json()) == made["delay"]


def test_an_event_changes_netem_where_networks_are_no_wires() -> None:
    changes = build(cell(**STEP))["delay"].changes
    assert [" ".join(argv) for change in changes for argv in change.commands] == [
        f"tc qdisc change dev @{network} root netem delay 20ms limit 60000"
        for network in ("net-tx", "net-mid")
    ]


def test_what_an_event_changed_is_expected_at_the_end() -> None:
    made = build(cell(**STEP), wire_seed=7)

    def rate(expected: tuple[Expected, ...]) -> object:
        (found,) = [one for one in expected if one.what.startswith("htb class")]
        return {value.key: value.value for value in found.values}["rate"]

    assert (rate(made["router"].expected), rate(made["router"].expected_at_end)) == (12_500_000, 3_125_000)
    assert made["delay"].sysctls_at_end["net.wire.net-mid.delay_ns"] == "20000000"
    assert dict(made["delay"].sysctls)["net.wire.net-mid.delay_ns"] == "5000000"


def test_sockets_have_room_for_the_path_as_events_leave_it() -> None:
    def most(made: Mapping[str, Program]) -> int:
        return int(dict(made["rx-l4s"].sysctls)["net.ipv4.tcp_rmem"].split()[2])

    assert most(build(cell(events__up__at="1s", events__up__rate="10gbit"))) >= 4 * 12_500_000
    assert most(build(cell())) < 4 * 12_500_000


def test_events_are_within_the_trial_and_apart() -> None:
    (late,) = problems(cell(events__step__at="30s", events__step__rate="25mbit"), CATALOG)
    assert (late.path, late.message) == (
        "events.step.at",
        "30s is not within the trial: warmup and duration add up to 30s",
    )
    (close,) = problems(cell(**STEP, events__then__at="20001ms", events__then__rate="50mbit"), CATALOG)
    assert close.message == "step changes rate less than 10 ms before"
    assert not problems(cell(**STEP, events__then__at="20010ms", events__then__rate="50mbit"), CATALOG)


def test_an_event_repeats_a_thousand_times_at_most() -> None:
    low = {"events__low__at": "1s", "events__low__every": "20ms", "events__low__rate": "5mbit"}
    high = {"events__high__at": "1005ms", "events__high__every": "40ms", "events__high__rate": "10mbit"}
    close, often = problems(cell(**low, **high), CATALOG)
    assert (often.path, often.message) == ("events.low.every", "low would take effect more than 1000 times")
    assert (close.path, close.message) == ("events.high.at", "low changes rate less than 10 ms before")
    (change, again, *_) = build(cell(**low | {"events__low__every": "1s"}))["router"].changes
    assert (change.event, again.event, again.at.ms) == ("low", "low.2", 2000)
    assert change.readback != again.readback


PATH: Mapping[str, Value] = {
    "path__jitter": "5ms",
    "path__jitter_order": "free",
    "path__loss": "2%",
    "path__loss_burst": "4p",
    "path__ecn": "bleach",
    "rtt": "20ms",
}


def test_the_path_is_impaired_on_its_way_to_the_receivers() -> None:
    made = build(cell(**PATH), wire_seed=7)
    found = {name: value for name, value in wires(made["delay"]).items() if name.startswith("net-mid.")}
    assert found.pop("net-mid.seed") != wires(build(cell(**PATH), wire_seed=8)["delay"])["net-mid.seed"]
    assert found == {
        "net-mid.delay_ns": "10000000",
        "net-mid.limit": "60000",
        "net-mid.spread_model": "0",
        "net-mid.spread_every_ns": "10000000",
        "net-mid.overtake": "1",
        "net-mid.spread_ns": "5000000",
        "net-mid.loss_enter_ppb": "5102041",  # a quarter of 2 / 98
        "net-mid.loss_leave_ppb": "250000000",
        "net-mid.ecn": "1",
    }
    (reading,) = [one for one in made["delay"].readback if one.name == "wires"]
    assert reading.argv[-3:] == tuple(f"net.wire.net-mid.{name}" for name in ("lost", "rewritten", "marked"))
    others = [made[node] for node in made if node != "delay"]
    assert not any(name.endswith(("spread_ns", "ecn", "ppb")) for other in others for name in wires(other))


def test_independent_losses() -> None:
    found = wires(build(cell(path__loss="2%"), wire_seed=7)["delay"])
    assert (found["net-mid.loss_enter_ppb"], found["net-mid.loss_leave_ppb"]) == ("20000000", "980000000")


def test_a_path_as_it_is_by_default_has_no_further_settings() -> None:
    assert wires(build(cell(), wire_seed=7)["delay"]).keys() == {
        f"{network}.{name}" for network in ("net-tx", "net-mid") for name in ("delay_ns", "limit")
    }


def test_an_event_changes_losses_and_ecn() -> None:
    events: dict[str, Value] = {
        "events__off__at": "2s",
        "events__off__path.loss": "100%",
        "events__off__path.ecn": "ect0",
    }
    (ecn, loss) = sorted(
        build(cell(path__loss_burst="3p", **events), wire_seed=7)["delay"].changes, key=lambda one: one.factor
    )
    assert dict(ecn.sysctls) == {"net.wire.net-mid.ecn": "2"}
    assert dict(loss.sysctls) == {
        "net.wire.net-mid.loss_enter_ppb": "1000000000",
        "net.wire.net-mid.loss_leave_ppb": "0",
    }


@pytest.mark.parametrize("seed", [7, None])
def test_the_reverse_rate_is_a_fifo_on_every_testbed(seed: int | None) -> None:
    made = build(cell(path__reverse_rate="1mbit"), wire_seed=seed)["router"]
    lines = [line for line in words(made) if "@net-mid" in line]
    assert lines == [
        "tc qdisc replace dev @net-mid root handle 1: htb default 3",
        "tc class add dev @net-mid parent 1: classid 1:3 htb rate 1mbit",
        "tc qdisc replace dev @net-mid parent 1:3 handle 3: pfifo limit 1000",
    ]
    assert {one.what for one in made.expected} >= {"htb class 1:3 at net-mid", "pfifo at net-mid"}


def test_wifi_takes_packets_from_the_queue_without_a_shaper() -> None:
    made = build(cell(path__wifi_mcs=4, path__wifi_loss="10%"), wire_seed=7)["router"]
    lines = [line for line in words(made) if "@net-rx" in line]
    assert len(lines) == 1
    assert lines[0].startswith("tc qdisc replace dev @net-rx root handle 3: codel limit 84")
    found = {name: value for name, value in wires(made).items() if ".air_" in name}
    assert found == {
        "net-rx.air_most_ns": "2332000",
        "net-rx.air_header_bytes": "30",
        "net-rx.air_frame_ns": "20000",
        "net-rx.air_access_ns": "467500",
        "net-rx.air_backoff_ns": "135000",
        "net-rx.air_loss_ppb": "100000000",
        "net-rx.air_rate_bps": "51617647",
    }
    (queue,) = made.expected
    assert (queue.what, queue.match) == ("codel at net-rx", (("kind", "codel"), ("root", True)))
    (reading,) = [one for one in made.readback if one.name == "wires"]
    assert reading.argv[-2:] == ("net.wire.net-rx.air_accesses", "net.wire.net-rx.air_again")


def test_a_cell_without_wifi_has_no_air() -> None:
    made = build(cell(), wire_seed=7)
    assert not any(".air_" in name for node in made for name in wires(made[node]))
    assert not any("air_" in word for node in made for one in made[node].readback for word in one.argv)


def test_an_event_changes_the_mcs_at_the_router() -> None:
    events: dict[str, Value] = {"events__up__at": "2s", "events__up__path.wifi_mcs": 9}
    made = build(cell(path__wifi_mcs=2, **events), wire_seed=7)
    (change,) = made["router"].changes
    assert dict(change.sysctls) == {"net.wire.net-rx.air_rate_bps": "114705882"}
    assert not any(made[node].changes for node in made if node != "router")


@pytest.mark.parametrize(
    ("factors", "path"),
    [
        ({"duration": "1500ms", "traffic__tool": "iperf3"}, "duration"),
        ({"path__pause": "20ms", "path__pause_every": "20ms"}, "path.pause"),
        ({"path__wifi_loss": "1%"}, "path.wifi_loss"),
        ({"events__x__at": "1s", "events__x__path.wifi_mcs": 4}, "events.x.path.wifi_mcs"),
        ({"path__wifi_mcs": 4, "events__x__at": "1s", "events__x__rate": "5mbit"}, "events.x.rate"),
        ({"path__jitter": "6ms"}, "path.jitter"),
        ({"path__loss": "60%", "path__loss_burst": "1p"}, "path.loss_burst"),
        (
            {"path__loss_burst": "1p", "events__x__at": "1s", "events__x__path.loss": "60%"},
            "path.loss_burst",
        ),
        ({"path__loss": "100%"}, "path.loss"),
    ],
)
def test_what_cannot_be(factors: dict[str, Value], path: str) -> None:
    assert [problem.path for problem in problems(cell(**factors), CATALOG)] == [path]


def test_paths_that_can_just_be() -> None:
    assert not problems(cell(path__pause="20ms", path__pause_every="21ms"), CATALOG)
    assert not problems(cell(path__jitter="5ms"), CATALOG)
    assert not problems(cell(path__jitter="6ms", path__jitter_model="normal"), CATALOG)
    on = {"events__on__at": "1s", "events__on__path.loss": "0%"}
    assert not problems(cell(path__loss="100%", path__loss_burst="5p", **on), CATALOG)


def on_a_switch(**factors: Value) -> Mapping[str, Program]:
    return build(cell(aqm="ncf", **factors), switches={"router": SWITCH})


def shown(**options: float) -> str:
    """Return what control.py shows of a bottleneck of 100 Mbit/s with a buffer of 1 BDP, 125,000 bytes."""
    queue = {
        "limit": 124_960,  # 312 and 1250 cells
        "capacity": 12_500_000,
        "mice_share": 19.97,
        "mice_threshold": 50.0,
        "elephants_threshold": 74.96,
        "rho": 12,
        "bottleneck": 1,
    }
    shaper = {"kind": "shaper", "network": "net-rx", "unit": "BPS", "rate": 12_480_000, "enabled": True}
    return json.dumps([shaper, {"kind": "ncf", "network": "net-rx", "options": {**queue, **options}}])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, ()),
        ({"limit": 100_000}, ("ncf at net-rx: options.limit is 100000, not 125000",)),
        ({"mice_threshold": 40}, ("ncf at net-rx: options.mice_threshold is 40, not 50",)),
        ({"rho": 13}, ("ncf at net-rx: options.rho is 13, not 12",)),
    ],
)
def test_a_switch_is_read_back_to_the_cell(options: dict[str, float], told: tuple[str, ...]) -> None:
    router = on_a_switch()["router"]
    for phase in ("links", "setup", "modules", "sysctls", "flows"):
        assert getattr(router, phase) == ()
    found = [line for expected in router.expected for line in differences(expected, shown(**options))]
    assert tuple(found) == told


def test_only_neighbours_of_a_switch_know_its_addresses() -> None:
    made = on_a_switch()
    beside = {node: [(one.ip, one.mac) for one in program.neighbours] for node, program in made.items()}
    assert beside == {
        "tx-l4s": [],
        "tx-classic": [],
        "delay": [("10.0.2.1", SWITCH["net-mid"])],
        "router": [],
        "rx-l4s": [("10.0.5.1", SWITCH["net-rx"])],
        "rx-classic": [("10.0.5.1", SWITCH["net-rx"])],
    }
    assert not any(program.neighbours for program in build(cell(aqm="ncf")).values())


def test_neighbours_of_a_switch_reach_each_other_through_it() -> None:
    made, plain = on_a_switch(), build(cell(aqm="ncf"))
    more = {node: set(made[node].routes) - set(plain[node].routes) for node in made}
    assert more["rx-l4s"] == more["rx-classic"] == {Route("10.0.2.0/24", "10.0.5.1")}
    assert not any(routes for node, routes in more.items() if not node.startswith("rx-"))
