# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""lab-init: the instructions of a script, and that no failure looks like an end."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from collectors.hostinfo import parse_offloads
from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.guests import Outcome, Script, boot

pytestmark = pytest.mark.lab

Execute = Callable[[Script], Outcome]

MS = 1_000_000
SECOND = 1_000 * MS


@pytest.fixture
def execute(lab: Lab, tmp_path: Path) -> Execute:
    return lambda script: boot(lab, script, tmp_path / "trial")


def test_a_script_runs_to_its_end(execute: Execute) -> None:
    script = Script()
    script.line("netns", "a")
    script.line("sysctl", "a", "net/ipv4/ip_forward", "1")
    script.run("a", "cat", "/proc/sys/net/ipv4/ip_forward", out="a/forward")
    script.run("-", "cat", "/proc/sys/net/ipv4/ip_forward", out="root-forward")
    script.run("a", "ip", "-br", "link", out="links")
    script.run("-", "ip", "netns", "exec", "a", "echo", "as ip knows it", out="by-name")
    result = execute(script)
    assert result.end == {"end": True, "ok": True, "reason": "", "t0_ns": None}
    assert (result.folder / "a/forward").read_text() == "1\n"
    assert (result.folder / "root-forward").read_text() == "0\n"
    assert (result.folder / "links").read_text().split()[:2] == ["lo", "UNKNOWN"]
    assert (result.folder / "by-name").read_text() == "as ip knows it\n"


def test_ports_and_routes_are_as_ip_and_ethtool_show_them(execute: Execute) -> None:
    script = Script()
    script.line("netns", "a")
    script.line("netns", "b")
    peer = ("peer", "name", "q", "netns", "b")
    script.run("-", "ip", "link", "add", "p", "netns", "a", "type", "veth", *peer)
    script.line("port", "a", "p", "02:00:0a:00:00:01", "10.0.0.1/24")
    script.line("port", "b", "q", "02:00:0a:00:00:02", "10.0.0.2/24")
    script.line("offloads", "a", "p", "tso", "off", "gso", "off", "gro", "on", "lro", "off")
    script.line("neighbour", "a", "p", "10.0.0.2", "02:00:0a:00:00:02")
    script.line("route", "a", "10.0.5.0/24", "10.0.0.2")
    for what in ("addr", "neigh", "route"):
        script.run("a", "ip", "-j", what, "show", out=f"{what}.json")
    script.run("a", "ethtool", "-k", "p", out="ethtool")
    script.line("read", "a", "offloads", "ethtool", "-k", "p")
    result = execute(script)
    assert result.end["ok"], result.end["reason"]
    shown = {what: json.loads((result.folder / f"{what}.json").read_text()) for what in ("neigh", "route")}
    links = json.loads((result.folder / "addr.json").read_text())
    port = next(link for link in links if link["ifname"] == "p")
    assert port["address"] == "02:00:0a:00:00:01"
    assert "UP" in port["flags"]
    assert [(a["local"], a["prefixlen"]) for a in port["addr_info"] if a["family"] == "inet"] == [
        ("10.0.0.1", 24)
    ]
    assert [(n["dst"], n["lladdr"], n["state"]) for n in shown["neigh"]] == [
        ("10.0.0.2", "02:00:0a:00:00:02", ["PERMANENT"])
    ]
    assert [(r["dst"], r.get("gateway")) for r in shown["route"]] == [
        ("10.0.0.0/24", None),
        ("10.0.5.0/24", "10.0.0.2"),
    ]
    printed = (result.folder / "ethtool").read_text()
    assert parse_offloads((result.folder / "offloads").read_text()) == parse_offloads(printed)
    assert parse_offloads(printed) == {"tso": False, "gso": False, "gro": True, "lro": False}


def test_facts_are_what_the_programs_print(execute: Execute) -> None:
    commands = {
        "kernel": ("uname", "-a"),
        "sysctls": ("sysctl", "net.ipv4.tcp_rmem", "net.ipv4.ip_forward"),
        "files": ("grep", "-r", "", "/sys/module/tcp_cubic/parameters"),
    }
    script = Script()
    script.line("netns", "a")
    script.line("sysctl", "a", "net/ipv4/tcp_rmem", "4096 131072 999999")
    for name, argv in commands.items():
        script.line("read", "a", f"read/{name}", *argv)
        script.run("a", *argv, out=f"printed/{name}")
    result = execute(script)
    assert result.end["ok"], result.end["reason"]
    for name in commands:
        read, printed = ((result.folder / kind / name).read_text() for kind in ("read", "printed"))
        assert sorted(read.splitlines()) == sorted(printed.splitlines())
        assert read


def test_fields_keep_what_a_line_cannot_hold(execute: Execute) -> None:
    script = Script()
    script.run("-", "printf", "%s", "a\tb\nc\\d é", out="said")
    result = execute(script)
    assert result.end["ok"]
    assert (result.folder / "said").read_text() == "a\tb\nc\\d é"


def test_programs_start_at_their_instants_and_know_them(execute: Execute) -> None:
    script = Script()
    script.line("start", 100)
    late = script.line("at", "-", 1_500 * MS, "late", "-", "env")
    early = script.line("at", "-", 250 * MS, "early", "-", "env")
    script.line("wait", 5 * SECOND)
    result = execute(script)
    t0_ns = result.end["t0_ns"]
    assert t0_ns % SECOND == 0
    for line, offset_ns, out in ((early, 250 * MS, "early"), (late, 1_500 * MS, "late")):
        planned_ns = t0_ns + offset_ns
        assert 0 <= result.of_line(line)["start_ns"] - planned_ns < 0.1 * MS
        variables = (result.folder / out).read_text().splitlines()
        assert f"LAB_T0_NS={t0_ns}" in variables
        assert f"LAB_START_NS={planned_ns}" in variables


def test_time_limits_are_virtual_time(execute: Execute) -> None:
    script = Script()
    script.run("-", "sleep", "1000", limit_ms=2_000_000)
    line = script.run("-", "sleep", "1000", limit_ms=500_000)
    result = execute(script)
    assert not result.end["ok"]
    assert result.end["reason"] == f"line {line}: sleep did not end within 500000 ms of virtual time"
    assert result.ended.wall_s < 10


def test_flows_that_do_not_end_are_a_failure(execute: Execute) -> None:
    script = Script()
    script.line("start", 0)
    line = script.line("at", "-", 0, "-", "-", "sleep", "1000")
    wait = script.line("wait", 20 * SECOND)
    reason = execute(script).end["reason"]
    assert reason == f"line {line}: sleep was still running at the time limit of line {wait}"


def test_last_words_stand_in_the_reason(execute: Execute) -> None:
    script = Script()
    line = script.run("-", "tc", "qdisc", "add", "dev", "lo", "root", "no-such-queue")
    script.run("-", "touch", "/tmp/never")  # no script goes on after a failure
    result = execute(script)
    failed = result.of_line(line)
    assert (failed["ok"], failed["exit"]) == (False, 2)
    assert "qdisc kind is unknown" in failed["stderr"]
    assert result.end["ok"] is False
    assert f"line {line}: tc ended with code 2: " in result.end["reason"]
    assert "qdisc kind is unknown" in result.end["reason"]
    assert len(result.status) == 2


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (("frobnicate", "x"), "unknown instruction frobnicate"),
        (("netns",), "netns does not take 0 fields"),
        (("run", "nowhere", 1, "-", "-", "true"), "no network namespace nowhere"),
        (("run", "-", 1, "-", "-", "no-such-program"), "cannot run no-such-program: No such file"),
        (("run", "-", 1, "no-such-file", "-", "cat"), "cannot read /trial/no-such-file: No such file"),
        (("run", "-", "soon", "-", "-", "true"), "the time limit is not a whole number: soon"),
        (("sysctl", "-", "net/ipv4/tcp_no", "1"), "no sysctl net/ipv4/tcp_no: No such file"),
        (("sysctl", "-", "net/ipv4/tcp_ecn", "99"), "sysctl net/ipv4/tcp_ecn = 99: Invalid argument"),
        (("port", "a", "eth9", "02:00:0a:00:00:01", "10.0.0.1/24"), "eth9: No such device"),
        (
            ("port", "a", "lo", "02:00:0a:00:00:01", "10.0.0.1"),
            "10.0.0.1 is not an address with a prefix length",
        ),
        (("offloads", "a", "lo", "tso", "maybe"), "tso must be on or off"),
        (("offloads", "a", "lo", "warp", "off"), "unknown offload warp"),
        (("neighbour", "a", "lo", "10.0.0.2", "ten"), "ten is not a hardware address"),
        (("route", "a", "10.0.5.0/24", "10.0.0.2"), "10.0.5.0/24: Network is unreachable"),
        (("read", "a", "facts", "cat", "/etc/motd"), "cannot read what cat prints"),
        (("read", "a", "facts", "sysctl", "net.no"), "cannot read /proc/sys/net/no: No such file"),
        (("module", "/lab/modules/no.ko", "-"), "cannot read module /lab/modules/no.ko: No such file"),
        (("at", "-", 0, "-", "-", "true"), "at before start"),
        (("wait", 1), "wait before start"),
    ],
)
def test_a_wrong_line_says_what_is_wrong(execute: Execute, fields: tuple[object, ...], reason: str) -> None:
    script = Script()
    script.line("netns", "a")
    script.line(*fields)
    result = execute(script)
    assert result.end["ok"] is False
    assert result.end["reason"].startswith(f"line 2: {reason}")


def test_a_daemon_that_fails_fails_the_trial_at_once(execute: Execute) -> None:
    script = Script()
    line = script.line("daemon", "-", "-", "-", "cat", "/no/such/file")
    script.line("start", 0)
    script.line("at", "-", 0, "-", "-", "sleep", "1000")
    script.line("wait", 2_000 * SECOND)
    result = execute(script)
    assert result.end["reason"].startswith(f"line {line}: cat ended with code 1: ")
    assert result.of_line(line)["start_ns"] < SECOND


def test_daemons_live_until_the_end_and_their_output_is_kept(execute: Execute) -> None:
    script = Script()
    for name, argv in (("stays", ("sleep", "1000")), ("ends", ("echo", "done"))):
        script.line("daemon", "-", name, "-", *argv)
    script.run("-", "sleep", "30", limit_ms=60_000)
    result = execute(script)
    assert result.end["ok"]
    stays, ends = result.of_line(1), result.of_line(2)
    assert (stays["ok"], stays.get("killed"), stays["exit"]) == (True, True, 128 + 15)
    assert (ends["ok"], ends.get("killed"), ends["exit"]) == (True, None, 0)
    assert (result.folder / "ends").read_text() == "done\n"


def test_more_programs_run_than_a_process_may_usually_have_files(execute: Execute) -> None:
    usual = 1024
    script = Script()
    script.line("daemon", "-", "limits", "-", "cat", "/proc/self/limits")
    lines = [script.line("daemon", "-", "-", "-", "sleep", "1000") for _ in range(usual // 2)]
    script.run("-", "sleep", "1")
    result = execute(script)
    assert result.end["ok"], result.end["reason"]
    assert all(result.of_line(line)["ok"] for line in lines)
    limits = (result.folder / "limits").read_text().splitlines()
    (of_child,) = (line.split()[3] for line in limits if line.startswith("Max open files"))
    assert int(of_child) == usual


def test_an_output_that_cannot_be_written_whole_fails_the_trial(execute: Execute) -> None:
    """The program does not notice (`echo` to memory succeeds), lab-init does."""
    script = Script()
    script.run("-", "echo", "much", out="/dev/full")
    result = execute(script)
    assert result.end["ok"] is False
    assert result.end["reason"] == "line 1: cannot write /dev/full: No space left on device"


def test_without_a_script_there_is_a_reason(lab: Lab, tmp_path: Path) -> None:
    end = boot(lab, None, tmp_path / "trial").end
    assert end["ok"] is False
    assert end["reason"] == "cannot read the script /trial/script: No such file or directory"
