# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Measure the speed of the virtual testbed beside ns-3, and of planning: `make bench`.

All figures are processor time (user and system) of whole process trees, as wall time depends on what else a
machine does. Per queue, two flows share 100 Mbit/s, and virtual seconds per CPU second are compared:

- guest: the guest alone, its boot included;
- whole: `l4sbench run`, with start-up, sampling, collection and report;
- ns-3: the same two flows (tools/bench_ns3.cc), where the wheel of the extra `bench` is installed;
- packets: data packets that the whole run delivers end to end per CPU second;
- bare: two lean senders and receivers over one veth pair with rate and delay but no router and no queue, the
  limit of what the guest's kernel can do. Without a rate no virtual time would pass.

`--json FILE` writes the figures, `--against FILE` compares the ratios with an earlier file and exits with 1
if one is more than `WORSE` lower: ratios within one call hardly depend on the machine. `--growth` measures
other rates, numbers of flows and round-trip times instead, `--ccs` congestion controls.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import polars as pl

from l4sbench.testbeds.virtual.guest import Boot, run_guest
from l4sbench.testbeds.virtual.lab import GUEST_BIN, Lab

LONG_S = 60
SHORT_S = 1
TRIALS = 20
"""Trials of a run: its start and its report cost as much whatever their number."""
TURNS = 6
"""Trials of each congestion control."""
FLOWS = (2, 10, 50)
GROWTH_TURNS = 3
"""Trials of each number of flows at one rate and round-trip time."""
RATE_MBPS = 100
RTT_MS = 10
WORSE = 0.15
"""Share by which a ratio may be lower than last time; repeated calls differ by up to a tenth."""

_Key = TypeVar("_Key", bound=Hashable)

NS3_QUEUES = {"fifo": "fifo", "fq-codel": "fq-codel", "dualpi2": "pie"}
"""Queue -> that of ns-3, which has no DualPI2: its PIE takes that place."""

MATRIX = """\
matrix: bench
topology: line6
rate: {rate_mbps}mbit
rtt: {rtt_ms}ms
duration: {seconds}s
trials: {trials}
expect.bottleneck: false
flows:
  l4s:     {{cc: {l4s}, count: {count}}}
  classic: {{cc: {classic}, count: {count}}}
aqm: {aqm}
buffer_bdp: {buffer_bdp:.9g}
capture: {capture}
"""

PLANNED = """\
matrix: planned
topology: line6
duration: 30s
trials: 3
flows:
  l4s:     {cc: prague}
  classic: {cc: cubic}
axes:
"""


@dataclass(frozen=True)
class Load:
    """The traffic of one trial; `flows` in total, half of them in each group."""

    aqm: str
    rate_mbps: int = RATE_MBPS
    rtt_ms: int = RTT_MS
    flows: int = 2
    capture: str = "off"
    l4s: str = "dctcp"
    classic: str = "cubic"

    @property
    def buffer_bdp(self) -> float:
        """The buffer; fewer than two packets per flow would keep flows from starting at all."""
        bdp_packets = self.rate_mbps * self.rtt_ms * 1000 / 8 / 1500
        return max(2.0, 2 * self.flows / bdp_packets)


@dataclass(frozen=True)
class Cost:
    """CPU seconds of one `l4sbench run`, those of its guests alone, and data packets delivered end to end."""

    cpu_s: float
    guests_s: float
    packets: int


@dataclass(frozen=True)
class Speed:
    """Virtual seconds per CPU second, and CPU seconds per trial whatever its length; None: not measured.

    `packets` are data packets that a whole run delivers end to end per CPU second.
    """

    queue: str
    guest: float
    whole: float
    packets: float
    fixed_cpu_s: float
    capture: float
    bare: float
    ns3_queue: str | None = None
    ns3: float | None = None

    @property
    def ratios(self) -> dict[str, float]:
        """Figures that hardly depend on the machine."""
        found = {
            "whole/bare": self.whole / self.bare,
            "guest/bare": self.guest / self.bare,
            "capture/whole": self.capture / self.whole,
        }
        return found | ({"whole/ns-3": self.whole / self.ns3} if self.ns3 else {})


def cpu_of(argv: list[str], accepted: frozenset[int] = frozenset({0})) -> float:
    """Run a command; return the CPU seconds of its process tree."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        argv, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=7200
    )
    if done.returncode not in accepted:
        sys.exit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(folder: Path, load: Load, seconds: int, trials: int) -> Cost:
    """Run `trials` trials of `seconds` each in a run directory of their own."""
    place = Path(tempfile.mkdtemp(dir=folder))
    matrix = place / "bench.yaml"
    values = asdict(load) | {"count": load.flows // 2, "seconds": seconds, "trials": trials}
    values["buffer_bdp"] = load.buffer_bdp
    matrix.write_text(MATRIX.format(**values), encoding="utf-8")
    command = [sys.executable, "-m", "l4sbench", "run", str(matrix), "--dir", str(place), "--jobs", "1"]
    # 1: some trial is invalid, which a second of slow start often is; its cost is the same
    cpu_s = cpu_of(command, frozenset({0, 1}))
    trial_files = place.glob("bench/2*/cells/*/*/trial.json")
    spent = [json.loads(path.read_text(encoding="utf-8"))["cpu_s"] for path in trial_files]
    if len(spent) != trials:
        sys.exit(f"{len(spent)} of {trials} trials of {load} ended; the run is in {place}")
    (run,) = place.glob("bench/2*")
    packets = int(pl.read_parquet(run / "tables" / "flows.parquet")["delivered_packets"].sum())
    shutil.rmtree(place)
    return Cost(cpu_s, sum(spent), packets)


def bare_cpu_s(folder: Path, seconds: int) -> float:
    """Return the CPU seconds of a guest whose two flows cross one veth pair."""
    place = Path(tempfile.mkdtemp(dir=folder))
    lines = ["netns\ttx", "netns\trx"]
    links = place / "links"
    links.write_text("link add left netns tx type veth peer name right netns rx\n", encoding="utf-8")
    lines.append("run\t-\t10000\tlinks\t-\tip\t-batch\t-")
    for node, device, number in (("tx", "left", 1), ("rx", "right", 2)):
        lines.append(f"port\t{node}\t{device}\t02:00:0a:00:00:0{number}\t10.0.0.{number}/24")
        lines.append(f"offloads\t{node}\t{device}\ttso\toff\tgso\toff\tgro\toff")
        delay = f"netem delay {RTT_MS / 2:g}ms limit 60000"
        shaped = f"{delay} rate {RATE_MBPS}mbit" if node == "tx" else delay
        argv = f"tc qdisc add dev {device} root {shaped}".replace(" ", "\t")
        lines.append(f"run\t{node}\t10000\t-\t-\t{argv}")
    tool = str(GUEST_BIN / "lab-traffic")
    receive = f"daemon\trx\t-\t-\t{tool}\treceive\t--seconds\t{seconds}\t--port"
    lines += [f"{receive}\t5001", f"{receive}\t5002"]
    lines.append("start\t100")
    for port in (5001, 5002):
        to = f"--to\t10.0.0.2\t--port\t{port}\t--cc\tcubic\t--seconds\t{seconds}"
        lines.append(f"at\ttx\t0\t-\t-\t{tool}\tsend\t{to}")
    lines.append(f"wait\t{(seconds + 5) * 10**9}")
    (place / "script").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    lab = Lab.locate()
    boot = Boot(lab.kernel, lab.rootfs, place, 1)
    cpu_s = run_guest(boot, place / "console.log", 3600.0, threading.Event()).cpu_s
    last = json.loads((place / "status.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    if not last.get("ok"):
        sys.exit(f"the bare path failed: {last.get('reason')}")
    shutil.rmtree(place)
    return cpu_s


def build_ns3(folder: Path) -> Path | None:
    """Compile the simulation against the wheel's libraries; return None if the wheel or g++ is missing."""
    found = importlib.util.find_spec("ns3")
    places = list(found.submodule_search_locations or ()) if found else []
    if not places or not shutil.which("g++"):
        return None
    home = Path(places[0])
    libraries = home / "lib64"
    program = folder / "bench_ns3"
    version = next(libraries.glob("libns3*-core.so")).name.removeprefix("libns3").partition("-")[0]
    parts = ("core", "network", "internet", "point-to-point", "traffic-control", "applications")
    source = Path(__file__).with_name("bench_ns3.cc")
    compiler = ["g++", "-std=c++20", "-O2", f"-I{home / 'include'}", str(source), "-o", str(program)]
    linker = [f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-Wl,--allow-shlib-undefined"]
    cpu_of([*compiler, *linker, *(f"-lns3{version}-{part}" for part in parts)])
    return program


def ns3_cpu_s(program: Path, load: Load, seconds: int) -> float:
    """Return the CPU seconds that ns-3 takes for the same flows."""
    rate = str(load.rate_mbps * 10**6)
    queue = NS3_QUEUES[load.aqm]
    return cpu_of([str(program), queue, str(seconds), rate, str(load.rtt_ms), str(load.flows)])


def planning_cpu_s(folder: Path, rates: range) -> float:
    """Return the CPU seconds that `l4sbench plan` takes for 4,000 cells per rate."""
    axes = {
        "aqm": ["fifo", "codel", "pie", "fq-codel", "dualpi2"],
        "buffer_bdp": [str(n / 4) for n in range(1, 21)],
        "rtt": [f"{n}ms" for n in range(1, 41)],
        "rate": [f"{n}mbit" for n in rates],
    }
    matrix = folder / "planned.yaml"
    lines = "".join(f"  {name}: [{', '.join(values)}]\n" for name, values in axes.items())
    matrix.write_text(PLANNED + lines, encoding="utf-8")
    return cpu_of([sys.executable, "-m", "l4sbench", "plan", str(matrix), "--dir", str(folder / "none")])


def speed(folder: Path, aqm: str, ns3: Path | None, bare: float, long_s: int) -> Speed:
    """Measure one queue: long and short runs, one with captures, and ns-3."""
    load = Load(aqm)
    one = measure(folder, load, SHORT_S, 1)
    short = measure(folder, load, SHORT_S, TRIALS)
    long = measure(folder, load, long_s, TRIALS)
    captured = measure(folder, Load(aqm, capture="headers"), long_s, TRIALS)
    virtual_s = TRIALS * long_s
    return Speed(
        queue=aqm,
        guest=virtual_s / long.guests_s,
        whole=virtual_s / long.cpu_s,
        packets=long.packets / long.cpu_s,
        # includes SHORT_S seconds of traffic, which is little
        fixed_cpu_s=(short.cpu_s - one.cpu_s) / (TRIALS - 1),
        capture=virtual_s / captured.cpu_s,
        bare=bare,
        ns3_queue=NS3_QUEUES[aqm] if ns3 else None,
        ns3=long_s / ns3_cpu_s(ns3, load, long_s) if ns3 else None,
    )


def show_head() -> None:
    """Print the names of the columns."""
    print("virtual seconds per CPU second, two flows (DCTCP and CUBIC) at 100 Mbit/s and 10 ms")
    print(
        "queue      guest  whole   ns-3         bare  whole/ns-3  guest/bare  captured  fixed CPU s per trial"
        "  packets per CPU s",
        flush=True,
    )


def show(one: Speed) -> None:
    """Print the line of a queue."""
    peer = f"{one.ns3:.2f} {one.ns3_queue}" if one.ns3 else "-"
    times = f"{one.whole / one.ns3:.1f}" if one.ns3 else "-"
    print(
        f"{one.queue:<9} {one.guest:>6.1f} {one.whole:>6.1f}   {peer:<12} {one.bare:>4.1f}"
        f"  {times:>10}  {one.guest / one.bare:>10.2f}  {one.capture:>8.1f}  {one.fixed_cpu_s:>21.2f}"
        f"  {one.packets:>17,.0f}",
        flush=True,
    )


def regressions(found: list[Speed], earlier: Path) -> list[str]:
    """Return a message for each ratio that is lower than in an earlier file by more than `WORSE`."""
    past = {entry["queue"]: entry["ratios"] for entry in json.loads(earlier.read_text("utf-8"))["queues"]}
    return [
        f"{one.queue}: {name} is {now:.2f}, {then:.2f} before"
        for one in found
        for name, now in one.ratios.items()
        if (then := past.get(one.queue, {}).get(name)) and now < (1 - WORSE) * then
    ]


def in_turn(folder: Path, loads: Mapping[_Key, Load], seconds: int, turns: int) -> dict[_Key, float]:
    """Return the CPU seconds of the guests of each load, with a trial of each in every turn.

    Other work on the machine then slows all of them alike.
    """
    spent = dict.fromkeys(loads, 0.0)
    for _, key in itertools.product(range(turns), loads):
        spent[key] += measure(folder, loads[key], seconds, 1).guests_s
    return spent


def growth(folder: Path) -> None:
    """Print virtual seconds per CPU second of the guest for rates, numbers of flows and RTTs.

    Trials are as long as those of the studies, so that starts of flows weigh as they do there.
    """
    print("virtual seconds per CPU second of the guest, dualpi2, as many DCTCP as CUBIC flows")
    print("Mbit/s  RTT ms " + "  ".join(f"{f'{flows} flows':>8}" for flows in FLOWS))
    for rate_mbps, rtt_ms in itertools.product((10, 100, 1000), (2, 10, 80)):
        seconds = LONG_S if rate_mbps < 1000 else LONG_S // 6
        loads = {flows: Load("dualpi2", rate_mbps, rtt_ms, flows) for flows in FLOWS}
        spent = in_turn(folder, loads, seconds, GROWTH_TURNS)
        figures = "  ".join(f"{GROWTH_TURNS * seconds / cpu_s:>8.2f}" for cpu_s in spent.values())
        print(f"{rate_mbps:>6}  {rtt_ms:>6} {figures}", flush=True)


def congestion_controls(folder: Path, names: list[str], seconds: int) -> None:
    """Print virtual seconds per CPU second of two flows of each congestion control, beside those of CUBIC."""
    print("virtual seconds per CPU second of the guest, two flows of each at 100 Mbit/s and 10 ms")
    print("queue      congestion control   speed  over cubic's")
    for aqm in ("fifo", "dualpi2"):
        loads = {name: Load(aqm, l4s=name, classic=name) for name in ("cubic", *names)}
        spent = in_turn(folder, loads, seconds, TURNS)
        for name, cpu_s in spent.items():
            own = TURNS * seconds / cpu_s
            print(f"{aqm:<9}  {name:<18} {own:>7.1f}  {spent['cubic'] / cpu_s:>12.2f}", flush=True)


def main() -> None:
    """Print the figures, and compare them with an earlier file."""
    parser = argparse.ArgumentParser(description="measure the speed of the virtual testbed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare with the figures in FILE")
    parser.add_argument("--growth", action="store_true", help="measure rates, flows and RTTs instead")
    parser.add_argument("--ccs", nargs="+", metavar="CC", help="measure these beside cubic instead")
    parser.add_argument("--seconds", type=int, default=LONG_S, help="length of a long trial (default: 60)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="l4sbench-bench-") as name:
        folder = Path(name)
        if args.growth:
            growth(folder)
            return
        if args.ccs:
            congestion_controls(folder, args.ccs, args.seconds)
            return
        plan_s = planning_cpu_s(folder, range(10, 60, 2))
        print(f"plan of 100,000 cells: {plan_s:.1f} CPU s", flush=True)
        ns3 = build_ns3(folder)
        if ns3 is None:
            print("ns-3 or g++ is missing: pip install --no-deps --require-hashes -r requirements/bench.txt")
        bare = args.seconds / bare_cpu_s(folder, args.seconds)
        show_head()
        found = []
        for aqm in NS3_QUEUES:
            found.append(speed(folder, aqm, ns3, bare, args.seconds))
            show(found[-1])
    worse = regressions(found, args.against) if args.against and args.against.is_file() else []
    if args.json:
        plain = {"plan_cpu_s": plan_s, "queues": [asdict(one) | {"ratios": one.ratios} for one in found]}
        args.json.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
    if worse:
        sys.exit("slower than before:\n" + "\n".join(worse))


if __name__ == "__main__":
    main()
