# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""p4/ncf/ncf.p4: its budget, its constants, and what no other data plane does: routing and dropping."""

from __future__ import annotations

import re
import socket
import sys

import pytest

from tests.p4 import bfrt, reference
from tests.p4.packets import ALICE, BOB, CAROL, Host, Tcp
from tests.p4.plane import NCF, PIPE, PROGRAM, P4Plane, control, program
from tests.p4.reference import OPTION, Outcome, Settings, internet_checksum
from tests.p4.scenarios import DEEP, START, WINDOW, burst
from tests.p4.tna.limits import problems
from tests.p4.tna.machine import Switch
from tests.p4.tna.report import budget
from tests.p4.tna.syntax import load
from tests.p4.vectors import Arrival, Event, drive
from tests.patience import ran

PAPERS_STAGES = 8
"""Section IV of the paper."""


def test_chains_fit_into_the_papers_stages() -> None:
    chains = budget(program()).chains
    assert [chain.control for chain in chains] == ["Ingress", "Egress"]
    assert max(len(chain.steps) for chain in chains) <= PAPERS_STAGES


def test_tofino_takes_it() -> None:
    assert problems(program()) == []


def test_readme_states_the_budget() -> None:
    text = (NCF / "README.md").read_text(encoding="utf-8")
    assert "\n".join(f"    {line}" for line in budget(program()).lines()) in text


def test_the_budget_is_printed() -> None:
    done = ran([sys.executable, "-m", "tests.p4.tna", str(PROGRAM)], check=True)
    assert done.stdout.splitlines() == budget(program()).lines()


def test_constants_are_the_references() -> None:
    text = (NCF / "wire.h").read_text(encoding="utf-8")
    values = {name: int(value, 0) for name, value in re.findall(r"#define (NCF_\w+)\s+(\w+)", text)}
    assert values == {
        "NCF_OPTION_KIND": reference.KIND,
        "NCF_OPTION_LENGTH": reference.OPTION.size,
        "NCF_EXID": reference.EXID,
        "NCF_VERSION": reference.VERSION,
        "NCF_MICE_CROWDED": reference.MICE_CROWDED,
        "NCF_TTL": 64,
        "NCF_IP_LENGTH": 56,
        "NCF_TCP_LENGTH": 36,
        "NCF_TCP_OFFSET": 9,
    }


def test_parameters_are_macros() -> None:
    wide = Switch(load(PROGRAM, "-DNCF_WINDOW_BIT=27", "-DNCF_GAP=0"))
    assert wide.ingress(START, PIPE, Tcp().frame) is None  # nothing is set up: dropped


def test_unknown_destinations_are_dropped(plane: P4Plane) -> None:
    frame = b"\2\0\0\0\0\x63" + Tcp().frame[6:]
    assert plane.packet(START, ALICE.port, frame, 0) == Outcome(None, ())


def test_truncated_headers_are_dropped(plane: P4Plane) -> None:
    assert plane.packet(START, ALICE.port, Tcp().frame[:50], 0) == Outcome(None, ())


def routed(plane: P4Plane) -> tuple[bytes, bytes]:
    """Route the receivers' network; return the switch's address and the next hop's."""
    gateway, hop = b"\2\0\0\0\1\1", b"\2\0\0\0\1\2"
    table = plane.info.table_get("Ingress.route")
    assert isinstance(table, bfrt.ProgramTable)
    table.entry_del(bfrt.Target(0, 0xFFFF))
    for network, length, port in (("10.0.0.0", 8, 3), ("10.2.0.0", 16, BOB.port)):
        value = int.from_bytes(socket.inet_aton(network))
        key = {"hdr.ip.dst": {"value": value, "prefix_len": length}}
        data = {"port": PIPE + port, "dst": int.from_bytes(hop), "src": int.from_bytes(gateway)}
        plane.switch.put("Ingress.route", key, data, "Ingress.send_via")
    return gateway, hop


def test_routes_rewrite_addresses_and_signals_go_back_by_those_that_came(plane: P4Plane) -> None:
    gateway, hop = routed(plane)
    try:
        frame = gateway + Tcp().frame[6:]
        (forwarded,) = plane.packet(START, ALICE.port, frame, 0).sent
        assert forwarded.port == BOB.port  # the longest prefix
        assert forwarded.packet[:12] == hop + gateway
        assert forwarded.packet[22] == 63
        assert internet_checksum(forwarded.packet[14:34]) == 0
        assert forwarded.packet[34:] == frame[34:]
        for n in range(11):
            plane.packet(START + n, ALICE.port, frame, 0)
        _, signal = plane.packet(START + 99, ALICE.port, frame, DEEP).sent
        assert (signal.port, signal.packet[:12]) == (ALICE.port, ALICE.mac + gateway)
    finally:
        plane.machine.tables["Ingress.route"].rows.clear()


def numbers(plane: P4Plane) -> list[int]:
    """Return the number of elephants of the second and the third port."""
    return [plane.switch.register("Egress.elephants", PIPE + port)[PIPE >> 7] for port in (2, 3)]


def through(hop: Host, segment: Tcp, time_ns: int) -> Event:
    """Return a packet that finds a deep queue on its way to a next hop."""
    return Arrival(time_ns, segment.source.port, hop.mac + segment.frame[6:], DEEP)


@pytest.mark.parametrize("mouse", [False, True])
def test_a_flow_counts_where_its_route_leads(plane: P4Plane, mouse: bool) -> None:
    """It leaves one number with its first packet there, and joins the other with its second."""
    flow, other = Tcp(), Tcp(port=40_001)
    drive(plane, burst(flow, 13, START) + burst(other, 13, START + 200_000), cleared=False)
    assert numbers(plane) == [2, 0]
    moved = [through(CAROL, flow, START + n * 1_000_000) for n in (1, 2)]
    outcomes = drive(plane, moved, cleared=False)
    assert numbers(plane) == [1, 1]
    # the number that the first one changes is another port's, so it makes no signal
    assert [len(outcome.sent) for outcome in outcomes] == [1, 2]
    assert OPTION.unpack(outcomes[1].sent[1].packet[54:])[5] == 1
    # its last packet goes by another port than the one before
    end = flow if mouse else flow.but(flags=0x11, payload=b"")
    drive(plane, [through(BOB, end, START + (3 * WINDOW if mouse else 3_000_000))], cleared=False)
    assert numbers(plane) == [1, 0]
    # and stays ended, whatever is under way
    drive(plane, [through(BOB, flow, START + 3 * WINDOW + n) for n in range(1, 9)], cleared=False)
    assert numbers(plane) == [1, 0]


def test_sweeping_counts_flows_where_they_are(plane: P4Plane) -> None:
    drive(plane, burst(Tcp(), 13, START), cleared=False)
    drive(plane, [through(CAROL, Tcp(), START + n * 1_000_000) for n in (1, 2)], cleared=False)
    for port in (2, 3):
        plane.preset(port, 7)
    assert control().sweep(plane.switch, plane.config) == 0
    assert numbers(plane) == [0, 1]


def test_routes_do_not_take_what_has_no_time_to_live(plane: P4Plane) -> None:
    gateway, _ = routed(plane)
    try:
        for ttl in (0, 1):
            frame = bytearray(gateway + Tcp().frame[6:])
            frame[22] = ttl
            assert plane.packet(START, ALICE.port, bytes(frame), 0).sent == ()
    finally:
        plane.machine.tables["Ingress.route"].rows.clear()


def test_bridged_packets_stay_as_they_are(plane: P4Plane) -> None:
    frame = bytearray(Tcp().frame)
    frame[24:26] = b"\xab\xcd"  # a wrong checksum is the receiver's business
    (forwarded,) = plane.packet(START, ALICE.port, bytes(frame), 0).sent
    assert forwarded.packet == bytes(frame)


def test_no_signal_without_a_way_back_or_a_link(plane: P4Plane) -> None:
    for table in ("Ingress.way_back", "Egress.link"):
        rows = plane.machine.tables[table].rows
        kept = list(rows)
        rows.clear()
        try:
            plane.reset()
            outcomes = drive(plane, burst(Tcp(), 20, START, depth=DEEP), cleared=True)
            assert [len(outcome.sent) for outcome in outcomes] == [1] * 20
        finally:
            rows[:] = kept


def test_other_ports_have_no_thresholds(plane: P4Plane) -> None:
    rows = plane.machine.tables["Egress.depth"].rows
    kept = list(rows)
    rows.clear()
    try:
        outcomes = drive(plane, burst(Tcp(), 20, START, depth=DEEP), cleared=True)
        assert [len(outcome.sent) for outcome in outcomes] == [1] * 20
        assert outcomes[-1].queue == "elephants"
    finally:
        rows[:] = kept


def test_time_wraps_after_48_bits(plane: P4Plane) -> None:
    late = (1 << 48) - 1_000
    outcomes = drive(plane, burst(Tcp(), 13, late, every_ns=10), cleared=False)
    assert outcomes[-1].queue == "elephants"
    again = drive(plane, burst(Tcp(), 1, (1 << 48) + 20_000_000, depth=DEEP), cleared=False)
    assert len(again[0].sent) == 2


def test_thresholds_are_those_of_the_vectors(plane: P4Plane) -> None:
    settings, config = Settings(), plane.config
    port = config.ports[0]
    cells = [config.threshold_cells(port, queue) for queue in (0, 1)]
    assert cells == [settings.mice_bytes // 80, settings.elephants_bytes // 80]
    assert config.cells(port, 1) * control().CELL_BYTES == settings.queue_bytes
    (header,) = [record for record in program().records if record.name == "mirror_h"]
    assert sum(plane.machine.width(one.type) for one in header.fields) // 8 + 54 == control().SIGNAL_BYTES
