# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""`l4sbench lab shell`: commands, pipes, and a terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time

import pytest

from l4sbench.testbeds.virtual.lab import Lab
from tests.patience import PATIENCE_S, ran

pytestmark = pytest.mark.lab

SHELL = [sys.executable, "-m", "l4sbench", "lab", "shell", "quickstart", "aqm=dualpi2"]


def run(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return ran([*SHELL, *(["--", *words] if words else [])], given=given)


def test_a_command_runs_on_a_node_and_its_output_is_all_there_is(lab: Lab) -> None:
    shown = run("router", "tc", "qdisc", "show", "dev", "net-rx")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert [line.split()[1] for line in shown.stdout.splitlines()] == ["htb", "dualpi2"]


def test_names_resolve_and_waiting_takes_no_time(lab: Lab) -> None:
    began = time.monotonic()
    shown = run("tx-classic", "ping", "-c", "600", "rx-l4s")  # ten minutes of virtual time
    assert shown.returncode == 0, shown.stderr
    assert "600 packets transmitted, 600 packets received" in shown.stdout
    assert "PING rx-l4s (10.0.5.100)" in shown.stdout
    assert time.monotonic() - began < 300


def test_tcpdump_sees_the_sample_flow(lab: Lab) -> None:
    flow = "rx-l4s iperf3 -s -1 -D; tx-l4s iperf3 -c rx-l4s -C prague -t 1 >/dev/null"
    shown = run(f"router timeout 60 tcpdump -n -c 5 -i net-rx tcp port 5201 & sleep 1; {flow}; wait")
    assert shown.returncode == 0, shown.stderr
    lines = [line for line in shown.stdout.splitlines() if "10.0.5.100.5201" in line]
    assert len(lines) == 5
    assert "5 packets captured" in shown.stderr


def test_piped_commands_run_and_their_exit_code_is_that_of_the_shell(lab: Lab) -> None:
    shown = run(given="on router cat /proc/sys/net/ipv4/ip_forward\necho 'it''s quoted' >&2\nexit 7\n")
    assert (shown.returncode, shown.stdout, shown.stderr) == (7, "1\n", "its quoted\n")


def test_names_of_nodes_are_programs_everywhere(lab: Lab) -> None:
    """Behind `timeout`, in another shell, and on another node."""
    shown = run(
        "sh", "-c", "timeout 60 rx-l4s ip -br addr show to 10.0.5.100; tx-l4s router true && echo done"
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.split()[2:] == ["10.0.5.100/24", "done"]


def test_words_reach_the_shell_quoted(lab: Lab) -> None:
    shown = run("echo", "$HOME; echo two", "a  b")
    assert (shown.returncode, shown.stdout) == (0, "$HOME; echo two a  b\n")


def test_a_terminal_gets_a_banner_and_a_shell_without_the_kernels_words(lab: Lab) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(SHELL, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown, deadline, typed = b"", time.monotonic() + PATIENCE_S, False
    while time.monotonic() < deadline and select.select([ours], [], [], 300)[0]:
        try:
            shown += os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not typed and b"lab:~# " in shown:  # what comes before the shell is lost
            os.write(ours, b"router cat /proc/sys/kernel/hostname >/dev/null && echo it-$((40 + 2))\nexit\n")
            typed = True
    process.wait(timeout=PATIENCE_S)
    os.close(ours)
    text = shown.decode(errors="replace").replace("\r", "")
    assert "  rx-l4s      10.0.5.100 on net-rx\n" in text
    assert "  rx-classic iperf3 -s -1 -D; tx-classic iperf3 -c rx-classic -C cubic -t 5\n" in text
    assert "\nit-42\n" in text
    assert "Power down" not in text
    assert process.returncode == 0
