# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""The SDE's client module for control.py on the stand-in of a switch: the interpreter's tables behind a port.

The first read of the switch's clock, which follows the setup, writes the driver's tables to `tables.json`.
"""

import json
import os
import socket
import sys
from pathlib import Path

HOME = Path(__file__).parents[5]
sys.path.insert(0, (HOME / "project").read_text(encoding="utf-8"))

from tests.p4 import bfrt  # noqa: E402
from tests.p4.bfrt import *  # noqa: E402, F403
from tests.p4.plane import program  # noqa: E402
from tests.p4.tna.machine import Switch  # noqa: E402


class Told(bfrt.Info):
    """The tables, which are written to a file once they are set up."""

    written = False

    def table_get(self, name: str) -> bfrt.DriverTable | bfrt.ProgramTable | bfrt.RegisterTable:
        file = HOME / "tables.json"
        if name == "Ingress.clock" and not self.written:
            self.written = True
            tables = {
                table: [[*at, data] for at, data in self.entries(table).items()] for table in self.tables
            }
            partial = file.with_suffix(".partial")
            partial.write_text(json.dumps(tables), encoding="utf-8")
            partial.replace(file)
        return super().table_get(name)


class ClientInterface:
    """A connection to the server, which must listen."""

    def __init__(self, grpc_addr: str, client_id: int, device_id: int) -> None:
        host, _, port = grpc_addr.rpartition(":")
        socket.create_connection((host, int(port)), timeout=60).close()
        if device_id or "SDE_INSTALL" not in os.environ:
            raise ValueError(device_id)

    def bfrt_info_get(self, name: str) -> Told:
        if name != "ncf":
            raise ValueError(name)
        return Told(Switch(program()))

    def bind_pipeline_config(self, name: str) -> None:
        if name != "ncf":
            raise ValueError(name)
