# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Every way in which an apparatus can be wrong makes a trial invalid, with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from collectors.flows import read_flows
from collectors.trialrows import rows_of
from l4sbench.program import Readback
from l4sbench.text.units import Duration
from tests.unit.collectors.conftest import Load


@pytest.mark.parametrize("name", ["lean-dualpi2", "lean-codel-warmup", "iperf3-fifo"])
def test_real_trials_are_ok(captured: Load, name: str) -> None:
    assert captured(name).faults() == []


@pytest.mark.parametrize(
    ("file", "change", "fault"),
    [
        (
            "tx-l4s/flow-l4s-0.sender.json",
            lambda sent: sent["ecn"].update(mode="rfc3168"),
            "l4s-0 ecn sender classic accecn",
        ),
        (
            "rx-classic/flow-classic-0.receiver.json",
            lambda got: got["ecn"].update(mode="rfc3168"),
            "classic-0 ecn receiver classic off",
        ),
        ("tx-l4s/flow-l4s-0.sender.json", lambda sent: sent.update(cc="reno"), "l4s-0 cc reno prague"),
        (
            "router/qdisc-net-rx.json",
            lambda qdiscs: qdiscs[1]["options"].update(target=15000),
            "router differs dualpi2 at net-rx: options.target is 15000, not 5000",
        ),
        (
            "tx-l4s/flow-l4s-0.sender.json",
            lambda sent: sent["intervals"].pop(),
            "l4s-0 ended-early sender 2 3",
        ),
        (
            "rx-l4s/flow-l4s-0.receiver.json",
            lambda got: got["intervals"].pop(),
            "l4s-0 ended-early receiver 2 3",
        ),
        ("rx-l4s/flow-l4s-0.receiver.json", lambda got: got.update(bytes_received=0), "l4s-0 no-data"),
        ("delay/qdisc-net-mid.json", lambda qdiscs: qdiscs[0].update(drops=3), "delay drops 3 net-mid"),
    ],
)
def test_what_was_otherwise_than_asked(
    captured: Load, file: str, change: Callable[[Any], None], fault: str
) -> None:
    trial = captured("lean-dualpi2")
    trial.edit(file, change)
    assert trial.faults() == [fault]


def test_ecn_of_iperf3_is_seen_in_its_socket(captured: Load) -> None:
    trial = captured("iperf3-fifo")
    path = trial.raw / "sockets.jsonl"
    path.write_text(path.read_text().replace('"ecn_mode":2', '"ecn_mode":1'))
    assert trial.faults() == [f"l4s-0 ecn {side} classic accecn" for side in ("sender", "receiver")]
    path.unlink()
    assert {"l4s-0 ecn-unknown", "l4s-0 limits-unknown"} <= set(trial.faults())


def test_what_replaces_a_control_that_cannot_run_is_no_fault(captured: Load) -> None:
    trial = captured("lean-dualpi2")
    trial.edit("tx-l4s/flow-l4s-0.sender.json", lambda found: found.update(cc="prague-reno"))
    assert trial.faults() == ["l4s-0 cc prague-reno prague"]
    program = trial.programs["tx-l4s"]
    without = replace(program, flows=(replace(program.flows[0], ecn="classic"),))
    other = replace(trial, programs={**trial.programs, "tx-l4s": without})
    assert other.faults() == [f"l4s-0 ecn {side} accecn classic" for side in ("sender", "receiver")]
    other.edit("tx-l4s/flow-l4s-0.sender.json", lambda found: found["ecn"].update(mode="off"))
    assert other.faults() == ["l4s-0 ecn receiver accecn classic"]


def test_a_queue_that_was_not_read_back(captured: Load) -> None:
    trial = captured("lean-dualpi2")
    (trial.raw / "router/qdisc-net-rx.json").unlink()
    assert "router not-read-back dualpi2 at net-rx" in trial.faults()


def test_a_flow_that_failed(captured: Load) -> None:
    trial = captured("lean-dualpi2")
    (trial.raw / "tx-l4s/flow-l4s-0.sender.json").write_text("")
    (trial.raw / "rx-classic/flow-classic-0.receiver.json").unlink()
    assert trial.faults() == ["classic-0 result receiver is missing", "l4s-0 result sender is empty"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[" * 100_000 + "]" * 100_000, "is nested too deeply"),
        ('{"role": "sender", "seconds": ' + "1" * 5000 + "}", "has a whole number of thousands of digits"),
        (
            '{"start": [], "intervals": [], "end": {"sum_received": {}}}',
            "lacks a field of every result: AttributeError 'list' object has no attribute 'get'",
        ),
        (
            '{"role": "counter", "payload": 1, "seconds": 1, "packets_received": [], "intervals": []}',
            "lacks a field of every result: AttributeError 'list' object has no attribute 'values'",
        ),
        (
            '{"role": "receiver", "seconds": ' + "1" * 400 + "}",
            "lacks a field of every result: OverflowError int too large to convert to float",
        ),
    ],
)
def test_a_result_of_another_form_is_that_of_its_flow_alone(captured: Load, text: str, problem: str) -> None:
    trial = captured("lean-dualpi2")
    (trial.raw / "tx-l4s/flow-l4s-0.sender.json").write_text(text)
    assert trial.faults() == [f"l4s-0 result sender {problem}"]
    assert [flow.sender is None for flow in read_flows(trial.programs, trial.raw)] == [False, True]


def flags(trial: Any) -> list[str]:
    frames, problems = rows_of(trial.ended)
    assert not problems
    return frames["trials"]["flags"].to_list()[0] or []


LIMITS = [("rwnd_limited", "its receiver's window"), ("sndbuf_limited", "its send buffer")]


def limit(trial: Any, field: str, until_ms: Mapping[float, float], busy_ms: float = 1000.0) -> None:
    """Make a flow limited for so many ms in all up to each time, in its samples and in the end."""
    ends = {"busy_us": int(busy_ms * 1000), f"{field}_us": int(max(until_ms.values()) * 1000)}
    trial.edit("tx-l4s/flow-l4s-0.sender.json", lambda sender: sender.update(ends))
    path = trial.raw / "sockets.jsonl"
    samples = [json.loads(line) for line in path.read_text().splitlines()]
    last_ms = max(sample["t_ms"] for sample in samples if "t_ms" in sample)
    for sample in samples:
        if sample.get("node") == "tx-l4s" and "busy_time" in sample:
            known = [ms for at, ms in until_ms.items() if at <= sample["t_ms"]]
            sample["busy_time"] = int(busy_ms * 1000 * min(1.0, max(0.0, sample["t_ms"] / last_ms)))
            sample[field] = int(max(known, default=0.0) * 1000)
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))


@pytest.mark.parametrize(("field", "by"), LIMITS)
def test_a_flow_limited_by_its_host(captured: Load, field: str, by: str) -> None:
    trial = captured("lean-dualpi2")
    limit(trial, field, {2500: 10.0})
    assert trial.faults() == [], "1 % is allowed"
    limit(trial, field, {2500: 10.1})
    assert trial.faults() == [f"l4s-0 limited {by} 0.0101"]


@pytest.mark.parametrize(("field", "by"), LIMITS)
def test_a_flow_limited_at_its_start_alone_is_flagged(captured: Load, field: str, by: str) -> None:
    trial = captured("lean-dualpi2")
    limit(trial, field, {0: 9.0})
    assert "limited-start" not in flags(trial)
    limit(trial, field, {0: 19.0})
    assert trial.faults() == []
    assert "limited-start" in flags(trial)
    limit(trial, field, {0: 21.0})
    assert trial.faults() == [f"l4s-0 limited {by} 0.021"]


def test_the_start_is_longer_on_a_longer_path(captured: Load) -> None:
    trial = captured("lean-dualpi2")
    limit(trial, "rwnd_limited", {2000: 19.0})
    assert trial.faults() == ["l4s-0 limited its receiver's window 0.019"]
    longer = trial.having(rtt="40ms")
    assert not [fault for fault in longer.faults() if "limited" in fault]


def test_a_flow_limited_before_the_measured_time_is_not(captured: Load) -> None:
    trial = captured("lean-dualpi2")
    limit(trial, "rwnd_limited", {0: 300.0})
    assert trial.faults() == ["l4s-0 limited its receiver's window 0.3"]
    warm = trial.having(warmup="2s")
    assert warm.faults() == []
    assert "limited-start" not in flags(warm)


def begun_later(trial: Any, by_ms: int) -> Any:
    """Return the trial as if all flows had started so much later."""
    path = trial.raw / "sockets.jsonl"
    samples = [json.loads(line) for line in path.read_text().splitlines()]
    later = [sample | {"t_ms": sample["t_ms"] + by_ms} for sample in samples]
    path.write_text("".join(json.dumps(sample) + "\n" for sample in later))
    programs = {
        node: replace(
            program,
            flows=tuple(
                replace(run, start=Duration(run.start.ns + by_ms * 1_000_000)) for run in program.flows
            ),
        )
        for node, program in trial.programs.items()
    }
    return replace(trial, programs=programs)


def test_the_warmup_of_a_flow_that_starts_late_begins_with_the_flow(captured: Load) -> None:
    trial = captured("lean-dualpi2")
    limit(trial, "rwnd_limited", {0: 300.0})
    late = begun_later(trial.having(warmup="2s"), 20_000)
    assert late.faults() == []
    assert "limited-start" not in flags(late)


def idle(trial: Any) -> None:
    """Make the bottleneck's queue look as if it never had anything to do."""

    def change(qdiscs: Any) -> None:
        for qdisc in qdiscs:
            for name in ("drops", "ecn-mark", "step-mark"):
                qdisc.pop(name, None)

    trial.edit("router/qdisc-net-rx.json", change)
    path = trial.raw / "queues.jsonl"
    samples = [json.loads(line) for line in path.read_text().splitlines()]
    quiet = {"qlen": 1, "drops": 0, "ecn-mark": 0, "step-mark": 0}
    path.write_text("".join(json.dumps(sample | quiet) + "\n" for sample in samples))


def test_a_bottleneck_that_was_none(captured: Load) -> None:
    trial = captured("lean-dualpi2")
    idle(trial)
    assert trial.faults() == ["router idle-queue net-rx"]
    assert trial.having(expect__bottleneck=False).faults() == []


def test_a_queue_of_two_packets_is_one(captured: Load) -> None:
    trial = captured("lean-dualpi2")
    idle(trial)
    path = trial.raw / "queues.jsonl"
    path.write_text(path.read_text().replace('"qlen": 1', '"qlen": 2', 2))
    assert trial.faults() == []


@pytest.mark.parametrize(("cells", "queued"), [(19, False), (38, True)])
def test_a_switch_counts_cells_instead_of_packets(captured: Load, cells: int, queued: bool) -> None:
    trial = captured("lean-dualpi2")
    idle(trial)
    (trial.raw / "queues.jsonl").unlink()
    sample = {"kind": "ncf", "handle": "0:", "bytes": 0, "packets": 0, "drops": 0, "backlog": cells * 80}
    (trial.raw / "router/tc-net-rx.txt").write_text(f"@ 100.000\n{json.dumps([sample])}\n")
    program = trial.programs["router"]
    control = Readback("switch", ("control.py", "show", "--json"), "switch.json")
    queues = tuple(one for one in program.samplers if one.kind == "queues")
    trial.programs["router"] = replace(program, links=(), readback=(control,), expected=(), samplers=queues)
    assert trial.faults() == ([] if queued else ["router idle-queue net-rx"])


def test_offloads_and_sysctls_of_a_real_host(captured: Load) -> None:
    trial = captured("lean-dualpi2")
    (trial.raw / "router/offloads.txt").write_text("Features for eth1:\ngeneric-segmentation-offload: on\n")
    (trial.raw / "tx-l4s/sysctls.txt").write_text("net.ipv4.tcp_ecn = 2\n")
    offloads = Readback("offloads", ("ethtool", "-k", "@net-rx"), "offloads.txt", host=True)
    sysctls = Readback("sysctls", ("sysctl", "net.ipv4.tcp_ecn"), "sysctls.txt", host=True)
    for node, reading in (("router", offloads), ("tx-l4s", sysctls)):
        program = trial.programs[node]
        trial.programs[node] = replace(program, readback=(*program.readback, reading))
    assert trial.faults() == ["tx-l4s sysctl net.ipv4.tcp_ecn 2 3", "router offload gso on net-rx"]


def test_damaged_samples(captured: Load) -> None:
    trial = captured("iperf3-fifo")
    path = trial.raw / "sockets.jsonl"
    path.write_text(path.read_text()[:-30])
    (fault,) = trial.faults()
    assert fault.startswith("raw sockets.jsonl: ")


@pytest.mark.parametrize(
    ("file", "most_mb", "fault"),
    [
        ("tx-l4s/flow-l4s-0.sender.json", 64, "l4s-0 result sender (flow-l4s-0.sender.json)"),
        ("router/qdisc-net-rx.json", 64, "raw router/qdisc-net-rx.json"),
        ("host.json", 64, "raw host.json"),
        ("router/lateness.json", 64, "raw router/lateness.json"),
        ("sockets.jsonl", 2048, "raw sockets.jsonl"),
        ("tx-l4s/ss.txt", 2048, "raw ss.txt"),
    ],
)
def test_files_that_are_too_large_are_not_read(captured: Load, file: str, most_mb: int, fault: str) -> None:
    """They take no room on a disk, and none in a bundle."""
    trial = captured("iperf3-fifo" if file == "tx-l4s/ss.txt" else "lean-dualpi2")
    if file == "tx-l4s/ss.txt":
        (trial.raw / "sockets.jsonl").unlink()
    with (trial.raw / file).open("wb") as sparse:
        sparse.truncate((most_mb << 20) + 1)
    assert f"{fault} is larger than {most_mb} MB" in trial.faults()


@pytest.mark.parametrize(("number", "faulty", "valid"), [(20, 1, True), (19, 1, False), (40, 3, False)])
def test_few_of_many_flows_may_fail(captured: Load, number: int, faulty: int, valid: bool) -> None:
    trial = captured("lean-dualpi2").with_classic_flows(number)
    for index in range(faulty):
        trial.edit(f"tx-classic/flow-classic-{index}.sender.json", lambda s: s["ecn"].update(mode="rfc3168"))
    expected = [f"classic-{index} ecn sender classic off" for index in range(faulty)]
    assert trial.faults() == ([] if valid else expected)
