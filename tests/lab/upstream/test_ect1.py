# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""kernels/lab/patches/upstream: what the patches of the network stack change, in a kernel that has them."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from l4sbench.disk import assets
from l4sbench.testbeds.virtual.lab import BuildOptions, Lab, build, with_modules
from l4sbench.testbeds.virtual.lab import source as sources
from l4sbench.testbeds.virtual.lab.cache import Cache
from l4sbench.testbeds.virtual.lab.command import Commands
from l4sbench.testbeds.virtual.lab.kernel import unpack
from l4sbench.testbeds.virtual.lab.lab import GUEST_MODULES
from tests.lab.caches import copy_lab
from tests.lab.prague.captures import Segment, segments
from tests.lab.prague.experiment import PORT, RX, RX6, Experiment
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.lab, pytest.mark.long]

PATCHES = assets.folder("kernels") / "lab" / "patches" / "upstream"
TARGETS = pytest.mark.parametrize("target", [RX, RX6, f"::ffff:{RX}"], ids=["IPv4", "IPv6", "IPv4-mapped"])


@pytest.fixture(scope="session")
def patched(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A lab, in a cache of its own, whose kernel has the lab's patches and ours for the network stack."""
    folder = tmp_path_factory.mktemp("upstream")
    known = sources.cached(Cache.open(lab.kernel.parents[2]))
    if known is None:
        pytest.skip("the cache has no kernel source")
    tree, cache = folder / "linux", folder / "cache"
    tree.mkdir()
    unpack(Commands.logging_to(folder / "unpack.log", {}), known, tree)
    # parts of the tree that no kernel is built from are not unpacked: patch asks for files, and gets none
    for patch in (path for path in sorted(PATCHES.glob("*.patch")) if "-um-" not in path.name):
        built = ["--include=net/*", "--include=include/*"]
        words = ["git", "apply", "-p1", *built, str(patch)]
        subprocess.run(words, cwd=tree, check=True, timeout=PATIENCE_S)
    copy_lab(lab, cache)
    made = build(BuildOptions(kernel_tree=tree, cache=cache))
    return with_modules(made, {"tcp_ect1": Path(__file__).with_name("ect1")})


def sent(lab: Lab, folder: Path, target: str, name: str, *, rx_ecn: int = 3) -> list[Segment]:
    """Return what a sender sent in a second over a queue that loses 1 %."""
    queue = "netem loss random 1% limit 60000"
    this = Experiment(queue=queue, module=GUEST_MODULES / "tcp_ect1.ko", ecn=rx_ecn)
    this.set("tx", "net/ipv4/tcp_congestion_control", name)
    this.capture("tx")
    this.script.line("daemon", "rx", "-", "-", "iperf3", "-s", "-1", "-p", PORT)
    this.start()
    this.at("tx", 0, "iperf3", "-c", target, "-p", PORT, "-t", 1)
    outcome = this.end(lab, folder)
    return [s for s in segments(outcome.folder / "tx.pcap", PORT) if s.to_server]


@TARGETS
def test_every_packet_is_ect1_without_a_hook(patched: Lab, tmp_path: Path, target: str) -> None:
    seen = Counter((s.kind, s.ecn) for s in sent(patched, tmp_path, target, "ect1"))
    assert {kind for kind, _ in seen} == {"SYN", "data", "retransmission", "ACK", "FIN"}
    assert {ecn for _, ecn in seen} == {"ECT(1)"}, seen


@TARGETS
def test_a_connection_that_clears_the_bit_sends_ect0(patched: Lab, tmp_path: Path, target: str) -> None:
    seen = {(s.kind == "SYN", s.ecn) for s in sent(patched, tmp_path, target, "ect1_off")}
    assert seen == {(True, "ECT(1)"), (False, "ECT(0)")}


@TARGETS
def test_without_accecn_there_is_no_ect1(patched: Lab, tmp_path: Path, target: str) -> None:
    seen = {(s.kind == "SYN", s.ecn) for s in sent(patched, tmp_path, target, "ect1", rx_ecn=1)}
    assert seen == {(True, "ECT(1)"), (False, "ECT(0)")}


def test_the_step_of_dualpi2_spares_packets_that_find_no_queue(patched: Lab, tmp_path: Path) -> None:
    this = Experiment(queue="dualpi2", module=GUEST_MODULES / "tcp_ect1.ko")
    this.script.run("mid", "tc", "qdisc", "show", "dev", "rx", out="tc.out")
    outcome = this.boot(patched, tmp_path)
    assert " step_thresh 1ms min_qlen_step 1p " in (outcome.folder / "tc.out").read_text()
