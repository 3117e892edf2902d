# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Algorithm 2 in kernels/tcp_ncf/ncf_law.c: vectors, and a model over its whole range."""

import ctypes
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

INFINITE = 0x7FFFFFFF
INTENDED, LITERAL = range(2)
REACH = 64
"""Times the largest window that the flow has had: the most that a signal makes of ssthresh."""
U32 = (1 << 32) - 1


class Params(ctypes.Structure):
    """struct ncf_params"""

    _fields_ = tuple(
        (name, ctypes.c_uint32)
        for name in ("mode", "endhost", "tau", "delta", "gamma", "lambda", "most_kbps")
    )


class Signal(ctypes.Structure):
    """struct ncf_signal"""

    _fields_ = (
        ("seq", ctypes.c_uint32),
        ("capacity_kbps", ctypes.c_uint32),
        ("queue_bytes", ctypes.c_uint32),
        ("flows", ctypes.c_uint16),
        ("mice_crowded", ctypes.c_bool),
    )


class Window(ctypes.Structure):
    """struct ncf_window"""

    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("mss", "cwnd", "ssthresh", "in_flight", "largest")),
        ("may_grow", ctypes.c_bool),
    )


@dataclass(frozen=True)
class State:
    """A signal, and the connection that it meets: 200 Mbit/s and 20 ms are 500 kB, 345 packets."""

    capacity_kbps: int = 200_000
    queue_bytes: int = 400_000
    flows: int = 2
    mice_crowded: bool = False
    srtt_us: int = 20_000
    mss: int = 1448
    cwnd: int = 345
    ssthresh: int = INFINITE
    in_flight: int = 345
    largest: int = 345
    may_grow: bool = True
    mode: int = INTENDED


@pytest.fixture(scope="module")
def library(compiled: Callable[[str], ctypes.CDLL]) -> ctypes.CDLL:
    loaded = compiled("tcp_ncf/ncf_law.c")
    loaded.ncf_law_due.argtypes = [
        *(ctypes.POINTER(Params), ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_uint32)
    ]
    loaded.ncf_law_due.restype = ctypes.c_bool
    loaded.ncf_law_react.restype = None
    return loaded


def params(mode: int = INTENDED, tau: int = 30) -> Params:
    """Return the default parameters."""
    return Params(mode, 0, tau, 80, 95, 70, 100_000_000)


def react(library: ctypes.CDLL, state: State) -> tuple[int, int]:
    """Return window and threshold after a signal."""
    signal = Signal(0, state.capacity_kbps, state.queue_bytes, state.flows, state.mice_crowded)
    names = ("mss", "cwnd", "ssthresh", "in_flight", "largest", "may_grow")
    window = Window(*(asdict(state)[name] for name in names))
    library.ncf_law_react(
        ctypes.byref(params(state.mode)),
        ctypes.byref(signal),
        ctypes.c_uint32(state.srtt_us),
        ctypes.byref(window),
    )
    return window.cwnd, window.ssthresh


LIE = State(capacity_kbps=U32, flows=1)
"""Nobody has it: a BDP of 7.4 million packets for one flow."""
VECTORS = {
    "first signal: 0.8 of a fair share of 172": (State(), 241, 138),
    "literal: the same": (State(mode=LITERAL), 241, 138),
    "f of 1.2 and less is no burst": (State(queue_bytes=416_667), 258, 172),
    "crowded mice": (State(mice_crowded=True), 238, 131),
    "a lower threshold: 0.3 of 345 + 0.7 of 138": (State(ssthresh=345), 272, 200),
    "as printed: 0.3 of 345 + 0.7 of 172.7": (State(ssthresh=345, mode=LITERAL), 284, 224),
    "a higher threshold: 0.7 of 100 + 0.3 of 138": (State(ssthresh=100), 228, 111),
    "growth towards a share": (State(cwnd=100, in_flight=100, largest=345, ssthresh=200), 128, 156),
    "growth to twice what was in flight": (State(cwnd=20, in_flight=20, largest=345), 40, 138),
    "less in flight than twice the window": (State(cwnd=20, in_flight=15, largest=345), 30, 138),
    "nothing in flight": (State(cwnd=20, in_flight=0, largest=345), 20, 138),
    "no growth if the window does not limit": (State(cwnd=20, may_grow=False), 20, 138),
    "cuts always": (State(may_grow=False, in_flight=0), 241, 138),
    "a lie at the start": (replace(LIE, cwnd=10, in_flight=10, largest=10), 20, 640),
    "a lie later": (replace(LIE, cwnd=100, in_flight=100, largest=200, ssthresh=50), 200, 12_800),
    "a lie to who waits for the application": (
        replace(LIE, cwnd=100, in_flight=3, largest=100, ssthresh=50, may_grow=False),
        *(100, 6_400),
    ),
    "a lie of 10 s": (replace(LIE, srtt_us=10_000_000), 690, 22_080),
    "a lie to who has all": (
        replace(LIE, srtt_us=U32 >> 3, mss=1, cwnd=INFINITE - 1, in_flight=INFINITE),
        *(INFINITE - 1, INFINITE - 1),
    ),
    "so many that nothing is left": (State(flows=65_535), 173, 2),
    "a window of one packet": (State(flows=65_535, cwnd=1, in_flight=1, largest=1), 2, 2),
}


@pytest.mark.parametrize("name", VECTORS)
def test_vectors(library: ctypes.CDLL, name: str) -> None:
    state, cwnd, ssthresh = VECTORS[name]
    assert react(library, state) == (cwnd, ssthresh)


def model(state: State) -> tuple[int, int]:
    """Return what Algorithm 2 makes of window and threshold, by fractions of a packet, without bounds."""
    bdp = state.capacity_kbps * state.srtt_us / 8000
    fair = share = bdp / state.flows
    if bdp > 1.2 * state.queue_bytes:
        share *= 0.8
    if state.mice_crowded:
        share *= 0.95
    ssthresh = share
    if state.ssthresh != INFINITE:
        before = state.ssthresh * state.mss
        weight = 0.7 if share > before else 0.3
        ssthresh = weight * before + (1 - weight) * (fair if state.mode == LITERAL else share)
    packets = max(ssthresh / state.mss, 2)
    return int((int(packets) + state.cwnd) / 2), int(packets)


PACKETS = st.one_of(st.integers(1, 100), st.integers(1, 1_000_000), st.integers(1, INFINITE - 1))
STATES = st.builds(
    State,
    capacity_kbps=st.one_of(st.integers(1, 10_000_000), st.integers(1, U32), st.just(U32)),
    queue_bytes=st.integers(1, U32),
    flows=st.one_of(st.integers(1, 10), st.integers(1, 65_535)),
    mice_crowded=st.booleans(),
    srtt_us=st.one_of(st.integers(1, 1_000_000), st.integers(1, U32 >> 3)),
    mss=st.integers(1, 65_535),
    cwnd=PACKETS,
    ssthresh=st.one_of(st.just(INFINITE), PACKETS),
    in_flight=st.one_of(st.just(0), PACKETS),
    largest=PACKETS,
    may_grow=st.booleans(),
    mode=st.sampled_from((INTENDED, LITERAL)),
)


def test_no_signal_leaves_the_bounds_or_else_the_model(library: ctypes.CDLL) -> None:
    bounded = free = 0

    @settings(max_examples=3000, derandomize=True, deadline=None)
    @given(STATES)
    def agree(state: State) -> None:
        nonlocal bounded, free
        cwnd, ssthresh = react(library, state)
        reach = max(2, min(REACH * max(state.largest, state.cwnd), INFINITE - 1))
        growth = 2 * state.in_flight if state.may_grow else 0
        assert 2 <= ssthresh <= reach
        assert 2 <= cwnd <= max(state.cwnd, growth, 2)
        wanted, target = model(state)
        if target > reach - 2 or wanted > max(state.cwnd, growth):
            bounded += 1
            return
        # the integers round down in several places, by a byte each
        rounding = 2 + 8 / state.mss
        assert ssthresh == pytest.approx(target, rel=1e-6, abs=rounding)
        assert cwnd == pytest.approx(wanted, rel=1e-6, abs=rounding)
        free += 1

    agree()
    assert bounded >= 200
    assert free >= 200


@pytest.mark.parametrize(
    ("flows", "before", "since_us", "due"),
    [
        (1, 0, 0, True),  # the first
        (2, 2, 20_000, False),
        (2, 2, 20_001, True),
        (13, 10, 0, False),
        (14, 10, 0, True),
        (6, 10, 0, True),
        (7, 10, 0, False),
        (65_535, 65_535, 0, False),
    ],
)
def test_one_reaction_in_a_round_trip_unless_the_number_changes(
    library: ctypes.CDLL, flows: int, before: int, since_us: int, due: bool
) -> None:
    assert library.ncf_law_due(ctypes.byref(params()), flows, before, since_us, 20_000) == due


def test_a_large_tau_leaves_the_round_trip_alone(library: ctypes.CDLL) -> None:
    rare = ctypes.byref(params(tau=10_000_000))
    assert not library.ncf_law_due(rare, 65_535, 1, 20_000, 20_000)
    assert library.ncf_law_due(rare, 1, 1, 20_001, 20_000)
