# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The vectors, stored and generated: reference and P4 program agree; the paper's rules hold in them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.p4 import make, scenarios
from tests.p4.packets import ALICE, BOB, CAROL, Tcp, arp, fragment_of, udp
from tests.p4.plane import P4Plane
from tests.p4.reference import OPTION, TCP, Outcome, internet_checksum
from tests.p4.scenarios import START, TICK, WINDOW, twin
from tests.p4.vectors import Arrival, Event, Reference, drive, from_json, stored, to_json

NAMES = [path.stem for path in stored()]


def outcomes(name: str) -> Sequence[Outcome]:
    """Return the stored outcomes of a vector."""
    (path,) = [path for path in stored() if path.stem == name]
    return from_json(path).outcomes


def queues(name: str) -> str:
    """Return the queues of a vector's packets: m or e for each."""
    return "".join((outcome.queue or "-")[0] for outcome in outcomes(name))


def numbers(name: str) -> list[int]:
    """Return the number of elephants in each signal of a vector."""
    return [OPTION.unpack(signal[54:])[5] for signal in signals(name)]


def signals(name: str) -> list[bytes]:
    """Return the signals of a vector."""
    return [outcome.sent[1].packet for outcome in outcomes(name) if len(outcome.sent) > 1]


# ---- agreement
def test_stored_vectors_are_those_of_the_scenarios() -> None:
    made = {f"{vector.name}.json": to_json(vector) for vector in make.made()}
    assert {path.name: path.read_text(encoding="utf-8") for path in stored()} == made, (
        "run: python -m tests.p4.make"
    )


@pytest.mark.parametrize("path", stored(), ids=NAMES)
def test_reference_agrees(path: Path) -> None:
    vector = from_json(path)
    assert drive(Reference(), vector.events, cleared=vector.cleared) == vector.outcomes


@pytest.mark.parametrize("path", stored(), ids=NAMES)
def test_program_agrees(path: Path, plane: P4Plane) -> None:
    vector = from_json(path)
    assert drive(plane, vector.events, cleared=vector.cleared) == vector.outcomes


FLOWS = (
    Tcp(),
    Tcp(port=40_001),
    twin(),
    Tcp(CAROL, port=50_000, options=b"\1\1\1\1"),
    Tcp(BOB, ALICE, port=5_201, to_port=40_000),
)
OTHERS = (udp(Tcp()), udp(Tcp(CAROL)), arp(Tcp()), fragment_of(Tcp(), 0x2000))
DEPTHS = (0, 24_960, 25_040, 149_920, 150_000, 150_080, 199_920)
PAUSES_NS = (1, 1_000, TICK, 17 * TICK, WINDOW // 2, WINDOW - 1, WINDOW, 3 * WINDOW, 9 * WINDOW)


@st.composite
def traffic(draw: st.DrawFn, *, moves: bool = False) -> list[Event]:
    """Bursts of some flows, with any flags, depths and pauses; with moves, to any port."""
    events: list[Event] = []
    now = START
    for _ in range(draw(st.integers(6, 24))):
        now += draw(st.sampled_from(PAUSES_NS))
        depth, count = draw(st.sampled_from(DEPTHS)), draw(st.integers(1, 20))
        every = draw(st.sampled_from((1, 1_000, TICK, WINDOW // 8)))
        source, frame = ALICE, draw(st.sampled_from((*OTHERS, *(None,) * 8)))
        if frame is None:
            flow = draw(st.sampled_from(FLOWS))
            flags = draw(st.sampled_from((0x10, 0x18, 0x18, 0x18, 0x02, 0x11, 0x04, 0x14)))
            changed = flow.but(flags=flags, seq=draw(st.integers(0, 2**32 - 1)))
            changed = changed.but(payload=draw(st.sampled_from((b"", b"1", *(flow.payload,) * 4))))
            source, frame = flow.source, changed.frame
            if moves:
                frame = draw(st.sampled_from((BOB, BOB, CAROL))).mac + frame[6:]
        elif frame[6:12] == CAROL.mac:
            source = CAROL
        for _ in range(count):
            events.append(Arrival(now, source.port, frame, depth))
            now += every
    return events


@pytest.mark.parametrize("moves", [pytest.param(False, marks=pytest.mark.long), True])
def test_generated_traffic_agrees(one_plane: P4Plane, moves: bool) -> None:
    packets = fired = elephants = 0

    @settings(max_examples=100, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(traffic(moves=moves), st.booleans())
    def agree(events: list[Event], cleared: bool) -> None:
        nonlocal packets, fired, elephants
        one_plane.reset()
        expected = drive(Reference(), events, cleared=cleared)
        assert drive(one_plane, events, cleared=cleared) == expected
        packets += len(events)
        fired += sum(len(outcome.sent) > 1 for outcome in expected)
        elephants += sum(outcome.queue == "elephants" for outcome in expected)

    agree()
    # the comparison means something only where there is something to compare
    assert packets >= 10_000
    assert fired >= 100
    assert elephants >= 1_000


# ---- the rules, read from the stored vectors without the reference
def test_every_rule_has_a_vector() -> None:
    assert len(NAMES) == len(scenarios.SCENARIOS) == len(set(NAMES))


def test_the_thirteenth_packet_is_an_elephants() -> None:
    assert queues("rho") == 12 * "m" + "ee"


def test_three_windows_count() -> None:
    # packets of each window: 5, 5, 4, 4, 9, none, 3, 3
    assert queues("windows-roll") == "mmmmmmmmmmmmeemmmemmmmeeeeemmmmmm"
    assert queues("window-boundary") == "mmmmmmmmmmmmemmmmmee"


def test_counters_are_cleared_by_the_controller() -> None:
    assert queues("counters-cleared") == 14 * "m"
    assert queues("counters-not-cleared") == 12 * "m" + "ee"


def test_counters_do_not_wrap() -> None:
    assert queues("counters-saturate") == 12 * "m" + 286 * "e"


def test_flows_of_one_identifier_are_one() -> None:
    assert queues("hash-collision") == 12 * "m" + 4 * "e"
    assert numbers("hash-collision") == [1]  # and one damping: the second signal is held up


@pytest.mark.parametrize("name", ["fin", "rst"])
def test_a_flow_that_ends_leaves_the_count_once(name: str) -> None:
    assert numbers(name) == [2, 1, 1, 1]


def test_a_connection_after_a_fin_counts() -> None:
    assert numbers("reused-after-fin") == [1]


def test_a_mouse_that_ends_was_never_counted() -> None:
    assert numbers("fin-of-a-mouse") == [1]


def test_a_silent_elephant_leaves_the_count_with_its_next_packet() -> None:
    assert numbers("idle-elephant") == [2, 2, 1]


def test_a_flow_that_only_acknowledges_is_not_counted() -> None:
    assert queues("acknowledgements")[14:31] == 12 * "m" + 5 * "e"
    assert numbers("acknowledgements") == [1, 2, 2, 1]
    assert [int.from_bytes(signal[34:36]) for signal in signals("acknowledgements")] == 4 * [5_201]
    assert [int.from_bytes(signal[36:38]) for signal in signals("acknowledgements")] == [
        *(40_001, 40_000, 40_001, 40_001)
    ]


def test_the_number_stays_in_its_range() -> None:
    assert numbers("number-saturates") == [65_535, 65_535]
    assert numbers("number-stops-at-0") == [0]


def test_signals_begin_above_the_threshold() -> None:
    fires = [len(outcome.sent) - 1 for outcome in outcomes("elephants-threshold")[13:]]
    assert fires == [0, 0, 1]
    assert signals("mice-make-no-signal") == []


def test_signals_state_whether_mice_are_crowded() -> None:
    assert [signal[58] for signal in signals("mice-crowded")] == [0x10, 0x11, 0x10]


def test_signals_are_apart() -> None:
    fires = [len(outcome.sent) - 1 for outcome in outcomes("damping")[26:]]
    assert fires == [1, 0, 1, 0, 1]


def test_addresses_turn_round() -> None:
    first, second = signals("addresses-turn-round")
    assert first[:14] == CAROL.mac + BOB.mac + b"\x08\x00"
    assert first[26:34] == BOB.ip + CAROL.ip
    assert struct.unpack_from("!HHII", first, 34) == (65_535, 1, 0xFEDCBA98, 0x01234567)
    assert first[18:20] == b"\xbe\xef"
    assert second[:12] == BOB.mac + ALICE.mac
    ports = [outcome.sent[1].port for outcome in outcomes("addresses-turn-round") if len(outcome.sent) > 1]
    assert ports == [CAROL.port, BOB.port]


@pytest.mark.parametrize("name", NAMES)
def test_signals_are_well_formed(name: str) -> None:
    for signal in signals(name):
        assert len(signal) == 70
        version_ihl, tos, length, _, _, ttl, protocol = struct.unpack_from("!BBHHHBB", signal, 14)
        assert (version_ihl, tos, length, ttl, protocol) == (0x45, 0, 56, 64, TCP)
        assert internet_checksum(signal[14:34]) == 0
        assert internet_checksum(signal[26:34] + struct.pack("!HH", TCP, 36) + signal[34:]) == 0
        offset, flags, window, _, urgent = struct.unpack_from("!BBHHH", signal, 46)
        assert (offset, flags, window, urgent) == (0x90, 0x10, 501, 0)
        kind, size, exid, version, bottleneck, _, capacity, queue = OPTION.unpack(signal[54:])
        assert (kind, size, exid, version >> 4, bottleneck) == (253, 16, 0x4E43, 1, 1)
        assert (capacity, queue) == (200_000, 200_000)


def test_checksums_at_their_ends() -> None:
    zero, more = signals("checksums")
    assert (zero[24:26], zero[50:52]) == (b"\0\0", b"\0\0")
    assert (more[24:26], more[50:52]) == (b"\xff\xfe", b"\xff\xfe")


@pytest.mark.parametrize("name", ["ip-options-pass", "fragments-pass", "others-pass"])
def test_other_packets_pass_with_the_mice(name: str) -> None:
    assert set(queues(name)) == {"m"}
    assert signals(name) == []


def test_udp_elephants_get_no_signal() -> None:
    assert queues("udp-is-classified")[:14] == 12 * "m" + "ee"
    assert numbers("udp-is-classified") == [2]  # the TCP flow's, after it: both are counted
