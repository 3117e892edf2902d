# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""lab-sampler shows what `ss` and `tc` show at the same instant.

A fork takes no virtual time, so tools that are started at the instant of a sample see what it saw; and a slow
link makes it unlikely that a packet moves in the microseconds between them.
"""

import math
from pathlib import Path
from typing import Any

import pytest

from collectors.ss import parse_ss
from l4sbench.catalog import Catalog
from l4sbench.testbeds.virtual.lab import GUEST_MODULES, Lab
from l4sbench.testbeds.virtual.script import layout
from tests.lab.guests import Outcome, Script, boot

pytestmark = pytest.mark.lab

MS = 1_000_000
INTERVAL_MS = 100
TOOLS_AT_MS = (1_000, 2_500, 4_000)
SECONDS = 5

QUEUES = {
    "bfifo": "bfifo limit 30000",
    "codel": "codel limit 100 target 20ms ecn ce_threshold 10ms",
    "fq_codel": "fq_codel limit 100 target 20ms ecn ce_threshold 10ms",
    "fq": "fq limit 100 flow_limit 100 ce_threshold 10ms",
    "pie": "pie limit 100 target 20ms ecn",
    "red": "red limit 60000 min 6000 max 18000 avpkt 1500 burst 6 probability 0.1 bandwidth 2mbit ecn",
    "dualpi2": "dualpi2",
}
RENAMED = {"backlog": "backlog_bytes"}
NOT_SAMPLED = {"kind", "handle", "parent", "root", "options", "refcnt"}
LEFT_OUT = {"band0_pkts", "band1_pkts", "band2_pkts", "band1_drops"}
"""fq's bands, after the counters that its layout has."""
LAYOUTS = [
    word
    for exports in Catalog.load().exports.values()
    if exports.table == "queues"
    for word in ("--layout", layout(exports))
]
AMBIGUOUS = {"throttled"}
"""tc prints fq's throttled flows and how often flows were throttled under one name; ours are the flows."""
AGES = {"delay-c": 20, "delay-l": 20, "next_packet_delay": 20_000}
"""Times that pass while tc reads them, in the units of tc: microseconds, the last in nanoseconds."""
WINDOW_SCALING = 4
"""TCPI_OPT_WSCALE, which ss prints as words."""
ROUNDED = {"rtt", "rttvar", "pacing_rate", "delivery_rate", "busy_time", "prob"}
"""Values that the tools print with fewer digits than the kernel gives."""


def sampled(
    lab: Lab,
    folder: Path,
    queue: str,
    *,
    ecn: int = 1,
    cc: str = "cubic",
    module: str | None = None,
    offset_us: int = 0,
) -> Outcome:
    script = Script()
    if module:
        script.line("module", GUEST_MODULES / f"{module}.ko", "prague_ecn_fallback=detect")
    script.pair(queue=queue, ecn=ecn)
    common = ("--port", 5001, "--seconds", SECONDS)
    script.line("daemon", "rx", "receiver.json", "-", "lab-traffic", "receive", *common)
    script.line("start", 100)
    script.line(
        *("at", "-", 0, "-", "-", "lab-sampler", "--interval-ms", INTERVAL_MS, "--seconds", SECONDS),
        *("--offset-us", offset_us),
        *("--sockets-of", "tx,rx", "--out-sockets", "/trial/sockets.jsonl"),
        *("--queues", "mid:right", "--out-queues", "/trial/queues.jsonl", *LAYOUTS),
    )
    script.line("at", "tx", 0, "-", "-", "lab-traffic", "send", "--to", "10.0.0.2", *common, "--cc", cc)
    for ms in TOOLS_AT_MS:
        script.line("at", "mid", ms * MS, f"tc-{ms}", "-", "tc", "-s", "-j", "qdisc", "show", "dev", "right")
        for node in ("tx", "rx"):
            script.line("at", node, ms * MS, f"ss-{node}-{ms}", "-", "ss", "-tinemHO")
            if module:
                file = f"/proc/net/{module}"
                script.line("at", node, ms * MS, f"{module}-{node}-{ms}", "-", "busybox", "cat", file)
    script.line("wait", 20_000 * MS)
    outcome = boot(lab, script, folder)
    assert outcome.end["ok"], outcome.end
    return outcome


def agree(name: str, ours: Any, theirs: Any) -> bool:
    if name in ROUNDED:
        return math.isclose(ours, theirs, rel_tol=1e-3, abs_tol=1e-6)
    if name in AGES:
        return bool(abs(ours - theirs) <= AGES[name])
    if name == "options":
        return bool(ours | WINDOW_SCALING == theirs | WINDOW_SCALING)
    return bool(ours == theirs)


@pytest.mark.parametrize("kind", QUEUES)
def test_queues_are_as_tc_shows_them(lab: Lab, tmp_path: Path, kind: str) -> None:
    outcome = sampled(lab, tmp_path / "trial", QUEUES[kind])
    samples = outcome.samples("queues.jsonl")
    for ms in TOOLS_AT_MS:
        shown = {queue["kind"]: queue for queue in outcome.json(f"tc-{ms}")}
        assert shown.keys() == {"htb", kind}
        for name, theirs in shown.items():
            (ours,) = [s for s in samples if s["t_ms"] == ms and s["kind"] == name]
            assert (ours["node"], ours["ifname"]) == ("mid", "right")
            assert ours["handle"] == theirs["handle"]
            assert ours["parent"] == theirs.get("parent", "root")
            numbers = {
                RENAMED.get(key, key): value for key, value in theirs.items() if key not in NOT_SAMPLED
            }
            assert numbers.keys() <= ours.keys() | LEFT_OUT
            for key in (numbers.keys() & ours.keys()) - AMBIGUOUS:
                assert agree(key, ours[key], numbers[key]), (ms, name, key, ours[key], numbers[key])
    last = [s for s in samples if s["kind"] == kind][-1]
    assert last["t_ms"] == SECONDS * 1000
    assert last["packets"] > 500


@pytest.mark.parametrize(("cc", "ecn"), [("cubic", 0), ("reno", 1), ("bbr", 0), ("dctcp", 3)])
def test_sockets_are_as_ss_shows_them(lab: Lab, tmp_path: Path, cc: str, ecn: int) -> None:
    outcome = sampled(lab, tmp_path / "trial", QUEUES["codel"], cc=cc, ecn=ecn)
    samples = outcome.samples("sockets.jsonl")
    compared: set[str] = set()
    for ms in TOOLS_AT_MS:
        for node in ("tx", "rx"):
            (ours,) = [s for s in samples if s["t_ms"] == ms and s["node"] == node]
            text = (outcome.folder / f"ss-{node}-{ms}").read_text()
            (theirs,) = parse_ss(f"@ {ms}\n{text}")
            for key in theirs.keys() & ours.keys():
                assert agree(key, ours[key], theirs[key]), (ms, node, key, ours[key], theirs[key])
                compared.add(key)
        sender = next(s for s in samples if s["t_ms"] == ms and s["node"] == "tx")
        assert sender["cc"] == cc
        assert ("alpha" in sender) == (cc == "dctcp")
        assert ("bbr_bw" in sender) == (cc == "bbr")
    assert compared >= {"snd_cwnd", "rtt", "bytes_acked", "rcv_wnd", "delivered", "options", "state", "cc"}


def test_sockets_of_prague_are_as_its_file_shows_them(lab: Lab, tmp_path: Path) -> None:
    outcome = sampled(lab, tmp_path / "trial", "dualpi2", cc="prague", ecn=3, module="tcp_prague")
    samples = outcome.samples("sockets.jsonl")
    for ms in TOOLS_AT_MS:
        (ours,) = [s for s in samples if s["t_ms"] == ms and s["node"] == "tx"]
        names, values = (outcome.folder / f"tcp_prague-tx-{ms}").read_text().splitlines()
        theirs = dict(zip(names.split(), values.split(), strict=True))
        assert theirs["local"] == f"10.0.0.1:{ours['lport']}"
        assert theirs["remote"] == f"10.0.0.2:{ours['rport']}"
        for key in ("segsize", "mode"):
            assert ours[f"prague_{key}"] == theirs[key]
        for key in theirs.keys() - {"local", "remote", "segsize", "mode"}:
            assert ours[f"prague_{key}"] == float(theirs[key]), (ms, key)
        assert math.floor(ours["prague_alpha"] * 1024) == pytest.approx(ours["alpha"], abs=1)
        assert ours["prague_mss"] == ours["snd_mss"]
        assert ours["prague_rtt_us"] == pytest.approx(ours["rtt"], rel=0.3)


def test_sockets_with_given_ports_are_left_out(lab: Lab, tmp_path: Path) -> None:
    ports = (5001, 5002, 5003, 5004)
    without = (5004, 1, 5002)
    script = Script()
    script.pair()
    for port in ports:
        common = ("--port", port, "--seconds", 1)
        script.line("daemon", "rx", f"receiver-{port}.json", "-", "lab-traffic", "receive", *common)
    script.line("start", 100)
    script.line(
        *("at", "-", 0, "-", "-", "lab-sampler", "--interval-ms", INTERVAL_MS, "--seconds", 1),
        *("--without-ports", ",".join(map(str, without))),
        *("--sockets-of", "tx,rx", "--out-sockets", "/trial/sockets.jsonl"),
    )
    for port in ports:
        common = ("--port", port, "--seconds", 1)
        send = ("lab-traffic", "send", "--to", "10.0.0.2", *common, "--cc", "cubic")
        script.line("at", "tx", 0, "-", "-", *send)
    script.line("at", "tx", 500 * MS, "ss", "-", "ss", "-tinHO")
    script.line("wait", 20_000 * MS)
    outcome = boot(lab, script, tmp_path / "trial")
    assert outcome.end["ok"], outcome.end
    assert len((outcome.folder / "ss").read_text().splitlines()) == len(ports)
    seen = {
        (s["node"], s["rport" if s["node"] == "tx" else "lport"]) for s in outcome.samples("sockets.jsonl")
    }
    assert seen == {(node, port) for node in ("tx", "rx") for port in set(ports) - set(without)}


@pytest.mark.parametrize("ports", ["5001,", "0", "70000", "http"])
def test_ports_that_are_none_are_refused(lab: Lab, tmp_path: Path, ports: str) -> None:
    script = Script()
    common = ("--interval-ms", INTERVAL_MS, "--seconds", 1, "--t0", 0)
    script.run("-", "lab-sampler", *common, "--without-ports", ports)
    outcome = boot(lab, script, tmp_path / "trial")
    assert "--without-ports takes ports, not" in str(outcome.end)


def test_samples_are_at_multiples_of_the_interval_and_at_the_end(lab: Lab, tmp_path: Path) -> None:
    outcome = sampled(lab, tmp_path / "trial", "bfifo limit 30000")
    ticks = list(range(0, SECONDS * 1000 + 1, INTERVAL_MS))
    assert [s["t_ms"] for s in outcome.samples("queues.jsonl") if s["kind"] == "bfifo"] == ticks
    assert {s["t_ms"] for s in outcome.samples("sockets.jsonl")} >= set(ticks[1:])


def test_samples_begin_at_the_offset_and_state_their_time(lab: Lab, tmp_path: Path) -> None:
    outcome = sampled(lab, tmp_path / "trial", "bfifo limit 30000", offset_us=33_417)
    ticks = [round(ms + 33.417, 3) for ms in range(0, SECONDS * 1000, INTERVAL_MS)] + [SECONDS * 1000]
    assert [s["t_ms"] for s in outcome.samples("queues.jsonl") if s["kind"] == "bfifo"] == ticks
    sender = [s for s in outcome.samples("sockets.jsonl") if s["node"] == "tx"]
    by_time = {s["t_ms"]: s["busy_time"] for s in sender}
    spent_us = by_time[4033.417] - by_time[1033.417]
    assert spent_us == pytest.approx(3_000_000, abs=2_000)


def test_offset_of_an_interval_is_refused(lab: Lab, tmp_path: Path) -> None:
    script = Script()
    common = ("--interval-ms", INTERVAL_MS, "--seconds", 1, "--t0", 0)
    script.run("-", "lab-sampler", *common, "--offset-us", INTERVAL_MS * 1000)
    outcome = boot(lab, script, tmp_path / "trial")
    assert "the offset is not within the interval of 100 ms" in str(outcome.end)
