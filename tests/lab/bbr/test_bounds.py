# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""BBR: its response to losses and marks, read from the state that it reports."""

from itertools import pairwise
from pathlib import Path

import pytest

from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.bbr.experiment import State, entries, experiment, solo, states
from tests.lab.prague.experiment import random_marking

pytestmark = pytest.mark.lab

ALPHAS = [256, 240, 225, 210, 196, 183, 171, 160]
"""In 256ths, from 1 without marks, round by round."""
KEEP = 180 / 256
OPEN, RECOVERY = 0, 3
"""TCP_CA_*"""


def marks(
    lab: Lab,
    folder: Path,
    cc: str,
    queue: str,
    params: str = "-",
    seconds: float = 3,
    receiver: str = "dctcp",
) -> list[State]:
    """Run a flow over a queue that marks; its receiver echoes each change of marking."""
    this = experiment(cc, ecn=1, queue=queue, params=params)
    this.set("tx", "net/ipv4/tcp_ecn_fallback", 0)  # a lost SYN is repeated with ECN
    this.script.run("rx", "ip", "route", "change", "default", "via", "10.0.9.2", "congctl", receiver)
    this.flow(seconds, cc=cc)
    this.start()
    this.sample(seconds, 1)
    return states(this.end(lab, folder), cc)


RESPONDS = {
    "bbr2": "ecn_enable=1 ecn_max_rtt_us=0",
    "bbr2_l4s": "-",
    "bbr3": "ecn_low=1 ecn_max_rtt_us=0 ecn_reprobe_gain=0",
}
"""Parameters with which each responds to marks, and stays a while where it is."""

VERSIONS = ["bbr2", "bbr3", pytest.param("bbr2_l4s", marks=pytest.mark.long)]
"""Names that respond to losses; the second one of a module does as its first."""


@pytest.mark.parametrize("cc", RESPONDS)
def test_alpha_falls_as_the_fractions_that_it_drops_let_it(lab: Lab, tmp_path: Path, cc: str) -> None:
    found = marks(lab, tmp_path, cc, "bfifo limit 250000", RESPONDS[cc])
    alphas = [round(s.alpha * 256) for s in found if s.alpha is not None]
    steps = [a for n, a in enumerate(alphas) if n == 0 or a != alphas[n - 1]]
    assert [a for a in ALPHAS if a in steps] == [a for a in steps if a in ALPHAS]
    assert set(steps[:6]) <= set(ALPHAS)
    assert alphas[-1] == 0


@pytest.mark.parametrize("cc", RESPONDS)
def test_few_marks_have_no_effect(lab: Lab, tmp_path: Path, cc: str) -> None:
    """Below 16/256 of a round's packets nothing is added to alpha."""
    found = marks(lab, tmp_path, cc, random_marking(0.03), RESPONDS[cc], 6)
    late = [s for s in found if s.t_ms > 3000]
    assert max(s.alpha or 0 for s in late) <= 2 * 16 / 256
    assert min(s.alpha or 0 for s in late) == 0


@pytest.mark.parametrize("cc", ["bbr2", "bbr3"])
def test_long_paths_do_not_respond_unless_told(lab: Lab, tmp_path: Path, cc: str) -> None:
    gate = {"bbr2": "ecn_enable=1", "bbr3": "ecn_low=1"}[cc]
    for name in ("off", "on"):
        (tmp_path / name).mkdir()
    found = marks(lab, tmp_path / "off", cc, random_marking(0.3), f"{gate} ecn_max_rtt_us=5000", 2)
    assert {s.alpha for s in found} == {None}
    assert all(s.inflight_lo is None for s in found)
    found = marks(lab, tmp_path / "on", cc, random_marking(0.3), f"{gate} ecn_max_rtt_us=0", 2)
    assert found[-1].alpha is not None
    assert any(s.inflight_lo is not None for s in found)


@pytest.mark.parametrize("cc", RESPONDS)
def test_a_marked_round_cuts_what_is_in_flight_by_a_third_of_alpha(lab: Lab, tmp_path: Path, cc: str) -> None:
    found = marks(lab, tmp_path, cc, random_marking(0.3), RESPONDS[cc], 5)
    cuts = [
        (a, b)
        for a, b in pairwise(found)
        if a.inflight_lo
        and b.inflight_lo
        and b.inflight_lo < a.inflight_lo
        and a.step == b.step in {"cruise", "down"}
    ]
    assert len(cuts) >= 5
    for before, after in cuts:
        alpha = round((after.alpha or 0) * 256)
        cut = 256 - (alpha * 85 >> 8)
        assert after.inflight_lo in {before.inflight_lo, (before.inflight_lo or 0) * cut >> 8}
    assert all(s.bw_lo is None for s in found)  # marks leave the bandwidth alone


@pytest.mark.parametrize("cc", VERSIONS)
def test_a_round_with_losses_keeps_seven_tenths_or_what_was_delivered(
    lab: Lab, tmp_path: Path, cc: str
) -> None:
    found = solo(lab, tmp_path, cc, 8, queue="netem loss random 0.3% limit 60000", rate="100mbit")
    falls = [
        (a, b)
        for a, b in pairwise(found)
        if b.bw_lo is not None and b.step in {"cruise", "down"} and b.bw_lo < (a.bw_lo or a.max_bw) * 0.999
    ]
    assert len(falls) >= 5
    for before, after in falls:
        assert after.bw_lo is not None
        assert after.bw_lo >= (before.bw_lo or before.max_bw) * KEEP * 0.999
    # once per round: no two within one RTT
    assert all(b[1].t_ms - a[1].t_ms >= 9 for a, b in pairwise(falls))


@pytest.mark.parametrize("cc", VERSIONS)
def test_cruising_leaves_headroom(lab: Lab, tmp_path: Path, cc: str) -> None:
    found = solo(lab, tmp_path, cc, 8, queue="bfifo limit 20000")
    settled = [
        b
        for a, b in pairwise(found)
        if b.step == a.step in {"cruise", "probe_rtt"} and b.inflight_hi is not None
    ]
    assert len(settled) > 100
    for state in settled:
        assert state.inflight_hi is not None
        assert state.cwnd <= max(state.inflight_hi - max(1, state.inflight_hi * 38 >> 8), 4)


@pytest.mark.parametrize("cc", VERSIONS)
def test_losses_of_a_probe_set_the_upper_bound(lab: Lab, tmp_path: Path, cc: str) -> None:
    """A fifth of a bandwidth-delay product of buffer: probes overflow it."""
    found = solo(lab, tmp_path, cc, 8, queue="bfifo limit 20000")
    room = 83 + 20000 / 1514
    assert entries(found, "up")
    settled = [s.inflight_hi for s in found if s.t_ms > 3000 and s.inflight_hi is not None]
    assert settled
    assert max(settled) <= room * 1.3
    assert min(settled) >= room * 0.7 * 0.9


def probed(lab: Lab, folder: Path, cc: str, rate: str, loss_percent: float) -> list[State]:
    """Run a flow that probes some 25 times on a path of 100 ms, where 1 ms or more lies between packets."""
    queue = f"netem loss random {loss_percent}% limit 60000"
    this = experiment(cc, rate=rate, rtt_ms=100, queue=queue)
    this.set("tx", f"net/ipv4/{cc}_bw_probe_base_us", 300_000)
    this.set("tx", f"net/ipv4/{cc}_bw_probe_rand_us", 1)
    this.flow(20, cc=cc)
    this.start()
    this.sample(20, 1)
    found = states(this.end(lab, folder), cc)
    assert len(entries(found, "up")) >= 10
    return found


def with_losses(found: list[State]) -> list[State]:
    """Return the states of probes whose last ACK told of losses, but for the ACK with which one began."""
    states_of, began = [], 0
    for before, state in pairwise(found):
        if state.step == "up" != before.step:
            began = state.delivered
        if state.step == "up" and state.lost and state.delivered > began:
            states_of.append(state)
    return states_of


@pytest.mark.parametrize("cc", VERSIONS)
def test_one_loss_in_a_hundred_packets_is_safe_and_three_are_too_many(
    lab: Lab, tmp_path: Path, cc: str
) -> None:
    """Too many are more than 5/256 of what was in flight; the ACK that tells ends the probe."""
    found = probed(lab, tmp_path, cc, "12mbit", 0.5)
    probing = with_losses(found)
    assert len([s for s in probing if s.lost == 1 and s.tx_inflight >= 52]) >= 20
    assert not [s for s in probing if s.lost >= 3 and s.tx_inflight <= 150]
    ended = [b for a, b in pairwise(found) if a.step == "up" and b.step == "down" and b.lost >= 2]
    assert ended
    for state in ended:
        if state.lost > state.tx_inflight * 5 >> 8:
            assert state.inflight_hi is not None


@pytest.mark.parametrize("cc", VERSIONS)
def test_one_loss_in_fifty_packets_is_too_many(lab: Lab, tmp_path: Path, cc: str) -> None:
    found = probed(lab, tmp_path, cc, "4mbit", 1.0)
    probing = with_losses(found)
    assert not [s for s in probing if s.tx_inflight <= 50]
    ended = [b for a, b in pairwise(found) if a.step == "up" and b.step == "down" and b.lost]
    assert len(ended) >= 3
    # a bandwidth-delay product is 33 packets, and the window of a probe at most 2.25 of it, and a burst
    assert all(s.inflight_hi is not None and s.inflight_hi <= 2.25 * 33 + 6 for s in ended), ended


def at_least(now: float | None, before: float | None) -> bool:
    """Compare bounds; None is none."""
    return now is None or (before is not None and now >= before)


@pytest.mark.parametrize("cc", VERSIONS)
def test_a_recovery_without_losses_leaves_the_bounds(lab: Lab, tmp_path: Path, cc: str) -> None:
    """Where the path becomes shorter packets overtake others, which TCP takes for lost, until they arrive."""
    this = experiment(cc, queue="netem delay 30ms limit 60000")
    this.flow(12, cc=cc)
    this.start()
    this.sample(12, 1)
    for number in range(8):
        for at_ms, delay in ((2000, "0ms"), (2600, "30ms")):
            change = f"tc qdisc change dev rx parent 1:3 handle 3: netem delay {delay} limit 60000"
            this.at("mid", at_ms + 1200 * number, *change.split())
    found = states(this.end(lab, tmp_path), cc)
    begins = [n for n, (a, b) in enumerate(pairwise(found)) if a.ca_state < RECOVERY == b.ca_state]
    kept = 0
    for begin in begins:
        before = found[begin]
        after = next((s for s in found[begin + 1 :] if s.ca_state == OPEN), None)
        if after is None or before.step not in {"cruise", "down"}:
            continue
        kept += 1
        assert at_least(after.bw_lo, before.bw_lo), (before, after)
        assert at_least(after.inflight_lo, before.inflight_lo), (before, after)
        assert at_least(after.inflight_hi, before.inflight_hi), (before, after)
    assert kept >= 3
