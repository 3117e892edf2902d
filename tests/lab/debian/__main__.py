# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Boot two Debian hosts, print their inventory, and keep them until interrupted.

usage: python -m tests.lab.debian [--emulated]
"""

import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.lab.debian.disk import debian_lab
from tests.lab.debian.emulated import machines
from tests.lab.debian.hosts import TWO, debian_hosts

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="l4sbench-debian-") as folder:
        place = Path(folder) / "hosts"
        emulated = "--emulated" in sys.argv
        with machines(TWO, place) if emulated else debian_hosts(debian_lab(), TWO, place) as hosts:
            print(hosts.inventory, flush=True)  # noqa: T201
            with suppress(KeyboardInterrupt):
                signal.pause()
