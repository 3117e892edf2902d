# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""examples/udp-l4s, for tests that run programs of a user's own by their commands."""

import shutil
from pathlib import Path

from l4sbench.catalog.senders import SENDER_FILE, read_sender
from l4sbench.testbeds import senders

EXAMPLE = Path(__file__).parents[2] / "examples" / "udp-l4s"
SEND = (
    "./udp-l4s send --address {address} --port {port} --seconds {seconds} --cc scalable "
    "--codepoint {codepoint} --json {json}"
)
RECEIVE = "./udp-l4s receive --address {address} --port {port} --json {json}"
OWN = f'send: exec, codepoint: ect1, exec_sender: "{SEND}", exec_receiver: "{RECEIVE}"'
"""Factors of a flow group in a matrix beside the program."""


def udp_l4s(folder: Path) -> Path:
    """Put the example's program into a folder; return it."""
    built = senders.build(read_sender(EXAMPLE / SENDER_FILE))
    return Path(shutil.copy(built, folder / "udp-l4s"))
