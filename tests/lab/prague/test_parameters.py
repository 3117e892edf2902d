# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""TCP Prague's parameters: each network namespace has its own, a new one starts with the module's."""

from pathlib import Path

import polars as pl
import pytest

from l4sbench.app import api
from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.guests import Script, boot
from tests.lab.prague.experiment import MODULE

pytestmark = pytest.mark.lab

SYSCTLS = "/proc/sys/net/ipv4"
PARAMETERS = "/sys/module/tcp_prague/parameters"

MATRIX = """\
matrix: own
rule: none
topology: line6
rate: 1mbit
rtt: 20ms
duration: 12s
trials: 1
aqm: fifo
buffer_bdp: 8
flows:
  a: {cc: prague, segsize: log}
  b: {cc: prague, segsize: rtt}
"""


def test_two_groups_with_different_parameters_run_in_one_trial(lab: Lab, tmp_path: Path) -> None:
    matrix = tmp_path / "own.yaml"
    matrix.write_text(MATRIX, encoding="utf-8")
    ended = api.run(matrix, runs=tmp_path / "runs")
    assert ended.result.ok == 1
    run = api.load(ended)
    # a's segments follow its rate, mostly below 1 Mbit/s; b's stay full-sized, as nothing marks
    senders = run.sockets.filter(pl.col("side") == "sender", pl.col("t_ms") > 3000)
    sizes = {group: senders.filter(group=group)["prague_packet_bytes"].drop_nulls() for group in ("a", "b")}
    assert sizes["b"].unique().to_list() == [1500]
    assert sizes["a"].n_unique() > 3
    assert sizes["a"].min() < 1200  # type: ignore[operator]
    shown = run.hosts.filter(kind="sysctl", name="net.ipv4.prague_segsize")
    assert dict(shown.select("node", "value").rows()) == {"tx-l4s": "log", "tx-classic": "rtt"}


def sh(command: str) -> tuple[str, str, str, str]:
    return ("busybox", "sh", "-c", command)


def test_namespaces_have_parameters_of_their_own(lab: Lab, tmp_path: Path) -> None:
    script = Script()
    show = "cat prague_segsize prague_version prague_rtt_transition prague_ecn_fallback"
    for node in ("early", "late"):
        if node == "late":
            script.run("-", *sh(f"echo exp > {PARAMETERS}/prague_segsize"))
        script.line("netns", node)
        if node == "early":
            script.line("module", MODULE, "prague_segsize=fixed prague_ecn_fallback=2")
    script.line("netns", "studies")
    script.line("sysctl", "studies", "net/ipv4/prague_version", "l4steam-2024")
    script.line("netns", "set")
    script.line("sysctl", "set", "net/ipv4/prague_segsize", "log")
    script.line("sysctl", "set", "net/ipv4/prague_version", "v0.6")
    refused = "for v in -1 3 x; do echo $v > prague_cwnd_mode && exit 1; done; ! echo none > prague_segsize"
    script.run("set", *sh(f"cd {SYSCTLS}; {refused}"))
    for node in ("-", "early", "late", "set", "studies"):
        script.run(node, *sh(f"cd {SYSCTLS}; {show}"), out=f"seen{node}")
    script.run("-", *sh(f"cd {PARAMETERS}; {show}"), out="module")
    script.run("-", "rmmod", "tcp_prague")
    script.run("-", *sh(f"! ls {SYSCTLS} | grep prague"))
    outcome = boot(lab, script, tmp_path / "trial")
    assert outcome.end["ok"], outcome.end

    def seen(name: str) -> list[str]:
        return (outcome.folder / name).read_text().split()

    assert seen("module") == seen("seen-") == ["exp", "v0.7", "4", "detect"]
    assert seen("seenearly") == ["fixed", "v0.7", "4", "detect"]
    assert seen("seenlate") == ["exp", "v0.7", "4", "detect"]
    assert seen("seenset") == ["log", "v0.6", "500", "detect"]
    assert seen("seenstudies") == ["exp", "l4steam-2024", "4", "detect"]
