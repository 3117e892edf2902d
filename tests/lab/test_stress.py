# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Our congestion controls loaded, used, refused and unloaded under traffic, also in a lab for debugging."""

import re
from pathlib import Path

import pytest

from l4sbench.cli import main
from l4sbench.testbeds.virtual.lab import Lab, with_modules
from l4sbench.testbeds.virtual.lab.kernel import DEBUGGING, read_options
from l4sbench.testbeds.virtual.lab.lab import GUEST_MODULES
from tests.lab.guests import Script, boot, compiled
from tests.lab.prague.experiment import PORT, RX, Experiment
from tests.lab.prague.life import connections, serve  # noqa: F401  (a fixture)

pytestmark = pytest.mark.lab

NAMES = {
    "tcp_prague": ("prague",),
    "tcp_bbr2": ("bbr2", "bbr2_l4s"),
    "tcp_bbr3": ("bbr3", "bbr3_ect1"),
    "tcp_ncf": ("ncf",),
}
"""Module -> congestion controls that connections have in turn."""

REPORTS = re.compile(r"BUG:|WARNING:|INFO: possible|Oops|Kernel panic|KASAN|suspicious RCU usage")
KMEMLEAK = "/sys/kernel/debug/kmemleak"


@pytest.fixture(scope="session")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that lives through many connections, for the guest."""
    return compiled(Path(__file__).with_name("rounds.c"), tmp_path_factory.mktemp("rounds"))


def live(lab: Lab, folder: Path, name: str, count: int, programs: list[Path]) -> tuple[int, int]:
    """Go through some rounds; return how many, and how often the module was unloaded between them.

    The kernel must have reported nothing, and must have lost no memory if it looks for that.
    """
    this = Experiment(
        rate="100mbit", queue="bfifo limit 250000", rtt_ms=1, module=GUEST_MODULES / f"{name}.ko", ecn=3
    )
    this.programs += programs
    serve(this)
    leaks = "DEBUG_KMEMLEAK" in read_options(lab.kernel_config)
    argv = ("/trial/rounds", RX, PORT, count, name, GUEST_MODULES / f"{name}.ko", *NAMES[name])
    this.script.run("tx", *argv, out="rounds.out", limit_ms=10_000_000)
    this.script.run("-", "busybox", "killall", "connections")
    this.script.run("-", "busybox", "sleep", 70, limit_ms=80_000)
    this.script.run("-", "rmmod", name)
    if leaks:
        look_for_leaks(this.script, "leaks")
    outcome = this.boot(lab, folder)
    console = (outcome.folder / "console.log").read_text(errors="replace")
    assert not REPORTS.findall(console), console
    if leaks:
        assert not (outcome.folder / "leaks").read_text()
    done, unloaded = map(int, (outcome.folder / "rounds.out").read_text().split())
    return done, unloaded


def look_for_leaks(script: Script, out: str) -> None:
    """Write what kmemleak finds to a file; an object is judged once it is 5 s old."""
    script.run("-", "busybox", "mount", "-t", "debugfs", "none", "/sys/kernel/debug")
    look = f"sleep 10; echo scan >{KMEMLEAK}; sleep 10; echo scan >{KMEMLEAK}; cat {KMEMLEAK}"
    script.run("-", "busybox", "sh", "-c", look, out=out, limit_ms=60_000)


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


@pytest.fixture(scope="module")
def debug(lab: Lab) -> Lab:
    """Return the lab of `lab build --debug`, built if it is not there."""
    assert main(["lab", "build", "--debug"]) == 0
    return Lab.locate(name="debug")


@pytest.mark.long
def test_a_lab_for_debugging_looks_for_errors(debug: Lab, lab: Lab) -> None:
    assert debug.lacks(DEBUGGING) == frozenset()
    assert lab.lacks(DEBUGGING) == DEBUGGING
    assert debug.modules.keys() == lab.modules.keys()


@pytest.mark.long
def test_errors_of_every_kind_are_reported(debug: Lab, tmp_path: Path) -> None:
    """By a module that commits one of each; a kernel that reports nothing of it would prove nothing."""
    faulty = with_modules(debug, {"faulty": Path(__file__).with_name("faulty")})
    script = Script()
    script.line("module", GUEST_MODULES / "faulty.ko", "-")
    look_for_leaks(script, "leaks")
    outcome = boot(faulty, script, tmp_path / "trial")
    assert outcome.end["ok"], outcome.end
    console = (outcome.folder / "console.log").read_text(errors="replace")
    for report in (
        "KASAN: slab-use-after-free in faulty_init",
        "BUG: sleeping function called from invalid context",
        "WARNING: possible circular locking dependency detected",
    ):
        assert report in console
    assert "unreferenced object" in (outcome.folder / "leaks").read_text()


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_rounds_under_a_debugging_kernel(
    debug: Lab,
    tmp_path: Path,
    rounds: Path,
    connections: Path,  # noqa: F811
    name: str,
) -> None:
    assert live(debug, tmp_path, name, 10_000, [rounds, connections])[0] == 10_000
