# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Jitter, losses, ECN, the reverse rate and Wi-Fi of a path, as trials see them."""

from pathlib import Path

import polars as pl
import pytest

from l4sbench.testbeds.virtual.lab import Lab
from reports.result.load import RunTables
from tests.lab.wires import sysctl, tables

pytestmark = pytest.mark.lab

CAPTURED = "capture: headers\npath.noise: 0\nclassic.ecn: classic\n"


def packets(found: RunTables, group: str) -> pl.DataFrame:
    return found.scan("packets").filter(pl.col("group") == group).collect()


@pytest.mark.parametrize(
    ("field", "l4s", "classic"),
    [("pass", "ect1", "ect0"), ("bleach", "not-ect", "not-ect"), ("ect0", "ect0", "ect0")],
)
def test_the_queue_sees_what_the_path_leaves_of_ecn(
    lab: Lab, tmp_path: Path, field: str, l4s: str, classic: str
) -> None:
    found = tables(tmp_path, f"{CAPTURED}path.ecn: {field}\n", aqm="dualpi2")
    for group, wanted in (("l4s", l4s), ("classic", classic)):
        own = packets(found, group)
        # SYNs and retransmissions of classic ECN are Not-ECT in any case
        sent = own.filter(~pl.col("retransmit"))["ecn"].value_counts(sort=True)["ecn"]
        assert sent[0] == wanted
        marks = int(found.flows.filter(pl.col("group") == group)["delivered_ce_packets"].sum())
        assert (marks == 0) == (field == "bleach"), group
    assert (field == "pass") == (not found.hosts["name"].str.ends_with("rewritten").any())


def test_lost_packets_are_sent_again_and_no_more(lab: Lab, tmp_path: Path) -> None:
    found = tables(tmp_path, f"{CAPTURED}path.loss: 2%\nexpect.bottleneck: false\n")
    (lost,) = sysctl(found, "delay", "net-mid.lost")
    arrived = found.scan("packets").collect().height
    assert lost / (lost + arrived) == pytest.approx(0.02, rel=0.35)
    assert lost == pytest.approx(found.flows["retransmits_packets"].sum(), rel=0.2)
    assert sysctl(found, "delay", "net-mid.drops") == [0]


def test_nothing_arrives_in_an_outage(lab: Lab, tmp_path: Path) -> None:
    events = "events: {off: {at: 4s, path.loss: 100%}, on: {at: 5s, path.loss: 0%}}\n"
    found = tables(tmp_path, CAPTURED + events)
    arrived = found.scan("packets").collect()["t_ms"]
    assert arrived.is_between(4011, 5009).sum() == 0
    assert arrived.is_between(3000, 4000).sum() > 1000
    assert arrived.is_between(7000, 8000).sum() > 1000


def test_a_field_bleached_for_a_while(lab: Lab, tmp_path: Path) -> None:
    events = "events: {off: {at: 4s, path.ecn: bleach}, on: {at: 6s, path.ecn: pass}}\n"
    own = packets(tables(tmp_path, CAPTURED + events), "l4s").filter(~pl.col("retransmit"))
    during = pl.col("t_ms").is_between(4011, 6009)
    assert set(own.filter(during)["ecn"]) == {"not-ect"}
    assert set(own.filter(~pl.col("t_ms").is_between(3990, 6030))["ecn"]) == {"ect1"}


def test_packets_with_ect_are_marked_as_often_as_asked_for(lab: Lab, tmp_path: Path) -> None:
    """Prague gets CE, CUBIC without ECN does not, and no queue marks."""
    found = tables(
        tmp_path, "capture: headers\nclassic.ecn: 'off'\npath.mark: 5%\nexpect.bottleneck: false\n"
    )
    own = packets(found, "l4s")
    marks = int((own["ecn"] == "ce").sum())
    assert marks / own.height == pytest.approx(0.05, abs=4 * (0.05 * 0.95 / own.height) ** 0.5)
    assert sysctl(found, "delay", "net-mid.marked") == [marks]
    assert set(packets(found, "classic")["ecn"]) == {"not-ect"}
    reported = found.flows.filter(pl.col("group") == "l4s")["delivered_ce_packets"].item()
    assert reported == pytest.approx(marks, abs=5)  # under way at the end


def test_of_so_many_acks_the_last_one_passes(lab: Lab, tmp_path: Path) -> None:
    found = tables(tmp_path, "axes: {path.ack_thinning: [1, 8]}\n")
    thinning = found.trials.select("cell", "path.ack_thinning")
    own = found.sockets.filter((pl.col("side") == "sender") & (pl.col("group") == "l4s"))
    counts = own.group_by("cell").agg(pl.col("segments_in_packets", "delivered_packets").max())
    per_data = counts.join(thinning, on="cell").select(
        "path.ack_thinning", pl.col("segments_in_packets") / pl.col("delivered_packets")
    )
    every, some = (ratio for _, ratio in per_data.sort("path.ack_thinning").iter_rows())
    assert 0.4 < every < 1.1  # an ACK for two packets, or more at the start
    assert every / 8 <= some < every / 4  # those with SACK pass
    assert max(sysctl(found, "delay", "net-tx.thinned")) > 500
    sums = found.flows.group_by("cell").agg(pl.col("goodput_mbps").sum())
    assert min(sums["goodput_mbps"].to_list()) > 15


def test_a_flow_begins_with_its_initial_window(lab: Lab, tmp_path: Path) -> None:
    """Until the first ACK comes after the round-trip time, no more packets than the window arrive."""
    more = "capture: headers\npath.noise: 0\naxes: {l4s.initial_window: [3p, 20p]}\n"
    found = tables(tmp_path, more)
    windows = found.trials.select("cell", "l4s.initial_window_packets")
    own = packets(found, "l4s").join(windows, on="cell")
    first = own.group_by("l4s.initial_window_packets").agg(
        (pl.col("t_ms") < pl.col("t_ms").min() + 19).sum().alias("packets")
    )
    assert dict(first.iter_rows()) == {3: 3, 20: 20}


def test_a_slow_way_back_holds_acks_up(lab: Lab, tmp_path: Path) -> None:
    """ACKs of 20 Mbit/s need some 450 kbit/s; at 100 kbit/s they queue, and data wait for them."""
    found = tables(tmp_path, "axes: {path.reverse_rate: [100mbit, 100kbit]}\nexpect.bottleneck: false\n")
    rates = found.trials.select("cell", "path.reverse_rate_mbps")
    flows = (
        found.flows.join(rates, on="cell")
        .group_by("path.reverse_rate_mbps")
        .agg(pl.col("goodput_mbps").sum(), pl.col("srtt_p50_ms").max())
    )
    slow, fast = flows.sort("path.reverse_rate_mbps").iter_rows(named=True)
    assert fast["goodput_mbps"] > 18
    assert fast["srtt_p50_ms"] < 60
    assert slow["goodput_mbps"] < 10
    assert slow["srtt_p50_ms"] > 200


def test_a_walk_moves_the_round_trip_time_and_nobody_overtakes(lab: Lab, tmp_path: Path) -> None:
    more = "sample.interval: 10ms\naxes: {path.jitter: [0s, 8ms]}\npath.jitter_every: 20ms\n"
    found = tables(tmp_path, CAPTURED + more, aqm="dualpi2")
    cells = found.trials.select("cell", "path.jitter_ms")
    rtts = found.sockets.filter((pl.col("side") == "sender") & (pl.col("group") == "l4s"))
    ranges = (
        rtts.filter(pl.col("t_ms") > 2000)
        .join(cells, on="cell")
        .group_by("path.jitter_ms")
        .agg(pl.col("srtt_ms").quantile(0.05).alias("low"), pl.col("srtt_ms").quantile(0.95).alias("high"))
    )
    still, walking = ranges.sort("path.jitter_ms").iter_rows(named=True)
    assert walking["high"] - walking["low"] > 4 + still["high"] - still["low"]
    # what is sent again was lost at the queue, not overtaken
    assert found.packet_flows["lost_packets"].sum() == pytest.approx(
        found.flows["retransmits_packets"].sum(), abs=4
    )


def test_overtaken_packets_look_lost_to_tcp(lab: Lab, tmp_path: Path) -> None:
    """With a delay drawn for each packet many overtake, and the sender repairs what was not lost."""
    jitter = "path.jitter: 5ms\npath.jitter_model: uniform\n"
    more = f"capture: headers\npath.noise: 0\n{jitter}axes: {{path.jitter_order: [keep, free]}}\n"
    found = tables(tmp_path, more)
    cells = found.trials.select("cell", "path.jitter_order")
    by_tcp = found.flows.select("cell", "flow", by_tcp="retransmits_packets")
    flows = (
        found.packet_flows.join(cells, on="cell")
        .join(by_tcp, on=["cell", "flow"])
        .group_by("path.jitter_order")
        .agg(pl.col("retransmits_packets", "lost_packets", "by_tcp").sum())
    )
    keep, free = (
        flows.row(by_predicate=pl.col("path.jitter_order") == order, named=True) for order in ("keep", "free")
    )
    assert keep["retransmits_packets"] == pytest.approx(keep["lost_packets"], abs=4)
    assert free["retransmits_packets"] == pytest.approx(free["by_tcp"], abs=4)
    assert free["retransmits_packets"] > 1.5 * free["lost_packets"]


def test_everything_comes_from_the_seed(lab: Lab, tmp_path: Path) -> None:
    more = (
        "path.jitter: 3ms\npath.loss: 1%\npath.loss_burst: 2p\npath.ecn: ect0\npath.reverse_rate: 1mbit\n"
        "expect.bottleneck: false\naxes:\n  path.jitter_model: [walk, uniform, normal]\n"
        "events: {step: {at: 3s, rate: 10mbit, rtt: 30ms, path.loss: 2%}}\n"
    )
    first = tables(tmp_path, more, "first", jobs=1)
    second = tables(tmp_path, more, "second", jobs=3)
    for name in ("flows", "intervals", "sockets", "queues", "hosts", "events"):
        assert getattr(first, name).equals(getattr(second, name)), name


def test_what_receivers_send_has_jitter_where_asked_for(lab: Lab, tmp_path: Path) -> None:
    """Each way of 10 ms is up to 5 ms shorter."""
    jitter = "path.jitter: 5ms\npath.jitter_model: uniform\npath.jitter_order: free\n"
    more = f"{jitter}axes: {{path.jitter_direction: [data, both]}}\nexpect.bottleneck: false\n"
    found = tables(tmp_path, more)
    directions = found.trials.select("cell", "path.jitter_direction")
    own = found.sockets.filter(pl.col("side") == "sender").join(directions, on="cell")
    least = dict(own.group_by("path.jitter_direction").agg(pl.col("min_rtt_ms").min()).iter_rows())
    assert 10 <= least["both"] < 15 <= least["data"] < 20


WIFI = "buffer_bdp: 4\nevents: {step: {at: 5s, path.wifi_mcs: 4}}\n"


def goodput_mbps(found: RunTables, first_ms: int, last_ms: int) -> float:
    """Return the goodput of all flows in this time, of the intervals within it."""
    own = found.intervals.filter(pl.col("t_ms").is_between(first_ms + 1000, last_ms))
    return float(own.group_by("t_ms").agg(pl.col("goodput_mbps").sum())["goodput_mbps"].mean())  # type: ignore[arg-type]


@pytest.mark.parametrize(("mcs", "mbps"), [(2, 17.8), (4, 36.2), (7, 58), (9, 75)])
def test_wifi_carries_what_flows_got_by_it(lab: Lab, tmp_path: Path, mcs: int, mbps: float) -> None:
    """The rate gives the buffer only; MCS 2 is 19/39 of MCS 4."""
    found = tables(tmp_path, f"{CAPTURED}path.wifi_mcs: {mcs}\nbuffer_bdp: 4\n")
    assert goodput_mbps(found, 3000, 9000) == pytest.approx(mbps, rel=0.05)
    accesses, again = (sysctl(found, "router", f"net-rx.air_{name}")[0] for name in ("accesses", "again"))
    sent = found.scan("packets").collect().height
    assert sent / accesses > 3
    assert again == 0
    assert found.trials["flags"].to_list() == [None]


def test_wifi_gets_slower_and_the_queue_keeps_its_packets(lab: Lab, tmp_path: Path) -> None:
    found = tables(tmp_path, f"{WIFI}path.wifi_mcs: 9\nsample.interval: 10ms\n")
    assert goodput_mbps(found, 2000, 4500) == pytest.approx(75, rel=0.05)
    assert goodput_mbps(found, 6000, 9000) == pytest.approx(36.2, rel=0.05)
    queue = found.queues.sort("t_ms")
    before = queue.filter(pl.col("t_ms") <= 5000)[-1]
    after = queue.filter(pl.col("t_ms") > 5010)[0]
    # an access takes 21 packets, and 12 arrive in 2 ms
    assert abs(after["backlog_packets"].item() - before["backlog_packets"].item()) <= 50
    assert after["sent_packets"].item() > before["sent_packets"].item() > 1000
    (event,) = found.events.iter_rows(named=True)
    assert (event["factor"], event["value"]) == ("path.wifi_mcs", "4")
    assert event["t_ms"] == pytest.approx(5000, abs=1)


def test_wifi_losses_cost_air_and_tcp_sees_none(lab: Lab, tmp_path: Path) -> None:
    more = "path.wifi_mcs: 7\nbuffer_bdp: 4\naxes: {path.wifi_loss: [0%, 10%]}\n"
    found = tables(tmp_path, CAPTURED + more)
    shares = found.trials.select("cell", "path.wifi_loss_percent")
    sums = (
        found.packet_flows.join(found.flows.select("cell", "flow", "goodput_mbps"), on=["cell", "flow"])
        .join(shares, on="cell")
        .group_by("path.wifi_loss_percent")
        .agg(pl.col("retransmits_packets", "lost_packets", "goodput_mbps").sum())
        .sort("path.wifi_loss_percent")
    )
    clean, lossy = sums.iter_rows(named=True)
    assert lossy["goodput_mbps"] == pytest.approx(0.9 * clean["goodput_mbps"], rel=0.04)
    # what TCP sends again is what the queue dropped, with a probe now and then
    assert lossy["retransmits_packets"] == pytest.approx(lossy["lost_packets"], rel=0.2, abs=10)
    assert max(sysctl(found, "router", "net-rx.air_again")) > 20 * lossy["retransmits_packets"]


def test_wifi_comes_from_the_seed_and_waits_while_the_router_pauses(lab: Lab, tmp_path: Path) -> None:
    more = f"{WIFI}path.wifi_mcs: 7\npath.wifi_loss: 5%\npath.pause: 3ms\npath.pause_at: router\n"
    first = tables(tmp_path, more, "first", jobs=1)
    second = tables(tmp_path, more, "second", jobs=3)
    for name in ("flows", "intervals", "sockets", "queues", "hosts", "events"):
        assert getattr(first, name).equals(getattr(second, name)), name
    assert goodput_mbps(first, 2000, 4500) > 45
