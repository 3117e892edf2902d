# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The helper on hosts: it compares as the judge does, starts nodes together, needs only Python 3.9."""

import ast
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from l4sbench.catalog import Bottleneck, Catalog, Expectation
from l4sbench.program.data import Expected
from l4sbench.program.readback import differences
from l4sbench.text.units import Duration, Rate
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[3]
HELPER = ROOT / "roles/helper/files/helper"
CASES = ROOT / "tests/cases"

sys.path.insert(0, str(HELPER))  # on a host it is run as a folder, and its modules are found so

import counters  # noqa: E402
import facts  # noqa: E402
import lateness  # noqa: E402
import meeting  # noqa: E402
import netlink  # noqa: E402
import pauses  # noqa: E402
import pausing  # noqa: E402
import queues  # noqa: E402
import system  # noqa: E402
import tcbatch  # noqa: E402
import tuning  # noqa: E402
import walking  # noqa: E402
import wiring  # noqa: E402

SETTING = Bottleneck(Rate.parse("100mbit"), Duration.parse("10ms"), 2.0)


def test_a_request_that_the_kernel_refuses_is_no_empty_answer() -> None:
    """Without tcp_diag the answer is such an error, and `ss` takes the place of netlink."""
    diag = netlink.Netlink(4)  # NETLINK_SOCK_DIAG
    no_family = struct.pack("=BBBBI", 255, socket.IPPROTO_TCP, 0, 0, 1) + bytes(48)
    try:
        with pytest.raises(OSError, match="Invalid argument"):
            list(diag.dump(20, no_family))
    finally:
        diag.close()


@pytest.mark.parametrize("file", sorted(HELPER.glob("*.py")), ids=lambda path: path.name)
def test_runs_on_python_3_9_without_packages(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 9))
    own = {path.stem for path in HELPER.glob("*.py")}
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert {name.partition(".")[0] for name in imported} <= own | set(sys.stdlib_module_names)
    # what is evaluated when it is imported must not use newer types
    assert "from __future__ import annotations" in file.read_text(encoding="utf-8")


def _readback_cases() -> list[tuple[str, str, Expected]]:
    catalog = Catalog.load()
    found = []
    for path in sorted((CASES / "readback").glob("*.json")):
        queue = catalog.queue(path.stem)
        for case in json.loads(path.read_text(encoding="utf-8")):
            params = {name: queue.params[name].parse(value) for name, value in case["given"].items()}
            kind, options = queue.expects(params, SETTING)
            values = tuple(type(item)(f"options.{item.key}", item.value, item.within) for item in options)
            wanted = Expected(f"{kind} at net-rx", "q.json", (("kind", kind), ("parent", "1:3")), values)
            found.append((f"{path.stem} {case['case']}", json.dumps(case["shown"]), wanted))
    return found


@pytest.mark.parametrize(("shown", "wanted"), [case[1:] for case in _readback_cases()])
def test_compares_queues_as_the_judge_does(shown: str, wanted: Expected) -> None:
    plain = {
        "what": wanted.what,
        "match": [list(pair) for pair in wanted.match],
        "values": [{"key": v.key, "value": v.value, "within": v.within} for v in wanted.values],
    }
    assert queues.differ(plain, shown) == list(differences(wanted, shown)) == []
    entries = json.loads(shown)
    for entry in entries:
        for key, value in list(entry.get("options", {}).items()):
            changed = (
                not value if isinstance(value, bool) else f"{value}1" if isinstance(value, str) else 7777
            )
            entry["options"][key] = changed
            wrong = json.dumps(entries)
            assert queues.differ(plain, wrong) == list(differences(wanted, wrong))
            entry["options"][key] = value
    for text in ("", "[]", "{}", '[{"kind": "pfifo", "parent": "1:3"}]'):
        told = queues.differ(plain, text)
        assert told
        assert told == list(differences(wanted, text))


@given(st.integers(), st.integers(min_value=3, max_value=21), st.integers(min_value=1, max_value=300))
def test_a_walk_goes_one_level_at_a_time_and_turns_at_its_bounds(seed: int, levels: int, steps: int) -> None:
    walk, at_once = walking.Walk(levels, seed), walking.Walk(levels, seed)
    assert walk.at == levels // 2
    for step in range(1, steps + 1):
        before = walk.at
        walk.go(step)
        assert abs(walk.at - before) == 1
        assert 0 <= walk.at < levels
    at_once.go(steps)
    assert at_once.at == walk.at


@given(st.integers(min_value=0, max_value=10**13))
def test_reads_durations_as_programs_state_them(ns: int) -> None:
    assert system.duration_ns(str(Duration(ns))) == ns


def test_compares_rules_as_the_judge_does() -> None:
    wanted = Expected(
        "rules", "r.json", (("rule.chain", "ecn-net-mid"),), (Expectation("rule.comment", "bleach"),)
    )
    plain = {
        "what": wanted.what,
        "match": [["rule.chain", "ecn-net-mid"]],
        "values": [{"key": "rule.comment", "value": "bleach", "within": 0.0}],
    }
    for comment, said in (("bleach", []), ("pass", ["rules: rule.comment is pass, not bleach"])):
        rule = {"rule": {"chain": "ecn-net-mid", "comment": comment}}
        text = json.dumps({"nftables": [{"metainfo": {}}, {"chain": {"name": "ecn-net-mid"}}, rule]})
        assert queues.differ(plain, text) == list(differences(wanted, text)) == said
    for text in ('{"nftables": 7}', '{"nftables": [{"chain": {}}]}'):
        assert (
            queues.differ(plain, text) == list(differences(wanted, text)) == ["rules: missing; found nothing"]
        )


@pytest.mark.skipif(not shutil.which("tc"), reason="needs tc of iproute2")
def test_pauses_that_tc_refuses_are_a_failure(tmp_path: Path) -> None:
    argv = ["tc", "qdisc", "change", "dev", "@net", "root", "netem", "slot", "1ms", "1ms"]
    plain = {"length": "1ms", "every": "1ms", "seed": 7, "begin": [argv], "end": [argv]}
    words = [word.replace("@net", "missing-port") for word in argv]
    thread = pausing.Pausing(plain, lambda _: words, tmp_path / "pauses.json", time.monotonic_ns())
    thread.start()
    thread.join(PATIENCE_S)
    thread.end()
    assert "missing-port" in thread.failure
    made = json.loads((tmp_path / "pauses.json").read_text())
    assert len(made["start_ms"]) == len(made["length_ms"])


def test_tc_that_does_not_end_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (endless := tmp_path / "tc").write_text("#!/bin/sh\nexec sleep 3600\n")
    endless.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(tcbatch, "_ENDS_S", 0.2)
    plain = {"length": "1ms", "every": "1ms", "seed": 7, "begin": [["tc"]], "end": [["tc"]]}
    thread = pausing.Pausing(plain, list, tmp_path / "pauses.json", time.monotonic_ns())
    thread.start()
    thread.end()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert thread.failure == "tc: no end within 0.2 s"
    assert (tmp_path / "pauses.json").exists()


APART = ["unshare", "--map-root-user", "--net", "--mount"]


def apart(script: str, state: Path, *arguments: str | Path, path: str = os.environ["PATH"]) -> str:
    """Run a script with the helper in namespaces of its own, and return its output; 77 ends it as skipped."""
    done = subprocess.run(
        [*APART, sys.executable, "-c", script, HELPER, *arguments],
        env={**os.environ, "PATH": path, "L4SBENCH_STATE": str(state)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no user namespaces, or none of the kernel's devices in them")
    assert done.returncode == 0, done.stderr
    return done.stdout


RULES = """\
import json, sys
sys.path.insert(0, sys.argv[1])
from queues import queues
from system import run
from tuning import restore

def part(*rules):
    commands = [{"argv": argv.split(), "timeout_s": 10} for argv in rules]
    program = {"links": [], "rules": commands, "setup": [], "readback": [], "expected": []}
    return {"programs": {"delay": program}, "host_nodes": sys.argv[2:]}

made = part("nft add table inet l4sbench", "nft add chain inet l4sbench ecn-net-mid")
shown = []
for what in (made, made, part()):
    queues(what, "delay", fresh=True)
    shown.append(run(["nft", "list", "tables"]).stdout.split())
queues(made, "delay", fresh=True)
undone = restore("delay")
print(json.dumps([shown, undone, run(["nft", "list", "tables"]).stdout.split()]))
"""


@pytest.mark.parametrize("nodes", [["delay"], ["delay", "router"]])
def test_rules_end_with_the_trials_that_have_them(tmp_path: Path, nodes: list[str]) -> None:
    """In a namespace of its own a node has them until the namespace goes; else teardown removes them."""
    if not shutil.which("nft") or subprocess.run([*APART, "nft", "list", "ruleset"], check=False).returncode:
        pytest.skip("no nft (a package of Debian), no tables in the kernel, or no user namespaces")
    printed = apart(RULES, tmp_path, *nodes)
    table = ["table", "inet", "l4sbench"]
    removed = ["rules of nft in inet l4sbench removed"]
    expected = [[], table] if nodes[1:] else [removed, []]
    assert json.loads(printed) == [[table, table, []], *expected]


ROUTES = """\
import json, subprocess, sys
sys.path.insert(0, sys.argv[1])
from system import run
from tuning import restore, tune

def shown():
    return run(["ip", "-o", "route", "show"]).stdout.splitlines()

if subprocess.run(["ip", "tuntap", "add", "dev", "e0", "mode", "tap"], check=False).returncode:
    sys.exit(77)
for argv in (
    "link set e0 up",
    "address add 10.0.0.1/24 dev e0",
    "route add 10.9.0.0/24 via 10.0.0.2",
    "route add 10.9.0.0/24 via 10.0.0.2 metric 5",
    "route add 10.8.0.0/24 nexthop via 10.0.0.2 nexthop via 10.0.0.3 weight 2",
):
    run(["ip", *argv.split()])
states = [shown()]
for window in ("10", "20"):
    route = {"via": "10.0.0.9", "options": ["initcwnd", window]}
    routes = [{"to": f"10.{number}.0.0/24", **route} for number in (9, 8, 7)]
    program = {"sysctls": {}, "links": [], "routes": routes}
    tune({"programs": {"tx": program}, "host_nodes": ["tx"], "ports": {}}, "tx")
    states.append(shown())
undone = restore("tx")
print(json.dumps([*states, shown(), undone]))
"""


def test_routes_that_a_trial_replaced_come_back(tmp_path: Path) -> None:
    printed = apart(ROUTES, tmp_path)
    before, first, second, after, undone = json.loads(printed)
    assert len(before) == 4
    for window, shown in (("10", first), ("20", second)):
        assert sum("via 10.0.0.9" in line and f"initcwnd {window}" in line for line in shown) == 3
    assert sorted(after) == sorted(before)
    assert "route to 10.9.0.0/24 as before" in undone


JUMBO = """\
import json, subprocess, sys
sys.path.insert(0, sys.argv[1])
from system import run
from tuning import restore, tune

if subprocess.run(["ip", "tuntap", "add", "dev", "e0", "mode", "tap"], check=False).returncode:
    sys.exit(77)
run(["ip", "link", "set", "e0", "address", "02:00:00:00:00:01", "mtu", sys.argv[2]])
link = {"network": "net-tx", "address": "10.0.0.1/24", "offloads": []}
program = {"sysctls": {}, "links": [link], "routes": []}
part = {"programs": {"tx": program}, "host_nodes": ["tx"], "networks": {"net-tx": ["tx", "delay"]}}
part["ports"] = {"net-tx": "02:00:00:00:00:01"}

def mtu():
    return json.loads(run(["ip", "-j", "link", "show", "dev", "e0"]).stdout)[0]["mtu"]

tune(part, "tx")
print(mtu(), tune(part, "tx"))
restore("tx")
print(mtu())
"""


@pytest.mark.parametrize(("before", "during"), [(9000, 1500), (1500, 1500), (1450, 1450)])
def test_hosts_send_no_jumbo_frames(tmp_path: Path, before: int, during: int) -> None:
    """A limit of packets would hold six times as many bytes."""
    own = tmp_path / "bin"
    own.mkdir()
    (own / "ethtool").write_text("#!/bin/sh\n")
    (own / "ethtool").chmod(0o755)
    printed = apart(JUMBO, tmp_path, str(before), path=f"{own}:{os.environ['PATH']}")
    assert printed.splitlines() == [f"{during} []", str(before)]


FORMER = """\
import json, sys
sys.path.insert(0, sys.argv[1])
from system import read_text
from tuning import tune
from wiring import wire

shown = []
for node, sysctls in (("delay", {"net.ipv4.ip_forward": "1"}), ("delay-1", {})):
    program = {"sysctls": sysctls, "links": [], "routes": []}
    part = {"programs": {node: program}, "host_nodes": [node], "networks": {}, "ports": {}}
    wire(part)
    tune(part, node)
    shown.append(read_text("/proc/sys/net/ipv4/ip_forward"))
print(json.dumps(shown))
"""


def test_a_host_that_becomes_another_node_keeps_nothing_of_the_former(tmp_path: Path) -> None:
    """Another topology has other nodes, and a file remembers what each of them set."""
    printed = apart(FORMER, tmp_path)
    assert json.loads(printed) == ["1", "0"]


TUNED = """\
import json, sys
sys.path.insert(0, sys.argv[1])
from system import read_text
from tuning import restore, set_sysctls, tune, Originals

tuned = {"net.ipv4.tcp_sack": "0", "net.ipv4.tcp_slow_start_after_idle": "0"}
set_sysctls(Originals("user"), tuned)
shown = lambda: [read_text(f"/proc/sys/{key.replace('.', '/')}") for key in tuned]
program = {"sysctls": {}, "links": [], "routes": []}
part = {"host_nodes": ["tx"], "networks": {}, "ports": {}}
tune({**part, "programs": {"tx": program}}, "tx")  # the loopback interface
kinds = ({}, {"flows": [{}]}, {"servers": [{}], "sysctls": [["net.ipv4.tcp_sack", "0"]]})
for kind in kinds:
    print(json.dumps([tune({**part, "programs": {"tx": {**program, **kind}}}, "tx"), shown()]))
restore("tx")
print(json.dumps(shown()))
"""


def test_settings_of_tcp_that_somebody_tuned_are_the_usual_ones_in_trials(tmp_path: Path) -> None:
    """A new namespace has the kernel's own settings, so that nothing else changes in it."""
    router, sender, own, after = map(json.loads, apart(TUNED, tmp_path).splitlines())
    assert router == [[], ["0", "0"]]
    changed = [f"sysctl net.ipv4.tcp_{name} = 1" for name in ("sack", "slow_start_after_idle")]
    assert sender == [changed, ["1", "1"]]
    assert own == [["sysctl net.ipv4.tcp_sack = 0"], ["0", "1"]]
    assert after == ["0", "0"]


TRIAL = """\
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import meeting, trial

meeting.LEAD_S, trial.SERVER_CLOSE_S = 1.0, 0.2
part = json.loads(sys.argv[2])
trial.perform(part, "rx", Path(sys.argv[3]))
"""

SERVER = """\
#!/bin/sh
exec {python} -c 'import socket, time
own = socket.create_server(("127.0.0.1", 5001))
time.sleep({seconds})
print("{said}")
raise SystemExit({code})'
"""


def _of_one_node(
    folder: Path,
    servers: Mapping[str, tuple[str, str]],
    programs: Mapping[str, str],
    changes: Sequence[Mapping[str, Any]] = (),
) -> tuple[dict[str, Any], Path]:
    """Do a trial of one node, whose flow lasts for 0.1 s, and return the result and its folder.

    Args:
        folder: Where to do it.
        servers: Program and `ready` of each server, by id.
        programs: Scripts that take the place of the host's programs, by name.
        changes: What events change at the node.
    """
    (own := folder / "bin").mkdir()
    for name, text in {"tc": "#!/bin/sh\n", **programs}.items():
        (own / name).write_text(text)
        (own / name).chmod(0o755)
    flow = {"flow": "a-0", "receiver": "rx", "port": 5001, "start": "0s", "seconds": 0.1, "close_s": 10}
    empty = ("modules", "links", "routes", "setup", "samplers", "readback", "expected")
    program = {
        **{key: [] for key in empty},
        "sysctls": {},
        "servers": [
            {"id": name, "argv": [tool], "output": f"{name}.json", "ready": ready}
            for name, (tool, ready) in servers.items()
        ],
        "changes": changes,
        "flows": [{**flow, "argv": ["true"], "output": "sender.json", "sampled": False}],
    }
    part = {"id": "t", "router": "rx", "meet": "127.0.0.1", "host_nodes": ["rx"], "ports": {}}
    plain = json.dumps({**part, "networks": {}, "programs": {"rx": program}})
    apart(TRIAL, folder / "state", plain, folder, path=f"{own}:{os.environ['PATH']}")
    result: dict[str, Any] = json.loads((folder / "rx.json").read_text())
    return result, folder / "raw" / "rx"


def test_a_receiver_may_end_as_late_as_its_sender_may(tmp_path: Path) -> None:
    """Over a path of 700 ms iperf3 ends five seconds after the planned end."""
    server = SERVER.format(python=sys.executable, seconds=3, said="whole", code=0)
    result, raw = _of_one_node(tmp_path, {"a-0": ("iperf3", "listens")}, {"iperf3": server})
    assert result["ok"], result["reason"]
    assert (raw / "a-0.json").read_text() == "whole\n"


def test_an_event_changes_all_ports_of_a_node_before_any_is_read_back(tmp_path: Path) -> None:
    """Each read-back is a process, and the ways there and back would change by its time apart."""
    changes = [
        {
            "event": "longer",
            "factor": "rtt",
            "at": "50ms",
            "commands": [["tc", "change", port]],
            "readback": {"argv": ["tc", "show", port], "output": f"event-{port}.json"},
        }
        for port in ("there", "back")
    ]
    tc = f'#!/bin/sh\necho "$*" | tee -a {tmp_path}/asked\n'
    result, raw = _of_one_node(tmp_path, {}, {"tc": tc}, changes)
    assert result["ok"], result["reason"]
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked[asked.index("change there") :] == ["change there", "change back", "show there", "show back"]
    assert (raw / "event-back.json").read_text() == "show back\n"
    taken = json.loads((raw / "events.json").read_text())
    assert [(one["event"], one["factor"]) for one in taken] == [("longer", "rtt")] * 2


def test_a_capture_that_ends_during_the_trial_is_a_failure(tmp_path: Path) -> None:
    """Its packets until then would be taken for all of the trial."""
    server = SERVER.format(python=sys.executable, seconds=0, said="whole", code=0)
    capture = "#!/bin/sh\necho header\nsleep 1\necho tcpdump: Unable to write output >&2\nexit 1\n"
    servers = {"a-0": ("iperf3", "at once"), "capture-net-rx": ("tcpdump", "captures")}
    result, _ = _of_one_node(tmp_path, servers, {"iperf3": server, "tcpdump": capture})
    assert not result["ok"]
    assert result["reason"] == (
        "capture-net-rx ended during the trial, with code 1: tcpdump: Unable to write output"
    )


SMALL_DISK = """\
import json, subprocess, sys

helper, state = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", state], check=True)

def ask(*words, given=None):
    argv, text = [sys.executable, helper, *words], json.dumps(given)
    return json.loads(subprocess.run(argv, input=text, stdout=subprocess.PIPE, text=True).stdout)

kinds = ("modules", "links", "routes", "setup", "samplers", "readback", "expected", "servers", "changes")
flow = {"flow": "a-0", "receiver": "rx", "port": 5001, "start": "0s", "seconds": 0.1, "close_s": 10}
flow |= {"argv": ["head", "-c", "700000", "/dev/urandom"], "output": "sender.json", "sampled": False}
program = {**{kind: [] for kind in kinds}, "sysctls": {}, "flows": [flow]}
part = {"owner": "me", "router": "rx", "meet": "127.0.0.1", "host_nodes": ["rx"], "ports": {}, "networks": {}}
part |= {"programs": {"rx": program}, "limit_s": 60}
for number in range(4):
    ask("launch", given={**part, "id": f"t.{number}"})
    ended = ask("wait", f"t.{number}", "60")
    print(ended["state"], ended["reason"])
"""


@pytest.mark.skipif(Path("/run/systemd/system").is_dir(), reason="systemd runs trials outside of namespaces")
def test_trials_that_have_ended_leave_room_for_the_next(tmp_path: Path) -> None:
    """The files of two of these trials fit on the disk."""
    assert apart(SMALL_DISK, tmp_path, tmp_path).splitlines() == ["ended "] * 4


def test_what_cannot_be_restored_keeps_nothing_else_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "SYSCTLS", tmp_path / "sys")
    monkeypatch.setattr(tuning, "STATE", tmp_path)
    (tmp_path / "sys" / "net").mkdir(parents=True)
    first, second = (tmp_path / "sys" / "net" / name for name in ("first", "second"))
    for file in (first, second):
        file.write_text("1\n")
    memory = tuning.Originals("tx")
    tuning.set_sysctls(memory, {"net.first": "2", "net.second": "2"})
    memory.save()
    first.unlink()
    first.symlink_to("/proc/version")  # which nobody can write
    for _ in range(2):
        with pytest.raises(system.Failed, match=r"^sysctl net\.first = 1: "):
            tuning.restore("tx")
        assert second.read_text() == "1"
    first.unlink()
    first.write_text("2")
    assert tuning.restore("tx") == ["sysctl net.first = 1"]
    assert not memory.path.exists()


def test_gro_that_is_off_is_off_in_hardware_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A virtual machine's interface goes on taking what its hypervisor has merged."""
    state = tmp_path / "state"
    state.write_text("generic-receive-offload: on\nrx-gro-hw: on\nlarge-receive-offload: off [fixed]\n")
    (ethtool := tmp_path / "ethtool").write_text(
        f'#!/bin/sh\n[ "$1" = -k ] || echo "$*" >> {tmp_path}/asked\ncat {state}\n'
    )
    ethtool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(tuning, "STATE", tmp_path)
    memory = tuning.Originals("router")
    wanted = [[name, False] for name in ("tso", "gso", "gro", "lro")]
    told = tuning._offloads(memory, "52:54:00:00:00:01", "eth1", wanted)
    assert told == ["eth1: gro off", "eth1: rx-gro-hw off"]
    assert (tmp_path / "asked").read_text().splitlines()[0] == "-K eth1 gro off rx-gro-hw off"
    assert memory.plain["offloads"] == {"52:54:00:00:00:01": {"gro": True, "rx-gro-hw": True}}


def test_reads_offloads() -> None:
    text = (CASES / "hostinfo/ethtool.txt").read_text(encoding="utf-8")
    found = tuning.offloads(text)
    assert found["tso"] == ("tcp-segmentation-offload: on" in text, True)
    assert found.keys() == {"tso", "gso", "gro", "lro", "rx-gro-hw"}


@pytest.fixture
def free_port(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        monkeypatch.setattr(meeting, "PORT", probe.getsockname()[1])


@pytest.mark.usefixtures("free_port")
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_nodes_start_at_one_instant(address: str) -> None:
    nodes = ["router", "tx", "rx"]
    keeper = meeting.Meeting("t-1", nodes, ipv6=tuning.is_ipv6(address))
    keeper.start()
    starts: dict[str, meeting.Start] = {}

    def attend(node: str) -> None:
        starts[node] = meeting.attend("t-1", node, address, same_clock=node == "rx")

    threads = [threading.Thread(target=attend, args=(node,)) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert starts.keys() == set(nodes)
    assert starts["rx"].offset_ns == 0
    on_keepers_clock = {start.at_ns + start.offset_ns for start in starts.values()}
    assert len(on_keepers_clock) == 1
    # one machine, one clock: the offset is wrong by at most half the round trip it was measured with
    assert all(abs(start.offset_ns) <= start.round_trip_ns / 2 for start in starts.values())


class _Path:
    """A path from 127.0.0.2 to the keeper, that delays packets by so many seconds there and back."""

    def __init__(self, there_s: float, back_s: float) -> None:
        import socket

        self.there_s, self.back_s = there_s, back_s
        self._near, self._far = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
        self._near.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._near.bind(("127.0.0.2", meeting.PORT))
        self._node = ("", 0)
        for carry in (self._there, self._back):
            threading.Thread(target=carry, daemon=True).start()

    def _there(self) -> None:
        while True:
            data, self._node = self._near.recvfrom(2048)
            to = ("127.0.0.1", meeting.PORT)
            threading.Timer(self.there_s, self._far.sendto, (data, to)).start()

    def _back(self) -> None:
        while True:
            data = self._far.recv(2048)
            threading.Timer(self.back_s, self._near.sendto, (data, self._node)).start()


@pytest.mark.usefixtures("free_port")
def test_nodes_meet_over_a_path_longer_than_the_wait_for_an_answer() -> None:
    """A cell's delay is in place when its nodes meet, and a request is sent every 0.1 s."""
    keeper = meeting.Meeting("t-7", ["tx"])
    keeper.start()
    _Path(0.15, 0.15)
    start = meeting.attend("t-7", "tx", "127.0.0.2")
    keeper.abort("over")
    assert start.round_trip_ns >= 0.3e9
    assert abs(start.offset_ns) <= start.round_trip_ns / 2


@pytest.mark.usefixtures("free_port")
def test_a_sender_that_delays_what_it_sends_starts_with_the_others() -> None:
    keeper = meeting.Meeting("t-8", ["tx"])
    keeper.start()
    path = _Path(0.0, 0.0)
    before = meeting.exchanged("t-8", "tx", "127.0.0.2")
    path.there_s = 0.8
    start = meeting.attend("t-8", "tx", "127.0.0.2", before=before)
    keeper.abort("over")
    # one machine, one clock: without `before` it would be half of the delay
    assert abs(start.offset_ns) <= start.round_trip_ns / 2 < 0.4e9


@pytest.mark.usefixtures("free_port")
def test_a_node_that_failed_keeps_the_others_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "_LINGER_S", 0.5)
    keeper = meeting.Meeting("t-2", ["router", "tx"])
    keeper.start()
    with pytest.raises(system.Failed) as told:
        meeting.attend("t-2", "tx", "127.0.0.1", failed="no sysctl x")
    with pytest.raises(system.Failed) as heard:
        meeting.attend("t-2", "router", "127.0.0.1")
    assert "tx: no sysctl x" in heard.value.reason
    assert heard.value.secondary
    assert told.value.secondary
    keeper.linger()
    assert not keeper.is_alive()


@pytest.mark.usefixtures("free_port")
def test_the_router_answers_from_the_address_that_was_asked() -> None:
    """Hosts that filter by the way back (rp_filter) or by connection drop what comes from another one."""
    import socket

    keeper = meeting.Meeting("t-4", ["router", "rx-l4s"])
    keeper.start()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.settimeout(120)
        own.sendto(
            json.dumps({"trial": "t-4", "node": "rx-l4s", "sent": 1}).encode(), ("127.0.0.2", meeting.PORT)
        )
        _, sender = own.recvfrom(2048)
    keeper.abort("over")
    assert sender[0] == "127.0.0.2"


@pytest.mark.usefixtures("free_port")
def test_a_start_that_is_near_is_kept_though_few_answers_came_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(meeting, "_EXCHANGES", 10**6)
    monkeypatch.setattr(meeting, "_SOON_NS", 10**12)
    start_ns = time.monotonic_ns() + 300 * 10**9
    keeper = meeting.Meeting("t-5", ["tx"])
    keeper._start_ns = start_ns
    keeper.start()
    start = meeting.attend("t-5", "tx", "127.0.0.1")
    keeper.abort("over")
    assert start.at_ns + start.offset_ns == start_ns
    assert abs(start.offset_ns) <= start.round_trip_ns / 2


@pytest.mark.usefixtures("free_port")
def test_the_start_is_put_off_for_a_node_that_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.setattr(meeting, "LEAD_S", 0.2)
    keeper = meeting.Meeting("t-6", ["router", "tx"])
    keeper.start()
    starts: dict[str, meeting.Start] = {}

    def attend(node: str) -> None:
        starts[node] = meeting.attend("t-6", node, "127.0.0.1")

    router = threading.Thread(target=attend, args=("router",))
    router.start()
    proposed: set[int] = set()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as paused:
        paused.settimeout(120)
        while len(proposed) < 3 or max(proposed) < time.monotonic_ns() + 100 * 10**9:
            # ready, but it repeats no start
            asked = {"trial": "t-6", "node": "tx", "sent": 1, "ready": True, "start": None}
            paused.sendto(json.dumps(asked).encode(), ("127.0.0.1", meeting.PORT))
            answer = json.loads(paused.recv(2048))
            assert not answer["agreed"]
            proposed |= {answer["start"]} - {None}
            if len(proposed) == 2:
                keeper._lead_ns = 300 * 10**9
    assert not starts
    attend("tx")
    router.join(300)
    instants = {start.at_ns + start.offset_ns for start in starts.values()}
    assert starts.keys() == {"router", "tx"}
    assert len(instants) == 1
    assert instants == {max(proposed)}
    keeper.abort("over")


@pytest.mark.usefixtures("free_port")
def test_waiting_in_vain_says_for_whom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "PATIENCE_S", 2.0)
    keeper = meeting.Meeting("t-3", ["router", "rx-l4s"])
    keeper.start()
    with pytest.raises(system.Failed, match=r"waited 2 s for rx-l4s"):
        meeting.attend("t-3", "router", "127.0.0.1")
    keeper.abort("over")
    with pytest.raises(system.Failed, match="does not answer"):
        meeting.attend("another trial", "router", "127.0.0.1")


def test_says_so_when_a_module_cannot_be_loaded() -> None:
    module = {"name": "l4sbench_no_such", "params": [["a", "1"]], "ours": True}
    part = {"host_nodes": ["tx"], "programs": {"tx": {"modules": [module]}}}
    with pytest.raises(system.Failed, match=r"module l4sbench_no_such.*prepare\.yml|not installed"):
        wiring.load_modules(part)


@given(st.sets(st.from_regex(r"[a-z][a-z0-9-]{0,14}", fullmatch=True), min_size=2, max_size=6))
def test_networks_of_a_host_have_bridges_and_links_of_their_own(networks: set[str]) -> None:
    """So do networks whose long names differ at their end only, and those that differ by `net-`."""
    networks |= {"net-bottleneck-1", "net-bottleneck-2", "net-a", "a"}
    names = [wiring.hub_names(networks, network) for network in networks]
    bridges, ends = zip(*names, strict=True)
    assert len({*bridges, *ends}) == 2 * len(networks)
    most_nodes = 100
    assert all(len(name) <= 15 for name in (*bridges, *(f"{end}-{most_nodes}" for end in ends)))
    assert all(system.is_made({"ifname": name}) for name in (*bridges, *ends))


class Turns(threading.Event):
    """An event that is set once it was waited for so many times, so after as many turns of a loop."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._left = number

    def wait(self, timeout: float | None = None) -> bool:
        self._left -= 1
        return self._left < 0 or super().wait(timeout)


def test_lateness_counts_every_instant_that_went_by(tmp_path: Path) -> None:
    out = tmp_path / "lateness.json"
    # it begins a second after the start instant: whatever was due in that second was up to a second late
    start_ns = time.monotonic_ns() - 1_000_000_000
    watch = lateness.Watch(out, start_ns)
    watch._over = Turns(3)
    watch.start()
    watch.join(300)
    told = json.loads(out.read_text())
    late_ms = told["late_ms"]
    assert len(late_ms) >= 21
    assert late_ms[0] >= 1000
    assert late_ms[:20] == sorted(late_ms[:20], reverse=True)
    assert min(late_ms) >= 0
    assert told["cpus"].keys() >= {"user", "idle", "steal"}
    assert told["seconds"] > 0


def test_a_trial_begins_without_the_sysctls_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "SYSCTLS", tmp_path / "sys")
    monkeypatch.setattr(tuning, "STATE", tmp_path)
    (tmp_path / "sys" / "net").mkdir(parents=True)
    files = {name: tmp_path / "sys" / "net" / name for name in ("version", "step")}
    for name, value in (("version", "v0.7"), ("step", "4")):
        files[name].write_text(value + "\n")

    def tuned(**wanted: str) -> list[str]:
        memory = tuning.Originals("tx", "l4sb-tx")
        changed = tuning.set_sysctls(memory, {f"net.{key}": value for key, value in wanted.items()})
        memory.save()
        return changed

    assert tuned(version="v0.6", step="100") == ["sysctl net.version = v0.6", "sysctl net.step = 100"]
    assert tuned(version="v0.6", step="100") == []
    # the next trial does not state the step: it is as before, and what may set others is written after it
    os.utime(files["version"], (0, 0))
    assert tuned(version="v0.6") == ["sysctl net.step = 4"]
    assert files["version"].stat().st_mtime > 0
    assert tuned() == ["sysctl net.version = v0.7"]
    with pytest.raises(
        system.Failed, match=r"this kernel has no sysctl net\.more; if a module of the catalog has it"
    ):
        tuned(more="1")


def test_a_host_that_forwards_ipv6_keeps_the_routes_that_others_advertise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "SYSCTLS", tmp_path / "sys")
    monkeypatch.setattr(tuning, "STATE", tmp_path)
    conf = tmp_path / "sys" / "net" / "ipv6" / "conf"
    for name, accepts in (("all", "1"), ("lo", "1"), ("eth0", "1"), ("eth1", "0"), ("eth2.7", "1")):
        (conf / name).mkdir(parents=True)
        for key, value in (("accept_ra", accepts), ("forwarding", "0"), ("disable_ipv6", "1")):
            (conf / name / key).write_text(f"{value}\n")

    def tuned(*, forwards: bool) -> list[str]:
        memory = tuning.Originals("router", None)
        own = tuning.ipv6_sysctls(["eth2.7"], memory, forwards=forwards)
        changed = tuning.set_sysctls(memory, {**own, **({tuning.FORWARDING_6: "1"} if forwards else {})})
        memory.save()
        return changed

    accepting = "sysctl net.ipv6.conf.eth0.accept_ra = 2"
    assert tuned(forwards=True) == [
        "sysctl net.ipv6.conf.eth2/7.disable_ipv6 = 0",
        "sysctl net.ipv6.conf.eth2/7.accept_ra = 0",
        accepting,
        "sysctl net.ipv6.conf.all.forwarding = 1",
    ]
    assert (conf / "eth2.7" / "accept_ra").read_text() == "0"
    assert tuned(forwards=True) == []
    assert accepting.replace("2", "1") in tuned(forwards=False)
    assert (conf / "eth0" / "accept_ra").read_text() == "1"
    tuning.restore("router")
    assert [(conf / name / "accept_ra").read_text().strip() for name in ("eth0", "eth1", "eth2.7")] == [
        "1",
        "0",
        "1",
    ]
    assert (conf / "all" / "forwarding").read_text().strip() == "0"


def test_counters_that_tc_does_not_know_are_read_from_the_kernels_structure() -> None:
    layout = [["longest", "u32"], ["marks", "u64"], ["share", "share32"], ["less", "s32"]]
    data = struct.pack("@IQIi", 7, 2**40, 2**32 - 1, -3)
    assert counters.decode(layout, data) == {"longest": 7, "marks": 2**40, "share": 1.0, "less": -3}
    # an older kernel's structure is shorter
    assert counters.decode(layout, data[:16]) == {"longest": 7, "marks": 2**40}
    assert counters.decode(layout, b"") == {}
    # a sample that needs nothing stays as it is
    shown = '@ 1.000\n[{"kind": "codel", "handle": "3:", "ecn_mark": 1}]\n'
    assert counters.completed(lambda _: shown, "lo", {"codel": [["ecn_mark", "u32"]]})(1.0) == shown


@pytest.mark.parametrize(
    "key", ["kernel.core_pattern", "net./../kernel.core_pattern", "net..ipv4", "net", "net/core", "vm.net.x"]
)
def test_no_sysctl_but_the_networks_is_read_or_written(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "SYSCTLS", tmp_path)
    monkeypatch.setattr(tuning, "STATE", tmp_path)
    (tmp_path / "kernel").mkdir()
    (tmp_path / "net").mkdir()
    (tmp_path / "kernel" / "core_pattern").write_text("core")
    with pytest.raises(system.Failed, match=r"is not a sysctl below net\."):
        tuning.set_sysctls(tuning.Originals("tx"), {key: "|/tmp/x"})
    assert (tmp_path / "kernel" / "core_pattern").read_text() == "core"


def test_a_gap_of_a_millisecond_is_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the instants that it covers are left out."""
    now_ns = 10**9
    late_us = iter([0, 0, 899, 0, 900, 0, 20_000])

    def sleep(seconds: float) -> None:
        nonlocal now_ns
        now_ns += round(seconds * 1e9) + next(late_us, 0) * 1000

    monkeypatch.setattr(pauses, "time", SimpleNamespace(sleep=sleep, monotonic_ns=lambda: now_ns))
    found = pauses.pauses(0.05)
    assert (found["pauses"], found["sizes_ms"]) == (2, [1.0, 20.1])


@pytest.mark.parametrize(
    ("value", "wanted"), [(b"\x06\0\0\0\x01", True), (b"\x06\0\0\0\0", False), (b"", False), (None, False)]
)
def test_secure_boot_is_read_from_the_firmware(tmp_path: Path, value: bytes | None, wanted: bool) -> None:
    if value is not None:
        (tmp_path / "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c").write_bytes(value)
    assert facts.secure_boot(tmp_path) is wanted


MODINFO = """\
filename:       {file}
description:    Network characteristics emulator qdisc
license:        GPL
depends:
intree:         Y
name:           sch_netem
retpoline:      Y
vermagic:       7.3.4-l4sbench SMP preempt mod_unload
"""
"""As modinfo prints a module of a kernel that was built without CONFIG_MODULE_SRCVERSION_ALL."""


def test_a_module_without_a_source_version_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (file := tmp_path / "sch_netem.ko.xz").write_bytes(b"code")
    (tmp_path / "printed").write_text(MODINFO.format(file=file))
    (script := tmp_path / "modinfo").write_text(f"#!/bin/sh\ncat {tmp_path}/printed\n")
    script.chmod(0o755)
    found = facts.module("sch_netem", "7.3.4-l4sbench")
    assert found is not None
    assert (found["file"], found["state"], len(found["srcversion"])) == (str(file), "there", 24)
    file.write_bytes(b"other code")
    other = facts.module("sch_netem", "7.3.4-l4sbench")
    assert other is not None
    assert other["srcversion"] != found["srcversion"]
    (tmp_path / "printed").write_text(MODINFO.format(file="(builtin)"))
    assert facts.module("sch_netem", "7.3.4-l4sbench") is None


@pytest.mark.parametrize(
    ("file", "version"),
    [
        ("/lib/modules/7.3.4/updates/dkms/tcp_prague.ko.xz", "NEW"),
        ("/var/lib/l4sbench/modules/7.3.4/tcp_prague.ko", "NEW"),
        ("/lib/modules/7.3.4/kernel/net/ipv4/tcp_prague.ko", "OLD"),
    ],
)
def test_of_a_module_that_was_brought_the_file_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, version: str
) -> None:
    """A trial loads it again, but nothing of the distribution's, which may be newer than what runs."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (script := tmp_path / "modinfo").write_text(f"#!/bin/sh\necho 'filename: {file}\nsrcversion: NEW'\n")
    script.chmod(0o755)
    monkeypatch.setattr(facts, "read_text", lambda _: "OLD")
    found = facts.module("tcp_prague", "7.3.4")
    assert found is not None
    assert found["srcversion"] == version
