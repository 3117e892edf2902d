# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""BBR's modules loaded, used, refused and unloaded again, under traffic."""

import re
from pathlib import Path

import pytest

from l4sbench.testbeds.virtual.lab import Lab
from l4sbench.testbeds.virtual.lab.lab import GUEST_MODULES
from tests.lab.bbr.experiment import experiment
from tests.lab.guests import compiled
from tests.lab.prague.experiment import PORT, RX
from tests.lab.prague.life import connections, serve  # noqa: F401  (a fixture)

pytestmark = pytest.mark.lab

NAMES = {"tcp_bbr2": ("bbr2", "bbr2_l4s"), "tcp_bbr3": ("bbr3", "bbr3_ect1")}

REPORTS = re.compile(r"BUG:|WARNING:|Oops|Kernel panic")


@pytest.fixture(scope="session")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that lives through many connections, for the guest."""
    return compiled(Path(__file__).with_name("rounds.c"), tmp_path_factory.mktemp("rounds"))


def live(lab: Lab, folder: Path, name: str, count: int, programs: list[Path]) -> tuple[int, int]:
    """Go through some rounds; return how many, and how often the module was unloaded between them."""
    this = experiment(NAMES[name][0], ecn=3, rtt_ms=1)
    this.programs += programs
    serve(this)
    argv = ("/trial/rounds", RX, PORT, count, name, GUEST_MODULES / f"{name}.ko", *NAMES[name])
    this.script.run("tx", *argv, out="rounds.out", limit_ms=10_000_000)
    this.script.run("-", "busybox", "killall", "connections")
    this.script.run("-", "busybox", "sleep", 70, limit_ms=80_000)
    this.script.run("-", "rmmod", name)
    outcome = this.boot(lab, folder)
    console = (outcome.folder / "console.log").read_text(errors="replace")
    assert not REPORTS.findall(console)
    done, unloaded = map(int, (outcome.folder / "rounds.out").read_text().split())
    return done, unloaded


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", [400, pytest.param(10_000, marks=pytest.mark.long)])
def test_rounds(
    lab: Lab,
    tmp_path: Path,
    rounds: Path,
    connections: Path,  # noqa: F811
    name: str,
    count: int,
) -> None:
    done, unloaded = live(lab, tmp_path, name, count, [rounds, connections])
    assert done == count
    assert unloaded > 0
