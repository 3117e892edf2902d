# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""An interactive guest with a cell's topology up, on the wall clock, to look around in."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from l4sbench.testbeds.virtual.guest import Boot, attach_guest
from l4sbench.testbeds.virtual.script import guest_script

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from l4sbench.program import Program
    from l4sbench.testbeds.virtual.lab import Lab
    from l4sbench.topology import Topology


def open_shell(
    lab: Lab, programs: Mapping[str, Program], topology: Topology, options: Iterable[str] = ()
) -> int:
    """Boot a guest on this terminal with nodes, links and queues set up and no flow running.

    In the guest every node is a network namespace: `ip netns exec router tc -s qdisc`. `options` are the
    kernel options, without `CONFIG_`, that the programs need. Returns the exit code.

    Raises:
        InputError: the programs cannot share one guest.
        TestbedError: the guest could not be started.
    """
    script = guest_script(programs, topology, lab.provided_by(options), interactive=True)
    with tempfile.TemporaryDirectory(prefix="l4sbench-shell-") as folder:
        trial = Path(folder)
        script.write(trial)
        return attach_guest(Boot(lab.kernel, lab.rootfs, trial, seed=1, virtual_time=False))
