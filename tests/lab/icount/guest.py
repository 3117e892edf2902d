# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""One host's part of a trial on the machine of counted instructions, started by its /init.

It runs there on Python's standard library and the helper (roles/helper), without anything else of l4sbench.
The archive of results leaves by the second serial port: its length, itself, its SHA-256.
"""

import hashlib
import json
import os
import subprocess
import sys
import termios
import tty
from pathlib import Path

STATE = Path("/var/lib/l4sbench")


def main() -> None:
    """Run the part in /part.json and send its results."""
    part = json.loads(Path("/part.json").read_text(encoding="utf-8"))
    folder = STATE / "trials" / part["id"]
    folder.mkdir(parents=True)
    (folder / "part.json").write_text(json.dumps(part), encoding="utf-8")
    with (folder / "log").open("wb") as log:
        argv = [sys.executable, "/helper", "work", part["id"]]
        subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
    results = folder / "results.tar.gz"
    if not results.exists():
        sys.stdout.write((folder / "log").read_text(errors="replace"))
        return
    data = results.read_bytes()
    port = os.open("/dev/ttyS1", os.O_WRONLY | os.O_NOCTTY)
    tty.setraw(port)
    rest = len(data).to_bytes(8, "big") + data + hashlib.sha256(data).digest()
    while rest:
        rest = rest[os.write(port, rest) :]
    termios.tcdrain(port)


if __name__ == "__main__":
    try:
        main()
    finally:
        subprocess.run(["busybox", "poweroff", "-f"], check=False)
