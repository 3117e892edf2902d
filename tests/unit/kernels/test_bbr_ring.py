# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The record of bursts in kernels/tcp_bbr2/bbr_ring.c against a list that is searched from its end."""

import ctypes
import random
from collections.abc import Callable, Iterator

import pytest

WRAP = 1 << 32
OWN, MOST = 4, 1024


class Sent(ctypes.Structure):
    """struct bbr_sent"""

    _fields_ = tuple((name, ctypes.c_uint32) for name in ("seq", "end", "in_flight", "lost"))


class Ring(ctypes.Structure):
    """struct bbr_ring"""

    _fields_ = (
        ("entries", ctypes.c_void_p),
        ("size", ctypes.c_uint32),
        *((name, ctypes.c_uint64) for name in ("head", "oldest", "run", "retry")),
        ("own", Sent * OWN),
    )


class Bursts:
    """A ring, and what was put into it; each burst is known by the number in its `lost`."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self.ring = Ring()
        library.bbr_ring_init(ctypes.byref(self.ring))
        self.all: list[tuple[int, int, int]] = []

    def send(self, seq: int, length: int, una: int) -> None:
        number = len(self.all) + 1
        self.all.append((seq, seq + length, number))
        sent = Sent(seq % WRAP, (seq + length) % WRAP, 0, number)
        self._library.bbr_ring_add(ctypes.byref(self.ring), ctypes.byref(sent), ctypes.c_uint32(una % WRAP))

    def find(self, end: int) -> int | None:
        """Return the number of the burst with the byte before `end`."""
        found = self._library.bbr_ring_find(ctypes.byref(self.ring), ctypes.c_uint32(end % WRAP))
        return found.contents.lost if found else None

    def expected(self, end: int) -> int | None:
        return next((number for first, last, number in reversed(self.all) if first < end <= last), None)

    def compared(self, end: int) -> int:
        """Return how many sequence numbers a search compares."""
        counter = ctypes.c_uint64.in_dll(self._library, "bbr_user_compared")
        before = counter.value
        self.find(end)
        return counter.value - before

    def clear(self) -> None:
        self._library.bbr_ring_clear(ctypes.byref(self.ring))


@pytest.fixture(scope="module")
def library(compiled: Callable[[str], ctypes.CDLL]) -> ctypes.CDLL:
    loaded = compiled("tcp_bbr2/bbr_ring.c")
    loaded.bbr_ring_find.restype = ctypes.POINTER(Sent)
    return loaded


@pytest.fixture
def bursts(library: ctypes.CDLL) -> Iterator[Bursts]:
    made = Bursts(library)
    yield made
    made.clear()


def asked(library: ctypes.CDLL) -> int:
    """Return how often memory was asked for."""
    return ctypes.c_uint64.in_dll(library, "bbr_user_asked").value


@pytest.mark.parametrize("seed", range(30))
def test_what_is_not_acknowledged_is_found_as_it_was_sent_last(bursts: Bursts, seed: int) -> None:
    """First transmissions, passes over what was lost, parts of bursts, and numbers that wrap."""
    draw = random.Random(seed)
    una = upper = WRAP - draw.randrange(200_000)
    window = draw.choice([3_000, 60_000, 700_000])
    again = draw.choice([0, 0.1, 0.9])
    for _ in range(3000):
        if draw.random() < again and upper > una:
            seq = draw.randrange(una, upper)
            bursts.send(seq, draw.randrange(1, upper - seq + 1), una)
        elif upper - una < window:
            length = draw.randrange(1, 9000)
            bursts.send(upper, length, una)
            upper += length
        if draw.random() < 0.4 or upper - una >= window:
            una = draw.randrange(una, upper + 1)
        if upper > una and bursts.ring.head - bursts.ring.oldest < MOST:
            end = draw.randrange(una + 1, upper + 1)
            assert bursts.find(end) == bursts.expected(end)
            assert bursts.find(upper + 1) is None


def test_little_data_needs_no_memory(library: ctypes.CDLL, bursts: Bursts) -> None:
    before = asked(library)
    for number in range(500):
        bursts.send(number * 1000, 1000, max(number - OWN + 1, 0) * 1000)
    assert asked(library) == before
    for number in range(500, 500 + OWN):
        bursts.send(number * 1000, 1000, 499_000)
    assert asked(library) == before + 1
    bursts.clear()
    assert bursts.ring.size == OWN


def test_memory_grows_with_what_is_in_flight_up_to_a_limit(library: ctypes.CDLL, bursts: Bursts) -> None:
    sizes = set()
    for number in range(5000):
        bursts.send(number * 1000, 1000, 0)
        assert bursts.ring.size <= max(OWN, 4 * (number + 1))
        sizes.add(bursts.ring.size)
    assert sizes == {4, 16, 64, 256, MOST}


def test_without_memory_the_youngest_are_kept_and_attempts_are_few(
    library: ctypes.CDLL, bursts: Bursts
) -> None:
    limit = ctypes.c_uint64.in_dll(library, "bbr_user_bytes")
    usual, before = limit.value, asked(library)
    limit.value = 64 * ctypes.sizeof(Sent)
    try:
        for number in range(1000):
            bursts.send(number * 1000, 1000, 0)
    finally:
        limit.value = usual
    assert bursts.ring.size == 64
    assert asked(library) - before <= 2 + 1000 // 64
    assert [n for n in range(1, 1001) if bursts.find(n * 1000) == n] == list(range(937, 1001))
    assert bursts.find(936_000) is None


def test_a_search_compares_few_numbers_however_much_is_in_flight(bursts: Bursts) -> None:
    """Of first transmissions and of a pass over what was lost, also for what was forgotten."""
    for step in (1, 3):
        for number in range(0, 20_000, step):
            bursts.send(number * 1000, 1000, 0)
        ends = [n * 1000 for n in range(1, 20_002, 97)]
        assert max(map(bursts.compared, ends)) <= 16
        bursts.clear()


def test_a_burst_that_the_device_refused_counts_as_sent_later(bursts: Bursts) -> None:
    for number in range(300):
        for _ in range(3):
            bursts.send(number * 1000, 1000, 0)
    assert bursts.ring.head == 300
    assert bursts.find(5000) == 15
    assert bursts.compared(5000) <= 16
