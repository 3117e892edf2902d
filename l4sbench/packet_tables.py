# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The tables made of captured packets (`capture: headers`, docs/packets.md)."""

from __future__ import annotations

import dataframely as dy

from l4sbench.columns import OfTrial, count, real, text


def _sojourn(quantile: str, samples: str) -> dy.Float64:
    return real(f"{quantile} of the sojourn times; null with fewer than {samples} samples", "ms")


class Packets(OfTrial):
    """One row per valid trial, flow and packet with payload that arrived at the bottleneck's queue.

    Only trials whose packets were captured have rows (`capture: headers`). `packet_flows` sums them up.
    """

    flow = text("id of the flow", key=True)
    packet = count("number of the packet within its flow, from 1, in order of arrival", key=True)
    group = text("flow group")
    t_ms = real("arrival at the queue", "ms", null=False, minimum=None)
    sojourn_ms = real(
        "time from arrival until the packet left for the link: queue and shaper, without the packet's own "
        "time on the link; null when it never left",
        "ms",
    )
    ip_bytes = count("length from the IP header on", "bytes")
    payload_bytes = count("TCP payload", "bytes")
    retransmit = dy.Bool(
        nullable=False, description="whether it begins before the highest byte the flow has sent so far"
    )
    lost = dy.Bool(nullable=False, description="whether it never left though a later packet of its flow did")
    ecn = text("codepoint on arrival: `not-ect`, `ect1`, `ect0`, `ce`")
    marked = dy.Bool(nullable=True, description="whether it left with a CE mark it had not come with")


class PacketFlows(OfTrial):
    """One row per valid trial and flow with captured packets: what its packets were after the warm-up.

    Lengths are those of IP packets. Packets are counted, and their lengths and retransmissions taken, as they
    arrive at the bottleneck's queue; gaps and throughput are taken as they leave it.
    """

    flow = text("id of the flow", key=True)
    group = text("flow group")
    seconds = real("time over which everything here is taken: the measured duration", "s", null=False)
    data_packets = count("packets with payload", "packets")
    ack_packets = count("pure ACKs that came back", "packets")
    retransmits_packets = count("of the packets with payload, those sent again", "packets")
    retransmits_percent = real("the same in percent of the packets with payload", "%")
    lost_packets = count("packets that never left the queue", "packets")
    ce_packets = count("packets that left with a CE mark", "packets")
    length_mean_bytes = real("mean length of a packet", "bytes")
    length_sd_bytes = real("standard deviation of the lengths", "bytes")
    gap_mean_ms = real("mean time between two packets that leave one after the other", "ms")
    gap_sd_ms = real("standard deviation of these times", "ms")
    rtt_mean_ms = real("mean of the samples of the sender's smoothed RTT", "ms")
    packets_per_rtt = real("packets with payload in a mean RTT")
    acks_per_rtt = real("pure ACKs in a mean RTT")
    throughput_mbps = real("IP bytes that left the queue", "Mbit/s")
    throughput_cv = real(
        "coefficient of variation of these bytes over bins of 50 ms: standard deviation over mean"
    )
    sojourn_samples = count("packets behind the sojourn times: those that left")
    sojourn_mean_ms = real("mean sojourn time: queuing delay per packet", "ms")
    sojourn_p50_ms = _sojourn("median", "20")
    sojourn_p95_ms = _sojourn("95 % quantile", "200")
    sojourn_p99_ms = _sojourn("99 % quantile", "1,000")
    sojourn_p999_ms = _sojourn("99.9 % quantile", "10,000")
