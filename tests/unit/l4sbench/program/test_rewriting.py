# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The rules for the ECN field, by nft in namespaces of this machine: the codepoints that a receiver sees."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Sequence

import pytest

from l4sbench.program import Program, differences
from tests.patience import PATIENCE_S
from tests.unit.l4sbench.program.test_program import build, cell

NETWORKS = """\
set -e
mount -t tmpfs tmpfs /run
ip netns add tx; ip netns add rx
ip link add net-tx type veth peer name own netns tx
ip link add net-mid type veth peer name own netns rx
for side in tx rx; do ip netns exec $side ip link set own up; done
ip link set net-tx up; ip link set net-mid up; ip link set lo up
ip addr add 10.0.0.1/24 dev net-tx; ip netns exec tx ip addr add 10.0.0.2/24 dev own
ip addr add 10.0.1.1/24 dev net-mid; ip netns exec rx ip addr add 10.0.1.2/24 dev own
ip netns exec tx ip route add default via 10.0.0.1; ip netns exec rx ip route add default via 10.0.1.1
sysctl -qw net.ipv4.ip_forward=1
"""

RECEIVE = """\
import socket, subprocess, sys
out, to = sys.argv[1:]
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
own.bind((to, 7000))
own.settimeout(20)
send = (
    "import socket\\nown = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\\n"
    "for field in range(4):\\n"
    "  own.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0b10101100 | field)\\n"
    f"  own.sendto(bytes([field]), ({to!r}, 7000))\\n"
)
subprocess.run(["nsenter", f"--net=/run/netns/{out}", sys.executable, "-c", send], check=True)
for _ in range(4):
    sent, control, _, _ = own.recvmsg(1, 64)
    field = control[0][2][0]
    assert field >> 2 == 0b101011, "no other bits change"
    print(sent[0], field & 3)
"""

NOT_ECT, ECT1, ECT0, CE = range(4)


@pytest.fixture(autouse=True)
def able() -> None:
    """Skip where there is no nft, or no namespaces may be made."""
    ok = shutil.which("nft") and not ended(["nft", "list", "ruleset"]).returncode
    if not ok:
        pytest.skip("no nft (a package of Debian), no tables in the kernel, or no user namespaces")


def ended(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command as root of new namespaces."""
    return subprocess.run(
        ["unshare", "--map-root-user", "--net", "--mount", *argv],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def commands(program: Program) -> Iterable[Sequence[str]]:
    """Yield what sets up the rules, then what each event changes of them."""
    yield from (command.argv for command in program.rules)
    yield from (argv for change in program.changes for argv in change.commands)


def received(program: Program, way: str = "tx rx 10.0.1.2") -> tuple[dict[int, int], str]:
    """Send a packet of each codepoint; return codepoint sent -> received, and what nft lists afterwards."""
    source, target, address = way.split()
    made = [shlex.join(word.removeprefix("@") for word in argv) for argv in commands(program)]
    receive = f"ip netns exec {target} python3 -c {shlex.quote(RECEIVE)} {source} {address}"
    (shown,) = (one.argv for one in program.readback if one.argv[0] == "nft")
    done = ended(["sh", "-c", "\n".join((NETWORKS, *made, receive, shlex.join(shown)))])
    assert done.returncode == 0, done.stderr
    *lines, listed = done.stdout.splitlines()
    return {int(sent): int(got) for sent, got in (line.split() for line in lines)}, listed


def counted(listed: str) -> int:
    rules = [entry["rule"] for entry in json.loads(listed)["nftables"] if "rule" in entry]
    return sum(part["counter"]["packets"] for rule in rules for part in rule["expr"] if "counter" in part)


@pytest.mark.parametrize(
    ("ecn", "into", "count"),
    [
        ("bleach", dict.fromkeys(range(4), NOT_ECT), 3),
        ("ect0", {NOT_ECT: NOT_ECT, ECT1: ECT0, ECT0: ECT0, CE: CE}, 1),
    ],
)
def test_the_field_arrives_as_the_factor_says(ecn: str, into: dict[int, int], count: int) -> None:
    delay = build(cell(path__ecn=ecn))["delay"]
    found, listed = received(delay)
    assert found == into
    assert counted(listed) == count
    (wanted,) = (one for one in delay.expected if one.what == "rules at net-mid")
    assert differences(wanted, listed) == ()
    assert differences(wanted, listed.replace(ecn, "other")) == (
        f"rules at net-mid: rule.comment is other, not {ecn}",
    )


def test_the_way_back_stays_as_it_is() -> None:
    found, listed = received(build(cell(path__ecn="bleach"))["delay"], "rx tx 10.0.0.2")
    assert found == {field: field for field in range(4)}
    assert counted(listed) == 0


def test_events_change_the_rules_and_take_them_back() -> None:
    events = {"events__off__at": "1s", "events__off__path.ecn": "bleach"}
    delay = build(cell(**events))["delay"]
    assert received(delay)[0] == dict.fromkeys(range(4), NOT_ECT)
    back = {**events, "events__on__at": "2s", "events__on__path.ecn": "pass"}
    found, listed = received(build(cell(**back))["delay"])
    assert found == {field: field for field in range(4)}
    assert counted(listed) == 4
