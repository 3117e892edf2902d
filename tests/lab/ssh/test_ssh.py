# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The ssh testbed on booted nodes: a sweep end to end, trials by hand, and hosts that fail.

25 Mbit/s is what six nodes on two cores carry; below 24 two packets outlast DualPI2's step of 1 ms.
"""

import json
import os
import re
import signal
import subprocess
import tarfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from ruamel.yaml import YAML

from l4sbench.app import api
from l4sbench.catalog import Catalog
from l4sbench.facts.events import Event, TrialEnded, TrialStarted
from l4sbench.matrix import Matrix
from l4sbench.testbeds.nodes import NodesStatus, halt, up
from l4sbench.testbeds.ssh import SshTestbed
from l4sbench.testbeds.ssh.ansible import play as play_books
from l4sbench.testbeds.ssh.memory import Memory
from l4sbench.testbeds.ssh.pauses import pauses_on
from tests.lab.nodes.hosts import check_only_busy, on
from tests.lab.playbooks import ON_NODES, Played, play
from tests.lab.udp import OWN, udp_l4s
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.lab

MATRIX = """\
matrix: {name}
topology: line6
rate: 25mbit
rtt: 10ms
duration: {duration}
trials: 1
rule: pam25
sample.interval: 200ms
flows:
  l4s: {{cc: prague}}
  classic: {{cc: cubic}}
axes:
  aqm: [{queues}]
"""


def matrix(folder: Path, queues: str, duration: str = "3s", name: str = "short") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(MATRIX.format(name=name, duration=duration, queues=queues))
    return path


def written(run: Path, table: str) -> pl.DataFrame:
    """Return a table as it was written, with rows of invalid trials."""
    return pl.read_parquet(run / "tables" / f"{table}.parquet")


def played(folder: Path, playbook: str, hosts: NodesStatus, *given: str) -> Played:
    """Run an exported playbook."""
    assert hosts.inventory is not None
    return play(folder / "playbooks" / f"{playbook}.yml", hosts.inventory, *given)


@pytest.mark.long
def test_by_hand_and_twice(hosts: NodesStatus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "by-hand"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    udp_l4s(tmp_path)
    wanted = matrix(tmp_path, "dualpi2", "2s")
    mice = "{send: requests, cc: cubic, period: 100ms, size: 1kB, from: tx-classic, to: rx-classic}"
    own = f"{{{OWN}, from: tx-classic, to: rx-classic}}"
    more_flows = f"  mice: {mice}\n  own: {own}\ncapture: headers\naxes:\n"
    wanted.write_text(wanted.read_text().replace("axes:\n", more_flows))
    api.export(wanted, folder, options=api.RunOptions(on=f"ssh:{hosts.inventory}", trust=True))
    (cell,) = (folder / "cells").iterdir()
    # no packages and no compiler are to be had on these nodes; a module is brought as it was built
    release = on(hosts, "router", "uname", "-r").strip()
    built = tmp_path / "tcp_prague.ko"
    built.write_bytes(
        subprocess.run(
            [
                "ssh",
                "-F",
                str(hosts.ssh_config),
                "router",
                "cat",
                f"/lib/modules/{release}/extra/tcp_prague.ko",
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=PATIENCE_S,
        ).stdout
    )
    # hosts that somebody uses have other settings than the kernel's own, such as a strict rp_filter
    on(hosts, "tx-l4s", "sudo sysctl net.ipv4.tcp_ecn=0 net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=1")
    on(hosts, "tx-l4s", "sudo sysctl net.ipv4.tcp_sack=0")
    untouched = state_of(hosts)
    kernel = {"name": "lab", "release": re.escape(release)}
    more = {"l4sbench_modules": {"tcp_prague": str(built)}, "l4sbench_kernel": kernel}
    given = ("-e", f"@{cell}", "-e", json.dumps(more))
    played(folder, "prepare", hosts, *given)
    again = played(folder, "prepare", hosts, *given)
    assert list(again.changed.values()) == [[]] * 6
    tried = played(folder, "trial", hosts, "-e", f"@{cell}")
    archives = sorted((folder / "results").glob("*/*.tar.gz"))
    assert [path.name.partition(".")[0] for path in archives] == sorted(again.changed)
    bring = {"l4sbench_trial": f"{cell.stem}.1", "l4sbench_results": "fetched", "l4sbench_stop": True}
    brought = played(folder, "fetch", hosts, "-e", json.dumps(bring))
    for archive in archives:
        assert (folder / "fetched" / archive.name).read_bytes() == archive.read_bytes()
        with tarfile.open(archive) as packed:
            told = json.load(packed.extractfile("result.json"))  # type: ignore[arg-type]
        assert told["ok"], told
    before = on(hosts, "rx-l4s", "ip", "route", "show")
    assert "congctl prague" in before
    assert "= 1" in on(hosts, "tx-l4s", "sudo sysctl net.ipv4.tcp_sack")
    paused = played(folder, "pauses", hosts, "-e", "l4sbench_seconds=0.1")
    assert not any(paused.changed.values())
    reached = played(folder, "reach", hosts)
    assert not any(reached.changed.values())
    looked = played(folder, "look", hosts, "-e", f"l4sbench_results={tmp_path}")
    assert "$ uname -a" in (tmp_path / "router.txt").read_text()
    measured = played(folder, "path", hosts, "-e", f"@{cell}")
    undone = played(folder, "teardown", hosts)
    played_all = (again, tried, brought, paused, reached, looked, measured, undone)
    assert frozenset().union(*(book.executed for book in played_all)) >= ON_NODES
    assert state_of(hosts) == untouched
    assert not any(played(folder, "teardown", hosts).changed.values())
    # what nodes in namespaces were given is not the host's
    few = replace(hosts, inventory=on_fewer_hosts(hosts, tmp_path))
    played(folder, "prepare", few, "-e", f"@{cell}")
    assert "l4sb-tx-classic" in on(hosts, "tx-l4s", "ip", "netns")
    played(folder, "teardown", few)
    assert state_of(hosts) == untouched


def test_pauses_of_every_host_are_measured(hosts: NodesStatus) -> None:
    assert hosts.inventory is not None
    found = pauses_on(hosts.inventory, 0.2)
    assert list(found) == sorted(node.name for node in hosts.nodes)
    assert all(0 < pauses.events <= 2001 for pauses in found.values())


def state_of(hosts: NodesStatus) -> dict[str, str]:
    """Return the settings of each node that trials may change, without the kernel's own counters."""
    commands = (
        "sudo sysctl net.ipv4 net.core | grep -vE 'congestion_control|random|_nr|gc_|flow_limit_cpu'",
        "ip -o link | cut -d' ' -f2,3 | sed 's/,LOWER_UP//'",
        "ip -o -4 address; ip route; ip netns; tc qdisc | grep -E 'netem|htb' || true",
        "ls /sys/class/net | grep vec | tail -n +2 | xargs -n1 sudo ethtool -k | grep -E '^(tcp-s|generic)'",
    )
    return {node.name: on(hosts, node.name, "; ".join(commands)) for node in hosts.nodes}


def test_a_sweep_from_matrix_to_decision(hosts: NodesStatus, tmp_path: Path) -> None:
    wanted, inventory = matrix(tmp_path, "codel, dualpi2"), hosts.inventory
    assert inventory is not None
    where = f"ssh:{inventory}"
    ended = api.run(wanted, on=where, runs=tmp_path, capture=True)
    assert (ended.result.failed, ended.result.left, ended.result.error) == (0, 0, None)
    assert ended.problems == ()
    # a busy machine holds nodes and flows up, which makes a trial invalid; nothing else may
    trials = written(ended.path, "trials")
    check_only_busy(trials)
    flows = written(ended.path, "flows")
    assert flows.height == 2 * trials.filter(status="ok").height
    if flows.height:
        assert flows["goodput_mbps"].min() > 1  # type: ignore[operator]
        assert set(flows.filter(group="l4s")["ecn"]) == {"accecn"}
        assert set(flows.filter(group="classic")["ecn"]) == {"off"}
    lateness = written(ended.path, "lateness")
    assert lateness.height == 12
    assert lateness["instants"].min() >= 60  # type: ignore[operator]  # three seconds, every 50 ms
    assert lateness["busy_share"].is_between(0, 1).all()
    sockets = written(ended.path, "sockets")
    assert set(sockets["side"]) == {"sender", "receiver"}
    assert sockets.filter(group="l4s")["prague_mode"].is_not_null().any()
    queues = written(ended.path, "queues")
    assert queues.filter(kind="dualpi2")["sent_packets"].max() > 100  # type: ignore[operator]
    hosts_told = written(ended.path, "hosts")
    told = hosts_told.filter(kind="kernel", node="router")["value"]
    assert set(told) == {on(hosts, "router", "uname", "-r").strip()}
    loaded = hosts_told.filter(kind="module", name="tcp_prague")
    assert set(loaded["node"]) == {"tx-l4s", "rx-l4s"}
    asked = Memory(inventory).load().facts
    assert set(asked) == {node.name for node in hosts.nodes}
    assert all(seen.asked_s and 0 < seen.asked_s[1] - seen.asked_s[0] < PATIENCE_S for seen in asked.values())
    # nothing is left to do, and a plan knows so without asking a host
    again = api.run(wanted, on=where, runs=tmp_path)
    assert again.result.exit_code == 0
    assert api.plan_of(wanted, options=api.RunOptions(on=where, runs=tmp_path)).plan.to_run == 0


@pytest.mark.long
def test_the_path_changes_during_a_trial(hosts: NodesStatus, tmp_path: Path) -> None:
    """On hosts an event is a command of tc at its instant, and queues keep what they counted."""
    wanted = matrix(tmp_path, "fifo", duration="6s", name="step")
    more = "path.reverse_rate: 5mbit\nevents: {step: {at: 3s, rate: 5mbit, rtt: 30ms}}\n"
    wanted.write_text(wanted.read_text() + more)
    ended = api.run(wanted, on=f"ssh:{hosts.inventory}", runs=tmp_path)
    assert (ended.result.failed, ended.result.left, ended.result.error) == (0, 0, None)
    check_only_busy(written(ended.path, "trials"))
    (raw,) = ended.path.glob("cells/*/*/raw")
    taken = {node: json.loads((raw / node / "events.json").read_text()) for node in ("router", "delay")}
    assert [(one["event"], one["factor"]) for node in taken.values() for one in node] == [
        ("step", "rate"),
        ("step", "rtt"),
        ("step", "rtt"),
    ]
    assert all(one["t_ms"] >= 3000 for node in taken.values() for one in node)
    for moment in ("event-step-rate-net-rx.json", "class-net-rx.json"):
        (shown,) = json.loads((raw / "router" / moment).read_text())
        assert shown["rate"] == 5_000_000 // 8
    for moment in ("event-step-rtt-net-mid.json", "qdisc-net-mid.json"):
        (shown,) = json.loads((raw / "delay" / moment).read_text())
        assert shown["options"]["delay"]["delay"] == pytest.approx(0.015)
        assert shown["packets"] > 100
    samples = written(ended.path, "queues").filter(kind="bfifo")["sent_packets"]
    assert not samples.len() or samples.is_sorted()


def test_why_a_host_is_not_ready_is_told_in_its_own_words(hosts: NodesStatus) -> None:
    assert hosts.inventory
    for given, told in (
        ({"l4sbench_python": "python2"}, "cannot run python2 there (l4sbench_python names it)"),
        ({"l4sbench_modules": {"tcp_prague": "no.ko"}}, "Could not find or access 'no.ko'"),
    ):
        played = play_books("prepare.yml", hosts.inventory, ["router"], given, limit_s=PATIENCE_S)
        assert told in played.hosts["router"].message


ENDS_AND_MIDDLE = {
    "senders": "tx-l4s",
    "delay.lab": "delay",
    "2001:db8::1": "router",
    "fe80::1%eth0": "rx-l4s",
}
"""Host -> the node whose machine it is. A host may be named by an address, whatever its `ansible_host` is."""


def on_fewer_hosts(hosts: NodesStatus, folder: Path) -> Path:
    """An inventory in which one host holds both senders, and one both receivers."""
    plain = YAML(typ="safe").load(hosts.inventory)["all"]
    found = plain["children"]["nodes"]["hosts"]
    several = {"tx-l4s": ["tx-l4s", "tx-classic"], "rx-l4s": ["rx-l4s", "rx-classic"]}
    chosen = {}
    for host, name in ENDS_AND_MIDDLE.items():
        variables = {key: value for key, value in found[name].items() if key != "l4sbench_node"}
        chosen[host] = {**variables, "l4sbench_nodes": several.get(name, [name])}
    path = folder / "fewer.yml"
    YAML().dump({"all": {"vars": plain["vars"], "hosts": chosen}}, path)
    return path


@pytest.mark.long
def test_several_nodes_on_a_host(hosts: NodesStatus, tmp_path: Path) -> None:
    wanted = matrix(tmp_path, "codel")
    assert hosts.inventory
    for inventory in (on_fewer_hosts(hosts, tmp_path), hosts.inventory):
        ended = api.run(wanted, on=f"ssh:{inventory}", runs=tmp_path / str(inventory.stem))
        assert (ended.result.failed, ended.result.left) == (0, 0)
        valid = written(ended.path, "flows")["goodput_mbps"]
        assert valid.is_empty() or valid.min() > 1  # type: ignore[operator]


@pytest.mark.long
def test_dropped_connections_and_a_restarted_host(hosts: NodesStatus, tmp_path: Path) -> None:
    wanted = matrix(tmp_path, "codel, fifo, pie", "8s", "faults")
    started: list[str] = []
    ended: list[tuple[str, tuple[str, ...]]] = []

    def watch(event: Event) -> None:
        if isinstance(event, TrialStarted):
            started.append(event.cell_id)
            threading.Thread(target=disturb, args=(len(started),), daemon=True).start()
        elif isinstance(event, TrialEnded):
            ended.append((event.status, event.reasons))

    def disturb(number: int) -> None:
        while on(hosts, "rx-l4s", "pgrep -c iperf3 || true").strip() in {"", "0"}:
            time.sleep(0.5)
        if number == 1:
            drop_connections(hosts)
        elif number == 2:
            on(hosts, "rx-l4s", "sudo", "reboot", "-f", check=False)
            time.sleep(5)
            up("line6", name=hosts.name)

    result = api.run(wanted, on=f"ssh:{hosts.inventory}", runs=tmp_path, on_event=watch).result
    assert result.left == 0
    assert [status == "failed" for status, _ in ended] == [False, True, False]
    assert "restarted" in ended[1][1][0]
    again = api.run(wanted, on=f"ssh:{hosts.inventory}", runs=tmp_path).result
    assert again.ok + again.invalid == 1
    assert again.failed == 0


def drop_connections(hosts: NodesStatus) -> None:
    """End every ssh process that holds a connection to these nodes."""
    arguments = YAML(typ="safe").load(hosts.inventory)["all"]["vars"]["ansible_ssh_common_args"]
    sockets = re.search(r"ControlPath=(\S+)/ssh-", arguments)
    assert sockets
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if words.startswith("ssh") and f"{sockets[1]}/ssh-" in words:
            os.kill(int(process.name), signal.SIGKILL)


@pytest.mark.long
def test_machines_that_were_just_made_are_waited_for(hosts: NodesStatus, tmp_path: Path) -> None:
    assert hosts.inventory is not None
    wanted = Matrix.load(matrix(tmp_path, "fifo"), Catalog.load())
    halt(hosts.name, "rx-l4s")
    late = threading.Timer(15.0, up, ("line6",), {"name": hosts.name})
    late.start()
    made = SshTestbed(hosts.inventory, wanted.catalog, wanted.cells, own=True, cache=tmp_path / "cache")
    assert made.identity().testbed == "ssh"
    assert late.finished.is_set()
