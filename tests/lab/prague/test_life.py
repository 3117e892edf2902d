# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""TCP Prague: beginning and end, of the module and of connections."""

from pathlib import Path

import pytest

from l4sbench.testbeds.virtual.build import Lab
from tests.lab.prague.experiment import MODULE, MS, Experiment

pytestmark = pytest.mark.lab


def test_unloading(lab: Lab, tmp_path: Path) -> None:
    """Refused while a flow runs; afterwards clean, and the module can be loaded again."""
    this = Experiment()
    this.flow(2)
    this.start()
    attempt = ("busybox", "sh", "-c", "! /usr/sbin/rmmod tcp_prague")
    this.script.line("at", "-", 1000 * MS, "-", "refused.err", *attempt)
    this.script.line("wait", 20_000 * MS)
    this.script.run("-", "busybox", "sleep", 5)
    this.script.run("-", "rmmod", "tcp_prague")
    this.script.line("module", MODULE, "-")
    this.script.run("-", "rmmod", "tcp_prague")
    outcome = this.boot(lab, tmp_path)
    assert "tcp_prague is in use" in (outcome.folder / "refused.err").read_text()
    assert outcome.json("tx.json")["bytes_acked"] > 10_000_000
