# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Every way in which an apparatus can be wrong makes a trial invalid, with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from collectors.assemble import rows_of
from l4sbench.events import Status
from l4sbench.faults import FaultKind, stored_fault
from l4sbench.program import Readback

Load = Callable[[str], Any]


def reasons(trial: Any) -> tuple[str, ...]:
    judged = trial.judged()
    assert (judged.status is Status.INVALID) == bool(judged.reasons)
    assert FaultKind.OTHER not in {fault.kind for fault in judged.faults}
    for fault in judged.faults:
        plain = json.loads(json.dumps(fault.to_json()))
        assert stored_fault("", plain["kind"], plain["at"], plain["facts"]) == fault
    return tuple(judged.reasons)


@pytest.mark.parametrize("name", ["lean-dualpi2", "lean-codel-warmup", "iperf3-fifo"])
def test_real_trials_are_ok(captured: Load, name: str) -> None:
    assert reasons(captured(name)) == ()


def test_ecn_otherwise_than_asked(captured: Load) -> None:
    trial = captured("lean-dualpi2")
    trial.edit("tx-l4s/flow-l4s-0.sender.json", lambda sender: sender["ecn"].update(mode="rfc3168"))
    assert reasons(trial) == ("l4s-0: the sender negotiated ECN classic, not accecn",)


def test_ecn_where_none_was_asked(captured: Load) -> None:
    trial = captured("lean-dualpi2")
    trial.edit("rx-classic/flow-classic-0.receiver.json", lambda r: r["ecn"].update(mode="rfc3168"))
    assert reasons(trial) == ("classic-0: the receiver negotiated ECN classic, not off",)


def test_ecn_of_iperf3_is_seen_in_its_socket(captured: Load) -> None:
    trial = captured("iperf3-fifo")
    path = trial.raw / "sockets.jsonl"
    path.write_text(path.read_text().replace('"ecn_mode":2', '"ecn_mode":1'))
    assert reasons(trial) == (
        "l4s-0: the sender negotiated ECN classic, not accecn",
        "l4s-0: the receiver negotiated ECN classic, not accecn",
    )
    path.unlink()
    told = reasons(trial)
    assert "l4s-0: no file has the negotiated ECN" in told
    assert "l4s-0: no file has the time for which it was limited" in told


def test_another_congestion_control(captured: Load) -> None:
    trial = captured("lean-dualpi2")
    trial.edit("tx-l4s/flow-l4s-0.sender.json", lambda sender: sender.update(cc="reno"))
    assert reasons(trial) == ("l4s-0: ran reno, not prague",)


def test_a_queue_set_otherwise(captured: Load) -> None:
    def change(qdiscs: Any) -> None:
        qdiscs[1]["options"]["target"] = 15000

    trial = captured("lean-dualpi2")
    trial.edit("router/qdisc-net-rx.json", change)
    (reason,) = reasons(trial)
    assert "router: dualpi2 at net-rx" in reason
    assert "15000" in reason


def test_a_queue_that_was_not_read_back(captured: Load) -> None:
    trial = captured("lean-dualpi2")
    (trial.raw / "router/qdisc-net-rx.json").unlink()
    assert any("not read back" in reason for reason in reasons(trial))


@pytest.mark.parametrize("side", ["sender", "receiver"])
def test_a_flow_that_ended_early(captured: Load, side: str) -> None:
    trial = captured("lean-dualpi2")
    node = "tx-l4s" if side == "sender" else "rx-l4s"
    trial.edit(f"{node}/flow-l4s-0.{side}.json", lambda result: result["intervals"].pop())
    assert reasons(trial) == (f"l4s-0: the {side} ran 2 s of 3 s",)


def test_a_flow_that_failed(captured: Load) -> None:
    trial = captured("lean-dualpi2")
    (trial.raw / "tx-l4s/flow-l4s-0.sender.json").write_text("")
    (trial.raw / "rx-classic/flow-classic-0.receiver.json").unlink()
    assert reasons(trial) == (
        "classic-0: the receiver's result is missing",
        "l4s-0: the sender's result is empty",
    )


def test_a_flow_that_carried_nothing(captured: Load) -> None:
    def change(receiver: Any) -> None:
        receiver["bytes_received"] = 0

    trial = captured("lean-dualpi2")
    trial.edit("rx-l4s/flow-l4s-0.receiver.json", change)
    assert reasons(trial) == ("l4s-0: no data arrived",)


def test_drops_elsewhere(captured: Load) -> None:
    def change(qdiscs: Any) -> None:
        qdiscs[0]["drops"] = 3

    trial = captured("lean-dualpi2")
    trial.edit("delay/qdisc-net-mid.json", change)
    assert reasons(trial) == ("delay: 3 packets dropped at net-mid, which is not the bottleneck",)


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
    assert reasons(trial) == (), "1 % is allowed"
    limit(trial, field, {2500: 10.1})
    assert reasons(trial) == (f"l4s-0: limited by {by} for 1.0% of its busy time",)


@pytest.mark.parametrize(("field", "by"), LIMITS)
def test_a_flow_limited_at_its_start_alone_is_flagged(captured: Load, field: str, by: str) -> None:
    trial = captured("lean-dualpi2")
    limit(trial, field, {0: 9.0})
    assert "limited-start" not in flags(trial)
    limit(trial, field, {0: 19.0})
    assert reasons(trial) == ()
    assert "limited-start" in flags(trial)
    limit(trial, field, {0: 21.0})
    assert reasons(trial) == (f"l4s-0: limited by {by} for 2.1% of its busy time",)


def test_the_start_is_longer_on_a_longer_path(captured: Load) -> None:
    trial = captured("lean-dualpi2")
    limit(trial, "rwnd_limited", {2000: 19.0})
    assert reasons(trial) == ("l4s-0: limited by its receiver's window for 1.9% of its busy time",)
    longer = trial.having(rtt="40ms")
    assert not [reason for reason in reasons(longer) if "limited" in reason]


def test_a_flow_limited_before_the_measured_time_is_not(captured: Load) -> None:
    trial = captured("lean-dualpi2")
    limit(trial, "rwnd_limited", {0: 300.0})
    assert reasons(trial) == ("l4s-0: limited by its receiver's window for 30.0% of its busy time",)
    warm = trial.having(warmup="2s")
    assert reasons(warm) == ()
    assert "limited-start" not in flags(warm)


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
    assert reasons(trial) == ("router: the queue at net-rx never queued, marked or dropped",)
    assert reasons(trial.having(expect__bottleneck=False)) == ()


def test_a_queue_of_two_packets_is_one(captured: Load) -> None:
    trial = captured("lean-dualpi2")
    idle(trial)
    path = trial.raw / "queues.jsonl"
    path.write_text(path.read_text().replace('"qlen": 1', '"qlen": 2', 2))
    assert reasons(trial) == ()


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
    nothing = "router: the queue at net-rx never queued, marked or dropped"
    assert reasons(trial) == (() if queued else (nothing,))


def test_offloads_and_sysctls_of_a_real_host(captured: Load) -> None:
    trial = captured("lean-dualpi2")
    (trial.raw / "router/offloads.txt").write_text("Features for eth1:\ngeneric-segmentation-offload: on\n")
    (trial.raw / "tx-l4s/sysctls.txt").write_text("net.ipv4.tcp_ecn = 2\n")
    offloads = Readback("offloads", ("ethtool", "-k", "@net-rx"), "offloads.txt", host=True)
    sysctls = Readback("sysctls", ("sysctl", "net.ipv4.tcp_ecn"), "sysctls.txt", host=True)
    for node, reading in (("router", offloads), ("tx-l4s", sysctls)):
        program = trial.programs[node]
        trial.programs[node] = replace(program, readback=(*program.readback, reading))
    assert reasons(trial) == (
        "tx-l4s: net.ipv4.tcp_ecn is 2, not 3",
        "router: gso is on at net-rx",
    )


def test_damaged_samples(captured: Load) -> None:
    trial = captured("iperf3-fifo")
    path = trial.raw / "sockets.jsonl"
    path.write_text(path.read_text()[:-30])
    (reason,) = reasons(trial)
    assert "sockets.jsonl" in reason


def many(trial: Any, number: int) -> Any:
    """The trial with `number` CUBIC flows in place of one, all with its results."""
    (run,) = trial.programs["tx-classic"].flows
    (server,) = trial.programs["rx-classic"].servers
    runs, servers = [], []
    for index in range(number):
        name = f"classic-{index}"
        output = f"flow-{name}.sender.json"
        runs.append(replace(run, flow=name, index=index, output=output, port=6000 + index))
        servers.append(replace(server, id=name, output=f"flow-{name}.receiver.json"))
        for node, end in (("tx-classic", "sender"), ("rx-classic", "receiver")):
            text = (trial.raw / node / f"flow-classic-0.{end}.json").read_text()
            (trial.raw / node / f"flow-{name}.{end}.json").write_text(text)
    sender = replace(trial.programs["tx-classic"], flows=tuple(runs))
    receiver = replace(trial.programs["rx-classic"], servers=tuple(servers))
    return replace(trial, programs={**trial.programs, "tx-classic": sender, "rx-classic": receiver})


@pytest.mark.parametrize(("number", "faulty", "valid"), [(20, 1, True), (19, 1, False), (40, 3, False)])
def test_few_of_many_flows_may_fail(captured: Load, number: int, faulty: int, valid: bool) -> None:
    trial = many(captured("lean-dualpi2"), number)
    for index in range(faulty):
        trial.edit(f"tx-classic/flow-classic-{index}.sender.json", lambda s: s["ecn"].update(mode="rfc3168"))
    expected = tuple(
        f"classic-{index}: the sender negotiated ECN classic, not off" for index in range(faulty)
    )
    assert reasons(trial) == (() if valid else expected)
