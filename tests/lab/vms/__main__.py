# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Boot virtual machines and hold them until interrupted; prints their inventory.

usage: python -m tests.lab.vms [FOLDER] [MACHINE=NODE,NODE... ...]
"""

import signal
import sys
import tempfile
from pathlib import Path

from tests.lab.debian.hosts import TWO
from tests.lab.vms.machines import machines

if __name__ == "__main__":
    words = sys.argv[1:]
    folder = (
        Path(words.pop(0))
        if words and "=" not in words[0]
        else Path(tempfile.mkdtemp(prefix="l4sbench-vms-"))
    )
    given = {name: nodes.split(",") for name, _, nodes in (word.partition("=") for word in words)}
    with machines(given or TWO, folder.absolute()) as vms:
        sys.stdout.write(f"{vms.inventory}\n")
        sys.stdout.flush()
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
