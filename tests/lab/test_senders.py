# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Senders in the lab: QUIC stacks and media fill a link, react and repeat; folders of one's own that fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from l4sbench.app import api
from l4sbench.catalog import Catalog
from l4sbench.engine import worker
from l4sbench.errors import TestbedError
from l4sbench.testbeds import senders
from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.udp import EXAMPLE
from tests.stacks import own_sender

pytestmark = pytest.mark.lab

HEAD = """\
matrix: m
rtt: 20ms
trials: 1
capture: headers
"""
BULK = "rate: 10mbit\nduration: 6s\n"
MEDIA = "rule: none\naqm: fifo\nrate: 1mbit\nduration: 25s\n"


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def needs(name: str) -> None:
    """Skip a test whose sender can be neither found in the cache nor built."""
    sender = Catalog.load().sender(name)
    if not sender.program.is_built:
        try:
            senders.require_toolchain(sender)
        except TestbedError as error:
            pytest.skip(str(error))


def run(folder: Path, text: str, **options: Any) -> api.EndedRun:
    matrix = folder / "m.yaml"
    matrix.write_text(HEAD + text)
    return api.run(matrix, runs=folder / "runs", **options)


@pytest.mark.long
def test_quic_go_is_judged_beside_cubic_and_repeats(lab: Lab, tmp_path: Path) -> None:
    needs("quic-go")
    flows = f"{BULK}baselines: solo\naqm: codel\nflows:\n"
    flows += "  l4s: {send: quic-go}\n  classic: {cc: cubic, ecn: classic}\n"
    ended = run(tmp_path, flows)
    tables = api.load(ended)
    assert tables.trials["status"].to_list() == ["ok"] * 3, tables.trials["reasons"].to_list()
    assert ended.decision is not None
    (cell,) = ended.decision.cells
    assert cell.question.head == "quic-go Reno"
    assert cell.result.classic.harm is not None
    without = tables.trials.filter(pl.col("classic.cc").is_null()).select("cell")
    alone = tables.flows.join(without, on="cell", how="semi")["goodput_mbps"].item()
    assert 8 < alone < 10
    marks = tables.flows.filter(group="l4s")["delivered_ce_packets"].to_list()
    assert all(packets > 5 for packets in marks)
    packets = tables.packet_flows.filter(group="l4s")
    assert (packets["lost_packets"] < 0.02 * packets["data_packets"]).all()  # those of its start
    log = tables.qlog.join(without, on="cell", how="anti").group_by("cell").agg(pl.all().last())
    marked = tables.flows.join(log, on="cell").filter(group="l4s")
    assert (
        (marked["delivered_ce_packets"] - marked["ce_packets"]).is_between(0, 5).all()
    )  # the last are under way
    again = run(tmp_path, flows, new=True)
    assert captures(again) == captures(ended)
    assert reports(again) == reports(ended)


@pytest.mark.long
@pytest.mark.parametrize(
    ("send", "cc", "losses"),
    [
        ("quinn", "cubic", 0.02),
        ("quinn", "newreno", 0.02),
        ("quinn", "bbr", 0.5),
        ("s2n-quic", "cubic", 0.05),
        ("s2n-quic", "bbr", 0.05),
        ("quiche", "cubic", 0.05),
        ("quiche", "reno", 0.05),
        ("quiche", "bbr", 0.05),
    ],
)
def test_a_stack_fills_a_link_and_repeats(
    lab: Lab, tmp_path: Path, send: str, cc: str, losses: float
) -> None:
    needs(send)
    flows = f"{BULK}rule: none\naqm: fifo\nflows:\n  l4s: {{send: {send}, cc: {cc}}}\n"
    ended = run(tmp_path, flows)
    tables = api.load(ended)
    assert tables.trials["status"].to_list() == ["ok"], tables.trials["reasons"].to_list()
    assert 8 < tables.flows["goodput_mbps"].item() < 10
    packets = tables.packet_flows.row(0, named=True)
    assert packets["lost_packets"] < losses * packets["data_packets"]
    assert tables.qlog["srtt_ms"].min() > 10  # type: ignore[operator]
    assert tables.qlog["lost_packets"].max() == pytest.approx(packets["lost_packets"], rel=0.1, abs=10)
    assert captures(run(tmp_path, flows, new=True)) == captures(ended)


def test_pion_follows_a_link_by_its_frames_and_repeats(lab: Lab, tmp_path: Path) -> None:
    needs("pion")
    text = MEDIA + "flows:\n  l4s: {send: pion}\n"
    ended = run(tmp_path, text)
    tables = api.load(ended)
    assert tables.trials["status"].to_list() == ["ok"], tables.trials["reasons"].to_list()
    assert 0.5 < tables.flows["goodput_mbps"].item() < 1
    frames = {key: value for side, key, value in tables.exec.select("side", "key", "value").iter_rows()}
    assert 700 < frames["frames.whole"] <= 750
    assert 10 < frames["frames.delay_ms.p50"] < frames["frames.delay_ms.p95"] < 500
    assert frames["frames.bytes"] > 1e6
    again = run(tmp_path, text, new=True)
    assert captures(again) == captures(ended)
    assert reports(again) == reports(ended)


@pytest.mark.long
@pytest.mark.parametrize("cc", ["prague", "prague-rate"])
def test_prague_over_udp_shares_with_prague_and_repeats(lab: Lab, tmp_path: Path, cc: str) -> None:
    needs("udp-prague")
    text = "rule: none\naqm: dualpi2\nrate: 20mbit\nduration: 12s\nwarmup: 3s\n"
    text += f"flows:\n  l4s: {{send: udp-prague, cc: {cc}}}\n  other: {{cc: prague}}\n"
    ended = run(tmp_path, text)
    tables = api.load(ended)
    assert tables.trials["status"].to_list() == ["ok"], tables.trials["reasons"].to_list()
    goodputs = dict(tables.flows.select("group", "goodput_mbps").iter_rows())
    assert 0.5 < goodputs["l4s"] / goodputs["other"] < 2  # RFC 9331 section 4.3 has no figure
    assert sum(goodputs.values()) > 17
    reported = dict(tables.exec.filter(side="sender").select("key", "value").iter_rows())
    assert reported["ce_packets"] > 1000
    assert reported["lost_packets"] < 0.005 * reported["packets_sent"]  # those of its start
    assert captures(run(tmp_path, text, new=True)) == captures(ended)


@pytest.mark.long
def test_prague_over_quic_shares_with_prague_and_repeats(lab: Lab, tmp_path: Path) -> None:
    needs("s2n-quic")
    text = "rule: none\naqm: dualpi2\nrate: 20mbit\nduration: 12s\nwarmup: 3s\n"
    text += "flows:\n  l4s: {send: s2n-quic, cc: prague}\n  other: {cc: prague}\n"
    ended = run(tmp_path, text)
    tables = api.load(ended)
    assert tables.trials["status"].to_list() == ["ok"], tables.trials["reasons"].to_list()
    goodputs = dict(tables.flows.select("group", "goodput_mbps").iter_rows())
    assert 0.5 < goodputs["l4s"] / goodputs["other"] < 2  # RFC 9331 section 4.3 has no figure
    assert sum(goodputs.values()) > 17
    marked = dict(tables.flows.select("group", "delivered_ce_packets").iter_rows())
    assert marked["l4s"] > 500
    packets = tables.packet_flows.filter(group="l4s").row(0, named=True)
    assert packets["lost_packets"] < 0.005 * packets["data_packets"]
    assert captures(run(tmp_path, text, new=True)) == captures(ended)


@pytest.mark.long
def test_scream_reacts_to_marks_and_repeats(lab: Lab, tmp_path: Path) -> None:
    needs("scream")
    text = "rule: none\naqm: dualpi2\nrate: 10mbit\nduration: 15s\nexpect.bottleneck: false\n"
    text += "flows:\n  l4s: {send: scream}\n"
    ended = run(tmp_path, text)
    tables = api.load(ended)
    assert tables.trials["status"].to_list() == ["ok"], tables.trials["reasons"].to_list()
    assert 5 < tables.flows["goodput_mbps"].item() < 9.5
    reported = dict(tables.exec.select("key", "value").iter_rows())
    assert reported["packets_lost"] == reported["frames.lost"] == 0
    marked = tables.flows["delivered_ce_packets"].item()
    assert marked > 100
    assert 0 <= marked - reported["packets_marked"] < 40  # feedback on the last is under way
    assert reported["frames.delay_ms.p95"] < 50
    again = run(tmp_path, text, new=True)
    assert captures(again) == captures(ended)
    assert reports(again) == reports(ended)


@pytest.mark.long
def test_cubic_in_a_deep_queue_freezes_or_starves_video(lab: Lab, tmp_path: Path) -> None:
    """GCC's delay gradient cannot help here: the queue is CUBIC's."""
    needs("pion")
    flows = "buffer_bdp: 20\nflows:\n  l4s: {send: pion}\n  classic: {cc: cubic}\n"
    ended = run(tmp_path, MEDIA + flows, trials=3)
    assert ended.measured is not None
    groups = {group.name: group for cell in ended.measured.cells for group in cell.groups}
    assert not groups["classic"].verdicts
    (verdict,) = groups["l4s"].verdicts
    assert (verdict.judges, "late" in verdict.words) == ("frames", True)


def test_the_example_is_a_matrix_that_needs_one_command(lab: Lab, tmp_path: Path) -> None:
    example = EXAMPLE.with_suffix(".yaml")
    planned = api.plan_of(example, options=api.RunOptions(runs=tmp_path, trust=True))
    assert planned.plan.to_run == 12
    assert not planned.problems
    ended = api.run(example, "aqm=dualpi2", trials=1, runs=tmp_path / "runs", trust=True)
    assert ended.result.exit_code == 0
    assert ended.decision is not None
    assert ended.decision.cells[0].question.head == "udp-l4s scalable"


FAILING = """\
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *option(int n, char **words, const char *name)
{
    for (int i = 2; i + 1 < n; i += 2)
        if (!strcmp(words[i], name))
            return words[i + 1];
    exit(3);
}

static void leave(int n, char **words, const char *results)
{
    FILE *out = fopen(option(n, words, "--json"), "w");

    if (!out || fputs(results, out) < 0 || fclose(out))
        exit(4);
}

/* Send a packet of 1,000 bytes every 2 ms for a time: 4 Mbit/s. */
static void send_for(int n, char **words, double seconds)
{
    struct sockaddr_in to = { .sin_family = AF_INET };
    struct timespec wait = { .tv_nsec = 2000000 };
    int fd = socket(AF_INET, SOCK_DGRAM, 0), tos = 2;
    char payload[1000] = { 0 };

    inet_pton(AF_INET, option(n, words, "--address"), &to.sin_addr);
    to.sin_port = htons(atoi(option(n, words, "--port")));
    setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof(tos));
    connect(fd, (struct sockaddr *)&to, sizeof(to));
    for (int left = seconds * 500; left > 0; left--) {
        (void)!write(fd, payload, sizeof(payload));
        nanosleep(&wait, NULL);
    }
}

int main(int n, char **words)
{
    if (!strcmp(words[1], "receive")) {
        sigset_t ends;
        int which;

        sigemptyset(&ends);
        sigaddset(&ends, SIGTERM);
        sigprocmask(SIG_BLOCK, &ends, NULL);
        sigwait(&ends, &which);
        RECEIVED
        return 0;
    }
    double seconds = atof(option(n, words, "--seconds"));
    (void)seconds;
    SENT
}
"""
WHOLE = "send_for(n, words, seconds);"
GOOD = 'leave(n, words, "{}");'


def failing(folder: Path, sent: str, received: str = GOOD, **options: Any) -> api.EndedRun:
    """Run a sender of one's own with such bodies of its two commands."""
    own_sender(folder, {"mine.c": FAILING.replace("SENT", sent).replace("RECEIVED", received)})
    text = BULK + "rule: none\naqm: fifo\nexpect.bottleneck: false\nflows:\n  l4s: {send: ./mine}\n"
    return run(folder, text, trust=True, **options)


@pytest.mark.parametrize(
    ("sent", "status", "reason"),
    [
        ('fprintf(stderr, "no such thing"); return 127;', "failed", "ended with code 127: no such thing"),
        (f"{GOOD} return 0;", "invalid", "no packet"),
        (f"{WHOLE} {GOOD} pause();", "failed", "was still running at the time limit"),
        ("send_for(n, words, 1); raise(SIGSEGV);", "failed", "ended with code 139"),
    ],
)
def test_a_sender_that_fails(lab: Lab, tmp_path: Path, sent: str, status: str, reason: str) -> None:
    expect(failing(tmp_path, sent), status, reason)


@pytest.mark.long
@pytest.mark.parametrize(
    ("sent", "received", "status", "reason"),
    [
        (f"send_for(n, words, 2); {GOOD} return 0;", GOOD, "invalid", "its last packet came to the"),
        (f"{WHOLE} return 0;", GOOD, "invalid", "(flow-l4s-0.sender.json) is missing"),
        (f"{WHOLE} {GOOD} return 0;", "", "invalid", "(flow-l4s-0.receiver.json) is missing"),
        (f"{WHOLE} {GOOD} return 0;", "abort();", "invalid", "(flow-l4s-0.receiver.json) is missing"),
        (f'{WHOLE} leave(n, words, "[1, "); return 0;', GOOD, "invalid", "is not JSON at line 1, column 5"),
        (
            f'{WHOLE} {GOOD} truncate(option(n, words, "--json"), 65L << 20); return 0;',
            GOOD,
            "invalid",
            "(flow-l4s-0.sender.json) is larger than 64 MB",
        ),
    ],
)
def test_a_sender_that_does_half(
    lab: Lab, tmp_path: Path, sent: str, received: str, status: str, reason: str
) -> None:
    expect(failing(tmp_path, sent, received), status, reason)


def test_a_sender_that_lies_changes_no_measure(lab: Lab, tmp_path: Path) -> None:
    """It claims to have sent and got a terabit per second; its packets are counted."""
    claim = '{\\"goodput_mbps\\": 1e6, \\"bytes_received\\": 1e15, \\"rtt_ms\\": NaN}'
    lies = f'leave(n, words, "{claim}");'
    tables = api.load(failing(tmp_path, f"{WHOLE} {lies} return 0;", lies))
    assert tables.trials["status"].to_list() == ["ok"], tables.trials["reasons"].to_list()
    assert 3.5 < tables.flows["goodput_mbps"].item() < 4.1
    assert set(tables.exec["key"]) == {"goodput_mbps", "bytes_received"}  # as claims, in their own table


@pytest.mark.long
def test_a_sender_that_writes_without_end(lab: Lab, tmp_path: Path) -> None:
    """Its words and its results fill no disk of this machine's, and the last words are still shown."""
    flood = 'for (int i = 0; i < 2000000; i++) fputs("much ado about nothing\\n", stderr); return 5;'
    ended = failing(tmp_path, flood)
    expect(ended, "failed", "ended with code 5: ")
    assert len(api.load(ended).trials["reasons"].item()) < 5000


@pytest.mark.long
def test_a_sender_that_spins_is_ended(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In virtual time no time passes for it; the limit of wall time is a short one here."""
    monkeypatch.setattr(worker, "LEAST_LIMIT_S", 20.0)
    monkeypatch.setattr(worker, "LENGTH_FACTOR", 0.0)
    expect(failing(tmp_path, "for (volatile int i = 0;; i++);"), "failed", "s of wall time; killed")


def expect(ended: api.EndedRun, status: str, reason: str) -> None:
    """Check the one trial of a run: its status, a part of its reasons, and that it has no numbers."""
    tables = api.load(ended)
    assert tables.trials["status"].to_list() == [status], tables.trials["reasons"].to_list()
    assert reason in tables.trials["reasons"].item()
    assert tables.flows.is_empty()


def captures(ended: api.EndedRun) -> dict[str, bytes]:
    """Return the captures of a run's trials by cell."""
    return {path.parts[-5]: path.read_bytes() for path in ended.path.glob("cells/*/1-*/raw/router/*.pcap.gz")}


def reports(ended: api.EndedRun) -> dict[str, bytes]:
    """Return what senders reported in a run's trials, by cell and the files' names."""
    found = ended.path.glob("cells/*/1-*/raw/*/flow-*er.*[ng]")  # .json and .sqlog
    return {f"{path.parts[-5]} {path.name}": path.read_bytes() for path in found}
