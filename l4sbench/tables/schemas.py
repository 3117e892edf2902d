# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The tables of a run: every column with its type, unit and meaning.

A table is one Parquet file below `tables/` of a run directory, sorted by its key. Column names end with the
unit (`_mbps` is 10^6 bit/s, `_ms` milliseconds, `_packets`, `_bytes`). No table contains a wall-clock time, a
host name or the state of a git tree, so equal runs give equal files, byte for byte.

Times named `t_ms` count from the start instant of the trial, which all its nodes share.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, cast

import dataframely as dy

from l4sbench.catalog import Catalog
from l4sbench.facts.factors import COLUMN_ENDS
from l4sbench.tables.columns import OfTrial, count, real, text, texts, time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from l4sbench.catalog.exports import Column, Table


def _sojourn(quantile: str, samples: str) -> dy.Float64:
    return real(f"{quantile} of the sojourn times; null with fewer than {samples} samples", "ms")


class TrialsTable(OfTrial):
    """One row per trial; of a trial that was run more than once, the newest.

    Every factor has a column with its dotted name, quantities with their unit (`rate_mbps`, `rtt_ms`, `aqm`,
    `aqm.target_ms`, `l4s.cc`); factors that a cell does not have are null.
    """

    status = text("`ok`, `invalid` (the setup was not as its cell asks) or `failed` (the trial broke)")
    reasons = text("reasons why a trial is invalid or failed, joined by `; `", null=True)
    faults = texts("kinds of these reasons, in the same order; null in tables of older versions")
    flags = texts(
        "remarks that do not make a trial invalid: `low-utilisation`, `busy-host`, `limited-start`, "
        "`left-out-flows`, `unread-<table>`"
    )
    seed = text("seed of the trial, as a decimal number")
    testbed = text("testbed of the trial: `virtual`, `ssh`, `fabric`", null=True)
    traffic = text("traffic tools, each once, joined by `, `: `lean`, `iperf3`, `flent`", null=True)
    kernels = texts("kernel releases of the nodes, each once")
    modules = texts("loaded kernel modules of l4sbench as `name=srcversion`")
    skew_ms = real("difference between the first and the last start of a node", "ms")
    inputs = text("digest of the inputs of the trial: programs, kernel, modules, tools")
    folder = text("folder of the trial below `cells/<cell>/`")


class FlowsTable(OfTrial):
    """One row per valid trial and flow: its goodput, RTT, losses and marks."""

    flow = text("id of the flow, `<group>-<index>`", key=True)
    group = text("flow group")
    send = text("kind of traffic, as in the factor `<group>.send`", null=True)
    cc = text("congestion control of the group; null for what TCP does not send", null=True)
    sender = text("sending node")
    receiver = text("receiving node")
    start_ms = real("start of the flow, from the start instant", "ms")
    seconds = real("duration of the flow by its own clock", "s")
    goodput_mbps = real(
        "bytes delivered to the receiver after the warm-up, over the measured duration (TCP_INFO at clock "
        "boundaries; iperf3: receiver's intervals)",
        "Mbit/s",
    )
    goodput_whole_mbps = real("the same over the whole flow, warm-up and slow start included", "Mbit/s")
    srtt_minus_base_ms = real(
        "mean of the 1 s samples of the sender's smoothed RTT after the warm-up, minus the nominal base RTT: "
        "the queuing delay of the published experiments; neither a percentile nor per packet",
        "ms",
        minimum=None,
    )
    srtt_min_ms = real("smallest sample of the smoothed RTT after the warm-up", "ms")
    srtt_p50_ms = real("median of the samples of the smoothed RTT after the warm-up", "ms")
    srtt_p90_ms = real("90 % quantile of the same; null with fewer than 100 samples", "ms")
    srtt_p95_ms = real("95 % quantile of the same; null with fewer than 200 samples", "ms")
    srtt_p99_ms = real("99 % quantile of the same; null with fewer than 1,000 samples", "ms")
    srtt_samples = count("number of samples of the smoothed RTT", null=True)
    completed_ms = real(
        "time from the flow's start until all of its `bytes` had arrived; null if they had not within its "
        "lifetime, and for flows without `bytes`",
        "ms",
    )
    offered_mbps = real("rate of the Ethernet frames that a paced flow or a flood of SYNs sent", "Mbit/s")
    arrived_mbps = real("the same of those that arrived at the receiver", "Mbit/s")
    connections = count("connections that requests or a flood of connections opened", null=True)
    sent_bytes = count(
        "payload acknowledged by the receiver; of a paced flow, sent; null for many connections",
        "bytes",
        null=True,
    )
    received_bytes = count("payload that reached the receiver", "bytes", null=True)
    retransmits_packets = count("retransmitted segments", "packets", null=True)
    delivered_packets = count("segments delivered, as the sender counts", "packets", null=True)
    delivered_ce_packets = count("of these, segments that arrived with a CE mark", "packets", null=True)
    mss_bytes = count("sender's segment size at the end", "bytes", null=True)
    ecn = text("ECN as negotiated: `off`, `classic`, `accecn`; null if unknown", null=True)
    busy_ms = real("time with data in flight or to send", "ms")
    rwnd_limited_ms = real("of this, limited by the receiver's window", "ms")
    sndbuf_limited_ms = real("of this, limited by the send buffer", "ms")
    left_out = text(
        "why the flow is left out of its group's figures, because it did not do what its cell asks; null: it "
        "counts. At most 5 % of a group's flows are; with more the trial is invalid",
        null=True,
    )


class IntervalsTable(OfTrial):
    """One row per valid trial, flow and interval of the traffic tool (1 s); the last may be shorter."""

    flow = text("id of the flow", key=True)
    t_ms = time("end of the interval, from the flow's own start")
    group = text("flow group")
    seconds = real("length of the interval", "s", null=False)
    goodput_mbps = real("bytes that reached the receiver in the interval", "Mbit/s")
    sent_mbps = real(
        "bytes acknowledged (iperf3: written) at the sender in the interval; null for many connections",
        "Mbit/s",
    )
    srtt_ms = real("smoothed RTT at the end of the interval", "ms")
    cwnd_packets = real("congestion window at the end of the interval", "packets")
    retransmits_packets = count("segments retransmitted in the interval", "packets", null=True)
    delivered_packets = count("segments delivered in the interval", "packets", null=True)
    delivered_ce_packets = count("of these, with a CE mark", "packets", null=True)
    warmup = dy.Bool(nullable=False, description="true if the interval began in the warm-up")


class RequestsTable(OfTrial):
    """One row per valid trial, flow of `send: requests`, `workload` or `pages`, and TCP connection or page.

    Times count from the opening of the connection, or of the page's connections; null: the connection or page
    had not come so far at the flow's end.
    """

    flow = text("id of the flow", key=True)
    request = count("number of the connection, or page, within its flow, from 1", key=True)
    group = text("flow group")
    t_ms = real("opening of the connection, from the start instant", "ms", null=False)
    handshake_ms = real("time until the connection was established: a round trip of two small packets", "ms")
    response_ms = real(
        "time until the whole response had arrived; of a workload its completion time, until the receiver "
        "has closed the connection because it has everything; of a page until all objects were there",
        "ms",
    )
    payload_bytes = count("payload of the request, and of its response; of all objects of a page", "bytes")
    fair_ms = real(
        "the same time with the flow's equal share of the link's rate and no queue: the round trips of slow "
        "start, and the transmission of its packets",
        "ms",
    )
    warmup = dy.Bool(nullable=False, description="true if it began in the warm-up")


class FlentTable(OfTrial):
    """One row per valid trial, `send: flent` flow and value that a tool of flent reported."""

    flow = text("id of the flow", key=True)
    series = text("flent's name of the series, such as `Ping (ms) ICMP`", key=True)
    point = count("number of the value within its series, from 1, in order of time", key=True)
    group = text("flow group")
    t_ms = real("when it was reported, from the start of flent's test", "ms", null=False, minimum=None)
    value = real("the value, in the series' unit", null=False, minimum=None)
    unit = text("unit, as flent writes it; null where it states none", null=True)


class ExecTable(OfTrial):
    """One row per valid trial, `send: exec` flow and number in the JSON that its programs left (`{json}`)."""

    flow = text("id of the flow", key=True)
    side = text("`sender` or `receiver`", key=True)
    key = text("names of the objects around the number, and its own, joined by dots", key=True)
    item = count("number of the value among those of its key, from 1, where it is in a list", key=True)
    group = text("flow group")
    value = real("the number", null=False, minimum=None)


class QlogTable(OfTrial):
    """One row per valid trial, flow whose sender writes a qlog, and sampling interval with an event in it.

    Values are the newest in the interval, as the sender reports them; packets do not confirm them.
    """

    flow = text("id of the flow", key=True)
    t_ms = time("end of the interval")
    group = text("flow group")
    srtt_ms = real("smoothed RTT", "ms")
    rttvar_ms = real("mean deviation of the RTT", "ms")
    min_rtt_ms = real("minimum RTT", "ms")
    cwnd_bytes = count("congestion window", "bytes", null=True)
    ssthresh_bytes = count("slow start threshold", "bytes", null=True)
    inflight_bytes = count("bytes under way", "bytes", null=True)
    pacing_mbps = real("pacing rate", "Mbit/s")
    lost_packets = count("packets declared lost so far", "packets", null=True)
    ect0_packets = count("packets with ECT(0) that the receiver reports so far", "packets", null=True)
    ect1_packets = count("the same with ECT(1)", "packets", null=True)
    ce_packets = count("the same with CE", "packets", null=True)


class SocketsTable(OfTrial):
    """One row per trial, node, flow and sample of its TCP socket (TCP_INFO by netlink or `ss`).

    Columns whose names begin with a congestion control's are state that its module exports, null for all
    others. Exports of entries outside of l4sbench's own catalog follow, by name.
    """

    node = text("node of the socket", key=True)
    flow = text("id of the flow", key=True)
    t_ms = time("time of the sample")
    group = text("flow group")
    side = text("`sender` or `receiver`")
    state = text("state of the connection, as `ss` prints it", null=True)
    cc = text("congestion control, by kernel name", null=True)
    srtt_ms = real("smoothed RTT", "ms")
    rttvar_ms = real("mean deviation of the RTT", "ms")
    min_rtt_ms = real("minimum RTT in the kernel's window", "ms")
    cwnd_packets = count("congestion window", "packets", null=True)
    ssthresh_packets = count("slow start threshold; null while infinite", "packets", null=True)
    mss_bytes = count("segment size when sending", "bytes", null=True)
    inflight_packets = count("segments not acknowledged", "packets", null=True)
    pacing_mbps = real("pacing rate; null while unlimited", "Mbit/s")
    delivery_mbps = real("newest delivery rate sample; null before the first", "Mbit/s")
    delivered_packets = count("segments delivered so far", "packets", null=True)
    delivered_ce_packets = count("of these, with a CE mark", "packets", null=True)
    received_ce_packets = count("packets with a CE mark that arrived here (AccECN)", "packets", null=True)
    retransmits_packets = count("segments retransmitted so far", "packets", null=True)
    lost_packets = count("segments currently considered lost", "packets", null=True)
    sent_bytes = count("payload sent so far, including retransmissions", "bytes", null=True)
    acked_bytes = count("payload acknowledged so far", "bytes", null=True)
    received_bytes = count("payload received in order so far", "bytes", null=True)
    segments_out_packets = count("all segments sent so far, including pure ACKs", "packets", null=True)
    segments_in_packets = count("all segments received so far", "packets", null=True)
    data_out_packets = count("segments with payload sent so far", "packets", null=True)
    data_in_packets = count("segments with payload received so far", "packets", null=True)
    peer_window_bytes = count("window the peer advertises", "bytes", null=True)
    window_bytes = count("window advertised to the peer", "bytes", null=True)
    busy_ms = real("time with data in flight or to send, so far", "ms")
    rwnd_limited_ms = real("of this, limited by the receiver's window", "ms")
    sndbuf_limited_ms = real("of this, limited by the send buffer", "ms")
    ecn = text("ECN as negotiated: `off`, `classic`, `accecn`", null=True)
    alpha = real("smoothed fraction of marked packets, of congestion controls that report it (0 to 1)")


class QueuesTable(OfTrial):
    """One row per trial, queue and sample of its counters (by netlink or `tc -s -j qdisc`).

    Catalog entries describe which counters of a kind of queue these are; columns that only one entry has
    follow.
    """

    node = text("node of the queue", key=True)
    network = text("network of the queue's port", key=True)
    handle = text("handle of the qdisc", key=True)
    t_ms = time("time of the sample")
    kind = text("kind of the qdisc")
    parent = text("parent of the qdisc; null at the root", null=True)
    sent_bytes = count("bytes that left the queue so far, including link headers", "bytes", null=True)
    sent_packets = count("packets that left the queue so far", "packets", null=True)
    drops_packets = count("packets dropped so far", "packets", null=True)
    overlimits_packets = count("times the queue held a packet back", "packets", null=True)
    requeues_packets = count("packets returned by the driver", "packets", null=True)
    backlog_bytes = count("bytes in the queue", "bytes", null=True)
    backlog_packets = count("packets in the queue", "packets", null=True)
    marks_packets = count(
        "CE marks so far, for any of the queue's reasons (dualpi2 counts a packet twice that both its PI "
        "controller and its step mark)",
        "packets",
        null=True,
    )
    threshold_marks_packets = count(
        "of these, for a sojourn time over a threshold: ce_threshold, or dualpi2's step", "packets", null=True
    )
    delay_ms = real("the queue's own latest delay: codel's sojourn time, pie's estimate", "ms")
    prob = real("drop or mark probability of pie, base probability of dualpi2 (0 to 1)")
    delay_classic_ms = real("dualpi2: delay of the classic queue", "ms")
    delay_l4s_ms = real("dualpi2: delay of the L4S queue", "ms")
    classic_packets = count("dualpi2: packets that entered the classic queue so far", "packets", null=True)
    l4s_packets = count("dualpi2: packets that entered the L4S queue so far", "packets", null=True)
    flows = count("flows that the queue currently separates", null=True)


class PacketsTable(OfTrial):
    """One row per valid trial, flow and packet with payload that arrived at the bottleneck's queue.

    Of `send: syn-flood` these are the SYNs. Only trials with `capture: headers` have rows. `packet_flows`
    summarises them.
    """

    flow = text("id of the flow", key=True)
    packet = count("number of the packet within its flow, from 1, in order of arrival", key=True)
    group = text("flow group")
    t_ms = real("arrival at the queue", "ms", null=False, minimum=None)
    sojourn_ms = real(
        "time from arrival until the packet left for the link: queue and shaper, without the packet's own "
        "time on the link; null if it never left",
        "ms",
    )
    ip_bytes = count("length including the IP header", "bytes")
    payload_bytes = count("payload of TCP or UDP", "bytes")
    retransmit = dy.Bool(
        nullable=False,
        description="true if it begins before the highest byte that its connection has sent so far",
    )
    lost = dy.Bool(nullable=False, description="true if it never left but a later packet of its flow did")
    ecn = text("codepoint on arrival: `not-ect`, `ect1`, `ect0`, `ce`")
    marked = dy.Bool(nullable=True, description="true if it was CE-marked between arrival and departure")


class PacketFlowsTable(OfTrial):
    """One row per valid trial and flow with captured packets: statistics of its packets after the warm-up.

    Lengths are those of IP packets. Counts, lengths and retransmissions are measured where packets arrive at
    the bottleneck's queue; gaps and throughput where they leave it. Packets with payload include the SYNs of
    `send: syn-flood`. Flows that end within the warm-up, having delivered their `bytes`, have no row.
    """

    flow = text("id of the flow", key=True)
    group = text("flow group")
    seconds = real("measured duration, to which all columns refer", "s", null=False)
    data_packets = count("packets with payload", "packets")
    ack_packets = count("pure ACKs in the opposite direction", "packets")
    retransmits_packets = count("packets with payload that are retransmissions", "packets")
    retransmits_percent = real("the same in percent of the packets with payload", "%")
    lost_packets = count("packets that never left the queue", "packets")
    ce_packets = count("packets that left with a CE mark", "packets")
    length_mean_bytes = real("mean length of a packet", "bytes")
    length_sd_bytes = real("standard deviation of the lengths", "bytes")
    gap_mean_ms = real("mean time between the departures of two consecutive packets", "ms")
    gap_sd_ms = real("standard deviation of these times", "ms")
    ack_gap_mean_ms = real("mean time between two consecutive pure ACKs, where they reach the router", "ms")
    ack_gap_sd_ms = real("standard deviation of these times", "ms")
    rtt_mean_ms = real("mean of the samples of the sender's smoothed RTT", "ms")
    packets_per_rtt = real("packets with payload in a mean RTT")
    acks_per_rtt = real("pure ACKs in a mean RTT")
    throughput_mbps = real("IP bytes that left the queue", "Mbit/s")
    throughput_cv = real(
        "coefficient of variation of these bytes over bins of 50 ms: standard deviation over mean"
    )
    sojourn_samples = count("number of sojourn times: packets that left")
    sojourn_mean_ms = real("mean sojourn time: queuing delay per packet", "ms")
    sojourn_p50_ms = _sojourn("median", "20")
    sojourn_p95_ms = _sojourn("95 % quantile", "200")
    sojourn_p99_ms = _sojourn("99 % quantile", "1,000")
    sojourn_p999_ms = _sojourn("99.9 % quantile", "10,000")


class CodepointsTable(OfTrial):
    """One row per valid trial, flow, direction and place with captured packets: their ECN fields.

    All packets of the flow count, whatever they carry, from its SYN on.
    """

    flow = text("id of the flow", key=True)
    direction = text("`forward`, to the receiver, or `backward`", key=True)
    place = text("`before` or `behind` the bottleneck's queue", key=True)
    group = text("flow group")
    not_ect_packets = count("packets with Not-ECT", "packets")
    ect1_packets = count("packets with ECT(1)", "packets")
    ect0_packets = count("packets with ECT(0)", "packets")
    ce_packets = count("packets with CE", "packets")


class AccecnTable(OfTrial):
    """One row per valid trial and flow with AccECN and captured packets: its marks, and reports of them.

    Marks are those of packets that left the bottleneck's queue, from the SYN on. Reports are the ACE field
    and the AccECN option (RFC 9768) of the packets that return. The last marks of a flow may have been under
    way when it ended, and are not reported then.
    """

    flow = text("id of the flow", key=True)
    group = text("flow group")
    connections = count("connections of the flow")
    ce_packets = count("packets that left with a CE mark", "packets")
    ace_packets = count("CE marks that the ACE field reports", "packets", null=True)
    ce_bytes = count("payload that left with a CE mark", "bytes")
    option_ce_bytes = count("the same as the option reports it; null without options", "bytes", null=True)
    ect1_bytes = count("payload that left with ECT(1)", "bytes")
    option_ect1_bytes = count("the same as the option reports it", "bytes", null=True)
    ect0_bytes = count("payload that left with ECT(0)", "bytes")
    option_ect0_bytes = count("the same as the option reports it", "bytes", null=True)
    acks_packets = count("packets that return, without those that others overtook", "packets", null=True)
    option_acks_packets = count("of these, with a CE counter in an AccECN option", "packets", null=True)
    ce_between_acks_packets = count(
        "most packets with a CE mark that leave the queue between two packets that return",
        "packets",
        null=True,
    )


class HostsTable(OfTrial):
    """One row per trial, node and fact that was read back from the node after the trial, for provenance."""

    node = text("the node", key=True)
    kind = text(
        "`kernel`, `module`, `parameter`, `sysctl`, `offload`, `qdisc`, `rule`, `pauses`, `walk`, `rtt` or "
        "`switch`",
        key=True,
    )
    name = text(
        "a sysctl's name, `<network> <offload>`, `<network> <handle>` of a qdisc or a rule of nft, ...",
        key=True,
    )
    value = text("value that was read; of a qdisc, a rule or a switch as JSON, names sorted", null=True)


class LatenessTable(OfTrial):
    """One row per node and trial in real time: how late the node woke up when it needed a CPU.

    Every node schedules wake-ups 50 ms apart, from the start instant to the read-back.
    """

    node = text("the node", key=True)
    instants = count("number of wake-ups")
    late_share = real("share of wake-ups more than 5 ms late (0 to 1)")
    late_p50_ms = real("median lateness; null with fewer than 20 wake-ups", "ms")
    late_p90_ms = real("90 % quantile of the same; null with fewer than 100", "ms")
    late_p99_ms = real("99 % quantile of the same; null with fewer than 1,000", "ms")
    late_max_ms = real("maximum lateness", "ms")
    busy_share = real("share of CPU time that was not idle; null if unknown (0 to 1)")
    stolen_share = real("share of CPU time stolen by the hypervisor, as the kernel reports it (0 to 1)")
    waited_share = real("share of time in which some task waited for a CPU (/proc/pressure/cpu)")


class EventsTable(OfTrial):
    """One row per trial and change of an event: when it took effect, and what was read back."""

    event = text("name of the event", key=True)
    factor = text("factor that changed", key=True)
    node = text("node where it changed", key=True)
    port = text("network of the node's port, if it is one port's; else empty", key=True)
    at_ms = real("instant in the matrix, from the start instant", "ms")
    t_ms = real("when the node had made the change, from the start instant", "ms")
    value = text("new value, as in the matrix")
    shown = text("what was read back just after, as JSON", null=True)


class ProgramsTable(OfTrial):
    """One row per trial, node and step of its program: the command, and the command that reruns the cell."""

    node = text("the node", key=True)
    step = count("index of the step in the node's program, from 1", key=True)
    phase = text("`setup`, `ready`, `start`, `change` or `readback`")
    command = text("the step as a command line, quoted for a shell; `@<network>` is the node's port on it")
    rerun = text("command that runs the cell again")


class CatalogTable(dy.Schema):
    """One row per queue and congestion control of the run's cells, as described by the catalog."""

    kind = text("`queue` or `cc`", key=True)
    name = text("name, as in `aqm` and `<group>.cc`", key=True)
    label = text("name in printed tables")
    family = text(
        "row of the decision table to which a queue belongs; null for a congestion control", null=True
    )
    l4s = dy.Bool(nullable=False, description="true if it treats ECT(1) differently, or sends it")
    about = text("one sentence")
    digest = text("digest of everything that affects trials")
    panels = text(
        "what of its state reports draw over time, as JSON: titles and columns of `sockets`; null: nothing",
        null=True,
    )


class VerdictsTable(dy.Schema):
    """One row per rule, question and cell of the decision table. Written by the report."""

    rule = text("name of the verdict rule", key=True)
    l4s = text("L4S congestion control of the question", key=True)
    row = text("row of the table: a family of queues", key=True)
    column = text("column of the table: a competitor with its ECN", key=True)
    verdict = text("`ok`, `l4s-starved`, `classic-starved`, `both`, `undecided` or `invalid`")
    low_latency = text("cells in which the L4S flow's delay stays low: `all`, `some` or `none`")
    low_latency_in = text("queues of these cells, if `some`", null=True)
    cells = count("cells behind the verdict")
    trials = count("valid trials behind the verdict")
    left_out = count("invalid and failed trials, which do not count")
    worst_cell = text("id of the cell farthest outside of the limits, or else closest to them", null=True)
    worst_label = text("the same in words", null=True)
    worst_trials = count("its valid trials", null=True)
    worst_percent = real("its L4S goodput in percent of the link's rate, mean of the trials", "%")
    worst_low_percent = real("lower end of the 95 % confidence interval of that mean", "%")
    worst_high_percent = real("upper end of it", "%")
    worst_l4s_mbps = real("its L4S goodput", "Mbit/s")
    worst_classic_mbps = real("its classic goodput", "Mbit/s")
    worst_l4s_harm_percent = real(
        "harm to the L4S group's goodput in it; null without a baseline", "%", minimum=None
    )
    worst_classic_harm_percent = real("the same of the classic group", "%", minimum=None)
    undecided_cells = count("cells whose confidence intervals straddle a limit, under any rule")
    bimodal_cells = count("cells with a bimodal distribution of trials")
    delay_ms = real("largest cell mean of the L4S flow's delay", "ms", minimum=None)
    version = count("version of the rule")
    sure = dy.Bool(
        nullable=True,
        description="true if confidence intervals alone give the verdict; false for `undecided`, `invalid`",
    )


SCHEMAS: Final[Mapping[str, type[dy.Schema]]] = {
    "trials": TrialsTable,
    "flows": FlowsTable,
    "intervals": IntervalsTable,
    "requests": RequestsTable,
    "flent": FlentTable,
    "exec": ExecTable,
    "qlog": QlogTable,
    "sockets": SocketsTable,
    "queues": QueuesTable,
    "packets": PacketsTable,
    "packet_flows": PacketFlowsTable,
    "codepoints": CodepointsTable,
    "accecn": AccecnTable,
    "hosts": HostsTable,
    "lateness": LatenessTable,
    "events": EventsTable,
    "programs": ProgramsTable,
    "catalog": CatalogTable,
    "verdicts": VerdictsTable,
}
"""All tables by name, in the order of the documentation."""

EXPORTING: Final[tuple[Table, ...]] = ("sockets", "queues")
"""Tables with columns that catalog entries export."""

OF_TRIALS: Final[tuple[str, ...]] = tuple(
    name for name, schema in SCHEMAS.items() if issubclass(schema, OfTrial)
)
"""Tables whose rows belong to trials; collectors write them."""


@cache
def schema(table: str) -> type[dy.Schema]:
    """Return a table's schema, with the columns that l4sbench's own catalog entries export."""
    base = SCHEMAS[table]
    if table not in EXPORTING:
        return base
    exports = (found for found in Catalog.load().exports.values() if found.table == table)
    own = {column.name: _exported(column) for found in exports for column in found.columns if column.kind}
    return cast("type[dy.Schema]", type(base.__name__, (base,), own)) if own else base


def _exported(column: Column) -> dy.Column:
    unit = next((unit for end, unit in COLUMN_ENDS.values() if column.name.endswith(f"_{end}")), "")
    if column.kind == "str":
        return text(column.doc, null=True)
    return count(column.doc, unit, null=True) if column.kind == "int" else real(column.doc, unit)
