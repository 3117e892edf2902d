# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""BBR in the network of the experiments with Prague, and the state that it exports, as values."""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from l4sbench.testbeds.virtual.lab.lab import GUEST_MODULES, Lab
from tests.lab.guests import Outcome
from tests.lab.prague.experiment import Experiment, sender_samples

MODULES = {"bbr2": "tcp_bbr2", "bbr2_l4s": "tcp_bbr2", "bbr3": "tcp_bbr3", "bbr3_ect1": "tcp_bbr3"}
"""Kernel name of each congestion control -> its module."""

PACKET_BYTES, FRAME_BYTES = 1448, 1514


def packets_per_s(rate_mbps: float) -> float:
    """Of full size, on a link of that rate with Ethernet headers."""
    return rate_mbps * 1e6 / 8 / FRAME_BYTES


@dataclass(frozen=True)
class State:
    """A report of a connection of BBR, at one instant.

    Attributes:
        t_ms: When.
        step: The mode, in PROBE_BW the phase: startup, drain, down, cruise, refill, up, probe_rtt.
        bw, max_bw, bw_lo: Packets per second; None: none.
        inflight_lo, inflight_hi, cwnd: Packets; None: none.
        min_rtt_ms: The filter's.
        pacing: Packets per second that are paced.
        alpha: None: it does not respond to marks.
        tx_inflight, tx_estimate: Packets in flight when the last acknowledged one was sent; estimated.
        probes: How many began.
        ca_state: TCP_CA_*.
    """

    t_ms: float
    step: str
    bw: float
    max_bw: float
    bw_lo: float | None
    inflight_lo: int | None
    inflight_hi: int | None
    cwnd: int
    min_rtt_ms: float
    pacing: float
    alpha: float | None
    tx_inflight: int
    tx_estimate: int
    missed: int
    probes: int
    ca_state: int
    srtt_ms: float
    lost: int
    delivered: int

    @classmethod
    def of(cls, sample: dict[str, Any], prefix: str) -> "State":
        """Read a sample of lab-sampler."""

        def own(name: str) -> Any:
            return sample.get(f"{prefix}_{name}")

        def rate(name: str) -> float | None:
            value = own(name)
            return None if value is None else value / PACKET_BYTES

        return cls(
            t_ms=sample["t_ms"],
            step=own("phase") or own("mode"),
            bw=rate("bw") or 0.0,
            max_bw=rate("max_bw") or 0.0,
            bw_lo=rate("bw_lo"),
            inflight_lo=own("inflight_lo"),
            inflight_hi=own("inflight_hi"),
            cwnd=sample["snd_cwnd"],
            min_rtt_ms=(own("min_rtt_us") or 0) / 1000,
            pacing=sample["pacing_rate"] / PACKET_BYTES,
            alpha=own("alpha"),
            tx_inflight=own("tx_inflight"),
            tx_estimate=own("tx_estimate"),
            missed=own("missed"),
            probes=own("cycles"),
            ca_state=sample["ca_state"],
            srtt_ms=sample["rtt"] / 1000,
            lost=own("lost"),
            delivered=sample["delivered"],
        )


def experiment(cc: str, *, ecn: int = 0, **network: Any) -> Experiment:
    """Return the network with the module of a congestion control."""
    path: dict[str, Any] = {"rate": "100mbit", "queue": "bfifo limit 250000", "rtt_ms": 10} | network
    return Experiment(module=GUEST_MODULES / f"{MODULES[cc]}.ko", ecn=ecn, **path)


def states(outcome: Outcome, cc: str) -> list[State]:
    """Return what the first sender reported, from when BBR began on it."""
    prefix = MODULES[cc].removeprefix("tcp_")
    return [State.of(sample, prefix) for sample in sender_samples(outcome) if f"{prefix}_mode" in sample]


def solo(
    lab: Lab, folder: Path, cc: str, seconds: float, *, every_ms: int = 1, **network: Any
) -> list[State]:
    """Run one flow alone and return its states."""
    this = experiment(cc, **network)
    this.flow(seconds, cc=cc)
    this.start()
    this.sample(seconds, every_ms)
    return states(this.end(lab, folder), cc)


def entries(found: list[State], step: str) -> list[State]:
    """Return the first state of each stay in a mode or phase."""
    return [b for a, b in pairwise(found) if b.step == step != a.step]
