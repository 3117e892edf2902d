# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""TCP Prague: segment size against rate, by each scheme, with marks and without."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.prague.experiment import Experiment, random_marking, sender_samples, sent_segments

pytestmark = pytest.mark.lab

LEAST, MOST, HEADERS = 150, 1448, 52
LOW_BPS, HIGH_BPS = 100e3, 1e6

SHAPES: dict[str, Callable[[float], float]] = {
    "fixed": lambda x: 1,
    "linear": lambda x: x,
    "log": lambda x: math.log(1 + 4 * x) / math.log(5),
    "exp": lambda x: x**2,
}


def by_rate(scheme: str, sample: dict[str, Any]) -> float:
    """Payload in bytes that a scheme makes of the rate alone."""
    x = (sample["prague_rate"] * 8 - LOW_BPS) / (HIGH_BPS - LOW_BPS)
    return LEAST + (MOST - LEAST) * SHAPES[scheme](min(max(x, 0), 1))


def by_rtt(sample: dict[str, Any]) -> float:
    """Payload in bytes of half of what is sent in a virtual RTT."""
    packet = sample["prague_rate"] * max(sample["rtt"], 25_000) / 1e6 / 2
    return float(min(max(packet - HEADERS, LEAST), MOST))


def varied(marks: bool, *, params: str = "-", cc: str = "prague") -> Experiment:
    """A flow whose rate goes down to 100 kbit/s and up again: by its marks, or by the link (and losses)."""
    if marks:
        steps = [random_marking(p) for p in (0.4, 0.55, 0.7, 0.85, 0.97, 0.7, 0.4)]
        this = Experiment(rate="10gbit", queue=steps[0], params=params)
        changes = [f"qdisc change dev rx parent 1:3 handle 3: {step}" for step in steps]
    else:
        rates = ("2mbit", "700kbit", "400kbit", "200kbit", "100kbit", "400kbit", "2mbit")
        this = Experiment(rate=rates[0], queue="bfifo limit 6000", params=params)
        changes = [f"class change dev rx parent 1: classid 1:3 htb rate {rate}" for rate in rates]
    this.capture("tx")
    this.flow(3 * len(changes), cc=cc)
    this.start()
    for number, change in enumerate(changes[1:], start=1):
        this.at("mid", 3000 * number, "tc", *change.split())
    this.sample(3 * len(changes), 2)
    return this


def round_before(samples: list[dict[str, Any]], at: int) -> int:
    """The latest sample since which a whole round has gone by: all in flight was acknowledged, and 25 ms."""
    acked = samples[at]["bytes_acked"]
    for before in range(at, 0, -1):
        then = samples[before]
        if then["bytes_sent"] - then["bytes_retrans"] < acked and then["t_ms"] < samples[at]["t_ms"] - 25:
            return before
    return 0


def check(samples: list[dict[str, Any]], wanted: Callable[[dict[str, Any]], float]) -> None:
    """Each size is what some rate since the last round's start but one asks for."""
    sizes = [wanted(sample) for sample in samples]
    for at in range(500, len(samples)):
        recent = sizes[round_before(samples, round_before(samples, at)) : at + 1]
        # between two samples acknowledgements may raise the rate, set the size, and lower the rate again
        assert 0.98 * min(recent) - 1 <= samples[at]["prague_mss"] <= 1.06 * max(recent) + 1, samples[at]


@pytest.mark.parametrize(
    ("scheme", "marks"),
    [
        ("rtt", True),
        ("rtt", False),
        ("fixed", True),
        pytest.param("fixed", False, marks=pytest.mark.long),
        ("linear", True),
        pytest.param("linear", False, marks=pytest.mark.long),
        pytest.param("log", True, marks=pytest.mark.long),
        ("log", False),
        ("exp", True),
        ("exp", False),
    ],
)
def test_size_against_rate(lab: Lab, tmp_path: Path, scheme: str, marks: bool) -> None:
    outcome = varied(marks, params=f"prague_segsize={scheme}").end(lab, tmp_path)
    samples = sender_samples(outcome)
    rates = [s["prague_rate"] * 8 for s in samples[500:]]
    assert min(rates) < 110e3
    assert max(rates) > 1e6
    assert (samples[-1]["delivered_ce"] > 0) == marks
    if scheme == "fixed" or (scheme == "rtt" and not marks):  # the latter waits for a mark
        assert {s["prague_mss"] for s in samples} == {MOST}
        return
    check(samples, by_rtt if scheme == "rtt" else lambda sample: by_rate(scheme, sample))
    # That is what goes out, less AccECN's option; what was cut before the size changed may be of another
    known = {sample["prague_mss"] - option for sample in samples for option in (0, 12)}
    sent = [s.payload_bytes for s in sent_segments(outcome) if s.kind == "data"]
    assert min(sent) < 2 * LEAST
    assert sum(size in known for size in sent) > 0.8 * len(sent)


def test_the_scheme_of_a_socket(lab: Lab, tmp_path: Path) -> None:
    """The module says `rtt`, the socket another one by its name."""
    samples = sender_samples(varied(False, cc="prague-log").end(lab, tmp_path))
    assert {s["prague_segsize"] for s in samples} == {"log"}
    check(samples, lambda sample: by_rate("log", sample))


def test_the_scheme_can_be_changed_while_flows_run(lab: Lab, tmp_path: Path) -> None:
    this = Experiment(rate="10gbit", queue=random_marking(0.75), params="prague_segsize=fixed")
    this.flow(6)
    this.start()
    this.at("tx", 3000, "busybox", "sh", "-c", "echo exp > /proc/sys/net/ipv4/prague_segsize")
    this.sample(6, 2)
    # the sampler may see a socket connect between its two reads, and Prague's state only the next time
    samples = [s for s in sender_samples(this.end(lab, tmp_path)) if "prague_mss" in s]
    before = [s for s in samples if s["t_ms"] < 3000]
    assert {s["prague_mss"] for s in before} == {MOST}
    after = [s for s in samples if s["t_ms"] > 3100]
    assert {s["prague_segsize"] for s in after} == {"exp"}
    assert min(s["prague_mss"] for s in after) < MOST / 2
    check(after, lambda sample: by_rate("exp", sample))
