# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The bounds that BBR keeps after rare ACKs: bbr_checks.c calls its operations as the core of TCP does."""

import shutil
from pathlib import Path

import pytest

from l4sbench.disk.assets import folder
from l4sbench.testbeds.virtual.lab import Lab, with_modules
from l4sbench.testbeds.virtual.lab.lab import GUEST_MODULES
from tests.lab.guests import Script, boot

pytestmark = [pytest.mark.lab, pytest.mark.long]


@pytest.fixture(scope="module")
def bounds(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[int]]:
    """Return the bounds of version 3, in packets, that each case of bbr_checks.c ends with."""
    work = tmp_path_factory.mktemp("operations")
    source = work / "tcp_bbr3"
    shutil.copytree(folder("kernels") / "tcp_bbr3", source)
    with (source / "bbr_main.c").open("a", encoding="utf-8") as main:
        main.write(Path(__file__).with_name("bbr_checks.c").read_text(encoding="utf-8"))
    script = Script()
    script.line("module", GUEST_MODULES / "tcp_bbr3.ko", "-")
    script.run("-", "cat", "/sys/module/tcp_bbr3/parameters/checks", out="checks")
    script.run("-", "rmmod", "tcp_bbr3")
    outcome = boot(with_modules(lab, {"tcp_bbr3": source}), script, work / "trial")
    assert outcome.end["ok"], outcome.end
    lines = (outcome.folder / "checks").read_text().splitlines()
    return {name: [int(number) for number in numbers] for name, *numbers in map(str.split, lines)}


def test_a_mended_tail_loss_lowers_the_upper_bound_for_good(bounds: dict[str, list[int]]) -> None:
    """One loss in 20 packets is too many; undoing what came after the loss leaves the bound."""
    assert bounds["mended"] == [20, 20]


def test_a_needless_tail_loss_probe_is_no_loss(bounds: dict[str, list[int]]) -> None:
    """Marks may begin a reduction in the ACK that says so."""
    assert bounds["needless"] == [100, 100]


def test_a_timeout_in_a_recovery_that_began_before_bbr_leaves_its_window(
    bounds: dict[str, list[int]],
) -> None:
    assert bounds["timeout"] == [33]
