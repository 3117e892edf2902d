# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The virtual testbed as a whole: equal trials are equal to the byte, and what goes wrong has a reason."""

import gzip
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from l4sbench.app import api
from l4sbench.app.public import figures
from l4sbench.catalog import Catalog
from l4sbench.engine.testbed import TrialStopped
from l4sbench.errors import TrialFailed
from l4sbench.facts.events import Status
from l4sbench.program import Command
from l4sbench.program.trial import TrialSpec
from l4sbench.testbeds.virtual.lab import Lab
from l4sbench.testbeds.virtual.testbed import VirtualTestbed
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.lab

MATRIX = """\
matrix: {name}
topology: line6
rate: {rate}
rtt: 10ms
duration: {duration}
trials: {trials}
seed: {seed}
flows:
  l4s:     {{cc: prague}}
  classic: {{cc: cubic}}
axes:
{axes}
"""

TWO_QUEUES = "  aqm: [codel, dualpi2]"


def write_matrix(folder: Path, axes: str = TWO_QUEUES, **values: object) -> Path:
    settings = {"name": "m", "rate": "50mbit", "duration": "4s", "trials": 2, "seed": 1} | values
    path = folder / f"{settings['name']}.yaml"
    path.write_text(MATRIX.format(axes=axes, **settings), encoding="utf-8")
    return path


def run(matrix: Path, runs: Path, jobs: int = 2) -> Path:
    ended = api.run(matrix, jobs=jobs, runs=runs)
    assert not ended.problems
    assert ended.result.failed == 0
    return ended.path


def table(path: Path, name: str) -> bytes:
    return (path / "tables" / f"{name}.parquet").read_bytes()


def test_every_queue_of_the_catalog_runs(lab: Lab, tmp_path: Path) -> None:
    """The kernel takes and reads back what each queue asks for, and what it exports reaches the tables."""
    queues = Catalog.load().queues
    axes = f"  aqm: [{', '.join(queues)}]"
    tables = api.load(run(write_matrix(tmp_path, axes, trials=1, duration="2s"), tmp_path / "runs"))
    assert dict(tables.trials.select("aqm", "status").iter_rows()) == dict.fromkeys(queues, "ok")
    sampled = tables.queues.join(tables.trials.select("cell", "trial", "aqm"), on=["cell", "trial"])
    for name, queue in queues.items():
        for column in queue.exports.columns if queue.exports else ():
            assert sampled.filter(aqm=name)[column.name].is_not_null().any(), f"{name}: {column.name}"
    assert sampled.filter(aqm="fq-pie")["flows"].max() == 2


def test_equal_seeds_give_equal_tables_at_any_number_of_jobs(lab: Lab, tmp_path: Path) -> None:
    matrix = write_matrix(tmp_path)
    first = run(matrix, tmp_path / "first", jobs=1)
    second = run(matrix, tmp_path / "second", jobs=3)
    for name in ("trials", "flows", "intervals", "sockets", "queues"):
        assert table(first, name) == table(second, name), name


def test_another_seed_gives_other_results(lab: Lab, tmp_path: Path) -> None:
    one = api.load(run(write_matrix(tmp_path, trials=1), tmp_path / "one")).flows
    two = api.load(run(write_matrix(tmp_path, trials=1, seed=2), tmp_path / "two")).flows
    assert one.shape == two.shape
    assert not one["goodput_mbps"].equals(two["goodput_mbps"])


def test_trials_of_a_cell_differ(lab: Lab, tmp_path: Path) -> None:
    flows = api.load(run(write_matrix(tmp_path, trials=3), tmp_path / "runs")).flows
    per_cell = flows.group_by("cell", "flow").agg(pl.col("goodput_mbps").n_unique())
    assert per_cell["goodput_mbps"].to_list() == [3] * 4


@pytest.mark.long
def test_how_often_is_sampled_matters_less_than_the_seed(lab: Lab, tmp_path: Path) -> None:
    axes = "  aqm: [fifo, dualpi2]\n  sample.interval: [10ms, 100ms, 1s]"
    matrix = write_matrix(tmp_path, axes, rate="100mbit", duration="10s", trials=3)
    tables = api.load(run(matrix, tmp_path / "runs"))
    cells = tables.trials.select("cell", "trial", "aqm", "sample.interval_ms")
    prague = tables.flows.filter(pl.col("group") == "l4s").join(cells, on=["cell", "trial"])
    for (aqm,), rows in prague.group_by("aqm"):
        means = rows.group_by("sample.interval_ms").agg(pl.col("goodput_mbps").mean())["goodput_mbps"]
        seeds = rows.group_by("sample.interval_ms").agg(
            pl.col("goodput_mbps").max() - pl.col("goodput_mbps").min()
        )["goodput_mbps"]
        assert len(means) == 3
        assert means.max() - means.min() < seeds.max(), aqm  # type: ignore[operator]


def spec_of(tmp_path: Path, *setup: Command, wall_limit_s: float = PATIENCE_S) -> TrialSpec:
    """One short trial whose router runs `setup` before everything else it sets up."""
    cell, shape, programs = api.programs_of(write_matrix(tmp_path), ["aqm=codel"])
    router = programs["router"]
    programs = {**programs, "router": replace(router, setup=(*setup, *router.setup))}
    return TrialSpec(cell, 1, 1, programs, shape, "digest", wall_limit_s)


def failure(lab: Lab, spec: TrialSpec, tmp_path: Path) -> tuple[str, Path]:
    raw = tmp_path / "raw"
    raw.mkdir()
    with pytest.raises(TrialFailed) as error:
        VirtualTestbed(lab, Catalog.load()).run(spec, raw, threading.Event())
    assert (raw / "console.log").is_file()
    return error.value.message, raw


def test_a_failing_command_is_the_reason(lab: Lab, tmp_path: Path) -> None:
    spec = spec_of(tmp_path, Command(("tc", "qdisc", "add", "dev", "@net-rx", "root", "fairy-dust")))
    message, _ = failure(lab, spec, tmp_path)
    assert "tc" in message
    assert "fairy-dust" in message


def test_a_guest_that_hangs_is_killed_at_its_wall_limit(lab: Lab, tmp_path: Path) -> None:
    endless = Command(("busybox", "sh", "-c", "while :; do :; done"))
    spec = spec_of(tmp_path, endless, wall_limit_s=3.0)  # expires: the guest never ends
    message, _ = failure(lab, spec, tmp_path)
    assert "no end within 3 s" in message
    assert not guests_of_this_process()


def test_a_guest_out_of_memory_gives_a_failed_trial(lab: Lab, tmp_path: Path) -> None:
    spec = spec_of(tmp_path, Command(("busybox", "tail", "/dev/zero")))
    message, raw = failure(lab, spec, tmp_path)
    assert "tail" in message or "panic" in message.lower()
    assert (raw / "console.log").stat().st_size > 0


def test_a_killed_guest_gives_a_failed_trial(lab: Lab, tmp_path: Path) -> None:
    spec = spec_of(tmp_path, Command(("busybox", "sh", "-c", "while :; do :; done")))

    def kill() -> None:
        for pid in guests_of_this_process():
            os.kill(pid, signal.SIGKILL)

    killer = threading.Timer(1.0, kill)
    killer.start()
    message, _ = failure(lab, spec, tmp_path)
    killer.join()
    assert "signal 9" in message


def test_a_stopped_trial_leaves_no_process(lab: Lab, tmp_path: Path) -> None:
    spec = spec_of(tmp_path, Command(("busybox", "sh", "-c", "while :; do :; done")))
    raw = tmp_path / "raw"
    raw.mkdir()
    stop = threading.Event()
    threading.Timer(1.0, stop.set).start()
    with pytest.raises(TrialStopped):
        VirtualTestbed(lab, Catalog.load()).run(spec, raw, stop)
    assert not guests_of_this_process()


def test_paths_with_spaces_work(lab: Lab, tmp_path: Path) -> None:
    runs = tmp_path / "my runs, and 'more'"
    matrix = write_matrix(tmp_path, "  aqm: [fifo]", trials=1, duration="2s")
    ended = api.run(matrix, runs=runs)
    assert ended.result.ok == 1


def test_captured_packets_stand_beside_the_results(lab: Lab, tmp_path: Path) -> None:
    matrix = write_matrix(tmp_path, "  aqm: [fifo]", trials=1, duration="1s", rate="10mbit")
    ended = api.run(matrix, runs=tmp_path / "runs", capture=True)
    (trial,) = (ended.path / "cells").glob("*/1-*")
    for network in ("net-mid", "net-rx"):
        packets = gzip.decompress((trial / "raw" / "router" / f"{network}.pcap.gz").read_bytes())
        # pcap's magic number with nanoseconds, then hundreds of packets of at least a header each
        assert packets[:4] == b"\x4d\x3c\xb2\xa1"
        assert len(packets) > 500 * 70
    steps = api.load(ended).programs.filter(node="router")["command"]
    assert sum(command.startswith("tcpdump ") for command in steps) == 2
    flows = api.load(ended).packet_flows
    assert set(flows["flow"]) == {"l4s-0", "classic-0"}
    assert (flows["data_packets"] > 100).all()
    drawn = {name.partition("_")[0]: one for name, one in figures(ended, series="all").items() if one.sources}
    assert set(drawn) == {"sojourn", "sequence"}
    assert {file.parent for one in drawn.values() for file in one.sources} == {trial / "raw" / "router"}


def test_packets_agree_with_what_tcp_and_the_queue_count(lab: Lab, tmp_path: Path) -> None:
    """`capture: headers` on a link that is slow enough for losses: three counts of the same things."""
    text = write_matrix(tmp_path, "  aqm: [dualpi2]", trials=1, duration="5s", rate="1mbit").read_text()
    matrix = tmp_path / "slow.yaml"
    matrix.write_text(f"{text}capture: headers\n", encoding="utf-8")
    tables = api.load(api.run(matrix, runs=tmp_path / "runs"))
    packets, flows = tables.packet_flows, tables.flows
    # what TCP sent again at the very end has not arrived yet
    for ours, tcps in zip(packets["retransmits_packets"], flows["retransmits_packets"], strict=True):
        assert tcps - 1 <= ours <= tcps
    last = tables.queues.filter(pl.col("kind") == "dualpi2").row(-1, named=True)
    lost = tables.scan("packets").filter(pl.col("lost") & (pl.col("t_ms") <= last["t_ms"])).collect().height
    assert last["drops_packets"] > 50
    # some lost ones are in the queue at that moment still; at its end a flow loses packets without payload
    assert lost == pytest.approx(last["drops_packets"], abs=5)
    marked = flows.filter(pl.col("group") == "l4s")["delivered_ce_packets"].item()
    ours = packets.filter(pl.col("group") == "l4s")["ce_packets"].item()
    assert ours == pytest.approx(marked, abs=3)  # the last marks are told after the flow's end


def test_a_bottleneck_that_never_was_one_makes_a_trial_invalid(lab: Lab, tmp_path: Path) -> None:
    """One second on a 400 ms path ends within slow start: nothing queues, so nothing was tried."""
    text = write_matrix(tmp_path, "  aqm: [fifo]", trials=1, duration="1s").read_text(encoding="utf-8")
    matrix = tmp_path / "long.yaml"
    matrix.write_text(text.replace("rtt: 10ms", "rtt: 400ms"), encoding="utf-8")
    trials = api.load(api.run(matrix, runs=tmp_path / "runs")).trials
    assert trials["status"].to_list() == [str(Status.INVALID)]


def guests_of_this_process() -> list[int]:
    """Process ids of the guests that this process started and that still run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "stat").read_text(encoding="utf-8")
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        parent = int(status.rpartition(")")[2].split()[1])
        if parent == os.getpid() and b"LAB_SCRIPT" in command:
            found.append(int(folder.name))
    return found
