# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Boot two Debian hosts and hold them until interrupted; prints their inventory.

usage: python -m tests.lab.debian
"""

import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from l4sbench.testbeds.virtual.lab import Lab
from tests.lab.debian.hosts import TWO, debian_hosts

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        tempfile.TemporaryDirectory(prefix="l4sbench-debian-") as folder,
        debian_hosts(Lab.locate(), TWO, Path(folder) / "hosts") as hosts,
    ):
        sys.stdout.write(f"{hosts.inventory}\n")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            signal.pause()
