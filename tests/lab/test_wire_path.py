# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Jitter, order, losses, the ECN field and Wi-Fi on a wire, in the kernel: probes count and time them."""

import itertools
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.guests import Script, boot
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.lab

MS = 1_000_000
DELAY_NS = 10 * MS
PROBES = 20_000
"""Number of probes, one every ms where a test does not say otherwise."""

NOT_ECT, ECT1, ECT0, CE = range(4)
DSCP = 0b1010_1100
"""Upper bits of the field, which nothing may change."""


@dataclass(frozen=True)
class Arrived:
    """The packets that arrived, in order of arrival."""

    numbers: list[int]
    delays_ns: np.ndarray
    fields: list[int]
    lost: int
    rewritten: int
    accesses: int
    again: int


Send = Callable[..., Arrived]


@pytest.fixture(scope="session")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("probe") / "probe"
    source = Path(__file__).with_name("probe.c")
    subprocess.run(["gcc", "-static", "-O2", "-Wall", "-o", made, source], check=True, timeout=PATIENCE_S)
    return made


@pytest.fixture
def send(lab: Lab, probe: Path, tmp_path: Path) -> Send:
    """Send probes from one node to another by a wire with these settings of the sender's port."""
    runs = itertools.count()

    def sent(
        settings: Mapping[str, int],
        *,
        count: int = PROBES,
        every_ns: int = MS,
        field: int = 0,
        to: str = "10.0.0.2",
        seed: int = 7,
    ) -> Arrived:
        script = Script()
        script.line("module", "/lab/modules/wire.ko", "-")
        for number, node in enumerate(("tx", "rx"), 1):
            script.line("netns", node)
            script.run("-", "ip", "link", "add", "net", "netns", node, "type", "wire")
            script.line("port", node, "net", f"02:00:0a:00:00:0{number}", f"10.0.0.{number}/24")
            script.run(node, "ip", "-6", "addr", "add", f"fd00::{number}/64", "dev", "net", "nodad")
        script.line("neighbour", "tx", "net", "10.0.0.2", "02:00:0a:00:00:02")
        script.run("tx", "ip", "-6", "neigh", "add", "fd00::2", "lladdr", "02:00:0a:00:00:02", "dev", "net")
        for name, value in {"seed": seed, "delay_ns": DELAY_NS, **settings}.items():
            script.line("sysctl", "tx", f"net/wire/net/{name}", value)
        seconds = count * every_ns // 10**9 + 3
        script.line("start", 10)
        script.line("at", "rx", 0, "arrived", "-", "/trial/probe", "receive", seconds)
        script.line("at", "tx", MS, "-", "-", "/trial/probe", "send", to, count, every_ns, field)
        script.line("wait", (seconds + 5) * 10**9)
        counters = ("lost", "rewritten", "air_accesses", "air_again")
        script.line("read", "tx", "counters", "sysctl", *(f"net.wire.net.{name}" for name in counters))
        result = boot(lab, script, tmp_path / f"trial-{next(runs)}", programs=[probe])
        assert result.end["ok"], result.end["reason"]
        rows = [[int(word) for word in line.split()] for line in _lines(result.folder / "arrived")]
        counted = (int(line.split()[-1]) for line in _lines(result.folder / "counters"))
        numbers, delays, fields = (list(column) for column in zip(*rows, strict=True))
        return Arrived(numbers, np.array(delays), fields, *counted)

    return sent


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def deviations_ms(arrived: Arrived) -> np.ndarray:
    return np.asarray((arrived.delays_ns - DELAY_NS) / MS)


def overtaken(arrived: Arrived) -> int:
    """Return the number of probes that arrived before one that was sent earlier."""
    return sum(later < before for before, later in itertools.pairwise(arrived.numbers))


def bursts(arrived: Arrived) -> list[int]:
    """Return how many probes were lost in a row, each time."""
    return [later - before - 1 for before, later in itertools.pairwise(arrived.numbers) if later > before + 1]


WALK = {"spread_model": 0, "spread_every_ns": 10 * MS, "overtake": 1, "spread_ns": 5 * MS}


def test_without_settings_nothing_happens(send: Send) -> None:
    arrived = send({}, field=DSCP | ECT1)
    assert arrived.numbers == list(range(PROBES))
    assert np.ptp(arrived.delays_ns) < 10_000  # the programs' own time
    assert set(arrived.fields) == {DSCP | ECT1}
    assert (arrived.lost, arrived.rewritten) == (0, 0)


def test_a_walk_goes_a_tenth_of_its_bound_at_a_time(send: Send) -> None:
    arrived = send(WALK)
    by_number = deviations_ms(arrived)[np.argsort(arrived.numbers)]
    steps = np.abs(np.diff(by_number))
    moved = steps[steps > 0.05]
    assert moved == pytest.approx(0.5, abs=0.01)
    assert len(moved) == pytest.approx(PROBES / 10, rel=0.01)
    assert np.abs(by_number).max() == pytest.approx(5, abs=0.01)  # it reaches its bounds and stays within
    # a walk that turns at its bounds is everywhere equally long: 21 places, 5 / sqrt(3) ms
    assert by_number.std() == pytest.approx(5 / 3**0.5, rel=0.2)
    assert abs(by_number.mean()) < 1.5


def test_uniform_and_normal_jitter_are_drawn_for_each_packet(send: Send) -> None:
    uniform = deviations_ms(send(WALK | {"spread_model": 1}))
    assert np.abs(uniform).max() <= 5.01
    assert uniform.std() == pytest.approx(5 / 3**0.5, rel=0.02)
    assert abs(uniform.mean()) < 0.1
    normal = deviations_ms(send(WALK | {"spread_model": 2, "spread_ns": 2 * MS}))
    assert normal.std() == pytest.approx(2, rel=0.03)
    assert abs(normal.mean()) < 0.06
    assert np.mean(np.abs(normal) > 4) == pytest.approx(0.0455, rel=0.25)


@pytest.mark.parametrize("model", [0, *(pytest.param(other, marks=pytest.mark.long) for other in (1, 2))])
def test_packets_overtake_only_where_they_may(send: Send, model: int) -> None:
    """At 0.1 ms between packets a step of 0.5 ms down lets one arrive before those sent earlier."""
    settings = WALK | {"spread_model": model, "spread_ns": 3 * MS}
    free = send(settings, every_ns=MS // 10)
    kept = send(settings | {"overtake": 0}, every_ns=MS // 10)
    assert overtaken(free) > 50
    assert overtaken(kept) == 0
    assert sorted(free.numbers) == kept.numbers == list(range(PROBES))


def test_a_walk_with_steps_below_the_packet_time_overtakes_nobody(send: Send) -> None:
    arrived = send(WALK | {"spread_ns": MS}, every_ns=120_000)
    assert overtaken(arrived) == 0
    assert np.ptp(arrived.delays_ns) > MS


@pytest.mark.parametrize("share", [0.01, 0.2])
def test_losses_are_independent(send: Send, share: float) -> None:
    settings = {"loss_enter_ppb": round(share * 10**9), "loss_leave_ppb": round((1 - share) * 10**9)}
    arrived = send(settings)
    spread = (share * (1 - share) * PROBES) ** 0.5
    assert arrived.lost == PROBES - len(arrived.numbers)
    assert arrived.lost == pytest.approx(share * PROBES, abs=4 * spread)
    assert np.mean(bursts(arrived)) == pytest.approx(1 / (1 - share), rel=0.1)


@pytest.mark.long
def test_losses_come_in_bursts(send: Send) -> None:
    """Gilbert's model: 4 in a row on average, geometrically distributed, 2 % of all."""
    leave = 1 / 4
    enter = leave * 0.02 / 0.98
    settings = {"loss_enter_ppb": round(enter * 10**9), "loss_leave_ppb": round(leave * 10**9)}
    arrived = send(settings, count=5 * PROBES, every_ns=MS // 5)
    lengths = bursts(arrived)
    assert len(lengths) > 400
    assert arrived.lost == pytest.approx(0.02 * 5 * PROBES, rel=0.15)
    assert np.mean(lengths) == pytest.approx(4, rel=0.15)
    assert np.mean(np.array(lengths) == 1) == pytest.approx(leave, rel=0.2)


def test_everything_may_be_lost(send: Send) -> None:
    with pytest.raises(ValueError, match="unpack"):  # nothing arrived
        send({"loss_enter_ppb": 10**9, "loss_leave_ppb": 0}, count=100)


@pytest.mark.parametrize("to", ["10.0.0.2", "fd00::2"])
@pytest.mark.parametrize(
    ("setting", "sent", "arrives"),
    [
        (0, CE, CE),
        (1, ECT1, NOT_ECT),
        (1, ECT0, NOT_ECT),
        (1, CE, NOT_ECT),
        (1, NOT_ECT, NOT_ECT),
        (2, ECT1, ECT0),
        (2, ECT0, ECT0),
        (2, CE, CE),
        (2, NOT_ECT, NOT_ECT),
    ],
)
def test_the_ecn_field_changes_and_the_packet_stays_good(
    send: Send, to: str, setting: int, sent: int, arrives: int
) -> None:
    """A packet whose checksums did not fit its new field would not arrive."""
    arrived = send({"ecn": setting}, count=20, field=DSCP | sent, to=to)
    assert arrived.numbers == list(range(20))
    assert set(arrived.fields) == {DSCP | arrives}
    assert arrived.rewritten == (20 if sent != arrives else 0)


def test_everything_comes_from_the_seed(send: Send) -> None:
    settings = WALK | {"spread_model": 2, "loss_enter_ppb": 10**7, "loss_leave_ppb": 5 * 10**8}
    first, second, other = (send(settings, count=5000, seed=seed) for seed in (7, 7, 8))
    assert first.numbers == second.numbers
    assert (first.delays_ns == second.delays_ns).all()
    assert first.numbers != other.numbers


def test_losses_do_not_move_the_jitter(send: Send) -> None:
    """With one seed, cells with and without losses have the same delays."""
    settings = WALK | {"spread_model": 1}
    without = send(settings, count=5000)
    some = send(settings | {"loss_enter_ppb": 10**8, "loss_leave_ppb": 9 * 10**8}, count=5000)
    delays = dict(zip(without.numbers, deviations_ms(without), strict=True))
    assert 300 < some.lost < 700
    assert len(some.numbers) == 5000 - some.lost
    found = dict(zip(some.numbers, deviations_ms(some), strict=True))
    expected = [delays[number] for number in some.numbers]
    assert [found[number] for number in some.numbers] == pytest.approx(expected, abs=0.01)


AIR = {"air_most_ns": 10 * MS, "air_header_bytes": 30, "air_access_ns": MS, "air_rate_bps": 10_000_000}
"""An access of 1 ms and eight frames: a full one takes 1.235 ms, a probe of 58 bytes 0.0704 ms."""
FRAME_MS = (58 + 30) * 8 / 10_000
ACCESS_MS = 1 + 8 * FRAME_MS


def test_an_access_to_the_air_sends_several_frames(send: Send) -> None:
    """Ten frames come every ms, of which an access of 1.56 ms takes eight: the last waits for all others."""
    arrived = send(AIR, count=4000, every_ns=MS // 10)
    assert arrived.numbers == list(range(4000))
    assert arrived.accesses == pytest.approx(500, abs=8)  # the first ones send fewer
    assert arrived.delays_ns[-1] / MS == pytest.approx(10 + 500 * ACCESS_MS - 400, abs=8)


def test_a_lone_frame_has_an_access_of_its_own(send: Send) -> None:
    arrived = send(AIR | {"air_frame_ns": MS // 2}, count=200, every_ns=5 * MS)
    assert arrived.accesses - 200 in range(12)  # the node announces itself
    assert arrived.again == 0
    assert np.median(deviations_ms(arrived)) == pytest.approx(1.5 + FRAME_MS, abs=0.02)


@pytest.mark.parametrize("share", [0.01, 0.2])
def test_frames_lost_on_the_air_cost_time_and_nothing_else(send: Send, share: float) -> None:
    clean = send(AIR, count=4000, every_ns=MS // 10)
    lossy = send(AIR | {"air_loss_ppb": round(share * 10**9)}, count=4000, every_ns=MS // 10)
    assert lossy.numbers == clean.numbers
    # each frame is sent 1 / (1 - share) times
    expected = 4000 * share / (1 - share)
    assert lossy.again == pytest.approx(expected, abs=4 * (4000 * share) ** 0.5 / (1 - share))
    assert lossy.accesses == pytest.approx((4000 + lossy.again) / 8, abs=10)
    later_ms = (lossy.delays_ns[-1] - clean.delays_ns[-1]) / MS
    assert later_ms == pytest.approx((lossy.accesses - clean.accesses) * ACCESS_MS, abs=8)


def test_waiting_for_the_air_comes_from_the_seed(send: Send) -> None:
    settings = AIR | {"air_backoff_ns": 2 * MS, "air_loss_ppb": 10**8}
    first, second, other = (send(settings, count=500, every_ns=5 * MS, seed=seed) for seed in (7, 7, 8))
    assert (first.delays_ns == second.delays_ns).all()
    assert (first.delays_ns != other.delays_ns).any()
    waited_ms = deviations_ms(send(AIR | {"air_backoff_ns": 2 * MS}, count=500, every_ns=5 * MS))
    assert waited_ms.min() > 1 + FRAME_MS - 0.01
    assert waited_ms.max() < 3 + FRAME_MS + 0.01
    assert waited_ms.mean() == pytest.approx(2 + FRAME_MS, abs=0.1)
