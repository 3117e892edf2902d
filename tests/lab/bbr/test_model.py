# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""BBR alone on a path: the state that it reports follows the algorithm."""

from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.bbr.experiment import State, entries, experiment, packets_per_s, solo, states
from tests.lab.prague.experiment import delay

pytestmark = pytest.mark.lab

VERSIONS = ["bbr2", "bbr2_l4s", "bbr3"]
DOWN = {"bbr2": 0.75, "bbr2_l4s": 0.906, "bbr3": 0.906}
STARTUP = {"bbr2": (2.89, 1.89), "bbr2_l4s": (2.89, 1.89), "bbr3": (2.77, 1.0)}
"""Pacing gain, and the queue in bandwidth-delay products that the window allows."""
BDP = 83
"""Packets of a path with 100 Mbit/s and 10 ms."""


@pytest.fixture(scope="module", params=VERSIONS)
def clean(
    request: pytest.FixtureRequest, lab: Lab, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, list[State]]:
    """Twelve seconds alone at 100 Mbit/s and 10 ms, with two bandwidth-delay products of buffer."""
    cc = request.param
    return cc, solo(lab, tmp_path_factory.mktemp(cc), cc, 12)


def test_bandwidth_and_rtt_are_those_of_the_path(clean: tuple[str, list[State]]) -> None:
    _, found = clean
    settled = [s for s in found if s.t_ms > 2000]
    for state in settled:
        assert state.max_bw == pytest.approx(packets_per_s(100), rel=0.02)
    assert settled[-1].min_rtt_ms == pytest.approx(10.2, abs=0.4)
    assert settled[-1].max_bw * settled[-1].min_rtt_ms / 1000 == pytest.approx(BDP, abs=4)


def test_startup_grows_by_its_gain_and_ends_three_rounds_after_the_plateau(
    clean: tuple[str, list[State]],
) -> None:
    cc, found = clean
    pacing, queue = STARTUP[cc]
    startup = [s for s in found if s.step == "startup"]
    assert startup[-1].t_ms - startup[0].t_ms < 300
    paced = [s.pacing / s.bw for s in startup if s.bw and s.srtt_ms]
    assert median(paced[-20:]) == pytest.approx(0.99 * pacing, rel=0.02)
    full = next(s for s in startup if s.max_bw > packets_per_s(100) * 0.98)
    # rounds are as long as the queue makes them
    assert 2 * 10 <= startup[-1].t_ms - full.t_ms <= 5 * 10 * (1 + queue) * 1.1
    assert max(s.srtt_ms for s in startup) <= 10.2 * (1 + queue) * 1.1


def test_pacing_follows_the_phase(clean: tuple[str, list[State]]) -> None:
    """The last state of each stay: the rate is set at the ACK after a change."""
    cc, found = clean
    gains = {"up": 1.25, "down": DOWN[cc], "cruise": 1, "refill": 1}
    seen = set()
    for before, state, after in zip(found, found[1:], found[2:], strict=False):
        if (
            before.step == state.step == after.step
            and state.step in gains
            and state.bw == after.bw == before.bw
        ):
            assert state.pacing == pytest.approx(0.99 * gains[state.step] * state.bw, rel=0.003), state
            seen.add(state.step)
    assert seen >= {"up", "down", "cruise"}


def test_lower_bounds_are_given_up_when_it_probes(clean: tuple[str, list[State]]) -> None:
    _, found = clean
    for state in found:
        if state.step in {"refill", "up"}:
            assert (state.bw_lo, state.inflight_lo) == (None, None)


def intervals_ms(found: list[State]) -> list[float]:
    """Return the times between probes."""
    ups = [s.t_ms for a, s in pairwise(found) if s.probes > a.probes]
    return [b - a for a, b in pairwise(ups)]


def without_probe_rtt(found: list[State], first_ms: float = 1000) -> list[State]:
    """Return the states before the first PROBE_RTT, which puts a probe off."""
    ends = next((s.t_ms for s in found if s.step == "probe_rtt"), found[-1].t_ms)
    return [s for s in found if first_ms < s.t_ms < ends]


def test_probes_come_every_63_rounds_at_the_latest(clean: tuple[str, list[State]]) -> None:
    _, found = clean
    between = intervals_ms(without_probe_rtt(found))
    assert len(between) >= 4
    assert all(620 <= ms <= 800 for ms in between), between


@pytest.mark.parametrize("cc", VERSIONS)
def test_small_windows_probe_as_often_as_reno(lab: Lab, tmp_path: Path, cc: str) -> None:
    """A bandwidth-delay product of 10 packets: about every 10 rounds; bursts make the target larger."""
    found = solo(lab, tmp_path, cc, 5, rate="12mbit")
    between = intervals_ms(without_probe_rtt(found))
    assert len(between) >= 5
    assert 90 <= median(between) <= 330, between


@pytest.mark.parametrize("cc", VERSIONS)
def test_long_paths_probe_every_two_to_three_seconds(lab: Lab, tmp_path: Path, cc: str) -> None:
    """From DOWN, or from the end of PROBE_RTT, until REFILL."""
    path = {"rate": "20mbit", "rtt_ms": 100, "queue": "bfifo limit 500000"}
    found = solo(lab, tmp_path, cc, 30, every_ms=10, **path)
    begun_ms, waits_ms = None, []
    for before, state in pairwise(found):
        if state.step == "down" != before.step or before.step == "probe_rtt" != state.step:
            begun_ms = state.t_ms
        elif state.step == "refill" != before.step and begun_ms is not None:
            waits_ms.append(state.t_ms - begun_ms)
        elif state.step == "probe_rtt":
            begun_ms = None
    assert len(waits_ms) >= 3
    assert all(1950 <= ms <= 3150 for ms in waits_ms), waits_ms


def test_probe_rtt_halves_what_is_in_flight_for_200_ms(lab: Lab, tmp_path: Path) -> None:
    found = solo(lab, tmp_path, "bbr3", 12)
    begins = entries(found, "probe_rtt")
    assert len(begins) >= 2
    assert 4900 <= begins[1].t_ms - begins[0].t_ms <= 5800
    for begin in begins[:2]:
        stay = [s for s in found if begin.t_ms <= s.t_ms < begin.t_ms + 400 and s.step == "probe_rtt"]
        # the rest of the packets has to come back first: at most one round
        assert 200 <= stay[-1].t_ms - stay[0].t_ms <= 200 + 2 * 15
        assert stay[-1].cwnd == pytest.approx(stay[-1].bw * stay[-1].min_rtt_ms / 2000, abs=1)
        after = next(s for s in found if s.t_ms > stay[-1].t_ms)
        assert after.step == "cruise"
        assert (after.bw_lo, after.inflight_lo) == (None, None)


@pytest.mark.parametrize("cc", ["bbr2", "bbr2_l4s"])
def test_version_2_probes_the_rtt_five_seconds_after_the_path_became_longer(
    lab: Lab, tmp_path: Path, cc: str
) -> None:
    """A sample as low as the least one puts it off, which on a clean path there always is."""
    this = experiment(cc)
    this.flow(12, cc=cc)
    this.start()
    this.sample(12, 1)
    this.at("mid", 3000, "tc", "qdisc", "change", "dev", "tx", "root", *delay(14).split())
    found = states(this.end(lab, tmp_path), cc)
    (begin,) = entries(found, "probe_rtt")
    # the last sample of the shorter path arrived up to a round trip after the change
    assert 5000 <= begin.t_ms - 3000 <= 5000 + 2 * 15
    stay = [s for s in found if s.step == "probe_rtt"]
    assert 200 <= stay[-1].t_ms - stay[0].t_ms <= 200 + 2 * 20
    assert stay[-1].cwnd == pytest.approx(stay[-1].bw * stay[-1].min_rtt_ms / 2000, abs=1)
    after = next(s for s in found if s.t_ms > stay[-1].t_ms)
    assert (after.step, after.bw_lo, after.inflight_lo) == ("cruise", None, None)
    # the filter of 10 s still holds the shorter path
    assert after.min_rtt_ms == pytest.approx(10.2, abs=0.4)


@pytest.mark.parametrize("cc", VERSIONS)
def test_bandwidth_follows_a_link_that_became_slower(lab: Lab, tmp_path: Path, cc: str) -> None:
    """The filter has the samples of two cycles: it forgets a round after the second probe."""
    this = experiment(cc)
    this.flow(18, cc=cc)
    this.start()
    this.sample(18, 5)
    slower = "tc class change dev rx parent 1: classid 1:3 htb rate 10mbit quantum 1514"
    this.at("mid", 4000, *slower.split())
    found = [s for s in states(this.end(lab, tmp_path), cc) if s.t_ms > 4000]
    second = next(s for s in found if s.probes == found[0].probes + 2)
    after = [s for s in found if s.t_ms > second.t_ms + 800]
    assert found[-1].t_ms - second.t_ms > 2000
    for state in after:
        assert state.max_bw == pytest.approx(packets_per_s(10), rel=0.1)


@pytest.mark.parametrize("cc", VERSIONS)
def test_ring_and_estimate_agree(lab: Lab, tmp_path: Path, cc: str) -> None:
    """Without reordering and losses, and with bursts of one packet: the ring counts whole ones."""
    this = experiment(cc)
    this.script.batch("tx", "ip", "link set dev tx gso_max_segs 1")
    this.flow(4, cc=cc)
    this.start()
    this.sample(4, 1)
    found = [s for s in states(this.end(lab, tmp_path), cc) if s.t_ms > 500]
    apart = sorted(abs(s.tx_inflight - s.tx_estimate) for s in found)
    assert apart[len(apart) // 2] == 0
    assert apart[int(len(apart) * 0.99)] <= 3
    assert found[-1].missed <= 1
