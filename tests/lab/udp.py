# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""examples/udp-l4s, for tests that run programs of a user's own."""

import shutil
import subprocess
from pathlib import Path

from tests.patience import PATIENCE_S

EXAMPLE = Path(__file__).parents[2] / "examples" / "udp-l4s"
SEND = "./udp-l4s send --to {address} --port {port} --seconds {seconds} --ecn {ecn} --json {json}"
RECEIVE = "./udp-l4s receive --port {port} --json {json}"
OWN = f'send: exec, codepoint: ect1, exec_sender: "{SEND}", exec_receiver: "{RECEIVE}"'
"""Factors of a flow group in a matrix beside the program."""


def udp_l4s(folder: Path) -> Path:
    """Compile the example into a folder; return the program."""
    for name in ("Makefile", "udp-l4s.c"):
        shutil.copy(EXAMPLE / name, folder / name)
    subprocess.run(["make", "-C", str(folder)], check=True, timeout=PATIENCE_S, capture_output=True)
    return folder / "udp-l4s"
